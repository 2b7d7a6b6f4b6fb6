//! The program of [`applications::shallow_water`].

use std::process::ExitCode;

fn main() -> ExitCode {
    applications::shallow_water::main()
}
