//! Small arrays, for which no graph is made: they have the bits and the errors of the graph of one
//! tile; and where graphs begin, nothing changes.

use dataflow::Dense;
use dataflow::core::port::Inline;
use dataflow::linalg::kernel::{Backend, LARGEST_WHOLE, Op};
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::linalg::matrix::norm::{Norm, norm};
use dataflow::linalg::matrix::{Entries, Layout, TiledMatrix};
use dataflow::linalg::scalar::{Scalar, c32, c64};
use dataflow::linalg::{LinalgError, lu, qr};
use ndarray::{Array2, ArrayView2, Axis, ShapeBuilder, s};
use proptest::prelude::*;

const AUTO: Backend = Backend::Auto;

/// The entries of a source in an array of either memory order.
fn array_of<T: Scalar>(
    shape: (usize, usize),
    entries: &impl Entries<T>,
    columns: bool,
) -> Array2<T> {
    Array2::from_shape_fn(shape.set_f(columns), |(i, j)| entries.entry(i, j))
}

/// All numbers as they are: equal are those with the same bits.
fn bits<T: Scalar>(a: ArrayView2<'_, T>) -> (Vec<[u64; 2]>, (usize, usize)) {
    let of = |x: &T| [x.re().to_bits(), x.im().to_bits()];
    (a.iter().map(of).collect(), a.dim())
}

/// An array has the bits of the graph, or names the first column in which those are not finite.
fn has_the_bits<T: Scalar>(array: Result<Array2<T>, LinalgError>, graph: &Array2<T>, case: &str) {
    let mut columns = graph.columns().into_iter();
    match (
        array,
        columns.position(|x| !x.iter().all(|x| x.is_finite())),
    ) {
        (Ok(array), None) => assert_eq!(bits(array.view()), bits(graph.view()), "{case}"),
        (Err(LinalgError::Overflow { col: told, .. }), Some(col)) => {
            assert_eq!(told, col as u64, "{case}");
        }
        (array, col) => panic!("{case}: column {col:?} of the graph is not finite; {array:?}"),
    }
}

/// Entries at the scale of 1, or near where numbers end: 0, 1 or 2.
fn scaled<T: Scalar>(near: usize) -> impl Fn(usize, usize) -> T + Copy {
    let is_double = T::EPSILON < 1e-10;
    let scale = match (near, is_double) {
        (0, _) => 1.0,
        (1, true) => 1e-306,
        (1, false) => 1e-37,
        (_, true) => 1e150,
        (_, false) => 1e18,
    };
    move |i, j| Entries::<T>::entry(&Random::new(7), i, j) * T::from_real(scale)
}

/// A matrix in tiles as the graph of an array of this shape cuts it; `nb` is for a large one.
fn tiles<T: Scalar>(
    (m, n): (usize, usize),
    nb: usize,
    entries: &impl Entries<T>,
) -> TiledMatrix<T> {
    let nb = match m.max(n) <= LARGEST_WHOLE {
        true => LARGEST_WHOLE,
        false => nb,
    };
    TiledMatrix::from_entries(Layout::general(m, n, nb).unwrap(), entries)
}

