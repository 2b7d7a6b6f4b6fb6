//! Spaces over the same data, one after another, as one: it is proved, and does what one run of each after
//! the other does, alone and over ranks; what nothing would order is refused.

mod specimen;

use dataflow_core::error::Kind;
use dataflow_core::port::{Context, Executor, Inline, Shuffled};
use dataflow_core::prelude::*;
use dataflow_core::sequence::record::{Recorded, record};
use dataflow_core::space::{AnyName, Erased, Independent};
use dataflow_core::trace::{Schedule, Span};
use dataflow_core::{run, run_across};
use proptest::prelude::*;
use specimen::Number;
use specimen::ranks::on_ranks;

const N_SLOTS: usize = 5;

/// A step changes a slot, and may read another.
type Steps = Vec<(usize, Option<usize>)>;

/// Steps one after the other as a space; a step runs where its slot is.
struct Program<'s> {
    steps: &'s Steps,
    store: &'s Store<Number>,
    n_ranks: u32,
}

const CHANGED: usize = 0;
const READ: usize = 1;

impl Program<'_> {
    fn step(&self, i: u32) -> (usize, Option<usize>) {
        self.steps[i as usize]
    }

    /// The last step before this one that changes a slot.
    fn before(&self, i: u32, slot: usize) -> Option<u32> {
        (0..i).rev().find(|&before| self.step(before).0 == slot)
    }
}

impl TaskSpace for Program<'_> {
    type Task = u32;
    type Datum = Number;

    fn describe(&self, about: &mut Description) {
        about.name("program");
        about.class("Step").update("CHANGED").optional("READ");
    }

    fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
        dataflow_core::space::placed(self, on, 0..self.steps.len() as u32)
    }

    fn rank(&self, i: u32) -> Rank {
        Rank(self.step(i).0 as u32 % self.n_ranks)
    }

    fn inputs(&self, i: u32, from: &mut impl Inputs<Self>) {
        let (changed, read) = self.step(i);
        for (flow, slot) in [(CHANGED, Some(changed)), (READ, read)] {
            let Some(slot) = slot else { continue };
            match self.before(i, slot) {
                Some(before) => from.task(flow, before, CHANGED),
                None => from.home(flow, self.store, slot),
            }
        }
    }

    fn successors(&self, i: u32, to: &mut impl Successors<Self>) {
        let (slot, _) = self.step(i);
        for after in i + 1..self.steps.len() as u32 {
            let (changed, read) = self.step(after);
            if read == Some(slot) {
                to.task(CHANGED, after, READ);
            }
            if changed == slot {
                return to.task(CHANGED, after, CHANGED);
            }
        }
        to.home(CHANGED, self.store, slot);
    }

    fn run(&self, i: u32, flows: &mut Flows<'_, Number>) -> Result<(), TaskError> {
        let mut slots = flows.iter();
        let (changed, read) = (slots.next(), slots.next());
        let read = read.and_then(|slot| slot.get().map(|number| number.0));
        if let Some(changed) = changed {
            let number = changed.update();
            number.0 = (number.0 ^ read.unwrap_or(7)).wrapping_mul(0x9e37_79b9) + u64::from(i);
        }
        Ok(())
    }
}

/// Steps of which those that read a slot which is changed come after the first that changes it: before,
/// nothing would order them.
fn steps(reads_from_home: bool) -> impl Strategy<Value = Steps> {
    let step = (0..N_SLOTS, prop::option::of(0..N_SLOTS));
    prop::collection::vec(step, 0..12).prop_map(move |mut steps| {
        for i in 0..steps.len() {
            let (changed, read) = steps[i];
            let Some(slot) = read else { continue };
            let is_changed_before = steps[..i].iter().any(|step| step.0 == slot);
            let is_changed = steps.iter().any(|step| step.0 == slot);
            let may_read = is_changed_before || !is_changed && reads_from_home;
            if slot == changed || !may_read {
                steps[i].1 = None;
            }
        }
        steps
    })
}

fn numbers() -> Store<Number> {
    Store::new("numbers", (0..N_SLOTS as u64).map(Number))
}

fn values(store: &Store<Number>) -> Vec<u64> {
    (0..N_SLOTS)
        .map(|slot| store.get(slot).unwrap().0)
        .collect()
}

fn program<'s>(steps: &'s Steps, store: &'s Store<Number>, n_ranks: u32) -> Program<'s> {
    Program {
        steps,
        store,
        n_ranks,
    }
}

