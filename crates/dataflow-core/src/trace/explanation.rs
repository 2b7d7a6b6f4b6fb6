//! The explanation of a run, and how it reads.

use super::Limits;
use crate::words::counted;
use std::fmt;

/// Why a run took as long as it did.
///
/// Shown as text it is a few lines, the first of which names what costs most.
///
/// # Examples
/// Three tasks of 100 ns on two workers:
/// ```
/// use dataflow_core::space::Independent;
/// use dataflow_core::trace::{Schedule, Span};
///
/// let mut schedule = Schedule::new(2);
/// schedule.ran(0, 0_u64, Span { begin: 0, end: 100 }, false);
/// schedule.ran(0, 1_u64, Span { begin: 100, end: 200 }, false);
/// schedule.ran(1, 2_u64, Span { begin: 0, end: 100 }, false);
/// let trace = schedule.trace(&Independent::new("tasks", 3, |_| Ok(())));
///
/// let told = trace.explanation();
/// assert_eq!((told.length, told.limits.area, told.efficiency), (200, 150, 0.75));
/// assert_eq!((told.in_bodies(), told.part("nothing ready")), (0.75, 0.25));
/// assert_eq!(told.shares.iter().map(|share| share.time).sum::<u64>(), 2 * 200);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Explanation {
    /// Wall time, nanoseconds.
    pub length: u64,
    /// Workers of all ranks.
    pub n_workers: usize,
    /// Tasks whose bodies ran.
    pub n_tasks: u64,
    /// How fast these bodies could have been run at best.
    pub limits: Limits,
    /// The larger limit ÷ wall time.
    pub efficiency: f64,
    /// Where the workers' time went; the parts sum to 1.
    pub shares: Vec<Share>,
    /// Of the time in which data were under way, the part in which their receivers computed; `None`
    /// if nothing was sent.
    pub hidden: Option<f64>,
    /// The dearest chains, none with a task of another: time in bodies, and how it reads.
    pub chains: Vec<(u64, String)>,
    /// Notes that found no room: the rest is a part of the truth.
    pub missing: u64,
    /// Tasks that were known and not done when the run was over, on all ranks: see
    /// [`RankTrace::undone`](super::RankTrace::undone).
    pub undone: u64,
    /// Messages that came before they were posted, by more than the stated error of clocks; and by how
    /// many nanoseconds at most.
    pub backwards: (u64, u64),
    pub(super) sentence: String,
}

/// A part of the workers' time.
///
/// # Examples
/// See [`Explanation`](Explanation#examples).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Share {
    /// A class, `runtime`, or why there was nothing to do.
    pub name: String,
    /// Nanoseconds, over all workers; 2⁶⁴ − 1 if they are more.
    pub time: u64,
    /// Of all time.
    pub part: f64,
    /// Whether a body ran.
    pub is_body: bool,
}

impl Explanation {
    /// The part of the workers' time that went there; 0 if there is no share of this name.
    pub fn part(&self, name: &str) -> f64 {
        let share = self.shares.iter().find(|share| share.name == name);
        share.map_or(0.0, |share| share.part)
    }

    /// The part of the workers' time that no body took, by its cause: a class may have a cause's name.
    pub(super) fn lost_to(&self, cause: &str) -> f64 {
        let mut shares = self.shares.iter();
        let share = shares.find(|share| !share.is_body && share.name == cause);
        share.map_or(0.0, |share| share.part)
    }

    /// The part of the workers' time in which bodies ran.
    pub fn in_bodies(&self) -> f64 {
        let bodies = self.shares.iter().filter(|share| share.is_body);
        bodies.map(|share| share.part).sum()
    }

    /// The first sentence: what costs most, and where. A second one says how long the run went on after the
    /// last task, if that is a tenth of it or more: the first is of the time before. Of a run that failed one goes
    /// before both that says where; before that goes one that says how many tasks were [not
    /// done](Self::undone), if some were not, and before all of them one if only a part was recorded.
    pub fn verdict(&self) -> &str {
        &self.sentence
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.sentence)?;
        let limits = &self.limits;
        writeln!(
            f,
            "{} on {} took {}; no schedule of these bodies takes less than {} ({}): {:.0} % of what is possible.",
            counted(self.n_tasks, "task"),
            counted(self.n_workers, "worker"),
            time(self.length),
            time(limits.most()),
            match limits.area >= limits.path {
                true => format!("the work of {}, on all its workers", limits.area_rank),
                false => format!("a chain of {}", counted(limits.path_tasks.len(), "task")),
            },
            100.0 * self.efficiency,
        )?;
        write!(f, "The workers' time:")?;
        let told = self.shares.iter().filter(|share| share.part >= 0.0005);
        for (index, share) in told.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma} {} {:.1} %", share.name, 100.0 * share.part)?;
        }
        writeln!(f, ".")?;
        if let Some(hidden) = self.hidden {
            let percent = 100.0 * hidden;
            writeln!(
                f,
                "Hidden behind bodies: {percent:.0} % of the time in which data were under way."
            )?;
        }
        for (length, chain) in &self.chains {
            writeln!(f, "Chain of {}: {chain}.", time(*length))?;
        }
        if let (n @ 1.., most) = self.backwards {
            let most = time(most);
            writeln!(
                f,
                "Messages that seem to come before they were posted: {n}, by up to {most}. The clocks of ranks differ by more than was found."
            )?;
        }
        Ok(())
    }
}

/// A part of a whole; 0 of nothing.
pub(super) fn part(of: impl Into<u128>, all: impl Into<u128>) -> f64 {
    match all.into() {
        0 => 0.0,
        all => of.into() as f64 / all as f64,
    }
}

/// Nanoseconds as people read them, in a unit of which they are less than a thousand when rounded.
pub(super) fn time(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 * 1e-9;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..999_950 => format!("{:.1} µs", seconds * 1e6),
        999_950..999_995_000 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{seconds:.3} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_rounds_to_a_thousand_has_the_next_unit() {
        let times = [999, 1_000, 999_949, 999_950, 999_994_999, 999_995_000];
        let expected = [
            "999 ns",
            "1.0 µs",
            "999.9 µs",
            "1.00 ms",
            "999.99 ms",
            "1.000 s",
        ];
        assert_eq!(times.map(time), expected.map(String::from));
    }
}
