//! Solves the shallow water equations on the sphere: radial basis functions on scattered nodes, the
//! classical method of Runge and Kutta in time; a sparse solver as a graph of tasks.
//!
//! Nodes are cut into blocks along a curve. As a space (`--form space`) a task advances a block by a
//! stage; as a sequence (`--form sequence`) a task adds the products of a pair of blocks, as in paper
//! 001. Both have the same bits, on any number of threads and ranks and for all blocks.
//!
//! # Elsewhere
//! Nodes: [`nodes`]. Neighbours and weights: [`weights`]. The equations: [`block`], their [`cases`] and
//! what is [`known`] of them. Blocks: [`pattern`]. The graphs: [`space`], [`sequence`].
//!
//! # Source
//! Zafari, Larsson, Tillenius, *DuctTeip*, Parallel Computing 90 (2019), §5.3 and §6.2 (paper 001).

pub mod block;
pub mod cases;
pub mod known;
pub mod map;
pub mod nodes;
pub mod norms;
pub mod pattern;
pub mod prepare;
pub mod sequence;
pub mod space;
pub mod weights;

use block::{Block, Physics};
use cases::{Case, DAY, Number, State};
use common::cli::settings::{Variant, at_least_one};
use common::cli::{self, Example, Failure, Measured, Outcome, Settings};
use common::problem;
use dataflow::core::words::counted;
use dataflow::linalg::matrix::digest::Digest;
use dataflow::prelude::*;
use dataflow::trace::replace;
use dataflow::{Error, Monitor, Runtime};
use map::Map;
use nodes::{Places, Point};
use norms::{Errors, Summary};
use pattern::{Mesh, Pattern};
use sequence::Data;
use space::{Rows, Steps};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use weights::{Stencil, Weight};

/// What it is called, and which flags it honours.
pub const EXAMPLE: Example = Example {
    name: "shallow_water",
    about: "Solves the shallow water equations on the sphere",
    runs: true,
    honours: &["nb", "input", "variant"],
};

/// In which form the graph is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// As a task space, a task a block and stage
    Space,
    /// Recorded in program order, a task a pair of blocks and stage, and one a block and stage; many
    /// steps as several graphs, one after another
    Sequence,
}

/// What to solve, and how.
#[derive(Clone, Debug, clap::Args)]
#[command(
    mut_arg("nb", |nb| nb.help(
        "Nodes of a block [default: some 4096, of 8 blocks at least]"
    ))
)]
pub struct Own {
    /// Williamson's case: a bell (1), a zonal flow (2), a mountain (5), a wave (6)
    #[arg(long, value_name = "CASE", default_value = "2")]
    case: Number,
    /// Nodes [default: 2562]
    #[arg(long, value_name = "N", value_parser = at_least_one, conflicts_with = "input")]
    nodes: Option<usize>,
    /// Where nodes lie
    #[arg(long, default_value = "icosahedral", conflicts_with = "input")]
    places: Places,
    /// Days [default: after which the case is compared: 12, 5, 15 or 14]
    #[arg(long, value_name = "D", value_parser = positive)]
    days: Option<f64>,
    /// Steps, whatever days they take
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_STEPS)), conflicts_with = "days")]
    steps: Option<u32>,
    /// Seconds of a step, or a little less where steps are to fill the days [default: 45000/√N]
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    dt: Option<f64>,
    /// Angle between the axis of the flow and the sphere's, of cases 1 and 2
    #[arg(
        long,
        value_name = "RADIANS",
        default_value_t = 0.0,
        allow_negative_numbers = true,
        value_parser = number
    )]
    alpha: f64,
    /// Nodes of a stencil
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(7..=200))]
    stencil: u32,
    /// How flat basis functions are [default: 0.045√N − 0.1286]
    #[arg(long, value_name = "E", value_parser = positive)]
    epsilon: Option<f64>,
    /// How much Δ⁴ smooths, 1/s [default: −0.05 N⁻⁴]
    #[arg(long, value_name = "G", allow_negative_numbers = true, value_parser = number)]
    gamma: Option<f64>,
    /// In which form the graph is given
    #[arg(long, default_value = "space")]
    form: Form,
    /// Draw maps of the height and of its error, or change, into this file
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Maps of so many times, the last one at the end
    #[arg(long, value_name = "F", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100), requires = "svg")]
    frames: u32,
}

