//! Two depots without transport: packets are handed over by the test.

mod mute;
mod slips;

use super::*;
use crate::failure;
use crate::outbox::Haste;
use crate::sync::{AtomicUsize, Ordering};
use crate::transport::Event;
use crate::wire::PacketHeader;
use dataflow_core::port::{Cargo, Heap, Inbox, Parcel, Pulse, Terms};
use dataflow_core::wire::WireName;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

const LIMITS: MessageLimits = MessageLimits {
    message_bytes: 1 << 20,
    largest_tag: 9,
    in_order: true,
};

const NOW: Duration = Duration::from_secs(1);

fn pair(limits: MessageLimits) -> [Depot; 2] {
    [0, 1].map(|rank| Depot::new(Rank(rank), 2, limits, Settings::default(), Arc::new(Heap)))
}

/// Moves what leaves each depot to the other until nothing does; the other actions are returned.
fn exchange(depots: &mut [Depot]) -> Vec<(usize, Action)> {
    exchange_at(depots, NOW)
}

fn exchange_at(depots: &mut [Depot], now: Duration) -> Vec<(usize, Action)> {
    let mut others = vec![];
    let mut data = vec![];
    let mut rooms = vec![];
    loop {
        let mut moved = false;
        for me in 0..depots.len() {
            let from = Rank(me as u32);
            depots[me].drive(now);
            while let Some(action) = depots[me].next_action() {
                moved = true;
                match action {
                    Action::Packet(to, bytes) => {
                        depots[to.0 as usize].event(Event::Packet { from, bytes }, now);
                        depots[me].event(Event::Sent(to), now);
                    }
                    Action::Data(to, tag, payload) => {
                        data.push((to.0 as usize, from, tag, payload));
                    }
                    Action::Receive(from, tag, room) => rooms.push((me, from, tag, room)),
                    other => others.push((me, other)),
                }
            }
        }
        for (me, from, tag, payload) in data.drain(..) {
            moved = true;
            let at = rooms
                .iter()
                .position(|room| (room.0, room.1, room.2) == (me, from, tag));
            let (.., mut room) = rooms.remove(at.expect("room is made before data are asked for"));
            let bytes = room.fill(&payload);
            depots[me].event(
                Event::Data {
                    from,
                    tag,
                    room,
                    bytes,
                },
                now,
            );
        }
        if !moved {
            return others;
        }
    }
}

fn open(depots: &mut [Depot]) {
    depots
        .iter_mut()
        .for_each(|depot| depot.open(&Terms::default(), NOW));
    let opened = exchange(depots);
    assert!(
        opened
            .iter()
            .all(|(_, action)| matches!(action, Action::Opened(Ok(()))))
    );
    assert_eq!(opened.len(), depots.len());
}

struct Zeros(usize);

impl Cargo for Zeros {
    fn head(&self) -> SmallVec<[u8; 32]> {
        SmallVec::new()
    }
    fn size(&self) -> usize {
        self.0
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Owned(vec![0; self.0])
    }
}

fn parcel(to: u32, sizes: &[usize]) -> Parcel {
    let cargo = |&size: &usize| Some(Arc::new(Zeros(size)) as Arc<dyn Cargo>);
    Parcel {
        to: smallvec![Rank(to)],
        task: smallvec![7],
        poisoned: false,
        priority: 0,
        flows: sizes
            .iter()
            .enumerate()
            .map(|(flow, size)| (flow as u16, cargo(size)))
            .collect(),
    }
}

fn close(depots: &mut [Depot; 2]) -> Vec<Result<Option<Failure>, Failure>> {
    depots.iter_mut().for_each(|depot| depot.close(None));
    let closed = exchange(depots)
        .into_iter()
        .filter_map(|(_, action)| match action {
            Action::Closed(closed) => Some(closed),
            _ => None,
        });
    closed.collect()
}

#[test]
fn a_parcel_arrives_once_with_small_and_large_data_and_the_run_closes() {
    for message_bytes in [64, 1 << 20] {
        let mut depots = pair(MessageLimits {
            message_bytes,
            ..LIMITS
        });
        for _ in 0..3 {
            open(&mut depots);
            assert_eq!(depots[0].post(parcel(1, &[10, 10_000, 0]), false)[..], []);
            let delivered = exchange(&mut depots);
            let [(1, Action::Deliver(Rank(0), arrival))] = &delivered[..] else {
                panic!("one delivery")
            };
            let sizes = arrival
                .flows
                .iter()
                .map(|(_, goods)| goods.as_ref().unwrap().body.bytes().len());
            assert!(sizes.eq([10, 10_000, 0]));
            assert_eq!(close(&mut depots), [Ok(None), Ok(None)]);
        }
        assert_eq!(depots[1].totals().messages, 9);
    }
}

