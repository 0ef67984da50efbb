//! A run of the kernel over time, in the form of a simulated run's timeline.

use serde_json::{Value, json};
use weftway_path::Span;
use weftway_scenario::config::SimConfig;

use crate::kernel::{Outcome, Sample, Subflow};

/// Time that a step of a timeline lasts at first, and the most steps, as in a simulated one.
const FIRST_STEP: Span = Span::from_millis(10);
const MAX_STEPS: u64 = 400;

impl Outcome {
    /// Timeline of the run of `config`. Rates are of what was acknowledged.
    pub fn timeline(&self, config: &SimConfig) -> Value {
        let mut step = FIRST_STEP;
        while self.elapsed.as_nanos() / step.as_nanos() >= MAX_STEPS {
            step = step * 2;
        }
        let steps = self.elapsed.as_nanos() / step.as_nanos() + 1;
        let ends: Vec<Option<&Sample>> = (1..=steps).map(|number| last_before(&self.samples, step * number)).collect();
        let per_path = |value: &dyn Fn(usize) -> Value| (0..config.paths.len()).map(value).collect::<Vec<_>>();
        let gauge = |value: fn(&Subflow) -> f64| per_path(&|path| gauged(&ends, path, value));
        json!({
            "step_ms": step.as_millis_f64(),
            "paths": config.paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>(),
            "mbps": per_path(&|path| rates(&ends, path, step)),
            "srtt_ms": gauge(|path| path.srtt.as_millis_f64()),
            "cwnd_kb": gauge(|path| path.cwnd.get() as f64 / 1e3),
            "inflight_kb": gauge(|path| path.bytes_in_flight.get() as f64 / 1e3),
            "events": [],
        })
    }
}

/// Values of `value` at the end of each step; null while the path has no subflow.
fn gauged(ends: &[Option<&Sample>], path: usize, value: fn(&Subflow) -> f64) -> Value {
    let at = |sample: &Option<&Sample>| sample.and_then(|s| s.paths.get(path)).filter(|path| path.open > 0).map(value);
    json!(ends.iter().map(at).collect::<Vec<_>>())
}

/// Rates of what was acknowledged in each step, in Mbit/s.
fn rates(ends: &[Option<&Sample>], path: usize, step: Span) -> Value {
    let bytes = |sample: &Option<&Sample>| sample.map_or(0, |s| s.paths.get(path).map_or(0, |p| p.bytes_acked.get()));
    let totals: Vec<u64> = std::iter::once(0).chain(ends.iter().map(bytes)).collect();
    let rate = |pair: &[u64]| pair[1].saturating_sub(pair[0]) as f64 * 8.0 / 1e6 / step.as_secs_f64();
    json!(totals.windows(2).map(rate).collect::<Vec<_>>())
}

/// The last sample taken by `end`.
fn last_before(samples: &[Sample], end: Span) -> Option<&Sample> {
    samples[..samples.partition_point(|sample| sample.at <= end)].last()
}

#[cfg(test)]
mod tests {
    use weftway_path::Bytes;

    use super::*;
    use crate::testing::variant;

    /// A path that opens after 10 ms and has 12.5 kB acknowledged by 20 ms: 10 Mbit/s in the second step.
    #[test]
    fn a_step_shows_what_was_acknowledged_in_it_and_the_last_sample_by_its_end() {
        let subflow = |open, bytes, ms| Subflow {
            open,
            bytes_acked: Bytes::new(bytes),
            srtt: Span::from_millis(ms),
            ..Subflow::default()
        };
        let sample = |at, subflow| Sample { at: Span::from_millis(at), paths: vec![subflow], ..Sample::default() };
        let outcome = Outcome {
            elapsed: Span::from_millis(25),
            samples: vec![sample(5, subflow(0, 0, 0)), sample(20, subflow(1, 12_500, 30))],
            ..Outcome::default()
        };
        let timeline = outcome.timeline(&variant(&[]).config);
        assert_eq!(timeline["paths"], json!(["wifi", "lte"]));
        assert_eq!(timeline["mbps"], json!([[0.0, 10.0, 0.0], [0.0, 0.0, 0.0]]));
        assert_eq!(timeline["srtt_ms"], json!([[null, 30.0, 30.0], [null, null, null]]));
    }

    /// Ten seconds in at most 400 steps: of 40 ms, since 20 ms would be 500.
    #[test]
    fn a_long_run_has_longer_steps() {
        let outcome = Outcome { elapsed: Span::from_secs(10), ..Outcome::default() };
        assert_eq!(outcome.timeline(&variant(&[]).config)["step_ms"], json!(40.0));
    }
}
