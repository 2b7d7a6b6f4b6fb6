//! Launch: the same program on several ranks, and what becomes of ranks that fail.

use dataflow::core::error::Kind;
use dataflow::core::port::{Block, Head, Wire};
use dataflow::core::recursion::{Call, Recursive, recurse};
use dataflow::core::space::Independent;
use dataflow::core::trace::Trace;
use dataflow::mpi::start::Seat;
use dataflow::mpi::transport::local::{self, Local};
use dataflow::mpi::transport::tcp::Token;
use dataflow::numa::topology::share::LocalRank;
use dataflow::numa::{Topology, UnknownBind, UnknownPolicy};
use dataflow::prelude::*;
use dataflow::sequence::record::record;
use dataflow::sequence::{read, write};
use dataflow::trace::WriteError;
use dataflow::{Error, RuntimeBuilder, TaskError, Transport};
use std::borrow::Cow;
use std::env;
use std::error::Error as _;
use std::mem;
use std::net::TcpListener;
use std::num::ParseIntError;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

fn ranks(n_ranks: usize) -> RuntimeBuilder {
    Runtime::builder().threads(1).ranks(n_ranks)
}

/// What each rank's program returned, by rank.
fn on_each<R: Send>(n_ranks: usize, program: impl Fn(&Runtime) -> R + Sync) -> Vec<R> {
    let all = Mutex::new(Vec::new());
    let launched = launch(ranks(n_ranks), |runtime| {
        let answer = (runtime.rank(), program(runtime));
        all.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(answer);
        Ok::<_, Error>(())
    });
    launched.unwrap();
    let mut all = all.into_inner().unwrap();
    all.sort_by_key(|(rank, _)| *rank);
    all.into_iter().map(|(_, answer)| answer).collect()
}

/// A number that goes from rank to rank, and grows.
#[derive(Clone)]
struct Number(u64);

impl Datum for Number {}

impl Wire for Number {
    fn head(&self) -> Head {
        Head::from_slice(&self.0.to_le_bytes())
    }
    fn size(&self) -> usize {
        0
    }
    fn body(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }
    fn unpack(head: &[u8], _: Box<dyn Block>) -> Result<Self, String> {
        let bytes = head.try_into().map_err(|_| "no number".to_string())?;
        Ok(Number(u64::from_le_bytes(bytes)))
    }
}

/// Ranks that record different programs do not run them, and learn up to where they agree.
#[test]
fn ranks_that_insert_different_tasks_are_told_where_they_part() {
    let difference = |change: fn(u64, Rank) -> (u64, bool)| {
        let errors = on_each(3, |runtime| {
            let store = Store::new("numbers", [0u64; 3]);
            let program = record("parting", 3, |s| {
                let homes = [0, 1, 2].map(|at| s.home(&store, at, Rank(at as u32)));
                let (count, reads) = change(7, runtime.rank());
                for task in 0..count {
                    let [a, b] = [task, task + 1].map(|at| &homes[at as usize % 3]);
                    match task == 4 && reads {
                        true => s.task(read(a), |_| ()),
                        false => s.task((write(a), read(b)), |(a, b)| *a += b + 1),
                    }
                }
            });
            let ended = runtime.replay(&program.unwrap());
            ended
                .map(|report| report.tasks)
                .map_err(|error| (error.kind(), error.to_string()))
        });
        assert!(
            errors.iter().all(|error| *error == errors[0]) || errors[0].is_ok(),
            "{errors:?}"
        );
        errors[0].clone()
    };
    difference(|count, _| (count, true)).unwrap();
    let (kind, text) = difference(|count, rank| (count, rank != Rank(1))).unwrap_err();
    assert_eq!(kind, Kind::ParametersDiffer);
    assert!(
        text.contains("fingerprint of the recorded program's first 8 tasks"),
        "{text}"
    );
    let (kind, text) =
        difference(|count, rank| (count - u64::from(rank.0 == 2), false)).unwrap_err();
    assert_eq!(kind, Kind::ParametersDiffer);
    assert!(
        text.contains("fingerprint of the recorded program's first 8 tasks"),
        "{text}"
    );
}

/// Each named itself, as one would to gather what all own: they ran, and did not gather the same.
#[test]
fn ranks_that_name_different_owners_of_a_datum_are_told() {
    let errors = on_each(2, |runtime| {
        let store = Store::new("numbers", [0u64]);
        let program = record("own", 2, |s| {
            let own = s.home(&store, 0, runtime.rank());
            _ = s.gather(&own);
        });
        let ended = runtime.replay(&program.unwrap());
        ended
            .map(|report| report.tasks)
            .map_err(|error| error.kind())
    });
    assert_eq!(errors, [Err(Kind::ParametersDiffer); 2]);
}

