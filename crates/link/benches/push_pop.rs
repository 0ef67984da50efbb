//! Nanoseconds to push and pop one packet on a link that is kept busy, for each component.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant as Clock;

use weftway_link::{Arq, Discipline, Distribution, Jitter, Limit, Link, LinkConfig, Loss, Queue, Rate, Redraw, Trace};
use weftway_path::{BitRate, Bytes, Instant, Span};

const PACKETS: u32 = 5_000_000;

fn main() {
    let plain = LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(100)),
        delay: Span::from_millis(20),
        queue: Queue { limit: Limit::Packets(100), ..Queue::default() },
        ..LinkConfig::default()
    };
    let ms = Span::from_millis;
    let normal = |reorder| Some(Jitter { distribution: Distribution::Normal { sd: ms(2) }, reorder });
    let redraw = Redraw {
        every: ms(100),
        rate: Some((BitRate::from_mbps(80), BitRate::from_mbps(120))),
        delay: Some((ms(10), ms(30))),
        ..Redraw::default()
    };
    let trace = Trace::new((1..=1000).flat_map(|ms| [ms; 8]).collect()).expect("a valid trace");
    let codel = Discipline::CoDel { target: ms(5), interval: ms(100) };
    let cases = [
        ("plain", plain.clone()),
        ("loss 1 %", LinkConfig { loss: Loss::Bernoulli(0.01), ..plain.clone() }),
        (
            "loss 1 %, repaired",
            LinkConfig {
                loss: Loss::Bernoulli(0.01),
                arq: Some(Arq { hides: 0.5, delay: ms(8), retry_loss: 0.0 }),
                ..plain.clone()
            },
        ),
        ("jitter", LinkConfig { jitter: normal(false), ..plain.clone() }),
        ("jitter, reordering", LinkConfig { jitter: normal(true), ..plain.clone() }),
        ("redrawn", LinkConfig { redraw: Some(redraw), ..plain.clone() }),
        ("trace", LinkConfig { rate: Rate::Trace(Arc::new(trace)), ..plain.clone() }),
        ("CoDel", LinkConfig { queue: Queue { discipline: codel, ..plain.queue }, ..plain.clone() }),
    ];
    for (name, config) in cases {
        println!("{name:20} {:6.1} ns", cost(&config));
    }
}

/// Keeps about 190 packets inside: 23 waiting, the others on their way.
fn cost(config: &LinkConfig) -> f64 {
    let mut link = Link::new(config, 1);
    let gap = BitRate::from_mbps(100).transmission_time(Bytes::new(1500));
    let mut now = Instant::ZERO;
    for item in 0..23_u64 {
        let _ = link.push(now, Bytes::new(1500), item);
    }
    let start = Clock::now();
    for item in 0..u64::from(PACKETS) {
        now += gap;
        let _ = link.push(now, Bytes::new(1500), item);
        while link.next_event() <= now {
            black_box(link.pop(now));
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(PACKETS)
}
