//! The bound holds: no link carries more than `capacity`, nor sooner than `time_to_carry`; a busy link
//! reaches it.

use std::sync::Arc;

use proptest::prelude::*;
use weftway_link::{Change, Link, LinkConfig, Rate, Set, Trace, capacity, time_to_carry};
use weftway_path::{BitRate, Bytes, Instant, Span};

/// Far beyond what any of these links needs, unless it never finishes.
const END: Instant = Instant::from_millis(3_600_000);

fn constant() -> impl Strategy<Value = Rate> {
    (100_000..100_000_000_u64).prop_map(|bps| Rate::Constant(BitRate::from_bps(bps)))
}

fn trace() -> impl Strategy<Value = Rate> {
    prop::collection::vec(1..50_u32, 1..20).prop_map(|mut times| {
        times.sort_unstable();
        Rate::Trace(Arc::new(Trace::new(times).expect("sorted and positive")))
    })
}

fn changes(rate: impl Strategy<Value = Rate> + 'static) -> impl Strategy<Value = Vec<Change>> {
    let set = prop_oneof![2 => rate.prop_map(Set::Rate), 1 => Just(Set::Down), 1 => Just(Set::Up)];
    let change = (0..100_u64, set).prop_map(|(at, set)| Change { at: Instant::from_millis(at), set });
    prop::collection::vec(change, 0..5)
}

/// Departures of `packets` offered at time zero: when, and the bytes up to then.
fn departures(config: &LinkConfig, packets: &[u64]) -> Vec<(Instant, Bytes)> {
    let mut link = Link::new(config, 1);
    for bytes in packets {
        let _ = link.push(Instant::ZERO, Bytes::new(*bytes), *bytes);
    }
    let (mut seen, mut total) = (Vec::new(), 0);
    while link.next_event() < END {
        let at = link.next_event();
        if let Some(delivery) = link.pop(at) {
            total += delivery.item;
            seen.push((at, Bytes::new(total)));
        }
    }
    seen
}

proptest! {
    #[test]
    fn no_link_beats_its_capacity(
        rate in prop_oneof![constant(), trace()],
        changes in changes(prop_oneof![constant(), trace()]),
        packets in prop::collection::vec(40..3_000_u64, 1..60),
    ) {
        let config = LinkConfig { rate, changes, ..LinkConfig::default() };
        for (at, bytes) in departures(&config, &packets) {
            prop_assert!(at >= time_to_carry(&config, bytes, Instant::ZERO));
            prop_assert!(bytes <= capacity(&config, Instant::ZERO, at + Span::from_nanos(1)));
        }
    }

    /// Each packet's time is rounded up by less than a nanosecond, and the change's once more. What the
    /// first rate would have done in these nanoseconds the second may take longer for.
    #[test]
    fn a_busy_link_reaches_it(
        (first, next) in (100_000..100_000_000_u64, 100_000..100_000_000_u64),
        ms in 0..100_u64,
        packets in 1..200_u64,
    ) {
        let rate = |bps| Rate::Constant(BitRate::from_bps(bps));
        let change = Change { at: Instant::from_millis(ms), set: Set::Rate(rate(next)) };
        let config = LinkConfig { rate: rate(first), changes: vec![change], ..LinkConfig::default() };
        let seen = departures(&config, &vec![1500; packets as usize]);
        let (last, bytes) = seen[seen.len() - 1];
        prop_assert_eq!(bytes, Bytes::new(1500 * packets));
        let slack = Span::from_nanos((packets + 1) * first.div_ceil(next));
        prop_assert!(last.since(time_to_carry(&config, bytes, Instant::ZERO)) <= slack);
    }

    #[test]
    fn a_busy_trace_reaches_it_exactly(rate in trace(), packets in 1..200_u64) {
        let config = LinkConfig { rate, ..LinkConfig::default() };
        for (at, bytes) in departures(&config, &vec![1500; packets as usize]) {
            prop_assert_eq!(at, time_to_carry(&config, bytes, Instant::ZERO));
        }
    }
}
