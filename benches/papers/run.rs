//! Run: a tile Cholesky factorisation on a machine that is not there, in virtual time.
//!
//! The real engine and protocol; data are lengths ([`Phantom`]), bodies let pass what the machine says.

use super::machine::Machine;
use super::world::{Outcome, on_ranks};
use dataflow::core::phantom::Phantom;
use dataflow::core::port::{Context, Courier, Heap, Lengths, Memory};
use dataflow::core::run_across;
use dataflow::linalg::cholesky::{Factor, Task};
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Distribution, Grid, Layout, TiledMatrix};
use dataflow::linalg::scalar::Scalar;
use dataflow::linalg::weight::Weight;
use dataflow::mpi::transport::simulated::{VirtualWorkers, World, spend};
use dataflow::mpi::{Counters, Drive, Messenger, Settings};
use dataflow::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is factored, and by whom.
#[derive(Clone)]
pub struct Question {
    pub machine: Machine,
    pub n: usize,
    pub nb: usize,
    /// Ranks in rows and columns.
    pub grid: (u32, u32),
    pub ranks_a_host: usize,
    /// Of a rank.
    pub workers: usize,
    pub lookahead: Option<u32>,
    /// As programs of ranks without tasks do it: who sends waits until the receiver has it.
    pub is_blocking: bool,
    /// In f32 instead of f64.
    pub is_single: bool,
}

/// How it would go.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Virtual seconds until the last rank has left its run.
    pub seconds: f64,
    pub tasks: u64,
    pub flops: f64,
    /// Sums over all ranks.
    pub counters: Counters,
    /// The most messages that one rank sent.
    pub most_messages: u64,
    pub cost: Cost,
}

/// What a simulation cost here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub seconds: f64,
    /// Memory of the process at the end of the runs, beyond what it had before.
    pub bytes: u64,
}

impl Answer {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.flops / self.seconds
    }

    /// Tasks that ended, and packets and data that arrived.
    pub fn events(&self) -> u64 {
        self.tasks + self.counters.packets + self.counters.gets
    }
}

impl Question {
    /// On so many hosts of a machine, a rank each with all its cores.
    pub fn hybrid(machine: &Machine, n: usize, nb: usize, hosts: u32) -> Outcome<Question> {
        let grid = Grid::squarest(hosts).ok_or("there is no grid without hosts")?;
        Ok(Question {
            n,
            nb,
            grid: (grid.p() as u32, grid.q() as u32),
            ranks_a_host: 1,
            workers: machine.cores,
            lookahead: None,
            is_blocking: false,
            is_single: false,
            machine: machine.clone(),
        })
    }

    /// On the same cores a rank for each, which takes panel after panel and waits for what it sends:
    /// as a program over MPI that knows no tasks.
    pub fn flat(self) -> Outcome<Question> {
        let ranks = self.grid.0 * self.grid.1 * self.workers as u32;
        let grid = Grid::squarest(ranks).ok_or("there is no grid without ranks")?;
        Ok(Question {
            grid: (grid.p() as u32, grid.q() as u32),
            ranks_a_host: self.workers,
            workers: 1,
            lookahead: Some(0),
            is_blocking: true,
            ..self
        })
    }

    pub fn cores(&self) -> usize {
        (self.grid.0 * self.grid.1) as usize * self.workers
    }

    /// The share of its cores' GEMM peak.
    pub fn share(&self) -> Outcome<f64> {
        Ok(self.simulate()?.rate() / self.machine.peak(self.cores()))
    }

    pub fn simulate(&self) -> Outcome<Answer> {
        match self.is_single {
            true => self.simulate_in::<f32>(),
            false => self.simulate_in::<f64>(),
        }
    }

    fn simulate_in<T: Scalar>(&self) -> Outcome<Answer> {
        let (p, q) = self.grid;
        let grid = Distribution::BlockCyclic(Grid::new(p, q)?);
        let layout = Layout::lower(self.n, self.nb)?.distributed(grid, Rank(0))?;
        let matrix = TiledMatrix::<T>::vacant(layout, Arc::new(Heap));
        let n_ranks = (p * q) as usize;
        let weather = self.machine.weather(n_ranks, self.ranks_a_host);
        let lengths = |_| -> Arc<dyn Memory> { Arc::new(Lengths) };
        let (question, settings) = (self.clone(), self.settings());
        let (start, before) = (Instant::now(), resident());
        let ran = on_ranks(
            weather,
            p * q,
            &settings,
            lengths,
            move |world, messenger| question.run(&matrix, world, messenger),
        )?;
        let ends = ran.into_iter().collect::<Outcome<Vec<End>>>()?;
        let nt = self.n.div_ceil(self.nb) as u64;
        Ok(Answer {
            seconds: ends
                .iter()
                .map(|end| end.at)
                .max()
                .unwrap_or_default()
                .as_secs_f64(),
            tasks: nt * (nt + 1) * (nt + 2) / 6,
            flops: flops::potrf::<f64>(self.n) as f64,
            most_messages: ends.iter().map(|end| end.messages).max().unwrap_or(0),
            counters: ends.first().map(|end| end.totals).unwrap_or_default(),
            cost: Cost {
                seconds: start.elapsed().as_secs_f64(),
                bytes: ends
                    .iter()
                    .map(|end| end.resident)
                    .max()
                    .unwrap_or(0)
                    .saturating_sub(before),
            },
        })
    }

    /// Nobody dies here: signs of life, and waves that look for stalls, would cost more than the run.
    fn settings(&self) -> Settings {
        Settings {
            beat: Duration::from_secs(3600),
            silence: Duration::from_secs(36_000),
            blocking: self.is_blocking,
            drive: match self.workers {
                1 => Drive::Workers,
                _ => Drive::Dedicated,
            },
            ..Settings::default()
        }
    }

    /// A rank's part.
    fn run<T: Scalar>(
        &self,
        matrix: &TiledMatrix<T>,
        world: &World,
        messenger: &Messenger,
    ) -> Outcome<End> {
        let factor = Factor::new(matrix, Backend::Auto)?;
        let factor = match self.lookahead {
            Some(columns) => factor.with_lookahead(columns),
            None => factor,
        };
        let takes = self.machine.by_class(&factor);
        let body = |task: Task| {
            spend(Duration::from_secs_f64(
                takes[task.class()] * factor.flops(task),
            ))
        };
        let bytes = |task, flow| factor.bytes(task, flow);
        let phantom = Phantom::of(&factor).bytes(&bytes).body(&body);
        let rank = messenger.rank();
        let workers = match self.is_blocking {
            true => VirtualWorkers::new(world, rank, self.workers),
            false => VirtualWorkers::lean(world, rank, self.workers),
        };
        run_across(&phantom, &Context::new(&workers).across(messenger))?;
        Ok(End {
            at: world.now(),
            messages: messenger.counters().messages,
            totals: messenger.totals(),
            resident: resident(),
        })
    }
}

/// What a rank knows when its run is over.
struct End {
    at: Duration,
    messages: u64,
    totals: Counters,
    resident: u64,
}

/// Bytes of memory that the process has now; 0 where that is not told.
pub fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    4096 * pages.unwrap_or(0)
}
