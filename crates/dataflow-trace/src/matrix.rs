//! Matrix: from whom to whom, a square for each pair: messages between ranks, tasks between workers.
//!
//! # Law
//! The size is bounded: many neighbours share a square, and its name says which.

use crate::draw::{LEFT, Picture};
use crate::message::Arrow;
use crate::text::{bytes, time};
use crate::view::View;
use dataflow_core::words::counted;

/// Squares a side at most.
const SQUARES: usize = 64;

/// Who sent how much to whom.
pub(crate) fn messages(view: &View<'_>, arrows: &[Arrow]) -> Option<Picture> {
    if arrows.is_empty() {
        return None;
    }
    let ranks: Vec<usize> = view.ranks().map(|(rank, _)| rank).collect();
    let place = |rank: usize| ranks.binary_search(&rank).unwrap_or_default();
    let mut matrix = Matrix::<Sent>::new(ranks.len());
    for arrow in arrows {
        let message = &arrow.message;
        let cell = matrix.cell(place(message.from), place(message.to));
        cell.messages += 1;
        cell.bytes += u128::from(message.bytes);
        cell.flight += u128::from(message.under_way().length());
        cell.waiting += u128::from(message.waiting());
        cell.lying += u128::from(message.lying().length());
    }
    let name = |place: usize| view.trace.ranks[ranks[place]].rank.0.to_string();
    let most = matrix.cells.iter().map(|cell| cell.bytes).max();
    let most = most.unwrap_or(0).max(1);
    let square = |cell: &Sent| {
        let flight = time(cell.flight.checked_div(cell.messages)?);
        let waiting = match cell.waiting / cell.messages {
            0 => String::new(),
            waiting => format!(", {} of it announced and not asked for", time(waiting)),
        };
        let lying = match cell.lying / cell.messages {
            0 => String::new(),
            lying => format!(", {} more until they were taken in", time(lying)),
        };
        let (messages, sum) = (
            counted(cell.messages as usize, "message"),
            bytes(cell.bytes),
        );
        Some(MatrixCell {
            title: format!("{messages}, {sum}, {flight} under way on average{waiting}{lying}"),
            lines: [sum, messages],
            part: cell.bytes as f64 / most as f64,
            marked: 0.0,
        })
    };
    Some(matrix.drawn(["from rank ↓", "to rank →"], name, square))
}

/// What one rank sent to another.
#[derive(Clone, Copy, Default)]
struct Sent {
    messages: u128,
    bytes: u128,
    flight: u128,
    waiting: u128,
    lying: u128,
}

/// Which worker ran what which other had made ready, on one rank: from the worker of a task's last input
/// to its own. `None` if no task changed its worker.
pub(crate) fn steals(view: &View<'_>) -> Option<Picture> {
    let workers: Vec<(usize, usize)> = view.workers().collect();
    let place = |worker: (usize, usize)| workers.binary_search(&worker).ok();
    let mut matrix = Matrix::<Ran>::new(workers.len());
    for (at, slice) in view.all_slices() {
        let last = view
            .trace
            .last_input(at)
            .filter(|last| last.rank == at.rank);
        let maker = last.map(|last| usize::from(view.trace.slice(last).worker));
        let maker = maker.and_then(|maker| place((at.rank, maker)));
        let runner = place((at.rank, usize::from(slice.worker)));
        if let (Some(maker), Some(runner)) = (maker, runner) {
            let cell = matrix.cell(maker, runner);
            cell.tasks += 1;
            cell.stolen += u64::from(slice.stolen);
            cell.moved += u64::from(maker != runner);
        }
    }
    // What stays on its worker is most of all, and would leave the others pale.
    let most = matrix.cells.iter().map(|cell| cell.moved).max()?;
    if most == 0 {
        return None;
    }
    let is_one = view.ranks().count() == 1;
    let name = |place: usize| {
        let (rank, worker) = workers[place];
        match is_one {
            true => worker.to_string(),
            false => format!("{}.{worker}", view.trace.ranks[rank].rank.0),
        }
    };
    let square = |cell: &Ran| {
        let (tasks, stolen) = (
            counted(cell.tasks as usize, "task"),
            format!("{} stolen", cell.stolen),
        );
        (cell.tasks > 0).then(|| MatrixCell {
            title: format!("{tasks}, {stolen}"),
            lines: [tasks, stolen],
            part: (cell.moved as f64 / most as f64).min(1.0),
            marked: cell.stolen as f64 / cell.tasks as f64,
        })
    };
    Some(matrix.drawn(["from worker ↓", "to worker →"], name, square))
}

