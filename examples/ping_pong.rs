//! Latency and bandwidth between two ranks: through the runtime, and raw on the same transport.
//!
//! ```text
//! cargo run --release --example ping_pong -- --spin --svg ping_pong.svg
//! ```
//!
//! A ball of 8 B to 4 MiB goes to and fro between a task of rank 0 and one of rank 1. Raw is the
//! transport's own send and receive, on the same threads and with the same buffers all the time.
//! Both are played in turn, size by size and rally by rally; shown is the fastest rally, one way, as
//! NetPIPE does: whatever else the machine does makes rallies slower, never faster.

mod cli;
#[path = "ping_pong/plot.rs"]
mod plot;
#[path = "ping_pong/rally.rs"]
mod rally;
#[path = "ping_pong/row.rs"]
mod row;
#[path = "ping_pong/space.rs"]
mod space;

use cli::{Failure, Outcome, Settings};
use dataflow::mpi::Drive;
use rally::Game;
use row::Row;
use std::path::PathBuf;

const EXAMPLE: cli::Example = cli::Example {
    name: "ping_pong",
    about: "Measures latency and bandwidth between two ranks",
    runs: false,
    honours: &["repeat", "drive"],
};

#[derive(clap::Args)]
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

/// Rallies of each size, unless `--repeat` says otherwise.
const RALLIES: usize = 20;

fn main() -> std::process::ExitCode {
    cli::run_alone(&EXAMPLE, run)
}

fn run(settings: &Settings<Own>, outcome: &mut Outcome) -> Result<(), Failure> {
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
    let game = Game {
        sizes,
        rallies: match settings.repeat {
            1 => RALLIES,
            rallies => rallies,
        },
        spin: settings.own.spin,
        drive: match settings.drive {
            Some(cli::settings::Drive::Dedicated) => Drive::Dedicated,
            _ => Drive::Workers,
        },
    };
    let flights = game.play()?;
    let sizes = game.sizes.iter().zip(&flights);
    let rows: Vec<Row> = sizes
        .map(|(&bytes, flights)| Row::of(bytes, flights))
        .collect();
    outcome.set("ranks", 2);
    outcome.set("spin", settings.own.spin);
    outcome.set("rows", rows.iter().map(Row::json).collect::<Vec<_>>());
    outcome.say(Row::HEAD);
    rows.iter().for_each(|row| outcome.say(row.line()));
    if let Some(file) = &settings.own.svg {
        let drawn = svg::save(file, &plot::draw(&rows));
        let refused = |error| format!("{} cannot be written: {error}", file.display());
        drawn.map_err(|error| Failure::new("not_written", refused(error)))?;
    }
    Ok(())
}