/// Steps of a run: four stages each, which are numbered in 32 bits, and as rounds of `base` in 29.
const MOST_STEPS: u32 = 1 << 26;

fn number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(number) => Err(format!("{number} must be finite")),
        Err(error) => Err(error.to_string()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match number(text)? {
        number if number > 0.0 => Ok(number),
        number => Err(format!("{number} must be positive")),
    }
}

/// The program.
pub fn main() -> ExitCode {
    cli::run(&EXAMPLE, shallow_water)
}

/// What is solved.
struct Problem {
    case: Case,
    stencil: Stencil,
    physics: Physics,
    steps: u32,
    dt: f64,
    mesh: Mesh,
    pattern: Pattern,
    blocks: Vec<Option<Block>>,
}

/// The whole example: nodes, weights, steps, comparison.
pub fn shallow_water(
    settings: &Settings<Own>,
    runtime: &Runtime,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let problem = Problem::new(settings, runtime)?;
    outcome.set("weights_seconds", begun.elapsed().as_secs_f64());
    problem.announce(settings, outcome);
    let states = problem.solve(settings, runtime, outcome)?;
    // What is told rank 0 tells.
    match states.is_empty() {
        true => Ok(()),
        false => problem.tell(settings, &states, outcome),
    }
}

/// All nodes after so many steps.
struct At {
    step: u32,
    state: Vec<State>,
}

/// Refuses flags that do not fit each other.
fn expect_fitting(settings: &Settings<Own>) -> Result<(), Failure> {
    let own = &settings.own;
    if own.form == Form::Sequence && settings.variant != Variant::Graph {
        return Err(Failure::refused(format!(
            "--variant {}: a sequence has no other edges, --form space has",
            settings.variant
        )));
    }
    match own.alpha == 0.0 || matches!(own.case, Number::Bell | Number::Zonal) {
        true => Ok(()),
        false => Err(Failure::refused(
            "--alpha: only cases 1 and 2 have an axis to turn",
        )),
    }
}

/// How many nodes there are to be, and those of a file.
fn nodes_asked(
    settings: &Settings<Own>,
    runtime: &Runtime,
) -> Result<(usize, Option<Vec<Point>>), Failure> {
    let own = &settings.own;
    let room = |n, asked: &str| expect_room(n, own.stencil, asked, runtime);
    if let Some(path) = &settings.input {
        let nodes = nodes::read(path)?;
        room(nodes.len(), &path.display().to_string())?;
        return Ok((nodes.len(), Some(nodes)));
    }
    let count = own.nodes.unwrap_or(2562);
    room(count, &format!("--nodes {count}"))?;
    own.places.expect_count(count)?;
    own.expect_neighbours(count)?;
    Ok((count, None))
}

impl Problem {
    fn new(settings: &Settings<Own>, runtime: &Runtime) -> Result<Self, Failure> {
        let own = &settings.own;
        expect_fitting(settings)?;
        let (number, alpha) = (own.case, own.alpha);
        let case = Case { number, alpha };
        let of_file = |failure: Failure| match &settings.input {
            Some(path) => failure.about(path),
            None => failure,
        };
        let (n, read) = nodes_asked(settings, runtime)?;
        prepare::expect_neighbours(n, own.stencil as usize).map_err(of_file)?;
        let stencil = Stencil {
            size: own.stencil as usize,
            epsilon: own.epsilon.unwrap_or(known::epsilon(n)),
            power: 4,
        };
        if stencil.epsilon <= 0.0 {
            return Err(Failure::refused(format!(
                "--epsilon: of {n} nodes the default is {:.4}, and it must be positive",
                stencil.epsilon
            )));
        }
        let physics = Physics {
            depth: case.depth(),
            is_carried: case.is_carried(),
            gamma: own.gamma.unwrap_or(-0.05 / (n as f64).powi(4)),
        };
        let (steps, dt) = own.steps(&case, n)?;
        let nodes = read.map_or_else(|| nodes::nodes(own.places, n), Ok)?;
        let mesh = prepare::mesh(runtime, nodes, &stencil).map_err(of_file)?;
        // Eight blocks at least, of some thousand nodes.
        let nb = settings.nb.unwrap_or(n.div_ceil((n / 4096).max(8))).min(n);
        let pattern = Pattern::new(&mesh, nb, runtime.n_ranks());
        let blocks = prepare::blocks(runtime, &mesh, &pattern, &case, &stencil)?;
        Ok(Problem {
            case,
            stencil,
            physics,
            steps,
            dt,
            mesh,
            pattern,
            blocks,
        })
    }

