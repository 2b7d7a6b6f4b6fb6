//! `cargo xtask lapack --programs`: LAPACK's own test programs against this library, by its names.
//!
//! The programs are those of Debian's source package of LAPACK, unpacked under the target folder; the
//! crate `xtask/symbols` stands before the system's LAPACK when they are linked, so what it exports is
//! tested and the rest is Debian's. Each runs with tiles of 7 and of 13.
//!
//! # Law
//! A program that ends without having counted a test has failed, and so has every line in which one
//! counts a failure.

use crate::out::say;
use crate::packages;
use crate::steps::{self, Outcome, Steps};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Kinds of numbers, as LAPACK's names begin.
const PRECISIONS: [char; 4] = ['S', 'D', 'C', 'Z'];

/// Families of routines of which some are here: general and definite matrices, triangles, least
/// squares.
const PATHS: [&str; 4] = ["GE", "PO", "TR", "LS"];

/// Orders of tiles: neither divides the other, nor most sizes of the programs.
const ORDERS: [&str; 2] = ["7", "13"];

/// By what Debian's archives are signed, where their lists say so.
const KEYRING: &str = "debian-archive-keyring";

/// Fetches, builds and runs them.
pub fn programs(steps: &mut Steps) {
    let wanted = ["lapack-programs".to_string()].into();
    if let Err(line) = packages::ensure(&wanted) {
        steps.step("packages", || Outcome::Skipped(line));
        return;
    }
    let mut sources = None;
    steps.step("LAPACK's sources", || match sources_of_debian() {
        Ok(found) => {
            say!("{}", found.display());
            sources = Some(found);
            Outcome::Passed
        }
        Err(fault) => Outcome::failed(fault),
    });
    let Some(sources) = sources else { return };
    let mut is_built = false;
    steps.step("programs", || match build(&sources) {
        Ok(()) => {
            is_built = true;
            Outcome::Passed
        }
        Err(fault) => Outcome::failed(fault),
    });
    if !is_built {
        return;
    }
    for order in ORDERS {
        for precision in PRECISIONS {
            let letter = precision.to_ascii_lowercase();
            steps.step(&format!("BLAS 3, {precision}, tiles of {order}"), || {
                let input = sources.join(format!("BLAS/TESTING/{letter}blat3.in"));
                let program = sources.join(format!("x{letter}blat3"));
                let output = fs::read_to_string(input)
                    .map_err(|fault| fault.to_string())
                    .and_then(|text| output_of(&program, &text, order))
                    // Its summary is a file of its own, in the folder in which it runs.
                    .and_then(|_| {
                        let summary = sources.join(format!("{letter}blat3.out"));
                        fs::read_to_string(summary).map_err(|fault| fault.to_string())
                    });
                judged(output, counted_by_blas)
            });
            steps.step(&format!("LIN, {precision}, tiles of {order}"), || {
                let input = sources.join(format!("TESTING/{letter}test.in"));
                let output = fs::read_to_string(input)
                    .map_err(|fault| fault.to_string())
                    .map(|text| asked_of_lin(&text, precision))
                    .and_then(|text| {
                        output_of(
                            &sources.join(format!("TESTING/LIN/xlintst{letter}")),
                            &text,
                            order,
                        )
                    });
                judged(output, counted_by_lin)
            });
        }
    }
}

