//! Ends whose processes are busy or stand still for a while, in virtual time: datagrams wait in their sockets, and timers are
//! late. Nothing is lost, and every path is in use again afterwards.

use std::cell::Cell;

use proptest::prelude::*;
use weftway_mux::Limits;
use weftway_path::{Bytes, Health, Instant, Span};
use weftway_quic::virtual_time::Pair;
use weftway_scenario::config::SimConfig;

use crate::duplex::{Applications, SIDES, Script, over_sockets, path};

/// Two paths with this loss.
fn config(loss: f64) -> SimConfig {
    let paths = vec![path("wifi", 30, 10, loss), path("lte", 15, 35, loss)];
    SimConfig::new(over_sockets(), paths, Bytes::new(1))
}

/// An end is busy: which one, how long after it or the other one was busy last, and for how long, in milliseconds.
type Rest = (usize, u64, u64);

fn rests() -> impl Strategy<Value = Vec<Rest>> {
    let long = prop_oneof![4 => 1_u64..60, 1 => 60_u64..700, 1 => 700_u64..4000];
    prop::collection::vec((0_usize..2, 0_u64..300, long), 1..20)
}

/// Runs both ways, with these rests: the pair at the end, when all had arrived, and for how long one end was busy by then.
fn run(rests: &[Rest], loss: f64, scheduler: &str, seed: u64) -> (Pair, Span, Span) {
    let mut pair = Pair::new(&config(loss), (scheduler, "cubic"), seed, Limits::default()).unwrap();
    let busy_for = Cell::new(Span::ZERO);
    let bulk = |opener| Script { opener, class: 2, sizes: [1_500_000, 1_500_000] };
    let mut applications = Applications::new(vec![bulk(0), bulk(1)]);
    let mut rests = rests.iter();
    let mut next = rests.next().map(|rest| (Instant::from_millis(rest.1), rest));
    let limit = Instant::from_millis(120_000);
    let mut step = |pair: &mut Pair, until: Instant| {
        let due = next.map_or(until, |(at, _)| at.min(until));
        let more = pair.step(due).unwrap();
        if let Some((at, &(end, _, busy))) = next.filter(|&(at, _)| at <= pair.now()) {
            pair.keep_busy(SIDES[end], at + Span::from_millis(busy));
            busy_for.set(busy_for.get() + Span::from_millis(busy));
            next = rests.next().map(|rest| (at + Span::from_millis(busy + rest.1), rest));
            return true;
        }
        for (end, side) in SIDES.into_iter().enumerate().filter(|&(_, side)| !pair.is_busy(side)).collect::<Vec<_>>() {
            applications.drive(pair, end);
            pair.turn(side);
        }
        more && !applications.is_done()
    };
    while step(&mut pair, limit) {}
    let (took, was_busy) = (pair.now().since(Instant::ZERO), busy_for.get());
    let until = pair.now() + Span::from_secs(10);
    while pair.now() < until {
        step(&mut pair, until);
    }
    assert!(applications.is_done(), "not done after 120 s");
    (pair, took, was_busy)
}

/// Every byte has arrived soon after the last rest, and both paths of both ends are in use.
fn check(rests: &[Rest], loss: f64, scheduler: &str, seed: u64) {
    let (mut pair, took, busy) = run(rests, loss, scheduler, seed);
    // Nobody busy, it takes less than a second, and with losses less than three.
    let most = Span::from_secs(if loss > 0.0 { 9 } else { 3 });
    assert!(took <= busy + most, "{took} of which {busy} busy");
    for side in SIDES {
        let sender = pair.duplex(side).unwrap().sender();
        assert_eq!(sender.usable().len(), 2, "{side:?}");
        for path in sender.usable().iter() {
            assert_eq!(sender.view(path).health, Health::Good, "{side:?}, {path:?}, {:?}", sender.tally(path));
        }
    }
}

/// A path was silent, and all that it had in flight was then declared lost at once: nothing was to be heard of it any more.
#[test]
fn a_path_whose_last_packets_are_lost_is_not_silent() {
    check(&[(1, 12, 2722), (1, 275, 6), (0, 121, 49), (0, 273, 547), (1, 47, 274), (0, 92, 1)], 0.0, "min-rtt", 214);
}

proptest! {
    #![proptest_config(crate::histories(20))]

    #[test]
    fn all_arrives_and_no_path_is_silent_afterwards(
        rests in rests(),
        scheduler in prop::sample::select(vec!["round-robin", "min-rtt", "earliest-delivery"]),
        loss in prop_oneof![Just(0.0), Just(0.01)],
        seed in 0_u64..1000,
    ) {
        check(&rests, loss, scheduler, seed);
    }
}
