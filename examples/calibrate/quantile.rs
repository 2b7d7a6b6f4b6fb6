//! Quantile: what stands for numbers of which some are far off.

/// Below which there is such a share of the numbers, between two of them in proportion; 0 of none.
pub fn quantile(numbers: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    let at = share * numbers.len().saturating_sub(1) as f64;
    let near = |place: f64| numbers.get(place as usize).copied().unwrap_or(0.0);
    let rest = at - at.floor();
    (1.0 - rest) * near(at.floor()) + rest * near(at.ceil())
}

/// The middle one in order, of an even number the lower of the two in the middle, so that of two one may be
/// far too long; 0 of none.
pub fn lower_median(numbers: &[f64]) -> f64 {
    let mut numbers = numbers.to_vec();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len().saturating_sub(1) / 2;
    numbers.get(middle).copied().unwrap_or(0.0)
}
