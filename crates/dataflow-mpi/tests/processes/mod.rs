//! Ranks as processes: a test starts itself again, once for each rank.
//!
//! A test that calls [`as_rank`] first gets a rank's seat in the processes that [`Job`] starts.

#![allow(dead_code)] // each test uses its part

use dataflow_core::rank::Rank;
use dataflow_mpi::transport::tcp::{Mesh, Tcp, Token};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const SEAT: &str = "DATAFLOW_TEST_SEAT";
const TOKEN: &str = "DATAFLOW_TEST_TOKEN";

/// How long a word of a process is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A rank's seat.
pub struct Seat {
    pub mesh: Mesh,
    /// Where rank 0 listens; its port is 0 there and told to the others by the test.
    root: SocketAddr,
    listen: String,
}

/// The seat of this process, if it was started as a rank.
pub fn as_rank() -> Option<Seat> {
    let seat = std::env::var(SEAT).ok()?;
    let words: Vec<&str> = seat.split(' ').collect();
    let [rank, n_ranks, root, listen] = words[..] else {
        panic!("{seat}")
    };
    let token: Token = std::env::var(TOKEN).unwrap().parse().unwrap();
    let mut mesh = Mesh::new(Rank(rank.parse().unwrap()), n_ranks.parse().unwrap(), token);
    if let Some(patience) = number("patience") {
        mesh.patience = Duration::from_secs(patience);
    }
    if let Some(silence) = number("silence") {
        mesh.silence = Duration::from_secs(silence);
    }
    Some(Seat {
        mesh,
        root: root.parse().unwrap(),
        listen: listen.to_string(),
    })
}

/// A number that the test gave its ranks.
pub fn number(name: &str) -> Option<u64> {
    let value = std::env::var(format!("DATAFLOW_TEST_{name}")).ok()?;
    Some(value.parse().unwrap())
}

/// Says a word to the test; rank 0 of a mesh says where it listens by itself.
pub fn say(word: &str) {
    println!("\n> {word}");
}

impl Seat {
    /// Becomes the rank, or ends the process with the reason.
    pub fn connect(&self) -> Tcp {
        let connected = if self.mesh.rank == Rank(0) {
            let listener = TcpListener::bind(self.root).unwrap();
            say(&format!("port {}", listener.local_addr().unwrap().port()));
            self.mesh.lead(listener, &mut || None)
        } else {
            let listener = TcpListener::bind((self.listen.as_str(), 0)).unwrap();
            self.mesh.join(&[self.root], listener)
        };
        connected.unwrap_or_else(|error| fail(&error.to_string()))
    }
}

/// Ends this process in failure.
pub fn fail(reason: &str) -> ! {
    eprintln!("error: {reason}");
    std::process::exit(1)
}

