//! Writing: values that read back bit for bit.

use super::{Field, Storage, Symmetry, WriteError};
use crate::matrix::{Structure, TiledMatrix};
use crate::scalar::Scalar;
use std::io::{self, BufWriter, Write};
use std::ops::Range;

/// Writes a matrix whose tiles are all on this rank.
///
/// With [`Symmetry::General`] the entries as stored, nothing above the diagonal of a lower matrix;
/// with the others the lower triangle, and what lies above is neither read nor compared.
/// [`Storage::Coordinate`] leaves out zeros, except −0. An `f32` is written as the `f64` of the same
/// value: it reads back exactly in either type. NaN loses its payload.
///
/// Buffers by itself; needs memory for one column of tiles.
///
/// # Errors
/// If writing fails, a tile is not at hand, the symmetry does not suit shape, structure or type, or
/// the diagonal breaks it.
///
/// # Examples
/// ```
/// use dataflow_linalg::matrix::{Layout, TiledMatrix, market::{Storage, Symmetry, write}};
/// let a = TiledMatrix::from_fn(Layout::lower(2, 2)?, |i, j| (i + j) as f64 / 2.0);
/// let mut text = Vec::new();
/// write(&mut text, &a, Storage::Coordinate, Symmetry::Symmetric)?;
/// assert_eq!(
///     String::from_utf8(text)?,
///     "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n2 1 0.5\n2 2 1.0\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write<T: Scalar>(
    to: impl Write,
    a: &TiledMatrix<T>,
    storage: Storage,
    symmetry: Symmetry,
) -> Result<(), WriteError> {
    expect_suitable(a, symmetry)?;
    a.expect_whole()?;
    let mut to = BufWriter::new(to);
    let field = match T::IS_COMPLEX {
        true => Field::Complex,
        false => Field::Real,
    };
    writeln!(to, "%%MatrixMarket matrix {storage} {field} {symmetry}")?;
    match storage {
        Storage::Array => writeln!(to, "{} {}", a.rows(), a.cols())?,
        Storage::Coordinate => {
            let mut entries = 0u64;
            for_each_entry(a, symmetry, |_, _, value| {
                entries += u64::from(is_listed(value));
                Ok(())
            })?;
            writeln!(to, "{} {} {entries}", a.rows(), a.cols())?;
        }
    }
    for_each_entry(a, symmetry, |row, col, value| {
        if storage == Storage::Coordinate {
            if !is_listed(value) {
                return Ok(());
            }
            write!(to, "{} {} ", row + 1, col + 1)?;
        }
        match T::IS_COMPLEX {
            true => writeln!(to, "{:?} {:?}", value.re(), value.im())?,
            false => writeln!(to, "{:?}", value.re())?,
        }
        Ok(())
    })?;
    Ok(to.flush()?)
}

fn expect_suitable<T: Scalar>(a: &TiledMatrix<T>, symmetry: Symmetry) -> Result<(), WriteError> {
    let is_half = a.layout().structure() == Structure::Lower;
    match symmetry {
        Symmetry::General => Ok(()),
        _ if a.rows() != a.cols() => Err(WriteError::Unsuitable(
            "a rectangular matrix can be written as general only",
        )),
        Symmetry::Hermitian if !T::IS_COMPLEX => Err(WriteError::Unsuitable(
            "a real matrix cannot be written as hermitian (write it as symmetric)",
        )),
        Symmetry::Symmetric if T::IS_COMPLEX && is_half => Err(WriteError::Unsuitable(
            "half of a complex matrix that is its adjoint cannot be written as symmetric (write it as hermitian)",
        )),
        Symmetry::SkewSymmetric if is_half => Err(WriteError::Unsuitable(
            "half of a matrix that is its adjoint cannot be written as skew-symmetric (write it as symmetric or hermitian)",
        )),
        _ => Ok(()),
    }
}

/// Whether a coordinate file lists a value: all but +0.
fn is_listed<T: Scalar>(value: T) -> bool {
    value.bits() != T::zero().bits()
}