#[test]
fn a_rank_collects_what_all_own_and_is_told_what_is_missing() {
    for (to, n) in [(0, 9), (2, 9), (1, 0)] {
        let all = on_each(3, |runtime| {
            let owner = |at: usize| Rank(at as u32 / 2 % 3);
            let store = Store::new("numbers", (0..n).map(|at| vec![runtime.rank().0, at]));
            let all = runtime.collect(&store, owner, Rank(to)).unwrap();
            assert!(
                (0..n as usize).all(|at| store.get(at).is_some()),
                "all are still there"
            );
            all
        });
        let expected: Vec<_> = (0..n).map(|at| vec![at / 2 % 3, at]).collect();
        for (rank, all) in (0..).zip(all) {
            assert_eq!(all, (rank == to).then(|| expected.clone()));
        }
    }
    let errors = on_each(2, |runtime| {
        let empty = Store::<u64>::empty("numbers", 3);
        let missing = runtime.collect(&empty, |_| Rank(1), Rank(0)).unwrap_err();
        let full = Store::new("numbers", [1u64]);
        let nowhere = runtime.collect(&full, |_| Rank(1), Rank(7)).unwrap_err();
        let unowned = runtime.collect(&full, |_| Rank(2), Rank(0)).unwrap_err();
        let mine = runtime.rank();
        let unlike = runtime.collect(&full, |_| mine, Rank(0)).unwrap_err();
        assert_eq!(unlike.kind(), Kind::ParametersDiffer);
        let to = Rank(7 * mine.0);
        let apart = runtime.collect(&full, |_| Rank(0), to).unwrap_err();
        assert_eq!(apart.kind(), Kind::ParametersDiffer, "{apart}");
        [missing, nowhere, unowned, unlike].map(|error| error.to_string())
    });
    assert_eq!(errors[0], errors[1]);
    let [missing, nowhere, unowned, unlike] = &errors[0];
    assert!(
        missing.contains("Give { datum: 0 }") && missing.contains("numbers"),
        "{missing}"
    );
    assert!(nowhere.contains("data go to is rank 7"), "{nowhere}");
    assert!(unowned.contains("datum 0 is rank 2"), "{unowned}");
    assert!(unlike.contains("owners is"), "{unlike}");
}

/// Tasks in a row, each on the next rank; some have bodies that fail.
struct Ring<'a> {
    length: u64,
    n_ranks: u64,
    last: Store<Number>,
    body: &'a (dyn Fn(u64) -> Result<(), TaskError> + Sync),
}

impl<'a> Ring<'a> {
    fn new(
        runtime: &Runtime,
        length: u64,
        body: &'a (dyn Fn(u64) -> Result<(), TaskError> + Sync),
    ) -> Self {
        let (n_ranks, last) = (runtime.n_ranks() as u64, Store::empty("last", 1));
        Ring {
            length,
            n_ranks,
            last,
            body,
        }
    }
}

impl TaskSpace for Ring<'_> {
    type Task = u64;
    type Datum = Number;

    fn describe(&self, about: &mut Description) {
        about.name("ring").parameter("length", self.length);
        about.class("First").optional("BEFORE").new_flow("NUMBER");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u64> + Send {
        (0..self.length).filter(move |&task| self.rank(task) == on)
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if let Some(before) = task.checked_sub(1) {
            from.task(0, before, 1);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        match task + 1 < self.length {
            true => to.task(1, task + 1, 0),
            false => to.home(1, &self.last, 0),
        }
    }

    fn run(&self, task: u64, flows: &mut Flows<'_, Number>) -> Result<(), TaskError> {
        (self.body)(task)?;
        let [before, number] = flows.slots();
        number.put(Number(before.get().map_or(0, |before| before.0) + task));
        Ok(())
    }

    fn rank(&self, task: u64) -> Rank {
        Rank((task % self.n_ranks) as u32)
    }
}

/// One program had the rank of another, and a rank that nobody was waited for messages.
#[test]
fn transports_that_are_not_in_their_order_or_not_all_of_them_are_refused() {
    let launched = |ends: Vec<Local>| {
        let one = Runtime::builder().threads(1);
        let launched = dataflow::launch_over(one, ends, |runtime| Ok::<_, Error>(runtime.rank().0));
        launched.map_err(|error| (error.kind(), error.message().to_string()))
    };
    assert_eq!(launched(local::connect(3)), Ok(0));
    let mut turned = local::connect(3);
    turned.swap(1, 2);
    let mut too_few = local::connect(3);
    too_few.pop();
    for (ends, says) in [
        (
            turned,
            "transport 1 of the list is rank 2's of 3 (rank 1's of 3 is needed)",
        ),
        (
            too_few,
            "transport 0 of the list is rank 0's of 3 (rank 0's of 2 is needed)",
        ),
    ] {
        assert_eq!(launched(ends), Err((Kind::WrongSettings, says.to_string())));
    }
}

fn nothing(_: u64) -> Result<(), TaskError> {
    Ok(())
}

/// Adds up leaves.
struct Halves;

impl Recursive for Halves {
    type Argument = u64;
    type Value = u64;
    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        Ok(match n {
            1 => Call::Done(1),
            _ => Call::fork([n / 2, n - n / 2], |values| values.into_iter().sum()),
        })
    }
}

