//! Cases: the states from which the shallow water equations are solved, and what is known of what
//! becomes of them.
//!
//! A state is velocity (u, v, w) [m/s], tangent to the sphere, and φ = g·(height of the free surface) −
//! g·h₀ [m²/s²].
//!
//! # Source
//! Williamson, Drake, Hack, Jakob, Swarztrauber, *A standard test set for numerical approximations to
//! the shallow water equations in spherical geometry*, J. Comput. Phys. 102 (1992).

use super::nodes::{Point, dot};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_6, PI};

/// Of the earth: radius in m, rotation in 1/s, gravity in m/s².
pub const RADIUS: f64 = 6.37122e6;
pub const ROTATION: f64 = 7.292e-5;
pub const GRAVITY: f64 = 9.80616;

/// Seconds of a day.
pub const DAY: f64 = 86_400.0;

/// Velocity, and φ.
pub type State = [f64; 4];

/// One of Williamson's cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Number {
    /// A bell of height is carried round the sphere
    #[value(name = "1")]
    Bell,
    /// A zonal flow that stays as it is
    #[value(name = "2")]
    Zonal,
    /// A zonal flow meets a mountain
    #[value(name = "5")]
    Mountain,
    /// A wave of Rossby and Haurwitz
    #[value(name = "6")]
    Wave,
}

/// A case, its axis turned by an angle where it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub number: Number,
    /// α, between the axis of the flow and that of the sphere; 0 for cases 5 and 6.
    pub alpha: f64,
}

impl Case {
    /// g·h₀ [m²/s²].
    pub fn depth(&self) -> f64 {
        match self.number {
            Number::Bell => 0.0,
            Number::Zonal => 2.94e4,
            Number::Mountain => GRAVITY * 5960.0,
            Number::Wave => GRAVITY * 8000.0,
        }
    }

    /// Days after which results are compared.
    pub fn days(&self) -> f64 {
        match self.number {
            Number::Bell => 12.0,
            Number::Zonal => 5.0,
            Number::Mountain => 15.0,
            Number::Wave => 14.0,
        }
    }

    /// Whether velocities stay, and only the height is carried.
    pub fn is_carried(&self) -> bool {
        self.number == Number::Bell
    }

    /// `z·cos α − x·sin α`: the sine of the latitude about the axis.
    fn height_over_axis(&self, [x, _, z]: Point) -> f64 {
        z * self.alpha.cos() - x * self.alpha.sin()
    }

    /// Coriolis' parameter [1/s].
    pub fn coriolis(&self, node: Point) -> f64 {
        2.0 * ROTATION * self.height_over_axis(node)
    }

    /// g times the height of the mountain [m²/s²].
    pub fn mountain(&self, node: Point) -> f64 {
        const WIDTH: f64 = PI / 9.0;
        if self.number != Number::Mountain {
            return 0.0;
        }
        let (longitude, latitude) = on_the_map(node);
        let (along, across) = (longitude + FRAC_PI_2, latitude - FRAC_PI_6);
        let r = (along * along + across * across).sqrt().min(WIDTH);
        GRAVITY * 2000.0 * (1.0 - r / WIDTH)
    }

    /// The state at the beginning; in case 2 for ever, in case 1 after each turn of twelve days.
    pub fn state(&self, node: Point) -> State {
        match self.number {
            Number::Bell => self.bell(node),
            Number::Zonal => self.zonal(node, 2.0 * PI * RADIUS / (12.0 * DAY)),
            Number::Mountain => self.zonal(node, 20.0),
            Number::Wave => wave(node),
        }
    }

    /// Whether [`state`](Self::state) is also the exact state after so many days.
    pub fn is_known_after(&self, days: f64) -> bool {
        match self.number {
            Number::Bell => near(days, 12.0 * (days / 12.0).round()),
            Number::Zonal => true,
            Number::Mountain | Number::Wave => false,
        }
    }

    /// A solid rotation with a balanced height: `φ = −(a·Ω·u₀ + u₀²/2)·ξ²`.
    fn zonal(&self, node: Point, fastest: f64) -> State {
        let [u, v, w] = self.rotation(node, fastest);
        let above = self.height_over_axis(node);
        let balance = RADIUS * ROTATION * fastest + fastest * fastest / 2.0;
        [u, v, w, -balance * above * above]
    }

    fn rotation(&self, [x, y, z]: Point, fastest: f64) -> Point {
        let (sin, cos) = self.alpha.sin_cos();
        [-y * cos, x * cos + z * sin, -y * sin].map(|part| fastest * part)
    }

    /// A bell a third of the radius wide, carried by a rotation of twelve days.
    fn bell(&self, node: Point) -> State {
        const WIDTH: f64 = RADIUS / 3.0;
        let [u, v, w] = self.rotation(node, 2.0 * PI * RADIUS / (12.0 * DAY));
        let centre = [0.0, -1.0, 0.0];
        let r = RADIUS * dot(node, centre).clamp(-1.0, 1.0).acos();
        let height = match r < WIDTH {
            true => 500.0 * (1.0 + (PI * r / WIDTH).cos()),
            false => 0.0,
        };
        [u, v, w, GRAVITY * height]
    }
}

/// Whether a number is the one that is meant, but for rounding: days are steps times seconds.
pub fn near(number: f64, meant: f64) -> bool {
    (number - meant).abs() < 1e-6 * meant
}

/// Longitude from −π to π, and latitude.
pub fn on_the_map([x, y, z]: Point) -> (f64, f64) {
    (y.atan2(x), z.clamp(-1.0, 1.0).asin())
}

/// Four waves round the pole, which wander without changing shape as long as they are stable.
fn wave(node: Point) -> State {
    const OMEGA: f64 = 7.848e-6;
    const K: f64 = OMEGA;
    let (longitude, latitude) = on_the_map(node);
    let (s, c) = latitude.sin_cos();
    let (sin4, cos4) = (4.0 * longitude).sin_cos();
    let cos8 = (8.0 * longitude).cos();
    let [c2, c3, c4, c6, c8] = [2, 3, 4, 6, 8].map(|power| c.powi(power));
    let east = RADIUS * OMEGA * c + RADIUS * K * c3 * (4.0 * s * s - c2) * cos4;
    let north = -4.0 * RADIUS * K * c3 * s * sin4;
    let k2 = K * K / 4.0;
    let mean =
        OMEGA / 2.0 * (2.0 * ROTATION + OMEGA) * c2 + k2 * (5.0 * c8 * c2 + 26.0 * c8 - 32.0 * c6);
    let once = 2.0 * (ROTATION + OMEGA) * K / 30.0 * c4 * (26.0 - 25.0 * c2);
    let twice = k2 * c8 * (5.0 * c2 - 6.0);
    let (sin, cos) = longitude.sin_cos();
    [
        -sin * east - s * cos * north,
        cos * east - s * sin * north,
        c * north,
        RADIUS * RADIUS * (mean + once * cos4 + twice * cos8),
    ]
}

/// As on the command line.
pub fn name(number: Number) -> String {
    use clap::ValueEnum;
    let value = number.to_possible_value();
    value.map_or(String::new(), |value| value.get_name().into())
}
