//! Ranks whose messages nobody moves but the test, in a time that stands still.

use super::thread::{UNATTENDED, UNHURRIED};
use super::{Command, Life, MessageProgress};
use crate::bell::Bell;
use crate::depot::{Depot, Refused};
use crate::host::{Host, Machine, Promise, Thread, Turn};
use crate::outbox::Haste;
use crate::settings::{Drive, RAREST_BEAT, Settings};
use crate::sync::{Mutex, Ordering, lock};
use crate::transport::local::{self, Local};
use crate::transport::raw::{Raw, Sendable};
use crate::transport::{Event, MessageLimits, Payload, Room, Transport};
use crate::waits::Waits;
use dataflow_core::port::{
    Arrival, Cargo, Failure, Head, Heap, Inbox, Memory, Parcel, Pulse, Terms,
};
use dataflow_core::rank::Rank;
use smallvec::smallvec;
use std::any::Any;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

type Deed = Box<dyn FnOnce() + Send>;

/// A machine whose time stands still until it is set; its bells are one, and nobody waits for it. When it
/// is asked for the time something may happen first.
#[derive(Default)]
struct Still {
    bell: Arc<CountingBell>,
    first: Mutex<VecDeque<Option<Deed>>>,
    /// Milliseconds after the first second.
    later: AtomicU64,
}

impl Host for Still {
    fn now(&self) -> Duration {
        let deed = lock(&self.first).pop_front().flatten();
        deed.into_iter().for_each(|deed| deed());
        Duration::from_millis(1000 + self.later.load(Ordering::SeqCst))
    }
    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }
    fn start(
        &self,
        name: String,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn Thread>, String> {
        Machine::new().start(name, body)
    }
}

/// How often it was rung.
#[derive(Default)]
struct CountingBell(AtomicUsize);

impl Bell for CountingBell {
    fn ring(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn wait(&self, _: Option<Duration>) {}
}

/// A transport with which something happens when nothing has arrived, while the lock is held.
struct Interrupted {
    local: Local,
    when_idle: Arc<Mutex<Option<Deed>>>,
    rings: bool,
    fails: Arc<Failing>,
}

/// Which calls of a transport panic from now on, and how often one did.
#[derive(Default)]
struct Failing {
    polls: AtomicBool,
    awaits: AtomicBool,
    sends: AtomicBool,
    n: AtomicUsize,
}

impl Failing {
    fn or(&self, fails: &AtomicBool) {
        if fails.load(Ordering::SeqCst) {
            self.n.fetch_add(1, Ordering::SeqCst);
            resume_unwind(quiet());
        }
    }
}

impl Transport for Interrupted {
    fn rank(&self) -> Rank {
        self.local.rank()
    }
    fn n_ranks(&self) -> usize {
        self.local.n_ranks()
    }
    fn limits(&self) -> MessageLimits {
        self.local.limits()
    }
    fn send(&mut self, to: Rank, packet: Vec<u8>) {
        self.fails.or(&self.fails.sends);
        self.local.send(to, packet);
    }
    fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
        self.local.send_data(to, tag, payload);
    }
    fn receive(&mut self, from: Rank, tag: u32, room: Room) {
        self.local.receive(from, tag, room);
    }
    fn awaits(&mut self, to: Rank) -> bool {
        self.fails.or(&self.fails.awaits);
        self.local.awaits(to)
    }
    fn poll(&mut self) -> Option<Event> {
        self.fails.or(&self.fails.polls);
        let event = self.local.poll();
        if matches!(event, Some(Event::Sent(_))) && self.fails.awaits.load(Ordering::SeqCst) {
            return None; // it is told to whoever awaits it
        }
        if event.is_none() {
            let deed = lock(&self.when_idle).take();
            deed.into_iter().for_each(|deed| deed());
        }
        event
    }
    fn bell(&mut self, host: &dyn Host) -> Option<Arc<dyn Bell>> {
        self.local.bell(host).filter(|_| self.rings)
    }
}

/// A rank that has nothing to run; whether no worker is inside, and whether one is not.
#[derive(Clone, Copy, Debug)]
struct Idle(bool, bool);

impl Inbox for Idle {
    fn deliver(&self, _: Rank, _: Arrival) {}
    fn pulse(&self) -> Pulse {
        Pulse {
            idle: self.0,
            ..Pulse::default()
        }
    }
    fn has_idle_workers(&self) -> bool {
        self.1
    }
    fn stop(&self, failure: Failure) {
        panic!("{failure:?}");
    }
    fn stall(&self) {
        panic!("nothing stalls");
    }
}

