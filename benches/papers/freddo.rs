//! Paper 004 (FREDDO): speed-ups of Cholesky in single precision on CyTera, N = 61,440.
//!
//! The rate of a core is that of the paper's sequential program, so nothing is calibrated. One core of
//! each host is left to the runtime, as there.

use super::figure::{Curve, Figure, Finding, Point};
use super::machine::Machine;
use super::run::Question;
use super::world::Outcome;

const N: usize = 61_440;
/// The largest of the three tile orders that the paper tried.
const NB: usize = 128;

/// Speed-up over hosts. The largest size takes 1.7 · 10⁷ tasks a point.
pub fn speedups(machine: &Machine, n: Option<usize>, quick: bool) -> Outcome<Figure> {
    let n = n.unwrap_or(N);
    let hosts = [1_u32, 2, 4, 8, 16, 32, 64];
    let point = |&hosts: &u32| {
        let workers = machine.cores - 1;
        let question = Question::hybrid(machine, n, NB, hosts)?;
        let question = Question {
            workers,
            is_single: true,
            ..question
        };
        let speedup = question.simulate()?.rate() / machine.peak(1);
        Ok(Point::new(f64::from(hosts), speedup))
    };
    let points = hosts.iter().step_by(if quick { 3 } else { 1 }).map(point);
    let mut points = points.collect::<Outcome<Vec<Point>>>()?;
    let mut findings = Vec::new();
    // Of six programs on average, each at its largest size; Cholesky is one of the three that scale worst.
    let average = [10.5, 20.7, 40.3, 79.8, 153.5, 288.1, 514.6];
    let is_published = n == N;
    for (hosts, published) in hosts.into_iter().zip(average).filter(|_| is_published) {
        if let Some(point) = points.iter_mut().find(|point| point.x == f64::from(hosts)) {
            point.published = Some(published);
        }
    }
    if let Some(last) = points.last().filter(|_| is_published) {
        let of = "speed-up on 64 hosts; published: 61 % of 768, the best of Cholesky, LU and QR";
        findings.push(Finding::level(of, 0.61 * 768.0, last.y));
    }
    Ok(Figure {
        name: "004-table3",
        title: format!("Paper 004, Table 3: Cholesky, single precision, N = {n} on CyTera"),
        x: "hosts",
        y: "speed-up",
        curves: vec![Curve {
            name: "tile tasks",
            points,
        }],
        findings,
    })
}
