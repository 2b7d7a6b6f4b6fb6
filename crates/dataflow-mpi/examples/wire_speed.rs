//! What a transport costs: its messages against those of the sockets, or the MPI, below it.
//!
//! By itself it starts a second process and uses sockets; under `mpirun -n 2` (feature `mpi`) MPI.
//! Each line is one message size: microseconds one way, the median of many there and back; below and
//! through the transport in turns, so that what else the machine does falls on both.

use dataflow_core::Error;
use dataflow_core::port::{Heap, Memory};
use dataflow_core::rank::Rank;
use dataflow_mpi::start::Seat;
use dataflow_mpi::transport::Transport;
use dataflow_mpi::transport::raw::{Raw, Sendable};
use dataflow_mpi::{Machine, Settings};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const SIZES: [usize; 7] = [8, 512, 4096, 16 << 10, 64 << 10, 1 << 20, 4 << 20];

/// Something there and back, rank 0 sends first; shows what came.
type PingPong<'a> = Box<dyn FnMut(&[u8], &mut dyn FnMut(&[u8])) + 'a>;

const HELP: &str = "\
Measures what a transport costs beside the sockets, or the MPI, below it: microseconds one way, for \
each size of a message.

Usage: wire_speed            over sockets, with a second process that it starts
       mpirun -n 2 wire_speed    over MPI (built with --features mpi)
";

fn main() -> Result<(), Error> {
    match std::env::args().nth(1).as_deref() {
        None => {}
        Some("--help" | "-h") => {
            print!("{HELP}");
            return Ok(());
        }
        Some(other) => {
            eprintln!("wire_speed: {other}: it takes no arguments (--help says what it measures)");
            std::process::exit(2);
        }
    }
    #[cfg(feature = "mpi")]
    if dataflow_mpi::start::Launched::of(variable)?.is_some() {
        return over_mpi();
    }
    over_sockets()
}

/// One that is not Unicode has its wrong places marked, and so is refused by name.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Runs all kinds in turns, and prints on rank 0.
fn compare(rank: Rank, kinds: &mut [(&str, PingPong)]) {
    if rank == Rank(0) {
        let names: Vec<String> = kinds
            .iter()
            .map(|(name, _)| format!("{name:>14}"))
            .collect();
        println!("{:>9} {}", "bytes", names.join(" "));
    }
    for size in SIZES {
        let sent: Vec<u8> = (0..size).map(|i| i as u8).collect();
        let mut times = vec![Vec::new(); kinds.len()];
        for _ in 0..(20_000_000 / (size + 10_000)).clamp(20, 300) {
            for ((_, ping_pong), times) in kinds.iter_mut().zip(&mut times) {
                ping_pong(&sent, &mut |received| assert!(received == sent));
                let begun = Instant::now();
                for _ in 0..4 {
                    ping_pong(&sent, &mut |_| {});
                }
                times.push(begun.elapsed().as_secs_f64() / 8.0);
            }
        }
        if rank == Rank(0) {
            let median = |times: &mut Vec<f64>| {
                times.sort_by(f64::total_cmp);
                format!("{:>14.2}", times[times.len() / 2] * 1e6)
            };
            let medians: Vec<String> = times.iter_mut().map(median).collect();
            println!("{size:>9} {}", medians.join(" "));
        }
    }
}

/// Through a transport.
fn through(transport: Box<dyn Transport>, spins: bool) -> PingPong<'static> {
    let rank = transport.rank();
    let other = Rank(1 - rank.0);
    let mut raw = Raw::new(transport, &*Machine::new(), spins);
    let mut kept: Option<(Sendable, Box<dyn dataflow_core::port::Block>)> = None;
    Box::new(move |sent, show| {
        let fits = kept
            .take()
            .filter(|(_, block)| block.bytes().len() == sent.len());
        let (sendable, mut block) =
            fits.unwrap_or_else(|| (Sendable::new(sent.to_vec()), Heap.allocate(sent.len())));
        if rank == Rank(0) {
            raw.send(other, &sendable);
            block = received(raw.receive(other, block));
        } else {
            block = received(raw.receive(other, block));
            raw.send(other, &sendable);
        }
        show(block.bytes());
        kept = Some((sendable, block));
    })
}

fn received<T>(block: Result<T, Error>) -> T {
    block.unwrap_or_else(|fault| panic!("{fault}"))
}

