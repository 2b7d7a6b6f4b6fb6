//! Sink: text on its way to a file, in few and large pieces, numbers without allocation.

use std::io;

/// A file that is being written.
pub(crate) struct Sink<'a> {
    out: &'a mut dyn io::Write,
    buffer: Vec<u8>,
}

/// How much is gathered before it is written.
const PIECE: usize = 1 << 16;

impl<'a> Sink<'a> {
    /// Nothing yet.
    pub fn new(out: &'a mut dyn io::Write) -> Sink<'a> {
        let buffer = Vec::with_capacity(2 * PIECE);
        Sink { out, buffer }
    }

    /// A text as it is.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.buffer.extend_from_slice(text.as_bytes());
        self
    }

    /// A number in decimal digits.
    pub fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        push_digits(&mut self.buffer, number.into(), 1);
        self
    }

    /// An index or a count.
    pub fn count(&mut self, count: usize) -> &mut Self {
        self.number(count as u64)
    }

    /// Nanoseconds as microseconds, exactly: three digits after the point.
    pub fn microseconds(&mut self, time: u64) -> &mut Self {
        self.number(time / 1_000).text(".");
        push_digits(&mut self.buffer, time % 1_000, 3);
        self
    }

    /// Nanoseconds as seconds, exactly: nine digits after the point.
    pub fn seconds(&mut self, time: u64) -> &mut Self {
        self.number(time / 1_000_000_000).text(".");
        push_digits(&mut self.buffer, time % 1_000_000_000, 9);
        self
    }

    /// A text as a string of JSON, with its quotes.
    pub fn json(&mut self, text: &str) -> &mut Self {
        self.text("\"");
        for c in text.chars() {
            match c {
                '"' => self.text("\\\""),
                '\\' => self.text("\\\\"),
                '\u{0}'..='\u{1f}' => self.text(&format!("\\u{:04x}", c as u32)),
                c => self.text(c.encode_utf8(&mut [0; 4])),
            };
        }
        self.text("\"")
    }

    /// The end of a record: here what was gathered may be written.
    pub fn end(&mut self, with: &str) -> io::Result<()> {
        self.text(with);
        match self.buffer.len() < PIECE {
            true => Ok(()),
            false => self.spill(),
        }
    }

    /// The end of the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.spill()?;
        self.out.flush()
    }

    fn spill(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// A number with at least so many digits.
fn push_digits(out: &mut Vec<u8>, mut number: u64, at_least: usize) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 0 {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[first.min(digits.len() - at_least)..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_times_and_strings_are_written_exactly() {
        let mut out = Vec::new();
        let mut sink = Sink::new(&mut out);
        sink.number(0_u64).text(" ").number(u64::MAX).text(" ");
        sink.microseconds(1_000_007)
            .text(" ")
            .seconds(1_000_000_007)
            .text(" ");
        sink.json("a\"b\\c\n\u{7}é");
        sink.finish().unwrap();
        let expected = "0 18446744073709551615 1000.007 1.000000007 \"a\\\"b\\\\c\\u000a\\u0007é\"";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
