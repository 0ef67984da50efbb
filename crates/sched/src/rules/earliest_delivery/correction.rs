//! The features of a path that a learned estimator of arrivals sees, and how its answer enters the rule.
//!
//! The rule's own estimate of the time until a packet arrives is multiplied by a factor from the estimator, on paths
//! that hold data: where nothing is in flight, nothing is known that the rule does not use. The factor is computed anew
//! after an acknowledgement or a loss on the path, after four packets, and when a sixteenth of the predicted time has
//! passed.
//!
//! Times and rates are seen as binary logarithms of their ratio to the rule's own estimate, so that a path with a tenth
//! of the delay and ten times the rate is the same path.

use weftway_path::{BitRate, Bytes, Instant, Path, PathId, Span};

use super::ack_history::AckHistory;
use super::estimate::{Estimate, ONE};
use super::forecast::grows;
use crate::shared::per_path::PerPath;
use crate::shared::recent_rate::{Oldest, Queue, RecentRate};

/// The names of the features. `held`, the data in flight and the next packet, is counted in packets; `held_at_RATE` is
/// the time that a rate takes for it: the rule's rate and its peak, back-to-back acknowledgements over so many
/// milliseconds of busy time (`busy_…`), what was acknowledged in so many milliseconds, the last delivery rate, the
/// pacer's. `heard`, `oldest`, `sent` and `lost`: the time since the last acknowledgement, since the oldest unheard
/// packet left, since the last packet and the last loss. `missed_…`: the time that packets took over the time predicted
/// for them, smoothed. Shares of lost and late packets are square roots.
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
    "loss_costs",
];

/// Values of [`INPUTS`].
pub(crate) type Inputs = [f32; INPUTS.len()];

/// A factor is kept for a sixteenth of the predicted time, and for so many packets.
const KEPT_PART: u64 = 16;
const KEPT_PACKETS: u32 = 4;
/// The largest factor, and the inverse of the least, as a binary logarithm.
const MOST: f32 = 4.0;
/// No ratio is seen as larger than two to this power.
const FAR: f32 = 8.0;

/// A learned estimator of arrivals.
pub(crate) trait ArrivalEstimator: Send + dyn_clone::DynClone {
    /// Logarithm by which the rule's own estimate of an arrival is off, to the base two; none where nothing like the
    /// inputs was seen in training: then the rule's own counts.
    fn correction(&mut self, inputs: &Inputs) -> Option<f32>;
}

dyn_clone::clone_trait_object!(ArrivalEstimator);

/// Corrections of the arrivals that the rule predicts.
#[derive(Clone)]
pub(super) struct Corrections {
    estimator: Box<dyn ArrivalEstimator>,
    paths: PerPath<PathHistory>,
}

/// History of a path, for the features.
#[derive(Clone, Copy, Default)]
pub(super) struct PathHistory {
    history: AckHistory,
    brief: RecentRate<50>,
    long: RecentRate<200>,
    /// End of the time for which the factor is kept, and the packets that were sent since.
    until: Instant,
    sent: u32,
}

/// The oldest packet in flight that nothing has been heard of, and how many packets were acknowledged late.
type Flight<'a> = (Option<&'a Oldest>, u64);

impl Corrections {
    pub(super) fn new(estimator: Box<dyn ArrivalEstimator>) -> Self {
        Self { estimator, paths: PerPath::default() }
    }

    pub(super) fn at(&mut self, path: PathId) -> &mut PathHistory {
        self.paths.at(path)
    }

    pub(super) fn forget(&mut self, path: PathId) {
        self.paths.reset(path);
    }

    /// Asks for the factor of a path, whose forecast is `estimate`'s, if one is due; tells whether it was.
    pub(super) fn correct(&mut self, now: Instant, path: &Path, estimate: &mut Estimate, flight: Flight<'_>) -> bool {
        if path.unacked() == Bytes::ZERO {
            return false;
        }
        let kept = self.paths.at(path.id);
        if now < kept.until && kept.sent < KEPT_PACKETS {
            return false;
        }
        let inputs = kept.inputs(now, path, estimate, flight);
        let factor = self.estimator.correction(&inputs).map(|power| libm::exp2f(power.clamp(-MOST, MOST)));
        let factor = factor.map(|factor| (factor * ONE as f32) as u64);
        estimate.correct(factor);
        let hold = estimate.predicted().own.mul_div(factor.unwrap_or(ONE), ONE) / KEPT_PART;
        (kept.until, kept.sent) = (now + hold, 0);
        true
    }

    /// Features of a path, whose forecast is `estimate`'s.
    pub(super) fn inputs(&self, now: Instant, path: &Path, estimate: &Estimate, flight: Flight<'_>) -> Inputs {
        self.paths.get(path.id).copied().unwrap_or_default().inputs(now, path, estimate, flight)
    }
}