/// The folder of the unpacked sources: fetched by apt-get with lists of their own, so that nothing of
/// the machine's is changed.
fn sources_of_debian() -> Result<PathBuf, String> {
    let folder = steps::target_folder().join("lapack");
    let sources = folder.join("sources");
    if sources.join("TESTING/LIN/Makefile").is_file() {
        return Ok(sources);
    }
    let archives = folder.join("archives");
    for inner in ["archives", "lists/partial", "cache/archives/partial"] {
        let made = fs::create_dir_all(folder.join(inner));
        made.map_err(|fault| format!("{}: {fault}", folder.display()))?;
    }
    let mut known = 0;
    for path in archives_of_this_machine() {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let (Some(name), true) = (path.file_name(), is_debians(&text)) else {
            continue;
        };
        let written = fs::write(archives.join(name), for_sources(&text));
        written.map_err(|fault| fault.to_string())?;
        known += 1;
    }
    if known == 0 {
        return Err(
            "apt-get knows no archive of Debian's here: the programs come from its source \
                    package `lapack`"
                .into(),
        );
    }
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        let settings = [
            ("Dir::Etc::SourceList", PathBuf::from("/dev/null")),
            ("Dir::Etc::SourceParts", archives.clone()),
            ("Dir::State::Lists", folder.join("lists")),
            ("Dir::Cache", folder.join("cache")),
            ("APT::Sandbox::User", PathBuf::from("root")),
        ];
        for (name, value) in settings {
            apt.arg("-o").arg(format!("{name}={}", value.display()));
        }
        apt.args(arguments).current_dir(&folder);
        apt
    };
    let failed = |what: &str| {
        format!("{what} failed: LAPACK's test programs cannot be had without Debian's archive")
    };
    done(&mut apt(&["update"])).map_err(|_| failed("apt-get update"))?;
    let fetch = ["source", "--download-only", "lapack"];
    done(&mut apt(&fetch)).map_err(|_| failed("apt-get source lapack"))?;
    let names = fs::read_dir(&folder).map_err(|fault| fault.to_string())?;
    let files = names.flatten().map(|entry| entry.path());
    let is_archive = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.contains(".orig.tar") && !name.ends_with(".asc")
    };
    let archive = { files }.find(is_archive);
    let archive = archive.ok_or("apt-get source lapack brought no archive")?;
    steps::whole(&sources, |folder| {
        let mut tar = Command::new("tar");
        tar.arg("xf").arg(archive).arg("-C").arg(folder);
        done(tar.args(["--strip-components", "1"]))
    })?;
    Ok(sources)
}

/// The files in which apt-get finds its archives.
fn archives_of_this_machine() -> Vec<PathBuf> {
    let parts = fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten();
    let parts = parts.flatten().map(|entry| entry.path());
    parts
        .chain([PathBuf::from("/etc/apt/sources.list")])
        .collect()
}

/// Whether the archives of a file are Debian's: they name its keys, or none at all and its folder.
fn is_debians(archives: &str) -> bool {
    let named = archives.to_lowercase().contains("signed-by");
    let lines = archives.lines().map(str::trim_start);
    let mut of_debian = lines.filter(|line| !line.starts_with('#') && line.contains("/debian"));
    archives.contains(KEYRING) || (!named && of_debian.next().is_some())
}

/// The same archives, asked for sources.
fn for_sources(archives: &str) -> String {
    let line = |line: &str| match (line.strip_prefix("deb "), line.strip_prefix("Types:")) {
        (Some(rest), _) => format!("deb-src {rest}\n"),
        (None, Some(_)) => "Types: deb-src\n".to_owned(),
        (None, None) => format!("{line}\n"),
    };
    archives.lines().map(line).collect()
}

/// Compiles the programs and links them with this library first.
fn build(sources: &Path) -> Result<(), String> {
    done(&mut steps::cargo(&[
        "build",
        "--release",
        "-p",
        "dataflow-symbols",
    ]))?;
    let own = steps::target_folder().join("release/libdataflow_symbols.a");
    let first = linked_whole(&own.display().to_string());
    let for_make = first.each_ref().map(|word| steps::quoted(word)).join(" ");
    let [matrices, lapack, blas] =
        ["libtmglib.a", "lapack/liblapack.a", "blas/libblas.a"].map(library);
    let (matrices, lapack, blas) = (matrices?, lapack?, blas?);
    let settings = format!(
        "FC = gfortran\nFFLAGS = -O1 -w\nFFLAGS_DRV = -O1 -w\nFFLAGS_NOOPT = -O0 -w\n\
         LDFLAGS = {for_make}\nTMGLIB = {matrices}\nLAPACKLIB = {lapack}\nBLASLIB = {blas}\n"
    );
    fs::write(sources.join("make.inc"), settings).map_err(|fault| fault.to_string())?;
    for precision in PRECISIONS.map(|precision| precision.to_ascii_lowercase()) {
        let lin = sources.join("TESTING/LIN");
        let program = format!("xlintst{precision}");
        // Linked anew, whatever make finds: this library may have changed.
        let _not_there = fs::remove_file(lin.join(&program));
        let mut make = Command::new("make");
        done(make.arg("-C").arg(lin).arg("-s").args(["-j2", &program]))?;
        let mut compiler = Command::new("gfortran");
        compiler.args(["-O1", "-w", "-o"]);
        compiler.arg(sources.join(format!("x{precision}blat3")));
        compiler.arg(sources.join(format!("BLAS/TESTING/{precision}blat3.f")));
        done(compiler.args(&first).arg(&blas))?;
    }
    Ok(())
}

