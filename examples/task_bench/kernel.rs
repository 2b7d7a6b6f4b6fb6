//! Kernels: what a task computes, as much as is asked for.

use clap::ValueEnum;
use std::cell::RefCell;
use std::hint::black_box;

/// What a task computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Nothing.
    Empty,
    /// 64 numbers, a ← a·a + a in each iteration, then their product.
    Compute,
    /// In each iteration one half of a sample of memory is copied onto the other.
    Memory,
}

/// A kernel and how often it iterates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub kind: Kind,
    pub iterations: u64,
}

/// What a worker's memory kernel walks through: beyond most caches.
const SCRATCH_BYTES: usize = 16 << 20;
const SAMPLES: usize = 1024;
const SAMPLE_BYTES: usize = SCRATCH_BYTES / SAMPLES;

impl Kernel {
    /// Floating-point operations of a task.
    pub fn flops(&self) -> f64 {
        match self.kind {
            Kind::Compute => 128.0 * self.iterations as f64 + 64.0,
            _ => 0.0,
        }
    }

    /// Bytes that a task moves in memory.
    pub fn bytes(&self) -> f64 {
        match self.kind {
            Kind::Memory => self.iterations as f64 * SAMPLE_BYTES as f64,
            _ => 0.0,
        }
    }

    /// Does the work of a task of some step.
    pub fn run(&self, step: u32) {
        match self.kind {
            Kind::Empty => {}
            Kind::Compute => compute(self.iterations),
            Kind::Memory => memory(self.iterations, step),
        }
    }
}

fn compute(iterations: u64) {
    // From here the numbers go towards 0 so slowly that none is ever subnormal.
    let mut numbers = black_box([-0.5f64; 64]);
    for _ in 0..iterations {
        numbers.iter_mut().for_each(|a| *a = *a * *a + *a);
    }
    black_box(numbers.iter().product::<f64>());
}

fn memory(iterations: u64, step: u32) {
    thread_local! {
        static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0x5c; SCRATCH_BYTES]);
    }
    SCRATCH.with_borrow_mut(|scratch| {
        // The next step goes on where this one ends, so that all of it is walked through.
        let start = u64::from(step) * iterations;
        for i in 0..iterations {
            let at = ((start + i) % SAMPLES as u64) as usize * SAMPLE_BYTES;
            let sample = black_box(&mut scratch[at..at + SAMPLE_BYTES]);
            let (from, to) = sample.split_at_mut(SAMPLE_BYTES / 2);
            to.copy_from_slice(from);
        }
    });
}