/// The name of each trace, and its ranks.
type Told = Vec<(String, Vec<u32>)>;

/// What rank 0 is told of what two ranks have recorded.
fn recorded(program: impl Fn(&Runtime) -> Result<(), Error> + Sync) -> Told {
    let traces = launch(ranks(2).trace(1 << 20), |runtime| {
        program(runtime)?;
        runtime.traces()
    });
    let told = |trace: Trace| {
        let ranks = trace.ranks.iter().map(|of| of.rank.0).collect();
        (trace.name, ranks)
    };
    traces.unwrap().into_iter().map(told).collect()
}

/// Runs that ranks had made alone were joined as if they were one, both as rank 0.
#[test]
fn runs_of_one_rank_alone_are_no_parts_of_a_run_of_several() {
    let two = |name| Independent::new(name, 2, |_| Ok(()));
    let alone = recorded(|runtime| runtime.run(&two("alone")).map(drop));
    assert_eq!(alone, [("alone".to_string(), vec![0])]);
    for preparing in [0, 1] {
        let told = recorded(|runtime| {
            if runtime.rank() == Rank(preparing) {
                runtime.run(&two("prepare"))?;
            }
            runtime.run_across(&Ring::new(runtime, 10, &nothing))?;
            runtime.run(&two("tidy up")).map(drop)
        });
        let all = [
            ("prepare", vec![0]),
            ("ring", vec![0, 1]),
            ("tidy up", vec![0]),
        ];
        let all = all.map(|(name, ranks)| (name.to_string(), ranks));
        assert_eq!(told, all[preparing as usize..]);
    }
}

#[test]
fn gathering_traces_leaves_none() {
    let taken = launch(ranks(2).trace(1 << 20), |runtime| {
        runtime.run_across(&Ring::new(runtime, 10, &nothing))?;
        Ok::<_, Error>([runtime.traces()?.len(), runtime.traces()?.len()])
    });
    assert_eq!(taken.unwrap(), [1, 0]);
}

/// Whatever a rank runs alone: a space, a program, a recorded one, a recursion.
#[test]
fn a_rank_s_own_trace_names_it() {
    launch(ranks(2).trace(1 << 20), |runtime| {
        runtime.run(&Independent::new("alone", 2, |_| Ok(())))?;
        runtime.scope(|s| (0..2).for_each(|_| s.task((), |()| ())))?;
        let store = Store::new("numbers", [0u64; 2]);
        let program = record("recorded", 1, |s| {
            let [a, b] = [0, 1].map(|at| s.home(&store, at, Rank(0)));
            s.task(write(&a), |a| *a += 1);
            s.task((read(&a), write(&b)), |(a, b)| *b += a);
        })?;
        program.run(runtime)?;
        recurse(&Halves, 8, runtime)?;
        let traces = runtime.tracer().expect("asked for").take();
        let names: Vec<_> = traces.iter().map(|trace| &trace.name[..]).collect();
        assert_eq!(names, ["alone", "sequence", "recorded", "recursion"]);
        for trace in &traces {
            let of = trace.ranks.iter().map(|of| of.rank).collect::<Vec<_>>();
            assert_eq!(of, [runtime.rank()], "{}", trace.name);
            assert!(!trace.is_across, "{}", trace.name);
        }
        let edges = |trace: &Trace| -> usize {
            trace.slices().map(|(at, _)| trace.inputs(at).count()).sum()
        };
        assert_eq!(edges(&traces[2]), 1, "who waited for whom is found");
        Ok::<_, Error>(())
    })
    .unwrap();
}

/// The other rank was not recorded when it began: what it has recorded is another run.
#[test]
fn traces_of_different_runs_are_not_joined_and_stay() {
    let told = launch(ranks(2).trace(1 << 20), |runtime| {
        let tracer = runtime.tracer().expect("asked for");
        tracer.set_on(runtime.rank() == Rank(0));
        runtime.run_across(&Ring::new(runtime, 10, &nothing))?;
        tracer.set_on(true);
        runtime.gather(vec![7])?;
        let told = runtime.traces().map(|traces| traces.len());
        Ok::<_, Error>((told, tracer.take().len()))
    });
    let (told, kept) = told.unwrap();
    let error = told.unwrap_err();
    assert_eq!(error.kind(), Kind::ParametersDiffer);
    let text = error.to_string();
    assert!(text.contains("is ring on rank 0"), "{text}");
    assert_eq!(kept, 2);
}

