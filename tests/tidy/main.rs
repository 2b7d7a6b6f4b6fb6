//! The house rules as tests: what a reviewer would have to repeat in every review.
//!
//! Each rule is a function from text to offenders (`file:line: what`), and lists all of them at once.
//! Files are those that git tracks or would track; outside a git checkout every rule is skipped aloud.
//!
//! # The map
//! `ARCHITECTURE.md` holds one fenced block with the info string `map`.
//! A line without indentation is a folder or file from the root of the repository (`crates/dataflow-core/src/`);
//! an indented line is one below the last such folder (`engine/run.rs`).
//! The first word is the path (folders end in `/`), the rest of the line says what it is.
//! Whatever lies directly in a `src/` of a crate or of the root, `lib.rs` excepted, must be on the map.

mod calls;
mod cargo;
mod circles;
mod markdown;
mod names;
mod programs;
mod rust;
mod screen;
mod tree;

use cargo::{metadata, wrong_dependencies};
use circles::{calls_within, circles};
use markdown::{by_address, crowded_headings, is_relative, links, read_map, resolve};
use names::{wrong_imports, wrong_types};
use programs::programs;
use rust::{code_only, taken_of_sync, without_tests, wrong_arrows};
use screen::wrong_lengths;
use std::collections::BTreeSet;
use tree::{Tree, begins_a_path, identifiers, is_in, judge, lines_with, room_of};

/// Where `unsafe` may stand, and why it must.
const UNSAFE_ROOMS: &[(&str, &str)] = &[
    (
        "crates/dataflow-core/src/engine/job",
        "workers borrow a space that lives on the stack of `run`",
    ),
    (
        "crates/dataflow-core/src/sequence/lent",
        "who has a datum is counted where accesses finish, which is what lets others in",
    ),
    (
        "crates/dataflow-core/src/trace/clock",
        "the counter of cycles is an instruction",
    ),
    ("crates/dataflow-numa/src/pin", "affinity is a system call"),
    (
        "crates/dataflow-numa/src/barrier",
        "membarrier is a system call",
    ),
    (
        "crates/dataflow-numa/src/memory",
        "pages come from system calls",
    ),
    (
        "crates/dataflow-numa/src/pages",
        "the places of pages are system calls",
    ),
    (
        "crates/dataflow-numa/src/topology/hwloc",
        "hwloc is a C library",
    ),
    (
        "crates/dataflow-mpi/src/transport/mpi",
        "MPI is a C library",
    ),
    (
        "crates/dataflow-mpi/src/transport/simulated/fiber",
        "a fiber finds the way back to its thread from however deep inside, and its stack has an end",
    ),
    (
        "crates/dataflow-linalg/src/kernel/openblas",
        "BLAS and LAPACK are C and Fortran libraries",
    ),
    (
        "crates/dataflow-linalg/src/kernel/vectors",
        "code for AVX-512 may run only where a processor has it",
    ),
    ("xtask/symbols/src", "Fortran's programs pass addresses"),
    (
        "tests/leaks/counted",
        "an allocator that counts is an allocator",
    ),
];

/// Which crate may depend on which: one line per crate, siblings know nothing of each other.
const ARROWS: &[(&str, &[&str])] = &[
    ("dataflow-affine", &[]),
    ("dataflow-macros", &["dataflow-affine"]),
    ("dataflow-core", &["dataflow-macros"]),
    ("dataflow-core-tests", &["dataflow-core"]),
    (
        "dataflow-linalg-tests",
        &["dataflow-core", "dataflow-linalg"],
    ),
    ("dataflow-mpi-tests", &["dataflow-core", "dataflow-mpi"]),
    ("dataflow-numa-tests", &["dataflow-core", "dataflow-numa"]),
    ("dataflow-common", &["dataflow-core", "dataflow-runtime"]),
    ("dataflow-numa", &["dataflow-core"]),
    ("dataflow-mpi", &["dataflow-core"]),
    ("dataflow-linalg", &["dataflow-core"]),
    ("dataflow-trace", &["dataflow-core"]),
    (
        "dataflow-runtime",
        &[
            "dataflow-core",
            "dataflow-numa",
            "dataflow-mpi",
            "dataflow-linalg",
            "dataflow-trace",
            "dataflow-runtime", // its own feature `linalg`, for examples, tests and benches
            "dataflow-common",
        ],
    ),
    (
        "dataflow-applications",
        &["dataflow-common", "dataflow-core", "dataflow-runtime"],
    ),
    (
        "dataflow-linalg-examples",
        &["dataflow-common", "dataflow-runtime"],
    ),
    (
        "dataflow-properties",
        &["dataflow-core", "dataflow-runtime"],
    ),
    ("xtask", &[]),
    ("dataflow-symbols", &["dataflow-numa", "dataflow-linalg"]),
];

