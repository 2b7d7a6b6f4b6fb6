//! The machines of the papers: their curves beside simulated ones, and machines larger than theirs.
//!
//! ```console
//! $ cargo bench --bench papers -- 000               # Figures 8, 10 and 11 of paper 000, minutes
//! $ cargo bench --bench papers -- 003 nas_ft        # what a graph hides of its communication
//! $ cargo bench --bench papers -- lookahead         # held tiles and time with and without a bound
//! $ cargo bench --bench papers -- --help
//! ```
//!
//! The real engine and protocol run in virtual time on machines of `papers/machines.json`: one thread
//! here, so the tables are the same on every machine, however busy it is. Rates of kernels are inputs
//! and each machine has one factor that was chosen for one published number; the output says which.
//!
//! # Elsewhere
//! Numbers and what could not be reproduced: `benches/SIMULATED.md`. The rest: a file each for a paper
//! under `benches/papers/`; a question and its answer in `run.rs`; machines in `machine.rs`.

#[path = "papers/dague.rs"]
mod dague;
#[path = "papers/ductteip.rs"]
mod ductteip;
#[path = "papers/figure.rs"]
mod figure;
#[path = "papers/freddo.rs"]
mod freddo;
#[path = "overlap/held.rs"]
#[allow(dead_code, reason = "tests also look in between")]
mod held;
#[path = "papers/lookahead.rs"]
mod lookahead;
#[path = "papers/machine.rs"]
mod machine;
#[path = "papers/ompss.rs"]
mod ompss;
#[path = "papers/plot.rs"]
mod plot;
#[path = "papers/protocol.rs"]
mod protocol;
#[path = "papers/run.rs"]
mod run;
#[path = "overlap/spaces.rs"]
#[allow(dead_code, reason = "the bench overlap runs another space, too")]
mod spaces;
#[path = "papers/sphere.rs"]
mod sphere;
#[path = "papers/thyme.rs"]
mod thyme;
#[path = "papers/wide.rs"]
mod wide;
#[path = "overlap/world.rs"]
mod world;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use figure::Figure;
use machine::Machine;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use world::Outcome;

