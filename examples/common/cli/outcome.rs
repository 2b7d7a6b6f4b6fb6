//! Outcome: what an example has to tell, as one JSON object or as text for people.
//!
//! An example fills in what it knows as it goes, so that a failed run still says how far it came.

use super::measure::Measured;
use super::process;
use super::settings::Variant;
use super::{Example, Failure, Flags};
use dataflow::core::rank::Rank;
use dataflow::core::words::counted;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// What makes up the bytes of messages.
const BYTES: [&str; 2] = ["inline_bytes", "fetched_bytes"];

/// What an example has to tell. `None` is what does not apply, or is not known yet.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Order or length of the problem.
    pub n: Option<usize>,
    /// Its other extent.
    pub m: Option<usize>,
    /// Order of a tile.
    pub nb: Option<usize>,
    /// Rows and columns of the grid of ranks.
    pub grid: Option<String>,
    /// Worker threads of each rank.
    pub threads: Option<usize>,
    /// Type of the numbers.
    pub precision: Option<String>,
    /// Library of the kernels.
    pub backend: Option<String>,
    /// Seed of the generated data.
    pub seed: Option<u64>,
    /// The timed graph; of several runs the median.
    pub measured: Option<Measured>,
    /// Useful floating-point operations of one run.
    pub flops: Option<f64>,
    /// Scaled residual.
    pub residual: Option<f64>,
    /// 16 hexadecimal digits over the bits of the result.
    pub digest: Option<String>,
    own: Map<String, Value>,
    text: String,
    /// The rank in whose place it is told: only rank 0 prints.
    pub(super) teller: Rank,
    pub(super) ranks: usize,
    pub(super) policy: String,
}

impl Outcome {
    pub(super) fn new(flags: &Flags) -> Self {
        Outcome {
            teller: flags.own_rank(),
            threads: flags.threads,
            ranks: flags.ranks.unwrap_or(1),
            policy: flags.policy.to_string(),
            ..Outcome::default()
        }
    }

