//! `cargo xtask hidden`: how much of their communication applications hide.
//!
//! Runs the variants `base`, `graph` and `ideal` in turn, round after round, and compares medians:
//! communication is (base − ideal) ÷ base, hidden is (base − graph) ÷ (base − ideal). Of one example, or
//! of those of the paper and shallow water, on two ranks over threads, sockets and MPI; or on two hosts
//! that a wire joins, where a byte under way is time that no processor has to spend. What is not hidden is
//! told beside what a rank's processor does more than in `ideal`: only a spare one could hide that.
//!
//! # Source
//! Sorensen, Baden, *Hiding communication latency with non-SPMD, graph-based execution*, ICCS 2009, §3.

use crate::mpirun;
use crate::out::{self, say};
use crate::smoke::{self, Ended};
use crate::steps;
use crate::wire::Wire;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// What was asked for.
#[derive(Debug, PartialEq)]
pub struct Options {
    rounds: usize,
    what: What,
}

#[derive(Debug, PartialEq)]
enum What {
    /// An example and its arguments.
    One(By, String, Vec<String>),
    /// The table; in small, to see that it works; over wires.
    All { quick: bool, links: bool },
}

/// How ranks are started.
#[derive(Clone, Debug, PartialEq)]
enum By {
    /// As the example's own arguments say.
    Itself,
    /// Under the launcher of this machine's MPI, on so many ranks.
    Mpi(usize),
    /// On two hosts that a wire of this rate joins.
    Link(String),
}

/// Rounds if none are asked for; one more goes before and does not count.
const ROUNDS: usize = 5;

const VARIANTS: [&str; 3] = ["base", "graph", "ideal"];

/// Of less communication than this a share says nothing.
const ENOUGH: f64 = 0.10;

/// Far above what a run should take.
const DEADLINE: Duration = Duration::from_secs(600);

/// Ranks of the table: one for each core of a small machine.
const RANKS: usize = 2;

/// An application of the table.
struct Application {
    name: &'static str,
    full: &'static str,
    quick: &'static str,
    /// Over a wire of such a rate; bodies take longer than what they send takes of the processors.
    wire: (&'static str, &'static str),
    /// What paper 003 says of it, Fig. 1.
    published: &'static str,
}

const APPLICATIONS: [Application; 4] = [
    Application {
        name: "jacobi3d",
        full: "--n 160 --blocks 8x8x1",
        quick: "--n 24 --blocks 4x2x1",
        wire: ("--n 320 --blocks 16x16x1", "450mbit"),
        published: "43–78 %, 10–80 %",
    },
    Application {
        name: "matmul",
        full: "--n 2048 --nb 128 --check=false",
        quick: "--n 128 --nb 32",
        wire: ("--n 4096 --nb 256 --check=false", "1300mbit"),
        published: "61–93 %",
    },
    Application {
        name: "nas_ft",
        full: "--class W",
        quick: "--size 16x16x16",
        wire: ("--class A", "10gbit"),
        published: "37–65 %",
    },
    Application {
        name: "shallow_water",
        full: "--case 5 --nodes 10242 --nb 640 --steps 20",
        quick: "--case 5 --nodes 642 --nb 80 --steps 3",
        wire: ("--case 5 --nodes 40962 --nb 640 --steps 60", "160mbit"),
        published: "",
    },
];

/// Reads the command line: `[--rounds N] [--mpi RANKS | --link RATE] EXAMPLE ARGS`, or
/// `[--rounds N] [--quick] [--links]`.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut arguments = arguments.peekable();
    let (mut rounds, mut by, mut quick, mut links) = (ROUNDS, By::Itself, false, false);
    let only = |by: &By, other: By| match by {
        By::Itself => Ok(other),
        _ => Err("ranks are started one way, by --mpi or by --link, once".to_string()),
    };
    let number = |flag: &str, text: Option<String>| {
        let text = text.unwrap_or_default();
        let number = text.parse().ok().filter(|number| *number > 0);
        number.ok_or(format!("{flag} is `{text}`, must be a number, 1 or more"))
    };
    while let Some(flag) = arguments.next_if(|argument| argument.starts_with('-')) {
        match flag.as_str() {
            "--rounds" => rounds = number(&flag, arguments.next())?,
            "--mpi" => by = only(&by, By::Mpi(number(&flag, arguments.next())?))?,
            "--link" => {
                let rate = arguments.next().ok_or("--link needs a RATE")?;
                by = only(&by, By::Link(rate))?;
            }
            "--quick" => quick = true,
            "--links" => links = true,
            _ => return Err(format!("`hidden` does not know `{flag}`")),
        }
    }
    let what = match arguments.next() {
        Some(_) if quick || links => {
            return Err("--quick and --links are of all, not of one EXAMPLE".into());
        }
        Some(example) => What::One(by, example, arguments.collect()),
        None if by != By::Itself => return Err("--mpi and --link need an EXAMPLE".into()),
        None => What::All { quick, links },
    };
    Ok(Options { rounds, what })
}

