//! The graph of the tile Cholesky factorisation, without its arithmetic.

use super::{Number, Specimen, contents, digest, holes};
use dataflow_core::prelude::*;

dataflow_core::task_names! {
    /// The tasks of tile Cholesky.
    pub enum Task { Potrf { k }, Trsm { m, k }, Syrk { m, k }, Gemm { m, n, k } }
}
use Task::{Gemm, Potrf, Syrk, Trsm};

/// `nt × nt` tiles, the lower triangle, on a grid of p × q ranks.
pub struct Cholesky {
    nt: u32,
    grid: (u32, u32),
    tiles: Store<Number>,
    /// A task whose body fails, and whether it panics.
    fails: Option<(Task, bool)>,
}

impl Cholesky {
    pub fn new(nt: u32, grid: (u32, u32)) -> Self {
        let length = u64::from(nt * (nt + 1) / 2);
        let tiles = Store::new("tiles", (0..length).map(|i| Number(1000 + i)));
        Cholesky {
            nt,
            grid,
            tiles,
            fails: None,
        }
    }

    pub fn failing(mut self, task: Task, panics: bool) -> Self {
        self.fails = Some((task, panics));
        self
    }

    /// The rank of a tile.
    pub fn owner(&self, m: u32, n: u32) -> Rank {
        let (p, q) = self.grid;
        Rank((m % p) * q + n % q)
    }

    /// How often a final tile is sent to a rank that needs it.
    pub fn n_crossings(&self) -> usize {
        let nt = self.nt;
        let tiles = (0..nt).flat_map(|n| (n..nt).map(move |m| (m, n)));
        let crossings = tiles.map(|(m, n)| {
            let below = (m + 1..nt).map(|i| (i, if m == n { n } else { m }));
            let beside = (n + 1..=m).map(|j| (m, j));
            let ranks = below.chain(beside).map(|(i, j)| self.owner(i, j));
            let others = ranks.filter(|&rank| rank != self.owner(m, n));
            others.collect::<std::collections::BTreeSet<_>>().len()
        });
        crossings.sum()
    }

    pub fn n_tasks(nt: u64) -> u64 {
        nt * (nt + 1) * (nt + 2) / 6
    }

    /// Where a tile's versions begin and end.
    fn slot(m: u32, n: u32) -> usize {
        (m * (m + 1) / 2 + n) as usize
    }
}

const POTRF_C: usize = 0;
const TRSM_T: usize = 0;
const TRSM_C: usize = 1;
const SYRK_A: usize = 0;
const SYRK_C: usize = 1;
const GEMM_A: usize = 0;
const GEMM_B: usize = 1;
const GEMM_C: usize = 2;

impl TaskSpace for Cholesky {
    type Task = Task;
    type Datum = Number;

