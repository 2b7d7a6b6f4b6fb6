//! What many programs run is compiled once for each of the four scalars: here, not in each of them.
//!
//! A generic function is compiled by the crate that names its types, and a run of a space brings
//! the whole engine with it. [`Scalar`] has [`Compiled`] for a supertrait, so generic code reaches
//! the four that are compiled already: `T::run_factor(space, …)`. Bodies take microseconds, so all
//! spaces over one type of tiles run [behind a pointer](Erased) on one engine.
//!
//! # Elsewhere
//! The same for the leaves of kernels: [`kernel::faer`](crate::kernel).

use crate::cholesky::{Check, Factor, FactorSolve, Inverse, Solve};
use crate::lu::{
    Check as LuCheck, Factor as LuFactor, Incremental, Replay, Solve as LuSolve, Unpivoted,
};
use crate::matrix::norm::Measure;
use crate::matrix::{Collect, Fill};
use crate::product::{Gemm, Herk, Torus, Triangular};
use crate::qr::{
    Adjoint, Apply, Arrange, Choice, Factor as QrFactor, Leading, Tall, Triangular as QrSolve,
};
use crate::scalar::{Scalar, c32, c64};
use dataflow_core::port::Executor;
use dataflow_core::space::Erased;
use dataflow_core::{Error, Report, run_across};

macro_rules! compiled {
    ($($run:ident of $space:ident),+ $(,)?) => {
        /// The runs of this crate's spaces for one kind of number.
        pub trait Compiled: Sized {
            $(
                #[doc = concat!("Runs this rank's part of [`", stringify!($space), "`].")]
                fn $run(space: &$space<'_, Self>, on: &dyn Executor) -> Result<Report, Error>
                where
                    Self: Scalar;
            )+
        }

        compiled!(f32: $($run of $space),+);
        compiled!(f64: $($run of $space),+);
        compiled!(c32: $($run of $space),+);
        compiled!(c64: $($run of $space),+);
    };
    ($scalar:ident: $($run:ident of $space:ident),+) => {
        impl Compiled for $scalar {
            $(
                fn $run(space: &$space<'_, Self>, on: &dyn Executor) -> Result<Report, Error> {
                    run_across(&Erased::new(space), on)
                }
            )+
        }
    };
}

compiled!(
    run_fill of Fill,
    run_collect of Collect,
    run_factor of Factor,
    run_solve of Solve,
    run_factor_solve of FactorSolve,
    run_inverse of Inverse,
    run_check of Check,
    run_measure of Measure,
    run_gemm of Gemm,
    run_torus of Torus,
    run_triangular of Triangular,
    run_herk of Herk,
    run_lu of LuFactor,
    run_lu_unpivoted of Unpivoted,
    run_lu_incremental of Incremental,
    run_lu_solve of LuSolve,
    run_lu_replay of Replay,
    run_lu_check of LuCheck,
    run_qr of QrFactor,
    run_qr_apply of Apply,
    run_qr_solve of QrSolve,
    run_adjoint of Adjoint,
    run_choice of Choice,
    run_arrange of Arrange,
    run_leading of Leading,
    run_tall of Tall,
);
