//! What an alignment is worth, cell by cell.

use serde::{Deserialize, Serialize};

/// Best scores of two prefixes whose alignment ends in a pair, in a gap in the second sequence,
/// in a gap in the first: in the order in which ties are decided.
pub type Cell = [i32; 3];

/// Of what does not exist; far below any score, far above the end of the numbers.
pub const NEVER: i32 = i32::MIN / 2;

/// What each column of an alignment is worth.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(
    mut_arg("n", |n| n.help(
        "Symbols of a generated sequence [default: 1000]"
    )),
    mut_arg("nb", |nb| nb.help(
        "Rows and columns of a tile of the table [default: a 64th of the longer sequence, 64 to 1024]"
    ))
)]
pub struct Scores {
    /// Score of a pair of equal symbols
    #[arg(long = "match", value_name = "SCORE", default_value_t = 2, allow_negative_numbers = true, value_parser = score())]
    pub equal: i32,
    /// Score of a pair of different symbols
    #[arg(long = "mismatch", value_name = "SCORE", default_value_t = -1, allow_negative_numbers = true, value_parser = score())]
    pub different: i32,
    /// Score of the first symbol of a gap
    #[arg(long = "gap-open", value_name = "SCORE", default_value_t = -3, allow_negative_numbers = true, value_parser = score())]
    pub open: i32,
    /// Score of each further symbol of a gap
    #[arg(long = "gap-extend", value_name = "SCORE", default_value_t = -1, allow_negative_numbers = true, value_parser = score())]
    pub extend: i32,
}

fn score() -> clap::builder::RangedI64ValueParser<i32> {
    clap::value_parser!(i32).range(-1000..=1000)
}

impl Scores {
    /// How many symbols two sequences may have in all, so that no score comes near [`NEVER`].
    pub fn longest(&self) -> usize {
        let scores = [self.equal, self.different, self.open, self.extend];
        let largest = scores.map(i32::unsigned_abs).into_iter().fold(1, u32::max);
        (i32::MAX.unsigned_abs() / 8 / largest) as usize
    }

    /// Turns a row of cells into the next one: `symbol` of the first sequence against `columns` of
    /// the second. `row` begins one cell left of them, `before` is what it begins with afterwards.
    pub fn advance(&self, row: &mut [Cell], before: Cell, symbol: u8, columns: &[u8]) {
        let mut diagonal = std::mem::replace(&mut row[0], before);
        let mut left = before;
        for (cell, &other) in row[1..].iter_mut().zip(columns) {
            let up = *cell;
            let pair = if symbol == other {
                self.equal
            } else {
                self.different
            };
            *cell = [
                best(diagonal) + pair,
                best(self.gap_in_second(up)),
                best(self.gap_in_first(left)),
            ];
            (diagonal, left) = (up, *cell);
        }
    }

    /// The best score of two sequences, by rows and with none of the code that fills tiles.
    pub fn optimum(&self, first: &[u8], second: &[u8]) -> i32 {
        let gap = |length: usize| self.open + (length as i32 - 1) * self.extend;
        // Of the row above and, up to where we are, of this one: what ends in a pair, in a gap in the
        // second sequence, in a gap in the first.
        let mut pairs = vec![NEVER; second.len() + 1];
        let mut ups = pairs.clone();
        let mut lefts: Vec<i32> = (0..=second.len()).map(gap).collect();
        (pairs[0], lefts[0]) = (0, NEVER);
        for (i, a) in (1..).zip(first) {
            let mut corner = pairs[0].max(ups[0]);
            (pairs[0], ups[0]) = (NEVER, gap(i));
            for (j, b) in (1..).zip(second) {
                let pair = if a == b { self.equal } else { self.different };
                let from_above = pairs[j].max(lefts[j]) + self.open;
                let from_left = pairs[j - 1].max(ups[j - 1]) + self.open;
                let next = pairs[j].max(ups[j]).max(lefts[j]);
                pairs[j] = corner + pair;
                ups[j] = from_above.max(ups[j] + self.extend);
                lefts[j] = from_left.max(lefts[j - 1] + self.extend);
                corner = next;
            }
        }
        let last = second.len();
        pairs[last].max(ups[last]).max(lefts[last])
    }

    /// Scores with one more gap in the second sequence, by what the alignment ended in before.
    pub fn gap_in_second(&self, [pair, second, first]: Cell) -> Cell {
        [pair + self.open, second + self.extend, first + self.open]
    }

    /// The same for a gap in the first.
    pub fn gap_in_first(&self, [pair, second, first]: Cell) -> Cell {
        [pair + self.open, second + self.open, first + self.extend]
    }

    /// A cell of the first column: `length` symbols of the first sequence against nothing.
    pub fn first_column(&self, length: usize) -> Cell {
        match length {
            0 => [0, NEVER, NEVER],
            _ => [NEVER, self.open + (length - 1) as i32 * self.extend, NEVER],
        }
    }

    /// A cell of the first row.
    pub fn first_row(&self, length: usize) -> Cell {
        let [pair, second, first] = self.first_column(length);
        [pair, first, second]
    }
}

/// The best score of two prefixes, whatever their alignment ends in.
pub fn best([pair, second, first]: Cell) -> i32 {
    pair.max(second).max(first)
}

/// What the last column of an alignment is: of the best endings of a cell the first.
pub fn ending(cell: Cell) -> Column {
    let score = best(cell);
    if cell[0] == score {
        Column::Pair
    } else if cell[1] == score {
        Column::GapInSecond
    } else {
        Column::GapInFirst
    }
}

/// One column of an alignment; the order is that of a [`Cell`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Column {
    /// A symbol of each.
    #[default]
    Pair,
    /// A symbol of the first sequence only.
    GapInSecond,
    /// A symbol of the second sequence only.
    GapInFirst,
}
