//! Trees: under which row of tiles each row vanishes, panel by panel.
//!
//! # Law
//! In panel k, row k stays and every row below it is eliminated once, by a row above it that still
//! stands. A row that eliminates others was made a triangle before ([`geqrt`](crate::kernel::geqrt));
//! one that is eliminated as a square was not. Rows meet the panels in order, so that a list of
//! eliminations for each panel is all that there is to say.
//!
//! # Source
//! Elimination lists: Dongarra, Faverge, Hérault, Jacquelin, Langou, Robert, *Hierarchical QR
//! factorization algorithms for multi-core clusters*, Parallel Computing 39 (2013). Greedy and
//! Fibonacci trees: Bouwmeester, Jacquelin, Langou, Robert, *Tiled QR factorization algorithms*,
//! SC 2011.

use crate::kernel::Below;
use std::fmt;
use std::str::FromStr;

/// A rule for the eliminations of all panels: flat for few cores, greedy or hierarchical for tall
/// matrices on many, hierarchical with the P of the grid between ranks.
///
/// # Examples
/// ```
/// use dataflow_linalg::qr::{Reduction, Tree};
/// let tree = Tree::Hierarchical { p: 2, a: 4, low: Reduction::Greedy, high: Reduction::Binary };
/// assert_eq!(tree.to_string(), "hierarchical:2,4,greedy,binary");
/// assert_eq!("hierarchical:2,4,greedy,binary".parse(), Ok(tree));
/// assert_eq!("flat".parse(), Ok(Tree::Flat));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tree {
    /// Row k eliminates all others, top down, as squares: least work, a chain down each panel.
    #[default]
    Flat,
    /// Neighbours in pairs, then pairs of pairs.
    Binary,
    /// In each round every panel eliminates the lower half of the rows that it can have.
    Greedy,
    /// Groups of 1, 2, 3, … rows, each row under the one as far above as its group has rows.
    Fibonacci,
    /// In three levels. Rows that are equal modulo `p` form a set, in which every `a`-th row
    /// eliminates those between as squares; these heads are reduced to one for each set, and the
    /// `p` tops to row k.
    Hierarchical {
        /// Number of sets; P of the grid keeps all but the last level on one rank.
        p: u32,
        /// Rows from one head to the next.
        a: u32,
        /// How the heads of a set are reduced.
        low: Reduction,
        /// How the tops are reduced.
        high: Reduction,
    },
}

/// How a list of triangles becomes one.
///
/// # Examples
/// See [`Tree`](Tree#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    /// The first eliminates the others, one after the other.
    Flat,
    /// Neighbours in pairs, then pairs of pairs.
    Binary,
    /// The upper half eliminates the lower half, again and again.
    Greedy,
    /// Groups of 1, 2, 3, … rows, each row under the one as far above as its group has rows.
    Fibonacci,
}

/// Row `m` vanishes under row `pivot`.
///
/// # Examples
/// Four rows of tiles in pairs, then the pairs:
/// ```
/// use dataflow_linalg::qr::Tree;
/// let panel = &Tree::Binary.kills(4, 1)[0];
/// let rows: Vec<(u32, u32)> = panel.iter().map(|kill| (kill.m, kill.pivot)).collect();
/// assert_eq!(rows, [(1, 0), (3, 2), (2, 0)]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kill {
    /// The row of tiles that is eliminated.
    pub m: u32,
    /// The row of tiles under which it is.
    pub pivot: u32,
    /// Whether it is a square or was made a triangle before.
    pub below: Below,
}

impl Tree {
    /// The eliminations of `panels` panels of `mt` rows of tiles, in an order that is possible.
    pub fn kills(self, mt: u32, panels: u32) -> Vec<Vec<Kill>> {
        match self {
            Tree::Flat => {
                let squares = |k: u32| (k + 1..mt).map(move |m| kill(m, k, Below::Square));
                (0..panels).map(|k| squares(k).collect()).collect()
            }
            Tree::Binary => reduced(Reduction::Binary, mt, panels),
            Tree::Fibonacci => reduced(Reduction::Fibonacci, mt, panels),
            Tree::Greedy => greedy(mt, panels),
            Tree::Hierarchical { p, a, low, high } => (0..panels)
                .map(|k| hierarchical(k, mt, (p.max(1), a.max(1)), low, high))
                .collect(),
        }
    }
}

fn kill(m: u32, pivot: u32, below: Below) -> Kill {
    Kill { m, pivot, below }
}

/// All rows of a panel at once.
fn reduced(by: Reduction, mt: u32, panels: u32) -> Vec<Vec<Kill>> {
    let rows = |k: u32| (k..mt).collect::<Vec<_>>();
    (0..panels).map(|k| by.kills(&rows(k))).collect()
}

