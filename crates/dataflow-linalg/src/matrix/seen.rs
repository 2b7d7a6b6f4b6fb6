//! Seen: a run over ranks takes tiles on the rank that they are seen from, and is refused elsewhere.
//!
//! # Law
//! A layout says from which rank a matrix is seen; one that nobody has distributed is all rank 0's. On any
//! other rank no task knows its tiles: a run would leave them as they are, and say that all is well. So
//! they refuse the run, on all ranks, before it begins. A matrix without tiles is a mere name for what
//! another rank has, and may be seen from there.

use dataflow_core::port::{Executor, Wire};
use dataflow_core::prelude::*;
use dataflow_core::space::Erased;
use dataflow_core::{Error, Kind, Report, run_across, run_inside};

/// Runs this rank's part of a space over matrices, some of which have these names; refused, on all ranks, if
/// there is a [matrix out of place](super::TiledMatrix::misplaced), in words.
pub(crate) fn run_seen<D: Wire>(
    space: &Erased<'_, D>,
    names: &mut dyn Iterator<Item = &str>,
    misplaced: Option<String>,
    on: &dyn Executor,
) -> Result<Report, Error> {
    let told = |error| {
        let mut about = Description::default();
        space.describe(&mut about);
        in_words(error, about.space_name(), names)
    };
    let Some(text) = misplaced else {
        // Also inside the body of a task, where no other rank takes part.
        return match on.courier().n_ranks() {
            1 => run_inside(space, on),
            _ => run_across(space, on).map_err(told),
        };
    };
    let matrix = format!("{BEGIN}{text}{END}");
    // All ranks hear of it where they agree on the run: there is none beside this one if it goes on.
    run_across(&Erased::new(&Refusal { space, matrix }), on).map_err(told)?;
    Err(Error::parameters_differ(text))
}

/// What a rank that refuses a run sets, and no other.
const MISPLACED: &str = "matrix out of place";

/// Between these its reason is told, beside which setting of which ranks differs.
const BEGIN: char = '⟨';
const END: char = '⟩';

/// Where ranks did not agree on a run: the reason alone, if one refuses it, else what differs, and in which
/// run of which matrices.
fn in_words(error: Error, run: &str, names: &mut dyn Iterator<Item = &str>) -> Error {
    if error.kind() != Kind::ParametersDiffer {
        return error;
    }
    let told = error.message().split_once(BEGIN);
    let reason = told.filter(|(before, _)| before.contains(MISPLACED));
    if let Some((reason, _)) = reason.and_then(|(_, rest)| rest.split_once(END)) {
        return Error::parameters_differ(reason);
    }
    let names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
    let of = match &names[..] {
        [] => String::new(),
        [name] => format!(" of matrix {name}"),
        all => format!(" of matrices {}", all.join(", ")),
    };
    error.retold(|differs| format!("ranks do not agree on {run:?}{of}: {differs}"))
}

/// A run that no rank agrees to, without tasks.
struct Refusal<'a, S> {
    space: &'a S,
    matrix: String,
}

