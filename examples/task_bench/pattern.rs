//! Patterns: who needs whom, by formula.
//!
//! A graph has `steps` time steps of at most `width` points; a point of a step needs points of the
//! step before. An input has a place, by which its reader knows it; both ends are written down.
//!
//! | pattern | inputs of point p, by place |
//! |---|---|
//! | trivial | none |
//! | no_comm | p |
//! | stencil_1d | p − 1, p, p + 1 |
//! | stencil_1d_periodic | the same around the border |
//! | dom | p − 1, p, in a diamond that grows and shrinks |
//! | tree | ⌊p ÷ 2⌋, on twice as many points each step |
//! | fft | p − 2^d, p, p + 2^d |
//! | all_to_all | every point |
//! | nearest | `radix` points around p |
//! | spread | `radix` points, equally far from one another, all but the first d further on |
//! | random_nearest | p, and of `nearest` those that a hash picks by d |
//!
//! d is the dependence set of the reader's step: patterns that change in time take turns.
//!
//! # Source
//! Slaughter, Wu, Fu, Brandenburg, Garcia, Kautz, Marx, Morris, Cao, Bosilca, Mirchandaney, Lee,
//! Treichler, McCormick, Aiken, *Task Bench: a parameterized benchmark for evaluating parallel
//! runtime performance*, SC20; the formulas are those of its `core.cc`.

use clap::ValueEnum;
use std::hash::Hasher;
use std::ops::Range;

/// The shape of the dependences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Pattern {
    Trivial,
    NoComm,
    #[value(name = "stencil_1d", aliases = ["stencil", "stencil-1d"])]
    Stencil,
    #[value(name = "stencil_1d_periodic", alias = "stencil-1d-periodic")]
    PeriodicStencil,
    Dom,
    Tree,
    Fft,
    AllToAll,
    Nearest,
    Spread,
    RandomNearest,
}

/// A pattern with its parameters; those that it has no use for are 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Graph {
    pub pattern: Pattern,
    /// Points of a step, at most.
    pub width: u32,
    pub steps: u32,
    /// How many inputs a point has, at most.
    pub radix: u32,
    /// How many dependence sets take turns.
    pub period: u32,
    /// The share of inputs that are picked.
    pub fraction: f64,
}

impl Pattern {
    /// Whether the number of inputs can be chosen.
    pub fn has_radix(self) -> bool {
        matches!(
            self,
            Pattern::Nearest | Pattern::Spread | Pattern::RandomNearest
        )
    }

    /// Whether the number of dependence sets can be chosen.
    pub fn has_period(self) -> bool {
        matches!(self, Pattern::Spread | Pattern::RandomNearest)
    }

    /// Whether inputs are picked by chance.
    pub fn has_fraction(self) -> bool {
        self == Pattern::RandomNearest
    }

    fn wraps(self) -> bool {
        matches!(self, Pattern::PeriodicStencil | Pattern::Spread)
    }
}

impl Graph {
    /// A graph whose points have no input twice.
    ///
    /// # Errors
    /// Which parameter does not fit, and what would.
    pub fn checked(self) -> Result<Self, String> {
        let Graph {
            pattern,
            width,
            radix,
            period,
            fraction,
            ..
        } = self;
        let apart = width.div_ceil(radix.max(1));
        if pattern == Pattern::PeriodicStencil && width < 3 {
            return Err(format!(
                "--width {width}: a periodic stencil needs 3 points or more"
            ));
        }
        if pattern == Pattern::Spread && !(1..=width).contains(&radix) {
            return Err(format!("--radix {radix}: spread needs 1 to {width} inputs"));
        }
        if pattern == Pattern::Spread && period > apart {
            return Err(format!(
                "--period {period}: inputs lie {apart} points apart, so there are at most {apart} sets"
            ));
        }
        if pattern.has_period() && period == 0 {
            return Err("--period 0: there must be a dependence set".into());
        }
        if !(0.0..=1.0).contains(&fraction) {
            return Err(format!("--fraction {fraction}: must be from 0 to 1"));
        }
        Ok(self)
    }

    /// The points of a step that have a task.
    #[inline(always)]
    pub fn active(&self, step: u32) -> Range<u32> {
        let (width, steps) = (self.width, self.steps);
        match self.pattern {
            Pattern::Tree => 0..width.min(1 << step.min(31)),
            Pattern::Dom => {
                let first = (u64::from(step) + u64::from(width)).saturating_sub(steps.into());
                let length = width.min(step.saturating_add(1)).min(steps - step);
                first as u32..first as u32 + length
            }
            _ => 0..width,
        }
    }

    /// How many places for inputs a point has.
    #[inline(always)]
    pub fn n_places(&self) -> u32 {
        match self.pattern {
            Pattern::Trivial => 0,
            Pattern::NoComm | Pattern::Tree => 1,
            Pattern::Dom => 2,
            Pattern::Stencil | Pattern::PeriodicStencil | Pattern::Fft => 3,
            Pattern::AllToAll => self.width,
            Pattern::Nearest | Pattern::Spread | Pattern::RandomNearest => self.radix,
        }
    }

