//! Ours: tiles, a task graph, all workers.

use super::{Bench, Contestant, Dense, Outcome, Routine, Shared, Times, locked, seconds};
use dataflow::core::TaskError;
use dataflow::core::space::Independent;
use dataflow::linalg::kernel::Backend;
use dataflow::linalg::matrix::{ColumnMajor, Layout, TiledMatrix};
use dataflow::linalg::product::{Gemm, Operand};
use dataflow::linalg::{cholesky, lu, qr};

/// A routine of ours, on tiles of its own.
pub struct Ours<'b> {
    bench: &'b Bench,
    routine: Routine,
    a: TiledMatrix<f64>,
    /// Of the product: the result.
    product: TiledMatrix<f64>,
    backend: Backend,
    /// Of QR.
    options: qr::Options,
    room: Shared,
}

impl<'b> Ours<'b> {
    /// The routine on tiles of that layout; the inner block size is that of QR.
    pub fn new(
        bench: &'b Bench,
        routine: Routine,
        layout: Layout,
        backend: Backend,
        inner_block: Option<usize>,
        room: &Shared,
    ) -> Self {
        let usual = qr::Options::of_order(layout.nb());
        let vacant = |layout| TiledMatrix::vacant(layout, bench.memory.clone());
        let none = Layout::general(0, 0, 1).map(vacant);
        let product = match routine {
            Routine::Gemm => Ok(vacant(layout)),
            _ => none,
        };
        Ours {
            bench,
            routine,
            a: vacant(layout),
            product: product.expect("a matrix without tiles has a layout"),
            backend,
            options: qr::Options {
                ib: inner_block.unwrap_or(usual.ib),
                ..usual
            },
            room: room.clone(),
        }
    }

    fn fill(&self, elements: &[f64]) -> Outcome {
        let ld = self.a.rows();
        let entries = ColumnMajor { elements, ld };
        let a = &self.a;
        let tiles: Vec<_> = a.tiles().collect();
        let fill = Independent::new("fill", tiles.len() as u64, |tile| {
            let (i, j) = tiles[tile as usize];
            let filled = a.fill_tile(i, j, &entries);
            filled.map_err(|error| TaskError::new("not_filled", error.to_string()))
        });
        self.bench.runtime.run(&fill)?;
        Ok(())
    }

    /// Runs the routine on the tiles, on the clock; of LU the order of rows comes with it.
    fn factor(&self) -> Outcome<(f64, Vec<usize>)> {
        let (a, backend, on) = (&self.a, self.backend, &self.bench.runtime);
        let mut rows = Vec::new();
        let (factor, report) = match self.routine {
            Routine::Potrf => {
                let space = cholesky::Factor::new(a, backend)?;
                seconds(|| space.run(on))
            }
            Routine::Inverse => {
                let space = cholesky::Inverse::new(a, backend)?;
                seconds(|| space.run(on))
            }
            Routine::Getrf => {
                let pivots = lu::Pivots::new(a);
                let space = lu::Factor::new(a, &pivots, backend)?;
                let timed = seconds(|| space.run(on));
                rows = (0..a.rows()).collect();
                pivots.rows().for_each(|(row, other)| rows.swap(row, other));
                timed
            }
            Routine::Geqrf => {
                let q = qr::Reflectors::new(a.layout(), self.options);
                let space = qr::Factor::new(a, &q, backend)?;
                seconds(|| space.run(on))
            }
            Routine::Gemm => {
                let zero = |_: usize, _: usize| 0.0;
                self.product.fill(&zero, on)?;
                let a = Operand::plain(a);
                let space = Gemm::new(1.0, a, a, 0.0, &self.product, backend)?;
                seconds(|| space.run(on))
            }
        };
        report?;
        Ok((factor, rows))
    }
}

impl Contestant for Ours<'_> {
    fn run(&mut self, matrix: &Dense) -> Outcome<Times> {
        let (to_tiles, filled) = seconds(|| self.fill(matrix.as_slice()));
        filled?;
        let (scan, scanned) = seconds(|| self.a.scan(&self.bench.runtime));
        scanned?;
        let (factor, rows) = self.factor()?;
        let mut room = locked(&self.room);
        let (back, written) = seconds(|| {
            let result = match self.routine {
                Routine::Gemm => &self.product,
                _ => &self.a,
            };
            let (a, ld) = (result, result.rows());
            self.bench.on_strips(&mut room, a.nb(), |j, strip| {
                let written = a.write_strip(j, strip, ld);
                written.map_err(|error| TaskError::new("not_written", error.to_string()))
            })
        });
        written?;
        Ok(Times {
            factor,
            beside: Some([to_tiles, scan, back]),
            rows,
        })
    }
}
