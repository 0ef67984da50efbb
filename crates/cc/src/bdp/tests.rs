//! Rates by hand.

use weftway_path::{BitRate, Bytes, Instant, Span};

use super::acks::Acks;
use super::base::Base;
use super::rate::{Conditions, Rate};
use crate::Acked;
use crate::bbr::pipe::blank;

const MSS: u64 = 1000;
const SHORT: Conditions = Conditions { has_queue: false, is_full: true };
const QUEUED: Conditions = Conditions { has_queue: true, is_full: true };

/// `packets` acknowledged at `us`, of which the newest left at `sent`, both in µs.
fn acked(us: u64, sent: u64, packets: u64) -> Acked {
    let newest_sent = Instant::from_micros(sent);
    Acked { bytes: Bytes::new(packets * MSS), newest_sent, ..blank(Instant::from_micros(us)) }
}

fn rate() -> Rate {
    Rate::new(MSS, Span::from_millis(100))
}

/// Plays acknowledgements (µs, sent, packets).
fn play(rate: &mut Rate, acks: &[(u64, u64, u64)], seen: Conditions) -> BitRate {
    acks.iter().for_each(|&(us, sent, packets)| rate.on_acked(&acked(us, sent, packets), seen));
    rate.get()
}

/// Four packets in 4 ms, after the pair that began the train: 8 Mbit/s. In half of the time in which they are
/// acknowledged they may leave, not in more.
#[test]
fn a_train_is_acknowledged_in_twice_the_time_in_which_it_left() {
    let train = |gap| [(0, 0, 2), (2000, gap, 2), (4000, 2 * gap, 2)];
    assert_eq!(play(&mut rate(), &train(0), SHORT), BitRate::from_mbps(8));
    assert_eq!(play(&mut rate(), &train(1000), SHORT), BitRate::from_mbps(8));
    assert_eq!(play(&mut rate(), &train(1001), SHORT), BitRate::ZERO);
}

/// A flow that has a queue throughout is acknowledged as it leaves. That is the bottleneck's rate if the window was
/// full, and else the application's.
#[test]
fn a_queue_tells_the_rate_only_to_a_full_window() {
    let flow = [(0, 0, 2), (2000, 2000, 2), (4000, 4000, 2)];
    assert_eq!(play(&mut rate(), &flow, QUEUED), BitRate::from_mbps(8));
    assert_eq!(play(&mut rate(), &flow, Conditions { is_full: false, ..QUEUED }), BitRate::ZERO);
}

/// 8 Mbit/s, then bunches of ten packets every 10 ms: nine of them come 9 ms too soon. Trains are now longer than that,
/// and the rate stays.
#[test]
fn a_bunch_of_acknowledgements_is_no_rate() {
    let mut rate = rate();
    play(&mut rate, &[(0, 0, 2), (2000, 0, 2), (4000, 0, 2)], SHORT);
    for bunch in 1..50 {
        let (us, sent) = (4000 + 10_000 * bunch, 10_000 * bunch);
        (0..10).for_each(|packet| rate.on_acked(&acked(us, sent + 1000 * packet, 1), QUEUED));
    }
    assert!(rate.spread >= Span::from_millis(8), "{}", rate.spread);
    assert_eq!(rate.get().as_mbps_f64().round() as u64, 8);
}

/// 100 ms at 8 Mbit/s, then at 4. A train of eight packets that began before takes 14 ms, and the next one 16: 100 kB +
/// 8 kB in 114 ms, of which 100 ms are left, 94.7 kB; and 102.7 kB in 116 ms: 7.085 Mbit/s.
#[test]
fn trains_of_the_last_tenth_of_a_second_count() {
    let mut rate = rate();
    (0..60).for_each(|pair| rate.on_acked(&acked(2000 * pair, 0, 2), SHORT));
    assert_eq!(rate.get(), BitRate::from_mbps(8));
    (1..=7).for_each(|pair| rate.on_acked(&acked(118_000 + 4000 * pair, 0, 2), SHORT));
    assert_eq!((rate.get().as_mbps_f64() * 100.0) as u64, 708);
}

/// A delivery-rate sample above the rate raises it; one below does not lower it.
#[test]
fn a_higher_delivery_rate_counts() {
    let mut rate = rate();
    let sample = |mbps| Acked { rate: Some(BitRate::from_mbps(mbps)), ..acked(200_000, 0, 2) };
    rate.raise(&sample(16));
    assert_eq!(rate.get(), BitRate::ZERO, "no train has waited");
    play(&mut rate, &[(0, 0, 2), (2000, 0, 2), (4000, 0, 2)], SHORT);
    rate.raise(&sample(4));
    assert_eq!(rate.get(), BitRate::from_mbps(8));
    // 4000 B in 4 ms and 2000 B in 1 ms: 6000 B in 5.
    rate.raise(&sample(16));
    assert_eq!(rate.get(), BitRate::from_bps(9_600_000));
}

/// A round trip of 40 ms at 1 s counts at 59 s, and no longer at 62 s, though nothing came in between. After a pause of
/// 100 s only what came after it counts.
#[test]
fn the_smallest_round_trip_is_of_the_last_minute() {
    let (at, ms) = (|second: u64| Instant::from_millis(1000 * second), Span::from_millis);
    let mut base = Base::new(Instant::ZERO, Some(ms(50)));
    let mut sample = |second, rtt| {
        base.pause();
        base.on_sample(at(second), ms(rtt), Span::ZERO);
        (base.get(), base.longest())
    };
    assert_eq!(sample(1, 40), (Some(ms(40)), ms(0)));
    assert_eq!(sample(59, 60), (Some(ms(40)), ms(20)));
    assert_eq!(sample(62, 70), (Some(ms(60)), ms(20)));
    assert_eq!(sample(162, 90), (Some(ms(90)), ms(0)));
}

/// A receiver acknowledges each 16 packets. Ten leave at 0 ms, and their acknowledgement waits for more; twenty at 65
/// ms, of which four are kept; then more at 105.
#[test]
fn an_acknowledgement_that_waited_for_more_packets_may_be_kept() {
    let mut acks = Acks::new(MSS);
    let on_acked = |acks: &mut Acks, sent, packets, in_flight: u64| {
        acks.on_acked(&Acked { prior_in_flight: Bytes::new(in_flight * MSS), ..acked(0, sent, packets) })
    };
    acks.on_sent(Instant::ZERO);
    assert!(on_acked(&mut acks, 0, 10, 10), "all that was in flight");
    [65_000, 66_000, 67_000].iter().for_each(|sent| acks.on_sent(Instant::from_micros(*sent)));
    assert!(!on_acked(&mut acks, 66_000, 16, 20), "packets followed it");
    acks.on_sent(Instant::from_millis(105));
    assert!(on_acked(&mut acks, 67_000, 4, 20), "less than 16, at the end of a burst");
    assert!(!on_acked(&mut acks, 67_000, 16, 20), "as many as ever");
    acks.on_sent(Instant::from_millis(106));
    assert!(!on_acked(&mut acks, 105_000, 4, 20), "more followed it within a ms");
    assert!(on_acked(&mut acks, 105_000, 1, 20), "one packet alone");
}

/// Two packets are a whole message of an application; a receiver that acknowledges each second one keeps none.
#[test]
fn an_acknowledgement_of_two_packets_is_not_kept() {
    let mut acks = Acks::new(MSS);
    acks.on_sent(Instant::ZERO);
    assert!(!acks.on_acked(&Acked { prior_in_flight: Bytes::new(2 * MSS), ..acked(0, 0, 2) }));
}
