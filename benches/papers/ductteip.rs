//! Paper 001 (DuctTeip): Figures 12 and 13, Cholesky on Tintin; Table 4, shallow water; and Table 5, ranks
//! as hosts or as cores.
//!
//! Of the systems that the paper compares two have stand-ins: a graph by formula (PaRSEC) is this runtime;
//! a program without tasks (ScaLAPACK) is a rank a core, panel after panel, waiting for what it sends.

use super::figure::{Curve, Figure, Finding, Point};
use super::machine::Machine;
use super::run::{Answer, Question};
use super::sphere::{Places, Sphere, mesh};
use super::world::Outcome;
use dataflow::mpi::Settings;
use dataflow::simulate::{self, Stage};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Of both stand-ins on Tintin; the paper does not name its own.
const NB: usize = 300;
const TASKS: &str = "tile tasks";
const FLAT: &str = "rank a core, blocking";
const HOSTS: [u32; 7] = [1, 4, 9, 16, 25, 36, 49];

/// 10¹² operations a second over hosts.
fn curve(
    machine: &Machine,
    name: &'static str,
    hosts: &[u32],
    n: impl Fn(u32) -> usize,
) -> Outcome<Curve> {
    let point = |&hosts: &u32| {
        let question = Question::hybrid(machine, n(hosts), NB, hosts)?;
        let question = match name == FLAT {
            true => question.flat()?,
            false => question,
        };
        Ok(Point::new(
            f64::from(hosts),
            question.simulate()?.rate() * 1e-12,
        ))
    };
    let points = hosts.iter().map(point).collect::<Outcome<_>>()?;
    Ok(Curve { name, points })
}

fn hosts(quick: bool) -> Vec<u32> {
    HOSTS
        .into_iter()
        .step_by(if quick { 3 } else { 1 })
        .collect()
}

/// Speed-up of the last point, each host of the first counted as it is.
fn speedup(curve: &Curve) -> (f64, f64) {
    match (curve.points.first(), curve.points.last()) {
        (Some(first), Some(last)) => (first.x * last.y / first.y, last.x),
        _ => (0.0, 1.0),
    }
}

/// Figure 12: N = 43,200 and 86,400.
pub fn strong(machine: &Machine, quick: bool, flat: bool) -> Outcome<Figure> {
    let all = hosts(quick);
    let mut curves = vec![
        curve(machine, TASKS, &all, |_| 43_200)?,
        curve(machine, "tile tasks, N = 86,400", &all[1..], |_| 86_400)?,
    ];
    let ((small, hosts), (large, _)) = (speedup(&curves[0]), speedup(&curves[1]));
    let mut findings = vec![Finding::new(
        format!("the larger problem scales better: {large:.1} against {small:.1} on {hosts} hosts"),
        large > small,
    )];
    if flat {
        curves.push(curve(machine, FLAT, &all, |_| 43_200)?);
        let mut pairs = curves[0].points.iter().zip(&curves[2].points);
        let behind = pairs.all(|(tasks, flat)| flat.y < tasks.y);
        findings.push(Finding::new(
            "PaRSEC is ahead of ScaLAPACK at every point",
            behind,
        ));
    }
    Ok(Figure {
        name: "001-fig12",
        title: "Paper 001, Fig. 12: strong scaling on Tintin, N = 43,200".into(),
        x: "hosts",
        y: "TFLOP/s",
        curves,
        findings,
    })
}

/// Figure 13: N = 10,800 √p.
pub fn weak(machine: &Machine, quick: bool, flat: bool) -> Outcome<Figure> {
    let all = hosts(quick);
    let n = |hosts: u32| 10_800 * hosts.isqrt() as usize;
    let mut curves = vec![curve(machine, TASKS, &all, n)?];
    let (grown, hosts) = speedup(&curves[0]);
    let mut findings = vec![Finding::new(
        format!(
            "PaRSEC scales almost perfectly: {:.2} of it on {hosts} hosts",
            grown / hosts
        ),
        grown / hosts > 0.9,
    )];
    if flat {
        curves.push(curve(machine, FLAT, &all, n)?);
        let mut pairs = curves[0].points.iter().zip(&curves[1].points);
        let behind = pairs.all(|(tasks, flat)| flat.y < tasks.y);
        findings.push(Finding::new(
            "PaRSEC is ahead of ScaLAPACK at every point",
            behind,
        ));
    }
    Ok(Figure {
        name: "001-fig13",
        title: "Paper 001, Fig. 13: weak scaling on Tintin, N = 10,800 √p".into(),
        x: "hosts",
        y: "TFLOP/s",
        curves,
        findings,
    })
}

/// Nodes and steps of Table 4.
const NODES: usize = 612_416;
const STEPS: u32 = 20;
/// Blocks and blocks in each, by number of hosts (Table 3), and seconds (Table 4, gcc).
const TABLE_4: [(u32, usize, usize, f64); 10] = [
    (1, 5, 18, 60.4),
    (2, 6, 18, 32.4),
    (3, 15, 5, 22.4),
    (4, 40, 5, 15.6),
    (5, 50, 5, 12.6),
    (6, 60, 5, 10.8),
    (7, 35, 5, 10.5),
    (8, 32, 8, 9.0),
    (9, 36, 5, 8.0),
    (10, 50, 4, 7.4),
];