/// What a test starts.
pub struct Job {
    test: String,
    pub n_ranks: usize,
    pub token: Token,
    root: SocketAddr,
    numbers: Vec<(&'static str, u64)>,
    pub processes: Vec<Process>,
}

/// One rank.
pub struct Process {
    pub rank: u32,
    child: Child,
    words: Receiver<String>,
}

/// How a process ended.
pub struct Ended {
    pub rank: u32,
    pub status: ExitStatus,
    pub stderr: String,
}

impl Job {
    /// Nothing is started yet.
    pub fn new(test: &str, n_ranks: usize, numbers: &[(&'static str, u64)]) -> Self {
        Job {
            test: test.into(),
            n_ranks,
            token: Token::random().unwrap(),
            root: "127.0.0.1:0".parse().unwrap(),
            numbers: numbers.into(),
            processes: Vec::new(),
        }
    }

    /// All ranks, rank 0 first.
    pub fn start(test: &str, n_ranks: usize, numbers: &[(&'static str, u64)]) -> Self {
        let mut job = Job::new(test, n_ranks, numbers);
        (0..n_ranks as u32).for_each(|rank| job.start_rank(rank));
        job
    }

    /// One rank; rank 0 must be the first.
    pub fn start_rank(&mut self, rank: u32) {
        self.start_in(rank, &[], "127.0.0.1");
    }

    /// One rank, by way of another program, listening there.
    pub fn start_in(&mut self, rank: u32, by: &[&str], listen: &str) {
        if rank == 0 {
            self.root.set_ip(listen.parse().unwrap());
        }
        let own = std::env::current_exe().unwrap();
        let own = own.to_str().unwrap();
        let words = [
            own,
            &self.test,
            "--exact",
            "--nocapture",
            "--include-ignored",
        ];
        let line: Vec<&str> = by.iter().copied().chain(words).collect();
        let mut command = Command::new(line[0]);
        let seat = format!("{rank} {} {} {listen}", self.n_ranks, self.root);
        command
            .args(&line[1..])
            .env(SEAT, seat)
            .env(TOKEN, self.token.to_string());
        for (name, value) in &self.numbers {
            command.env(format!("DATAFLOW_TEST_{name}"), value.to_string());
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, words) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some(word) = line.strip_prefix("> ") {
                    sender.send(word.to_string()).ok(); // the test may have ended
                }
            }
        });
        let process = Process { rank, child, words };
        if rank == 0 {
            let word = process.word("port ");
            self.root.set_port(word["port ".len()..].parse().unwrap());
        }
        self.processes.push(process);
    }

    /// Where rank 0 listens.
    pub fn root(&self) -> SocketAddr {
        self.root
    }

    /// Ranks that start from now on look for rank 0 there: at a relay, say.
    pub fn reach(&mut self, root: SocketAddr) {
        self.root = root;
    }

    /// Waits until every rank has said a word.
    pub fn all_say(&self, word: &str) {
        for process in &self.processes {
            process.word(word);
        }
    }

    /// The process of a rank, taken out.
    pub fn take(&mut self, rank: u32) -> Process {
        let at = self
            .processes
            .iter()
            .position(|process| process.rank == rank);
        self.processes.remove(at.unwrap())
    }

    /// Waits for the end of all, so long at most.
    pub fn end(&mut self, at_most: Duration) -> Vec<Ended> {
        let deadline = Instant::now() + at_most;
        let processes = std::mem::take(&mut self.processes);
        processes
            .into_iter()
            .map(|process| process.end_by(deadline))
            .collect()
    }

    /// All end well.
    pub fn end_well(&mut self) {
        for ended in self.end(PATIENCE) {
            assert!(
                ended.status.success(),
                "rank {}: {}",
                ended.rank,
                ended.stderr
            );
        }
    }

    /// All end in failure within ten seconds, with one line that names a rank.
    pub fn end_naming(&mut self, lost: u32) {
        for ended in self.end(Duration::from_secs(10)) {
            let name = format!("rank {lost} ");
            let errors: Vec<&str> = ended
                .stderr
                .lines()
                .filter(|line| line.starts_with("error:"))
                .collect();
            let told = format!("rank {}: {:?}\n{}", ended.rank, ended.status, ended.stderr);
            assert!(ended.status.code() == Some(1), "{told}");
            assert!(
                errors.len() == 1 && errors[0].contains(&name),
                "rank {lost} is not named by {told}"
            );
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.child.kill().ok(); // it may have ended
            process.child.wait().ok();
        }
    }
}

impl Process {
    /// Waits for a word that begins like this.
    pub fn word(&self, begins: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.words.recv_timeout(left) {
                Ok(word) if word.starts_with(begins) => return word,
                Ok(_) => {}
                Err(_) => panic!("rank {} does not say `{begins}`", self.rank),
            }
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(id, signal).unwrap();
    }

    /// The processor time of all its threads so far.
    pub fn processor_millis(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, behind_name) = stat.rsplit_once(')').unwrap();
        let ticks = behind_name.split_whitespace().skip(11).take(2);
        ticks.map(|ticks| 10 * ticks.parse::<u64>().unwrap()).sum()
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, so long at most.
    pub fn end(self, at_most: Duration) -> Ended {
        self.end_by(Instant::now() + at_most)
    }

    fn end_by(mut self, deadline: Instant) -> Ended {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                self.child.kill().ok();
                self.child.wait().ok();
                let (rank, stderr) = (self.rank, self.stderr());
                panic!("rank {rank} does not end: {stderr}");
            }
            thread::sleep(Duration::from_millis(5));
        };
        Ended {
            rank: self.rank,
            status,
            stderr: self.stderr(),
        }
    }

    fn stderr(&mut self) -> String {
        let mut stderr = String::new();
        let mut pipe = self.child.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        stderr
    }
}
