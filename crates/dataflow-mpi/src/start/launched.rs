//! Launched: what a launcher tells a process in its environment.

use dataflow_core::error::Error;
use dataflow_core::rank::Rank;
use dataflow_core::words::counted;
use std::fmt;
use std::str::FromStr;

/// A program that starts ranks.
///
/// # Examples
/// See [`Launched`](Launched#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpirun` of MPICH, and of those that took its process manager over (Intel MPI, MVAPICH).
    Hydra,
    /// `srun` of Slurm.
    Slurm,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::OpenMpi => "Open MPI's mpirun",
            Launcher::Hydra => "MPICH's mpirun (or one of its kind)",
            Launcher::Slurm => "srun",
        })
    }
}

/// Where a launcher has put this process.
///
/// # Examples
/// A launcher that says which rank this is, but not of how many:
/// ```
/// use dataflow_mpi::start::Launched;
/// let refused = Launched::of(|name| (name == "PMI_RANK").then(|| "3".into())).unwrap_err();
/// assert_eq!(refused.name(), "wrong_launcher");
/// let text = "MPICH's mpirun (or one of its kind) has set PMI_RANK, but not PMI_SIZE";
/// assert_eq!(refused.to_string(), text);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launched {
    /// Who started it.
    pub launcher: Launcher,
    /// Which rank it is.
    pub rank: Rank,
    /// How many there are.
    pub n_ranks: usize,
    /// Which of the ranks of this machine it is.
    pub local_rank: usize,
    /// How many ranks this machine has.
    pub ranks_here: usize,
}

impl Launched {
    /// Reads the launcher's variables through `variable`; `None` if there was no launcher.
    ///
    /// # Errors
    /// If it contradicts itself (`wrong_launcher`): the variable, its value and what is allowed.
    ///
    /// # Examples
    /// ```
    /// use dataflow_mpi::start::{Launcher, Launched};
    /// let launched = Launched::of(|name| match name {
    ///     "PMI_RANK" => Some("3".into()),
    ///     "PMI_SIZE" | "MPI_LOCALNRANKS" => Some("4".into()),
    ///     "MPI_LOCALRANKID" => Some("3".into()),
    ///     _ => None,
    /// })?;
    /// assert_eq!(launched.unwrap().launcher, Launcher::Hydra);
    /// # Ok::<(), dataflow_core::Error>(())
    /// ```
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Error> {
        let names = LauncherVariables::of(&variable);
        names.map(|names| names.read(&variable)).transpose()
    }

    /// Which rank a launcher says that this process is, whatever else it says: for a program that has only an
    /// error to tell, which one rank shall tell. `None` if there was no launcher, or its rank is no number.
    ///
    /// # Examples
    /// ```
    /// use dataflow_mpi::start::Launched;
    /// // It has not said how many ranks there are.
    /// let variable = |name: &str| (name == "PMI_RANK").then(|| "3".to_string());
    /// assert!(Launched::of(variable).is_err());
    /// assert_eq!(Launched::rank_of(variable).map(|rank| rank.0), Some(3));
    /// ```
    pub fn rank_of(variable: impl Fn(&str) -> Option<String>) -> Option<Rank> {
        let names = LauncherVariables::of(&variable)?;
        variable(names.rank)?.trim().parse().ok().map(Rank)
    }
}

/// The variables of a launcher.
struct LauncherVariables {
    launcher: Launcher,
    rank: &'static str,
    n_ranks: &'static str,
    local_rank: &'static str,
    ranks_here: &'static str,
}

const OPEN_MPI: LauncherVariables = LauncherVariables {
    launcher: Launcher::OpenMpi,
    rank: "OMPI_COMM_WORLD_RANK",
    n_ranks: "OMPI_COMM_WORLD_SIZE",
    local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
    ranks_here: "OMPI_COMM_WORLD_LOCAL_SIZE",
};

const HYDRA: LauncherVariables = LauncherVariables {
    launcher: Launcher::Hydra,
    rank: "PMI_RANK",
    n_ranks: "PMI_SIZE",
    local_rank: "MPI_LOCALRANKID",
    ranks_here: "MPI_LOCALNRANKS",
};

const SLURM: LauncherVariables = LauncherVariables {
    launcher: Launcher::Slurm,
    rank: "SLURM_PROCID",
    n_ranks: "SLURM_STEP_NUM_TASKS",
    local_rank: "SLURM_LOCALID",
    ranks_here: "SLURM_STEP_TASKS_PER_NODE",
};