fn changes(steps: &Steps, slot: usize) -> bool {
    steps.iter().any(|step| step.0 == slot)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 300 }))]

    #[test]
    fn one_space_after_another_is_proved_and_has_the_values_of_two_runs(
        first in steps(true), second in steps(true), third in steps(true), seed: u64, threads in 0..3usize,
    ) {
        let on: Box<dyn Executor> = match threads {
            0 => Box::new(Inline),
            n => Box::new(Shuffled::new(seed).with_threads(n)),
        };
        let apart = numbers();
        for steps in [&first, &second, &third] {
            run(&program(steps, &apart, 1), &Inline).unwrap();
        }
        let joined = numbers();
        let [a, b, c] = [&first, &second, &third].map(|steps| program(steps, &joined, 1));
        let is_refused = |before: &[&Steps], after: &Steps| {
            (0..N_SLOTS).any(|slot| {
                let changed = before.iter().any(|steps| changes(steps, slot));
                let read = before.iter().any(|steps| steps.iter().any(|step| step.1 == Some(slot)));
                changes(after, slot) && read && !changed
            })
        };
        let two = Erased::series([Erased::new(&a), Erased::new(&b)], 0..1);
        prop_assert_eq!(two.is_err(), is_refused(&[&first], &second));
        let Ok(two) = two else { return Ok(()) };
        let three = Erased::series([two, Erased::new(&c)], 0..1);
        prop_assert_eq!(three.is_err(), is_refused(&[&first, &second], &third));
        let Ok(three) = three else { return Ok(()) };
        verify(&three, 1).unwrap();
        let report = run(&three, &*on).unwrap();
        prop_assert_eq!(report.tasks as usize, first.len() + second.len() + third.len());
        prop_assert_eq!(values(&joined), values(&apart));
    }

    #[test]
    fn over_ranks_too(first in steps(false), second in steps(false), n_ranks in 1..4u32, seed: u64) {
        let apart = numbers();
        for steps in [&first, &second] {
            run(&program(steps, &apart, 1), &Inline).unwrap();
        }
        let expected = values(&apart);
        let (stores, _) = on_ranks(n_ranks, (seed, 2), |courier| {
            let store = numbers();
            let (a, b) = (program(&first, &store, n_ranks), program(&second, &store, n_ranks));
            let both = [Erased::new(&a), Erased::new(&b)];
            let both = Erased::series(both, 0..n_ranks).unwrap();
            verify(&both, n_ranks).unwrap();
            run_across(&both, &Context::new(&Inline).across(courier)).unwrap();
            values(&store)
        });
        for (rank, values) in stores.iter().enumerate() {
            for slot in (rank..N_SLOTS).step_by(n_ranks as usize) {
                prop_assert_eq!(values[slot], expected[slot]);
            }
        }
    }
}

/// Some `recorded task 1` was told, of which each program has one.
#[test]
fn an_error_of_recorded_programs_in_a_series_names_the_task_as_its_program_does() {
    fn series<'s>(of: &[&'s Recorded<'s, Number>]) -> Result<Erased<'s, Number>, Error> {
        Erased::series(of.iter().map(|of| Erased::new(*of)), 0..1)
    }
    let recorded = |store, name, fails: bool| {
        record(name, 1, |r| {
            let a = r.home(store, 0, Rank(0));
            for _ in 0..2 {
                r.name(name).task(write(&a), move |a: &mut Number| {
                    a.0 += u64::from(!fails);
                    match fails {
                        true => Err(TaskError::new("odd", "recorded task 0 of space 1 is odd")),
                        false => Ok(()),
                    }
                });
            }
        })
        .unwrap()
    };
    let store = numbers();
    let [good, bad] =
        [("good", false), ("bad", true)].map(|(name, fails)| recorded(&store, name, fails));
    let before = store.get(0).unwrap().0;
    let error = run(&series(&[&good, &good, &bad]).unwrap(), &Inline).unwrap_err();
    assert_eq!(error.task(), Some("bad 0"));
    assert_eq!(error.message(), "recorded task 0 of space 1 is odd");
    assert_eq!(store.get(0).unwrap().0, before + 4);
    let lent = store.take(0).unwrap();
    let error = run(&series(&[&good, &bad]).unwrap(), &Inline).unwrap_err();
    let told = (error.kind(), error.task());
    assert_eq!(told, (Kind::HomeEmpty, Some("good 0")));
    let told = "datum 0 of the program (accessed by good 0) is to come from slot 0 of numbers";
    assert!(error.to_string().contains(told), "{error}");
    drop(lent);
    let reads = vec![(1, Some(0))];
    let reads = program(&reads, &store, 1);
    let both = [Erased::new(&reads), Erased::new(&good)];
    let error = Erased::series(both, 0..1).unwrap_err();
    assert_eq!(error.task(), Some("good 1"), "{error}");
    let told = "0 and then good 1 touch slot 0 of numbers";
    assert!(error.message().starts_with(told), "{error}");
}

