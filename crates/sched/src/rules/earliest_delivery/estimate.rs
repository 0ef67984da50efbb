//! Estimate of a path: from its rates and its last acknowledgements, a forecast of when a packet on it arrives.

use weftway_path::{BitRate, BlockedReason, Bytes, Instant, Path, Span};

use super::forecast::Forecast;
use super::peak::Peak;
use super::rates::{Limits, Measured};
use crate::shared::recent_rate::{Oldest, Queue, RecentRate};

/// Time for which an overdue acknowledgement is still to come, as a multiple of the time for which it is overdue.
const SILENCE: u64 = 4;
/// Factor of a learned estimate that changes nothing.
pub(super) const ONE: u64 = 4096;
/// Largest loss of a path that counts, in thousandths.
const MOST_LOSS: u64 = 500;
/// Least chance, in thousandths, that a packet is lost or late: a path that has lost none yet may fade.
const LEAST_LOSS_CHANCE: u64 = 20;

/// Measurements of a path, and the last forecast.
#[derive(Clone, Default)]
pub(super) struct Estimate {
    peak: Peak,
    pub recent: RecentRate,
    /// Factor of a learned estimate, if there is one ([`Estimate::correct`]).
    factor: Option<u64>,
    /// Last forecast, its rates among it.
    forecast: Forecast,
    /// Values that it follows from, beside the measurements and the limits.
    basis: Basis,
    /// Limits that its rates follow from.
    limits: Limits,
    /// Smoothed round-trip time with the rates, less a queue that is gone; and with half of its excess over the least
    /// one.
    srtt: Span,
    noisy: Span,
    /// Time at which the forecast ends while its basis stays; zero once an acknowledgement or a correction has come.
    holds_until: Instant,
    /// Time at which the rates end without an acknowledgement before: then the rate of the busy path is too old.
    rates_hold_until: Instant,
}

/// Values that a forecast follows from, beside the path's measurements and limits.
#[derive(Clone, Copy, PartialEq, Default)]
struct Basis {
    unacked: Bytes,
    rttvar: Span,
    /// Packets that were lost, and sent, if any were lost.
    lost: (u64, u64),
    /// Time until which the pacer keeps a packet.
    release: Instant,
}

impl Basis {
    #[inline(always)]
    fn of(path: &Path) -> Self {
        Self {
            unacked: path.unacked(),
            rttvar: path.rttvar,
            lost: if path.lost.packets == 0 { (0, 0) } else { (path.lost.packets, path.sent.packets) },
            release: if path.blocked == BlockedReason::Pacing { path.release } else { Instant::ZERO },
        }
    }
}

impl Estimate {
    /// Takes the acknowledgement of a packet that left at `sent`, if that is known; with `more`, others are under way
    /// behind it. Here, and with a correction, the last forecast ends.
    pub(super) fn acked(&mut self, now: Instant, sent: Option<Instant>, bytes: Bytes, more: bool, path: &Path) {
        (self.holds_until, self.rates_hold_until) = (Instant::ZERO, Instant::ZERO);
        if let Some(sent) = sent {
            self.recent.acked(now, sent, bytes, more, path);
        }
        self.peak.note(now, sent, path);
    }

    /// Tells whether a copy should ask how long a round trip on `path` takes now.
    pub(super) fn wants_probe(&self, now: Instant, path: &Path) -> bool {
        self.peak.is_stale(now, path)
    }

    /// Sets the factor of a learned estimate, in parts of [`ONE`], by which the rule's own is multiplied.
    pub(super) fn correct(&mut self, factor: Option<u64>) {
        (self.factor, self.holds_until) = (factor, Instant::ZERO);
    }

    /// The last forecast.
    #[inline]
    pub(super) fn predicted(&self) -> &Forecast {
        &self.forecast
    }

    /// Tells whether the last forecast is still that of `path`, if the oldest packet is the same that nothing has been
    /// heard of.
    #[inline(always)]
    pub(super) fn holds(&self, now: Instant, path: &Path) -> bool {
        now < self.holds_until && self.basis == Basis::of(path) && self.limits == Limits::of(path)
    }

    /// Time at which the last forecast ends while nothing changes.
    #[inline]
    pub(super) fn holds_until(&self) -> Instant {
        self.holds_until
    }

