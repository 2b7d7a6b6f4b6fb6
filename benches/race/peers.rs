//! The peers: other libraries' own parallel routines, column-major.

use super::{Bench, Contestant, Dense, Outcome, Routine, Shared, Times, locked, seconds};
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::cholesky::llt;
use faer::linalg::lu::partial_pivoting::factor as lu;
use faer::linalg::matmul::matmul;
use faer::linalg::qr::no_pivoting::factor as qr;
use faer::{Accum, Mat, MatMut, Par};

/// faer's own parallel routines, in place but for the inverse.
pub struct Faer {
    routine: Routine,
    room: Shared,
    par: Par,
    scratch: MemBuffer,
    /// Of the inverse: the factor. Of the product: its operand. Of QR: the triangles of its blocks of reflectors.
    beside: Mat<f64>,
}

impl Faer {
    pub fn new(bench: &Bench, routine: Routine, room: &Shared) -> Self {
        let (par, n) = (Par::rayon(bench.n_threads()), locked(room).rows());
        let auto = Default::default;
        let block = qr::recommended_block_size::<f64>(n, n);
        let potrf = llt::factor::cholesky_in_place_scratch::<f64>(n, par, auto());
        let (scratch, beside) = match routine {
            Routine::Potrf => (potrf, 0),
            Routine::Getrf => {
                let getrf = lu::lu_in_place_scratch::<usize, f64>(n, n, par, Default::default());
                (getrf, 0)
            }
            Routine::Geqrf => {
                let none = Default::default();
                (
                    qr::qr_in_place_scratch::<f64>(n, n, block, par, none),
                    block,
                )
            }
            Routine::Inverse => {
                let invert = llt::inverse::inverse_scratch::<f64>(n, par);
                (StackReq::any_of(&[potrf, invert]), n)
            }
            Routine::Gemm => (StackReq::EMPTY, n),
        };
        Faer {
            routine,
            room: room.clone(),
            par,
            scratch: MemBuffer::new(scratch),
            beside: Mat::zeros(beside, n),
        }
    }
}

impl Contestant for Faer {
    fn run(&mut self, matrix: &Dense) -> Outcome<Times> {
        let (n, par, mut room) = (matrix.rows(), self.par, locked(&self.room));
        room.as_mut_slice().copy_from_slice(matrix.as_slice());
        let mut a = MatMut::from_column_major_slice_mut(room.as_mut_slice(), n, n);
        let (stack, beside) = (MemStack::new(&mut self.scratch), &mut self.beside);
        let potrf = |a: MatMut<'_, f64>, stack: &mut MemStack| {
            let factored = llt::factor::cholesky_in_place(
                a,
                Default::default(),
                par,
                stack,
                Default::default(),
            );
            factored.map_err(|error| format!("faer: {error:?}"))
        };
        let mut rows = Vec::new();
        let factor = match self.routine {
            Routine::Potrf => {
                let (factor, factored) = seconds(|| potrf(a, stack));
                factored?;
                factor
            }
            Routine::Getrf => {
                rows = vec![0; n];
                let mut inverse = vec![0; n];
                let call = || {
                    lu::lu_in_place(a, &mut rows, &mut inverse, par, stack, Default::default());
                };
                seconds(call).0
            }
            Routine::Geqrf => {
                let call = || qr::qr_in_place(a, beside.as_mut(), par, stack, Default::default());
                seconds(call).0
            }
            Routine::Inverse => {
                beside.copy_from(&a);
                let (factor, factored) = seconds(|| {
                    potrf(beside.as_mut(), stack)?;
                    llt::inverse::inverse(a.as_mut(), beside.as_ref(), par, stack);
                    Ok::<(), String>(())
                });
                factored?;
                factor
            }
            Routine::Gemm => {
                beside.copy_from(&a);
                let factor = beside.as_ref();
                seconds(|| matmul(a, Accum::Replace, factor, factor, 1.0, par)).0
            }
        };
        Ok(Times {
            rows,
            ..Times::of(factor)
        })
    }
}

/// OpenBLAS's own parallel LAPACK, in place.
#[cfg(feature = "openblas")]
pub struct OpenBlas {
    routine: Routine,
    room: Shared,
    n_threads: usize,
}

#[cfg(feature = "openblas")]
impl OpenBlas {
    pub fn new(bench: &Bench, routine: Routine, room: &Shared) -> Self {
        OpenBlas {
            routine,
            room: room.clone(),
            n_threads: bench.n_threads(),
        }
    }
}

#[cfg(feature = "openblas")]
impl Contestant for OpenBlas {
    fn run(&mut self, matrix: &Dense) -> Outcome<Times> {
        use dataflow::linalg::kernel::openblas;
        let (n, mut room) = (matrix.rows(), locked(&self.room));
        room.as_mut_slice().copy_from_slice(matrix.as_slice());
        let a = room.as_mut_slice();
        if self.routine == Routine::Gemm {
            a.fill(0.0);
        }
        let (mut pivots, mut factors) = (vec![0; n], vec![0.0; n]);
        openblas::set_threads(self.n_threads);
        let (factor, info) = seconds(|| match self.routine {
            Routine::Potrf => openblas::potrf(n, a, n),
            Routine::Getrf => openblas::getrf((n, n), a, n, &mut pivots),
            Routine::Geqrf => openblas::geqrf((n, n), a, n, &mut factors),
            Routine::Inverse => match openblas::potrf(n, a, n) {
                0 => openblas::potri(n, a, n),
                info => info,
            },
            Routine::Gemm => {
                // C ← C − A·A: the sign is mended behind the clock.
                openblas::gemm(n, n, n, matrix.as_slice(), matrix.as_slice(), a);
                0
            }
        });
        if self.routine == Routine::Gemm {
            a.iter_mut().for_each(|x| *x = -*x);
        }
        openblas::set_threads(1);
        let mut rows: Vec<usize> = (0..n).collect();
        for (row, pivot) in pivots.into_iter().enumerate() {
            // LAPACK counts from 1; 0 is what other routines leave.
            rows.swap(row, usize::try_from(pivot - 1).unwrap_or(row));
        }
        match info {
            0 => Ok(Times {
                rows,
                ..Times::of(factor)
            }),
            info => Err(format!("OpenBLAS {}: INFO = {info}", self.routine).into()),
        }
    }
}
