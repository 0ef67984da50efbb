//! Values that a link reports of itself.

use std::sync::Arc;

use weftway_link::{Change, Counts, Discipline, Ecn, Limit, Link, LinkConfig, Loss, Queue, Rate, Redraw, Set, Trace};
use weftway_path::{BitRate, Bytes, Instant, Span};

fn ten_mbps() -> LinkConfig {
    LinkConfig { rate: BitRate::from_mbps(10).into(), delay: Span::from_millis(20), ..LinkConfig::default() }
}

fn codel() -> Queue {
    let discipline = Discipline::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) };
    Queue { discipline, ..Queue::default() }
}

/// A link with `packets` of 1250 B, 1 ms each, pushed at time zero.
fn loaded(config: &LinkConfig, packets: u32) -> Link<u32> {
    let mut link = Link::new(config, 1);
    for item in 0..packets {
        let _ = link.push(Instant::ZERO, Bytes::new(1250), item);
    }
    link
}

/// Three packets are done at 3 ms. At 1.25 ms a new one would wait 1.75 ms, after that not at all.
#[test]
fn the_queueing_delay_is_the_wait_for_transmission() {
    for config in [ten_mbps(), LinkConfig { queue: codel(), ..ten_mbps() }] {
        let link = loaded(&config, 3);
        assert_eq!(link.queueing_delay(Instant::from_micros(1_250)), Span::from_micros(1_750));
        assert_eq!(link.queueing_delay(Instant::from_millis(4)), Span::ZERO);
    }
}

/// Three packets of 1 ms wait: a fourth has left at 4 ms, and arrives 20 ms later. When the link is empty, at 10 ms,
/// one takes 21 ms. To ask changes nothing: what is sent then arrives when it was said.
#[test]
fn when_a_packet_would_arrive_is_when_it_does() {
    for config in [ten_mbps(), LinkConfig { queue: codel(), ..ten_mbps() }] {
        let mut link = loaded(&config, 3);
        let said = link.arrival_of(Instant::ZERO, Bytes::new(1250));
        assert_eq!(said, Instant::from_millis(24));
        assert_eq!(link.arrival_of(Instant::from_millis(10), Bytes::new(1250)), Instant::from_millis(31));
        let _ = link.push(Instant::ZERO, Bytes::new(1250), 3);
        let mut last = Instant::ZERO;
        while !link.next_event().is_never() {
            last = link.next_event();
            while link.pop(last).is_some() {}
        }
        assert_eq!(last, said);
    }
    let silent = LinkConfig { rate: BitRate::ZERO.into(), ..ten_mbps() };
    assert!(loaded(&silent, 0).arrival_of(Instant::ZERO, Bytes::new(1250)).is_never());
}

/// Losses of a change at time zero begin with the first packet.
#[test]
fn a_loss_that_starts_at_time_zero_is_there() {
    let change = Change { at: Instant::ZERO, set: Set::Loss(Loss::Bernoulli(1.0)) };
    let link = loaded(&LinkConfig { changes: vec![change], ..ten_mbps() }, 3);
    assert_eq!((link.counts().lost, link.next_event()), (3, Instant::NEVER));
}

#[test]
fn on_a_silent_link_the_wait_is_for_ever() {
    let link = loaded(&LinkConfig { rate: BitRate::ZERO.into(), ..ten_mbps() }, 1);
    assert_eq!(link.queueing_delay(Instant::from_millis(1)), Span::MAX);
    assert!(link.next_event().is_never());
    assert_eq!(link.pending(), 1);
}

/// Six packets and room for four: 0 to 3 are queued and 2 is lost; 3 finds more than two waiting and is
/// marked. At 3 ms packets 0 to 2 have left; the failure takes 3. By 22 ms 0 and 1 have arrived. Two
/// packets meet a dead link.
#[test]
fn everything_is_counted() {
    let config = LinkConfig {
        loss: Loss::Packets(vec![2]),
        queue: Queue { limit: Limit::Packets(4), ..Queue::default() },
        ecn: Some(Ecn::Above(Limit::Packets(2))),
        ..ten_mbps()
    };
    let mut link = loaded(&config, 6);
    link.fail(Instant::from_millis(3));
    assert!(!link.is_up());
    for item in 6..8 {
        let _ = link.push(Instant::from_millis(4), Bytes::new(1250), item);
    }
    let arrived: Vec<u32> =
        std::iter::from_fn(|| link.pop(Instant::from_millis(22))).map(|delivery| delivery.item).collect();
    assert_eq!(arrived, [0, 1]);
    let expected = Counts {
        pushed: 8,
        delivered: 2,
        delivered_bytes: Bytes::new(2500),
        dropped_queue: 2,
        dropped_down: 3,
        lost: 1,
        repaired: 0,
        marked: 1,
    };
    assert_eq!(link.counts(), expected);
    assert_eq!(link.pending(), 0);
}

/// An idle link reports no event, however much is scheduled for it, and ten years later it is as exact
/// as on the first day.
#[test]
fn ten_years_later() {
    let years = Instant::ZERO + Span::from_secs(10 * 365 * 86_400);
    let rate = Some((BitRate::from_mbps(10), BitRate::from_mbps(10)));
    let redraw = Redraw { every: Span::from_millis(1), rate, ..Redraw::default() };
    let trace = Arc::new(Trace::new(vec![1]).expect("one line"));
    let configs = [
        ten_mbps(),
        LinkConfig { redraw: Some(redraw), ..ten_mbps() },
        // An opportunity every millisecond, one of them at the very instant.
        LinkConfig { rate: Rate::Trace(trace), delay: Span::from_millis(21), ..LinkConfig::default() },
    ];
    for config in configs {
        let mut link = Link::new(&config, 1);
        assert!(link.next_event().is_never());
        let _ = link.push(years, Bytes::new(1250), ());
        let mut arrival = link.next_event();
        while link.pop(arrival).is_none() {
            arrival = link.next_event();
        }
        assert_eq!(arrival, years + Span::from_millis(21));
        assert!(link.next_event().is_never());
    }
}
