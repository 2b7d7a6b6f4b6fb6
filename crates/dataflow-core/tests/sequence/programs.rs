//! Random programs, interpreted one task after the other and inserted.

use super::*;

/// A value that tells every lost, doubled or swapped access.
fn mix(value: u64, with: u64) -> u64 {
    (value ^ with.rotate_left(17))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(31)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Reads,
    Writes,
    /// Adds, which commutes.
    Adds,
    /// Changes a copy, which is merged.
    Reduces,
}

/// A task: with which data it does what, and the tasks it inserts on the halves of what it writes. And
/// the datum that the program waits for before it goes on, with another number for what it sees.
#[derive(Clone, Debug)]
struct Step {
    accesses: Vec<(usize, Does)>,
    inside: Option<Program>,
    waits: Option<usize>,
}

type Program = Vec<Step>;

const N_DATA: usize = 5;
/// Numbers in a datum of the outermost program.
const LENGTH: usize = 4;
/// Tasks that share a copy.
const GROUP: usize = 8;

fn steps(
    inside: impl Strategy<Value = Option<Program>> + 'static,
    length: usize,
) -> BoxedStrategy<Program> {
    let does = prop_oneof![
        Just(Does::Reads),
        Just(Does::Writes),
        Just(Does::Adds),
        Just(Does::Reduces),
    ];
    let accesses = prop::collection::vec((0..N_DATA, does), 1..=3);
    let waits = prop::option::weighted(0.2, 0..N_DATA);
    let step = (accesses, inside, waits);
    let step = step.prop_map(|(accesses, inside, waits)| Step {
        accesses,
        inside,
        waits,
    });
    // A task that only reduces comes in a series, often longer than a group.
    let series = |(step, times): (Step, usize)| {
        let reduces = matches!(step.accesses[..], [(_, Does::Reduces)]) && step.inside.is_none();
        let waits = step.waits;
        let mut steps = vec![
            Step {
                waits: None,
                ..step
            };
            if reduces { times } else { 1 }
        ];
        steps[0].waits = waits;
        steps
    };
    let steps = prop::collection::vec((step, 1..20usize).prop_map(series), 0..length);
    steps.prop_map(|steps| steps.concat()).boxed()
}

fn programs() -> impl Strategy<Value = Program> {
    let leaves = steps(Just(None), 6);
    let parents = steps(prop::option::weighted(0.3, leaves), 8);
    steps(prop::option::weighted(0.1, parents), size::N_STEPS)
}

impl Step {
    /// The accesses to so many data, each once; a parent reads and writes, and one datum at most is
    /// reduced.
    fn accesses(&self, n_data: usize) -> Vec<(usize, Does)> {
        let accesses = self.accesses.iter();
        let mut accesses: Vec<_> = accesses
            .map(|&(datum, does)| (datum % n_data, does))
            .collect();
        accesses.sort_by_key(|(datum, _)| *datum);
        accesses.dedup_by_key(|(datum, _)| *datum);
        let mut reduces = self.inside.is_some();
        for (_, does) in &mut accesses {
            if self.inside.is_some() && *does == Does::Adds {
                *does = Does::Writes;
            }
            if *does == Does::Reduces && std::mem::replace(&mut reduces, true) {
                *does = if self.inside.is_some() {
                    Does::Writes
                } else {
                    Does::Adds
                };
            }
        }
        accesses
    }
}

/// Some numbers; merging is not commutative, so that the order tells.
struct Numbers<'a>(&'a mut [u64]);

impl Reduce for Numbers<'_> {
    type Copy = Vec<u64>;

    fn neutral(&self) -> Vec<u64> {
        vec![0; self.0.len()]
    }

    fn merge(&mut self, copy: Vec<u64>) {
        self.mix_in(copy.into_iter());
    }
}

impl Numbers<'_> {
    fn mix_in(&mut self, with: impl Iterator<Item = u64>) {
        self.0
            .iter_mut()
            .zip(with)
            .for_each(|(number, with)| *number = mix(*number, with));
    }

    fn write(&mut self, value: u64) {
        self.mix_in(std::iter::repeat(value));
    }

    fn add(&mut self, value: u64) {
        self.0
            .iter_mut()
            .for_each(|number| *number = number.wrapping_add(value));
    }

    fn halves(&mut self) -> impl Iterator<Item = Numbers<'_>> {
        let half = self.0.len().div_ceil(2);
        self.0.chunks_mut(half).map(Numbers)
    }
}

/// What a task makes of the data it reads.
fn seen<'d>(number: usize, read: impl Iterator<Item = &'d Numbers<'d>>) -> u64 {
    let numbers = read.flat_map(|datum| datum.0.iter().copied());
    numbers.fold(number as u64 + 1, mix)
}