#[test]
fn ranks_hurry_in_a_run_in_which_data_are_asked_for_and_in_the_next() {
    let mut depots = pair(LIMITS);
    let run = |size: usize| {
        open(&mut depots);
        depots[0].post(parcel(1, &[size]), false);
        exchange(&mut depots);
        let hurry = depots.each_ref().map(Depot::hurries);
        assert_eq!(close(&mut depots), [Ok(None), Ok(None)]);
        hurry
    };
    let hurry = [10, 10_000, 10, 10].map(run);
    assert_eq!(hurry, [[false; 2], [true; 2], [true; 2], [false; 2]]);
}

/// A last packet returned credit to the parent, who had forgotten the run.
#[test]
fn a_rank_says_nothing_of_a_run_that_has_ended() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[0].post(parcel(1, &[10]), false);
    exchange(&mut depots);
    assert_eq!(close(&mut depots), [Ok(None), Ok(None)]);
    let Counters {
        packets,
        credits_sent,
        ..
    } = depots[1].counters();
    assert_eq!((packets, credits_sent), (2, 0), "HELLO and CLOSE");
}

#[test]
fn a_rank_accounts_for_itself_as_soon_as_its_last_word_has_left() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[1].drive(NOW);
    depots[1].post(parcel(0, &[10]), false);
    depots[1].close(None);
    depots[1].drive(NOW);
    assert!(depots[1].run.reported, "in the drive in which it left");
    exchange(&mut depots);
    assert_eq!(close(&mut depots), [Ok(None), Ok(None)]);
}

#[test]
fn what_belongs_to_a_run_that_has_ended_is_dropped_and_counted() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[1].abort(failure(Rank(1), "cancelled", ""));
    depots[0].tamper(Box::new(|_, run, message| {
        if let Message::Abort(_) = message {
            *run = 1;
        }
        1
    }));
    exchange(&mut depots);
    assert!(
        close(&mut depots)
            .iter()
            .all(|closed| closed.as_ref().is_ok_and(Option::is_some))
    );
    open(&mut depots);
    depots[0].abort(failure(Rank(0), "cancelled", "late"));
    let stopped = exchange(&mut depots);
    assert!(stopped.is_empty(), "it was of the first run");
    assert_eq!(depots[1].counters().stale_dropped, 1);
}

/// Follows messages, and waits for nothing; counts parcels that have left.
#[derive(Default)]
struct Follower(AtomicUsize);

