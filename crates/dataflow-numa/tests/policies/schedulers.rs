//! Schedulers of the user's own.

use super::*;

/// The least urgent first.
#[derive(Debug, Default)]
struct Backwards {
    opened: AtomicU64,
}

struct Pile(Mutex<Vec<Ready>>);

impl Scheduler for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn open(&self, crew: &Crew) -> Box<dyn ReadyQueue> {
        assert_eq!(crew.distance(0, crew.n_numa_nodes() - 1), 20);
        assert_eq!(crew.numa_node(crew.n_workers() - 1), 1);
        self.opened.fetch_add(1, Ordering::Relaxed);
        Box::new(Pile(Mutex::default()))
    }
}

impl ReadyQueue for Pile {
    fn push(&self, _: usize, task: Ready) {
        let mut pile = self.0.lock().unwrap();
        pile.push(task);
        pile.sort_by_key(|task| -task.priority);
    }

    fn take(&self, _: usize) -> Option<Ready> {
        self.0.lock().unwrap().pop()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }

    fn outranks(&self, _: usize, priority: i64) -> bool {
        let pile = self.0.lock().unwrap();
        pile.last().is_some_and(|task| task.priority < priority)
    }
}

#[test]
fn a_scheduler_of_the_users_own_decides_the_order_and_loses_nothing() {
    let topology = in_a_row("custom", &[1, 1]);
    let scheduler = Arc::new(Backwards::default());
    let policy = Policy::custom(scheduler.clone());
    assert_eq!(policy.to_string(), "backwards");
    let crew = |n| {
        let builder = Workers::builder().topology(topology.clone());
        builder
            .n_workers(n)
            .bind(Bind::None)
            .policy(policy.clone())
            .build()
            .unwrap()
    };
    let done = AtomicU64::new(0);
    let job = Independent::new("any", 1000, |_| {
        done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let workers = crew(2);
    for _ in 0..20 {
        run(&job, &workers).unwrap();
    }
    assert_eq!(done.into_inner(), 20_000);

    let seen = Mutex::new(Vec::new());
    let space = Fan {
        wide: 9,
        priority: |task| task as i64,
        body: |task| {
            seen.lock().unwrap().push(task);
            std::thread::sleep(Duration::from_micros(200));
        },
    };
    run(&space, &workers).unwrap();
    let mut leaves = seen.into_inner().unwrap();
    assert_eq!(scheduler.opened.load(Ordering::Relaxed), 21, "jobs opened");
    assert_eq!(leaves.remove(0), 0);
    assert_ne!(leaves[0], 9, "the most urgent does not come first");
    leaves.sort_unstable();
    assert_eq!(leaves, (1..=9).collect::<Vec<_>>());
}

/// Gives the next task out when the last has ended: when the worker that had it asks again.
#[derive(Debug)]
struct OneByOne;

#[derive(Default)]
struct Counter(Mutex<(Vec<Ready>, Option<usize>)>);

impl Scheduler for OneByOne {
    fn name(&self) -> &str {
        "one by one"
    }

    fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
        Box::new(Counter::default())
    }
}

impl ReadyQueue for Counter {
    fn push(&self, _: usize, task: Ready) {
        self.0.lock().unwrap().0.push(task);
    }

    fn take(&self, worker: usize) -> Option<Ready> {
        let (tasks, runs_on) = &mut *self.0.lock().unwrap();
        if runs_on.is_some_and(|other| other != worker) {
            return None;
        }
        let task = tasks.pop();
        *runs_on = task.map(|_| worker);
        task
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().0.is_empty()
    }
}

/// The first leaf runs on the worker that freed it without having been queued.
#[test]
fn a_scheduler_may_keep_tasks_for_as_long_as_one_runs() {
    let policy = Policy::custom(Arc::new(OneByOne));
    let builder = Workers::builder().n_workers(4).bind(Bind::None);
    let workers = builder.policy(policy).build().unwrap();
    let space = Fan {
        wide: 3,
        priority: |_| 1,
        body: |task| std::thread::sleep(Duration::from_millis(if task == 0 { 0 } else { 1500 })),
    };
    assert_eq!(run(&space, &workers).unwrap().tasks, 4);
}

/// It was measured how long the simulation took: after a second, of a machine that was fast enough or of a
/// slow one, the scheduler was to blame for a task that ran in virtual time.
#[test]
fn in_virtual_time_a_scheduler_may_keep_tasks_for_as_long_as_one_runs() {
    let machine = Topology::flat(&[0, 1]);
    let places = Bind::Cores.places(&machine, 2);
    let policy = Policy::custom(Arc::new(OneByOne));
    let costs = Costs {
        classes: vec![5.0],
        initialise: 0.0,
        bytes: 0,
        remote_byte: 0.0,
        round: 1e-6,
        ties: Ties::First,
    };
    let space = Fan {
        wide: 3,
        priority: |_| 1,
        body: |_| (),
    };
    let run = simulate(&space, &machine, &places, &policy, &costs).unwrap();
    assert_eq!(run.tasks, 4);
}

/// Counts how often workers look for a task.
#[derive(Debug)]
struct Counted<S>(S, Arc<AtomicU64>);

struct CountedQueue(Box<dyn ReadyQueue>, Arc<AtomicU64>);

impl<S: Scheduler> Scheduler for Counted<S> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn open(&self, crew: &Crew) -> Box<dyn ReadyQueue> {
        Box::new(CountedQueue(self.0.open(crew), self.1.clone()))
    }
}

