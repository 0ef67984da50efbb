//! What is predicted for a path: its rate, its round trip, when a packet on it arrives; and how busy the connection is.

use weftway_path::{BitRate, BlockedReason, Bytes, Instant, Path, Span};

use super::capacity::{Capacity, is_queueing};
use super::sight::Sight;
use super::stalls::Silence;
use super::terms::Terms;

/// A peak counts in full for so many smoothed round trips, and for as long again: long enough to bridge what one round
/// trip of an idle application hides, short enough to follow a cellular link.
const PEAK_SPAN: u64 = 2;
/// Until delivery was measured at a rate, window and pacer are believed up to so many times of what was: BBR's STARTUP
/// paces at 2.8 times its estimate, for as long as the application does not fill the pipe.
const OPTIMISM: u64 = 4;
/// So many packets a round trip are believed whatever was measured: each path begins with them (RFC 6928, RFC 9002), and an
/// application that sends a few bytes at a time shows nothing of what the path could bring.
const INITIAL_PACKETS: u64 = 10;
/// After so many samples nothing is left in `srtt` of what it was.
const MOST_SAMPLES: u64 = 64;
/// Rounds in which a window is taken to double.
const MOST_ROUNDS: u64 = 6;
/// What acknowledgements may be delayed by beyond half a round trip, without a sign that the path is silent.
const GRACE: Span = Span::from_millis(10);
/// By how much more an overdue acknowledgement is still to come, as a multiple of what it is overdue.
const SILENCE: u64 = 4;
/// More than this, in thousandths, no path is taken to lose.
const MOST_LOSS: u64 = 500;
/// The least chance, in thousandths, that a packet is lost or late: a path that has lost none yet may fade.
const LEAST_LOSS_CHANCE: u64 = 20;
/// For how long what was sent counts as load.
const MEMORY: Span = Span::from_millis(250);
/// The load in thousandths at most: a saturated connection would price a copy at infinity.
const MOST_LOAD: u64 = 990;

/// What a path showed in some round trips.
#[derive(Clone, Copy, Default)]
struct Rounds {
    /// The largest delivery rate.
    rate: BitRate,
    /// The least round trip.
    least: Option<Span>,
    /// Whether the path held less than two packets: the acknowledgement of one is delayed.
    ran_empty: bool,
}

/// What a path showed in the last 2 smoothed round trips, and in those before.
#[derive(Clone, Copy, Default)]
pub(super) struct Peak {
    began: Instant,
    last: Rounds,
    before: Rounds,
    /// Since when it is open and holds nothing, though there is more to send than its window.
    unused_since: Option<Instant>,
    /// What `srtt` still tells of a queue that has drained meanwhile.
    stale_queue: Span,
    /// What it brought while a queue stood there.
    capacity: Capacity,
    /// The samples in `srtt` when the last acknowledgement came.
    samples: u64,
}

/// What is predicted for a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forecast {
    pub rate: BitRate,
    /// The part of `rate` that was measured; all of it before the first measurement.
    pub measured: BitRate,
    pub rtt: Span,
    least: Span,
    /// Until a packet given to it now arrives, but for what the pacer keeps and a learned estimate says.
    pub own: Span,
    /// Until a packet given to it now arrives, if it is not lost.
    pub arrival: Span,
    /// The same with what a loss would cost.
    pub expected: Span,
    /// For how long an acknowledgement has been overdue.
    pub overdue: Span,
    /// The chance that a packet in flight is lost or late, in thousandths.
    pub loss_chance: u64,
    /// At what rate the path lets more go when it is full.
    drain_rate: BitRate,
    /// What that is at most in each least round trip.
    window: Option<Bytes>,
    /// Whether its window doubles each round trip.
    pub grows: bool,
    silence: Silence,
}

impl Peak {
    /// An acknowledgement came.
    pub(super) fn note(&mut self, now: Instant, path: &Path) {
        // As each sample takes an eighth of `srtt`.
        for _ in 0..path.rtt_samples.saturating_sub(self.samples).min(MOST_SAMPLES) {
            self.stale_queue = self.stale_queue * 7 / 8;
        }
        self.samples = path.rtt_samples;
        let is_empty = path.unacked() < path.mss + path.mss;
        self.capacity.note(now, path, is_empty);
        self.last.ran_empty |= is_empty;
        if now.since(self.began) >= path.srtt * PEAK_SPAN {
            (self.began, self.before) = (now, self.last);
            self.last = Rounds::default();
        }
        self.last.rate = self.last.rate.max(path.delivery_rate);
        self.last.least = Some(self.last.least.map_or(path.latest_rtt, |least| least.min(path.latest_rtt)));
    }

