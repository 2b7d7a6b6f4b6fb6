//! Trees against published lists and critical paths; the spaces proved for every tree; the matrices
//! of LAPACK's tests.

mod lapack;
mod spaces;
mod trees;
