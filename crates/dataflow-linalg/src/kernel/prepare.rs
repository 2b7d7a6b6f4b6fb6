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

static BEGUN: Once = Once::new();

/// Begins with it, once a process.
pub(crate) fn prepare() {
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

#[cfg(test)]
mod tests {
    use super::BEGUN;
    use crate::matrix::{Layout, TiledMatrix};
    use std::process::Command;

    #[test]
    #[ignore = "run by the test below, in a process of its own"]
    fn by_itself() {
        let made = |rows| TiledMatrix::<f64>::zeros(Layout::general(rows, 5, 5).unwrap());
        made(5);
        assert!(!BEGUN.is_completed(), "a single tile");
        made(6);
        assert!(BEGUN.is_completed(), "two tiles");
    }

    #[test]
    fn the_first_matrix_of_several_tiles_begins_with_it_and_a_single_tile_does_not() {
        let alone = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kernel::prepare::tests::by_itself"])
            .args(["--include-ignored", "--nocapture"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success(), "{said}");
        assert!(said.contains("1 passed"), "{said}");
    }
}