    /// A question. With `unused` the path is open and holds nothing, though there is more to send than its window.
    pub(super) fn asked(&mut self, now: Instant, path: &Path, unused: bool) {
        let since = self.unused_since.unwrap_or(now);
        if unused && now.since(since) > path.srtt {
            self.stale_queue = path.srtt.saturating_sub(path.min_rtt);
        }
        self.unused_since = unused.then_some(since);
    }

    /// The smoothed round-trip time, less what has drained since it was measured.
    fn smoothed(&self, path: &Path, terms: &Terms) -> Span {
        if terms.drain { path.srtt.saturating_sub(self.stale_queue) } else { path.srtt }
    }

    /// The smoothed round trip, without the queue of a burst that the path has got rid of: if it has run empty lately, the
    /// least round trip tells what stands there.
    fn standing(&self, srtt: Span) -> Span {
        let least = self.last.least.into_iter().chain(self.before.least).min();
        least.filter(|_| self.last.ran_empty || self.before.ran_empty).map_or(srtt, |least| least.min(srtt))
    }

    /// The rate that the path brings, and the rate at which it lets more go when it is full. A standing queue limits both; the
    /// queue of a burst, and what the path brought while it was busy, limit only the first.
    fn rates(&self, now: Instant, path: &Path, srtt: Span, peak: BitRate, terms: &Terms) -> (BitRate, BitRate) {
        let has_queue = terms.queue && is_queueing(path, srtt, peak);
        if has_queue && (!terms.burst || is_queueing(path, self.standing(srtt), peak)) {
            return (peak, peak);
        }
        let believed = Self::believed(path, srtt, peak);
        let capacity = self.capacity.known(now, path).filter(|_| terms.busy);
        let most = capacity.map_or(believed, |capacity| believed.min(capacity.max(peak)));
        (if has_queue { peak } else { most }, believed)
    }

    /// The peak, or what window and pacer promise, as far as that is believed.
    fn believed(path: &Path, srtt: Span, peak: BitRate) -> BitRate {
        let window = BitRate::of(path.cwnd, srtt);
        let window = if path.pacing_rate > BitRate::ZERO { window.min(path.pacing_rate) } else { window };
        match peak {
            BitRate::ZERO => window,
            peak if window <= peak => peak,
            peak => {
                let initial = BitRate::of(path.mss.mul_div(INITIAL_PACKETS, 1), srtt);
                window.min(peak.mul_div(OPTIMISM, 1).max(initial)).max(peak)
            }
        }
    }

    /// What a packet given to `path` now has to expect. `due`: when its next acknowledgement is overdue; `late`: how many of
    /// its packets were acknowledged after theirs was; `present`: until it is acknowledged, by what the path brings now.
    pub(super) fn forecast(
        &self,
        now: Instant,
        path: &Path,
        due: Option<Instant>,
        late: u64,
        present: Option<Span>,
        sight: Option<&Sight>,
        silence: Silence,
        terms: &Terms,
    ) -> Forecast {
        let peak = self.last.rate.max(self.before.rate);
        let srtt = self.smoothed(path, terms);
        let (rate, drain_rate) = self.rates(now, path, srtt, peak, terms);
        let least = path.min_rtt;
        let rtt = if terms.backlog && rate > BitRate::ZERO {
            let noise = srtt.saturating_sub(least) / 2;
            (srtt + least.max(rate.transmission_time(path.unacked())) + noise) / 2
        } else {
            srtt
        };
        let overdue = due.map_or(Span::ZERO, |due| now.since(due));
        let hold = if path.blocked == BlockedReason::Pacing { path.release.since(now) } else { Span::ZERO };
        let own = rtt.saturating_sub(least / 2) + overdue * SILENCE;
        let seen = present.map(|round_trip| mean(own, round_trip.saturating_sub(least / 2)));
        let (own, rtt) = seen.map_or((own, rtt), |seen| (seen, seen + least / 2));
        let seen = sight.map(|sight| sight.apply(own));
        let (arrival, rtt) = seen.map_or((own + hold, rtt), |seen| (seen + hold, if mode() & 1 == 1 { seen + least / 2 } else if mode() & 2 == 2 { rtt.max(seen.min(rtt * 2)) } else { rtt }));
        let share = |packets: u64| match packets {
            0 => 0,
            packets => packets.saturating_mul(1000).checked_div(path.sent.packets).unwrap_or(0).min(MOST_LOSS),
        };
        let loss = share(path.lost.packets);
        let loss_chance = if terms.odds { share(path.lost.packets + late).max(env("WFLEAST", LEAST_LOSS_CHANCE)) } else { loss };
        let expected = if loss == 0 || !terms.loss { arrival } else { arrival + (rtt * 3 / 2).mul_div(loss, 1000) };
        let measured = if peak > BitRate::ZERO { peak } else { rate };
        let (grows, window) = (Self::grows(path), terms.window.then_some(path.cwnd));
        Forecast { rate, measured, rtt, least, own, arrival, expected, overdue, loss_chance, drain_rate, window, grows, silence }
    }

