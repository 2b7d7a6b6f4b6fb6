//! Slices: the three middle planes of the cube as a picture.

use super::space::Jacobi;
use super::sweep::Part;
use common::cli::Failure;
use dataflow::Runtime;
use dataflow::core::rank::Rank;
use dataflow::trace::replace;
use std::path::Path;
use svg::Document;
use svg::node::element::{Group, Rectangle, Text};

/// Of one slice, without margins.
const SIDE: f64 = 320.0;
const MARGIN: f64 = 30.0;
const AXES: [&str; 3] = ["i", "j", "k"];

/// Gathers the slices on rank 0, which draws them with at most so many cells along an axis.
///
/// # Errors
/// If the file cannot be written, or a rank is lost.
pub fn draw(runtime: &Runtime, jacobi: &Jacobi, pixels: usize, file: &Path) -> Result<(), Failure> {
    let sample = Sample {
        n: jacobi.grid.n,
        pixels: pixels.min(jacobi.grid.n),
    };
    let own = sample.of_rank(jacobi, runtime.rank());
    let all = runtime.gather(bytemuck::cast_slice(&own).to_vec())?;
    if runtime.rank() != Rank(0) {
        return Ok(());
    }
    let mut values = own;
    for part in &all {
        let part = part
            .chunks_exact(size_of::<f64>())
            .map(bytemuck::pod_read_unaligned);
        for (value, other) in values.iter_mut().zip(part) {
            if !f64::is_nan(other) {
                *value = other;
            }
        }
    }
    let document = sample.picture(&values);
    replace(file, |file| svg::write(file, &document))
        .map_err(|error| Failure::output_unwritable(file, error))
}

/// Which cells of the cube are shown.
struct Sample {
    n: usize,
    pixels: usize,
}

impl Sample {
    /// The cell that a pixel shows.
    fn cell(&self, pixel: usize) -> usize {
        (2 * pixel + 1) * self.n / (2 * self.pixels)
    }

    /// The place of a pixel of the slice across an axis.
    fn place(&self, axis: usize, [a, b]: [usize; 2]) -> [usize; 3] {
        let (a, b, middle) = (self.cell(a), self.cell(b), self.n / 2);
        match axis {
            0 => [middle, a, b],
            1 => [a, middle, b],
            _ => [a, b, middle],
        }
    }

    /// The places of all pixels, slice by slice.
    fn places(&self) -> impl Iterator<Item = [usize; 3]> + '_ {
        let pixels = self.pixels;
        (0..3).flat_map(move |axis| {
            (0..pixels * pixels).map(move |at| self.place(axis, [at / pixels, at % pixels]))
        })
    }

    /// What the pixels show, as far as a rank has it; the others are not numbers.
    fn of_rank(&self, jacobi: &Jacobi, on: Rank) -> Vec<f64> {
        let mut values = vec![f64::NAN; 3 * self.pixels * self.pixels];
        for place in jacobi.places_on(on) {
            let Some(part) = jacobi.blocks.get(jacobi.grid.number(place)) else {
                continue;
            };
            let Part::Block(block) = &*part else { continue };
            let (first, [along_i, along_j, along_k]) = (jacobi.first(place), block.shape);
            let inside = |at: [usize; 3]| {
                let [i, j, k] = std::array::from_fn(|axis| at[axis].wrapping_sub(first[axis]));
                let is_inside = i < along_i && j < along_j && k < along_k;
                is_inside.then(|| (i * along_j + j) * along_k + k)
            };
            block.with_cells(|cells| {
                for (value, at) in values.iter_mut().zip(self.places()) {
                    if let Some(at) = inside(at) {
                        *value = cells[at];
                    }
                }
            });
        }
        values
    }

    fn picture(&self, values: &[f64]) -> Document {
        let most = values
            .iter()
            .fold(f64::MIN_POSITIVE, |most, value| most.max(value.abs()));
        let (width, height) = (MARGIN + 3.0 * (SIDE + MARGIN), SIDE + 2.0 * MARGIN);
        let mut document = Document::new()
            .set("viewBox", (0, 0, width, height))
            .set("width", width)
            .set("height", height)
            .set("font-family", "sans-serif")
            .set("font-size", 12);
        let slices = values.chunks_exact(self.pixels * self.pixels);
        for (axis, slice) in slices.enumerate() {
            let left = MARGIN + axis as f64 * (SIDE + MARGIN);
            let title = format!("u at {} = {}, at most {most:.3e}", AXES[axis], self.n / 2);
            let slice = self.slice(slice, most);
            document = document
                .add(Text::new(title).set("x", left).set("y", MARGIN - 10.0))
                .add(slice.set("transform", format!("translate({left} {MARGIN})")));
        }
        document
    }

    fn slice(&self, values: &[f64], most: f64) -> Group {
        let size = SIDE / self.pixels as f64;
        let mut group = Group::new().set("shape-rendering", "crispEdges");
        for (at, value) in values.iter().enumerate() {
            let (down, right) = (at / self.pixels, at % self.pixels);
            let cell = Rectangle::new()
                .set("x", format!("{:.2}", right as f64 * size))
                .set("y", format!("{:.2}", down as f64 * size))
                .set("width", format!("{size:.2}"))
                .set("height", format!("{size:.2}"));
            group = group.add(cell.set("fill", colour(value / most)));
        }
        group
    }
}

/// Blue below 0, white at 0, red above; `share` from −1 to 1.
fn colour(share: f64) -> String {
    let fade = |to: f64| (255.0 + share.abs().min(1.0) * (to - 255.0)).round() as u8;
    let [red, green, blue] = match share < 0.0 {
        true => [fade(33.0), fade(102.0), fade(172.0)],
        false => [fade(178.0), fade(24.0), fade(43.0)],
    };
    format!("#{red:02x}{green:02x}{blue:02x}")
}
