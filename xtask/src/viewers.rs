//! `cargo xtask viewers`: files of a traced run, read by programs that others wrote.
//!
//! The tests of `dataflow-trace` read every format by a grammar of their own; here `pj_dump` reads Paje,
//! Perfetto's own bindings for Python read Perfetto, and a headless browser lays out the pictures.
//!
//! # Law
//! What a reader finds is counted and compared with what the run told of itself.
//! No file of an earlier call is read.

use crate::out::say;
use crate::steps::{self, Outcome, Steps, output};
use crate::{mpirun, packages};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The run: two ranks of two workers, so that there are messages.
const RUN: &str = "--n 200 --nb 25 --ranks 2 --threads 2 --json --trace";
const N_WORKERS: usize = 4;

/// Perfetto's bindings, from the Python package index.
const BINDINGS: [&str; 2] = ["perfetto==0.59.1", "protobuf"];

/// Prints how many bodies a file has, how many arrows with both ends (an arrow passes several moments of
/// its message), and how many fields that the bindings do not know.
const READER: &str = "
import sys
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
trace = Trace()
trace.ParseFromString(open(sys.argv[1], 'rb').read())
unknown = 0
def look(message):
    global unknown
    unknown += len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                look(part)
look(trace)
names, tasks, begun, ended = {}, 0, set(), set()
for packet in trace.packet:
    sequence = packet.trusted_packet_sequence_id
    for kind in packet.interned_data.event_categories:
        names[sequence, kind.iid] = kind.name
    event = packet.track_event
    kinds = [names.get((sequence, iid)) for iid in event.category_iids]
    tasks += event.type == 1 and 'task' in kinds
    begun.update(event.flow_ids)
    ended.update(event.terminating_flow_ids)
print(tasks, len(begun & ended), unknown)
";

/// Runs all readers.
pub fn viewers(steps: &mut Steps) {
    if let Err(line) = packages::ensure(&["viewers".to_string()].into()) {
        steps.step("readers", || Outcome::Skipped(line));
        return;
    }
    let folder = steps::target_folder().join("viewers");
    let mut made = Err(String::new());
    steps.step("a traced run", || {
        made = program(&folder);
        match &made {
            Ok(_) => Outcome::Passed,
            Err(fault) => Outcome::failed(fault),
        }
    });
    let Ok(program) = made else { return };
    let traced = |extension: &str| trace(&program, &folder.join(format!("run.{extension}")));
    steps.step("Paje, by pj_dump", || {
        judged(traced("paje").and_then(|run| paje(&run)))
    });
    steps.step("Perfetto, by its bindings", || {
        match packages::python(&folder.join("python"), &BINDINGS) {
            Err(reason) => Outcome::Skipped(reason),
            Ok(python) => judged(traced("pftrace").and_then(|run| perfetto(&run, &python))),
        }
    });
    for extension in ["svg", "html"] {
        steps.step(&format!("{extension}, in a browser"), || {
            judged(traced(extension).and_then(|run| picture(&run, &folder)))
        });
    }
}

fn judged(read: Result<(), String>) -> Outcome {
    read.map_or_else(Outcome::failed, |()| Outcome::Passed)
}

/// The example, built for tests.
fn program(folder: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(folder).map_err(|fault| format!("{}: {fault}", folder.display()))?;
    mpirun::build_plain(&["--example", "cholesky"].map(String::from))
}

/// A run that was traced.
struct ViewedRun {
    file: PathBuf,
    tasks: usize,
    messages: usize,
}

fn trace(program: &Path, file: &Path) -> Result<ViewedRun, String> {
    absent(file)?;
    let mut run = Command::new(program);
    let told = output(run.args(RUN.split(' ')).arg(file))?;
    let told: Value = serde_json::from_str(&told).map_err(|fault| fault.to_string())?;
    let count = |key: &str| told[key].as_u64().map(|count| count as usize);
    match (count("tasks"), count("messages")) {
        (Some(tasks), Some(messages)) => Ok(ViewedRun {
            file: file.to_path_buf(),
            tasks,
            messages,
        }),
        _ => Err(format!("the run does not tell its tasks: {told}")),
    }
}

/// Makes a file be absent.
fn absent(file: &Path) -> Result<(), String> {
    match fs::remove_file(file) {
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => {
            Err(format!("{}: {fault}", file.display()))
        }
        _ => Ok(()),
    }
}

fn equal(what: &str, found: usize, expected: usize) -> Result<(), String> {
    say!("{what}: {found}");
    match found == expected {
        true => Ok(()),
        false => Err(format!("{found} {what} are read, not {expected}")),
    }
}

fn paje(run: &ViewedRun) -> Result<(), String> {
    let dump = output(Command::new("pj_dump").arg(&run.file))?;
    let classes = ["Potrf", "Trsm", "Herk", "Gemm"];
    let is_task = |line: &&str| {
        let value = line.rsplit(", ").next().unwrap_or_default();
        line.starts_with("State") && classes.contains(&value)
    };
    equal("tasks", dump.lines().filter(is_task).count(), run.tasks)?;
    let links = dump.lines().filter(|line| line.starts_with("Link")).count();
    equal("arrows", links, run.messages)
}

fn perfetto(run: &ViewedRun, python: &Path) -> Result<(), String> {
    let told = output(Command::new(python).args(["-c", READER]).arg(&run.file))?;
    let counts: Vec<usize> = told.split_whitespace().flat_map(str::parse).collect();
    let [tasks, arrows, unknown] = counts[..] else {
        return Err(format!("the reader says {told:?}"));
    };
    equal("tasks", tasks, run.tasks)?;
    equal("arrows", arrows, run.messages)?;
    equal("unknown fields", unknown, 0)
}

/// A picture is laid out: every worker has its row, and the page is no blank sheet.
fn picture(run: &ViewedRun, folder: &Path) -> Result<(), String> {
    /// An empty page takes 5 kB.
    const BLANK: u64 = 15_000;
    let page = format!("file://{}", run.file.display());
    let dom = output(&mut browser(folder, &["--dump-dom", &page]))?;
    equal("rows", dom.matches("<g id=\"r").count(), N_WORKERS)?;
    let mut picture = run.file.clone();
    picture.as_mut_os_string().push(".png");
    absent(&picture)?;
    let shot = format!("--screenshot={}", picture.display());
    output(&mut browser(
        folder,
        &[&shot, "--window-size=1200,900", &page],
    ))?;
    let bytes = fs::metadata(&picture).map_or(0, |about| about.len());
    say!("{}: {bytes} bytes", picture.display());
    match bytes > BLANK {
        true => Ok(()),
        false => Err(format!("{} is blank", picture.display())),
    }
}

/// A browser that shows nothing, keeps nothing and speaks to nobody.
fn browser(folder: &Path, arguments: &[&str]) -> Command {
    let mut browser = Command::new("chromium");
    browser.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    browser.arg(format!(
        "--user-data-dir={}",
        folder.join("browser").display()
    ));
    browser.args(arguments);
    browser
}
