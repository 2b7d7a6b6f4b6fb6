//! Plot: curves over linear axes from zero; what a paper says of a point is a ring.

use super::figure::{Curve, Figure};
use super::world::Outcome;
use std::path::Path;
use svg::Document;
use svg::node::element::{Circle, Group, Line, Polyline, Rectangle, Text};

const INK: &str = "#1f2933";
const FAINT: &str = "#cbd2d9";
const COLOURS: [&str; 4] = ["#2f6f9f", "#c05a2b", "#3f8f5a", "#7a4fa0"];
/// Of the plot, without its margins.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 60.0;
const BELOW: f64 = 50.0;
const RIGHT: f64 = 30.0;

/// Writes the picture of a figure into a folder.
pub fn save(figure: &Figure, folder: &Path) -> Outcome {
    let file = folder.join(format!("{}.svg", figure.name));
    svg::save(&file, &draw(figure)).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(())
}

fn draw(figure: &Figure) -> Document {
    let points = || figure.curves.iter().flat_map(|curve| &curve.points);
    let across = Axis::to(points().map(|point| point.x), WIDTH);
    let up = Axis::to(
        points()
            .flat_map(|point| [Some(point.y), point.published])
            .flatten(),
        HEIGHT,
    );
    let mut group = Group::new()
        .set("transform", format!("translate({LEFT} {TOP})"))
        .add(text(&figure.title, 0.0, -38.0, "start").set("font-weight", "bold"));
    for mark in up.marks() {
        let y = HEIGHT - up.at(mark);
        group = group.add(line((0.0, y), (WIDTH, y)));
        group = group.add(text(&mark.to_string(), -8.0, y + 4.0, "end"));
    }
    for mark in across.marks() {
        let x = across.at(mark);
        group = group.add(line((x, 0.0), (x, HEIGHT)));
        group = group.add(text(&mark.to_string(), x, HEIGHT + 18.0, "middle"));
    }
    for (which, curve) in figure.curves.iter().enumerate() {
        let colour = COLOURS[which % COLOURS.len()];
        let label = text(curve.name, 140.0 * which as f64, -16.0, "start");
        group = group.add(label.set("fill", colour));
        group = group.add(drawn(curve, colour, (&across, &up)));
    }
    group = group
        .add(text(figure.x, WIDTH / 2.0, HEIGHT + 38.0, "middle"))
        .add(text(figure.y, WIDTH, -16.0, "end"));
    let (width, height) = (LEFT + WIDTH + RIGHT, TOP + HEIGHT + BELOW);
    let paper = Rectangle::new().set("width", width).set("height", height);
    Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(paper.set("fill", "white"))
        .add(group)
}

/// A curve with its points, and rings where a paper says that they should be.
fn drawn(curve: &Curve, colour: &str, (across, up): (&Axis, &Axis)) -> Group {
    let at = |x: f64, y: f64| (across.at(x), HEIGHT - up.at(y));
    let corners = curve.points.iter().map(|point| at(point.x, point.y));
    let corners: Vec<String> = corners.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let way = Polyline::new()
        .set("points", corners.join(" "))
        .set("fill", "none");
    let mut group = Group::new().add(way.set("stroke", colour).set("stroke-width", 1.5));
    for point in &curve.points {
        group = group.add(dot(at(point.x, point.y), 2.5).set("fill", colour));
        if let Some(published) = point.published {
            let ring = dot(at(point.x, published), 5.0).set("fill", "none");
            group = group.add(ring.set("stroke", colour));
        }
    }
    group
}

/// From zero to the first mark that is not below any value.
struct Axis {
    step: f64,
    last: f64,
    length: f64,
}

impl Axis {
    fn to(values: impl Iterator<Item = f64>, length: f64) -> Self {
        let most = values.fold(f64::MIN_POSITIVE, f64::max);
        let power = 10f64.powf((most / 2.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| most / step <= 6.0);
        let step = step.unwrap_or(10.0 * power);
        Axis {
            step,
            last: (most / step).ceil() * step,
            length,
        }
    }

    fn at(&self, value: f64) -> f64 {
        value / self.last * self.length
    }

    /// Rounded, so that no digits of the binary remain.
    fn marks(&self) -> impl Iterator<Item = f64> + '_ {
        let n = (self.last / self.step).round() as u32;
        (0..=n).map(|mark| (f64::from(mark) * self.step * 1e6).round() / 1e6)
    }
}

fn dot((x, y): (f64, f64), radius: f64) -> Circle {
    Circle::new().set("cx", x).set("cy", y).set("r", radius)
}

fn text(words: &str, x: f64, y: f64, anchor: &str) -> Text {
    let text = Text::new(words).set("x", x).set("y", y);
    text.set("text-anchor", anchor).set("fill", INK)
}

fn line(from: (f64, f64), to: (f64, f64)) -> Line {
    let line = Line::new().set("x1", from.0).set("y1", from.1);
    line.set("x2", to.0).set("y2", to.1).set("stroke", FAINT)
}