impl Inbox for Follower {
    fn deliver(&self, _: Rank, _: Arrival) {}
    fn pulse(&self) -> Pulse {
        Pulse::default()
    }
    fn stop(&self, _: Failure) {}
    fn stall(&self) {}
    fn left(&self, _: &WireName, _: &[Rank]) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A datum that nobody had asked for stayed until the next run, or for good if ranks could not go on: its
/// slot in a store was empty meanwhile.
#[test]
fn a_run_that_ends_keeps_neither_data_nor_the_inbox_however_it_ends() {
    let lost = |depots: &mut [Depot; 2]| {
        depots[0].event(Event::Lost(Rank(1), "killed".into()), NOW);
    };
    let aborted = |depots: &mut [Depot; 2]| depots[1].abort(failure(Rank(1), "cancelled", ""));
    for (ends, is_over) in [(aborted as fn(&mut [Depot; 2]), false), (lost, true)] {
        let mut depots = pair(LIMITS);
        let follower = Arc::new(Follower::default());
        let inbox: Arc<dyn Inbox> = follower.clone();
        let datum = Arc::new(Zeros(10_000));
        depots[0].open(&Terms::default(), NOW);
        depots[0].follow(inbox.clone());
        depots[1].open(&Terms::default(), NOW);
        exchange(&mut depots);
        let mut parcel = parcel(1, &[]);
        parcel.flows.push((0, Some(datum.clone())));
        depots[0].post(parcel, false);
        ends(&mut depots);
        assert_eq!(Arc::strong_count(&datum) == 1, is_over);
        exchange(&mut depots);
        assert!(!close(&mut depots).is_empty(), "rank 0 is told");
        let held = (Arc::strong_count(&datum), Arc::strong_count(&inbox));
        assert_eq!(held, (1, 2), "it is over: {is_over}");
        let n_left = follower.0.load(Ordering::Relaxed);
        assert_eq!(n_left == 0, is_over, "what stays has not left");
        depots[0].open(&Terms::default(), NOW);
        depots[0].follow(inbox.clone());
        assert_eq!(Arc::strong_count(&inbox) == 2, is_over, "none is opened");
    }
}

#[test]
fn what_is_not_understood_or_comes_from_elsewhere_breaks_the_run_on_both_ranks() {
    let header = |from, sequence| {
        let mut packet = vec![];
        PacketHeader {
            from: Rank(from),
            sequence,
        }
        .encode(&mut packet);
        packet
    };
    for (bytes, expected) in [
        (b"nonsense".to_vec(), "a packet begins with"),
        (header(0, 1), "says it comes from rank 0"),
        ([&header(1, 1)[..], &[0; 12]].concat(), "kind 0"),
        (header(1, 9), "packet 1 of rank 1 is missing"),
    ] {
        let mut depots = pair(LIMITS);
        open(&mut depots);
        depots[0].event(
            Event::Packet {
                from: Rank(1),
                bytes,
            },
            NOW,
        );
        depots[0].drive(NOW + Duration::from_secs(1));
        let stopped: Vec<_> = exchange(&mut depots).into_iter().collect();
        for rank in 0..2 {
            let told = stopped.iter().any(|(me, action)| {
                *me == rank
                    && matches!(action, Action::Stop(failure) if failure.message.contains(expected))
            });
            assert!(told, "rank {rank} is told: {expected}");
        }
        assert!(close(&mut depots).iter().all(Result::is_err));
        depots[1].open(&Terms::default(), NOW);
        assert!(matches!(
            depots[1].next_action(),
            Some(Action::Opened(Err(Refused::Broken(_))))
        ));
    }
}

#[test]
fn a_parcel_to_nobody_or_a_datum_that_lies_about_its_size_stops_the_run() {
    for (parcel, kind) in [
        (parcel(0, &[]), "no_such_rank"),
        (parcel(2, &[]), "no_such_rank"),
        (lying(5, 4), "malformed"),
        (lying(4, 5), "malformed"),
    ] {
        let mut depots = pair(LIMITS);
        open(&mut depots);
        depots[0].post(parcel, false);
        let stopped = exchange(&mut depots);
        let kinds = stopped.iter().filter_map(|(_, action)| match action {
            Action::Stop(failure) => Some(&failure.kind[..]),
            _ => None,
        });
        assert!(kinds.eq([kind, kind]), "both are told: {kind}");
        let closed = close(&mut depots);
        assert!(closed.iter().all(|closed| {
            closed
                .as_ref()
                .is_ok_and(|failure| failure.as_ref().is_some_and(|failure| failure.kind == kind))
        }));
    }
}

/// Says that it has so many bytes, and has so many.
struct Liar(usize, usize);

impl Cargo for Liar {
    fn head(&self) -> SmallVec<[u8; 32]> {
        SmallVec::new()
    }
    fn size(&self) -> usize {
        self.0
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Owned(vec![1; self.1])
    }
}

fn lying(says: usize, has: usize) -> Parcel {
    let mut lying = parcel(1, &[]);
    lying.flows.push((0, Some(Arc::new(Liar(says, has)))));
    lying
}

/// Of too long a datum the receiver got the beginning, and nobody knew; too short a one broke all later runs,
/// and the error named its tag.
#[test]
fn a_datum_that_is_asked_for_and_lies_about_its_size_fails_the_run_and_no_other() {
    for (message_bytes, has) in [
        (1 << 20, 9_000),
        (1 << 20, 20_000),
        (64, 9_000),
        (64, 20_000),
    ] {
        let mut depots = pair(MessageLimits {
            message_bytes,
            ..LIMITS
        });
        open(&mut depots);
        depots[0].post(lying(10_000, has), false);
        exchange(&mut depots);
        let text = format!("a datum said that it has 10000 bytes and has {has}");
        for closed in close(&mut depots) {
            let failure = closed.expect("ranks go on").expect("the run has failed");
            let expected = ("malformed", &text[..], &[7][..]);
            let told = (&failure.kind[..], &failure.message[..], &failure.name[..]);
            assert_eq!(told, expected);
        }
        open(&mut depots);
        assert_eq!(close(&mut depots), [Ok(None), Ok(None)]);
    }
}

/// Its account said that all was well, and was under way when the datum was asked for.
#[test]
fn a_rank_that_accounts_for_itself_knows_whether_its_data_are_as_long_as_they_say() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    // The word of the failure comes later than the data, and too late.
    let is_late = |message: &Message<'_>| matches!(message, Message::Abort(_));
    depots[0].tamper(Box::new(move |_, _, message| {
        usize::from(!is_late(message))
    }));
    depots[0].post(lying(10_000, 20_000), false);
    depots[0].close(None);
    exchange(&mut depots);
    depots[1].close(None);
    let told = exchange(&mut depots);
    let fails = |(_, action): &(usize, Action)| matches!(action, Action::Closed(Ok(Some(_))));
    assert!(told.len() == 2 && told.iter().all(fails), "both are told");
}

