//! Small messages under Nagle's rule, without `TCP_NODELAY`: what waits is sent when a packet is full, or nothing small
//! is unacknowledged.

use weftway_host::Decided;
use weftway_link::{LinkConfig, Rate};
use weftway_path::{Bytes, Decision, Instant, Offset, PathId, Span};
use weftway_scenario::config::{Buffer, MessageSize, SimConfig, TransportConfig, Workload};
use weftway_sched::FRAGMENT;
use weftway_sim::Note;
use weftway_sim::measure::Singles;
use weftway_sim::run::{Job, transport_rules};

use crate::setup::{bulk, path, run};

const SLOW: PathId = PathId::new(0);

/// Of 970 bytes each 31 ms on a path of 20 ms and no rate to speak of, in whole milliseconds.
fn delays(nodelay: bool) -> Vec<u64> {
    let mut transport = TransportConfig::tcp();
    transport.nodelay = nodelay;
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

/// Written at 0, 31, 62, 93, 124 and 155 ms. The first goes at once and is acknowledged at 40, for the application
/// reads it. Then the second goes, and is acknowledged at 80; the third, at 120; the fourth, at 160. The fifth is there
/// at 124 and waits with it unacknowledged. At 155 the sixth comes: 1940 bytes fill a packet of 1448, which holds the
/// fifth. The rest waits until 160.
///
/// By the reading that each message is a packet of its own, the fifth would go at 160 and the sixth at 200.
#[test]
fn messages_that_wait_share_a_packet() {
    assert_eq!(delays(false), [20, 40 - 31 + 20, 80 - 62 + 20, 120 - 93 + 20, 155 - 124 + 20, 160 - 155 + 20]);
    assert_eq!(delays(true), [20; 6]);
}

/// A path of 81 ms and one of 2 ms share a window of 223 096 bytes, which the slow path's congestion window has
/// outgrown by 2 s. What one push gives to that path leaves at once, whatever is unacknowledged: the end of a fragment
/// (32 728 bytes, 22 packets of 1424 and a rest) is in one buffer with what follows. Only the last of a push may wait.
/// On Linux 6.18 it carries 62 packets of 1424 bytes and one of 128 back to back: two fragments and the end of one
/// before.
///
/// By the reading that each fragment ends with a small packet, the second of these and all behind it wait.
#[test]
fn the_end_of_a_fragment_does_not_wait_in_a_push() {
    let mut transport = TransportConfig::mptcp_linux_v1();
    transport.nodelay = false;
    transport.receive_buffer = Buffer::Auto { max: Bytes::new(353 << 10) };
    let (slow, fast) = (path("slow", 100_000, 81), path("fast", 100_000, 2));
    let run = run(&bulk(&transport, vec![slow, fast], 5_000_000), "linux-v1", "newreno");
    let mut given: Vec<(Instant, Offset)> = Vec::new();
    let mut late: Vec<(Instant, Offset)> = Vec::new();
    for (at, note) in run.notes.iter().filter(|(at, _)| *at > Instant::from_millis(2_000)) {
        match note {
            Note::Decided(Decided { decision: Decision::Send(SLOW), offset: Some(offset), .. }) => {
                given.push((*at, *offset));
            }
            Note::Sent { path: SLOW, offset, .. } => {
                late.extend(given.iter().filter(|given| given.1 == *offset && given.0 < *at));
            }
            _ => {}
        }
    }
    let fragments = given.iter().filter(|(_, offset)| offset.get().is_multiple_of(FRAGMENT)).count();
    assert!(fragments > 20, "{fragments}");
    let followed = |late: &&(Instant, Offset)| given.iter().any(|other| other.0 == late.0 && other.1 > late.1);
    assert_eq!(late.iter().find(followed), None);
}
