//! Programs of textbooks.

use dataflow_affine::Mode::{Give, New, Read, Update};
use dataflow_affine::{Affine, Program, System, Var, disjoint};

/// Name, program, and the largest parameters with which it is run.
pub fn all() -> Vec<(&'static str, Program, i64)> {
    vec![
        ("cholesky", cholesky(), 7),
        ("cholesky, left", cholesky_left(), 7),
        ("cholesky, top", cholesky_top(), 7),
        ("inverse", inverse(), 7),
        ("lu", lu(), 7),
        ("ldlt", ldlt(), 7),
        ("qr", qr(), 7),
        ("wavefront", wavefront(), 7),
        ("gauss-seidel", gauss_seidel(), 7),
        ("jacobi", jacobi(), 7),
        ("stencil, 2-d", stencil(), 4),
        ("floyd-warshall", floyd_warshall(), 6),
        ("product", product(), 5),
        ("solve", solve(), 6),
        ("given on", given_on(), 5),
    ]
}

/// Programs in which elements are written several times, by a subscript that is an outer variable plus a
/// multiple of an inner one.
pub fn strided() -> Vec<(&'static str, Program)> {
    let forth = |i: Var, j: Var| i + 2 * j;
    let back = |i: Var, j: Var| i - 2 * j;
    vec![
        ("i + 2 j", strides(forth, false, 2)),
        ("i + 2 j, j down", strides(forth, true, 2)),
        ("i - 2 j", strides(back, false, 2)),
        ("i - 2 j, j down", strides(back, true, 2)),
        ("i + j", strides(|i, j| i + j, false, 1)),
    ]
}

fn strides(written: fn(Var, Var) -> Affine, down: bool, factor: i64) -> Program {
    let mut program = Program::default();
    let (n, a) = (program.parameter("n"), program.family("A", false));
    program.each("i", 0, factor * n, |p, i| {
        let j = p.enter("j", 0.into(), n.into(), down);
        p.task("Write", &[(New, a, &[written(i, j)])]);
        p.leave();
    });
    program.each("x", 0, n, |p, x| {
        p.task("Look", &[(Read, a, &[factor * x])])
    });
    program
}

/// Nests one after another, each on a range of its own of one vector.
pub fn slabs(n_slabs: usize) -> Program {
    let mut program = Program::default();
    let x = program.family("X", true);
    let names: Vec<[String; 2]> = (0..n_slabs)
        .map(|slab| ["a", "b"].map(|end| format!("{end}{slab}")))
        .collect();
    let ends: Vec<[Var; 2]> = names
        .iter()
        .map(|ends| [0, 1].map(|end| program.parameter(&ends[end])))
        .collect();
    for (slab, [from, to]) in ends.into_iter().enumerate() {
        program.each("i", from, to, |p, i| {
            p.task(&format!("S{slab}"), &[(Update, x, &[e(i)])]);
        });
    }
    program
}

/// A nest that writes the beginning of a vector, and one that reads it everywhere but on six planes.
pub fn planes() -> Program {
    let mut program = Program::default();
    let x = program.family("X", true);
    let [m, n, p, q] = ["m", "n", "p", "q"].map(|name| program.parameter(name));
    program.each("i", 0, m, |program, i| {
        program.task("Write", &[(Update, x, &[e(i)])])
    });
    let vars = ["i", "j", "k"].map(|name| program.enter(name, 0.into(), n.into(), false));
    for var in vars {
        for plane in [p, q] {
            program.only_if(vec![at_most(var + 1, plane), at_most(plane + 1, var)]);
        }
    }
    program.task("Read", &[(Read, x, &[e(vars[0])])]);
    program
}

fn e(var: Var) -> Affine {
    var.into()
}

/// A[i] = conditions on integers: a ≤ b.
fn at_most(a: impl Into<Affine>, b: impl Into<Affine>) -> System {
    System::new([b.into() - a.into()])
}

pub fn cholesky() -> Program {
    let mut program = Program::default();
    let (nt, a) = (program.parameter("nt"), program.family("A", true));
    factor(&mut program, nt, a);
    program
}