/// What one worker ran that another, or it itself, had made ready.
#[derive(Clone, Copy, Default)]
struct Ran {
    tasks: u64,
    stolen: u64,
    /// Those that another made ready.
    moved: u64,
}

/// Something for each pair of many.
struct Matrix<C> {
    /// How many there are, and how many neighbours share a place.
    all: usize,
    several: usize,
    cells: Vec<C>,
}

/// How a pair is shown.
struct MatrixCell {
    /// Under the pointer, and within if there is room.
    title: String,
    lines: [String; 2],
    /// Of the darkest.
    part: f64,
    /// What part of its width has a bar below.
    marked: f64,
}

impl<C: Clone + Default> Matrix<C> {
    fn new(all: usize) -> Self {
        let several = all.div_ceil(SQUARES).max(1);
        let n = all.div_ceil(several);
        Matrix {
            all,
            several,
            cells: vec![C::default(); n * n],
        }
    }

    /// Places a side.
    fn n(&self) -> usize {
        self.all.div_ceil(self.several)
    }

    fn cell(&mut self, from: usize, to: usize) -> &mut C {
        let (from, to, n) = (from / self.several, to / self.several, self.n());
        &mut self.cells[from * n + to]
    }

    /// The name of a place, from those of the first and the last there.
    fn name(&self, place: usize, name: impl Fn(usize) -> String) -> String {
        let first = place * self.several;
        let last = (first + self.several).min(self.all) - 1;
        match first == last {
            true => name(first),
            false => format!("{}–{}", name(first), name(last)),
        }
    }

    /// Rows are `from`, columns are `to`.
    fn drawn(
        &self,
        [from, to]: [&str; 2],
        name: impl Fn(usize) -> String,
        square: impl Fn(&C) -> Option<MatrixCell>,
    ) -> Picture {
        let n = self.n();
        let size = (620.0 / n as f64).min(86.0);
        let (left, top) = (LEFT + 20.0, 40.0);
        let mut picture = Picture::default();
        picture.text("s", left, 14.0, to);
        picture.text("s e", left - 30.0, top - 8.0, from);
        let names: Vec<String> = (0..n).map(|place| self.name(place, &name)).collect();
        let every = (18.0 / size).ceil().max(1.0) as usize;
        for place in (0..n).step_by(every) {
            let at = size * place as f64 + size / 2.0;
            picture.text("s m", left + at, top - 6.0, &names[place]);
            picture.text("s e", left - 6.0, top + at + 4.0, &names[place]);
        }
        for (index, cell) in self.cells.iter().enumerate() {
            let (row, column) = (index / n, index % n);
            let (x, y) = (left + size * column as f64, top + size * row as f64);
            picture.rect("q", [x, y, size - 1.0, size - 1.0], "");
            if let Some(mut square) = square(cell) {
                let title = format!("{} to {}: {}", names[row], names[column], square.title);
                square.title = title;
                square.draw(&mut picture, [x, y], size);
            }
        }
        picture
    }
}

impl MatrixCell {
    fn draw(&self, picture: &mut Picture, [x, y]: [f64; 2], size: f64) {
        let dark = 0.12 + 0.55 * self.part;
        picture.raw(&format!("<g fill-opacity=\"{dark:.2}\">"));
        picture.rect("y", [x, y, size - 1.0, size - 1.0], &self.title);
        picture.raw("</g>\n");
        if self.marked > 0.0 {
            let (width, height) = (self.marked * (size - 1.0), size / 10.0);
            picture.rect("c1", [x, y + size - 1.0 - height, width, height], "");
        }
        if size >= 60.0 {
            for (line, down) in self.lines.iter().zip([-2.0, 13.0]) {
                picture.text("t m", x + size / 2.0, y + size / 2.0 + down, line);
            }
        }
    }
}
