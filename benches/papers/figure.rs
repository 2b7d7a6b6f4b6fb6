//! Figure: curves that were simulated, with what a paper says of some of their points; as a table and
//! as a picture.

use serde_json::{Value, json};

/// A figure of a paper, simulated.
pub struct Figure {
    /// Of the file that it is drawn to.
    pub name: &'static str,
    pub title: String,
    /// What the points are taken over, and what is plotted.
    pub x: &'static str,
    pub y: &'static str,
    pub curves: Vec<Curve>,
    /// What the paper says of it, and whether that comes out.
    pub findings: Vec<Finding>,
}

/// A system or variant.
pub struct Curve {
    pub name: &'static str,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// What the paper's text says; of most points it says nothing.
    pub published: Option<f64>,
}

impl Point {
    pub fn new(x: f64, y: f64) -> Self {
        let published = None;
        Point { x, y, published }
    }
}

/// A sentence of a paper, and whether the simulation agrees.
pub struct Finding {
    pub says: String,
    pub agrees: bool,
}

impl Finding {
    pub fn new(says: impl Into<String>, agrees: bool) -> Self {
        let says = says.into();
        Finding { says, agrees }
    }

    /// A number of the paper: within 10 %?
    pub fn level(of: &str, published: f64, simulated: f64) -> Self {
        let off = simulated / published - 1.0;
        let says = format!(
            "{of}: published {published:.3}, simulated {simulated:.3} ({:+.0} %)",
            100.0 * off
        );
        Finding::new(says, off.abs() <= 0.1)
    }
}

impl Figure {
    pub fn print(&self) {
        println!("\n## {}\n", self.title);
        let names = self.curves.iter().map(|curve| curve.name);
        let names: Vec<&str> = names.collect();
        println!("| {} | {} | published |", self.x, names.join(" | "));
        println!("|---|{}---|", "---|".repeat(names.len()));
        for x in self.abscissas() {
            let at = |curve: &Curve| curve.points.iter().find(|point| point.x == x).copied();
            let points: Vec<Option<Point>> = self.curves.iter().map(at).collect();
            let cell = |point: &Option<Point>| {
                point.map_or("–".into(), |point| format!("{:.3}", point.y))
            };
            let cells: Vec<String> = points.iter().map(cell).collect();
            let published = points.iter().flatten().filter_map(|point| point.published);
            let published: Vec<String> = published
                .map(|published| format!("{published:.3}"))
                .collect();
            println!("| {x} | {} | {} |", cells.join(" | "), published.join(", "));
        }
        println!();
        for finding in &self.findings {
            let mark = if finding.agrees {
                "agrees"
            } else {
                "does NOT agree"
            };
            println!("* {mark}: {}", finding.says);
        }
    }

    /// All abscissas, in order.
    fn abscissas(&self) -> Vec<f64> {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let mut all: Vec<f64> = points.map(|point| point.x).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    pub fn json(&self) -> Value {
        let point =
            |point: &Point| json!({ "x": point.x, "y": point.y, "published": point.published });
        let curve = |curve: &Curve| {
            json!({
                "name": curve.name,
                "points": curve.points.iter().map(point).collect::<Vec<_>>(),
            })
        };
        let finding = |finding: &Finding| json!({ "says": finding.says, "agrees": finding.agrees });
        json!({
            "figure": self.title,
            "x": self.x,
            "y": self.y,
            "curves": self.curves.iter().map(curve).collect::<Vec<_>>(),
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
        })
    }
}