fn over_sockets() -> Result<(), Error> {
    let settings = Settings {
        patience: Duration::from_secs(60),
        ..Settings::default()
    };
    let (transports, _others) = match Seat::of(variable)? {
        Some(seat) => (seat.take(&settings)?, None),
        None => {
            let (tcp, others) = dataflow_mpi::start::start(2, &settings)?;
            (tcp, Some(others))
        }
    };
    let rank = transports.rank();
    let mut first = Raw::new(Box::new(transports), &*Machine::new(), false);
    let asleep = beside(&mut first, rank);
    let spinning = beside(&mut first, rank);
    spinning
        .set_nonblocking(true)
        .unwrap_or_else(|fault| panic!("{fault}"));
    let [tcp_asleep, tcp_spinning] = [(); 2].map(|()| {
        let token = "5a"
            .repeat(32)
            .parse()
            .unwrap_or_else(|fault| panic!("{fault}"));
        let mesh = dataflow_mpi::transport::tcp::Mesh::new(rank, 2, token);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap_or_else(|fault| panic!("{fault}"));
        if rank == Rank(0) {
            tell(&mut first, &listener);
            mesh.lead(listener, &mut || None)
        } else {
            mesh.join(&[([127, 0, 0, 1], told(&mut first)).into()], listener)
        }
    });
    compare(
        rank,
        &mut [
            ("socket", below(asleep, rank)),
            ("tcp", through(Box::new(tcp_asleep?), false)),
            ("socket, spins", below(spinning, rank)),
            ("tcp, spins", through(Box::new(tcp_spinning?), true)),
        ],
    );
    Ok(())
}

fn tell(first: &mut Raw, listener: &TcpListener) {
    let port = listener.local_addr().map_or(0, |address| address.port());
    first.send(Rank(1), &Sendable::new(port.to_le_bytes().to_vec()));
}

fn told(first: &mut Raw) -> u16 {
    let block = received(first.receive(Rank(0), Heap.allocate(2)));
    u16::from_le_bytes([block.bytes()[0], block.bytes()[1]])
}

/// A plain socket beside the transport.
fn beside(first: &mut Raw, rank: Rank) -> TcpStream {
    let connected = || {
        if rank == Rank(0) {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            tell(first, &listener);
            Ok(listener.accept()?.0)
        } else {
            TcpStream::connect(("127.0.0.1", told(first)))
        }
    };
    let connected: std::io::Result<TcpStream> = { connected }();
    let stream = connected.unwrap_or_else(|fault| panic!("{fault}"));
    stream
        .set_nodelay(true)
        .unwrap_or_else(|fault| panic!("{fault}"));
    stream
}

fn below(mut stream: TcpStream, rank: Rank) -> PingPong<'static> {
    fn all(mut step: impl FnMut(usize) -> std::io::Result<usize>, length: usize) {
        let mut done = 0;
        while done < length {
            match step(done) {
                Ok(n) => done += n,
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(fault) => panic!("{fault}"),
            }
        }
    }
    let mut received = Vec::new();
    Box::new(move |sent, show| {
        let length = sent.len();
        received.resize(length, 0);
        if rank == Rank(0) {
            all(|done| stream.write(&sent[done..]), length);
            all(|done| stream.read(&mut received[done..]), length);
        } else {
            all(|done| stream.read(&mut received[done..]), length);
            all(|done| stream.write(&sent[done..]), length);
        }
        show(&received);
    })
}

#[cfg(feature = "mpi")]
fn over_mpi() -> Result<(), Error> {
    use dataflow_mpi::transport::mpi::{MpiWorld, Sizes};
    use mpi::topology::SimpleCommunicator;
    use mpi::traits::{Communicator, Destination, Source};
    let world = MpiWorld::begin()?;
    let transport = world.transport(Sizes::default())?;
    let rank = transport.rank();
    {
        let plain = SimpleCommunicator::world();
        let other = plain.process_at_rank(1 - rank.0 as i32);
        let mut received = Vec::new();
        let below: PingPong = Box::new(move |sent, show| {
            received.resize(sent.len(), 0);
            if rank == Rank(0) {
                other.send(sent);
                other.receive_into(&mut received[..]);
            } else {
                other.receive_into(&mut received[..]);
                other.send(sent);
            }
            show(&received);
        });
        compare(
            rank,
            &mut [("MPI", below), ("mpi", through(Box::new(transport), true))],
        );
    }
    world.end(Duration::from_secs(10))
}
