//! A bug in each kind of message is found by what these tests look at.
//!
//! Three or four ranks live through a story; a verdict is passed on it, as any test of this crate would:
//! results, errors, counters, and that the world comes to its end. Without a bug every verdict is
//! good. Then a bug is planted in what the ranks say, and the verdict must not be.

use crate::engine::{End, Graph, Task, in_world, run};
use dataflow_core::port::Courier;
use dataflow_core::rank::Rank;
use dataflow_mpi::transport::simulated::{Weather, spend};
use dataflow_mpi::wire::{Kind, Message, RunStage};
use dataflow_mpi::{Counters, Messenger, Settings};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

// ── Stories ──────────────────────────────────────────────────────────────────────────────────────

#[derive(Clone, Copy, Debug, PartialEq)]
enum Story {
    /// A graph with small and large data runs twice.
    Plain,
    /// The same while posts wait for receipts.
    Blocking,
    /// A task waits for one that does not know of it.
    Stalled,
    /// A body fails and stops the run.
    Failing,
    /// Ranks that take no more than they need shall pass on along trees, and hand that back.
    Sated,
    /// One body takes a minute.
    Patient,
    /// Rank 1 leaves after the first of two runs.
    Leaving,
    /// Rank 1 miscounts its activations, so nobody can go on with it.
    Breaking,
}

const FAILS: usize = 40;

fn chain(seconds: [f64; 3]) -> Vec<Task> {
    let task = |rank: usize| Task {
        owner: Rank(rank as u32),
        inputs: if rank == 0 { vec![] } else { vec![rank - 1] },
        sizes: vec![Some(8)],
        seconds: seconds[rank],
        priority: 0,
    };
    (0..3).map(task).collect()
}

impl Story {
    fn graph(self) -> Arc<Graph> {
        let mut graph = match self {
            Story::Stalled => Graph::new(3, chain([1e-3; 3])),
            Story::Patient => Graph::new(3, chain([60.0, 0.0, 0.0])),
            _ => Graph::random(7, self.n_ranks(), 200),
        };
        let changed = Arc::get_mut(&mut graph).unwrap();
        match self {
            Story::Stalled => changed.forget_edge(0, 1),
            Story::Failing => changed.fails = Some((FAILS, true)),
            _ => {}
        }
        graph
    }

    fn n_ranks(self) -> usize {
        match self {
            Story::Sated => 4, // of three, none passes on
            _ => 3,
        }
    }

    fn n_runs(self) -> usize {
        match self {
            Story::Plain | Story::Leaving => 2,
            _ => 1,
        }
    }

    /// What is wrong with how a rank's runs ended.
    fn judge(self, rank: usize, ends: &[End]) -> Result<(), String> {
        let of = |what: bool| match what {
            true => Ok(()),
            false => Err(format!("rank {rank}: {ends:?}")),
        };
        let fails_with = |end: &End, part: &str| match &end.result {
            Err((_, text)) => text.contains(part),
            Ok(_) => false,
        };
        match (self, ends) {
            (Story::Plain | Story::Blocking | Story::Sated | Story::Patient, ends) => {
                of(ends.iter().all(End::is_good))
            }
            (Story::Stalled, [end]) => of(end.stalled || end.complete),
            (Story::Failing, [end]) => of(matches!(
                &end.result,
                Ok(Some(failure)) if failure.index == FAILS as u64 && failure.kind == "broken_pivot"
            )),
            (Story::Leaving, [first]) => of(rank == 1 && first.is_good()),
            (Story::Leaving, [first, second]) => {
                of(first.is_good() && fails_with(second, "rank 1 has left"))
            }
            (Story::Breaking, [end]) => of(fails_with(end, "rank 1 sent: activation")),
            _ => of(false),
        }
    }
}

/// How the world of a story ended; the bug is told every message.
fn verdict(story: Story, bug: Bug) -> Result<(), String> {
    let weather = Weather {
        deadline: Duration::from_secs(5_000),
        ..Weather::default()
    };
    let settings = Settings {
        credit_bytes: 8 << 10,
        blocking: story == Story::Blocking,
        ..match story {
            Story::Sated => Settings {
                star_ranks: 1,
                held_bytes: 0,
                ..Settings::default()
            },
            _ => Settings::default(),
        }
    };
    let graph = story.graph();
    let crossing = graph.crossing();
    let world = catch_unwind(AssertUnwindSafe(|| {
        in_world(
            weather,
            story.n_ranks(),
            &settings,
            move |messenger, world| {
                tamper(&messenger, story, bug.clone());
                let host = world.host(messenger.rank());
                let is_leaving = story == Story::Leaving && messenger.rank() == Rank(1);
                let n_runs = if is_leaving { 1 } else { story.n_runs() };
                let runs = (0..n_runs).map(|_| run(&graph, &messenger, &*host));
                let ends: Vec<End> = runs.collect();
                if !is_leaving {
                    spend(Duration::from_secs(15)); // what is still under way arrives
                }
                (ends, messenger.counters())
            },
        )
    }));
    let world = world.map_err(|_| "a rank panicked")?;
    let told = world.map_err(|hung| hung.to_string())?.told;
    for (rank, (ends, _)) in told.iter().enumerate() {
        story.judge(rank, ends)?;
    }
    let sum = |of: fn(&Counters) -> u64| told.iter().map(|(_, own)| of(own)).sum::<u64>();
    let (sent, came) = (sum(|own| own.credits_sent), sum(|own| own.credits_came));
    if story == Story::Plain && sent != came {
        return Err(format!("{sent} credits were sent and {came} came"));
    }
    let messages = sum(|own| own.messages);
    if story == Story::Plain && messages != 2 * crossing.0 {
        return Err(format!(
            "{messages} data were sent, and 2 · {} owed",
            crossing.0
        ));
    }
    let same = told
        .iter()
        .all(|(ends, _)| ends[0].result == told[0].0[0].result);
    match same {
        true => Ok(()),
        false => Err("the first run ended in different ways".into()),
    }
}

