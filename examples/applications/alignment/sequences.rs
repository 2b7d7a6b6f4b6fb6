//! Two sequences, from a file or at random.

use chacha20::ChaCha8Rng;
use common::cli::Failure;
use dataflow::core::words::counted;
use needletail::parse_fastx_reader;
use needletail::parser::Format;
use rand::{RngExt, SeedableRng};
use std::path::Path;

/// The two records of a FASTA file, in capital letters.
///
/// # Errors
/// If the file cannot be read, is malformed, has not two records, or one of them is empty or has
/// symbols other than capital letters.
pub fn read_fasta(path: &Path) -> Result<[Vec<u8>; 2], Failure> {
    let malformed = |text: String| Failure::malformed_input(format!("{}: {text}", path.display()));
    let unread = |error| Failure::input_unreadable(path, error);
    let bytes = std::fs::read(path).map_err(unread)?;
    // Editors of Windows put a byte order mark before everything else.
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
    let wrong = |n: usize| malformed(format!("holds {}, must hold 2", counted(n, "record")));
    if bytes.trim_ascii().is_empty() {
        return Err(wrong(0));
    }
    if let Some(begin) = bytes.first().filter(|begin| !b">@".contains(begin)) {
        let begin = begin.escape_ascii();
        return Err(malformed(format!(
            "begins with '{begin}', must begin with '>'"
        )));
    }
    let mut reader = parse_fastx_reader(bytes).map_err(|error| malformed(error.to_string()))?;
    let mut sequences = Vec::new();
    while let Some(record) = reader.next() {
        let record = record.map_err(|error| malformed(error.to_string()))?;
        let number = sequences.len() + 1;
        if record.format() != Format::Fasta {
            return Err(malformed("is FASTQ, must be FASTA".into()));
        }
        let sequence = record.seq().into_owned();
        if sequence.is_empty() {
            return Err(malformed(format!("record {number} is empty")));
        }
        if let Some(at) = sequence
            .iter()
            .position(|symbol| !symbol.is_ascii_uppercase())
        {
            let symbol = sequence[at].escape_ascii();
            let text = format!(
                "symbol {} of record {number} is '{symbol}', must be a capital letter",
                at + 1
            );
            return Err(malformed(text));
        }
        sequences.push(sequence);
    }
    let n = sequences.len();
    sequences.try_into().map_err(|_| wrong(n))
}

/// A random sequence of `n` nucleotides and a relative of it: one symbol in ten replaced, and now
/// and then some symbols lost or gained.
pub fn related(n: usize, seed: u64) -> [Vec<u8>; 2] {
    let [mut symbols, mut random] = [0, 1].map(|stream| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        random
    });
    let mut nucleotide = || b"ACGT"[symbols.random_range(0..4)];
    let first: Vec<u8> = (0..n).map(|_| nucleotide()).collect();
    let mut second = Vec::with_capacity(n);
    let mut rest = first.iter();
    while let Some(&symbol) = rest.next() {
        match random.random_range(0..1000) {
            0..15 => rest = rest.as_slice()[rest.len().min(random.random_range(0..8))..].iter(),
            15..30 => second.extend((0..random.random_range(1..9)).map(|_| nucleotide())),
            30..130 => second.push(nucleotide()),
            _ => second.push(symbol),
        }
    }
    [first, second]
}
