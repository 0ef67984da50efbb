//! Small messages under Nagle's rule, without `TCP_NODELAY`: what waits is sent when a packet is full, or nothing small is
//! unacknowledged.

use weftway_link::{LinkConfig, Rate};
use weftway_path::{Bytes, Span};
use weftway_scenario::config::{MessageSize, SimConfig, Transport, Workload};
use weftway_sim::measure::Singles;
use weftway_sim::run::{Job, transport_rules};

use crate::setup::path;

/// Of 970 bytes each 31 ms on a path of 20 ms and no rate to speak of, in whole milliseconds.
fn delays(holds_small: bool) -> Vec<u64> {
    let mut transport = Transport::tcp();
    transport.holds_small = holds_small;
    transport.tick = Span::ZERO;
    let mut only = path("a", 1000, 20);
    for link in [&mut only.data, &mut only.acks] {
        *link = LinkConfig { rate: Rate::UNLIMITED, ..link.clone() };
    }
    let sizes = vec![MessageSize::of(Bytes::new(970))];
    let mut config = SimConfig::new(transport, vec![only], Bytes::ZERO);
    config.workload = Workload::Messages { sizes, period: Span::from_millis(31), count: 6, deadline: None };
    let mut scheduler = weftway_sched::build("min-rtt").unwrap();
    let job = Job { config: &config, cc: "cubic", seed: 1, timing: None };
    let finished = job.run(scheduler.as_mut(), transport_rules("min-rtt").unwrap(), vec![]).unwrap();
    let measured = finished.measurement(&config, &Singles::default());
    measured.messages.delays.iter().map(|delay| delay.as_millis()).collect()
}

/// Written at 0, 31, 62, 93, 124 and 155 ms. The first goes at once and is acknowledged at 40, for the application reads it. Then
/// the second goes, and is acknowledged at 80; the third, at 120; the fourth, at 160. The fifth is there at 124 and waits with
/// it unacknowledged. At 155 the sixth comes: 1940 bytes fill a packet of 1448, which holds the fifth. The rest waits until 160.
///
/// By the reading that each message is a packet of its own, the fifth would go at 160 and the sixth at 200.
#[test]
fn messages_that_wait_share_a_packet() {
    assert_eq!(delays(true), [20, 40 - 31 + 20, 80 - 62 + 20, 120 - 93 + 20, 155 - 124 + 20, 160 - 155 + 20]);
    assert_eq!(delays(false), [20; 6]);
}