fn lu_has_the_bits_of_the_graph<T: Scalar>((m, n): (usize, usize), near: usize, columns: bool) {
    let (entry, case) = (scaled::<T>(near), format!("{m} x {n} {}", T::PRECISION));
    let a = array_of((m, n), &entry, columns);
    let both = tiles((m, n), lu::default_tile_order::<T>(m, n), &entry);
    let of_graph = norm(&both, Norm::One, &Inline).unwrap();
    let pivots = lu::Pivots::new(&both);
    let factor = lu::Factor::new(&both, &pivots, AUTO).unwrap();
    factor.run(&Inline).unwrap();

    let (p, l, u) = a.lu().unwrap();
    let mut rows: Vec<usize> = (0..m).collect();
    pivots.rows().for_each(|(row, pivot)| rows.swap(row, pivot));
    assert_eq!(p, rows, "{case}");
    // The ones of L are not stored.
    let stored = Array2::from_shape_fn((m, n), |(i, j)| if i > j { l[(i, j)] } else { u[(i, j)] });
    let graph = both.to_ndarray().unwrap();
    assert_eq!(bits(stored.view()), bits(graph.view()), "{case}");
    let kept = a.lu_factor().unwrap();
    assert_eq!(kept.permutation(), rows, "{case}");
    assert_eq!(bits(kept.l().view()), bits(l.view()), "{case}");
    assert_eq!(bits(kept.u().view()), bits(u.view()), "{case}");
    if m != n || lu::expect_regular(&both, &Inline).is_err() {
        return;
    }
    let sides = Random::new(3);
    for (op, cols) in [
        (Op::NoTranspose, 3),
        (Op::Transpose, 1),
        (Op::ConjTranspose, 2),
    ] {
        let b = array_of::<T>((n, cols), &sides, !columns);
        let x = TiledMatrix::from_entries(Layout::general(n, cols, both.nb()).unwrap(), &sides);
        lu::solve(&both, &pivots, op, &x, AUTO, &Inline).unwrap();
        let x = x.to_ndarray().unwrap();
        let solved = match op {
            Op::NoTranspose => kept.solve(&b),
            Op::Transpose => kept.solve_transposed(&b),
            Op::ConjTranspose => kept.solve_adjoint(&b),
        };
        has_the_bits(solved, &x, &format!("{case} {op:?}"));
        // A positive number is a definite matrix.
        if op == Op::NoTranspose && n != 1 {
            has_the_bits(a.solve(&b), &x, &case);
        }
    }
    let condition = lu::condition(&both, &pivots, of_graph, AUTO, &Inline).unwrap();
    assert_eq!(
        kept.condition().unwrap().to_bits(),
        condition.to_bits(),
        "{case}"
    );
    let (inverse, _) = lu::invert(both, &pivots, AUTO, &Inline).unwrap();
    let inverse = inverse.to_ndarray().unwrap();
    has_the_bits(kept.inverse(), &inverse, &case);
    if n != 1 {
        has_the_bits(a.inverse(), &inverse, &case);
    }
}

fn qr_has_the_bits_of_the_graph<T: Scalar>((m, n): (usize, usize), near: usize, columns: bool) {
    let (entry, case) = (scaled::<T>(near), format!("{m} x {n} {}", T::PRECISION));
    let a = array_of((m, n), &entry, columns);
    let nb = qr::default_tile_order::<T>(m, n);
    let r = tiles((m, n), nb, &entry);
    let options = qr::Options::of_order(r.nb().min(m.max(n)));
    let (of_q, _) = qr::factor(&r, options, AUTO, &Inline).unwrap();
    let q = qr::form(&r, &of_q, m.min(n), AUTO, &Inline).unwrap();
    let triangle = qr::triangle(&r, &Inline).unwrap();
    let answer = a.qr().unwrap();
    assert_eq!(
        bits(answer.0.view()),
        bits(q.to_ndarray().unwrap().view()),
        "{case}"
    );
    assert_eq!(
        bits(answer.1.view()),
        bits(triangle.to_ndarray().unwrap().view()),
        "{case}"
    );

    let (kept, sides) = (a.qr_factor().unwrap(), Random::new(3));
    for cols in [1, 4] {
        let b = array_of::<T>((m, cols), &sides, !columns);
        let of_a = tiles((m, n), nb, &entry);
        let of_b = Layout::general(m, cols, r.nb()).unwrap();
        let of_b = TiledMatrix::from_entries(of_b, &sides);
        let of_graph = qr::least_squares(&of_a, &of_b, options, AUTO, &Inline);
        for answer in [a.least_squares(&b), kept.least_squares(&b)] {
            match (&answer, &of_graph) {
                (Ok(x), Ok((of_graph, _))) => {
                    let of_graph = of_graph.to_ndarray().unwrap();
                    assert_eq!(bits(x.view()), bits(of_graph.view()), "{case}");
                }
                (Err(found), Err(of_graph)) => {
                    assert_eq!(found.to_string(), of_graph.to_string(), "{case}");
                }
                _ => panic!("{case}: {answer:?}, of the graph {:?}", of_graph.is_ok()),
            }
        }
    }
}