/// The machines of the papers, simulated.
#[derive(Parser)]
struct Arguments {
    /// Nothing is simulated without: a bare `cargo bench` passes by
    #[command(subcommand)]
    what: Option<What>,
    /// What cargo passes
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

/// How figures are shown.
#[derive(Args)]
struct Figures {
    #[command(flatten)]
    rows: Rows,
    /// A folder for pictures
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// How rows are shown.
#[derive(Args)]
struct Rows {
    /// Every third point only, or a smaller size
    #[arg(long)]
    quick: bool,
    /// JSON objects, one a line, instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Paper 000: Cholesky on Griffon
    #[command(name = "000")]
    Dague {
        /// Also a program of a rank a core that knows no tasks
        #[arg(long)]
        flat: bool,
        /// [default: all]
        #[arg(value_parser = DAGUE.map(|(name, _)| name))]
        figures: Vec<String>,
        #[command(flatten)]
        shown: Figures,
    },
    /// Paper 001: Cholesky on Tintin, ranks as hosts or as cores; shallow water on Rackham
    #[command(name = "001")]
    Ductteip {
        /// Also a program of a rank a core that knows no tasks
        #[arg(long)]
        flat: bool,
        /// [default: all]
        #[arg(value_parser = ["12", "13", "table4", "table5"])]
        figures: Vec<String>,
        #[command(flatten)]
        shown: Figures,
    },
    /// Paper 002: policies on NUMA machines
    #[command(name = "002")]
    Ompss {
        /// [default: all]
        #[arg(value_parser = PossibleValuesParser::new(ompss::figure_names()))]
        figures: Vec<String>,
        #[command(flatten)]
        shown: Figures,
    },
    /// Paper 003: what graphs hide of their communication
    #[command(name = "003")]
    Thyme {
        /// [default: all]
        applications: Vec<thyme::Name>,
        #[command(flatten)]
        shown: Rows,
    },
    /// Paper 004: speed-ups on CyTera
    #[command(name = "004")]
    Freddo {
        /// Another order than 61,440, whose 1.7 · 10⁷ tasks take minutes a point
        #[arg(long)]
        n: Option<usize>,
        #[command(flatten)]
        shown: Figures,
    },
    /// Applications on four hosts of 32 workers, beside what these could do
    Wide {
        #[command(flatten)]
        shown: Rows,
    },
    /// One factorisation on a machine of very many ranks
    Large {
        #[arg(long, default_value_t = 200_000)]
        n: usize,
        #[arg(long, default_value_t = 1000)]
        nb: usize,
        /// Ranks a side
        #[arg(long, default_value_t = 100)]
        side: u32,
        /// Workers of a rank
        #[arg(long, default_value_t = 32)]
        workers: usize,
        /// How far panels run ahead; without a bound by default
        #[arg(long)]
        lookahead: Option<u32>,
    },
    /// Opening, telling many and closing, with very many ranks of a worker each
    Protocol {
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
        ranks: u32,
        /// How many ranks a datum of rank 0 goes to
        #[arg(long, default_value_t = 630, value_parser = clap::value_parser!(u32).range(1..))]
        told: u32,
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        steps: u32,
    },
    /// Held tiles and time on Griffon with panels that run ahead by so many columns
    Lookahead {
        /// Tiles of order 340 a side
        #[arg(long, default_value_t = 160)]
        nt: usize,
    },
}

type Draw = fn(&Machine, dague::Wanted) -> Outcome<Figure>;

/// The figures of paper 000.
const DAGUE: [(&str, Draw); 4] = [
    ("8", dague::problem_scaling),
    ("10", dague::weak_scaling),
    ("11a", dague::strong_hosts),
    ("11b", dague::strong_cores),
];

fn main() -> ExitCode {
    let Some(what) = Arguments::parse().what else {
        println!("simulated machines take minutes each: name one, see --help");
        return ExitCode::SUCCESS;
    };
    match what.answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

impl What {
    fn answer(&self) -> Outcome {
        match self {
            What::Dague {
                flat,
                figures,
                shown,
            } => shown.dague(*flat, figures),
            What::Ductteip {
                flat,
                figures,
                shown,
            } => shown.ductteip(*flat, figures),
            What::Ompss { figures, shown } => shown.ompss(figures),
            What::Thyme {
                applications,
                shown,
            } => shown.thyme(applications),
            What::Freddo { n, shown } => {
                let machine = Machine::named("cytera")?;
                shown.rows.introduce(&machine);
                shown.show(|| freddo::speedups(&machine, *n, shown.rows.quick))
            }
            What::Wide { shown } => shown.wide(),
            What::Lookahead { nt } => held_tiles(*nt),
            &What::Large {
                n,
                nb,
                side,
                workers,
                lookahead,
            } => one_of_many_ranks(&run::Question {
                grid: (side, side),
                workers,
                lookahead,
                ..run::Question::hybrid(&Machine::named("large")?, n, nb, 1)?
            }),
            &What::Protocol { ranks, told, steps } => opened_and_closed(protocol::Question {
                n_ranks: ranks,
                told: told.min(ranks),
                steps,
            }),
        }
    }
}

impl Figures {
    fn dague(&self, flat: bool, figures: &[String]) -> Outcome {
        let machine = Machine::named("griffon")?;
        self.rows.introduce(&machine);
        let wanted = dague::Wanted {
            quick: self.rows.quick,
            flat,
        };
        for (name, draw) in DAGUE {
            if figures.is_empty() || figures.iter().any(|figure| figure == name) {
                self.show(|| draw(&machine, wanted))?;
            }
        }
        Ok(())
    }

    fn ductteip(&self, flat: bool, figures: &[String]) -> Outcome {
        let is_wanted =
            |name: &str| figures.is_empty() || figures.iter().any(|figure| figure == name);
        let is_none_wanted = |of: &[&str]| !of.iter().any(|name| is_wanted(name));
        if is_none_wanted(&["12", "13"]) {
            refuse(flat, "--flat");
        }
        if is_none_wanted(&["12", "13", "table4"]) {
            refuse(self.rows.quick, "--quick");
            refuse(self.svg.is_some(), "--svg");
        }
        let tintin = Machine::named("tintin")?;
        if is_wanted("12") || is_wanted("13") {
            self.rows.introduce(&tintin);
        }
        if is_wanted("12") {
            self.show(|| ductteip::strong(&tintin, self.rows.quick, flat))?;
        }
        if is_wanted("13") {
            self.show(|| ductteip::weak(&tintin, self.rows.quick, flat))?;
        }
        if is_wanted("table4") {
            let rackham = Machine::named("rackham_gcc")?;
            self.rows.introduce(&rackham);
            self.show(|| ductteip::shallow_water(&rackham, self.rows.quick))?;
        }
        if is_wanted("table5") {
            self.rows.table5()?;
        }
        Ok(())
    }

    fn ompss(&self, figures: &[String]) -> Outcome {
        for system in &ompss::SYSTEMS {
            for is_inverse in [false, true] {
                let name = system.figure_name(is_inverse);
                if !figures.is_empty() && figures.iter().all(|figure| figure != name) {
                    continue;
                }
                if !self.rows.json {
                    println!(
                        "Rates of kernels are multiplied by {}, chosen for the published level.",
                        system.factor
                    );
                }
                self.show(|| system.figure(is_inverse, self.rows.quick))?;
            }
        }
        Ok(())
    }

    fn show(&self, draw: impl FnOnce() -> Outcome<Figure>) -> Outcome {
        let start = Instant::now();
        let figure = draw()?;
        match self.rows.json {
            true => println!("{}", figure.json()),
            false => {
                figure.print();
                println!("\n({:.0} s of real time)", start.elapsed().as_secs_f64());
            }
        }
        match &self.svg {
            Some(folder) => plot::save(&figure, folder),
            None => Ok(()),
        }
    }
}

impl Rows {
    fn table5(&self) -> Outcome {
        let rackham = Machine::named("rackham")?;
        self.introduce(&rackham);
        if !self.json {
            println!("\n| Table 5 | messages | most of a rank | seconds |");
            println!("|---|---|---|---|");
        }
        for column in ductteip::hybrid_and_flat(&rackham)? {
            match self.json {
                true => println!("{}", column.json()),
                false => println!("{}", column.cells()),
            }
        }
        Ok(())
    }

    fn thyme(&self, applications: &[thyme::Name]) -> Outcome {
        self.introduce(&Machine::named("thyme")?);
        if !self.json {
            println!(
                "\n| 16 hosts of 4 workers | GB/s | base, ms | graph, ms | ideal, ms | communication | hidden | paper 003 |"
            );
            println!("|---|---|---|---|---|---|---|---|");
        }
        let names = match applications {
            [] => thyme::Name::value_variants(),
            some => some,
        };
        for name in names {
            let application = name.application(self.quick)?;
            let row = thyme::row(&application)?;
            match self.json {
                true => println!("{}", row.json(&application.title(), name.published())),
                false => println!("{}", row.cells(&application.title(), name.published())),
            }
        }
        Ok(())
    }

    fn wide(&self) -> Outcome {
        if !self.json {
            println!("\n| 4 hosts of 32 workers | ms | ideal, ms | share | aim |");
            println!("|---|---|---|---|---|");
        }
        for row in wide::rows(self.quick)? {
            match self.json {
                true => println!("{}", row.json()),
                false => println!("{}", row.cells()),
            }
        }
        Ok(())
    }

    /// Says of a machine what it is and what was calibrated; not among JSON.
    fn introduce(&self, machine: &Machine) {
        if !self.json {
            introduce(machine);
        }
    }
}

/// Ends with status 2 if a flag is given that none of the figures has a use for.
fn refuse(is_given: bool, flag: &str) {
    if is_given {
        let fault = format!("the figures that are named have no use for {flag}");
        let mut command = Arguments::command();
        command.error(ErrorKind::ArgumentConflict, fault).exit();
    }
}

/// Says of a machine what it is and what was calibrated.
fn introduce(machine: &Machine) {
    machine.about.iter().for_each(|line| println!("{line}"));
    println!(
        "All rates of kernels are multiplied by {}, chosen for: {}.",
        machine.factor, machine.calibrated
    );
}

/// `large`.
fn one_of_many_ranks(question: &run::Question) -> Outcome {
    let answer = question.simulate()?;
    let run::Answer {
        seconds,
        tasks,
        counters,
        cost,
        ..
    } = answer;
    println!(
        "N = {}, nb = {}, {} × {} ranks × {} workers: {tasks} tasks, {} messages, {} packets",
        question.n,
        question.nb,
        question.grid.0,
        question.grid.1,
        question.workers,
        counters.messages,
        counters.packets,
    );
    println!(
        "virtual: {seconds:.3} s, {:.3} of GEMM peak ({:.1} TFLOP/s)",
        answer.rate() / question.machine.peak(question.cores()),
        answer.rate() * 1e-12,
    );
    println!(
        "here: {:.1} s, {:.0} tasks a second, {:.0} events a second, {:.2} GB",
        cost.seconds,
        tasks as f64 / cost.seconds,
        answer.events() as f64 / cost.seconds,
        cost.bytes as f64 * 1e-9,
    );
    Ok(())
}

/// `protocol`.
fn opened_and_closed(question: protocol::Question) -> Outcome {
    let answer = question.simulate(&Machine::named("large")?)?;
    println!(
        "{} ranks, {} told a tile of 8 MB, {} steps:",
        question.n_ranks, question.told, question.steps
    );
    let told = answer.told.saturating_sub(answer.made);
    let closing = answer.closed - answer.computed;
    let opened = answer
        .opened
        .map_or("–".into(), |after| format!("{after:?}"));
    println!(
        "virtual: opened after {opened}, told within {told:?}, computed after {:?}, closed within {closing:?}",
        answer.computed,
    );
    let protocol::Answer {
        counters,
        cost,
        tasks,
        ..
    } = answer;
    println!(
        "{tasks} tasks, {} messages, {} packets; here: {:.1} s, {:.1} KiB a rank",
        counters.messages,
        counters.packets,
        cost.seconds,
        cost.bytes as f64 / 1024.0 / f64::from(question.n_ranks),
    );
    Ok(())
}

/// `lookahead`.
fn held_tiles(nt: usize) -> Outcome {
    let machine = Machine::named("griffon")?;
    introduce(&machine);
    let rows = lookahead::compare(&machine, (nt, 340), 81)?;
    println!(
        "\n| columns ahead | MB held by the fullest rank | of no bound | seconds | of no bound |"
    );
    println!("|---|---|---|---|---|");
    let Some(unbounded) = rows.first() else {
        return Ok(());
    };
    for row in &rows {
        let columns = row
            .columns
            .map_or("no bound".into(), |columns| columns.to_string());
        println!(
            "| {columns} | {:.0} | {:.2} | {:.3} | {:.3} |",
            row.held as f64 * 1e-6,
            row.held as f64 / unbounded.held as f64,
            row.seconds,
            row.seconds / unbounded.seconds,
        );
    }
    Ok(())
}