impl LauncherVariables {
    /// Those of the launcher that has started this process.
    fn of(variable: &impl Fn(&str) -> Option<String>) -> Option<&'static Self> {
        let has = |name: &str| variable(name).is_some();
        if has("OMPI_COMM_WORLD_RANK") {
            Some(&OPEN_MPI)
        } else if has("PMI_RANK") && (has("MPI_LOCALRANKID") || !has("SLURM_STEP_NUM_TASKS")) {
            // Inside Slurm too: Hydra starts its own ranks, which have Slurm's variables beside.
            Some(&HYDRA)
        } else if has("SLURM_STEP_NUM_TASKS") && has("SLURM_PROCID") {
            // Only inside a step of srun: a batch script by itself is no rank.
            Some(&SLURM)
        } else {
            None
        }
    }

    fn read(&self, variable: &impl Fn(&str) -> Option<String>) -> Result<Launched, Error> {
        let text = |name: &str| {
            let missing = || {
                wrong(format!(
                    "{} has set {}, but not {name}",
                    self.launcher, self.rank
                ))
            };
            variable(name).ok_or_else(missing)
        };
        let rank = number(self.rank, &text(self.rank)?)?;
        let n_ranks = number(self.n_ranks, &text(self.n_ranks)?)?;
        let optional = |name: &'static str, otherwise: usize| {
            variable(name).map_or(Ok(otherwise), |value| number(name, &value))
        };
        let local_rank = optional(self.local_rank, 0)?;
        let ranks_here = match self.launcher {
            Launcher::Slurm => {
                let node = optional("SLURM_NODEID", 0)?;
                let counts = variable(self.ranks_here);
                let here = counts.map(|counts| tasks_of_node(&counts, node).ok_or(counts));
                here.transpose().map_err(|counts| {
                    wrong(format!(
                        "{} is {counts:?}, which says nothing of node {node}",
                        self.ranks_here
                    ))
                })?
            }
            _ => Some(optional(self.ranks_here, local_rank.saturating_add(1))?),
        };
        let ranks_here = ranks_here.unwrap_or(local_rank.saturating_add(1));
        let fits = rank < n_ranks && local_rank < ranks_here && ranks_here <= n_ranks;
        let launched = Launched {
            launcher: self.launcher,
            rank: Rank(u32::try_from(rank).unwrap_or(u32::MAX)),
            n_ranks,
            local_rank,
            ranks_here,
        };
        let text = || {
            wrong(format!(
                "{} says that this is rank {rank} of {n_ranks}, {local_rank} of {ranks_here} on this machine",
                self.launcher
            ))
        };
        fits.then_some(launched).ok_or_else(text)
    }
}

fn number(name: &str, value: &str) -> Result<usize, Error> {
    let parsed = usize::from_str(value.trim());
    parsed.map_err(|_| wrong(format!("{name} is {value:?} (a number is needed)")))
}

fn wrong(text: String) -> Error {
    Error::wrong_launcher(text)
}

/// How many tasks a node has, of a list like `4(x2),3`: nodes 0 and 1 have four, node 2 three.
fn tasks_of_node(counts: &str, node: usize) -> Option<usize> {
    let mut passed = 0usize;
    for part in counts.split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        let tasks = tasks.trim().parse().ok()?;
        passed = passed.checked_add(nodes)?;
        if node < passed {
            return Some(tasks);
        }
    }
    None
}

/// The MPI that this process found, if it was built with one.
///
/// # Examples
/// ```
/// use dataflow_mpi::start::{Mpi, check};
/// let mpi = Mpi { n_ranks: 1, library: "Open MPI 4.1.6".into() };
/// let refused = check(None, Some(4), Some(&mpi)).unwrap_err();
/// let text = "cargo mpirun started 4 ranks, but this program's MPI sees 1 (Open MPI 4.1.6): start it \
///             with the mpirun of that MPI";
/// assert_eq!((refused.name(), refused.to_string().as_str()), ("wrong_launcher", text));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpi {
    /// How many ranks its world has.
    pub n_ranks: usize,
    /// What it calls itself.
    pub library: String,
}

