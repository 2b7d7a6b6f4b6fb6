//! Calls from Fortran: their arguments, looked at and refused by number; pointers that become slices.

use dataflow_linalg::kernel::{Op, Side, Triangle};

unsafe extern "C" {
    /// Of the program that calls; a name's length comes last.
    fn xerbla_(name: *const u8, argument: *const i32, length: usize);
}

/// What is wrong with a call, if anything.
pub(crate) struct Call<'n> {
    name: &'n str,
    wrong: i32,
}

impl<'n> Call<'n> {
    pub(crate) fn of(name: &'n str) -> Self {
        Call { name, wrong: 0 }
    }

    /// Notes the argument with this number unless it is as it must be; the first one counts.
    pub(crate) fn expect(&mut self, number: i32, holds: bool) -> &mut Self {
        if self.wrong == 0 && !holds {
            self.wrong = number;
        }
        self
    }

    /// Tells `XERBLA` what is wrong; INFO is minus the answer, 0 if nothing is.
    pub(crate) fn refused(&self) -> i32 {
        if self.wrong != 0 {
            let name = format!("{:6}", self.name);
            // SAFETY: - the program defines the routine, with this signature of Fortran's
            //         - it reads as many letters as it is told, and the number
            unsafe { xerbla_(name.as_ptr(), &raw const self.wrong, name.len()) }
        }
        self.wrong
    }
}

/// A length that is not negative, by then; 0 otherwise.
pub(crate) fn length(n: i32) -> usize {
    usize::try_from(n).unwrap_or(0)
}

/// Whether a leading dimension is enough for so many rows.
pub(crate) fn spans(ld: i32, rows: i32) -> bool {
    ld >= rows.max(1)
}

pub(crate) fn op(letter: u8) -> Option<Op> {
    match letter.to_ascii_uppercase() {
        b'N' => Some(Op::NoTranspose),
        b'T' => Some(Op::Transpose),
        b'C' => Some(Op::ConjTranspose),
        _ => None,
    }
}

pub(crate) fn triangle(letter: u8) -> Option<Triangle> {
    match letter.to_ascii_uppercase() {
        b'L' => Some(Triangle::Lower),
        b'U' => Some(Triangle::Upper),
        _ => None,
    }
}

pub(crate) fn side(letter: u8) -> Option<Side> {
    match letter.to_ascii_uppercase() {
        b'L' => Some(Side::Left),
        b'R' => Some(Side::Right),
        _ => None,
    }
}

/// Whether the diagonal is ones that are not stored.
pub(crate) fn is_unit(letter: u8) -> Option<bool> {
    match letter.to_ascii_uppercase() {
        b'U' => Some(true),
        b'N' => Some(false),
        _ => None,
    }
}

/// Elements from the first to the last of a column-major matrix.
fn extent(rows: usize, cols: usize, ld: usize) -> usize {
    match rows == 0 || cols == 0 {
        true => 0,
        false => (cols - 1) * ld + rows,
    }
}

/// A matrix that is only read.
///
/// # Safety
/// What the reference asks of a caller: such a matrix lies there, and nobody writes it meanwhile.
pub(crate) unsafe fn given<'a, T>(
    start: *const T,
    (rows, cols, ld): (usize, usize, usize),
) -> &'a [T] {
    match extent(rows, cols, ld) {
        0 => &[],
        // SAFETY: - the matrix lies there, by the contract of this function
        //         - it ends with the last row of its last column
        extent => unsafe { std::slice::from_raw_parts(start, extent) },
    }
}

/// A matrix that is written.
///
/// # Safety
/// What the reference asks of a caller: such a matrix lies there, apart from all other arguments.
pub(crate) unsafe fn taken<'a, T>(
    start: *mut T,
    (rows, cols, ld): (usize, usize, usize),
) -> &'a mut [T] {
    match extent(rows, cols, ld) {
        0 => &mut [],
        // SAFETY: - the matrix lies there and apart, by the contract of this function
        //         - it ends with the last row of its last column
        extent => unsafe { std::slice::from_raw_parts_mut(start, extent) },
    }
}