#[test]
fn nothing_more_is_said_of_a_parcel_whose_datum_lies_about_its_size() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[0].post(lying(5, 4), false);
    exchange(&mut depots);
    let came = depots[1].run.peer(Rank(0)).came;
    assert!(came == 0 && !depots[1].is_broken(), "{came}");
}

/// Once the receiver panicked; then the error named neither task nor flow, and ranks made no other run.
#[test]
fn a_datum_that_no_machine_can_hold_fails_the_run_with_its_task_and_flow_and_no_other() {
    for size in [1 << 50, 1 << 62, usize::MAX] {
        let mut depots = pair(LIMITS);
        open(&mut depots);
        depots[0].post(parcel(1, &[10, size, 20_000]), false);
        let stopped = exchange(&mut depots);
        let stops = |(_, action): &(usize, Action)| matches!(action, Action::Stop(_));
        assert_eq!(stopped.iter().filter(|told| stops(told)).count(), 2);
        let text =
            format!("rank 0 sends flow 1 as a datum of {size} bytes, for which rank 1 has no room");
        for closed in close(&mut depots) {
            let failure = closed.expect("ranks go on").expect("the run has failed");
            assert!(failure.message.starts_with(&text), "{}", failure.message);
            let told = (&failure.kind[..], failure.rank, &failure.name[..]);
            assert_eq!(told, ("malformed", Rank(0), &[7][..]));
        }
        open(&mut depots);
        depots[0].post(parcel(1, &[10, 20_000]), false);
        exchange(&mut depots);
        assert_eq!(close(&mut depots), [Ok(None), Ok(None)]);
    }
}

#[test]
fn a_receipt_comes_when_all_data_have() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    assert_eq!(
        depots[0].post(parcel(1, &[10_000]), true)[..],
        [(Rank(1), 0)]
    );
    let order: Vec<&str> = exchange(&mut depots)
        .iter()
        .map(|(me, action)| match (me, action) {
            (1, Action::Deliver(..)) => "delivered",
            (0, Action::Receipt(Rank(1), 0)) => "receipt",
            _ => "something else",
        })
        .collect();
    assert_eq!(order, ["delivered", "receipt"]);
}

#[test]
fn a_question_is_taken_when_the_last_packet_is_that_holds_some_of_it() {
    let mut run = RunState::new(&Settings::default(), LIMITS);
    let peer = run.peer(Rank(1));
    peer.question = Some(3);
    peer.note_sent(2, NOW);
    assert_eq!((peer.question, peer.moved), (Some(3), Duration::ZERO));
    peer.note_sent(3, NOW);
    assert_eq!((peer.question, peer.moved), (None, NOW));
}

#[test]
fn a_rank_that_computes_is_asked_for_its_pulse_only_now_and_then() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[0].drive(NOW);
    assert!(!depots[0].wants_pulse(NOW));
    assert!(depots[0].wants_pulse(NOW + Duration::from_millis(50)));
    depots[0].pulse(Pulse {
        executed: 1,
        count: 2,
        ..Pulse::default()
    });
    depots[0].close(None);
    assert!(
        !depots[0].wants_pulse(NOW + Duration::from_secs(1)),
        "it is done"
    );
}

