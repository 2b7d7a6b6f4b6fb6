//! Trees against published lists and critical paths; the spaces proved for every tree; solutions.

mod solutions;
mod spaces;
mod trees;
