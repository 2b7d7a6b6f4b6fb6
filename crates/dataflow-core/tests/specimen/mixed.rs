//! A space with one of everything: new data, data read and passed on, order, ranges, many flows,
//! stores that are read, changed and filled.

use super::{Number, Specimen, contents, digest, holes};
use dataflow_core::prelude::*;

dataflow_core::task_names! {
    /// Load and work `n` items, sum them up, check them.
    pub enum Task { Load { i }, Work { i }, Sum {}, Check { i } }
}
use Task::{Check, Load, Sum, Work};

/// `n` items, at least two.
pub struct Mixed {
    n: u32,
    given: Store<Number>,
    total: Store<Number>,
    worked: Store<Number>,
}

impl Mixed {
    pub fn new(n: u32) -> Self {
        let length = n as usize;
        Mixed {
            n,
            given: Store::new("given", (0..u64::from(n)).map(|i| Number(50 + i))),
            total: Store::new("total", [Number(4)]),
            worked: Store::empty("worked", length),
        }
    }

    fn next(&self, i: u32) -> u32 {
        (i + 1) % self.n
    }

    fn previous(&self, i: u32) -> u32 {
        (i + self.n - 1) % self.n
    }

    /// The flow of `Sum` that reads item `i`; flow 0 is the total.
    fn addend(i: u32) -> usize {
        i as usize + 1
    }
}

const LOAD_GIVEN: usize = 0;
const LOAD_MADE: usize = 1;
const LOAD_DONE: usize = 2;
const WORK_ITEM: usize = 0;
const WORK_GATE: usize = 1;
const SUM_TOTAL: usize = 0;
const CHECK_GIVEN: usize = 0;
const CHECK_AFTER: usize = 1;
const CHECK_TOTAL: usize = 2;

impl TaskSpace for Mixed {
    type Task = Task;
    type Datum = Number;

    fn describe(&self, about: &mut Description) {
        about.name("mixed").parameter("n", self.n);
        about
            .class("Load")
            .read("GIVEN")
            .of("given")
            .new_flow("MADE")
            .order("DONE");
        about.class("Work").update("ITEM").order("GATE");
        let sum = about.class("Sum").update("TOTAL");
        (0..self.n).fold(sum, |sum, i| sum.read(&format!("ITEM{i}")));
        about
            .class("Check")
            .read("GIVEN")
            .of("given")
            .order("AFTER")
            .read("TOTAL");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = Task> + Send {
        let items = (0..self.n).flat_map(|i| [Load { i }, Work { i }, Check { i }]);
        items.chain([Sum {}])
    }

    fn inputs(&self, task: Task, from: &mut impl Inputs<Self>) {
        match task {
            Load { i } => from.home(LOAD_GIVEN, &self.given, i as usize),
            Work { i } => {
                from.task(WORK_ITEM, Load { i }, LOAD_MADE);
                from.task(WORK_GATE, Load { i: self.next(i) }, LOAD_DONE);
            }
            Sum {} => {
                from.home(SUM_TOTAL, &self.total, 0);
                for i in 0..self.n {
                    from.task(Self::addend(i), Work { i }, WORK_ITEM);
                }
            }
            Check { i } => {
                from.task(CHECK_GIVEN, Load { i }, LOAD_GIVEN);
                from.task(CHECK_AFTER, Work { i }, WORK_GATE);
                from.task(CHECK_TOTAL, Sum {}, SUM_TOTAL);
            }
        }
    }

    fn successors(&self, task: Task, to: &mut impl Successors<Self>) {
        match task {
            Load { i } => {
                to.task(LOAD_MADE, Work { i }, WORK_ITEM);
                to.task(LOAD_GIVEN, Check { i }, CHECK_GIVEN);
                to.task(
                    LOAD_DONE,
                    Work {
                        i: self.previous(i),
                    },
                    WORK_GATE,
                );
            }
            Work { i } => {
                to.task(WORK_ITEM, Sum {}, Self::addend(i));
                to.task(WORK_GATE, Check { i }, CHECK_AFTER);
                to.home(WORK_ITEM, &self.worked, i as usize);
            }
            Sum {} => {
                to.range(SUM_TOTAL, 0..self.n, |i| Check { i }, CHECK_TOTAL);
                to.home(SUM_TOTAL, &self.total, 0);
            }
            Check { .. } => {}
        }
    }

    fn run(&self, task: Task, flows: &mut Flows<'_, Number>) -> Result<(), TaskError> {
        match task {
            Load { i } => {
                let [given, made, _] = flows.slots();
                made.put(Number(digest([1, u64::from(i), given.read().0])));
            }
            Work { i } => {
                let [item, _] = flows.slots();
                let item = item.update();
                item.0 = digest([2, u64::from(i), item.0]);
            }
            Sum {} => {
                let mut slots = flows.iter();
                let total = slots.next().expect("flow 0 is the total").update();
                total.0 = digest([3, total.0].into_iter().chain(slots.map(|s| s.read().0)));
            }
            Check { i } => {
                let [given, _, total] = flows.slots();
                // Reads its data; a wrong one is seen, since the given ones are known.
                let _ = total.read();
                if given.read().0 != 50 + u64::from(i) {
                    return Err(TaskError::new("wrong_datum", "not what was given"));
                }
            }
        }
        Ok(())
    }
}

impl Specimen for Mixed {
    fn fresh(&self) -> Self {
        Self::new(self.n)
    }
    fn outcome(&self) -> Vec<u64> {
        let stores = [&self.given, &self.total, &self.worked];
        stores.into_iter().flat_map(contents).collect()
    }
    fn holes(&self) -> Vec<String> {
        holes(&self.given).chain(holes(&self.total)).collect()
    }
    fn strangers(&self) -> Vec<Task> {
        vec![Work { i: self.n }, Check { i: self.n + 3 }]
    }
}
