//! Progress: who moves messages, and when. The only code that touches a transport or a clock.
//!
//! The depot and its transport lie behind one lock, taken by whoever moves messages for a moment:
//! a thread of its own, helped by workers that have nothing to run, or ([`Drive::Workers`]) the workers
//! between their tasks. Then the thread is a helper: it sleeps, and steps in when no worker has looked
//! for 200 µs, or up to a millisecond where they have looked all the time before. It sends the beats in
//! any case, so a body of 15 s neither delays others nor looks dead.
//!
//! A worker whose tasks are short posts to all ranks at once, when it looks before its next task,
//! and to each of them not again within [`Settings::hold`]: a packet costs more than such a task.
//! What it has held back leaves when it has nothing to run.
//!
//! # Law
//! Of those who move messages nobody waits for the lock but the thread. Who leaves it looks once more for
//! commands, so none is left lying ([`movers`]). The thread sleeps without using the processor while no
//! run is open.

mod movers;
mod moving;

use movers::Movers;
use moving::{AT_ONCE, Moving};

use crate::bell::Bell;
use crate::depot::{Depot, Refused};
use crate::host::{Answer, Host, Turn};
use crate::outbox::Haste;
use crate::settings::{Drive, Settings};
use crate::sync::{AtomicBool, AtomicU64, Ordering, yield_now};
use crate::transport::raw::{Lent, Raw};
use crate::transport::{Event, Transport};
use crate::waits::Waits;
use dataflow_core::port::{Failure, Inbox, Parcel, Terms};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// How long workers may not look before the helper does.
const UNATTENDED: Duration = Duration::from_micros(200);

/// How long a transport that cannot ring is left alone, at first and at most.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

pub(crate) type Opened = Result<(), Refused>;
pub(crate) type Closed = Result<Option<Failure>, Failure>;

/// What the engine wants.
pub(crate) enum Command {
    Open(Terms, Arc<dyn Inbox>, Arc<Answer<Opened>>),
    Post(Parcel, Option<Arc<Answer<()>>>),
    Abort(Failure),
    Close(Option<Failure>, Arc<Answer<Closed>>),
}

/// What workers and the thread share.
pub(crate) struct Progress {
    pub settings: Settings,
    pub host: Arc<dyn Host>,
    movers: Movers<Moving, Command>,
    /// When a worker looked last, in nanoseconds.
    looked: AtomicU64,
    /// Ends a nap of the thread, which leaves the messages to workers meanwhile.
    nap: Arc<dyn Bell>,
    /// Whether the transport rings the thread's bell when something has come.
    rings: bool,
    /// How long this rank waits for others.
    waits: Waits,
    /// Whether others may still ask for data of this rank.
    owes: AtomicBool,
    ending: AtomicBool,
}

/// How far the thread is.
#[derive(Default)]
pub(crate) struct Life {
    stage: Stage,
    /// Since when nothing has moved.
    idle_since: Option<Duration>,
}

#[derive(Clone, Copy, Default)]
enum Stage {
    #[default]
    Begins,
    /// Workers look. How patient it is with them, and when they had looked last before it slept.
    Aside {
        patience: Duration,
        looked: Option<Duration>,
    },
    Moves,
    Rests,
    /// It is given so long to say goodbye.
    Leaves(Duration),
}

