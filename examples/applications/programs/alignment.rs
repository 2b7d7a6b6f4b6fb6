//! The program of [`applications::alignment`].

use std::process::ExitCode;

fn main() -> ExitCode {
    applications::alignment::main()
}