/// The first run of rank 0 was joined with the second of rank 1, and the second of rank 0 was lost.
#[test]
fn traces_of_two_runs_of_one_space_are_not_joined_and_stay() {
    let kept = Mutex::new(Vec::new());
    let told = launch(ranks(2).trace(1 << 20), |runtime| {
        let tracer = runtime.tracer().expect("asked for");
        for on in [runtime.rank() == Rank(0), true] {
            tracer.set_on(on);
            runtime.run_across(&Ring::new(runtime, 10, &nothing))?;
        }
        let told = runtime.traces().map(|traces| traces.len());
        let numbers = tracer.take().into_iter().map(|trace| trace.number);
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((runtime.rank(), numbers.collect::<Vec<_>>()));
        Ok::<_, Error>(told)
    });
    assert_eq!(told.unwrap().unwrap_err().kind(), Kind::ParametersDiffer);
    let mut kept = kept.into_inner().unwrap();
    kept.sort();
    let [(_, first), (_, second)] = &kept[..] else {
        panic!("{kept:?}");
    };
    assert_eq!((first.len(), &first[1..]), (2, &second[..]));
}

#[test]
fn a_number_goes_round_any_number_of_ranks() {
    for n_ranks in 1..=5 {
        let last = on_each(n_ranks, |runtime| {
            let ring = Ring::new(runtime, 100, &nothing);
            let report = runtime.run_across(&ring).unwrap();
            assert_eq!(report.tasks, ring.count(runtime.rank()));
            ring.last.get(0).map(|number| number.0)
        });
        let mut expected = vec![None; n_ranks];
        expected[99 % n_ranks] = Some(99 * 100 / 2);
        assert_eq!(last, expected);
    }
}

#[test]
fn a_failing_and_a_panicking_body_are_the_same_error_on_every_rank_and_the_next_run_works() {
    for task in [0, 7, 19] {
        let errors = on_each(3, |runtime| {
            let fails = move |at| match at == task {
                true => Err(TaskError::new("too_large", "as told").with_index(at)),
                false => Ok(()),
            };
            let failed = runtime
                .run_across(&Ring::new(runtime, 20, &fails))
                .unwrap_err();
            let panics = move |at| match at == task {
                true => panic!("as told"),
                false => Ok(()),
            };
            let panicked = runtime
                .run_across(&Ring::new(runtime, 20, &panics))
                .unwrap_err();
            let ring = Ring::new(runtime, 20, &nothing);
            runtime.run_across(&ring).unwrap();
            let told = |error: &Error| (error.name().to_string(), error.rank(), error.to_string());
            (told(&failed), failed.index(), told(&panicked))
        });
        assert_eq!(errors[0].0.0, "too_large");
        assert_eq!(errors[0].1, Some(task));
        assert_eq!(errors[0].2.0, "task_panicked");
        let rank = Rank((task % 3) as u32);
        assert_eq!((errors[0].0.1, errors[0].2.1), (Some(rank), Some(rank)));
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    }
}

/// That what had arrived could not be understood, it said.
#[test]
fn a_run_across_ranks_during_another_is_refused_for_what_it_is() {
    let refused = on_each(2, |runtime| {
        let (begin, begun) = channel();
        let (end, ended) = channel::<()>();
        let ended = Mutex::new(ended);
        let waits = |_| {
            begin.send(())?;
            ended.lock().unwrap().recv()?;
            Ok(())
        };
        let ring = Ring::new(runtime, 1, &waits);
        let refused = thread::scope(|scope| {
            let run = scope.spawn(|| runtime.run_across(&ring));
            let refused = (runtime.rank() == Rank(0)).then(|| {
                begun.recv().unwrap();
                let refused = runtime.gather(vec![7]);
                end.send(()).unwrap();
                refused.map_err(|error| error.kind())
            });
            run.join().unwrap().unwrap();
            refused
        });
        assert_eq!(runtime.gather(vec![7]).unwrap(), [[7], [7]]);
        refused
    });
    assert_eq!(refused, [Some(Err(Kind::NestedRun)), None]);
}

#[test]
fn ranks_that_differ_are_told_the_name_and_both_values() {
    let answers = on_each(3, |runtime| {
        let seed = if runtime.rank() == Rank(2) { "8" } else { "7" };
        let settings = [("n", "100".to_string()), ("seed", seed.to_string())];
        runtime.agree("example", &settings).unwrap_err()
    });
    for error in answers {
        assert_eq!(error.kind(), Kind::ParametersDiffer);
        let text = error.to_string();
        assert!(
            ["seed", "7", "8"].iter().all(|word| text.contains(word)),
            "{text}"
        );
    }
    let answers = on_each(2, |runtime| {
        let length = 20 + u64::from(runtime.rank().0);
        runtime
            .run_across(&Ring::new(runtime, length, &nothing))
            .unwrap_err()
            .to_string()
    });
    for text in answers {
        assert!(
            ["length", "20", "21"]
                .iter()
                .all(|word| text.contains(word)),
            "{text}"
        );
    }
}

