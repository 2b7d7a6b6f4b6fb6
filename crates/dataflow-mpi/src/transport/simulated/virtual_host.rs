//! A rank's place in the world: its clock, its bells and those that it starts.

use super::agenda::nanos;
use super::here::actor_of;
use super::world::{Started, World};
use crate::bell::Bell;
use crate::host::{Host, Thread, Turn};
use dataflow_core::rank::Rank;
use std::sync::Arc;
use std::time::Duration;

/// The host of a rank.
struct VirtualHost {
    world: World,
    rank: Rank,
}

impl World {
    /// What a rank stands on: its clock, bells and threads.
    pub fn host(&self, rank: Rank) -> Arc<dyn Host> {
        let world = self.clone();
        Arc::new(VirtualHost { world, rank })
    }
}

impl Host for VirtualHost {
    fn now(&self) -> Duration {
        self.world.now()
    }

    fn bell(&self) -> Arc<dyn Bell> {
        let bell = self.world.state().new_bell();
        Arc::new(WorldBell {
            world: self.world.clone(),
            bell,
        })
    }

    fn start(
        &self,
        name: String,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn Thread>, String> {
        Ok(Box::new(WorldThread {
            world: self.world.clone(),
            started: self.world.start(self.rank, name, body)?,
        }))
    }

    fn start_turns(
        &self,
        name: String,
        body: Box<dyn FnMut() -> Turn + Send>,
    ) -> Result<Box<dyn Thread>, String> {
        Ok(Box::new(WorldThread {
            world: self.world.clone(),
            started: self.world.start_turns(self.rank, name, body)?,
        }))
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

/// A bell by its number in the world.
struct WorldBell {
    world: World,
    bell: usize,
}

impl Bell for WorldBell {
    fn ring(&self) {
        self.world.state().ring(self.bell);
    }

    fn wait(&self, at_most: Option<Duration>) {
        let Some(actor) = actor_of(&self.world) else {
            unreachable!("only actors of a world wait in it");
        };
        let mut at_most = at_most.map(nanos);
        let mut state = self.world.state();
        if let Some(owed) = state.takes_owed(actor) {
            state.sleep_through(actor, owed);
            state = self.world.rest(state, actor);
            at_most = at_most.map(|time| time.saturating_sub(owed));
        }
        if state.waits(actor, self.bell, at_most) {
            state = self.world.rest(state, actor);
            state.has_waited(self.bell);
        }
    }

    fn number(&self) -> Option<usize> {
        Some(self.bell)
    }
}

impl Drop for WorldBell {
    fn drop(&mut self) {
        self.world.state().drop_bell(self.bell);
    }
}

struct WorldThread {
    world: World,
    started: Started,
}

impl Thread for WorldThread {
    fn join(self: Box<Self>) -> bool {
        let Started { thread, actor, end } = self.started;
        let bell = WorldBell {
            world: self.world.clone(),
            bell: end,
        };
        while !self.world.state().actors[actor].done {
            bell.wait(None);
        }
        // A thread has handed the baton on and ends by itself.
        let ended_well = self.world.state().vacate(actor);
        ended_well && thread.is_none_or(|thread| thread.join().is_ok())
    }
}
