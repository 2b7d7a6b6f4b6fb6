//! Workers that sleep are woken by what other ranks send.

#[path = "../../dataflow-core/tests/specimen/mod.rs"]
mod specimen;

use dataflow_core::port::{Context, Inline};
use dataflow_core::{run, run_across};
use dataflow_numa::{Bind, Workers};
use specimen::ranks::on_ranks;
use specimen::{Cholesky, Specimen, within};

#[test]
fn ranks_of_sleeping_workers_factor_as_one_rank_does() {
    for (p, q, n_workers) in [(1, 2, 1), (2, 2, 2), (2, 3, 1), (1, 2, 3)] {
        let nt = 9;
        let alone = Cholesky::new(nt, (1, 1));
        run(&alone, &Inline).unwrap();
        let what = move || format!("{p} x {q} ranks of {n_workers} workers");
        let (ended, _) = within(what, || {
            on_ranks(p * q, (7, 2), |courier| {
                let workers = Workers::builder().n_workers(n_workers).bind(Bind::None);
                let workers = workers.build().unwrap();
                let space = Cholesky::new(nt, (p, q));
                run_across(&space, &Context::new(&workers).across(courier)).unwrap();
                space.outcome()
            })
        });
        let owner = Cholesky::new(nt, (p, q));
        let tiles = (0..nt).flat_map(|m| (0..=m).map(move |n| (m, n)));
        for (at, (m, n)) in tiles.enumerate() {
            let left = ended[owner.owner(m, n).0 as usize][at];
            assert_eq!(left, alone.outcome()[at], "tile ({m}, {n}) on {p} x {q}");
        }
    }
}
