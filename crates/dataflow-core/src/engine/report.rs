//! Report: what a run did, in numbers.

/// What a run did.
///
/// # Examples
/// ```
/// use dataflow_core::port::Inline;
/// use dataflow_core::{run, space::Independent};
/// let report = run(&Independent::new("nothing", 10, |_| Ok(())), &Inline)?;
/// assert_eq!((report.tasks, report.copies(), report.tasks_by_worker), (10, 0, vec![10]));
/// # Ok::<(), dataflow_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Tasks executed; of a scope with those in nested scopes, of a recursion across ranks all calls.
    pub tasks: u64,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Tasks executed by each worker: without those in nested scopes; of a recursion across ranks those
    /// that its open calls, and not all calls, are.
    pub tasks_by_worker: Vec<u64>,
    /// Data that were copied because an updated version was still shared, by class.
    pub copies_by_class: Vec<(String, u64)>,
    /// Bytes of inputs that lay on the NUMA node of the worker that read them. Counted on machines
    /// of several nodes, of data that know where they lie. What travels between ranks is counted elsewhere.
    pub local_bytes: u64,
    /// Bytes of inputs that lay on another node.
    pub remote_bytes: u64,
    /// Whether no byte can be remote: the executor [is uniform](crate::port::Executor::is_uniform).
    pub uniform: bool,
}

impl Report {
    /// Data that were copied, in all.
    pub fn copies(&self) -> u64 {
        self.copies_by_class.iter().map(|(_, copies)| copies).sum()
    }

    /// The share of the bytes read that lay on the reader's NUMA node: 1 where there is but one
    /// node, `None` where nothing is known of any byte.
    pub fn local_share(&self) -> Option<f64> {
        match self.local_bytes + self.remote_bytes {
            0 => self.uniform.then_some(1.0),
            all => Some(self.local_bytes as f64 / all as f64),
        }
    }

    /// What this run and one after it cost together: by worker, and by class where both have it.
    #[must_use]
    pub fn followed_by(mut self, next: Report) -> Report {
        // Who has run nothing has read nothing: a sum may begin with `Report::default()`.
        self.uniform = match (self.tasks, next.tasks) {
            (0, _) => next.uniform,
            (_, 0) => self.uniform,
            _ => self.uniform && next.uniform,
        };
        self.tasks += next.tasks;
        self.seconds += next.seconds;
        self.local_bytes += next.local_bytes;
        self.remote_bytes += next.remote_bytes;
        let workers = self.tasks_by_worker.len().max(next.tasks_by_worker.len());
        self.tasks_by_worker.resize(workers, 0);
        let workers = self.tasks_by_worker.iter_mut().zip(next.tasks_by_worker);
        workers.for_each(|(tasks, more)| *tasks += more);
        for (class, more) in next.copies_by_class {
            let mut of_all = self.copies_by_class.iter_mut();
            match of_all.find(|(name, _)| *name == class) {
                Some((_, copies)) => *copies += more,
                None => self.copies_by_class.push((class, more)),
            }
        }
        self
    }
}
