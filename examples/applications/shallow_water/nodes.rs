//! Nodes: points of the unit sphere, by formula or from a file, in an order that keeps neighbours near.
//!
//! # Source
//! Icosahedral nodes: Baumgardner, Frederickson, *Icosahedral discretization of the two-sphere*, SIAM
//! J. Numer. Anal. 22 (1985). Spirals by the golden ratio: Swinbank, Purser, *Fibonacci grids*, Q. J.
//! R. Meteorol. Soc. 132 (2006). The order: Morton, *A computer oriented geodetic data base*, IBM 1966.

use common::cli::Failure;
use std::collections::HashMap;
use std::path::Path;

/// A point, or a vector, in space.
pub type Point = [f64; 3];

/// Where nodes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Places {
    /// On the faces of an icosahedron: 10f² + 2 nodes
    Icosahedral,
    /// Along a spiral: any number of nodes
    Fibonacci,
}

impl Places {
    /// Refuses a number of nodes that an icosahedron has not.
    pub fn expect_count(self, count: usize) -> Result<(), Failure> {
        let (f, of) = (frequency(count), |f: usize| 10 * f * f + 2);
        if self == Places::Fibonacci || of(f) == count {
            return Ok(());
        }
        let (below, above) = (of(f), of(f + 1));
        Err(Failure::refused(format!(
            "--nodes {count}: icosahedral nodes are 10f² + 2, such as {below} or {above}"
        )))
    }
}

/// So many nodes, by formula.
///
/// # Errors
/// If an icosahedron has no such number of nodes.
pub fn nodes(places: Places, count: usize) -> Result<Vec<Point>, Failure> {
    places.expect_count(count)?;
    Ok(match places {
        Places::Fibonacci => fibonacci(count),
        Places::Icosahedral => icosahedral(frequency(count)),
    })
}

/// Into how many parts the edges of an icosahedron of so many nodes are cut, or of one a little smaller.
fn frequency(count: usize) -> usize {
    (count.saturating_sub(2) / 10).isqrt().max(1)
}

/// Reads nodes: three coordinates a line, then anything; they are put on the sphere.
///
/// # Errors
/// If the file cannot be read, or a line is no point apart from the centre; the line is named.
pub fn read(path: &Path) -> Result<Vec<Point>, Failure> {
    let unread = |error| Failure::input_unreadable(path, error);
    let text = std::fs::read_to_string(path).map_err(unread)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let point = |(number, line): (u64, &str)| {
        let numbers = line.split_whitespace().take(3).map(str::parse::<f64>);
        let numbers: Vec<f64> = numbers.collect::<Result<_, _>>().unwrap_or_default();
        match <Point>::try_from(numbers) {
            Ok(point) if dot(point, point).is_normal() => Ok(normalised(point)),
            _ => {
                let text = format!(
                    "{}, line {number}: `{line}` must begin with three numbers, not all 0",
                    path.display()
                );
                Err(Failure::malformed_input(text).with_index(number))
            }
        }
    };
    lines.map(point).collect()
}

/// The scalar product.
pub fn dot(a: Point, b: Point) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The square of the distance, from differences: near points lose no digits.
pub fn distance2(a: Point, b: Point) -> f64 {
    let along = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    dot(along, along)
}

fn normalised(point: Point) -> Point {
    let length = dot(point, point).sqrt();
    point.map(|x| x / length)
}

/// The `10f² + 2` nodes of an icosahedron whose edges are cut into `f` parts: where f is a power of
/// two by halving again and again, else at once.
fn icosahedral(f: usize) -> Vec<Point> {
    let (corners, faces) = icosahedron();
    if f.is_power_of_two() {
        return halved(corners, faces, f.ilog2());
    }
    let mut places: HashMap<Vec<(usize, usize)>, Point> = HashMap::new();
    for face in faces {
        for i in 0..=f {
            for j in 0..=f - i {
                // By its corners and weights, in their order: shared by the faces that have it.
                let mut weights: Vec<_> = face.into_iter().zip([f - i - j, i, j]).collect();
                weights.retain(|(_, weight)| *weight > 0);
                weights.sort_unstable();
                let sum = |axis: usize| {
                    let parts = weights
                        .iter()
                        .map(|&(corner, weight)| corners[corner][axis] * weight as f64 / f as f64);
                    parts.sum::<f64>()
                };
                let point = [0, 1, 2].map(sum);
                places.entry(weights).or_insert_with(|| normalised(point));
            }
        }
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by(|a, b| a.0.cmp(&b.0));
    places.into_iter().map(|(_, point)| point).collect()
}

/// Each face into four, at the middles of its edges, so many times.
fn halved(mut points: Vec<Point>, mut faces: Vec<[usize; 3]>, times: u32) -> Vec<Point> {
    for _ in 0..times {
        let mut middles = HashMap::new();
        let mut middle = |a: usize, b: usize| {
            *middles.entry((a.min(b), a.max(b))).or_insert_with(|| {
                let [a, b] = [points[a.min(b)], points[a.max(b)]];
                points.push(normalised([a[0] + b[0], a[1] + b[1], a[2] + b[2]]));
                points.len() - 1
            })
        };
        let cut = |[a, b, c]: [usize; 3]| {
            let (ab, bc, ca) = (middle(a, b), middle(b, c), middle(c, a));
            [[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]
        };
        faces = faces.into_iter().flat_map(cut).collect();
    }
    points
}

/// The twelve corners on the sphere, and the twenty faces: three corners, each two of them near.
fn icosahedron() -> (Vec<Point>, Vec<[usize; 3]>) {
    let golden = (1.0 + 5f64.sqrt()) / 2.0;
    let mut corners = Vec::new();
    for a in [-1.0, 1.0] {
        for b in [-golden, golden] {
            corners.extend([[0.0, b, a], [a, 0.0, b], [b, a, 0.0]].map(normalised));
        }
    }
    let near = |a: usize, b: usize| distance2(corners[a], corners[b]) < 1.2;
    let mut faces = Vec::new();
    for a in 0..12 {
        for b in a + 1..12 {
            let thirds = (b + 1..12).filter(|&c| near(a, b) && near(b, c) && near(c, a));
            faces.extend(thirds.map(|c| [a, b, c]));
        }
    }
    (corners, faces)
}

/// Nodes along a spiral: at equal steps of height, each turned by the golden angle.
fn fibonacci(count: usize) -> Vec<Point> {
    let golden = (1.0 + 5f64.sqrt()) / 2.0;
    let node = |i: usize| {
        let z = 1.0 - (2 * i + 1) as f64 / count as f64;
        let (sin, cos) = (std::f64::consts::TAU * i as f64 / golden).sin_cos();
        let radius = (1.0 - z * z).sqrt();
        [radius * cos, radius * sin, z]
    };
    (0..count).map(node).collect()
}

/// Along a curve that fills the cube round the sphere: what is near on the curve is near in space, and what
/// is at one place is side by side.
pub fn along_a_curve(mut nodes: Vec<Point>) -> Vec<Point> {
    nodes.sort_by_cached_key(|node| {
        let axes = node.map(|x| ((x + 1.0) / 2.0 * f64::from((1 << 20) - 1)) as u64);
        let bit = |bit: u32| axes.iter().fold(0, |key, axis| key << 1 | axis >> bit & 1);
        let key = (0..20).rev().fold(0u64, |key, at| key << 3 | bit(at));
        // A step of the curve is 2⁻¹⁹ wide, and may hold several places; −0 is 0.
        (key, node.map(|x| (x + 0.0).to_bits()))
    });
    nodes
}
