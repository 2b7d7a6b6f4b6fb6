//! Prepare: what kernels look up when the first of them runs is looked up beside the program, as soon
//! as there is a matrix of several tiles.
//!
//! That is which vectors the processor has and how large its caches are: a tenth of a millisecond, or
//! more than one where faer reads `/sys` for it (as with its feature `rayon`, which any crate of a
//! program can ask for), all of it on the path of the first task.

use ::faer::linalg::matmul::matmul;
use ::faer::{Accum, Mat, Par};
use std::sync::Once;
use std::{fs, thread};

static BEGUN: Once = Once::new();

/// Begins with it, once a process.
pub(crate) fn prepare() {
    BEGUN.call_once(|| {
        let thread = thread::Builder::new().name("dataflow-prepare".into());
        // Where there can be no other thread, the first kernel looks it up.
        let _ = thread.spawn(look_up);
    });
}

/// Not where addresses are limited: faer reserves twice the largest cache for each thread that asks for a
/// product, and a program that has no room for it aborts, although it may never need one itself.
fn look_up() {
    let limits = fs::read_to_string("/proc/self/limits");
    if !limits.is_ok_and(|limits| is_limited(&limits)) {
        small_product();
    }
}

/// Whether a shell has limited the addresses of a process with these limits (`ulimit -v`).
fn is_limited(limits: &str) -> bool {
    let mut lines = limits.lines();
    let of_addresses = lines.find_map(|line| line.strip_prefix("Max address space"));
    of_addresses.is_some_and(|limit| !limit.trim_start().starts_with("unlimited"))
}

/// The smallest that asks for all of it.
fn small_product() {
    const N: usize = 64;
    let zeros = || Mat::<f64>::zeros(N, N);
    matmul(&mut zeros(), Accum::Add, &zeros(), &zeros(), 1.0, Par::Seq);
}

#[cfg(test)]
mod tests {
    use super::{BEGUN, fs, is_limited, look_up};
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

    #[test]
    #[ignore = "run by the test below, under a limit"]
    fn under_a_limit() {
        look_up();
    }

    /// On a processor with a third-level cache of 260 MiB the thread that prepares asked for 520 MiB of
    /// addresses: under `ulimit -v 400000` a program aborted that had ended well without it.
    #[test]
    fn a_process_whose_addresses_are_limited_is_not_ended_by_it() {
        if !fs::exists("/proc/self/limits").unwrap_or_default() {
            println!("skipped: only Linux tells what a process is limited to");
            return;
        }
        let limited = Command::new("sh")
            .args(["-c", "ulimit -v 400000 && exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "kernel::prepare::tests::under_a_limit"])
            .args(["--include-ignored", "--nocapture"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&limited.stderr);
        assert!(limited.status.success(), "{said}");
    }

    #[test]
    fn a_limit_is_what_is_not_unlimited() {
        let of =
            |limit| format!("Max locked memory  8192\nMax address space  {limit}  unlimited\n");
        assert!(is_limited(&of("409600000")));
        assert!(!is_limited(&of("unlimited")));
        assert!(!is_limited("Max locked memory  8192\n"));
    }
}
