//! Agreement: all ranks open the same run, or learn what differs.
//!
//! Terms go up the tree; each rank compares its children's with its own, and the first difference
//! goes up in their place. The root's answer goes down.
//!
//! # Law
//! A run begins on no rank before every rank has opened it; all begin, or none.

use crate::family::{FromChildren, TreePlace};
use dataflow_core::rank::Rank;

/// Names and values, in the same order on every rank.
pub type NamedValues = Vec<(String, String)>;

/// One rank's part in agreeing.
#[derive(Debug, Default)]
pub struct Agreement {
    own: Option<NamedValues>,
    heard: FromChildren<(NamedValues, String)>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Tell the parent.
    Up {
        /// This rank's terms.
        settings: NamedValues,
        /// What differs below; empty if nothing.
        disagreement: String,
    },
    /// Tell the children, and begin: this is the root.
    Down {
        /// What differs; empty if nothing.
        disagreement: String,
    },
}

impl Agreement {
    /// This rank opens the run.
    pub fn open(&mut self, settings: NamedValues) {
        self.own = Some(settings);
    }

    /// A child and all below it have opened it; false if it said so before.
    #[must_use]
    pub fn hear(&mut self, child: Rank, settings: NamedValues, disagreement: String) -> bool {
        self.heard.hear(child, (settings, disagreement)).is_none()
    }

    /// Who below has not opened the run.
    pub fn missing<'f>(&'f self, family: &'f TreePlace) -> impl Iterator<Item = Rank> + 'f {
        let children = family.children.iter().copied();
        children.filter(|child| !self.heard.has_heard(*child))
    }

    /// Whether this rank has told its parent, or decided.
    pub fn has_said(&self) -> bool {
        self.own.is_none()
    }

    /// What to do, once this rank and all below it have opened the run; once.
    pub fn next(&mut self, me: Rank, family: &TreePlace) -> Option<Next> {
        if !self.heard.has_heard_all(family) {
            return None;
        }
        let settings = self.own.take()?;
        let below = |(child, (theirs, below)): &(Rank, (NamedValues, String))| {
            let differs = difference((me, &settings), (*child, theirs));
            if below.is_empty() {
                differs
            } else {
                Some(below.clone())
            }
        };
        let disagreement = self.heard.all().iter().find_map(below);
        let disagreement = disagreement.unwrap_or_default();
        Some(match family.parent {
            Some(_) => Next::Up {
                settings,
                disagreement,
            },
            None => Next::Down { disagreement },
        })
    }
}

/// The first setting that differs, and both values. A name may stand for several, one after another, as
/// those of the graphs of a series do.
fn difference(a: (Rank, &NamedValues), b: (Rank, &NamedValues)) -> Option<String> {
    let differs = |name: &str, left: &str, right: &str| {
        Some(format!(
            "{name} is {left} on {} and {right} on {}",
            a.0, b.0
        ))
    };
    let mut pairs = a.1.iter().zip(b.1).take_while(|(a, b)| a.0 == b.0);
    if let Some(((name, left), (_, right))) = pairs.find(|(a, b)| a.1 != b.1) {
        return differs(name, left, right);
    }
    // What is left over: of each name the values one by one, and where there is one more, it and none.
    for (name, _) in a.1.iter().chain(b.1) {
        let (mut left, mut right) = (values(a.1, name), values(b.1, name));
        loop {
            match (left.next(), right.next()) {
                (None, None) => break,
                (one, other) if one == other => {}
                (one, other) => {
                    let [one, other] = [one, other].map(|value| value.unwrap_or("not there"));
                    return differs(name, one, other);
                }
            }
        }
    }
    let order = a.1 != b.1;
    order.then(|| {
        format!(
            "{} and {} name their settings in different orders",
            a.0, b.0
        )
    })
}

/// All values that a name stands for, in their order.
fn values<'s>(settings: &'s NamedValues, name: &'s str) -> impl Iterator<Item = &'s str> {
    let of_name = settings.iter().filter(move |(own, _)| own == name);
    of_name.map(|(_, value)| &value[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(values: &[(&str, &str)]) -> NamedValues {
        values
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    /// What the root decides when each of the ranks has these terms.
    fn decide(terms: &[NamedValues]) -> String {
        let mut ranks: Vec<Agreement> = terms.iter().map(|_| Agreement::default()).collect();
        for rank in (0..terms.len()).rev() {
            let (me, family) = (
                Rank(rank as u32),
                TreePlace::of(Rank(rank as u32), terms.len()),
            );
            ranks[rank].open(terms[rank].clone());
            match ranks[rank].next(me, &family) {
                Some(Next::Up {
                    settings,
                    disagreement,
                }) => {
                    let parent = family.parent.unwrap().0 as usize;
                    assert!(ranks[parent].hear(me, settings, disagreement));
                }
                Some(Next::Down { disagreement }) => return disagreement,
                None => unreachable!("all below have opened it"),
            }
        }
        unreachable!("rank 0 decides")
    }

    #[test]
    fn ranks_that_differ_are_told_the_setting_and_both_values() {
        let same = terms(&[("n", "4000"), ("nb", "256")]);
        for n in 1..10 {
            assert_eq!(decide(&vec![same.clone(); n]), "");
            for odd in 1..n {
                for (name, other) in [
                    ("n", terms(&[("n", "2000"), ("nb", "256")])),
                    ("nb", terms(&[("n", "4000")])),
                ] {
                    let mut all = vec![same.clone(); n];
                    all[odd] = other;
                    let text = decide(&all);
                    let starts = text.starts_with(&format!("{name} is "));
                    assert!(starts && text.contains(&format!("rank {odd}")), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_setting_that_stands_for_several_is_told_where_it_differs() {
        let series = |m: &str, last: &str| {
            terms(&[("m", "9"), ("n", "9"), ("m", m), ("n", last), ("nb", "3")])
        };
        let text = decide(&[series("9", "1"), series("9", "2")]);
        assert_eq!(text, "n is 1 on rank 0 and 2 on rank 1");
        let longer = [terms(&[("m", "9"), ("side", "left")]), terms(&[("m", "9")])];
        let text = decide(&longer);
        assert_eq!(text, "side is left on rank 0 and not there on rank 1");
        // They were said to be in different orders.
        let once_more = [terms(&[("m", "9")]), terms(&[("m", "9"), ("m", "8")])];
        let text = decide(&once_more);
        assert_eq!(text, "m is not there on rank 0 and 8 on rank 1");
        let inside = [
            terms(&[("m", "9"), ("m", "7"), ("n", "1")]),
            terms(&[("m", "9"), ("n", "1")]),
        ];
        let text = decide(&inside);
        assert_eq!(text, "m is 7 on rank 0 and not there on rank 1");
        let turned = [
            terms(&[("m", "9"), ("n", "8")]),
            terms(&[("n", "8"), ("m", "9")]),
        ];
        assert!(decide(&turned).contains("different orders"));
    }

    #[test]
    fn nothing_is_decided_before_all_below_have_opened_the_run() {
        let family = TreePlace::of(Rank(0), 3);
        let mut root = Agreement::default();
        root.open(terms(&[]));
        assert_eq!(root.next(Rank(0), &family), None);
        assert!(root.hear(Rank(2), terms(&[]), String::new()));
        assert!(root.missing(&family).eq([Rank(1)]));
        assert!(root.hear(Rank(1), terms(&[]), String::new()));
        assert!(!root.hear(Rank(1), terms(&[]), String::new()), "said twice");
        assert!(root.next(Rank(0), &family).is_some());
        assert_eq!(root.next(Rank(0), &family), None, "decided once");
    }
}
