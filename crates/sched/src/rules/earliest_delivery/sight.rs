//! What a learned estimate of a path's arrival may see, and how it enters the rule.
//!
//! The rule's own estimate of the time until a packet arrives is taken times a factor that the estimate names, on paths that
//! hold data: where nothing is under way, nothing is known that the rule does not use. The factor is asked for again when the
//! path was heard of, after four packets, and when a sixteenth of the predicted time has passed.
//!
//! Times and rates are seen as binary logarithms of their ratio to the rule's own estimate, so that a path with a tenth of the
//! delay and ten times the rate is the same path.

use weftway_path::{BitRate, Bytes, Instant, Path, PathId, Span};

use super::EarliestDelivery;
use super::estimate::Forecast;
use crate::shared::present::Present;
use crate::shared::trail::Trail;

/// The names of what it sees.
pub(crate) const INPUTS: [&str; 36] = [
    "own",
    "min_rtt",
    "srtt",
    "latest_rtt",
    "rttvar",
    "held",
    "held_at_rate",
    "held_at_peak",
    "held_at_busy_50",
    "held_at_busy_100",
    "held_at_busy_200",
    "busy_50_known",
    "busy_200_known",
    "held_at_25",
    "held_at_50",
    "held_at_100",
    "held_at_200",
    "held_at_400",
    "held_at_delivery_rate",
    "heard",
    "oldest",
    "oldest_waits",
    "overdue",
    "alone",
    "sent",
    "lost",
    "loss",
    "late",
    "window",
    "slow_start",
    "pacing",
    "missed_4",
    "missed_16",
    "missed_spread",
    "rtt_rises",
    "expected_over_own",
];

/// Values of [`INPUTS`].
pub(crate) type Inputs = [f32; INPUTS.len()];

/// A factor is kept for a sixteenth of the predicted time, and for so many packets.
const KEPT_PART: u64 = 16;
const KEPT_PACKETS: u32 = 4;
/// One, as a factor.
const ONE: u64 = 4096;
/// The largest factor, and the inverse of the least, as a binary logarithm.
const MOST: f32 = 4.0;
/// No ratio is seen as larger than two to this power.
const FAR: f32 = 8.0;

/// By how much the rule's own estimate is off, as a binary logarithm; none where nothing like the inputs was seen in training.
pub(crate) trait Estimate: Send + dyn_clone::DynClone {
    fn factor(&mut self, inputs: &Inputs) -> Option<f32>;
}

dyn_clone::clone_trait_object!(Estimate);

/// What is kept of each path for it.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    trail: Trail,
    brief: Present<50>,
    long: Present<200>,
    /// The factor, in parts of [`ONE`].
    factor: u64,
    /// Until when it is kept.
    until: Instant,
    /// The packets that were sent since.
    sent: u32,
}

impl Default for Sight {
    fn default() -> Self {
        let (brief, long) = (Present::default(), Present::default());
        Self { trail: Trail::default(), brief, long, factor: ONE, until: Instant::ZERO, sent: 0 }
    }
}

impl Sight {
    /// The factor, if it is not one.
    pub(super) fn apply(&self, own: Span) -> Span {
        own.mul_div(self.factor, ONE)
    }

    pub(super) fn sent(&mut self, now: Instant) {
        (self.trail.sent, self.sent) = (now, self.sent + 1);
    }

    pub(super) fn lost(&mut self, now: Instant) {
        (self.trail.lost, self.until) = (Some(now), Instant::ZERO);
    }

    /// A packet that left at `sent` was acknowledged, which was to arrive at `eta`.
    pub(super) fn acked(
        &mut self,
        now: Instant,
        (sent, eta): (Instant, Instant),
        bytes: Bytes,
        more: bool,
        path: &Path,
    ) {
        let took = now.since(sent).saturating_sub(path.min_rtt / 2);
        self.trail.acked(now, bytes, ratio(took, eta.since(sent)));
        self.brief.acked(now, sent, bytes, more, path);
        self.long.acked(now, sent, bytes, more, path);
        self.until = Instant::ZERO;
    }
}

impl EarliestDelivery {
    /// Asks for the factors that are due.
    pub(super) fn look(&mut self, now: Instant, paths: &[Path]) {
        let Some(mut estimate) = self.estimate.take() else { return };
        for path in paths.iter().filter(|path| path.unacked() > Bytes::ZERO) {
            let kept = self.sights.at(path.id);
            if now < kept.until && kept.sent < KEPT_PACKETS {
                continue;
            }
            let (inputs, own) = self.inputs(now, path);
            let Some(factor) = estimate.factor(&inputs) else { continue };
            self.correct(path.id, factor);
            let kept = self.sights.at(path.id);
            (kept.until, kept.sent) = (now + kept.apply(own) / KEPT_PART, 0);
        }
        self.estimate = Some(estimate);
    }

