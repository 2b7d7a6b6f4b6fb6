//! Words out of turn, and how a rank that ends, stops or leaves is heard: what no run of all ranks shows.

use super::*;
use crate::wire::{Account, Activate, Get, Onward, RunStage};
use dataflow_core::space::counts::Sending;

fn world(n_ranks: usize, settings: &Settings) -> Vec<Depot> {
    let new = |rank| {
        let memory = Arc::new(Heap);
        Depot::new(Rank(rank), n_ranks, LIMITS, settings.clone(), memory)
    };
    (0..n_ranks as u32).map(new).collect()
}

#[test]
fn a_word_about_beginning_or_end_that_comes_from_elsewhere_or_too_early_is_refused() {
    let welcome = || Message::Welcome {
        disagreement: String::new(),
    };
    let closed = || {
        Message::Closed(Account {
            failure: None,
            numbers: vec![0; 5],
        })
    };
    for (from, is_open, word, told) in [
        (1, false, welcome as fn() -> Message<'static>, "a WELCOME"),
        (0, true, welcome, "a WELCOME"),
        (0, true, closed, "a CLOSED"),
        (1, true, closed, "a CLOSED"),
    ] {
        let mut depots = world(3, &Settings::default());
        match is_open {
            true => open(&mut depots),
            false => {
                for depot in &mut depots {
                    depot.open(&Terms::default(), NOW);
                }
            }
        }
        depots[from].say(Rank(2), word());
        pass(&mut depots, |_, to| to != Rank(2));
        let broken = depots[2].broken().map(|failure| &*failure.message);
        let is_told = broken.is_some_and(|text| text.contains(told));
        assert!(is_told, "{told} of rank {from}: {broken:?}");
    }
}

#[test]
fn a_rank_whose_children_have_not_opened_the_run_does_not_say_that_it_has() {
    let mut depots = world(4, &Settings::default());
    for rank in [0, 1, 2] {
        depots[rank].open(&Terms::default(), NOW); // rank 3 below rank 2 has not
    }
    pass(&mut depots, |_, _| false);
    depots[2].beat(Rank(0));
    pass(&mut depots, |_, _| false);
    assert_eq!(depots[0].broken(), None);
    assert!(RunStage::Apart < RunStage::Open);
}

#[test]
fn a_beat_of_a_run_that_has_ended_is_no_message_that_came_too_late() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    assert_eq!(close(&mut depots), [Ok(None), Ok(None)]);
    depots[1].beat(Rank(0));
    exchange(&mut depots);
    assert_eq!(depots[0].counters().stale_dropped, 0);
}

#[test]
fn a_beat_says_how_many_bytes_have_come() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[1].run.note_bytes(Rank(0), 100, NOW);
    depots[1].beat(Rank(0));
    let later = NOW + Duration::from_millis(1);
    exchange_at(&mut depots, later);
    let peer = depots[0]
        .run
        .peers
        .get(Rank(1))
        .map(|peer| peer.bytes_there);
    assert!(peer.is_none(), "nothing was exchanged with it");
    depots[0].run.peer(Rank(1));
    depots[1].beat(Rank(0));
    exchange_at(&mut depots, later);
    let peer = depots[0].run.peer(Rank(1));
    assert_eq!((peer.bytes_there, peer.moved), (100, later));
}

#[test]
fn a_stall_is_told_where_a_rank_still_runs_and_has_not_failed() {
    let runs = |_: &mut Depot| {};
    let closed = |depot: &mut Depot| depot.close(None);
    let failed = |depot: &mut Depot| depot.abort(failure(Rank(1), "cancelled", ""));
    for (before, is_told) in [
        (runs as fn(&mut Depot), true),
        (closed, false),
        (failed, false),
    ] {
        let mut depots = pair(LIMITS);
        open(&mut depots);
        before(&mut depots[1]);
        depots[1].run.tallied = Some(depots[1].run.parcels());
        assert!(depots[1].heed_quiet(1).is_ok());
        let actions = std::iter::from_fn(|| depots[1].next_action());
        let stalls = actions.filter(|action| matches!(action, Action::Stall));
        assert_eq!(stalls.count() == 1, is_told);
    }
}

