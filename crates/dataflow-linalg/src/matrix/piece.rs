//! What flows in the check of a factor: tiles, what is left of them, and sums of moduli.

use super::norm::Sums;
use super::tile::Tile;
use crate::scalar::Scalar;
use dataflow_core::data::{Datum, Version};
use dataflow_core::port::{self, Head, Wire};
use std::borrow::Cow;

/// What flows in a check.
#[derive(Clone, Debug)]
pub enum Piece<T: Scalar> {
    /// A tile of L.
    Tile(Version<Tile<T>>),
    /// What is left of a tile of A, column-major without gaps, and the sums of the tile.
    Rest(Vec<T>, Sums),
    /// Sums of moduli of A, and of what is left of it.
    Sums(Sums, Sums),
}

impl<T: Scalar> Datum for Piece<T> {
    fn bytes(&self) -> usize {
        match self {
            Piece::Tile(tile) => tile.bytes(),
            Piece::Rest(rest, _) => size_of_val(&rest[..]),
            Piece::Sums(..) => Wire::size(self),
        }
    }

    fn numa_node(&self) -> Option<usize> {
        match self {
            Piece::Tile(tile) => tile.numa_node(),
            Piece::Rest(..) | Piece::Sums(..) => None,
        }
    }
}

const TILE: u8 = 0;
const SUMS: u8 = 1;

/// A tile as it travels alone, or sums. What is left of a tile never leaves its rank.
///
/// The head of sums: how many columns and rows a tile has, 8 bytes each, little endian. Their body:
/// columns and rows of A, then of what is left.
impl<T: Scalar> Wire for Piece<T> {
    fn head(&self) -> Head {
        let mut head = Head::new();
        match self {
            Piece::Tile(tile) => {
                head.push(TILE);
                head.extend(tile.head());
            }
            Piece::Rest(_, sums) | Piece::Sums(sums, _) => {
                head.push(SUMS);
                for length in [sums.columns.len(), sums.rows.len()] {
                    head.extend_from_slice(&(length as u64).to_le_bytes());
                }
            }
        }
        head
    }

    fn size(&self) -> usize {
        match self {
            Piece::Tile(tile) => tile.size(),
            Piece::Rest(_, sums) | Piece::Sums(sums, _) => {
                2 * (sums.columns.len() + sums.rows.len()) * size_of::<f64>()
            }
        }
    }

    fn body(&self) -> Cow<'_, [u8]> {
        let (original, difference) = match self {
            Piece::Tile(tile) => return tile.body(),
            Piece::Rest(_, sums) => (sums, sums),
            Piece::Sums(original, difference) => (original, difference),
        };
        let lists = [original, difference].map(|sums| [&sums.columns, &sums.rows]);
        let bytes = lists.iter().flatten();
        Cow::Owned(
            bytes
                .flat_map(|list| bytemuck::cast_slice(list))
                .copied()
                .collect(),
        )
    }

    fn unpack(head: &[u8], body: Box<dyn port::Block>) -> Result<Self, String> {
        match head.split_first() {
            Some((&TILE, head)) => {
                let tile = Tile::unpack(head, body)?;
                Ok(Piece::Tile(Version::new(tile)))
            }
            Some((&SUMS, head)) => {
                let wrong = || format!("sums with a head of {} bytes (must be 16)", head.len());
                let lengths: [u8; 16] = head.try_into().map_err(|_| wrong())?;
                unpack_sums(u128::from_le_bytes(lengths), body.bytes())
            }
            _ => Err(format!("a check's datum with the head {head:?}")),
        }
    }
}

fn unpack_sums<T: Scalar>(lengths: u128, body: &[u8]) -> Result<Piece<T>, String> {
    let (columns, rows) = (lengths as u64, (lengths >> 64) as u64);
    if 16 * (u128::from(columns) + u128::from(rows)) != body.len() as u128 {
        let bytes = body.len();
        return Err(format!(
            "sums of a {rows} × {columns} tile in {bytes} bytes"
        ));
    }
    let mut numbers = body.chunks_exact(size_of::<f64>());
    let mut list = |length: u64| {
        let numbers = numbers.by_ref().take(length as usize);
        numbers.map(bytemuck::pod_read_unaligned).collect()
    };
    let mut sums = || Sums {
        columns: list(columns),
        rows: list(rows),
    };
    Ok(Piece::Sums(sums(), sums()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow_core::port::{Heap, Memory};

    #[test]
    fn pieces_arrive_as_they_left() {
        let sums = |first| Sums {
            columns: vec![first, 1.0],
            rows: vec![2.0, f64::NAN, first],
        };
        let sent: Piece<f32> = Piece::Sums(sums(5.0), sums(7.0));
        let mut block = Heap.allocate(Wire::size(&sent));
        block.bytes_mut().copy_from_slice(&sent.body());
        let came = Piece::<f32>::unpack(&sent.head(), block).unwrap();
        assert_eq!(format!("{came:?}"), format!("{sent:?}"));
        for (head, bytes) in [(&[][..], 0), (&[SUMS; 17], 8), (&[SUMS, 0], 0), (&[9], 0)] {
            assert!(Piece::<f32>::unpack(head, Heap.allocate(bytes)).is_err());
        }
    }
}
