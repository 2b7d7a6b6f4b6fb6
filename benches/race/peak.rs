//! The peak: what 100 % is.

use super::{Bench, Contestant, Dense, Outcome, Times, seconds};
use dataflow::linalg::flops;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// Large products on all threads, by each library of this build; its time is that of one flop in
/// the faster one.
pub struct Peak {
    operands: [Dense; 3],
    n_threads: usize,
}

impl Peak {
    pub fn new(bench: &Bench, n: usize) -> Outcome<Self> {
        let operand = |seed| bench.random(n, seed);
        Ok(Peak {
            operands: [operand(3)?, operand(4)?, operand(5)?],
            n_threads: bench.n_threads(),
        })
    }
}

impl Contestant for Peak {
    fn run(&mut self, _: &Dense) -> Outcome<Times> {
        let [a, b, c] = &mut self.operands;
        let n = a.rows();
        let par = Par::rayon(self.n_threads);
        let view = |x| MatRef::from_column_major_slice(x, n, n);
        let (best, ()) = seconds(|| {
            let c = MatMut::from_column_major_slice_mut(c.as_mut_slice(), n, n);
            let (a, b) = (view(a.as_slice()), view(b.as_slice()));
            matmul(c, Accum::Add, a, b, -1.0, par);
        });
        #[cfg(feature = "openblas")]
        let best = {
            use dataflow::linalg::kernel::openblas;
            std::thread::sleep(super::SETTLE);
            openblas::set_threads(self.n_threads);
            let (a, b, c) = (a.as_slice(), b.as_slice(), c.as_mut_slice());
            let (by_openblas, ()) = seconds(|| openblas::gemm(n, n, n, a, b, c));
            openblas::set_threads(1);
            best.min(by_openblas)
        };
        Ok(Times::of(best / flops::gemm::<f64>(n, n, n) as f64))
    }
}