/// L of the array itself has bits of its own; what is solved with it has those of the kept factor,
/// whose inverse is a graph.
fn definite_has_the_bits_of_the_kept_factor<T: Scalar>(n: usize, columns: bool) {
    let case = format!("{n} {}", T::PRECISION);
    let a = array_of::<T>((n, n), &PositiveDefinite::new(n, 5), columns);
    let b = array_of::<T>((n, 3), &Random::new(3), !columns);
    let kept = a.cholesky_factor().unwrap();
    assert_eq!(
        bits(a.cholesky().unwrap().view()),
        bits(kept.l().view()),
        "{case}"
    );
    let (x, of_kept) = (a.solve(&b).unwrap(), kept.solve(&b).unwrap());
    assert_eq!(bits(x.view()), bits(of_kept.view()), "{case}");
    let (inverse, of_kept) = (a.inverse().unwrap(), kept.inverse().unwrap());
    assert_eq!(bits(inverse.view()), bits(of_kept.view()), "{case}");
}

/// Orders where blocks, sub-tiles and the last small one end, and any other.
fn order() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(8),
        Just(96),
        Just(LARGEST_WHOLE),
        Just(LARGEST_WHOLE + 1),
        0..40usize,
        0..=LARGEST_WHOLE,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn lu_of_every_shape_has_the_bits_of_the_graph(
        m in order(), n in order(), near in 0..3usize, precision in 0..4, columns: bool,
    ) {
        for shape in [(m, n), (n, n)] {
            match precision {
                0 => lu_has_the_bits_of_the_graph::<f32>(shape, near, columns),
                1 => lu_has_the_bits_of_the_graph::<f64>(shape, near, columns),
                2 => lu_has_the_bits_of_the_graph::<c32>(shape, near, columns),
                _ => lu_has_the_bits_of_the_graph::<c64>(shape, near, columns),
            }
        }
    }

    #[test]
    fn qr_and_least_squares_of_every_shape_have_the_bits_of_the_graph(
        m in order(), n in order(), near in 0..3usize, precision in 0..4, columns: bool,
    ) {
        for shape in [(m, n), (m, n / 2), (m / 2, n)] {
            match precision {
                0 => qr_has_the_bits_of_the_graph::<f32>(shape, near, columns),
                1 => qr_has_the_bits_of_the_graph::<f64>(shape, near, columns),
                2 => qr_has_the_bits_of_the_graph::<c32>(shape, near, columns),
                _ => qr_has_the_bits_of_the_graph::<c64>(shape, near, columns),
            }
        }
    }

    #[test]
    fn a_rank_that_is_not_full_is_that_of_the_graph(
        (m, n, rank) in (1..50usize, 1..50usize).prop_flat_map(|(m, n)| (Just(m), Just(n), 0..m.min(n))),
        columns: bool,
    ) {
        let (left, right) = (Random::new(1), Random::new(2));
        let left = array_of::<c64>((m, rank), &left, true);
        let a = left.dot(&array_of((rank, n), &right, true));
        let entry = |i: usize, j: usize| a[(i, j)];
        let b = array_of::<c64>((m, 1), &Random::new(3), columns);
        let refused = array_of((m, n), &entry, columns).least_squares(&b).unwrap_err();
        let kept = a.qr_factor().unwrap().least_squares(&b).unwrap_err();
        let (of_a, of_b) = (tiles((m, n), 1, &entry), tiles((m, 1), 1, &|i: usize, j: usize| b[(i, j)]));
        let options = qr::Options::of_order(m.max(n));
        let of_graph = qr::least_squares(&of_a, &of_b, options, AUTO, &Inline);
        let of_graph = of_graph.err().map(|error| error.to_string());
        prop_assert!(matches!(
            refused,
            LinalgError::RankDeficient { rank: found, full, .. }
                if (found, full) == (rank as u64, m.min(n) as u64)
        ), "{refused}");
        prop_assert_eq!(of_graph.as_ref(), Some(&refused.to_string()));
        prop_assert_eq!(of_graph, Some(kept.to_string()));
    }

    #[test]
    fn definite_matrices_are_solved_and_inverted_with_the_bits_of_a_kept_factor(
        n in order(), columns: bool,
    ) {
        definite_has_the_bits_of_the_kept_factor::<f32>(n, columns);
        definite_has_the_bits_of_the_kept_factor::<f64>(n, columns);
        definite_has_the_bits_of_the_kept_factor::<c32>(n, columns);
        definite_has_the_bits_of_the_kept_factor::<c64>(n, columns);
    }

    #[test]
    fn the_first_entry_that_is_not_finite_is_named_in_column_order(
        m in 1..40usize, n in 1..40usize, seed: u64, bad in 0..3usize, columns: bool,
    ) {
        let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][bad];
        let mut a = array_of::<c64>((m, n), &Random::new(seed), columns);
        let (first, second) = (seed as usize % (m * n), (seed >> 20) as usize % (m * n));
        let at = |place: usize| (place % m, place / m);
        a[at(first)] = c64::new(0.0, bad);
        a[at(second)] = c64::new(bad, 0.0);
        let (row, col) = at(first.min(second));
        let square = a.slice(s![..m.min(n), ..m.min(n)]);
        let is_in = row.max(col) < m.min(n) && first.max(second) == first.min(second);
        let b = Array2::<c64>::zeros((m, 2));
        let mut refused = vec![a.lu().err(), a.lu_factor().err()];
        refused.extend([a.qr().err(), a.qr_factor().err(), a.least_squares(&b).err()]);
        let unit = array_of::<c64>((m, m), &|i, j| c64::new(f64::from(i == j), 0.0), columns);
        refused.push(unit.least_squares(&a).err());
        if is_in {
            let b = Array2::<c64>::zeros((m.min(n), 1));
            refused.extend([square.solve(&b).err(), square.inverse().err()]);
        }
        for refused in refused {
            let named = matches!(
                refused,
                Some(LinalgError::NotFinite { row: r, col: c, .. }) if (r, c) == (row as u64, col as u64)
            );
            prop_assert!(named, "({row}, {col}): {refused:?}");
        }
    }

    #[test]
    fn the_first_pivot_that_is_zero_is_lapacks_info(n in 1..60usize, at in 0..60usize) {
        let at = at % n;
        let mut a = array_of::<f64>((n, n), &Random::new(4), true);
        a.column_mut(at).fill(0.0);
        let kept = a.lu_factor().unwrap();
        let (b, index) = (Array2::<f64>::ones((n, 2)), Some(at as u64 + 1));
        for refused in [
            a.solve(&b).err(),
            a.inverse().err(),
            kept.solve(&b).err(),
            kept.inverse().err(),
            kept.condition().err(),
        ] {
            prop_assert_eq!(refused.and_then(|error| error.index()), index);
        }
        let (p, l, u) = a.lu().unwrap();
        let rest: Array2<f64> = a.select(Axis(0), &p) - l.dot(&u);
        prop_assert!(rest.iter().all(|rest| rest.abs() < 1e-12));
    }
}