#[test]
fn everybody_gathers_what_everybody_gave() {
    let gathered = on_each(4, |runtime| {
        let own = vec![runtime.rank().0 as u8; 1000 * runtime.rank().0 as usize];
        runtime.gather(own).unwrap()
    });
    for gathered in gathered {
        let lengths: Vec<_> = gathered.iter().map(Vec::len).collect();
        assert_eq!(lengths, [0, 1000, 2000, 3000]);
        assert!(gathered[3].iter().all(|&byte| byte == 3));
    }
}

#[test]
fn a_rank_that_comes_late_is_waited_for() {
    let tasks = on_each(2, |runtime| {
        if runtime.rank() == Rank(1) {
            std::thread::sleep(Duration::from_millis(300));
        }
        runtime
            .run_across(&Ring::new(runtime, 10, &nothing))
            .unwrap()
            .tasks
    });
    assert_eq!(tasks, [5, 5]);
}

#[test]
fn the_error_of_the_rank_that_left_is_returned_not_that_of_those_it_left() {
    for leaver in 0..3 {
        let lost = AtomicUsize::new(0);
        let answer = launch(ranks(3), |runtime| {
            if runtime.rank() == Rank(leaver) {
                return Err(Error::wrong_settings("rank gives up"));
            }
            let run = runtime.run_across(&Ring::new(runtime, 10, &nothing));
            let error = run.unwrap_err();
            lost.fetch_add(
                usize::from(error.kind() == Kind::RankLost),
                Ordering::SeqCst,
            );
            assert!(
                error.to_string().contains(&format!("rank {leaver}")),
                "{error}"
            );
            Err::<(), _>(error)
        });
        assert_eq!(answer.unwrap_err().kind(), Kind::WrongSettings);
        assert_eq!(lost.into_inner(), 2);
    }
}

/// Once rank 0 said that all was well.
#[test]
fn an_error_of_one_rank_is_an_error_of_all_though_rank_0_has_ended_well() {
    for failing in 0..3 {
        let answer = launch(ranks(3), |runtime| match runtime.rank() == Rank(failing) {
            true => Err(Error::wrong_settings("no space is left")),
            false => Ok(()),
        });
        assert_eq!(answer.unwrap_err().kind(), Kind::WrongSettings);
    }
}

#[test]
fn steps_are_repeated_until_every_rank_could_stop_and_are_counted() {
    for (limit, expected) in [(10, Some(4)), (4, Some(4)), (3, None), (0, None)] {
        let counted = on_each(3, |runtime| {
            let mut seen = Vec::new();
            let steps = runtime.repeat_until(limit, |number| {
                seen.push(number);
                Ok::<_, Error>(number > runtime.rank().0.into())
            });
            (steps.unwrap(), seen)
        });
        let seen: Vec<u64> = (0..limit.min(4)).collect();
        assert_eq!(counted, vec![(expected, seen); 3], "{limit}");
    }
}

#[test]
fn values_are_folded_from_the_lowest_rank_to_the_highest_on_every_rank() {
    let folded = on_each(4, |runtime| {
        let own = runtime.rank().0 + 1;
        runtime.all_reduce(own, |a, b| 10 * a + b).unwrap()
    });
    assert_eq!(folded, [1234; 4]);
}

#[test]
fn ranks_that_make_different_calls_are_told_both_by_name() {
    let told = on_each(2, |runtime| match runtime.rank() {
        Rank(0) => runtime.all_reduce(1_u64, |a, b| a + b).unwrap_err(),
        _ => runtime.gather(vec![7; 8]).unwrap_err(),
    });
    for error in told {
        let text = error.to_string();
        let names = ["all_reduce", "gather"];
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
    }
}

/// The lowest rank's word that another had failed was returned, as if that other were lost.
#[test]
fn the_error_of_a_step_is_returned_whichever_rank_it_failed_on() {
    type Any = Box<dyn std::error::Error + Send + Sync>;
    for failing in 0..3 {
        let told = Mutex::new(Vec::new());
        let answer = launch(ranks(3), |runtime| {
            let steps = runtime.repeat_until(10, |_| match runtime.rank() == Rank(failing) {
                true => Err(Any::from("NaN in block 7")),
                false => Ok(false),
            });
            steps.map(drop).inspect_err(|error| {
                if let Some(error) = error.downcast_ref::<Error>() {
                    told.lock().unwrap().push((error.kind(), error.to_string()));
                }
            })
        });
        assert_eq!(answer.unwrap_err().to_string(), "NaN in block 7");
        let text = format!("rank {failing} failed in step 0");
        let others = vec![(Kind::StepFailed, text); 2];
        assert_eq!(told.into_inner().unwrap(), others);
    }
}

