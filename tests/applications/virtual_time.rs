//! What graphs hide of their communication where only the network can keep them from it.

#[path = "../../benches/papers/machine.rs"]
#[allow(dead_code)]
mod machine;
#[path = "../../benches/papers/sphere.rs"]
#[allow(dead_code, reason = "the bench also plays the sequence")]
mod sphere;
#[path = "../../benches/papers/thyme.rs"]
#[allow(dead_code, reason = "the bench prints rows")]
mod thyme;
#[path = "../../benches/papers/wide.rs"]
#[allow(dead_code, reason = "the bench prints rows")]
mod wide;
#[path = "../../benches/overlap/world.rs"]
#[allow(dead_code, reason = "the bench plays other spaces on it")]
mod world;

use thyme::{Name, Row, row};

fn played(name: Name) -> Row {
    let row = row(&name.application(true).unwrap()).unwrap();
    let share = row.communication();
    assert!((0.36..=0.42).contains(&share), "{name:?}: {row:?}");
    row
}

#[test]
fn sweeps_hide_most_of_what_is_left_after_their_start() {
    let row = played(Name::Jacobi3d);
    assert!(row.hidden() > 0.8, "{row:?}");
}

#[test]
fn tiles_of_the_next_step_travel_while_this_one_is_multiplied() {
    let row = played(Name::Matmul);
    assert!(row.hidden() > 0.9, "{row:?}");
}

#[test]
fn waves_travel_while_blocks_inside_are_computed() {
    let row = played(Name::ShallowWater);
    assert!(row.hidden() > 0.8, "{row:?}");
}

#[test]
fn four_hosts_of_32_workers_do_nearly_what_they_could() {
    for row in wide::rows(true).unwrap() {
        assert!(row.share() > row.aim, "{}: {:.3}", row.title, row.share());
    }
}
