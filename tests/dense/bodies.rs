//! Calls in the bodies of tasks.

use crate::array_of;
use dataflow::core::space::Independent;
use dataflow::linalg::LinalgError;
use dataflow::linalg::matrix::generate::{PositiveDefinite, Random};
use dataflow::linalg::matrix::{Layout, TiledMatrix};
use dataflow::{Dense, Runtime, Tiled};
use ndarray::{Array2, array, s};

/// The graph that was to say why is no run that a body may begin.
#[test]
fn small_problems_have_the_same_answers_and_errors_in_the_body_of_a_task() {
    fn answers() -> [Result<Vec<f64>, String>; 12] {
        let regular = array![[4.0, 2.0], [2.0, 10.0]];
        let indefinite = array![[1.0, 2.0], [2.0, 1.0]];
        let singular = array![[1.0, 2.0], [2.0, 4.0]];
        let infinite = array![[1.0, f64::INFINITY], [f64::INFINITY, 1.0]];
        let b = array![1.0, 2.0];
        let all = |x: Array2<f64>| x.into_iter().collect();
        let told = |error: LinalgError| error.to_string();
        let solved = |a: &Array2<f64>| a.solve(&b).map(|x| x.to_vec()).map_err(told);
        let inverted = |a: &Array2<f64>| a.inverse().map(all).map_err(told);
        let factored = |a: &Array2<f64>| a.cholesky().map(all).map_err(told);
        let kept = |a: &Array2<f64>| {
            let factor = a.cholesky_factor().map_err(told)?;
            Ok(factor.solve(&b).map_err(told)?.to_vec())
        };
        [
            solved(&regular),
            solved(&indefinite),
            solved(&singular),
            solved(&infinite),
            inverted(&indefinite),
            inverted(&singular),
            factored(&regular),
            factored(&indefinite),
            factored(&infinite),
            kept(&regular),
            kept(&indefinite),
            kept(&infinite),
        ]
    }
    let runtime = Runtime::builder().threads(1).build().unwrap();
    let inside = std::sync::Mutex::new(None);
    let ran = runtime.scope(|s| s.task((), |()| *inside.lock().unwrap() = Some(answers())));
    ran.unwrap();
    let (outside, inside) = (answers(), inside.into_inner().unwrap().unwrap());
    assert_eq!(inside, outside);
    assert_eq!(outside[1], Ok(vec![1.0, 0.0]));
    assert!(
        outside[2].as_ref().unwrap_err().contains("pivot 2"),
        "{outside:?}"
    );
    assert!(
        outside[7].as_ref().unwrap_err().contains("pivot 2 is -3e0"),
        "{outside:?}"
    );
    assert!(
        outside[8].as_ref().unwrap_err().contains("(1, 0)"),
        "{outside:?}"
    );
    assert_eq!([&outside[7], &outside[8]], [&outside[10], &outside[11]]);
}

/// They were refused: a body began a run.
#[test]
fn calls_on_large_arrays_run_in_bodies_on_the_same_workers_or_on_the_thread_of_the_body() {
    let n = 300;
    let a = array_of((n, n), &PositiveDefinite::new(n, 1), true);
    let tall = array_of((2 * n, 3), &Random::new(5), false);
    let (b, c) = (a.column(7).to_owned(), tall.column(1).to_owned());
    let singular = Array2::<f64>::zeros((n, n));
    let answers = || {
        let x = a.solve(&b)?;
        let fit = tall.least_squares(&c)?;
        let rank = tall.numerical_rank(None)?;
        let product = a.dot_tiled(&tall.slice(s![..n, ..]).to_owned())?;
        let inverse = tall.pseudo_inverse(None)?;
        let index = singular.solve(&b).unwrap_err().index();
        Ok::<_, LinalgError>((x, fit, rank, product, inverse, index))
    };
    let expected = answers().unwrap();
    assert_eq!((expected.2, expected.5), (3, Some(1)));
    let bodies = Independent::new("bodies", 6, |_| {
        assert_eq!(answers()?, expected);
        Ok(())
    });
    let own = Runtime::builder().threads(4).build().unwrap();
    let shared = Runtime::shared().unwrap();
    for runtime in [shared, &own] {
        assert_eq!(runtime.run(&bodies).unwrap().tasks, 6);
        let asked = runtime.scope(|s| {
            s.task((), |()| assert_eq!(answers().unwrap(), expected));
            answers().unwrap()
        });
        assert_eq!(asked.unwrap().0, expected);
    }
}

#[test]
fn calls_on_tiles_run_in_bodies_of_the_same_runtime() {
    let runtime = Runtime::builder().threads(4).build().unwrap();
    let (n, nb) = (60, 8);
    let layout = |cols| Layout::general(n, cols, nb).unwrap();
    let a = TiledMatrix::<f64>::from_entries(layout(n), &Random::new(3));
    let b = TiledMatrix::from_entries(layout(2), &Random::new(4));
    let expected = a.solve(&b, &runtime).unwrap().to_ndarray().unwrap();
    let bodies = Independent::new("bodies", 40, |_| {
        assert_eq!(a.solve(&b, &runtime)?.to_ndarray()?, expected);
        Ok(())
    });
    for _ in 0..5 {
        assert_eq!(runtime.run(&bodies).unwrap().tasks, 40);
    }
}
