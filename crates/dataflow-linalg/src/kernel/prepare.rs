//! Prepare: what kernels look up when the first of them runs is looked up beside the program, as soon
//! as there is a matrix of several tiles.
//!
//! That is which vectors the processor has and how large its caches are: a tenth of a millisecond, or
//! more than one where faer reads `/sys` for it (as with its feature `rayon`, which any crate of a
//! program can ask for), all of it on the path of the first task.

use ::faer::linalg::matmul::matmul;
use ::faer::{Accum, Mat, Par};
use std::sync::Once;
use std::thread;

/// Begins with it, once a process.
pub(crate) fn prepare() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let thread = thread::Builder::new().name("dataflow-prepare".into());
        // Where there can be no other thread, the first kernel looks it up.
        let _ = thread.spawn(small_product);
    });
}

/// The smallest that asks for all of it.
fn small_product() {
    const N: usize = 64;
    let zeros = || Mat::<f64>::zeros(N, N);
    matmul(&mut zeros(), Accum::Add, &zeros(), &zeros(), 1.0, Par::Seq);
}