    /// Whether the window of `path` doubles each round trip. The slow-start threshold tells that until the first loss only,
    /// since BBR does not obey it.
    fn grows(path: &Path) -> bool {
        path.cwnd < path.ssthresh && path.lost.packets == 0
    }
}

/// The geometric mean, in microseconds: of two estimates neither of which is known to be the better one.
fn mean(one: Span, other: Span) -> Span {
    Span::from_micros(one.as_micros().saturating_mul(other.as_micros()).isqrt())
}

impl Forecast {
    /// How long a packet occupies the path.
    pub(super) fn airtime(&self, path: &Path) -> Span {
        self.rate.transmission_time(path.mss)
    }

    /// After what time an acknowledgement is overdue.
    pub(super) fn patience(&self) -> Span {
        self.rtt + self.rtt / 2 + GRACE
    }

    /// How long a packet still takes that was to arrive at `eta`, with `front` bytes in flight up to its end: no less than
    /// the path takes for those. The acknowledgements that tell what is in flight are half a round trip old.
    pub(super) fn left(&self, now: Instant, eta: Instant, front: Bytes) -> Span {
        eta.since(now).max(self.measured.transmission_time(front).saturating_sub(self.least / 2))
    }

    /// What the path lets go in `time`.
    pub(super) fn delivers(&self, time: Span) -> Bytes {
        let limit = self.window.map(|window| BitRate::of(window, self.least)).filter(|limit| *limit > BitRate::ZERO);
        let rate = limit.map_or(self.drain_rate, |limit| limit.min(self.drain_rate));
        if !self.grows || self.rtt.is_zero() {
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
        let lost = (eta + self.rtt * 5 / 2).saturating_sub(s.expected).mul_div(loss, 1000);
        kept + lost + self.silence.cost(eta, s.expected).mul_div(env("WFSTALL", 0), 1000)
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
        (self.recent, self.at) = (self.recent(now) + bytes, now);
        *if copy { &mut self.insured } else { &mut self.fresh } += bytes;
    }

    /// What was sent lately of what all paths could have brought, in thousandths.
    pub(super) fn permille(&self, now: Instant, paths: &[Forecast]) -> u64 {
        let all = paths.iter().fold(0u64, |sum, path| sum.saturating_add(path.rate.as_bps()));
        let sent = BitRate::of(self.recent(now), MEMORY).as_bps();
        sent.saturating_mul(1000).checked_div(all).unwrap_or(0).min(MOST_LOAD)
    }
}

pub(super) fn env(name: &'static str, usual: u64) -> u64 {
    static KNOWN: std::sync::OnceLock<[(&str, Option<u64>); 4]> = std::sync::OnceLock::new();
    let known = KNOWN.get_or_init(|| ["WFSTALL", "WFLEAST", "WFPRICE", "WFSHARE"].map(|name| (name, std::env::var(name).ok().and_then(|t| t.parse().ok()))));
    known.iter().find(|one| one.0 == name).and_then(|one| one.1).unwrap_or(usual)
}

fn mode() -> u32 {
    static MODE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *MODE.get_or_init(|| std::env::var("WFMODE").ok().and_then(|text| text.parse().ok()).unwrap_or(1))
}
