//! `--simulate time`: the report of a run that took place in virtual time.

use crate::ended::*;
use serde_json::Value;
use std::fs;

/// A file of costs in which all is round: a flop a nanosecond, 100 ns a task, 10 an edge.
fn costs(name: &str, spread: f64) -> String {
    let text = format!(
        r#"{{
  "cores": 4,
  "kernels": [ {{ "gflops": 1, "spread": {spread} }},
    {{ "graph": "cholesky", "class": "Potrf", "nanoseconds": 5000, "cold_nanoseconds": 8000 }} ],
  "runtime": {{ "task_nanoseconds": 100, "edge_nanoseconds": 10 }},
  "networks": {{
    "local": {{ "latency_nanoseconds": 500, "bytes_per_second": 1e10, "ranks_on_a_host": 2 }},
    "mpi": {{ "latency_nanoseconds": 5000, "bytes_per_second": 1e9, "send_nanoseconds": 900 }}
  }}
}}"#
    );
    written(name, &text)
}

/// An example in virtual time, the words of its command line in one text.
fn simulated(of: &str, file: &str, more: &[&str]) -> Ended {
    let mut words = of.split(' ');
    let example = words.next().unwrap();
    let flags = ["--simulate", "time", "--costs", file, "--json"];
    run(
        example,
        &[&words.collect::<Vec<_>>()[..], &flags, more].concat(),
    )
}

#[test]
fn a_run_in_virtual_time_does_and_sends_what_a_real_one_does() {
    let file = costs("round.json", 0.05);
    for of in [
        "cholesky --n 190 --nb 20",
        "cholesky_sequence --n 190 --nb 20",
        "lu --n 190 --nb 20 --pivoting none",
        "lu --n 190 --nb 20 --pivoting incremental",
        "qr --n 190 --nb 20 --tree greedy",
        "matmul --n 190 --nb 20",
        "inverse --n 190 --nb 20",
    ] {
        let ranks = ["--ranks", "6", "--threads", "2"];
        let told = simulated(of, &file, &ranks).done();
        let words: Vec<&str> = of.split(' ').collect();
        let flags = [&words[1..], &["--ranks", "6", "--threads", "1", "--json"]].concat();
        let ran = run(words[0], &flags).done();
        for key in [
            "n",
            "nb",
            "grid",
            "ranks",
            "tasks",
            "messages",
            "bytes",
            "activations",
        ] {
            assert_eq!(told[key], ran[key], "{of}: {key}");
        }
        assert_eq!(
            (&told["simulate"], &told["policy"]),
            (&"time".into(), &"priority".into())
        );
        assert_eq!(told["per_worker"].as_array().unwrap().len(), 12);
        assert_eq!(told["per_rank"].as_array().unwrap().len(), 6);
        assert!(
            told["digest"].is_null() && told["residual"].is_null(),
            "{of} computed"
        );
        let number = |key: &str| told[key].as_f64().unwrap();
        assert!(number("seconds") > 0.0 && number("gflops") > 0.0, "{told}");
        // Twelve workers are not busy for longer than they are there.
        assert!(number("cpu_seconds") <= 12.0 * number("seconds"), "{told}");
    }
}