/// Table 4: shallow water in the paper's blocks, as a sequence and as a space.
pub fn shallow_water(machine: &Machine, quick: bool) -> Outcome<Figure> {
    let mesh = mesh(Places::Fibonacci, NODES)?;
    let (mut sequence, mut space) = (Vec::new(), Vec::new());
    for (hosts, blocks, in_each, published) in
        TABLE_4.into_iter().step_by(if quick { 3 } else { 1 })
    {
        let nb = NODES.div_ceil(blocks * in_each);
        let sphere = Arc::new(Sphere::new(&mesh, nb, hosts, STEPS));
        let x = f64::from(hosts);
        sequence.push(Point {
            published: Some(published),
            ..Point::new(x, seconds(machine, hosts, &sphere, play_sequence)?)
        });
        space.push(Point::new(x, seconds(machine, hosts, &sphere, play_space)?));
    }
    let findings = sequence.iter().filter_map(|point| {
        let of = format!("20 steps on {} hosts, s", point.x);
        Some(Finding::level(&of, point.published?, point.y))
    });
    Ok(Figure {
        name: "001-table4",
        title: format!(
            "Paper 001, Table 4: shallow water, {NODES} nodes, {STEPS} steps on Rackham"
        ),
        x: "hosts",
        y: "seconds",
        findings: findings.collect(),
        curves: vec![
            Curve {
                name: "sequence",
                points: sequence,
            },
            Curve {
                name: "space",
                points: space,
            },
        ],
    })
}

type Play = fn(&Machine, &Stage, &Sphere) -> Outcome;

/// Virtual seconds of a rank a host.
fn seconds(machine: &Machine, hosts: u32, sphere: &Arc<Sphere>, play: Play) -> Outcome<f64> {
    let on = simulate::Machine {
        ranks: hosts as usize,
        threads: machine.cores,
        weather: machine.weather(hosts as usize, 1),
        messages: Settings {
            beat: Duration::from_secs(3600),
            silence: Duration::from_secs(36_000),
            ..Settings::default()
        },
        ..simulate::Machine::default()
    };
    let (machine, sphere) = (machine.clone(), sphere.clone());
    let ends = on.run(move |stage| {
        play(&machine, stage, &sphere)?;
        Outcome::Ok(stage.now())
    })?;
    let ends = ends.into_iter().collect::<Outcome<Vec<Duration>>>()?;
    Ok(ends.into_iter().max().unwrap_or_default().as_secs_f64())
}

fn play_space(machine: &Machine, stage: &Stage, sphere: &Sphere) -> Outcome {
    let each = machine.seconds("Advance");
    let bytes = |task, flow| sphere.bytes(task, flow);
    let time = |task| Duration::from_secs_f64(each * sphere.flops(task));
    stage.play(&sphere.space(), &bytes, &time)?;
    Ok(())
}

fn play_sequence(machine: &Machine, stage: &Stage, sphere: &Sphere) -> Outcome {
    sphere.as_sequence(|recorded, flops| {
        let time = |step| {
            let (name, number) = recorded.name_of(step);
            Duration::from_secs_f64(machine.seconds(name) * flops(number))
        };
        stage.play(recorded, &|_, _| sphere.block_bytes(), &time)
    })??;
    Ok(())
}

/// A column of Table 5.
pub struct Column {
    pub name: String,
    pub answer: Answer,
}

impl Column {
    pub fn cells(&self) -> String {
        let (name, answer) = (&self.name, &self.answer);
        format!(
            "| {name} | {} | {} | {:.1} |",
            answer.counters.messages, answer.most_messages, answer.seconds
        )
    }

    pub fn json(&self) -> Value {
        json!({
            "table": "5",
            "name": self.name,
            "messages": self.answer.counters.messages,
            "most_messages_of_a_rank": self.answer.most_messages,
            "seconds": self.answer.seconds,
        })
    }
}

/// Table 5: N = 90,000 on two hosts: a rank a host, and 18 ranks a host on a grid of 6 × 6.
pub fn hybrid_and_flat(machine: &Machine) -> Outcome<Vec<Column>> {
    let n = 90_000;
    let hybrid = |blocks: usize| {
        let question = Question::hybrid(machine, n, n / blocks, 2)?;
        let grid = (2, 1);
        Outcome::Ok(Question { grid, ..question })
    };
    let flat = |blocks: usize| {
        let (grid, ranks_a_host, workers) = ((6, 6), 18, 1);
        Outcome::Ok(Question {
            grid,
            ranks_a_host,
            workers,
            ..hybrid(blocks)?
        })
    };
    let column = |name: &str, question: Question| {
        let answer = question.simulate()?;
        let name = name.to_string();
        Outcome::Ok(Column { name, answer })
    };
    Ok(vec![
        column("2 × 1 ranks of 20, 6 blocks a side", hybrid(6)?)?,
        column("2 × 1 ranks of 20, 180 tiles a side", hybrid(180)?)?,
        column("6 × 6 ranks of 1, 12 blocks a side", flat(12)?)?,
        column("6 × 6 ranks of 1, 180 tiles a side", flat(180)?)?,
    ])
}
