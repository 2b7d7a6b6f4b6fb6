//! In which order tasks run under which policy.

use super::*;

#[test]
fn under_every_policy_every_task_runs_once_and_in_order() {
    let priorities: [fn(u64) -> i64; 3] =
        [|_| 0, |task| task as i64 % 7 - 3, |task| -(task as i64)];
    for cores in [&[1][..], &[2, 2], &[1, 0, 2, 1]] {
        let topology = in_a_row("once", cores);
        for policy in POLICIES {
            let workers = workers(&topology, policy);
            assert_eq!(workers.policy().to_string(), policy);
            for priority in priorities {
                let space = Wavefront {
                    side: 30,
                    priority,
                    runs: (0..900).map(|_| AtomicU64::new(0)).collect(),
                };
                for _ in 0..3 {
                    assert_eq!(run(&space, &workers).unwrap().tasks, 900, "{policy}");
                }
                let thrice = |runs: &AtomicU64| runs.load(Ordering::Relaxed) == 3;
                assert!(space.runs.iter().all(thrice), "{policy}");
            }
        }
    }
}

/// The order in which one worker runs the leaves.
fn order(policy: &str) -> Vec<u64> {
    let seen = Mutex::new(Vec::new());
    let space = Fan {
        wide: 9,
        priority: |task| [0, 3, -1, 0, 7, 3, 0, -5, 2, 9][task as usize],
        body: |task| seen.lock().unwrap().push(task),
    };
    run(&space, &workers(&in_a_row("order", &[1]), policy)).unwrap();
    seen.into_inner().unwrap().split_off(1)
}

/// Task t frees 2t + 1 and 2t + 2.
struct Tree<'a>(&'a Mutex<Vec<u64>>);

/// No two tasks of the tree are equally urgent.
fn urgency(task: u64) -> i64 {
    (task * 7 % 31) as i64 - 15
}

impl TaskSpace for Tree<'_> {
    type Task = u64;
    type Datum = ();

    fn describe(&self, about: &mut Description) {
        about.name("tree").class("Node").order("PARENT");
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..31
    }

    fn inputs(&self, task: u64, from: &mut impl Inputs<Self>) {
        if task > 0 {
            from.task(0, (task - 1) / 2, 0);
        }
    }

    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        let children = [2 * task + 1, 2 * task + 2].into_iter();
        children
            .filter(|&child| child < 31)
            .for_each(|child| to.task(0, child, 0));
    }

    fn priority(&self, task: u64) -> i64 {
        urgency(task)
    }

    fn run(&self, task: u64, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
        self.0.lock().unwrap().push(task);
        Ok(())
    }
}

#[test]
fn fifo_goes_level_by_level_and_lifo_to_the_leaves_first() {
    let order = |policy| {
        let seen = Mutex::new(Vec::new());
        run(&Tree(&seen), &workers(&in_a_row("tree", &[1]), policy)).unwrap();
        seen.into_inner().unwrap()
    };
    let level = |task: &u64| (task + 1).ilog2();
    assert!(order("fifo").is_sorted_by_key(level));
    let lifo = order("lifo");
    for pair in lifo.windows(2).filter(|pair| pair[0] < 15) {
        assert_eq!((pair[1] - 1) / 2, pair[0], "a child comes next: {lifo:?}");
    }
}

#[test]
fn one_worker_always_runs_the_most_urgent_of_what_is_ready() {
    let mut expected = Vec::new();
    let mut ready = vec![0];
    while let Some(at) = (0..ready.len()).max_by_key(|&at| urgency(ready[at])) {
        let task = ready.swap_remove(at);
        expected.push(task);
        ready.extend(
            [2 * task + 1, 2 * task + 2]
                .into_iter()
                .filter(|&child| child < 31),
        );
    }
    for policy in [
        "distance",
        "distance,keep=0",
        "distance-no-steal",
        "oblivious",
        "priority",
    ] {
        let seen = Mutex::new(Vec::new());
        run(&Tree(&seen), &workers(&in_a_row("urgent", &[1]), policy)).unwrap();
        assert_eq!(seen.into_inner().unwrap(), expected, "{policy}");
    }
}

#[test]
fn one_worker_takes_the_most_urgent_first() {
    let priorities = |policy| -> Vec<i64> {
        let of = |task| [0, 3, -1, 0, 7, 3, 0, -5, 2, 9][task as usize];
        order(policy).into_iter().map(of).collect()
    };
    for policy in [
        "distance",
        "distance-no-steal",
        "oblivious",
        "priority",
        "distance,keep=0",
        "distance,keep=4",
    ] {
        assert_eq!(
            priorities(policy),
            [9, 7, 3, 3, 2, 0, 0, -1, -5],
            "{policy}"
        );
    }
}

/// Bodies wait for what runs inside of them while other workers take tasks of it, or begin their own.
#[test]
fn under_every_policy_spaces_run_in_the_bodies_of_others_to_their_ends() {
    for cores in [&[1][..], &[2, 2], &[1, 0, 2, 1]] {
        let topology = in_a_row("inside", cores);
        for policy in POLICIES {
            let workers = workers(&topology, policy);
            let innermost = |_| {
                let space = Wavefront {
                    side: 6,
                    priority: |task| task as i64 % 7 - 3,
                    runs: (0..36).map(|_| AtomicU64::new(0)).collect(),
                };
                assert_eq!(run_inside(&space, &workers)?.tasks, 36, "{policy}");
                Ok(())
            };
            let between = |_| {
                let between = Independent::new("between", 5, innermost);
                assert_eq!(run_inside(&between, &workers)?.tasks, 5, "{policy}");
                Ok(())
            };
            let outer = Independent::new("outer", 20, between);
            for _ in 0..5 {
                assert_eq!(run(&outer, &workers).unwrap().tasks, 20, "{policy}");
            }
        }
    }
}
