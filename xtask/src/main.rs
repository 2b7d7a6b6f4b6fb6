//! The commands of this workspace: `cargo xtask test` checks and tests everything, the others look wider.
//!
//! # Law
//! Whatever continuous integration runs, anyone can run at home with the same words.
//! Exit status: 0 all that could be run passed; 1 something failed, or nothing could be run, or with `--strict`
//! not all; 2 bad arguments.
//!
//! # Elsewhere
//! What a step is and how it is reported: [`steps`]. The door to the outside: [`out`]. House rules that need no tool: `tests/tidy`.

#![warn(clippy::print_stdout, clippy::print_stderr)] // `out` is the door

mod builds;
mod compare;
mod deny;
mod guest;
mod hidden;
mod lapack;
mod mpich;
mod mpirun;
mod numa_vm;
mod out;
mod packages;
mod platforms;
mod programs;
mod release;
mod repeat;
mod smoke;
mod steps;
mod test;
mod told;
mod viewers;
mod weather;
mod wide;
mod wire;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

/// What the command line asked for; help of all commands, or of the one that is named.
#[derive(Debug, PartialEq)]
enum Command {
    Help(Option<String>),
    Test(test::Options),
    Lapack { programs: bool },
    Weather { seeds: u64 },
    Loom { filter: Option<String> },
    Miri { filter: Option<String> },
    Tsan { filter: Option<String> },
    NumaVm,
    Mpich { times: usize },
    Repeat { times: usize },
    Mpirun(mpirun::Options),
    Hidden(hidden::Options),
    Compare(compare::Options),
    Viewers,
    Platforms,
    Release,
    Builds,
}

