//! Streams over two paths with long queues, in virtual time: what their readers get, second by second.

use weftway_mux::Limits;
use weftway_path::{Instant, Span};
use weftway_quic::virtual_time::Pair;
use weftway_scenario::config::PathConfig;

use crate::duplex::{SIDES, read_all};
use crate::is_full;
use crate::voice::{best, config, other};

/// What is read of endless streams in each second, in Mbit/s: at the end that connects, and at the one that listens if
/// `both_ways`. Then each end also sends a voice, which is a datagram of 172 bytes each 20 ms.
fn rates(paths: Vec<PathConfig>, rules: (&str, &str), seed: u64, seconds: u64, both_ways: bool) -> [Vec<f64>; 2] {
    let config = config(paths);
    let mut pair = Pair::new(&config, rules, seed, Limits::default()).unwrap();
    let junk = bytes::Bytes::from(vec![7; 64 << 10]);
    let mut flows = [None; 2];
    let mut read = [vec![0.0; seconds as usize], vec![0.0; seconds as usize]];
    let end = Instant::from_millis(1000 * seconds);
    let mut next_voice = [Instant::from_millis(if both_ways { 1000 } else { 1_000_000 }); 2];
    while pair.now() < end {
        let limit = next_voice[0].min(next_voice[1]).min(end);
        pair.step(limit).unwrap();
        let now = pair.now();
        let second = (now.as_nanos() / 1_000_000_000) as usize;
        for (at, side) in SIDES.into_iter().enumerate() {
            let Some(mux) = pair.mux(side) else { continue };
            if at == 1 || both_ways {
                let id = *flows[at].get_or_insert_with(|| mux.open(now, 2, b"", None).unwrap());
                while mux.write(now, id, junk.clone()).unwrap() == junk.len() {}
                while next_voice[at] <= now {
                    mux.send_datagram(now, id, 0, Some(Span::from_millis(500)), vec![0; 172].into()).unwrap();
                    next_voice[at] += Span::from_millis(20);
                }
            }
            let bytes = read_all(mux, now);
            if let Some(sum) = read[at].get_mut(second) {
                *sum += bytes as f64 * 8e-6;
            }
            while mux.next_datagram().is_some() {}
            pair.turn(side);
        }
    }
    read
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// While the slow path's queue is full, what goes there arrives a quarter of a second later than what goes over the
/// better one: the reader's credit must reach as far. Headers of packets, records and frames take some 5 % of the 76
/// Mbit/s.
#[test]
fn one_stream_fills_both_paths_whose_queues_are_full() {
    for rules in [("min-rtt", "cubic"), ("earliest-delivery", "cubic")] {
        for seed in 1..if is_full() { 4 } else { 2 } {
            let [rates, _] = rates(vec![best(), other()], rules, seed, 15, false);
            assert!(mean(&rates[2..]) > 0.92 * 76.0, "{rules:?}, seed {seed}: {rates:.1?}");
        }
    }
}

/// Each end bounds the queues of its own direction. Round trips have those of both: neither direction may take the
/// other's queue for its own and stay with little.
#[test]
fn beside_a_voice_each_way_bulk_has_more_than_half_of_the_rate_each_way() {
    for seed in 1..if is_full() { 3 } else { 2 } {
        let read = rates(vec![best(), other()], ("min-rtt", "cubic"), seed, 20, true);
        for rates in read {
            assert!(mean(&rates[10..]) > 76.0 / 2.0, "seed {seed}: {rates:.1?}");
        }
    }
}
