//! Elimination lists, critical paths, and the ways of rows.

use crate::kernel::Below;
use crate::qr::elimination::RowStep;
use crate::qr::{Elimination, Kill, Reduction, Tree};
use proptest::prelude::*;

/// The eliminations of a panel as `m←q@round`, `s` after a square; rounds in which each takes one.
fn in_rounds(tree: Tree, mt: u32, panels: u32) -> Vec<String> {
    let mut free = vec![0; mt as usize];
    let panel = |list: Vec<Kill>| {
        let of = |Kill { m, pivot, below }: Kill| {
            let round = 1 + free[m as usize].max(free[pivot as usize]);
            (free[m as usize], free[pivot as usize]) = (round, round);
            let square = if below == Below::Square { "s" } else { "" };
            (round, m, format!("{m}←{pivot}{square}@{round}"))
        };
        let mut kills: Vec<_> = list.into_iter().map(of).collect();
        kills.sort();
        let texts: Vec<_> = kills.into_iter().map(|(.., text)| text).collect();
        texts.join(" ")
    };
    tree.kills(mt, panels).into_iter().map(panel).collect()
}

fn hierarchical(p: u32, a: u32, low: Reduction, high: Reduction) -> Tree {
    Tree::Hierarchical { p, a, low, high }
}

#[test]
fn eight_rows_in_three_panels_vanish_as_the_papers_say() {
    let binary = Reduction::Binary;
    for (tree, lists) in [
        (
            Tree::Flat,
            [
                "1←0s@1 2←0s@2 3←0s@3 4←0s@4 5←0s@5 6←0s@6 7←0s@7",
                "2←1s@3 3←1s@4 4←1s@5 5←1s@6 6←1s@7 7←1s@8",
                "3←2s@5 4←2s@6 5←2s@7 6←2s@8 7←2s@9",
            ],
        ),
        (
            Tree::Binary,
            [
                "1←0@1 3←2@1 5←4@1 7←6@1 2←0@2 6←4@2 4←0@3",
                "2←1@3 4←3@4 6←5@3 3←1@5 7←5@4 5←1@6",
                "3←2@6 5←4@7 7←6@5 4←2@8 6←2@9",
            ],
        ),
        (
            Tree::Greedy,
            [
                "4←0@1 5←1@1 6←2@1 7←3@1 2←0@2 3←1@2 1←0@3",
                "6←4@2 7←5@2 4←2@3 5←3@3 3←2@4 2←1@5",
                "7←6@3 6←5@4 5←4@5 4←3@6 3←2@7",
            ],
        ),
        (
            Tree::Fibonacci,
            [
                "7←3@1 6←3@2 5←2@1 4←1@1 3←1@3 2←0@2 1←0@4",
                "7←4@2 6←3@4 5←2@3 4←2@4 3←1@5 2←1@6",
                "7←4@5 6←3@6 5←3@7 4←2@7 3←2@8",
            ],
        ),
        (
            hierarchical(2, 2, binary, binary),
            [
                "2←0s@1 6←4s@1 4←0@2 3←1s@1 7←5s@1 5←1@2 1←0@3",
                "3←1s@4 7←5s@3 5←1@5 6←4s@3 4←2@4 2←1@6",
                "6←4s@5 4←2@7 7←5s@6 5←3@7 3←2@8",
            ],
        ),
    ] {
        for (found, expected) in in_rounds(tree, 8, 3).iter().zip(lists) {
            let sorted = |text: &str| {
                let mut kills: Vec<_> = text.split(' ').map(str::to_owned).collect();
                kills.sort();
                kills
            };
            assert_eq!(sorted(found), sorted(expected), "{tree}");
        }
    }
}

/// The longest way in units of nb³/3 flops: geqrt 4, gemqrt 6, TS 6 and 12, TT 2 and 6.
fn critical_path(lists: &[Vec<Kill>], mt: usize, nt: usize) -> u32 {
    let elimination = Elimination::of_lists(mt as u32, lists).unwrap();
    let mut done = vec![vec![0; nt]; mt];
    for (k, list) in lists.iter().enumerate() {
        for m in (k..mt).filter(|&m| elimination.is_triangle(k as u32, m as u32)) {
            done[m][k] += 4;
            let reflectors = done[m][k];
            done[m][k + 1..]
                .iter_mut()
                .for_each(|n| *n = reflectors.max(*n) + 6);
        }
        for kill in list {
            let (m, q) = (kill.m as usize, kill.pivot as usize);
            let (panel, update) = if kill.below == Below::Square {
                (6, 12)
            } else {
                (2, 6)
            };
            let at = done[m][k].max(done[q][k]) + panel;
            (done[m][k], done[q][k]) = (at, at);
            let later = |n: usize| at.max(done[m][n]).max(done[q][n]) + update;
            let updated: Vec<_> = (k + 1..nt).map(later).collect();
            done[m][k + 1..].copy_from_slice(&updated);
            done[q][k + 1..].copy_from_slice(&updated);
        }
    }
    done.into_iter().flatten().max().unwrap_or(0)
}

