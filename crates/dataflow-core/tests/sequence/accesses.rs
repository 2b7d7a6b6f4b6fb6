//! Accesses in every shape, and what bodies get for them.

use super::*;

#[test]
fn a_scope_returns_what_its_program_does_and_lends_what_outlives_it() {
    for on in executors() {
        let text = String::from("borrowed");
        let lengths = AtomicUsize::new(0);
        let answer = scope(&*on, |s| {
            for _ in 0..10 {
                s.task((), |()| {
                    lengths.fetch_add(text.len(), Ordering::Relaxed);
                });
            }
            42
        });
        let (answer, report) = answer.unwrap();
        assert_eq!((answer, report.tasks), (42, 10));
        assert_eq!(lengths.into_inner(), 80);
    }
}

#[test]
fn tuples_and_lists_of_accesses_come_in_the_shape_they_were_given() {
    let mut sum = 0;
    scope(&Inline, |s| {
        let numbers = s.handles(0..10u64);
        let total = s.handle(&mut sum);
        s.task(
            (write(&numbers[3]), update(&numbers[4])),
            |(three, four)| {
                (*three, *four) = (30, 40);
            },
        );
        let all: Vec<_> = numbers.iter().map(read).collect();
        s.task((all, write(&total)), |(all, total)| {
            **total = all.into_iter().sum()
        });
    })
    .unwrap();
    assert_eq!(sum, 45 - 7 + 70);
}

#[test]
fn tasks_that_commute_on_crossed_pairs_all_run() {
    let n = size::N_PAIRS;
    for seed in 0..4 {
        let on = Shuffled::new(seed).with_threads(4);
        let mut sums = [0u64; 3];
        scope(&on, |s| {
            let sums = s.handles(&mut sums);
            for number in 0..n {
                let (a, b) = (number % 3, (number + 1 + number / 3 % 2) % 3);
                let pair = (commute(&sums[a]), commute(&sums[b]));
                s.task(pair, |(a, b)| (**a, **b) = (**a + 1, **b + 1));
            }
        })
        .unwrap();
        assert_eq!(sums.iter().sum::<u64>(), 2 * n as u64);
    }
}

/// Each access was compared with each other: sixty thousand took two seconds.
#[test]
fn a_task_with_many_accesses_may_name_none_twice() {
    let n = if cfg!(miri) { 40 } else { 60_000 };
    for twice in [false, true] {
        let mut data = vec![0u64; n];
        let ended = scope(&Inline, |s| {
            let data = s.handles(&mut data);
            let mut all: Vec<_> = data.iter().map(write).collect();
            if twice {
                all.push(write(&data[n / 2]));
            }
            s.task(all, |all| all.into_iter().for_each(|n| **n += 1));
        });
        assert_eq!(
            ended.err().map(|error| error.kind()),
            twice.then_some(Kind::AccessedTwice)
        );
        assert!(data.iter().all(|&n| n == u64::from(!twice)));
    }
}

/// Every kind of access, and what looks at a datum, meets a lent one as one of the scope's own.
#[test]
fn bodies_get_of_lent_data_what_they_get_of_the_scopes_own() {
    fn add_up(numbers: Vec<&u64>) -> u64 {
        numbers.into_iter().sum()
    }
    let (mut numbers, mut sum, mut log) = ([1, 2, 3], 0u64, Vec::new());
    let (seen, _) = scope(&Shuffled::new(1).with_threads(2), |s| {
        let numbers = s.lend_all(&mut numbers);
        let (sum, log, own) = (s.lend(&mut sum), s.lend(&mut log), s.handle(10u64));
        s.nested(write(&numbers[0]), |s, number| {
            let number = s.lend(number);
            s.task(update(&number), |number: &mut u64| *number *= 5);
        });
        let all: Vec<_> = numbers.iter().map(read).collect();
        s.task((all, read(&own), write(&sum)), |(all, own, sum)| {
            *sum = own + add_up(all);
        });
        for number in &numbers {
            let accesses = (reduce(&sum), read(number), commute(&log));
            s.task(accesses, |(sum, number, log)| {
                *sum += number;
                log.push(*number);
            });
        }
        s.wait(&sum, |sum: &u64| *sum)
    })
    .unwrap();
    log.sort_unstable();
    assert_eq!((seen, sum, log), (Some(30), 30, vec![2, 3, 5]));
    assert_eq!(numbers, [5, 2, 3]);
}