/// Who had once heard of another's failure was taken for one that has no reason of its own.
#[test]
fn the_error_of_a_step_is_returned_also_if_ranks_went_on_after_another_one() {
    type Any = Box<dyn std::error::Error + Send + Sync>;
    let answer = launch(ranks(3), |runtime| {
        for (failing, text) in [(Rank(2), "it was borne"), (Rank(1), "and this was not")] {
            let steps = runtime.repeat_until(10, |_| match runtime.rank() == failing {
                true => Err(Any::from(text)),
                false => Ok(false),
            });
            if failing == Rank(1) {
                steps?;
            }
        }
        Ok::<_, Any>(())
    });
    assert_eq!(answer.unwrap_err().to_string(), "and this was not");
}

#[test]
#[should_panic(expected = "as told")]
fn a_program_that_panics_on_one_rank_panics_when_the_others_have_ended() {
    let _ = launch(ranks(3), |runtime| {
        assert!(runtime.rank() != Rank(1), "as told");
        runtime
            .run_across(&Ring::new(runtime, 10, &nothing))
            .map(drop)
    });
}

#[test]
fn a_runtime_of_several_ranks_is_launched_not_built() {
    let error = ranks(2).build().unwrap_err();
    assert!(error.to_string().contains("launch"), "{error}");
    assert_eq!(ranks(0).build().unwrap_err().kind(), Kind::WrongSettings);
}

/// No ranks over sockets ran the program as rank 0 of 0; too many as threads asked for a terabyte.
#[test]
fn no_ranks_and_more_than_there_is_room_for_are_refused() {
    let nobody = launch(ranks(0), |_| Ok::<_, Error>(())).unwrap_err();
    for transport in [Transport::Local, Transport::Tcp, Transport::Mpi] {
        let asked = ranks(0).transport(transport);
        let error = launch(asked, |_| Ok::<_, Error>(())).unwrap_err();
        assert_eq!(error.to_string(), nobody.to_string(), "{transport:?}");
    }
    for n_ranks in [Local::MOST + 1, 100_000, usize::MAX] {
        let error = launch(ranks(n_ranks), |_| Ok::<_, Error>(())).unwrap_err();
        assert_eq!(error.kind(), Kind::WrongSettings);
        let expected = format!("{n_ranks} ranks as threads of one process (at most 1024)");
        assert!(error.to_string().contains(&expected), "{error}");
    }
    let asked = ranks(usize::MAX).transport(Transport::Tcp);
    let error = launch(asked, |_| Ok::<_, Error>(())).unwrap_err();
    assert!(error.to_string().contains("at most 4294967295"), "{error}");
}

/// Under a launcher each process built a runtime of one rank, and did all the work.
#[test]
fn a_transport_to_others_is_launched_not_built() {
    for transport in [Transport::Mpi, Transport::Tcp, Transport::Own] {
        let error = ranks(1).transport(transport).build().unwrap_err();
        assert_eq!(error.kind(), Kind::WrongSettings);
        let text = error.to_string();
        let expected = format!("the transport {transport:?} (");
        assert!(
            text.contains(&expected) && text.contains("launch"),
            "{text}"
        );
    }
    ranks(1).transport(Transport::Local).build().unwrap();
}

/// Each process was all ranks there are: three hosts had done all the work three times.
#[test]
fn a_seat_is_never_left_empty() {
    let hosts = ["127.0.0.1:4000", "127.0.0.1"].map(String::from);
    let token = Token::random().expect("a token");
    let seat = Seat::among(&hosts, Rank(1), token).expect("a seat");
    let seated = || Runtime::builder().threads(1).seat(seat.clone());
    let refused = |error: Error| {
        assert_eq!(error.kind(), Kind::WrongSettings);
        let text = error.to_string();
        assert!(text.contains("seat as rank 1 of 2"), "{text}");
    };
    refused(seated().build().unwrap_err());
    for transport in [Transport::Local, Transport::Mpi, Transport::Own] {
        let asked = || seated().transport(transport);
        refused(asked().count_ranks().unwrap_err());
        refused(launch(asked(), |_| Ok::<_, Error>(())).unwrap_err());
    }
    let sockets = seated().transport(Transport::Tcp);
    assert_eq!(sockets.count_ranks().unwrap(), 2);
}