/// Checks that MPI has as many ranks as were started: a program that was started by the launcher of
/// another MPI would run as several jobs of one rank each.
///
/// `expected` is the number that `cargo mpirun` says it starts.
///
/// # Errors
/// `wrong_launcher`: who started how many, what the program found, and what to do.
pub fn check(
    launched: Option<&Launched>,
    expected: Option<usize>,
    mpi: Option<&Mpi>,
) -> Result<(), Error> {
    let started = launched.map(|launched| (launched.launcher.to_string(), launched.n_ranks));
    let started = started.or_else(|| Some(("cargo mpirun".into(), expected?)));
    let Some((who, wanted)) = started else {
        return Ok(());
    };
    match mpi {
        None if wanted > 1 => Err(wrong(format!(
            "{who} started {wanted} ranks, but this program was built without MPI, so each would \
             run alone: build it with feature `mpi`, or start it once with `--ranks {wanted}`"
        ))),
        Some(mpi) if mpi.n_ranks != wanted => Err(wrong(format!(
            "{who} started {}, but this program's MPI sees {} ({}): start it with the \
             mpirun of that MPI",
            counted(wanted, "rank"),
            mpi.n_ranks,
            mpi.library
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(text: &str) -> Result<Option<Launched>, Error> {
        let variables: Vec<(&str, &str)> = text
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='))
            .collect();
        Launched::of(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn every_launcher_is_understood_by_what_it_sets() {
        for (environment, launcher, expected) in [
            (
                "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_RANK=5",
                Launcher::OpenMpi,
                (5, 8, 1, 4),
            ),
            (
                "PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2",
                Launcher::Hydra,
                (3, 4, 1, 2),
            ),
            (
                "SLURM_PROCID=9 SLURM_STEP_NUM_TASKS=11 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=4(x2),3",
                Launcher::Slurm,
                (9, 11, 1, 3),
            ),
            // One inside the other: the inner one counts.
            (
                "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 PMI_RANK=3 PMI_SIZE=8 MPI_LOCALRANKID=3 MPI_LOCALNRANKS=4",
                Launcher::Hydra,
                (3, 8, 3, 4),
            ),
            (
                "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2",
                Launcher::OpenMpi,
                (1, 2, 1, 2),
            ),
            // srun --mpi=pmi2.
            (
                "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=2 PMI_RANK=1 PMI_SIZE=2",
                Launcher::Slurm,
                (1, 2, 1, 2),
            ),
        ] {
            let launched = launched(environment).unwrap().unwrap();
            let numbers = (
                launched.rank.0,
                launched.n_ranks,
                launched.local_rank,
                launched.ranks_here,
            );
            assert_eq!(
                (launched.launcher, numbers),
                (launcher, expected),
                "{environment}"
            );
        }
    }

    #[test]
    fn nobody_is_no_launcher_and_neither_is_a_batch_script() {
        for environment in [
            "HOME=anywhere",
            "SLURM_JOB_ID=1 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_TASKS_PER_NODE=4",
        ] {
            assert_eq!(launched(environment).unwrap(), None, "{environment}");
        }
    }

    #[test]
    fn an_environment_that_contradicts_itself_is_an_error_that_names_it() {
        for (environment, named) in [
            ("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE"),
            ("PMI_RANK=x PMI_SIZE=2", "PMI_RANK is \"x\""),
            ("PMI_RANK=2 PMI_SIZE=2", "rank 2 of 2"),
            (
                "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=1",
                "1 of 1 on this machine",
            ),
            (
                "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=18446744073709551615",
                "of 18446744073709551615 on this machine",
            ),
            (
                "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=2",
                "node 1",
            ),
        ] {
            let error = launched(environment).unwrap_err();
            assert!(error.message().contains(named), "{environment}: {error}");
            assert_eq!(error.name(), "wrong_launcher");
        }
    }

    #[test]
    fn tasks_per_node_are_read_as_slurm_writes_them() {
        for (counts, expected) in [
            ("4", vec![Some(4), None]),
            ("4(x2),3", vec![Some(4), Some(4), Some(3), None]),
            (
                "1,2(x3),1",
                vec![Some(1), Some(2), Some(2), Some(2), Some(1), None],
            ),
            ("4(y2)", vec![None]),
            ("4(x2", vec![None]),
            ("", vec![None]),
        ] {
            for (node, expected) in expected.into_iter().enumerate() {
                assert_eq!(tasks_of_node(counts, node), expected, "{counts}, {node}");
            }
        }
    }

    #[test]
    fn ranks_that_would_be_alone_are_an_error_that_says_what_to_do() {
        let launched = |launcher, n_ranks| Launched {
            launcher,
            rank: Rank(0),
            n_ranks,
            local_rank: 0,
            ranks_here: 1,
        };
        let mpi = |n_ranks| Mpi {
            n_ranks,
            library: "Open MPI v4".into(),
        };
        let (four, one) = (launched(Launcher::Hydra, 4), launched(Launcher::Slurm, 1));
        for good in [
            check(None, None, None),
            check(None, None, Some(&mpi(1))),
            check(Some(&one), None, None),
            check(Some(&four), Some(4), Some(&mpi(4))),
        ] {
            good.unwrap();
        }
        for (bad, what_to_do) in [
            (check(Some(&four), None, None), "feature `mpi`"),
            (
                check(Some(&four), None, Some(&mpi(1))),
                "MPICH's mpirun (or one of its kind) started 4",
            ),
            (
                check(None, Some(4), Some(&mpi(1))),
                "cargo mpirun started 4",
            ),
            (check(None, Some(2), None), "`--ranks 2`"),
        ] {
            let error = bad.unwrap_err();
            assert!(error.message().contains(what_to_do), "{error}");
        }
    }
}
