//! What all contestants of a run share: workers, threads, memory.

use super::{Outcome, machine};
use dataflow::Runtime;
use dataflow::core::TaskError;
use dataflow::core::port::Memory;
use dataflow::core::space::Independent;
#[cfg(feature = "openblas")]
use dataflow::linalg::kernel::openblas;
use dataflow::linalg::matrix::generate::Random;
use dataflow::linalg::matrix::{Entries, Format, Tile};
#[cfg(target_os = "linux")]
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A square matrix in one piece, column-major, on huge pages.
pub type Dense = Tile<f64>;

/// The room in which results are left, one after the other.
pub type Shared = Arc<Mutex<Dense>>;

/// Starts this program anew with huge pages for `malloc`, since the peers' own buffers come from the C
/// library, and with OpenBLAS's widest kernels where it does not find them itself; unless the environment
/// says something of either.
#[cfg(target_os = "linux")]
pub fn at_its_best() -> Outcome {
    use std::os::unix::process::CommandExt;
    let pages = ("GLIBC_TUNABLES", Some("glibc.malloc.hugetlb=1"));
    let unsaid: Vec<_> = [pages, ("OPENBLAS_CORETYPE", better_core())]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .filter(|(name, _)| std::env::var_os(name).is_none())
        .collect();
    if unsaid.is_empty() {
        return Ok(());
    }
    let mut again = Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1)).envs(unsaid);
    // Returns only if it failed.
    Err(again.exec().into())
}

/// What another environment would bring is known for Linux only.
#[cfg(not(target_os = "linux"))]
pub fn at_its_best() -> Outcome {
    Ok(())
}

/// What OpenBLAS is to be told of the processor, if it would do better so.
#[cfg(all(target_os = "linux", feature = "openblas"))]
fn better_core() -> Option<&'static str> {
    openblas::better_core()
}

/// It is not in this build.
#[cfg(all(target_os = "linux", not(feature = "openblas")))]
fn better_core() -> Option<&'static str> {
    None
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

    /// Where and with what all tables are measured.
    pub fn title(&self) -> String {
        let title = format!("{}, {} threads, f64", machine(), self.n_threads());
        #[cfg(feature = "openblas")]
        let title = format!("{title}, OpenBLAS's kernels for {}", openblas::core_name());
        title
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
