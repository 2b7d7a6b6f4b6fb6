//! What the engine tells an executor of a ready task: its word, and optional hints beyond its priority, where
//! its data lie, what class of task it is, how long such tasks took.
//!
//! # Law
//! A hint may be wrong: it may decide when and where a task runs, never what it computes. NUMA nodes are
//! numbered as the executor numbers them; data that do not know where they lie say so. For spaces whose
//! edges carry no data there are no hints.

/// A ready task as queues see it.
pub type Word = u64;

/// Which hints a lane wants. The fewer, the less each task costs.
///
/// # Examples
/// A [`Lane`](super::Lane) answers one of them; what it is then told, [`Ready`](Ready#examples) shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wants {
    /// None: word and priority only.
    #[default]
    Priorities,
    /// Also where data lie: hints, and the bytes that tasks read.
    Places,
    /// Also the classes of tasks, and how long bodies took.
    Everything,
}

/// Where a task's data lie, as far as that is known.
///
/// # Examples
/// See [`Ready`](Ready#examples).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Not known: the task stays with the worker that made it ready.
    #[default]
    None,
    /// The task touches its data first: they will lie on the node where it runs.
    Initialises,
    /// Most of its input bytes lie on this NUMA node.
    Node(usize),
}

/// A ready task as an executor sees it.
///
/// # Examples
/// A task of the third class, most of whose data lie on NUMA node 1:
/// ```
/// use dataflow_core::port::{Hint, Ready};
///
/// let ready = Ready::new(7, 0).with_hint(Hint::Node(1)).with_class(2);
/// assert_eq!((ready.word, ready.hint, ready.class), (7, Hint::Node(1), Some(2)));
/// assert_eq!(Ready::new(7, 0).hint, Hint::None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ready {
    /// By which the engine knows it; opaque to all others.
    pub word: Word,
    /// Higher is more urgent; 0 is the default.
    pub priority: i64,
    /// Where its data lie.
    pub hint: Hint,
    /// The index of its class in the space's description, if the engine said so.
    pub class: Option<usize>,
}

impl Ready {
    /// A task without hints.
    pub fn new(word: Word, priority: i64) -> Self {
        Ready {
            word,
            priority,
            hint: Hint::None,
            class: None,
        }
    }

    /// The same, with a hint where its data lie.
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
/// assert_eq!(most_bytes([(3, u64::MAX), (1, 1 << 63), (1, 1 << 63)]), Some(1));
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
    let bytes_on = |node: usize| -> u128 {
        let there = pieces.clone().filter(|&(other, _)| other == node);
        there.map(|(_, bytes)| u128::from(bytes)).sum()
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
