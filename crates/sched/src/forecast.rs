//! Forward prediction: how much the faster paths will have delivered when a packet that is sent on
//! a slow path now arrives. So far past the next unsent byte that packet belongs.
//!
//! With `T = (srtt_j − srtt_i)/2`, `R` whole round trips of path i in it and `f` of another, path i
//! delivers meanwhile what its window has free, and a window each round:
//! `N_i = (cwnd_i − inflight_i) + w(1) + … + w(R) + ⌊f·w(R + 1)⌋`, where `w` starts from `cwnd_i`
//! and each round doubles below `ssthresh_i`, never past it, and grows by one packet from there.

use weftway_path::{BitRate, Bytes, Context, Decision, Path, Span};

use crate::choose;
use crate::min_rtt;

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

/// Gives the packet at hand to min-RTT's choice, or on that path the one `distance` further on.
#[inline]
pub(crate) fn place(cx: &Context<'_>, distance: impl FnOnce(&Path) -> Bytes) -> Decision {
    let Some(packet) = cx.packet else { return Decision::Wait };
    let Some(slow) = min_rtt::pick(cx) else { return choose::wait(cx) };
    if packet.again || faster(cx, slow).next().is_none() {
        return Decision::Send(slow.id);
    }
    ahead(cx, slow, distance(slow))
}

/// The first unsent packet at least `distance` past the next one, on `slow`, in whole segments. Less than that is left
/// to the faster paths, unless they would never send it.
fn ahead(cx: &Context<'_>, slow: &Path, distance: Bytes) -> Decision {
    let Some(flow) = cx.flow else { return Decision::Send(slow.id) };
    let distance = distance.packets(slow.mss).saturating_mul(slow.mss.get());
    if distance == 0 {
        return Decision::Send(slow.id);
    }
    let wait = choose::wait(cx);
    let at = flow.next + Bytes::new(distance);
    if wait != Decision::Wait || flow.unsent.get() <= distance || at + slow.mss > flow.edge {
        return wait;
    }
    Decision::Ahead(slow.id, at)
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
/// in slow start. `others` is the logarithm of the chance that nothing else halves it in a round.
pub(crate) fn by_expected_windows(path: &Path, time: Span, others: f64) -> Bytes {
    let own = survival(path);
    if own == 0.0 && others == 0.0 {
        return by_windows(path, time);
    }
    let Some((rounds, rest, rtt)) = rounds(path, time) else { return path.space() };
    let ssthresh = path.ssthresh.packets(path.mss) as f64;
    let expected = |window: f64, doubles: bool| {
        let kept = libm::exp(window * own + others);
        let grown = if doubles { (2.0 * window).min(ssthresh.max(window + 1.0)) } else { window + 1.0 };
        kept * grown + (1.0 - kept) * window / 2.0
    };
    let mut window = path.cwnd.packets(path.mss).max(1) as f64;
    let mut doubles = window < ssthresh;
    let mut packets = 0.0;
    for _ in 0..rounds.min(ROUNDS) {
        let next = expected(window, doubles);
        doubles &= next > window && next < ssthresh;
        window = next;
        packets += window;
    }
    packets += rounds.saturating_sub(ROUNDS) as f64 * window;
    if rest > 0 {
        packets += expected(window, doubles) * rest as f64 / rtt as f64;
    }
    path.space() + Bytes::new((packets as u64).saturating_mul(path.mss.get()))
}

/// The logarithm of the chance that a packet of `path` is not lost: `ln(1 − lost/sent)`.
#[inline]
pub(crate) fn survival(path: &Path) -> f64 {
    if path.lost.packets == 0 {
        return 0.0;
    }
    let loss = path.lost.packets as f64 / path.sent.packets.max(1) as f64;
    libm::log1p(-loss.min(WORST_LOSS))
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
    use crate::testing::{packets, path};

    #[test]
    fn numbers_without_bounds_end() {
        let mut path = path(0, 1, 10, 0);
        path.srtt = Span::from_nanos(1);
        path.cwnd = Bytes::MAX;
        path.ssthresh = Bytes::MAX;
        path.sent.packets = 1;
        assert!(by_windows(&path, Span::MAX) > packets(1 << 40));
        path.lost.packets = u64::MAX;
        assert!(by_expected_windows(&path, Span::MAX, 0.0) > packets(1 << 40));
        path.srtt = Span::ZERO;
        assert_eq!(by_windows(&path, Span::MAX), path.space());
    }

    #[test]
    fn expectation_without_loss_is_the_plain_count() {
        for (ssthresh, ms) in [(10, 95), (1000, 95), (25, 61), (1000, 3)] {
            let mut path = path(0, 20, 10, 10);
            path.ssthresh = packets(ssthresh);
            let time = Span::from_millis(ms);
            // A chance so small that it does not move a whole packet.
            assert_eq!(by_expected_windows(&path, time, 1e-12), by_windows(&path, time), "{ssthresh} {ms}");
        }
    }
}
