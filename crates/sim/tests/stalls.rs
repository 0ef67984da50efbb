//! Paths of Multipath QUIC are cut in the middle of a bulk transfer: how long nothing arrives in order. The same cuts
//! as in the tests of the driver (`quic/tests/stalls.rs`).

use crate::setup::{bulk, down, path, run};
use weftway_link::Limit;
use weftway_path::{Instant, Offset, Span};
use weftway_scenario::config::{Direction, PathConfig, SimConfig, TransportConfig};
use weftway_sim::Note;

/// A path with a rate in Mbit/s, a delay each way in milliseconds and a queue in packets.
fn queued(name: &str, (mbps, ms, queue): (u64, u64, u64)) -> PathConfig {
    let mut path = path(name, 1000 * mbps, ms);
    for link in [&mut path.data, &mut path.acks] {
        link.queue.limit = Limit::Packets(queue);
    }
    path
}

fn upload(paths: Vec<PathConfig>, megabytes: u64, reinject_at_pto: bool) -> SimConfig {
    let transport = TransportConfig {
        direction: Direction::Upload,
        path_timeout: Span::from_millis(500),
        probe_interval: Span::from_millis(250),
        reinject_at_pto,
        ..TransportConfig::mpquic()
    };
    bulk(&transport, paths, 1_000_000 * megabytes)
}

/// The longest time without a byte in order, in milliseconds.
fn stall(config: &SimConfig, scheduler: &str, cc: &str) -> f64 {
    let run = run(config, scheduler, cc);
    let (mut known, mut grew_at, mut longest) = (Offset::ZERO, None::<Instant>, Span::ZERO);
    for (at, note) in &run.notes {
        if let Note::Arrived { in_order_to, .. } = note
            && *in_order_to > known
        {
            known = *in_order_to;
            longest = longest.max(at.since(grew_at.replace(*at).unwrap_or(*at)));
        }
    }
    assert_eq!(run.verdict, weftway_sim::Verdict::Finished);
    longest.as_millis_f64()
}

/// At most 1.5 round trips of the slower path: 60 ms and as long in its queue, or by satellite 0.6 and 0.9 s. With a
/// second of queue 1.2 s.
#[test]
fn a_cut_holds_up_the_data_no_longer_than_silence_takes_to_notice() {
    let cases = [
        (vec![down(queued("a", (40, 10, 100)), 2_000, Some(6_000)), queued("b", (20, 30, 100))], 30, 180.0),
        (vec![down(queued("a", (10, 30, 800)), 5_000, Some(10_000)), queued("b", (10, 20, 100))], 20, 1200.0),
        (vec![down(queued("a", (20, 300, 1500)), 6_000, Some(11_000)), queued("b", (10, 30, 100))], 30, 2250.0),
    ];
    for (paths, megabytes, most) in cases {
        for scheduler in ["min-rtt", "earliest-delivery"] {
            for cc in ["cubic", "bbr1"] {
                let stalled = stall(&upload(paths.clone(), megabytes, true), scheduler, cc);
                let without = stall(&upload(paths.clone(), megabytes, false), scheduler, cc);
                println!("{most}, {scheduler}, {cc}: {stalled:.0} ms for {without:.0}");
                assert!(stalled <= most, "{scheduler}, {cc}: {stalled} ms, at most {most}");
                assert!(without > 450.0, "{scheduler}, {cc}: {without} ms without");
            }
        }
    }
}
