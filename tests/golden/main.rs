//! Golden traces: a run in virtual time, in every format, exact to the byte.
//!
//! Four ranks factor a matrix of four by four tiles; the network takes 5 µs and carries 1 GB/s. What
//! each format makes of it lies beside this file. `GOLDEN=write cargo test --test golden` writes that
//! anew: for a change that is meant, after a look at the picture.

#[path = "../../benches/overlap/spaces.rs"]
#[allow(dead_code, reason = "the stencil is for the bench")]
mod spaces;
#[path = "../../benches/overlap/world.rs"]
mod world;

use dataflow::trace::{Clock, Format, Trace, Tracer, write_to};
use dataflow_core::port::{Context, Heap, Memory};
use dataflow_core::run_across;
use dataflow_mpi::Settings;
use dataflow_mpi::transport::simulated::{VirtualWorkers, Weather};
use spaces::{Cholesky, N_RANKS};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// What all ranks recorded, two workers each.
fn trace() -> Trace {
    let weather = Weather {
        bytes_per_second: 1e9,
        ..Weather::default()
    };
    let heap = |_| -> Arc<dyn Memory> { Arc::new(Heap) };
    let settings = Settings::default();
    let parts = world::on_ranks(weather, N_RANKS, &settings, heap, |world, messenger| {
        let rank = dataflow_core::port::Courier::rank(messenger);
        let clock = world.clone();
        let clock = Clock::given(move || clock.now().as_nanos() as u64);
        let tracer = Tracer::with_clock(1 << 22, clock);
        let workers = VirtualWorkers::new(world, rank, 2);
        let on = Context::new(&workers).traced_by(&tracer).across(messenger);
        run_across(&Cholesky::new(4, rank).unwrap(), &on).unwrap();
        tracer.take().remove(0)
    });
    let mut parts = parts.unwrap().into_iter();
    let first = parts.next().unwrap();
    let others: Vec<Vec<u8>> = parts.map(|part| part.to_bytes()).collect();
    first.joined(others.iter().map(Vec::as_slice)).unwrap()
}

#[test]
fn every_format_of_a_run_in_virtual_time_is_this_file_to_the_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let trace = trace();
    let extensions = ["pftrace", "prv", "paje", "json", "dot", "svg", "html"];
    let writes = std::env::var("GOLDEN").is_ok_and(|value| value == "write");
    for name in extensions.map(|extension| format!("cholesky.{extension}")) {
        let (path, format) = (folder.join(&name), Format::of(Path::new(&name)).unwrap());
        let mut written = Vec::new();
        write_to(&trace, format, &mut written).unwrap();
        if writes {
            fs::write(&path, &written).unwrap();
        }
        let golden = fs::read(&path).unwrap_or_default();
        let same = golden.iter().zip(&written).take_while(|(a, b)| a == b);
        let same = same.count();
        assert!(
            golden == written,
            "{name}: of {} and {} bytes the first {same} are the same (`GOLDEN=write` writes it anew)",
            golden.len(),
            written.len()
        );
    }
    // And what it says: the network is why workers wait.
    let told = trace.explanation();
    assert_eq!(
        (told.n_tasks, told.missing, told.backwards),
        (20, 0, (0, 0))
    );
    assert_eq!(trace.messages().len(), 12);
}
