//! Map: values of nodes as coloured maps of the sphere, one frame below the other.

use super::nodes::Point;
use kiddo::{ImmutableKdTree, SquaredEuclidean};
use std::f64::consts::PI;
use svg::Document;
use svg::node::element::{Group, Rectangle, Text};

/// Cells of a map, by longitude and latitude.
const COLUMNS: usize = 180;
const ROWS: usize = 90;
/// Of a cell.
const SIDE: f64 = 2.5;
const MARGIN: f64 = 24.0;
/// Colours from the lowest value to the highest.
const COLOURS: [&str; 11] = [
    "#313695", "#4575b4", "#74add1", "#abd9e9", "#e0f3f8", "#ffffbf", "#fee090", "#fdae61",
    "#f46d43", "#d73027", "#a50026",
];

/// A value of each node, and what it is.
pub struct Map {
    pub title: String,
    pub values: Vec<f64>,
}

/// Frames of maps that stand side by side; colours of one column compare.
pub fn draw(nodes: &[Point], frames: &[Vec<Map>]) -> Result<Document, String> {
    let tree = ImmutableKdTree::<f64, 3>::new_from_slice(nodes);
    let tree = tree.map_err(|error| format!("{error:?}"))?;
    let cell = |at: usize| {
        let longitude = ((at % COLUMNS) as f64 + 0.5) / COLUMNS as f64 * 2.0 * PI - PI;
        let latitude = PI / 2.0 - ((at / COLUMNS) as f64 + 0.5) / ROWS as f64 * PI;
        let (sin, cos) = latitude.sin_cos();
        let point = [cos * longitude.cos(), cos * longitude.sin(), sin];
        tree.query(&point)
            .nearest_one::<SquaredEuclidean<f64>>()
            .execute()
            .item as usize
    };
    let cells: Vec<usize> = (0..COLUMNS * ROWS).map(cell).collect();
    let n_columns = frames.iter().map(Vec::len).max().unwrap_or(0);
    let (width, height) = (COLUMNS as f64 * SIDE + MARGIN, ROWS as f64 * SIDE + MARGIN);
    let size = (
        width * n_columns as f64 + MARGIN,
        height * frames.len() as f64 + MARGIN,
    );
    let mut document = Document::new()
        .set("viewBox", (0, 0, size.0, size.1))
        .set("width", size.0)
        .set("height", size.1)
        .set("font-family", "sans-serif")
        .set("font-size", 11)
        .add(
            Rectangle::new()
                .set("width", size.0)
                .set("height", size.1)
                .set("fill", "white"),
        );
    for column in 0..n_columns {
        let maps = || frames.iter().filter_map(|maps| maps.get(column));
        let values = || maps().flat_map(|map| map.values.iter().copied());
        let (low, high) = (
            values().fold(f64::INFINITY, f64::min),
            values().fold(f64::NEG_INFINITY, f64::max),
        );
        for (row, map) in maps().enumerate() {
            let (x, y) = (MARGIN + width * column as f64, MARGIN + height * row as f64);
            let place = format!("translate({x} {y})");
            document = document.add(panel(map, &cells, low, high).set("transform", place));
        }
    }
    Ok(document)
}

/// One map: runs of cells of one colour, and its title.
fn panel(map: &Map, cells: &[usize], low: f64, high: f64) -> Group {
    let colour = |value: f64| {
        let share = (value - low) / (high - low).max(f64::MIN_POSITIVE);
        // What is no number has the lowest colour.
        ((share * COLOURS.len() as f64) as usize).min(COLOURS.len() - 1)
    };
    let title = format!("{} ({low:.4} to {high:.4})", map.title);
    let mut group = Group::new().add(Text::new(title).set("y", -6));
    for (row, cells) in cells.chunks(COLUMNS).enumerate() {
        let colours: Vec<usize> = cells.iter().map(|&node| colour(map.values[node])).collect();
        let mut from = 0;
        for run in colours.chunk_by(|a, b| a == b) {
            let bar = Rectangle::new()
                .set("x", from as f64 * SIDE)
                .set("y", row as f64 * SIDE)
                .set("width", run.len() as f64 * SIDE)
                .set("height", SIDE)
                .set("fill", COLOURS[run[0]]);
            group = group.add(bar);
            from += run.len();
        }
    }
    group
}
