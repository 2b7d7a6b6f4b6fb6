//! Collective: small operations of all ranks together, as task spaces: gathering bytes, comparing settings.
//!
//! What flows is bytes in all of them, and in [`clocks`](crate::clocks): they run on one engine, and on
//! the thread that calls: to hand so little to a worker takes longer than to do it.

use dataflow_core::port::{Block, Context, Executor, Head, Inline, Wire};
use dataflow_core::prelude::*;
use dataflow_core::space::Erased;
use dataflow_core::words::counted;
use dataflow_core::{Error, Report, run_across};
use std::any::type_name;
use std::borrow::Cow;
use std::sync::OnceLock;

/// Bytes that one rank tells the others.
#[derive(Clone)]
pub(crate) struct Bytes(pub Vec<u8>);

/// Runs this rank's part of an operation of all ranks, here; what is recorded of it, the executor's tracer gets.
///
/// Not generic, so that the engine is compiled here, and not into each program that calls an operation.
pub(crate) fn run_together(space: &Erased<'_, Bytes>, on: &dyn Executor) -> Result<Report, Error> {
    let mut here = Context::new(&Inline).across(on.courier());
    if let Some(tracer) = on.tracer() {
        here = here.traced_by(tracer);
    }
    run_across(space, &here)
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
    /// A rank gives its bytes and those that came to it; another keeps them, or each.
    pub(crate) enum GatherTask { Give { from }, Keep { from, on } }
}
use GatherTask::{Give, Keep};

/// Every rank's bytes on every rank, or on the first.
///
/// # Law
/// - For every rank: bytes go up a binomial tree, a rank's before those of the ranks below it, so that they
///   arrive in the order of ranks; rank 0 gives all of them to all. Two tasks a rank, two messages a rank
///   but rank 0.
/// - For the first alone, which may be much: each rank gives to it, nothing is passed on. As many messages
///   as there are other ranks.
pub(crate) struct Gather {
    /// For which call of the user, and of what values, so that ranks which make different calls learn it.
    call: &'static str,
    /// Of a loop the step, and how many there are at most.
    step: Option<(u64, u64)>,
    values: Option<(&'static str, usize)>,
    own: Vec<u8>,
    for_all: bool,
    all: Vec<OnceLock<Vec<u8>>>,
}

/// Give: what it gives. Keep: what it gets.
const VALUE: usize = 0;
/// Give: what the ranks below have given, from here on.
const BELOW: usize = 1;

impl Gather {
    pub fn new(own: Vec<u8>, n_ranks: usize) -> Self {
        Gather {
            call: "gather",
            step: None,
            values: None,
            own,
            for_all: true,
            all: (0..n_ranks).map(|_| OnceLock::new()).collect(),
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
            for_all: false,
            ..Gather::new(own, n_ranks)
        }
    }

    /// What each rank gives; those that are not kept here are empty.
    pub fn run(self, on: &dyn Executor) -> Result<Vec<Vec<u8>>, Error> {
        run_together(&Erased::new(&self), on)?;
        Ok(self.into_all())
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

    /// The ranks below one, in their order: the next, and those 2, 4, 8, … further.
    ///
    /// The courier's trees (`Binomial` of `dataflow-mpi`) have the same branches and begin with the furthest, below
    /// which most is to be done. Here the order is that of ranks, for so what comes up is joined.
    fn below(&self, rank: u32) -> impl Iterator<Item = u32> + use<> {
        let n_ranks = match self.for_all {
            true => self.n_ranks(),
            false => 0,
        };
        let steps = (0..rank.trailing_zeros()).map_while(|power| 1_u32.checked_shl(power));
        let ranks = steps.map_while(move |step| rank.checked_add(step));
        ranks.take_while(move |&below| below < n_ranks)
    }

    /// Of whom a rank keeps what they give.
    fn kept(&self, on: u32) -> std::ops::Range<u32> {
        match (self.for_all, on) {
            (true, _) => 0..1,
            (false, 0) => 0..self.n_ranks(),
            (false, _) => 0..0,
        }
    }

    /// Keeps what a rank gave, and those below it.
    fn keep(&self, from: u32, mut given: &[u8]) -> Result<(), &'static str> {
        let mut keepers = self.all[from as usize..].iter();
        while !given.is_empty() {
            let (own, rest) = first_of(given).ok_or("a rank gave something else")?;
            let kept = keepers
                .next()
                .ok_or("more was given than there are ranks")?;
            kept.get_or_init(|| own.to_vec());
            given = rest;
        }
        Ok(())
    }
}

impl TaskSpace for Gather {
    type Task = GatherTask;
    type Datum = Bytes;

    fn describe(&self, about: &mut Description) {
        about.name(self.call).parameter("ranks", self.n_ranks());
        about.parameter("for all", self.for_all);
        if let Some((step, limit)) = self.step {
            about.parameter("step", step).parameter("limit", limit);
        }
        if let Some((name, bytes)) = self.values {
            about.parameter("values", format!("{name} ({})", counted(bytes, "byte")));
        }
        let give = about.class("Give").new_flow("VALUE");
        let below = (0..self.below(0).count()).map(|n| format!("BELOW{n}"));
        below.fold(give, |give, name| give.optional(&name));
        about.class("Keep").read("VALUE");
    }

