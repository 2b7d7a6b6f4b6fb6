//! The program of [`applications::jacobi3d`].

use std::process::ExitCode;

fn main() -> ExitCode {
    applications::jacobi3d::main()
}
