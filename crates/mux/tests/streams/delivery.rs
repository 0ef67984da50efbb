//! A thousand streams over links that lose and reorder: everything arrives, in order and once, within the memory.

use rand_core::Rng;
use rand_pcg::Pcg32;
use weftway_mux::Limits;
use weftway_path::{Bytes, Instant, Span};

use crate::load::{Load, Script};
use crate::network::{Network, PathSpec};

fn paths() -> [PathSpec; 2] {
    [
        PathSpec { mbps: 40, delay: Span::from_millis(8), loss: 0.02, jitter: Span::from_millis(3), mtu: 1200 },
        PathSpec { mbps: 20, delay: Span::from_millis(40), loss: 0.05, jitter: Span::from_millis(20), mtu: 1400 },
    ]
}

fn script(draw: &mut Pcg32) -> Script {
    let mut below = |most: u32| u64::from(draw.next_u32() % most);
    let mut size = || match below(10) {
        0 => 0,
        1..8 => below(5_000),
        8 => below(50_000),
        _ => below(300_000),
    };
    let sizes = [size(), size()];
    let mut pace = || if below(8) == 0 { 500 + below(5_000) } else { u64::MAX };
    let paces = [pace(), pace()];
    let reset = (below(10) == 0).then(|| (below(2) as usize, below(40_000)));
    Script { opener: below(2) as usize, class: below(4) as u8, sizes, paces, reset }
}

#[test]
fn a_thousand_streams_arrive_whole_and_in_order_within_memory() {
    let mut draw = Pcg32::new(39, 1);
    let limits =
        Limits { receive: Bytes::new(2_500_000), send: Bytes::new(2 << 20), streams: 100, ..Limits::default() };
    let mut network = Network::new(&paths(), limits, 7);
    network.every = 25;
    let mut load = Load::new((0..1000).map(|_| script(&mut draw)).collect());
    let free = network.ends.each_ref().map(|end| end.mux.free_memory());
    let (mut steps, mut most_received, mut most_sent) = (0u64, 0, 0);
    while !(load.is_done() && network.is_quiet()) {
        load.drive(&mut network);
        network.flush();
        network.step(load.next_tick());
        steps += 1;
        assert!(network.now < Instant::ZERO + Span::from_secs(600), "it comes to an end");
        if steps.is_multiple_of(16) {
            most_received = network.ends.iter().map(|end| end.mux.receive_memory()).fold(most_received, usize::max);
            most_sent = network.ends.iter().map(|end| end.mux.send_memory()).fold(most_sent, u64::max);
        }
    }
    load.check();
    assert!(most_received as u64 <= limits.receive.get(), "{most_received}");
    // The heads of frames come on top: the shortest piece has 64 bytes, and no head here more than 13.
    assert!(most_sent <= limits.send.get() * 77 / 64, "{most_sent}");
    for (end, free) in network.ends.iter().zip(free) {
        assert_eq!((end.mux.open_streams(), end.mux.free_memory(), end.mux.send_memory()), (0, free, 0));
        assert!(end.mux.counts().duplicates > 0);
    }
    let [here, there] = &network.ends;
    assert_eq!((here.mux.arrived(), there.mux.arrived()), (there.mux.next_place(), here.mux.next_place()));
}