fn factor(program: &mut Program, nt: Var, a: usize) {
    program.each("k", 0, nt, |p, k| {
        p.task("Potrf", &[(Update, a, &[e(k), e(k)])]);
        p.each("m", k + 1, nt, |p, m| {
            p.task(
                "Trsm",
                &[(Update, a, &[e(m), e(k)]), (Read, a, &[e(k), e(k)])],
            );
        });
        p.each("m", k + 1, nt, |p, m| {
            p.task(
                "Herk",
                &[(Update, a, &[e(m), e(m)]), (Read, a, &[e(m), e(k)])],
            );
            p.each("n", k + 1, m, |p, n| {
                let reads = [(Read, a, &[e(m), e(k)][..]), (Read, a, &[e(n), e(k)])];
                p.task("Gemm", &[(Update, a, &[e(m), e(n)]), reads[0], reads[1]]);
            });
        });
    });
}

/// Column by column: each takes all its updates at once.
fn cholesky_left() -> Program {
    let mut program = Program::default();
    let (nt, a) = (program.parameter("nt"), program.family("A", true));
    program.each("n", 0, nt, |p, n| {
        p.each("k", 0, n, |p, k| {
            p.task(
                "Herk",
                &[(Update, a, &[e(n), e(n)]), (Read, a, &[e(n), e(k)])],
            );
            p.each("m", n + 1, nt, |p, m| {
                let reads = [(Read, a, &[e(m), e(k)][..]), (Read, a, &[e(n), e(k)])];
                p.task("Gemm", &[(Update, a, &[e(m), e(n)]), reads[0], reads[1]]);
            });
        });
        p.task("Potrf", &[(Update, a, &[e(n), e(n)])]);
        p.each("m", n + 1, nt, |p, m| {
            p.task(
                "Trsm",
                &[(Update, a, &[e(m), e(n)]), (Read, a, &[e(n), e(n)])],
            );
        });
    });
    program
}

/// Row by row: a row is solved with all rows above it.
fn cholesky_top() -> Program {
    let mut program = Program::default();
    let (nt, a) = (program.parameter("nt"), program.family("A", true));
    program.each("m", 0, nt, |p, m| {
        p.each("n", 0, m, |p, n| {
            p.each("k", 0, n, |p, k| {
                let reads = [(Read, a, &[e(m), e(k)][..]), (Read, a, &[e(n), e(k)])];
                p.task("Gemm", &[(Update, a, &[e(m), e(n)]), reads[0], reads[1]]);
            });
            p.task(
                "Trsm",
                &[(Update, a, &[e(m), e(n)]), (Read, a, &[e(n), e(n)])],
            );
            p.task(
                "Herk",
                &[(Update, a, &[e(m), e(m)]), (Read, a, &[e(m), e(n)])],
            );
        });
        p.task("Potrf", &[(Update, a, &[e(m), e(m)])]);
    });
    program
}

/// A = L·Lᵀ, then W = L⁻¹, then Wᵀ·W, one nest after the other: paper 002's Algorithm 1.
fn inverse() -> Program {
    let mut program = Program::default();
    let (nt, a) = (program.parameter("nt"), program.family("A", true));
    factor(&mut program, nt, a);
    program.each("k", 0, nt, |p, k| {
        p.each("m", k + 1, nt, |p, m| {
            p.task(
                "TrsmRight",
                &[(Update, a, &[e(m), e(k)]), (Read, a, &[e(k), e(k)])],
            );
        });
        p.each("m", k + 1, nt, |p, m| {
            p.each("n", 0, k, |p, n| {
                let reads = [(Read, a, &[e(m), e(k)][..]), (Read, a, &[e(k), e(n)])];
                p.task("Invert", &[(Update, a, &[e(m), e(n)]), reads[0], reads[1]]);
            });
        });
        p.each("n", 0, k, |p, n| {
            p.task(
                "TrsmLeft",
                &[(Update, a, &[e(k), e(n)]), (Read, a, &[e(k), e(k)])],
            );
        });
        p.task("Trtri", &[(Update, a, &[e(k), e(k)])]);
    });
    program.each("k", 0, nt, |p, k| {
        p.each("n", 0, k, |p, n| {
            p.task(
                "Square",
                &[(Update, a, &[e(n), e(n)]), (Read, a, &[e(k), e(n)])],
            );
            p.each("m", n + 1, k, |p, m| {
                let reads = [(Read, a, &[e(k), e(m)][..]), (Read, a, &[e(k), e(n)])];
                p.task(
                    "Multiply",
                    &[(Update, a, &[e(m), e(n)]), reads[0], reads[1]],
                );
            });
        });
        p.each("n", 0, k, |p, n| {
            p.task(
                "Trmm",
                &[(Update, a, &[e(k), e(n)]), (Read, a, &[e(k), e(k)])],
            );
        });
        p.task("Lauum", &[(Update, a, &[e(k), e(k)])]);
    });
    program
}

