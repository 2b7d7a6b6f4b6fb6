//! `cargo xtask repeat`: a small run under the launcher, again and again: it ends each time, with the
//! digest of one rank.
//!
//! What hangs once in a thousand starts is seen here or by a user.

use crate::mpirun;
use crate::smoke;
use crate::steps::{Outcome, Step, Steps};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Times if none are asked for.
pub const TIMES: usize = 1000;

/// Times of `cargo xtask test`, beside some hundred that its tests of launchers start.
const SMOKE: usize = 24;

/// Built as the tests of the workspace build it, so that little is left to do.
const BUILD: [&str; 5] = ["--workspace", "--example", "cholesky", "--profile", "test"];

const RUN: &str = "--n 96 --nb 16 --threads 1 --check=false --json";

/// One after the other.
const RANKS: [usize; 3] = [2, 3, 4];

/// Far above what a run needs, also on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs so often.
pub fn command(times: usize) -> ExitCode {
    let mut steps = Steps::default();
    let (name, repeat) = repeat(times);
    steps.step(&name, repeat);
    steps.close()
}

/// The share of `cargo xtask test`.
pub fn smoke() -> (String, Step) {
    repeat(SMOKE)
}

fn repeat(times: usize) -> (String, Step) {
    let name = format!("{times} small runs under the launcher");
    let step = move || match runs(times) {
        Ok(()) => Outcome::Passed,
        Err(fault) => Outcome::failed(fault),
    };
    (name, Box::new(step))
}

fn runs(times: usize) -> Result<(), String> {
    let (launcher, family) = mpirun::launcher()?;
    let program = mpirun::build(&BUILD.map(String::from))?;
    let alone = digest(Command::new(&program).args(RUN.split(' ')))?;
    for time in 0..times {
        let ranks = RANKS[time % RANKS.len()];
        let mut run = mpirun::started_by(Path::new(&launcher), family, ranks);
        let ended = digest(run.arg(&program).args(RUN.split(' ')));
        match ended {
            Ok(digest) if digest == alone => {}
            Ok(digest) => {
                let text = format!("run {time}, {ranks} ranks: digest {digest}, alone {alone}");
                return Err(text);
            }
            Err(fault) => return Err(format!("run {time}, {ranks} ranks: {fault}")),
        }
    }
    Ok(())
}

fn digest(run: &mut Command) -> Result<String, String> {
    let ended = smoke::run(run, DEADLINE)?;
    let told = ended.exited_with(0).and_then(|()| ended.object());
    let told = told.map_err(|fault| format!("{fault}\n{}", ended.stderr))?;
    let digest = told["digest"].as_str();
    digest.map(String::from).ok_or_else(|| "no digest".into())
}
