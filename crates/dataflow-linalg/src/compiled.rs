//! What many programs run is compiled once for each of the four scalars: here, not in each of them.
//!
//! A generic function is compiled by the crate that names its types, and a run of a space brings
//! the whole engine with it. [`Scalar`] has [`Compiled`] for a supertrait, so generic code reaches
//! the four that are compiled already. Bodies take microseconds, so all spaces over one type of tiles run
//! [behind a pointer](Erased) on one engine: alone, or one after another as one graph.
//!
//! # Elsewhere
//! The same for the leaves of kernels: [`kernel::faer`](crate::kernel).

use crate::lu::{Columns, Incremental, Relay, Reorder, Replay, Unpivoted};
use crate::matrix::norm::Measure;
use crate::matrix::seen::run_seen;
use crate::matrix::{Collect, Fill, Regular, Tile, TiledMatrix};
use crate::product::{Gemm, Herk, Substitution, Torus, Triangular};
use crate::qr::{Adjoint, Apply, Arrange, Choice, Leading, Tall};
use crate::scalar::{Scalar, c32, c64};
use crate::weight::Weight;
use crate::{cholesky, lu, qr};
use dataflow_core::port::Executor;
use dataflow_core::space::Erased;
use dataflow_core::{Error, Report};

macro_rules! compiled {
    ($($name:ident is $($space:ident)::+),+; $($run:ident of $($other:ident)::+),+ $(,)?) => {
        /// This crate's spaces for one kind of number.
        pub trait Compiled: Sized {
            $(
                #[doc(hidden)]
                fn $name<'s>(space: &'s $($space)::+<'_, Self>) -> Erased<'s, Tile<Self>>
                where
                    Self: Scalar;
            )+

            /// Runs this rank's part of a space over tiles, or of several one after another. `of` are the
            /// matrices whose tiles they are.
            fn run_tiles(
                space: &Erased<'_, Tile<Self>>,
                of: &[&TiledMatrix<Self>],
                on: &dyn Executor,
            ) -> Result<Report, Error>
            where
                Self: Scalar;

            $(
                #[doc = concat!("Runs this rank's part of [`", stringify!($($other)::+), "`] of a matrix.")]
                fn $run(
                    space: &$($other)::+<'_, Self>,
                    of: &TiledMatrix<Self>,
                    on: &dyn Executor,
                ) -> Result<Report, Error>
                where
                    Self: Scalar;
            )+
        }

        compiled!(in f32: $($name is $($space)::+),+; $($run of $($other)::+),+);
        compiled!(in f64: $($name is $($space)::+),+; $($run of $($other)::+),+);
        compiled!(in c32: $($name is $($space)::+),+; $($run of $($other)::+),+);
        compiled!(in c64: $($name is $($space)::+),+; $($run of $($other)::+),+);

        $(
            impl<T: Scalar> $($space)::+<'_, T> {
                /// The space behind a pointer, weighed: to be run on the engine that is compiled already, or
                /// counted, alone or as one of a [series](Erased::series).
                pub fn erased(&self) -> Erased<'_, Tile<T>> {
                    T::$name(self)
                }
            }
        )+
    };
    (in $scalar:ident: $($name:ident is $($space:ident)::+),+; $($run:ident of $($other:ident)::+),+) => {
        impl Compiled for $scalar {
            $(
                fn $name<'s>(space: &'s $($space)::+<'_, Self>) -> Erased<'s, Tile<Self>> {
                    let bytes = |task, flow| space.bytes(task, flow);
                    Erased::new(space).weighed(bytes, |task| space.flops(task))
                }
            )+

            fn run_tiles(
                space: &Erased<'_, Tile<Self>>,
                of: &[&TiledMatrix<Self>],
                on: &dyn Executor,
            ) -> Result<Report, Error> {
                let misplaced = of.iter().find_map(|matrix| matrix.misplaced(on));
                run_seen(space, &mut of.iter().filter_map(|matrix| matrix.name()), misplaced, on)
            }

            $(
                fn $run(
                    space: &$($other)::+<'_, Self>,
                    of: &TiledMatrix<Self>,
                    on: &dyn Executor,
                ) -> Result<Report, Error> {
                    let (mut name, misplaced) = (of.name().into_iter(), of.misplaced(on));
                    run_seen(&Erased::new(space), &mut name, misplaced, on)
                }
            )+
        }
    };
}

compiled!(
    fill is Fill,
    regular is Regular,
    factor is cholesky::Factor,
    inverse is cholesky::Inverse,
    gemm is Gemm,
    torus is Torus,
    triangular is Triangular,
    substitution is Substitution,
    herk is Herk,
    lu is lu::Factor,
    lu_columns is Columns,
    lu_unpivoted is Unpivoted,
    lu_incremental is Incremental,
    lu_reorder is Reorder,
    lu_replay is Replay,
    lu_relay is Relay,
    qr is qr::Factor,
    qr_apply is Apply,
    qr_solve is qr::Solve,
    adjoint is Adjoint,
    choice is Choice,
    arrange is Arrange,
    leading is Leading,
    tall is Tall;
    run_check of cholesky::Check,
    run_lu_check of lu::Check,
    run_measure of Measure,
    run_collect of Collect,
);