/// Prints the table.
pub fn command(options: &Options) -> ExitCode {
    let rounds = options.rounds;
    let told = match &options.what {
        What::One(by, example, arguments) => one(rounds, by, example, arguments),
        What::All { quick, links: true } => over_wires(rounds, *quick),
        What::All { quick, .. } => all(rounds, *quick),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            out::error(fault);
            ExitCode::FAILURE
        }
    }
}

// ── One example ──────────────────────────────────────────────────────────────────────────────────

fn one(rounds: usize, by: &By, example: &str, arguments: &[String]) -> Result<(), String> {
    let build = ["--release", "--example", example].map(String::from);
    let program = match by {
        By::Mpi(_) => mpirun::build(&build)?,
        By::Itself | By::Link(_) => mpirun::build_plain(&build)?,
    };
    let wire = match by {
        By::Link(rate) => Some(Wire::new(rate)?),
        By::Itself | By::Mpi(_) => None,
    };
    let run = |variant: &str| match (by, &wire) {
        (_, Some(wire)) => run_over(wire, &program, arguments, variant),
        (By::Mpi(ranks), _) => run_of(&program, Some(*ranks), arguments, variant),
        _ => run_of(&program, None, arguments, variant),
    };
    let medians = in_turn(rounds, run)?;
    let title = format!("{example} {}", arguments.join(" "));
    out::text(&page(&title, rounds, medians));
    Ok(())
}

/// Medians of each variant.
fn in_turn(rounds: usize, run: impl Fn(&str) -> Result<Took, String>) -> Result<Medians, String> {
    let mut runs = [const { Vec::new() }; 3];
    for round in 0..=rounds {
        if !out::is_open() {
            return Err("nobody reads the table".into());
        }
        for place in 0..VARIANTS.len() {
            let place = (place + round) % VARIANTS.len();
            let took = run(VARIANTS[place])?;
            if round > 0 {
                runs[place].push(took);
            }
        }
    }
    let medians = |of: fn(&Took) -> f64| {
        let of_runs = |runs: &Vec<Took>| median(runs.iter().map(of).collect());
        [0, 1, 2].map(|place: usize| of_runs(&runs[place]))
    };
    let [base, graph, ideal] = medians(|took| took.seconds);
    let [_, busy, least] = medians(|took| took.processor);
    let processor = busy - least;
    Ok(Medians {
        base,
        graph,
        ideal,
        processor,
    })
}

/// What a run took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Took {
    seconds: f64,
    /// Of processors, seconds of a rank on average.
    processor: f64,
}

/// One run of a variant.
fn run_of(
    program: &Path,
    mpi: Option<usize>,
    arguments: &[String],
    variant: &str,
) -> Result<Took, String> {
    let mut run = match mpi {
        None => Command::new(program),
        Some(ranks) => {
            let (launcher, family) = mpirun::launcher()?;
            let mut run = mpirun::started_by(&launcher, family, ranks);
            run.arg(program);
            run
        }
    };
    run.args(arguments).args(["--variant", variant, "--json"]);
    let ended = smoke::run(&mut run, DEADLINE)?;
    told(&ended).map_err(|fault| format!("{}: {fault}", steps::shown(&run)))
}

/// The same between two hosts.
fn run_over(
    wire: &Wire,
    program: &Path,
    arguments: &[String],
    variant: &str,
) -> Result<Took, String> {
    let more = ["--variant", variant, "--json"].map(String::from);
    let ended = wire.run(program, &[arguments, &more].concat(), DEADLINE)?;
    told(&ended).map_err(|fault| format!("{} {variant}: {fault}", program.display()))
}