    /// Forecasts when a packet given to `path` now arrives; `oldest` is the oldest packet that nothing has been heard
    /// of.
    #[inline(never)]
    pub(super) fn forecast(&mut self, now: Instant, path: &Path, oldest: Option<&Oldest>) -> &Forecast {
        if now >= self.rates_hold_until || self.limits != Limits::of(path) {
            self.find_rates(now, path);
        }
        self.basis = Basis::of(path);
        let (unacked, least, brings) = (path.unacked(), path.min_rtt, self.forecast.rates.brings);
        let rtt = if brings > BitRate::ZERO {
            (self.noisy + least.max(brings.transmission_time(unacked))) / 2
        } else {
            self.srtt
        };
        let due = oldest.filter(|_| unacked > Bytes::ZERO).map_or(Instant::NEVER, |oldest| oldest.due);
        let overdue = now.since(due);
        let on_time = rtt.saturating_sub(least / 2);
        let own = if overdue.is_zero() { on_time } else { on_time + overdue * SILENCE };
        let queue = Queue { bytes: unacked.plus(path.mss), oldest, min_rtt: least, rttvar: path.rttvar };
        let (present, present_until) = self.recent.round_trip(now, &queue);
        let present = present.map(|round_trip| mean(own, round_trip.saturating_sub(least / 2)));
        let (own, rtt) = present.map_or((own, rtt), |present| (present, present + least / 2));
        (self.forecast.own, self.forecast.own_rtt) = (own, rtt);
        let corrected = self.factor.filter(|_| unacked > Bytes::ZERO).map(|factor| own.mul_div(factor, ONE));
        let (own, rtt) = corrected.map_or((own, rtt), |corrected| (corrected, corrected + least / 2));
        let is_held = self.basis.release > now;
        // What is overdue or held changes with the time.
        let until = if is_held || !overdue.is_zero() { now } else { due };
        self.holds_until = (until + Span::from_nanos(1)).min(present_until).min(self.rates_hold_until);
        let arrival = if is_held { own + self.basis.release.since(now) } else { own };
        let loss = share(path.lost.packets, path.sent.packets);
        let expected = if loss == 0 { arrival } else { arrival + (rtt * 3 / 2).mul_div(loss, 1000) };
        let forecast = &mut self.forecast;
        (forecast.rtt, forecast.arrival, forecast.expected, forecast.overdue) = (rtt, arrival, expected, overdue);
        &self.forecast
    }

    /// Takes the bytes in flight up to the end of the newest packet, after each forecast.
    #[inline]
    pub(super) fn note_held(&mut self, held: Bytes) {
        self.forecast.clears = self.forecast.rates.measured.transmission_time(held);
    }

    /// The rates, and the smoothed round-trip time.
    #[inline(never)]
    fn find_rates(&mut self, now: Instant, path: &Path) {
        let Self { peak, limits, .. } = self;
        *limits = Limits::of(path);
        let capacity = peak.capacity.known(now, path.srtt);
        let srtt = peak.smoothed(path);
        let capacity_rate = capacity.map(|(rate, _)| rate);
        let measured = Measured { peak: peak.rate(), most: peak.most(), capacity: capacity_rate, srtt };
        self.forecast.rates = limits.rates(&measured);
        (self.srtt, self.noisy) = (srtt, srtt + srtt.saturating_sub(path.min_rtt) / 2);
        self.rates_hold_until = capacity.map_or(Instant::NEVER, |(_, until)| until);
    }
}

/// Share of `packets` in `of`, in thousandths.
fn share(packets: u64, of: u64) -> u64 {
    match packets {
        0 => 0,
        packets => packets.saturating_mul(1000).checked_div(of).unwrap_or(0).min(MOST_LOSS),
    }
}

/// The chance that a packet in flight on `path` is lost or late, in thousandths, where `late` of its packets were
/// acknowledged after their acknowledgements were overdue.
pub(super) fn loss_chance(path: &Path, late: u64) -> u64 {
    share(path.lost.packets + late, path.sent.packets).max(LEAST_LOSS_CHANCE)
}

/// The geometric mean, in microseconds: of two estimates neither of which is known to be the better one.
fn mean(one: Span, other: Span) -> Span {
    Span::from_micros(root(one.as_micros().saturating_mul(other.as_micros())))
}

/// The square root, rounded down. A processor has that of a float at hand, which is rounded to the nearest one (IEEE
/// 754): up to 2^52 that is never the next integer.
fn root(n: u64) -> u64 {
    if n <= 1 << 52 { (n as i64 as f64).sqrt() as i64 as u64 } else { n.isqrt() }
}

