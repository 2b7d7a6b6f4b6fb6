//! Every end of every edge of right spaces is changed, one at a time.

use super::*;

/// Runs a mutant in every way, in an order of its own; under Miri in one way, each in its turn. `harmless`
/// mutants may end well, whatever the outcome; all others must fail, or leave behind what the right space does.
fn try_mutant<S: Specimen>(
    space: &S,
    (mutation, turn): (&Mutation<S::Task>, usize),
    right: &[u64],
    harmless: bool,
) -> Result<(), String> {
    let seed = turn as u64;
    let executors = executors_of(seed..seed + 1);
    let ways = executors.iter().flat_map(|on| [(on, false), (on, true)]);
    let n_ways = 2 * executors.len();
    let (first, step) = if cfg!(miri) {
        (turn % n_ways, n_ways)
    } else {
        (0, 1)
    };
    for ((name, executor), follow) in ways.skip(first).step_by(step) {
        let mut mutant = Mutant::new(space, mutation);
        if follow {
            mutant = mutant.with_roots_that_follow();
        }
        let hangs = || format!("{mutation:?} on {name}, roots follow: {follow}");
        let result = within(hangs, || run(&mutant, &**executor));
        let holes = mutant.space().holes();
        if !holes.is_empty() {
            return Err(format!("{}: {holes:?} empty after {result:?}", hangs()));
        }
        match result {
            Ok(_) if !harmless && mutant.space().outcome() != right => {
                let text = "not noticed, and the outcome is wrong";
                return Err(format!("{}: {text}", hangs()));
            }
            Err(error) if error.kind() == Kind::TaskPanicked => {
                return Err(format!("{}: {error}", hangs()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn no_mutant_does_harm<S: Specimen>(
    space: &S,
    stride: usize,
    harmless: impl Fn(&Mutation<S::Task>) -> bool,
) {
    let model = space.fresh();
    run(&model, &Inline).unwrap();
    let right = model.outcome();
    let all = mutations(space, 1, stride);
    let tried = tried(&all, size::BY_MIRI).zip(0..);
    let faults: Vec<_> = tried
        .filter_map(|tried| try_mutant(space, tried, &right, harmless(tried.0)).err())
        .collect();
    let (n, some) = (faults.len(), &faults[..faults.len().min(12)]);
    assert!(faults.is_empty(), "{n} of {}, such as {some:#?}", all.len());
}

#[test]
fn no_mutant_of_the_cholesky_shape_does_harm() {
    use specimen::cholesky::Task;
    for &(nt, stride) in size::CHOLESKY {
        let space = Cholesky::new(nt, (1, 1));
        no_mutant_does_harm(&space, stride, |mutation| match mutation {
            // What comes from or goes home by the wrong flow or slot may go unnoticed: `verify`'s
            // work.
            Mutation::Input(.., Twist::Slot(_)) => true,
            Mutation::Output(Task::Potrf { k }, nth, _) => *nth == (nt - 1 - k) as usize,
            Mutation::Output(Task::Trsm { m, k }, nth, _) => *nth == (nt - k - 1) as usize && m > k,
            _ => false,
        });
    }
}

#[test]
fn no_mutant_of_a_wavefront_does_harm() {
    for naming in [Naming::Packed, Naming::Wide, Naming::Dense, Naming::Huge] {
        for &side in size::WAVEFRONT {
            no_mutant_does_harm(&Wavefront::named(side, naming), 1, |_| false);
        }
    }
}

#[test]
fn no_mutant_of_a_space_with_one_of_everything_does_harm() {
    use specimen::mixed::Task;
    for &(n, stride) in size::MIXED {
        no_mutant_does_harm(&Mixed::new(n), stride, |mutation| {
            matches!(
                mutation,
                // Another datum from home: another space.
                Mutation::Input(.., Twist::Slot(_))
                    // What goes home as another flow, elsewhere or not at all.
                    | Mutation::Output(Task::Work { .. }, 2, _)
            ) || matches!(mutation, Mutation::Output(Task::Sum {}, nth, _) if *nth == n as usize)
        });
    }
}
