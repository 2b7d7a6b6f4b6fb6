//! A machine as a picture: packages, NUMA nodes, cores with their PUs and workers, and below
//! them the matrix of distances, shaded in the order of stealing.

use super::{Plan, ranges};
use std::collections::BTreeSet;
use svg::Document;
use svg::node::element::{Group, Rectangle, Text, Title};

const MARGIN: f64 = 24.0;
const GAP: f64 = 8.0;
const HEAD: f64 = 26.0;
const CORE: (f64, f64) = (62.0, 46.0);
const SHAPE: f64 = 1.7;

const INK: &str = "#1f2933";
const FAINT: &str = "#7b8794";
const BUSY: &str = "#2f6f9f";
const IDLE: &str = "#cbd2d9";
/// From the nearest group of nodes to the farthest that is told apart.
const SHADES: [&str; 5] = ["#2f6f9f", "#6ba3cb", "#a3c8e2", "#cfe3f1", "#e9f2f9"];

/// The whole picture.
pub fn draw(plan: &Plan) -> Document {
    let parts = [machine(plan), memory_only(plan)];
    let matrix = Matrix::new(plan);
    let sizes = parts.iter().map(Part::size).chain([matrix.size()]);
    let width = sizes.map(|(width, _)| width).fold(640.0, f64::max) + 2.0 * MARGIN;
    let name = label(&plan.name, MARGIN, MARGIN + 14.0, 18.0, INK).set("font-weight", "bold");
    let mut group = Group::new()
        .add(name)
        .add(label(&plan.summary(), MARGIN, MARGIN + 36.0, 13.0, INK))
        .add(label(KEY, MARGIN, MARGIN + 54.0, 11.0, FAINT));
    let mut y = MARGIN + 66.0;
    for part in &parts {
        group = group.add(part.draw(MARGIN, y));
        y += part.size().1 + GAP;
    }
    y += MARGIN;
    group = group.add(matrix.draw(MARGIN, y));
    let height = y + matrix.size().1 + MARGIN;
    Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("font-family", "sans-serif")
        .add(rectangle(0.0, 0.0, width, height, "white"))
        .add(group)
}

const KEY: &str = "In each core: its worker, and below it its PUs by the operating system's numbers, \
    filled where the worker is pinned.";

/// Something with a size that draws itself at a place.
enum Part {
    Frame(Frame),
    Core(Core),
}

struct Frame {
    title: String,
    looks: Looks,
    /// Width to height that looks well.
    shape: f64,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq)]
enum Looks {
    /// No border of its own.
    Bare,
    Package,
    Node,
    /// A NUMA node without workers.
    Memory,
}

struct Core {
    pus: Vec<usize>,
    /// Workers pinned here, with their PU.
    workers: Vec<(usize, usize)>,
    /// Workers may run here that share it with others.
    shared: bool,
    tip: String,
}

/// Packages hold NUMA nodes, or the other way round where a node spans several packages.
fn machine(plan: &Plan) -> Part {
    let cores = plan.topology.cores();
    let packages_of = |node| -> BTreeSet<usize> {
        let here = cores.iter().filter(move |core| core.numa_node == node);
        here.map(|core| core.package).collect()
    };
    let nodes: BTreeSet<usize> = cores.iter().map(|core| core.numa_node).collect();
    let spans = nodes.iter().any(|&node| packages_of(node).len() > 1);
    let package = |at: usize| (cores[at].package, Looks::Package);
    let node = |at: usize| (cores[at].numa_node, Looks::Node);
    let all: Vec<usize> = (0..cores.len()).collect();
    let parts = match (plan.topology.packages().is_empty(), spans) {
        (true, _) => nest(plan, &all, &[&node]),
        (false, true) => nest(plan, &all, &[&node, &package]),
        (false, false) => nest(plan, &all, &[&package, &node]),
    };
    Part::Frame(Frame {
        title: String::new(),
        looks: Looks::Bare,
        shape: SHAPE,
        parts,
    })
}