struct OfRank {
    progress: Arc<MessageProgress>,
    host: Arc<Still>,
    when_idle: Arc<Mutex<Option<Deed>>>,
    fails: Arc<Failing>,
}

/// Ranks whose messages nobody moves but the test.
fn ranks(n: usize, hold: Duration) -> Vec<OfRank> {
    ranks_that_ring(true, n, hold)
}

/// The same, over a transport that rings when something has come, or does not.
fn ranks_that_ring(rings: bool, n: usize, hold: Duration) -> Vec<OfRank> {
    let settings = Settings {
        drive: Drive::Workers,
        hold,
        ..Settings::default()
    };
    let rank = |local: Local| {
        let (rank, limits) = (local.rank(), local.limits());
        let depot = Depot::new(rank, n, limits, settings.clone(), Arc::new(Heap));
        let (host, when_idle) = (Arc::new(Still::default()), Arc::default());
        let fails: Arc<Failing> = Arc::default();
        let transport = Interrupted {
            local,
            when_idle: Arc::clone(&when_idle),
            rings,
            fails: fails.clone(),
        };
        let progress =
            MessageProgress::new(Box::new(transport), depot, settings.clone(), host.clone());
        OfRank {
            progress,
            host,
            when_idle,
            fails,
        }
    };
    local::connect(n).into_iter().map(rank).collect()
}

/// The same, in a run.
fn opened(n: usize, hold: Duration) -> Vec<OfRank> {
    open(ranks(n, hold), true)
}

/// They open a run; whether no worker is inside.
fn open(ranks: Vec<OfRank>, idle: bool) -> Vec<OfRank> {
    open_with(ranks, Idle(idle, idle))
}

fn open_with(ranks: Vec<OfRank>, inbox: Idle) -> Vec<OfRank> {
    let open = |rank: &OfRank| {
        let answer = Promise::new(&*rank.host);
        let open = Command::Open(Terms::default(), Arc::new(inbox), answer.clone());
        rank.progress.command(open);
        answer
    };
    let answers: Vec<_> = ranks.iter().map(open).collect();
    move_all(&ranks);
    assert!(answers.iter().all(|answer| answer.take().is_some()));
    ranks
}

/// Moves messages of these ranks until nothing moves.
fn move_all(ranks: &[OfRank]) {
    let pump = |rank: &OfRank| rank.progress.pump(Haste::Now, Duration::from_secs(1));
    while ranks.iter().fold(false, |any, rank| pump(rank) | any) {}
}

fn parcel(to: &[u32]) -> Parcel {
    Parcel {
        to: to.iter().copied().map(Rank).collect(),
        task: smallvec![7],
        poisoned: false,
        priority: 0,
        flows: smallvec![],
    }
}

fn post(progress: &MessageProgress, to: u32) {
    progress.command(Command::Post(parcel(&[to]), None));
}

/// What another thread does, to its end.
fn aside(what: impl FnOnce() + Send) {
    thread::scope(|threads| threads.spawn(what).join().unwrap());
}

fn rests(progress: &MessageProgress) -> bool {
    nap(progress, &mut Life::default()).is_some()
}

/// For how long the thread rests, if it does.
fn nap(progress: &MessageProgress, life: &mut Life) -> Option<Option<Duration>> {
    match progress.turn(life) {
        Turn::Rests(_, at_most) => Some(at_most),
        _ => None,
    }
}

/// It left when all that had come was heeded, and another rank waited for it meanwhile.
#[test]
fn what_is_posted_leaves_before_a_rank_listens() {
    let ranks = opened(2, Duration::ZERO);
    let (there, now) = (ranks[1].progress.clone(), Duration::from_secs(1));
    let heard = Arc::new(AtomicUsize::new(0));
    let told = heard.clone();
    *lock(&ranks[0].when_idle) = Some(Box::new(move || {
        let moved = || usize::from(there.pump(Haste::Now, now));
        aside(|| told.store(moved(), Ordering::SeqCst));
    }));
    let here = &ranks[0].progress;
    here.movers.hand_in(Command::Post(parcel(&[1]), None));
    here.pump(Haste::Now, now);
    assert_eq!(
        heard.load(Ordering::SeqCst),
        1,
        "the other rank had it by then"
    );
}

