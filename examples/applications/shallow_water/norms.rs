//! Norms: what is told of a state, and how far it is from another.

use super::cases::{Case, GRAVITY, State};
use super::nodes::Point;
use serde::Serialize;

/// What is told of a state; nodes have equal weights.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// Height of the free surface, m.
    pub lowest: f64,
    pub highest: f64,
    pub mean: f64,
    /// Velocities [m/s].
    pub fastest: f64,
    pub rms_speed: f64,
    /// Mean depth in m, and energy in m⁴/s⁴.
    pub depth: f64,
    pub energy: f64,
}

/// How far a state is from the exact one, relative.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Errors {
    /// Of heights, in three norms.
    pub l1: f64,
    pub l2: f64,
    pub l_infinity: f64,
    /// Of velocities.
    pub velocity_l2: f64,
}

fn speed2([u, v, w, _]: State) -> f64 {
    u * u + v * v + w * w
}

impl Summary {
    /// Of a state on these nodes.
    pub fn of(case: &Case, nodes: &[Point], state: &[State]) -> Self {
        let n = state.len() as f64;
        let heights = || state.iter().map(|state| case.height(state));
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / n;
        let both = || nodes.iter().zip(state);
        let depth = |node: &Point, state: &State| state[3] + case.depth() - case.mountain(*node);
        let energy = |(node, state): (&Point, &State)| {
            let (free, bottom) = (state[3] + case.depth(), case.mountain(*node));
            (depth(node, state) * speed2(*state) + free * free - bottom * bottom) / 2.0
        };
        Summary {
            lowest: heights().fold(f64::INFINITY, f64::min),
            highest: heights().fold(f64::NEG_INFINITY, f64::max),
            mean: mean(&mut heights()),
            fastest: state
                .iter()
                .map(|state| speed2(*state))
                .fold(0.0, f64::max)
                .sqrt(),
            rms_speed: mean(&mut state.iter().map(|state| speed2(*state))).sqrt(),
            depth: mean(&mut both().map(|(node, state)| depth(node, state) / GRAVITY)),
            energy: mean(&mut both().map(energy)),
        }
    }
}

impl Errors {
    /// Of a state, if `exact` is the exact one.
    pub fn of(case: &Case, state: &[State], exact: &[State]) -> Self {
        let heights: Vec<(f64, f64)> = state
            .iter()
            .zip(exact)
            .map(|(state, exact)| (case.height(state) - case.height(exact), case.height(exact)))
            .collect();
        let ratio = |of: fn(f64) -> f64| {
            let [off, all]: [f64; 2] = [
                heights.iter().map(|pair| of(pair.0)).sum(),
                heights.iter().map(|pair| of(pair.1)).sum(),
            ];
            off / all
        };
        let largest = |of: fn(&(f64, f64)) -> f64| heights.iter().map(of).fold(0.0, f64::max);
        let difference = |(a, b): (&State, &State)| speed2([0, 1, 2, 3].map(|at| a[at] - b[at]));
        let off: f64 = state.iter().zip(exact).map(difference).sum();
        let all: f64 = exact.iter().map(|state| speed2(*state)).sum();
        Errors {
            l1: ratio(f64::abs),
            l2: ratio(|x| x * x).sqrt(),
            l_infinity: largest(|pair| pair.0.abs()) / largest(|pair| pair.1.abs()),
            velocity_l2: (off / all).sqrt(),
        }
    }
}

impl Case {
    /// The height of the free surface, m.
    pub fn height(&self, state: &State) -> f64 {
        (state[3] + self.depth()) / GRAVITY
    }
}