/// NUMA nodes without a core.
fn memory_only(plan: &Plan) -> Part {
    let cores = plan.topology.cores();
    let mut nodes = plan.nodes_without_workers();
    nodes.retain(|node| !cores.iter().any(|core| core.numa_node == *node));
    let frame = |node| {
        Part::Frame(Frame {
            title: node_title(plan, node) + " (memory only)",
            looks: Looks::Memory,
            shape: SHAPE,
            parts: Vec::new(),
        })
    };
    Part::Frame(Frame {
        title: String::new(),
        looks: Looks::Bare,
        shape: 30.0,
        parts: nodes.into_iter().map(frame).collect(),
    })
}

type Level<'a> = &'a dyn Fn(usize) -> (usize, Looks);

/// Cores in frames, one level of frames inside the other.
fn nest(plan: &Plan, cores: &[usize], levels: &[Level]) -> Vec<Part> {
    let Some((level, inner)) = levels.split_first() else {
        return cores
            .iter()
            .map(|&core| Part::Core(core_of(plan, core)))
            .collect();
    };
    let keys: BTreeSet<usize> = cores.iter().map(|&core| level(core).0).collect();
    let frame = |key: usize| {
        let members: Vec<usize> = cores
            .iter()
            .copied()
            .filter(|&core| level(core).0 == key)
            .collect();
        let looks = level(members[0]).1;
        let title = match looks {
            Looks::Package => format!("package {key}"),
            _ => node_title(plan, key),
        };
        Part::Frame(Frame {
            title,
            looks,
            shape: SHAPE,
            parts: nest(plan, &members, inner),
        })
    };
    keys.into_iter().map(frame).collect()
}

fn node_title(plan: &Plan, node: usize) -> String {
    format!("NUMA node {}", plan.topology.numa_nodes()[node].os_index)
}

fn core_of(plan: &Plan, core: usize) -> Core {
    let core = &plan.topology.cores()[core];
    let pinned =
        (0..plan.places.len()).filter_map(|worker| Some((worker, plan.pinned_to(worker)?)));
    let workers: Vec<(usize, usize)> = pinned.filter(|(_, pu)| core.pus.contains(pu)).collect();
    let groups = plan.groups(core.numa_node);
    let groups: Vec<String> = groups
        .iter()
        .map(|group| super::words(&plan.os(group)))
        .collect();
    Core {
        tip: format!(
            "PUs {}; steals from nodes {}",
            ranges(&core.pus),
            groups.join(" | ")
        ),
        shared: plan.places.iter().any(|place| {
            place.pus.len() != 1 && (place.pus.is_empty() || place.pus.contains(&core.pus[0]))
        }),
        pus: core.pus.clone(),
        workers,
    }
}

impl Part {
    fn size(&self) -> (f64, f64) {
        match self {
            Part::Core(_) => CORE,
            Part::Frame(frame) => frame.size(),
        }
    }

    fn draw(&self, x: f64, y: f64) -> Group {
        match self {
            Part::Core(core) => core.draw(x, y),
            Part::Frame(frame) => frame.draw(x, y),
        }
    }
}

impl Frame {
    fn size(&self) -> (f64, f64) {
        let (_, (width, height)) = self.rows();
        let inset = self.inset();
        let title = 7.9 * self.title.len() as f64;
        (width.max(title) + 2.0 * inset, height + inset + self.head())
    }

    fn inset(&self) -> f64 {
        if self.looks == Looks::Bare { 0.0 } else { GAP }
    }

    fn head(&self) -> f64 {
        if self.looks == Looks::Bare { 0.0 } else { HEAD }
    }

    /// Where each part lies inside, and the room they take together.
    fn rows(&self) -> (Vec<(f64, f64)>, (f64, f64)) {
        let sizes: Vec<(f64, f64)> = self.parts.iter().map(Part::size).collect();
        let (mut y, mut width) = (0.0, 0.0_f64);
        let mut at = Vec::new();
        for row in sizes.chunks(columns(&sizes, self.shape)) {
            let mut x = 0.0;
            for part in row {
                at.push((x, y));
                width = width.max(x + part.0);
                x += part.0 + GAP;
            }
            y += row.iter().map(|part| part.1).fold(0.0, f64::max) + GAP;
        }
        (at, (width, (y - GAP).max(0.0)))
    }

