//! Forward prediction: how much the faster paths will have delivered when a packet that is sent on
//! a slow path now arrives. So far past the next unsent byte that packet belongs. Every scheduler
//! that sends ahead takes its parts from here.
//!
//! With `T = (srtt_j − srtt_i)/2`, `R` whole round trips of path i in it and `f` of another, path i
//! delivers meanwhile what its window has free, and a window each round:
//! `N_i = (cwnd_i − inflight_i) + w(1) + … + w(R) + ⌊f·w(R + 1)⌋`, where `w` starts from `cwnd_i`
//! and each round doubles below `ssthresh_i`, never past it, and grows by one packet from there.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BitRate, Bytes, Context, Decision, Offset, Path, Span};

use crate::shared::choose;

/// After so many rounds an expected window counts as settled.
const ROUNDS: u64 = 16;
/// No path is taken to lose more than this share.
const WORST_LOSS: f64 = 0.99;

/// The paths that new data may use and that are faster than `slow`.
#[inline]
pub(crate) fn faster<'a>(cx: &Context<'a>, slow: &'a Path) -> impl Iterator<Item = &'a Path> {
    choose::standing(cx).filter(|path| path.srtt < slow.srtt)
}

/// How much earlier a packet arrives on `fast` than one that leaves at the same time on `slow`.
#[inline]
pub(crate) fn lead(fast: &Path, slow: &Path) -> Span {
    slow.srtt.saturating_sub(fast.srtt) / 2
}

/// The rate of `path`: as measured, or else a window each round trip.
#[inline]
pub(crate) fn rate(path: &Path) -> BitRate {
    if path.delivery_rate == BitRate::ZERO { BitRate::of(path.cwnd, path.srtt) } else { path.delivery_rate }
}

/// How long a segment assigned to `path` now takes to the receiver: until what waits before it is
/// on the wire, and half a round trip.
#[inline]
pub(crate) fn forward_delay(path: &Path) -> Span {
    let waits = if path.queued == Bytes::ZERO { Span::ZERO } else { rate(path).transmission_time(path.queued) };
    waits + path.srtt / 2
}

/// The switch for the end of the data.
pub(crate) const TAIL: Param = Param {
    name: "tail",
    default: "wait",
    values: "wait | last",
    doc: "what a slower path does when the faster ones will take all that is unsent: nothing, or the last segment",
};

/// Whether a slower path takes the last segment, by [`TAIL`].
pub(crate) fn takes_last(params: &Params) -> Result<bool, SpecError> {
    params.choice(TAIL.name, &[("wait", false), ("last", true)])
}

/// Gives the packet at hand to min-RTT's choice, or on that path the one `distance` further on.
#[inline]
pub(crate) fn place(cx: &Context<'_>, distance: impl FnOnce(&Path) -> Bytes) -> Decision {
    let Some(packet) = cx.packet else { return Decision::Wait };
    let Some(slow) = choose::min_rtt(cx) else { return choose::wait(cx) };
    if packet.reinjection || faster(cx, slow).next().is_none() {
        return Decision::Send(slow.id);
    }
    ahead(cx, slow, distance(slow), false)
}

/// `distance` in whole segments of `slow`.
#[inline]
pub(crate) fn whole(distance: Bytes, slow: &Path) -> Bytes {
    Bytes::new(distance.packets(slow.mss).saturating_mul(slow.mss.get()))
}

/// The first unsent segment at least `distance` past the next one, in whole segments, on `slow`; of less than that, the
/// last if it `takes_last`. The rest is left to the faster paths, unless they would never send it.
pub(crate) fn ahead(cx: &Context<'_>, slow: &Path, distance: Bytes, takes_last: bool) -> Decision {
    let Some(flow) = cx.flow else { return Decision::Send(slow.id) };
    let distance = whole(distance, slow);
    if distance == Bytes::ZERO {
        return Decision::Send(slow.id);
    }
    let wait = choose::wait(cx);
    let at = match flow.unsent > distance {
        _ if wait != Decision::Wait => return wait,
        true => flow.next + distance,
        false if takes_last => Offset::new(flow.end.get().saturating_sub(slow.mss.get())),
        false => return wait,
    };
    match at {
        _ if at <= flow.next => Decision::Send(slow.id),
        _ if at + slow.mss > flow.edge => wait,
        _ => Decision::Ahead(slow.id, at),
    }
}

