//! What is asked of a space for a report, and how much is named.

use super::*;

/// A task with so many inputs, each from a task of its own.
struct Funnel {
    inputs: u64,
    /// This one feeds a flow that the last task names as another's.
    astray: Option<u64>,
    /// This one feeds its flow twice.
    twice: Option<u64>,
    asked: AtomicU32,
}

impl TaskSpace for Funnel {
    type Task = u64;
    type Datum = ();
    fn describe(&self, about: &mut Description) {
        let mut class = about.name("funnel").class("Task");
        for flow in 0..self.inputs {
            class = class.order(&format!("IN{flow}"));
        }
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..=self.inputs
    }
    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task == self.inputs {
            self.asked.fetch_add(1, Relaxed);
            (0..self.inputs).for_each(|source| from.task(source as usize, source, 0));
        }
    }
    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task < self.inputs {
            let flow = if self.astray == Some(task) { 0 } else { task };
            for _ in 0..1 + u32::from(self.twice == Some(task)) {
                to.task(0, self.inputs, flow as usize);
            }
        }
    }
    fn roots(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.inputs
    }
    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        match task {
            9 if self.inputs == 21 => Err("as told".into()),
            _ => Ok(()),
        }
    }
}

/// The space was asked for all inputs of a task at each arrival: forty thousand took 0.8 s.
#[test]
fn a_task_with_many_inputs_is_asked_for_them_a_few_times() {
    let funnel = |inputs, astray, twice| Funnel {
        inputs,
        astray,
        twice,
        asked: AtomicU32::new(0),
    };
    for (_, on) in executors() {
        for inputs in [
            2,
            7,
            8,
            9,
            14,
            15,
            16,
            17,
            40,
            if cfg!(miri) { 50 } else { 3000 },
        ] {
            let space = funnel(inputs, None, None);
            assert_eq!(run(&space, &*on).unwrap().tasks, inputs + 1);
            // One more for the data from home, and some when two workers learn at once.
            let asked = space.asked.into_inner();
            assert!(asked <= 20, "{asked} times of {inputs} inputs");
        }
        let failed = run(&funnel(21, None, None), &*on).unwrap_err();
        assert_eq!(failed.task(), Some("9"));
        for task in [3, 14, 15, 16, 39] {
            let astray = run(&funnel(40, Some(task), None), &*on).unwrap_err();
            assert_eq!(astray.kind(), Kind::NotExpected, "{astray}");
            let twice = run(&funnel(40, None, Some(task)), &*on).unwrap_err();
            assert_eq!(twice.kind(), Kind::FedTwice, "{twice}");
        }
    }
}

/// One input of each of ten thousand was missing, and each was named: 558 kB.
#[test]
fn a_stall_names_a_few_missing_inputs_and_counts_the_rest() {
    struct Short {
        inputs: u64,
    }
    impl TaskSpace for Short {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            let mut class = about.name("short").class("Task");
            for flow in 0..self.inputs {
                class = class.order(&format!("IN{flow}"));
            }
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..2
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            if task == 1 {
                (0..self.inputs).for_each(|flow| from.task(flow as usize, flow * 2, 0));
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            if task == 0 {
                to.task(0, 1, 0);
            }
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    for inputs in [5, 500] {
        let stalled = run(&Short { inputs }, &Inline).unwrap_err();
        let text = stalled.to_string();
        assert_eq!(stalled.kind(), Kind::Stalled);
        assert!(text.contains("IN1 from 2") && text.len() < 1000, "{text}");
        assert_eq!(
            text.contains("and 491 more inputs"),
            inputs == 500,
            "{text}"
        );
    }
}

#[test]
fn of_many_that_wait_the_first_by_name_are_told_and_the_others_counted() {
    /// Task 0 feeds each of nine others, which wait for tasks that there are none of, too.
    struct Starved;
    impl TaskSpace for Starved {
        type Task = u64;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.class("Task").order("FED").order("UNFED");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..10
        }
        fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
            if task > 0 {
                from.task(0, 0, 0);
                from.task(1, 20 + task, 0);
            }
        }
        fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
            // In an order that is not that of their names.
            for other in [5, 9, 2, 7, 1, 8, 3, 6, 4]
                .into_iter()
                .filter(|_| task == 0)
            {
                to.task(0, other, 0);
            }
        }
        fn run(&self, _: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let stalled = run(&Starved, &Inline).unwrap_err();
    let (text, task) = (stalled.to_string(), stalled.task());
    assert_eq!(stalled.kind(), Kind::Stalled, "{text}");
    assert_eq!(task, Some("1"), "{text}");
    let places: Vec<_> = [
        "; 1 waits for",
        "; 2 waits for",
        "; 3 waits for",
        "; and 6 more wait",
    ]
    .into_iter()
    .map(|part| text.find(part))
    .collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{text}"
    );
}