    fn tasks(&self, Rank(on): Rank) -> impl Iterator<Item = GatherTask> + Send {
        let keep = self.kept(on).map(move |from| Keep { from, on });
        std::iter::once(Give { from: on }).chain(keep)
    }

    fn inputs(&self, task: GatherTask, from: &mut impl Inputs<Self>) {
        match task {
            Give { from: rank } => self
                .below(rank)
                .zip(BELOW..)
                .for_each(|(below, flow)| from.task(flow, Give { from: below }, VALUE)),
            Keep { from: giver, .. } => from.task(VALUE, Give { from: giver }, VALUE),
        }
    }

    fn successors(&self, task: GatherTask, to: &mut impl Successors<Self>) {
        match task {
            Give { from } if !self.for_all => to.task(VALUE, Keep { from, on: 0 }, VALUE),
            Give { from: 0 } => {
                to.range(VALUE, 0..self.n_ranks(), |on| Keep { from: 0, on }, VALUE);
            }
            Give { from } => {
                let step = from.trailing_zeros();
                let above = Give {
                    from: from - (1 << step),
                };
                to.task(VALUE, above, BELOW + step as usize);
            }
            Keep { .. } => {}
        }
    }

    fn run(&self, task: GatherTask, flows: &mut Flows<'_, Bytes>) -> Result<(), TaskError> {
        match task {
            Give { .. } => {
                let ([value], below, []) = flows.split();
                let mut given = (self.own.len() as u64).to_le_bytes().to_vec();
                given.extend_from_slice(&self.own);
                let below = below.filter_map(|slot| slot.get());
                below.for_each(|bytes| given.extend_from_slice(&bytes.0));
                value.put(Bytes(given));
            }
            Keep { from, .. } => {
                let [value] = flows.slots();
                self.keep(from, &value.read().0)?;
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

/// Of what several ranks gave the first's, and the rest: each has its length before it.
fn first_of(given: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = given.split_first_chunk()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    rest.split_at_checked(len)
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

impl Agreement<'_> {
    /// Errors if the ranks do not describe the same.
    pub fn run(&self, on: &dyn Executor) -> Result<(), Error> {
        run_together(&Erased::new(self), on).map(drop)
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
    fn the_gathering_is_proved_for_1_to_9_ranks() {
        for n_ranks in 1..=9 {
            let [all, first] = [Gather::new, Gather::on_first].map(|new| new(vec![], n_ranks));
            for gather in [all, first] {
                verify(&gather, n_ranks).unwrap_or_else(|fault| panic!("{n_ranks}: {fault}"));
            }
        }
    }

    /// Half a gift would be taken for none.
    #[test]
    fn what_is_no_gift_of_these_ranks_is_refused() {
        let gift = |own: &[u8]| [&(own.len() as u64).to_le_bytes(), own].concat();
        let (one, none) = (gift(&[7, 8]), gift(&[]));
        let both = [&one[..], &none].concat();
        for (from, given, is_kept) in [
            (0, &both[..], true),
            (1, &one, true),
            (0, &one[..9], false),
            (0, &both[..12], false),
            (1, &both, false),
        ] {
            let gather = Gather::on_first(vec![], 2);
            assert_eq!(gather.keep(from, given).is_ok(), is_kept, "{given:?}");
            let kept = is_kept.then(|| gather.into_all()[from as usize].clone());
            assert_eq!(kept, is_kept.then(|| vec![7, 8]));
        }
    }

    #[test]
    fn what_ranks_gave_arrives_by_rank_whatever_its_length() {
        for n_ranks in [1, 2, 3, 5, 8, 13] {
            let own = |rank: usize| vec![rank as u8; rank * 7 % 5];
            let given: Vec<_> = (0..n_ranks).map(own).collect();
            let ranks = Runtime::builder().ranks(n_ranks).threads(1);
            launch(ranks, |runtime| {
                let all = runtime.gather(own(runtime.rank().0 as usize))?;
                assert_eq!(all, given);
                let first = Gather::on_first(own(runtime.rank().0 as usize), n_ranks);
                run_together(&Erased::new(&first), runtime)?;
                if runtime.rank() == Rank(0) {
                    assert_eq!(first.into_all(), given);
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        }
    }

    /// Each sent to each: 992 messages of 32 ranks.
    #[test]
    fn what_all_ranks_tell_each_other_takes_two_messages_for_each_rank_but_one() {
        type Call = fn(&Runtime) -> Result<(), Error>;
        let gather: Call = |runtime| runtime.gather(vec![7; 3]).map(drop);
        let sum: Call = |runtime| runtime.all_reduce(1_u64, |a, b| a + b).map(drop);
        let repeat: Call = |runtime| {
            let steps = runtime.repeat_until(1, |_| Ok::<_, Error>(true));
            steps.map(drop)
        };
        for n_ranks in [1, 2, 3, 8, 13, 32] {
            for call in [gather, sum, repeat] {
                let sent = Mutex::new(0);
                launch(Runtime::builder().ranks(n_ranks).threads(1), |runtime| {
                    let before = runtime.sent().messages;
                    call(runtime)?;
                    *sent.lock().unwrap() += runtime.sent().messages - before;
                    Ok::<_, Error>(())
                })
                .unwrap();
                let sent = sent.into_inner().unwrap();
                assert_eq!(sent, 2 * (n_ranks as u64 - 1), "{n_ranks} ranks");
            }
        }
    }
}
