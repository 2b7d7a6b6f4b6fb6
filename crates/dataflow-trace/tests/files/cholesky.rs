//! A run that never happened: a tile Cholesky factorisation on a machine of paper, for pictures.

use crate::traces::Dice;
use dataflow_core::rank::Rank;
use dataflow_core::trace::{Came, Posted, RankTrace, Slice, Span, Trace};
use std::collections::BTreeMap;

/// Kinds of tasks by their classes, with the time of a body in nanoseconds.
const CLASSES: [(&str, u64); 4] = [
    ("Potrf", 300_000),
    ("Trsm", 420_000),
    ("Syrk", 450_000),
    ("Gemm", 800_000),
];
/// How long a message takes.
const FLIGHT: u64 = 600_000;
/// Numbers of tasks end with their panel: that is their iteration.
const PANELS: u64 = 1_000;

struct Task {
    class: usize,
    /// Which tile it writes.
    tile: (u64, u64),
    panel: u64,
    inputs: Vec<usize>,
}

/// Of `t × t` tiles on `p × q` ranks with so many workers each.
pub fn trace(t: u64, (p, q): (u64, u64), workers: usize) -> Trace {
    let tasks = tasks(t);
    let rank = |tile: (u64, u64)| ((tile.0 % p) * q + tile.1 % q) as usize;
    let n_ranks = (p * q) as usize;
    let mut dice = Dice(1);
    let mut free = vec![vec![0_u64; workers]; n_ranks];
    let mut of = vec![vec![Vec::new(); workers]; n_ranks];
    let mut inputs: BTreeMap<u64, Vec<(u64, Rank)>> = BTreeMap::new();
    let mut ends: Vec<u64> = Vec::new();
    let mut sent: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let (mut posted, mut came) = (vec![Vec::new(); n_ranks], vec![Vec::new(); n_ranks]);
    let number = |index: usize| index as u64 * PANELS + tasks[index].panel;
    for (index, task) in tasks.iter().enumerate() {
        let own = rank(task.tile);
        let mut ready = 0;
        for &input in &task.inputs {
            let from = rank(tasks[input].tile);
            if from != own {
                let arrival = *sent.entry((input, own)).or_insert_with(|| {
                    let (at, bytes) = (ends[input] + 2_000, 192 * 192 * 8);
                    let arrival = at + FLIGHT + dice.below(FLIGHT);
                    let task = number(input);
                    posted[from].push(Posted {
                        task,
                        at,
                        to: Rank(own as u32),
                        bytes,
                        left: None,
                    });
                    came[own].push(Came {
                        task,
                        at: arrival,
                        from: Rank(from as u32),
                        bytes,
                        ..Came::default()
                    });
                    arrival
                });
                ready = ready.max(arrival);
            } else {
                ready = ready.max(ends[input]);
            }
            inputs
                .entry(number(index))
                .or_default()
                .push((number(input), Rank(from as u32)));
        }
        let worker = (0..workers)
            .min_by_key(|&worker| free[own][worker].max(ready))
            .unwrap_or(0);
        let begin = free[own][worker].max(ready) + 3_000;
        let stolen = dice.below(8) == 0;
        let length =
            CLASSES[task.class].1 * (95 + dice.below(12) + if stolen { 25 } else { 0 }) / 100;
        let span = Span {
            begin,
            end: begin + length,
        };
        free[own][worker] = span.end;
        ends.push(span.end);
        let class = task.class as u16;
        of[own][worker].push(Slice {
            task: number(index),
            span,
            class,
            stolen,
            ..Slice::default()
        });
    }
    let end = ends.iter().max().copied().unwrap_or(0) + 1_000_000;
    let ranks = of.into_iter().enumerate().map(|(index, workers)| {
        let mut rank = RankTrace::new(Rank(index as u32), Span { begin: 0, end }, workers);
        (rank.posted, rank.came) = (
            std::mem::take(&mut posted[index]),
            std::mem::take(&mut came[index]),
        );
        rank.with_inputs(|_, slice| inputs.get(&slice.task).cloned().unwrap_or_default())
    });
    let mut trace = Trace::new("Cholesky", CLASSES.map(|(name, _)| name), ranks.collect());
    let parameters = [
        ("tiles", format!("{t} × {t}")),
        ("nb", "192".to_string()),
        ("grid", format!("{p} × {q}")),
    ];
    trace.parameters = parameters
        .map(|(name, value)| (name.to_string(), value))
        .to_vec();
    trace
}

/// The tasks in an order in which inputs come first.
fn tasks(t: u64) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut written: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    let mut push = |class, tile, panel, read: &[(u64, u64)]| {
        let tiles = read.iter().chain([&tile]);
        let inputs = tiles
            .filter_map(|tile| written.get(tile).copied())
            .collect();
        written.insert(tile, tasks.len());
        tasks.push(Task {
            class,
            tile,
            panel,
            inputs,
        });
    };
    for k in 0..t {
        push(0, (k, k), k, &[]);
        for m in k + 1..t {
            push(1, (m, k), k, &[(k, k)]);
        }
        for m in k + 1..t {
            push(2, (m, m), k, &[(m, k)]);
            for n in k + 1..m {
                push(3, (m, n), k, &[(m, k), (n, k)]);
            }
        }
    }
    tasks
}
