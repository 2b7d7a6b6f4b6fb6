//! Spaces with more tasks than could run, and parameters that are large.

use super::{Number, Sources};
use dataflow_core::prelude::*;

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
fn a_count_by_a_formula_that_could_overflow_is_one_by_loops() {
    let (n, a) = (u32::MAX, 0);
    assert_eq!(Beyond { n, a }.count(Rank(0)), 0);
    let (n, a) = (1, 1 << 26);
    assert_eq!(Beyond { n, a }.count(Rank(0)), 1 << 26);
    let (n, a) = (3, 2);
    assert_eq!(Beyond { n, a }.count(Rank(0)), 162);
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
