//! Here: who acts on this thread, and the time that it lets pass.

use super::agenda::nanos;
use super::queues::VirtualQueues;
use super::world::World;
use crate::progress;
use dataflow_core::port;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// An actor of a world.
struct Here {
    world: World,
    actor: usize,
    /// What it has spent in this turn, if it acts by turns: it passes when the turn is over.
    spent: Option<Vec<u64>>,
    /// Which worker it is, and what it takes its tasks from.
    works: Option<(usize, Arc<dyn VirtualQueues>)>,
}

/// Lets virtual time pass for the calling actor; outside of a world it does nothing.
pub fn spend(time: Duration) {
    let works = HERE.with_borrow(|here| here.as_ref().and_then(|here| here.works.clone()));
    if let Some((worker, queues)) = works {
        queues.passes(worker);
    }
    let waits = HERE.with_borrow_mut(|here| {
        let here = here.as_mut()?;
        match &mut here.spent {
            Some(spent) => {
                spent.push(nanos(time));
                None
            }
            None => Some((here.world.clone(), here.actor)),
        }
    });
    if let Some((world, actor)) = waits {
        let mut state = world.state();
        state.sleep_through(actor, nanos(time));
        drop(world.rest(state, actor));
    }
}

/// Which of a rank's [workers](super::VirtualWorkers) calls, if one does.
pub fn worker() -> Option<usize> {
    let works = |here: &Here| here.works.as_ref().map(|(worker, _)| *worker);
    HERE.with_borrow(|here| here.as_ref().and_then(works))
}

/// The calling actor is a worker from now on.
pub fn works_as(worker: usize, queues: &Arc<dyn VirtualQueues>) {
    HERE.with_borrow_mut(|here| {
        if let Some(here) = here {
            here.works = Some((worker, queues.clone()));
        }
    });
}

/// It is none any more.
pub fn leaves_work() {
    let works = HERE.with_borrow_mut(|here| here.as_mut().and_then(|here| here.works.take()));
    drop(works);
}

/// Who of the actors of a world calls, if one does.
pub fn actor_of(world: &World) -> Option<usize> {
    HERE.with_borrow(|here| {
        let here = here.as_ref().filter(|here| here.world.is(world))?;
        Some(here.actor)
    })
}

/// The actor of a world that calls, if it acts by turns and has spent time in this one, and how much.
pub fn ahead(world: &World) -> Option<(usize, u64)> {
    HERE.with_borrow(|here| {
        let here = here.as_ref().filter(|here| here.world.is(world))?;
        let spent = here.spent.as_ref().filter(|spent| !spent.is_empty())?;
        let spent = spent.iter().copied();
        Some((here.actor, spent.fold(0, u64::saturating_add)))
    })
}

/// What an actor has for itself that others have by thread.
pub struct Own {
    here: Option<Here>,
    of_engine: port::OfThread,
    of_courier: progress::OfThread,
}

impl Own {
    /// Of an actor that waits where it stands, or acts by turns.
    pub fn new(world: &World, actor: usize, by_turns: bool) -> Self {
        let here = Here {
            world: world.clone(),
            actor,
            spent: by_turns.then(Vec::new),
            works: None,
        };
        Own {
            here: Some(here),
            of_engine: port::OfThread::default(),
            of_courier: progress::OfThread::new(by_turns),
        }
    }

    /// Of an actor with a thread: its time passes where it stands, also if it is to post like one that acts
    /// by turns.
    pub fn with_thread(world: &World, actor: usize, by_turns: bool) -> Self {
        Own {
            of_courier: progress::OfThread::new(by_turns),
            ..Own::new(world, actor, false)
        }
    }

    /// The thread's becomes this, and this the thread's.
    pub fn swap(&mut self) {
        HERE.with_borrow_mut(|here| std::mem::swap(here, &mut self.here));
        self.of_engine.swap();
        self.of_courier.swap();
    }

    /// What was spent in the turn that is over, first to last.
    pub fn spent(&mut self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        let here = self.here.as_mut();
        let spent = here.and_then(|here| here.spent.as_mut());
        spent.into_iter().flat_map(|spent| spent.drain(..))
    }
}
