use weftway_link::LinkConfig;
use weftway_path::{BitRate, Bytes, Instant, Span};
use weftway_scenario::config::{MessageSize, PathConfig, TransportConfig, Workload};

use super::*;

/// Two messages of 400 packets, a second apart, into a window of a thousand: the second leaves in three turns, each due
/// at once, and then nothing is due.
#[test]
fn a_wide_window_leaves_in_several_turns() {
    let transport = TransportConfig {
        initial_window: 1000,
        pace_window: false,
        direction: Direction::Upload,
        ..TransportConfig::mpquic()
    };
    let link =
        LinkConfig { rate: BitRate::from_mbps(100).into(), delay: Span::from_millis(10), ..LinkConfig::default() };
    let (role, acks) = (Role::Active, link.clone());
    let path = PathConfig { name: "only".into(), role, data: link, acks, via: None, presence: Vec::new() };
    let sizes = vec![MessageSize::of(transport.mss.mul_div(400, 1))];
    let mut config = SimConfig::new(transport, vec![path], Bytes::ZERO);
    config.workload = Workload::Messages { sizes, period: Span::from_secs(1), count: 2, deadline: None };
    config.time_limit = Span::from_millis(900);
    let mut world = World::new(&config, "newreno", 1, Host::of("min-rtt").unwrap()).unwrap();
    let mut scheduler = weftway_sched::build("min-rtt").unwrap();
    assert_eq!(world.run(scheduler.as_mut()).unwrap().verdict, Verdict::TimeLimit);
    let sender = world.sending.sender.as_mut().unwrap();
    // The application started with the connection, 20 ms late.
    let now = Instant::from_millis(1_100);
    sender.source.data.app.run(now);
    sender.wake();
    let mut turns = Vec::new();
    loop {
        sender.turn(now, scheduler.as_mut());
        turns.push(sender.connection.outgoing.drain(..).filter(|datagram| datagram.payload > 0).count());
        if sender.next_event() > now {
            break;
        }
    }
    assert_eq!(turns, [192, 192, 16]);
}