#[cfg(test)]
mod tests {
    use super::super::rates::Rates;
    use super::*;
    use weftway_path::Recovery;
    use weftway_vectors::testing::path;

    type Change = (&'static str, fn(&mut Path));

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn the_root_is_that_of_integers() {
        assert_eq!([0, 1, 2, 3, 4, u64::MAX].map(root), [0, 1, 1, 1, 2, u64::from(u32::MAX)]);
        for n in [2, 3, 1000, (1 << 26) - 1, 1 << 26, (1 << 26) + 1, u64::from(u32::MAX)] {
            assert_eq!([n * n - 1, n * n, n * n + 1].map(root), [n - 1, n, n], "{n}");
        }
    }

    /// Each change of the path, of what is in flight, or of the time gives the forecast that a copy makes which has
    /// forgotten the last one.
    #[test]
    fn a_forecast_is_kept_only_while_nothing_differs_that_it_follows_from() {
        let mut path =
            Path { delivery_rate: BitRate::from_mbps(8), rttvar: Span::from_millis(1), ..path(0, 20, 100, 60) };
        let mut estimate = Estimate::default();
        // A queue stands: two packets take 2.8 ms, and the round trip is 60 ms.
        (path.latest_rtt, path.srtt) = (Span::from_millis(60), Span::from_millis(60));
        for n in 0..40 {
            let sent = Some(at(2 * n));
            (0..2).for_each(|_| estimate.acked(at(60 + 3 * n), sent, path.mss, true, &path));
        }
        let oldest = Oldest { sent: at(150), bytes: path.mss, alone: false, due: at(300) };
        let changes: [Change; 13] = [
            ("nothing", |_| {}),
            ("mss", |path| path.mss = Bytes::new(700)),
            ("window", |path| path.cwnd = Bytes::new(3000)),
            ("pacing", |path| path.pacing_rate = BitRate::from_mbps(1)),
            ("flight", |path| path.bytes_in_flight = Bytes::new(9000)),
            ("queue", |path| path.queued = Bytes::new(9000)),
            ("least", |path| path.min_rtt = Span::from_millis(11)),
            ("smoothed", |path| path.srtt = Span::from_millis(90)),
            ("variation", |path| path.rttvar = Span::from_millis(30)),
            ("lost", |path| (path.lost.packets, path.sent.packets) = (7, 100)),
            ("sent", |path| path.sent.packets = 31),
            ("held", |path| (path.blocked, path.release) = (BlockedReason::Pacing, at(400))),
            ("recovery", |path| path.recovery = Recovery::Recovery),
        ];
        let mut differ = 0;
        let mut check = |estimate: &mut Estimate, now, path: &Path, oldest: Option<Oldest>, label: &str| {
            let last = *estimate.predicted();
            let mut anew = estimate.clone();
            anew.rates_hold_until = Instant::ZERO;
            let of = |forecast: &Forecast| {
                let Rates { brings, measured, drains, carries, airtime, copy_airtime } = forecast.rates;
                let rates = (brings, measured, drains, carries, airtime, copy_airtime);
                (rates, forecast.rtt, forecast.arrival, forecast.expected, forecast.overdue)
            };
            let holds = estimate.holds(now, path) && label != "oldest";
            let kept = of(if holds { estimate.predicted() } else { estimate.forecast(now, path, oldest.as_ref()) });
            assert_eq!(kept, of(anew.forecast(now, path, oldest.as_ref())), "{label}");
            differ += usize::from(kept != of(&last));
            holds
        };
        for (label, change) in changes {
            change(&mut path);
            check(&mut estimate, at(180), &path, Some(oldest), label);
        }
        check(&mut estimate, at(185), &path, None, "oldest");
        estimate.acked(at(185), Some(at(150)), path.mss, true, &path);
        check(&mut estimate, at(185), &path, None, "an acknowledgement");
        // Over time: the pacer has let go. The rate falls, and then an acknowledgement is overdue.
        (path.blocked, path.lost.packets) = (BlockedReason::None, 0);
        for alone in [false, true] {
            let oldest = Some(Oldest { alone, ..oldest });
            check(&mut estimate, at(185), &path, oldest, "oldest");
            let held: Vec<_> = (185..320).map(|ms| check(&mut estimate, at(ms), &path, oldest, "time")).collect();
            assert!(held[1..10].iter().all(|held| *held) && !held[134], "{held:?}");
        }
        assert!(differ > 10, "{differ} changes show");
    }
}
