//! Least squares with a million rows and twenty columns, beside the time to read A once.
//!
//! # Law
//! Each contestant reads the same arrays and leaves them as they were; all in turn, with as many threads
//! as there are allowed cores. Memory is the peak of the process beyond what stood before the first call.

use super::race::kept::{Row, Unit};
use super::race::{Outcome, SETTLE, Settings, machine, quartiles, seconds};
use dataflow::core::space::Independent;
use dataflow::linalg::matrix::Entries;
use dataflow::linalg::matrix::generate::Random;
use dataflow::{Dense, Runtime};
use faer::linalg::matmul::matmul;
use faer::linalg::solvers::Solve;
use faer::{Accum, Mat, MatRef, Par, Side};
use ndarray::{Array1, Array2, ShapeBuilder};
use std::hint::black_box;
use std::sync::Mutex;
use std::thread::sleep;

/// Elements that a task reads.
const CHUNK: usize = 1 << 16;

/// Milliseconds of each contestant, for both orders of memory: a row for each.
pub fn measure(settings: &Settings) -> Outcome<Vec<Row>> {
    let m = match settings.is_quick() {
        true => 20_000,
        false => 1_000_000,
    };
    let (n, rounds) = (20, settings.rounds_or(15));
    let runtime = Runtime::shared()?;
    let threads = runtime.n_threads();
    println!("{}, {threads} threads, f64", machine());
    println!("least squares of {m} x {n}, median of {rounds} rounds ± half the quartile distance");
    let mut rows = Vec::new();
    for columns in [false, true] {
        let random = Random::new(1);
        let entry = |(i, j)| random.entry(i, j);
        let a = Array2::from_shape_fn((m, n).set_f(columns), entry);
        let b = Array1::from_shape_fn(m, |i| random.entry(i, n));
        let race = Race { a, b, runtime };
        let order = if columns { "column-major" } else { "row-major" };
        rows.push(race.run(order, rounds)?);
    }
    Ok(rows)
}

struct Race {
    a: Array2<f64>,
    b: Array1<f64>,
    runtime: &'static Runtime,
}

impl Race {
    fn run(&self, order: &str, rounds: u32) -> Outcome<Row> {
        let before = peak();
        let x = self.a.least_squares(&self.b)?;
        let share = (peak() - before) / size_of_val(self.elements()) as f64;
        let others = [self.by_tiles()?, self.normal_equations()?];
        for other in others {
            let off = (&x - &other).mapv(f64::abs);
            // What is not a number is near nothing.
            if let Some(off) = off.iter().find(|off| off.is_nan() || **off > 1e-10) {
                return Err(format!("solutions differ by {off:e}").into());
            }
        }
        let turns: [&dyn Fn() -> bool; 4] = [
            &|| black_box(self.read()).is_ok(),
            &|| black_box(self.a.least_squares(&self.b)).is_ok(),
            &|| black_box(self.by_tiles()).is_ok(),
            &|| black_box(self.normal_equations()).is_ok(),
        ];
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            for (turn, times) in turns.iter().zip(&mut times) {
                // The threads of the one before spin a while after it.
                sleep(SETTLE);
                times.push(seconds(turn).0);
            }
        }
        println!("{order}");
        // Later the peak is that of contestants before.
        if share > 0.0 {
            println!("  memory beside A: {:.1} %", 100.0 * share);
        }
        let names = [
            "A read once",
            "dataflow",
            "by tiles",
            "normal equations, faer",
        ];
        let (once, _) = quartiles(&times[0]);
        for (name, times) in names.into_iter().zip(&times) {
            let (time, spread) = quartiles(times);
            let (ms, spread, times) = (1e3 * time, 1e3 * spread, time / once);
            println!("  {name:24} {ms:9.2} ± {spread:6.2} ms  {times:6.2} × read");
        }
        let ms = |contestant: usize| 1e3 * quartiles(&times[contestant]).0;
        Ok(Row {
            what: format!("least squares, {} rows, {order}", self.a.nrows()),
            unit: Unit::Milliseconds,
            ours: ms(1),
            spread: Some(1e3 * quartiles(&times[1]).1),
            other: Some((names[3].into(), ms(3))),
            limit: Some((names[0].into(), ms(0))),
        })
    }

    fn elements(&self) -> &[f64] {
        let elements = self.a.as_slice_memory_order();
        elements.expect("an array of its own has no gaps")
    }

    /// The sum of all elements, by all workers.
    fn read(&self) -> Outcome<f64> {
        let total = Mutex::new(0.0);
        let elements = self.elements();
        let chunks = elements.len().div_ceil(CHUNK) as u64;
        let space = Independent::new("read", chunks, |i| {
            let chunk = elements.chunks(CHUNK).nth(i as usize).unwrap_or_default();
            let mut sums = [0.0; 32];
            for line in chunk.chunks_exact(32) {
                let pairs = sums.iter_mut().zip(line);
                pairs.for_each(|(sum, x)| *sum += x);
            }
            *total.lock().map_err(|error| error.to_string())? += sums.iter().sum::<f64>();
            Ok(())
        });
        self.runtime.run(&space)?;
        Ok(total.into_inner()?)
    }

    /// Tiles of a copy, factored along a tree.
    fn by_tiles(&self) -> Outcome<Array1<f64>> {
        Ok(self.a.qr_factor()?.least_squares(&self.b)?)
    }

    /// AᵀA·X = Aᵀ·B: half as many flops, and twice the digits lost.
    fn normal_equations(&self) -> Outcome<Array1<f64>> {
        let (m, n) = self.a.dim();
        let a = match self.a.is_standard_layout() {
            true => MatRef::from_row_major_slice(self.elements(), m, n),
            false => MatRef::from_column_major_slice(self.elements(), m, n),
        };
        let b = self.b.as_slice().expect("a vector of its own has no gaps");
        let b = MatRef::from_column_major_slice(b, m, 1);
        let par = Par::rayon(self.runtime.n_threads());
        let (mut gram, mut side) = (Mat::zeros(n, n), Mat::zeros(n, 1));
        matmul(&mut gram, Accum::Replace, a.transpose(), a, 1.0, par);
        matmul(&mut side, Accum::Replace, a.transpose(), b, 1.0, par);
        let factor = gram.llt(Side::Lower);
        let x = factor
            .map_err(|error| format!("faer: {error:?}"))?
            .solve(side);
        Ok(Array1::from_shape_fn(n, |i| x[(i, 0)]))
    }
}

/// Bytes of memory that this process had at most; 0 where the system does not say.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    1024.0 * kilobytes.unwrap_or(0.0)
}
