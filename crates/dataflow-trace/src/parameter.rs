//! Parameters: the named numbers in a task's text, `Gemm { m: 5, n: 3, k: 1 }`.
//!
//! # Law
//! No two parameters of a task have the same name: what repeats one, or has none, is told by its
//! place. What is a number [`shown_numbers`] decides.

use dataflow_core::trace::{ShownNumber, shown_numbers};
use std::collections::BTreeMap;

/// The parameters of one task at a time, and all names that were met.
#[derive(Default)]
pub(crate) struct Parameters {
    /// Index of the name, and the value.
    pub list: Vec<(usize, Value)>,
    /// All names that were met.
    pub names: Vec<String>,
    /// By place, the index of its name; no word begins with a digit.
    places: BTreeMap<usize, usize>,
}

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub negative: bool,
    pub size: u64,
}

impl Parameters {
    /// Takes those of a task from its text, less the name of its class.
    pub fn read(&mut self, shown: &str, class: &str) {
        self.list.clear();
        for number in shown_numbers(shown, class) {
            let ShownNumber {
                word,
                negative,
                size,
            } = number;
            self.push(word, Value { negative, size });
        }
    }

    fn push(&mut self, word: Option<&str>, value: Value) {
        let place = self.list.len();
        let name = match word {
            Some(word) => self.name_of_word(word, place),
            None => self.name_of_place(place),
        };
        self.list.push((name, value));
    }

    fn name_of_word(&mut self, word: &str, place: usize) -> usize {
        let name = self.name(word);
        match self.list.iter().any(|(taken, _)| *taken == name) {
            true => self.name(&format!("{word}.{place}")),
            false => name,
        }
    }

    fn name_of_place(&mut self, place: usize) -> usize {
        if let Some(name) = self.places.get(&place) {
            return *name;
        }
        let name = self.name(&place.to_string());
        self.places.insert(place, name);
        name
    }

    /// The index of a name: few are known, so they are looked through.
    fn name(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_string());
            self.names.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_the_names_that_people_gave_them() {
        let mut parameters = Parameters::default();
        for (shown, expected) in [
            ("Gemm { m: 5, n: 3, k: 1 }", "m=5 n=3 k=1"),
            ("Gemm", ""),
            ("Gemm 7", "0=7"),
            ("Gemm(7, -8)", "0=7 1=-8"),
            ("Gemm { x2: 4, at: [1, 2] }", "x2=4 at=1 at.2=2"),
            ("Gemm { of: \"a 5 \\\" 6\", w: 1.5, k: 9 }", "k=9"),
            ("Gemm 99999999999999999999", ""),
            ("Gemm \"", ""),
            ("Gemm \"é \\", ""),
        ] {
            parameters.read(shown, "Gemm");
            let read = parameters.list.iter().map(|(name, value)| {
                let sign = if value.negative { "-" } else { "" };
                format!("{}={sign}{}", parameters.names[*name], value.size)
            });
            assert_eq!(read.collect::<Vec<_>>().join(" "), expected, "{shown}");
        }
    }
}
