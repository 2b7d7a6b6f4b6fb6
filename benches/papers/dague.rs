//! Paper 000 (DAGuE): Figures 8, 10 and 11, Cholesky on Griffon.
//!
//! Tiles have order 340 throughout, which the paper found best for N = 93,500 (of the other points it
//! says only that theirs were tuned). Beside the tile factorisation stands a program of as many ranks as
//! cores that takes panel after panel and waits for what it sends; it is not ScaLAPACK, but lacks what
//! ScaLAPACK lacks.

use super::figure::{Curve, Figure, Finding, Point};
use super::machine::Machine;
use super::run::Question;
use super::world::Outcome;

const NB: usize = 340;
const TASKS: &str = "tile tasks";
const FLAT: &str = "rank a core, blocking";

/// Which curves.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Every third point of a sweep only.
    pub quick: bool,
    /// Also what has no tasks.
    pub flat: bool,
}

/// Shares of GEMM peak of questions, over x.
fn curve(name: &'static str, asked: &[(f64, Question)]) -> Outcome<Curve> {
    let point = |(x, question): &(f64, Question)| Ok(Point::new(*x, question.share()?));
    let points = asked.iter().map(point).collect::<Outcome<_>>()?;
    Ok(Curve { name, points })
}

/// Both curves, as far as wanted.
fn curves(wanted: Wanted, asked: Vec<(f64, Question)>) -> Outcome<Vec<Curve>> {
    let asked: Vec<_> = match wanted.quick {
        true => asked.into_iter().step_by(3).collect(),
        false => asked,
    };
    let mut curves = vec![curve(TASKS, &asked)?];
    if wanted.flat {
        let flat = asked
            .into_iter()
            .map(|(x, question)| Ok((x, question.flat()?)));
        curves.push(curve(FLAT, &flat.collect::<Outcome<Vec<_>>>()?)?);
    }
    Ok(curves)
}

/// Whether what has no tasks is behind at every point.
fn is_behind(curves: &[Curve]) -> Option<Finding> {
    let [tasks, flat] = curves else { return None };
    let mut pairs = tasks.points.iter().zip(&flat.points);
    let behind = pairs.all(|(tasks, flat)| flat.y < tasks.y);
    Some(Finding::new(
        "ScaLAPACK (here: what has no tasks) is behind at every point",
        behind,
    ))
}

/// Figure 8: 81 hosts, N varied.
pub fn problem_scaling(machine: &Machine, wanted: Wanted) -> Outcome<Figure> {
    let tiles = [40, 80, 120, 160, 200, 240, 280, 320, 353, 383];
    let asked = tiles.map(|nt| {
        let question = Question::hybrid(machine, nt * NB, NB, 81)?;
        Outcome::Ok(((nt * NB) as f64, question))
    });
    let mut curves = curves(wanted, asked.into_iter().collect::<Outcome<_>>()?)?;
    let ours = &mut curves[0].points;
    let rises = ours.is_sorted_by(|one, next| one.y < next.y);
    let mut findings = vec![Finding::new(
        "rises with N, and reaches no plateau in the memory there is",
        rises,
    )];
    if let Some(last) = ours.last_mut() {
        last.published = Some(0.75);
        findings.push(Finding::level(
            "share of GEMM peak at N = 130,000",
            0.75,
            last.y,
        ));
    }
    findings.extend(is_behind(&curves));
    Ok(Figure {
        name: "000-fig8",
        title: "Paper 000, Fig. 8: problem scaling on 81 hosts of Griffon".into(),
        x: "N",
        y: "share of GEMM peak",
        curves,
        findings,
    })
}