/// The rooms of the core, lowest first: a room uses those of its own line and of the lines above.
const CORE_LAYERS: &[&[&str]] = &[
    &[
        "words",
        "sync",
        "stderr",
        "rank",
        "fingerprint",
        "foreign",
        "error",
        "wire",
    ],
    &["data"],
    &["space"],
    &["trace"],
    &["engine", "port"], // the ports speak of the engine's jobs, the engine runs on the ports
    &["sequence", "recursion", "phantom"],
];

/// What of `std::sync` comes only through the door of its crate (`sync.rs`), so that models see it.
const DOORS: &[(&str, &[&str])] = &[
    ("crates/dataflow-core/src/", &["atomic"]),
    ("crates/dataflow-numa/src/", &["atomic"]),
    (
        "crates/dataflow-mpi/src/",
        &["atomic", "Mutex", "Condvar", "RwLock"],
    ),
];

/// Files that take such things beside the door, and why they may.
const BESIDE_THE_DOOR: &[(&str, &str)] = &[
    (
        "crates/dataflow-numa/src/barrier",
        "a fence of the compiler is none that models know",
    ),
    (
        "crates/dataflow-numa/src/memory/arena",
        "a hint of where pages lie",
    ),
    (
        "crates/dataflow-numa/src/policy/place",
        "a turn, which orders nothing",
    ),
    (
        "crates/dataflow-numa/src/pool",
        "the order of sleep is in its own model; hints and numbers beside it",
    ),
    (
        "crates/dataflow-numa/src/queue",
        "hints of what locked queues hold",
    ),
    ("crates/dataflow-numa/src/statistics", "counts"),
    (
        "crates/dataflow-mpi/src/transport/mpi",
        "locks for the whole process are static, which those of models cannot be",
    ),
    (
        "crates/dataflow-mpi/src/waits",
        "a number for each thread is static, which those of models cannot be",
    ),
];

/// Packages that are not published, whose modules are looked at for circles too.
const UNPUBLISHED: &[&str] = &[
    "examples/applications/",
    "examples/common/",
    "xtask/src/",
    "xtask/symbols/src/",
];

/// Uses and calls that close a circle of modules: of which source or [program](programs), who, whom, and why they
/// may. No others do.
const CIRCLES: &[(&str, &str, &str, &str)] = &[
    (
        "crates/dataflow-core/src/",
        "data/version",
        "data/store",
        "a version that is dropped goes back to the slot it was taken from",
    ),
    (
        "crates/dataflow-core/src/",
        "engine/job",
        "port/executor",
        "the ports speak of the engine's jobs, the engine runs on the ports",
    ),
    (
        "crates/dataflow-core/src/",
        "port/executor",
        "port/inline",
        "an executor that says nothing else runs inline what a body runs",
    ),
    (
        "crates/dataflow-mpi/src/",
        "transport/simulated/here",
        "transport/simulated/world",
        "whoever acts on a thread acts in a world, which asks who it is",
    ),
    (
        "crates/dataflow-mpi/src/",
        "transport/simulated/state",
        "transport/simulated/turns",
        "the state of a world keeps its actors, and an actor without a stack changes that state",
    ),
    (
        "crates/dataflow-mpi/src/",
        "transport/simulated/world",
        "transport/simulated/turns",
        "whose turn it is may be an actor without a stack, which was started in the world that calls it",
    ),
    (
        "crates/dataflow-linalg/src/",
        "lu/factor",
        "lu/body",
        "the graph runs the bodies of its tasks, which are too many for its file",
    ),
    (
        "crates/dataflow-linalg/src/",
        "lu/factor",
        "lu/edges",
        "each family of its edges once, with tasks and flows of the graph; the graph takes one end of each",
    ),
    (
        "crates/dataflow-linalg/src/",
        "lu/factor",
        "lu/tournament",
        "the same of those of a tournament, and its edges",
    ),
    (
        "crates/dataflow-linalg/src/",
        "scalar",
        "compiled",
        "a scalar type names what is compiled once for it, which computes with scalars",
    ),
    (
        "crates/dataflow-linalg/src/",
        "scalar",
        "kernel/faer",
        "the same of the leaves of kernels",
    ),
    (
        "crates/dataflow-linalg/src/",
        "scalar",
        "kernel/strips",
        "the same of those that are no library's",
    ),
];

