//! `cargo mpirun`: builds a program with every feature and starts it on ranks, by the launcher of the
//! MPI it was built with.
//!
//! # Law
//! A program starts under its own MPI's launcher or not at all: under another's it would run as so
//! many jobs of one rank. It is told how many ranks to expect, and refuses others itself.

use crate::out;
use crate::packages::{self, in_path};
use crate::steps;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What `cargo mpirun` was asked for.
#[derive(Debug, PartialEq)]
pub struct Options {
    ranks: usize,
    /// For `cargo build`: `--release`, `--example NAME`.
    build: Vec<String>,
    /// For the program.
    program: Vec<String>,
}

/// How the program hears of the ranks it is one of.
const EXPECTED: &str = "DATAFLOW_EXPECTED_RANKS";

/// Names the launcher, where it is not found by itself.
const LAUNCHER: &str = "DATAFLOW_MPIRUN";

/// A family of MPIs whose programs understand each other's launchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    OpenMpi,
    /// MPICH, Intel MPI, MVAPICH.
    Mpich,
}

/// Reads the command line: `-n RANKS`, what cargo builds, `--`, what the program gets.
pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let (mut ranks, mut build) = (None, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--" => break,
            "-n" | "-np" => {
                let number = arguments.next().ok_or("-n needs a number of ranks")?;
                ranks = Some(number);
            }
            _ => build.push(argument),
        }
    }
    let ranks = ranks.ok_or("`mpirun` needs -n RANKS")?;
    match ranks.parse() {
        Ok(ranks) if ranks > 0 => Ok(Options {
            ranks,
            build,
            program: arguments.collect(),
        }),
        _ => Err(format!(
            "-n is `{ranks}`, not a number of ranks (1 or more)"
        )),
    }
}

/// Builds and starts; the exit status is the launcher's.
pub fn run(options: &Options) -> ExitCode {
    let started = launcher().and_then(|(launcher, family)| {
        let program = build(&options.build)?;
        let mut command = started_by(&launcher, family, options.ranks);
        command.arg(program).args(&options.program);
        command
            .status()
            .map_err(|fault| format!("{} did not start: {fault}", launcher.display()))
    });
    match started {
        Ok(status) => ExitCode::from(status.code().map_or(1, |code| code.clamp(0, 255) as u8)),
        Err(fault) => {
            out::error(fault);
            ExitCode::FAILURE
        }
    }
}

/// The features, of all, that need something from the machine.
const NEEDED: [&str; 3] = ["hwloc", "mpi", "openblas"];

/// A fault, and in the next line what this machine lacks, if anything.
///
/// Whoever has all of it elsewhere knows better: so it is told after a failure only.
fn advised(fault: String) -> String {
    let lines = [fault].into_iter().chain(packages::advice(&NEEDED));
    lines.collect::<Vec<_>>().join("\n")
}

