//! The example `ping_pong`: its space, its rallies, its table and its picture.

#[path = "../examples/ping_pong/plot.rs"]
mod plot;
#[path = "../examples/ping_pong/rally.rs"]
mod rally;
#[path = "../examples/ping_pong/row.rs"]
mod row;
#[path = "../examples/ping_pong/space.rs"]
#[allow(dead_code, reason = "calibrate holds the ball")]
mod space;

use dataflow::core::port::{Heap, Memory};
use dataflow::mpi::Drive;
use dataflow::prelude::*;
use rally::{Flight, Game};
use row::Row;
use space::{Ball, PingPong};

#[test]
fn both_ends_of_every_edge_agree() {
    for rounds in 0..5 {
        let ball = Ball(Heap.allocate(8));
        verify(&PingPong::new(rounds, Some(ball)), 2).unwrap();
    }
}

#[test]
fn balls_of_every_size_come_home_however_messages_are_moved() {
    for (drive, spin) in [
        (Drive::Workers, true),
        (Drive::Workers, false),
        (Drive::Dedicated, false),
    ] {
        // The largest that goes along with its activation, one that does not, and a large one.
        let game = Game {
            sizes: vec![4096, 5000, 1 << 20],
            rallies: 1,
            spin,
        };
        let ranks = rally::table(Runtime::builder().drive(drive), spin);
        let flights = launch(ranks, |runtime| game.play(runtime)).unwrap();
        assert_eq!(flights.len(), 3);
        let all: Vec<&Flight> = flights.iter().flatten().collect();
        assert_eq!(all.len(), 3, "one of each size");
        assert!(
            all.iter()
                .all(|flight| flight.ours > 0.0 && flight.raw > 0.0)
        );
    }
}

#[test]
fn a_row_tells_the_fastest_rally_and_the_picture_has_a_curve_for_each_contestant() {
    let flight = |ours, raw| Flight { ours, raw };
    let rows = [
        Row::of(8, &[flight(4e-6, 1e-6), flight(2e-6, 3e-6)]),
        Row::of(1 << 20, &[flight(1e-4, 5e-5)]),
    ];
    let expected = serde_json::json!({
        "bytes": 8,
        "latency_seconds": 2e-6,
        "bytes_per_second": 8.0 / 2e-6,
        "raw_latency_seconds": 1e-6,
        "raw_bytes_per_second": 8.0 / 1e-6,
    });
    assert_eq!(rows[0].json(), expected);
    let width = |line: &str| line.chars().count();
    assert_eq!(width(Row::HEAD), width(&rows[1].line()));
    let picture = plot::draw(&rows).to_string();
    assert_eq!(picture.matches("<polyline").count(), 4);
    assert_eq!(picture.matches("<circle").count(), 8);
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
}
