//! Many ranks: what a rank keeps and says depends on those it speaks to, and all learn what matters.

use crate::crowded::{Crowd, STEP, parcel};
use dataflow_core::port::{Failure, Pulse};
use dataflow_core::rank::Rank;
use dataflow_mpi::Settings;
use dataflow_mpi::depot::Action;
use dataflow_mpi::transport::Event;
use dataflow_mpi::wire::Kind;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The ranks of a job are at work.
fn at_work(n_ranks: usize) -> Crowd {
    let mut crowd = Crowd::new(n_ranks);
    crowd.open();
    feel(&mut crowd, false, |_| true);
    crowd
}

/// Some have not run everything.
fn feel(crowd: &mut Crowd, idle: bool, is_short: impl Fn(usize) -> bool) {
    for (rank, depot) in crowd.depots.iter_mut().enumerate() {
        depot.pulse(Pulse {
            executed: u64::from(!is_short(rank)),
            count: 1,
            idle,
            used: 0,
        });
    }
}

/// What is said from now on: how often each kind, and to whom.
fn listen(crowd: &mut Crowd) -> Arc<Mutex<BTreeMap<(Kind, Rank), u32>>> {
    let said = Arc::new(Mutex::new(BTreeMap::new()));
    for depot in &mut crowd.depots {
        let said = said.clone();
        depot.tamper(Box::new(move |to, _, message| {
            *said
                .lock()
                .unwrap()
                .entry((message.kind(), to))
                .or_default() += 1;
            1
        }));
    }
    said
}

fn stops(told: &[Action]) -> impl Iterator<Item = &Failure> {
    told.iter().filter_map(|told| match told {
        Action::Stop(failure) => Some(failure),
        _ => None,
    })
}

#[test]
fn a_rank_of_ten_thousand_that_speaks_to_three_keeps_entries_of_these_and_of_its_neighbours() {
    let n_ranks = 10_000;
    let mut crowd = at_work(n_ranks);
    // Odd ranks are leaves of the tree.
    let from = n_ranks - 1;
    let before = crowd.depots[from].n_peers();
    for to in [17, 4_711, 9_001] {
        crowd.depots[from].post(parcel(to), false);
    }
    crowd.pass(Duration::from_secs(1));
    assert_eq!((before, crowd.depots[from].n_peers()), (1, 4));
    assert_eq!(crowd.depots[17].n_peers(), 2, "its parent, and who spoke");
    let most = crowd.depots.iter().map(|depot| depot.n_peers()).max();
    assert_eq!(most, Some(14), "the children of rank 0");
}

#[test]
fn signs_of_life_go_along_the_tree_and_between_those_that_have_spoken() {
    let n_ranks = 256;
    let mut crowd = at_work(n_ranks);
    crowd.pass(Duration::from_secs(2));
    let before = crowd.packets();
    crowd.pass(Duration::from_secs(10));
    let beats = (crowd.packets() - before) / 10;
    let there_and_back = 2 * (n_ranks as u64 - 1);
    assert!(
        (there_and_back * 9 / 10..=there_and_back).contains(&beats),
        "{beats}"
    );
    // Two that have spoken watch each other from then on.
    crowd.depots[101].post(parcel(203), false);
    crowd.settle();
    let said = listen(&mut crowd);
    crowd.pass(Duration::from_secs(10));
    let said = said.lock().unwrap();
    for rank in [101, 203] {
        let beats = said[&(Kind::Beat, Rank(rank))];
        assert!(
            (18..=22).contains(&beats),
            "{beats} from two ranks to rank {rank}"
        );
    }
}

/// Whoever stands beside a dead rank in the tree names it, and whatever part of the tree lives stands
/// beside one.
#[test]
fn ranks_that_die_are_named_by_all_others_within_the_silence_allowed_wherever_they_stand() {
    let n_ranks = 45;
    let alone = (0..n_ranks).map(|dead| vec![dead]);
    let together = [
        vec![0, 32],
        vec![32, 40, 44],
        vec![16, 8, 4, 2, 1],
        vec![0, 16, 24, 28],
    ];
    for dead in alone.chain(together) {
        let mut crowd = at_work(n_ranks);
        crowd.pass(Duration::from_millis(1300));
        crowd.dead.extend(dead.iter().copied());
        crowd.pass(Settings::default().silence + 2 * STEP);
        for (rank, told) in crowd.told.iter().enumerate() {
            if dead.contains(&rank) {
                continue;
            }
            let named: Vec<_> = stops(told).map(|failure| failure.rank.0 as usize).collect();
            let is_right = named.len() == 1 && dead.contains(&named[0]);
            assert!(is_right, "rank {rank} names {named:?}, and {dead:?} died");
        }
    }
}

