//! Steps: what is done with factors, on one rank or many. The only calls into
//! [`linalg`](crate::linalg) of this room.

use crate::collective::Gather;
use crate::tiled::{At, alike};
use dataflow_core::monitor::Monitor;
use dataflow_core::rank::Rank;
use dataflow_core::run_across;
use dataflow_linalg::condition::inverse_norm;
use dataflow_linalg::determinant::Determinant;
use dataflow_linalg::error::TileError;
use dataflow_linalg::kernel::{Backend, Op, Side};
use dataflow_linalg::matrix::norm::{Norm, norm, norm_across};
use dataflow_linalg::matrix::{Layout, TiledMatrix};
use dataflow_linalg::scalar::Scalar;
use dataflow_linalg::{LinalgError, cholesky, lu, qr};

impl At<'_> {
    /// ‖A‖₁
    pub fn norm<T: Scalar>(self, a: &TiledMatrix<T>) -> Result<f64, LinalgError> {
        match self.courier.n_ranks() == 1 && a.n_slots() <= 1 {
            true => norm(a, Norm::One).map_err(absent),
            false => norm_across(a, Norm::One, self.on, self.courier).map_err(LinalgError::Run),
        }
    }

    /// L ← A⁻¹
    pub fn invert_with_cholesky<T: Scalar>(self, l: &TiledMatrix<T>) -> Result<(), LinalgError> {
        let inverse = cholesky::Inverse::of_factor(l, Backend::Auto)?;
        inverse.run_across(self.on, self.courier, &Monitor::new())?;
        Ok(())
    }

    /// Fails if a pivot is zero.
    pub fn expect_regular<T: Scalar>(self, lu: &TiledMatrix<T>) -> Result<(), LinalgError> {
        lu::expect_regular(lu, self.on, self.courier)
    }

    /// B ← X of op(A)·X = B; does not look for zero pivots.
    pub fn solve_with_lu<T: Scalar>(
        self,
        (lu, pivots): (&TiledMatrix<T>, &lu::Pivots<T>),
        op: Op,
        b: &TiledMatrix<T>,
    ) -> Result<(), LinalgError> {
        let solve = lu::Solve::new(lu, pivots, op, b, Backend::Auto)?;
        solve.run_across(self.on, self.courier, &Monitor::new())?;
        Ok(())
    }

    /// A⁻¹ from factors, which are used up; does not look for zero pivots.
    pub fn invert_with_lu<T: Scalar>(
        self,
        lu: TiledMatrix<T>,
        pivots: &lu::Pivots<T>,
    ) -> Result<TiledMatrix<T>, LinalgError> {
        let by = (self.on, self.courier, &Monitor::new());
        let (inverse, _) = lu::invert(lu, pivots, Backend::Auto, by)?;
        Ok(inverse)
    }

    /// A ← R, with reflectors below; and what else Q is made of.
    pub fn factor_by_qr<T: Scalar>(
        self,
        a: &TiledMatrix<T>,
    ) -> Result<qr::Reflectors<T>, LinalgError> {
        let q = qr::Reflectors::new(a.layout(), options(a));
        let factor = qr::Factor::new(a, &q, Backend::Auto)?;
        factor.run_across(self.on, self.courier, &Monitor::new())?;
        Ok(q)
    }

    /// The first min(m, n) columns of Q.
    pub fn form_q<T: Scalar>(
        self,
        (a, q): (&TiledMatrix<T>, &qr::Reflectors<T>),
    ) -> Result<TiledMatrix<T>, LinalgError> {
        let k = a.rows().min(a.cols());
        qr::form(a, q, k, Backend::Auto, self.on, self.courier)
    }

    /// R with its zeros.
    pub fn triangle<T: Scalar>(self, a: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        qr::triangle(a, self.on)
    }

    /// Fails unless all columns of a factored matrix, m ≥ n, are independent.
    pub fn expect_full_rank<T: Scalar>(self, a: &TiledMatrix<T>) -> Result<(), LinalgError> {
        let monitor = Monitor::new();
        let at = qr::Where {
            on: self.on,
            courier: self.courier,
            monitor: &monitor,
        };
        qr::expect_full_rank(a, options(a), Backend::Auto, at).map(drop)
    }

    /// C ← op(Q)·C
    pub fn apply_q<T: Scalar>(
        self,
        (a, q): (&TiledMatrix<T>, &qr::Reflectors<T>),
        op: Op,
        c: &TiledMatrix<T>,
    ) -> Result<(), LinalgError> {
        let apply = qr::Apply::new(a, q, (Side::Left, op), c, Backend::Auto)?;
        apply.run_across(self.on, self.courier, &Monitor::new())?;
        Ok(())
    }

    /// X ← op(R)⁻¹·B in the leading rows; B is overwritten.
    pub fn solve_triangle<T: Scalar>(
        self,
        a: &TiledMatrix<T>,
        op: Op,
        (b, x): (&TiledMatrix<T>, &TiledMatrix<T>),
    ) -> Result<(), LinalgError> {
        let solve = qr::Triangular::new(a, op, b, x, Backend::Auto)?;
        solve.run_across(self.on, self.courier, &Monitor::new())?;
        Ok(())
    }

    /// Aᴴ
    pub fn adjoint<T: Scalar>(self, a: &TiledMatrix<T>) -> Result<TiledMatrix<T>, LinalgError> {
        let adjoint = qr::Adjoint::new(a)?;
        adjoint.run_across(self.on, self.courier, &Monitor::new())?;
        Ok(adjoint.into_matrix())
    }

    /// The determinant of the triangle of a factored matrix, on every rank.
    pub fn determinant<T: Scalar>(self, a: &TiledMatrix<T>) -> Result<Determinant, LinalgError> {
        let mut own = Vec::new();
        let steps = a.mt().min(a.nt());
        for k in (0..steps).filter(|&k| a.slot(k, k).is_some()) {
            let tile = a.tile_at(k, k).map_err(absent)?;
            own.extend((0..tile.rows().min(tile.cols())).map(|d| tile.get(d, d)));
        }
        let parts = (0..steps).map(|k| (a.rank_of(k, k), a.tile_rows(k).min(a.tile_cols(k))));
        Ok(Determinant::of_triangle(self.gathered(own, parts)?))
    }

    /// Whether the rows were swapped an odd number of times, on every rank.
    pub fn is_odd<T: Scalar>(self, pivots: &lu::Pivots<T>) -> Result<bool, LinalgError> {
        let own = pivots.rows().filter(|(row, pivot)| row != pivot).count() % 2;
        let ranks = (0..self.courier.n_ranks()).map(|rank| (Rank(rank as u32), 1));
        let all = self.gathered(vec![T::from_real(own as f64)], ranks)?;
        Ok(all.into_iter().filter(|odd| *odd != T::zero()).count() % 2 == 1)
    }

    /// ‖A‖₁·‖A⁻¹‖₁, estimated, on every rank; 1 for an empty matrix.
    ///
    /// - `solve`: overwrites a column by op(A)⁻¹ times it
    pub fn condition<T: Scalar>(
        self,
        (a, norm): (&TiledMatrix<T>, f64),
        solve: impl Fn(Op, &TiledMatrix<T>) -> Result<(), LinalgError>,
    ) -> Result<f64, LinalgError> {
        if a.rows() == 0 {
            return Ok(1.0);
        }
        let column = alike(a, Layout::general(a.rows(), 1, a.nb()))?;
        let estimate = inverse_norm(a.rows(), |op: Op, x: &mut [T]| {
            let entries = |row: usize, _: usize| x[row];
            let b = TiledMatrix::from_entries_in(column, a.memory().clone(), &entries);
            solve(op, &b)?;
            x.copy_from_slice(&self.column(&b)?);
            Ok::<_, LinalgError>(())
        })?;
        Ok(norm * estimate)
    }

    /// The first column of a matrix, on every rank.
    fn column<T: Scalar>(self, b: &TiledMatrix<T>) -> Result<Vec<T>, LinalgError> {
        let mut own = Vec::new();
        for i in (0..b.mt()).filter(|&i| b.slot(i, 0).is_some()) {
            let tile = b.tile_at(i, 0).map_err(absent)?;
            own.extend((0..tile.rows()).map(|row| tile.get(row, 0)));
        }
        let parts = (0..b.mt()).map(|i| (b.rank_of(i, 0), b.tile_rows(i)));
        self.gathered(own, parts)
    }

    /// Numbers of which each rank has some, on every rank; `parts` says whose come next, and how many.
    fn gathered<T: Scalar>(
        self,
        own: Vec<T>,
        parts: impl Iterator<Item = (Rank, usize)>,
    ) -> Result<Vec<T>, LinalgError> {
        if self.courier.n_ranks() == 1 {
            return Ok(own);
        }
        let words = own.into_iter().flat_map(|x| [x.re(), x.im()]);
        let bytes = words.flat_map(f64::to_le_bytes).collect();
        let gather = Gather::new(bytes, self.courier.n_ranks());
        run_across(&gather, self.on, self.courier, &Monitor::new()).map_err(LinalgError::Run)?;
        let all = gather.into_all();
        let mut numbers: Vec<_> = all.iter().map(|bytes| numbers(bytes)).collect();
        let mut gathered = Vec::new();
        for (Rank(rank), count) in parts {
            let next = numbers[rank as usize].by_ref().take(count);
            gathered.extend(next.map(|(re, im)| T::from_parts(re, im)));
        }
        Ok(gathered)
    }
}

/// The real and imaginary parts that a rank gave.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let mut words = bytes.chunks_exact(8).map(|word| {
        let word = word.try_into();
        f64::from_le_bytes(word.unwrap_or_else(|_| unreachable!("chunks of 8 bytes")))
    });
    std::iter::from_fn(move || Some((words.next()?, words.next()?)))
}

/// How a matrix is factored by QR.
pub(crate) fn options<T: Scalar>(a: &TiledMatrix<T>) -> qr::Options {
    // A tile that is not full needs no larger inner blocks than it has columns.
    qr::Options::of_order(a.nb().min(a.rows().max(a.cols())))
}

/// A tile is not at hand between runs: the matrix was handed over without it.
fn absent(error: TileError) -> LinalgError {
    LinalgError::Shape(error.to_string())
}