/// Links all that is in a library, whoever asks for it.
fn linked_whole(library: &str) -> [String; 3] {
    ["-Wl,--whole-archive", library, "-Wl,--no-whole-archive"].map(String::from)
}

/// Where the compiler finds a library of the system's.
fn library(name: &str) -> Result<String, String> {
    let mut compiler = Command::new("gfortran");
    let output = compiler.arg(format!("-print-file-name={name}")).output();
    let output = output.map_err(|fault| format!("gfortran: {fault}"))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match Path::new(&path).is_absolute() {
        true => Ok(path),
        false => Err(format!("gfortran does not find {name}")),
    }
}

fn done(command: &mut Command) -> Result<(), String> {
    match steps::status(command) {
        Outcome::Passed | Outcome::PassedBut(_) => Ok(()),
        Outcome::Failed(faults) => Err(faults.join("; ")),
        Outcome::Skipped(reason) => Err(reason),
    }
}

/// What a program of LIN reads, with the families alone that are here.
fn asked_of_lin(input: &str, precision: char) -> String {
    let is_path = |line: &str| {
        let letters = line.get(..3).unwrap_or_default();
        letters.starts_with(precision)
            && letters
                .chars()
                .all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit())
    };
    let is_asked = |line: &&str| match is_path(line) {
        true => PATHS.iter().any(|path| line[1..].starts_with(path)),
        false => true,
    };
    let lines = input.lines().filter(is_asked);
    lines.map(|line| format!("{line}\n")).collect()
}

/// Runs a program with tiles of this order; what it says.
fn output_of(program: &Path, input: &str, order: &str) -> Result<String, String> {
    let name = program.display();
    let mut command = Command::new(program);
    command.env("DATAFLOW_SYMBOLS_NB", order);
    if let Some(folder) = program.parent() {
        command.current_dir(folder);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let started = command.spawn();
    let mut child = started.map_err(|fault| format!("{name}: {fault}"))?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    // Read while it writes: neither waits for the other.
    let input = input.to_owned();
    let writer =
        std::thread::spawn(move || std::io::Write::write_all(&mut stdin, input.as_bytes()));
    let output = child.wait_with_output();
    let output = output.map_err(|fault| format!("{name}: {fault}"))?;
    let written = writer
        .join()
        .map_err(|_| "the writer panicked".to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match (output.status.success(), written) {
        (true, Ok(())) => Ok(text),
        (true, Err(fault)) => Err(format!("{name} did not read all: {fault}")),
        (false, _) => {
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(5)..];
            Err(format!(
                "{name} ended with {}: {}",
                output.status,
                last.join(" | ")
            ))
        }
    }
}

/// How many tests a program has counted, and in which lines failures.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    run: u64,
    failed: u64,
    faults: Vec<String>,
}

fn judged(output: Result<String, String>, count: impl Fn(&str) -> Counted) -> Outcome {
    let text = match output {
        Ok(text) => text,
        Err(fault) => return Outcome::failed(fault),
    };
    let counted = count(&text);
    say!(
        "{} passed, {} failed",
        counted.run.saturating_sub(counted.failed),
        counted.failed
    );
    match (counted.run, counted.faults.is_empty()) {
        (_, false) => Outcome::failed(counted.faults.join("; ")),
        (0, true) => Outcome::failed("no test was counted"),
        (_, true) => Outcome::Passed,
    }
}

/// ` All tests for DGE routines passed the threshold (   3653 tests run)`, or
/// ` DGE:     12 out of   3653 tests failed to pass the threshold`.
fn counted_by_lin(output: &str) -> Counted {
    let mut all = Counted::default();
    for line in output.lines().map(str::trim) {
        let numbers: Vec<u64> = numbers_of(line).collect();
        if line.contains("passed the threshold") {
            all.run += numbers.last().unwrap_or(&0);
        } else if line.contains("failed to pass the threshold") {
            all.faults.push(line.to_owned());
            // A number too wide for its column is written as stars.
            if let [failed, run] = numbers[..] {
                all.run += run;
                all.failed += failed;
            }
        } else if line.contains("failed the tests of the error exits")
            || line.contains("error messages recorded")
        {
            all.faults.push(line.trim_matches('*').trim().to_owned());
        }
    }
    all
}