    fn days(&self) -> f64 {
        f64::from(self.steps) * self.dt / DAY
    }

    fn announce(&self, settings: &Settings<Own>, outcome: &mut Outcome) {
        let n = self.pattern.n;
        (outcome.n, outcome.nb) = (Some(n), Some(self.pattern.nb));
        outcome.precision = Some("f64".into());
        let Stencil { size, epsilon, .. } = self.stencil;
        // A product and a sum for each of sixteen derivatives and neighbour, and some sixty.
        let flops = (32 * size + 60) as f64;
        outcome.flops = Some(4.0 * f64::from(self.steps) * n as f64 * flops);
        outcome.set("case", cases::name(self.case.number));
        outcome.set("alpha", self.case.alpha);
        outcome.set("days", self.days());
        outcome.set("steps", self.steps);
        outcome.set("dt_seconds", self.dt);
        outcome.set("stencil", size);
        outcome.set("epsilon", epsilon);
        outcome.set("gamma", self.physics.gamma);
        outcome.set("form", format!("{:?}", settings.own.form).to_lowercase());
    }

    /// Takes all steps, `--repeat` times; with maps in as many parts as there are to be. The states at
    /// their ends, on rank 0, the first before all.
    fn solve(
        &self,
        settings: &Settings<Own>,
        runtime: &Runtime,
        outcome: &mut Outcome,
    ) -> Result<Vec<At>, Failure> {
        let n_frames = match &settings.own.svg {
            Some(_) => settings.own.frames.min(self.steps),
            None => 1,
        };
        let ends = (1..=n_frames).map(|frame| {
            let end = u64::from(frame) * u64::from(self.steps) / u64::from(n_frames);
            end as u32
        });
        let ends: Vec<u32> = ends.collect();
        let mut states = Vec::new();
        outcome.measured = settings.median(|_| -> Result<_, Failure> {
            let nodes = self.mesh.nodes.iter();
            states = vec![At {
                step: 0,
                state: nodes.map(|&node| self.case.state(node)).collect(),
            }];
            let mut parts = Vec::new();
            for &step in &ends {
                let from = &states[states.len() - 1];
                let (measured, own) = self.run(settings, runtime, step - from.step, &from.state)?;
                let state = gathered(runtime, &own)?;
                finite(&state, step)?;
                parts.push(measured);
                states.push(At { step, state });
            }
            Ok(Measured::total(parts))
        })?;
        let steps = f64::from(self.steps);
        outcome.rate("steps_per_second", "steps a second", steps);
        match runtime.rank() {
            Rank(0) => Ok(states),
            _ => Ok(Vec::new()),
        }
    }

    /// Takes some steps from a state of all nodes; this rank's part of what comes of it.
    fn run(
        &self,
        settings: &Settings<Own>,
        runtime: &Runtime,
        steps: u32,
        from: &[State],
    ) -> Result<(Measured, Vec<State>), Failure> {
        let (pattern, blocks, taken) = (&self.pattern, &self.blocks[..], (steps, self.dt));
        let state = |node: usize| from[node];
        match settings.own.form {
            Form::Space => {
                let space = Steps::new(pattern, blocks, self.physics, taken, state);
                let space = match settings.variant {
                    Variant::Ideal => space.with_stale(state),
                    _ => space,
                };
                let measured = settings.measure_variant(runtime, &space)?;
                Ok((measured, self.own(&space.own)))
            }
            Form::Sequence => {
                let data = Data::new(blocks, state);
                let (mesh, physics) = (&self.mesh, &self.physics);
                let record = |steps| {
                    sequence::program(mesh, pattern, blocks, physics, &data, (steps, self.dt))
                };
                let at_once = steps.min(sequence::steps_at_once(pattern));
                let (rounds, rest) = (steps / at_once, steps % at_once);
                let (round, last) = (record(at_once)?, record(rest)?);
                let run = |monitor: &Monitor| {
                    let on = runtime.watched_by(monitor);
                    let rounds = (1..rounds).map(|_| &round);
                    let mut more = rounds.chain((rest > 0).then_some(&last));
                    more.try_fold(round.run_across(&on)?, |whole, program| {
                        Ok::<_, Error>(whole.followed_by(program.run_across(&on)?))
                    })
                };
                let measured = settings.measure(runtime, run)?;
                Ok((measured, self.own(&data.own)))
            }
        }
    }

