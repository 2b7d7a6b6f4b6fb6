//! Protobuf: the three forms of fields that Perfetto's messages need.

/// A message that is being encoded.
#[derive(Default)]
pub(crate) struct Encoded {
    pub bytes: Vec<u8>,
}

impl Encoded {
    /// An empty message in the same memory.
    pub fn clear(&mut self) -> &mut Self {
        self.bytes.clear();
        self
    }

    /// An unsigned number, a bool, an enum; a negative number as its two's complement.
    #[inline]
    pub fn number(&mut self, field: u32, value: u64) -> &mut Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Eight bytes, little-endian.
    pub fn fixed(&mut self, field: u32, value: u64) -> &mut Self {
        self.varint(u64::from(field) << 3 | 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A text.
    pub fn text(&mut self, field: u32, text: &str) -> &mut Self {
        self.delimited(field, text.as_bytes())
    }

    /// A message within this one, which `say` writes in its place.
    #[inline]
    pub fn within(&mut self, field: u32, say: impl FnOnce(&mut Self)) -> &mut Self {
        self.varint(u64::from(field) << 3 | 2);
        let place = self.bytes.len();
        self.bytes.push(0);
        say(self);
        let length = self.bytes.len() - place - 1;
        match length < 0x80 {
            true => self.bytes[place] = length as u8,
            false => self.lengthen(place, length),
        }
        self
    }

    /// A length of more than a byte, which moves what it is the length of.
    fn lengthen(&mut self, place: usize, length: usize) {
        let mut long = Encoded::default();
        long.varint(length as u64);
        self.bytes.splice(place..=place, long.bytes);
    }

    /// A message within this one that stands elsewhere.
    pub fn nested(&mut self, field: u32, inner: &Encoded) -> &mut Self {
        self.delimited(field, &inner.bytes)
    }

    fn delimited(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}
