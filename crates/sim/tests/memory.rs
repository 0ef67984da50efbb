//! What Linux grants a connection of memory, as measured: how far an application writes ahead, what a subflow queues,
//! how far the receiver's window opens.

use crate::setup;
use weftway_path::{Bytes, Context, Decision, Offset, PathId};
use weftway_scenario::config::{Buffer, Direction, SimConfig, TransportConfig};
use weftway_sched::Scheduler;
use weftway_sim::{Host, Note, Pause, Sim, Verdict};

/// Runs to the end with `linux-v1` over `cc`; `look` sees every question.
fn watch(config: &SimConfig, cc: &str, look: impl FnMut(&Context<'_>)) -> Verdict {
    watch_with("linux-v1", config, cc, look)
}

/// Runs to the end with `scheduler` over `cc`; `look` sees every question.
fn watch_with(scheduler: &str, config: &SimConfig, cc: &str, mut look: impl FnMut(&Context<'_>)) -> Verdict {
    let mut sim = Sim::new(config, cc, 1).unwrap();
    sim.host(0, Host::of(scheduler).unwrap());
    let mut scheduler: Box<dyn Scheduler> = weftway_sched::build(scheduler).unwrap();
    loop {
        match sim.advance() {
            Pause::Decide(conn) => {
                sim.tell(conn, scheduler.as_mut());
                look(&sim.context(conn));
                sim.ask(conn, scheduler.as_mut());
            }
            Pause::Observe(conn) => sim.tell(conn, scheduler.as_mut()),
            Pause::Done(verdict) => return verdict,
        }
    }
}

/// A buffer of 90 kB that is full takes more when at most 60 kB are queued: 30 kB or more at a time.
#[test]
fn a_blocked_writer_is_woken_when_a_third_is_free() {
    let mut transport = TransportConfig::mptcp_linux_v1();
    transport.send_buffer = Buffer::Fixed(Bytes::new(90_000));
    let config = setup::bulk(&transport, vec![setup::path("a", 10_000, 10)], 1_000_000);
    let mut ends: Vec<Offset> = Vec::new();
    let verdict = watch(&config, "newreno", |cx| {
        let end = cx.flow.unwrap().end;
        if ends.last() != Some(&end) {
            ends.push(end);
        }
    });
    assert_eq!(verdict, Verdict::Finished);
    let steps: Vec<u64> = ends.windows(2).map(|pair| pair[1].get() - pair[0].get()).collect();
    let (last, others) = steps.split_last().unwrap();
    assert!(others.iter().all(|&step| (30_000..=90_000).contains(&step)), "{steps:?}");
    assert!(*last <= 90_000);
    // 910 kB in portions of at least 30 kB.
    assert!((11..=31).contains(&steps.len()), "{} steps", steps.len());
}

/// `tcp_sndbuf_expand`: ten packets' worth at first, 2304 bytes each, for two windows, or three under BBR.
#[test]
fn a_subflow_begins_with_memory_for_ten_packets() {
    for (cc, room) in [("newreno", 2 * 10 * 2304), ("bbr1", 3 * 10 * 2304)] {
        let config = setup::bulk(&TransportConfig::mptcp_linux_v1(), vec![setup::path("a", 10_000, 10)], 100_000);
        let mut first = None;
        watch(&config, cc, |cx| {
            first.get_or_insert(cx.paths[0].queue_room);
        });
        assert_eq!(first, Some(Bytes::new(room)), "{cc}");
    }
}

/// A subflow of 15 Mbit/s and 81 ms has 65 456 bytes, which is more than its memory of 46 080, and fills its window
/// with each acknowledgement while that grows from 10 packets to 20. So its memory stays (`tcp_should_expand_sndbuf`),
/// and the second subflow carries what comes next, as on Linux 6.18: room for two packets, the largest buffer at its
/// pace of 1.4 Mbit/s, is used at once (`tcp_tso_should_defer`).
#[test]
fn a_full_window_grants_no_memory() {
    let receive_buffer = Buffer::Auto { max: Bytes::new(353 << 10) };
    let transport =
        TransportConfig { direction: Direction::Upload, receive_buffer, ..TransportConfig::mptcp_linux_v1() };
    let paths = vec![setup::path("slow", 15_000, 81), setup::path("fast", 41_000, 2)];
    let run = setup::run(&setup::bulk(&transport, paths, 1_000_000), "linux-v1", "newreno");
    let next = run.notes.iter().find_map(|(_, note)| match note {
        Note::Decided(decided) if decided.offset == Some(Offset::new(2 * 32_728)) => Some(decided.decision),
        _ => None,
    });
    assert_eq!(next, Some(Decision::Send(PathId::new(1))));
}

/// Three subflows shake hands while the first sends: the socket of each has 16 384 bytes of send memory, which the
/// connection may fill. When the quickest of them is up, eight fragments are written, as on Linux 6.18 (BBR, four
/// paths).
#[test]
fn a_subflow_that_joins_has_memory_before_it_is_up() {
    let receive_buffer = Buffer::Fixed(Bytes::new(798 << 10));
    let transport =
        TransportConfig { direction: Direction::Upload, receive_buffer, ..TransportConfig::mptcp_linux_v1() };
    let links = [("a", 63_000, 92), ("b", 9_000, 19), ("c", 2_100, 37), ("d", 8_800, 6)];
    let paths = links.map(|(name, kbps, delay)| setup::path(name, kbps, delay)).to_vec();
    let mut written = None;
    watch(&setup::bulk(&transport, paths, 1_000_000), "bbr1", |cx| {
        if cx.paths.len() == 2 {
            written.get_or_insert(cx.flow.unwrap().end);
        }
    });
    assert_eq!(written, Some(Offset::new(8 * 32_728)));
}

/// Of a receive buffer of at most 256 KiB, 158 of 256 parts become window: 161 792 bytes.
#[test]
fn the_window_is_less_than_the_receive_buffer() {
    let mut transport = TransportConfig::mptcp_linux_v1();
    transport.receive_buffer = Buffer::Auto { max: Bytes::new(256 << 10) };
    // A round trip of 200 ms at 100 Mbit/s has room for 2.5 MB: the window is what limits.
    let config = setup::bulk(&transport, vec![setup::path("a", 100_000, 100)], 5_000_000);
    let mut widest = 0;
    watch(&config, "cubic", |cx| {
        let flow = cx.flow.unwrap();
        widest = widest.max(flow.edge.get() - flow.una.get());
    });
    assert_eq!(widest, 158 * 1024);
}

/// Data cross a slow path and a fast one, whose acknowledgements overtake the slow one's. What the sender may send
/// beyond what it knows to have arrived in order is never more than the receive buffer of 256 KiB.
#[test]
fn the_window_is_within_the_receive_buffer_whichever_acknowledgement_is_first() {
    let size = Bytes::new(256 << 10);
    for (stack, transport) in setup::stacks() {
        for buffer in [Buffer::Fixed(size), Buffer::Auto { max: size }] {
            let mut transport = transport.clone();
            transport.receive_buffer = buffer;
            let slow = setup::lossy(setup::path("slow", 10_000, 100), 0.01);
            let config = setup::bulk(&transport, vec![setup::path("fast", 50_000, 5), slow], 5_000_000);
            for scheduler in ["min-rtt", "linux-v1", "round-robin"] {
                let (mut widest, mut last) = (Bytes::ZERO, Offset::ZERO);
                let verdict = watch_with(scheduler, &config, "cubic", |cx| {
                    let flow = cx.flow.unwrap();
                    assert!(last <= flow.una && flow.una <= flow.next && flow.next <= flow.edge, "{stack}: {flow:?}");
                    (widest, last) = (widest.max(flow.window()), flow.una);
                });
                assert_eq!(verdict, Verdict::Finished);
                let is_fixed = matches!(buffer, Buffer::Fixed(_));
                let most = if is_fixed { setup::largest_window(&transport, size) } else { size };
                assert!(widest <= most, "{stack}, {buffer:?}, {scheduler}: {widest:?}");
                // A fixed buffer is the sender's at once, but for what QUIC's limit is late.
                assert!(!is_fixed || widest >= size.mul_div(1, 2), "{stack}, {buffer:?}, {scheduler}: {widest:?}");
            }
        }
    }
}
