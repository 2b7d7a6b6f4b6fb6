//! Collective: small operations of all ranks together, as task spaces: gathering bytes, comparing settings.
//!
//! What flows is bytes in all of them, and in [`clocks`](crate::clocks): they run on one engine, and on
//! the thread that calls: to hand so little to a worker takes longer than to do it.

use dataflow_core::port::{Block, Context, Executor, Head, Inline, Wire};
use dataflow_core::prelude::*;
use dataflow_core::space::Erased;
use dataflow_core::{Error, Report, run_across};
use std::any::type_name;
use std::borrow::Cow;
use std::sync::OnceLock;

/// Bytes that one rank tells the others.
#[derive(Clone)]
pub(crate) struct Bytes(pub Vec<u8>);

/// Runs this rank's part of an operation of all ranks, here; what is recorded of it, the executor's tracer gets.
pub(crate) fn run_together<S: TaskSpace<Datum = Bytes>>(
    space: &S,
    on: &dyn Executor,
) -> Result<Report, Error> {
    let mut here = Context::new(&Inline).across(on.courier());
    if let Some(tracer) = on.tracer() {
        here = here.traced_by(tracer);
    }
    run_across(&Erased::new(space), &here)
}

impl Datum for Bytes {}

impl Wire for Bytes {
    fn head(&self) -> Head {
        Head::new()
    }

    fn size(&self) -> usize {
        self.0.len()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.0)
    }

    fn unpack(_: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        Ok(Bytes(body.bytes().to_vec()))
    }
}

task_names! {
    /// A rank gives its bytes; each rank keeps those of each.
    pub(crate) enum GatherTask { Give { from }, Keep { from, on } }
}
use GatherTask::{Give, Keep};

/// Every rank's bytes on every rank, or on the first: n tasks and n messages for each that keeps them.
pub(crate) struct Gather {
    /// For which call of the user, and of what values, so that ranks which make different calls learn it.
    call: &'static str,
    /// Of a loop the step, and how many there are at most.
    step: Option<(u64, u64)>,
    values: Option<(&'static str, usize)>,
    own: Vec<u8>,
    /// How many ranks keep what all give, the lowest.
    n_keepers: u32,
    all: Vec<OnceLock<Vec<u8>>>,
}

const VALUE: usize = 0;

impl Gather {
    pub fn new(own: Vec<u8>, n_ranks: usize) -> Self {
        let all = (0..n_ranks).map(|_| OnceLock::new()).collect();
        let n_keepers = n_ranks as u32;
        Gather {
            call: "gather",
            step: None,
            values: None,
            own,
            n_keepers,
            all,
        }
    }

    /// The same, as a step of another call.
    pub fn called(self, call: &'static str) -> Self {
        Gather { call, ..self }
    }

    /// The same, at a step of a loop of so many at most, if it is in one.
    pub fn at(self, step: Option<(u64, u64)>) -> Self {
        Gather { step, ..self }
    }

    /// The same, of values of a type.
    pub fn of<T>(self) -> Self {
        let values = Some((type_name::<T>(), size_of::<T>()));
        Gather { values, ..self }
    }

    /// The same, kept by rank 0 alone.
    pub fn on_first(own: Vec<u8>, n_ranks: usize) -> Self {
        Gather {
            n_keepers: 1,
            ..Gather::new(own, n_ranks)
        }
    }

    /// What each rank gave, once the space has run.
    pub fn into_all(self) -> Vec<Vec<u8>> {
        let all = self.all.into_iter();
        all.map(|kept| kept.into_inner().unwrap_or_default())
            .collect()
    }

    fn n_ranks(&self) -> u32 {
        self.all.len() as u32
    }
}

impl TaskSpace for Gather {
    type Task = GatherTask;
    type Datum = Bytes;

    fn describe(&self, about: &mut Description) {
        about.name(self.call).parameter("ranks", self.n_ranks());
        about.parameter("keepers", self.n_keepers);
        if let Some((step, limit)) = self.step {
            about.parameter("step", step).parameter("limit", limit);
        }
        if let Some((name, bytes)) = self.values {
            about.parameter("values", format!("{name} ({bytes} bytes)"));
        }
        about.class("Give").new_flow("VALUE");
        about.class("Keep").read("VALUE");
    }

    fn tasks(&self, Rank(on): Rank) -> impl Iterator<Item = GatherTask> + Send {
        let n_kept = if on < self.n_keepers {
            self.n_ranks()
        } else {
            0
        };
        let keep = (0..n_kept).map(move |from| Keep { from, on });
        std::iter::once(Give { from: on }).chain(keep)
    }