/// Exported macros stand at the root of their crate; each is a room's all the same.
const MACROS_OF_ROOMS: &[(&str, &str)] = &[
    ("task_names", "space"),
    ("task_space", "space"),
    ("type_of_parameter", "space"),
    ("expect_parameter", "space"),
    ("macros", "space"), // what task_space calls
    ("wire_by_serde", "port"),
];

/// Words that leave work for later; written apart so that this file does not break its own rule.
const LEFT_FOR_LATER: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO"),
];

/// Macros that stand for code that is not there.
const NOT_THERE: &[&str] = &[concat!("to", "do!"), concat!("unimple", "mented!")];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Use", "rs/"),
];

/// Hosts that serve packages; which one is used is the machine's business.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("index.cra", "tes.io"),
    concat!("static.cra", "tes.io"),
    concat!("deb.deb", "ian.org"),
    concat!("registry.np", "mjs.org"),
];

// ── The rules ────────────────────────────────────────────────────────────────────────────────────

#[test]
fn every_source_file_opens_with_what_it_is() {
    judge(|tree| {
        let openings = ["//! ", "#![doc = include_str!(\"README.md\")]"]; // its own words, or its README's
        let speaks = |text: &str| openings.iter().any(|opening| text.starts_with(opening));
        let silent = tree.texts("rs").filter(|(_, text)| !speaks(text));
        silent
            .map(|(file, _)| format!("{file}:1: does not open with `//!`"))
            .collect()
    });
}

#[test]
fn unsafe_lives_in_its_rooms_only() {
    judge(|tree| {
        let outside = tree
            .texts("rs")
            .filter(|(file, _)| !UNSAFE_ROOMS.iter().any(|(room, _)| is_in(file, room)));
        outside
            .flat_map(|(file, text)| {
                let code = code_only(text);
                let lines =
                    lines_with(&code, |line| identifiers(line).any(|word| word == "unsafe"));
                lines
                    .map(|line| format!("{file}:{line}: `unsafe` outside its rooms"))
                    .collect::<Vec<_>>()
            })
            .collect()
    });
}

#[test]
fn crates_depend_on_each_other_in_their_order() {
    judge(|_| match metadata() {
        Some(metadata) => wrong_dependencies(&metadata),
        None => vec!["Cargo.toml:1: cargo metadata failed".into()],
    });
}

#[test]
fn rooms_of_the_core_use_each_other_one_way() {
    judge(|tree| {
        let source = "crates/dataflow-core/src/";
        let present: BTreeSet<&str> = tree.rooms(source).collect();
        let listed: BTreeSet<&str> = CORE_LAYERS
            .iter()
            .flat_map(|layer| layer.iter().copied())
            .collect();
        let unlisted = present.symmetric_difference(&listed);
        let mut offenders: Vec<String> = unlisted
            .map(|room| format!("{source}{room}:1: in the tree or in CORE_LAYERS, not in both"))
            .collect();
        for (file, text) in tree
            .texts("rs")
            .filter(|(file, _)| file.starts_with(source))
        {
            let path = &file[source.len()..];
            if path != "lib.rs" {
                offenders.extend(
                    wrong_arrows(room_of(path), text, &listed).map(|(line, to)| {
                        format!("{file}:{line}: uses `{to}`, which is no room below it")
                    }),
                );
            }
        }
        offenders
    });
}