    fn describe(&self, about: &mut Description) {
        about.name("cholesky shape").parameter("nt", self.nt);
        about.class("Potrf").update("C");
        about.class("Trsm").read("T").update("C");
        about.class("Syrk").read("A").update("C");
        about.class("Gemm").read("A").read("B").update("C");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = Task> + Send {
        let nt = self.nt;
        let step = move |k| {
            let gemms = move |m| (k + 1..m).map(move |n| Gemm { m, n, k });
            let below = move |m| [Trsm { m, k }, Syrk { m, k }].into_iter().chain(gemms(m));
            std::iter::once(Potrf { k }).chain((k + 1..nt).flat_map(below))
        };
        (0..nt)
            .flat_map(step)
            .filter(move |&task| self.rank(task) == on)
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        match task {
            Potrf { k: 0 } => from.home(POTRF_C, &self.tiles, 0),
            Potrf { k } => from.task(POTRF_C, Syrk { m: k, k: k - 1 }, SYRK_C),
            Trsm { m, k } => {
                from.task(TRSM_T, Potrf { k }, POTRF_C);
                match k {
                    0 => from.home(TRSM_C, &self.tiles, Self::slot(m, 0)),
                    _ => from.task(TRSM_C, Gemm { m, n: k, k: k - 1 }, GEMM_C),
                }
            }
            Syrk { m, k } => {
                from.task(SYRK_A, Trsm { m, k }, TRSM_C);
                match k {
                    0 => from.home(SYRK_C, &self.tiles, Self::slot(m, m)),
                    _ => from.task(SYRK_C, Syrk { m, k: k - 1 }, SYRK_C),
                }
            }
            Gemm { m, n, k } => {
                from.task(GEMM_A, Trsm { m, k }, TRSM_C);
                from.task(GEMM_B, Trsm { m: n, k }, TRSM_C);
                match k {
                    0 => from.home(GEMM_C, &self.tiles, Self::slot(m, n)),
                    _ => from.task(GEMM_C, Gemm { m, n, k: k - 1 }, GEMM_C),
                }
            }
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        match task {
            Potrf { k } => {
                to.range(POTRF_C, k + 1..self.nt, |m| Trsm { m, k }, TRSM_T);
                to.home(POTRF_C, &self.tiles, Self::slot(k, k));
            }
            Trsm { m, k } => {
                to.task(TRSM_C, Syrk { m, k }, SYRK_A);
                to.range(TRSM_C, k + 1..m, |n| Gemm { m, n, k }, GEMM_A);
                to.range(TRSM_C, m + 1..self.nt, |i| Gemm { m: i, n: m, k }, GEMM_B);
                to.home(TRSM_C, &self.tiles, Self::slot(m, k));
            }
            Syrk { m, k } if m == k + 1 => to.task(SYRK_C, Potrf { k: m }, POTRF_C),
            Syrk { m, k } => to.task(SYRK_C, Syrk { m, k: k + 1 }, SYRK_C),
            Gemm { m, n, k } if n == k + 1 => to.task(GEMM_C, Trsm { m, k: n }, TRSM_C),
            Gemm { m, n, k } => to.task(GEMM_C, Gemm { m, n, k: k + 1 }, GEMM_C),
        }
    }

    fn rank(&self, task: Task) -> Rank {
        let (m, n) = match task {
            Potrf { k } => (k, k),
            Trsm { m, k } => (m, k),
            Syrk { m, .. } => (m, m),
            Gemm { m, n, .. } => (m, n),
        };
        self.owner(m, n)
    }

    fn priority(&self, task: Task) -> i64 {
        let (Potrf { k } | Trsm { k, .. } | Syrk { k, .. } | Gemm { k, .. }) = task;
        i64::from(self.nt) - i64::from(k)
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Number>) -> Result<(), TaskError> {
        match self.fails {
            Some((fails, true)) if fails == task => panic!("as it should"),
            Some((fails, false)) if fails == task => return Err("as it should".into()),
            _ => {}
        }
        let name = match task {
            Potrf { k } => [1, k, 0, 0],
            Trsm { m, k } => [2, m, 0, k],
            Syrk { m, k } => [3, m, m, k],
            Gemm { m, n, k } => [4, m, n, k],
        };
        let mut slots: Vec<_> = flows.iter().collect();
        let updated = slots
            .pop()
            .expect("every class updates its last flow")
            .update();
        let read = slots.into_iter().map(|slot| slot.read().0);
        updated.0 = digest(
            name.map(u64::from)
                .into_iter()
                .chain(read)
                .chain([updated.0]),
        );
        Ok(())
    }
}

impl Specimen for Cholesky {
    fn fresh(&self) -> Self {
        Self::new(self.nt, self.grid)
    }
    fn outcome(&self) -> Vec<u64> {
        contents(&self.tiles).collect()
    }
    fn holes(&self) -> Vec<String> {
        holes(&self.tiles).collect()
    }
    fn strangers(&self) -> Vec<Task> {
        let nt = self.nt;
        vec![
            Potrf { k: nt },
            Syrk { m: nt, k: 0 },
            Gemm {
                m: nt + 1,
                n: nt,
                k: 1,
            },
        ]
    }
}
