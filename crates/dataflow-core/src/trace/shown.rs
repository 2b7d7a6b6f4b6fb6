//! Shown: tasks as people read them.

use super::{
    At, FeedingTask, RankTrace, Slice, Span, TaskNumber, Trace, WorkerTrace, is_wide, shown_numbers,
};
use crate::rank::Rank;

impl Trace {
    /// A trace made by hand, of a run that was recorded otherwise or never happened.
    ///
    /// # Examples
    /// ```
    /// use dataflow_core::rank::Rank;
    /// use dataflow_core::trace::{RankTrace, Slice, Span, Trace};
    /// let slice = Slice { task: 7, span: Span { begin: 10, end: 30 }, ..Slice::default() };
    /// let rank = RankTrace::new(Rank(0), Span { begin: 0, end: 40 }, vec![vec![slice]]);
    /// let trace = Trace::new("by hand", ["Step"], vec![rank]);
    /// assert_eq!(trace.length(), 40);
    /// assert_eq!(trace.shown(trace.slices().next().unwrap().0), "Step 7");
    /// ```
    pub fn new<N: Into<String>>(
        name: &str,
        classes: impl IntoIterator<Item = N>,
        ranks: Vec<RankTrace>,
    ) -> Trace {
        let part = Trace {
            name: name.to_string(),
            classes: classes.into_iter().map(Into::into).collect(),
            ranks,
            ..Trace::default()
        };
        Trace::of_ranks(vec![part])
    }

    /// The task of a slice: class and parameters, `Gemm { m: 5, n: 3, k: 1 }`. A number stands for those of
    /// a task whose name does not pack and which the space does not list.
    pub fn shown(&self, at: At) -> String {
        let slice = self.slice(at);
        let class = self.class(slice);
        let wide = &self.ranks[at.rank].wide;
        let name = match (wide.get(&slice.task), &self.text) {
            (Some(name), _) => name.clone(),
            (None, Some(text)) if !is_wide(slice.task) => text.0.text(slice.task),
            (None, _) => slice.task.to_string(),
        };
        match name.starts_with(class) {
            true => name,
            false => [class, " ", &name].concat(),
        }
    }

    /// The name of a slice's class.
    pub fn class(&self, slice: &Slice) -> &str {
        let class = self.classes.get(usize::from(slice.class));
        class.map_or("task", String::as_str)
    }

    /// The parameters of a slice's task, in their order: the [numbers](super::shown_numbers) in its name
    /// that are not negative, if that is known.
    pub fn parameters_of(&self, at: At) -> Vec<u64> {
        let task = self.slice(at).task;
        if is_wide(task) && !self.ranks[at.rank].wide.contains_key(&task) {
            return Vec::new();
        }
        let shown = self.shown(at);
        let class = self.class(self.slice(at));
        let numbers = shown_numbers(&shown, class).filter(|number| !number.negative);
        numbers.map(|number| number.size).collect()
    }

    /// To which iteration a task belongs: its last parameter.
    pub fn iteration(&self, at: At) -> Option<u64> {
        self.parameters_of(at).last().copied()
    }
}

/// The number of a worker in its slices.
fn worker_number(worker: usize) -> u16 {
    match u16::try_from(worker) {
        Ok(number) => number,
        Err(_) => panic!("worker {worker} of a rank in a trace (65,536 are allowed)"),
    }
}

impl RankTrace {
    /// What a rank did, from its workers' slices, each worker's in the order of time.
    ///
    /// # Panics
    /// If a worker beyond the first 65,536 has slices.
    pub fn new(rank: Rank, span: Span, workers: Vec<Vec<Slice>>) -> RankTrace {
        let mut of_rank = RankTrace {
            rank,
            span,
            inputs: vec![0],
            ..RankTrace::default()
        };
        for (worker, slices) in workers.into_iter().enumerate() {
            let begin = of_rank.slices.len();
            for slice in slices {
                let worker = worker_number(worker);
                of_rank.slices.push(Slice { worker, ..slice });
                of_rank.inputs.push(0);
            }
            of_rank.workers.push(WorkerTrace {
                slices: begin..of_rank.slices.len(),
                visits: vec![span],
            });
        }
        of_rank
    }

    /// The same, with the tasks that feed each slice, by its index: pairs of a task and its rank.
    pub fn with_inputs(
        mut self,
        inputs: impl Fn(usize, &Slice) -> Vec<(TaskNumber, Rank)>,
    ) -> Self {
        self.inputs = vec![0];
        self.sources.clear();
        for (index, slice) in self.slices.iter().enumerate() {
            let sources = inputs(index, slice);
            let source = |(task, Rank(rank))| FeedingTask { task, rank };
            self.sources.extend(sources.into_iter().map(source));
            self.inputs.push(self.sources.len() as u32);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    /// Its slices were those of worker 0.
    #[test]
    fn a_worker_that_has_no_number_in_a_slice_is_refused() {
        let of = |n_workers| {
            let mut workers = vec![Vec::new(); n_workers];
            workers[n_workers - 1].push(Slice::default());
            RankTrace::new(Rank(0), Span::default(), workers)
        };
        assert_eq!(of(65_536).slices[0].worker, u16::MAX);
        let refused = catch_unwind(|| of(65_537)).unwrap_err();
        let text = refused.downcast::<String>().unwrap();
        assert!(text.contains("worker 65536"), "{text}");
    }

    /// They were all digits of the text, those of words, strings and fractions too.
    #[test]
    fn the_parameters_of_a_task_are_the_numbers_in_its_text() {
        let name = "Step { at: [2, -3], x2: 18446744073709551616, of: \"row 7\", by: 0.5 }";
        let slice = Slice {
            task: u64::MAX,
            ..Slice::default()
        };
        let mut of_rank = RankTrace::new(Rank(0), Span::default(), vec![vec![slice]]);
        of_rank.wide.insert(slice.task, name.to_string());
        let trace = Trace::new("by hand", ["Step"], vec![of_rank]);
        let at = trace.slices().next().unwrap().0;
        assert_eq!(trace.shown(at), name);
        assert_eq!(trace.parameters_of(at), [2]);
    }
}