    fn inputs(&self, task: GatherTask, from: &mut impl Inputs<Self>) {
        if let Keep { from: giver, .. } = task {
            from.task(VALUE, Give { from: giver }, VALUE);
        }
    }

    fn successors(&self, task: GatherTask, to: &mut impl Successors<Self>) {
        if let Give { from } = task {
            to.range(VALUE, 0..self.n_keepers, |on| Keep { from, on }, VALUE);
        }
    }

    fn run(&self, task: GatherTask, flows: &mut Flows<'_, Bytes>) -> Result<(), TaskError> {
        let [value] = flows.slots();
        match task {
            Give { .. } => value.put(Bytes(self.own.clone())),
            Keep { from, .. } => {
                self.all[from as usize].get_or_init(|| value.read().0.clone());
            }
        }
        Ok(())
    }

    fn rank(&self, task: GatherTask) -> Rank {
        match task {
            Give { from } => Rank(from),
            Keep { on, .. } => Rank(on),
        }
    }
}

/// Nothing to run, only a description that all ranks must agree on: they learn where it differs.
pub(crate) struct Agreement<'a>(pub &'a (dyn Fn(&mut Description) + Sync));

impl TaskSpace for Agreement<'_> {
    type Task = u64;
    type Datum = Bytes;

    fn describe(&self, about: &mut Description) {
        (self.0)(about);
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        std::iter::empty()
    }

    fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}

    fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}

    fn run(&self, _: u64, _: &mut Flows<'_, Bytes>) -> Result<(), TaskError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Runtime, launch};
    use dataflow_core::error::Kind;
    use dataflow_core::space::Independent;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn what_ranks_tell_each_other_waits_for_no_worker() {
        let runtime = Runtime::builder().threads(1).build().unwrap();
        let (begun, begins) = channel();
        let (end, ended) = channel::<()>();
        let (tell, told) = channel();
        let ended = Mutex::new(ended);
        let long = Independent::new("long", 1, |_| {
            begun.send(())?;
            ended.lock().unwrap().recv().ok();
            Ok(())
        });
        let heard = thread::scope(|scope| {
            scope.spawn(|| runtime.run(&long));
            begins.recv().unwrap();
            scope.spawn(|| tell.send(runtime.gather(vec![7])));
            let heard = told.recv_timeout(Duration::from_secs(20));
            drop(end);
            heard
        });
        assert_eq!(heard.unwrap().unwrap(), [[7]]);
    }

    /// Both got an answer, of bytes that the other had given for something else.
    #[test]
    fn ranks_that_make_different_calls_are_told_so() {
        type Call = fn(&Runtime) -> Result<(), Error>;
        let sum: Call = |runtime| runtime.all_reduce(1_u64, |a, b| a + b).map(drop);
        let gather: Call = |runtime| runtime.gather(vec![7; 8]).map(drop);
        let of_whole: Call = |runtime| runtime.all_reduce(1_u32, |a, b| a + b).map(drop);
        let of_real: Call = |runtime| runtime.all_reduce(1_f32, |a, b| a + b).map(drop);
        let pair: Call = |runtime| runtime.all_reduce([2_u32, 0], |a, _| a).map(drop);
        let repeat: Call = |runtime| {
            let steps = runtime.repeat_until(1, |_| Ok::<_, Error>(true));
            steps.map(drop)
        };
        // The second loop of one rank was taken for the second step of the other's.
        let twice: Call = |runtime| {
            runtime.repeat_until(1, |_| Ok::<_, Error>(false))?;
            runtime.repeat_until(1, |_| Ok::<_, Error>(true)).map(drop)
        };
        let once: Call = |runtime| runtime.repeat_until(2, |_| Ok::<_, Error>(false)).map(drop);
        for calls in [
            [sum, gather],
            [of_whole, of_real],
            [pair, repeat],
            [twice, once],
        ] {
            let ranks = Runtime::builder().ranks(2).threads(1);
            let told = Mutex::new(Vec::new());
            let ended = launch(ranks, |runtime| {
                let error = calls[runtime.rank().0 as usize](runtime).unwrap_err();
                told.lock().unwrap().push(error.kind());
                Ok::<_, Error>(())
            });
            let told = told.into_inner().unwrap();
            assert_eq!(told, [Kind::ParametersDiffer; 2], "{ended:?}");
        }
    }

    #[test]
    fn the_gathering_is_proved_for_1_to_5_ranks() {
        for n_ranks in 1..=5 {
            let [all, first] = [Gather::new, Gather::on_first].map(|new| new(vec![], n_ranks));
            for gather in [all, first] {
                verify(&gather, n_ranks).unwrap_or_else(|fault| panic!("{n_ranks}: {fault}"));
            }
        }
    }
}
