//! The matrix that an example starts from: a file's, or given by a formula.

use super::cli::{Failure, Flags, Settings};
use super::plan::memory_of;
use clap::{Args, ValueEnum};
use dataflow::Runtime;
use dataflow::linalg::matrix::generate::{
    Conditioned, Hilbert, Laplacian, PositiveDefinite, Random, Trefethen,
};
use dataflow::linalg::matrix::market::{Reader, Symmetry};
use dataflow::linalg::matrix::{Entries, Layout, TiledMatrix};
use dataflow::linalg::scalar::Scalar;
use std::io::BufReader;
use std::ops::Range;

/// An open Matrix Market file.
pub type File = Reader<BufReader<std::fs::File>>;

/// The file of `--input`, its header read; refuses `--n` and `--m` beside it.
pub fn open<Own: Args>(settings: &Settings<Own>) -> Result<Option<File>, Failure> {
    let Some(path) = &settings.input else {
        return Ok(None);
    };
    for (flag, given) in [("--n", settings.n), ("--m", settings.m)] {
        if given.is_some() {
            let text = format!("{flag}: with --input the file says the order");
            return Err(Failure::refused(text));
        }
    }
    Ok(Some(Reader::open(path)?))
}

/// Whether the header of a file says that the matrix is its own adjoint.
pub fn is_hermitian(file: &File) -> bool {
    match file.header().symmetry {
        Symmetry::Hermitian => true,
        Symmetry::Symmetric => !file.header().is_complex(),
        Symmetry::General | Symmetry::SkewSymmetric => false,
    }
}

/// What to take, if not a file.
#[derive(Clone, Copy, Debug, Args)]
pub struct Generated {
    /// The generated matrix [default: what suits the example]
    #[arg(long, value_name = "KIND", conflicts_with = "input")]
    matrix: Option<Kind>,
    /// Condition number of --matrix conditioned [default: 1e6]
    #[arg(long, value_name = "NUMBER", conflicts_with = "input")]
    condition: Option<f64>,
}

/// The matrices that are given by a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Uniform in the square around 0, of any shape.
    Random,
    /// Random, its diagonal raised until it is definite.
    Spd,
    /// Random, symmetric, of a chosen condition number.
    Conditioned,
    /// Of a grid of n points, as square as n allows.
    Laplacian,
    /// Primes on the diagonal.
    Trefethen,
    /// 1/(i + j + 1): too ill-conditioned to be factored from order 14 on.
    Hilbert,
}

impl Generated {
    /// The name of the kind, in reports.
    pub fn name(&self, otherwise: Kind) -> String {
        let kind = self.matrix.unwrap_or(otherwise).to_possible_value();
        kind.map_or(String::new(), |kind| kind.get_name().to_owned())
    }

    /// Whether the matrix is its own adjoint; `otherwise` is what suits the example.
    pub fn is_hermitian(&self, otherwise: Kind) -> bool {
        self.matrix.unwrap_or(otherwise) != Kind::Random
    }

    /// Refuses a condition number without a matrix that has one, and a seed of which nothing is drawn:
    /// neither a matrix nor `sides`, which an example may draw beside it.
    pub fn expect_sense(&self, flags: &Flags, sides: bool) -> Result<(), Failure> {
        let formulas = [Kind::Laplacian, Kind::Trefethen, Kind::Hilbert];
        if flags.input.is_some() && !sides {
            flags.expect_no_seed("with --input the file says the entries")?;
        }
        if self.matrix.is_some_and(|kind| formulas.contains(&kind)) && !sides {
            flags.expect_no_seed("a formula says the entries of such a --matrix")?;
        }
        match (self.condition, self.matrix) {
            (Some(_), kind) if kind != Some(Kind::Conditioned) => Err(Failure::refused(
                "--condition: only --matrix conditioned has one",
            )),
            _ => Ok(()),
        }
    }

    /// The matrix of `m` rows and `n` columns; `otherwise` is what suits the example.
    pub fn make<T: Scalar>(
        &self,
        (m, n): (usize, usize),
        seed: u64,
        otherwise: Kind,
    ) -> Result<Matrix<T>, Failure> {
        let kind = self.matrix.unwrap_or(otherwise);
        if m != n && !matches!(kind, Kind::Random | Kind::Hilbert) {
            let name = self.name(otherwise);
            let text = format!("--matrix: {name} is square, not {m} x {n} (take random)");
            return Err(Failure::refused(text));
        }
        Ok(match kind {
            Kind::Random => Matrix::Random(Random::new(seed)),
            Kind::Spd => Matrix::Spd(PositiveDefinite::new(n, seed)),
            Kind::Conditioned => {
                let conditioned = Conditioned::new(n, self.condition.unwrap_or(1e6), seed);
                Matrix::Conditioned(
                    conditioned.map_err(|error| Failure::refused(error.to_string()))?,
                )
            }
            Kind::Laplacian => {
                let mut sides = (1..=n.isqrt()).rev();
                let height = sides.find(|side| n.is_multiple_of(*side)).unwrap_or(1);
                let width = n / height;
                Matrix::Laplacian(Laplacian { width, height })
            }
            Kind::Trefethen => Matrix::Trefethen(Trefethen::new(n)),
            Kind::Hilbert => Matrix::Hilbert,
        })
    }
}

/// The matrix that is worked on: given by a formula, or kept beside the result.
pub enum Matrix<T: Scalar> {
    File(TiledMatrix<T>),
    Random(Random),
    Spd(PositiveDefinite),
    Conditioned(Conditioned),
    Laplacian(Laplacian),
    Trefethen(Trefethen),
    Hilbert,
}

impl<T: Scalar> Matrix<T> {
    /// Reads this rank's part; `kept` copies of it are held at once, the one that is read included.
    pub fn read(
        mut file: File,
        layout: Layout,
        kept: u64,
        runtime: &Runtime,
    ) -> Result<Self, Failure> {
        let limit = memory_of(runtime) / kept;
        let tiles = file.read_tiled(layout, runtime.memory(), limit)?;
        Ok(Matrix::File(tiles))
    }

    /// Where the entries come from.
    fn entries(&self) -> &dyn Entries<T> {
        match self {
            Matrix::File(matrix) => matrix,
            Matrix::Random(matrix) => matrix,
            Matrix::Spd(matrix) => matrix,
            Matrix::Conditioned(matrix) => matrix,
            Matrix::Laplacian(matrix) => matrix,
            Matrix::Trefethen(matrix) => matrix,
            Matrix::Hilbert => &Hilbert,
        }
    }
}

impl<T: Scalar> Entries<T> for Matrix<T> {
    fn entry(&self, row: usize, col: usize) -> T {
        self.entries().entry(row, col)
    }

    fn column(&self, rows: Range<usize>, col: usize, into: &mut [T]) {
        self.entries().column(rows, col, into);
    }
}
