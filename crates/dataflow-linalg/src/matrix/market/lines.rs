//! Lines and words of a file, as bytes: comments need not be UTF-8.

use super::error::Reason;
use std::io::BufRead;

/// Longer lines are refused: a file without line ends must not be read into memory whole.
const LONGEST: usize = 1 << 20;

/// The lines of a file, one at a time in one buffer.
pub(super) struct FileLines<R> {
    source: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> FileLines<R> {
    pub(super) fn new(source: R) -> Self {
        FileLines {
            source,
            line: Vec::new(),
            number: 0,
        }
    }

    /// Number of the line last read, from 1; 0 before the first.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The line last read, without its end.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    /// Reads the next line; false at the end of the file.
    pub(super) fn advance(&mut self) -> Result<bool, Reason> {
        self.line.clear();
        let mut found = false;
        loop {
            let available = match self.source.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Reason::Io(error)),
            };
            if available.is_empty() {
                break;
            }
            // Something belongs to this line, if only its end.
            self.number += u64::from(!found);
            found = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            if self.line.len() + piece.len() > LONGEST {
                return Err(Reason::LineTooLong);
            }
            self.line.extend_from_slice(piece);
            let used = piece.len() + usize::from(end.is_some());
            self.source.consume(used);
            if end.is_some() {
                break;
            }
        }
        Ok(found)
    }

    /// Reads on to a line that is neither blank nor a comment; false at the end of the file.
    pub(super) fn advance_to_content(&mut self) -> Result<bool, Reason> {
        while self.advance()? {
            match words(&self.line).next() {
                Some(word) if word[0] != b'%' => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// The words of a line: what stands between white space.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    line.split(is_space).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    #[test]
    fn lines_are_whole_whatever_the_buffer() {
        let text = b"one\r\n\n  %\xff\n\ttwo three";
        for capacity in 1..12 {
            let mut lines = FileLines::new(BufReader::with_capacity(capacity, &text[..]));
            let mut found = Vec::new();
            while lines.advance().unwrap() {
                found.push((lines.number(), lines.line().to_vec()));
            }
            let expected = [&b"one\r"[..], b"", b"  %\xff", b"\ttwo three"];
            let expected: Vec<_> = (1..).zip(expected.map(<[u8]>::to_vec)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn content_skips_comments_and_blank_lines() {
        let mut lines = FileLines::new(&b"\n %c\n\x0b\x0c\r\n1 2\n%\n"[..]);
        assert!(lines.advance_to_content().unwrap());
        assert_eq!((lines.number(), lines.line()), (4, &b"1 2"[..]));
        assert!(!lines.advance_to_content().unwrap());
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let endless = std::io::BufReader::new(std::io::repeat(b'7'));
        let refused = FileLines::new(endless).advance();
        assert!(matches!(refused, Err(Reason::LineTooLong)));
    }
}