/// It looked at its clock first, and lost a rank whose word lay there.
#[test]
fn a_rank_that_posts_misses_nobody_whose_word_has_come() {
    let ranks = opened(2, Duration::ZERO);
    let [here, there] = [&ranks[0].progress, &ranks[1].progress];
    let seconds = Duration::from_secs;
    // It does not sleep, and hears nothing for twelve seconds; ten are allowed.
    for now in [5, 9] {
        here.pump(Haste::Now, seconds(now));
    }
    there.pump(Haste::Now, seconds(12));
    here.movers.hand_in(Command::Post(parcel(&[1]), None));
    here.pump(Haste::Now, seconds(13));
    here.with_depot(|depot| assert_eq!(depot.broken(), None));
}

const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(1);

/// Over MPI nobody is rung for when a message comes. Others move messages while the thread sleeps: then
/// it had waited for long, by its own account, and slept a millisecond over the next message.
#[test]
fn the_thread_naps_by_how_long_nothing_has_moved_whoever_moved() {
    let ranks = open(ranks_that_ring(false, 2, Duration::ZERO), true);
    let (here, mut life) = (&ranks[0], Life::default());
    let nap_at = |later: u64, life: &mut Life| {
        here.host.later.store(later, Ordering::SeqCst);
        nap(&here.progress, life).flatten()
    };
    assert_eq!(nap_at(0, &mut life), Some(SHORTEST));
    assert_eq!(nap_at(10, &mut life), Some(LONGEST));
    here.host.later.store(20, Ordering::SeqCst);
    post(&here.progress, 1);
    assert_eq!(nap_at(20, &mut life), Some(SHORTEST));
    assert_eq!(nap_at(30, &mut life), Some(LONGEST));
}

/// Another that waits for this rank to open the next asks whether it lives.
#[test]
fn between_runs_the_thread_rests_until_it_is_rung_or_if_nothing_rings_for_half_a_beat() {
    let half = Settings::default().beat.min(RAREST_BEAT) / 2;
    for (rings, expected) in [(true, None), (false, Some(half))] {
        let ranks = ranks_that_ring(rings, 2, Duration::ZERO);
        let rests = nap(&ranks[0].progress, &mut Life::default());
        assert_eq!(rests, Some(expected), "it rings: {rings}");
    }
}

/// Another that leaves has said that nobody looks: that is no time.
#[test]
fn a_worker_that_waits_tells_the_time_by_its_own_look() {
    let ranks = opened(2, Duration::ZERO);
    let progress = &ranks[0].progress;
    let now = progress.look();
    progress.looked.store(0, Ordering::SeqCst);
    let mut since = None;
    assert!(progress.lingers(false, &mut since), "it has not waited yet");
    assert_eq!(since, Some(now));
}

#[test]
fn who_waits_for_an_answer_looks_for_as_long_as_such_waits_have_lasted() {
    let here = ranks(1, Duration::ZERO).remove(0);
    let (answer, host) = (Promise::new(&*here.host), here.host.clone());
    let comes_late = {
        let answer = answer.clone();
        move || {
            host.later.store(1, Ordering::SeqCst);
            answer.give(());
        }
    };
    // It asks for the time when it begins, and after each look.
    *lock(&here.host.first) = [None, Some(Box::new(comes_late) as Deed)].into();
    here.progress.wait(&answer);
    let looks = |waits: &Waits| waits.look_for(SHORTEST);
    assert_eq!(looks(&here.progress.answers), Duration::from_millis(1));
    assert_eq!(
        looks(&here.progress.waits),
        SHORTEST,
        "no worker has waited"
    );
}

/// It is rung by a worker that leaves, and may wake before that one is outside: it would trust in it.
#[test]
fn the_thread_looks_when_the_worker_that_looked_last_leaves() {
    let ranks = open(ranks_that_ring(false, 2, Duration::ZERO), false);
    let progress = &ranks[0].progress;
    progress.look();
    let stands_aside = nap(progress, &mut Life::default()).flatten();
    assert!(stands_aside > Some(SHORTEST), "{stands_aside:?}");
    let mut since = Some(Duration::ZERO);
    assert!(
        !progress.lingers(false, &mut since),
        "it has waited for a second"
    );
    let looks = nap(progress, &mut Life::default()).flatten();
    assert_eq!(looks, Some(SHORTEST));
}