/// What a run tells that has ended well.
fn told(ended: &Ended) -> Result<Took, String> {
    let told = ended.exited_with(0).and_then(|()| ended.object());
    let told = told.map_err(|fault| format!("{fault}\n{}", ended.stderr))?;
    let number = |key: &str| {
        let number = told[key].as_f64();
        number.ok_or_else(|| format!("tells no {key}"))
    };
    Ok(Took {
        seconds: number("seconds")?,
        processor: number("cpu_seconds")? / number("ranks")?,
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// Seconds of the variants.
#[derive(Clone, Copy, Debug)]
struct Medians {
    base: f64,
    graph: f64,
    ideal: f64,
    /// How much more of its processor a rank takes in `graph` than in `ideal`.
    processor: f64,
}

impl Medians {
    /// The share of `base` that is communication.
    fn communication(self) -> f64 {
        (self.base - self.ideal) / self.base
    }

    /// The share of communication that is hidden; `None` of too little.
    fn hidden(self) -> Option<f64> {
        let hidden = (self.base - self.graph) / (self.base - self.ideal);
        (self.communication() >= ENOUGH).then_some(hidden)
    }
}

/// What it came to, for people.
fn page(title: &str, rounds: usize, medians: Medians) -> String {
    let mut page = format!("{title}, medians of {rounds} rounds\n");
    let Medians {
        base,
        graph,
        ideal,
        processor,
    } = medians;
    for (name, seconds) in VARIANTS.into_iter().zip([base, graph, ideal]) {
        page += &format!("{name:6} {seconds:10.6} s\n");
    }
    page += &format!(
        "communication {:.1} % of base",
        100.0 * medians.communication()
    );
    page += &match medians.hidden() {
        Some(hidden) => format!(", {:.1} % of it hidden\n", 100.0 * hidden),
        None => ", too little to say how much of it is hidden\n".to_string(),
    };
    page += &format!(
        "graph − ideal {:.6} s, of its processor a rank takes {processor:.6} s more\n",
        graph - ideal
    );
    page
}

// ── All ──────────────────────────────────────────────────────────────────────────────────────────

/// Prints the table: each application over each way to talk, beside what paper 003 says.
fn all(rounds: usize, quick: bool) -> Result<(), String> {
    let is_there = mpirun::launcher();
    let build = |application: &Application| {
        let build = ["--release", "--example", application.name].map(String::from);
        match &is_there {
            Ok(_) => mpirun::build(&build),
            Err(_) => mpirun::build_plain(&build),
        }
    };
    let programs = APPLICATIONS.iter().map(build);
    let programs: Vec<PathBuf> = programs.collect::<Result<_, _>>()?;
    say!("medians of {rounds} rounds, {RANKS} ranks of one thread\n");
    say!("{}", head("over"));
    for (application, program) in APPLICATIONS.iter().zip(&programs) {
        for (over, mpi) in [("local", None), ("tcp", None), ("mpi", Some(RANKS))] {
            if mpi.is_some() && is_there.is_err() {
                continue;
            }
            let arguments = application.arguments(quick, mpi.is_none().then_some(over));
            let run = |variant: &str| run_of(program, mpi, &arguments, variant);
            let medians = in_turn(rounds, run)?;
            let own = application.arguments(quick, None);
            say!("{}", row(application, over, &own, medians));
        }
    }
    if let Err(fault) = is_there {
        say!("\nnot over MPI: {fault}");
    }
    Ok(())
}

/// Prints the table over wires, one rate each.
fn over_wires(rounds: usize, quick: bool) -> Result<(), String> {
    let build = |application: &Application| {
        mpirun::build_plain(&["--release", "--example", application.name].map(String::from))
    };
    let programs = APPLICATIONS.iter().map(build);
    let programs: Vec<PathBuf> = programs.collect::<Result<_, _>>()?;
    say!("medians of {rounds} rounds, two hosts with a core each\n");
    say!("{}", head("wire"));
    for (application, program) in APPLICATIONS.iter().zip(&programs) {
        let (arguments, rate) = application.wire;
        let own = if quick { application.quick } else { arguments };
        let words = format!("{own} --threads 1");
        let words: Vec<String> = words.split_whitespace().map(String::from).collect();
        let wire = Wire::new(rate)?;
        let medians = in_turn(rounds, |variant| run_over(&wire, program, &words, variant))?;
        say!("{}", row(application, rate, &words, medians));
    }
    Ok(())
}

impl Application {
    /// The words of its command line; under a launcher without a transport.
    fn arguments(&self, quick: bool, transport: Option<&str>) -> Vec<String> {
        let own = if quick { self.quick } else { self.full };
        let ranks = transport.map(|over| format!("--ranks {RANKS} --transport {over}"));
        let words = format!("{own} --threads 1 {}", ranks.unwrap_or_default());
        words.split_whitespace().map(String::from).collect()
    }
}

fn head(way: &str) -> String {
    format!(
        "| problem | {way} | base, s | communication | hidden | graph − ideal, s | of processors, s | paper 003 |\n\
         |---|---|---|---|---|---|---|---|"
    )
}

fn row(application: &Application, over: &str, words: &[String], medians: Medians) -> String {
    let hidden = medians.hidden().map_or("too little".to_string(), |hidden| {
        format!("{:.1} %", 100.0 * hidden)
    });
    format!(
        "| {} {} | {over} | {:.6} | {:.1} % | {hidden} | {:.6} | {:.6} | {} |",
        application.name,
        words.join(" "),
        medians.base,
        100.0 * medians.communication(),
        medians.graph - medians.ideal,
        medians.processor,
        application.published
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn flags_of_the_command_stand_before_the_example_and_its_own_behind() {
        let options = parsed("--rounds 3 --mpi 2 nas_ft --class A --ranks 2").unwrap();
        let own = ["--class", "A", "--ranks", "2"].map(String::from);
        let nas_ft = What::One(By::Mpi(2), "nas_ft".into(), own.into());
        assert_eq!((options.rounds, options.what), (3, nas_ft));
        assert_eq!(parsed("jacobi3d").unwrap().rounds, ROUNDS);
        let wired = parsed("--link 300mbit jacobi3d").unwrap().what;
        let link = By::Link("300mbit".into());
        assert_eq!(wired, What::One(link, "jacobi3d".into(), vec![]));
        for (line, rounds, quick, links) in [
            ("", ROUNDS, false, false),
            ("--rounds 1 --quick", 1, true, false),
            ("--links", ROUNDS, false, true),
        ] {
            let what = What::All { quick, links };
            assert_eq!(parsed(line), Ok(Options { rounds, what }), "{line}");
        }
        for (line, at_fault) in [
            ("--mpi 2", "EXAMPLE"),
            ("--quick jacobi3d", "--quick"),
            ("--links jacobi3d", "--links"),
            ("--link 1gbit", "EXAMPLE"),
            ("--link", "RATE"),
            ("--rounds 0 jacobi3d", "`0`"),
            ("--mpi", "--mpi"),
            ("--mpi 2 --link 300mbit jacobi3d", "one way"),
            ("--link 300mbit --mpi 2 jacobi3d", "one way"),
            ("--fast jacobi3d", "`--fast`"),
        ] {
            let fault = parsed(line).expect_err(line);
            assert!(fault.contains(at_fault), "{line}: {fault}");
        }
    }

    #[test]
    fn shares_are_of_the_time_that_communication_takes() {
        let of = |base, graph, ideal| Medians {
            base,
            graph,
            ideal,
            processor: 0.05,
        };
        let told = page("jacobi3d --ranks 2", 5, of(2.0, 1.1, 1.0));
        assert!(
            told.contains("communication 50.0 % of base, 90.0 % of it hidden"),
            "{told}"
        );
        let more = "graph − ideal 0.100000 s, of its processor a rank takes 0.050000 s more";
        assert!(told.contains(more), "{told}");
        assert!(page("", 5, of(1.0, 0.95, 0.91)).contains("too little"));
        assert_eq!(
            of(1.0, 0.9, 0.89).hidden(),
            Some((1.0 - 0.9) / (1.0 - 0.89))
        );
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn under_a_launcher_ranks_are_not_asked_for_again() {
        let words = |transport| APPLICATIONS[0].arguments(true, transport).join(" ");
        assert!(words(Some("tcp")).ends_with("--threads 1 --ranks 2 --transport tcp"));
        assert!(words(None).ends_with("--threads 1"));
    }
}