#[test]
fn no_modules_use_each_other_in_circles_but_those_that_are_named() {
    judge(|tree| {
        let unpublished = UNPUBLISHED.iter().map(|source| source.to_string());
        let sources = tree.sources().into_iter().chain(unpublished);
        let mut offenders: Vec<String> = sources
            .flat_map(|source| wrong_circles(tree, &source, &source))
            .collect();
        for (root, tree) in programs(tree) {
            offenders.extend(wrong_circles(&tree, "", &root));
        }
        offenders
    });
}

/// Circles of a source folder that are not named, and uses that are named under `called` for nothing.
fn wrong_circles(tree: &Tree, source: &str, called: &str) -> Vec<String> {
    let mut offenders = Vec::new();
    let of_source = CIRCLES.iter().filter(|(of, ..)| *of == called);
    let named: Vec<_> = of_source.map(|&(_, who, whom, _)| (who, whom)).collect();
    for circle in circles(tree, source, &named) {
        let modules = circle.join(", ");
        let mut fault = format!("{called}: {modules} use each other in a circle");
        for call in calls_within(tree, source, &circle) {
            fault += &format!("\n    {call}");
        }
        offenders.push(fault);
    }
    for use_ in &named {
        let others: Vec<_> = named.iter().copied().filter(|of| of != use_).collect();
        if circles(tree, source, &others).is_empty() {
            let (who, whom) = use_;
            let fault = format!("{who} closes no circle by {whom}: out of CIRCLES");
            offenders.push(format!("{called}: {fault}"));
        }
    }
    offenders
}

#[test]
fn no_import_renames_but_those_that_are_named() {
    judge(wrong_imports);
}

/// `Traffic` was what ranks send and what came from a NUMA node; `Posted`, `Limits`, `Window` and more had two
/// meanings likewise, and their importers names of their own. Private ones confuse those who read the sources
/// as much: there were four of `Hand`, of `Run` and of `Places`.
#[test]
fn no_types_share_a_name_but_those_that_are_named() {
    judge(wrong_types);
}

#[test]
fn no_function_is_longer_than_a_screen_but_those_that_are_named() {
    judge(wrong_lengths);
}

#[test]
fn what_models_see_comes_through_the_door_of_its_crate() {
    judge(|tree| {
        let (mut offenders, mut beside) = (Vec::new(), BTreeSet::new());
        for (file, text) in tree.texts("rs") {
            let excused = BESIDE_THE_DOOR.iter().find(|(room, _)| is_in(file, room));
            for (line, name) in taken_beside_its_door(file, text) {
                match excused {
                    Some((room, _)) => _ = beside.insert(*room),
                    None => {
                        offenders.push(format!("{file}:{line}: `{name}` of std, not of `sync`"))
                    }
                }
            }
        }
        let rooms = BESIDE_THE_DOOR.iter().map(|(room, _)| *room);
        let idle = rooms.filter(|room| !beside.contains(room));
        offenders.extend(idle.map(|room| format!("{room}: takes nothing beside the door")));
        offenders
    });
}

/// Names of `std::sync` in a file that the door of its crate has too, tests excepted; each with its line.
fn taken_beside_its_door(file: &str, text: &str) -> Vec<(usize, String)> {
    let own = DOORS.iter().find(|(source, _)| file.starts_with(source));
    let Some((source, names)) = own.filter(|_| !file.ends_with("/tests.rs")) else {
        return Vec::new();
    };
    if file[source.len()..] == *"sync.rs" {
        return Vec::new();
    }
    let code = without_tests(&code_only(text));
    let taken = taken_of_sync(&code).into_iter();
    let has_door = taken.filter(|(_, name)| names.contains(name));
    has_door
        .map(|(line, name)| (line, name.to_string()))
        .collect()
}