/// One after the other.
fn interpret(program: &Program, data: &mut [Numbers<'_>], mut above: u64) {
    let mut series: Vec<Option<(usize, Vec<u64>)>> = vec![None; data.len()];
    for (number, step) in program.iter().enumerate() {
        if let Some(datum) = step.waits.map(|datum| datum % data.len()) {
            if let Some((_, copy)) = series[datum].take() {
                data[datum].merge(copy);
            }
            above = mix(above, seen(number, [&data[datum]].into_iter()));
        }
        let accesses = step.accesses(data.len());
        for &(datum, does) in &accesses {
            let full = series[datum].as_ref().is_some_and(|(n, _)| *n == GROUP);
            if (does != Does::Reduces || full)
                && let Some((_, copy)) = series[datum].take()
            {
                data[datum].merge(copy);
            }
        }
        let of = |kind| {
            accesses
                .iter()
                .filter(move |(_, does)| *does == kind)
                .map(|(datum, _)| *datum)
        };
        let value = above ^ seen(number, of(Does::Reads).map(|datum| &data[datum]));
        of(Does::Writes).for_each(|datum| data[datum].write(value));
        of(Does::Adds).for_each(|datum| data[datum].add(value));
        for datum in of(Does::Reduces) {
            let (n, copy) = series[datum].get_or_insert_with(|| (0, data[datum].neutral()));
            *n += 1;
            Numbers(copy).write(value);
        }
        if let Some(inside) = &step.inside {
            let written: Vec<_> = of(Does::Writes).collect();
            let data = data.iter_mut().enumerate();
            let data = data.filter(|(datum, _)| written.contains(datum));
            let mut pieces: Vec<_> = data.flat_map(|(_, datum)| datum.halves()).collect();
            if !pieces.is_empty() {
                interpret(inside, &mut pieces, value);
            }
        }
    }
    for (datum, series) in data.iter_mut().zip(series) {
        if let Some((_, copy)) = series {
            datum.merge(copy);
        }
    }
}

/// The same by a sequence, and sequences inside.
fn insert<'c, 'env>(
    program: &'env Program,
    s: &Scope<'c, 'env>,
    data: &[Handle<'c, Numbers<'env>>],
    mut above: u64,
) {
    for (number, step) in program.iter().enumerate() {
        if let Some(datum) = step.waits.map(|datum| datum % data.len()) {
            let seen = s.wait(&data[datum], |datum| seen(number, [datum].into_iter()));
            above = mix(above, seen.unwrap());
        }
        let accesses = step.accesses(data.len());
        let of = |kind| {
            accesses
                .iter()
                .filter(move |(_, does)| *does == kind)
                .map(|(datum, _)| &data[*datum])
        };
        let reads: Vec<_> = of(Does::Reads).map(read).collect();
        let writes: Vec<_> = of(Does::Writes).map(write).collect();
        let adds: Vec<_> = of(Does::Adds).map(commute).collect();
        let reduces = of(Does::Reduces).map(reduce).next();
        let task = s.priority(number as i64 % 3);
        if let Some(inside) = &step.inside {
            task.nested((reads, writes), move |s, (reads, writes)| {
                let value = above ^ seen(number, reads.into_iter());
                let mut pieces = Vec::new();
                for datum in writes {
                    datum.write(value);
                    pieces.extend(datum.halves().map(|half| s.handle(half)));
                }
                if !pieces.is_empty() {
                    insert(inside, &s, &pieces, value);
                }
            });
            continue;
        }
        let run = move |reads: Vec<&Numbers<'_>>,
                        writes: Vec<&mut Numbers<'_>>,
                        adds: Vec<&mut Numbers<'_>>| {
            let value = above ^ seen(number, reads.into_iter());
            writes.into_iter().for_each(|datum| datum.write(value));
            adds.into_iter().for_each(|datum| datum.add(value));
            value
        };
        match reduces {
            None => task.task((reads, writes, adds), move |(reads, writes, adds)| {
                run(reads, writes, adds);
            }),
            Some(reduces) => task.task(
                (reads, writes, adds, reduces),
                move |(reads, writes, adds, copy)| {
                    Numbers(copy).write(run(reads, writes, adds));
                },
            ),
        }
    }
}

fn interpreted(program: &Program) -> Vec<u64> {
    let mut numbers = vec![0; N_DATA * LENGTH];
    let mut data: Vec<_> = numbers.chunks_mut(LENGTH).map(Numbers).collect();
    interpret(program, &mut data, 0);
    numbers
}

fn inserted(program: &Program, on: &dyn Executor) -> Vec<u64> {
    let mut numbers = vec![0; N_DATA * LENGTH];
    scope(on, |s| {
        let data = s.handles(numbers.chunks_mut(LENGTH).map(Numbers));
        insert(program, s, &data, 0);
    })
    .unwrap();
    numbers
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: size::N_PROGRAMS,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_programs_do_what_their_order_says(program in programs(), seed in any::<u64>()) {
        let expected = interpreted(&program);
        prop_assert_eq!(&inserted(&program, &Inline), &expected);
        for threads in 1..=4 {
            let on = Shuffled::new(seed).with_threads(threads);
            prop_assert_eq!(&inserted(&program, &on), &expected, "{} threads", threads);
        }
    }
}
