//! How tasks of a trace are shown, and why they waited.

use super::*;

/// The parent alone bounded the run: by 40, the time of all that its children do on one worker.
#[test]
fn what_nested_tasks_take_is_no_time_of_their_parents() {
    let slice = |task: u64, class, begin, end| Slice {
        task,
        class,
        span: Span { begin, end },
        ..Slice::default()
    };
    let children = (1..=4).map(|task| slice(task, 1, 10 * (task - 1), 10 * task));
    let nested = std::iter::once(slice(0, 0, 0, 40))
        .chain(children)
        .collect();
    let span = Span { begin: 0, end: 40 };
    let rank = RankTrace::new(Rank(0), span, vec![nested, Vec::new()]);
    let told = Trace::new("nested", ["Parent", "Child"], vec![rank]).explanation();
    assert_eq!((told.limits.area, told.limits.path), (20, 10), "{told}");
    assert_eq!(told.efficiency, 0.5);
    assert_eq!(told.chains[0], (10, told.chains[0].1.clone()));
    assert!(told.chains[0].1.starts_with("Child"), "{told}");
    assert!(!told.verdict().contains("Parent"), "{told}");
}

/// The name of a task is asked of the space, which lists it: this one does not.
#[test]
fn a_task_that_ran_though_no_one_lists_it_is_shown_by_its_number() {
    dataflow_core::task_names! { enum Named { A { i }, B { i, j, k } } }
    const WIDE: Named = Named::B {
        i: u32::MAX,
        j: 0,
        k: 0,
    };
    struct Unlisted;
    impl TaskSpace for Unlisted {
        type Task = Named;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("unlisted").class("A").order("OUT");
            about.class("B").order("IN");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = Named> + Send {
            std::iter::once(Named::A { i: 0 })
        }
        fn inputs(&self, task: Named, from: &mut impl Inputs<Self>) {
            if task == WIDE {
                from.task(0, Named::A { i: 0 }, 0);
            }
        }
        fn successors(&self, task: Named, to: &mut impl Successors<Self>) {
            if task != WIDE {
                to.task(0, WIDE, 0);
            }
        }
        fn run(&self, _: Named, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let (result, trace) = traced(&Unlisted, &Inline);
    assert_eq!(result.unwrap_err().kind(), Kind::CountExceeded);
    keeps_the_laws(&trace);
    let (at, slice) = trace.slices().last().unwrap();
    assert_eq!(trace.shown(at), format!("B {}", slice.task));
    assert!(trace.parameters_of(at).is_empty());
    assert_eq!(trace.slices().count(), 2);
}

#[test]
fn the_last_input_is_the_one_that_was_there_last() {
    let (_, trace) = traced(&Cholesky::new(sizes::TILES, (1, 1)), &Shuffled::new(7));
    for (at, slice) in trace.slices() {
        let ends = trace.inputs(at).map(|input| trace.slice(input).span.end);
        let last = trace
            .last_input(at)
            .map(|input: At| trace.slice(input).span.end);
        assert_eq!(last, ends.max());
        assert!(last.is_none_or(|last| last == slice.ready));
    }
}

#[test]
fn a_worker_alone_is_never_idle_between_tasks_that_wait() {
    let (_, trace) = traced(&Cholesky::new(sizes::TILES, (1, 1)), &Inline);
    let first = trace.slices().next().unwrap().1.span.begin;
    let last = trace.ranks[0].slices.last().unwrap().span.end;
    for activity in trace.activities(0, 0) {
        let between = activity.span.begin >= first && activity.span.end <= last;
        let idle = matches!(
            activity.doing,
            Doing::Idle(Cause::Policy | Cause::DataUnderWay)
        );
        assert!(!(between && idle), "{activity:?}");
    }
}

#[test]
fn spaces_show_their_tasks_and_iterations() {
    let (_, trace) = traced(&Cholesky::new(3, (1, 1)).fresh(), &Inline);
    assert_eq!(trace.name, "cholesky shape");
    assert_eq!(trace.parameters, [("nt".to_string(), "3".to_string())]);
    let first = trace.slices().next().unwrap().0;
    assert_eq!(
        (trace.shown(first), trace.iteration(first)),
        ("Potrf { k: 0 }".into(), Some(0))
    );
}
