//! Where data go that were sent before: MPTCP reinjects what a subflow still holds, on another; what QUIC lost is a
//! frame again, and may take any path. And what becomes of a packet whose first choice rests.

use crate::setup::{answer, bulk, down, lossy, path, run, stacks};
use weftway_path::{Bytes, PathSet, Span};
use weftway_scenario::config::{MessageSize, TransportConfig, Workload};
use weftway_scenario::stack::Stack;
use weftway_sim::{Host, Note, Pause, Sim};

/// One small message every 20 ms: no window is ever full, so the path of the smallest round-trip time has room for all
/// of them, and for what it lost. (Two losses in a row look like silence, in which the other path helps.)
#[test]
fn the_fast_path_of_quic_takes_again_what_it_lost() {
    let transport = TransportConfig { reinject_at_pto: false, ..TransportConfig::mpquic() };
    let mut config = bulk(&transport, vec![lossy(path("fast", 20_000, 8), 0.05), path("slow", 10_000, 40)], 0);
    let sizes = vec![MessageSize::of(Bytes::new(160))];
    config.workload = Workload::Messages { sizes, period: Span::from_millis(20), count: 500, deadline: None };
    for scheduler in ["min-rtt", "mp-quic-go", "tquic", "xquic-rap"] {
        let run = run(&config, scheduler, "newreno");
        let lost = run.notes.iter().filter(|(_, note)| matches!(note, Note::Lost { .. })).count();
        assert!(lost > 5, "{scheduler}: {lost} lost");
        let slow = run.sent().iter().filter(|(_, path, ..)| path.get() == 1).count();
        assert_eq!(slow, 0, "{scheduler}: of {lost} packets that the fast path lost, {slow} went to the slow one");
    }
}

/// The mask is the transport's: it says which paths the packet at hand is to avoid.
#[test]
fn who_has_carried_data_is_avoided_under_mptcp_alone() {
    for (name, transport) in stacks() {
        let paths = vec![lossy(down(path("a", 8_000, 10), 300, Some(1_500)), 0.02), lossy(path("b", 4_000, 30), 0.02)];
        let mut sim = Sim::new(&bulk(&transport, paths, 3_000_000), "newreno", 1).expect("the controller exists");
        sim.host(0, Host::of("min-rtt").expect("it is registered"));
        let mut min_rtt = weftway_sched::build("min-rtt").expect("it is registered");
        let mut again = 0;
        loop {
            match sim.advance() {
                Pause::Decide(_) => {
                    if let Some(packet) = sim.context(0).packet {
                        let quic = transport.stack == Stack::Mpquic;
                        assert_eq!(packet.avoid, if quic { PathSet::EMPTY } else { packet.carried }, "{name}");
                        again += u32::from(packet.reinjection && !packet.carried.is_empty());
                    }
                    answer(&mut sim, min_rtt.as_mut(), 1);
                }
                Pause::Observe(_) => sim.tell(0, min_rtt.as_mut()),
                Pause::Done(_) => break,
            }
        }
        // Linux repeats on an idle subflow without asking.
        assert!(again > 0 || transport.stack == Stack::MptcpLinuxV1, "{name}: nothing went again");
    }
}

/// While the fast path stands, `rtt-threshold` and the prose of PRS let the slow one rest, so they do as well as the
/// fast path alone: to pick a path first and then drop it because it rests left one packet to each empty pipe.
#[test]
fn a_path_that_rests_costs_the_other_nothing() {
    for (name, transport) in stacks() {
        let fast = || lossy(path("fast", 20_000, 10), 0.01);
        let alone = run(&bulk(&transport, vec![fast()], 3_000_000), "min-rtt", "newreno").end_ms();
        for scheduler in ["rtt-threshold", "prs-prose"] {
            let both = run(&bulk(&transport, vec![fast(), path("slow", 10_000, 150)], 3_000_000), scheduler, "newreno");
            assert!(both.end_ms() < 1.1 * alone, "{scheduler} over {name}: {} ms, alone {alone} ms", both.end_ms());
        }
    }
}

/// STMS keeps using the slow path: what its gap has learned from one loss or one full window fades, so that it comes
/// back. A minute of bulk data in quarters; each has slow packets, though the fast path loses some and so does the
/// slow.
#[test]
fn stms_slides_for_as_long_as_the_transfer() {
    for (name, transport) in stacks() {
        for cc in ["newreno", "cubic"] {
            let mut config = bulk(
                &transport,
                vec![lossy(path("fast", 20_000, 10), 0.001), lossy(path("slow", 10_000, 30), 0.001)],
                0,
            );
            config.workload = Workload::Duration { span: Span::from_secs(60) };
            let run = run(&config, "stms", cc);
            let mut quarters = [0; 4];
            for (at, id, ..) in run.sent() {
                let quarter = (at.since(weftway_path::Instant::ZERO).as_millis() / 15_000) as usize;
                quarters[quarter.min(3)] += u32::from(id.get() == 1);
            }
            assert!(quarters.iter().all(|&sent| sent > 100), "{name} with {cc}: {quarters:?}");
        }
    }
}
