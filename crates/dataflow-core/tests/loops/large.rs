//! Spaces with more tasks than could run, and parameters that are large.

use super::{Number, Sources};
use dataflow_core::prelude::*;
use dataflow_core::space::Erased;

struct Cube {
    n: u32,
}

task_space! {
    enum CubeTask;

    impl TaskSpace for Cube {
        type Datum = ();
        let n = self.n;
        order H[i, j, k];

        for i in 0..n { for j in 0..n { for k in 0..n { T { i, j, k }: new H[i, j, k]; } } }
    }
}

struct Beyond {
    n: u32,
    a: u32,
}

task_space! {
    enum BeyondTask;

    impl TaskSpace for Beyond {
        type Datum = ();
        let n = self.n;
        let a = self.a;
        order H[h, i, j, k, l];

        for h in 0..a { for i in 0..n { for j in 0..n { for k in 0..n { for l in 0..n {
            T { h, i, j, k, l }: new H[h, i, j, k, l];
        } } } } }
    }
}

/// 2⁶⁶ tasks were none.
#[test]
fn a_count_beyond_64_bits_is_the_largest_there_is() {
    assert_eq!(Cube { n: 1 << 21 }.count(Rank(0)), 1 << 63);
    assert_eq!(Cube { n: 1 << 22 }.count(Rank(0)), u64::MAX);
    assert_eq!(Cube { n: u32::MAX }.count(Rank(0)), u64::MAX);
    let (n, a) = (1 << 24, 1);
    assert_eq!(Beyond { n, a }.count(Rank(0)), u64::MAX);
}

/// The formula multiplies four large numbers before it comes to the small one, and panicked.
#[test]
fn a_count_is_exact_though_its_formula_is_larger_on_the_way() {
    let (n, a) = (u32::MAX, 0);
    assert_eq!(Beyond { n, a }.count(Rank(0)), 0);
    let (n, a) = (1, 1 << 26);
    assert_eq!(Beyond { n, a }.count(Rank(0)), 1 << 26);
    let (n, a) = (3, 2);
    assert_eq!(Beyond { n, a }.count(Rank(0)), 162);
}

/// Counted by a formula where a rank has all tasks, and by lengths of loops.
struct Wedge {
    n: u32,
    p: u32,
}

task_space! {
    enum WedgeTask;

    impl TaskSpace for Wedge {
        type Datum = ();
        let n = self.n;
        let p = self.p;
        order H[i, j, k, l] on i % p;

        for i in 0..n { for j in 0..i { for k in 0..j { for l in 0..k {
            T { i, j, k, l }: new H[i, j, k, l];
        } } } }
    }
}

/// Of which each task is asked for its rank.
struct Spread {
    n: u32,
    p: u32,
}

task_space! {
    enum SpreadTask;

    impl TaskSpace for Spread {
        type Datum = ();
        let n = self.n;
        let p = self.p;
        order H[i, j, k, l] on Rank((i + j) % p);

        for i in 0..n { for j in i..n { for k in j..n { for l in k..n {
            T { i, j, k, l }: new H[i, j, k, l];
        } } } }
    }
}

/// Without a formula, since `1..n` ends before it begins where `n` is 0.
struct Open {
    n: u32,
    p: u32,
}

task_space! {
    enum OpenTask;

    impl TaskSpace for Open {
        type Datum = ();
        let n = self.n;
        let p = self.p;
        order H[i, j, k, l] on i % p;

        for i in 1..n { for j in 1..n { for k in 1..n { for l in 1..n {
            T { i, j, k, l }: new H[i, j, k, l];
        } } } }
    }
}

/// Four loops of 2³¹ were listed for ever, or their sum left the numbers.
#[test]
fn what_no_rank_could_list_is_the_largest_number_at_once() {
    for n in [1 << 31, u32::MAX] {
        for p in [1, 3] {
            assert_eq!(Wedge { n, p }.count(Rank(0)), u64::MAX);
            assert_eq!(Spread { n, p }.count(Rank(p - 1)), u64::MAX);
            assert_eq!(Open { n, p }.count(Rank(0)), u64::MAX);
        }
    }
    for (n, p) in [(0, 1), (1, 2), (6, 1), (6, 2), (7, 4)] {
        verify(&Wedge { n, p }, p).unwrap();
        verify(&Spread { n, p }, p).unwrap();
        verify(&Open { n, p }, p).unwrap();
    }
}

#[test]
fn a_space_of_which_no_memory_holds_the_tasks_is_not_verified() {
    let text = "the space counts 18446744073709551615 tasks, each of which `verify` would note \
                (4294967295 at most): try smaller parameters";
    let space = Wedge { n: 1 << 31, p: 2 };
    assert_eq!(verify(&space, 2).unwrap_err().to_string(), text);
}

struct Boast;

task_space! {
    enum BoastTask;

    impl TaskSpace for Boast {
        type Datum = ();
        order H[i];

        fn count(&self, _: Rank) -> u64 {
            u64::MAX
        }

        for i in 0..2 { T { i }: new H[i]; }
    }
}

/// Their sum panicked, or was a small number.
#[test]
fn a_series_of_spaces_beyond_64_bits_has_the_largest_count() {
    let boasts = [Erased::new(&Boast), Erased::new(&Boast)];
    assert_eq!(
        Erased::series(boasts, 0..1).unwrap().count(Rank(0)),
        u64::MAX
    );
}

struct Skew {
    n: u32,
}

task_space! {
    enum SkewTask;

    impl TaskSpace for Skew {
        type Datum = Number;
        let n = self.n;
        data Sum[i];

        for i in 0..n { Make { i }: new sum = Sum[i] => sum.put(Number(i.into())); }
        for i in 0..n {
            for j in 0..n {
                Read { i, j }: optional sum = Sum[i + j - n] => assert!(sum.is_none_or(|sum| sum.0 == i64::from(i + j - n)));
            }
        }
    }
}

/// The guard was asked in 64 bits, and the parameter that it lets through computed in 32.
#[test]
fn a_parameter_of_a_source_is_a_sum_that_is_more_than_a_u32_on_the_way() {
    verify(&Skew { n: 4 }, 1).unwrap();
    let space = Skew { n: 3_000_000_000 };
    let mut sources = Sources(Vec::new());
    let (i, j) = (2_500_000_000, 2_500_000_000);
    space.inputs(SkewTask::Read { i, j }, &mut sources);
    assert_eq!(sources.0, [SkewTask::Make { i: 2_000_000_000 }]);
}

struct Far {
    n: u32,
}

task_space! {
    enum FarTask;

    impl TaskSpace for Far {
        type Datum = Number;
        let n = self.n;
        data Sum[i];

        for i in 0..n { Make { i }: new sum = Sum[i + 4294967296] => sum.put(Number(i.into())); }
        for i in 0..n { Read { i }: read sum = Sum[i + 4294967296] => assert!(sum.0 == i.into()); }
    }
}

#[test]
fn subscripts_may_lie_beyond_u32_where_no_place_is_computed_of_them() {
    verify(&Far { n: 4 }, 1).unwrap();
}