/// One that was asked for could not be told from none, and as many as were started ran.
#[test]
fn another_number_of_ranks_than_a_launcher_has_started_is_refused_one_included() {
    let name = "another_number_of_ranks_than_a_launcher_has_started_is_refused_one_included";
    if env::var_os(CHILD).is_some() {
        let unsaid = Runtime::builder().threads(1);
        println!("\nunsaid: {:?}", unsaid.count_ranks().ok());
        for asked in 1..=3 {
            match (ranks(asked).count_ranks(), asked) {
                (counted, 2) => println!("\nasked for 2: {:?}", counted.ok()),
                (counted, _) => println!("\ncounted: {}", counted.unwrap_err()),
            }
        }
        let launched = launch(ranks(1), |_| Ok::<_, Error>(()));
        return println!("\nlaunched: {}", launched.unwrap_err());
    }
    let mut program = Command::new(env::current_exe().expect("this program"));
    program.args(["--exact", name, "--nocapture"]);
    program.env(CHILD, "1");
    program.envs([("PMI_RANK", "0"), ("PMI_SIZE", "2")]);
    program.envs([("MPI_LOCALRANKID", "0"), ("MPI_LOCALNRANKS", "2")]);
    let ended = program.output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stdout);
    let there = "and 2 were started by a launcher or by hand";
    for line in [
        "unsaid: Some(2)".to_string(),
        format!("counted: 1 rank was asked for, {there}"),
        "asked for 2: Some(2)".into(),
        format!("counted: 3 ranks were asked for, {there}"),
        format!("launched: 1 rank was asked for, {there}"),
    ] {
        assert!(said.contains(&format!("\n{line}")), "{line} of {said}");
    }
}

/// Seats by hand, too.
#[test]
fn another_number_of_ranks_than_there_are_seats_is_refused_one_included() {
    let hosts = ["127.0.0.1:4000", "127.0.0.1"].map(String::from);
    let seat = Seat::among(&hosts, Rank(1), Token::random().unwrap()).unwrap();
    let launched = launch(ranks(1).seat(seat), |_| Ok::<_, Error>(()));
    let text = launched.unwrap_err().to_string();
    assert!(
        text.contains("1 rank was asked for, and 2 were started by"),
        "{text}"
    );
}

/// Each would have all cores of its machine otherwise, and what memory it has.
#[test]
fn ranks_by_hand_at_one_address_share_its_machine() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let hosts = [free.unwrap().to_string(), "127.0.0.1".into()];
    let token = Token::random().unwrap();
    let n_here = |rank| {
        let seat = Seat::among(&hosts, Rank(rank), token).unwrap();
        let seated = Runtime::builder().threads(1).seat(seat);
        launch(seated, |runtime| Ok::<_, Error>(runtime.n_ranks_here())).unwrap()
    };
    thread::scope(|ranks| {
        let other = ranks.spawn(|| n_here(1));
        assert_eq!((n_here(0), other.join().unwrap()), (2, 2));
    });
}

/// The third of two had the first one's cores.
#[test]
fn a_local_rank_that_is_not_among_those_it_counts_is_refused() {
    for (rank, n_ranks) in [(2, 2), (0, 0)] {
        let end = local::connect(1).remove(0);
        let local = LocalRank { rank, n_ranks };
        let error = ranks(1).build_over(local, Box::new(end)).unwrap_err();
        assert_eq!(error.kind(), Kind::WrongSettings);
        let text = error.to_string();
        assert!(
            text.contains(&format!("rank {rank} of {n_ranks}")),
            "{text}"
        );
    }
}

/// The part that the launcher's variables name was divided once more.
#[test]
fn a_rank_over_a_transport_of_ones_own_gets_the_part_that_it_says_and_no_part_of_that() {
    let name = "a_rank_over_a_transport_of_ones_own_gets_the_part_that_it_says_and_no_part_of_that";
    let cores = Topology::of_this_process().n_cores();
    if env::var_os(CHILD).is_some() {
        let alone = LocalRank {
            rank: 0,
            n_ranks: 1,
        };
        let end = local::connect(1).remove(0);
        let runtime = Runtime::builder().build_over(alone, Box::new(end)).unwrap();
        println!("{} workers", runtime.n_threads());
        return;
    }
    let mut program = Command::new(env::current_exe().expect("this program"));
    program
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1");
    let of_two = [("MPI_LOCALRANKID", "0"), ("MPI_LOCALNRANKS", "2")];
    let ended = program.envs(of_two).output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.contains(&format!("{cores} workers")), "{said}");
}

/// What a program that calls `Runtime::new` says with a variable of the environment.
fn said_with(variable: &str, value: &str) -> String {
    let name = "a_runtime_heeds_the_environment_or_says_what_is_wrong";
    let mut program = Command::new(env::current_exe().expect("this program"));
    program.args(["--exact", name, "--nocapture"]);
    let ended = program.env(CHILD, "1").env(variable, value).output();
    String::from_utf8_lossy(&ended.expect("it starts").stdout).into_owned()
}

