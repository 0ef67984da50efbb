//! What is predicted for a path: its rate, its round trip, when a packet on it arrives; and how busy the connection is.

use weftway_path::{BitRate, BlockedReason, Bytes, Instant, Path, Span};

use super::capacity::Capacity;
use super::rates::{Allowed, Measured, Rates};
use crate::shared::present::{Oldest, Present, Queue};

/// A peak counts in full for so many smoothed round trips, and for as long again: long enough to bridge what one round
/// trip of an idle application hides, short enough to follow a cellular link.
const PEAK_SPAN: u64 = 2;
/// A path that holds nothing and was not heard for so long is asked by a copy.
const PROBE_AFTER: Span = Span::from_millis(250);
/// After so many samples nothing is left in `srtt` of what it was.
const MOST_SAMPLES: u64 = 64;
/// Rounds in which a window is taken to double.
const MOST_ROUNDS: u64 = 6;
/// What acknowledgements may be delayed by beyond half a round trip, without a sign that the path is silent.
const GRACE: Span = Span::from_millis(10);
/// By how much more an overdue acknowledgement is still to come, as a multiple of what it is overdue.
const SILENCE: u64 = 4;
/// One, as the factor of a learned estimate.
pub(super) const ONE: u64 = 4096;
/// More than this, in thousandths, no path is taken to lose.
const MOST_LOSS: u64 = 500;
/// The least chance, in thousandths, that a packet is lost or late: a path that has lost none yet may fade.
const LEAST_LOSS_CHANCE: u64 = 20;
/// For how long what was sent counts as load.
const MEMORY: Span = Span::from_millis(250);
/// The load in thousandths at most: a saturated connection would price a copy at infinity.
const MOST_LOAD: u64 = 990;

/// What a path showed in the last 2 smoothed round trips, and in those before.
#[derive(Clone, Copy, Default)]
struct Peak {
    began: Instant,
    /// The largest delivery rate.
    last: BitRate,
    before: BitRate,
    /// What `srtt` still tells of a queue that was gone when the path was asked again.
    stale_queue: Span,
    /// What it brought while a queue stood there.
    capacity: Capacity,
    /// The samples in `srtt` when the last acknowledgement came.
    samples: u64,
    /// When it came, and what the path then held and brought.
    noted: (Instant, Bytes, BitRate),
}

/// What is predicted for a path.
#[derive(Clone, Copy, Default)]
pub(super) struct Forecast {
    pub rates: Rates,
    pub rtt: Span,
    /// Until a packet given to it now arrives, and the round trip, by the rule alone: but for what the pacer keeps and what a
    /// learned estimate says.
    pub own: Span,
    pub own_rtt: Span,
    /// Until a packet given to it now arrives, if it is not lost.
    pub arrival: Span,
    /// The same with what a loss would cost.
    pub expected: Span,
    /// For how long an acknowledgement has been overdue.
    pub overdue: Span,
}

/// What is known of a path, and what is predicted from that.
#[derive(Clone, Default)]
pub(super) struct Estimate {
    peak: Peak,
    pub present: Present,
    /// What a learned estimate says, if there is one ([`Estimate::correct`]).
    factor: Option<u64>,
    /// The last forecast, its rates among it.
    forecast: Forecast,
    /// What it followed from beside what is known, and beside the rates.
    seen: Seen,
    /// The same of the rates.
    allowed: Allowed,
    /// The smoothed round-trip time with the rates, less a queue that is gone; and with half of what it exceeds
    /// the least one by.
    srtt: Span,
    noisy: Span,
    /// Whether nothing has been learned since the forecast.
    is_current: bool,
    /// Until when the rates hold, if nothing is learned before: then what the path brought while it was busy is too old.
    rates_hold_until: Instant,
}

/// What a forecast follows from beside the rates and what is known of the path.
#[derive(Clone, Copy, PartialEq, Default)]
struct Seen {
    now: Instant,
    unacked: Bytes,
    rttvar: Span,
    /// The packets that were lost; of how many, if any were.
    lost: (u64, u64),
    /// Until when the pacer keeps a packet.
    release: Instant,
    /// Which packet was the oldest that nothing has been heard of; zero without one.
    oldest: u64,
}

impl Seen {
    #[inline(always)]
    fn of(now: Instant, path: &Path, oldest: Option<&Oldest>) -> Self {
        Self {
            now,
            unacked: path.unacked(),
            rttvar: path.rttvar,
            lost: if path.lost.packets == 0 { (0, 0) } else { (path.lost.packets, path.sent.packets) },
            release: if path.blocked == BlockedReason::Pacing { path.release } else { Instant::ZERO },
            oldest: oldest.map_or(0, |oldest| oldest.number),
        }
    }
}

