//! Numbers, strings and lists as bytes, little endian.
//!
//! # Law
//! Reading never panics and never allocates more than it was given: what is missing or absurd is a
//! [`Malformed`].

use dataflow_core::words::counted;
use std::fmt;

/// What was wrong with bytes that came from another rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub(crate) String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// Appends to a packet.
pub(crate) trait PacketWrite {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn i64(&mut self, value: i64);
    /// A length, then so many bytes.
    fn counted(&mut self, bytes: &[u8]);
    /// A length, then the words.
    fn words(&mut self, words: &[u32]);
}

impl PacketWrite for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn i64(&mut self, value: i64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn counted(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }

    fn words(&mut self, words: &[u32]) {
        self.u32(words.len() as u32);
        words.iter().for_each(|&word| self.u32(word));
    }
}

/// Reads from the front.
pub(crate) struct PacketReader<'a>(pub &'a [u8]);

impl<'a> PacketReader<'a> {
    #[inline]
    pub fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8], Malformed> {
        let Some((taken, rest)) = self.0.split_at_checked(n) else {
            return Err(self.too_short(n, what));
        };
        self.0 = rest;
        Ok(taken)
    }

    #[cold]
    fn too_short(&self, n: usize, what: &str) -> Malformed {
        let (takes, left) = (counted(n, "byte"), self.0.len());
        Malformed(format!("{what} takes {takes}, and {left} are left"))
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    pub fn u8(&mut self, what: &str) -> Result<u8, Malformed> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    pub fn u16(&mut self, what: &str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_le_bytes)
    }

    pub fn i64(&mut self, what: &str) -> Result<i64, Malformed> {
        self.array(what).map(i64::from_le_bytes)
    }

    pub fn counted(&mut self, what: &str) -> Result<&'a [u8], Malformed> {
        let n = self.u32(what)? as usize;
        self.take(n, what)
    }

    pub fn string(&mut self, what: &str) -> Result<String, Malformed> {
        let bytes = self.counted(what)?;
        let text = str::from_utf8(bytes);
        text.map(str::to_string)
            .map_err(|_| Malformed(format!("{what} is not UTF-8")))
    }

    pub fn words<C: FromIterator<u32>>(&mut self, what: &str) -> Result<C, Malformed> {
        let n = self.u32(what)? as usize;
        let bytes = self.take(n.saturating_mul(4), what)?;
        let word = |four: &[u8]| u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        Ok(bytes.chunks_exact(4).map(word).collect())
    }

    pub fn bool(&mut self, what: &str) -> Result<bool, Malformed> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Malformed(format!("{what} is {other} (0 or 1 is allowed)"))),
        }
    }

    /// Nothing must be left.
    pub fn end(self, what: &str) -> Result<(), Malformed> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(Malformed(format!("1 byte follows the end of {what}"))),
            n => Err(Malformed(format!("{n} bytes follow the end of {what}"))),
        }
    }
}