thread_local! {
    /// Whether this thread moves messages right now.
    static MOVING: Cell<bool> = const { Cell::new(false) };
    /// When this thread looked last: before the task that it runs.
    static LOOKED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// What is kept by thread here: for those who run several by turns on one. (Numbers of threads, which
/// `waits` gives, tell apart who looks for long; in virtual time nobody does.)
#[derive(Default)]
pub(crate) struct OfThread {
    moving: bool,
    looked: Duration,
}

impl OfThread {
    /// The calling thread's becomes this, and this the thread's.
    pub fn swap(&mut self) {
        self.moving = MOVING.replace(self.moving);
        self.looked = LOOKED.replace(self.looked);
    }
}

/// Whether the calling thread moves messages: then it must not wait for any.
pub(crate) fn is_moving() -> bool {
    MOVING.get()
}

impl Progress {
    pub fn new(
        mut transport: Box<dyn Transport>,
        depot: Depot,
        settings: Settings,
        host: Arc<dyn Host>,
    ) -> Arc<Self> {
        let bell = transport.bell(&*host);
        let rings = bell.is_some();
        let bell = bell.unwrap_or_else(|| host.bell());
        Arc::new(Progress {
            settings,
            movers: Movers::new(Moving::new(transport, depot), bell),
            looked: AtomicU64::new(0),
            nap: host.bell(),
            rings,
            host,
            waits: Waits::default(),
            owes: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        })
    }

    /// Hands in what the engine wants.
    pub fn command(&self, command: Command) {
        let wakes = !matches!(command, Command::Post(..));
        self.movers.hand_in(command);
        match self.settings.drive {
            Drive::Workers if is_moving() || (!wakes && self.looks_soon()) => {}
            Drive::Workers => {
                self.pump(Haste::Now, self.host.now());
            }
            Drive::Dedicated if wakes || is_moving() => {}
            // While the thread sleeps whoever posts is quicker than it would wake.
            Drive::Dedicated if self.movers.is_resting() => {
                self.pump(Haste::Patient, self.host.now());
                if !self.movers.holds() {
                    return;
                }
            }
            Drive::Dedicated => {}
        }
        if wakes || self.settings.drive == Drive::Dedicated {
            self.movers.bell().ring();
        }
    }

    /// Whether the calling thread is a worker whose tasks are short: it looks before the next.
    fn looks_soon(&self) -> bool {
        self.host.now().saturating_sub(LOOKED.get()) < self.settings.hold
    }

    /// Notes that a worker looks, and when.
    fn look(&self) -> Duration {
        let now = self.host.now();
        self.looked.store(now.as_nanos() as u64, Ordering::Relaxed);
        LOOKED.set(now);
        now
    }

    /// A worker has a moment.
    pub fn poll(&self) {
        if self.settings.drive == Drive::Workers && !is_moving() {
            let now = self.look();
            if self.pump(Haste::Patient, now) {
                self.look();
            }
            // A task may be long: then the helper sends what is held back.
            if self.movers.holds() && self.movers.is_resting() {
                self.movers.bell().ring();
            }
        }
    }

    /// Whether a worker that has nothing to do goes on looking: for as long as the rank's waits last
    /// ([`Waits`]), while it waits for others, or others for data of this rank that it moves itself.
    /// What was held back while there was more to do leaves now.
    pub fn lingers(&self, finished: bool, since: &mut Option<Duration>) -> bool {
        let is_mover = self.settings.drive == Drive::Workers;
        if is_mover && !is_moving() && self.movers.holds() {
            self.pump(Haste::Now, self.look());
        }
        if finished && !(is_mover && self.owes.load(Ordering::Relaxed)) {
            return false;
        }
        let now = match is_mover {
            // It has just polled.
            true => Duration::from_nanos(self.looked.load(Ordering::Relaxed)),
            false => self.stand_in(),
        };
        let start = *since.get_or_insert_with(|| {
            self.waits.begin(now);
            now
        });
        let lingers = self.goes_on_looking(now, now.saturating_sub(start));
        if is_mover && !lingers {
            // It leaves: if it is the last, the helper waits for messages in its place.
            self.nap.ring();
        }
        lingers
    }

    /// Whether a worker that has looked for so long does so again.
    fn goes_on_looking(&self, now: Duration, looked: Duration) -> bool {
        if looked < self.settings.spin {
            return true;
        }
        let goes_on =
            looked < self.waits.look_for(self.settings.spin) && self.waits.is_lookout(now);
        if goes_on {
            // Where there are more threads than cores, it is another's turn.
            self.stands_back();
        }
        goes_on
    }

    /// A worker that has nothing to do moves messages in the thread's place, or gives it the core: where
    /// there are more threads than cores, what it waits for would come only when both had slept. Tells
    /// the time.
    fn stand_in(&self) -> Duration {
        let now = self.host.now();
        if !is_moving() && !self.pump(Haste::Now, now) {
            self.stands_back();
        }
        now
    }

    /// The calling thread gives its core to others for a moment; in virtual time nobody wants it.
    fn stands_back(&self) {
        if !self.host.is_virtual() {
            yield_now();
        }
    }

    /// Waits for an answer, moving messages oneself for as long as the rank's waits last.
    pub fn wait<T>(&self, answer: &Answer<T>) -> T {
        let mut now = self.host.now();
        let until = now + self.waits.look_for(self.settings.spin);
        while now < until {
            if let Some(value) = answer.take() {
                return value;
            }
            let moved = self.settings.drive == Drive::Workers && self.pump(Haste::Now, now);
            if !moved {
                // Every core has its worker: whoever waits beside them stands back.
                self.stands_back();
            }
            now = self.host.now();
        }
        // From here on the helper looks, and not only after its nap.
        self.nap.ring();
        answer.wait()
    }

    /// Looks at the depot, waiting for whoever moves messages.
    pub fn with_depot<R>(&self, look: impl FnOnce(&mut Depot) -> R) -> R {
        self.movers.look(|moving| look(&mut moving.depot))
    }

    /// Lends the bare transport while no run is open; what came for the protocol it gets afterwards.
    pub fn lend<R>(&self, spins: bool, talk: impl FnOnce(&mut Raw<'_>) -> R) -> Option<R> {
        self.movers.lend(|moving| {
            // The end of a run may wait behind a packet: those who have not heard it would not come.
            while moving.inbox.is_none() && !moving.depot.is_flushed() {
                self.step(moving, Haste::Now, self.host.now());
                self.stands_back();
            }
            let mut kept: Vec<Event> = Vec::new();
            let said = moving.inbox.is_none().then(|| {
                let lent = Lent {
                    transport: &mut *moving.transport,
                    kept: &mut kept,
                };
                let bell = (self.rings && !spins).then(|| self.movers.bell().clone());
                talk(&mut Raw::over(lent, bell, &*self.host))
            });
            let now = self.host.now();
            for event in kept {
                moving.depot.event(event, now);
            }
            moving.due = Some(now);
            said
        })
    }

    /// Moves messages, unless somebody else does; says whether any moved.
    fn pump(&self, haste: Haste, now: Duration) -> bool {
        self.movers.try_move(|moving| self.step(moving, haste, now))
    }

    /// Moves messages until nothing moves; says whether anything did.
    ///
    /// Whoever is told of messages may panic: that is the end of all communication, told to all.
    fn step(&self, moving: &mut Moving, haste: Haste, now: Duration) -> bool {
        let outer = MOVING.replace(true);
        let moved = catch_unwind(AssertUnwindSafe(|| self.move_all(moving, haste, now)));
        MOVING.set(outer);
        moved.unwrap_or_else(|_| {
            moving.depot.panicked();
            moving.due = Some(now);
            true
        })
    }

    fn move_all(&self, moving: &mut Moving, haste: Haste, now: Duration) -> bool {
        let mut moved = false;
        if haste == Haste::Now && moving.depot.is_holding() {
            moving.due = Some(now);
        }
        for _ in 0..AT_ONCE {
            // The pulse first: what was posted before it is among the commands.
            let felt = moving.feel_pulse(now);
            let mut commands = std::mem::take(&mut moving.commands);
            self.movers.take(&mut commands);
            let mut once = !commands.is_empty();
            commands
                .drain(..)
                .for_each(|command| moving.obey(command, now));
            moving.commands = commands;
            once |= moving.listen(now);
            // A look in vain is cheap: workers look again and again.
            if once || felt || moving.due.is_some_and(|due| due <= now) {
                moving.depot.drive_in(haste, now);
                moving.due = moving.depot.wakes(now);
                once |= moving.act(self.settings.warn);
                if std::mem::take(&mut moving.has_delivered) {
                    self.waits.end(now);
                }
                once |= moving.await_packets();
                self.owes.store(moving.depot.owes(), Ordering::Relaxed);
                self.movers.set_holds(moving.depot.is_holding());
            }
            if !once {
                break;
            }
            moved = true;
        }
        moved
    }

    /// A turn of the thread: what it does until it rests, or ends.
    pub fn turn(&self, life: &mut Life) -> Turn {
        loop {
            life.stage = match life.stage {
                Stage::Begins if self.is_ending() => self.begin_to_leave(),
                Stage::Begins => Stage::Aside {
                    patience: UNATTENDED,
                    looked: None,
                },
                Stage::Aside { patience, looked } => match self.stands_aside(patience, looked) {
                    None => Stage::Moves,
                    Some((stage, nap)) => {
                        life.stage = stage;
                        return Turn::Rests(self.nap.clone(), Some(nap));
                    }
                },
                Stage::Moves => match self.moves(&mut life.idle_since) {
                    None => Stage::Begins,
                    Some(at_most) if self.movers.falls_asleep() => {
                        life.stage = Stage::Rests;
                        return Turn::Rests(self.movers.bell().clone(), at_most);
                    }
                    Some(_) => Stage::Rests,
                },
                Stage::Rests => {
                    self.movers.gets_up();
                    if self.rings {
                        life.idle_since = None;
                    }
                    Stage::Begins
                }
                Stage::Leaves(deadline) if self.has_left(deadline) => return Turn::Ends,
                Stage::Leaves(_) => {
                    return Turn::Rests(self.movers.bell().clone(), Some(NAPS[1]));
                }
            };
        }
    }

    /// Moves messages once. Says for how long to sleep at most, if nothing has moved.
    fn moves(&self, idle_since: &mut Option<Duration>) -> Option<Option<Duration>> {
        let ((moved, wakes, busy), is_called_back) = self.movers.locked(|moving| {
            let now = self.host.now();
            let moved = self.step(moving, Haste::Now, now);
            (moved, moving.depot.wakes(now), moving.is_busy())
        });
        if moved || is_called_back {
            *idle_since = None;
            return None;
        }
        let now = self.host.now();
        let idle = now - *idle_since.get_or_insert(now);
        // A helper would spin against the workers it helps.
        let looks = self.settings.drive == Drive::Dedicated;
        if busy && looks && idle < self.waits.look_for(self.settings.spin) {
            // Where there are more threads than cores, it is another's turn.
            self.stands_back();
            return None;
        }
        Some(self.rest(wakes.map(|at| at.saturating_sub(now)), busy, idle))
    }

    /// How long to sleep when nothing moves.
    fn rest(&self, until_due: Option<Duration>, busy: bool, idle: Duration) -> Option<Duration> {
        if self.rings {
            return until_due;
        }
        if !busy {
            // Others that wait for this rank ask whether it lives.
            return Some(until_due.map_or(self.settings.beat / 2, |due| {
                due.min(self.settings.beat / 2)
            }));
        }
        let nap = (idle / 4).clamp(NAPS[0], NAPS[1]);
        Some(until_due.map_or(nap, |due| due.min(nap)))
    }

    /// While workers look themselves, the helper sleeps on, and says for how long; workers that have
    /// nothing to run do not look. `before` is when they had looked last before it slept, if it did.
    fn stands_aside(
        &self,
        mut patience: Duration,
        before: Option<Duration>,
    ) -> Option<(Stage, Duration)> {
        let looked = Duration::from_nanos(self.looked.load(Ordering::Relaxed));
        // It may take long to copy a large datum, and a worker that waits looks all the time: whoever
        // wakes again and again takes the core from it.
        if before.is_some_and(|before| looked > before) {
            patience = (2 * patience).min(NAPS[1]);
        }
        let has_to_come = self.is_ending() || self.movers.is_lent();
        if self.settings.drive != Drive::Workers || has_to_come || looked.is_zero() {
            return None;
        }
        let unattended = self.host.now().saturating_sub(looked);
        let nap = match self.is_rank_idle() {
            Some(idle) if idle || unattended >= UNATTENDED => return None,
            Some(_) => patience - unattended,
            None => patience,
        };
        let looked = Some(looked);
        Some((Stage::Aside { patience, looked }, nap))
    }

    /// Whether no worker will look, or somebody has left a command while this looked; `None` if somebody
    /// moves messages just now.
    fn is_rank_idle(&self) -> Option<bool> {
        let is_idle = |moving: &mut Moving| {
            let inbox = moving.inbox.as_ref();
            inbox.is_none_or(|inbox| inbox.pulse().idle)
        };
        let (is_idle, is_called_back) = self.movers.try_look(is_idle)?;
        Some(is_idle || is_called_back)
    }

    /// Says goodbye, and waits a second at most for it to leave.
    fn begin_to_leave(&self) -> Stage {
        self.movers.locked(|moving| {
            moving.depot.leave();
            moving.due = Some(self.host.now());
        });
        Stage::Leaves(self.host.now() + Duration::from_secs(1))
    }

    /// Whether the goodbye has left, or the time for it is over.
    fn has_left(&self, deadline: Duration) -> bool {
        let (is_flushed, _) = self.movers.locked(|moving| {
            self.step(moving, Haste::Now, self.host.now());
            moving.depot.is_flushed()
        });
        is_flushed || self.host.now() >= deadline
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Tells the thread to end.
    pub fn end(&self) {
        // Relaxed: the rings show it.
        self.ending.store(true, Ordering::Relaxed);
        self.nap.ring();
        self.movers.bell().ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Machine, Thread};
    use crate::sync::{Mutex, lock};
    use crate::transport::local::{self, Local};
    use crate::transport::raw::Sendable;
    use crate::transport::{Limits, Payload, Room};
    use dataflow_core::port::{Arrival, Heap, Memory, Pulse};
    use dataflow_core::rank::Rank;
    use smallvec::smallvec;
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    type Deed = Box<dyn FnOnce() + Send>;

    /// A machine whose time stands still; its bells are one, and nobody waits for it. When it is asked
    /// for the time something may happen first.
    #[derive(Default)]
    struct Still {
        bell: Arc<Counted>,
        first: Mutex<VecDeque<Option<Deed>>>,
    }

    impl Host for Still {
        fn now(&self) -> Duration {
            let deed = lock(&self.first).pop_front().flatten();
            deed.into_iter().for_each(|deed| deed());
            Duration::from_secs(1)
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
    struct Counted(AtomicUsize);

    impl Bell for Counted {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        fn wait(&self, _: Option<Duration>) {}
    }

    /// A transport with which something happens when nothing has arrived, while the lock is held.
    struct Interrupted(Local, Arc<Mutex<Option<Deed>>>);

    impl Transport for Interrupted {
        fn rank(&self) -> Rank {
            self.0.rank()
        }
        fn n_ranks(&self) -> usize {
            self.0.n_ranks()
        }
        fn limits(&self) -> Limits {
            self.0.limits()
        }
        fn send(&mut self, to: Rank, packet: Vec<u8>) {
            self.0.send(to, packet);
        }
        fn send_data(&mut self, to: Rank, tag: u32, payload: Payload) {
            self.0.send_data(to, tag, payload);
        }
        fn receive(&mut self, from: Rank, tag: u32, room: Room) {
            self.0.receive(from, tag, room);
        }
        fn awaits(&mut self, to: Rank) -> bool {
            self.0.awaits(to)
        }
        fn poll(&mut self) -> Option<Event> {
            let event = self.0.poll();
            if event.is_none() {
                let deed = lock(&self.1).take();
                deed.into_iter().for_each(|deed| deed());
            }
            event
        }
        fn bell(&mut self, host: &dyn Host) -> Option<Arc<dyn Bell>> {
            self.0.bell(host)
        }
    }

    /// A rank that has nothing to run.
    #[derive(Debug)]
    struct Idle;

    impl Inbox for Idle {
        fn deliver(&self, _: Rank, _: Arrival) {}
        fn pulse(&self) -> Pulse {
            Pulse {
                idle: true,
                ..Pulse::default()
            }
        }
        fn stop(&self, failure: Failure) {
            panic!("{failure:?}");
        }
        fn stall(&self) {
            panic!("nothing stalls");
        }
    }

    struct OfRank {
        progress: Arc<Progress>,
        host: Arc<Still>,
        when_idle: Arc<Mutex<Option<Deed>>>,
    }

    /// Ranks whose messages nobody moves but the test.
    fn ranks(n: usize, hold: Duration) -> Vec<OfRank> {
        let settings = Settings {
            drive: Drive::Workers,
            hold,
            ..Settings::default()
        };
        let rank = |local: Local| {
            let (rank, limits) = (local.rank(), local.limits());
            let depot = Depot::new(rank, n, limits, settings.clone(), Arc::new(Heap));
            let (host, when_idle) = (Arc::new(Still::default()), Arc::default());
            let transport = Interrupted(local, Arc::clone(&when_idle));
            let progress =
                Progress::new(Box::new(transport), depot, settings.clone(), host.clone());
            OfRank {
                progress,
                host,
                when_idle,
            }
        };
        local::connect(n).into_iter().map(rank).collect()
    }

    /// The same, in a run.
    fn opened(n: usize, hold: Duration) -> Vec<OfRank> {
        let ranks = ranks(n, hold);
        let open = |rank: &OfRank| {
            let answer = Answer::new(&*rank.host);
            let open = Command::Open(Terms::default(), Arc::new(Idle), answer.clone());
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

    fn post(progress: &Progress, to: u32) {
        progress.command(Command::Post(parcel(&[to]), None));
    }

    /// What another thread does, to its end.
    fn aside(what: impl FnOnce() + Send) {
        thread::scope(|threads| threads.spawn(what).join().unwrap());
    }

    fn rests(progress: &Progress) -> bool {
        matches!(progress.turn(&mut Life::default()), Turn::Rests(..))
    }

    /// Whoever came with it found the lock taken, and went away.
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
        let answer = Answer::new(&*ranks[0].host);
        let post = Command::Post(parcel(&[1, 2]), Some(answer.clone()));
        ranks[0].progress.command(post);
        move_all(&ranks[..2]);
        assert!(answer.take().is_none(), "rank 2 has not got it");
        move_all(&ranks);
        assert!(answer.take().is_some());
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
        let answer = Answer::new(&*here.host);
        let open = Command::Open(Terms::default(), Arc::new(Idle), answer.clone());
        here.progress.command(open);
        let Some(Err(Refused::Broken(failure))) = answer.take() else {
            panic!("rank 1 has left, and nobody knows")
        };
        assert!(failure.message.contains("rank 1 has left"), "{failure:?}");
    }
}
