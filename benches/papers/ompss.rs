//! Paper 002 (OmpSs): Figures 3 to 6, policies on machines of many NUMA nodes, one rank.
//!
//! The real policies and queues ([`dataflow::numa::simulate`]); each machine by formula, its kernels at the
//! shares of a core's peak that tile kernels of order 256 usually reach.

use super::figure::{Curve, Figure, Finding, Point};
use super::world::Outcome;
use dataflow::core::port::Heap;
use dataflow::linalg::cholesky::{Factor, Inverse};
use dataflow::linalg::flops;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::numa::simulate::{Costs, Ties, simulate};
use dataflow::numa::topology::system;
use dataflow::numa::{Bind, Policy, Topology};
use dataflow::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

const NB: usize = 256;
/// 4 K, the paper's step.
const STEP: usize = 4096;

/// A machine of the paper.
pub struct System {
    name: &'static str,
    nodes: usize,
    /// Of a node.
    cores: usize,
    /// Peak of a core, 10⁹ operations a second.
    gflops: f64,
    /// As SLIT says it.
    distance: fn(usize, usize) -> usize,
    /// The published level, 10⁹ operations a second, and the figures.
    level: f64,
    figures: [&'static str; 2],
    /// How much faster stealing with distances is than oblivious, and than no stealing.
    ahead: [f64; 2],
    /// What rates are multiplied by, chosen for the level of the factorisation.
    pub factor: f64,
    /// Largest N in steps of 4 K.
    steps: usize,
}

/// A, B and C.
pub const SYSTEMS: [System; 3] = [
    System {
        name: "A: 8 nodes × 6 cores, 2.1 GHz",
        nodes: 8,
        cores: 6,
        gflops: 8.4,
        distance: |from, to| match () {
            _ if from == to => 10,
            _ if from / 2 == to / 2 || from % 2 == to % 2 => 16,
            _ => 22,
        },
        level: 320.0,
        figures: ["002-fig3a", "002-fig4a"],
        ahead: [1.0, 1.0],
        factor: 0.907,
        steps: 9,
    },
    System {
        name: "B: 8 nodes × 6 cores, 2.8 GHz, two boards",
        nodes: 8,
        cores: 6,
        gflops: 11.2,
        distance: |from, to| 10 + 6 * hops(from, to),
        level: 390.0,
        figures: ["002-fig3b", "002-fig4b"],
        ahead: [1.15, 1.30],
        factor: 0.869,
        steps: 9,
    },
    System {
        name: "C: 32 nodes × 8 cores, 2.0 GHz",
        nodes: 32,
        cores: 8,
        gflops: 8.0,
        distance: |from, to| match () {
            _ if from == to => 10,
            _ if from / 2 == to / 2 => 50,
            _ if from / 8 == to / 8 => 65,
            _ => 79,
        },
        level: 820.0,
        figures: ["002-fig5", "002-fig6"],
        ahead: [2.0, 4.0],
        factor: 0.594,
        steps: 9,
    },
];

/// What the figures are called.
pub fn figure_names() -> impl Iterator<Item = &'static str> {
    let of = |system: &'static System| [false, true].map(|inverse| system.figure_name(inverse));
    SYSTEMS.iter().flat_map(of)
}

/// Two squares of four sockets, joined where 0 faces 4 and 2 faces 6.
fn hops(from: usize, to: usize) -> usize {
    let along = |one: usize, other: usize| {
        let step = (one % 4).abs_diff(other % 4);
        step.min(4 - step)
    };
    match from / 4 == to / 4 {
        true => along(from, to),
        false => {
            1 + [0, 2]
                .map(|door| along(from, door) + along(door, to))
                .into_iter()
                .min()
                .unwrap_or(0)
        }
    }
}

/// The first is what this runtime does; then those that the paper compares with its own; then that one: a
/// queue a node, and thefts only from adjacent nodes, after a delay. What the paper says of its own is
/// compared with the first.
const POLICIES: [(&str, &str); 4] = [
    ("stealing", "distance,patience=20"),
    ("oblivious", "oblivious"),
    ("no stealing", "distance-no-steal"),
    ("adjacent", "priority,adjacent,keep=0,patience=20"),
];

/// A made-up `/sys/devices/system`, removed when dropped.
struct Described(PathBuf);

impl Described {
    fn new(system: &System) -> Outcome<Self> {
        let name = format!("papers-{}-{}", system.figures[0], std::process::id());
        let described = Described(std::env::temp_dir().join(name));
        for node in 0..system.nodes {
            let folder = described.0.join(format!("node/node{node}"));
            std::fs::create_dir_all(&folder)?;
            let first = node * system.cores;
            let list = format!("{first}-{}", first + system.cores - 1);
            std::fs::write(folder.join("cpulist"), list)?;
            let row = (0..system.nodes).map(|to| (system.distance)(node, to).to_string());
            let row: Vec<String> = row.collect();
            std::fs::write(folder.join("distance"), row.join(" "))?;
        }
        Ok(described)
    }
}

