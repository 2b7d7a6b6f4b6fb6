//! Small problems stay on the calling thread: no other is started. Alone in its program, since others'
//! tests start threads.

#![cfg(target_os = "linux")]

use dataflow::Dense;
use ndarray::{Array1, Array2};

/// The names of the threads that runtimes started.
fn workers() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap()
    };
    tasks
        .map(name)
        .filter(|name| name.starts_with("dataflow"))
        .collect()
}

#[test]
fn no_call_on_an_array_of_up_to_256_rows_starts_a_thread() {
    for n in [4, 100, 256] {
        let general = Array2::from_shape_fn((n, n), |(i, j)| {
            ((i * 7 + j * j) % 11) as f64 + (i == j) as u8 as f64 * 20.0
        });
        let definite = general.dot(&general.t()) + Array2::<f64>::eye(n);
        let b = Array1::from_elem(n, 1.0);
        definite.cholesky().unwrap();
        definite.solve(&b).unwrap();
        definite.inverse().unwrap();
        general.lu().unwrap();
        general.qr().unwrap();
        general.solve(&b).unwrap();
        general.inverse().unwrap();
        general.least_squares(&b).unwrap();
        general.lu_factor().unwrap().solve(&b).unwrap();
        general.qr_factor().unwrap().least_squares(&b).unwrap();
        definite.cholesky_factor().unwrap().solve(&b).unwrap();
        assert_eq!(workers(), [""; 0], "n = {n}");
    }
    let large = Array2::<f64>::eye(257);
    large.lu().unwrap();
    assert_ne!(
        workers(),
        [""; 0],
        "larger ones are worked on by a runtime's threads"
    );
}
