//! Turns: actors without a stack. Each is called when its turn comes, and says for what it rests.
//!
//! # Law
//! An actor by turns sleeps as often, as long and for the same bells as one that waits where it stands
//! would: so the world takes the same course with either.

use super::agenda::nanos;
use super::here::Own;
use super::state::{Runs, State};
use super::world::{Started, World};
use crate::bell::Bell;
use crate::host::{Turn, live};
use crate::sync::MutexGuard;
use dataflow_core::rank::Rank;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What is to be called, and what it does before that.
pub struct Turns {
    body: Box<dyn FnMut() -> Turn + Send>,
    own: Own,
    /// Times to let pass, the next one last.
    to_spend: Vec<u64>,
    then: Then,
    /// The bell that it waits for.
    waits_for: Option<usize>,
    /// The one at which it rested last: nobody else gets its number.
    rests_at: Option<Arc<dyn Bell>>,
}

/// What comes when all time has passed.
#[derive(Clone, Copy)]
enum Then {
    Call,
    /// It waits for a bell, for so long at most.
    Wait(usize, Option<u64>),
    /// It has ended, without a panic or with one.
    End(bool),
}

impl Turns {
    fn new(world: &World, actor: usize, body: Box<dyn FnMut() -> Turn + Send>) -> Self {
        Turns {
            body,
            own: Own::new(world, actor, true),
            to_spend: Vec::new(),
            then: Then::Call,
            waits_for: None,
            rests_at: None,
        }
    }

    /// It is called: what it did took no time yet.
    fn call(&mut self) {
        self.own.swap();
        let turn = catch_unwind(AssertUnwindSafe(&mut self.body));
        self.own.swap();
        self.to_spend.extend(self.own.spent().rev());
        self.then = match turn {
            Ok(Turn::Again) => Then::Call,
            Ok(Turn::Rests(bell, at_most)) => {
                let Some(number) = bell.number() else {
                    unreachable!("actors wait for bells of their world");
                };
                self.rests_at = Some(bell);
                Then::Wait(number, at_most.map(nanos))
            }
            Ok(Turn::Ends) => Then::End(true),
            Err(_) => Then::End(false),
        };
    }

    /// Goes to sleep if there is something to sleep for; says whether it does.
    fn sleeps(&mut self, actor: usize, state: &mut State) -> bool {
        if let Some(time) = self.to_spend.pop() {
            state.sleep_through(actor, time);
            return true;
        }
        let Then::Wait(bell, at_most) = self.then else {
            return false;
        };
        if let Some(owed) = state.takes_owed(actor) {
            state.sleep_through(actor, owed);
            self.then = Then::Wait(bell, at_most.map(|time| time.saturating_sub(owed)));
            return true;
        }
        self.then = Then::Call;
        let sleeps = state.waits(actor, bell, at_most);
        self.waits_for = sleeps.then_some(bell);
        sleeps
    }
}

impl World {
    /// A new actor that acts by turns, if actors share a thread: then it needs no stack.
    pub(super) fn start_turns(
        &self,
        rank: Rank,
        name: String,
        mut body: Box<dyn FnMut() -> Turn + Send>,
    ) -> Result<Started, String> {
        if self.is_on_threads() {
            let live = move || live(&mut *body);
            return self.enter(rank, name, Box::new(live), true);
        }
        let mut state = self.state();
        let end = state.new_bell();
        let actor = state.next_place();
        let turns = Box::new(Turns::new(self, actor, body));
        state.enter(rank, name, Runs::Turns(turns, end));
        let thread = None;
        Ok(Started { thread, actor, end })
    }

    /// It is the turn of an actor that acts by turns.
    pub(super) fn turn(&self, actor: usize, mut turns: Box<Turns>, end: usize) {
        let mut state = self.state();
        if let Some(bell) = turns.waits_for.take() {
            state.has_waited(bell);
        }
        while !turns.sleeps(actor, &mut state) {
            match turns.then {
                Then::End(well) => {
                    state.leave(actor, well);
                    state.ring(end);
                    drop(state);
                    return; // and what the body holds is dropped outside of the lock
                }
                _ => state = self.call(&mut turns, state),
            }
        }
        state.actors[actor].runs = Runs::Turns(turns, end);
    }

    fn call<'w>(
        &'w self,
        turns: &mut Turns,
        state: MutexGuard<'w, State>,
    ) -> MutexGuard<'w, State> {
        drop(state);
        turns.call();
        self.state()
    }
}