    /// The states of this rank's blocks.
    fn own(&self, store: &Store<Rows>) -> Vec<State> {
        let blocks = self.blocks.iter().enumerate();
        let own = |(at, block): (usize, &Option<Block>)| {
            let (block, rows) = (block.as_ref()?, store.get(at)?);
            Some(rows[..block.nodes.len()].to_vec())
        };
        blocks.filter_map(own).flatten().collect()
    }

    /// Digest, norms, comparison with what is known, maps.
    fn tell(
        &self,
        settings: &Settings<Own>,
        states: &[At],
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let (first, last) = (&states[0].state, &states[states.len() - 1].state);
        outcome.digest = Some(digest(last).to_string());
        let [before, summary] =
            [first, last].map(|state| Summary::of(&self.case, &self.mesh.nodes, state));
        let drift = |of: fn(&Summary) -> f64| of(&summary) / of(&before) - 1.0;
        let is_exact = self.case.is_known_after(self.days());
        let errors = is_exact.then(|| Errors::of(&self.case, last, first));
        self.say(&summary, errors.as_ref(), outcome);
        outcome.set("heights_and_speeds", serde_json::json!(summary));
        if self.case.number != Number::Bell {
            outcome.set("depth_drift", drift(|of| of.depth));
            outcome.set("energy_drift", drift(|of| of.energy));
        }
        outcome.set("errors", serde_json::json!(errors));
        let by_formula = settings.input.is_none()
            && settings.own.places == Places::Icosahedral
            && settings.own.gamma.is_none();
        let run = known::Run {
            number: self.case.number,
            alpha: self.case.alpha,
            nodes: self.pattern.n,
            size: self.stencil.size,
            epsilon: self.stencil.epsilon,
            days: self.days(),
        };
        let compared = by_formula.then(|| known::compare(&run, &summary, errors.as_ref()));
        let worst = compared.flatten();
        if let Some((_, name)) = worst {
            outcome.say(format!(
                "farthest from what is known, in units of what is allowed: {name}"
            ));
        }
        let verified = outcome.verify(settings.variant, worst.map(|(error, _)| error), 1.0);
        let drawn = match &settings.own.svg {
            Some(path) => self.draw(states, path),
            None => Ok(()),
        };
        cli::both(verified, drawn)
    }

    /// In words: the case, what there is in the end, and how far that is from what is exact.
    fn say(&self, summary: &Summary, errors: Option<&Errors>, outcome: &mut Outcome) {
        outcome.say(format!(
            "case {}, {:.3} days in {} of {:.1} s",
            cases::name(self.case.number),
            self.days(),
            counted(self.steps, "step"),
            self.dt
        ));
        outcome.say(format!(
            "height from {:.3} to {:.3} m, mean {:.4} m; fastest {:.3} m/s",
            summary.lowest, summary.highest, summary.mean, summary.fastest
        ));
        if let Some(Errors {
            l1,
            l2,
            l_infinity,
            velocity_l2,
        }) = errors
        {
            outcome.say(format!(
                "error of the height: l1 {l1:.3e}, l2 {l2:.3e}, l∞ {l_infinity:.3e}; of the velocity: l2 {velocity_l2:.3e}"
            ));
        }
    }

