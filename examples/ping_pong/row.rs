//! A row of the table: one size of the ball.

use super::rally::Flight;
use serde_json::{Value, json};

/// One size: the fastest rally of each kind.
pub struct Row {
    pub bytes: usize,
    flight: Flight,
}

impl Row {
    pub const HEAD: &'static str =
        "     bytes    runtime µs        raw µs   runtime GB/s      raw GB/s   share";

    pub fn of(bytes: usize, flights: &[Flight]) -> Self {
        let fastest = |of: fn(&Flight) -> f64| flights.iter().map(of).fold(f64::MAX, f64::min);
        let flight = Flight {
            ours: fastest(|flight| flight.ours),
            raw: fastest(|flight| flight.raw),
        };
        Row { bytes, flight }
    }

    /// Seconds one way: ours, raw.
    pub fn latency(&self) -> [f64; 2] {
        [self.flight.ours, self.flight.raw]
    }

    /// Bytes a second: ours, raw.
    pub fn bandwidth(&self) -> [f64; 2] {
        self.latency().map(|seconds| self.bytes as f64 / seconds)
    }

    pub fn json(&self) -> Value {
        let ([ours, raw], [our_rate, raw_rate]) = (self.latency(), self.bandwidth());
        json!({
            "bytes": self.bytes,
            "latency_seconds": ours,
            "bytes_per_second": our_rate,
            "raw_latency_seconds": raw,
            "raw_bytes_per_second": raw_rate,
        })
    }

    pub fn line(&self) -> String {
        let ([ours, raw], [our_rate, raw_rate]) = (self.latency(), self.bandwidth());
        format!(
            "{:>10} {:>13.3} {:>13.3} {:>14.3} {:>13.3} {:>7.2}",
            self.bytes,
            ours * 1e6,
            raw * 1e6,
            our_rate * 1e-9,
            raw_rate * 1e-9,
            our_rate / raw_rate
        )
    }
}
