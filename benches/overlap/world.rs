//! Ranks of a simulated world, each with a messenger of its own.

use dataflow::core::port::Memory;
use dataflow::core::rank::Rank;
use dataflow::mpi::transport::simulated::{Simulated, Weather, World};
use dataflow::mpi::{Messenger, Settings};
use std::sync::{Arc, Mutex, PoisonError};

pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Runs `body` on each rank; received data lie in its `memory`.
pub fn on_ranks<R: Send + 'static>(
    weather: Weather,
    n_ranks: u32,
    settings: &Settings,
    memory: impl Fn(Rank) -> Arc<dyn Memory> + Send + Sync + 'static,
    body: impl Fn(&World, &Messenger) -> R + Send + Sync + 'static,
) -> Outcome<Vec<R>> {
    let world = World::new(weather);
    let ends = world.connect(n_ranks as usize).into_iter();
    let ends: Vec<Mutex<Option<Simulated>>> = ends.map(|end| Mutex::new(Some(end))).collect();
    let (inside, settings) = (world.clone(), settings.clone());
    let ran = world.run(n_ranks as usize, move |rank| {
        let end = &ends[rank.0 as usize];
        let end = end.lock().unwrap_or_else(PoisonError::into_inner).take();
        let end = end.ok_or("a rank has one end of the network")?;
        let host = inside.host(rank);
        let messenger = Messenger::new(Box::new(end), settings.clone(), host, memory(rank))?;
        Outcome::Ok(body(&inside, &messenger))
    })?;
    ran.into_iter().collect()
}
