//! Trees against published lists and critical paths; the spaces proved for every tree.

mod spaces;
mod trees;