/// The two triangles of a diagonal tile go their own ways.
fn lu() -> Program {
    let mut program = Program::default();
    let (mt, nt) = (program.parameter("mt"), program.parameter("nt"));
    let a = program.family("A", true);
    let [lower, upper] = ["Lower", "Upper"].map(|name| program.family(name, false));
    program.each("k", 0, nt, |p, k| {
        p.only_if(vec![at_most(k + 1, mt)]);
        p.task(
            "Getrf",
            &[
                (Update, a, &[e(k), e(k)]),
                (New, lower, &[e(k)]),
                (New, upper, &[e(k)]),
            ],
        );
        p.each("n", k + 1, nt, |p, n| {
            p.task(
                "Right",
                &[(Update, a, &[e(k), e(n)]), (Read, lower, &[e(k)])],
            );
        });
        p.each("m", k + 1, mt, |p, m| {
            p.task(
                "Below",
                &[(Update, a, &[e(m), e(k)]), (Read, upper, &[e(k)])],
            );
            p.each("n", k + 1, nt, |p, n| {
                let reads = [(Read, a, &[e(m), e(k)][..]), (Read, a, &[e(k), e(n)])];
                p.task("Update", &[(Update, a, &[e(m), e(n)]), reads[0], reads[1]]);
            });
        });
        p.unless();
    });
    program
}

/// A = L·D·Lᵀ, where W = L·D is kept for the updates.
fn ldlt() -> Program {
    let mut program = Program::default();
    let nt = program.parameter("nt");
    let (a, w) = (program.family("A", true), program.family("W", false));
    program.each("k", 0, nt, |p, k| {
        p.task("Factor", &[(Update, a, &[e(k), e(k)])]);
        p.each("m", k + 1, nt, |p, m| {
            let writes = [(Update, a, &[e(m), e(k)][..]), (New, w, &[e(m), e(k)])];
            p.task("Solve", &[writes[0], writes[1], (Read, a, &[e(k), e(k)])]);
            p.each("n", k + 1, m + 1, |p, n| {
                let reads = [(Read, w, &[e(m), e(k)][..]), (Read, a, &[e(n), e(k)])];
                p.task("Update", &[(Update, a, &[e(m), e(n)]), reads[0], reads[1]]);
            });
        });
    });
    program
}

/// Along a flat tree: a task changes the tile above and the one below.
fn qr() -> Program {
    let mut program = Program::default();
    let (mt, nt) = (program.parameter("mt"), program.parameter("nt"));
    let a = program.family("A", true);
    let [v, t] = ["V", "T"].map(|name| program.family(name, false));
    program.each("k", 0, nt, |p, k| {
        p.only_if(vec![at_most(k + 1, mt)]);
        p.task(
            "Geqrt",
            &[
                (Update, a, &[e(k), e(k)]),
                (New, v, &[e(k)]),
                (New, t, &[e(k), e(k)]),
            ],
        );
        p.each("n", k + 1, nt, |p, n| {
            let reads = [(Read, v, &[e(k)][..]), (Read, t, &[e(k), e(k)])];
            p.task("Gemqrt", &[(Update, a, &[e(k), e(n)]), reads[0], reads[1]]);
        });
        p.each("m", k + 1, mt, |p, m| {
            let both = [(Update, a, &[e(k), e(k)][..]), (Update, a, &[e(m), e(k)])];
            p.task("Tpqrt", &[both[0], both[1], (New, t, &[e(m), e(k)])]);
            p.each("n", k + 1, nt, |p, n| {
                let both = [(Update, a, &[e(k), e(n)][..]), (Update, a, &[e(m), e(n)])];
                let reads = [(Read, a, &[e(m), e(k)][..]), (Read, t, &[e(m), e(k)])];
                p.task("Tpmqrt", &[both[0], both[1], reads[0], reads[1]]);
            });
        });
        p.unless();
    });
    program
}

