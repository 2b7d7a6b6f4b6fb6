//! More textbook programs as spaces: each is proved for all small parameters. Their statements have no
//! bodies; what is proved is the graph.

use super::{Number, numbers};
use dataflow_core::prelude::*;

/// Two square arrays of data, and up to three parameters.
struct Data {
    a: Store<Number>,
    b: Store<Number>,
    n: u32,
    m: u32,
}

/// Proves a space for all parameters up to 5, and that it has tasks.
fn prove<S: TaskSpace>(name: &str, space: impl Fn(Data) -> S) {
    let mut tasks = 0;
    for (n, m) in (0..=5).flat_map(|n| (0..=5).map(move |m| (n, m))) {
        let [a, b] = ["a", "b"].map(|name| numbers(name, vec![1; 36]));
        let space = space(Data { a, b, n, m });
        verify(&space, 1).unwrap_or_else(|fault| panic!("{name} with {n} and {m}: {fault}"));
        tasks += space.count(Rank(0));
    }
    assert!(tasks > 100, "{name} has {tasks} tasks");
}

struct Left(Data);
task_space! {
    enum LeftTask;
    impl TaskSpace for Left {
        type Datum = Number;
        let nt = self.0.n;
        data A[m, n] where n <= m && m < nt in self.0.a at m * nt + n;
        for n in 0..nt {
            for k in 0..n {
                Herk { n, k }: update A[n, n], read A[n, k];
                for m in n + 1..nt {
                    Gemm { m, n, k }: update A[m, n], read A[m, k], read A[n, k];
                }
            }
            Potrf { n }: update A[n, n];
            for m in n + 1..nt { Trsm { m, n }: update A[m, n], read A[n, n]; }
        }
    }
}

struct Top(Data);
task_space! {
    enum TopTask;
    impl TaskSpace for Top {
        type Datum = Number;
        let nt = self.0.n;
        data A[m, n] where n <= m && m < nt in self.0.a at m * nt + n;
        for m in 0..nt {
            for n in 0..m {
                for k in 0..n {
                    Gemm { m, n, k }: update A[m, n], read A[m, k], read A[n, k];
                }
                Trsm { m, n }: update A[m, n], read A[n, n];
                Herk { m, n }: update A[m, m], read A[m, n];
            }
            Potrf { m }: update A[m, m];
        }
    }
}

/// Factor, invert, multiply: three nests, one graph.
struct Inverse(Data);
task_space! {
    enum InverseTask;
    impl TaskSpace for Inverse {
        type Datum = Number;
        let nt = self.0.n;
        data A[m, n] where n <= m && m < nt in self.0.a at m * nt + n;
        for k in 0..nt {
            Potrf { k }: update A[k, k];
            for m in k + 1..nt { Trsm { m, k }: update A[m, k], read A[k, k]; }
            for m in k + 1..nt {
                Herk { m, k }: update A[m, m], read A[m, k];
                for n in k + 1..m { Gemm { m, n, k }: update A[m, n], read A[m, k], read A[n, k]; }
            }
        }
        for k in 0..nt {
            for m in k + 1..nt { TrsmRight { m, k }: update A[m, k], read A[k, k]; }
            for m in k + 1..nt {
                for n in 0..k { Invert { m, n, k }: update A[m, n], read A[m, k], read A[k, n]; }
            }
            for n in 0..k { TrsmLeft { k, n }: update A[k, n], read A[k, k]; }
            Trtri { k }: update A[k, k];
        }
        for k in 0..nt {
            for n in 0..k {
                Square { n, k }: update A[n, n], read A[k, n];
                for m in n + 1..k { Multiply { m, n, k }: update A[m, n], read A[k, m], read A[k, n]; }
            }
            for n in 0..k { Trmm { k, n }: update A[k, n], read A[k, k]; }
            Lauum { k }: update A[k, k];
        }
    }
}

struct Lu(Data);
task_space! {
    enum LuTask;
    impl TaskSpace for Lu {
        type Datum = Number;
        let mt = self.0.m;
        let nt = self.0.n;
        data A[m, n] where m < mt && n < nt in self.0.a at m * nt + n;
        data Lower[k] of "lower";
        data Upper[k] of "upper";
        for k in 0..nt {
            if k < mt {
                Getrf { k }: update A[k, k], new Lower[k], new Upper[k];
                for n in k + 1..nt { Right { n, k }: update A[k, n], read Lower[k]; }
                for m in k + 1..mt {
                    Below { m, k }: update A[m, k], read Upper[k];
                    for n in k + 1..nt { Update { m, n, k }: update A[m, n], read A[m, k], read A[k, n]; }
                }
            }
        }
    }
}

