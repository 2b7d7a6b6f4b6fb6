//! Schedulers that lose tasks, double them, hold them back or panic.

use super::*;

/// Each with a part of what is said of it.
const FAULTS: [(Fault, &str); 9] = [
    (Fault::Loses, "lost 1 ready task:"),
    (Fault::Doubles, "handed out a task twice"),
    (Fault::LosesAndDoubles, ""),
    (Fault::HoldsBack, "holds 1 ready task back"),
    (Fault::PanicsInPush, "panicked in push: no room"),
    (Fault::PanicsInTake, "panicked in take: cannot choose"),
    (Fault::PanicsInIsEmpty, "panicked in is_empty: cannot count"),
    (Fault::PanicsInOpen, "panicked in open: no queues today"),
    (Fault::PanicsInName, "panicked in name: forgotten"),
];

/// A scheduler that lost a task made the run hang; one that doubled one hung with two workers, or
/// ran its body twice; one that did both ran as if all were well, with wrong results; one that
/// panicked in `is_empty` ended the process; one that panicked in `open` unwound through the run.
#[test]
fn a_scheduler_that_loses_doubles_or_panics_fails_the_run_by_its_name() {
    for n_workers in [1, 2] {
        for (fault, text) in FAULTS {
            let builder = Workers::builder().n_workers(n_workers).bind(Bind::None);
            let policy = Policy::custom(Arc::new(Faulty(fault)));
            let workers = builder.policy(policy).build().unwrap();
            let runs: Vec<_> = (0..=20).map(|_| AtomicU64::new(0)).collect();
            let space = Fan {
                wide: 20,
                priority: |_| 1,
                body: |task: u64| {
                    runs[task as usize].fetch_add(1, Ordering::Relaxed);
                },
            };
            match run(&space, &workers) {
                // Nobody may have asked before all was done.
                Ok(report) => assert_eq!((fault, report.tasks), (Fault::PanicsInIsEmpty, 21)),
                Err(error) => {
                    assert_eq!(error.kind(), Kind::SchedulerFailed, "{fault:?}: {error}");
                    let whole = error.to_string();
                    let name = if fault == Fault::PanicsInName {
                        "?"
                    } else {
                        "faulty"
                    };
                    let named = whole.starts_with(&format!("scheduler {name:?} "));
                    assert!(named && whole.contains(text), "{whole}");
                }
            }
            let twice = runs.iter().any(|n| n.load(Ordering::Relaxed) > 1);
            assert!(!twice, "{fault:?}: no body runs twice");
            // The same workers with another run: it has its own queues.
            let again = run(&space, &workers);
            assert!(again.is_err() || fault == Fault::PanicsInIsEmpty);
        }
    }
}

/// In virtual time it went round for ever, or left tasks out as if all were well.
#[test]
fn a_scheduler_that_loses_doubles_or_panics_fails_a_simulation_by_its_name() {
    let machine = Topology::made_of(&[2, 2], |from, to| 10 + 10 * from.abs_diff(to) as u32);
    let costs = Costs {
        classes: vec![1e-3; 2],
        initialise: 0.0,
        bytes: 0,
        remote_byte: 0.0,
        round: 1e-6,
        ties: Ties::First,
    };
    let space = Fan {
        wide: 20,
        priority: |_| 1,
        body: |_| (),
    };
    for n_workers in [1, 2, 4] {
        for (fault, text) in FAULTS {
            let policy = Policy::custom(Arc::new(Faulty(fault)));
            let places = Bind::Cores.places(&machine, n_workers);
            let run = simulate(&space, &machine, &places, &policy, &costs);
            match run {
                // One worker alone has no reason to ask.
                Ok(run) if n_workers == 1 => {
                    assert_eq!((fault, run.tasks), (Fault::PanicsInIsEmpty, 21));
                }
                Err(SimulateError::SchedulerFailed { what }) => {
                    let is_named = what.starts_with("scheduler ");
                    assert!(is_named && what.contains(text), "{what}");
                }
                run => panic!("{fault:?}: {run:?}"),
            }
        }
    }
}

/// Of many workers that ask again and again one is nearly always at the queues: it was found out only when none
/// was.
#[test]
fn a_scheduler_that_holds_a_task_back_fails_a_run_of_many_workers_within_seconds() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let builder = Workers::builder().n_workers(16).bind(Bind::None);
        let policy = Policy::custom(Arc::new(Faulty(Fault::HoldsBack)));
        let workers = builder.policy(policy).build().unwrap();
        let space = Fan {
            wide: 40,
            priority: |_| 1,
            body: |_| (),
        };
        tell.send(run(&space, &workers).unwrap_err().to_string())
    });
    let failed = told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(failed.contains("holds 1 ready task back"), "{failed}");
}

