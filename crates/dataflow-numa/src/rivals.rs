//! Rivals: threads of other pools in the same process, as far as the environment asks for them.
//!
//! A kernel that starts threads of its own in every worker, or a second pool beside the workers,
//! makes both slow. Only what is set is judged: a library that is not there starts nothing.

use dataflow_core::words::counted;
use std::fmt;

/// A pool that brings more threads than there are cores for.
///
/// # Examples
/// See [`rivals`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rival {
    /// The variable that asks for it.
    pub variable: &'static str,
    /// How many threads it asks for.
    pub n_asked: usize,
    /// Whether every worker that calls the library gets so many.
    pub in_every_worker: bool,
    /// How many workers there are.
    pub n_workers: usize,
    /// How many cores they have together.
    pub n_cores: usize,
}

/// Variables, and whether every worker that calls the library gets a pool.
const POOLS: [(&str, bool); 5] = [
    ("RAYON_NUM_THREADS", false),
    ("OMP_NUM_THREADS", true),
    ("OPENBLAS_NUM_THREADS", true),
    ("MKL_NUM_THREADS", true),
    ("BLIS_NUM_THREADS", true),
];

/// The pools that, together with the workers, have more threads than cores; the environment is
/// asked for one `variable` at a time.
///
/// ```
/// use dataflow_numa::rivals::rivals;
/// let found = rivals(8, 8, |name| (name == "OMP_NUM_THREADS").then(|| "4".to_owned()));
/// let text = "OMP_NUM_THREADS=4 lets each of 8 workers start 4 threads: 32 for 8 cores";
/// assert_eq!(found[0].to_string(), text);
/// ```
pub fn rivals(
    n_workers: usize,
    n_cores: usize,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<Rival> {
    let rival = |(name, in_every_worker)| {
        // Nested levels stand behind commas; the first one counts.
        let value = variable(name)?;
        let n_asked = value.split(',').next()?.trim().parse().ok()?;
        let rival = Rival {
            variable: name,
            n_asked,
            in_every_worker,
            n_workers,
            n_cores,
        };
        (n_asked > 1 && rival.n_threads() > n_cores).then_some(rival)
    };
    POOLS.into_iter().filter_map(rival).collect()
}

impl Rival {
    /// Threads of pool and workers together.
    pub fn n_threads(&self) -> usize {
        match self.in_every_worker {
            true => self.n_workers.saturating_mul(self.n_asked),
            false => self.n_workers.saturating_add(self.n_asked),
        }
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rival {
            variable,
            n_asked,
            n_workers,
            n_cores,
            ..
        } = self;
        let (total, cores) = (self.n_threads(), counted(*n_cores, "core"));
        let (threads, workers) = (counted(*n_asked, "thread"), counted(*n_workers, "worker"));
        match self.in_every_worker {
            true => write!(
                f,
                "{variable}={n_asked} lets each of {workers} start {threads}: {total} for {cores}"
            ),
            false => write!(
                f,
                "{variable}={n_asked} puts {threads} beside {workers}: {total} for {cores}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_that_do_not_fit_beside_the_workers_are_named_with_both_numbers() {
        for (n_workers, n_cores, name, value, expected) in [
            (4, 4, "RAYON_NUM_THREADS", "2", Some(6)),
            (2, 4, "RAYON_NUM_THREADS", "2", None),
            (4, 4, "OPENBLAS_NUM_THREADS", "1", None),
            (4, 4, "OPENBLAS_NUM_THREADS", "2", Some(8)),
            (1, 4, "OMP_NUM_THREADS", "4", None),
            (2, 4, "OMP_NUM_THREADS", "4,2", Some(8)),
            (4, 4, "MKL_NUM_THREADS", "many", None),
            (2, 2, "OMP_NUM_THREADS", "99999999999999999999", None),
            (
                2,
                2,
                "OMP_NUM_THREADS",
                "18446744073709551615",
                Some(usize::MAX),
            ),
            (4, 4, "SOMETHING_ELSE", "8", None),
        ] {
            let found = rivals(n_workers, n_cores, |asked| {
                (asked == name).then(|| value.to_owned())
            });
            let found: Vec<usize> = found.iter().map(Rival::n_threads).collect();
            assert_eq!(found, Vec::from_iter(expected), "{name}={value}");
        }
    }
}
