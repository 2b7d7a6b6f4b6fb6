//! The pool under the real engine: every task once, in order, whoever runs it.

mod fan;

use dataflow_core::prelude::*;
use dataflow_core::sequence::{commute, read, scope, scope_inside, write};
use dataflow_core::space::Independent;
use dataflow_core::{Kind, run};
use dataflow_numa::{Bind, Topology, Warning, Workers, WorkersError};
use fan::Fan;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Cell (i, j) of a square waits for its upper and left neighbours. Each run adds one to it;
/// a cell that runs before its neighbours fails.
struct Wavefront {
    side: u64,
    times: u64,
    cells: Vec<AtomicU64>,
    priority: fn(u64, u64) -> i64,
}

const UP: usize = 0;
const LEFT: usize = 1;

impl Wavefront {
    fn new(side: u64, priority: fn(u64, u64) -> i64) -> Self {
        let cells = (0..side * side).map(|_| AtomicU64::new(0)).collect();
        Wavefront {
            side,
            times: 1,
            cells,
            priority,
        }
    }

    fn check(&self) {
        assert!(
            self.cells
                .iter()
                .all(|cell| cell.load(Ordering::Relaxed) == self.times)
        );
    }
}

impl TaskSpace for Wavefront {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("wavefront").parameter("side", self.side);
        about.class("Cell").order("UP").order("LEFT");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.side * self.side
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task >= self.side {
            from.task(UP, task - self.side, UP);
        }
        if !task.is_multiple_of(self.side) {
            from.task(LEFT, task - 1, LEFT);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task + self.side < self.side * self.side {
            to.task(UP, task + self.side, UP);
        }
        if !(task + 1).is_multiple_of(self.side) {
            to.task(LEFT, task + 1, LEFT);
        }
    }

    fn priority(&self, task: u64) -> i64 {
        (self.priority)(task / self.side, task % self.side)
    }

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        let count = |task: u64| self.cells[task as usize].load(Ordering::Relaxed);
        if task >= self.side && count(task - self.side) != self.times {
            return Err("ran before its upper neighbour".into());
        }
        if !task.is_multiple_of(self.side) && count(task - 1) != self.times {
            return Err("ran before its left neighbour".into());
        }
        self.cells[task as usize].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn workers(n: usize) -> Workers {
    Workers::builder().n_workers(n).build().unwrap()
}

#[test]
fn every_task_runs_once_and_in_order_on_any_number_of_workers_and_with_any_priority() {
    let priorities: [fn(u64, u64) -> i64; 4] = [
        |_, _| 0,
        |i, j| -((i + j) as i64),
        |i, j| (i as i64 * 7 + j as i64 * 13) % 11 - 5,
        |i, j| if (i + j) % 3 == 0 { i64::MIN } else { i64::MAX },
    ];
    for n_workers in [1, 2, 3, 8] {
        let workers = workers(n_workers);
        for priority in priorities {
            let mut space = Wavefront::new(60, priority);
            for times in 1..=3 {
                space.times = times;
                assert_eq!(run(&space, &workers).unwrap().tasks, 3600);
                space.check();
            }
        }
    }
}

#[test]
fn jobs_from_several_threads_share_the_workers() {
    let workers = workers(3);
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let workers = &workers;
            scope.spawn(move || {
                for round in 0..50 {
                    let space = Wavefront::new(5 + (caller + round) % 20, |i, _| i as i64 % 3);
                    run(&space, workers).unwrap();
                    space.check();
                }
            });
        }
    });
}

