//! Prepare: neighbours and weights, computed in tasks.

use super::block::Block;
use super::cases::Case;
use super::nodes::{Point, along_a_curve};
use super::pattern::{Mesh, Pattern};
use super::weights::{Neighbours, Stencil};
use common::cli::Failure;
use dataflow::Runtime;
use dataflow::core::space::Independent;
use dataflow::core::words::counted;
use std::sync::OnceLock;

/// Nodes of a task that looks for neighbours.
const CHUNK: usize = 1024;

/// Refuses fewer nodes than a stencil and the node beside it have.
pub fn expect_neighbours(n: usize, size: usize) -> Result<(), Failure> {
    if n > size {
        return Ok(());
    }
    let are = if n == 1 { "is" } else { "are" };
    let text = format!(
        "{} {are} too few for stencils of {size}",
        counted(n, "node")
    );
    Err(Failure::new("too_few_nodes", text))
}

/// Nodes in an order that keeps neighbours near, and their neighbours.
///
/// # Errors
/// If there are [fewer nodes](expect_neighbours) than a stencil takes, or two are the same.
pub fn mesh(runtime: &Runtime, nodes: Vec<Point>, stencil: &Stencil) -> Result<Mesh, Failure> {
    let (n, size) = (nodes.len(), stencil.size);
    expect_neighbours(n, size)?;
    let nodes = along_a_curve(nodes);
    if let Some(at) = nodes.windows(2).position(|pair| pair[0] == pair[1]) {
        let text = format!("two nodes lie at {:?}", nodes[at]);
        return Err(Failure::malformed_input(text));
    }
    let neighbours = Neighbours::among(&nodes).map_err(Failure::malformed_input)?;
    let chunks = each(runtime, "neighbours", n.div_ceil(CHUNK), |chunk| {
        let nodes = chunk * CHUNK..n.min((chunk + 1) * CHUNK);
        nodes
            .flat_map(|node| neighbours.of(node, size))
            .collect::<Vec<u32>>()
    })?;
    let near = chunks.concat();
    Ok(Mesh { nodes, size, near })
}

/// The rows of this rank's blocks; none of the others.
///
/// # Errors
/// The run's own.
pub fn blocks(
    runtime: &Runtime,
    mesh: &Mesh,
    pattern: &Pattern,
    case: &Case,
    stencil: &Stencil,
) -> Result<Vec<Option<Block>>, Failure> {
    let own = pattern.blocks(runtime.rank().0);
    let made = each(runtime, "weights", own.len(), |at| {
        Block::new(mesh, pattern, own.start + at as u32, case, stencil)
    })?;
    let mut made = made.into_iter();
    let blocks = (0..pattern.n_blocks()).map(|block| match own.contains(&block) {
        true => made.next(),
        false => None,
    });
    Ok(blocks.collect())
}

/// What `make` makes of the numbers below `count`, in tasks.
fn each<T: Send + Sync>(
    runtime: &Runtime,
    name: &'static str,
    count: usize,
    make: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, Failure> {
    let made: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    runtime.run(&Independent::new(name, count as u64, |at| {
        made[at as usize].get_or_init(|| make(at as usize));
        Ok(())
    }))?;
    Ok(made.into_iter().filter_map(OnceLock::into_inner).collect())
}
