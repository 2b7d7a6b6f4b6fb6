//! Traces: random ones, and what every file of one must say.

use dataflow_core::rank::Rank;
use dataflow_core::trace::{Came, Fate, Posted, RankTrace, Slice, Span, Trace};
use dataflow_trace::{Format, View};
use std::collections::{BTreeMap, BTreeSet};

/// Names that break what does not escape.
pub const CLASSES: [&str; 4] = ["Potrf", "Tr\"sm\\<T>", "a & 'b'\nü", "Gemm"];

/// A trace from a seed, with up to so many tasks on a worker.
pub fn random(seed: u64, most: u64) -> Trace {
    let mut dice = Dice(seed);
    let n_ranks = dice.below(4) as u32;
    let mut ranks: Vec<RankTrace> = (0..n_ranks)
        .map(|rank| rank_of(rank, most, &mut dice))
        .collect();
    let mut inputs: BTreeMap<(u32, u64), Vec<(u64, Rank)>> = BTreeMap::new();
    for from in 0..ranks.len() {
        for index in 0..ranks[from].slices.len() {
            let to = dice.below(u64::from(n_ranks)) as usize;
            if to == from || dice.below(3) > 0 {
                continue;
            }
            let slice = ranks[from].slices[index];
            let (at, bytes) = (slice.span.end + dice.below(9), dice.below(5000));
            let came = at + dice.below(60);
            let (of, to_rank) = (ranks[from].rank, ranks[to].rank);
            ranks[from].posted.push(Posted {
                task: slice.task,
                at,
                to: to_rank,
                bytes,
                left: None,
            });
            ranks[to].came.push(Came {
                task: slice.task,
                at: came,
                from: of,
                bytes,
                ..Came::default()
            });
            let reader = ranks[to]
                .slices
                .iter()
                .find(|reader| reader.span.begin >= came);
            if let Some(reader) = reader {
                inputs
                    .entry((to_rank.0, reader.task))
                    .or_default()
                    .push((slice.task, of));
            }
        }
    }
    let ranks = ranks.into_iter().map(|rank| {
        let number = rank.rank.0;
        let of = |slice: &Slice| {
            inputs
                .get(&(number, slice.task))
                .cloned()
                .unwrap_or_default()
        };
        rank.with_inputs(|_, slice| of(slice))
    });
    let mut trace = Trace::new("random <&> \"run\"", CLASSES, ranks.collect());
    trace.parameters = vec![("n <tiles>".into(), "7 & \"8\"".into())];
    trace
}

fn rank_of(rank: u32, most: u64, dice: &mut Dice) -> RankTrace {
    let number = 2 * rank + 1;
    let begin = dice.below(20);
    let mut task = 0;
    let mut end = begin;
    let mut workers = Vec::new();
    for _ in 0..dice.below(4) {
        let mut now = begin;
        let mut slices = Vec::new();
        for _ in 0..dice.below(most + 1) {
            let from = now + dice.below(3) * dice.below(30);
            now = from + dice.below(40);
            slices.push(Slice {
                task,
                span: Span {
                    begin: from,
                    end: now,
                },
                class: dice.below(CLASSES.len() as u64 + 1) as u16,
                fate: [Fate::Ran, Fate::Ran, Fate::Ran, Fate::Skipped, Fate::Failed]
                    [dice.below(5) as usize],
                stolen: dice.below(2) == 0,
                copied: dice.below(2) == 0,
                ..Slice::default()
            });
            task += 1;
        }
        end = end.max(now);
        workers.push(slices);
    }
    let mut of_rank = RankTrace::new(
        Rank(number),
        Span {
            begin,
            end: end + dice.below(100),
        },
        workers,
    );
    of_rank.missing = dice.below(2);
    of_rank
}

/// Numbers from a seed (SplitMix).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

/// A task as files show it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Body {
    pub class: String,
    /// From when to when.
    pub span: (u64, u64),
    /// `stolen`, `copied`, `from afar`, `skipped`, `failed`: those that hold.
    pub marks: BTreeSet<String>,
}

impl Body {
    fn of(trace: &Trace, slice: &Slice) -> Body {
        let marks = [
            (slice.stolen, "stolen"),
            (slice.copied, "copied"),
            (slice.from_afar, "from afar"),
            (slice.fate == Fate::Skipped, "skipped"),
            (slice.fate == Fate::Failed, "failed"),
        ];
        let marks = marks.into_iter().filter(|(holds, _)| *holds);
        Body {
            class: trace.class(slice).to_string(),
            span: (slice.span.begin, slice.span.end),
            marks: marks.map(|(_, mark)| mark.to_string()).collect(),
        }
    }
}

/// The tasks of each worker (rank, worker), sorted; workers without tasks too.
pub fn bodies(trace: &Trace) -> BTreeMap<(u32, usize), Vec<Body>> {
    let mut bodies: BTreeMap<_, Vec<Body>> = BTreeMap::new();
    for rank in &trace.ranks {
        for (worker, of) in rank.workers.iter().enumerate() {
            let slices = rank.slices[of.slices.clone()].iter();
            let mut own: Vec<Body> = slices.map(|slice| Body::of(trace, slice)).collect();
            own.sort();
            bodies.insert((rank.rank.0, worker), own);
        }
    }
    bodies
}

/// A message as files show it: from, to, posted, taken in, bytes.
pub type Arrow = (u32, u32, u64, u64, u64);

/// All messages, sorted.
pub fn arrows(trace: &Trace) -> Vec<Arrow> {
    let number = |rank: usize| trace.ranks[rank].rank.0;
    let messages = trace.messages().iter();
    let mut arrows: Vec<Arrow> = messages
        .map(|it| {
            (
                number(it.from),
                number(it.to),
                it.span.begin,
                it.span.end,
                it.bytes,
            )
        })
        .collect();
    arrows.sort();
    arrows
}

/// A file in memory.
pub fn file(view: &View<'_>, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    view.write_to(format, &mut out)
        .expect("memory takes everything");
    out
}

/// The same, as text.
pub fn text(view: &View<'_>, format: Format) -> String {
    String::from_utf8(file(view, format)).expect("the format is text")
}
