//! Traced: any executor, with a tracer.

use super::{Executor, Job};
use crate::trace::Tracer;
use std::sync::Arc;

/// An executor whose runs leave traces.
#[derive(Clone, Copy)]
pub struct Traced<'a> {
    on: &'a dyn Executor,
    tracer: &'a Tracer,
}

impl<'a> Traced<'a> {
    /// The same executor, with this tracer instead of its own.
    pub fn new(on: &'a dyn Executor, tracer: &'a Tracer) -> Self {
        Traced { on, tracer }
    }
}

impl Executor for Traced<'_> {
    fn n_workers(&self) -> usize {
        self.on.n_workers()
    }

    fn execute(&self, job: &Arc<Job>) {
        self.on.execute(job);
    }

    fn execute_inside(&self, job: &Arc<Job>) {
        self.on.execute_inside(job);
    }

    fn is_uniform(&self) -> bool {
        self.on.is_uniform()
    }

    fn tracer(&self) -> Option<&Tracer> {
        Some(self.tracer)
    }
}
