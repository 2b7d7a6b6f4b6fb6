//! `DATAFLOW_VERIFY=1`: small spaces are verified before they run. The environment is a process's own,
//! so each case is a process.
#![cfg(not(miri))]

use dataflow_core::port::Inline;
use dataflow_core::prelude::*;
use dataflow_core::run;
use std::process::Command;

/// Every task reads slot 0, and the last one replaces it: no run can see that it depends on the order.
struct Replaces {
    n_tasks: u64,
    store: Store<u64>,
}

impl TaskSpace for Replaces {
    type Task = u64;
    type Datum = u64;
    fn describe(&self, about: &mut Description) {
        about
            .name("replaces")
            .class("Task")
            .read("IN")
            .new_flow("OUT");
    }
    fn tasks(&self, _: Rank) -> impl Iterator<Item = u64> + Send {
        0..self.n_tasks
    }
    fn inputs(&self, _: u64, from: &mut impl Inputs<Self>) {
        from.home(0, &self.store, 0);
    }
    fn successors(&self, task: u64, to: &mut impl Successors<Self>) {
        if task + 1 == self.n_tasks {
            to.home(1, &self.store, 0);
        }
    }
    fn run(&self, _: u64, flows: &mut Flows<'_, u64>) -> Result<(), TaskError> {
        let [_, out] = flows.slots();
        out.put(1);
        Ok(())
    }
}

/// What this very test says when it runs alone, with a setting.
fn said(setting: &str, n_tasks: u64) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "one_run_by_itself",
            "--nocapture",
            "--include-ignored",
        ])
        .env("DATAFLOW_VERIFY", setting)
        .env("N_TASKS", n_tasks.to_string())
        .output()
        .unwrap();
    let (out, errors) = (output.stdout, output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(&out),
        String::from_utf8_lossy(&errors)
    )
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn one_run_by_itself() {
    let n_tasks = std::env::var("N_TASKS").map_or(3, |n| n.parse().unwrap());
    let store = Store::new("numbers", [0]);
    match run(&Replaces { n_tasks, store }, &Inline) {
        Ok(report) => println!("ran {}", report.tasks),
        Err(error) => println!("refused ({}): {error}", error.name()),
    }
}

#[test]
fn small_spaces_are_verified_before_they_run_if_the_environment_asks() {
    let unknown = said("yes", 3);
    assert!(
        unknown
            .contains("refused (wrong_settings): DATAFLOW_VERIFY is \"yes\" (0 and 1 are allowed)"),
        "{unknown}"
    );
    let refused = said("1", 3);
    assert!(
        refused.contains("refused (contradiction)")
            && refused.contains("reads slot 0 of numbers, which 2 replaces"),
        "{refused}"
    );
    for (setting, n_tasks) in [("0", 3), ("", 3), ("1", 100_001)] {
        let ran = said(setting, n_tasks);
        assert!(
            ran.contains(&format!("ran {n_tasks}")),
            "{setting:?}: {ran}"
        );
        let says = ran.contains("\"replaces\" has 100001 tasks and is not verified");
        assert_eq!(says, n_tasks > 100_000, "{ran}");
    }
}
