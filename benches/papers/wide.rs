//! Wide: how much of what the cores of four hosts could do they do, in applications of papers 001 and 004.
//!
//! Bodies take what they take on a core of the machine `thyme`; the network is that of `large`. Ideal is the
//! sum of all bodies, shared by all workers.

#[path = "wide/blackscholes.rs"]
mod blackscholes;
#[path = "wide/swaptions.rs"]
mod swaptions;

use super::machine::Machine;
use super::sphere::{self, Places, Sphere};
use super::world::Outcome;
use dataflow::mpi::{Drive, Settings};
use dataflow::prelude::*;
use dataflow::simulate::{self, Stage};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const HOSTS: u32 = 4;
const WORKERS: usize = 32;

/// An application on four hosts of 32 workers.
pub struct Row {
    pub title: String,
    pub seconds: f64,
    /// Of all bodies, shared by all workers.
    pub ideal: f64,
    /// The share of ideal that is to be reached.
    pub aim: f64,
}

impl Row {
    pub fn share(&self) -> f64 {
        self.ideal / self.seconds
    }

    pub fn cells(&self) -> String {
        format!(
            "| {} | {:.3} | {:.3} | {:.3} | {:.2} |",
            self.title,
            1e3 * self.seconds,
            1e3 * self.ideal,
            self.share(),
            self.aim
        )
    }

    pub fn json(&self) -> Value {
        json!({
            "application": self.title,
            "seconds": self.seconds,
            "ideal_seconds": self.ideal,
            "share": self.share(),
            "aim": self.aim,
        })
    }
}

/// All of them.
pub fn rows(quick: bool) -> Outcome<Vec<Row>> {
    Ok(vec![
        blackscholes::row_of(if quick { 1_000_000 } else { 8_000_000 })?,
        swaptions::row_of(if quick { 512 } else { 8192 })?,
        shallow_water(if quick { 163_842 } else { 655_362 })?,
    ])
}

fn shallow_water(nodes: usize) -> Outcome<Row> {
    let mesh = sphere::mesh(Places::Icosahedral, nodes)?;
    let (nb, steps) = (512, 20);
    let sphere = Arc::new(Sphere::new(&mesh, nb, HOSTS, steps));
    row(
        format!("shallow_water, {nodes} nodes in blocks of {nb}, {steps} steps"),
        0.90,
        move |part| {
            let bytes = |task, flow| sphere.bytes(task, flow);
            part.of(&sphere.space(), &bytes, &|task| sphere.flops(task))
        },
    )
}

/// A rank's part.
struct Part<'p> {
    stage: &'p Stage,
    machine: &'p Machine,
}

/// When it had ended, and what its bodies took.
struct End {
    at: Duration,
    bodies: f64,
}

impl Part<'_> {
    /// Of a space whose data have so many bytes and whose tasks so many operations.
    fn of<S: TaskSpace>(
        &self,
        space: &S,
        bytes: &(dyn Fn(S::Task, usize) -> u64 + Sync),
        flops: &(dyn Fn(S::Task) -> f64 + Sync),
    ) -> Outcome<End> {
        let takes = self.machine.by_class(space);
        let seconds = |task: S::Task| takes[task.class()] * flops(task);
        let time = |task| Duration::from_secs_f64(seconds(task));
        self.stage.play(space, bytes, &time)?;
        let at = self.stage.now();
        let bodies = space.tasks(self.stage.rank()).map(seconds).sum();
        Ok(End { at, bodies })
    }
}

fn row(
    title: String,
    aim: f64,
    play: impl Fn(&Part<'_>) -> Outcome<End> + Send + Sync + 'static,
) -> Outcome<Row> {
    let on = simulate::Machine {
        ranks: HOSTS as usize,
        threads: WORKERS,
        weather: Machine::named("large")?.weather(HOSTS as usize, 1),
        messages: Settings {
            drive: Drive::Dedicated,
            ..Settings::default()
        },
        ..simulate::Machine::default()
    };
    let machine = Machine::named("thyme")?;
    let ends = on.run(move |stage| {
        let machine = &machine;
        play(&Part { stage, machine })
    })?;
    let ends = ends.into_iter().collect::<Outcome<Vec<End>>>()?;
    let last = ends.iter().map(|end| end.at).max().unwrap_or_default();
    let bodies: f64 = ends.iter().map(|end| end.bodies).sum();
    Ok(Row {
        title,
        seconds: last.as_secs_f64(),
        ideal: bodies / f64::from(HOSTS) / WORKERS as f64,
        aim,
    })
}
