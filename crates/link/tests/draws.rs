//! The draws are the documented ones, worked out here without the library's generator.

use weftway_link::{Link, LinkConfig, Loss, Verdict};
use weftway_path::{Bytes, Instant, Span};

/// PCG-XSH-RR with 64 bits of state, after O'Neill's `pcg_basic`.
struct Pcg32 {
    state: u64,
    increment: u64,
}

impl Pcg32 {
    fn component(seed: u64, number: u64) -> Self {
        let mut z = seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let mut pcg = Self { state: 0, increment: number << 1 | 1 };
        pcg.next();
        pcg.state = pcg.state.wrapping_add(z ^ (z >> 31));
        pcg.next();
        pcg
    }

    fn next(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.increment);
        ((((old >> 18) ^ old) >> 27) as u32).rotate_right((old >> 59) as u32)
    }
}

fn lost(link: &mut Link<()>) -> bool {
    link.push(Instant::ZERO, Bytes::new(1500), ()) == Verdict::Lost
}

#[test]
fn bernoulli_is_one_draw_a_packet_below_the_threshold() {
    let mut link = Link::new(&LinkConfig { loss: Loss::Bernoulli(0.25), ..LinkConfig::default() }, 42);
    let mut pcg = Pcg32::component(42, 1);
    for packet in 0..1_000 {
        // 0.25 · 2³² = 2³⁰.
        assert_eq!(lost(&mut link), pcg.next() < 1 << 30, "packet {packet}");
    }
}

#[test]
fn gilbert_elliott_is_two_draws_a_packet() {
    let loss = Loss::GilbertElliott { to_bad: 0.25, to_good: 0.5, loss_good: 0.0, loss_bad: 0.5 };
    let mut link = Link::new(&LinkConfig { loss, ..LinkConfig::default() }, 7);
    let mut pcg = Pcg32::component(7, 1);
    let mut bad = false;
    for packet in 0..1_000 {
        let leaves = pcg.next() < if bad { 1 << 31 } else { 1 << 30 };
        bad ^= leaves;
        let draw = pcg.next();
        assert_eq!(lost(&mut link), bad && draw < 1 << 31, "packet {packet}");
    }
}

/// −mean · ln u with u from 53 of 64 bits, the low word first; nobody is overtaken. At 12 Mbit/s packets of 1500 bytes
/// depart 1 ms apart.
#[test]
fn a_host_is_late_by_an_exponential_draw() {
    let mean = Span::from_micros(800);
    let rate = weftway_path::BitRate::from_mbps(12).into();
    let mut link = Link::new(&LinkConfig { rate, host_jitter: mean, ..LinkConfig::default() }, 9);
    let mut pcg = Pcg32::component(9, 6);
    let (mut last, mut sum) = (0, 0.0);
    assert!((0..1000).all(|_| link.push(Instant::ZERO, Bytes::new(1500), ()) == Verdict::Queued));
    for packet in 1..=1000u64 {
        let (low, high) = (u64::from(pcg.next()), u64::from(pcg.next()));
        let u = (((high << 32 | low) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let late = -u.ln() * 800_000.0;
        sum += late;
        let due = packet * 1_000_000 + late as u64;
        last = due.max(last);
        let at = link.next_event();
        assert!(at.as_nanos().abs_diff(last) <= 1, "packet {packet}: {at:?}, not {last} ns");
        assert!(link.pop(at).is_some());
    }
    assert!((sum / 1000.0 / 800_000.0 - 1.0).abs() < 0.13, "four deviations of the mean of a thousand");
}

#[test]
fn a_hosts_jitter_moves_no_other_draw() {
    let loss = Loss::Bernoulli(0.25);
    let of = |host_jitter| {
        let mut link = Link::new(&LinkConfig { loss: loss.clone(), host_jitter, ..LinkConfig::default() }, 3);
        (0..500).map(|_| lost(&mut link)).collect::<Vec<_>>()
    };
    assert_eq!(of(Span::ZERO), of(Span::from_millis(1)));
}
