//! The ranks of a grid, each a thread of this process, on which a case is computed.

use crate::dense::Dense;
use crate::tally::Share;
use dataflow::core::rank::Rank;
use dataflow::linalg::matrix::{
    Distribution, Entries, Format, Grid, Layout, Structure, TiledMatrix,
};
use dataflow::linalg::scalar::{Scalar, c64};
use dataflow::{Bind, Runtime, launch};

/// One rank, with all that it needs to compute with the others.
pub struct World<'a> {
    pub runtime: &'a Runtime,
    grid: (u32, u32),
}

impl World<'_> {
    /// Runs a program on each rank of a grid; what it answered on rank 0.
    pub fn each<R: Send>((p, q): (u32, u32), program: impl Fn(&World) -> R + Sync) -> R {
        let ranks = Runtime::builder().threads(1).bind(Bind::None);
        let on_rank = |runtime: &Runtime| {
            Ok::<_, dataflow::Error>(program(&World {
                runtime,
                grid: (p, q),
            }))
        };
        launch(ranks.ranks((p * q) as usize), on_rank).unwrap()
    }

    /// How many cases are tried if not all.
    pub fn share(&self) -> Share {
        match self.grid {
            (1, 1) => Share::OneIn(20),
            _ => Share::OneIn(100),
        }
        .or_all()
    }

    /// Whether there is no other rank.
    pub fn is_alone(&self) -> bool {
        self.grid == (1, 1)
    }

    /// Whether this rank computes the ratios.
    pub fn leads(&self) -> bool {
        self.runtime.rank() == Rank(0)
    }

    /// The layout, over the grid.
    pub fn over(&self, layout: Layout) -> Layout {
        let grid = Distribution::BlockCyclic(Grid::new(self.grid.0, self.grid.1).unwrap());
        layout.distributed(grid, self.runtime.rank()).unwrap()
    }

    /// This rank's part of a matrix of any shape; its tiles are cut in turn into smaller ones.
    pub fn general<T: Scalar>(&self, a: &Dense, nb: usize) -> TiledMatrix<T> {
        let layout = Layout::general(a.rows, a.cols, nb).unwrap();
        self.spread(layout, &|i: usize, j: usize| a.entry(i, j))
    }

    /// This rank's part of a matrix.
    pub fn spread<T: Scalar>(&self, layout: Layout, entries: &impl Entries<T>) -> TiledMatrix<T> {
        let layout = layout.with_format(Format::SubTiled { order: 7 });
        TiledMatrix::from_entries(self.over(layout), entries)
    }

    /// All entries, on every rank; of a lower matrix zeros above the diagonal.
    pub fn gather<T: Scalar>(&self, a: &TiledMatrix<T>) -> Dense {
        let layout = a.layout();
        let mut own = Vec::new();
        for tile in places(layout)
            .into_iter()
            .map(|(i, j)| a.tile_at(i, j).unwrap())
        {
            for (i, j) in (0..tile.cols()).flat_map(|j| (0..tile.rows()).map(move |i| (i, j))) {
                let entry = tile.get(i, j);
                own.extend_from_slice(&entry.re().to_le_bytes());
                own.extend_from_slice(&entry.im().to_le_bytes());
            }
        }
        let all = self.runtime.gather(own).unwrap();
        let mut dense = Dense::zeros(a.rows(), a.cols());
        for (rank, bytes) in (0..).zip(all) {
            let there = layout
                .distributed(*layout.distribution(), Rank(rank))
                .unwrap();
            let numbers = bytes
                .chunks_exact(8)
                .map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()));
            let mut numbers = numbers.collect::<Vec<_>>().into_iter();
            for (i, j) in places(&there) {
                let (rows, cols) = (there.row_range(i), there.col_range(j));
                for (row, col) in cols.flat_map(|col| rows.clone().map(move |row| (row, col))) {
                    let entry = c64::new(numbers.next().unwrap(), numbers.next().unwrap());
                    if row >= col || layout.structure() == Structure::General {
                        dense.set(row, col, entry);
                    }
                }
            }
        }
        dense
    }
}

/// The tiles of a rank, in one order on all.
fn places(layout: &Layout) -> Vec<(usize, usize)> {
    layout.tiles().collect()
}