    /// From now on the rule's own estimate is taken times two to the power of `factor`.
    pub(crate) fn correct(&mut self, path: PathId, factor: f32) {
        self.sights.at(path).factor = (libm::exp2f(factor.clamp(-MOST, MOST)) * ONE as f32) as u64;
    }

    /// What there is to see of a path, and the rule's own estimate, without what the pacer keeps.
    pub(crate) fn inputs(&self, now: Instant, path: &Path) -> (Inputs, Span) {
        let sight = self.sights.get(path.id).copied().unwrap_or_default();
        let forecast = self.own_forecast(now, path);
        let own = forecast.own.max(Span::from_micros(1));
        (seen(now, path, &forecast, own, &sight, self), own)
    }
}

fn seen(now: Instant, path: &Path, forecast: &Forecast, own: Span, sight: &Sight, rule: &EarliestDelivery) -> Inputs {
    let to = |span: Span| ratio(span, own);
    let held = path.unacked() + path.mss;
    let at = |rate: BitRate| to(rate.transmission_time(held));
    let oldest = rule.flights.oldest(path.id);
    let busy = |rate: Option<(BitRate, Span)>| rate.map_or(at(forecast.rate), |(rate, _)| at(rate));
    let brief = sight.brief.rate(now, path, oldest);
    let present = rule.presents.get(path.id).and_then(|present| present.rate(now, path, oldest));
    let long = sight.long.rate(now, path, oldest);
    let brought = |parts| {
        let (bytes, time) = sight.trail.brought(now, parts);
        to(time.mul_div(held.get(), bytes.get().max(path.mss.get() / 2).max(1)))
    };
    let since = |then: Instant| to(now.since(then));
    let flag = |is: bool| f32::from(u8::from(is));
    let share = |count: u64| (count as f32 / path.sent.packets.max(1) as f32).min(1.0).sqrt();
    let (waited, alone) = oldest.map_or((Span::ZERO, false), |oldest| (now.since(oldest.sent), oldest.alone));
    let idle = oldest.map_or(Span::ZERO, |oldest| now.since(sight.trail.heard.max(oldest.sent + path.min_rtt)));
    [
        ratio(own, Span::from_millis(32)),
        to(path.min_rtt),
        to(path.srtt),
        to(path.latest_rtt),
        to(path.rttvar),
        log2(held.get()) - log2(path.mss.get()),
        at(forecast.rate),
        at(forecast.measured),
        busy(brief),
        busy(present),
        busy(long),
        flag(brief.is_some()),
        flag(long.is_some()),
        brought(1),
        brought(2),
        brought(4),
        brought(8),
        brought(15),
        at(path.delivery_rate),
        since(sight.trail.heard),
        to(waited),
        to(idle),
        to(forecast.overdue),
        flag(alone),
        since(sight.trail.sent),
        sight.trail.lost.map_or(FAR, since),
        share(path.lost.packets),
        share(rule.flights.late(path.id)),
        (log2(path.cwnd.get()) - log2(held.get())).clamp(-FAR, FAR),
        flag(forecast.grows),
        if path.pacing_rate == BitRate::ZERO { FAR } else { at(path.pacing_rate) },
        sight.trail.missed[0],
        sight.trail.missed[1],
        sight.trail.spread,
        ratio(path.latest_rtt, path.srtt),
        to(forecast.expected.saturating_sub(forecast.arrival)),
    ]
}

/// The binary logarithm of one span over another, within [`FAR`].
fn ratio(one: Span, other: Span) -> f32 {
    (log2(one.as_nanos() + 1) - log2(other.as_nanos() + 1)).clamp(-FAR, FAR)
}

/// The binary logarithm of `x`, zero of zero, to some 0.01: the same on every machine, and without a table.
fn log2(x: u64) -> f32 {
    let x = x.max(1);
    let whole = 63 - x.leading_zeros();
    // The 24 bits behind the first one, as a fraction.
    let rest = ((x << (63 - whole) << 1) >> 40) as f32 / (1u32 << 24) as f32;
    // log2(1 + r) ≈ r + 0.3443·r·(1 − r): exact at both ends.
    whole as f32 + rest + 0.344_3 * rest * (1.0 - rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_at_powers_of_two_and_near_between() {
        for power in 0..64 {
            assert_eq!(log2(1 << power), power as f32);
        }
        for x in 1..5000u64 {
            assert!((log2(x) - libm::log2f(x as f32)).abs() < 0.011, "{x}");
        }
        assert_eq!(log2(0), 0.0);
    }
}
