//! Traced: what it costs a task to be recorded, and how fast a trace becomes a file.
//!
//! Runs with a tracer that is off and with one that is on take turns; the time is the run's own, without
//! what is worked out after it.

use crate::statistics::quartiles;
use crate::{Crew, Outcome};
use common::shapes::{Chain, Independent, Updated, Wavefront};
use dataflow::Runtime;
use dataflow::core::Report;
use dataflow::core::port::{Context, Inline};
use dataflow::core::sequence::{scope, write};
use dataflow::prelude::*;
use dataflow::trace::{self, Format, Tracer};
use std::hint::black_box;
use std::io;
use std::time::Instant;

type Run<'s> = Box<dyn Fn(&Runtime) -> Result<Report, Error> + 's>;

/// A contestant: how many tasks, and how they run.
struct Shape<'s> {
    name: &'static str,
    tasks: u64,
    run: Run<'s>,
}

impl<'s> Shape<'s> {
    fn of<S: TaskSpace>(name: &'static str, space: &'s S) -> Self {
        Shape {
            name,
            tasks: space.count(Rank(0)),
            run: Box::new(|runtime| runtime.run(space)),
        }
    }
}

/// Off and on, for each shape and crew.
pub fn measure(crews: &[Crew], count: u64, rounds: u32) -> Outcome {
    let side = (count as f64).sqrt() as u32;
    let independent = Independent { count };
    let chain = Chain::<()>::new(count, false);
    let wavefront = Wavefront::<()>::new(side, false);
    let updated = Wavefront::<Updated>::new(side, false);
    let shapes = [
        Shape::of("independent", &independent),
        Shape::of("chain", &chain),
        Shape::of("wavefront", &wavefront),
        Shape::of("wavefront, data updated", &updated),
        Shape {
            name: "sequence, 1 access",
            tasks: count / 4,
            run: Box::new(move |runtime| inserted(runtime, count / 4)),
        },
    ];
    println!(
        "\ntrace: nanoseconds of a task; a stamp costs {:.1}",
        stamp()
    );
    println!(
        "{:<28} {:>8} {:>14} {:>14} {:>8}",
        "", "threads", "off", "on", "more"
    );
    for crew in crews {
        let traced = Runtime::builder()
            .threads(crew.n_threads())
            .trace(1 << 30)
            .build()?;
        for shape in &shapes {
            compare(shape, &traced, rounds)?;
        }
    }
    files(count)
}

/// Inserts tasks that each change one of a few data.
fn inserted(runtime: &Runtime, count: u64) -> Result<Report, Error> {
    let mut data = [0_u64; 64];
    let inserted = scope(runtime, |s| {
        let handles = s.handles(&mut data);
        for task in 0..count {
            s.task(write(&handles[task as usize % 64]), |datum| **datum += 1);
        }
    });
    inserted.map(|(_, report)| report)
}

fn compare(shape: &Shape<'_>, runtime: &Runtime, rounds: u32) -> Outcome {
    let Some(tracer) = runtime.tracer() else {
        return Err("a runtime without a tracer".into());
    };
    let mut times = [Vec::new(), Vec::new()];
    // The first round is cold.
    for round in 0..=rounds {
        for (on, times) in [false, true].into_iter().zip(&mut times) {
            tracer.set_on(on);
            let report = (shape.run)(runtime)?;
            let traces = tracer.take();
            let recorded: usize = traces.iter().map(|trace| trace.slices().count()).sum();
            if on && recorded as u64 != shape.tasks {
                return Err(format!("{recorded} of {} tasks were recorded", shape.tasks).into());
            }
            if round > 0 {
                times.push(report.seconds * 1e9 / shape.tasks as f64);
            }
        }
    }
    let [(off, off_half), (on, on_half)] = times.map(|times| quartiles(&times));
    println!(
        "{:<28} {:>8} {off:>8.1} ±{off_half:>4.1} {on:>8.1} ±{on_half:>4.1} {:>8.1}",
        shape.name,
        runtime.n_threads(),
        on - off,
    );
    Ok(())
}

/// Nanoseconds of one look at the tracer's clock.
fn stamp() -> f64 {
    const LOOKS: u32 = 1_000_000;
    let clock = trace::Clock::of_machine();
    let start = Instant::now();
    for _ in 0..LOOKS {
        black_box(clock.now());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(LOOKS)
}

/// Counts what is written.
#[derive(Default)]
struct Counted(u64);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How fast each kind of file is made of a trace of so many tasks.
fn files(count: u64) -> Outcome {
    let tracer = Tracer::new(2 << 30);
    let on = Context::new(&Inline).traced_by(&tracer);
    let tasks = 10 * count;
    dataflow::core::run(&Independent { count: tasks }, &on)?;
    let trace = tracer.take().pop().ok_or("no trace")?;
    println!("\nfiles of {tasks} tasks");
    for (name, format) in [
        ("Perfetto", Format::Perfetto),
        ("Paraver", Format::Paraver),
        ("Paje", Format::Paje),
        ("Chrome", Format::Chrome),
        ("SVG", Format::Svg),
        ("HTML", Format::Html),
    ] {
        let (start, mut written) = (Instant::now(), Counted::default());
        trace::write_to(&trace, format, &mut written)?;
        let seconds = start.elapsed().as_secs_f64();
        let megabytes = written.0 as f64 * 1e-6;
        println!(
            "{name:<10} {seconds:>7.2} s {megabytes:>9.1} MB {:>7.0} MB/s {:>6.1} bytes a task",
            megabytes / seconds,
            written.0 as f64 / tasks as f64,
        );
    }
    Ok(())
}