fn wavefront() -> Program {
    let mut program = Program::default();
    let (rows, columns) = (program.parameter("rows"), program.parameter("columns"));
    let h = program.family("H", true);
    program.each("i", 1, rows, |p, i| {
        p.each("j", 1, columns, |p, j| {
            let near = [(Read, h, &[i - 1, e(j)][..]), (Read, h, &[e(i), j - 1])];
            p.task(
                "Tile",
                &[
                    (New, h, &[e(i), e(j)]),
                    near[0],
                    near[1],
                    (Read, h, &[i - 1, j - 1]),
                ],
            );
        });
    });
    program
}

fn gauss_seidel() -> Program {
    let mut program = Program::default();
    let (n, steps) = (program.parameter("n"), program.parameter("steps"));
    let a = program.family("A", true);
    program.each("i", 0, n, |p, i| p.task("Load", &[(Update, a, &[e(i)])]));
    program.each("t", 0, steps, |p, _| {
        p.each("i", 1, n - 1, |p, i| {
            p.task(
                "Sweep",
                &[
                    (Update, a, &[e(i)]),
                    (Read, a, &[i - 1]),
                    (Read, a, &[i + 1]),
                ],
            );
        });
    });
    program
}

fn jacobi() -> Program {
    let mut program = Program::default();
    let (n, steps) = (program.parameter("n"), program.parameter("steps"));
    let [a, b] = ["A", "B"].map(|name| program.family(name, true));
    program.each("i", 0, n, |p, i| {
        p.task("Load", &[(Update, a, &[e(i)]), (Update, b, &[e(i)])]);
    });
    program.each("t", 0, steps, |p, _| {
        for (name, from, to) in [("Even", a, b), ("Odd", b, a)] {
            p.each("i", 1, n - 1, |p, i| {
                let near = [
                    (Read, from, &[i - 1][..]),
                    (Read, from, &[i + 0]),
                    (Read, from, &[i + 1]),
                ];
                p.task(name, &[(Update, to, &[e(i)]), near[0], near[1], near[2]]);
            });
        }
    });
    program
}

/// The five-point stencil with two arrays.
fn stencil() -> Program {
    let mut program = Program::default();
    let (n, m, steps) = (
        program.parameter("n"),
        program.parameter("m"),
        program.parameter("steps"),
    );
    let [a, b] = ["A", "B"].map(|name| program.family(name, true));
    program.each("i", 0, n, |p, i| {
        p.each("j", 0, m, |p, j| {
            p.task(
                "Load",
                &[(Update, a, &[e(i), e(j)]), (Update, b, &[e(i), e(j)])],
            );
        });
    });
    program.each("t", 0, steps, |p, _| {
        for (name, from, to) in [("There", a, b), ("Back", b, a)] {
            p.each("i", 1, n - 1, |p, i| {
                p.each("j", 1, m - 1, |p, j| {
                    let near = [
                        (Update, to, &[e(i), e(j)][..]),
                        (Read, from, &[e(i), e(j)]),
                        (Read, from, &[i - 1, e(j)]),
                        (Read, from, &[i + 1, e(j)]),
                        (Read, from, &[e(i), j - 1]),
                        (Read, from, &[e(i), j + 1]),
                    ];
                    p.task(name, &near);
                });
            });
        }
    });
    program
}

/// Blocked, with the conditions i ≠ k and j ≠ k that a textbook has.
fn floyd_warshall() -> Program {
    let mut program = Program::default();
    let (n, d) = (program.parameter("n"), program.family("D", true));
    let differ = |a: Var, b: Var| disjoint(vec![at_most(a + 1, b), at_most(b + 1, a)]).unwrap();
    program.each("k", 0, n, |p, k| {
        p.task("Diagonal", &[(Update, d, &[e(k), e(k)])]);
        p.each("j", 0, n, |p, j| {
            p.only_if(differ(j, k));
            p.task(
                "Row",
                &[(Update, d, &[e(k), e(j)]), (Read, d, &[e(k), e(k)])],
            );
            p.task(
                "Column",
                &[(Update, d, &[e(j), e(k)]), (Read, d, &[e(k), e(k)])],
            );
            p.unless();
        });
        p.each("i", 0, n, |p, i| {
            p.only_if(differ(i, k));
            p.each("j", 0, n, |p, j| {
                p.only_if(differ(j, k));
                let reads = [(Read, d, &[e(i), e(k)][..]), (Read, d, &[e(k), e(j)])];
                p.task("Rest", &[(Update, d, &[e(i), e(j)]), reads[0], reads[1]]);
                p.unless();
            });
            p.unless();
        });
    });
    program
}

