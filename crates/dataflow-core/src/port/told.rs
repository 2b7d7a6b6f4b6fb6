//! What the engine can tell an executor of a ready task, beyond its priority: where its data lie,
//! what kind of task it is, how long such tasks took.
//!
//! # Law
//! All of it is meta-data, possibly wrong: it may decide when and where a task runs, never what
//! it computes. NUMA nodes are numbered as the executor numbers them; data that do not know
//! where they lie say so. Of spaces whose edges carry no data nothing is told.

use super::Word;

/// How much a lane wants to be told of tasks. The less, the less each task costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wants {
    /// Word and priority.
    #[default]
    Priorities,
    /// Also where data lie: hints, and the bytes that tasks read.
    Places,
    /// Also classes, and how long bodies took.
    Everything,
}

/// What is known of where a task's data lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Nothing: it stays with the worker that made it ready.
    #[default]
    None,
    /// It touches its data first: its node will be theirs.
    Initialises,
    /// Most of its input bytes lie on this NUMA node.
    Node(usize),
}

/// A ready task as an executor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ready {
    /// Its name for the engine; means nothing to anybody else.
    pub word: Word,
    /// Higher is more urgent; 0 is the default.
    pub priority: i64,
    /// Where its data lie.
    pub hint: Hint,
    /// The index of its class in the space's description, if the engine said so.
    pub class: Option<usize>,
}

impl Ready {
    /// A task of which nothing but its priority is known.
    pub fn new(word: Word, priority: i64) -> Self {
        Ready {
            word,
            priority,
            hint: Hint::None,
            class: None,
        }
    }

    /// The same, with what is known of where its data lie.
    pub fn with_hint(self, hint: Hint) -> Self {
        Ready { hint, ..self }
    }

    /// The same, with the index of its class.
    pub fn with_class(self, class: usize) -> Self {
        Ready {
            class: Some(class),
            ..self
        }
    }
}

/// The NUMA node with most bytes, of pairs of a node and bytes that lie there; a node may be
/// named more than once. Of several it is the one named first.
///
/// ```
/// use dataflow_core::port::most_bytes;
///
/// assert_eq!(most_bytes([(3, 100), (1, 60), (1, 60)]), Some(1));
/// assert_eq!(most_bytes([(3, 100), (1, 100)]), Some(3));
/// assert_eq!(most_bytes([]), None);
/// ```
///
/// Cost: a comparison per pair of pairs; tasks have few inputs.
pub fn most_bytes<P>(pieces: P) -> Option<usize>
where
    P: IntoIterator<Item = (usize, u64)>,
    P::IntoIter: Clone,
{
    let pieces = pieces.into_iter();
    let bytes_on = |node: usize| -> u64 {
        let there = pieces.clone().filter(|&(other, _)| other == node);
        there.map(|(_, bytes)| bytes).sum()
    };
    let mut best = None;
    for (node, _) in pieces.clone() {
        let bytes = bytes_on(node);
        if best.is_none_or(|(_, most)| bytes > most) {
            best = Some((node, bytes));
        }
    }
    best.map(|(node, _)| node)
}