/// The worker that came upon it last thought that it had a bug, and ended the process.
#[test]
fn a_scheduler_whose_queues_panic_as_they_are_dropped_has_run_everything() {
    #[derive(Debug)]
    struct Brittle;

    impl Scheduler for Brittle {
        fn name(&self) -> &str {
            "brittle"
        }
        fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
            Box::new(BrittlePile(Mutex::default()))
        }
    }

    struct BrittlePile(Mutex<Vec<Ready>>);

    impl ReadyQueue for BrittlePile {
        fn push(&self, _: usize, task: Ready) {
            self.0.lock().unwrap().push(task);
        }
        fn take(&self, _: usize) -> Option<Ready> {
            self.0.lock().unwrap().pop()
        }
        fn is_empty(&self) -> bool {
            self.0.lock().unwrap().is_empty()
        }
    }

    impl Drop for BrittlePile {
        fn drop(&mut self) {
            panic!("broken");
        }
    }

    let builder = Workers::builder().n_workers(2).bind(Bind::None);
    let policy = Policy::custom(Arc::new(Brittle));
    let workers = builder.policy(policy).build().unwrap();
    let tasks = Independent::new("tasks", 20, |_| Ok(()));
    for _ in 0..20 {
        assert_eq!(run(&tasks, &workers).unwrap().tasks, 20);
    }
}

#[test]
fn a_faulty_scheduler_fails_sequences_and_recursions_too() {
    let policy = Policy::custom(Arc::new(Faulty(Fault::Loses)));
    let builder = Workers::builder().n_workers(2).bind(Bind::None);
    let workers = builder.policy(policy).build().unwrap();
    let failed = dataflow_core::sequence::scope(&workers, |s| {
        (0..20).for_each(|_| s.task((), |()| ()));
    });
    assert_eq!(failed.unwrap_err().kind(), Kind::SchedulerFailed);
}

/// Who loses a task, or keeps it, is found out when nobody is at the queues: a program that waits for
/// a datum stays there, and waited for ever.
#[test]
fn a_program_that_waits_for_a_task_that_its_scheduler_does_not_give_out_is_told() {
    for n_workers in [1, 2] {
        for fault in [Fault::Loses, Fault::HoldsBack, Fault::PanicsInTake] {
            let policy = Policy::custom(Arc::new(Faulty(fault)));
            let builder = Workers::builder().n_workers(n_workers).bind(Bind::None);
            let workers = builder.policy(policy).build().unwrap();
            let failed = dataflow_core::sequence::scope(&workers, |s| {
                let data = s.handles([0; 20]);
                for n in &data {
                    s.task(dataflow_core::sequence::write(n), |n| *n += 1);
                }
                data.iter().map(|n| s.wait(n, |n| *n)).collect::<Vec<_>>()
            });
            let error = failed.unwrap_err();
            assert_eq!(error.kind(), Kind::SchedulerFailed, "{fault:?}: {error}");
        }
    }
}

/// The worker of the program kept for itself what was inserted, and what became ready while it waited; then
/// the program waited for that by other means, and another worker could have run it.
#[test]
fn what_a_scope_s_program_inserts_or_makes_ready_is_for_all_however_many_a_worker_keeps() {
    const LONG: Duration = Duration::from_secs(10);
    let workers = workers(&in_a_row("program", &[2]), "distance,keep=3");
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    let hears = || told.lock().unwrap().recv_timeout(LONG);
    let (inserted, _) = scope(&workers, |s| {
        let (busy, free) = mpsc::channel::<()>();
        let (begun, number) = (tell.clone(), s.handle(0));
        s.task((), move |()| {
            begun.send("inserted").unwrap();
            free.recv_timeout(LONG).ok();
        });
        let inserted = hears();
        s.task(write(&number), |number| *number = 1);
        for _ in 0..3 {
            let tell = tell.clone();
            s.task(read(&number), move |_| tell.send("made ready").unwrap());
        }
        // The other worker is busy: this one runs the task and makes three ready.
        let found = s.wait(&number, |number| *number);
        drop(busy);
        let made_ready = [(); 3].map(|()| hears());
        assert_eq!((found, made_ready), (Some(1), [Ok("made ready"); 3]));
        inserted
    })
    .unwrap();
    assert_eq!(inserted, Ok("inserted"));
}