struct Qr(Data);
task_space! {
    enum QrTask;
    impl TaskSpace for Qr {
        type Datum = Number;
        let mt = self.0.m;
        let nt = self.0.n;
        data A[m, n] where m < mt && n < nt in self.0.a at m * nt + n;
        data V[k];
        data T[m, k];
        for k in 0..nt {
            if k < mt {
                Geqrt { k }: update A[k, k], new V[k], new T[k, k];
                for n in k + 1..nt { Gemqrt { k, n }: update A[k, n], read V[k], read T[k, k]; }
                for m in k + 1..mt {
                    Tpqrt { m, k }: update A[k, k], update A[m, k], new T[m, k];
                    for n in k + 1..nt {
                        Tpmqrt { m, k, n }: update A[k, n], update A[m, n], read A[m, k], read T[m, k];
                    }
                }
            }
        }
    }
}

struct Ldlt(Data);
task_space! {
    enum LdltTask;
    impl TaskSpace for Ldlt {
        type Datum = Number;
        let nt = self.0.n;
        data A[m, n] where n <= m && m < nt in self.0.a at m * nt + n;
        data W[m, k];
        for k in 0..nt {
            Factor { k }: update A[k, k];
            for m in k + 1..nt {
                Solve { m, k }: update A[m, k], new W[m, k], read A[k, k];
                for n in k + 1..=m { Update { m, n, k }: update A[m, n], read W[m, k], read A[n, k]; }
            }
        }
    }
}

struct Sweeps(Data);
task_space! {
    enum GaussSeidel;
    impl TaskSpace for Sweeps {
        type Datum = Number;
        let n = self.0.n;
        let steps = self.0.m;
        data A[i] where i < n in self.0.a at i;
        for i in 0..n { Load { i }: update A[i]; }
        for t in 0..steps {
            for i in 1..n - 1 { Sweep { t, i }: update A[i], read A[i - 1], read A[i + 1]; }
        }
    }
}

/// The five-point stencil with two arrays.
struct Stencil(Data);
task_space! {
    enum StencilTask;
    impl TaskSpace for Stencil {
        type Datum = Number;
        let n = self.0.n;
        let steps = self.0.m;
        data A[i, j] where i < n && j < n in self.0.a at i * n + j;
        data B[i, j] where i < n && j < n in self.0.b at i * n + j;
        for i in 0..n {
            for j in 0..n { Load { i, j }: update A[i, j], update B[i, j]; }
        }
        for t in 0..steps {
            for i in 1..n - 1 {
                for j in 1..n - 1 {
                    There { t, i, j }: update B[i, j],
                        read A[i, j], read A[i - 1, j], read A[i + 1, j], read A[i, j - 1], read A[i, j + 1];
                }
            }
            for i in 1..n - 1 {
                for j in 1..n - 1 {
                    Back { t, i, j }: update A[i, j],
                        read B[i, j], read B[i - 1, j], read B[i + 1, j], read B[i, j - 1], read B[i, j + 1];
                }
            }
        }
    }
}

/// A factorisation with its solve; the second triangle from its end.
struct Solve(Data);
task_space! {
    enum SolveTask;
    impl TaskSpace for Solve {
        type Datum = Number;
        let nt = self.0.n;
        let columns = self.0.m;
        data A[m, n] where n <= m && m < nt in self.0.a at m * nt + n;
        data B[m, n] where m < nt && n < columns in self.0.b at m * columns + n;
        for k in 0..nt {
            Potrf { k }: update A[k, k];
            for m in k + 1..nt { Trsm { m, k }: update A[m, k], read A[k, k]; }
            for m in k + 1..nt {
                for n in k + 1..=m { Update { m, n, k }: update A[m, n], read A[m, k], read A[n, k]; }
            }
        }
        for k in 0..nt {
            for n in 0..columns {
                Forward { k, n }: update B[k, n], read A[k, k];
                for m in k + 1..nt { ForwardUpdate { k, m, n }: update B[m, n], read A[m, k], read B[k, n]; }
            }
        }
        for k in (0..nt).rev() {
            for n in 0..columns {
                Backward { k, n }: update B[k, n], read A[k, k];
                for m in 0..k { BackwardUpdate { k, m, n }: update B[m, n], read A[k, m], read B[k, n]; }
            }
        }
    }
}

#[test]
fn textbook_programs_are_proved() {
    prove("left-looking", Left);
    prove("top-looking", Top);
    prove("inverse", Inverse);
    prove("lu", Lu);
    prove("qr", Qr);
    prove("ldlt", Ldlt);
    prove("gauss-seidel", Sweeps);
    prove("stencil", Stencil);
    prove("solve", Solve);
}