const HELP: &str = "\
cargo xtask COMMAND

  test [--data DIR] [--quick] [--strict]
                                installs what is missing, then checks and tests everything
                                (20 to 30 minutes on two cores from a clean clone)
       --data DIR               a folder with matrices/ and topologies/: tests over real collections run too
       --quick                  the inner loop: format, clippy, unit tests but linear algebra's and a few more, default
                                features only
       --strict                 a step that this machine cannot do has failed (a single test is skipped all the same)
  lapack                        LAPACK's acceptance tests of Cholesky, LU and QR: all types, four precisions, one rank
                                and grids of ranks; counts and largest ratios (minutes)
         --programs             LAPACK's own test programs instead, through this library's names: LIN for GE, PO, TR
                                and LS, BLAS 3; tiles of 7 and 13 (minutes; Debian's source package, gfortran)
  weather [--seeds N]           simulated networks by seed, 1,000 of them if not said otherwise: random graphs,
                                Cholesky and Task Bench on 2 to 5 ranks (minutes)
  loom [FILTER]                 every interleaving of the concurrent structures, bounded to three preemptions, in some
                                to four (minutes; LOOM_MAX_PREEMPTIONS=5 bounds all to five, however long that takes)
  miri [FILTER]                 dataflow-core under Miri: undefined behaviour in unsafe code (the better part
                                of an hour of one core; rustup's nightly toolchain)
  tsan [FILTER]                 core, numa and ranks as threads under ThreadSanitizer: data races; without simulations,
                                which are of one thread, unless FILTER names them (minutes; rustup's nightly toolchain)
  numa-vm                       the locality tests in QEMU guests with 4 and 8 NUMA nodes (minutes; Linux on x86-64,
                                installs QEMU, fetches a kernel by Debian's apt)
  mpich [TIMES]                 the tests under MPI once more, or so often, with MPICH (minutes; installs it)
  repeat [--times N]            a small run under the launcher of this machine's MPI, 1000 times if not said
                                otherwise: it ends each time, with the digest of one rank (minutes)
  mpirun -n RANKS BUILD -- ARGS builds a program with every feature and starts it on ranks
                                (`cargo mpirun -n 4 --release --example cholesky -- --n 8000`)
  hidden [--rounds N] [--mpi RANKS] EXAMPLE ARGS
                                an example with and without waiting for messages, in turn: how much of its
                                communication is hidden (minutes)
  hidden [--rounds N] --link RATE EXAMPLE ARGS
                                the same between two hosts that a wire of this rate joins: network namespaces on
                                this machine (root, iproute2; RATE as `tc` writes it: 300mbit)
  hidden [--rounds N] [--quick] the same of four applications, over threads, sockets and MPI, beside the numbers
                                of the paper (half an hour; --quick: small sizes)
  hidden [--rounds N] [--quick] --links
                                and over wires on which communication takes two fifths of the time, as there
  compare BEFORE.json AFTER.json
                                two traced runs (`--json --trace FILE`) side by side: where the workers' time went,
                                by class of tasks and cause of idleness, what changed most first (at once)
  viewers                       files of a traced run read by others' programs: pj_dump, Perfetto's bindings, a
                                headless browser (a minute, and the build of an example; installs them, fetches the
                                bindings)
  platforms                     libraries, examples and tests built for Linux on x86-64 and AArch64, macOS and Windows,
                                warnings are faults; the tests of core and workers run for AArch64 under QEMU; a
                                table of it (minutes; adds standard libraries by rustup, installs QEMU and a linker)
  release                       could this be published? What lies in the packages, each feature alone, the lowest
                                Rust version, the documentation of docs.rs, a build of each from its package,
                                dependencies, cargo deny, cargo semver-checks (minutes; installs what the features
                                need and cargo-deny, publishes nothing, and skips aloud what it has no tool for)
  builds                        how long one waits for the compiler, each time from an empty folder: the example
                                cholesky, a crate of a user's own, a change of a body (minutes)
  help [COMMAND]                this text, or what of it is about one command (`COMMAND --help`)
";

fn main() -> ExitCode {
    let command = match words(std::env::args_os().skip(1)).and_then(parse) {
        Ok(command) => command,
        Err(fault) => {
            out::error(format!("{fault}; `cargo xtask help` lists the commands"));
            return ExitCode::from(2);
        }
    };
    out::ended(match command {
        Command::Help(of) => {
            out::text(&of.map_or(HELP.to_string(), |name| help_of(&name)));
            ExitCode::SUCCESS
        }
        Command::Test(options) => test::run(&options),
        Command::Lapack { programs } => lapack::command(programs),
        Command::Weather { seeds } => weather::command(seeds),
        Command::Loom { filter } => wide::command("loom", |steps| wide::loom(steps, filter)),
        Command::Miri { filter } => wide::command("miri", |steps| wide::miri(steps, filter)),
        Command::Mpich { times } => wide::command("mpich", |steps| mpich::mpich(steps, times)),
        Command::Mpirun(options) => mpirun::run(&options),
        Command::Hidden(options) => hidden::command(&options),
        Command::Repeat { times } => repeat::command(times),
        Command::Tsan { filter } => wide::command("tsan", |steps| wide::tsan(steps, filter)),
        Command::NumaVm => numa_vm::run(),
        Command::Compare(options) => compare::command(&options),
        Command::Platforms => platforms::command(),
        Command::Release => release::command(),
        Command::Builds => wide::command("builds", builds::builds),
        Command::Viewers => wide::command("viewers", viewers::viewers),
    })
}

/// The words of a command line, if they are text.
fn words(
    arguments: impl Iterator<Item = OsString>,
) -> Result<impl Iterator<Item = String>, String> {
    let word = |argument: OsString| {
        let refused = |argument: OsString| format!("`{}` is no text", argument.display());
        argument.into_string().map_err(refused)
    };
    let words: Vec<String> = arguments.map(word).collect::<Result<_, _>>()?;
    Ok(words.into_iter())
}

/// What the help says of one command; nothing of one that there is not.
fn help_of(name: &str) -> String {
    let mut is_its = false;
    let its = HELP.lines().filter(|line| {
        if let Some(words) = line.strip_prefix("  ").filter(|at| !at.starts_with(' ')) {
            is_its = words.split(' ').next() == Some(name);
        }
        is_its
    });
    its.map(|line| format!("{line}\n")).collect()
}

/// Reads the command line; a fault is one sentence without its full stop.
fn parse(arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut arguments = arguments.collect::<Vec<_>>().into_iter();
    let Some(name) = arguments.next() else {
        return Ok(Command::Help(None));
    };
    let mut own = arguments.as_slice().iter().take_while(|word| *word != "--");
    if own.any(|word| is_help(word)) && !help_of(&name).is_empty() {
        return Ok(Command::Help(Some(name)));
    }
    match name.as_str() {
        "help" => parse_help(arguments),
        name if is_help(name) => Ok(Command::Help(None)),
        "test" => parse_test(arguments).map(Command::Test),
        "weather" => parse_number(arguments, ("weather", "--seeds"), weather::SEEDS)
            .map(|seeds| Command::Weather { seeds }),
        "repeat" => parse_number(arguments, ("repeat", "--times"), repeat::TIMES)
            .map(|times| Command::Repeat { times }),
        "lapack" => parse_lapack(arguments).map(|programs| Command::Lapack { programs }),
        "loom" => Ok(Command::Loom {
            filter: parse_filter(arguments)?,
        }),
        "miri" => Ok(Command::Miri {
            filter: parse_filter(arguments)?,
        }),
        "tsan" => Ok(Command::Tsan {
            filter: parse_filter(arguments)?,
        }),
        "numa-vm" => parse_nothing(arguments, "numa-vm").map(|()| Command::NumaVm),
        "platforms" => parse_nothing(arguments, "platforms").map(|()| Command::Platforms),
        "release" => parse_nothing(arguments, "release").map(|()| Command::Release),
        "builds" => parse_nothing(arguments, "builds").map(|()| Command::Builds),
        "mpich" => Ok(Command::Mpich {
            times: parse_times(arguments)?,
        }),
        "mpirun" => mpirun::parse(arguments).map(Command::Mpirun),
        "hidden" => hidden::parse(arguments).map(Command::Hidden),
        "compare" => match (arguments.next(), arguments.next(), arguments.next()) {
            (Some(before), Some(after), None) => {
                Ok(Command::Compare(compare::Options { before, after }))
            }
            _ => Err("`compare` takes two files".to_string()),
        },
        "viewers" => parse_nothing(arguments, "viewers").map(|()| Command::Viewers),
        other => Err(format!("there is no command `{other}`")),
    }
}

fn is_help(word: &str) -> bool {
    matches!(word, "--help" | "-h")
}

fn parse_help(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let of = arguments.next();
    if let Some(name) = of.as_ref().filter(|name| help_of(name).is_empty()) {
        return Err(format!("there is no command `{name}`"));
    }
    parse_nothing(arguments, "help").map(|()| Command::Help(of))
}

fn parse_nothing(mut arguments: impl Iterator<Item = String>, name: &str) -> Result<(), String> {
    match arguments.next() {
        Some(extra) => Err(format!("`{name}` does not know `{extra}`")),
        None => Ok(()),
    }
}

/// Whether it is LAPACK's own programs.
fn parse_lapack(mut arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let programs = match arguments.next().as_deref() {
        None => false,
        Some("--programs") => true,
        Some(extra) => return Err(format!("`lapack` does not know `{extra}`")),
    };
    parse_nothing(arguments, "lapack").map(|()| programs)
}

fn parse_test(mut arguments: impl Iterator<Item = String>) -> Result<test::Options, String> {
    let mut options = test::Options::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--strict" => options.strict = true,
            "--data" => {
                let folder = arguments.next().ok_or("--data needs a folder")?;
                options.data = Some(collections(&folder)?);
            }
            other => match other.strip_prefix("--data=") {
                Some(folder) => options.data = Some(collections(folder)?),
                None => return Err(format!("`test` does not know `{other}`")),
            },
        }
    }
    Ok(options)
}

/// The one number that a command takes, under its flag.
fn parse_number<N: FromStr + Default + PartialEq>(
    mut arguments: impl Iterator<Item = String>,
    (name, flag): (&str, &str),
    otherwise: N,
) -> Result<N, String> {
    let Some(argument) = arguments.next() else {
        return Ok(otherwise);
    };
    let number = match argument.strip_prefix(flag) {
        Some("") => arguments.next(),
        Some(rest) => rest.strip_prefix('=').map(String::from),
        None => None,
    };
    let number = number.ok_or_else(|| format!("`{name}` takes {flag} N, not `{argument}`"))?;
    match (number.parse(), arguments.next()) {
        (_, Some(extra)) => Err(format!("`{name}` does not know `{extra}`")),
        (Ok(number), None) if number != N::default() => Ok(number),
        _ => Err(format!("{flag} {number}: must be a number, 1 or more")),
    }
}

fn parse_times(mut arguments: impl Iterator<Item = String>) -> Result<usize, String> {
    let times = arguments.next().unwrap_or("1".into());
    let times = match times.parse() {
        Ok(0) | Err(_) => return Err(format!("`{times}` is not a number of times, 1 or more")),
        Ok(times) => times,
    };
    parse_nothing(arguments, "mpich").map(|()| times)
}

fn parse_filter(mut arguments: impl Iterator<Item = String>) -> Result<Option<String>, String> {
    let filter = arguments.next();
    match filter
        .iter()
        .find(|filter| filter.starts_with('-'))
        .cloned()
        .or(arguments.next())
    {
        Some(extra) => Err(format!(
            "only one filter of test names is taken, not `{extra}`"
        )),
        None => Ok(filter),
    }
}

/// The canonical path of a folder that holds the collections, so that tests find it from any folder.
fn collections(folder: &str) -> Result<PathBuf, String> {
    let path =
        std::fs::canonicalize(folder).map_err(|fault| format!("--data {folder}: {fault}"))?;
    for part in ["matrices", "topologies"] {
        if !path.join(part).is_dir() {
            return Err(format!(
                "--data {folder}: there is no folder `{part}` in it"
            ));
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn every_command_of_the_help_is_there_and_contributors_are_told_when_to_use_it() {
        let contributing = std::fs::read_to_string(steps::root().join("CONTRIBUTING.md")).unwrap();
        let lines = HELP.lines().filter_map(|line| line.strip_prefix("  "));
        let commands = lines.filter(|line| !line.starts_with(' '));
        let names: BTreeSet<&str> = commands.filter_map(|line| line.split(' ').next()).collect();
        assert!(names.len() > 15, "{names:?}");
        for name in names {
            let fault = parsed(name).err().unwrap_or_default();
            assert!(!fault.contains("there is no command"), "{name}: {fault}");
            let told = ["xtask", ""].map(|by| format!("`cargo {by} {name}").replace("  ", " "));
            assert!(
                told.iter().any(|words| contributing.contains(words)),
                "{name}"
            );
        }
    }

    #[test]
    #[cfg(unix)]
    fn an_argument_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let arguments = [b"compare".to_vec(), b"\xff".to_vec(), b"b".to_vec()];
        let fault = words(arguments.map(OsString::from_vec).into_iter()).err();
        assert_eq!(fault.as_deref(), Some("`\u{fffd}` is no text"));
    }

    #[test]
    fn help_is_had_of_all_commands_and_of_each() {
        for line in ["help", "--help", "-h"] {
            assert_eq!(parsed(line), Ok(Command::Help(None)), "{line}");
        }
        let of = |name: &str| Ok(Command::Help(Some(name.into())));
        for (line, name) in [
            ("help hidden", "hidden"),
            ("help --help", "help"),
            ("test --help", "test"),
            ("loom -h", "loom"),
            ("weather --seeds 5 --help", "weather"),
            ("mpirun --help", "mpirun"),
        ] {
            assert_eq!(parsed(line), of(name), "{line}");
        }
        let started = parsed("mpirun -n 2 --example lu -- --help");
        assert!(matches!(started, Ok(Command::Mpirun(_))), "{started:?}");
        let own = help_of("hidden");
        assert_eq!(own.matches("  hidden ").count(), 4, "{own}");
        assert!(
            own.ends_with("as there\n") && !own.contains("  mpirun "),
            "{own}"
        );
        for (line, at_fault) in [("help tests", "`tests`"), ("tests --help", "`tests`")] {
            let fault = parsed(line).expect_err(line);
            assert!(fault.contains(at_fault), "{line}: {fault}");
        }
    }

    #[test]
    fn a_command_line_is_understood_or_refused_with_the_word_at_fault() {
        assert_eq!(parsed(""), Ok(Command::Help(None)));
        for (line, quick, strict) in [
            ("test", false, false),
            ("test --quick", true, false),
            ("test --strict --quick", true, true),
        ] {
            let options = test::Options {
                quick,
                strict,
                data: None,
            };
            assert_eq!(parsed(line), Ok(Command::Test(options)), "{line}");
        }
        assert_eq!(
            parsed("loom pending"),
            Ok(Command::Loom {
                filter: Some("pending".into())
            })
        );
        for line in ["weather --seeds 50", "weather --seeds=50"] {
            assert_eq!(parsed(line), Ok(Command::Weather { seeds: 50 }));
        }
        assert_eq!(parsed("lapack"), Ok(Command::Lapack { programs: false }));
        let programs = Command::Lapack { programs: true };
        assert_eq!(parsed("lapack --programs"), Ok(programs));
        assert_eq!(parsed("platforms"), Ok(Command::Platforms));
        assert_eq!(parsed("release"), Ok(Command::Release));
        assert_eq!(parsed("weather"), Ok(Command::Weather { seeds: 1_000 }));
        assert_eq!(parsed("repeat"), Ok(Command::Repeat { times: 1000 }));
        assert_eq!(
            parsed("repeat --times 50"),
            Ok(Command::Repeat { times: 50 })
        );
        for (line, at_fault) in [
            ("repeat --times 0", "1 or more"),
            ("repeat --seeds 5", "`--seeds`"),
            ("weather 50", "`50`"),
            ("weather --seeds", "`--seeds`"),
            ("weather --seeds 0", "1 or more"),
            ("weather --seeds 5 x", "`x`"),
            ("tests", "`tests`"),
            ("test --fast", "`--fast`"),
            ("test --data", "needs a folder"),
            ("test --data no/such/folder", "no/such/folder"),
            ("test --data=src", "src"),
            ("loom --release", "`--release`"),
            ("miri a b", "`b`"),
            ("numa-vm 4", "`4`"),
            ("platforms haiku", "`haiku`"),
            ("release --now", "`--now`"),
            ("lapack potrf", "`potrf`"),
            ("lapack --programs potrf", "`potrf`"),
            ("mpich often", "`often`"),
            ("mpich 0", "1 or more"),
            ("mpich --times", "`--times` is not a number"),
            ("mpich 1 2", "`mpich` does not know `2`"),
            ("mpirun --example cholesky", "-n"),
        ] {
            let fault = parsed(line).expect_err(line);
            assert!(fault.contains(at_fault), "{line}: {fault}");
        }
    }
}