/// Figure 10: N grows with the square root of the hosts.
pub fn weak_scaling(machine: &Machine, wanted: Wanted) -> Outcome<Figure> {
    let hosts = [1_u32, 4, 9, 16, 25, 36, 48, 64, 81];
    let asked = hosts.map(|hosts| {
        let nt = (40.0 * f64::from(hosts).sqrt()).round() as usize;
        let question = Question::hybrid(machine, nt * NB, NB, hosts)?;
        Outcome::Ok((f64::from(8 * hosts), question))
    });
    let mut curves = curves(wanted, asked.into_iter().collect::<Outcome<_>>()?)?;
    let mut findings = of_weak_scaling(&curves[0].points);
    let ours = curves[0].points.iter_mut();
    if let Some(best) = ours.max_by(|one, other| one.y.total_cmp(&other.y)) {
        best.published = Some(0.78);
    }
    if let Some(flat) = curves.get_mut(1) {
        let best = flat.points.iter().map(|point| point.y).fold(0.0, f64::max);
        findings.push(Finding::level(
            "best of ScaLAPACK, here of what has no tasks",
            0.49,
            best,
        ));
    }
    findings.extend(is_behind(&curves));
    Ok(Figure {
        name: "000-fig10",
        title: "Paper 000, Fig. 10: weak scaling on Griffon from N = 13,600 on a host".into(),
        x: "cores",
        y: "share of GEMM peak",
        curves,
        findings,
    })
}

/// The best share, how far the worst is from it, and the dip where the grid is not square.
fn of_weak_scaling(ours: &[Point]) -> Vec<Finding> {
    let best = ours.iter().map(|point| point.y).fold(0.0, f64::max);
    let worst = ours.iter().map(|point| point.y).fold(1.0, f64::min);
    let mut findings = vec![
        Finding::level("best share of GEMM peak (calibrated)", 0.78, best),
        Finding::new(
            format!(
                "scales almost perfectly: the worst point has {:.2} of the best",
                worst / best
            ),
            worst > 0.9 * best,
        ),
    ];
    let share = |cores: f64| {
        let point = ours.iter().find(|point| point.x == cores);
        point.map(|point| point.y)
    };
    if let (Some(before), Some(at), Some(after)) = (share(288.0), share(384.0), share(512.0)) {
        let dips = at < before && at < after;
        findings.push(Finding::new(
            format!("dips at 384 cores, where the grid is 6 × 8: {before:.3}, {at:.3}, {after:.3}"),
            dips,
        ));
    }
    findings
}

/// Whether the rate of each point is the cores' of the one before, times almost their ratio.
fn almost_linear(curve: &Curve) -> Finding {
    let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else {
        return Finding::new("there are no points", false);
    };
    let speedup = last.y / first.y;
    let says = format!(
        "almost linear: {:.2} of the rate a core from {} to {} cores",
        speedup, first.x, last.x
    );
    Finding::new(says, speedup > 0.85)
}

/// Figure 11 (a): N = 93,500, hosts varied.
pub fn strong_hosts(machine: &Machine, wanted: Wanted) -> Outcome<Figure> {
    let hosts = [16_u32, 25, 36, 49, 64, 81];
    let asked = hosts.map(|hosts| {
        let question = Question::hybrid(machine, 275 * NB, NB, hosts)?;
        Outcome::Ok((f64::from(8 * hosts), question))
    });
    let curves = curves(wanted, asked.into_iter().collect::<Outcome<_>>()?)?;
    let mut findings = vec![almost_linear(&curves[0])];
    findings.extend(is_behind(&curves));
    Ok(Figure {
        name: "000-fig11a",
        title: "Paper 000, Fig. 11 (a): N = 93,500 on Griffon, hosts varied".into(),
        x: "cores",
        y: "share of GEMM peak",
        curves,
        findings,
    })
}

/// Figure 11 (b): N = 120,020 on 81 hosts, cores of each varied.
pub fn strong_cores(machine: &Machine, wanted: Wanted) -> Outcome<Figure> {
    let asked = [2_usize, 4, 6, 8].map(|cores| {
        let workers = cores;
        let question = Question::hybrid(machine, 353 * NB, NB, 81)?;
        Outcome::Ok((
            (81 * cores) as f64,
            Question {
                workers,
                ..question
            },
        ))
    });
    let curves = curves(wanted, asked.into_iter().collect::<Outcome<_>>()?)?;
    let mut findings = vec![almost_linear(&curves[0])];
    findings.extend(is_behind(&curves));
    Ok(Figure {
        name: "000-fig11b",
        title: "Paper 000, Fig. 11 (b): N = 120,020 on 81 hosts of Griffon, cores of each varied"
            .into(),
        x: "cores",
        y: "share of GEMM peak",
        curves,
        findings,
    })
}