    /// Sets a key of the example's own.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.own.insert(key.to_string(), value.into());
    }

    /// Adds a line to what people read; not part of the JSON object.
    pub fn say(&mut self, line: impl AsRef<str>) {
        self.text += line.as_ref();
        self.text.push('\n');
    }

    /// Tells how fast the measured run did so much `work`, in a unit of the example's own.
    pub fn rate(&mut self, key: &str, unit: &str, work: f64) {
        if self.measured.is_none() {
            return;
        }
        let rate = self.seconds().map(|seconds| work / seconds);
        self.set(key, rate);
        if let Some(rate) = rate {
            self.say(format!("{rate:.1} {unit}"));
        }
    }

    /// Tells how far the result is from what it must be, and whether that is near enough; `None`
    /// where nobody knows what it must be. What `ideal` computes is told but not judged.
    ///
    /// # Errors
    /// If it is too far, or not a number.
    pub fn verify(
        &mut self,
        variant: Variant,
        error: Option<f64>,
        allowed: f64,
    ) -> Result<(), Failure> {
        let judged = error.filter(|_| variant != Variant::Ideal);
        let verified = judged.map(|error| error <= allowed);
        self.set("variant", variant.to_string());
        self.set("verified", verified);
        self.set("verification_error", error);
        let told = error.map_or("not known".to_string(), |error| format!("{error:.2e}"));
        let verdict = match verified {
            Some(true) => "verified",
            Some(false) => "wrong",
            None => "not verified",
        };
        let text = format!("{verdict}: the error is {told} (at most {allowed:.2e} is allowed)");
        self.say(&text);
        match verified {
            Some(false) => Err(Failure::wrong_result(format!("the result is {text}"))),
            _ => Ok(()),
        }
    }

    /// Useful floating-point operations per second, in units of 10⁹.
    pub fn gflops(&self) -> Option<f64> {
        let seconds = self.seconds()?;
        self.flops.map(|flops| flops / seconds * 1e-9)
    }

    /// What the measured run took: of one without length, as in virtual time, there is no rate.
    fn seconds(&self) -> Option<f64> {
        let seconds = self.measured.as_ref()?.seconds;
        (seconds > 0.0).then_some(seconds)
    }

    /// The object of the contract: its keys in their order, the example's own behind them.
    pub(super) fn object(&self, example: &Example, failure: Option<&Failure>) -> Value {
        let ran = self.measured.as_ref();
        let sent = |names: &[&str]| ran.map(|ran| ran.sent(names));
        let mut object = json!({
            "example": example.name,
            "n": self.n,
            "m": self.m,
            "nb": self.nb,
            "grid": self.grid,
            "ranks": self.ranks,
            "threads": self.threads,
            "precision": self.precision,
            "backend": self.backend,
            "policy": self.policy,
            "seed": self.seed,
            "tasks": ran.map(|ran| ran.tasks),
            "seconds": ran.map(|ran| ran.seconds),
            "cpu_seconds": ran.map(|ran| ran.cpu_seconds),
            "gflops": self.gflops(),
            "residual": self.residual,
            "digest": self.digest,
            "messages": sent(&["messages"]),
            "bytes": sent(&BYTES),
            "activations": sent(&["activations"]),
            "packets": sent(&["packets"]),
            "control_bytes": sent(&["control_bytes"]),
            "steals": ran.map(|ran| ran.steals),
            "copies": ran.map(|ran| ran.copies),
            "max_rss_bytes": process::max_rss_bytes().max(ran.map_or(0, |ran| ran.max_rss_bytes)),
            "per_rank": ran.map(|ran| ran.sent.clone()),
            "per_worker": ran.map(|ran| ran.workers.clone()),
            "local_share": ran.and_then(Measured::local_share),
        });
        if let Some(object) = object.as_object_mut() {
            object.extend(self.own.clone());
            if let Some(failure) = failure {
                object.insert("error".into(), failure.object());
            }
        }
        object
    }

    /// The same for people.
    pub(super) fn page(&self, example: &Example) -> String {
        let mut page = format!("{}{}\n", example.name, self.extents());
        if let Some(ran) = &self.measured {
            page += &costs(ran);
            if self.ranks > 1 {
                page += &traffic(ran);
            }
        }
        if let Some(gflops) = self.gflops() {
            page += &format!("{gflops:.1} GFLOP/s\n");
        }
        if let Some(residual) = self.residual {
            page += &format!("residual {residual:.3}\n");
        }
        if let Some(digest) = &self.digest {
            page += &format!("digest {digest}\n");
        }
        page + &self.text
    }

    /// What was computed, and with what, as far as it is known.
    fn extents(&self) -> String {
        let mut extents = String::new();
        let mut extent = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                // Writing to a string does not fail.
                let _ = write!(extents, "  {name} = {value}");
            }
        };
        extent("n", self.n.map(|n| n.to_string()));
        extent("m", self.m.map(|m| m.to_string()));
        extent("nb", self.nb.map(|nb| nb.to_string()));
        extent("precision", self.precision.clone());
        extent("backend", self.backend.clone());
        if self.ranks > 1 {
            extent("ranks", Some(self.ranks.to_string()));
            extent("grid", self.grid.clone());
        }
        extent("threads", self.threads.map(|threads| threads.to_string()));
        extents
    }
}

/// What a run cost, for people.
fn costs(ran: &Measured) -> String {
    let Measured {
        tasks,
        seconds,
        cpu_seconds,
        steals,
        copies,
        ..
    } = ran;
    let (tasks, data) = (
        counted(*tasks, "task"),
        if *copies == 1 { "datum" } else { "data" },
    );
    let costs = format!(
        "{tasks} in {seconds:.6} s ({cpu_seconds:.6} s of processor time), {steals} stolen, {copies} {data} copied\n"
    );
    match ran.local_share() {
        Some(share) => costs + &format!("{:.1} % of the bytes read were local\n", 100.0 * share),
        None => costs,
    }
}

/// What travelled between ranks, for people.
fn traffic(ran: &Measured) -> String {
    let sent = |name: &str| ran.sent(&[name]);
    let (activations, packets) = (sent("activations"), sent("packets"));
    let per_packet = activations as f64 / packets.max(1) as f64;
    format!(
        "{} of {}; {}, {per_packet:.1} in each of {}; {} of control\n",
        counted(sent("messages"), "message"),
        counted(ran.sent(&BYTES), "byte"),
        counted(activations, "activation"),
        counted(packets, "packet"),
        counted(sent("control_bytes"), "byte"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result that nothing can judge, of which a check was asked, had the same word.
    #[test]
    fn a_result_that_is_too_far_from_what_it_must_be_is_a_wrong_result() {
        let kind = |error| {
            let verified = Outcome::default().verify(Variant::Base, error, 1.0);
            verified.err().map(|failure| failure.kind)
        };
        let wrong = Some("wrong_result".to_string());
        assert_eq!(
            [Some(2.0), Some(f64::NAN)].map(kind),
            [wrong.clone(), wrong]
        );
        assert_eq!([Some(0.5), None].map(kind), [None, None]);
    }
}