impl PathHistory {
    pub(super) fn sent(&mut self, now: Instant) {
        (self.history.sent, self.sent) = (now, self.sent + 1);
    }

    pub(super) fn lost(&mut self, now: Instant) {
        (self.history.lost, self.until) = (Some(now), Instant::ZERO);
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
        self.history.acked(now, bytes, ratio(took, eta.since(sent)));
        self.brief.acked(now, sent, bytes, more, path);
        self.long.acked(now, sent, bytes, more, path);
        self.until = Instant::ZERO;
    }

    fn inputs(&self, now: Instant, path: &Path, estimate: &Estimate, (oldest, late): Flight<'_>) -> Inputs {
        let (forecast, history) = (estimate.predicted(), &self.history);
        let own = forecast.own.max(Span::from_micros(1));
        let to = |span: Span| ratio(span, own);
        let held = path.unacked() + path.mss;
        let at = |rate: BitRate| to(rate.transmission_time(held));
        let queue = Queue { bytes: held, oldest, min_rtt: path.min_rtt, rttvar: path.rttvar };
        let rates = &forecast.rates;
        let busy = |rate: Option<(BitRate, Instant)>| rate.map_or(at(rates.brings), |(rate, _)| at(rate));
        let (brief, long) = (self.brief.rate(now, &queue), self.long.rate(now, &queue));
        let brought = |parts| {
            let (bytes, time) = history.brought(now, parts);
            to(time.mul_div(held.get(), bytes.get().max(path.mss.get() / 2).max(1)))
        };
        let since = |then: Instant| to(now.since(then));
        let flag = |is: bool| f32::from(u8::from(is));
        let share = |count: u64| (count as f32 / path.sent.packets.max(1) as f32).min(1.0).sqrt();
        let (waited, alone) = oldest.map_or((Span::ZERO, false), |oldest| (now.since(oldest.sent), oldest.alone));
        let idle = oldest.map_or(Span::ZERO, |oldest| now.since(history.heard.max(oldest.sent + path.min_rtt)));
        [
            ratio(own, Span::from_millis(32)),
            to(path.min_rtt),
            to(path.srtt),
            to(path.latest_rtt),
            to(path.rttvar),
            log2(held.get()) - log2(path.mss.get()),
            at(rates.brings),
            at(rates.measured),
            busy(brief),
            busy(estimate.recent.rate(now, &queue)),
            busy(long),
            flag(brief.is_some()),
            flag(long.is_some()),
            brought(1),
            brought(2),
            brought(4),
            brought(8),
            brought(15),
            at(path.delivery_rate),
            since(history.heard),
            to(waited),
            to(idle),
            to(forecast.overdue),
            flag(alone),
            since(history.sent),
            history.lost.map_or(FAR, since),
            share(path.lost.packets),
            share(late),
            (log2(path.cwnd.get()) - log2(held.get())).clamp(-FAR, FAR),
            flag(grows(path)),
            if path.pacing_rate == BitRate::ZERO { FAR } else { at(path.pacing_rate) },
            history.missed[0],
            history.missed[1],
            history.spread,
            ratio(path.latest_rtt, path.srtt),
            to(forecast
                .own_rtt
                .mul_div(path.lost.packets.saturating_mul(3), path.sent.packets.saturating_mul(2).max(1))),
        ]
    }
}

/// The factor that makes `time` of the rule's `own` estimate, in parts of [`ONE`], between the least and the largest.
pub(super) fn factor_of(time: Span, own: Span) -> u64 {
    const LARGEST: u64 = 1 << MOST as u64;
    let own = own.max(Span::from_nanos(1)).as_nanos();
    let parts = u128::from(time.as_nanos()) * u128::from(ONE) / u128::from(own);
    u64::try_from(parts).unwrap_or(u64::MAX).clamp(ONE / LARGEST, ONE * LARGEST)
}

/// The binary logarithm of one span over another, within [`FAR`]. [`Span::MAX`], a time that nobody knows, counts as
/// none.
fn ratio(one: Span, other: Span) -> f32 {
    let log2_of = |span: Span| log2(span.as_nanos().wrapping_add(1));
    (log2_of(one) - log2_of(other)).clamp(-FAR, FAR)
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
    fn a_factor_makes_one_time_of_the_other_within_sixteen_times() {
        let ms = Span::from_millis;
        let factors = [(20, 10), (5, 10), (1000, 10), (0, 10)].map(|(time, own)| factor_of(ms(time), ms(own)));
        assert_eq!(factors, [2 * ONE, ONE / 2, 16 * ONE, ONE / 16]);
        assert_eq!(factor_of(ms(1), Span::ZERO), 16 * ONE);
    }

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
