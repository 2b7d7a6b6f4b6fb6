//! From where tasks are taken, who is woken for them, and what traces tell of that.

use super::*;

#[test]
fn nobody_steals_from_beyond_its_reach() {
    let topology = in_a_row("reach", &[1, 1, 1, 1]);
    let policies = [
        ("distance", 40),
        ("distance,adjacent", 20),
        ("distance-no-steal", 10),
        ("priority,adjacent", 20),
        ("fifo,adjacent", 20),
        ("lifo,own", 10),
    ];
    for (policy, farthest) in policies {
        let workers = workers(&topology, policy);
        let mut steals = 0;
        for round in 0..200 {
            let space = Fan {
                wide: 40,
                priority: |task| task as i64 % 3,
                body: |_| std::thread::sleep(Duration::from_micros(20)),
            };
            run(&space, &workers).unwrap();
            steals = workers.statistics().steals;
            if round >= 5 && (steals >= 100 || farthest == 10) {
                break;
            }
        }
        assert!(steals >= 100 || farthest == 10, "{policy}: {steals} steals");
        for worker in workers.statistics_by_worker() {
            for (distance, steals) in worker.steals_by_distance() {
                assert!(
                    distance <= farthest,
                    "{policy}: {steals} from {distance} to {}",
                    worker.worker
                );
            }
        }
    }
}

#[test]
fn what_is_taken_from_elsewhere_is_marked_in_the_trace_under_every_policy() {
    let topology = in_a_row("marked", &[2, 2]);
    for policy in POLICIES {
        let workers = workers(&topology, policy);
        for _ in 0..3 {
            let before = workers.statistics().steals;
            let space = Wavefront {
                side: 20,
                priority: |task| task as i64 % 7 - 3,
                runs: (0..400).map(|_| AtomicU64::new(0)).collect(),
            };
            let trace = recorded(&space, &workers);
            let steals = workers.statistics().steals - before;
            let marked = trace.slices().filter(|(_, slice)| slice.stolen).count() as u64;
            // Of several tasks that are taken at once the one that runs first is marked.
            let is_right = marked <= steals && (marked > 0) == (steals > 0);
            assert!(is_right, "{policy}: {marked} of {steals}");
        }
    }
}

/// Each root frees two tasks: 0 the urgent 2 and 3, 1 the others.
struct Twins<B>(B);

impl<B: Fn(u64) + Sync> TaskSpace for Twins<B> {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("twins").class("Task").order("ROOT");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..6
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > 1 {
            from.task(0, task / 2 - 1, 0);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task < 2 {
            (2 * task + 2..2 * task + 4).for_each(|twin| to.task(0, twin, 0));
        }
    }

    fn priority(&self, task: u64) -> i64 {
        [0, 0, 9, 8, 2, 1][task as usize]
    }

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        (self.0)(task);
        Ok(())
    }
}

/// In traces a task was not stolen that a worker had taken before less urgent ones of its own.
///
/// one worker: 0 ─ 2, until 5 has begun          the other: 1, until 2 has begun ─ 4 ─ 3 ─ 5
#[test]
fn help_for_a_neighbour_is_marked_in_the_trace() {
    let began: [AtomicBool; 6] = Default::default();
    let wait_for = |task: usize| {
        while !began[task].load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_micros(50));
        }
    };
    let space = Twins(|task: u64| {
        began[task as usize].store(true, Ordering::Release);
        match task {
            0 => wait_for(1),
            1 => wait_for(2),
            2 => wait_for(5),
            _ => {}
        }
    });
    let trace = recorded(&space, &workers(&in_a_row("help", &[2]), "distance"));
    let worker_of_5 = trace
        .slices()
        .find(|(_, slice)| slice.task == 5)
        .unwrap()
        .1
        .worker;
    let ran: Vec<(u64, bool)> = trace
        .slices()
        .filter(|(_, slice)| slice.worker == worker_of_5)
        .map(|(_, slice)| (slice.task, slice.stolen))
        .collect();
    assert_eq!(ran, [(1, false), (4, false), (3, true), (5, false)]);
}

/// Each leaf waits for the others, so all workers of the NUMA node are needed; those of the other
/// are asleep too, and waking them instead would be in vain.
#[test]
fn who_may_take_a_task_is_woken_for_it() {
    let topology = in_a_row("woken", &[3, 3]);
    for policy in ["distance-no-steal", "priority,own", "fifo,own", "lifo,own"] {
        let workers = workers(&topology, policy);
        for _ in 0..30 {
            let all = Barrier::new(3);
            let space = Fan {
                wide: 3,
                priority: |_| 0,
                body: |task| match task {
                    0 => std::thread::sleep(Duration::from_millis(2)),
                    _ => {
                        all.wait();
                    }
                },
            };
            run(&space, &workers).unwrap();
        }
        assert!(workers.statistics().sleeps > 0);
    }
}

#[test]
fn sleepers_of_all_nodes_within_reach_are_woken() {
    let topology = in_a_row("reached", &[1, 1, 1]);
    for policy in [
        "distance",
        "distance,adjacent",
        "oblivious",
        "priority",
        "fifo,patience=3",
    ] {
        let workers = workers(&topology, policy);
        for _ in 0..30 {
            // From an end of the row only one neighbour may help.
            let needed = if policy.contains("adjacent") { 2 } else { 3 };
            let all = Barrier::new(needed);
            let space = Fan {
                wide: needed as u64,
                priority: |task| task as i64,
                body: |task| match task {
                    0 => std::thread::sleep(Duration::from_millis(2)),
                    _ => {
                        all.wait();
                    }
                },
            };
            run(&space, &workers).unwrap();
        }
    }
}
