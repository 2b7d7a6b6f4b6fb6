//! The program of [`applications::blackscholes`].

use std::process::ExitCode;

fn main() -> ExitCode {
    applications::blackscholes::main()
}