/// Only programs whose tasks were all of one class were joined: names of tasks say how many classes they have,
/// those of recorded tasks do not.
#[test]
fn recorded_programs_whose_tasks_access_different_numbers_of_data_are_parts_of_a_series() {
    fn recorded(store: &Store<Number>, n_ranks: usize, add: u64) -> Recorded<'_, Number> {
        let program = record("mixed", n_ranks, |r| {
            let on = |slot: usize| Rank((slot % n_ranks) as u32);
            let of = |slot: usize| r.home(store, slot, on(slot));
            let all: Vec<_> = (0..N_SLOTS).map(of).collect();
            for next in 1..N_SLOTS {
                let (one, other) = (&all[next - 1], &all[next]);
                r.name("add")
                    .task(write(one), move |a: &mut Number| a.0 += add);
                r.name("mix")
                    .task((read(one), write(other)), |(a, b)| b.0 ^= a.0 << 1);
            }
        });
        program.unwrap()
    }
    let changed_by_the_one_before = (1..=N_SLOTS).map(|slot| (slot % N_SLOTS, Some(slot - 1)));
    let steps: Steps = std::iter::once((0, None))
        .chain(changed_by_the_one_before)
        .collect();
    for n_ranks in 1..4 {
        let (stores, _) = on_ranks(n_ranks, (7, 2), |courier| {
            let on = Context::new(&Inline).across(courier);
            let [apart, joined] = [numbers(), numbers()];
            let parts = |store| {
                let programs = [2, 3].map(|add| recorded(store, n_ranks as usize, add));
                (programs, program(&steps, store, n_ranks))
            };
            let ([first, last], between) = parts(&apart);
            let mut tasks = 0;
            for part in [
                Erased::new(&first),
                Erased::new(&between),
                Erased::new(&last),
            ] {
                tasks += run_across(&part, &on).unwrap().tasks;
            }
            let ([first, last], between) = parts(&joined);
            let nothing = record("nothing", n_ranks as usize, |_| ()).unwrap();
            let parts = [
                Erased::new(&first),
                Erased::new(&between),
                Erased::new(&nothing),
                Erased::new(&last),
            ];
            let all = Erased::series(parts, 0..n_ranks).unwrap();
            verify(&all, n_ranks).unwrap();
            assert_eq!(run_across(&all, &on).unwrap().tasks, tasks);
            (values(&apart), values(&joined))
        });
        for (apart, joined) in stores {
            assert_eq!(apart, joined, "{n_ranks} ranks");
        }
    }
}

/// `recorded task 1 of space 0` was told.
#[test]
fn what_is_wrong_with_a_recorded_program_is_told_of_its_tasks_as_the_program_names_them() {
    let store = numbers();
    let twice = record("twice", 2, |r| {
        for _ in 0..2 {
            let handle = r.home(&store, 0, Rank(0));
            r.name("double")
                .task(write(&handle), |a: &mut Number| a.0 *= 2);
        }
    });
    let twice = twice.unwrap();
    let told = "double 0 and double 1 both take slot 0 of numbers";
    assert_eq!(verify(&twice, 2).unwrap_err().to_string(), told);
    let steps = vec![(1, None)];
    let before = program(&steps, &store, 2);
    let both = [Erased::new(&before), Erased::new(&twice)];
    let both = Erased::series(both, 0..2).unwrap();
    assert_eq!(verify(&both, 2).unwrap_err().to_string(), told);
}

#[test]
fn a_slot_that_the_first_only_reads_and_the_second_changes_is_refused_by_name() {
    let (first, second) = (vec![(0, Some(3))], vec![(1, None), (3, None)]);
    let store = numbers();
    let (a, b) = (program(&first, &store, 1), program(&second, &store, 1));
    let both = [Erased::new(&a), Erased::new(&b)];
    let error = Erased::series(both, 0..1).err().unwrap();
    assert_eq!(error.kind(), Kind::Contradiction);
    let text = error.message();
    assert!(
        text.starts_with("0 and then 1 touch slot 3 of numbers on rank 0"),
        "{text}"
    );
}

