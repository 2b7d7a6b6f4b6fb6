//! Movers: of all threads of a rank, one at a time moves messages, and none that is needed sleeps.
//!
//! The protocol, its races and its proofs are in README.md, whose steps are cited here by number. What
//! moving messages means is elsewhere: here it is a function of the state under the lock.

use crate::bell::Bell;
use crate::sync::{AtomicBool, Mutex, Ordering, fence, lock, try_lock, yield_now};
use std::sync::Arc;

/// A state that one thread at a time moves, and commands for it from all.
pub(crate) struct Movers<S, C> {
    state: Mutex<S>,
    commands: Mutex<Vec<C>>,
    /// Whether there are commands, or have just been.
    has_commands: AtomicBool,
    /// Whether something in the state waits for more to go along with it.
    holds: AtomicBool,
    /// Whether somebody has the state and its bell to himself.
    lent: AtomicBool,
    /// Whether the thread waits for the bell, or is about to.
    resting: AtomicBool,
    bell: Arc<dyn Bell>,
}

impl<S, C> Movers<S, C> {
    /// The thread sleeps at this bell.
    pub fn new(state: S, bell: Arc<dyn Bell>) -> Self {
        Movers {
            state: Mutex::new(state),
            commands: Mutex::new(Vec::new()),
            has_commands: AtomicBool::new(false),
            holds: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            bell,
        }
    }

    /// The bell of the thread.
    pub fn bell(&self) -> &Arc<dyn Bell> {
        &self.bell
    }

    /// Leaves a command for the thread that moves next (C1, C2). The caller must then move, ring the bell, or be
    /// sure to look soon.
    pub fn hand_in(&self, command: C) {
        // C1. Relaxed: ordered by the fence.
        lock(&self.commands).push(command);
        self.has_commands.store(true, Ordering::Relaxed);
        // C2. Pairs with the fence of the thread that leaves the lock (M3).
        fence(Ordering::SeqCst);
    }

    /// Whether there may be commands to take. A look first: nearly always there are none.
    #[inline]
    pub fn has_commands(&self) -> bool {
        self.has_commands.load(Ordering::Relaxed)
    }

    /// Takes all commands; `commands` is empty and gives its room for the next. The thread that moves calls this
    /// where [there may be some](Self::has_commands).
    pub fn take(&self, commands: &mut Vec<C>) {
        // Relaxed: a thread that adds a command after the swap sets the flag after this, by the lock.
        self.has_commands.store(false, Ordering::Relaxed);
        std::mem::swap(&mut *lock(&self.commands), commands);
    }

    /// Moves, unless somebody else does (M1 to M4); says whether `step` said that anything has moved.
    pub fn try_move(&self, mut step: impl FnMut(&mut S) -> bool) -> bool {
        let mut moved = false;
        loop {
            let Some(mut state) = try_lock(&self.state) else {
                return moved;
            };
            moved |= step(&mut state);
            drop(state);
            if !self.is_called_back() {
                return moved;
            }
        }
    }

    /// Waits for the thread that has the lock, and takes it; says also whether the caller must come again (M2 to
    /// M4).
    pub fn locked<R>(&self, step: impl FnOnce(&mut S) -> R) -> (R, bool) {
        let said = step(&mut lock(&self.state));
        (said, self.is_called_back())
    }

    /// Whether the thread that has left the lock must take it again (M3, M4).
    fn is_called_back(&self) -> bool {
        // M3. Pairs with the fence in `hand_in` (C2), and with that in `falls_asleep` (S2).
        fence(Ordering::SeqCst);
        self.has_commands()
    }

    /// Looks at the state, waiting for the thread that has it, and moves nothing: if a command came meanwhile the
    /// thread shall.
    pub fn look<R>(&self, look: impl FnOnce(&mut S) -> R) -> R {
        let (seen, is_called_back) = self.locked(look);
        if is_called_back {
            self.bell.ring();
        }
        seen
    }

    /// The thread looks at the state, unless somebody has it, and moves nothing; says also whether it must.
    pub fn try_look<R>(&self, look: impl FnOnce(&mut S) -> R) -> Option<(R, bool)> {
        let seen = look(&mut *try_lock(&self.state)?);
        Some((seen, self.is_called_back()))
    }

    /// The thread that moves tells whether it leaves something that waits for more to go along with it.
    pub fn set_holds(&self, holds: bool) {
        // Relaxed: ordered by the fence that follows (M3).
        self.holds.store(holds, Ordering::Relaxed);
    }

    /// Whether something waits for more to go along with it.
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    /// Whether the thread sleeps. A thread that has just moved, and holds something back, may rely on it (S3);
    /// for others it is a hint.
    pub fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// The thread wants to sleep (S1 to S3). If this says yes it waits for the bell, or as long as it likes;
    /// in any case it [gets up](Self::gets_up) then.
    pub fn falls_asleep(&self) -> bool {
        // S1. Relaxed: ordered by the fence.
        self.resting.store(true, Ordering::Relaxed);
        // S2. Pairs with the fence in `lend` (L2), and with that of the thread that leaves the lock (M3).
        fence(Ordering::SeqCst);
        // S3.
        !self.is_lent() && !self.holds()
    }