impl Reduction {
    /// The eliminations that leave the first of some triangles.
    fn kills(self, rows: &[u32]) -> Vec<Kill> {
        let n = rows.len();
        // Pairs (victim, pivot) of positions.
        let pairs: Vec<(usize, usize)> = match self {
            Reduction::Flat => (1..n).map(|i| (i, 0)).collect(),
            Reduction::Binary => {
                let rounds = (0..usize::BITS)
                    .map(|round| 1 << round)
                    .take_while(|&d| d < n);
                let of_round = |d: usize| (d..n).step_by(2 * d).map(move |i| (i, i - d));
                rounds.flat_map(of_round).collect()
            }
            Reduction::Greedy => {
                let halves = std::iter::successors(Some(n), |alive| Some(alive - alive / 2));
                let halves = halves.take_while(|&alive| alive > 1);
                let of_round =
                    |alive: usize| (alive - alive / 2..alive).map(move |i| (i, i - alive / 2));
                halves.flat_map(of_round).collect()
            }
            Reduction::Fibonacci => {
                let groups = (1..n).flat_map(|group| std::iter::repeat_n(group, group));
                let mut pairs: Vec<_> = (1..n).zip(groups).map(|(i, up)| (i, i - up)).collect();
                // From the bottom up.
                pairs.reverse();
                pairs
            }
        };
        let pairs = pairs.into_iter();
        pairs
            .map(|(m, pivot)| kill(rows[m], rows[pivot], Below::Triangle))
            .collect()
    }
}

/// Round by round, as long as a panel can have two rows.
fn greedy(mt: u32, panels: u32) -> Vec<Vec<Kill>> {
    let mut kills = vec![Vec::new(); panels as usize];
    // Rows that stand in a panel, from the top; those that it could have from the next round on.
    let mut standing: Vec<Vec<u32>> = vec![Vec::new(); panels as usize + 1];
    if let Some(first) = standing.first_mut() {
        *first = (0..mt).collect();
    }
    loop {
        let mut eliminated = false;
        // From the last panel on: a row that vanishes in this round stands in the next one.
        for k in (0..panels as usize).rev() {
            let n = standing[k].len();
            let gone = standing[k].split_off(n - n / 2);
            let pivots = &standing[k][n - 2 * (n / 2)..];
            let pairs = gone.iter().zip(pivots);
            kills[k].extend(pairs.map(|(&m, &pivot)| kill(m, pivot, Below::Triangle)));
            eliminated |= !gone.is_empty();
            let next = &mut standing[k + 1];
            next.extend(gone);
            next.sort_unstable();
        }
        if !eliminated {
            return kills;
        }
    }
}

/// One panel of the hierarchical tree.
fn hierarchical(k: u32, mt: u32, (p, a): (u32, u32), low: Reduction, high: Reduction) -> Vec<Kill> {
    let mut kills = Vec::new();
    let tops: Vec<u32> = (k..mt.min(k.saturating_add(p))).collect();
    for &top in &tops {
        let mut heads = vec![top];
        for m in (top..mt).step_by(p as usize).skip(1) {
            match (m / p).is_multiple_of(a) {
                true => heads.push(m),
                false => kills.push(kill(m, heads[heads.len() - 1], Below::Square)),
            }
        }
        kills.extend(low.kills(&heads));
    }
    kills.extend(high.kills(&tops));
    kills
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Flat => f.pad("flat"),
            Tree::Binary => f.pad("binary"),
            Tree::Greedy => f.pad("greedy"),
            Tree::Fibonacci => f.pad("fibonacci"),
            Tree::Hierarchical { p, a, low, high } => {
                f.pad(&format!("hierarchical:{p},{a},{low},{high}"))
            }
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reduction::Flat => "flat",
            Reduction::Binary => "binary",
            Reduction::Greedy => "greedy",
            Reduction::Fibonacci => "fibonacci",
        })
    }
}

/// A text that names no tree.
///
/// # Examples
/// ```
/// use dataflow_linalg::qr::Tree;
/// let refused = "hierarchical:2,4,greedy".parse::<Tree>().unwrap_err();
/// assert_eq!(refused.0, "hierarchical:2,4,greedy");
/// let text = r#"unknown tree "hierarchical:2,4,greedy" (must be flat, binary, greedy, fibonacci or "#;
/// assert!(refused.to_string().starts_with(text));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTree(pub String);

impl fmt::Display for UnknownTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown tree {:?} (must be flat, binary, greedy, fibonacci or hierarchical:P,A,LOW,HIGH, \
             with P and A from 1 and LOW and HIGH of the first four)",
            self.0
        )
    }
}

impl std::error::Error for UnknownTree {}

impl FromStr for Tree {
    type Err = UnknownTree;

    fn from_str(text: &str) -> Result<Self, UnknownTree> {
        let unknown = || UnknownTree(text.to_owned());
        let Some((name, parameters)) = text.split_once(':') else {
            let trees = [Tree::Flat, Tree::Binary, Tree::Greedy, Tree::Fibonacci];
            let tree = trees.into_iter().find(|tree| tree.to_string() == text);
            return tree.ok_or_else(unknown);
        };
        let parameters: Vec<&str> = parameters.split(',').collect();
        let (&[p, a, low, high], "hierarchical") = (&parameters[..], name) else {
            return Err(unknown());
        };
        let count = |text: &str| text.parse().ok().filter(|&count: &u32| count > 0);
        let (p, a) = (count(p).ok_or_else(unknown)?, count(a).ok_or_else(unknown)?);
        let (low, high) = (low.parse()?, high.parse()?);
        Ok(Tree::Hierarchical { p, a, low, high })
    }
}

impl FromStr for Reduction {
    type Err = UnknownTree;

    fn from_str(text: &str) -> Result<Self, UnknownTree> {
        let all = [Self::Flat, Self::Binary, Self::Greedy, Self::Fibonacci];
        let found = all
            .into_iter()
            .find(|reduction| reduction.to_string() == text);
        found.ok_or_else(|| UnknownTree(text.to_owned()))
    }
}