    fn draw(&self, x: f64, y: f64) -> Group {
        let (width, height) = self.size();
        let (fill, stroke) = match self.looks {
            Looks::Bare => ("none", "none"),
            Looks::Package => ("#f5f7fa", "#9aa5b1"),
            Looks::Node => ("#eaf3ea", "#7fa97f"),
            Looks::Memory => ("#fbf7ea", "#c0a860"),
        };
        let mut border = rectangle(x, y, width, height, fill)
            .set("stroke", stroke)
            .set("rx", 5);
        if self.looks == Looks::Memory {
            border = border.set("stroke-dasharray", "5 3");
        }
        let title = label(&self.title, x + GAP, y + 17.0, 13.0, INK);
        let (at, _) = self.rows();
        let (left, top) = (x + self.inset(), y + self.head());
        let parts = self.parts.iter().zip(at);
        parts.fold(
            Group::new().add(border).add(title),
            |group, (part, (x, y))| group.add(part.draw(left + x, top + y)),
        )
    }
}

/// So many parts in a row that they have nearly that shape together, and the last row is as full
/// as it can be.
fn columns(sizes: &[(f64, f64)], shape: f64) -> usize {
    let n = sizes.len();
    let area: f64 = sizes
        .iter()
        .map(|(width, height)| (width + GAP) * (height + GAP))
        .sum();
    let widths: f64 = sizes.iter().map(|(width, _)| width + GAP).sum();
    let wanted = ((area * shape).sqrt() * n as f64 / widths).round() as usize;
    let near = [wanted, wanted + 1, wanted.saturating_sub(1)];
    let near = near.into_iter().map(|columns| columns.clamp(1, n.max(1)));
    near.min_by_key(|columns| n.next_multiple_of(*columns) - n)
        .unwrap_or(1)
}

impl Core {
    fn draw(&self, x: f64, y: f64) -> Group {
        let (width, height) = CORE;
        let busy = !self.workers.is_empty();
        let body = rectangle(x, y, width, height, "white");
        let body = body
            .set("stroke", if busy { BUSY } else { IDLE })
            .set("rx", 4);
        let names: Vec<String> = self
            .workers
            .iter()
            .map(|(worker, _)| worker.to_string())
            .collect();
        let (name, size) = match (&names[..], names.join(" ")) {
            ([], _) if self.shared => ("shared".to_owned(), 11.0),
            ([], _) => ("idle".to_owned(), 11.0),
            ([_], name) => (name, 16.0),
            (_, names) => (names, 11.0),
        };
        let ink = if busy { INK } else { FAINT };
        let name = middle(&name, x + width / 2.0, y + 20.0, size, ink);
        let group = Group::new()
            .add(Title::new(self.tip.clone()))
            .add(body)
            .add(name);
        let each = (width - 6.0) / self.pus.len() as f64;
        self.pus
            .iter()
            .enumerate()
            .fold(group, |group, (index, pu)| {
                let left = x + 3.0 + index as f64 * each;
                let is_used = self.workers.iter().any(|(_, used)| used == pu);
                let (fill, ink) = if is_used {
                    (BUSY, "white")
                } else {
                    (IDLE, INK)
                };
                let size = if each < 22.0 { 8.0 } else { 11.0 };
                group
                    .add(rectangle(left + 1.0, y + 28.0, each - 2.0, 15.0, fill).set("rx", 2))
                    .add(middle(
                        &pu.to_string(),
                        left + each / 2.0,
                        y + 39.0,
                        size,
                        ink,
                    ))
            })
    }
}

/// Who is how far from whom. A row belongs to the thief.
struct Matrix<'a> {
    plan: &'a Plan,
    cell: f64,
}

