//! `trtri`, `lauum`, `trmm`, `herk_add`, `gemm_add` and `scale` against textbook loops.

use super::*;
use crate::kernel::scratch::with_scratch;

const ORDERS: [usize; 8] = [0, 1, 2, 7, 17, 48, 97, 131];

/// Lᴴ·L of a triangle without anything above its diagonal.
fn square(l: &Dense) -> Dense {
    let zero = Dense::from_fn(l.rows, l.rows, |_, _| c64::new(0.0, 0.0));
    let negative = zero.minus_product(&l.op(Op::ConjTranspose), l);
    Dense::from_fn(l.rows, l.rows, |i, j| -negative.at(i, j))
}

#[test]
fn trtri_gives_the_inverse_and_looks_at_the_lower_triangle_alone() {
    fn check<T: Scalar>() {
        for (n, format) in ORDERS
            .into_iter()
            .flat_map(|n| FORMATS.map(|format| (n, format)))
        {
            let l = Dense::triangle::<T>(n, 5);
            let mut tile = l.tile::<T>(format);
            poison(&mut tile, false);
            trtri(&mut tile);
            // L·L⁻¹ is the unit matrix.
            let what = format!("trtri {n} {format:?}");
            let inverse = Dense::from_fn(n, n, |i, j| match i >= j {
                true => c64::new(tile.get(i, j).re(), tile.get(i, j).im()),
                false => c64::new(0.0, 0.0),
            });
            let unit = |i: usize, j: usize| c64::new(if i == j { 1.0 } else { 0.0 }, 0.0);
            let rest = Dense::from_fn(n, n, unit).minus_product(&l, &inverse);
            let worst = rest.elements.iter().map(|x| x.norm()).fold(0.0, f64::max);
            assert!(
                worst <= 8.0 * T::EPSILON * (n + 4) as f64,
                "{what}: {worst:e}"
            );
            for (i, j) in (0..n).flat_map(|j| (0..j).map(move |i| (i, j))) {
                assert!(tile.get(i, j).re().is_nan(), "{what}: ({i}, {j}) written");
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn lauum_gives_the_square_and_looks_at_the_lower_triangle_alone() {
    fn check<T: Scalar>() {
        for (n, format) in ORDERS
            .into_iter()
            .flat_map(|n| FORMATS.map(|format| (n, format)))
        {
            let l = Dense::triangle::<T>(n, 6);
            let mut tile = l.tile::<T>(format);
            poison(&mut tile, false);
            lauum(&mut tile);
            let what = format!("lauum {n} {format:?}");
            expect_close(&what, &tile, &square(&l), n, true);
            expect_untouched_above(&what, &tile);
        }
    }
    for_every_scalar!(check);
}

#[test]
fn trmm_multiplies_by_the_lower_triangle_alone() {
    fn check<T: Scalar>() {
        for (m, n) in [(0, 3), (3, 0), (1, 1), (17, 9), (97, 60), (60, 131)] {
            for op in [Op::NoTranspose, Op::Transpose, Op::ConjTranspose] {
                for (f, format) in FORMATS.into_iter().enumerate() {
                    let (l, b) = (Dense::triangle::<T>(m, 7), Dense::random::<T>(m, n, 8));
                    let mut triangle = l.tile::<T>(FORMATS[(f + 1) % FORMATS.len()]);
                    poison(&mut triangle, false);
                    let mut tile = b.tile::<T>(format);
                    trmm(-T::one(), (op, &triangle), &mut tile);
                    let zero = Dense::from_fn(m, n, |_, _| c64::new(0.0, 0.0));
                    let expected = zero.minus_product(&l.op(op), &b);
                    let what = format!("trmm {op:?} {m} × {n} {format:?}");
                    expect_close(&what, &tile, &expected, m, false);
                }
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn herk_adds_either_square_to_the_lower_triangle_alone() {
    fn check<T: Scalar>() {
        for (n, k) in [(0, 2), (1, 1), (9, 4), (50, 33), (97, 112)] {
            for (op, alpha) in [
                (Op::NoTranspose, 1.0),
                (Op::ConjTranspose, -1.0),
                (Op::ConjTranspose, 2.0),
            ] {
                let (a, c) = (Dense::random::<T>(n, k, 1), Dense::positive::<T>(n, 2));
                let scaled = Dense::from_fn(n, k, |i, j| -alpha * a.at(i, j));
                let expected = c.minus_product(&scaled, &a.op(Op::ConjTranspose));
                let stored = a.op(op);
                for (f, format) in FORMATS.into_iter().enumerate() {
                    for backend in backends() {
                        let mut tile = c.tile::<T>(format);
                        poison(&mut tile, true);
                        let stored = stored.tile::<T>(FORMATS[(f + 2) % FORMATS.len()]);
                        herk_add(backend, alpha, (op, &stored), &mut tile);
                        let what = format!("herk_add {op:?} {alpha} {n} {k} {format:?} {backend}");
                        expect_close(&what, &tile, &expected, 2 * k, true);
                        expect_untouched_above(&what, &tile);
                    }
                }
            }
        }
    }
    for_every_scalar!(check);
}

#[test]
fn gemm_adds_any_multiple_of_the_product() {
    fn check<T: Scalar>() {
        let (m, n, k) = (40, 35, 50);
        let alpha = T::from_parts(-0.75, 0.5);
        let factor = c64::new(alpha.re(), alpha.im());
        let (a, b) = (Dense::random::<T>(m, k, 1), Dense::random::<T>(k, n, 2));
        let c = Dense::random::<T>(m, n, 3);
        let scaled = Dense::from_fn(m, k, |i, j| -factor * a.at(i, j));
        let expected = c.minus_product(&scaled, &b);
        for (backend, format) in backends().into_iter().flat_map(|b| FORMATS.map(|f| (b, f))) {
            let mut tile = c.tile::<T>(format);
            let (a, b) = (a.op(Op::Transpose).tile::<T>(format), b.tile::<T>(format));
            gemm_add(
                backend,
                alpha,
                (Op::Transpose, &a),
                (Op::NoTranspose, &b),
                &mut tile,
            );
            expect_close(
                &format!("gemm_add {format:?} {backend}"),
                &tile,
                &expected,
                2 * k,
                false,
            );
        }
    }
    for_every_scalar!(check);
}

/// The column-major factor of a small matrix, with scratch that held `before` everywhere.
fn whole_factor<T: Scalar>(a: &Tile<T>, before: f64) -> Option<Vec<T>> {
    let n = a.rows();
    let spoiled = T::from_parts(before, before);
    with_scratch((n + 8) * (n + 8), |scratch: &mut [T]| scratch.fill(spoiled));
    potrf_whole(n, |j, column| {
        assert_eq!(column.len(), n - j);
        let rows = column.iter_mut().zip(j..);
        rows.for_each(|(slot, i)| *slot = a.get(i, j));
    })
}

/// faer is handed scratch that nobody cleared: its law is that rows of a column stay apart.
#[test]
fn a_small_factor_made_at_once_depends_on_the_lower_triangle_alone() {
    fn check<T: Scalar>() {
        for n in [0, 1, 2, 7, 8, 9, 17, 48, 64, 65, 100, 129, 200, 256] {
            let a = Dense::positive::<T>(n, 7);
            let mut tile = a.tile::<T>(Format::ColumnMajor);
            for i in 0..n {
                // Imaginary parts of the diagonal are not read.
                tile.set(i, i, T::from_parts(a.at(i, i).re, 3.0));
            }
            let clean = whole_factor(&tile, 0.0).unwrap();
            let l = |l: &[T]| {
                let mut tile = tile.clone();
                tile.read_column_major(l, n);
                tile
            };
            expect_close("at once", &l(&clean), &factor(&a), n, false);
            let spoiled = whole_factor(&tile, f64::NAN).unwrap();
            assert_eq!(bits(&l(&clean)), bits(&l(&spoiled)), "n = {n}");
        }
    }
    for_every_scalar!(check);
}

#[test]
fn what_has_no_finite_factor_has_none_at_once() {
    let n = 70;
    let good = Dense::positive::<f64>(n, 5).tile::<f64>(Format::ColumnMajor);
    assert!(whole_factor(&good, 0.0).is_some());
    for at in [0, 1, 33, n - 1] {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut a = good.clone();
            a.set(at, at, bad);
            assert_eq!(whole_factor(&a, 0.0), None, "{bad} at {at}");
        }
    }
}