/// Calls with row, column and value of every entry that a file of this symmetry has, in column
/// order.
fn for_each_entry<T: Scalar>(
    a: &TiledMatrix<T>,
    symmetry: Symmetry,
    mut visit: impl FnMut(usize, usize, T) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let (m, mut strip) = (a.rows(), Vec::new());
    for j in 0..a.nt() {
        let cols: Range<usize> = a.col_range(j);
        strip.clear();
        let length = m * cols.len();
        strip.try_reserve_exact(length).map_err(io::Error::from)?;
        strip.resize(length, T::zero());
        a.write_strip(j, &mut strip, m)?;
        for (col, column) in cols.zip(strip.chunks_exact(m.max(1))) {
            let first = match symmetry {
                Symmetry::General => 0,
                Symmetry::SkewSymmetric => col + 1,
                Symmetry::Symmetric | Symmetry::Hermitian => col,
            };
            if symmetry != Symmetry::General {
                expect_diagonal(column[col], col, symmetry)?;
            }
            for (row, value) in column.iter().enumerate().skip(first) {
                visit(row, col, *value)?;
            }
        }
    }
    Ok(())
}

fn expect_diagonal<T: Scalar>(value: T, row: usize, symmetry: Symmetry) -> Result<(), WriteError> {
    let (re, im) = (value.re(), value.im());
    let breaks = match symmetry {
        Symmetry::Hermitian => im != 0.0,
        Symmetry::SkewSymmetric => re != 0.0 || im != 0.0,
        Symmetry::General | Symmetry::Symmetric => false,
    };
    match breaks {
        true => Err(WriteError::Diagonal {
            row,
            re,
            im,
            symmetry,
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Reader, physical_memory};
    use super::*;
    use crate::error::TileError;
    use crate::matrix::Layout;
    use crate::scalar::{c32, c64};
    use dataflow_core::port::Heap;
    use proptest::prelude::*;
    use std::error::Error;
    use std::sync::Arc;

    fn written<T: Scalar>(
        a: &TiledMatrix<T>,
        storage: Storage,
        symmetry: Symmetry,
    ) -> Result<String, WriteError> {
        let mut text = Vec::new();
        write(&mut text, a, storage, symmetry)?;
        Ok(String::from_utf8(text).unwrap())
    }

    fn read<T: Scalar>(text: &str, layout: Layout) -> TiledMatrix<T> {
        let mut reader = Reader::new("written", text.as_bytes()).unwrap();
        reader
            .read_tiled(layout, Arc::new(Heap), physical_memory())
            .unwrap()
    }

    /// Bits of a number of `T` with any exponent: half of them arbitrary, the rest special.
    fn special<T: Scalar>(seed: u64) -> f64 {
        let arbitrary = match T::PRECISION.to_string().ends_with("64") {
            true => f64::from_bits(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            false => f64::from(f32::from_bits((seed.wrapping_mul(0x9e37_79b9) >> 3) as u32)),
        };
        match seed % 8 {
            0 => 0.0,
            1 => -0.0,
            2 => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][seed as usize / 8 % 3],
            3 => 0.1f32.into(),
            _ => arbitrary,
        }
    }

    fn check<T: Scalar>(n: usize, seed: u64, lower: bool) {
        let square = |structure| match structure {
            Structure::Lower => Layout::lower(n, 3).unwrap(),
            Structure::General => Layout::general(n, n + 2, 3).unwrap(),
        };
        let number = |x: usize| special::<T>(seed.wrapping_add(x as u64 * 7919));
        let structure = if lower {
            Structure::Lower
        } else {
            Structure::General
        };
        let a = TiledMatrix::from_fn(square(structure), |i, j| {
            let x = 2 * (i + 50 * j);
            let im = if i == j { 0.0 } else { number(x + 1) };
            T::from_parts(number(x), im)
        });
        for storage in [Storage::Coordinate, Storage::Array] {
            for symmetry in [Symmetry::General, Symmetry::Symmetric, Symmetry::Hermitian] {
                let Ok(text) = written(&a, storage, symmetry) else {
                    let is_other = match T::IS_COMPLEX {
                        true => Symmetry::Symmetric,
                        false => Symmetry::Hermitian,
                    };
                    assert!(!lower || symmetry == is_other);
                    continue;
                };
                let b = read::<T>(&text, square(structure));
                let bits = |a: &TiledMatrix<T>| {
                    let entries = a.to_column_major().unwrap();
                    entries.into_iter().map(T::bits).collect::<Vec<_>>()
                };
                assert_eq!(bits(&a), bits(&b), "{storage} {symmetry}\n{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back_bit_for_bit(
            n in 0usize..8, seed: u64, lower: bool,
        ) {
            check::<f32>(n, seed, lower);
            check::<f64>(n, seed, lower);
            check::<c32>(n, seed, lower);
            check::<c64>(n, seed, lower);
        }
    }

    #[test]
    fn a_symmetric_file_holds_the_lower_triangle_of_a_general_matrix() {
        let a = TiledMatrix::from_fn(Layout::general(2, 2, 1).unwrap(), |i, j| {
            [[1.0, 9.0], [0.0, -2.5]][i][j]
        });
        let text = written(&a, Storage::Array, Symmetry::Symmetric).unwrap();
        assert_eq!(
            text,
            "%%MatrixMarket matrix array real symmetric\n2 2\n1.0\n0.0\n-2.5\n"
        );
        let text = written(&a, Storage::Coordinate, Symmetry::Symmetric).unwrap();
        assert!(text.ends_with("\n2 2 2\n1 1 1.0\n2 2 -2.5\n"));
    }

    #[test]
    fn a_skew_symmetric_matrix_reads_back_with_both_signs() {
        let a = TiledMatrix::from_fn(Layout::general(3, 3, 2).unwrap(), |i, j| {
            i as f64 - j as f64
        });
        for storage in [Storage::Coordinate, Storage::Array] {
            let text = written(&a, storage, Symmetry::SkewSymmetric).unwrap();
            let b = read::<f64>(&text, Layout::general(3, 3, 2).unwrap());
            for (row, col) in [(0, 1), (1, 0), (2, 0), (0, 2), (1, 1)] {
                assert_eq!(a.get(row, col), b.get(row, col));
            }
        }
    }

    #[test]
    fn what_a_file_cannot_say_is_refused() {
        let wide = TiledMatrix::<f64>::zeros(Layout::general(2, 3, 2).unwrap());
        let refused = written(&wide, Storage::Array, Symmetry::Symmetric).unwrap_err();
        assert!(refused.to_string().contains("general only"));
        let real = TiledMatrix::<f64>::zeros(Layout::lower(2, 2).unwrap());
        let refused = written(&real, Storage::Array, Symmetry::Hermitian).unwrap_err();
        assert!(refused.to_string().contains("write it as symmetric"));
        let a = TiledMatrix::from_fn(Layout::lower(3, 2).unwrap(), |i, _| c64::new(1.0, i as f64));
        for symmetry in [Symmetry::Symmetric, Symmetry::SkewSymmetric] {
            let refused = written(&a, Storage::Array, symmetry).unwrap_err();
            assert!(refused.to_string().contains("hermitian)"), "{refused}");
        }
        let refused = written(&a, Storage::Array, Symmetry::Hermitian).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "diagonal entry in row 1 (from 0) is 1 + 1 i, in a hermitian matrix (must be real)"
        );
        let _held = a.store().take(1);
        let refused = written(&a, Storage::Array, Symmetry::General).unwrap_err();
        assert!(matches!(refused, WriteError::Tile(_)));
    }

    #[test]
    fn a_full_disk_is_an_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let a = TiledMatrix::<f64>::zeros(Layout::lower(2, 2).unwrap());
        let refused = write(Full, &a, Storage::Array, Symmetry::General).unwrap_err();
        assert!(refused.to_string().starts_with("cannot be written: "));
    }

    #[test]
    fn the_system_s_answer_and_the_missing_tile_are_the_sources_of_what_could_not_be_written() {
        let source_of = |refused: WriteError| refused.source().map(ToString::to_string);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(
            source_of(full.into()),
            Some(io::ErrorKind::StorageFull.to_string())
        );
        let a = TiledMatrix::<f64>::zeros(Layout::lower(2, 2).unwrap());
        let refused = write(io::sink(), &a, Storage::Array, Symmetry::Hermitian);
        assert_eq!(source_of(refused.unwrap_err()), None);
        let absent = TileError::Absent { i: 0, j: 0 };
        assert_eq!(source_of(absent.clone().into()), Some(absent.to_string()));
    }
}