#[test]
fn a_failure_in_the_first_names_its_task_and_skips_what_depends_on_it_in_the_second() {
    struct Fails<'s>(Program<'s>);
    impl TaskSpace for Fails<'_> {
        type Task = u32;
        type Datum = Number;
        fn describe(&self, about: &mut Description) {
            self.0.describe(about);
        }
        fn tasks(&self, on: Rank) -> impl Iterator<Item = u32> + Send {
            self.0.tasks(on)
        }
        fn inputs(&self, _: u32, from: &mut impl Inputs<Self>) {
            from.home(CHANGED, self.0.store, 2);
        }
        fn successors(&self, _: u32, to: &mut impl Successors<Self>) {
            to.home(CHANGED, self.0.store, 2);
        }
        fn run(&self, _: u32, _: &mut Flows<'_, Number>) -> Result<(), TaskError> {
            Err("no".into())
        }
    }
    let store = numbers();
    let (first, second) = (vec![(2, None)], vec![(2, None), (4, None)]);
    let (a, b) = (
        Fails(program(&first, &store, 1)),
        program(&second, &store, 1),
    );
    let both = Erased::series([Erased::new(&a), Erased::new(&b)], 0..1).unwrap();
    let error = run(&both, &Inline).unwrap_err();
    assert_eq!(error.task(), Some("0"), "{error}");
    // Slot 2 is as it was, slot 4 was changed all the same.
    assert_eq!(values(&store)[2], 2);
    assert_ne!(values(&store)[4], 4);
}

/// Some names and nothing else.
struct List<T>(Vec<T>);