/// ` DGEMM  PASSED THE COMPUTATIONAL TESTS ( 17496 CALLS)`; a failure tells the number of its call. Where
/// the largest ratio is over the threshold, a routine has `COMPLETED` its tests, and the line behind says
/// `BUT WITH MAXIMUM TEST RATIO   40.00 - SUSPECT`.
fn counted_by_blas(output: &str) -> Counted {
    let mut all = Counted::default();
    let mut completed = "";
    for line in output.lines().map(str::trim) {
        let said = line.trim_matches('*').trim();
        if line.contains("PASSED THE COMPUTATIONAL TESTS") {
            all.run += numbers_of(line).last().unwrap_or(0);
        } else if line.contains("COMPLETED THE COMPUTATIONAL TESTS") {
            all.run += numbers_of(line).last().unwrap_or(0);
            completed = line;
        } else if line.contains("SUSPECT") {
            // Of how many of its calls is not told.
            all.failed += 1;
            all.faults.push(format!("{completed} {said}"));
        } else if line.contains("FAIL") && !line.contains("LOGICAL FLAG") {
            // One a routine: it ends at the first call that is wrong.
            all.run += 1;
            all.failed += 1;
            all.faults.push(said.to_owned());
        }
    }
    all
}

/// The whole numbers that stand alone in a line.
fn numbers_of(line: &str) -> impl Iterator<Item = u64> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_of_lin_says_is_counted() {
        let text = " All tests for DGE routines passed the threshold (   3653 tests run)\n \
                    DPO routines passed the tests of the error exits\n DLS drivers:     12 out of   \
                    100 tests failed to pass the threshold\n *** DTR routines failed the tests of \
                    the error exits ***\n";
        let counted = counted_by_lin(text);
        assert_eq!((counted.run, counted.failed), (3753, 12));
        assert_eq!(counted.faults.len(), 2, "{counted:?}");
        assert_eq!(counted_by_lin("End of tests"), Counted::default());
        let wide =
            counted_by_lin(" DGE: ****** out of 123456 tests failed to pass the threshold\n");
        assert_eq!(wide.faults.len(), 1, "{wide:?}");
    }

    #[test]
    fn what_a_program_of_blas_says_is_counted() {
        let text = " DGEMM  PASSED THE TESTS OF ERROR-EXITS\n DGEMM  PASSED THE COMPUTATIONAL TESTS \
                    ( 17496 CALLS)\n ******* DSYRK  FAILED ON CALL NUMBER:\n";
        let counted = counted_by_blas(text);
        assert_eq!((counted.run, counted.failed), (17497, 1));
        let text = " DGEMM  COMPLETED THE COMPUTATIONAL TESTS ( 17496 CALLS)\n ******* BUT WITH \
                    MAXIMUM TEST RATIO   40.00 - SUSPECT *******\n";
        let counted = counted_by_blas(text);
        assert_eq!((counted.run, counted.failed), (17496, 1));
        let [fault] = &counted.faults[..] else {
            panic!("{counted:?}");
        };
        assert!(
            fault.contains("DGEMM") && fault.contains("40.00"),
            "{fault}"
        );
    }

    #[test]
    fn only_families_that_are_here_are_asked_for() {
        let input = "Data file\n7     Number of values of M\nDGE   11   List\nDGB    8   List\nDPO    9\n\
                     DQR\nDLS    6\n";
        let asked = "Data file\n7     Number of values of M\nDGE   11   List\nDPO    9\nDLS    6\n";
        assert_eq!(asked_of_lin(input, 'D'), asked);
    }

    #[test]
    fn debians_archives_are_told_by_their_keys_or_where_they_name_none_by_their_folder() {
        let key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
        for (archives, expected) in [
            (&*format!("deb {key} http://mirror/x bookworm main"), true),
            ("deb http://mirror/debian bookworm main\n", true),
            ("Types: deb\nURIs: http://mirror/debian\n", true),
            ("# deb http://mirror/debian bookworm main\n", false),
            ("deb http://mirror/ubuntu noble main\n", false),
            (
                "deb [signed-by=other.asc] https://other/linux/debian b c\n",
                false,
            ),
            (
                "URIs: https://other/linux/debian\nSigned-By: other.asc\n",
                false,
            ),
        ] {
            assert_eq!(is_debians(archives), expected, "{archives}");
        }
    }

    #[test]
    fn archives_are_asked_for_sources() {
        let old = "deb [signed-by=a] b c main\n# deb\n";
        assert_eq!(for_sources(old), "deb-src [signed-by=a] b c main\n# deb\n");
        let new = "Types: deb\nURIs: b\n";
        assert_eq!(for_sources(new), "Types: deb-src\nURIs: b\n");
    }
}
