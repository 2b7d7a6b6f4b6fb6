//! What all contestants of a run share: workers, threads, memory.

use super::Outcome;
use dataflow::Runtime;
use dataflow::core::TaskError;
use dataflow::core::port::Memory;
use dataflow::core::space::Independent;
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::{Entries, Format, Tile};
#[cfg(target_os = "linux")]
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A square matrix in one piece, column-major, on huge pages.
pub type Dense = Tile<f64>;

/// The room in which results are left, one after the other.
pub type Shared = Arc<Mutex<Dense>>;

/// Starts this program anew with huge pages for `malloc`, unless its environment says something:
/// the peers' own buffers come from the C library.
#[cfg(target_os = "linux")]
pub fn with_huge_pages() -> Outcome {
    use std::os::unix::process::CommandExt;
    const TUNABLES: &str = "GLIBC_TUNABLES";
    if std::env::var_os(TUNABLES).is_some() {
        return Ok(());
    }
    let mut again = Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1));
    // Returns only if it failed.
    Err(again.env(TUNABLES, "glibc.malloc.hugetlb=1").exec().into())
}

/// Huge pages for `malloc` are a matter of glibc.
#[cfg(not(target_os = "linux"))]
pub fn with_huge_pages() -> Outcome {
    Ok(())
}

/// The workers of ours, and where matrices come from.
pub struct Bench {
    pub runtime: Runtime,
    pub memory: Arc<dyn Memory>,
}

impl Bench {
    pub fn new(threads: Option<u32>) -> Outcome<Self> {
        let mut runtime = Runtime::builder();
        if let Some(threads) = threads {
            runtime = runtime.threads(threads as usize);
        }
        let runtime = runtime.build()?;
        let memory = runtime.memory();
        Ok(Bench { runtime, memory })
    }

    pub fn n_threads(&self) -> usize {
        self.runtime.n_threads()
    }

    /// Room for a matrix of order `n` in one piece.
    pub fn dense(&self, n: usize) -> Dense {
        Dense::new(n, n, Format::ColumnMajor, &self.memory)
    }

    /// Room for results of order `n`.
    pub fn room(&self, n: usize) -> Shared {
        Arc::new(Mutex::new(self.dense(n)))
    }

    /// A random matrix of order `n`.
    pub fn random(&self, n: usize, seed: u64) -> Outcome<Dense> {
        let (mut matrix, random) = (self.dense(n), Random::new(seed));
        self.on_strips(&mut matrix, 1, |j, column| {
            random.column(0..n, j, column);
            Ok(())
        })?;
        Ok(matrix)
    }

    /// Runs `work` on each piece of the columns of a matrix, in tasks; `work` learns their number.
    pub fn on_strips(
        &self,
        matrix: &mut Dense,
        width: usize,
        work: impl Fn(usize, &mut [f64]) -> Result<(), TaskError> + Sync,
    ) -> Outcome {
        let n = matrix.rows();
        let strips: Vec<_> = matrix
            .as_mut_slice()
            .chunks_mut((n * width).max(1))
            .map(Mutex::new)
            .collect();
        let each = Independent::new("strip", strips.len() as u64, |strip| {
            let strip = strip as usize;
            work(strip, &mut locked(&strips[strip]))
        });
        self.runtime.run(&each)?;
        Ok(())
    }
}

/// The content of a lock that nobody waits for.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
