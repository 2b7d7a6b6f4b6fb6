//! Explain: where the time of a run went, from its trace.

use super::doing::{OwnTimes, covered, merged};
use super::explanation::{Explanation, Share, part, time};
use super::{At, Cause, Doing, Fate, Limits, Message, Trace};

/// Where the time of all workers went, nanoseconds: by class, one beyond the last for those of none, and
/// by cause.
struct Spent {
    bodies: Vec<u128>,
    runtime: u128,
    idle: [u128; Cause::ALL.len()],
}

/// How many chains are told.
const CHAINS: usize = 5;

impl Trace {
    /// Why the run took as long as it did.
    ///
    /// Costs n·log n for n tasks and edges.
    pub fn explanation(&self) -> Explanation {
        let own = OwnTimes::new(&self.ranks);
        let limits = self.limits_by(&own);
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
            hidden: self.hidden(),
            chains: self.chains(&limits, &own),
            missing: self.ranks.iter().map(|rank| rank.missing).sum(),
            undone: self.undone(),
            backwards: self.backwards(),
            sentence: String::new(),
            limits,
            shares: self.shares(&spent),
        };
        explanation.sentence = super::verdict::of(self, &explanation, &own);
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
                *time += u128::from(activity.span.length());
            });
        }
        spent
    }

    /// The same as parts of the whole.
    fn shares(&self, spent: &Spent) -> Vec<Share> {
        let all = spent.bodies.iter().chain(&spent.idle).sum::<u128>() + spent.runtime;
        let share = |name: &str, time: u128, is_body| Share {
            name: name.to_string(),
            time: u64::try_from(time).unwrap_or(u64::MAX),
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

    /// The part of the time under way, for each of the receiver's workers, in which it ran a body.
    fn hidden(&self) -> Option<f64> {
        if self.messages().is_empty() {
            return None;
        }
        let (mut hidden, mut all) = (0_u128, 0_u128);
        for (rank, of) in self.ranks.iter().enumerate() {
            let n = of.workers.len() as u128;
            let to_here = self.messages_to(rank).map(Message::under_way);
            let under_way = merged(to_here.collect());
            all += n * under_way
                .iter()
                .map(|span| u128::from(span.length()))
                .sum::<u128>();
            self.each_activity(rank, |_, activity| {
                if let Doing::Body(_) = activity.doing {
                    hidden += u128::from(covered(activity.span, &under_way));
                }
            });
        }
        // What takes no time keeps nobody waiting.
        Some(1.0 - part(all - hidden, all))
    }

    /// Tasks that were not done when the run was over, on all ranks.
    fn undone(&self) -> u64 {
        let of_ranks = self.ranks.iter().map(|rank| rank.undone);
        of_ranks.fold(0, u64::saturating_add)
    }

    /// Messages that cannot have gone so, and by how much the worst is wrong.
    fn backwards(&self) -> (u64, u64) {
        let back = self.messages().iter().map(Message::backwards);
        let wrong = back.filter(|&back| back > self.clock_error);
        wrong.fold((0, 0), |(n, most), back| (n + 1, back.max(most)))
    }

    /// The dearest chains.
    fn chains(&self, limits: &Limits, own: &OwnTimes) -> Vec<(u64, String)> {
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
                false => self.links.longest(own, free),
            };
            if tasks.is_empty() || time == 0 {
                break;
            }
            chains.push((time, self.chain_shown(&tasks, own)));
            for at in tasks {
                used[at.rank][at.slice] = true;
            }
        }
        chains
    }

    /// A chain: how many tasks, the first, the dearest and the last.
    fn chain_shown(&self, tasks: &[At], own: &OwnTimes) -> String {
        let shown = |at: &At| self.shown(*at);
        let dearest = tasks.iter().max_by_key(|at| own.of(**at));
        match (tasks, dearest) {
            ([one], _) => shown(one),
            ([first, .., last], Some(dearest)) => format!(
                "{} tasks, {} to {}, the longest {} ({})",
                tasks.len(),
                shown(first),
                shown(last),
                shown(dearest),
                time(own.of(*dearest)),
            ),
            _ => String::new(),
        }
    }
}