    /// The point of the step before at one place, if there is one.
    #[inline(always)]
    pub fn input(&self, step: u32, point: u32, place: u32) -> Option<u32> {
        let set = self.set(step);
        let source = match self.pattern {
            Pattern::Tree => point / 2,
            Pattern::AllToAll => place,
            _ => self.beside(point, self.offset(set, place))?,
        };
        let exists = step > 0 && self.active(step - 1).contains(&source);
        (exists && self.is_picked(set, source, point)).then_some(source)
    }

    /// All inputs of a point as (place, point), in the order in which Task Bench lists them.
    #[inline(always)]
    pub fn inputs(&self, step: u32, point: u32) -> impl Iterator<Item = (u32, u32)> {
        // Around the lower border the far neighbour comes last.
        let first = u32::from(self.pattern == Pattern::PeriodicStencil && point == 0);
        let places = (first..self.n_places()).chain(0..first);
        places.filter_map(move |place| Some((place, self.input(step, point, place)?)))
    }

    /// The points of the next step that need a point, as (point, place).
    #[inline(always)]
    pub fn readers(&self, step: u32, point: u32) -> impl Iterator<Item = (u32, u32)> {
        let next = step + 1;
        let active = match self.steps {
            steps if next < steps => self.active(next),
            _ => 0..0,
        };
        let set = self.set(next);
        let candidates = match self.pattern {
            Pattern::Tree => 0..2,
            Pattern::AllToAll => active.clone(),
            _ => 0..self.n_places(),
        };
        candidates.filter_map(move |candidate| {
            let (reader, place) = match self.pattern {
                Pattern::Tree => (2 * point + candidate, 0),
                Pattern::AllToAll => (candidate, point),
                _ => (self.beside(point, -self.offset(set, candidate))?, candidate),
            };
            let reads = active.contains(&reader) && self.is_picked(set, point, reader);
            reads.then_some((reader, place))
        })
    }

    /// The first step from which on every point has an input.
    pub fn first_step_without_roots(&self) -> u32 {
        match self.pattern {
            Pattern::Trivial => self.steps,
            Pattern::Nearest | Pattern::RandomNearest if self.radix == 0 => self.steps,
            // A diamond that is cut off has roots while it grows.
            Pattern::Dom => self.steps.min(self.width),
            _ => 1,
        }
    }

    /// The dependence set of a step.
    #[inline(always)]
    fn set(&self, step: u32) -> u32 {
        match self.pattern {
            Pattern::Fft => {
                let levels = self.width.next_power_of_two().trailing_zeros().max(1);
                (step % levels + levels - 1) % levels
            }
            Pattern::Spread | Pattern::RandomNearest => step % self.period,
            _ => 0,
        }
    }

    /// How far the input at a place lies from its reader.
    #[inline(always)]
    fn offset(&self, set: u32, place: u32) -> i64 {
        let (set, place, radix) = (i64::from(set), i64::from(place), i64::from(self.radix));
        match self.pattern {
            Pattern::Stencil | Pattern::PeriodicStencil | Pattern::Dom => place - 1,
            Pattern::Fft => (place - 1) << set,
            Pattern::Nearest | Pattern::RandomNearest => place - radix / 2,
            Pattern::Spread if place > 0 => place * i64::from(self.width) / radix + set,
            _ => 0,
        }
    }

    #[inline(always)]
    fn beside(&self, point: u32, offset: i64) -> Option<u32> {
        let (beside, width) = (i64::from(point) + offset, i64::from(self.width));
        if (0..width).contains(&beside) {
            Some(beside as u32)
        } else {
            let wraps = self.pattern.wraps();
            wraps.then(|| beside.rem_euclid(width) as u32)
        }
    }

    /// Whether the hash picks an edge; a point always needs itself.
    #[inline(always)]
    fn is_picked(&self, set: u32, source: u32, reader: u32) -> bool {
        self.pattern != Pattern::RandomNearest
            || source == reader
            || uniform(&[0, self.radix, set, source, reader]) < self.fraction
    }
}

/// A number from 0 to 1 by hash: Task Bench's own, so that the same edges are picked.
pub fn uniform(words: &[u32]) -> f64 {
    let key = [0x0807_0605_0403_0201, 0x000f_0e0d_0c0b_0a09];
    #[expect(
        deprecated,
        reason = "it is SipHash-2-4, whose successor is another function"
    )]
    let mut hash = std::hash::SipHasher::new_with_keys(key[0], key[1]);
    for &word in words {
        hash.write(&u64::from(word).to_le_bytes());
    }
    hash.finish() as f64 / 2f64.powi(64)
}
