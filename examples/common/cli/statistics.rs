//! Statistics: what each worker did, as the JSON objects show it.

use dataflow::numa::WorkerStatistics;
use serde::Serialize;
use serde_json::{Value, json};

/// One worker.
#[derive(Serialize)]
struct PerWorker {
    worker: usize,
    numa_node: usize,
    tasks: u64,
    sleeps: u64,
    steals: u64,
    /// Counted on machines of several NUMA nodes, of data whose place is known.
    local_bytes: Option<u64>,
    remote_bytes: Option<u64>,
    /// From where anything came at all.
    from: Vec<From>,
}

/// What came to a worker from one NUMA node.
#[derive(Serialize)]
struct From {
    numa_node: usize,
    distance: u32,
    steals: u64,
    bytes: u64,
}

/// The elements of the array `per_worker`, by index of the worker.
pub fn per_worker(workers: &[WorkerStatistics]) -> Vec<Value> {
    let knows_places = workers.iter().any(|worker| {
        let mut from = worker.traffic.iter();
        from.any(|traffic| traffic.bytes > 0)
    });
    let workers = workers.iter().map(|worker| {
        let total = worker.total();
        let traffic = worker.traffic.iter();
        let from = traffic
            .filter(|traffic| traffic.steals > 0 || traffic.bytes > 0)
            .map(|traffic| From {
                numa_node: traffic.from,
                distance: traffic.distance,
                steals: traffic.steals,
                bytes: traffic.bytes,
            });
        json!(PerWorker {
            worker: worker.worker,
            numa_node: worker.numa_node,
            tasks: worker.tasks,
            sleeps: worker.sleeps,
            steals: total.steals,
            local_bytes: knows_places.then_some(total.local_bytes),
            remote_bytes: knows_places.then_some(total.remote_bytes),
            from: from.collect(),
        })
    });
    workers.collect()
}