impl ReadyQueue for CountedQueue {
    fn push(&self, worker: usize, task: Ready) {
        self.0.push(worker, task);
    }

    fn take(&self, worker: usize) -> Option<Ready> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.take(worker)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How often 32 workers on 16 NUMA nodes look in virtual time, which run tasks of so many rounds.
fn looks_of_many(scheduler: impl Scheduler + 'static, rounds: f64) -> (Result<f64, String>, u64) {
    let looks = Arc::new(AtomicU64::new(0));
    let machine = Topology::made_of(&[2; 16], |from, to| 10 + from.abs_diff(to) as u32);
    let places = Bind::Cores.places(&machine, 32);
    let policy = Policy::custom(Arc::new(Counted(scheduler, looks.clone())));
    let costs = Costs {
        classes: vec![rounds * 1e-6; 2],
        initialise: 0.0,
        bytes: 0,
        remote_byte: 0.0,
        round: 1e-6,
        ties: Ties::First,
    };
    let space = Fan {
        wide: 3,
        priority: |_| 1,
        body: |_| (),
    };
    let run = simulate(&space, &machine, &places, &policy, &costs);
    let run = run
        .map(|run| run.seconds)
        .map_err(|error| error.to_string());
    (run, looks.load(Ordering::Relaxed))
}

/// Each worker that found nothing had all others look, once for every NUMA node, and after every round:
/// simulations of large machines went on for hours.
#[test]
fn in_virtual_time_workers_look_ever_more_seldom_for_a_scheduler_that_keeps_tasks() {
    let (run, looks) = looks_of_many(Faulty(Fault::HoldsBack), 20.0);
    assert!(run.unwrap_err().contains("holds 1 ready task back"));
    assert!(looks < 2 * 1000 * 32, "{looks} looks until it is found out");
    for (rounds, at_most) in [(20.0, 20), (1e4, 130), (1e6, 1200)] {
        let (run, looks) = looks_of_many(OneByOne, rounds);
        assert!((run.unwrap() / rounds * 1e6 - 4.0).abs() < 1e-9);
        let of_each = looks / (4 * 32);
        assert!(of_each <= at_most, "{of_each} of each in {rounds} rounds");
    }
}

/// Gives tasks to one worker only, and only when that has looked so often since the last came.
#[derive(Clone, Debug)]
struct OnlyTo(usize, u64);

struct Picky(OnlyTo, Mutex<(Vec<Ready>, u64)>);

impl Scheduler for OnlyTo {
    fn name(&self) -> &str {
        "only to"
    }

    fn open(&self, _: &Crew) -> Box<dyn ReadyQueue> {
        Box::new(Picky(self.clone(), Mutex::default()))
    }
}

impl ReadyQueue for Picky {
    fn push(&self, _: usize, task: Ready) {
        let (tasks, looked) = &mut *self.1.lock().unwrap();
        tasks.push(task);
        *looked = 0;
    }

    fn take(&self, worker: usize) -> Option<Ready> {
        let Picky(OnlyTo(only, looks), pile) = self;
        let (tasks, looked) = &mut *pile.lock().unwrap();
        *looked += u64::from(worker == *only);
        tasks.pop_if(|_| worker == *only && *looked > *looks)
    }

    fn is_empty(&self) -> bool {
        self.1.lock().unwrap().0.is_empty()
    }
}

/// Of the idle workers of a NUMA node only the last to rest was asked, again and again: the scheduler was
/// said to hold back what it had for another.
#[test]
fn in_virtual_time_a_scheduler_gives_tasks_to_whichever_worker_it_likes_and_when_it_likes() {
    for (worker, looks) in (0..32).flat_map(|worker| [0, 20, 90].map(|looks| (worker, looks))) {
        let (run, _) = looks_of_many(OnlyTo(worker, looks), 100.0);
        let rounds = run.expect("all is handed out") * 1e6;
        // The root and what it frees: it looks in vain so often each time, the first time at once.
        let at_most = 400.0 + 2.0 * looks as f64;
        assert!(
            (at_most - 4.0..=at_most).contains(&rounds),
            "{worker}, {looks}: {rounds}"
        );
    }
}
