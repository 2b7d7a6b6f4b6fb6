//! Ranks that call different things are told what differs, by all of them.

use dataflow::core::error::Kind;
use dataflow::core::recursion::{Call, Recursive};
use dataflow::core::space::Independent;
use dataflow::prelude::*;
use dataflow::sequence::record::record;
use dataflow::{Error, TaskError};
use std::sync::{Mutex, PoisonError};

/// What two ranks, which know whether they are the second, have got.
fn on_both<R: Send>(program: impl Fn(&Runtime, bool) -> R + Sync) -> [R; 2] {
    let answers = Mutex::new([None, None]);
    launch(Runtime::builder().threads(1).ranks(2), |runtime| {
        let Rank(rank) = runtime.rank();
        let answer = program(runtime, rank == 1);
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers[rank as usize] = Some(answer);
        Ok::<_, Error>(())
    })
    .unwrap();
    answers.into_inner().unwrap().map(Option::unwrap)
}

/// Adds up leaves, of halves.
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

/// Adds up leaves, of parts so many at a time.
struct Parts(u64);

impl Recursive for Parts {
    type Argument = u64;
    type Value = u64;
    fn call(&self, n: u64) -> Result<Call<Self>, TaskError> {
        Ok(match n {
            0..9 => Call::Done(n),
            _ => Call::fork(vec![n / self.0; self.0 as usize], |values| {
                values.into_iter().sum()
            }),
        })
    }
}

/// Trees of another argument, with a top of the same shape, were joined with one another: 5,120 of 4,096
/// and 6,144.
#[test]
fn a_recursion_that_differs_between_ranks_ends_with_what_differs() {
    let told = |program: fn(&Runtime, bool) -> Result<u64, Error>| {
        let answers = on_both(program);
        let [Err(one), Err(other)] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!(one.kind(), Kind::ParametersDiffer, "{one}");
        assert_eq!(one.message(), other.message());
        one.message().to_string()
    };
    let argument = told(|runtime, differs| {
        let n = if differs { 6144 } else { 4096 };
        Ok(runtime.recurse(&Halves, n)?.0)
    });
    assert!(
        argument.contains("argument is 4096 on rank 0 and 6144 on rank 1"),
        "{argument}"
    );
    let problem = told(|runtime, differs| match differs {
        true => Ok(runtime.recurse(&Parts(3), 4096)?.0),
        false => Ok(runtime.recurse(&Halves, 4096)?.0),
    });
    let [halves, parts] = ["Halves on rank 0", "Parts on rank 1"];
    assert!(
        problem.contains(halves) && problem.contains(parts),
        "{problem}"
    );
    let shape = told(|runtime, differs| {
        let by = if differs { 4 } else { 3 };
        Ok(runtime.recurse(&Parts(by), 4096)?.0)
    });
    assert!(shape.contains("at the top is"), "{shape}");
    let run = told(|runtime, differs| match differs {
        true => {
            let ring = Independent::new("ring", 10, |_| Ok(()));
            Ok(runtime.run_across(&ring.across(2))?.tasks)
        }
        false => Ok(runtime.recurse(&Halves, 4096)?.0),
    });
    assert!(
        run.contains("recursion on rank 0 and ring on rank 1"),
        "{run}"
    );
}

/// The bits of an integer were taken for a floating-point number, and the run ended well.
#[test]
fn ranks_whose_data_are_of_different_types_are_told_both() {
    fn doubles<D: Wire + std::ops::MulAssign>(runtime: &Runtime, [one, two]: [D; 2]) -> String {
        let store = Store::new("numbers", [one, two]);
        let program = record("doubles", 2, |r| {
            let [a, b] = [0, 1].map(|at| r.home(&store, at, Rank(at as u32)));
            r.task(write(&a), |_| ());
            r.task((read(&a), write(&b)), |(a, b)| *b *= a.clone());
        });
        let ended = program.and_then(|program| runtime.replay(&program));
        ended.map_or_else(|error| error.to_string(), |_| "well".into())
    }
    let told = on_both(|runtime, differs| match differs {
        false => doubles(runtime, [3u64, 4]),
        true => doubles(runtime, [3.0f64, 4.0]),
    });
    let text = "datum is u64 (8 bytes) on rank 0 and f64 (8 bytes) on rank 1";
    assert_eq!(told, [text; 2]);
}