#[test]
fn critical_paths_are_those_of_another_program() {
    let triangles = |mt: u32, nt: u32| -> Vec<Vec<Kill>> {
        let mut lists = Tree::Flat.kills(mt, nt);
        let kills = lists.iter_mut().flatten();
        kills.for_each(|kill| kill.below = Below::Triangle);
        lists
    };
    let hqr = hierarchical(4, 4, Reduction::Greedy, Reduction::Binary);
    for (mt, nt, expected) in [
        (8, 3, [118, 74, 66, 56, 64, 82]),
        (32, 4, [424, 234, 134, 98, 110, 214]),
        (64, 8, [880, 490, 338, 198, 216, 466]),
        (40, 40, [1166, 856, 1456, 826, 898, 1876]),
    ] {
        let lists = |tree: Tree| tree.kills(mt, nt);
        let all = [
            lists(Tree::Flat),
            triangles(mt, nt),
            lists(Tree::Binary),
            lists(Tree::Greedy),
            lists(Tree::Fibonacci),
            lists(hqr),
        ];
        let found = all.map(|lists| critical_path(&lists, mt as usize, nt as usize));
        assert_eq!(found, expected, "{mt} × {nt}");
    }
}

pub(super) fn any_tree() -> impl Strategy<Value = Tree> {
    let reduction = || {
        let all = [
            Reduction::Flat,
            Reduction::Binary,
            Reduction::Greedy,
            Reduction::Fibonacci,
        ];
        proptest::sample::select(all.to_vec())
    };
    let hierarchical = (1u32..6, 1u32..6, reduction(), reduction())
        .prop_map(|(p, a, low, high)| hierarchical(p, a, low, high));
    let simple = [Tree::Flat, Tree::Binary, Tree::Greedy, Tree::Fibonacci];
    prop_oneof![proptest::sample::select(simple.to_vec()), hierarchical]
}

/// Any eliminations that leave triangles: each row vanishes under some row that stands.
pub(super) fn any_lists(mt: u32, panels: u32) -> impl Strategy<Value = Vec<Vec<Kill>>> {
    let choices =
        proptest::collection::vec((any::<u32>(), any::<u32>(), any::<bool>()), mt as usize);
    let of_panel = move |k: u32, choices: Vec<(u32, u32, bool)>| {
        let mut standing: Vec<u32> = (k..mt).collect();
        let mut pivots = Vec::new();
        let mut kills = Vec::new();
        for (victim, pivot, square) in choices {
            if standing.len() < 2 {
                break;
            }
            // Row k stays.
            let victim = 1 + victim as usize % (standing.len() - 1);
            let m = standing.remove(victim);
            // A square eliminates nobody.
            let squares = |q: &u32| kills.iter().any(|kill: &Kill| kill.m == *q);
            let pivot = standing[pivot as usize % standing.len()];
            debug_assert!(!squares(&pivot));
            let square = square && !pivots.contains(&m);
            pivots.push(pivot);
            let below = if square {
                Below::Square
            } else {
                Below::Triangle
            };
            kills.push(Kill { m, pivot, below });
        }
        kills
    };
    proptest::collection::vec(choices, panels as usize).prop_map(move |all| {
        (0..)
            .zip(all)
            .map(|(k, choices)| of_panel(k, choices))
            .collect()
    })
}

proptest! {
    #[test]
    fn every_row_goes_its_way_forwards_as_backwards(
        tree in any_tree(), mt in 1u32..20, panels in 1u32..20,
    ) {
        let panels = panels.min(mt);
        let table = Elimination::of_tree(tree, mt, panels);
        let mut uses = 0;
        for row in 0..mt {
            let mut way = Vec::new();
            let mut step = table.step_after(row, None);
            while let Some(next) = step {
                way.push(next);
                prop_assert!(way.len() < 1000);
                prop_assert_eq!(next == RowStep::Stay { k: row }, matches!(next, RowStep::Stay { .. }));
                step = table.step_after(row, Some(next));
            }
            let mut back = Vec::new();
            let mut step = table.step_before(row, None);
            while let Some(next) = step {
                back.push(next);
                prop_assert!(back.len() < 1000);
                step = table.step_before(row, Some(next));
            }
            back.reverse();
            prop_assert_eq!(&way, &back);
            let eliminated = way.iter().filter(|step| matches!(step, RowStep::Eliminate { .. }));
            uses += eliminated.count() as u32;
        }
        // Each row below the diagonal vanishes once a panel, and two rows take part.
        let vanish: u32 = (0..panels).map(|k| mt - 1 - k).sum();
        prop_assert_eq!(uses, 2 * vanish);
        prop_assert_eq!(tree.to_string().parse(), Ok(tree));
    }
}

#[test]
fn lists_that_leave_no_triangle_are_refused_with_the_rows() {
    let (square, triangle) = (Below::Square, Below::Triangle);
    let kill = |m, pivot, below| Kill { m, pivot, below };
    for (list, why) in [
        (vec![kill(1, 0, square)], "row 2 does not vanish"),
        (
            vec![kill(1, 1, square)],
            "row 1 cannot vanish under row 1, one of them is not there",
        ),
        (vec![kill(0, 1, square)], "one of them is not there"),
        (vec![kill(3, 0, square)], "one of them is not there"),
        (
            vec![kill(1, 0, square), kill(1, 2, triangle)],
            "it did already",
        ),
        (
            vec![kill(1, 0, triangle), kill(2, 1, square)],
            "which did before",
        ),
        (
            vec![kill(2, 1, square), kill(1, 0, square)],
            "as a square it eliminates nobody",
        ),
    ] {
        let refused = Elimination::of_lists(3, &[list]).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    assert!(Elimination::of_lists(1, &[vec![], vec![]]).is_err());
}

#[test]
fn texts_that_name_no_tree_are_refused_with_what_is_allowed() {
    for text in [
        "",
        "Flat",
        "hierarchical",
        "hierarchical:0,1,flat,flat",
        "flat:1",
        "hierarchical:2,2,flat",
        "hierarchical:2,2,flat,oak",
    ] {
        let refused = text.parse::<Tree>().unwrap_err();
        assert!(
            refused.to_string().contains("must be flat, binary"),
            "{refused}"
        );
    }
}
