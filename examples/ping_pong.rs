//! Latency and bandwidth between two ranks: through the runtime, and raw on the same transport.
//!
//! ```text
//! cargo run --release --example ping_pong -- --spin --svg ping_pong.svg
//! cargo run --release --example ping_pong -- --spin --transport tcp
//! cargo mpirun -n 2 --release --example ping_pong -- --spin
//! ```
//!
//! A ball of 8 B to 4 MiB goes to and fro between a task of rank 0 and one of rank 1: threads of this
//! process, two processes, or what a launcher has started. Raw is the send and receive of the same
//! transport, lent by the runtime between its runs, on the same threads and with two blocks a rank.
//! Both are played in turn, size by size and rally by rally; shown is the fastest rally, one way, as
//! NetPIPE does: whatever else the machine does makes rallies slower, never faster.
//!
//! Cost: two blocks of the largest size on each rank.

#[path = "ping_pong/plot.rs"]
mod plot;
#[path = "ping_pong/rally.rs"]
mod rally;
#[path = "ping_pong/row.rs"]
mod row;
#[path = "ping_pong/space.rs"]
#[allow(dead_code, reason = "calibrate holds the ball")]
mod space;

use common::cli::{self, Failure, Outcome, Settings};
use common::problem;
use dataflow::core::rank::Rank;
use dataflow::{Runtime, RuntimeBuilder};
use rally::Game;
use row::Row;
use std::path::PathBuf;

const EXAMPLE: cli::Example = cli::Example {
    name: "ping_pong",
    about: "Measures latency and bandwidth between two ranks",
    runs: false,
    honours: &["repeat"],
};

#[derive(clap::Args)]
#[command(mut_arg("repeat", |repeat| repeat.default_value("20").help(
    "Play so many rallies of each size and report the fastest"
)))]
struct Own {
    /// Receivers look again and again; without it the runtime's do so for 50 µs before they sleep,
    /// and raw ones sleep at once
    #[arg(long)]
    spin: bool,
    /// The smallest message, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 8, value_parser = clap::value_parser!(u64).range(8..=1 << 30))]
    smallest: u64,
    /// The largest message, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = clap::value_parser!(u64).range(8..=1 << 30))]
    largest: u64,
    /// Draw the table
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    cli::run_on(&EXAMPLE, prepare, run)
}

/// Two ranks, a worker each.
fn prepare(settings: &Settings<Own>, builder: RuntimeBuilder) -> Result<RuntimeBuilder, Failure> {
    if let Some(ranks) = settings.ranks.filter(|&ranks| ranks != 2) {
        let text = format!("--ranks {ranks}: ping_pong is played by 2");
        return Err(Failure::refused(text));
    }
    match builder.count_ranks()? {
        // One is what there is where nobody else has started any.
        1 | 2 => Ok(rally::table(builder, settings.own.spin)),
        ranks => {
            let text = format!("{ranks} ranks were started: ping_pong is played by 2");
            Err(Failure::refused(text))
        }
    }
}

fn run(settings: &Settings<Own>, runtime: &Runtime, outcome: &mut Outcome) -> Result<(), Failure> {
    let Own {
        smallest, largest, ..
    } = settings.own;
    let sizes: Vec<usize> = std::iter::successors(Some(smallest as usize), |bytes| Some(2 * bytes))
        .take_while(|&bytes| bytes as u64 <= largest)
        .collect();
    if sizes.is_empty() {
        let text = format!("--smallest {smallest} is more than --largest {largest}");
        return Err(Failure::refused(text));
    }
    if let Some(&bytes) = sizes.last() {
        // The ball, and room for it.
        problem::expect_room(&format!("--largest {largest}"), 2 * bytes as u128, runtime)?;
    }
    let game = Game {
        sizes,
        rallies: settings.repeat,
        spin: settings.own.spin,
    };
    let flights = game.play(runtime)?;
    if runtime.rank() != Rank(0) {
        return Ok(()); // whoever began has the clock
    }
    let sizes = game.sizes.iter().zip(&flights);
    let rows: Vec<Row> = sizes
        .map(|(&bytes, flights)| Row::of(bytes, flights))
        .collect();
    outcome.set("spin", settings.own.spin);
    outcome.set("rows", rows.iter().map(Row::json).collect::<Vec<_>>());
    outcome.say(Row::HEAD);
    rows.iter().for_each(|row| outcome.say(row.line()));
    if let Some(file) = &settings.own.svg {
        let drawn = plot::draw(&rows);
        let drawn = dataflow::trace::replace(file, |to| svg::write(to, &drawn));
        drawn.map_err(|error| Failure::output_unwritable(file, error))?;
    }
    Ok(())
}