    /// The thread has left the bell (S4), and moves next.
    pub fn gets_up(&self) {
        // Relaxed: a thread that sees it late rings in vain.
        self.resting.store(false, Ordering::Relaxed);
    }

    /// Has the state, and the bell, to oneself (L1 to L4).
    pub fn lend<R>(&self, talk: impl FnOnce(&mut S) -> R) -> R {
        let mut state = lock(&self.state);
        // L1. Under the lock: of two that want it the first would otherwise end the other's time.
        self.lent.store(true, Ordering::Relaxed);
        // L2. Pairs with the fence in `falls_asleep` (S2).
        fence(Ordering::SeqCst);
        // L3. The thread leaves the bell and waits for the lock: of two that slept there the wrong one
        // might be woken.
        while self.is_resting() {
            self.bell.ring();
            yield_now();
        }
        let said = talk(&mut state);
        // L4.
        self.lent.store(false, Ordering::Relaxed);
        drop(state);
        self.bell.ring();
        said
    }

    /// Whether somebody has the state and its bell to himself.
    pub fn is_lent(&self) -> bool {
        self.lent.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::bell::Gong;
    use crate::sync::{AtomicUsize, explore};
    use loom::sync::Arc;
    use loom::thread;
    use std::time::Duration;

    /// What is under the lock: how many commands were obeyed, and how much of that has left.
    #[derive(Default)]
    struct Moved {
        obeyed: usize,
        left: usize,
    }

    /// A bell that notes how many wait for it at once.
    #[derive(Default)]
    struct CountingBell {
        gong: Gong,
        waiting: AtomicUsize,
    }

    impl Bell for CountingBell {
        fn ring(&self) {
            self.gong.ring();
        }

        fn wait(&self, at_most: Option<Duration>) {
            let others = self.waiting.fetch_add(1, Ordering::Relaxed);
            assert_eq!(others, 0, "two wait for one bell");
            self.gong.wait(at_most);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    struct RankUnderTest {
        movers: Movers<Moved, usize>,
        bell: std::sync::Arc<CountingBell>,
        /// Rung when something has left.
        answer: Gong,
        ending: AtomicBool,
    }

    impl RankUnderTest {
        fn new() -> Arc<RankUnderTest> {
            let bell = std::sync::Arc::new(CountingBell::default());
            Arc::new(RankUnderTest {
                movers: Movers::new(Moved::default(), bell.clone()),
                bell,
                answer: Gong::default(),
                ending: AtomicBool::new(false),
            })
        }

        /// As `MessageProgress::step`: a thread that is patient leaves what was obeyed to others.
        fn step(&self, moved: &mut Moved, is_patient: bool) -> bool {
            let mut commands = Vec::new();
            if self.movers.has_commands() {
                self.movers.take(&mut commands);
            }
            moved.obeyed += commands.iter().sum::<usize>();
            let leaves = if is_patient { moved.left } else { moved.obeyed };
            let has_moved = !commands.is_empty() || leaves > moved.left;
            if leaves > std::mem::replace(&mut moved.left, leaves) {
                self.answer.ring();
            }
            self.movers.set_holds(moved.left < moved.obeyed);
            has_moved
        }

        /// As a worker posts that moves messages itself, and goes on.
        fn post(&self) {
            self.movers.hand_in(1);
            self.movers.try_move(|moved| self.step(moved, false));
        }

        /// As a worker posts beside a thread that moves messages (`MessageProgress::command`).
        fn post_beside_the_thread(&self) {
            self.movers.hand_in(1);
            if self.movers.is_resting() {
                self.movers.try_move(|moved| self.step(moved, true));
                if !self.movers.holds() {
                    return;
                }
            }
            self.bell.ring();
        }

        /// As a worker looks before a task that may take hours.
        fn poll(&self) {
            self.movers.try_move(|moved| self.step(moved, true));
            if self.movers.holds() && self.movers.is_resting() {
                self.bell.ring();
            }
        }

        /// As the thread moves messages; says how much has left by now, and whether it must again.
        fn moves(&self) -> (usize, bool) {
            self.movers.locked(|moved| {
                while self.step(moved, false) {}
                moved.left
            })
        }

        /// As the thread lives (`MessageProgress::turn`), until so much has left, or it shall end.
        fn live_until(&self, left: usize) {
            loop {
                let (left_now, is_called_back) = self.moves();
                if left_now == left || self.ending.load(Ordering::Relaxed) {
                    return;
                }
                if !is_called_back {
                    if self.movers.falls_asleep() {
                        self.bell.wait(None);
                    }
                    self.movers.gets_up();
                }
            }
        }

        fn end(&self) {
            // Relaxed: the ring shows it.
            self.ending.store(true, Ordering::Relaxed);
            self.bell.ring();
        }
    }

    fn start(
        rank: &Arc<RankUnderTest>,
        what: impl FnOnce(&RankUnderTest) + 'static,
    ) -> thread::JoinHandle<()> {
        let rank = rank.clone();
        thread::spawn(move || what(&rank))
    }

    /// Two workers post at once; the one that finds the lock taken goes away.
    #[test]
    fn a_command_is_obeyed_though_another_had_the_lock() {
        explore(4, || {
            let rank = RankUnderTest::new();
            let other = start(&rank, RankUnderTest::post);
            rank.post();
            other.join().unwrap();
            rank.movers.look(|moved| assert_eq!(moved.left, 2));
        });
    }

    /// A worker posts while somebody looks at the counters, and the thread falls asleep: nobody else
    /// comes by.
    #[test]
    fn a_command_is_obeyed_though_somebody_only_looked() {
        explore(3, || {
            let rank = RankUnderTest::new();
            let thread = start(&rank, |rank| rank.live_until(usize::MAX));
            let looker = start(&rank, |rank| {
                // Whatever is read: so that others get their turn while this one has the lock.
                rank.movers.look(|_| rank.movers.holds());
            });
            rank.post();
            rank.answer.wait(None);
            rank.end();
            looker.join().unwrap();
            thread.join().unwrap();
        });
    }

    /// The thread, which leaves messages to workers, looks whether they still need it, and a worker finds
    /// the lock taken by this look.
    #[test]
    fn a_command_is_obeyed_though_the_thread_only_looked_whether_it_is_needed() {
        explore(4, || {
            let rank = RankUnderTest::new();
            let thread = start(&rank, |rank| {
                let looked = rank.movers.try_look(|_| rank.movers.holds());
                if looked.is_some_and(|(_, must_move)| must_move) {
                    rank.moves();
                }
            });
            rank.post();
            thread.join().unwrap();
            rank.movers.look(|moved| assert_eq!(moved.left, 1));
        });
    }

    /// A worker leaves something held back and begins a long task, while the thread falls asleep.
    #[test]
    fn the_thread_does_not_sleep_over_what_is_held_back() {
        explore(4, || {
            let rank = RankUnderTest::new();
            let thread = start(&rank, |rank| rank.live_until(1));
            rank.movers.hand_in(1);
            rank.poll();
            thread.join().unwrap();
        });
    }

    /// A worker hands in what it rings for, as where the thread alone moves messages.
    #[test]
    fn the_thread_obeys_what_it_is_rung_for() {
        explore(4, || {
            let rank = RankUnderTest::new();
            let thread = start(&rank, |rank| rank.live_until(1));
            rank.movers.hand_in(1);
            rank.bell.ring();
            thread.join().unwrap();
        });
    }

    /// A worker that believes the thread asleep obeys in its place, and rings for the rest.
    #[test]
    fn what_is_posted_beside_a_thread_that_falls_asleep_leaves() {
        explore(4, || {
            let rank = RankUnderTest::new();
            let thread = start(&rank, |rank| rank.live_until(1));
            rank.post_beside_the_thread();
            thread.join().unwrap();
        });
    }

    #[test]
    fn what_two_post_beside_a_thread_that_falls_asleep_leaves() {
        explore(2, || {
            let rank = RankUnderTest::new();
            let thread = start(&rank, |rank| rank.live_until(2));
            let other = start(&rank, RankUnderTest::post_beside_the_thread);
            rank.post_beside_the_thread();
            other.join().unwrap();
            thread.join().unwrap();
        });
    }

    /// A thread that has the state to itself sleeps at the bell until it is rung; were the rank's own thread there too, it
    /// might be woken in its place.
    fn talk(rank: &RankUnderTest) {
        rank.movers.lend(|_| {
            rank.bell.ring();
            rank.bell.wait(None);
        });
    }

    #[test]
    fn the_thread_leaves_the_bell_to_whoever_has_the_state_to_himself() {
        explore(3, || {
            let rank = RankUnderTest::new();
            let thread = start(&rank, |rank| rank.live_until(usize::MAX));
            talk(&rank);
            rank.end();
            thread.join().unwrap();
        });
    }

    /// The first of two must not end the time of the second.
    #[test]
    fn two_have_the_state_to_themselves_one_after_the_other() {
        explore(2, || {
            let rank = RankUnderTest::new();
            let thread = start(&rank, |rank| rank.live_until(usize::MAX));
            let first = start(&rank, |rank| rank.movers.lend(|_| ()));
            talk(&rank);
            first.join().unwrap();
            rank.end();
            thread.join().unwrap();
        });
    }

    #[test]
    fn the_end_reaches_a_thread_that_was_falling_asleep() {
        explore(4, || {
            let rank = RankUnderTest::new();
            let thread = start(&rank, |rank| rank.live_until(usize::MAX));
            rank.end();
            thread.join().unwrap();
        });
    }
}