impl Peak {
    /// An acknowledgement came, of a packet that left at `sent`, if that is known.
    fn note(&mut self, now: Instant, sent: Option<Instant>, path: &Path) {
        // The packets that come with one acknowledgement tell the same, but for the first two where a new time begins.
        let noted = (now, path.unacked(), path.delivery_rate);
        if self.noted == noted && self.samples == path.rtt_samples && self.began < now {
            return;
        }
        // As each sample takes an eighth of `srtt`.
        if !self.stale_queue.is_zero() {
            for _ in 0..path.rtt_samples.saturating_sub(self.samples).min(MOST_SAMPLES) {
                self.stale_queue = self.stale_queue * 7 / 8;
            }
        }
        if sent.is_some_and(|sent| sent.since(self.heard()) > PROBE_AFTER) {
            self.stale_queue = path.srtt.saturating_sub(path.latest_rtt);
        }
        (self.noted, self.samples) = (noted, path.rtt_samples);
        let is_empty = path.unacked() < path.mss.plus(path.mss);
        self.capacity.note(now, path, is_empty);
        if now.since(self.began) >= path.srtt * PEAK_SPAN {
            (self.began, self.before) = (now, self.last);
            self.last = BitRate::ZERO;
        }
        self.last = self.last.max(path.delivery_rate);
    }

    /// When the last acknowledgement came.
    fn heard(&self) -> Instant {
        self.noted.0
    }

    /// The smoothed round-trip time, less the queue that is gone.
    fn smoothed(&self, path: &Path) -> Span {
        path.srtt.saturating_sub(self.stale_queue)
    }

    /// The largest delivery rate.
    fn rate(&self) -> BitRate {
        self.last.max(self.before)
    }
}

impl Estimate {
    /// A packet was acknowledged that left at `sent`, if that is known. `more`: others are under way behind it. Here, and where
    /// a learned estimate speaks, all is forgotten that followed from what was known of the path.
    pub(super) fn acked(&mut self, now: Instant, sent: Option<Instant>, bytes: Bytes, more: bool, path: &Path) {
        (self.is_current, self.rates_hold_until) = (false, Instant::ZERO);
        if let Some(sent) = sent {
            self.present.acked(now, sent, bytes, more, path);
        }
        self.peak.note(now, sent, path);
    }

    /// Whether a copy should ask what a round trip on `path` takes now: it holds nothing and was not heard for a while, and its
    /// round trip was more than twice the least. Nothing else tells that this is over.
    pub(super) fn wants_probe(&self, now: Instant, path: &Path) -> bool {
        path.unacked() == Bytes::ZERO
            && now.since(self.peak.heard()) > PROBE_AFTER
            && self.peak.smoothed(path) > path.min_rtt * 2
    }

    /// What a learned estimate says: by how much, in parts of [`ONE`], the rule's own is to be taken.
    pub(super) fn correct(&mut self, factor: Option<u64>) {
        (self.factor, self.is_current) = (factor, false);
    }

    /// The last forecast.
    #[inline]
    pub(super) fn predicted(&self) -> &Forecast {
        &self.forecast
    }

    /// What a packet given to `path` now has to expect. `oldest`: the oldest packet that nothing has been heard of. Made anew
    /// where anything differs that it follows from.
    #[inline]
    pub(super) fn forecast(&mut self, now: Instant, path: &Path, oldest: Option<&Oldest>) -> &Forecast {
        // Mostly time has passed, or another packet is in flight.
        let may_hold = self.is_current && self.seen.now == now && self.seen.unacked == path.unacked();
        if !(may_hold && self.seen == Seen::of(now, path, oldest) && self.allowed == Allowed::of(path)) {
            self.predict(now, path, oldest);
        }
        &self.forecast
    }

