//! The program of [`applications::swaptions`].

use std::process::ExitCode;

fn main() -> ExitCode {
    applications::swaptions::main()
}
