//! A rally: the ball goes to and fro, through the runtime and over the bare transport.

use super::space::{Ball, PingPong};
use dataflow::core::port::{Block, Cargo, Head, Heap, Memory};
use dataflow::core::rank::Rank;
use dataflow::core::space::Independent;
use dataflow::mpi::Messenger;
use dataflow::mpi::transport::raw::{Raw, Sendable};
use dataflow::{Error, Runtime, RuntimeBuilder};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Seconds one way, of one rally each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flight {
    pub ours: f64,
    pub raw: f64,
}

/// What is played.
#[derive(Clone, Debug)]
pub struct Game {
    /// Bytes of the ball.
    pub sizes: Vec<usize>,
    /// Rallies of each size.
    pub rallies: usize,
    /// Whether receivers spin.
    pub spin: bool,
}

/// How often the ball goes there and back in a rally: long enough to be timed.
pub fn rounds(bytes: usize) -> u32 {
    ((16 << 20) / bytes).clamp(10, 500) as u32
}

/// How long a spinning receiver looks before it sleeps all the same.
const SPIN: Duration = Duration::from_millis(1);

/// Two ranks of one worker each.
pub fn table(ranks: RuntimeBuilder, spin: bool) -> RuntimeBuilder {
    let ranks = ranks.ranks(2).threads(1);
    match spin {
        true => ranks.spin(SPIN),
        false => ranks,
    }
}

impl Game {
    /// Plays all rallies, through the runtime and raw in turn; returns them by size.
    ///
    /// # Errors
    /// What running answers; if the runtime is alone.
    pub fn play(&self, runtime: &Runtime) -> Result<Vec<Vec<Flight>>, Error> {
        let alone = || Error::wrong_settings("ping_pong is played by 2 ranks, and this is alone");
        let player = Player {
            runtime,
            messenger: runtime.messenger().ok_or_else(alone)?,
            spin: self.spin,
        };
        player.play(&self.sizes, self.rallies)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One rank.
struct Player<'r> {
    runtime: &'r Runtime,
    messenger: &'r Messenger,
    spin: bool,
}

impl Player<'_> {
    fn play(&self, sizes: &[usize], rallies: usize) -> Result<Vec<Vec<Flight>>, Error> {
        let mut flights = vec![Vec::new(); sizes.len()];
        // The first rally of each size warms up.
        for rally in 0..=rallies {
            for (&bytes, flights) in sizes.iter().zip(&mut flights) {
                let flight = Flight {
                    ours: self.ours(bytes)?,
                    raw: self.raw(bytes)?,
                };
                if rally > 0 {
                    flights.push(flight);
                }
            }
        }
        Ok(flights)
    }

    /// Through the runtime.
    fn ours(&self, bytes: usize) -> Result<f64, Error> {
        let begins = self.runtime.rank() == Rank(0);
        let memory = self.runtime.memory();
        let ball = begins.then(|| Ball(memory.allocate(bytes)));
        let count = |ball: &Ball| ball.0.bytes()[0];
        let before = ball.as_ref().map(count);
        let rounds = rounds(bytes);
        let space = PingPong::new(rounds, ball);
        self.runtime.run_across(&space)?;
        let seconds = space.seconds().unwrap_or_default();
        let strokes = (2 * rounds + 1) as u8;
        let expected = before.map(|before| before.wrapping_add(strokes));
        if space.ball().as_ref().map(count) != expected {
            return Err(Error::malformed("another ball came home than left"));
        }
        Ok(seconds)
    }

    /// Over the bare transport, on the same worker.
    fn raw(&self, bytes: usize) -> Result<f64, Error> {
        let seconds = Mutex::new(Ok(0.0));
        let rally = Independent::new("raw", 1, |_| {
            let rally = |bare: &mut Raw<'_>| self.raw_rally(bare, bytes);
            *lock(&seconds) = self.messenger.bare(self.spin, rally).flatten();
            Ok(())
        });
        self.runtime.run(&rally)?;
        let seconds = seconds.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(seconds? / f64::from(2 * rounds(bytes)))
    }

    /// What came is sent back from where it lies; the next comes into the block that was sent
    /// before. So bytes move as they do through the runtime.
    fn raw_rally(&self, bare: &mut Raw<'_>, bytes: usize) -> Result<f64, Error> {
        let rank = self.runtime.rank();
        let (other, begins) = (Rank(1 - rank.0), rank == Rank(0));
        let memory = self.runtime.memory();
        let [mut ball, mut room] = [(); 2].map(|()| memory.allocate(bytes));
        if !begins {
            ball = bare.receive(other, ball)?;
        }
        let mut start = Instant::now();
        for round in 0..rounds(bytes) + u32::from(begins) {
            if round == 1 {
                start = Instant::now();
            }
            let held = Held::strike(ball);
            bare.send(other, &Sendable::of(held.clone()));
            ball = bare.receive(other, room)?;
            // The other has it: nobody else holds it any more.
            let sent = Arc::into_inner(held).map(|held| held.0);
            room = sent.unwrap_or_else(|| memory.allocate(bytes));
        }
        let seconds = start.elapsed().as_secs_f64();
        // Whoever sends last goes on moving messages until the other has it.
        if begins {
            bare.send(other, &Sendable::new(vec![0]));
        } else {
            bare.send(other, &Sendable::of(Held::strike(ball)));
            bare.receive(other, Heap.allocate(1))?;
        }
        Ok(seconds)
    }
}

/// A block on its way out.
struct Held(Box<dyn Block>);

impl Held {
    /// With the stroke counted, as in the task's body.
    fn strike(mut ball: Box<dyn Block>) -> Arc<Self> {
        let count = &mut ball.bytes_mut()[0];
        *count = count.wrapping_add(1);
        Arc::new(Held(ball))
    }
}

impl Cargo for Held {
    fn head(&self) -> Head {
        Head::new()
    }
    fn size(&self) -> usize {
        self.0.bytes().len()
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.0.bytes())
    }
}