// ── Bugs ─────────────────────────────────────────────────────────────────────────────────────────

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The first message of the kind is not said, is said twice, or says something else.
    Dropped,
    Doubled,
    Changed,
    /// None of the kind is ever said.
    NeverSaid,
}

#[derive(Clone)]
struct Bug {
    kind: Kind,
    fault: Fault,
    /// How often it has struck.
    struck: Arc<Mutex<u32>>,
}

fn tamper(messenger: &Messenger, story: Story, bug: Bug) {
    let mut miscounts = story == Story::Breaking && messenger.rank() == Rank(1);
    messenger.tamper(Box::new(move |_, _, message| {
        if let Message::Activate(activate) = message
            && std::mem::take(&mut miscounts)
        {
            activate.number += 1;
        }
        bug.strike(message)
    }));
}

impl Bug {
    fn strike(&self, message: &mut Message<'_>) -> usize {
        let is_meant = match self.fault {
            Fault::None => false,
            _ => message.kind() == self.kind,
        };
        let mut struck = self.struck.lock().unwrap();
        if !is_meant || *struck > 0 && self.fault != Fault::NeverSaid {
            return 1;
        }
        *struck += 1;
        match self.fault {
            Fault::None => 1,
            Fault::Dropped | Fault::NeverSaid => 0,
            Fault::Doubled => 2,
            Fault::Changed => {
                change(message);
                1
            }
        }
    }
}

/// Something in it is no longer what it was.
fn change(message: &mut Message<'_>) {
    match message {
        Message::Hello { settings, .. } => settings[0].1.push('0'),
        Message::Welcome { disagreement } => *disagreement = "n differs".into(),
        Message::Activate(activate) => {
            let flow = activate.flows.iter_mut().flat_map(|flow| &mut flow.datum);
            for datum in flow {
                datum.size += 1;
            }
            activate.task[0] += 1;
        }
        Message::Get(get) => get.offset += 1,
        Message::Credit { arrived } => *arrived += 1 << 40,
        Message::Receipt { number } | Message::Relieve { number } => *number += 1 << 20,
        Message::Tally { tally, .. } => tally.sent += 1,
        Message::Wave { round } | Message::Quiet { round } => *round += 7,
        Message::Close(account) | Message::Closed(account) => account.numbers[1] += 1,
        Message::Abort(failure) | Message::Broken(failure) => {
            failure.index = 0;
            failure.message.insert_str(0, "no: ");
        }
        Message::Beat { stage, .. } => *stage = RunStage::Closed,
        Message::Dry | Message::Bye => unreachable!("nothing to change"),
    }
}

/// In which stories a bug of a kind must be found, and which bugs.
fn bugs_of(kind: Kind) -> (Story, &'static [Fault]) {
    use Fault::*;
    match kind {
        Kind::Hello | Kind::Welcome => (Story::Plain, &[Dropped, Doubled, Changed, NeverSaid]),
        Kind::Activate | Kind::Get => (Story::Plain, &[Dropped, Doubled, Changed, NeverSaid]),
        Kind::Relieve => (Story::Sated, &[Dropped, Doubled, Changed, NeverSaid]),
        Kind::Close => (Story::Plain, &[Dropped, Doubled, Changed, NeverSaid]),
        Kind::Closed => (Story::Plain, &[Dropped, NeverSaid]),
        // A credit lost is made good by the next one; that it was lost is counted.
        Kind::Credit => (Story::Plain, &[Dropped, Changed, NeverSaid]),
        Kind::Receipt => (Story::Blocking, &[Dropped, Changed, NeverSaid]),
        // A wave that is lost is made again, so only bugs for good are found.
        Kind::Dry | Kind::Wave | Kind::Tally | Kind::Quiet => (Story::Stalled, &[NeverSaid]),
        // A failure that is not told comes with the account of its rank.
        Kind::Abort => (Story::Failing, &[Changed]),
        Kind::Beat => (Story::Patient, &[NeverSaid]),
        // Who has not heard that a rank left hears it from those who have, when a run is opened.
        Kind::Bye => (Story::Leaving, &[NeverSaid]),
        Kind::Broken => (Story::Breaking, &[Changed, NeverSaid]),
    }
}

const ALL: [Story; 8] = [
    Story::Plain,
    Story::Blocking,
    Story::Sated,
    Story::Stalled,
    Story::Failing,
    Story::Patient,
    Story::Leaving,
    Story::Breaking,
];

fn bug(kind: Kind, fault: Fault) -> Bug {
    Bug {
        kind,
        fault,
        struck: Arc::default(),
    }
}

#[test]
fn without_a_bug_every_verdict_is_good() {
    for story in ALL {
        assert_eq!(
            verdict(story, bug(Kind::Hello, Fault::None)),
            Ok(()),
            "{story:?}"
        );
    }
}

#[test]
fn a_bug_in_each_kind_of_message_is_found() {
    let mut missed = Vec::new();
    for &kind in Kind::ALL {
        let (story, faults) = bugs_of(kind);
        for &fault in faults {
            let bug = bug(kind, fault);
            let verdict = verdict(story, bug.clone());
            let struck = *bug.struck.lock().unwrap();
            assert!(struck > 0, "{kind:?} was not said in {story:?}");
            println!("{kind:?} {fault:?} in {story:?}: {verdict:?}");
            if verdict.is_ok() {
                missed.push((kind, fault, story));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