#[test]
fn the_map_and_the_tree_agree() {
    judge(|tree| {
        let Some(text) = tree.text("ARCHITECTURE.md") else {
            return vec!["ARCHITECTURE.md:1: is not there".into()];
        };
        let (named, mut offenders) = read_map(text);
        for (line, path) in &named {
            if !tree.has(path) {
                offenders.push(format!("ARCHITECTURE.md:{line}: {path} does not exist"));
            }
        }
        for source in tree.sources() {
            for room in tree.rooms(&source).filter(|room| *room != "lib") {
                let room = format!("{source}{room}");
                if !named.iter().any(|(_, path)| is_in(path, &room)) {
                    offenders.push(format!("{room}: is not on the map of ARCHITECTURE.md"));
                }
            }
        }
        offenders
    });
}

#[test]
fn every_link_inside_the_repository_resolves() {
    judge(|tree| {
        let mut offenders = Vec::new();
        for (file, text) in tree.texts("md") {
            for (line, link) in links(text) {
                if let Err(fault) = resolve(tree, file, &link) {
                    offenders.push(format!("{file}:{line}: link `{link}`: {fault}"));
                }
            }
        }
        // In documentation of code, where rustdoc resolves all others.
        for (file, text) in tree.texts("rs") {
            for (line, link) in links(text) {
                let fault = by_address(tree, &link).and_then(|_| resolve(tree, file, &link).err());
                offenders.extend(fault.map(|of| format!("{file}:{line}: link `{link}`: {of}")));
            }
        }
        offenders
    });
}

#[test]
fn every_heading_has_a_blank_line_before_it() {
    judge(|tree| {
        let texts = tree.texts("md");
        let crowded = texts.flat_map(|(file, text)| {
            let lines = crowded_headings(text).into_iter();
            lines.map(move |line| format!("{file}:{line}: has no blank line before it"))
        });
        crowded.collect()
    });
}

/// Rustdoc shows them under another path than GitHub does.
#[test]
fn pages_of_the_guide_have_no_relative_links() {
    judge(|tree| {
        let pages = tree.texts("md");
        let pages = pages.filter(|(file, _)| file.starts_with("docs/guide/"));
        let links = pages.flat_map(|(file, text)| {
            let links = links(text).into_iter();
            links.map(move |(line, link)| (file, line, link))
        });
        let relative = links.filter(|(.., link)| is_relative(link));
        relative
            .map(|(file, line, link)| format!("{file}:{line}: link `{link}` is relative"))
            .collect()
    });
}

/// A model that sets its bound whatever `LOOM_MAX_PREEMPTIONS` says cannot be looked at more widely.
#[test]
fn no_loom_model_has_a_bound_that_its_variable_does_not_widen() {
    const BOUND: &str = "preemption_bound = ";
    judge(|tree| {
        let crates = tree.texts("rs");
        let crates = crates.filter(|(file, _)| file.starts_with("crates/"));
        let is_fixed = |line: &str| line.contains(BOUND) && !line.contains("preemption_bound.max(");
        let fixed = crates.flat_map(|(file, text)| {
            let lines = lines_with(text, is_fixed);
            lines.map(move |line| format!("{file}:{line}: a bound of its own"))
        });
        fixed.collect()
    });
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    judge(|tree| {
        let mut offenders = Vec::new();
        for (file, text) in &tree.files {
            for line in lines_with(text, |line| {
                MACHINE_PATHS.iter().any(|path| begins_a_path(line, path))
            }) {
                offenders.push(format!("{file}:{line}: a path of one machine"));
            }
            for line in lines_with(text, |line| {
                REGISTRY_HOSTS.iter().any(|host| line.contains(host))
            }) {
                offenders.push(format!("{file}:{line}: a package registry's host"));
            }
        }
        offenders
    });
}

#[test]
fn nothing_is_left_for_later() {
    judge(|tree| {
        let mut offenders = Vec::new();
        for (file, text) in &tree.files {
            let waits = |line: &str| identifiers(line).any(|word| LEFT_FOR_LATER.contains(&word));
            offenders.extend(
                lines_with(text, waits).map(|line| format!("{file}:{line}: work left for later")),
            );
        }
        for (file, text) in tree.texts("rs") {
            let code = code_only(text);
            let absent = |line: &str| NOT_THERE.iter().any(|name| line.contains(name));
            offenders.extend(
                lines_with(&code, absent)
                    .map(|line| format!("{file}:{line}: code that is not there")),
            );
        }
        offenders
    });
}

