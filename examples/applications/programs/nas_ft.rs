//! The program of [`applications::nas_ft`].

use std::process::ExitCode;

fn main() -> ExitCode {
    applications::nas_ft::main()
}
