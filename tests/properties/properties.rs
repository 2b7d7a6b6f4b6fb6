//! Properties of the whole library: what holds for every graph and for every matrix.

mod factored;
mod graphs;
mod small;