#[test]
fn an_eighth_of_the_credit_returns_along_with_another_message_and_less_does_not() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    let settings = Settings::default();
    let datum = settings.inline_bytes as u64;
    let eighth = settings.credit_bytes as u64 / 8;
    let mut say = |from: usize, sizes: &[usize]| {
        depots[from].post(parcel(1 - from as u32, sizes), false);
        exchange(&mut depots);
        depots[0].counters().credits_came
    };
    say(0, &[10]);
    assert_eq!(say(1, &[]), 0, "not worth a message");
    for _ in 0..eighth.div_ceil(datum) {
        assert_eq!(say(0, &[datum as usize]), 0, "not worth a packet");
    }
    assert_eq!(say(1, &[]), 1);
}

/// Only after activations it left at once.
#[test]
fn what_follows_data_that_were_asked_for_is_not_held() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[0].post(parcel(1, &[10_000]), false);
    exchange(&mut depots);
    for leaves in [true, false] {
        depots[1].post(parcel(0, &[]), false);
        depots[1].drive_in(Haste::Patient, NOW);
        let left = matches!(depots[1].next_action(), Some(Action::Packet(..)));
        assert_eq!(left, leaves, "whether data have come since the last packet");
        depots[1].event(Event::Sent(Rank(0)), NOW);
    }
}

#[test]
fn a_rank_that_has_just_got_a_parcel_does_not_answer_a_wave_before_it_is_idle_again() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    let idle = Pulse {
        count: 1,
        idle: true,
        ..Pulse::default()
    };
    let said = Arc::new(std::sync::Mutex::new(vec![]));
    let kinds = said.clone();
    depots[1].tamper(Box::new(move |_, _, message| {
        kinds.lock().unwrap().push(message.kind());
        1
    }));
    depots.iter_mut().for_each(|depot| depot.pulse(idle));
    // Parcel and wave come in one packet.
    depots[0].post(parcel(1, &[]), false);
    exchange(&mut depots);
    assert!(!said.lock().unwrap().contains(&crate::wire::Kind::Tally));
    depots[1].pulse(idle);
    exchange(&mut depots);
    assert!(said.lock().unwrap().contains(&crate::wire::Kind::Tally));
}

/// A worker was there that looked in vain. That was an error of the root, and no later run worked.
#[test]
fn a_worker_that_looks_in_vain_while_a_stall_is_told_makes_it_no_other_fault() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    let pulse = |idle| Pulse {
        count: 1,
        idle,
        ..Pulse::default()
    };
    let mut stalls = [false; 2];
    for step in 0..20 {
        let now = NOW + step * Settings::default().pause();
        for me in 0..2 {
            depots[me].pulse(pulse(true));
            depots[me].drive(now);
            while let Some(action) = depots[me].next_action() {
                match action {
                    Action::Packet(to, bytes) => {
                        let (from, to) = (Rank(me as u32), to.0 as usize);
                        depots[to].pulse(pulse(false));
                        depots[to].event(Event::Packet { from, bytes }, now);
                        depots[me].event(Event::Sent(Rank(to as u32)), now);
                    }
                    Action::Stall => stalls[me] = true,
                    _ => {}
                }
            }
        }
    }
    assert_eq!((stalls, depots[1].broken()), ([true; 2], None));
}

#[test]
fn whoever_learns_that_ranks_cannot_go_on_tells_all_others_before_its_own_program() {
    let depot = |rank| Depot::new(Rank(rank), 3, LIMITS, Settings::default(), Arc::new(Heap));
    let mut depots = [0, 1, 2].map(depot);
    let deeds = |depot: &mut Depot| -> Vec<Action> {
        depot.drive(NOW);
        std::iter::from_fn(|| depot.next_action()).collect()
    };
    let names_rank_0 = |action: &Action| matches!(action, Action::Opened(Err(Refused::Broken(failure))) if failure.rank == Rank(0));
    for depot in &mut depots {
        depot.open(&Terms::default(), NOW);
        deeds(depot);
    }
    // Rank 1 sees that rank 0 is gone, tells rank 2, and may be gone itself from then on.
    depots[1].event(Event::Lost(Rank(0), "killed".into()), NOW);
    let told = deeds(&mut depots[1]);
    let [Action::Packet(Rank(2), word), refused] = &told[..] else {
        panic!("a word to rank 2, then the answer")
    };
    assert!(names_rank_0(refused));
    let (from, bytes) = (Rank(1), word.clone());
    depots[2].event(Event::Packet { from, bytes }, NOW);
    depots[2].event(Event::Lost(from, "has ended".into()), NOW);
    let told = deeds(&mut depots[2]);
    // It cannot know whether that word has come to the others.
    let [Action::Packet(Rank(1), _), refused] = &told[..] else {
        panic!("the word is passed on, then the answer")
    };
    assert!(names_rank_0(refused));
    depots[2].open(&Terms::default(), NOW);
    assert!(deeds(&mut depots[2]).iter().any(names_rank_0), "for good");
}

