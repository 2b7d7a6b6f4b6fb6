//! METG: the minimum effective task granularity, from a sweep over ever smaller tasks.
//!
//! # Source
//! Slaughter et al., *Task Bench*, SC20, §IV: the smallest granularity at which a runtime still
//! reaches half of the peak rate, with the rest lost to the runtime.

/// One run of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Wall time times cores by tasks, seconds.
    pub granularity: f64,
    /// Work by wall time, in any unit.
    pub rate: f64,
}

/// The granularity, in seconds, at which the rate is half of the peak: between two runs, given in
/// the order of falling work. `None` if no run lies above, or none below.
pub fn metg(sweep: &[Run], peak: f64) -> Option<f64> {
    let efficiency = |run: &Run| run.rate / peak;
    let is_effective = |run: &Run| efficiency(run) >= 0.5;
    sweep.iter().find(|run| !is_effective(run))?;
    let effective = sweep
        .iter()
        .enumerate()
        .filter(|(_, run)| is_effective(run));
    let (last, above) =
        effective.min_by(|(_, a), (_, b)| a.granularity.total_cmp(&b.granularity))?;
    let finer = |below: &&Run| below.granularity < above.granularity;
    let Some(below) = sweep.get(last + 1).filter(finer) else {
        return Some(above.granularity);
    };
    let share = (0.5 - efficiency(below)) / (efficiency(above) - efficiency(below));
    Some(below.granularity + share * (above.granularity - below.granularity))
}
