//! Machine: hosts, cores, what kernels and messages take there, and one factor from a published number.
//!
//! # Law
//! Rates of kernels are shares of the rate of a large product (GEMM peak), times a factor that is the
//! same for all kernels, sizes and numbers of hosts of a machine. Whatever a comparison shows beside
//! the number that the factor was taken from is the model's.

use super::world::Outcome;
use dataflow::mpi::transport::simulated::{Cluster, MessageCosts, Shared, Weather};
use dataflow::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A machine of `machines.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Where its numbers come from.
    pub about: Vec<String>,
    /// Of a host.
    pub cores: usize,
    /// 10⁹ operations a second of a core in a large product, all cores busy.
    pub gemm_gflops: f64,
    /// Rates of the kernels by class, as shares of that.
    shares: BTreeMap<String, f64>,
    /// What all rates are multiplied by.
    pub factor: f64,
    /// The published number that the factor was chosen for.
    pub calibrated: String,
    network: Way,
    memory: Way,
}

/// How messages travel: microseconds, and 10⁹ bytes a second.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Way {
    latency: f64,
    rate: f64,
    send: f64,
    receive: f64,
    gap: f64,
    copied: f64,
}

impl Way {
    fn costs(&self) -> MessageCosts {
        MessageCosts {
            send: micros(self.send),
            receive: micros(self.receive),
            gap: micros(self.gap),
            copied_bytes_per_second: self.copied * 1e9,
            ..MessageCosts::default()
        }
    }
}

fn micros(number: f64) -> Duration {
    Duration::from_secs_f64(number * 1e-6)
}

impl Machine {
    /// The machine of that name in `machines.json`.
    pub fn named(name: &str) -> Outcome<Machine> {
        let mut all: BTreeMap<String, Machine> =
            serde_json::from_str(include_str!("machines.json"))?;
        let machine = all.remove(name);
        Ok(machine.ok_or_else(|| format!("there is no machine {name} in machines.json"))?)
    }

    /// 10⁹ bytes a second in and out of a host.
    pub fn rate(&self) -> f64 {
        self.network.rate
    }

    /// The same with another network.
    pub fn with_rate(&self, rate: f64) -> Machine {
        let mut machine = self.clone();
        machine.network.rate = rate;
        machine
    }

    /// The network, with so many ranks on each host, one host after the other.
    pub fn weather(&self, n_ranks: usize, ranks_a_host: usize) -> Weather {
        let host = |rank: usize| (rank / ranks_a_host) as u32;
        let shared = Shared {
            latency: micros(self.memory.latency),
            bytes_per_second: self.memory.rate * 1e9,
            costs: self.memory.costs(),
        };
        Weather {
            latency: micros(self.network.latency),
            bytes_per_second: self.network.rate * 1e9,
            cluster: Cluster {
                hosts: match ranks_a_host {
                    1 => Vec::new(),
                    _ => (0..n_ranks).map(host).collect(),
                },
                costs: self.network.costs(),
                shared: (ranks_a_host > 1).then_some(shared),
            },
            ..Weather::default()
        }
    }

    /// Seconds of an operation in each class of a space on a core, by the number of the class; tasks of
    /// classes without a rate take no time.
    pub fn by_class(&self, space: &impl TaskSpace) -> Vec<f64> {
        let mut about = Description::default();
        space.describe(&mut about);
        let classes = about.classes().iter();
        classes.map(|class| self.seconds(&class.name)).collect()
    }

    /// Seconds of an operation of a class.
    pub fn seconds(&self, class: &str) -> f64 {
        let share = self.shares.get(class);
        share.map_or(0.0, |share| 1e-9 / (self.gemm_gflops * share * self.factor))
    }

    /// GEMM peak of so many cores, operations a second.
    pub fn peak(&self, cores: usize) -> f64 {
        self.gemm_gflops * 1e9 * cores as f64
    }
}
