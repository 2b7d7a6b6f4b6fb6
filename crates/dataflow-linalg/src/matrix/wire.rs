//! Wire: a tile as it travels between ranks.
//!
//! The head holds precision, part, shape and format. The payload of a whole tile is the storage as
//! it lies, so that it is sent from where it is and becomes the storage of the receiver. Of a tile
//! of which only a [`Part`] counts that part travels, column by column; the receiver adds the ones
//! and zeros that belong to it.
//!
//! | head | bytes |
//! |---|---|
//! | precision: position in [`Precision::ALL`] | 1 |
//! | part: position in whole, lower, unit lower, upper, blocks of upper | 1 |
//! | rows, columns, order of sub-tiles (0: column-major; with the highest bit, of cut columns), little endian | 8 each |

use super::tile::{Format, Part, Tile, TileLayout};
use crate::scalar::{Precision, Scalar};
use dataflow_core::port::{Block, Head, Heap, Memory, Wire};
use std::borrow::Cow;
use std::sync::Arc;

const HEAD: usize = 26;
/// Marks the order of columns that are cut, which no order of sub-tiles reaches.
const CUT: u64 = 1 << 63;
const PARTS: [Part; 5] = [
    Part::Whole,
    Part::Lower,
    Part::UnitLower,
    Part::Upper,
    Part::UpperBlocks,
];

impl<T: Scalar> Wire for Tile<T> {
    fn head(&self) -> Head {
        let precision = Precision::ALL.iter().position(|&each| each == T::PRECISION);
        let order = match self.format() {
            Format::ColumnMajor => 0,
            Format::SubTiled { order } => order as u64,
            Format::CutColumns { order } => order as u64 | CUT,
        };
        let mut head = Head::new();
        head.push(precision.unwrap_or(usize::MAX) as u8);
        let part = PARTS.iter().position(|&each| each == self.part());
        head.push(part.unwrap_or(usize::MAX) as u8);
        for extent in [self.rows() as u64, self.cols() as u64, order] {
            head.extend_from_slice(&extent.to_le_bytes());
        }
        head
    }

    fn size(&self) -> usize {
        self.layout().n_elements(self.part()) * size_of::<T>()
    }

    fn body(&self) -> Cow<'_, [u8]> {
        if self.part() == Part::Whole {
            return Cow::Borrowed(bytemuck::cast_slice(self.as_slice()));
        }
        let elements = self.as_slice();
        let mut packed: Vec<u8> = Vec::with_capacity(self.size());
        for piece in self.layout().pieces(self.part()) {
            packed.extend_from_slice(bytemuck::cast_slice(&elements[piece]));
        }
        Cow::Owned(packed)
    }

    fn unpack(head: &[u8], body: Box<dyn Block>) -> Result<Self, String> {
        let (part, layout) = read_head::<T>(head)?;
        let TileLayout { rows, cols, format } = layout;
        let bytes = body.bytes().len();
        let is_likely = part == Part::Whole || {
            let (rows, cols) = (rows.max(1) as u128, cols.max(1) as u128);
            rows * cols * size_of::<T>() as u128 <= most_around(bytes)
        };
        let expected = || layout.n_elements(part).checked_mul(size_of::<T>());
        if !is_likely || expected() != Some(bytes) {
            return Err(format!(
                "a {rows} × {cols} tile of {} in {bytes} bytes",
                T::PRECISION
            ));
        }
        let memory: Arc<dyn Memory> = Arc::new(Heap);
        if part == Part::Whole {
            return Ok(Tile::from_block(layout, body, memory));
        }
        let mut tile = Tile::new(rows, cols, format, &memory);
        let mut packed: &[T] = bytemuck::cast_slice(body.bytes());
        let elements = tile.as_mut_slice();
        for piece in layout.pieces(part) {
            let (column, rest) = packed.split_at(piece.len());
            elements[piece].copy_from_slice(column);
            packed = rest;
        }
        tile.complete(part);
        Ok(tile)
    }
}

/// How many bytes a tile may take of which so many came: all other elements are zeros and ones, and would
/// be made whatever their number. A triangle has half of a square, and short ones of long tiles are small.
fn most_around(bytes: usize) -> u128 {
    (64 * bytes as u128).max(256 << 20)
}