#[test]
fn ten_thousand_jobs_of_one_task_follow_one_another() {
    for n_workers in [1, 2, 5] {
        let workers = workers(n_workers);
        let done = AtomicUsize::new(0);
        let job = Independent::new("one", 1, |_| {
            done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        for _ in 0..10_000 {
            run(&job, &workers).unwrap();
        }
        assert_eq!(done.into_inner(), 10_000);
    }
}

/// Jobs that find everybody asleep, or about to be.
#[test]
fn jobs_that_come_while_workers_fall_asleep_are_not_missed() {
    let workers = workers(2);
    let job = Independent::new("one", 1, |_| Ok(()));
    for round in 0..2000_u64 {
        let pause = Instant::now();
        while pause.elapsed() < Duration::from_nanos(40_000 + 10 * round) {
            std::hint::spin_loop();
        }
        run(&job, &workers).unwrap();
    }
    assert!(workers.statistics().sleeps > 0);
}

/// Each body waits until all have started: that takes as many workers at once. Roots come in
/// chunks that one worker announces and queues, so the others must be woken for them or steal.
#[test]
fn queued_tasks_get_every_worker_even_while_bodies_are_long() {
    for n_workers in [2, 3, 4] {
        let workers = workers(n_workers);
        for round in 0..100 {
            if round % 10 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let all = Barrier::new(n_workers);
            let job = Independent::new("meet", n_workers as u64, |_| {
                all.wait();
                Ok(())
            });
            run(&job, &workers).unwrap();
        }
    }
}

#[test]
fn sleepers_are_woken_for_what_is_queued_until_nothing_is_left() {
    for (n_workers, priority) in [(2, 0), (3, 0), (4, 0), (4, 1), (4, -1)] {
        let workers = workers(n_workers);
        for _ in 0..20 {
            let all = Barrier::new(n_workers);
            // The first task frees all others when every other worker is long asleep.
            let space = Fan {
                wide: n_workers as u64,
                priority: |_| priority,
                body: |task| match task {
                    0 => thread::sleep(Duration::from_millis(2)),
                    _ => drop(all.wait()),
                },
            };
            run(&space, &workers).unwrap();
        }
        // From deques, that is; all share the priority queue of their NUMA node.
        assert!(priority != 0 || workers.statistics().steals >= 20);
    }
}

#[test]
fn one_worker_takes_the_most_urgent_first() {
    let order = Mutex::new(Vec::new());
    let space = Fan {
        wide: 20,
        priority: |task| (task as i64 * 7) % 21 - 10,
        body: |task| order.lock().unwrap().push(task),
    };
    run(&space, &workers(1)).unwrap();
    let priorities: Vec<i64> = order.lock().unwrap()[1..]
        .iter()
        .map(|&task| space.priority(task))
        .collect();
    let mut sorted = priorities.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(priorities, sorted);
}

#[test]
fn after_a_panic_a_failure_and_a_stop_the_workers_work_on() {
    std::panic::set_hook(Box::new(|_| {}));
    let workers = workers(2);
    for _ in 0..100 {
        let panics = Independent::new("panics", 1000, |task| match task {
            500 => panic!("boo"),
            _ => Ok(()),
        });
        assert_eq!(
            run(&panics, &workers).unwrap_err().kind(),
            Kind::TaskPanicked
        );
        let fails = Independent::new("fails", 1000, |task| match task {
            500 => Err("no".into()),
            _ => Ok(()),
        });
        assert!(run(&fails, &workers).is_err());
        let works = Wavefront::new(10, |_, _| 0);
        run(&works, &workers).unwrap();
        works.check();
    }
    drop(std::panic::take_hook());
}

#[test]
fn a_pool_can_be_dropped_idle_just_started_or_after_a_panic() {
    drop(workers(4));
    let sleeping = workers(4);
    std::thread::sleep(Duration::from_millis(5));
    drop(sleeping);
    let used = workers(2);
    let panics = Independent::new("panics", 10, |_| {
        std::panic::resume_unwind(Box::new("quiet"))
    });
    run(&panics, &used).unwrap_err();
    drop(used);
}

#[test]
#[cfg(target_os = "linux")]
fn pinned_workers_are_where_they_were_placed() {
    use dataflow_numa::{Bind, pin::allowed_pus};
    let before = allowed_pus();
    let topology = Topology::of_this_process();
    for bind in [Bind::Cores, Bind::Pus, Bind::None] {
        let workers = Workers::builder().bind(bind).build().unwrap();
        let seen = Mutex::new(Vec::new());
        let all = Barrier::new(workers.places().len());
        let job = Independent::new("where", workers.places().len() as u64, |_| {
            all.wait();
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            seen.lock().unwrap().push((name, allowed_pus()));
            Ok(())
        });
        run(&job, &workers).unwrap();
        for (name, pus) in seen.lock().unwrap().iter() {
            let worker: usize = name["dataflow-".len()..].parse().unwrap();
            let place = &workers.places()[worker].pus;
            assert_eq!(
                pus,
                if bind == Bind::None { &before } else { place },
                "{bind} {name}"
            );
        }
        assert_eq!(seen.lock().unwrap().len(), workers.places().len());
        // What the system lacks, a quota or a rival are no matter of binding.
        let of_binding = |warning: &Warning| {
            use Warning::{MoreWorkersThanCores, NotPinned};
            matches!(warning, NotPinned { .. } | MoreWorkersThanCores { .. })
        };
        assert!(
            !workers.warnings().iter().any(of_binding),
            "{:?}",
            workers.warnings()
        );
        assert_eq!(workers.topology(), &topology);
    }
    assert_eq!(
        allowed_pus(),
        before,
        "the thread that starts workers is not pinned"
    );
}

/// The thread of a body is pinned to one core: a pool that was made there had that core alone, and so had the
/// shared runtime of a process whose first call stood in a body.
#[test]
#[cfg(target_os = "linux")]
fn a_pool_that_is_made_in_a_body_has_all_cores_that_its_process_had() {
    use dataflow_numa::pin::allowed_pus;
    if Topology::of_this_process().n_cores() == 1 {
        println!("skipped: only one core is allowed here");
        return;
    }
    let in_a_body = |workers: &Workers, bind| {
        let made = Mutex::new(None);
        let job = Independent::new("makes a pool", 1, |_| {
            let inner = Workers::builder().bind(bind).build().unwrap();
            *made.lock().unwrap() = Some(inner);
            Ok(())
        });
        run(&job, workers).unwrap();
        made.into_inner().unwrap().unwrap()
    };
    let outside = Workers::builder().build().unwrap();
    let inside = in_a_body(&outside, Bind::Cores);
    assert_eq!(inside.places(), outside.places());
    assert_eq!(inside.warnings(), outside.warnings());
    // One more inside: its threads were started by one that was pinned.
    let unbound = in_a_body(&inside, Bind::None);
    assert_eq!(unbound.topology(), outside.topology());
    let seen = Mutex::new(Vec::new());
    let job = Independent::new("where", 1, |_| {
        *seen.lock().unwrap() = allowed_pus();
        Ok(())
    });
    run(&job, &unbound).unwrap();
    assert_eq!(seen.into_inner().unwrap(), allowed_pus());
}

#[test]
fn zero_workers_are_refused_and_too_many_warned_of() {
    let n_cores = Topology::of_this_process().n_cores();
    let error = Workers::builder().n_workers(0).build().unwrap_err();
    assert_eq!(error, WorkersError::NoWorkers { allowed: n_cores });
    assert!(error.to_string().contains(&n_cores.to_string()), "{error}");

    let most = Workers::MOST;
    for n_workers in [most + 1, 100_000, usize::MAX] {
        let refused = Workers::builder().n_workers(n_workers).build().unwrap_err();
        assert_eq!(refused, WorkersError::TooManyWorkers { n_workers, most });
        assert!(refused.to_string().contains("8192"), "{refused}");
    }

    let crowded = workers(n_cores + 1);
    let warning = Warning::MoreWorkersThanCores {
        n_workers: n_cores + 1,
        n_cores,
    };
    assert_eq!(crowded.warnings()[0], warning);
    assert_eq!(
        warning.to_string(),
        format!("{} workers share {n_cores} cores", n_cores + 1)
    );
}

/// A machine that is not this one: pinning fails, and the workers work all the same.
#[test]
#[cfg(target_os = "linux")]
fn workers_that_cannot_be_pinned_run_and_say_so() {
    let topology = Topology::flat(&[100_000, 100_001]);
    let workers = Workers::builder().topology(topology).build().unwrap();
    let unpinned = |warning: &&Warning| matches!(warning, Warning::NotPinned { .. });
    assert_eq!(workers.warnings().iter().filter(unpinned).count(), 2);
    let space = Wavefront::new(20, |_, _| 0);
    run(&space, &workers).unwrap();
    space.check();
}

#[test]
fn nested_tasks_end_on_any_number_of_workers_and_use_more_than_one() {
    for n_workers in [1, 2, 4] {
        let workers = Workers::builder().n_workers(n_workers).build().unwrap();
        let threads = Mutex::new(HashSet::new());
        for _ in 0..50 {
            let mut numbers = vec![0u64; 3 * 3 * 30];
            let sum = scope(&workers, |s| {
                let threads = &threads;
                for part in numbers.chunks_mut(90) {
                    let part = s.handle(part);
                    s.nested(write(&part), move |s, part| {
                        for third in part.chunks_mut(30) {
                            let third = s.handle(third);
                            s.nested(write(&third), move |s, third| {
                                let sum = s.handle(0u64);
                                for number in s.handles(third.iter_mut()) {
                                    s.task(
                                        (write(&number), commute(&sum)),
                                        move |(number, sum)| {
                                            (**number, *sum) = (1, *sum + 1);
                                            threads.lock().unwrap().insert(thread::current().id());
                                        },
                                    );
                                }
                                s.task(read(&sum), |sum| assert_eq!(*sum, 30));
                            });
                        }
                    });
                    s.task(read(&part), |part| assert_eq!(part.iter().sum::<u64>(), 90));
                }
            });
            sum.unwrap();
            assert_eq!(numbers.iter().sum::<u64>(), 270);
        }
        let n_threads = threads.into_inner().unwrap().len();
        assert!((1..=n_workers).contains(&n_threads), "{n_threads} threads");
        if n_workers > 1 {
            assert!(
                n_threads > 1,
                "one thread ran all the children of {n_workers} workers"
            );
        }
    }
}

/// A program that waits for what others make, step by step, and for what its own children make.
#[test]
fn whoever_waits_for_a_datum_sees_it_on_any_number_of_workers() {
    for n_workers in [1, 2, 4] {
        let workers = workers(n_workers);
        for _ in 0..50 {
            let sums = scope(&workers, |s| {
                let parts = s.handles([0u64; 8]);
                let sum = s.handle(0u64);
                let mut sums = Vec::new();
                for step in 1..=10 {
                    for part in &parts {
                        s.nested(write(part), move |s, part| {
                            let half = s.handle(0);
                            s.task(write(&half), move |half| *half = step);
                            *part += s.wait(&half, |half| *half).unwrap_or(0);
                        });
                        s.task((read(part), commute(&sum)), |(part, sum)| *sum += *part);
                    }
                    sums.push(s.wait(&sum, |sum| *sum));
                }
                sums
            });
            // 8 (1 + 3 + 6 + …)
            let expected = (1..=10).map(|n: u64| Some(8 * n * (n + 1) * (n + 2) / 6));
            assert_eq!(sums.unwrap().0, expected.collect::<Vec<_>>());
        }
    }
}

/// They wait for one another, and nothing else is there to be worked at.
#[test]
fn tasks_inside_a_body_get_every_worker() {
    for n_workers in [2, 3] {
        let workers = workers(n_workers);
        for _ in 0..20 {
            let all = Barrier::new(n_workers);
            let children = scope(&workers, |s| {
                let (only, all) = (s.handle(()), &all);
                s.nested(write(&only), move |s, _| {
                    for _ in 0..n_workers {
                        s.task((), move |()| _ = all.wait());
                    }
                });
            });
            children.unwrap();
        }
    }
}

/// A number that says where it lies.
#[derive(Clone)]
struct At(usize, u64);

impl Datum for At {
    fn numa_node(&self) -> Option<usize> {
        Some(self.0)
    }
}

/// Two of them; the whole lies with the first.
#[derive(Clone)]
struct Pair {
    here: At,
    there: At,
}

impl Datum for Pair {
    fn numa_node(&self) -> Option<usize> {
        self.here.numa_node()
    }
}

/// A worker on each of four NUMA nodes, which are near to each other in pairs, under each policy that
/// forbids to steal from the other pair.
fn in_pairs() -> impl Iterator<Item = Workers> {
    let near = |a: usize, b: usize| if a == b { 10 } else { 20 };
    let far = move |a, b| if a / 2 == b / 2 { near(a, b) } else { 30 };
    let policies = ["distance,own", "priority,own", "distance,adjacent"];
    policies.into_iter().map(move |policy| {
        let workers = Workers::builder().topology(Topology::made_of(&[1; 4], far));
        let workers = workers.bind(Bind::None).n_workers(4);
        workers.policy(policy.parse().unwrap()).build().unwrap()
    })
}

/// Each waited for another to come and fetch its child.
#[test]
fn parents_whose_children_are_placed_beyond_their_reach_end() {
    for (workers, waits) in in_pairs().zip([false; 3]).chain(in_pairs().zip([true; 3])) {
        let all = Barrier::new(4);
        let run = scope(&workers, |s| {
            for node in 0..4 {
                let (here, there) = (At(node, 0), At((node + 2) % 4, 0));
                let (pair, all) = (s.datum(Pair { here, there }), &all);
                s.nested(write(&pair), move |s, pair| {
                    all.wait();
                    let there = s.datum_mut(&mut pair.there);
                    s.task(write(&there), |there| there.1 += 1);
                    if waits {
                        assert_eq!(s.wait(&there, |there| there.1), Some(1));
                    }
                });
                s.task(read(&pair), |pair| assert_eq!(pair.there.1, 1));
            }
        });
        run.unwrap();
    }
}

/// Each waited for another to come and run what it had inserted.
#[test]
fn programs_that_wait_for_data_beyond_their_reach_end() {
    for workers in in_pairs() {
        let all = Barrier::new(4);
        let program = || {
            let run = scope(&workers, |s| {
                all.wait();
                let data: Vec<_> = (0..4).map(|node| s.datum(At(node, 0))).collect();
                for datum in &data {
                    s.task(write(datum), |datum| datum.1 += 1);
                }
                data.iter()
                    .all(|datum| s.wait(datum, |datum| datum.1) == Some(1))
            });
            assert!(run.unwrap().0);
        };
        thread::scope(|threads| {
            (0..4).for_each(|_| _ = threads.spawn(program));
        });
    }
}

/// Whoever waits for a scope inside of its body goes into no other run: each would wait for another to come
/// and run the task that was placed with it.
#[test]
fn scopes_inside_of_bodies_whose_tasks_are_placed_beyond_their_reach_end() {
    for workers in in_pairs() {
        let (all, ran) = (Barrier::new(4), AtomicUsize::new(0));
        let run = scope(&workers, |s| {
            for node in 0..4 {
                let home = s.datum(At(node, 0));
                let (all, ran, workers) = (&all, &ran, &workers);
                s.task(write(&home), move |_| {
                    all.wait();
                    let inside = scope_inside(workers, |s| {
                        let there = s.datum(At((node + 2) % 4, 0));
                        s.task(write(&there), |_| _ = ran.fetch_add(1, Ordering::Relaxed));
                    });
                    inside.unwrap();
                });
            }
        });
        run.unwrap();
        assert_eq!(ran.into_inner(), 4);
    }
}

#[test]
fn a_scope_inside_the_body_of_another_pool_s_worker_runs_on_that_worker() {
    let (workers, others) = (
        Workers::builder().n_workers(1),
        Workers::builder().n_workers(2),
    );
    let (workers, others) = (workers.build().unwrap(), others.build().unwrap());
    let space = Independent::new("one", 1, |_| {
        let outside = thread::current().id();
        let mut inside = None;
        scope_inside(&others, |s| {
            let inside = s.handle(&mut inside);
            s.task(write(&inside), |inside| {
                **inside = Some(thread::current().id())
            });
        })?;
        assert_eq!(inside, Some(outside));
        Ok(())
    });
    run(&space, &workers).unwrap();
}
