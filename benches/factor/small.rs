//! The newcomer's call on a small array, beside faer's on one thread.
//!
//! # Law
//! Each reads the array, leaves it as it was and makes L anew, with memory of its own; both in turn,
//! many calls a round.

use super::race::{Outcome, machine, quartiles, seconds};
use dataflow::Dense;
use dataflow::linalg::matrix::Entries;
use dataflow::linalg::matrix::generate::PositiveDefinite;
use faer::{MatRef, Par, Side};
use ndarray::{Array2, ShapeBuilder};
use std::hint::black_box;

/// Microseconds of a call of `a.cholesky()`, and how much more that is than faer's.
pub fn measure(quick: bool) -> Outcome {
    faer::set_global_parallelism(Par::Seq);
    println!("{}, f64, one thread", machine());
    println!("microseconds a call, median of rounds ± half the quartile distance");
    println!(
        "{:>5}  memory order    dataflow     ±      faer     ±   difference     ±",
        "n"
    );
    let rounds = if quick { 3 } else { 101 };
    for n in [10, 50, 100, 200] {
        for columns in [true, false] {
            race(n, columns, rounds)?;
        }
    }
    Ok(())
}

fn race(n: usize, columns: bool, rounds: usize) -> Outcome {
    let definite = PositiveDefinite::new(n, 1);
    let entry = |(i, j)| -> f64 { definite.entry(i, j) };
    let a = Array2::from_shape_fn((n, n).set_f(columns), entry);
    let elements = a.as_slice_memory_order().ok_or("an array with gaps")?;
    let view = match columns {
        true => MatRef::from_column_major_slice(elements, n, n),
        false => MatRef::from_row_major_slice(elements, n, n),
    };
    let ours = || a.cholesky().map(|l| l[(n - 1, n - 1)]);
    let theirs = || view.llt(Side::Lower).map(|llt| llt.L()[(n - 1, n - 1)]);
    let apart = (ours()? - theirs().map_err(|error| format!("faer: {error:?}"))?).abs();
    if apart > 1e-10 {
        return Err(format!("n = {n}: the last pivots are {apart:e} apart").into());
    }
    // About 2 ms a turn.
    let calls = 1 + 400_000 / (n * n + 100);
    let micros =
        |call: &dyn Fn()| 1e6 * seconds(|| (0..calls).for_each(|_| call())).0 / calls as f64;
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for who in [round % 2, 1 - round % 2] {
            times[who].push(match who {
                0 => micros(&|| assert!(black_box(ours()).is_ok())),
                _ => micros(&|| assert!(black_box(theirs()).is_ok())),
            });
        }
    }
    let more = times[0]
        .iter()
        .zip(&times[1])
        .map(|(ours, faer)| ours - faer);
    let more: Vec<f64> = more.collect();
    let [ours, faer, more] = [&times[0], &times[1], &more].map(|times| quartiles(times));
    println!(
        "{n:5}  {:12}  {:10.2}  {:4.2}  {:8.2}  {:4.2}  {:+11.2}  {:4.2}",
        if columns { "column-major" } else { "row-major" },
        ours.0,
        ours.1,
        faer.0,
        faer.1,
        more.0,
        more.1
    );
    Ok(())
}
