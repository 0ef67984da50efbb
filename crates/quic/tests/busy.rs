//! Ends whose processes are busy or stand still for a while, in virtual time: datagrams wait in their sockets, and
//! timers are late. Nothing is lost, and every path is in use again afterwards.

use proptest::prelude::*;
use weftway_mux::Limits;
use weftway_path::{Bytes, Health, Instant, Span};
use weftway_quic::virtual_time::Pair;
use weftway_scenario::config::SimConfig;

use crate::duplex::{Applications, SIDES, Script, over_sockets, path};

/// A pause of an end: which one, how long after the pause before, and for how long, in milliseconds.
type Pause = (usize, u64, u64);

fn pauses() -> impl Strategy<Value = Vec<Pause>> {
    let ms = prop_oneof![4 => 1_u64..60, 1 => 60_u64..700, 1 => 700_u64..4000];
    prop::collection::vec((0_usize..2, 0_u64..300, ms), 1..20)
}

/// Two paths with this loss.
fn pair(loss: f64, scheduler: &str, seed: u64) -> Pair {
    let paths = vec![path("wifi", 30, 10, loss), path("lte", 15, 35, loss)];
    let config = SimConfig::new(over_sockets(), paths, Bytes::new(1));
    Pair::new(&config, (scheduler, "cubic"), seed, Limits::default()).unwrap()
}

/// Both ends go on until then.
fn advance(pair: &mut Pair, applications: &mut Applications, until: Instant) {
    while pair.step(until).unwrap() {
        for (end, side) in SIDES.into_iter().enumerate() {
            if !pair.is_busy(side) {
                applications.drive(pair, end);
                pair.turn(side);
            }
        }
    }
}

/// Both paths of both ends are up, and not silent.
fn check_paths(pair: &mut Pair, what: &str) {
    for side in SIDES {
        let sender = pair.duplex(side).unwrap().sender();
        assert_eq!(sender.usable().len(), 2, "{what}: {side:?}");
        for path in sender.usable().iter() {
            assert_eq!(sender.view(path).health, Health::Good, "{what}: {side:?}, {path:?}, {:?}", sender.tally(path));
        }
    }
}

/// Bulk both ways, with these pauses: every byte has arrived soon after the last one, and both paths are in use.
fn check(pauses: &[Pause], loss: f64, scheduler: &str, seed: u64) {
    let bulk = |opener| Script { opener, class: 2, sizes: [1_500_000, 1_500_000] };
    let (mut pair, mut applications) = (pair(loss, scheduler, seed), Applications::new(vec![bulk(0), bulk(1)]));
    let (mut at, mut paused) = (Instant::ZERO, Span::ZERO);
    for &(end, gap, ms) in pauses {
        at += Span::from_millis(gap);
        advance(&mut pair, &mut applications, at);
        if applications.is_done() {
            break;
        }
        at += Span::from_millis(ms);
        pair.keep_busy(SIDES[end], at);
        paused += Span::from_millis(ms);
    }
    // Without pauses it takes less than a second, and with losses less than three.
    let end = Instant::ZERO + paused + Span::from_secs(if loss > 0.0 { 9 } else { 3 });
    advance(&mut pair, &mut applications, end);
    assert!(applications.is_done(), "not done at {end}");
    advance(&mut pair, &mut applications, end + Span::from_secs(10));
    check_paths(&mut pair, "at the end");
}

/// An end that sends stands still, in the midst of a transfer or when one path is still to answer, until that has
/// answered and its probe timer is due. The end takes in the acknowledgements, and looks at its timers before its next
/// turn.
#[test]
fn a_late_probe_timer_finds_no_path_silent_that_has_answered() {
    for (start, ms) in (100..800).step_by(100).flat_map(|start| [(start, 40), (start, 160)]) {
        let mut pair = pair(0.0, "round-robin", 1);
        let mut applications = Applications::new(vec![Script { opener: 0, class: 2, sizes: [1_500_000, 0] }]);
        let at = Instant::from_millis(start);
        advance(&mut pair, &mut applications, at);
        pair.keep_busy(SIDES[0], at + Span::from_millis(ms));
        advance(&mut pair, &mut applications, at + Span::from_secs(10));
        assert!(applications.is_done(), "{start} ms, {ms} ms");
        check_paths(&mut pair, &format!("{start} ms, {ms} ms"));
    }
}

/// A path was silent, and all that it had in flight was then declared lost at once: nothing was to be heard of it any
/// more.
#[test]
fn a_path_whose_last_packets_are_lost_is_not_silent() {
    check(&[(1, 12, 2722), (1, 275, 6), (0, 121, 49), (0, 273, 547), (1, 47, 274), (0, 92, 1)], 0.0, "min-rtt", 214);
}

proptest! {
    #![proptest_config(crate::histories(20))]

    #[test]
    fn all_arrives_and_no_path_is_silent_afterwards(
        pauses in pauses(),
        scheduler in prop::sample::select(vec!["round-robin", "min-rtt", "earliest-delivery"]),
        loss in prop_oneof![Just(0.0), Just(0.01)],
        seed in 0_u64..1000,
    ) {
        check(&pauses, loss, scheduler, seed);
    }
}