#[test]
fn a_receipt_that_does_not_come_is_missed_after_the_silence_allowed() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[1].tamper(Box::new(|_, _, message| {
        usize::from(!matches!(message, Message::Receipt { .. }))
    }));
    assert!(!depots[0].post(parcel(1, &[10, 10_000]), true).is_empty());
    let silence = Settings::default().silence;
    let mut stopped = None;
    for step in 0..30 {
        let passed = step * silence / 20;
        let told = exchange_at(&mut depots, NOW + passed);
        stopped = told.into_iter().find_map(|told| match told {
            (0, Action::Stop(failure)) => Some((passed, failure)),
            _ => None,
        });
        if stopped.is_some() {
            break;
        }
    }
    let (passed, failure) = stopped.expect("whoever posted waits for it");
    assert!(passed > silence, "{passed:?}");
    assert_eq!((failure.rank, &*failure.kind), (Rank(1), "rank_lost"));
    assert!(
        failure.message.contains("confirmed activation 0"),
        "{failure:?}"
    );
}

#[test]
fn what_is_not_used_yet_is_bounded_while_tasks_can_run_and_one_more_is_asked_for_when_none_can() {
    let settings = Settings {
        held_bytes: 25_000,
        window_bytes: 1,
        credit_bytes: 10_000,
        ..Settings::default()
    };
    let depot = |rank| Depot::new(Rank(rank), 2, LIMITS, settings.clone(), Arc::new(Heap));
    for (size, at_first) in [(10_000, 3), (4_000, 7 + 2)] {
        let mut depots = [0, 1].map(depot);
        open(&mut depots);
        for _ in 0..20 {
            depots[0].post(parcel(1, &[size]), false);
        }
        let delivered = |depots: &mut [Depot; 2], idle, used| {
            depots[1].pulse(Pulse {
                executed: 0,
                count: 20,
                idle,
                used,
            });
            let told = exchange(depots);
            let is_it = |told: &&(usize, Action)| matches!(told, (1, Action::Deliver(..)));
            told.iter().filter(is_it).count()
        };
        let first = delivered(&mut depots, false, 0);
        assert!(
            (at_first - 2..=at_first).contains(&first),
            "{size}: {first}"
        );
        assert_eq!(delivered(&mut depots, false, 0), 0, "{size}");
        assert!(depots[1].wants_pulse(NOW), "{size}: it looks for room");
        assert_eq!(delivered(&mut depots, true, 0), 1, "{size}: one by one");
        assert_eq!(delivered(&mut depots, false, 0), 0, "{size}");
        let all_used = (first as u64 + 1) * size as u64;
        assert!(delivered(&mut depots, false, all_used) >= 3, "{size}");
    }
}

/// It looked for room every millisecond, and asked the inbox at each look, though there was nothing to return.
#[test]
fn a_rank_that_takes_no_more_looks_for_room_only_if_it_has_credit_to_return() {
    let settings = Settings {
        held_bytes: 5_000,
        credit_bytes: 40_000,
        ..Settings::default()
    };
    let depot = |rank| Depot::new(Rank(rank), 2, LIMITS, settings.clone(), Arc::new(Heap));
    let mut depots = [0, 1].map(depot);
    open(&mut depots);
    let asks = [4_000; 6].map(|size| {
        depots[0].post(parcel(1, &[size]), false);
        exchange(&mut depots);
        depots[1].wants_pulse(NOW)
    });
    assert_eq!(asks, [false, false, false, false, true, true]);
}

