//! Between runs nobody uses the processor. Alone in its process, for it looks at the process's time.

#![cfg(target_os = "linux")]

mod engine;
mod rest;

use dataflow_core::port::{Courier, Heap, Terms};
use dataflow_mpi::transport::local;
use dataflow_mpi::{Drive, Machine, Messenger, Settings};
use engine::{Graph, run_on};
use rest::processor_millis;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

#[test]
fn idle_messengers_use_no_processor() {
    for drive in [Drive::Dedicated, Drive::Workers] {
        let settings = Settings {
            drive,
            spin: Duration::from_micros(50),
            ..Settings::default()
        };
        let graph = Graph::random(1, 4, 100);
        let barrier = Barrier::new(5);
        thread::scope(|ranks| {
            for transport in local::connect(4) {
                let (settings, graph, barrier) = (settings.clone(), graph.clone(), &barrier);
                ranks.spawn(move || {
                    let host = Machine::new();
                    let messenger =
                        Messenger::new(Box::new(transport), settings, host.clone(), Arc::new(Heap))
                            .unwrap();
                    assert_eq!(messenger.n_ranks(), 4);
                    assert!(run_on(&graph, &messenger, &*host, &Terms::default()).is_good());
                    barrier.wait();
                    barrier.wait();
                });
            }
            barrier.wait();
            thread::sleep(Duration::from_millis(50)); // what is still under way arrives
            let used = processor_millis(Duration::from_secs(1));
            barrier.wait();
            // One who polls without a pause takes 1,000; a machine that is busy adds a little.
            assert!(
                used < 100,
                "{drive:?}: {used} ms of processor time in an idle second"
            );
        });
    }
}
