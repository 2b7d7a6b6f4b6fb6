//! Parameters: the numbers in a task's text, `Gemm { m: 5, n: 3, k: 1 }`, with the words before them.
//!
//! # Law
//! Numbers in strings, fractions and numbers beyond 64 bits are none.

/// A number in a task's text.
///
/// # Examples
/// See [`shown_numbers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownNumber<'t> {
    /// The last word before it, if there is one: the parameter's name, or that of a list that it stands in.
    pub word: Option<&'t str>,
    /// Whether it is less than 0.
    pub negative: bool,
    /// How far it is from 0.
    pub size: u64,
}

/// The numbers in a task's text, less the name of its class.
///
/// # Examples
/// ```
/// use dataflow_core::trace::shown_numbers;
/// let numbers = shown_numbers("Step { x2: 4, of: \"row 7\", by: 0.5, at: -1 }", "Step");
/// let numbers: Vec<_> = numbers.map(|one| (one.word, one.negative, one.size)).collect();
/// assert_eq!(numbers, [(Some("x2"), false, 4), (Some("at"), true, 1)]);
/// ```
pub fn shown_numbers<'t>(
    shown: &'t str,
    class: &str,
) -> impl Iterator<Item = ShownNumber<'t>> + use<'t> {
    ShownNumbers {
        text: shown.strip_prefix(class).unwrap_or(shown),
        at: 0,
        word: None,
    }
}

/// Those behind a place of a text, and the last word before it.
struct ShownNumbers<'t> {
    text: &'t str,
    at: usize,
    word: Option<&'t str>,
}

impl<'t> Iterator for ShownNumbers<'t> {
    type Item = ShownNumber<'t>;

    fn next(&mut self) -> Option<ShownNumber<'t>> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            let begin = self.at;
            self.at += 1;
            match bytes[begin] {
                b'"' => self.at = after_string(bytes, self.at),
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                    self.at = after(bytes, self.at, is_of_a_word);
                    self.word = Some(&self.text[begin..self.at]);
                }
                b'0'..=b'9' => {
                    self.at = after(bytes, self.at, |byte| is_of_a_word(byte) || byte == b'.');
                    if let Ok(size) = self.text[begin..self.at].parse() {
                        return Some(ShownNumber {
                            word: self.word,
                            negative: begin > 0 && bytes[begin - 1] == b'-',
                            size,
                        });
                    }
                }
                _ => {}
            }
        }
        None
    }
}

fn is_of_a_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The first place from which on bytes are others.
fn after(bytes: &[u8], from: usize, are: impl Fn(u8) -> bool) -> usize {
    let rest = bytes[from..].iter();
    from + rest.take_while(|byte| are(**byte)).count()
}

/// The place behind a string's closing quote.
fn after_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() && bytes[at] != b'"' {
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    (at + 1).min(bytes.len())
}