impl<T: TaskName> TaskSpace for List<T> {
    type Task = T;
    type Datum = Number;
    fn describe(&self, about: &mut Description) {
        for class in 0..T::N_CLASSES {
            about.class(class.to_string());
        }
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = T> + Send {
        self.0.iter().copied()
    }
    fn inputs(&self, _: T, _: &mut impl Inputs<Self>) {}
    fn successors(&self, _: T, _: &mut impl Successors<Self>) {}
    fn run(&self, _: T, _: &mut Flows<'_, Number>) -> Result<(), TaskError> {
        Ok(())
    }
    fn priority(&self, task: T) -> i64 {
        task.pack().map_or(0, |packed| packed as i64 % 7) - 20
    }
}

#[test]
fn names_of_several_are_told_apart_packed_or_on_the_wire() {
    use Four::{A, B, C, D};
    dataflow_core::task_names! { enum Four { A { i }, B { i, j }, C { i, j, k }, D {} } }
    let wide = B { i: u32::MAX, j: 0 };
    let fours = List(vec![A { i: 3 }, wide, C { i: 1, j: 2, k: 3 }, D {}]);
    let numbers = List(vec![3_u32, u32::MAX]);
    let parts = [
        Erased::new(&fours),
        Erased::new(&numbers),
        Erased::new(&fours),
    ];
    let all = Erased::series(parts, 0..1).unwrap();
    let names: Vec<AnyName> = all.tasks(Rank(0)).collect();
    let classes: Vec<_> = names.iter().map(|name| name.class()).collect();
    assert_eq!(classes, [0, 1, 2, 3, 4, 4, 5, 6, 7, 8]);
    let packed: Vec<_> = names.iter().map(|name| name.pack()).collect();
    let is_wide = |i| [1, 7].contains(&i);
    for (i, name) in names.iter().enumerate() {
        assert_eq!(packed[i].is_none(), is_wide(i), "{name:?}");
        if let Some(packed) = packed[i] {
            assert!(packed >> 55 == 0 && all.named(packed) == *name, "{name:?}");
        }
        let words = name.to_wire().unwrap();
        assert!(all.named_by(&words) == Some(*name), "{name:?}");
        for (j, other) in names.iter().enumerate() {
            assert_eq!(name == other, i == j, "{name:?} {other:?}");
            let wires = words.cmp(&other.to_wire().unwrap());
            assert_eq!((name.cmp(other), wires), (i.cmp(&j), i.cmp(&j)));
        }
    }
    assert_eq!(format!("{:?}", names[8]), "C { i: 1, j: 2, k: 3 }");
    assert!(all.named_by(&[3, 0, 0]).is_none() && all.named_by(&[]).is_none());
    verify(&all, 1).unwrap();
}

#[test]
fn no_task_is_more_urgent_than_one_of_an_earlier_space() {
    let lists = [
        List(vec![1_u32, 6, 9]),
        List(vec![3, 13]),
        List(vec![]),
        List(vec![2]),
    ];
    let all = Erased::series(lists.iter().map(Erased::new), 0..1).unwrap();
    let urgency = all.tasks(Rank(0)).map(|task| all.priority(task));
    let urgency: Vec<_> = urgency.collect();
    let [first, second, last] = [&urgency[..3], &urgency[3..5], &urgency[5..]];
    let apart = |more: &[i64], less: &[i64]| more.iter().min() >= less.iter().max();
    assert!(apart(first, second) && apart(second, last), "{urgency:?}");
    assert!(first[1] > first[0] && first[0] < first[2], "{urgency:?}");
}

/// Tasks with a priority go other ways through an executor than those without.
#[test]
fn tasks_of_spaces_without_priorities_have_none_one_after_another_either() {
    let steps = vec![(0, None), (1, Some(0))];
    let store = numbers();
    let programs = [(); 3].map(|()| Erased::of(program(&steps, &store, 1)));
    let all = Erased::series(programs, 0..1).unwrap();
    assert!(all.tasks(Rank(0)).all(|task| all.priority(task) == 0));
}

/// The first of two that update a slot gives it away; a third cannot know where it is.
#[test]
fn what_is_taken_and_not_brought_back_no_later_space_may_take() {
    struct Keeps<'s>(&'s Store<Number>);
    impl TaskSpace for Keeps<'_> {
        type Task = u32;
        type Datum = Number;
        fn describe(&self, about: &mut Description) {
            about.name("keeps").class("Keep").update("NUMBER");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u32> + Send {
            0..1
        }
        fn inputs(&self, _: u32, from: &mut impl Inputs<Self>) {
            from.home(0, self.0, 1);
        }
        fn successors(&self, _: u32, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u32, _: &mut Flows<'_, Number>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let store = numbers();
    let steps = vec![(1, None)];
    let (keeps, program) = (Keeps(&store), program(&steps, &store, 1));
    let parts = [Erased::new(&program), Erased::new(&keeps)];
    assert!(Erased::series(parts, 0..1).is_ok());
    let parts = [
        Erased::new(&program),
        Erased::new(&keeps),
        Erased::new(&program),
    ];
    let error = Erased::series(parts, 0..1).err().unwrap();
    assert_eq!(error.kind(), Kind::Contradiction);
}

/// The series was never made, and said nothing.
#[test]
fn a_list_of_tasks_that_goes_on_beyond_its_count_is_no_part_of_a_series() {
    struct Endless;
    impl TaskSpace for Endless {
        type Task = u64;
        type Datum = Number;
        fn describe(&self, about: &mut Description) {
            about.name("on and on").class("Task");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
            0..1 << 40
        }
        fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}
        fn run(&self, _: u64, _: &mut Flows<'_, Number>) -> Result<(), TaskError> {
            Ok(())
        }
        fn count(&self, _: Rank) -> u64 {
            2
        }
    }
    let error = Erased::series([Erased::new(&Endless)], 0..1).err().unwrap();
    let expected = "on and on: rank 0 counts 2 tasks but lists more than 100002";
    assert_eq!(
        (error.kind(), error.to_string()),
        (Kind::Contradiction, expected.into())
    );
}

struct Dealt {
    n: u32,
    p: u32,
}

task_space! {
    enum DealtTask;

    impl TaskSpace for Dealt {
        type Datum = Number;
        let n = self.n;
        let p = self.p;
        data Own[i] on i % p;

        for i in 0..n { Make { i }: new own = Own[i] => own.put(Number(i.into())); }
    }
}

/// It panicked at a remainder by zero.
#[test]
fn a_space_that_is_dealt_out_to_no_ranks_is_no_part_of_a_series() {
    let [some, none] = [2, 0].map(|p| Dealt { n: 3, p });
    for spaces in [[&some, &none], [&none, &some]] {
        let error = Erased::series(spaces.map(Erased::new), 0..2).unwrap_err();
        assert_eq!(error.kind(), Kind::NoSuchRank);
        let told = error.message();
        assert!(
            told.starts_with("space \"dealt\" deals its tasks out to 0 ranks"),
            "{told}"
        );
    }
    verify(
        &Erased::series([&some, &some].map(Erased::new), 0..2).unwrap(),
        2,
    )
    .unwrap();
}

#[test]
fn each_of_several_weighs_by_its_own_names() {
    let steps = vec![(0, None), (1, Some(0)), (1, None)];
    let store = numbers();
    let weighed = |unit: u64| {
        let space = Erased::of(program(&steps, &store, 2));
        let bytes = move |i: u32, flow: usize| unit * u64::from(i) + flow as u64;
        space.weighed(bytes, move |i: u32| (unit + u64::from(i)) as f64)
    };
    let silent = Erased::of(program(&steps, &store, 2));
    let all = Erased::series([weighed(10), silent, weighed(100)], 0..2).unwrap();
    let tasks = (0..2).flat_map(|on| all.tasks(Rank(on)));
    let mut found: Vec<_> = tasks
        .map(|task| (all.bytes(task, 1), all.cost(task)))
        .collect();
    found.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let expected = [
        (0, 0.0),
        (0, 0.0),
        (0, 0.0),
        (1, 10.0),
        (1, 100.0),
        (11, 11.0),
        (21, 12.0),
        (101, 101.0),
        (201, 102.0),
    ];
    assert_eq!(found, expected);
}

#[test]
#[should_panic(expected = "weights by u64 for a space of u32")]
fn weights_by_names_of_another_type_are_refused() {
    let (steps, store) = (vec![(0, None)], numbers());
    let space = Erased::of(program(&steps, &store, 1));
    drop(space.weighed(|_: u64, _| 0, |_: u64| 0.0));
}

/// The class stood twice in tables, and its part of the time was that of the first space.
#[test]
fn a_class_that_several_spaces_have_is_one_in_a_trace() {
    let (first, second, store) = (vec![(0, None)], vec![(0, None), (1, None)], numbers());
    let [a, b] = [&first, &second].map(|steps| program(steps, &store, 1));
    let both = Erased::series([Erased::new(&a), Erased::new(&b)], 0..1).unwrap();
    let mut schedule = Schedule::new(1);
    for (task, begin) in both.tasks(Rank(0)).zip([0, 100, 200]) {
        let end = begin + 100;
        schedule.ran(0, task, Span { begin, end }, false);
    }
    let trace = schedule.trace(&both);
    assert_eq!(trace.classes, ["Step"]);
    let classes: Vec<_> = trace.slices().map(|(_, of)| trace.class(of)).collect();
    assert_eq!(classes, ["Step"; 3]);
    assert_eq!(trace.explanation().part("Step"), 1.0);
}

/// A series of a hundred steps listed each parameter a hundred times.
#[test]
fn a_parameter_that_several_spaces_have_alike_is_told_once_in_a_trace() {
    let parts = [("a", 2), ("b", 3), ("c", 2)];
    let parts = parts.map(|(name, n)| Erased::of(Independent::new(name, n, |_| Ok(()))));
    let all = Erased::series(parts, 0..1).unwrap();
    let mut schedule = Schedule::new(1);
    for task in all.tasks(Rank(0)) {
        schedule.ran(0, task, Span { begin: 0, end: 1 }, false);
    }
    let parameters = schedule.trace(&all).parameters;
    let told = parameters
        .iter()
        .map(|(name, value)| format!("{name} {value}"));
    assert_eq!(told.collect::<Vec<_>>(), ["count 2", "count 3"]);
}

/// From the 257th on they were taken for the first ones.
#[test]
fn hundreds_of_spaces_are_told_apart_and_too_many_are_an_error() {
    const N_SPACES: usize = 300;
    let steps: Vec<Steps> = (0..N_SPACES)
        .map(|at| vec![(at % N_SLOTS, (at > 0).then(|| (at - 1) % N_SLOTS))])
        .collect();
    let (store, alone) = (numbers(), numbers());
    let programs = |store| {
        let n_ranks = 1;
        steps.iter().map(move |steps| Program {
            steps,
            store,
            n_ranks,
        })
    };
    let all = Erased::series(programs(&store).map(Erased::of), 0..1).unwrap();
    verify(&all, 1).unwrap();
    assert_eq!(run(&all, &Inline).unwrap().tasks, N_SPACES as u64);
    for program in programs(&alone) {
        run(&program, &Inline).unwrap();
    }
    assert_eq!(values(&store), values(&alone));
    for (at, name) in all.tasks(Rank(0)).enumerate() {
        assert_eq!(name.class(), at);
        assert!(all.named_by(&name.to_wire().unwrap()) == Some(name));
    }

    let nothing = List::<u32>(vec![]);
    let too_many = (0..=u16::MAX).map(|_| Erased::new(&nothing));
    let error = Erased::series(too_many, 0..0).err().unwrap();
    assert_eq!(error.kind(), Kind::NotDescribed);
    assert!(error.message().contains("at most 65535"), "{error}");
}