/// Its looks take the core from a worker that computes: tasks of 0.3 ms took a sixth longer.
#[test]
fn the_thread_leaves_workers_alone_for_longer_where_nobody_waits_until_it_looks() {
    for (hurries, one_sleeps, at_most) in [
        (false, false, UNHURRIED),
        (true, false, UNATTENDED),
        (false, true, UNATTENDED),
    ] {
        let ranks = ranks_that_ring(false, 2, Duration::ZERO);
        let ranks = open_with(ranks, Idle(false, one_sleeps));
        let (here, mut life) = (&ranks[0], Life::default());
        here.progress.look();
        if hurries {
            here.progress.with_depot(Depot::hurry);
        }
        assert_eq!(nap(&here.progress, &mut life).flatten(), Some(at_most));
        // In milliseconds.
        here.host.later.store(3, Ordering::SeqCst);
        let moves = nap(&here.progress, &mut life).flatten();
        assert!(moves.is_some_and(|nap| nap <= LONGEST), "{moves:?}");
    }
}

/// The thread that came with it found the lock taken, and went away.
#[test]
fn the_thread_does_not_rest_while_a_command_lies_there() {
    let rank = ranks(1, Duration::ZERO).remove(0);
    let progress = rank.progress.clone();
    *lock(&rank.when_idle) = Some(Box::new(move || aside(|| post(&progress, 0))));
    assert!(rests(&rank.progress));
    assert!(lock(&rank.when_idle).is_none(), "a command came");
    let mut commands = Vec::new();
    rank.progress.movers.take(&mut commands);
    assert!(commands.is_empty());
}

#[test]
fn whoever_looked_at_the_depot_calls_the_thread_for_a_command_that_came_meanwhile() {
    let rank = ranks(1, Duration::ZERO).remove(0);
    let rings = || rank.host.bell.0.load(Ordering::SeqCst);
    let before = rings();
    rank.progress.with_depot(|_| {});
    assert_eq!(rings(), before);
    rank.progress
        .with_depot(|_| aside(|| post(&rank.progress, 0)));
    assert_eq!(rings(), before + 1);
}

/// The worker that held it back saw the thread awake, and runs a long task now.
#[test]
fn the_thread_does_not_rest_beside_packets_that_are_held_back() {
    let ranks = opened(2, Duration::from_secs(1));
    let [here, there] = &ranks[..] else {
        unreachable!("there are two")
    };
    let looks = {
        let progress = here.progress.clone();
        move || {
            progress.look();
            post(&progress, 1);
            progress.poll();
            assert!(progress.movers.holds(), "it is held back");
        }
    };
    // The thread asks for the time before it moves messages, and when nothing has moved.
    *lock(&here.host.first) = [None, Some(Box::new(|| aside(looks)) as Deed)].into();
    assert!(rests(&here.progress));
    assert!(lock(&here.host.first).is_empty(), "a worker has looked");
    let held = here.progress.movers.holds();
    assert!(!held && there.progress.pump(Haste::Now, Duration::from_secs(1)));
}

#[test]
fn whoever_waits_until_several_ranks_have_a_parcel_waits_for_the_last() {
    let ranks = opened(3, Duration::ZERO);
    let answer = Promise::new(&*ranks[0].host);
    let post = Command::Post(parcel(&[1, 2]), Some(answer.clone()));
    ranks[0].progress.command(post);
    move_all(&ranks[..2]);
    assert!(answer.take().is_none(), "rank 2 has not got it");
    move_all(&ranks);
    assert!(answer.take().is_some());
}

/// A datum whose size cannot be told; what is thrown instead.
struct Unsized(fn() -> Box<dyn Any + Send>);

impl Cargo for Unsized {
    fn head(&self) -> Head {
        Head::default()
    }
    fn size(&self) -> usize {
        resume_unwind(self.0())
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }
}

fn quiet() -> Box<dyn Any + Send> {
    Box::new("not a word on the screen")
}

/// What panics when it is dropped.
struct Brittle;

impl Drop for Brittle {
    fn drop(&mut self) {
        resume_unwind(quiet());
    }
}