fn read_head<T: Scalar>(head: &[u8]) -> Result<(Part, TileLayout), String> {
    if head.len() != HEAD {
        return Err(format!(
            "a tile with a head of {} bytes (must be {HEAD})",
            head.len()
        ));
    }
    let precision = Precision::ALL.get(usize::from(head[0]));
    if precision != Some(&T::PRECISION) {
        let sent = precision.map_or("an unknown type".into(), Precision::to_string);
        return Err(format!(
            "a tile of {sent} where {} is expected",
            T::PRECISION
        ));
    }
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&head[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
    let format = match number(18) {
        0 => Format::ColumnMajor,
        order if order & CUT == 0 => Format::SubTiled { order: size(order) },
        order => Format::CutColumns {
            order: size(order ^ CUT).max(1),
        },
    };
    let (rows, cols) = (size(number(2)), size(number(10)));
    if rows.checked_mul(cols).is_none() {
        return Err(format!("a tile of {rows} × {cols}"));
    }
    let Some(part) = PARTS.get(usize::from(head[1])) else {
        return Err(format!("part {} of a tile (must be 0 to 4)", head[1]));
    };
    Ok((*part, TileLayout { rows, cols, format }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::{c32, c64};
    use proptest::prelude::*;

    /// Sends a tile as a courier would.
    fn sent<T: Scalar>(tile: &Tile<T>) -> Result<Tile<T>, String> {
        let (head, body) = (tile.head(), tile.body());
        assert_eq!(body.len(), tile.size());
        let mut block = Heap.allocate(body.len());
        block.bytes_mut().copy_from_slice(&body);
        Tile::unpack(&head, block)
    }

    fn arrives<T: Scalar>(
        rows: usize,
        cols: usize,
        format: Format,
        entry: impl Fn(usize, usize) -> T,
    ) {
        let heap: Arc<dyn Memory> = Arc::new(Heap);
        let mut tile = Tile::from_fn(rows, cols, format, &heap, &entry);
        let whole = sent(&tile).unwrap();
        assert_eq!((&whole, whole.format()), (&tile, format));
        for part in PARTS {
            let counts = |i: usize, j: usize| match part {
                Part::Whole => true,
                Part::Lower => i >= j,
                Part::UnitLower => i > j,
                Part::Upper => i <= j,
                Part::UpperBlocks => i <= j % rows,
            };
            let right = |i: usize, j: usize| match counts(i, j) {
                true => entry(i, j),
                false if i == j => T::one(),
                false => T::zero(),
            };
            let right = Tile::from_fn(rows, cols, format, &heap, right);
            tile.set_part(part);
            let came = sent(&tile).unwrap();
            assert_eq!((came.part(), &came), (part, &right));
            let copy = tile.copy_of(part);
            assert_eq!((copy.part(), &copy), (part, &right));
            let all = (0..cols).flat_map(|j| (0..rows).map(move |i| (i, j)));
            let n_elements = all.filter(|&(i, j)| counts(i, j)).count();
            assert_eq!(tile.size(), n_elements * size_of::<T>());
        }
        tile.as_mut_slice();
        assert_eq!(
            tile.part(),
            Part::Whole,
            "what is written counts as a whole"
        );
    }

    proptest! {
        #[test]
        fn every_tile_arrives_as_it_was_and_a_part_with_its_ones_and_zeros(
            rows in 0usize..20, cols in 0usize..20, order in 0usize..8,
        ) {
            let format = match order { 0 => Format::ColumnMajor, order => Format::SubTiled { order } };
            if order > 0 {
                arrives(rows, cols, Format::CutColumns { order }, |i, j| (1 + i * 100 + j) as f64);
            }
            arrives(rows, cols, format, |i, j| (1 + i * 100 + j) as f64);
            arrives(rows, cols, format, |i, j| (1 + i * 100 + j) as f32);
            arrives(rows, cols, format, |i, j| c64::new(i as f64, 1.0 + j as f64));
            arrives(rows, cols, format, |i, j| c32::new(i as f32, 1.0 + j as f32));
        }

        #[test]
        fn a_head_of_anything_is_an_error_or_a_tile(head: Vec<u8>, length in 0usize..100) {
            let _ = Tile::<f64>::unpack(&head, Heap.allocate(length));
        }

        #[test]
        fn a_head_of_any_extents_is_an_error_or_a_tile(
            part in 0u8..6, extents in [extent(), extent(), extent()], length in 0usize..100,
        ) {
            let _ = Tile::<f64>::unpack(&head(part, extents), Heap.allocate(8 * length));
            let _ = Tile::<f64>::unpack(&head(part, extents), Heap.allocate(0));
        }
    }

    /// Few, and numbers near powers of two.
    fn extent() -> impl Strategy<Value = u64> {
        let near = (0u32..64, -1i64..2);
        prop_oneof![
            0u64..4,
            near.prop_map(|(bits, off)| (1u64 << bits).wrapping_add_signed(off))
        ]
    }

    /// The head of a tile of f64.
    fn head(part: u8, extents: [u64; 3]) -> Vec<u8> {
        let precision = Precision::ALL
            .iter()
            .position(|&each| each == Precision::F64);
        let mut head = vec![precision.unwrap() as u8, part];
        let bytes = extents.into_iter().flat_map(u64::to_le_bytes);
        head.extend(bytes);
        head
    }

    /// What is not sent was made, 8 TB of it.
    #[test]
    fn a_part_of_a_tile_that_no_memory_holds_is_refused() {
        let part = PARTS
            .iter()
            .position(|part| *part == Part::UnitLower)
            .unwrap() as u8;
        for extents in [[1, 1 << 40, 0], [0, 1 << 60, 0], [1, 1 << 31, 4]] {
            let refused = Tile::<f64>::unpack(&head(part, extents), Heap.allocate(0));
            let text = refused.unwrap_err();
            let [rows, cols, _] = extents;
            assert!(
                text.contains(&format!("{rows} × {cols} tile of f64")),
                "{text}"
            );
        }
        let tile = Tile::<f64>::unpack(&head(part, [1, 1000, 0]), Heap.allocate(0)).unwrap();
        assert_eq!((tile.get(0, 0), tile.get(0, 999)), (1.0, 0.0));
    }

    #[test]
    fn a_triangle_has_half_the_elements_with_or_without_its_diagonal() {
        let mut tile = Tile::<f64>::from_rows([[1.0; 10]; 10]);
        for (part, elements) in PARTS.into_iter().zip([100, 55, 45, 55, 55]) {
            tile.set_part(part);
            assert_eq!(tile.size(), elements * 8, "{part:?}");
        }
    }

    #[test]
    fn a_tile_of_another_precision_or_size_is_refused_by_name() {
        let tile = Tile::from_rows([[1.0_f32, 2.0]]);
        let refused =
            |head: &[u8], bytes| Tile::<f64>::unpack(head, Heap.allocate(bytes)).unwrap_err();
        assert!(refused(&tile.head(), 8).contains("a tile of f32 where f64 is expected"));
        let tile = Tile::from_rows([[1.0_f64, 2.0]]);
        assert!(refused(&tile.head(), 8).contains("1 × 2 tile of f64 in 8 bytes"));
        assert!(refused(&[1, 2], 8).contains("2 bytes (must be 26)"));
    }
}
