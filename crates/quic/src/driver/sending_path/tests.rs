//! Losses, round trips and the use of the window of one path.

use weftway_cc::{Flavour, Setup};
use weftway_path::{Offset, PathId};

use super::*;

/// A path under New Reno with a window of ten packets.
fn path() -> (SendingPath, Path) {
    let (id, mss, initial_window) = (PathId::new(0), Bytes::new(1200), Bytes::new(12_000));
    let setup = Setup { path: id, mss, initial_window, flavour: Flavour::Quic, seed: 1, now: Instant::ZERO, rtt: None };
    let cc = weftway_cc::build("newreno", &setup).unwrap();
    (SendingPath::new(cc, &TransportConfig::mpquic()), Path::new(id, mss, initial_window))
}

fn send(path: &mut SendingPath, view: &mut Path, at_ms: u64, number: u64) {
    let (offset, kind) = (Offset::new(1200 * number), SendKind::Fresh);
    let assigned = Assigned { chunk: number, serial: number, kind, offset, bytes: 1200, first: true, after: view.next };
    path.on_sent(Instant::from_millis(at_ms), view, number, &assigned);
}

/// An acknowledgement of packet `acked`, which shows that packet `lost` is lost.
fn lose(path: &mut SendingPath, view: &mut Path, at_ms: u64, acked: u64, lost: u64) -> Share {
    let now = Instant::from_millis(at_ms);
    let mut outcome = Outcome { prior_in_flight: view.bytes_in_flight, ..Outcome::default() };
    let mut share = Share { usable: true, ..path.cc.share() };
    path.on_acked(now, view, acked, &mut outcome);
    path.on_lost(view, lost, &mut outcome);
    path.on_congestion(now, view, Signal::Loss, &outcome, &[share]);
    path.finish(now, view, &outcome, &[share]);
    path.publish(view, &mut share);
    share
}

/// The path was validated in 40 ms. noq's first sample of 34 ms is its estimate, of which 8·34 − 7·40 would be below
/// zero: srtt = 40 − 6/8, rttvar = (3·20 + 6)/4. Then it is 38, smoothed by noq to 34.5: 39.25 − 1.25/8.
#[test]
fn noqs_first_sample_is_no_average() {
    let (mut path, mut view) = path();
    path.begin_rtt(&mut view, Span::from_millis(40), Span::from_millis(40));
    path.on_rtt(&mut view, Some(Span::from_millis(34)), Span::from_millis(34));
    assert_eq!((view.srtt, view.rttvar), (Span::from_micros(39_250), Span::from_micros(16_500)));
    path.on_rtt(&mut view, Some(Span::from_millis(40)), Span::from_micros(34_500));
    assert_eq!(view.srtt, Span::from_nanos(39_093_750), "the acknowledgement was delayed by 2 ms");
}

/// Ten packets fill the window. It grows to 25 within their round, of which an eleventh packet fills less than half:
/// the round was limited by the window all the same.
#[test]
fn a_round_that_filled_the_window_stays_limited_by_it() {
    let (mut path, mut view) = path();
    (0..10).for_each(|number| send(&mut path, &mut view, 0, number));
    path.end_turn(Instant::ZERO, &view, false, false);
    assert!(path.is_limited(&view));
    view.cwnd = Bytes::new(30_000);
    send(&mut path, &mut view, 0, 10);
    path.end_turn(Instant::ZERO, &view, false, false);
    assert!(path.is_limited(&view));
}

/// Packet 0 is lost at 20 ms: an episode begins, which the acknowledgement of packet 10, sent after that, ends at 40 ms
/// (RFC 9002 §7.3.2). Packet 1, which it shows to be lost, was sent before the episode and prolongs nothing.
#[test]
fn an_old_loss_does_not_prolong_a_recovery() {
    let (mut path, mut view) = path();
    (0..10).for_each(|number| send(&mut path, &mut view, 0, number));
    lose(&mut path, &mut view, 20, 3, 0);
    assert_eq!((view.recovery, view.cwnd), (Recovery::Recovery, Bytes::new(6000)));
    send(&mut path, &mut view, 21, 10);
    lose(&mut path, &mut view, 40, 10, 1);
    assert_eq!(view.recovery, Recovery::Open);
    assert!(view.cwnd >= Bytes::new(6000), "one episode, one reduction: {:?}", view.cwnd);
}

/// The window halves with the loss of packet 0. When that turns out to have arrived nothing else need be new: the
/// window is what it was, for schedulers and for what may be sent, at once.
#[test]
fn a_reduction_that_was_not_needed_is_taken_back_at_once() {
    let (mut path, mut view) = path();
    (0..10).for_each(|number| send(&mut path, &mut view, 0, number));
    let mut share = lose(&mut path, &mut view, 20, 3, 0);
    assert_eq!((view.cwnd, share.cwnd), (Bytes::new(6000), Bytes::new(6000)));
    path.on_spurious(Instant::from_millis(22), &mut view, &mut share);
    assert!(view.cwnd >= Bytes::new(12_000) && share.cwnd == view.cwnd, "{:?}", view.cwnd);
    assert_eq!(view.recovery, Recovery::Open);
}

