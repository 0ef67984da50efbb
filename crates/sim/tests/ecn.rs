//! Marks instead of drops: a sender that understands them slows down and loses nothing.

use weftway_link::{Ecn, Limit, LinkConfig};
use weftway_path::{BitRate, Bytes, Role, Span};
use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig};
use weftway_sim::run::{Finished, Job};

/// One path of 10 Mbit/s and 40 ms round trip (34 packets), a queue of 100 packets that marks above
/// 30; 4 MB. Slow start doubles to 80 packets or more, so that the queue passes 30.
fn run(mut transport: TransportConfig, ecn: bool) -> Finished {
    transport.ecn = ecn;
    let mut data =
        LinkConfig { rate: BitRate::from_mbps(10).into(), delay: Span::from_millis(20), ..LinkConfig::default() };
    data.queue.limit = Limit::Packets(100);
    data.ecn = Some(Ecn::Above(Limit::Packets(30)));
    let acks = LinkConfig { ecn: None, ..data.clone() };
    let path = PathConfig { name: "p".to_owned(), role: Role::Active, data, acks, via: None, presence: Vec::new() };
    let config = SimConfig::new(transport, vec![path], Bytes::new(4_000_000));
    Job { config: &config, cc: "newreno", seed: 1, timing: None }.run_named("min-rtt").unwrap()
}

#[test]
fn marks_slow_a_sender_down_before_the_queue_is_full() {
    for transport in [TransportConfig::tcp(), TransportConfig::mpquic()] {
        let with = run(transport.clone(), true);
        let tally = &with.sim.connection(0).path_tallies[0];
        assert_eq!((tally.queue_dropped, tally.retransmissions), (0, 0), "{:?}", transport.stack);
        let without = run(transport.clone(), false);
        assert!(without.sim.connection(0).path_tallies[0].queue_dropped > 0, "{:?}", transport.stack);
    }
}