/// A reader of the guide has this crate and no other.
#[test]
fn programs_of_the_guide_take_everything_from_dataflow() {
    judge(|tree| {
        let foreign = |line: &str| {
            let path = line.trim_start_matches(['/', ' ', '#']);
            let root = path
                .strip_prefix("use ")
                .and_then(|path| identifiers(path).next());
            root.is_some_and(|root| !["dataflow", "std", "super"].contains(&root))
        };
        let mut offenders = Vec::new();
        for (file, text) in tree.texts("md") {
            if file == "README.md" || file.starts_with("docs/guide/") {
                let lines = lines_with(text, foreign);
                offenders.extend(lines.map(|line| format!("{file}:{line}: of another crate")));
            }
        }
        offenders
    });
}

#[test]
fn the_readme_lists_every_example() {
    judge(|tree| {
        let readme = tree.text("README.md").unwrap_or_default();
        let folders = ["examples", "examples/applications", "examples/linalg"];
        let is_example = |file: &&str| {
            let parts = file.rsplit_once('/');
            parts.is_some_and(|(folder, name)| folders.contains(&folder) && name != "lib.rs")
        };
        let examples = tree.texts("rs").map(|(file, _)| file).filter(is_example);
        let unlisted = examples.filter(|file| !readme.contains(*file));
        unlisted
            .map(|file| format!("{file}:1: README.md does not name it"))
            .collect()
    });
}

/// No command of `cargo xtask` runs a test that is ignored, unless another test does.
#[test]
fn contributors_are_told_how_each_ignored_test_runs() {
    judge(|tree| {
        let contributing = tree.text("CONTRIBUTING.md").unwrap_or_default();
        let commands = contributing
            .lines()
            .filter(|line| line.contains("--ignored"));
        let commands: Vec<&str> = commands.collect();
        let is_told = |file: &str| {
            let names = file.split(['/', '.']).map(|name| format!("--test {name} "));
            { names }.any(|name| commands.iter().any(|command| command.contains(&name)))
        };
        let is_ignored = |line: &str| {
            let is_run = ["run by the test below", "another test runs it"];
            line.trim_start().starts_with("#[ignore") && !is_run.iter().any(|by| line.contains(by))
        };
        let untold = tree.texts("rs").filter(|(file, _)| !is_told(file));
        let untold = untold.flat_map(|(file, text)| {
            let lines = lines_with(text, is_ignored);
            lines.map(move |line| format!("{file}:{line}: CONTRIBUTING.md has no command for it"))
        });
        untold.collect()
    });
}

/// `cargo bench` runs all benches, and ends with the first that fails.
#[test]
fn no_bench_must_be_told_what_to_do() {
    judge(|tree| {
        let benches = tree.texts("rs").filter(|(file, _)| {
            let folder = file.rsplit_once('/').map(|(folder, _)| folder);
            folder.is_some_and(|folder| folder.ends_with("benches"))
        });
        let mut offenders = Vec::new();
        for (file, text) in benches {
            for (at, pair) in text.lines().collect::<Vec<_>>().windows(2).enumerate() {
                if pair[0].contains("#[command(subcommand)]") && !pair[1].contains("Option<") {
                    let line = at + 2;
                    offenders.push(format!("{file}:{line}: a command that must be given"));
                }
            }
        }
        offenders
    });
}

#[test]
fn every_published_crate_carries_both_licences() {
    judge(|tree| {
        let mut offenders = Vec::new();
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let own = tree.text(licence);
            for source in tree.sources() {
                let copy = format!(
                    "{}{licence}",
                    source.strip_suffix("src/").unwrap_or_default()
                );
                if own.is_none() || tree.text(&copy) != own {
                    offenders.push(format!(
                        "{copy}:1: is not there or differs from {licence} of the root"
                    ));
                }
            }
        }
        offenders
    });
}