#[test]
fn when_nothing_can_run_one_datum_is_asked_for_however_wide_the_window() {
    let settings = Settings {
        held_bytes: 5_000,
        credit_bytes: 0,
        ..Settings::default()
    };
    let depot = |rank| Depot::new(Rank(rank), 2, LIMITS, settings.clone(), Arc::new(Heap));
    let mut depots = [0, 1].map(depot);
    open(&mut depots);
    let mut delivered = |n_posted, idle| {
        for _ in 0..n_posted {
            depots[0].post(parcel(1, &[10_000]), false);
        }
        depots[1].pulse(Pulse {
            count: 9,
            idle,
            ..Pulse::default()
        });
        let told = exchange(&mut depots);
        let is_it = |told: &&(usize, Action)| matches!(told, (1, Action::Deliver(..)));
        told.iter().filter(is_it).count()
    };
    assert_eq!(delivered(1, false), 1, "nothing lies there unused");
    assert_eq!(delivered(5, false), 0);
    assert_eq!(delivered(0, true), 1);
}

/// Four ranks, of which rank 0 sends to all others along a tree, and one uses nothing.
struct Passing {
    depots: [Depot; 4],
    sated: usize,
}

impl Passing {
    fn new(sated: usize, credit_bytes: usize) -> Self {
        let settings = Settings {
            held_bytes: 15_000,
            credit_bytes,
            star_ranks: 1,
            ..Settings::default()
        };
        let depot = |rank| Depot::new(Rank(rank), 4, LIMITS, settings.clone(), Arc::new(Heap));
        let mut depots = [0, 1, 2, 3].map(depot);
        open(&mut depots);
        Passing { depots, sated }
    }

    /// So much more is sent, one after another; how much each rank gets.
    fn get(&mut self, (n_posted, size): (usize, usize), idle: bool) -> [usize; 4] {
        let mut get = [0; 4];
        for _ in 0..n_posted.max(1) {
            if n_posted > 0 {
                let mut parcel = parcel(1, &[size]);
                parcel.to = [1, 2, 3].map(Rank).into_iter().collect();
                self.depots[0].post(parcel, false);
            }
            for (rank, depot) in self.depots.iter_mut().enumerate() {
                depot.pulse(Pulse {
                    count: 99,
                    idle,
                    used: if rank == self.sated { 0 } else { u64::MAX },
                    ..Pulse::default()
                });
            }
            for (rank, action) in exchange(&mut self.depots) {
                get[rank] += usize::from(matches!(action, Action::Deliver(..)));
            }
        }
        get
    }
}

/// Those below waited until it took more; and what they did not take lay there, however much it was.
#[test]
fn a_rank_that_takes_no_more_neither_keeps_data_from_those_below_nor_those_above_from_theirs() {
    for sated in 1..4 {
        let mut ranks = Passing::new(sated, 0);
        let get = ranks.get((2, 10_000), false);
        assert_eq!(get, [0, 2, 2, 2], "less lies there");
        let mut others = [0, 20, 20, 20];
        others[sated] = 0;
        let get = ranks.get((20, 10_000), false);
        assert_eq!(get, others, "{sated} is sated");
        for depot in &ranks.depots {
            let bytes = depot.run.passing.bytes();
            assert!(bytes <= 20_000, "{} passes on {bytes}", depot.rank);
        }
        let mut last = [0; 4];
        last[sated] = 1;
        let get = ranks.get((0, 0), true);
        assert_eq!(get, last, "nothing else can run");
    }
}

/// Small data came along while the rank below returned no credit, and were put by for it.
#[test]
fn small_data_that_go_on_from_a_rank_are_bounded_as_large_ones_are() {
    for sated in 1..4 {
        let mut ranks = Passing::new(sated, 16_000);
        let get = ranks.get((100, 2_000), false);
        let others = (1..4).filter(|&rank| rank != sated);
        assert!(others.clone().all(|rank| get[rank] == 100), "{get:?}");
        for depot in &ranks.depots {
            // And what may be under way when it is enough.
            let bytes = depot.run.passing.bytes();
            assert!(
                bytes <= 15_000 + 2 * 16_000,
                "{} passes on {bytes}",
                depot.rank
            );
        }
    }
}

/// It was used a moment ago, and a duty that is handed back does not return.
#[test]
fn a_rank_hands_nothing_back_for_data_that_it_has_used_since_it_was_last_asked() {
    let mut ranks = Passing::new(0, 0);
    assert_eq!(ranks.get((1, 10_000), false), [0, 1, 1, 1]);
    let activations = |ranks: &Passing| ranks.depots[0].counters().activations;
    let before = activations(&ranks);
    for depot in &mut ranks.depots {
        depot.pulse(Pulse {
            count: 99,
            used: 10_000,
            ..Pulse::default()
        });
    }
    for _ in 0..10 {
        let mut parcel = parcel(1, &[10_000]);
        parcel.to = [1, 2, 3].map(Rank).into_iter().collect();
        ranks.depots[0].post(parcel, false);
        exchange(&mut ranks.depots);
    }
    let sent = activations(&ranks) - before;
    assert_eq!(sent, 20, "rank 0 sends more than to its own branches");
}

