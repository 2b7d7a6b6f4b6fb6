//! Weights: who the neighbours of a node are, and with which weights their values make derivatives.
//!
//! Radial basis functions are interpolated exactly on each stencil, constants too; the weights of a
//! derivative follow from one small dense system a node.
//!
//! # Source
//! Fornberg, Lehto, *Stabilization of RBF-generated finite difference methods for convective PDEs*, J.
//! Comput. Phys. 230 (2011); Flyer, Lehto, Blaise, Wright, St-Cyr, *A guide to RBF-generated finite
//! differences for nonlinear transport*, J. Comput. Phys. 231 (2012).

use super::nodes::{Point, distance2, dot};
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::lu::partial_pivoting::{factor, solve};
use faer::{Conj, Mat, Par};
use kiddo::{ImmutableKdTree, SquaredEuclidean};
use std::num::NonZero;

/// How derivatives are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stencil {
    /// Neighbours of a node, itself among them.
    pub size: usize,
    /// ε: how flat the basis functions `exp(−ε²r²)` are.
    pub epsilon: f64,
    /// Δ to this power is the smoothing operator.
    pub power: usize,
}

/// Weights of a neighbour for ∂x, ∂y, ∂z along the sphere, and for Δᵏ.
pub type Weight = [f64; 4];

/// Finds neighbours.
pub struct Neighbours<'n> {
    nodes: &'n [Point],
    tree: ImmutableKdTree<f64, 3>,
}

/// Neighbours beyond those that are asked for, so that ties are seen.
const MORE: usize = 8;

impl<'n> Neighbours<'n> {
    /// Among these nodes.
    ///
    /// # Errors
    /// What the tree says of them.
    pub fn among(nodes: &'n [Point]) -> Result<Self, String> {
        let tree = ImmutableKdTree::new_from_slice(nodes).map_err(|error| format!("{error:?}"))?;
        Ok(Neighbours { nodes, tree })
    }

    /// The `size` nodes nearest to one, itself among them, by number. Of those that are equally far,
    /// to ten digits, the ones with smaller numbers.
    pub fn of(&self, node: usize, size: usize) -> Vec<u32> {
        let asked = NonZero::new(size + MORE).unwrap_or(NonZero::<usize>::MIN);
        let near = self.tree.query(&self.nodes[node]);
        let near = near.nearest_n::<SquaredEuclidean<f64>>(asked).execute();
        let by_distance = near.into_iter().map(|near| {
            let number = near.item;
            let distance = distance2(self.nodes[number as usize], self.nodes[node]);
            ((distance * 1e10).round() as u64, number)
        });
        let mut by_distance: Vec<_> = by_distance.collect();
        by_distance.sort_unstable();
        by_distance.truncate(size);
        let mut numbers: Vec<_> = by_distance.into_iter().map(|(_, number)| number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// The weights of a node for its neighbours: the solution of `[A 1; 1ᵀ 0]·W = B`, where
/// `A(i, j) = ϕ(|x(i) − x(j)|)` and B has the derivatives of ϕ round each neighbour, at the node.
pub fn weights(node: Point, neighbours: &[Point], stencil: &Stencil) -> Vec<Weight> {
    let n = neighbours.len();
    let e2 = stencil.epsilon * stencil.epsilon;
    let phi = |r2: f64| (-e2 * r2).exp();
    let mut a = Mat::from_fn(n + 1, n + 1, |i, j| match (i < n, j < n) {
        (true, true) => phi(distance2(neighbours[i], neighbours[j])),
        (false, false) => 0.0,
        _ => 1.0,
    });
    let mut b = Mat::from_fn(n + 1, 4, |j, which| {
        if j == n {
            return 0.0;
        }
        let (other, r2) = (neighbours[j], distance2(node, neighbours[j]));
        match which {
            // (x·(x·xⱼ) − xⱼ)·(−2ε²)·ϕ
            0..3 => (node[which] * dot(node, other) - other[which]) * (-2.0 * e2) * phi(r2),
            _ => e2.powi(stencil.power as i32) * laplacian(stencil.power, e2 * r2) * phi(r2),
        }
    });
    solve_in_place(&mut a, &mut b);
    (0..n)
        .map(|j| [0, 1, 2, 3].map(|which| b[(j, which)]))
        .collect()
}

/// Δᵏ of `exp(−s)`, over it and `ε²ᵏ`, as a polynomial in `s = ε²r²`, in two dimensions.
pub fn laplacian(power: usize, s: f64) -> f64 {
    let d = 2.0;
    let (mut before, mut last) = (1.0, 4.0 * s - 2.0 * d);
    if power == 0 {
        return before;
    }
    for j in 2..=power {
        let j = (j - 1) as f64;
        let next = 4.0 * (s - 2.0 * j - d / 2.0) * last - 8.0 * j * (2.0 * j - 2.0 + d) * before;
        (before, last) = (last, next);
    }
    last
}

/// `B ← A⁻¹·B` by elimination with row swaps, on this thread.
fn solve_in_place(a: &mut Mat<f64>, b: &mut Mat<f64>) {
    let n = a.nrows();
    let needs = [
        factor::lu_in_place_scratch::<usize, f64>(n, n, Par::Seq, Default::default()),
        solve::solve_in_place_scratch::<usize, f64>(n, b.ncols(), Par::Seq),
    ];
    let mut buffer = MemBuffer::new(StackReq::any_of(&needs));
    let stack = MemStack::new(&mut buffer);
    let [mut forward, mut backward] = [vec![0usize; n], vec![0usize; n]];
    let (_, swaps) = factor::lu_in_place(
        a.as_mut(),
        &mut forward,
        &mut backward,
        Par::Seq,
        stack,
        Default::default(),
    );
    let (a, b) = (a.as_ref(), b.as_mut());
    solve::solve_in_place_with_conj(a, a, swaps, Conj::No, b, Par::Seq, stack);
}
