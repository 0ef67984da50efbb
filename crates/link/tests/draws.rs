//! The draws are the documented ones, worked out here without the library's generator.

use weftway_link::{Link, LinkConfig, Loss, Verdict};
use weftway_path::{Bytes, Instant};

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
