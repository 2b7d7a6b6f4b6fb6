//! Products of the columns of a tall matrix with each other: what a Gram matrix is made of.
//!
//! Columns are in f64, whatever the matrix holds.
//!
//! # Elsewhere
//! What is made of them, and when they are not good enough: [`qr`](crate::qr).

mod columns;
mod rows;
mod soon;

pub(crate) use columns::{PANEL, add_products, square};
pub(crate) use rows::{RowsView, add_products_of_rows, suits_rows};

/// Where the product of columns i ≤ j of so many stands among the sums.
pub(crate) fn place(i: usize, j: usize, count: usize) -> usize {
    i * count - i * i.saturating_sub(1) / 2 + (j - i)
}
