//! Line: y = a + b·x through measured points, with least squares of errors relative to y.
//!
//! A body that takes ten times as long may be off by ten times as much. Neither a nor b is negative: if
//! the best line has such a one, the best without it is taken.

/// A line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// a.
    pub fixed: f64,
    /// b.
    pub slope: f64,
}

impl Line {
    /// Through points (x, y); those whose y is 0 say nothing.
    pub fn through(points: impl Iterator<Item = (f64, f64)>) -> Self {
        // Σ (a·u + b·v − 1)² with u = 1/y, v = x/y.
        let (mut uu, mut uv, mut vv, mut u, mut v) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (x, y) in points.filter(|(_, y)| *y > 0.0) {
            let (own_u, own_v) = (1.0 / y, x / y);
            uu += own_u * own_u;
            uv += own_u * own_v;
            vv += own_v * own_v;
            u += own_u;
            v += own_v;
        }
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let determinant = uu * vv - uv * uv;
        // Of points with one x nothing is fixed.
        let fixed = match determinant > 1e-9 * uu * vv {
            true => (u * vv - v * uv) / determinant,
            false => 0.0,
        };
        let slope = share(v - fixed.max(0.0) * uv, vv);
        match vv > 0.0 && slope >= 0.0 {
            true => Line {
                fixed: fixed.max(0.0),
                slope,
            },
            false => Line {
                fixed: share(u, uu),
                slope: 0.0,
            },
        }
    }

    /// So many times as high.
    pub fn times(self, height: f64) -> Self {
        Line {
            fixed: height * self.fixed,
            slope: height * self.slope,
        }
    }

    /// y at x.
    pub fn at(self, x: f64) -> f64 {
        self.fixed + self.slope * x
    }
}
