//! What finds no room, and tracers that are off.

use super::*;

/// The one worker was busy all the time: that the policy keeps tasks apart, and that most of the run came after
/// the last task, was the verdict on what it had noted.
#[test]
fn what_does_not_fit_is_counted_and_blames_nobody() {
    // One chunk of room.
    let tracer = Tracer::new(32 * CHUNK);
    let n = 2 * CHUNK + 904;
    let nothing = dataflow_core::space::Independent::new("many", n as u64, |_| Ok(()));
    run(&nothing, &Context::new(&Inline).traced_by(&tracer)).unwrap();
    let trace = tracer.take().remove(0);
    assert_eq!(
        trace.slices().count() as u64 + trace.ranks[0].missing,
        n as u64
    );
    assert_eq!(trace.slices().count(), CHUNK);
    keeps_the_laws(&trace);
    let told = trace.explanation();
    let missing = format!("Only a part was recorded ({} notes missing). ", n - CHUNK);
    assert!(told.verdict().starts_with(&missing), "{told}");
    assert!(!told.verdict().contains("after it came"), "{told}");
    assert_eq!(told.part(Cause::Policy.shown()), 0.0, "{told}");
    // The room is there again for the next.
    run(
        &Cholesky::new(3, (1, 1)),
        &Context::new(&Inline).traced_by(&tracer),
    )
    .unwrap();
    assert_eq!(tracer.take()[0].ranks[0].missing, 0);
}

/// Some runs of a space that panics when it is asked for names left every later trace without room.
#[test]
fn a_run_without_a_trace_leaves_its_room_to_the_next() {
    dataflow_core::task_names! { enum Wide { B { i, j, k } } }
    /// Lists its task until that has run.
    #[derive(Default)]
    struct Forgetful(AtomicBool);
    impl TaskSpace for Forgetful {
        type Task = Wide;
        type Datum = ();
        fn describe(&self, about: &mut Description) {
            about.name("forgetful").class("B");
        }
        fn tasks(&self, _: Rank) -> impl Iterator<Item = Wide> + Send {
            assert!(!self.0.load(Ordering::Relaxed), "asked again");
            std::iter::once(Wide::B {
                i: u32::MAX,
                j: u32::MAX,
                k: u32::MAX,
            })
        }
        fn inputs(&self, _: Wide, _: &mut impl Inputs<Self>) {}
        fn successors(&self, _: Wide, _: &mut impl Successors<Self>) {}
        fn run(&self, _: Wide, _: &mut Flows<'_, ()>) -> Result<(), TaskError> {
            self.0.store(true, Ordering::Relaxed);
            Ok(())
        }
    }
    // One chunk of room.
    let tracer = Tracer::new(32 * CHUNK);
    let on = Context::new(&Inline).traced_by(&tracer);
    run(&Forgetful::default(), &on).unwrap();
    assert!(tracer.take().is_empty(), "it had a trace");
    run(&Cholesky::new(3, (1, 1)), &on).unwrap();
    assert_eq!(tracer.take()[0].ranks[0].missing, 0);
}

#[test]
fn a_tracer_that_is_off_leaves_nothing() {
    let tracer = Tracer::new(ROOM);
    tracer.set_on(false);
    run(
        &Cholesky::new(3, (1, 1)),
        &Context::new(&Inline).traced_by(&tracer),
    )
    .unwrap();
    assert!(tracer.take().is_empty());
    tracer.set_on(true);
    run(
        &Cholesky::new(3, (1, 1)),
        &Context::new(&Inline).traced_by(&tracer),
    )
    .unwrap();
    assert_eq!(tracer.take().len(), 1);
}
