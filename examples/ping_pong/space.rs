//! Ping and pong as tasks of two ranks.
//!
//! # Source
//! Bosilca, Bouteiller, Danalis, Herault, Lemarinier, Dongarra, *DAGuE*, Parallel Computing 38
//! (2012), Figure 4.

use dataflow::core::port::{Block, Head, Heap, Memory, Wire};
use dataflow::prelude::*;
use dataflow::task_names;
use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

task_names! {
    /// `Ping` runs on rank 0, `Pong` on rank 1.
    pub enum Task { Ping { k }, Pong { k } }
}
use Task::{Ping, Pong};

/// What flies to and fro.
pub struct Ball(pub Box<dyn Block>);

impl Clone for Ball {
    fn clone(&self) -> Self {
        let mut copy = Heap.allocate(self.0.bytes().len());
        copy.bytes_mut().copy_from_slice(self.0.bytes());
        Ball(copy)
    }
}

impl Datum for Ball {
    fn bytes(&self) -> usize {
        self.0.bytes().len()
    }
}

impl Wire for Ball {
    fn head(&self) -> Head {
        Head::new()
    }
    fn size(&self) -> usize {
        self.0.bytes().len()
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.0.bytes())
    }
    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        Ok(Ball(body))
    }
}

/// The ball goes to rank 1 and back so many times; the first does not count.
pub struct PingPong {
    rounds: u32,
    /// In each of so many rounds each side holds the ball once for so long.
    hold: Option<(u32, Duration)>,
    home: Store<Ball>,
    first: OnceLock<Instant>,
    last: OnceLock<Instant>,
}

const BALL: usize = 0;

impl PingPong {
    /// `ball` is that of the rank which begins.
    pub fn new(rounds: u32, ball: Option<Ball>) -> Self {
        PingPong {
            rounds,
            hold: None,
            home: Store::new("ball", ball),
            first: OnceLock::new(),
            last: OnceLock::new(),
        }
    }

    /// Once in so many rounds each side holds the ball for so long, and is busy with it.
    pub fn hold(self, once_in: u32, hold: Duration) -> Self {
        let hold = Some((once_in, hold));
        PingPong { hold, ..self }
    }

    /// How long a stroke holds the ball.
    fn holds(&self, task: Task) -> Duration {
        let Some((once_in, hold)) = self.hold else {
            return Duration::ZERO;
        };
        let is_turn = match task {
            Ping { k } => k % once_in == once_in / 2,
            Pong { k } => k % once_in == 0,
        };
        if is_turn { hold } else { Duration::ZERO }
    }

    /// Seconds one way, on the rank that began.
    pub fn seconds(&self) -> Option<f64> {
        let passed = *self.last.get()? - *self.first.get()?;
        Some(passed.as_secs_f64() / f64::from(2 * (self.rounds - 1)))
    }

    /// The ball, after the run.
    pub fn ball(self) -> Option<Ball> {
        self.home.into_data()?.pop()
    }
}

impl TaskSpace for PingPong {
    type Task = Task;
    type Datum = Ball;

    fn describe(&self, about: &mut Description) {
        about.name("ping_pong").parameter("rounds", self.rounds);
        about.class("Ping").update("BALL");
        about.class("Pong").update("BALL");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let pings = (0..=self.rounds).map(|k| Ping { k });
        let pongs = (0..self.rounds).map(|k| Pong { k });
        pings
            .chain(pongs)
            .filter(move |&task| self.rank(task) == on)
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        match task {
            Ping { k: 0 } => from.home(BALL, &self.home, 0),
            Ping { k } => from.task(BALL, Pong { k: k - 1 }, BALL),
            Pong { k } => from.task(BALL, Ping { k }, BALL),
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        match task {
            Ping { k } if k == self.rounds => to.home(BALL, &self.home, 0),
            Ping { k } => to.task(BALL, Pong { k }, BALL),
            Pong { k } => to.task(BALL, Ping { k: k + 1 }, BALL),
        }
    }

    /// Every stroke counts on the ball's first byte.
    fn run(&self, task: Task, flows: &mut Flows<'_, Ball>) -> Result<(), TaskError> {
        let taken = Instant::now();
        let [ball] = flows.slots();
        let count = &mut ball.update().0.bytes_mut()[0];
        *count = count.wrapping_add(1);
        match task {
            Ping { k: 1 } => self.first.set(Instant::now()).ok(),
            Ping { k } if k == self.rounds => self.last.set(Instant::now()).ok(),
            _ => None,
        };
        let holds = self.holds(task);
        while !holds.is_zero() && taken.elapsed() < holds {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn rank(&self, task: Task) -> Rank {
        match task {
            Ping { .. } => Rank(0),
            Pong { .. } => Rank(1),
        }
    }

    fn roots(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        (on == Rank(0)).then_some(Ping { k: 0 }).into_iter()
    }

    fn count(&self, on: Rank) -> u64 {
        u64::from(self.rounds) + u64::from(on == Rank(0))
    }
}