/// A rank that says goodbye before it is lost may do so when the end of the run is under way to others.
#[test]
fn whoever_leaves_is_missed_unless_it_says_so_and_may_know_of_the_end() {
    let opens = |depots: &mut [Depot; 2]| depots[1].open(&Terms::default(), NOW);
    let runs = |depots: &mut [Depot; 2]| open(depots);
    let has_closed = |depots: &mut [Depot; 2]| {
        open(depots);
        depots[1].close(None);
    };
    for (before, says_so, is_missed) in [
        (opens as fn(&mut [Depot; 2]), true, true),
        (opens, false, true),
        (runs, true, true),
        (runs, false, true),
        (has_closed, false, true),
        (has_closed, true, false),
    ] {
        let mut depots = pair(LIMITS);
        before(&mut depots);
        depots[1].drive(NOW);
        if says_so {
            depots[1].bye(Rank(0));
        }
        depots[1].event(Event::Lost(Rank(0), "it is gone".into()), NOW);
        let named = depots[1].broken().map(|failure| failure.rank);
        assert_eq!(named.is_some(), is_missed, "it said so: {says_so}");
        assert!(named.is_none_or(|rank| rank == Rank(0)));
        assert!(depots[1].is_flushed(), "nothing waits for it");
    }
}

#[test]
fn a_parcel_for_many_goes_from_rank_to_rank_as_is_told_of_it() {
    let settings = Settings::default();
    for bytes in [10, settings.binary_bytes] {
        let mut depots = world(12, &settings);
        open(&mut depots);
        let mut parcel = parcel(1, &[bytes]);
        parcel.to = (1..12).map(Rank).collect();
        let mut expected = [0; 12];
        let sending = Sending {
            from: Rank(0),
            task: &parcel.task,
            to: &parcel.to,
            bytes: bytes as u64,
        };
        settings.each_hop(&sending, &mut |from, _| expected[from.0 as usize] += 1);
        depots[0].post(parcel, false);
        exchange(&mut depots);
        let sent: Vec<u64> = depots.iter().map(|depot| depot.run.deeds.sent).collect();
        assert_eq!(sent, expected, "{bytes} bytes");
    }
}

#[test]
fn a_datum_as_long_as_may_travel_along_does() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    let most = Settings::default().inline_bytes;
    depots[0].post(parcel(1, &[most, most + 1]), false);
    assert_eq!(depots[0].counters().inline_bytes, most as u64);
    assert_eq!(depots[0].counters().fetched_bytes, most as u64 + 1);
}

#[test]
fn of_several_failures_a_run_keeps_the_smallest_whichever_came_first() {
    let [small, large] = [1, 2].map(|index| Failure {
        index,
        ..failure(Rank(0), "singular", "")
    });
    for order in [[&small, &large], [&large, &small]] {
        let mut run = RunState::new(&Settings::default(), LIMITS);
        for failure in order {
            run.fails(failure.clone());
        }
        assert_eq!(run.failure.as_ref(), Some(&small));
    }
}

#[test]
fn a_rank_accounts_for_itself_when_nothing_that_it_said_waits_to_leave() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    for _ in 0..2 {
        depots[1].post(parcel(0, &[10]), false);
        depots[1].drive(NOW); // the second waits behind the first
    }
    assert!(depots[1].outbox.has_waiting());
    depots[1].close(None);
    depots[1].drive(NOW);
    assert!(!depots[1].run.accounted);
    depots[1].event(Event::Sent(Rank(0)), NOW);
    depots[1].drive(NOW);
    assert!(depots[1].run.accounted);
}

/// Two that are no neighbours in the tree have no word for each other before it begins.
#[test]
fn silence_counts_from_the_beginning_of_a_run_however_long_it_was_opened() {
    let mut depots = world(3, &Settings::default());
    let depot = &mut depots[1];
    depot.bind(Bonds::All);
    depot.open(&Terms::default(), NOW);
    let at = |seconds| NOW + Duration::from_secs(seconds);
    (0..=60).for_each(|seconds| depot.drive(at(seconds)));
    depot.begin(String::new(), at(60));
    (61..=69).for_each(|seconds| depot.drive(at(seconds)));
    assert_eq!(depot.broken(), None);
    (70..=71).for_each(|seconds| depot.drive(at(seconds)));
    assert!(depot.is_broken(), "nobody says anything");
}

#[test]
fn a_run_that_is_refused_keeps_no_inbox() {
    let mut depots = pair(LIMITS);
    let inbox: Arc<dyn Inbox> = Arc::new(Follower::default());
    depots[0].open(&Terms::default(), NOW);
    depots[0].follow(inbox.clone());
    let terms = Terms {
        settings: vec![("n".into(), "7".into())],
    };
    depots[1].open(&terms, NOW);
    exchange(&mut depots);
    assert_eq!(depots[0].phase, Phase::Between);
    assert_eq!(Arc::strong_count(&inbox), 1);
}

