//! Values of a path over time: kept, rounded, and the time in queues.

use std::collections::VecDeque;

/// Adds a value behind the others; so many of the latest are kept.
pub fn push<T>(values: &mut VecDeque<T>, value: T, most: usize) {
    values.push_back(value);
    if values.len() > most {
        values.pop_front();
    }
}

/// The number with so many digits behind the point.
pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// Time in queues: by how much the round trip of a path is above its least one.
pub fn queue_ms(srtt: Option<f64>, least: Option<f64>) -> Option<f64> {
    Some((srtt? - least?).max(0.0))
}