fn product() -> Program {
    let mut program = Program::default();
    let [mt, nt, kt] = ["mt", "nt", "kt"].map(|name| program.parameter(name));
    let [a, b, c] = ["A", "B", "C"].map(|name| program.family(name, true));
    for (name, family, rows, columns) in [("GiveA", a, mt, kt), ("GiveB", b, kt, nt)] {
        program.each("i", 0, rows, |p, i| {
            p.each("j", 0, columns, |p, j| {
                p.task(name, &[(Give, family, &[e(i), e(j)])])
            });
        });
    }
    program.each("m", 0, mt, |p, m| {
        p.each("n", 0, nt, |p, n| {
            p.task("Zero", &[(New, c, &[e(m), e(n)])]);
            p.each("k", 0, kt, |p, k| {
                let reads = [(Read, a, &[e(m), e(k)][..]), (Read, b, &[e(k), e(n)])];
                p.task("Update", &[(Update, c, &[e(m), e(n)]), reads[0], reads[1]]);
            });
        });
    });
    program
}

/// Data that are changed or made, given on, and read: those who changed them last bring them home.
fn given_on() -> Program {
    let mut program = Program::default();
    let [n, m] = ["n", "m"].map(|name| program.parameter(name));
    let [a, b] = ["A", "B"].map(|name| program.family(name, true));
    program.each("i", 0, n, |p, i| p.task("Change", &[(Update, a, &[e(i)])]));
    program.each("i", 0, n, |p, i| p.task("Make", &[(New, b, &[e(i)])]));
    program.each("i", 0, n, |p, i| {
        p.task("Give", &[(Give, a, &[e(i)]), (Give, b, &[e(i)])]);
        p.task("Look", &[(Read, a, &[e(i)]), (Read, b, &[e(i)])]);
    });
    // Of the first m they are changed once more.
    program.each("i", 0, n, |p, i| {
        p.only_if(vec![at_most(i + 1, m)]);
        p.task("Again", &[(Update, a, &[e(i)])]);
        p.unless();
    });
    program
}

/// A factorisation with its solve: L·Lᵀ·X = B, the second triangle from its end.
fn solve() -> Program {
    let mut program = Program::default();
    let (nt, columns) = (program.parameter("nt"), program.parameter("columns"));
    let [a, b] = ["A", "B"].map(|name| program.family(name, true));
    factor(&mut program, nt, a);
    for (down, name) in [(false, "Forward"), (true, "Backward")] {
        let k = program.enter("k", 0.into(), nt.into(), down);
        program.each("n", 0, columns, |p, n| {
            let update = (Update, b, &[e(k), e(n)][..]);
            p.task(name, &[update, (Read, a, &[e(k), e(k)])]);
        });
        let (from, to) = if down {
            (Affine::from(0), e(k))
        } else {
            (k + 1, e(nt))
        };
        program.each("m", from, to, |p, m| {
            p.each("n", 0, columns, |p, n| {
                let tile = if down { [e(k), e(m)] } else { [e(m), e(k)] };
                let reads = [(Read, a, &tile[..]), (Read, b, &[e(k), e(n)])];
                let name = format!("{name}Update");
                p.task(&name, &[(Update, b, &[e(m), e(n)]), reads[0], reads[1]]);
            });
        });
        program.leave();
    }
    program
}

/// A loop whose number differs from so many parameters.
pub fn unequal(n_inequalities: usize) -> Program {
    let mut program = Program::default();
    let n = program.parameter("n");
    let data = program.family("A", true);
    let others: Vec<_> = (0..n_inequalities)
        .map(|at| program.parameter(&format!("p{at}")))
        .collect();
    program.each("i", 0, n, |program, i| {
        for &other in &others {
            let parts = [System::new([i - other - 1]), System::new([other - i - 1])];
            program.only_if(disjoint(parts.into()).unwrap());
        }
        program.task("T", &[(Update, data, &[i + 0])]);
        others.iter().for_each(|_| program.unless());
    });
    program
}