#[test]
fn a_parcel_has_left_with_the_packet_that_holds_the_last_of_it() {
    let mut depots = pair(LIMITS);
    let follower = Arc::new(Follower::default());
    depots
        .iter_mut()
        .for_each(|depot| depot.open(&Terms::default(), NOW));
    depots[0].follow(follower.clone());
    exchange(&mut depots);
    depots[0].post(parcel(1, &[10]), false);
    depots[0].drive(NOW);
    assert_eq!(follower.0.load(Ordering::Relaxed), 0, "it is under way");
    depots[0].event(Event::Sent(Rank(1)), NOW);
    assert_eq!(follower.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_receipt_that_has_come_is_waited_for_no_longer() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    assert_eq!(depots[0].post(parcel(1, &[10]), true).len(), 1);
    for seconds in 0..30 {
        exchange_at(&mut depots, NOW + Duration::from_secs(seconds));
    }
    assert_eq!(depots[0].broken(), None);
}

#[test]
fn whoever_leaves_says_why_ranks_cannot_go_on_to_whom_it_has_met_since() {
    let mut depots = world(8, &Settings::default());
    open(&mut depots);
    depots[7].broke(failure(Rank(7), "malformed", "the reason"));
    while depots[7].next_action().is_some() {}
    depots[7].watchdog.meet(Rank(1), NOW);
    depots[7].leave();
    depots[7].drive(NOW);
    while let Some(action) = depots[7].next_action() {
        if let Action::Packet(Rank(1), bytes) = action {
            let from = Rank(7);
            depots[1].event(Event::Packet { from, bytes }, NOW);
        }
    }
    let told = depots[1].broken().map(|failure| &*failure.message);
    assert_eq!(told, Some("the reason"));
}

/// Looks once a second, all through these seconds, and hears each time that the other lives.
fn look_while_it_lives(depot: &mut Depot, other: Rank, seconds: std::ops::Range<u64>) {
    for second in seconds {
        let now = NOW + Duration::from_secs(second);
        depot.watchdog.heard(other, now);
        depot.drive(now);
    }
}

#[test]
fn data_are_missed_only_when_the_question_for_them_was_taken() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[0].post(parcel(1, &[100_000]), false);
    depots[0].drive(NOW);
    let Some(Action::Packet(_, bytes)) = depots[0].next_action() else {
        panic!("nothing is announced")
    };
    let from = Rank(0);
    depots[1].event(Event::Packet { from, bytes }, NOW);
    look_while_it_lives(&mut depots[1], Rank(0), 0..30);
    assert_eq!(depots[1].broken(), None);
    let then = NOW + Duration::from_secs(30);
    while depots[1].outbox.awaited(true).next().is_some() {
        depots[1].event(Event::Sent(Rank(0)), then);
    }
    look_while_it_lives(&mut depots[1], Rank(0), 30..42);
    let missed = depots[1].broken().map(|failure| &*failure.message);
    assert!(missed.is_some_and(|text| text.contains("100000 bytes")));
}

#[test]
fn a_receipt_is_not_missed_while_its_data_were_not_asked_for() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[0].post(parcel(1, &[100_000]), true);
    look_while_it_lives(&mut depots[0], Rank(1), 0..30);
    assert_eq!(depots[0].broken(), None);
}

#[test]
fn a_rank_that_slept_itself_misses_no_receipt() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[0].post(parcel(1, &[10]), true);
    look_while_it_lives(&mut depots[0], Rank(1), 0..3);
    look_while_it_lives(&mut depots[0], Rank(1), 3600..3601);
    assert_eq!(depots[0].broken(), None);
}

#[test]
fn whoever_waits_for_a_run_to_begin_warns_once_for_each_time_that_patience_ends() {
    let mut depots = pair(LIMITS);
    depots[1].open(&Terms::default(), NOW);
    let patience = Settings::default().patience.as_secs();
    look_while_it_lives(&mut depots[1], Rank(0), 0..2 * patience + 10);
    let actions = std::iter::from_fn(|| depots[1].next_action());
    let warnings = actions.filter(|action| matches!(action, Action::Warn(_)));
    assert_eq!(warnings.count(), 2);
}

#[test]
fn a_rank_that_slept_itself_misses_no_packet_that_may_come_late() {
    let limits = MessageLimits {
        in_order: false,
        ..LIMITS
    };
    let mut depots = pair(limits);
    open(&mut depots);
    let (from, mut bytes) = (Rank(1), vec![]);
    let header = PacketHeader { from, sequence: 9 };
    header.encode(&mut bytes);
    depots[0].event(Event::Packet { from, bytes }, NOW);
    look_while_it_lives(&mut depots[0], Rank(1), 3600..3605);
    assert_eq!(depots[0].broken(), None);
    look_while_it_lives(&mut depots[0], Rank(1), 3605..3612);
    let missed = depots[0].broken().map(|failure| &*failure.message);
    assert!(missed.is_some_and(|text| text.contains("is missing")));
}