impl<'a> Matrix<'a> {
    fn new(plan: &'a Plan) -> Self {
        let cell = if plan.topology.n_numa_nodes() > 16 {
            24.0
        } else {
            34.0
        };
        Matrix { plan, cell }
    }

    fn n(&self) -> usize {
        self.plan.topology.n_numa_nodes()
    }

    fn size(&self) -> (f64, f64) {
        let side = (self.n() + 1) as f64 * self.cell;
        if self.n() == 1 {
            (0.0, 24.0)
        } else {
            (side, side + 64.0)
        }
    }

    fn draw(&self, x: f64, y: f64) -> Group {
        let heading = |text| Group::new().add(label(text, x, y + 14.0, 13.0, INK));
        if self.n() == 1 {
            return heading("One NUMA node: all workers are equally near.");
        }
        let group = if self.plan.topology.has_distances() {
            heading("Distance from a thief's node (row) to its victims' (column)")
        } else {
            heading(
                "Distances are not known: from a thief's node (row) all others (column) are equally near",
            )
        };
        let group = self.legend(group, x, y + 34.0);
        (0..self.n()).fold(group, |group, from| self.row(group, from, x, y + 44.0))
    }

    /// The shades that occur, in words.
    fn legend(&self, group: Group, x: f64, y: f64) -> Group {
        let most = (0..self.n()).map(|node| self.plan.groups(node).len()).max();
        let orders = ["first", "second", "third", "fourth", "later"];
        let shown = SHADES
            .iter()
            .zip(orders)
            .take(most.unwrap_or(0))
            .enumerate();
        shown.fold(group, |group, (index, (shade, order))| {
            let left = x + 125.0 * index as f64;
            group
                .add(rectangle(left, y - 10.0, 12.0, 12.0, shade))
                .add(label(
                    &format!("looked at {order}"),
                    left + 17.0,
                    y,
                    11.0,
                    FAINT,
                ))
        })
    }

    fn row(&self, group: Group, from: usize, x: f64, y: f64) -> Group {
        let topology = &self.plan.topology;
        let os = |node: usize| topology.numa_nodes()[node].os_index.to_string();
        let place = |index: usize| index as f64 * self.cell;
        let centre = |at: f64| at + self.cell / 2.0;
        let size = if self.cell < 30.0 { 9.0 } else { 12.0 };
        let groups = self.plan.groups(from);
        let top = y + place(from + 1);
        let group = group
            .add(middle(&os(from), centre(x), centre(top) + 4.0, size, INK))
            .add(middle(
                &os(from),
                centre(x + place(from + 1)),
                centre(y) + 4.0,
                size,
                INK,
            ));
        (0..self.n()).fold(group, |group, to| {
            let left = x + place(to + 1);
            let ring = groups.iter().position(|ring| ring.contains(&to));
            let shade = ring.map_or("#f5f7fa", |ring| SHADES[ring.min(SHADES.len() - 1)]);
            let ink = match ring {
                Some(0) => "white",
                Some(_) => INK,
                None => FAINT,
            };
            let distance = topology
                .has_distances()
                .then(|| topology.distance(from, to).to_string());
            let cell = rectangle(
                left + 1.0,
                top + 1.0,
                self.cell - 2.0,
                self.cell - 2.0,
                shade,
            );
            let text = distance.unwrap_or_default();
            group
                .add(cell)
                .add(middle(&text, centre(left), centre(top) + 4.0, size, ink))
        })
    }
}

fn rectangle(x: f64, y: f64, width: f64, height: f64, fill: &str) -> Rectangle {
    Rectangle::new()
        .set("x", x)
        .set("y", y)
        .set("width", width)
        .set("height", height)
        .set("fill", fill)
}

fn label(text: &str, x: f64, y: f64, size: f64, ink: &str) -> Text {
    Text::new(text)
        .set("x", x)
        .set("y", y)
        .set("font-size", size)
        .set("fill", ink)
}

fn middle(text: &str, x: f64, y: f64, size: f64, ink: &str) -> Text {
    label(text, x, y, size, ink).set("text-anchor", "middle")
}