/// The launcher's command up to the program.
pub fn started_by(launcher: &Path, family: Family, ranks: usize) -> Command {
    let mut command = Command::new(launcher);
    command.env(EXPECTED, ranks.to_string());
    if family == Family::OpenMpi {
        // The ranks of a machine share its cores out themselves, be they as few as they may: by
        // itself the launcher refuses more ranks than there are cores, hyper-threads not counted.
        command.args(["--bind-to", "none", "--oversubscribe", "-x", EXPECTED]);
        if is_root() {
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
    }
    command.args(["-n", &ranks.to_string()]);
    command
}

fn is_root() -> bool {
    let user = Command::new("id").arg("-u").output();
    user.is_ok_and(|user| user.stdout.trim_ascii() == b"0")
}

/// The launcher of the MPI whose compiler programs are built with.
pub fn launcher() -> Result<(PathBuf, Family), String> {
    found().map_err(advised)
}

fn found() -> Result<(PathBuf, Family), String> {
    let compiler = std::env::var_os("MPICC").unwrap_or("mpicc".into());
    let found = in_path(&compiler).ok_or_else(|| {
        format!(
            "{} is not there: `cargo xtask test` installs an MPI",
            compiler.display()
        )
    })?;
    let family = if answers(&found, "--showme:version", "Open MPI") {
        Family::OpenMpi
    } else {
        Family::Mpich
    };
    if let Some(named) = std::env::var_os(LAUNCHER) {
        return Ok((PathBuf::from(named), family));
    }
    let candidates = candidates(&compiler.to_string_lossy(), family);
    let is_ours = |launcher: &PathBuf| {
        answers(launcher, "--version", "Open MPI") == (family == Family::OpenMpi)
    };
    let launcher = candidates.iter().filter_map(in_path).find(is_ours);
    let missing = || {
        format!(
            "no launcher of {family:?} is there (looked for {}); {LAUNCHER} can name it",
            candidates.join(", ")
        )
    };
    Ok((launcher.ok_or_else(missing)?, family))
}

/// Names of launchers, those beside the compiler first.
fn candidates(compiler: &str, family: Family) -> Vec<String> {
    let beside = match compiler.rfind("mpicc") {
        Some(at) => format!(
            "{}mpirun{}",
            &compiler[..at],
            &compiler[at + "mpicc".len()..]
        ),
        None => "mpirun".into(),
    };
    let own = match family {
        Family::OpenMpi => "mpirun.openmpi",
        Family::Mpich => "mpirun.mpich",
    };
    let mut candidates = vec![beside];
    for other in [own, "mpirun", "mpiexec"] {
        if !candidates.iter().any(|known| known == other) {
            candidates.push(other.into());
        }
    }
    candidates
}

/// Whether a program says a word when it is asked.
fn answers(program: &Path, question: &str, word: &str) -> bool {
    let answer = Command::new(program)
        .arg(question)
        .stdin(Stdio::null())
        .output();
    answer.is_ok_and(|answer| {
        let said = [answer.stdout, answer.stderr].concat();
        answer.status.success() && String::from_utf8_lossy(&said).contains(word)
    })
}

/// The one program that cargo builds, with every feature.
pub fn build(arguments: &[String]) -> Result<PathBuf, String> {
    built(&["build", "--features", "full"], arguments).map_err(advised)
}

/// The same with default features: nothing has to be installed.
pub fn build_plain(arguments: &[String]) -> Result<PathBuf, String> {
    built(&["build"], arguments)
}

fn built(build: &[&str], arguments: &[String]) -> Result<PathBuf, String> {
    let mut cargo = steps::cargo(build);
    cargo
        .args(arguments)
        .args(["--message-format", "json-render-diagnostics"]);
    let built = cargo.stderr(Stdio::inherit()).output();
    let built = built.map_err(|fault| format!("cargo did not start: {fault}"))?;
    if !built.status.success() {
        return Err(format!("`{}` failed", steps::shown(&cargo)));
    }
    let mut programs = programs(&String::from_utf8_lossy(&built.stdout));
    match (programs.pop(), programs.len()) {
        (Some(program), 0) => Ok(program),
        (None, _) => Err("cargo built no program (name one: --example NAME or --bin NAME)".into()),
        _ => Err("cargo built several programs (name one: --example NAME or --bin NAME)".into()),
    }
}

/// The programs among cargo's messages, one JSON object per line.
fn programs(messages: &str) -> Vec<PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let programs = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    programs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn a_command_line_is_ranks_what_to_build_and_what_the_program_gets() {
        let options = parsed("-n 4 --release --example cholesky -- --n 8000 -n 3 -- x").unwrap();
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(options.ranks, 4);
        assert_eq!(options.build, words("--release --example cholesky"));
        assert_eq!(options.program, words("--n 8000 -n 3 -- x"));
        assert_eq!(
            parsed("--bin x -np 2").unwrap().program,
            Vec::<String>::new()
        );
        for (line, at_fault) in [
            ("--example cholesky", "needs -n"),
            ("-n", "needs a number"),
            ("-n 0 --example x", "`0`"),
            ("-n --release", "`--release`"),
        ] {
            let fault = parsed(line).unwrap_err();
            assert!(fault.contains(at_fault), "{line}: {fault}");
        }
    }

    #[test]
    fn the_launcher_beside_the_compiler_is_tried_first() {
        for (compiler, family, expected) in [
            ("mpicc", Family::OpenMpi, "mpirun mpirun.openmpi mpiexec"),
            ("mpicc.mpich", Family::Mpich, "mpirun.mpich mpirun mpiexec"),
            (
                "/opt/x/bin/mpicc",
                Family::Mpich,
                "/opt/x/bin/mpirun mpirun.mpich mpirun mpiexec",
            ),
            (
                "my-wrapper",
                Family::OpenMpi,
                "mpirun mpirun.openmpi mpiexec",
            ),
        ] {
            assert_eq!(
                candidates(compiler, family).join(" "),
                expected,
                "{compiler}"
            );
        }
    }

    #[test]
    fn any_number_of_ranks_is_allowed_and_all_are_told_it() {
        let words = |ranks| {
            let command = started_by(Path::new("mpirun"), Family::OpenMpi, ranks);
            let told = command.get_envs().any(|(name, value)| {
                name == EXPECTED && value.is_some_and(|value| value == ranks.to_string().as_str())
            });
            assert!(told);
            steps::shown(&command)
        };
        // Two ranks need it too where the only core has two hyper-threads.
        for ranks in [1, 2, 100_000] {
            assert!(words(ranks).contains(" --oversubscribe "), "{ranks}");
        }
        let mpich = steps::shown(&started_by(Path::new("mpirun"), Family::Mpich, 3));
        assert!(mpich.ends_with("mpirun -n 3"), "{mpich}");
    }

    #[test]
    fn programs_are_found_among_cargos_messages() {
        let messages = "noise\n{\"executable\":null}\n{\"executable\":\"/target/x\"}\n";
        assert_eq!(programs(messages), [PathBuf::from("/target/x")]);
    }
}
