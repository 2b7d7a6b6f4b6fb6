//! Latency and bandwidth over the size of the message, as a picture with logarithmic axes.

use super::row::Row;
use svg::Document;
use svg::node::element::{Circle, Group, Line, Polyline, Rectangle, Text};

const INK: &str = "#1f2933";
const FAINT: &str = "#cbd2d9";
const OURS: &str = "#2f6f9f";
const RAW: &str = "#c05a2b";
/// Of one panel, without its margins.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 40.0;
const BELOW: f64 = 50.0;
const GAP: f64 = 20.0;

/// Both panels.
pub fn draw(rows: &[Row]) -> Document {
    let panel = |title, of: fn(&Row) -> [f64; 2]| Panel { title, rows, of };
    let latency = panel("one way, µs", |row| {
        row.latency().map(|seconds| seconds * 1e6)
    });
    let bandwidth = panel("GB/s", |row| row.bandwidth().map(|rate| rate * 1e-9));
    let (width, height) = (2.0 * (LEFT + WIDTH + GAP), TOP + HEIGHT + BELOW);
    Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(
            Rectangle::new()
                .set("width", width)
                .set("height", height)
                .set("fill", "white"),
        )
        .add(latency.draw(LEFT))
        .add(bandwidth.draw(2.0 * LEFT + WIDTH + GAP))
}

/// One quantity over the size: ours and raw.
struct Panel<'r> {
    title: &'static str,
    rows: &'r [Row],
    of: fn(&Row) -> [f64; 2],
}

impl Panel<'_> {
    fn draw(&self, left: f64) -> Group {
        let values = self.rows.iter().flat_map(self.of);
        let across = Axis::new(self.rows.iter().map(|row| row.bytes as f64), 2.0, WIDTH);
        let up = Axis::new(values, 10.0, HEIGHT);
        let mut group = Group::new()
            .set("transform", format!("translate({left} {TOP})"))
            .add(text(self.title, 0.0, -14.0, "start").set("font-weight", "bold"))
            .add(text("runtime", WIDTH - 90.0, -14.0, "end").set("fill", OURS))
            .add(text("raw transport", WIDTH, -14.0, "end").set("fill", RAW));
        for mark in up.marks() {
            let y = HEIGHT - up.at(mark);
            group = group.add(line((0.0, y), (WIDTH, y))).add(text(
                &mark.to_string(),
                -8.0,
                y + 4.0,
                "end",
            ));
        }
        for (at, mark) in across.marks().enumerate() {
            let x = across.at(mark);
            group = group.add(line((x, 0.0), (x, HEIGHT)));
            if at % 4 == 0 {
                group = group.add(text(&size(mark), x, HEIGHT + 18.0, "middle"));
            }
        }
        for (which, colour) in [(1, RAW), (0, OURS)] {
            let points = self.rows.iter().map(|row| {
                let value = (self.of)(row)[which];
                (across.at(row.bytes as f64), HEIGHT - up.at(value))
            });
            group = group.add(curve(points.clone(), colour));
            for (x, y) in points {
                let dot = Circle::new().set("cx", x).set("cy", y).set("r", 2.5);
                group = group.add(dot.set("fill", colour));
            }
        }
        group.add(text("bytes", WIDTH / 2.0, HEIGHT + 38.0, "middle"))
    }
}

/// A logarithmic axis from one power of its base to another.
struct Axis {
    base: f64,
    first: i32,
    last: i32,
    length: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, base: f64, length: f64) -> Self {
        let powers = values.map(|value| value.max(1e-9).log(base));
        let (low, high) = powers.fold((f64::MAX, f64::MIN), |(low, high), power| {
            (low.min(power), high.max(power))
        });
        // A hair wider than the values: a power of the base is its own mark.
        let first = (low + 1e-6).floor() as i32;
        let last = ((high - 1e-6).ceil() as i32).max(first + 1);
        Axis {
            base,
            first,
            last,
            length,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = value.max(1e-9).log(self.base) - f64::from(self.first);
        share / f64::from(self.last - self.first) * self.length
    }

    fn marks(&self) -> impl Iterator<Item = f64> + '_ {
        (self.first..=self.last).map(|power| self.base.powi(power))
    }
}

fn size(bytes: f64) -> String {
    const UNITS: [&str; 3] = ["", " Ki", " Mi"];
    let step = (bytes.log2() as usize / 10).min(UNITS.len() - 1);
    format!("{}{}", bytes / 1024f64.powi(step as i32), UNITS[step])
}

fn text(words: &str, x: f64, y: f64, anchor: &str) -> Text {
    let text = Text::new(words).set("x", x).set("y", y);
    text.set("text-anchor", anchor).set("fill", INK)
}

fn line(from: (f64, f64), to: (f64, f64)) -> Line {
    let line = Line::new().set("x1", from.0).set("y1", from.1);
    line.set("x2", to.0).set("y2", to.1).set("stroke", FAINT)
}

fn curve(points: impl Iterator<Item = (f64, f64)>, colour: &str) -> Polyline {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let curve = Polyline::new().set("points", points.join(" "));
    curve
        .set("fill", "none")
        .set("stroke", colour)
        .set("stroke-width", 1.5)
}