/// Where a run is closed late it would be taken for lost.
#[test]
fn what_a_rank_that_has_stopped_does_not_deliver_counts_as_delivered() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    let large = 100_000;
    depots[0].post(parcel(1, &[large]), false);
    depots[0].drive(NOW);
    let Some(Action::Packet(_, bytes)) = depots[0].next_action() else {
        panic!("nothing is announced")
    };
    let from = Rank(0);
    depots[1].event(Event::Packet { from, bytes }, NOW);
    depots[0].event(Event::Sent(Rank(1)), NOW);
    depots[1].abort(failure(Rank(1), "cancelled", ""));
    assert_eq!(depots[1].run.parcels(), (0, 1), "its data have not come");
    depots[0].post(parcel(1, &[large]), false);
    depots[0].post(parcel(1, &[10]), false);
    exchange(&mut depots);
    assert_eq!(depots[0].run.parcels(), (3, 0));
    assert_eq!(depots[1].run.parcels(), (0, 3));
}

/// A worker that looked in vain when it closed looks no more, and nobody asks again.
#[test]
fn a_rank_that_has_closed_keeps_no_other_from_learning_that_nothing_will_happen() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[1].close(None);
    for (rank, idle) in [(0, true), (1, false)] {
        depots[rank].pulse(Pulse {
            idle,
            count: 1,
            ..Pulse::default()
        });
    }
    let told = (0..10).flat_map(|n| {
        let now = NOW + n * Duration::from_millis(500);
        exchange_at(&mut depots, now)
    });
    let told: Vec<_> = told.collect();
    let stalls = |told: &(usize, Action)| matches!(told, (0, Action::Stall));
    assert!(!told.is_empty() && told.iter().all(stalls), "{told:?}");
}

/// A packet of one depot, handed to the other by the test.
fn hand_over(depots: &mut [Depot; 2], from: usize) {
    depots[from].drive(NOW);
    while let Some(action) = depots[from].next_action() {
        if let Action::Packet(to, bytes) = action {
            let from = Rank(from as u32);
            depots[to.0 as usize].event(Event::Packet { from, bytes }, NOW);
            depots[from.0 as usize].event(Event::Sent(to), NOW);
        }
    }
}

/// A rank that sends slowly may say nothing else meanwhile.
#[test]
fn data_and_parts_of_them_are_signs_of_life_and_are_counted() {
    let at = |seconds| NOW + Duration::from_secs(seconds);
    for is_whole in [false, true] {
        let mut depots = pair(LIMITS);
        open(&mut depots);
        depots[0].post(parcel(1, &[100_000]), false);
        hand_over(&mut depots, 0);
        let (from, depot) = (Rank(0), &mut depots[1]);
        (0..9).for_each(|seconds| depot.drive(at(seconds)));
        let mut actions = std::iter::from_fn(|| depot.next_action());
        let receive = actions.find_map(|action| match action {
            Action::Receive(_, tag, room) => Some((tag, room)),
            _ => None,
        });
        let (tag, room) = receive.expect("it asks for the data");
        let event = match is_whole {
            true => Event::Data {
                from,
                tag,
                room,
                bytes: 100_000,
            },
            false => Event::Part {
                from,
                bytes: 100_000,
            },
        };
        depot.event(event, at(9));
        (9..18).for_each(|seconds| depot.drive(at(seconds)));
        assert_eq!(depot.broken(), None, "it is whole: {is_whole}");
        let peer = depot.run.peer(from);
        assert_eq!((peer.bytes, peer.moved), (100_000, at(9)));
    }
}

/// What is handed back to it then it would send when all has been added up.
#[test]
fn a_rank_does_not_account_for_itself_while_others_may_hand_their_duties_back() {
    let mut depots = world(12, &Settings::default());
    open(&mut depots);
    let mut parcel = parcel(1, &[100_000]);
    parcel.to = (1..12).map(Rank).collect();
    depots[0].post(parcel, false);
    depots[0].close(None);
    for _ in 0..2 {
        depots[0].drive(NOW);
        while let Some(action) = depots[0].next_action() {
            if let Action::Packet(to, _) = action {
                depots[0].event(Event::Sent(to), NOW);
            }
        }
    }
    assert!(!depots[0].outbox.has_waiting() && !depots[0].run.accounted);
}

