//! Reductions: their order, their failures, their end.

use super::*;

/// Some were kept until others were reduced.
#[test]
fn a_datum_whose_reduction_has_ended_is_gone_with_its_handle_and_its_tasks() {
    struct Counted<'l>(&'l AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    impl Reduce for Counted<'_> {
        type Copy = u64;
        fn neutral(&self) -> u64 {
            0
        }
        fn merge(&mut self, _: u64) {}
    }
    let live = AtomicUsize::new(0);
    scope(&Inline, |s| {
        let last = s.handle(0);
        for _ in 0..10 {
            live.fetch_add(1, Ordering::Relaxed);
            let datum = s.handle(Counted(&live));
            s.task(reduce(&datum), |sum| *sum += 1);
            s.task((read(&datum), write(&last)), |(_, last)| *last += 1);
        }
        assert_eq!(s.wait(&last, |last| *last), Some(10));
        assert_eq!(live.load(Ordering::Relaxed), 0);
    })
    .unwrap();
}

/// Only a `Vec` was reduced, so a histogram of a fixed number of bins had to be one.
#[test]
fn an_array_is_reduced_element_by_element() {
    let mut bins = [1u64, 0, 0];
    let mut all = 0;
    scope(&Inline, |s| {
        let (bins, all) = (s.lend(&mut bins), s.lend(&mut all));
        for number in 0..30 {
            s.task(reduce(&bins), move |bins| bins[number % 3] += 1);
        }
        s.task((read(&bins), write(&all)), |(bins, all)| {
            *all = bins.iter().sum()
        });
    })
    .unwrap();
    assert_eq!((bins, all), ([11, 10, 10], 31));
}

#[test]
fn a_reduction_adds_up_in_the_order_of_insertion_whatever_the_schedule() {
    let n = size::N_REDUCED;
    let part = |number: usize| 1.0 / (number as f64 + 1.0);
    // Groups of eight, then the sums of the groups: bit for bit.
    let groups = (0..n).step_by(8);
    let expected: f64 = groups
        .map(|first| (first..n.min(first + 8)).map(part).sum::<f64>())
        .sum();
    for on in executors() {
        let mut sum = 0.0;
        let mut after = 0.0;
        scope(&*on, |s| {
            let (total, copy) = (s.handle(&mut sum), s.handle(&mut after));
            for number in 0..n {
                s.task(reduce(&total), move |sum| *sum += part(number));
            }
            s.task((read(&total), write(&copy)), |(sum, copy)| **copy = **sum);
            s.task(reduce(&total), |sum| *sum += 1.0);
        })
        .unwrap();
        assert_eq!((after, sum), (expected, expected + 1.0));
    }
}

#[test]
fn a_failed_reduction_leaves_the_rest_out_and_says_who_it_was() {
    for on in executors() {
        let mut sums = vec![0u64, 0];
        let error = scope(&*on, |s| {
            let total = s.handle(&mut sums);
            for number in 0..20 {
                s.name("add")
                    .task(reduce(&total), move |sums| match number {
                        11 => Err("as told"),
                        _ => {
                            sums[number % 2] += 1;
                            Ok(())
                        }
                    });
            }
        })
        .unwrap_err();
        // What begins the series and merges the first group has no number of the program's.
        assert_eq!(error.task(), Some("add 11"));
        assert_eq!(sums, [4, 4], "the first group was merged before");
    }
}

/// What stood beyond the end of the shorter one was dropped, and the scope ended well.
#[test]
fn a_copy_that_does_not_keep_the_length_of_its_vector_is_an_error() {
    for on in executors() {
        let mut found: Vec<u64> = vec![];
        let error = scope(&*on, |s| {
            let found = s.lend(&mut found);
            for number in 0..20 {
                s.task(reduce(&found), move |copy| copy.push(number));
            }
        })
        .unwrap_err();
        assert_eq!(error.kind(), Kind::TaskPanicked);
        assert!(error.task().is_some_and(|task| task.starts_with("merge ")));
        let text = "a copy of 8 elements cannot be merged into a vector of 0";
        assert!(error.message().contains(text), "{error}");
        assert!(found.is_empty());

        let mut sums = Sifted::new(vec![7_u64; 3]);
        let error = scope(&*on, |s| {
            let sums = s.lend(&mut sums);
            s.task(reduce(&sums), |sieve| {
                sieve.take(0, Ok::<_, TaskError>(2), |sums, n| sums.truncate(n));
            });
        })
        .unwrap_err();
        let text = "a copy of 2 elements cannot be merged into a vector of 3";
        assert!(error.message().contains(text), "{error}");
        assert_eq!(sums.good, [7; 3]);
    }
}

/// One bad record of a hundred thousand cut the sum off at its group.
#[test]
fn a_sifted_reduction_keeps_the_good_records_and_names_the_bad() {
    let n = size::N_REDUCED as u64;
    let is_bad = |record: u64| record % 7 == 3;
    for on in executors() {
        let mut sum = Sifted::new(100u64);
        scope(&*on, |s| {
            let sum = s.handle(&mut sum);
            for record in 0..n {
                let value = if is_bad(record) {
                    Err("no number")
                } else {
                    Ok(record)
                };
                s.task(reduce(&sum), move |sieve| {
                    sieve.take(record, value, |sum, value| *sum += value)
                });
            }
        })
        .unwrap();
        let bad: Vec<u64> = (0..n).filter(|&record| is_bad(record)).collect();
        assert_eq!(
            sum.good,
            100 + (0..n).sum::<u64>() - bad.iter().sum::<u64>()
        );
        assert_eq!(
            (sum.n_good(), sum.n_bad()),
            (n - bad.len() as u64, bad.len() as u64)
        );
        let named: Vec<u64> = sum.bad().iter().map(|bad| bad.record).collect();
        assert_eq!(named, bad[..16.min(bad.len())]);
        assert_eq!(sum.bad()[0].to_string(), "record 3: no number");
    }
}

/// It was the number of the task among those that the reduction inserts, too.
#[test]
fn a_task_that_reduces_is_called_by_its_number_in_the_program() {
    let mut sum = 0u64;
    let ended = scope(&Inline, |s| {
        let sum = s.lend(&mut sum);
        for record in 0..100 {
            s.name("add").task(reduce(&sum), move |sum| match record {
                50 => Err(format!("record {record} is bad")),
                _ => {
                    *sum += 1;
                    Ok(())
                }
            });
        }
        s.name("end").task(write(&sum), |sum| *sum = 0);
    });
    assert_eq!(
        ended.unwrap_err().to_string(),
        "record 50 is bad (task add 50)"
    );
    assert_eq!(sum, 48, "of the groups before the one that failed");
}
