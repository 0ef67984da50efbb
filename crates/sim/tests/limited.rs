//! When the application limits a path.

use crate::setup::{bulk, drive, path};
use weftway_host::Host;
use weftway_path::{BitRate, Bytes, Context, Decision, Instant, PathId, Span};
use weftway_scenario::config::{MessageSize, SimConfig, TransportConfig, Workload};
use weftway_sched::{Needs, Scheduler};
use weftway_sim::run::transport_rules;
use weftway_sim::{Sim, Verdict};

const NEAR: PathId = PathId::new(0);
const FAR: PathId = PathId::new(1);
/// Time that the last packet of a message is kept.
const KEPT: Span = Span::from_millis(60);

/// Gives all but the last packet of a message to the far path at once, and the last one to the near path later.
#[derive(Clone, Default)]
struct Late {
    at: Option<Instant>,
    /// How fast the far path may send.
    pace: BitRate,
}

impl Scheduler for Late {
    fn needs(&self) -> Needs {
        Needs { wake: true, ..Needs::NONE }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let (Some(packet), Some(flow)) = (cx.packet, cx.flow) else { return Decision::Wait };
        self.pace = cx.paths.get(FAR.index()).map_or(BitRate::ZERO, |far| far.pacing_rate);
        let is_last = packet.offset + packet.bytes == flow.message_end;
        let (path, due) = if is_last { (NEAR, KEPT) } else { (FAR, Span::ZERO) };
        if flow.message_age >= due && cx.open.contains(path) {
            return Decision::Send(path);
        }
        self.at = Some(cx.now + due.saturating_sub(flow.message_age));
        Decision::Wait
    }

    fn wake(&self) -> Option<Instant> {
        self.at
    }
}

/// A message of three packets each 100 ms. Two go on a path of 130 ms, whose acknowledgements come 30 ms after the next
/// message was written, while its last packet is kept; that leaves after 60 ms, on the other path. For 40 ms nothing is
/// left to send and the far path has room: what it delivers, some 0.2 Mbit/s, is not all that it could. BBR stays in
/// STARTUP there, and paces by its first window: ten packets in 130 ms, 2.9 times as fast, 2 Mbit/s.
#[test]
fn a_path_with_room_is_limited_by_an_application_that_has_nothing_to_send_wherever_its_last_packet_went() {
    let paths = vec![path("near", 20_000, 5), path("far", 20_000, 65)];
    let size = MessageSize::of(Bytes::new(3 * TransportConfig::mpquic().mss.get()));
    let workload = Workload::Messages { sizes: vec![size], period: Span::from_millis(100), count: 60, deadline: None };
    let config = SimConfig { workload, ..bulk(&TransportConfig::mpquic(), paths, 0) };
    let mut sim = Sim::new(&config, "bbr1", 1).unwrap();
    let mut scheduler = Late::default();
    sim.host(0, Host::serving(&scheduler, transport_rules("min-rtt").unwrap()));
    assert_eq!(drive(&mut sim, &mut scheduler, 1), Verdict::Finished);
    assert!(scheduler.pace > BitRate::from_mbps(1), "{:?}", scheduler.pace);
}