/// ‖X‖₁.
fn size<T: Scalar>(x: &Array2<T>) -> f64 {
    let columns = x.columns().into_iter();
    let sums = columns.map(|column| column.iter().map(|x| x.modulus()).sum());
    sums.fold(0.0, f64::max)
}

fn adjoint<T: Scalar>(x: &Array2<T>) -> Array2<T> {
    x.t().mapv(Scalar::conj)
}

fn unit<T: Scalar>(n: usize) -> Array2<T> {
    array_of(
        (n, n),
        &|i, j| if i == j { T::one() } else { T::zero() },
        true,
    )
}

/// ‖X − Y·Z‖₁, with Z at last.
fn rest<T: Scalar>(x: &Array2<T>, y: &Array2<T>, z: &Array2<T>) -> f64 {
    let product = y.dot_tiled(z).unwrap();
    size(&Array2::from_shape_fn(x.dim(), |at| x[at] - product[at]))
}

/// All six calls, by the measures of LAPACK's tests.
fn answers_are_within_lapacks_thresholds<T: Scalar>(
    (m, n): (usize, usize),
    seed: u64,
    columns: bool,
) {
    let case = format!("{} {m} x {n}, seed {seed}, {columns}", T::PRECISION);
    let expect = |what: &str, rest: f64, scale: f64| {
        let ratio = rest / (scale * T::EPSILON * m.max(n) as f64);
        assert!(rest == 0.0 || ratio < 30.0, "{what}, {case}: {ratio:.1}");
    };
    let random = Random::new(seed);
    let (a, square) = (
        array_of::<T>((m, n), &random, columns),
        array_of((m, m), &random, columns),
    );
    let (p, l, u) = a.lu().unwrap();
    expect("lu", rest(&a.select(Axis(0), &p), &l, &u), size(&a));
    let (q, r) = a.qr().unwrap();
    expect("qr", rest(&a, &q, &r), size(&a));
    expect("q", rest(&unit(m.min(n)), &adjoint(&q), &q), 1.0);

    let b = array_of::<T>((m, 2), &Random::new(seed + 1), !columns);
    let x = a.least_squares(&b).unwrap();
    let gap = &b - &a.dot_tiled(&x).unwrap();
    match m >= n {
        true => expect(
            "nearest",
            size(&adjoint(&a).dot_tiled(&gap).unwrap()),
            size(&a) * size(&b),
        ),
        false => expect("shortest", size(&gap), size(&a) * size(&x)),
    }
    let definite = array_of::<T>((m, m), &PositiveDefinite::new(m, seed), columns);
    let l = definite.cholesky().unwrap();
    expect(
        "cholesky",
        rest(&definite, &l, &adjoint(&l)),
        size(&definite),
    );
    for a in [square, definite] {
        let (x, inverse) = (a.solve(&b).unwrap(), a.inverse().unwrap());
        expect("solve", rest(&b, &a, &x), size(&a) * size(&x));
        expect(
            "inverse",
            rest(&unit(m), &inverse, &a),
            size(&a) * size(&inverse),
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn answers_with_and_without_a_graph_are_within_lapacks_thresholds(
        m in 1..=300usize, n in 1..=300usize, seed in 0..1000u64, columns: bool,
    ) {
        answers_are_within_lapacks_thresholds::<f32>((m, n), seed, columns);
        answers_are_within_lapacks_thresholds::<f64>((m, n), seed, columns);
        answers_are_within_lapacks_thresholds::<c32>((m, n), seed, columns);
        answers_are_within_lapacks_thresholds::<c64>((m, n), seed, columns);
    }
}

#[test]
fn what_only_looks_hermitian_in_memory_is_solved_by_lu() {
    // Its rows in reverse order are symmetric, it is not.
    let symmetric = ndarray::array![[3.0_f64, 1.0], [1.0, 2.0]];
    let a = symmetric.slice(s![..;-1, ..]);
    let x = a.solve(&ndarray::array![5.0, 5.0]).unwrap();
    let rest = a.dot(&x) - ndarray::array![5.0, 5.0];
    assert!(rest.iter().all(|rest| rest.abs() < 1e-14), "{x}");
}