    #[inline(never)]
    fn predict(&mut self, now: Instant, path: &Path, oldest: Option<&Oldest>) {
        if now >= self.rates_hold_until || self.allowed != Allowed::of(path) {
            self.find_rates(now, path);
        }
        (self.seen, self.is_current) = (Seen::of(now, path, oldest), true);
        let (unacked, least, brings) = (path.unacked(), path.min_rtt, self.forecast.rates.brings);
        let rtt = if brings > BitRate::ZERO {
            (self.noisy + least.max(brings.transmission_time(unacked))) / 2
        } else {
            self.srtt
        };
        let overdue = oldest.filter(|_| unacked > Bytes::ZERO).map_or(Span::ZERO, |oldest| now.since(oldest.due));
        let on_time = rtt.saturating_sub(least / 2);
        let own = if overdue.is_zero() { on_time } else { on_time + overdue * SILENCE };
        let queue = Queue { bytes: unacked.plus(path.mss), oldest, min_rtt: least, rttvar: path.rttvar };
        let present =
            self.present.round_trip(now, &queue).map(|round_trip| mean(own, round_trip.saturating_sub(least / 2)));
        let (own, rtt) = present.map_or((own, rtt), |present| (present, present + least / 2));
        (self.forecast.own, self.forecast.own_rtt) = (own, rtt);
        let corrected = self.factor.filter(|_| unacked > Bytes::ZERO).map(|factor| own.mul_div(factor, ONE));
        let (own, rtt) = corrected.map_or((own, rtt), |corrected| (corrected, corrected + least / 2));
        let is_held = self.seen.release > now;
        let arrival = if is_held { own + self.seen.release.since(now) } else { own };
        let loss = share(path.lost.packets, path.sent.packets);
        let expected = if loss == 0 { arrival } else { arrival + (rtt * 3 / 2).mul_div(loss, 1000) };
        let forecast = &mut self.forecast;
        (forecast.rtt, forecast.arrival, forecast.expected, forecast.overdue) = (rtt, arrival, expected, overdue);
    }

    /// The rates, and the smoothed round-trip time.
    #[inline(never)]
    fn find_rates(&mut self, now: Instant, path: &Path) {
        let Self { peak, allowed, .. } = self;
        *allowed = Allowed::of(path);
        let capacity = peak.capacity.known(now, path.srtt);
        let srtt = peak.smoothed(path);
        let measured = Measured { peak: peak.rate(), capacity: capacity.map(|(rate, _)| rate), srtt };
        self.forecast.rates = allowed.rates(&measured);
        (self.srtt, self.noisy) = (srtt, srtt + srtt.saturating_sub(path.min_rtt) / 2);
        self.rates_hold_until = capacity.map_or(Instant::NEVER, |(_, until)| until);
    }
}

/// So many packets of so many, in thousandths.
fn share(packets: u64, of: u64) -> u64 {
    match packets {
        0 => 0,
        packets => packets.saturating_mul(1000).checked_div(of).unwrap_or(0).min(MOST_LOSS),
    }
}

/// The chance that a packet in flight on `path` is lost or late, in thousandths, where `late` of its packets were acknowledged
/// after their acknowledgements were overdue.
pub(super) fn loss_chance(path: &Path, late: u64) -> u64 {
    share(path.lost.packets + late, path.sent.packets).max(LEAST_LOSS_CHANCE)
}

/// Whether the window of `path` doubles each round trip. The slow-start threshold tells that until the first loss only,
/// since BBR does not obey it.
pub(super) fn grows(path: &Path) -> bool {
    path.cwnd < path.ssthresh && path.lost.packets == 0
}

/// The geometric mean, in microseconds: of two estimates neither of which is known to be the better one.
fn mean(one: Span, other: Span) -> Span {
    Span::from_micros(root(one.as_micros().saturating_mul(other.as_micros())))
}

/// The square root, rounded down. A processor has that of a float at hand, which is rounded to the nearest one (IEEE 754): up
/// to 2^52 that is never the next integer.
fn root(n: u64) -> u64 {
    if n <= 1 << 52 { (n as i64 as f64).sqrt() as i64 as u64 } else { n.isqrt() }
}

impl Forecast {
    /// The rate that the path brings.
    pub(super) fn rate(&self) -> BitRate {
        self.rates.brings
    }

    /// How long a packet occupies the path.
    pub(super) fn airtime(&self) -> Span {
        self.rates.airtime
    }

    /// After what time an acknowledgement is overdue.
    pub(super) fn patience(&self) -> Span {
        self.rtt + self.rtt / 2 + GRACE
    }

    /// How long a packet on `path` still takes that was to arrive at `eta`, with `front` bytes in flight up to its end: no less
    /// than the path takes for those. The acknowledgements that tell what is in flight are half a round trip old.
    pub(super) fn left(&self, now: Instant, path: &Path, eta: Instant, front: Bytes) -> Span {
        eta.since(now).max(self.rates.measured.transmission_time(front).saturating_sub(path.min_rtt / 2))
    }

    /// What `path` lets go in `time`.
    pub(super) fn delivers(&self, path: &Path, time: Span) -> Bytes {
        let rate = self.rates.drains;
        if !grows(path) || self.rtt.is_zero() {
            return rate.bytes_in(time);
        }
        let rounds = (time.as_nanos() / self.rtt.as_nanos()).min(MOST_ROUNDS);
        let (rest, growth) = (time.saturating_sub(self.rtt * rounds), 1 << rounds);
        rate.bytes_in(self.rtt * (growth - 1)) + rate.bytes_in(rest * growth)
    }

