//! Closing: one sum over all ranks ends a run; the smallest failure is the same for all.
//!
//! # Law
//! A rank adds its account when it runs nothing any more, nothing that it asked for is under way, and
//! nobody can hand back to it what was to be passed on: so after the sum no data travel. Who has sent
//! more than was delivered, or announced more than was fetched, has lost something: that is an error,
//! not an end.

use crate::counters::Counters;
use crate::family::{FromChildren, TreePlace};
use crate::wire::Account;
use dataflow_core::port::Failure;
use dataflow_core::rank::Rank;
use dataflow_core::words::counted;

/// Numbers before the counters.
const N_OWN: usize = 5;

/// What one rank did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Tasks run.
    pub executed: u64,
    /// Parcels sent.
    pub sent: u64,
    /// Parcels delivered.
    pub delivered: u64,
    /// Data announced.
    pub announced: u64,
    /// Announced data that were fetched.
    pub fetched: u64,
}

/// One rank's part in closing a run.
#[derive(Debug, Default)]
pub struct Closing {
    own: Option<Account>,
    below: FromChildren<Account>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Tell the parent.
    Up(Account),
    /// Tell the children, and end: this is the root.
    Down(Account),
}

impl Closing {
    /// This rank is done.
    pub fn close(&mut self, failure: Option<Failure>, deeds: Deeds, counters: &Counters) {
        let Deeds {
            executed,
            sent,
            delivered,
            announced,
            fetched,
        } = deeds;
        let mut numbers = vec![executed, sent, delivered, announced, fetched];
        numbers.extend(counters.numbers());
        self.own = Some(Account { failure, numbers });
    }

    /// A child and all below it are done; false if it said so before.
    #[must_use]
    pub fn hear(&mut self, child: Rank, account: Account) -> bool {
        self.below.hear(child, account).is_none()
    }

    /// Whether a child has said that it is done.
    pub fn has_heard(&self, child: Rank) -> bool {
        self.below.has_heard(child)
    }

    /// What to do, once this rank and all below it are done; once.
    pub fn next(&mut self, family: &TreePlace) -> Option<Next> {
        if !self.below.has_heard_all(family) {
            return None;
        }
        let mut sum = self.own.take()?;
        for (_, account) in self.below.all() {
            add(&mut sum, account);
        }
        Some(match family.parent {
            Some(_) => Next::Up(sum),
            None => Next::Down(judged(sum)),
        })
    }
}

fn add(sum: &mut Account, account: &Account) {
    for (i, &number) in account.numbers.iter().enumerate() {
        let Some(own) = sum.numbers.get_mut(i) else {
            break; // ranks of one version have as many
        };
        let is_peak = i >= N_OWN && Counters::is_peak(i - N_OWN);
        *own = if is_peak {
            (*own).max(number)
        } else {
            own.wrapping_add(number)
        };
    }
    sum.failure = match (sum.failure.take(), account.failure.clone()) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}

/// What became of parcels, as a text.
pub fn sent_and_delivered(sent: u64, delivered: u64) -> String {
    let were = if sent == 1 { "was" } else { "were" };
    let parcels = counted(sent, "parcel");
    format!("{parcels} {were} sent and {delivered} delivered")
}

/// Adds the failure of a run that seems to have succeeded, but has lost something on the way.
fn judged(mut sum: Account) -> Account {
    let [_, sent, delivered, announced, fetched, ..] = sum.numbers[..] else {
        return sum;
    };
    if sum.failure.is_none() && (sent, announced) != (delivered, fetched) {
        let parcels = sent_and_delivered(sent, delivered);
        let message = format!("{parcels}, {announced} data announced and {fetched} fetched");
        sum.failure = Some(crate::failure(Rank(0), "malformed", message));
    }
    sum
}

/// The counters of all ranks.
pub fn totals(account: &Account) -> Counters {
    Counters::of_numbers(account.numbers.get(N_OWN..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(deeds: &[Deeds], failures: &[Option<u64>]) -> Account {
        let n = deeds.len();
        let mut ranks: Vec<Closing> = (0..n).map(|_| Closing::default()).collect();
        for rank in (0..n).rev() {
            let family = TreePlace::of(Rank(rank as u32), n);
            let failure = failures[rank].map(|index| Failure {
                index,
                ..crate::failure(Rank(rank as u32), "singular", "")
            });
            ranks[rank].close(failure, deeds[rank], &Counters::default());
            match ranks[rank].next(&family) {
                Some(Next::Up(account)) => {
                    let parent = family.parent.unwrap().0 as usize;
                    assert!(ranks[parent].hear(Rank(rank as u32), account));
                }
                Some(Next::Down(account)) => return account,
                None => unreachable!("all below are done"),
            }
        }
        unreachable!("rank 0 decides")
    }

    #[test]
    fn what_was_sent_and_not_delivered_or_announced_and_not_fetched_is_a_failure() {
        let balanced = Deeds {
            executed: 3,
            sent: 2,
            delivered: 2,
            announced: 1,
            fetched: 1,
        };
        assert_eq!(close(&[balanced; 4], &[None; 4]).failure, None);
        for odd in [
            Deeds {
                sent: 3,
                ..balanced
            },
            Deeds {
                delivered: 3,
                ..balanced
            },
            Deeds {
                announced: 2,
                ..balanced
            },
            Deeds {
                fetched: 0,
                ..balanced
            },
        ] {
            let failure = close(&[balanced, balanced, odd], &[None; 3]).failure;
            assert_eq!(failure.unwrap().kind, "malformed");
        }
    }

    #[test]
    fn of_peaks_the_highest_is_told_and_of_all_else_the_sum() {
        let counters = |packets, peak_inline_bytes| Counters {
            packets,
            peak_inline_bytes,
            ..Counters::default()
        };
        let mut ranks = [Closing::default(), Closing::default()];
        ranks[1].close(None, Deeds::default(), &counters(5, 7));
        ranks[0].close(None, Deeds::default(), &counters(1, 3));
        let Some(Next::Up(account)) = ranks[1].next(&TreePlace::of(Rank(1), 2)) else {
            panic!("the root decides")
        };
        assert!(ranks[0].hear(Rank(1), account));
        let Some(Next::Down(account)) = ranks[0].next(&TreePlace::of(Rank(0), 2)) else {
            panic!("all are done")
        };
        assert_eq!(totals(&account), counters(6, 7));
    }

    proptest! {
        #[test]
        fn all_ranks_report_the_smallest_failure_and_the_sum(failures in prop::collection::vec(prop::option::of(0u64..50), 1..20)) {
            let deeds = Deeds { executed: 3, sent: 5, delivered: 5, ..Deeds::default() };
            let account = close(&vec![deeds; failures.len()], &failures);
            prop_assert_eq!(account.failure.map(|failure| failure.index), failures.iter().copied().flatten().min());
            prop_assert_eq!(account.numbers[0], 3 * failures.len() as u64);
        }
    }
}