impl Drop for Described {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

impl System {
    /// As the paper counts it: 3a.
    pub fn figure_name(&self, is_inverse: bool) -> &'static str {
        self.figures[usize::from(is_inverse)].trim_start_matches("002-fig")
    }

    fn topology(&self) -> Outcome<Topology> {
        let described = Described::new(self)?;
        let pus: Vec<usize> = (0..self.nodes * self.cores).collect();
        Ok(system::read(&described.0, &pus))
    }

    /// Seconds of a task: LAPACK's counts, at the rates of `examples/simulate/costs.json` scaled to this peak.
    fn seconds(&self, class: &str) -> f64 {
        let (operations, share) = match class {
            "Potrf" | "Trtri" | "Lauum" => (1.0 / 3.0, 0.5),
            "Trsm" | "TrsmRight" | "TrsmLeft" | "Trmm" => (1.0, 0.81),
            "Herk" | "Square" => (1.0, 0.875),
            "Gemm" | "Invert" | "Multiply" => (2.0, 0.94),
            _ => return 0.0,
        };
        operations * (NB as f64).powi(3) / (self.gflops * 1e9 * share * self.factor)
    }

    fn costs(&self, space: &impl TaskSpace, ties: Ties) -> Costs {
        let mut about = Description::default();
        space.describe(&mut about);
        let classes = about
            .classes()
            .iter()
            .map(|class| self.seconds(&class.name));
        let bytes = (NB * NB * size_of::<f64>()) as u64;
        Costs {
            classes: classes.collect(),
            initialise: bytes as f64 * 2e-9,
            bytes,
            remote_byte: 0.4e-9,
            round: 50e-6,
            ties,
        }
    }

    /// 10⁹ operations a second over N, by policy.
    fn curve(
        &self,
        (name, policy): (&'static str, &str),
        is_inverse: bool,
        step: usize,
    ) -> Outcome<Curve> {
        let (topology, policy) = (self.topology()?, policy.parse::<Policy>()?);
        let places = Bind::Cores.places(&topology, self.nodes * self.cores);
        let point = |steps: usize| {
            let n = steps * STEP;
            let matrix = TiledMatrix::<f64>::vacant(Layout::lower(n, NB)?, Arc::new(Heap));
            let factored = flops::potrf::<f64>(n) as f64;
            let (flops, ran) = if is_inverse {
                let space = Inverse::new(&matrix, Backend::Auto)?;
                let costs = self.costs(&space, Ties::Last);
                (
                    3.0 * factored,
                    simulate(&space, &topology, &places, &policy, &costs)?,
                )
            } else {
                let space = Factor::new(&matrix, Backend::Auto)?;
                let costs = self.costs(&space, Ties::Last);
                (
                    factored,
                    simulate(&space, &topology, &places, &policy, &costs)?,
                )
            };
            Ok(Point::new(n as f64, flops / ran.seconds * 1e-9))
        };
        let points = (1..=self.steps).step_by(step).map(point);
        let points = points.collect::<Outcome<_>>()?;
        Ok(Curve { name, points })
    }

    /// The factorisation, or the inversion, under each policy.
    pub fn figure(&self, is_inverse: bool, quick: bool) -> Outcome<Figure> {
        let step = if quick { 4 } else { 1 };
        let curves = POLICIES
            .iter()
            .map(|&policy| self.curve(policy, is_inverse, step));
        let mut curves = curves.collect::<Outcome<Vec<_>>>()?;
        let last = |curve: &Curve| curve.points.last().map_or(0.0, |point| point.y);
        let levels: Vec<f64> = curves.iter().map(last).collect();
        let mut findings = Vec::new();
        if !is_inverse {
            let of = "level of stealing at the largest N (calibrated), GFLOP/s";
            findings.push(Finding::level(of, self.level, levels[0]));
            if let Some(point) = curves[0].points.last_mut() {
                point.published = Some(self.level);
            }
        }
        for (other, ahead) in self.ahead.iter().enumerate() {
            let of = format!("stealing ÷ {} at the largest N", POLICIES[other + 1].0);
            findings.push(Finding::level(&of, *ahead, levels[0] / levels[other + 1]));
        }
        let first = curves[0].points.iter();
        let others = curves[1..=self.ahead.len()]
            .iter()
            .flat_map(|curve| &curve.points);
        let at = |x: f64| {
            first
                .clone()
                .find(|point| point.x == x)
                .map_or(0.0, |point| point.y)
        };
        let is_first = others.clone().all(|other| other.y <= 1.005 * at(other.x));
        findings.push(Finding::new(
            "stealing is nowhere behind by more than half a per cent",
            is_first,
        ));
        let what = if is_inverse { "inversion" } else { "Cholesky" };
        Ok(Figure {
            name: self.figures[usize::from(is_inverse)],
            title: format!("Paper 002, {} on system {}", what, self.name),
            x: "N",
            y: "GFLOP/s",
            curves,
            findings,
        })
    }
}