/// What `path` delivers in `time` if it loses nothing.
pub(crate) fn by_windows(path: &Path, time: Span) -> Bytes {
    let Some((rounds, rest, rtt)) = rounds(path, time) else { return path.space() };
    let ssthresh = path.ssthresh.packets(path.mss);
    let mut window = path.cwnd.packets(path.mss).max(1);
    let (mut left, mut sum) = (rounds, 0u64);
    while left > 0 && window < ssthresh {
        window = grown(window, ssthresh);
        sum = sum.saturating_add(window);
        left -= 1;
    }
    // left·w + 1 + 2 + … + left
    let linear = left.saturating_mul(left.saturating_add(1)) / 2;
    sum = sum.saturating_add(left.saturating_mul(window)).saturating_add(linear);
    let next = Bytes::new(grown(window.saturating_add(left), ssthresh));
    let packets = sum.saturating_add(next.mul_div(rest, rtt).get());
    path.space() + Bytes::new(packets.saturating_mul(path.mss.get()))
}

/// What `path` delivers in `time`, with the window that is to be expected in each round: half of
/// it if anything is lost in the round, else the grown one. What is expected to shrink is no longer
/// in slow start. `own` is its [`survival`], `others` the logarithm of the chance that nothing else
/// halves the window in a round.
pub(crate) fn by_expected_windows(path: &Path, time: Span, own: f64, others: f64) -> Bytes {
    if own == 0.0 && others == 0.0 {
        return by_windows(path, time);
    }
    let Some((rounds, rest, rtt)) = rounds(path, time) else { return path.space() };
    let ssthresh = path.ssthresh.packets(path.mss) as f64;
    let expected = |window: f64, kept: f64, doubles: bool| {
        let grown = if doubles { (2.0 * window).min(ssthresh.max(window + 1.0)) } else { window + 1.0 };
        kept * grown + (1.0 - kept) * window / 2.0
    };
    let mut window = path.cwnd.packets(path.mss).max(1) as f64;
    let mut kept = libm::exp(window * own + others);
    let mut doubles = window < ssthresh;
    let mut packets = 0.0;
    for _ in 0..rounds.min(ROUNDS) {
        let next = expected(window, kept, doubles);
        doubles &= next > window && next < ssthresh;
        let step = (next - window) * own;
        kept = if step.abs() < NEAR { kept * exp_near_zero(step) } else { libm::exp(next * own + others) };
        window = next;
        packets += window;
    }
    packets += rounds.saturating_sub(ROUNDS) as f64 * window;
    if rest > 0 {
        packets += expected(window, kept, doubles) * rest as f64 / rtt as f64;
    }
    path.space() + Bytes::new((packets as u64).saturating_mul(path.mss.get()))
}

/// Below it the series for `eˣ` and `ln(1 − p)` are exact to ten digits, at a fraction of the cost.
const NEAR: f64 = 1.0 / 16.0;

/// `eˣ` for `|x| < NEAR`.
#[inline]
fn exp_near_zero(x: f64) -> f64 {
    let square = x * x;
    (1.0 + x) + square * (1.0 / 2.0 + x / 6.0) + square * square * (1.0 / 24.0 + x / 120.0)
}

/// The logarithm of the chance that a packet of `path` is not lost: `ln(1 − lost/sent)`.
#[inline]
pub(crate) fn survival(path: &Path) -> f64 {
    if path.lost.packets == 0 {
        return 0.0;
    }
    let (lost, sent) = (path.lost.packets as f64, path.sent.packets.max(1) as f64);
    // ln(1 − p) = −2·artanh(p/(2 − p)), for the losses of most paths by its series.
    let z = lost / (2.0 * sent - lost);
    if (0.0..NEAR).contains(&z) {
        let square = z * z;
        return -2.0 * z * (1.0 + square * (1.0 / 3.0 + square * (1.0 / 5.0 + square / 7.0)));
    }
    libm::log1p(-(lost / sent).min(WORST_LOSS))
}

/// Whole round trips of `path` in `time`, the rest, and the round trip, in nanoseconds. None
/// without a round-trip time: then only the free window is known.
#[inline]
fn rounds(path: &Path, time: Span) -> Option<(u64, u64, u64)> {
    let (time, rtt) = (time.as_nanos(), path.srtt.as_nanos());
    let rounds = time.checked_div(rtt)?;
    Some((rounds, time - rounds * rtt, rtt))
}