/// Its neighbours in the tree hear it; whom it has spoken to listens for itself.
#[test]
fn a_rank_that_falls_silent_only_towards_one_that_it_has_spoken_to_is_named_by_that_one() {
    let (silent, listener) = (63, 33);
    let mut crowd = at_work(64);
    crowd.depots[silent].post(parcel(listener), false);
    crowd.settle();
    crowd.depots[silent].tamper(Box::new(move |to, _, message| {
        usize::from(to.0 != listener || message.kind() != Kind::Beat)
    }));
    crowd.pass(Settings::default().silence + 2 * STEP);
    for (rank, told) in crowd.told.iter().enumerate() {
        let texts: Vec<_> = stops(told).map(|failure| &failure.message).collect();
        let is_right =
            texts.len() == 1 && texts[0].contains("rank 63 has been silent towards rank 33");
        assert!(is_right, "rank {rank} is told {texts:?}");
    }
}

#[test]
fn whoever_speaks_for_the_first_time_to_a_rank_that_cannot_go_on_is_told_why() {
    let (knows, asks) = (33, 5);
    let mut crowd = at_work(64);
    crowd
        .dead
        .extend((0..64).filter(|rank| ![knows, asks].contains(rank)));
    crowd.depots[knows].event(Event::Lost(Rank(32), "killed".into()), crowd.now);
    crowd.settle();
    assert_eq!(stops(&crowd.told[asks]).count(), 0);
    crowd.depots[asks].post(parcel(knows as u32), false);
    crowd.settle();
    let named: Vec<Rank> = stops(&crowd.told[asks])
        .map(|failure| failure.rank)
        .collect();
    assert_eq!(named, [Rank(32)]);
}

#[test]
fn a_failure_stops_all_ranks_with_one_word_a_rank() {
    for first in [0, 64, 99] {
        let n_ranks = 100;
        let mut crowd = at_work(n_ranks);
        let said = listen(&mut crowd);
        let failure = Failure {
            of_body: true,
            index: 7,
            name: [1].into_iter().collect(),
            rank: Rank(first as u32),
            kind: "broken_pivot".into(),
            task: "task".into(),
            message: "the pivot is broken".into(),
        };
        crowd.depots[first].abort(failure);
        crowd.settle_one(first);
        for (rank, told) in crowd.told.iter().enumerate() {
            let stopped = stops(told).filter(|failure| failure.index == 7).count();
            assert_eq!(stopped, usize::from(rank != first), "rank {rank}");
        }
        let said = said.lock().unwrap();
        let words = said.iter().filter(|((kind, _), _)| *kind == Kind::Abort);
        assert_eq!(
            words.map(|(_, times)| times).sum::<u32>(),
            n_ranks as u32 - 1
        );
    }
}

#[test]
fn that_ranks_have_nothing_to_run_reaches_the_root_along_the_tree_and_all_report_a_stall() {
    // Rank 99 hangs on 98, 96, 64 and 0.
    for (first_short, most_words) in [(99, 4), (0, 99)] {
        let mut crowd = at_work(100);
        let said = listen(&mut crowd);
        feel(&mut crowd, true, |rank| rank >= first_short);
        crowd.pass(Duration::from_secs(1));
        for (rank, told) in crowd.told.iter().enumerate() {
            let is_told = told.iter().any(|told| matches!(told, Action::Stall));
            assert!(is_told, "rank {rank}");
        }
        let said = said.lock().unwrap();
        let words = said.iter().filter(|((kind, _), _)| *kind == Kind::Dry);
        let words: u32 = words.map(|(_, times)| times).sum();
        assert!((4..=most_words).contains(&words), "{words}");
    }
}