/// A path that finds losses itself, with a round trip of 20 ms and packets 0 to 9 in flight.
fn reordering_path() -> (SendingPath, Path, Share) {
    let (mut path, mut view) = path();
    path.reordering = Some(Reordering::default());
    path.begin_rtt(&mut view, Span::from_millis(20), Span::from_millis(20));
    (0..10).for_each(|number| send(&mut path, &mut view, 0, number));
    let share = Share { usable: true, ..path.cc.share() };
    (path, view, share)
}

/// At 20 ms packet `acked` is acknowledged, and then these are lost: the window is halved.
fn reduce(path: &mut SendingPath, view: &mut Path, share: &mut Share, acked: u64, lost: &[u64]) -> Outcome {
    let (now, mut outcome) = (Instant::from_millis(20), Outcome::default());
    path.on_acked(now, view, acked, &mut outcome);
    for &number in lost {
        assert_eq!(path.next_lost(now, view), Some(number));
        path.on_lost(view, number, &mut outcome);
    }
    path.on_congestion(now, view, Signal::Loss, &outcome, &[*share]);
    path.publish(view, share);
    assert_eq!(view.cwnd, Bytes::new(6000));
    outcome
}

/// Packet 3 overtakes three others, so packet 0 counts as lost; the next would after 9/8 of a round trip. It comes 22
/// ms after it left: the window is what it was, and from then on a packet is waited for 23 ms, whatever overtakes it.
#[test]
fn a_late_packet_gives_the_window_back_and_others_more_time() {
    let (mut path, mut view, mut share) = reordering_path();
    reduce(&mut path, &mut view, &mut share, 3, &[0]);
    let at = Instant::from_millis;
    assert_eq!((path.next_lost(at(20), &view), path.loss_due()), (None, Instant::ZERO + Span::from_micros(22_500)));

    let mut outcome = Outcome::default();
    assert!(path.on_late(at(22), &mut view, &mut share, 1, &mut outcome).is_none(), "it is in flight");
    assert!(path.on_late(at(22), &mut view, &mut share, 0, &mut outcome).is_some());
    assert!(view.cwnd >= Bytes::new(12_000) && view.recovery == Recovery::Open, "{:?}", view.cwnd);
    assert_eq!((outcome.acked, view.acked.packets), (Bytes::new(1200), 2), "it was delivered");
    path.on_acked(at(22), &mut view, 9, &mut outcome);
    assert_eq!((path.next_lost(at(22), &view), path.loss_due()), (None, at(23)));
    assert_eq!(path.next_lost(at(23), &view), Some(1));
}

/// Packets 0 and 1 are lost, and the window is reduced once. Packet 0 arrives; packet 1 does, too, or noq declares it
/// lost: then the reduction stands.
#[test]
fn a_reduction_stands_for_a_packet_that_is_really_lost() {
    for arrives in [false, true] {
        let (mut path, mut view, mut share) = reordering_path();
        let mut outcome = reduce(&mut path, &mut view, &mut share, 4, &[0, 1]);
        if arrives {
            path.on_late(Instant::from_millis(22), &mut view, &mut share, 1, &mut outcome);
        } else {
            path.forget(1, &mut outcome);
        }
        assert_eq!(view.cwnd, Bytes::new(6000), "one is missing");
        path.on_late(Instant::from_millis(23), &mut view, &mut share, 0, &mut outcome);
        assert_eq!(view.cwnd >= Bytes::new(12_000), arrives, "{:?}", view.cwnd);
    }
}

/// noq's round trip may be shorter than the path's here, so that noq declares a packet lost first. That packet never
/// arrives.
#[test]
fn a_reduction_stands_for_a_packet_that_noq_declares_lost_first() {
    let (mut path, mut view, mut share) = reordering_path();
    let (at, mut outcome) = (Instant::from_millis, Outcome::default());
    path.on_acked(at(20), &mut view, 4, &mut outcome);
    path.on_lost(&mut view, 0, &mut outcome);
    path.forget(0, &mut outcome);
    assert_eq!(path.next_lost(at(20), &view), Some(1));
    path.on_lost(&mut view, 1, &mut outcome);
    path.on_congestion(at(20), &mut view, Signal::Loss, &outcome, &[share]);
    path.on_late(at(22), &mut view, &mut share, 1, &mut outcome);
    assert_eq!(path.cc.cwnd(), Bytes::new(6000));
}

/// Records of a jumbo frame, and a window of two of QUIC's least packets after losses.
#[test]
fn a_packet_that_is_longer_than_the_window_leaves_alone() {
    let (path, mut view) = path();
    (view.mss, view.cwnd) = (Bytes::new(8906), Bytes::new(2400));
    assert_eq!(path.blocked_reason(Instant::ZERO, &view), BlockedReason::None);
    view.bytes_in_flight = Bytes::new(8906);
    assert_eq!(path.blocked_reason(Instant::ZERO, &view), BlockedReason::Congestion);
}