#[inline]
fn grown(window: u64, ssthresh: u64) -> u64 {
    let next = window.saturating_add(1);
    if window < ssthresh { window.saturating_mul(2).min(ssthresh.max(next)) } else { next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{Bench, packets, path};

    #[test]
    fn numbers_without_bounds_end() {
        let mut path = path(0, 1, 10, 0);
        path.srtt = Span::from_nanos(1);
        path.cwnd = Bytes::MAX;
        path.ssthresh = Bytes::MAX;
        path.sent.packets = 1;
        assert!(by_windows(&path, Span::MAX) > packets(1 << 40));
        path.lost.packets = u64::MAX;
        assert!(by_expected_windows(&path, Span::MAX, survival(&path), 0.0) > packets(1 << 40));
        path.srtt = Span::ZERO;
        assert_eq!(by_windows(&path, Span::MAX), path.space());
    }

    #[test]
    fn series_are_exact_to_ten_digits() {
        for n in -1000..=1000 {
            let x = NEAR * f64::from(n) / 1000.0;
            assert!((exp_near_zero(x) / libm::exp(x) - 1.0).abs() < 1e-10, "{x}");
        }
        let mut path = path(0, 20, 10, 0);
        path.sent.packets = 1000;
        for lost in 1..=1000 {
            path.lost.packets = lost;
            let exact = libm::log1p(-(lost as f64 / 1000.0).min(WORST_LOSS));
            assert!((survival(&path) / exact - 1.0).abs() < 1e-10, "{lost}");
        }
    }

    #[test]
    fn expectation_without_loss_is_the_plain_count() {
        for (ssthresh, ms) in [(10, 95), (1000, 95), (25, 61), (1000, 3)] {
            let mut path = path(0, 20, 10, 10);
            path.ssthresh = packets(ssthresh);
            let time = Span::from_millis(ms);
            // A chance so small that it does not move a whole packet.
            assert_eq!(by_expected_windows(&path, time, 0.0, 1e-12), by_windows(&path, time), "{ssthresh} {ms}");
        }
    }

    #[test]
    fn the_only_segment_that_is_left_is_sent_and_not_sent_ahead() {
        // The last segment begins where the next unsent byte is; what F will deliver, 20 packets, is more than that.
        let mut bench = Bench::new(vec![path(0, 20, 10, 10), path(1, 100, 10, 0)]);
        bench.flow.unsent = packets(1);
        bench.flow.end = bench.flow.next + packets(1);
        let slow = &bench.paths[1];
        assert_eq!(ahead(&bench.context(), slow, packets(20), true), Decision::Send(slow.id));
        assert_eq!(ahead(&bench.context(), slow, packets(20), false), Decision::Wait);
    }

    /// Packets of a full path with this window and threshold in so many round trips.
    fn expected_packets(cwnd: u64, ssthresh: u64, rounds: u64, own: f64, others: f64) -> u64 {
        let mut path = path(0, 20, cwnd, cwnd);
        path.ssthresh = packets(ssthresh);
        by_expected_windows(&path, Span::from_millis(20 * rounds), own, others).packets(path.mss)
    }

    #[test]
    fn the_expected_window_doubles_to_the_threshold_and_grows_by_at_least_one() {
        // A window is kept with 0.95. 8, threshold 10: 0.95·10 + 0.05·4 = 9.7. That is still below the threshold, and
        // grows by one at least, to 10.7: 0.95·10.7 + 0.05·4.85 = 10.4075. Together 20.1. Above the threshold it only
        // grows by one: 0.95·11.4075 + 0.05·5.20375 = 11.0973, together 31.2.
        let kept = libm::log(0.95);
        assert_eq!([2, 3].map(|rounds| expected_packets(8, 10, rounds, 0.0, kept)), [20, 31]);
    }

    #[test]
    fn a_path_that_loses_every_second_packet_settles_at_a_window_of_little_more_than_one() {
        // One of two is lost: a window w is kept with 2⁻ʷ. From 100 it halves to 50, 25, 12.5, 6.251 (kept 0.00017),
        // 3.180 (0.013), 1.876 (0.110), 1.466 (0.272), 1.360 (0.362), 1.335 (0.390), 1.328 (0.397): 104.30.
        let half = -core::f64::consts::LN_2;
        assert_eq!(expected_packets(100, 100, 10, half, 0.0), 104);
        // Two reasons to halve, each of a half: 4 is kept with 2⁻⁵, so 5/32 + 2·31/32 = 2.094; kept with 2⁻³·⁰⁹⁴ =
        // 0.117, 1.287; with 2⁻²·²⁸⁷ = 0.205, 0.980. Together 4.36.
        let both = libm::exp(half);
        assert!((both - 0.5).abs() < 1e-12);
        assert_eq!(expected_packets(4, 4, 3, half, half), 4);
    }
}