#[test]
fn virtual_time_is_what_the_file_says_to_the_nanosecond() {
    let file = costs("exact.json", 0.0);
    let nanoseconds = |more: &[&str]| {
        let told = simulated("cholesky --n 20 --nb 20", &file, more).done();
        (told["seconds"].as_f64().unwrap() * 1e9).round() as u64
    };
    // One task without edges: cold, and as the median of three runs of which one is cold.
    assert_eq!(nanoseconds(&[]), 8100);
    assert_eq!(nanoseconds(&["--repeat", "3"]), 5100);
    let told = simulated("cholesky --n 40 --nb 20", &file, &["--repeat", "3"]).done();
    // Potrf, Trsm (20³), Herk (20² · 21) and Potrf, with an edge between each two.
    let expected = 5000 + 8000 + 8400 + 5000 + 4 * 100 + 3 * 10;
    assert_eq!(
        (told["seconds"].as_f64().unwrap() * 1e9).round(),
        f64::from(expected)
    );
    // What a run takes beside its tasks, with the number of its ranks.
    let text = fs::read_to_string(&file).unwrap();
    let alone = text.replace(
        "\"edge_nanoseconds\": 10",
        "\"edge_nanoseconds\": 10, \"run_nanoseconds\": 700",
    );
    let both = alone.replace(
        "\"latency_nanoseconds\": 500",
        "\"latency_nanoseconds\": 500, \"run_nanoseconds\": 90",
    );
    let both = written("around.json", &both);
    for (ranks, more) in [("1", 700), ("2", 90)] {
        let seconds = |file: &str| {
            let flags = ["--ranks", ranks, "--threads", "2"];
            let told = simulated("cholesky --n 190 --nb 20", file, &flags).done();
            (told["seconds"].as_f64().unwrap() * 1e9).round() as u64
        };
        assert_eq!(seconds(&both), seconds(&file) + more, "{ranks} ranks");
    }
    // A rank has the cores that it would have on a host of its own.
    assert_eq!(
        (&told["threads"], &told["messages"]),
        (&4.into(), &0.into())
    );
}