#[test]
fn what_a_transport_cannot_carry_or_no_rank_gets_is_refused_at_its_bound() {
    let get = |tag, length| {
        let (number, position, offset) = (0, 0, 0);
        Message::Get(Get {
            number,
            position,
            tag,
            offset,
            length,
        })
    };
    let onward = |to| {
        let below = smallvec![to];
        Message::Activate(Activate {
            number: 0,
            poisoned: false,
            receipt: false,
            priority: 0,
            task: smallvec![7],
            onward: Some(Onward {
                is_binary: false,
                below,
            }),
            flows: smallvec![],
        })
    };
    let most = LIMITS.message_bytes as u64;
    for (message, is_refused) in [
        (get(0, 1), true),
        (get(1, most), false),
        (get(LIMITS.largest_tag, most), false),
        (get(LIMITS.largest_tag + 1, 1), true),
        (get(1, most + 1), true),
        (onward(0), true),
        (onward(1), false),
        (onward(2), true),
    ] {
        let mut depots = pair(LIMITS);
        open(&mut depots);
        let text = format!("{message:?}");
        depots[1].say(Rank(0), message);
        hand_over(&mut depots, 1);
        let told = depots[0].broken().map_or("", |failure| &failure.message);
        let bounds = ["are allowed)", "shall pass on to"];
        let is_told = bounds.iter().any(|bound| told.contains(bound));
        assert_eq!(is_told, is_refused, "{text}: {told}");
    }
}

#[test]
fn a_rank_is_asked_how_far_it_is_at_once_if_a_wave_waits_for_it() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[1].drive(NOW);
    assert!(!depots[1].wants_pulse(NOW));
    depots[1].run.waves.hear_wave(1);
    assert!(depots[1].wants_pulse(NOW));
}

/// Rank 1 of two has got so many data of 4,000 bytes, one after another, and uses none while it computes.
fn unused(n_posted: usize, settings: &Settings) -> Vec<Depot> {
    let mut depots = world(2, settings);
    open(&mut depots);
    for _ in 0..n_posted {
        depots[0].post(parcel(1, &[4_000]), false);
        exchange(&mut depots);
    }
    depots
}

/// It would look for room every millisecond until the run is closed, and others would put by what nobody asks
/// for.
#[test]
fn a_rank_whose_run_has_stopped_returns_credit_and_looks_for_no_room_whatever_lies_there() {
    let settings = Settings {
        held_bytes: 5_000,
        credit_bytes: 40_000,
        ..Settings::default()
    };
    let mut depots = unused(6, &settings);
    assert!(depots[1].wants_pulse(NOW), "it looks for room");
    assert_eq!(depots[1].counters().credits_sent, 0);
    depots[1].abort(failure(Rank(1), "cancelled", ""));
    exchange(&mut depots);
    assert!(!depots[1].wants_pulse(NOW));
    assert_eq!(depots[1].counters().credits_sent, 1);
}

/// Two ranks whose workers wait for each other would wait for ever.
#[test]
fn a_rank_whose_workers_wait_until_others_have_their_data_asks_for_all_that_come() {
    let settings = Settings {
        held_bytes: 5_000,
        credit_bytes: 0,
        blocking: true,
        ..Settings::default()
    };
    let mut depots = unused(2, &settings);
    assert_eq!(depots[1].counters().gets, 2);
    for from in [0, 1] {
        depots[from].post(parcel(1 - from as u32, &[10_000]), true);
    }
    let told = exchange(&mut depots);
    let is_receipt = |(_, action): &&(usize, Action)| matches!(action, Action::Receipt(..));
    assert_eq!(told.iter().filter(is_receipt).count(), 2);
}

/// Who compares what was sent with what came would say that it was lost.
#[test]
fn credit_that_comes_when_its_run_has_ended_is_counted_all_the_same() {
    let settings = Settings {
        credit_bytes: 8_000,
        ..Settings::default()
    };
    let mut depots = world(2, &settings);
    open(&mut depots);
    for depot in &mut depots {
        depot.close(None);
    }
    exchange(&mut depots);
    open(&mut depots);
    depots[1].tamper(Box::new(|_, run, message| {
        if let Message::Credit { .. } = message {
            *run = 1;
        }
        1
    }));
    depots[0].post(parcel(1, &[4_000]), false);
    exchange(&mut depots);
    let Counters {
        credits_came,
        stale_dropped,
        ..
    } = depots[0].counters();
    assert_eq!((credits_came, stale_dropped), (1, 1));
}