/// A datum that does; it is too large to go unasked.
struct BrittleDatum(#[allow(dead_code)] Brittle);

impl Cargo for BrittleDatum {
    fn head(&self) -> Head {
        Head::default()
    }
    fn size(&self) -> usize {
        1 << 20
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Owned(vec![0; 1 << 20])
    }
}

/// A datum that panics whatever is done with it.
struct UnsizedAndBrittle(Unsized, #[allow(dead_code)] Brittle);

impl Cargo for UnsizedAndBrittle {
    fn head(&self) -> Head {
        self.0.head()
    }
    fn size(&self) -> usize {
        self.0.size()
    }
    fn body(&self) -> Cow<'_, [u8]> {
        self.0.body()
    }
}

/// A rank that is told when its run fails.
#[derive(Debug, Default)]
struct Told(Mutex<Option<Failure>>);

impl Inbox for Told {
    fn deliver(&self, _: Rank, _: Arrival) {}
    fn pulse(&self) -> Pulse {
        Pulse::default()
    }
    fn stop(&self, failure: Failure) {
        *lock(&self.0) = Some(failure);
    }
    fn stall(&self) {}
}

/// What lay behind it was thrown away: the thread that closed the run waited for ever, and so did its poster if
/// posts wait for their receivers (`blocking`).
#[test]
fn when_a_datum_panics_as_it_is_posted_its_poster_and_whoever_comes_behind_it_get_their_answers() {
    ends_by(vec![], vec![Arc::new(Unsized(quiet))]);
}

/// Neither was caught: it ended the thread that moves messages.
#[test]
fn what_panics_as_it_is_dropped_after_a_panic_changes_nothing() {
    let wrong = |quiet| -> Arc<dyn Cargo> { Arc::new(Unsized(quiet)) };
    ends_by(vec![], vec![wrong(|| Box::new(Brittle))]);
    let brittle = || -> Arc<dyn Cargo> { Arc::new(BrittleDatum(Brittle)) };
    ends_by(vec![brittle()], vec![wrong(quiet)]);
    ends_by(vec![brittle(), brittle()], vec![wrong(quiet)]);
}

/// It ended the process: the parcel was dropped as the first panic unwound.
#[test]
fn data_may_panic_as_they_are_sent_and_as_they_are_dropped() {
    let brittle = || -> Arc<dyn Cargo> { Arc::new(BrittleDatum(Brittle)) };
    let wrong = || -> Arc<dyn Cargo> { Arc::new(UnsizedAndBrittle(Unsized(quiet), Brittle)) };
    ends_by(vec![], vec![wrong()]);
    ends_by(vec![], vec![wrong(), brittle(), wrong()]);
}

#[test]
fn whoever_panics_with_the_bare_transport_gives_it_back() {
    let ranks = ranks(2, Duration::ZERO);
    let here = &ranks[0].progress;
    let talk = AssertUnwindSafe(|| here.lend(true, |_| -> () { resume_unwind(quiet()) }));
    assert!(catch_unwind(talk).is_err());
    assert!(!here.movers.is_lent());
    assert_eq!(here.lend(true, |_| 1), Ok(1));
}

/// Whoever has not heard the end of the run does not come.
#[test]
fn the_bare_transport_is_lent_when_all_that_was_said_has_left() {
    let ranks = ranks(2, Duration::ZERO);
    let [here, there] = &ranks[..] else {
        unreachable!("there are two")
    };
    here.progress.with_depot(|depot| depot.leave());
    let is_lent = AtomicBool::new(false);
    thread::scope(|threads| {
        let talk = |_: &mut Raw<'_>| is_lent.store(true, Ordering::SeqCst);
        threads.spawn(move || here.progress.lend(true, talk));
        while !is_lent.load(Ordering::SeqCst) {
            move_all(std::slice::from_ref(there));
            thread::yield_now();
        }
    });
    let has_heard = |depot: &mut Depot| depot.gone_failure("").is_some();
    assert!(there.progress.with_depot(has_heard));
}

#[test]
fn a_rank_whose_run_was_refused_opens_the_next() {
    let ranks = ranks(2, Duration::ZERO);
    let opened_with = |values: [&str; 2]| {
        let open = |(rank, value): (&OfRank, &str)| {
            let settings = vec![("n".into(), value.into())];
            let answer = Promise::new(&*rank.host);
            let terms = Terms { settings };
            let open = Command::Open(terms, Arc::new(Idle(true, true)), answer.clone());
            rank.progress.command(open);
            answer
        };
        let answers: Vec<_> = ranks.iter().zip(values).map(open).collect();
        move_all(&ranks);
        answers.into_iter().map(|answer| answer.take()).collect()
    };
    let refused: Vec<_> = opened_with(["1", "2"]);
    let differ = |opened: &_| matches!(opened, Some(Err(Refused::Differ(_))));
    assert!(refused.iter().all(differ), "{refused:?}");
    assert_eq!(opened_with(["1", "1"]), [Some(Ok(())), Some(Ok(()))]);
}

/// Nobody confirms it any more.
#[test]
fn whoever_waits_until_a_parcel_has_arrived_is_told_when_the_run_stops_wherever_it_does() {
    for stops in [0, 1] {
        let (ranks, _) = opened_and_told(2);
        let answer = Promise::new(&*ranks[0].host);
        let post = Command::Post(parcel(&[1]), Some(answer.clone()));
        ranks[0].progress.command(post);
        assert!(answer.take().is_none());
        let failure = crate::failure(Rank(stops), "cancelled", "");
        let stopped = &ranks[stops as usize].progress;
        stopped.command(Command::Abort(failure));
        move_all(&ranks[..1]);
        assert!(answer.take().is_some(), "rank {stops} has stopped");
    }
}

/// A rank that takes nothing any more would keep it for ever.
#[test]
fn the_goodbye_is_said_at_once_and_waited_for_a_second_at_most() {
    let ranks = ranks(2, Duration::ZERO);
    let (here, mut life) = (&ranks[0], Life::default());
    here.progress.end();
    for (later, ends) in [(0, false), (999, false), (1000, true)] {
        here.host.later.store(later, Ordering::SeqCst);
        let turn = here.progress.turn(&mut life);
        assert_eq!(matches!(turn, Turn::Ends), ends, "after {later} ms");
    }
    move_all(&ranks[1..]);
    let has_heard = |depot: &mut Depot| depot.gone_failure("").is_some();
    assert!(ranks[1].progress.with_depot(has_heard));
}

/// An engine at work. When it is asked how far it is something happens first.
struct Questioned(Mutex<Option<Deed>>);

impl Inbox for Questioned {
    fn deliver(&self, _: Rank, _: Arrival) {}
    fn pulse(&self) -> Pulse {
        let deed = lock(&self.0).take();
        deed.into_iter().for_each(|deed| deed());
        Pulse::default()
    }
    fn stop(&self, _: Failure) {}
    fn stall(&self) {}
}

/// The worker that posted found the lock taken, and runs a long task now.
#[test]
fn the_thread_moves_what_was_posted_while_it_looked_whether_it_is_needed() {
    let (ranks, asked) = (
        ranks(2, Duration::ZERO),
        Arc::new(Questioned(Mutex::default())),
    );
    let here = ranks[0].progress.clone();
    let inboxes: [Arc<dyn Inbox>; 2] = [asked.clone(), Arc::new(Idle(true, true))];
    for (rank, inbox) in ranks.iter().zip(inboxes) {
        let answer = Promise::new(&*rank.host);
        let open = Command::Open(Terms::default(), inbox, answer);
        rank.progress.command(open);
    }
    move_all(&ranks);
    here.look();
    let posts = ranks[0].progress.clone();
    *lock(&asked.0) = Some(Box::new(move || aside(|| post(&posts, 1))));
    let _ = nap(&here, &mut Life::default());
    assert!(lock(&asked.0).is_none(), "it has looked");
    assert!(ranks[1].progress.pump(Haste::Now, Duration::from_secs(1)));
}

/// It looked for ever: what was said to a rank that takes nothing does not leave.
#[test]
fn whoever_asks_for_the_bare_transport_when_ranks_cannot_go_on_is_told_why() {
    let ranks = ranks(2, Duration::ZERO);
    let here = ranks[0].progress.clone();
    here.with_depot(|depot| depot.panicked("on purpose"));
    let (tell, told) = channel();
    // Not joined: if it looks for ever the test must not.
    thread::spawn(move || tell.send(here.lend(true, |_| ())));
    let lent = told.recv_timeout(Duration::from_secs(20)).unwrap();
    let Err(Refused::Broken(failure)) = lent else {
        panic!("{lent:?}")
    };
    assert!(failure.message.contains("rank 0 panicked"), "{failure:?}");
}

/// It got the transport, and waited for a rank that was not there: nobody says a second time that it is lost.
#[test]
fn whoever_asks_for_the_bare_transport_when_a_rank_has_left_is_told_which() {
    for is_lost in [false, true] {
        let mut ranks = ranks(3, Duration::ZERO);
        let gone = ranks.remove(1);
        if !is_lost {
            let _ = gone.progress.begin_to_leave();
            move_all(std::slice::from_ref(&gone));
        }
        drop(gone);
        let here = &ranks[0].progress;
        here.pump(Haste::Now, Duration::from_secs(1));
        let Err(Refused::Broken(failure)) = here.lend(true, |_| ()) else {
            panic!("it is lent: {is_lost}")
        };
        assert_eq!((failure.rank, &failure.kind[..]), (Rank(1), "rank_lost"));
    }
}

/// An engine that takes no parcel.
struct Throwing;

impl Inbox for Throwing {
    fn deliver(&self, _: Rank, _: Arrival) {
        resume_unwind(Box::new(Brittle));
    }
    fn pulse(&self) -> Pulse {
        Pulse::default()
    }
    fn stop(&self, _: Failure) {}
    fn stall(&self) {}
}

#[test]
fn what_an_inbox_throws_may_panic_as_it_is_dropped() {
    let ranks = ranks(2, Duration::ZERO);
    let told: Arc<Told> = Arc::default();
    let inboxes: [Arc<dyn Inbox>; 2] = [told.clone(), Arc::new(Throwing)];
    for (rank, inbox) in ranks.iter().zip(inboxes) {
        let answer = Promise::new(&*rank.host);
        rank.progress
            .command(Command::Open(Terms::default(), inbox, answer));
    }
    move_all(&ranks);
    post(&ranks[0].progress, 1);
    move_all(&ranks);
    let failure = lock(&told.0).take().expect("it is told");
    assert!(failure.message.contains("rank 1 panicked"), "{failure:?}");
}

/// An engine that panics when it is asked how far it is.
struct Heartless;

impl Inbox for Heartless {
    fn deliver(&self, _: Rank, _: Arrival) {}
    fn pulse(&self) -> Pulse {
        resume_unwind(quiet())
    }
    fn stop(&self, _: Failure) {}
    fn stall(&self) {}
}

/// Whoever closed waited for ever; and the thread, which looks whether workers are at work, ended.
#[test]
fn an_inbox_that_panics_when_it_is_asked_how_far_it_is_ends_the_run_with_what_that_says() {
    let ranks = ranks(2, Duration::ZERO);
    let here = &ranks[0];
    for (rank, inbox) in ranks.iter().zip([true, false]) {
        let inbox: Arc<dyn Inbox> = match inbox {
            true => Arc::new(Heartless),
            false => Arc::<Told>::default(),
        };
        let answer = Promise::new(&*rank.host);
        let open = Command::Open(Terms::default(), inbox, answer);
        rank.progress.command(open);
    }
    move_all(&ranks);
    here.progress.look();
    assert!(rests(&here.progress));
    let closed = Promise::new(&*here.host);
    let close = Command::Close(None, closed.clone());
    here.progress.command(close);
    move_all(&ranks);
    let Some(Err(failure)) = closed.take() else {
        panic!("whoever closes waits, or all is well")
    };
    assert!(
        failure.message.ends_with("not a word on the screen"),
        "{failure:?}"
    );
}

/// Ranks in a run, and what they are told of its end.
fn opened_and_told(n: usize) -> (Vec<OfRank>, Vec<Arc<Told>>) {
    let ranks = ranks(n, Duration::ZERO);
    let told: Vec<Arc<Told>> = ranks.iter().map(|_| Arc::default()).collect();
    let opened = ranks.iter().zip(&told).map(|(rank, told)| {
        let answer = Promise::new(&*rank.host);
        let open = Command::Open(Terms::default(), told.clone(), answer.clone());
        rank.progress.command(open);
        answer
    });
    let opened: Vec<_> = opened.collect();
    move_all(&ranks);
    assert!(opened.iter().all(|answer| answer.take().is_some()));
    (ranks, told)
}

/// Panicked again and again, and nothing of what that was told was done: whoever closed the run waited for ever.
#[test]
fn a_transport_that_panics_whenever_it_is_called_ends_the_run_and_is_asked_no_more() {
    type Which = fn(&Failing) -> &AtomicBool;
    let calls: [(Which, bool); 3] = [
        (|fails| &fails.polls, true),
        (|fails| &fails.awaits, true),
        (|fails| &fails.sends, false),
    ];
    for (which, are_others_told) in calls {
        let (ranks, told) = opened_and_told(2);
        let here = &ranks[0];
        which(&here.fails).store(true, Ordering::SeqCst);
        post(&here.progress, 1);
        post(&here.progress, 1); // which waits behind the first
        let moves = (0..100).take_while(|_| here.progress.pump(Haste::Now, Duration::from_secs(1)));
        assert!(moves.count() < 100, "it moves for ever");
        let failed = here.fails.n.load(Ordering::SeqCst);
        assert!((1..10).contains(&failed), "{failed}");
        let failure = lock(&told[0].0).take().expect("it is told");
        assert!(failure.message.contains("rank 0 panicked"), "{failure:?}");
        let closed = Promise::new(&*here.host);
        here.progress.command(Command::Close(None, closed.clone()));
        assert_eq!(closed.take(), Some(Err(failure.clone())));
        let rests = nap(&here.progress, &mut Life::default());
        assert!(matches!(rests, Some(None)), "the thread sleeps: {rests:?}");
        move_all(&ranks[1..]);
        let said = lock(&told[1].0).take();
        assert_eq!(said, are_others_told.then_some(failure));
    }
}

/// Posts data of rank 0 and then a wrong one, all at once.
fn ends_by(before: Vec<Arc<dyn Cargo>>, wrong: Vec<Arc<dyn Cargo>>) {
    let (ranks, told) = opened_and_told(2);
    let here = &ranks[0];
    let (posted, closed) = (Promise::new(&*here.host), Promise::new(&*here.host));
    let carrying = |data: Vec<Arc<dyn Cargo>>| Parcel {
        flows: (0..).zip(data.into_iter().map(Some)).collect(),
        ..parcel(&[1])
    };
    let movers = &here.progress.movers;
    for cargo in before {
        movers.hand_in(Command::Post(carrying(vec![cargo]), None));
    }
    let wrong = carrying(wrong);
    movers.hand_in(Command::Post(wrong, Some(posted.clone())));
    // Nothing of it is sent, and nobody else holds these.
    let brittle = || -> Arc<dyn Cargo> { Arc::new(BrittleDatum(Brittle)) };
    movers.hand_in(Command::Post(carrying(vec![brittle(), brittle()]), None));
    movers.hand_in(Command::Close(None, closed.clone()));
    move_all(&ranks);
    assert!(posted.take().is_some(), "its poster waits");
    // The other rank has nothing to do.
    let there = Promise::new(&*ranks[1].host);
    ranks[1]
        .progress
        .command(Command::Close(None, there.clone()));
    move_all(&ranks);
    let Some(Ok(Some(failure))) = closed.take() else {
        panic!("whoever closes waits, or all is well")
    };
    let said = failure
        .message
        .strip_prefix("a datum panicked as it was sent: ");
    assert!(
        matches!(said, Some("not a word on the screen" | "(no text)")),
        "{failure:?}"
    );
    assert_eq!(failure.name, parcel(&[]).task, "its task is named");
    assert_eq!(there.take(), Some(Ok(Some(failure.clone()))));
    assert_eq!(lock(&told[1].0).take(), Some(failure));
    for rank in &ranks {
        rank.progress
            .with_depot(|depot| assert_eq!(depot.broken(), None));
    }
}

/// Its word came while the other rank listened to nothing but the bare transport.
#[test]
fn what_came_for_the_protocol_while_the_transport_was_lent_is_heard_afterwards() {
    let ranks = ranks(2, Duration::ZERO);
    let [here, there] = &ranks[..] else {
        unreachable!("there are two")
    };
    thread::scope(|threads| {
        threads.spawn(|| {
            // It says so to its neighbours in the tree.
            let _ = there.progress.begin_to_leave();
            let bytes = Sendable::new(vec![7]);
            there.progress.lend(true, |raw| raw.send(Rank(0), &bytes))
        });
        let receive = |raw: &mut Raw<'_>| raw.receive(Rank(1), Heap.allocate(1));
        let received = here.progress.lend(true, receive).unwrap().unwrap();
        assert_eq!(received.bytes(), [7]);
    });
    let answer = Promise::new(&*here.host);
    let settings = vec![("space".to_string(), "sweeps".to_string())];
    let open = Command::Open(
        Terms { settings },
        Arc::new(Idle(true, true)),
        answer.clone(),
    );
    here.progress.command(open);
    let Some(Err(Refused::Broken(failure))) = answer.take() else {
        panic!("rank 1 has left, and nobody knows")
    };
    let text = "rank 1 has left, and all ranks are needed for \"sweeps\"";
    assert_eq!(failure.message, text);
}
