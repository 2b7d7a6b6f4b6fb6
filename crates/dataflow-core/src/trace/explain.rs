//! Explain: a run in sentences, the one that matters most first.

use super::{At, Cause, Doing, Fate, Limits, Message, Trace};
use std::fmt;

/// Why a run took as long as it did.
///
/// Shown as text it is a few lines, the first of which names what costs most.
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
    /// Records that found no room: the rest is a part of the truth.
    pub missing: u64,
    /// Messages that came before they were posted, by more than the stated error of clocks; and by how
    /// many nanoseconds at most.
    pub backwards: (u64, u64),
    sentence: String,
}

/// A part of the workers' time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Share {
    /// A class, `runtime`, or why there was nothing to do.
    pub name: String,
    /// Nanoseconds, over all workers.
    pub time: u64,
    /// Of all time.
    pub part: f64,
    /// Whether a body ran.
    pub is_body: bool,
}

/// Where the time of all workers went, nanoseconds: by class, one beyond the last for those of none, and
/// by cause.
struct Spent {
    bodies: Vec<u64>,
    runtime: u64,
    idle: [u64; Cause::ALL.len()],
}

/// How many chains are told.
const CHAINS: usize = 5;

impl Trace {
    /// Why the run took as long as it did.
    ///
    /// Costs n·log n for n tasks and edges.
    pub fn explanation(&self) -> Explanation {
        let limits = self.limits();
        let length = self.length();
        let spent = self.spent();
        let ran = self
            .slices()
            .filter(|(_, slice)| slice.fate != Fate::Skipped);
        let mut explanation = Explanation {
            length,
            n_workers: self.n_workers(),
            n_tasks: ran.count() as u64,
            efficiency: part(limits.most(), length),
            hidden: self.hidden(spent.idle[Cause::DataUnderWay as usize]),
            chains: self.chains(&limits),
            missing: self.ranks.iter().map(|rank| rank.missing).sum(),
            backwards: self.backwards(),
            sentence: String::new(),
            limits,
            shares: self.shares(&spent),
        };
        explanation.sentence = super::verdict::of(self, &explanation);
        explanation
    }

    /// Where the time of all workers went.
    fn spent(&self) -> Spent {
        let mut spent = Spent {
            bodies: vec![0; self.classes.len() + 1],
            runtime: 0,
            idle: [0; Cause::ALL.len()],
        };
        for (rank, of) in self.ranks.iter().enumerate() {
            self.each_activity(rank, |_, activity| {
                let time = match activity.doing {
                    Doing::Body(slice) => {
                        let class = usize::from(of.slices[slice].class);
                        &mut spent.bodies[class.min(self.classes.len())]
                    }
                    Doing::Runtime => &mut spent.runtime,
                    Doing::Idle(cause) => &mut spent.idle[cause as usize],
                };
                *time += activity.span.length();
            });
        }
        spent
    }

    /// The same as parts of the whole.
    fn shares(&self, spent: &Spent) -> Vec<Share> {
        let all = spent.bodies.iter().chain(&spent.idle).sum::<u64>() + spent.runtime;
        let share = |name: &str, time, is_body| Share {
            name: name.to_string(),
            time,
            part: part(time, all),
            is_body,
        };
        let classes = self.classes.iter().map(String::as_str).chain(["task"]);
        let of_class = classes.zip(spent.bodies.iter().copied());
        let of_class = of_class.filter(|(_, time)| *time > 0);
        let mut shares: Vec<Share> = of_class
            .map(|(class, time)| share(class, time, true))
            .collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.time));
        shares.push(share("runtime", spent.runtime, false));
        let causes = Cause::ALL.into_iter().zip(spent.idle);
        shares.extend(causes.map(|(cause, time)| share(cause.shown(), time, false)));
        shares
    }

    /// The part of the time under way in which the receiver's workers all had something to do, if all
    /// of them waited so long for data.
    fn hidden(&self, waited: u64) -> Option<f64> {
        if self.messages().is_empty() {
            return None;
        }
        let mut all = 0;
        for (rank, of) in self.ranks.iter().enumerate() {
            let n = of.workers.len() as u64;
            let to_here = self.messages().iter().filter(|message| message.to == rank);
            let spans = super::doing::merged(to_here.map(Message::under_way).collect());
            all += n * spans.iter().map(|span| span.length()).sum::<u64>();
        }
        Some(1.0 - part(waited, all.max(waited)))
    }

    /// Messages that cannot have gone so, and by how much the worst is wrong.
    fn backwards(&self) -> (u64, u64) {
        let back = self.messages().iter().map(Message::backwards);
        let wrong = back.filter(|&back| back > self.clock_error);
        wrong.fold((0, 0), |(n, most), back| (n + 1, back.max(most)))
    }

    /// The dearest chains.
    fn chains(&self, limits: &Limits) -> Vec<(u64, String)> {
        let mut used: Vec<Vec<bool>> = self
            .ranks
            .iter()
            .map(|rank| vec![false; rank.slices.len()])
            .collect();
        let mut chains = Vec::new();
        while chains.len() < CHAINS {
            let free = |at: At| !used[at.rank][at.slice];
            let (time, tasks) = match chains.is_empty() {
                true => (limits.path, limits.path_tasks.clone()),
                false => self.links.longest(&self.ranks, free),
            };
            if tasks.is_empty() || time == 0 {
                break;
            }
            chains.push((time, self.chain_shown(&tasks)));
            for at in tasks {
                used[at.rank][at.slice] = true;
            }
        }
        chains
    }

    /// A chain: how many tasks, the first, the dearest and the last.
    fn chain_shown(&self, tasks: &[At]) -> String {
        let shown = |at: &At| self.shown(*at);
        let dearest = tasks.iter().max_by_key(|at| self.slice(**at).span.length());
        match (tasks, dearest) {
            ([one], _) => shown(one),
            ([first, .., last], Some(dearest)) => format!(
                "{} tasks, {} to {}, the longest {} ({})",
                tasks.len(),
                shown(first),
                shown(last),
                shown(dearest),
                time(self.slice(*dearest).span.length()),
            ),
            _ => String::new(),
        }
    }
}

impl Explanation {
    /// The part of the workers' time that went there; 0 if there is no share of this name.
    pub fn part(&self, name: &str) -> f64 {
        let share = self.shares.iter().find(|share| share.name == name);
        share.map_or(0.0, |share| share.part)
    }

    /// The part of the workers' time in which bodies ran.
    pub fn in_bodies(&self) -> f64 {
        let bodies = self.shares.iter().filter(|share| share.is_body);
        bodies.map(|share| share.part).sum()
    }

    /// The first sentence: what costs most, and where.
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
            "{} tasks on {} workers took {}; no schedule of these bodies takes less than {} ({}): {:.0} % of what is possible.",
            self.n_tasks,
            self.n_workers,
            time(self.length),
            time(limits.most()),
            match limits.area >= limits.path {
                true => format!("the work of {}, on all its workers", limits.area_rank),
                false => format!("a chain of {} tasks", limits.path_tasks.len()),
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
        match self.missing {
            0 => Ok(()),
            n => writeln!(
                f,
                "Records that found no room: {n}. All this is of the others."
            ),
        }
    }
}

/// A part of a whole; 0 of nothing.
pub(super) fn part(of: u64, all: u64) -> f64 {
    match all {
        0 => 0.0,
        all => of as f64 / all as f64,
    }
}

/// Nanoseconds as people read them.
pub(super) fn time(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 * 1e-9;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.1} µs", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{seconds:.3} s"),
    }
}