impl<S: TaskSpace> TaskSpace for Refusal<'_, S> {
    type Task = u64;
    type Datum = S::Datum;

    fn describe(&self, about: &mut Description) {
        self.space.describe(about);
        about.parameter(MISPLACED, &self.matrix);
    }

    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        std::iter::empty()
    }

    fn inputs(&self, _: u64, _: &mut impl Inputs<Self>) {}

    fn successors(&self, _: u64, _: &mut impl Successors<Self>) {}

    fn run(&self, _: u64, _: &mut Flows<'_, S::Datum>) -> Result<(), TaskError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Backend, Side};
    use crate::matrix::generate::PositiveDefinite;
    use crate::matrix::norm::{Norm, norm};
    use crate::matrix::transfer::{Turn, transfer};
    use crate::matrix::{Distribution, Grid, Layout, TiledMatrix};
    use crate::product::{Operand, TriangularOperand, gemm, herk, trmm, trsm};
    use crate::qr::Options;
    use crate::{cholesky, lu, qr};
    use dataflow_core::port::{Alone, Context, Courier, Heap, Inbox, Inline, Line, Terms};
    use std::sync::Arc;

    /// The second of two ranks, which opens no run: it says what it was to agree on.
    struct Second;

    impl Courier for Second {
        fn rank(&self) -> Rank {
            Rank(1)
        }

        fn n_ranks(&self) -> usize {
            2
        }

        fn open(&self, terms: &Terms, _: Arc<dyn Inbox>) -> Result<Box<dyn Line>, Error> {
            // The last of the space's own: behind it stands the type of its data.
            let mut own = terms
                .settings
                .iter()
                .rev()
                .filter(|(name, _)| name != "datum");
            let (name, value) = own.next().unwrap();
            Err(Error::parameters_differ(format!("{name}: {value}")))
        }
    }

    /// What a run on the second rank is refused with.
    fn told<R, E: std::fmt::Display>(ended: Result<R, E>) -> String {
        ended.map(drop).unwrap_err().to_string()
    }

    /// A square matrix and its triangle, with tiles or without, as `layout` has them seen.
    fn given(with_tiles: bool, seen: impl Fn(Layout) -> Layout) -> [TiledMatrix<f64>; 2] {
        let layouts = [Layout::general(5, 5, 2), Layout::lower(5, 2)];
        layouts.map(|layout| match with_tiles {
            true => TiledMatrix::from_entries(seen(layout.unwrap()), &PositiveDefinite::new(5, 1)),
            false => TiledMatrix::vacant(seen(layout.unwrap()), Arc::new(Heap)),
        })
    }

    /// What each kind of run is refused with, by name.
    fn all_told([a, l]: &[TiledMatrix<f64>; 2]) -> Vec<(&'static str, String)> {
        let (auto, options) = (Backend::Auto, Options::of_order(2));
        let on = &Context::new(&Inline).across(&Second);
        let pivots = lu::Pivots::new(a);
        let q = qr::Reflectors::new(a.layout(), options);
        let [made, b] = [(); 2].map(|()| TiledMatrix::vacant(*a.layout(), Arc::new(Heap)));
        let (plain, triangle) = (Operand::plain(a), TriangularOperand::lower(l));
        let original = PositiveDefinite::new(5, 1);
        vec![
            ("scan", told(a.scan(on))),
            ("regular", told(lu::expect_regular(a, on))),
            ("norm", told(norm(a, Norm::One, on))),
            ("collect", told(a.collect(Rank(0), on))),
            ("transfer", told(transfer(a, Turn::Plain, &made, on))),
            ("gemm", told(gemm(1.0, plain, plain, 0.0, &b, auto, on))),
            ("herk", told(herk(1.0, plain, 1.0, l, auto, on))),
            ("trmm", told(trmm(Side::Left, 1.0, triangle, &b, auto, on))),
            ("trsm", told(trsm(Side::Left, 1.0, triangle, &b, auto, on))),
            (
                "cholesky",
                told(cholesky::Factor::new(l, auto).unwrap().run(on)),
            ),
            (
                "definite",
                told(cholesky::Factor::new(l, auto).unwrap().and_solve(&b, on)),
            ),
            (
                "inverse",
                told(cholesky::Inverse::new(l, auto).unwrap().run(on)),
            ),
            (
                "check of l",
                told(cholesky::Check::new(&original, l).unwrap().run(on)),
            ),
            (
                "lu",
                told(lu::Factor::new(a, &pivots, auto).unwrap().run(on)),
            ),
            (
                "check of lu",
                told(lu::Check::new(&original, a, &pivots).unwrap().run(on)),
            ),
            (
                "system",
                told(lu::Factor::new(a, &pivots, auto).unwrap().and_solve(&b, on)),
            ),
            ("qr", told(qr::Factor::new(a, &q, auto).unwrap().run(on))),
        ]
    }

    #[test]
    fn tiles_of_a_matrix_that_is_seen_from_another_rank_refuse_every_run() {
        for (run, told) in all_told(&given(true, |layout| layout)) {
            let expected = "on rank 1 a matrix (5 x 5) is seen from rank 0: make its layout with \
                            .distributed(distribution, runtime.rank())";
            assert!(told.starts_with(expected), "{run}: {told}");
        }
    }

    #[test]
    fn a_matrix_out_of_place_is_called_by_its_name() {
        let [a, _] = given(true, |layout| layout);
        let on = Context::new(&Inline).across(&Second);
        let told = told(norm(&a.named("A"), Norm::One, &on));
        assert!(
            told.starts_with("on rank 1 matrix \"A\" (5 x 5) is seen from rank 0"),
            "{told}"
        );
    }

    #[test]
    fn a_matrix_without_tiles_and_one_that_is_seen_from_here_refuse_none() {
        let grid = Distribution::BlockCyclic(Grid::new(1, 2).unwrap());
        let here = given(true, |layout| layout.distributed(grid, Rank(1)).unwrap());
        for matrices in [given(false, |layout| layout), here] {
            for (run, told) in all_told(&matrices) {
                assert!(!told.contains("out of place"), "{run}: {told}");
            }
        }
    }

    #[test]
    fn a_rank_that_works_by_itself_is_rank_0() {
        let [_, l] = given(true, |layout| layout);
        let on = Context::new(&Inline).across(&Second);
        cholesky::factor(&l, Backend::Auto, &on.across(&Alone)).unwrap();
        assert!(cholesky::residual(&PositiveDefinite::new(5, 1), &l).unwrap() < 3.0);
    }

    #[test]
    fn tiles_of_another_rank_are_refused_also_where_there_is_but_one() {
        let grid = Distribution::BlockCyclic(Grid::new(1, 2).unwrap());
        let [a, _] = given(true, |layout| layout.distributed(grid, Rank(1)).unwrap());
        let told = told(norm(&a, Norm::One, &Inline));
        assert!(told.contains("2 ranks, and there are 1"), "{told}");
    }
}