    /// Maps of each state but the first: the height, and its error, or change since the beginning.
    fn draw(&self, states: &[At], path: &Path) -> Result<(), Failure> {
        let heights = |state: &[State]| {
            state
                .iter()
                .map(|state| self.case.height(state))
                .collect::<Vec<f64>>()
        };
        let first = heights(&states[0].state);
        let what = match self.case.number {
            Number::Zonal => "error",
            _ => "change since the beginning",
        };
        let frame = |at: &At| {
            let days = f64::from(at.step) * self.dt / DAY;
            let height = heights(&at.state);
            let change = height
                .iter()
                .zip(&first)
                .map(|(now, then)| now - then)
                .collect();
            vec![
                Map {
                    title: format!("height after {days:.2} days, m"),
                    values: height,
                },
                Map {
                    title: format!("its {what}, m"),
                    values: change,
                },
            ]
        };
        let frames: Vec<Vec<Map>> = states.iter().skip(1).map(frame).collect();
        let drawn = map::draw(&self.mesh.nodes, &frames);
        let drawn = drawn.map_err(|text| Failure::new("malformed", text))?;
        let unwritten = |error| Failure::output_unwritable(path, error);
        replace(path, |file| svg::write(file, &drawn)).map_err(unwritten)
    }
}

impl Own {
    /// Refuses stencils of more nodes than there are beside one.
    fn expect_neighbours(&self, nodes: usize) -> Result<(), Failure> {
        match nodes > self.stencil as usize {
            true => Ok(()),
            false => Err(Failure::refused(format!(
                "--nodes {nodes}: too few for stencils of {} (--stencil)",
                self.stencil
            ))),
        }
    }

    /// How many steps of how many seconds: what was asked for, or the days in steps that are stable.
    ///
    /// # Errors
    /// If the days are too many such steps.
    fn steps(&self, case: &Case, n: usize) -> Result<(u32, f64), Failure> {
        let longest = self.dt.unwrap_or(45_000.0 / (n as f64).sqrt());
        if let Some(steps) = self.steps {
            return Ok((steps, longest));
        }
        let days = self.days.unwrap_or(case.days());
        let steps = (days * DAY / longest).ceil().max(1.0);
        if steps > f64::from(MOST_STEPS) {
            return Err(Failure::refused(format!(
                "--days {days} is {steps:.0} steps of {longest} s, at most {MOST_STEPS} may be"
            )));
        }
        Ok((steps as u32, days * DAY / steps))
    }
}

/// Refuses more nodes than there is room for, or than can be numbered in 32 bits.
fn expect_room(n: usize, stencil: u32, asked: &str, runtime: &Runtime) -> Result<(), Failure> {
    if u32::try_from(n).is_err() {
        let text = format!("{asked}: at most {} nodes may be", u32::MAX);
        return Err(Failure::refused(text));
    }
    let [n, size] = [n as u128, stencil.into()];
    // Every rank has all nodes with the numbers of their neighbours, and states; of its own the weights.
    let everywhere = size_of::<Point>() + size_of::<State>();
    let here = everywhere as u128 + size * size_of::<u32>() as u128;
    let own = n.div_ceil(runtime.n_ranks() as u128) * size * size_of::<Weight>() as u128;
    problem::expect_room(asked, n * here + own, runtime)
}

/// The states of all nodes, on every rank.
fn gathered(runtime: &Runtime, own: &[State]) -> Result<Vec<State>, Failure> {
    let parts = runtime.gather(bytemuck::cast_slice(own).to_vec())?;
    let states = parts
        .iter()
        .flat_map(|part| part.chunks_exact(size_of::<State>()));
    Ok(states.map(bytemuck::pod_read_unaligned).collect())
}

fn finite(state: &[State], step: u32) -> Result<(), Failure> {
    let wrong = |state: &State| state.iter().any(|value| !value.is_finite());
    match state.iter().position(wrong) {
        None => Ok(()),
        Some(node) => {
            let text = format!(
                "after step {step} node {node} is at {:?}: the run is not stable (--epsilon, --gamma, --dt)",
                state[node]
            );
            Err(Failure::new("not_finite", text).with_index(node as u64))
        }
    }
}

/// Over node, component and bits.
pub fn digest(state: &[State]) -> Digest {
    let entries = (0..).zip(state).flat_map(|(node, state)| {
        let values = (0..).zip(state);
        values.map(move |(at, &value)| Digest::of_entry(node, at, value))
    });
    entries.sum()
}