    /// By how much a copy on `s` should come before a packet on this path that arrives within `eta`, and is lost with a
    /// chance of `loss` thousandths: then 2.5 round trips later.
    pub(super) fn gain(&self, s: &Self, eta: Span, loss: u64) -> Span {
        let kept = eta.saturating_sub(s.expected).mul_div(1000 - loss, 1000);
        kept + (eta + self.rtt * 5 / 2).saturating_sub(s.expected).mul_div(loss, 1000)
    }

    /// The same for a packet that is overdue: as likely as not it is lost.
    pub(super) fn overdue_gain(&self, s: &Self) -> Span {
        self.gain(s, self.arrival.max(self.overdue), 500)
    }
}

/// What was sent lately, once and as copies.
#[derive(Clone, Copy, Default)]
pub(super) struct Load {
    at: Instant,
    /// Bytes, of which a share is forgotten with time.
    recent: Bytes,
    /// All that was sent and is no copy.
    pub fresh: Bytes,
    /// All copies.
    pub insured: Bytes,
}

impl Load {
    fn recent(&self, now: Instant) -> Bytes {
        let left = MEMORY.saturating_sub(now.since(self.at));
        self.recent.mul_div(left.as_micros(), MEMORY.as_micros())
    }

    /// A packet left.
    pub(super) fn note(&mut self, now: Instant, bytes: Bytes, copy: bool) {
        (self.recent, self.at) = (self.recent(now).plus(bytes), now);
        *if copy { &mut self.insured } else { &mut self.fresh } += bytes;
    }

    /// What was sent lately of what all paths could have brought, in thousandths.
    pub(super) fn permille<'a>(&self, now: Instant, paths: impl Iterator<Item = &'a Forecast>) -> u64 {
        let all = paths.fold(0u64, |sum, path| sum.saturating_add(path.rate().as_bps()));
        let sent = BitRate::of(self.recent(now), MEMORY).as_bps();
        sent.saturating_mul(1000).checked_div(all).unwrap_or(0).min(MOST_LOAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::path;
    use weftway_path::Recovery;

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

    /// With the second of two packets of one acknowledgement nothing is known that would not be if both were looked at, whether or
    /// not a new time begins with it.
    #[test]
    fn packets_of_one_acknowledgement_tell_the_same() {
        let mut path = Path { delivery_rate: BitRate::from_mbps(8), ..path(0, 20, 100, 0) };
        let (mut peak, mut each) = (Peak::default(), Peak::default());
        for n in 0..200 {
            path.bytes_in_flight = path.mss.mul_div(n % 3, 1);
            path.rtt_samples += n % 2;
            for _ in 0..2 {
                peak.note(at(7 * n), None, &path);
                each.noted = (Instant::NEVER, Bytes::ZERO, BitRate::ZERO);
                each.note(at(7 * n), None, &path);
            }
            let told = |peak: &Peak| (peak.began, peak.last, peak.before, peak.samples);
            assert_eq!(told(&peak), told(&each), "{n}");
        }
    }

    /// Each change of the path, of what is in flight, or of the time gives the forecast that a copy makes which has forgotten
    /// the last one.
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
        let oldest = Oldest { sent: at(150), bytes: path.mss, alone: false, due: at(300), number: 1 };
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
            (anew.is_current, anew.rates_hold_until) = (false, Instant::ZERO);
            let of = |forecast: &Forecast| {
                let Rates { brings, measured, drains, airtime } = forecast.rates;
                (brings, measured, drains, airtime, forecast.rtt, forecast.arrival, forecast.expected, forecast.overdue)
            };
            let kept = of(estimate.forecast(now, path, oldest.as_ref()));
            assert_eq!(kept, of(anew.forecast(now, path, oldest.as_ref())), "{label}");
            differ += usize::from(kept != of(&last));
        };
        for (label, change) in changes {
            change(&mut path);
            check(&mut estimate, at(180), &path, Some(oldest), label);
        }
        check(&mut estimate, at(185), &path, Some(oldest), "time");
        check(&mut estimate, at(185), &path, Some(Oldest { due: at(170), number: 2, ..oldest }), "overdue");
        check(&mut estimate, at(185), &path, Some(Oldest { alone: true, due: at(170), number: 3, ..oldest }), "alone");
        check(&mut estimate, at(185), &path, None, "no packet in flight");
        estimate.acked(at(185), Some(at(150)), path.mss, true, &path);
        check(&mut estimate, at(185), &path, None, "an acknowledgement");
        assert!(differ > 10, "{differ} changes show");
    }
}