#[test]
fn ranks_on_numa_nodes_follow_the_policy_that_is_asked_for() {
    let flat = costs("flat.json", 0.0);
    let numa = "\"numa\": { \"cores\": [2, 2, 2, 2], \"remote_nanoseconds_per_byte\": 1 },";
    let text = fs::read_to_string(&flat).unwrap();
    let at = text.find("\"kernels\"").unwrap();
    let numa = written("numa.json", &[&text[..at], numa, &text[at..]].concat());
    let of = "cholesky --n 190 --nb 20";
    let flags = |policy| ["--ranks", "2", "--threads", "4", "--policy", policy];
    let told = |policy| simulated(of, &numa, &flags(policy)).done();
    let [near, far] = [told("distance"), told("oblivious")];
    for (told, policy) in [(&near, "distance"), (&far, "oblivious")] {
        assert!(
            told["policy"].as_str().unwrap().starts_with(policy),
            "{told}"
        );
        let workers = told["per_worker"].as_array().unwrap();
        let nodes = workers
            .iter()
            .map(|worker| worker["numa_node"].as_u64().unwrap());
        assert_eq!(nodes.collect::<Vec<_>>(), [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(told["tasks"], 220);
    }
    let remote = |told: &Value| -> u64 {
        let workers = told["per_worker"].as_array().unwrap().iter();
        workers
            .map(|worker| worker["remote_bytes"].as_u64().unwrap())
            .sum()
    };
    assert!(remote(&near) < remote(&far), "{near} {far}");
    // All that workers did is what is told of the whole, and to wait for bytes is to be busy.
    let steals = |told: &Value| -> u64 {
        let workers = told["per_worker"].as_array().unwrap().iter();
        workers
            .map(|worker| worker["steals"].as_u64().unwrap())
            .sum()
    };
    assert!(
        steals(&near) > 0 && near["steals"] == steals(&near),
        "{near}"
    );
    let busy = |told: &Value| told["cpu_seconds"].as_f64().unwrap();
    let more = (remote(&far) - remote(&near)) as f64 * 1e-9;
    let counted = busy(&far) - busy(&near);
    assert!((counted / more - 1.0).abs() < 0.01, "{counted} of {more}");
    // Without NUMA nodes there is one queue.
    let refused = simulated(of, &flat, &flags("distance"));
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("key `numa`"), "{}", refused.stderr);
}

#[test]
fn virtual_time_is_a_function_of_costs_and_seed() {
    let file = costs("spread.json", 0.1);
    let seconds = |more: &[&str]| {
        let flags = [&["--ranks", "4"][..], more].concat();
        let told = simulated("cholesky --n 190 --nb 20", &file, &flags).done();
        told["seconds"].clone()
    };
    let first = seconds(&["--seed", "3"]);
    assert_eq!(seconds(&["--seed", "3"]), first);
    for other in [
        &["--seed", "4"][..],
        &["--seed", "3", "--transport", "mpi"],
        &["--seed", "3", "--grid", "1x4"],
        &["--seed", "3", "--threads", "1"],
    ] {
        assert_ne!(seconds(other), first, "{other:?}");
    }
}

#[test]
fn a_trace_in_virtual_time_ends_when_the_run_does() {
    let file = costs("traced.json", 0.05);
    let path = written("virtual.json", "");
    let flags = ["--ranks", "2", "--threads", "2", "--trace", &path];
    let told = simulated("qr --n 190 --nb 20", &file, &flags).done();
    let trace: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let tasks: Vec<_> = events.filter(|event| event["cat"] == "task").collect();
    assert_eq!(Some(tasks.len() as u64), told["tasks"].as_u64());
    let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
    let begin = |event: &&&Value| number(event, "ts");
    let first = tasks
        .iter()
        .map(|event| begin(&event))
        .fold(f64::MAX, f64::min);
    let end = |event: &&Value| number(event, "ts") + number(event, "dur");
    let last = tasks.iter().map(end).fold(0.0, f64::max);
    let seconds = told["seconds"].as_f64().unwrap();
    assert!(
        (last - first) * 1e-6 <= seconds,
        "{first} to {last} of {seconds}"
    );
    assert!(
        (last - first) * 1e-6 > 0.9 * seconds,
        "{first} to {last} of {seconds}"
    );
    assert!(told["trace"][0]["verdict"].is_string(), "{told}");
}

#[test]
fn hundreds_of_ranks_are_played_on_this_machine() {
    let file = costs("hundreds.json", 0.0);
    let flags = ["--ranks", "256", "--threads", "1", "--transport", "mpi"];
    let told = simulated("cholesky --n 320 --nb 10", &file, &flags).done();
    assert_eq!(
        (&told["ranks"], &told["grid"]),
        (&256.into(), &"16x16".into())
    );
    assert_eq!(told["tasks"], 32 * 33 * 34 / 6);
}

#[test]
fn wrong_costs_and_questions_are_refused() {
    let file = costs("fine.json", 0.0);
    let wrong = written("wrong.json", "{\n  \"kernels\": [ { \"gflops\": -1 } ]\n}");
    let failed = simulated("cholesky --n 50", &wrong, &[]);
    let told = failed.object();
    failed.says_what_failed(&told);
    assert_eq!(told["error"]["kind"], "wrong_costs");
    for word in ["wrong.json", "kernels[0]", "-1", "above 0", "line 2"] {
        assert!(failed.error_line().contains(word), "{}", failed.stderr);
    }
    if cfg!(unix) {
        // It was read until no memory was left.
        let failed = simulated("cholesky --n 50", "/dev/zero", &[]);
        assert_eq!(failed.object()["error"]["kind"], "wrong_costs");
        let says = "/dev/zero: more than 64 MiB";
        assert!(failed.stderr.contains(says), "{}", failed.stderr);
    }
    // Hosts that no memory holds, and more than can be counted.
    for (at, cores, key) in [
        (0, "\"numa\": { \"cores\": [4294967296] }", "numa.cores"),
        (
            1,
            "\"numa\": { \"cores\": [18446744073709551615, 2] }",
            "numa.cores",
        ),
        (2, "\"cores\": 65537", "cores"),
        (3, "\"cores\": 0", "cores"),
    ] {
        let text = format!("{{\n  {cores},\n  \"kernels\": [ {{ \"gflops\": 1 }} ]\n}}");
        let failed = simulated(
            "cholesky --n 50",
            &written(&format!("cores{at}.json"), &text),
            &[],
        );
        assert_eq!(failed.object()["error"]["kind"], "wrong_costs", "{cores}");
        let line = failed.error_line();
        let says = [&format!("cores{at}.json: {key}: "), "65536", "line 2"];
        assert!(says.iter().all(|word| line.contains(word)), "{line}");
    }
    let failed = simulated(
        "cholesky --n 50",
        &file,
        &["--ranks", "2", "--transport", "tcp"],
    );
    assert_eq!(failed.object()["error"]["kind"], "wrong_costs");
    assert!(failed.stderr.contains("no `tcp`"), "{}", failed.stderr);
    // The clock of virtual time overflowed, or ranks beat in it for hours of real time.
    for (at, takes, ranks, says) in [
        (0, "\"nanoseconds\": 1e18", "1", "0 to 8.64e13, a day"),
        (1, "\"gflops\": 1e-12", "2", "a task Potrf would take"),
    ] {
        let text = format!(
            "{{ \"kernels\": [ {{ {takes} }} ], \"networks\": {{ \"local\": \
             {{ \"latency_nanoseconds\": 500, \"bytes_per_second\": 1e10 }} }} }}"
        );
        let file = written(&format!("endless{at}.json"), &text);
        let failed = simulated("cholesky --n 50", &file, &["--ranks", ranks]);
        assert_eq!(failed.object()["error"]["kind"], "wrong_costs", "{takes}");
        let line = failed.error_line();
        assert!(line.contains(says) && line.contains("a day"), "{line}");
    }
    let few = r#"{ "kernels": [ { "graph": "cholesky", "gflops": 1 } ] }"#;
    let failed = simulated("qr --n 50", &written("few.json", few), &[]);
    assert_eq!(failed.object()["error"]["kind"], "wrong_costs");
    let says = "no kernel is for Geqrt of qr in f64";
    assert!(failed.stderr.contains(says), "{}", failed.stderr);
    for refused in [
        &["cholesky", "--simulate", "time"][..],
        &["cholesky", "--costs", &file],
        &["cholesky", "--simulate", "counts", "--costs", &file],
        &["cholesky", "--simulate", "counts", "--trace", "a.json"],
        &["cholesky", "--simulate", "counts", "--seed", "1"],
        &[
            "cholesky",
            "--simulate",
            "time",
            "--costs",
            &file,
            "--check",
        ],
        &[
            "cholesky",
            "--simulate",
            "time",
            "--costs",
            &file,
            "--levels",
            "2",
        ],
        &[
            "cholesky",
            "--simulate",
            "time",
            "--costs",
            &file,
            "--ranks",
            "10001",
        ],
        &[
            "matmul",
            "--simulate",
            "time",
            "--costs",
            &file,
            "--algorithm",
            "torus",
        ],
        &["jacobi3d", "--simulate", "time", "--costs", &file],
        &["calibrate", "--seed", "3"],
        &["calibrate", "--keep", "--compare", "--orders", "24"],
        &["solve", "--costs", &file],
        &["solve", "--simulate", "time", "--costs", &file],
    ] {
        let ended = run(refused[0], &refused[1..]);
        assert_eq!(ended.status, 2, "{refused:?}: {}", ended.stderr);
    }
    let page = run(
        "cholesky",
        &["--n", "50", "--simulate", "time", "--costs", &file],
    )
    .stdout;
    assert!(
        page.contains("not run. Kernels take what was measured"),
        "{page}"
    );
}

/// They were that much faster, and nobody was told.
#[test]
fn more_workers_than_a_host_has_cores_are_told() {
    let file = costs("crowded.json", 0.0);
    for (threads, is_told) in [("4", false), ("5", true)] {
        let time = ["--simulate", "time", "--costs", &file];
        let flags = [&["--n", "50", "--threads", threads][..], &time].concat();
        let page = run("cholesky", &flags).stdout;
        let warning = "warning: 5 workers share 4 cores\n";
        assert_eq!(page.contains(warning), is_told, "{page}");
    }
}

#[test]
fn what_is_measured_here_is_a_file_that_simulations_read() {
    let file = written("measured.json", "");
    let small = ["--orders", "24", "--matrices", "72,96", "--json"];
    let passes = |n| ["--passes", n];
    let compare = ["--compare", "--sizes", "48,72", "--costs", &file];
    let often = ["--repeat", "1", "--policy", "fifo"];
    let told = run(
        "calibrate",
        &[&small[..], &passes("2"), &compare, &often].concat(),
    )
    .done();
    // Four routines and two sizes; one worker, all workers (if there are more), and two ranks.
    let rows = told["rows"].as_array().unwrap();
    assert!(rows.len() == 24 || rows.len() == 16, "{told}");
    for row in rows {
        assert!(row["simulated_seconds"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["measured_seconds"].as_f64().unwrap() > 0.0, "{row}");
    }
    let costs: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    // Two passes of one round, where two rounds are the default.
    assert_eq!(costs["about"]["rounds"], 2, "{costs}");
    let kernels = costs["kernels"].as_array().unwrap();
    for (graph, class) in [
        ("cholesky", "Gemm"),
        ("lu", "Below"),
        ("lu", "Panel"),
        ("qr", "Tpmqrt"),
        ("gemm", "Update"),
    ] {
        let mut own = kernels
            .iter()
            .filter(|kernel| kernel["graph"] == graph && kernel["class"] == class);
        assert!(
            own.any(|kernel| kernel["nb"] == 24),
            "{graph} {class}: {costs}"
        );
    }
    assert!(
        costs["networks"]["local"]["bytes_per_second"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    // Two ranks over sockets add theirs; of more passes there would be nothing new to see.
    let ranks = ["--ranks", "2", "--transport", "tcp", "--costs", &file];
    run("calibrate", &[&small[..], &passes("1"), &ranks].concat()).done();
    let told = simulated("qr --n 96 --nb 24", &file, &ranks[..4]).done();
    assert_eq!(told["simulation"]["network"], "tcp");
    let three = run("calibrate", &["--ranks", "3", "--costs", &file]);
    assert_eq!(three.status, 2, "{}", three.stderr);
    let nothing = run(
        "calibrate",
        &["--ranks", "2", "--costs", "nobody-wrote.json"],
    );
    assert_eq!(nothing.status, 1, "{}", nothing.stderr);
    let says = "nobody-wrote.json is not there: two ranks add to it";
    assert!(nothing.stderr.contains(says), "{}", nothing.stderr);
}

/// A shell that `srun` has started is a step of one task: there nothing was simulated.
#[test]
fn one_task_of_a_launcher_simulates_and_several_are_refused() {
    let simulated = |variables: &str| {
        let flags = ["--n", "50", "--simulate", "counts", "--ranks", "4"];
        run_with(&format!("export {variables}"), "cholesky", &flags)
    };
    let one = simulated("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1");
    assert_eq!(one.status, 0, "{}", one.stderr);
    for (variables, says) in [
        ("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2", "start it alone"),
        ("SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=2", "rank 2 of 2"),
    ] {
        let refused = simulated(variables);
        let line = refused.is_a_bad_argument();
        assert!(line.contains(says), "{line}");
    }
}

/// It was told as infinite.
#[test]
fn of_a_run_without_length_there_is_no_rate() {
    let free = r#"{ "kernels": [ { "nanoseconds": 0 } ] }"#;
    let flags = ["--costs", &written("free.json", free), "--n", "50"];
    let told = run("cholesky", &[&["--simulate", "time"][..], &flags].concat());
    assert_eq!(told.status, 0, "{}", told.stderr);
    assert!(!told.stdout.contains("GFLOP/s"), "{}", told.stdout);
}

/// What this machine can start was the limit of machines that are not there.
#[test]
fn more_workers_than_start_here_are_simulated() {
    let file = costs("many.json", 0.0);
    let told = simulated("cholesky --n 50 --nb 10", &file, &["--threads", "10000"]).done();
    assert_eq!(told["threads"], 10_000);
    let counted = ["--n", "50", "--simulate", "counts", "--threads", "10000"];
    assert_eq!(run("cholesky", &counted).status, 0);
    let slip = ["--n", "50", "--simulate", "counts", "--threads", "10000000"];
    let refused = run("cholesky", &slip);
    assert!(refused.is_a_bad_argument().contains("at most 32767"));
    // Neither is much: both are 32 million workers, of several gigabytes.
    let slip = ["--ranks", "1000", "--threads", "32767"];
    let refused = simulated("cholesky --n 50 --nb 10", &file, &slip);
    assert!(
        refused
            .is_a_bad_argument()
            .contains("at most 1048576 workers")
    );
}
