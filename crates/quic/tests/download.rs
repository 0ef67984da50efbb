//! One transfer over two paths with long queues, in virtual time: what its reader gets, second by second.

use weftway_mux::{Limits, Read, Ready};
use weftway_path::Instant;
use weftway_quic::virtual_time::Pair;

use crate::duplex::SIDES;
use crate::voice::{best, config, other};

/// What is read of an endless stream in each second, in Mbit/s, over the links of the pages.
fn rates(rules: (&str, &str), seed: u64, seconds: u64) -> Vec<f64> {
    let config = config(vec![best(), other()]);
    let mut pair = Pair::new(&config, rules, seed, Limits::default()).unwrap();
    let junk = bytes::Bytes::from(vec![7; 64 << 10]);
    let mut flow = None;
    let mut read = vec![0.0; seconds as usize];
    let end = Instant::from_millis(1000 * seconds);
    while pair.now() < end && pair.step(end).unwrap() {
        let now = pair.now();
        let second = (now.as_nanos() / 1_000_000_000) as usize;
        for (at, side) in SIDES.into_iter().enumerate() {
            let Some(mux) = pair.mux(side) else { continue };
            if at == 1 {
                let id = *flow.get_or_insert_with(|| mux.open(now, 2, b"", None).unwrap());
                while mux.write(now, id, junk.clone()).unwrap() == junk.len() {}
            }
            while let Some(ready) = mux.poll_ready() {
                let mut ids = Vec::new();
                match ready {
                    Ready::Accept => ids.extend(std::iter::from_fn(|| mux.accept()).map(|accepted| accepted.id)),
                    Ready::Read(id) => ids.push(id),
                    _ => {}
                }
                for id in ids {
                    while let Ok(Read::Bytes(bytes)) = mux.read(id) {
                        let count = bytes.len();
                        if let Some(sum) = read.get_mut(second) {
                            *sum += count as f64 * 8e-6;
                        }
                        mux.took(now, id, count).unwrap();
                    }
                }
            }
            pair.turn(side);
        }
    }
    read
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// While the slow path's queue is full, what goes there arrives a quarter of a second later than what goes over the better one:
/// the reader's credit must reach as far. Headers of packets, records and frames take some 5 % of the 76 Mbit/s.
#[test]
fn one_stream_fills_both_paths_whose_queues_are_full() {
    for rules in [("min-rtt", "cubic"), ("earliest-delivery", "cubic")] {
        for seed in 1..4 {
            let rates = rates(rules, seed, 15);
            println!("{rules:?}, seed {seed}: {rates:.1?}");
            assert!(mean(&rates[2..]) > 0.92 * 76.0, "{rules:?}, seed {seed}: {rates:.1?}");
        }
    }
}
