//! One Householder reflector.
//!
//! # Source
//! LAPACK's `larfg`.

use ::faer::{ColMut, ColRef, MatMut};

use crate::scalar::{Scalar, smallest_normal};

/// τ of H = I − τ·v·vᴴ with Hᴴ·(head, tail) = (β, 0), β real; `head` becomes β, `tail` becomes v
/// without its leading 1. Where squares would overflow or lose digits, they are not formed.
#[inline(always)]
pub(super) fn larfg<T: Scalar>(head: &mut T, tail: &mut [T]) -> T {
    let (re, im, squares) = (head.re(), head.im(), sum_of_squares(tail));
    let length = re * re + im * im + squares;
    let least = (smallest::<T>() * smallest::<T>()).max(1e-270);
    if !(squares >= least && length <= 1e300) {
        return scaled(head, tail);
    }
    let beta = -length.sqrt().copysign(re);
    // v ← tail / (α − β)
    let (above, of_square) = (re - beta, (re - beta) * (re - beta) + im * im);
    let scale = T::from_parts(above / of_square, -im / of_square);
    tail.iter_mut().for_each(|x| *x *= scale);
    *head = T::from_real(beta);
    T::from_parts((beta - re) / beta, -im / beta)
}

/// What the largest numbers are multiplied by: 2⁻¹⁰, after which twice one of them has a reciprocal.
const SHRINK: f64 = 1.0 / 1024.0;

/// The same, scaled so that nothing overflows or underflows on the way.
#[inline(never)]
fn scaled<T: Scalar>(head: &mut T, tail: &mut [T]) -> T {
    // A length may vanish where its entries do not.
    if head.im() == 0.0 && tail.iter().all(|x| *x == T::zero()) {
        return T::zero();
    }
    let mut norm = length(tail);
    let (mut re, mut im) = (head.re(), head.im());
    let mut beta = -re.hypot(im).hypot(norm).copysign(re);
    let mut shrunk = 1.0;
    while beta.abs() < smallest::<T>() && shrunk > 0.0 {
        let grow = 1.0 / smallest::<T>();
        tail.iter_mut().for_each(|x| *x *= T::from_real(grow));
        (re, im, shrunk) = (re * grow, im * grow, shrunk * smallest::<T>());
        norm = length(tail);
        beta = -re.hypot(im).hypot(norm).copysign(re);
    }
    // |α − β| may overflow where |β| does not.
    if beta.is_finite() && (re - beta).hypot(im).is_infinite() {
        tail.iter_mut().for_each(|x| *x *= T::from_real(SHRINK));
        (re, im, beta, shrunk) = (re * SHRINK, im * SHRINK, beta * SHRINK, 1.0 / SHRINK);
    }
    let tau = T::from_parts((beta - re) / beta, -im / beta);
    // v ← tail / (α − β)
    let (re, modulus) = (re - beta, (re - beta).hypot(im));
    let scale = T::from_parts(re / modulus / modulus, -(im / modulus) / modulus);
    tail.iter_mut().for_each(|x| *x *= scale);
    *head = T::from_real(beta * shrunk);
    tau
}

/// ‖x‖₂², in eight lanes.
#[inline(always)]
pub(crate) fn sum_of_squares<T: Scalar>(x: &[T]) -> f64 {
    let square = |x: T| x.re() * x.re() + x.im() * x.im();
    let (lines, rest) = x.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for line in lines {
        (0..8).for_each(|lane| lanes[lane] += square(line[lane]));
    }
    let rest: f64 = rest.iter().map(|x| square(*x)).sum();
    lanes.iter().sum::<f64>() + rest
}

/// The 2-norm, without overflow on the way.
fn length<T: Scalar>(x: &[T]) -> f64 {
    let length = T::from_real_impl(&ColRef::from_slice(x).norm_l2()).re();
    if !(length.is_infinite() && x.iter().all(|x| x.is_finite())) {
        return length;
    }
    // faer's is infinite from half the largest number on.
    let parts = || x.iter().flat_map(|x| [x.re(), x.im()]);
    let largest = parts().fold(0.0f64, |largest, part| largest.max(part.abs()));
    let squares = parts().map(|part| (part / largest) * (part / largest));
    largest * squares.sum::<f64>().sqrt()
}

/// LAPACK's safe minimum over its precision: below it, 1/β may overflow.
fn smallest<T: Scalar>() -> f64 {
    smallest_normal::<T>() / T::EPSILON
}

/// A column as a slice.
pub(super) fn contiguous<'a, T>(a: &'a mut MatMut<'_, T>, j: usize) -> &'a mut [T] {
    whole(a.as_mut().col_mut(j))
}

/// The same of a view of it.
pub(super) fn whole<T>(column: ColMut<'_, T>) -> &mut [T] {
    match column.try_as_col_major_mut() {
        Some(column) => column.as_slice_mut(),
        None => panic!("a panel with columns in pieces"),
    }
}
