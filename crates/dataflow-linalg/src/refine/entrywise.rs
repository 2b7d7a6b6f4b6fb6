//! Entry by entry: matrices made of others, a task for each tile, on its owner.

use crate::error::LinalgError;
use crate::kernel::Backend;
use crate::matrix::norm::{Extent, tile_first_not_finite};
use crate::matrix::{EachTile, Structure, Tile, TiledMatrix};
use crate::product::{Gemm, Operand};
use crate::scalar::Scalar;
use dataflow_core::data::Version;
use dataflow_core::port::Executor;
use dataflow_core::{Report, TaskError};

/// What a body says of an entry that the lower precision does not hold.
const OVERFLOW: &str = "overflow";

/// Makes or changes the tiles of `to`: `of` is called with the indices of each.
fn each<T: Scalar>(
    name: &'static str,
    to: &TiledMatrix<T>,
    on: &dyn Executor,
    of: impl Fn(usize, usize) -> Result<Tile<T>, TaskError> + Sync,
) -> Result<Report, LinalgError> {
    let each = EachTile::new(name, to.layout(), |i, j| {
        let tile = of(i, j)?;
        let slot = to.slot(i, j).ok_or("a tile of another rank")?;
        let put = to.store().put(slot, Version::new(tile));
        put.ok_or_else(|| "a tile without a slot".into())
    });
    let run = each.run(on);
    run.map_err(LinalgError::Run)
}

/// A tile that is only read.
fn read<T: Scalar>(a: &TiledMatrix<T>, i: usize, j: usize) -> Result<Version<Tile<T>>, TaskError> {
    Ok(a.tile_at(i, j)?)
}

/// A tile that is changed and put back.
fn taken<T: Scalar>(a: &TiledMatrix<T>, i: usize, j: usize) -> Result<Tile<T>, TaskError> {
    let version = a.slot(i, j).and_then(|slot| a.store().take(slot));
    let version = version.ok_or_else(|| format!("tile ({i}, {j}) is not at hand"))?;
    Ok(version.into_datum())
}

/// A matrix of the same layout, yet without tiles.
fn like<T: Scalar, U: Scalar>(a: &TiledMatrix<T>) -> TiledMatrix<U> {
    TiledMatrix::vacant(*a.layout(), a.memory().clone())
}

/// The matrix with `of(x)` for each entry x.
pub(super) fn mapped<T: Scalar, U: Scalar>(
    name: &'static str,
    a: &TiledMatrix<T>,
    on: &dyn Executor,
    of: impl Fn(T) -> U + Sync,
) -> Result<(TiledMatrix<U>, Report), LinalgError> {
    let to = like(a);
    let report = each(name, &to, on, |i, j| Ok(read(a, i, j)?.map(&of)))?;
    Ok((to, report))
}

/// A matrix in the lower precision, and what it cost to make.
type LowerCopy<T> = (TiledMatrix<<T as Scalar>::Lower>, Report);

/// The matrix in the lower precision, each entry rounded; `None` if one becomes infinite there.
pub(super) fn lowered<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<Option<LowerCopy<T>>, LinalgError> {
    let to = like(a);
    let made = each("lower", &to, on, |i, j| {
        let tile = read(a, i, j)?.map(lower);
        match tile_first_not_finite(&tile, Extent::of(a.structure(), i, j)) {
            None => Ok(tile),
            Some(found) => Err(TaskError::new(OVERFLOW, found.to_string())),
        }
    });
    match made {
        Ok(report) => Ok(Some((to, report))),
        Err(LinalgError::Run(error)) if error.name() == OVERFLOW => Ok(None),
        Err(error) => Err(error),
    }
}

/// An entry in the lower precision.
pub(super) fn lower<T: Scalar>(x: T) -> T::Lower {
    T::Lower::from_parts(x.re(), x.im())
}

/// An entry in the higher precision again: exactly what it was.
pub(super) fn raised<T: Scalar>(x: T::Lower) -> T {
    T::from_parts(x.re(), x.im())
}

/// |A|, with the moduli of the entries.
pub(super) fn moduli<T: Scalar>(
    a: &TiledMatrix<T>,
    on: &dyn Executor,
) -> Result<TiledMatrix<T>, LinalgError> {
    let to = like(a);
    each("moduli", &to, on, |i, j| {
        let tile = read(a, i, j)?;
        let mut moduli = tile.map(|x: T| T::from_real(x.modulus()));
        if a.structure() == Structure::Lower && i == j {
            // Imaginary parts on the diagonal of a Hermitian matrix are not read.
            for d in 0..tile.rows() {
                moduli.set(d, d, T::from_real(tile.get(d, d).re().abs()));
            }
        }
        Ok(moduli)
    })?;
    Ok(to)
}

/// x ← `of(x, y)` for each entry of `to` and the one of `with` in its place; both are laid out alike.
pub(super) fn combine<T: Scalar, U: Scalar>(
    name: &'static str,
    to: &TiledMatrix<T>,
    with: &TiledMatrix<U>,
    on: &dyn Executor,
    of: impl Fn(T, U) -> T + Sync,
) -> Result<Report, LinalgError> {
    each(name, to, on, |i, j| {
        // A tile that is taken must come back: so what can fail comes first.
        let (other, mut tile) = (read(with, i, j)?, taken(to, i, j)?);
        let pairs = tile.as_mut_slice().iter_mut().zip(other.as_slice());
        pairs.for_each(|(x, y)| *x = of(*x, *y));
        Ok(tile)
    })
}

/// x ← `of(x, col)` for each entry x of each column `col`.
pub(super) fn by_columns<T: Scalar>(
    name: &'static str,
    a: &TiledMatrix<T>,
    on: &dyn Executor,
    of: impl Fn(T, usize) -> T + Sync,
) -> Result<Report, LinalgError> {
    each(name, a, on, |i, j| {
        let mut tile = taken(a, i, j)?;
        for (y, col) in a.col_range(j).enumerate() {
            (0..tile.rows()).for_each(|x| tile.set(x, y, of(tile.get(x, y), col)));
        }
        Ok(tile)
    })
}

/// R = B − op(A)·X
pub(super) fn rest<T: Scalar>(
    a: Operand<'_, T>,
    b: &TiledMatrix<T>,
    x: &TiledMatrix<T>,
    backend: Backend,
    on: &dyn Executor,
) -> Result<(TiledMatrix<T>, [Report; 2]), LinalgError> {
    let (rest, copy) = mapped("copy", b, on, |x: T| x)?;
    let product = Gemm::new(-T::one(), a, Operand::plain(x), T::one(), &rest, backend)?;
    let product = product.run(on)?;
    Ok((rest, [copy, product]))
}

/// Refuses what is not a system of equations in tiles of one order.
pub(crate) fn expect_system<T: Scalar>(
    a: &TiledMatrix<T>,
    sides: &[&TiledMatrix<T>],
) -> Result<(), LinalgError> {
    let (n, nb) = (a.rows(), a.nb());
    for b in sides {
        let fits = b.structure() == Structure::General && (b.rows(), b.nb()) == (n, nb);
        let alike = b.layout() == sides[0].layout();
        if n != a.cols() || !fits || !alike {
            return Err(LinalgError::Shape(format!(
                "right-hand sides or solutions{} do not fit a square matrix{}, or each other ({} x {}, on {})",
                b.laid_out(),
                a.laid_out(),
                sides[0].rows(),
                sides[0].cols(),
                sides[0].distribution()
            )));
        }
    }
    Ok(())
}