/// Which of the errors that may be wrong with a variable it is.
fn type_of(source: Option<&(dyn std::error::Error + 'static)>) -> &'static str {
    match source.expect("what is wrong") {
        source if source.is::<ParseIntError>() => "ParseIntError",
        source if source.is::<UnknownBind>() => "UnknownBind",
        source if source.is::<UnknownPolicy>() => "UnknownPolicy",
        source if source.is::<WriteError>() => "WriteError",
        _ => "another",
    }
}

const CHILD: &str = "DATAFLOW_TEST_CHILD";

/// All wrote the same file at once.
#[test]
fn of_the_processes_of_a_launcher_only_rank_0_leaves_the_page_of_its_own_runtime() {
    let name = "of_the_processes_of_a_launcher_only_rank_0_leaves_the_page_of_its_own_runtime";
    if env::var_os(CHILD).is_some() {
        let runtime = Runtime::new().unwrap();
        runtime
            .run(&Independent::new("nothing", 3, |_| Ok(())))
            .unwrap();
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (rank, leaves) in [("0", true), ("1", false)] {
        let page = folder.join(format!("page-of-rank-{rank}.html"));
        std::fs::remove_file(&page).ok(); // of an earlier run of this test
        let mut program = Command::new(env::current_exe().unwrap());
        program.args(["--exact", name]).env(CHILD, "1");
        program
            .env("DATAFLOW_TRACE", &page)
            .env("DATAFLOW_THREADS", "1");
        program.envs([("PMI_RANK", rank), ("PMI_SIZE", "2")]);
        program.envs([("MPI_LOCALRANKID", rank), ("MPI_LOCALNRANKS", "2")]);
        let output = program.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(page.exists(), leaves, "rank {rank}");
    }
}

#[test]
fn a_runtime_heeds_the_environment_or_says_what_is_wrong() {
    if env::var_os(CHILD).is_some() {
        return match Runtime::new() {
            Ok(runtime) => println!("{} workers", runtime.n_threads()),
            Err(error) => println!("{error} because of {}", type_of(error.source())),
        };
    }
    let said = said_with("DATAFLOW_THREADS", "3");
    assert!(said.contains("3 workers"), "{said}");
    for (variable, value, told, source) in [
        (
            "DATAFLOW_THREADS",
            "0",
            "DATAFLOW_THREADS is \"0\"",
            "ParseIntError",
        ),
        ("DATAFLOW_POLICY", "zzz", "DATAFLOW_POLICY", "UnknownPolicy"),
        ("DATAFLOW_BIND", "zzz", "DATAFLOW_BIND", "UnknownBind"),
        ("DATAFLOW_TRACE", "a.zzz", "DATAFLOW_TRACE", "WriteError"),
        (
            "DATAFLOW_TRACE",
            "/nowhere/a.svg",
            "No such file",
            "WriteError",
        ),
        (
            "DATAFLOW_TRACE",
            "/dev/null/a.svg",
            "ot a directory",
            "WriteError",
        ),
    ] {
        let said = said_with(variable, value);
        let parts = [told, value, "because of", source];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

/// It was told when all had been computed.
#[test]
fn a_page_that_cannot_be_written_is_refused_before_a_program_begins_and_an_old_one_stays() {
    let name =
        "a_page_that_cannot_be_written_is_refused_before_a_program_begins_and_an_old_one_stays";
    if env::var_os(CHILD).is_some() {
        let begun = |_: &Runtime| {
            println!("\nbegun");
            Ok::<_, Error>(())
        };
        let two = || Runtime::builder().threads(1).ranks(2);
        let answers = [
            launch(two(), begun),
            launch(two().transport(Transport::Tcp), begun),
            dataflow::launch_over(two(), local::connect(2), begun),
        ];
        answers
            .iter()
            .for_each(|answer| println!("\nanswer: {answer:?}"));
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(folder.join("folder.html")).unwrap();
    let old = folder.join("old.html");
    std::fs::write(&old, "old").unwrap();
    for (page, refused) in [("folder.html", 3), ("no/a.html", 3), ("old.html", 0)] {
        let mut program = Command::new(env::current_exe().unwrap());
        program.args(["--exact", name, "--nocapture"]);
        program.env(CHILD, "1").env("DATAFLOW_TRACE", page);
        let output = program.current_dir(&folder).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        let lines = |part: &str| told.lines().filter(|line| line.contains(part)).count();
        let because = format!("DATAFLOW_TRACE: {page}: ");
        assert_eq!(lines(&because), refused, "{output:?}");
        assert_eq!(lines("begun") == 0, refused > 0, "{output:?}");
    }
    assert_eq!(std::fs::read_to_string(old).unwrap(), "old");
    let names = std::fs::read_dir(folder).unwrap();
    assert_eq!(names.count(), 2, "nothing is left beside them");
}

/// What a rank returns, that panics as it goes.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// Two panics at once ended the process.
#[test]
fn a_rank_that_panics_is_the_panic_of_the_launch_whatever_the_others_returned() {
    let launched = catch_unwind(|| {
        launch(ranks(4), |runtime| match runtime.rank() {
            Rank(2) => panic!("rank 2 panics"),
            _ => Ok::<_, Error>(Bomb),
        })
    });
    let panic = launched.map(mem::forget).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"rank 2 panics"));
}