/// Moves packets until none goes but those that are held, which are returned.
fn pass(depots: &mut [Depot], is_held: impl Fn(usize, Rank) -> bool) -> Vec<Vec<u8>> {
    let mut held = vec![];
    loop {
        let mut moved = false;
        for me in 0..depots.len() {
            depots[me].drive(NOW);
            while let Some(action) = depots[me].next_action() {
                let Action::Packet(to, bytes) = action else {
                    continue;
                };
                depots[me].event(Event::Sent(to), NOW);
                if is_held(me, to) {
                    held.push(bytes);
                    continue;
                }
                let from = Rank(me as u32);
                depots[to.0 as usize].event(Event::Packet { from, bytes }, NOW);
                moved = true;
            }
        }
        if !moved {
            return held;
        }
    }
}

/// Rank 2 hears of the end later than rank 1, which has left by then. That it lives was under way to rank 1
/// for ever, and its own leaving waited a second for it.
#[test]
fn nothing_is_said_to_a_rank_that_has_left() {
    let new = |rank| Depot::new(Rank(rank), 3, LIMITS, Settings::default(), Arc::new(Heap));
    let mut depots: Vec<Depot> = (0..3).map(new).collect();
    depots
        .iter_mut()
        .for_each(|depot| depot.open(&Terms::default(), NOW));
    pass(&mut depots, |_, _| false);
    depots[1].post(parcel(2, &[10]), false);
    pass(&mut depots, |_, _| false);
    depots.iter_mut().for_each(|depot| depot.close(None));
    let late = pass(&mut depots, |from, to| (from, to) == (0, Rank(2)));
    depots[1].leave();
    pass(&mut depots, |_, _| false);
    assert!(depots[2].gone.contains(&Rank(1)) && depots[2].phase == Phase::Running);
    depots[2].drive(NOW + Settings::default().beat);
    while let Some(action) = depots[2].next_action() {
        if let Action::Packet(Rank(0), _) = action {
            depots[2].event(Event::Sent(Rank(0)), NOW);
        }
    }
    for bytes in late {
        let from = Rank(0);
        depots[2].event(Event::Packet { from, bytes }, NOW);
    }
    depots[2].drive(NOW);
    assert_eq!(depots[2].phase, Phase::Between);
    assert!(depots[2].is_flushed(), "something is under way to rank 1");
}

/// A job that was stopped as a whole (`scontrol suspend`, a virtual machine that paused) was lost when it
/// went on: what had been asked for had not come.
#[test]
fn a_rank_that_slept_itself_does_not_miss_what_others_had_no_time_to_send() {
    let mut depots = pair(LIMITS);
    open(&mut depots);
    depots[0].post(parcel(1, &[100_000]), false);
    pass(&mut depots, |_, _| false); // and no data
    assert!(!depots[1].run.wanted.is_settled());
    depots[1].drive(NOW + Duration::from_secs(3600));
    assert!(!depots[1].is_broken());
}

/// One said less often that it lives than the other asked for, and was lost though it lived.
#[test]
fn ranks_that_allow_each_other_different_silence_do_not_begin() {
    let ten = Settings::default();
    let beat = Settings {
        beat: Duration::from_secs(5),
        ..ten.clone()
    };
    let silence = Settings {
        silence: Duration::from_secs(2),
        ..ten.clone()
    };
    for (other, told) in [
        (beat, "beat is 1s on rank 0 and 5s on rank 1"),
        (silence, "silence is 10s on rank 0 and 2s on rank 1"),
    ] {
        let settings = [ten.clone(), other];
        let mut depots = [0, 1].map(|rank: usize| {
            let settings = settings[rank].clone();
            Depot::new(Rank(rank as u32), 2, LIMITS, settings, Arc::new(Heap))
        });
        for depot in &mut depots {
            depot.open(&Terms::default(), NOW);
        }
        let opened = exchange(&mut depots);
        let is_told = |(_, action): &(usize, Action)| matches!(action, Action::Opened(Err(Refused::Differ(text))) if text == told);
        assert!(opened.len() == 2 && opened.iter().all(is_told), "{told}");
    }
}
