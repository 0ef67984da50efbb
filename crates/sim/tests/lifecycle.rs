//! Paths come and go: data survive, paths are used again when they return, and a connection
//! without any path ends with a verdict.

use crate::setup::{self, Run, bulk, down, link, path, run, stacks};
use weftway_link::{LinkConfig, Loss, Rate};
use weftway_path::{BitRate, Bytes, Instant, Span};
use weftway_scenario::config::{
    Buffer, Direction, MessageSize, Opening, PathConfig, PathManager, Resumption, SimConfig, TransportConfig, Workload,
};
use weftway_scenario::measurement::Singles;
use weftway_scenario::single;
use weftway_sim::run::Job;
use weftway_sim::{Note, Pause, Sim, Verdict};

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// A path whose links take no time to serialise: only delays count.
fn wire(name: &str, delay: u64) -> PathConfig {
    let mut path = path(name, 1, delay);
    path.data.rate = Rate::UNLIMITED;
    path.acks.rate = Rate::UNLIMITED;
    path
}

/// Times at which data of path `id` arrived between two times.
fn arrivals(run: &Run, id: u8, from: Instant, to: Instant) -> usize {
    let within = |at: Instant| from <= at && at < to;
    let here = |note: &Note| matches!(note, Note::Arrived { path, .. } if path.get() == id);
    run.notes.iter().filter(|(at, note)| within(*at) && here(note)).count()
}

fn finishes(run: &Run, bytes: u64, what: &str) {
    assert_eq!(run.verdict, Verdict::Finished, "{what}: {:?}", run.sim.connection(0).tally);
    assert_eq!(run.sim.connection(0).delivered(), Bytes::new(bytes), "{what}");
}

/// 8 MB over twice 4 Mbit/s take more than 8 s. The second path is down from 1 s to 4 s. TCP's
/// timeouts double, so the last one before the return is at most as far back as the failure, and
/// the next comes within another 3 s and a bit; QUIC gives the path up 3 s after its last sign of
/// life, at about 4 s, and tries it every second. So data arrive on it again before 8 s.
#[test]
fn a_path_that_fails_and_returns_is_used_again() {
    for (what, transport) in stacks() {
        let paths = vec![path("lasts", 4_000, 20), down(path("returns", 4_000, 20), 1_000, Some(4_000))];
        let run = run(&bulk(&transport, paths, 8_000_000), "min-rtt", "cubic");
        finishes(&run, 8_000_000, what);
        assert!(arrivals(&run, 1, ms(0), ms(1_000)) > 100, "{what}: before");
        // What had departed still arrives, 20 ms later.
        assert_eq!(arrivals(&run, 1, ms(1_021), ms(4_000)), 0, "{what}: while it is down");
        assert!(arrivals(&run, 1, ms(4_000), ms(8_000)) > 0, "{what}: after");
        assert!(run.end_ms() < 16_000.0, "{what}: 8 MB take 16 s on one path; {}", run.end_ms());
    }
}

/// The scenario removes the path at 1 s and adds it again at 2 s. A handshake then takes at most two
/// round trips of 40 ms and the transmission of four small packets (72 B or 80 B: 0.16 ms each).
#[test]
fn a_path_that_is_removed_and_added_starts_anew() {
    for (what, transport) in stacks() {
        let mut away = path("away", 4_000, 20);
        away.presence = vec![ms(0), ms(1_000), ms(2_000)];
        let run = run(&bulk(&transport, vec![path("lasts", 4_000, 20), away], 4_000_000), "min-rtt", "cubic");
        finishes(&run, 4_000_000, what);
        let down = run.first(|note| matches!(note, Note::Down(id) if id.get() == 1));
        assert_eq!(down, Some(ms(1_000)), "{what}");
        let sent = run.sent();
        let on_it = |from, to| sent.iter().filter(|(at, id, ..)| id.get() == 1 && *at >= from && *at < to).count();
        assert_eq!(on_it(ms(1_001), ms(2_000)), 0, "{what}: nothing goes on an absent path");
        assert!(on_it(ms(2_000), ms(2_000) + Span::from_millis(82)) > 0, "{what}: it is used at once");
    }
}

/// Everything that the dead path held goes to the other one: the transfer takes what one path
/// needs, and the time until the loss of the path is noticed at most.
#[test]
fn data_of_a_path_that_never_returns_survive() {
    for (what, transport) in stacks() {
        for scheduler in ["min-rtt", "round-robin", "redundant", "linux-v1"] {
            let paths = vec![path("lasts", 4_000, 20), down(path("dies", 4_000, 10), 500, None)];
            let run = run(&bulk(&transport, paths, 1_000_000), scheduler, "newreno");
            finishes(&run, 1_000_000, what);
            // 1 MB at 4 Mbit/s is 2 s (and overhead); path_timeout is 20 s at most.
            assert!(run.end_ms() < 24_000.0, "{what} {scheduler}: {}", run.end_ms());
        }
    }
}

#[test]
fn without_any_path_the_run_ends_at_its_limit() {
    for (what, transport) in stacks() {
        let paths = vec![down(path("a", 4_000, 20), 500, None), down(path("b", 4_000, 20), 700, None)];
        let mut config = bulk(&transport, paths, 10_000_000);
        config.time_limit = Span::from_secs(120);
        let run = run(&config, "min-rtt", "cubic");
        // Linux of today closes no subflow before a quarter of an hour.
        let verdict = if what == "linux-v1" { Verdict::TimeLimit } else { Verdict::NoPath };
        assert_eq!((run.verdict, run.sim.now()), (verdict, ms(120_000)), "{what}");
        let delivered = run.sim.connection(0).delivered().get();
        assert!(delivered > 0 && delivered < 10_000_000, "{what}: {delivered}");
    }
}

/// All paths die at 1 s and return at 10 s. Each is then tried every second; on Linux of today its timer has doubled to
/// some six seconds by then (the kernel needed 14.3 to 14.6 s in all).
#[test]
fn a_connection_outlives_the_loss_of_all_paths() {
    for (what, transport) in stacks() {
        let paths =
            vec![down(path("a", 4_000, 20), 1_000, Some(10_000)), down(path("b", 4_000, 20), 1_000, Some(10_000))];
        let scheduler = if what == "linux-v1" { "linux-v1" } else { "min-rtt" };
        let run = run(&bulk(&transport, paths, 2_000_000), scheduler, "cubic");
        finishes(&run, 2_000_000, what);
        assert!(run.end_ms() > 10_000.0 && run.end_ms() < 18_000.0, "{what}: {}", run.end_ms());
    }
}

/// A path with no rate at all is there and carries nothing.
#[test]
fn a_path_that_carries_nothing_ends_at_the_limit() {
    for (what, transport) in stacks() {
        let mut config = bulk(&transport, vec![path("stuck", 0, 20)], 1_000);
        config.time_limit = Span::from_secs(30);
        let run = run(&config, "min-rtt", "cubic");
        assert_eq!((run.verdict, run.sim.now()), (Verdict::NoPath, ms(30_000)), "{what}");
    }
}

/// Too slow is not too dead: 1 MB at 100 kbit/s takes 80 s.
#[test]
fn a_slow_path_ends_at_the_limit_as_well() {
    for (what, transport) in stacks() {
        let mut config = bulk(&transport, vec![path("slow", 100, 20)], 1_000_000);
        config.time_limit = Span::from_secs(30);
        let run = run(&config, "min-rtt", "cubic");
        assert_eq!((run.verdict, run.sim.now()), (Verdict::TimeLimit, ms(30_000)), "{what}");
    }
}

/// The first path is dead from the start, and the second works. `connect` of Linux and noq's client ask the first one
/// only: no connection comes about, however long they try.
#[test]
fn a_connection_opens_on_its_first_path_and_on_no_other() {
    for (what, transport) in stacks() {
        let paths = vec![down(wire("dead", 10), 0, None), wire("lives", 20)];
        let mut config = bulk(&transport, paths, 100_000);
        config.time_limit = Span::from_secs(30);
        let run = run(&config, "min-rtt", "cubic");
        assert_eq!((run.verdict, run.up(0), run.up(1)), (Verdict::NoPath, None, None), "{what}");
    }
}

/// The first path answers from 4.5 s on. Linux asks each second for five seconds (`tcp_syn_linear_timeouts`): it is
/// answered at 5 s. Before Linux 6.5, and in QUIC, waits double from the start: 1 s, 3 s, 7 s. The data are downloaded,
/// and three trips of 10 ms bring the first of them on their way.
#[test]
fn handshakes_are_repeated_each_second_and_then_less_often() {
    for (what, transport) in stacks() {
        let late = down(wire("late", 10), 0, Some(4_500));
        let transport = TransportConfig { tick: Span::ZERO, ..transport };
        let run = run(&bulk(&transport, vec![late], 100_000), "min-rtt", "cubic");
        let at = if what == "linux-v1" { 5_030 } else { 7_030 };
        let up = run.up(0).unwrap();
        assert!(up >= ms(at) && up < ms(at + 1), "{what}: {up}");
    }
}

/// The first path answers from 1.5 or from 2.5 s on. Linux asks for MPTCP at 0, 1 and 2 s; the next handshake, at 3 s,
/// goes without (`net.mptcp.syn_retrans_before_tcp_fallback` = 2). Then the connection is plain TCP on that path, and 4
/// MB in packets of 1448 bytes take 1.66 s of its 20 Mbit/s: 4.829 ± 0.009 s on Linux 6.18 (seven runs).
#[test]
fn a_connection_whose_option_is_not_answered_becomes_plain_tcp() {
    let transport = TransportConfig { direction: Direction::Upload, ..TransportConfig::mptcp_linux_v1() };
    let after = |dead: u64| {
        let paths = vec![down(path("first", 20_000, 10), 0, Some(dead)), path("second", 12_000, 20)];
        let config = bulk(&transport, paths, 4_000_000);
        let row = Job { config: &config, cc: "cubic", seed: 1, timing: None };
        let row = row.row(&row.run_named("linux-v1").unwrap(), &Singles::default());
        (run(&config, "linux-v1", "cubic"), row["fallback"].as_bool())
    };
    let (mptcp, fallback) = after(1_500);
    assert_eq!((mptcp.up(1).is_some(), fallback), (true, Some(false)));
    let (tcp, fallback) = after(2_500);
    assert_eq!((tcp.up(1), fallback), (None, Some(true)));
    assert!(tcp.sent().iter().all(|(.., bytes)| *bytes == 1448 || *bytes == 4_000_000 % 1448));
    finishes(&tcp, 4_000_000, "plain TCP");
    assert!(tcp.end_ms() > 4_680.0 && tcp.end_ms() < 5_000.0, "{}", tcp.end_ms());
}

/// The first path vanishes during its handshake. Another that exists takes its place at once: 30 ms
/// and three trips of 20 ms.
#[test]
fn the_next_path_is_opened_when_the_first_vanishes() {
    for (what, transport) in stacks() {
        let mut first = wire("vanishes", 20);
        first.presence = vec![ms(0), ms(30)];
        let run = run(&bulk(&transport, vec![first, wire("stays", 20)], 100_000), "min-rtt", "cubic");
        finishes(&run, 100_000, what);
        let up = run.up(1).unwrap();
        assert!(up >= ms(90) && up < ms(91), "{what}: {up}");
    }
}

/// No path exists before 2 s.
#[test]
fn the_connection_waits_for_its_first_path() {
    for (what, transport) in stacks() {
        let mut late = wire("late", 20);
        late.presence = vec![ms(2_000)];
        let run = run(&bulk(&transport, vec![late], 100_000), "min-rtt", "cubic");
        finishes(&run, 100_000, what);
        let up = run.up(0).unwrap();
        assert!(up >= ms(2_060) && up < ms(2_061), "{what}: {up}");
    }
}

/// A handshake over a satellite takes longer than the interval between tries: four trips of 600 ms
/// against 1 s. Each try must be allowed to finish.
#[test]
fn a_distant_path_returns() {
    for (what, mut transport) in stacks() {
        transport.direction = Direction::Upload;
        transport.path_timeout = Span::from_secs(3);
        let paths = vec![path("near", 1_000, 10), down(path("far", 4_000, 600), 4_000, Some(20_000))];
        let run = run(&bulk(&transport, paths, 6_000_000), "round-robin", "newreno");
        finishes(&run, 6_000_000, what);
        assert!(arrivals(&run, 1, ms(4_601), ms(20_000)) == 0, "{what}: while it is down");
        // A try a second, four trips, and a trip of data.
        assert!(arrivals(&run, 1, ms(20_000), ms(24_200)) > 0, "{what}: after");
    }
}

/// Silence counts only while data are outstanding: after ten idle seconds, a single lost packet is
/// repaired by a timeout and the path is kept. On the data link, packet 0 is the handshake's and
/// packets 1 and 2 are the first two messages.
#[test]
fn an_idle_path_is_not_a_silent_one() {
    for (what, transport) in stacks() {
        let mut transport = transport;
        transport.path_timeout = Span::from_secs(3);
        let mut only = wire("only", 20);
        only.data.loss = Loss::Packets(vec![2]);
        let mut config = bulk(&transport, vec![only], 0);
        config.workload = Workload::Messages {
            sizes: vec![MessageSize::of(Bytes::new(500))],
            period: Span::from_secs(10),
            count: 2,
            deadline: None,
        };
        let run = run(&config, "min-rtt", "cubic");
        finishes(&run, 1_000, what);
        assert_eq!(run.first(|note| matches!(note, Note::Down(_))), None, "{what}");
        assert!(run.end_ms() < 11_500.0, "{what}: {}", run.end_ms());
    }
}

/// What the application says of a message's urgency reaches the scheduler: once both paths are up, messages of class 0
/// go on the faster one, those of class 1 on the other.
#[test]
fn classes_of_messages_are_told_apart() {
    let size = |bytes, class| MessageSize { weight: 1, bytes: Bytes::new(bytes), class };
    for (what, transport) in stacks() {
        let mut config = bulk(&transport, vec![wire("fast", 20), wire("slow", 50)], 0);
        config.workload = Workload::Messages {
            sizes: vec![size(500, 0), size(700, 1)],
            period: Span::from_millis(200),
            count: 40,
            deadline: None,
        };
        let sent = run(&config, "po-mptcp", "cubic").sent();
        let settled = sent.iter().filter(|(at, ..)| *at > Instant::from_millis(1000));
        let mut seen: Vec<_> = settled.map(|(_, path, _, bytes)| (path.get(), *bytes)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [(0, 500), (1, 700)], "{what}");
    }
}

/// Nothing to send: done as soon as the connection is. Three trips of 20 ms.
#[test]
fn empty_workloads_end_with_the_handshake() {
    let bytes = Bytes::ZERO;
    let (period, deadline) = (Span::from_millis(10), Span::from_millis(100));
    let rate = BitRate::from_mbps(1);
    let empty = [
        Workload::Bulk { bytes },
        Workload::Limited { rate, bytes },
        Workload::Messages { sizes: vec![MessageSize::of(Bytes::new(100))], period, count: 0, deadline: None },
        Workload::Stream { rate, period, key_every: 0, key_ratio: 1, deadline, span: Span::ZERO },
        Workload::RequestResponse { bytes: Bytes::new(100), think: period, count: 0 },
    ];
    for (what, transport) in stacks() {
        for workload in &empty {
            let mut config = bulk(&transport, vec![wire("only", 20)], 0);
            config.workload = workload.clone();
            let run = run(&config, "min-rtt", "cubic");
            finishes(&run, 0, what);
            assert!(run.end_ms() >= 60.0 && run.end_ms() < 60.01, "{what} {workload:?}: {}", run.end_ms());
        }
    }
}

/// Ten gigabytes are a number, not an allocation: what the sender holds is bounded by its buffer.
#[test]
fn ten_gigabytes_cost_no_more_than_the_window() {
    for (what, transport) in stacks() {
        let mut config = bulk(&transport, vec![path("a", 100_000, 5), path("b", 50_000, 10)], 10_000_000_000);
        config.time_limit = Span::from_secs(1);
        let mut sim = Sim::new(&config, "cubic", 1).unwrap();
        let mut scheduler = weftway_sched::build("min-rtt").unwrap();
        let mut most = Bytes::ZERO;
        let verdict = loop {
            match sim.advance() {
                Pause::Decide(_) => {
                    let flow = sim.context(0).flow.unwrap();
                    most = most.max(flow.end.since(flow.una));
                    setup::answer(&mut sim, scheduler.as_mut(), 1);
                }
                Pause::Observe(_) => sim.tell(0, scheduler.as_mut()),
                Pause::Done(verdict) => break verdict,
            }
        };
        assert_eq!(verdict, Verdict::TimeLimit, "{what}");
        // Two paths grow to 4 MiB of send buffer at most, together.
        assert!(most > Bytes::ZERO && most <= Bytes::new(4 << 20), "{what}: {most:?}");
        assert!(sim.connection(0).delivered() > Bytes::new(10_000_000), "{what}: 18 MB fit in a second");
    }
}

/// With round robin, 64 paths of 1 Mbit/s all carry their part: 8 MB in the second that they need and the handshakes
/// before it. Today's Linux opens its window by what arrives on a subflow, 2920 bytes with each packet, and a subflow
/// gets only 88 of them here.
#[test]
fn sixty_four_paths_share_the_work() {
    for (what, transport) in stacks() {
        let paths = (0..64).map(|n| path(&format!("p{n}"), 1_000, 20)).collect();
        let run = run(&bulk(&transport, paths, 8_000_000), "round-robin", "newreno");
        finishes(&run, 8_000_000, what);
        let shares = run.sim.connection(0).path_tallies.iter().map(|path| path.delivered);
        let (least, most) = shares.fold((u64::MAX, 0), |(least, most), share| (least.min(share), most.max(share)));
        assert!(least > 0 && most < 8_000_000 / 16, "{what}: {least} to {most}");
        let limit = if what == "linux-v1" { 3_500.0 } else { 3_000.0 };
        assert!(run.end_ms() < limit, "{what}: {}", run.end_ms());
    }
}

/// Under `primary-first` the second path is opened when the first is given up, not before.
#[test]
fn the_second_path_waits_for_the_first_to_fail() {
    for (what, mut transport) in stacks() {
        transport.path_manager = PathManager::PrimaryFirst;
        transport.path_timeout = Span::from_secs(2);
        let paths = vec![down(path("first", 4_000, 20), 1_000, None), path("second", 4_000, 20)];
        let run = run(&bulk(&transport, paths, 2_000_000), "min-rtt", "cubic");
        finishes(&run, 2_000_000, what);
        let down = run.first(|note| matches!(note, Note::Down(id) if id.get() == 0)).unwrap();
        let up = run.up(1).unwrap();
        // The last acknowledgement came at 1.02 s at the latest, and packets queue for 300 ms at most.
        assert!(down > ms(2_700) && down < ms(3_100), "{what}: {down}");
        assert!(up > down && up < down + Span::from_millis(82), "{what}: {up}");
    }
}

/// What a peer-less link swallows is not invented: a link that loses every packet delivers none.
#[test]
fn nothing_arrives_over_a_link_that_loses_everything() {
    let lost = LinkConfig { loss: Loss::Bernoulli(1.0), ..link(4_000, 20) };
    let paths = vec![PathConfig { data: lost, ..path("void", 4_000, 20) }];
    let mut config = SimConfig::new(
        TransportConfig { direction: Direction::Upload, ..TransportConfig::mpquic() },
        paths,
        Bytes::new(1),
    );
    config.time_limit = Span::from_secs(10);
    let run = run(&config, "min-rtt", "cubic");
    assert_eq!((run.verdict, run.sim.connection(0).tally.arrived), (Verdict::NoPath, 0));
}

/// Still under way when the slow path has joined.
const RACED: u64 = 60_000_000;

/// A connection that may open on a slow path of 50 ms and on a fast one of 10 ms.
fn opened(transport: &TransportConfig, open: Opening, direction: Direction) -> Run {
    let transport = TransportConfig { open, direction, ..transport.clone() };
    run(&bulk(&transport, vec![wire("slow", 50), wire("fast", 10)], RACED), "min-rtt", "newreno")
}

/// The side that opens has its first answer after a round trip: 20 ms on the fast path. Uploading, it is then up: two
/// trips. Downloading, the peer has the request after three: 30 ms. In file order it would be two and three trips of 50
/// ms.
#[test]
fn a_race_begins_on_the_path_that_answers_first() {
    for (what, transport) in stacks() {
        for (direction, fast, slow) in [(Direction::Upload, 20, 100), (Direction::Download, 30, 150)] {
            let run = opened(&transport, Opening::Race, direction);
            finishes(&run, RACED, what);
            let up = run.up(1).unwrap();
            assert!(up >= ms(fast) && up < ms(fast + 1), "{what} {direction:?}: {up}");
            assert_eq!(run.sent()[0].1.get(), 1, "{what} {direction:?}: data go on the winner");
            assert!(run.sent()[0].0 < ms(fast + 1), "{what} {direction:?}: and wait for no other path");
            let first = opened(&transport, Opening::Primary, direction).up(0).unwrap();
            assert!(first >= ms(slow) && first < ms(slow + 1), "{what} {direction:?}: {first}");
        }
    }
}

/// The slow path joins as any other, with a handshake of its own. QUIC's client begins it when the server has its last
/// message and has said so, at 4 · 10 ms, and it takes two or three trips of 50 ms. MPTCP's client begins it with the
/// first packet of the server: uploading, the acknowledgement of the first data, at 20 + 2 · 10 ms, and it takes four
/// trips; downloading, the first data, at 30 + 10 ms, and it takes three.
#[test]
fn who_lost_the_race_joins_afterwards() {
    for (what, transport) in stacks() {
        let expected = if what == "mpquic" { [40 + 100, 40 + 150] } else { [40 + 200, 40 + 150] };
        for (direction, expected) in [Direction::Upload, Direction::Download].into_iter().zip(expected) {
            let up = opened(&transport, Opening::Race, direction).up(0).unwrap();
            assert!(up >= ms(expected) && up < ms(expected + 1), "{what} {direction:?}: {up}");
        }
    }
}

/// QUIC's client answers the server's challenge of another path before its first data there, with a packet as full as
/// all that validate (RFC 9000 §8.2.2): at 1 Mbit/s these take two packets' time, and where the client receives one
/// packet's.
#[test]
fn the_answer_to_a_challenge_goes_before_the_first_data_of_a_path() {
    for direction in [Direction::Upload, Direction::Download] {
        let transport = TransportConfig { direction, ..TransportConfig::mpquic() };
        let run = run(
            &bulk(&transport, vec![path("first", 8_000, 10), path("second", 1_000, 10)], 200_000),
            "round-robin",
            "cubic",
        );
        let on_second = |note: &Note| matches!(note, Note::Sent { path, .. } if path.get() == 1);
        let sent = run.first(on_second).unwrap();
        let arrived = run.first(|note| matches!(note, Note::Arrived { path, .. } if path.get() == 1)).unwrap();
        let full = |bytes: Bytes| BitRate::from_bps(1_000_000).transmission_time(bytes);
        let answer = if direction == Direction::Upload { full(transport.handshake_packet()) } else { Span::ZERO };
        let expected = answer + full(transport.data_packet(transport.mss)) + Span::from_millis(10);
        assert_eq!(Some(sent), run.up(1), "{direction:?}");
        assert_eq!(arrived.since(sent), expected, "{direction:?}");
    }
}

/// The first path is dead from the start: no connection comes about where it has to begin on it. In a race the second
/// is up after three trips of 20 ms.
#[test]
fn a_race_needs_no_patience_with_a_dead_path() {
    for (what, transport) in stacks() {
        let transport = TransportConfig { open: Opening::Race, ..transport };
        let paths = vec![down(wire("dead", 10), 0, None), wire("lives", 20)];
        let run = run(&bulk(&transport, paths, 100_000), "min-rtt", "cubic");
        finishes(&run, 100_000, what);
        let up = run.up(1).unwrap();
        assert!(up >= ms(60) && up < ms(61), "{what}: {up}");
        assert_eq!(run.up(0), None, "{what}");
    }
}

/// A path that comes into existence while nobody has answered takes part: 20 ms and three trips of 10 ms, against three
/// of 50 ms.
#[test]
fn a_late_path_may_win_the_race() {
    for (what, transport) in stacks() {
        let transport = TransportConfig { open: Opening::Race, ..transport };
        let mut late = wire("late", 10);
        late.presence = vec![ms(20)];
        let run = run(&bulk(&transport, vec![wire("slow", 50), late], 100_000), "min-rtt", "cubic");
        finishes(&run, 100_000, what);
        let up = run.up(1).unwrap();
        assert!(up >= ms(50) && up < ms(51), "{what}: {up}");
    }
}

/// Packets that path 1, which comes at 1 s beside one of 20 Mbit/s, sends within its first round trip of 40 ms.
fn first_flight(transport: &TransportConfig) -> usize {
    let mut paths = vec![path("first", 20_000, 10), path("second", 20_000, 20)];
    paths[1].presence = vec![ms(1_000)];
    let run = run(&bulk(transport, paths, 6_000_000), "min-rtt", "newreno");
    let sent = |note: &Note| matches!(note, Note::Sent { path, .. } if path.get() == 1);
    let times: Vec<Instant> = run.notes.iter().filter(|(_, note)| sent(note)).map(|&(at, _)| at).collect();
    times.iter().filter(|&&at| at < times[0] + Span::from_millis(40)).count()
}

/// Half of 20 Mbit/s for 40 ms are 50 kB: 33 full packets of 1500 B, or 39 of 1280. The delivery rate is of payload, and
/// the handshake's round trip a little longer than 40 ms.
#[test]
fn a_path_that_comes_later_starts_with_half_of_what_its_sibling_has_shown() {
    for (what, transport) in stacks() {
        assert_eq!(first_flight(&transport), 10, "{what}");
        let beside = TransportConfig { sibling_window: true, ..transport.clone() };
        let expected = 50_000 / transport.packet.get() as usize;
        let found = first_flight(&beside);
        assert!(found.abs_diff(expected) <= 5, "{what}: {found}, not about {expected}");
    }
}

/// 80 packets remembered: the initial window first, then 40 in the second round trip, which are paced over it: a peer's
/// first window of 64 kB takes them. Where nothing is remembered, 20. One whose round trip is remembered as 400 ms is
/// another path.
#[test]
fn half_of_a_remembered_window_follows_the_initial_one() {
    let second_flight = |transport: &TransportConfig| {
        let run = run(&bulk(transport, vec![path("only", 100_000, 20)], 1_000_000), "min-rtt", "newreno");
        let sent = |note: &Note| matches!(note, Note::Sent { .. });
        let times: Vec<Instant> = run.notes.iter().filter(|(_, note)| sent(note)).map(|&(at, _)| at).collect();
        let (from, to) = (times[0] + Span::from_millis(40), times[0] + Span::from_millis(80));
        times.iter().filter(|&&at| from <= at && at < to).count()
    };
    for (what, transport) in stacks() {
        let remembered = |ms| {
            let remembered = Some(Resumption { packets: 80, rtt: Span::from_millis(ms) });
            TransportConfig { remembered, ..transport.clone() }
        };
        let (plain, alike, other) = (&transport, &remembered(40), &remembered(400));
        assert!(second_flight(plain) <= 22 && second_flight(other) <= 22, "{what}");
        let found = second_flight(alike);
        assert!((36..=45).contains(&found), "{what}: {found}");
    }
}

/// Ten packets, the initial window, over a path of 100 ms and one of 10 ms, uploaded. Alone a path needs two trips and
/// one for the data: 300 ms and 30 ms. Opened like this connection, on the first path, all ten go there at 200 ms,
/// whichever path is meant for data afterwards: 300 ms in either case.
#[test]
fn a_fair_single_path_waits_for_the_first_path_as_well() {
    for (what, transport) in stacks() {
        let transport = TransportConfig { direction: Direction::Upload, ..transport };
        let bytes = transport.initial_cwnd().get();
        let config = bulk(&transport, vec![wire("slow", 100), wire("fast", 10)], bytes);
        let job = Job { config: &config, cc: "newreno", seed: 1, timing: None };
        let singles = job.singles().unwrap();
        let ms_of = |mbps: &Vec<f64>| mbps.iter().map(|mbps| bytes as f64 * 8.0 / mbps / 1e3).collect::<Vec<_>>();
        let near = |found: Vec<f64>, expected: [f64; 2]| {
            let close = found.iter().zip(expected).all(|(ms, right)| *ms >= right - 0.001 && *ms < right + 0.1);
            assert!(close && found.len() == 2, "{what}: {found:?} ms, not {expected:?}");
        };
        near(ms_of(&singles.alone), [300.0, 30.0]);
        near(ms_of(&singles.fair), [300.0, 300.0]);
        let row = job.row(&job.run_named("min-rtt").unwrap(), &singles);
        assert!(row["aggregation_benefit"].as_f64().unwrap() < -8.0, "{what}: {row:?}");
        assert!(row["benefit_fair"].as_f64().unwrap().abs() < 1e-3, "{what}: {row:?}");
    }
}

/// 4 MB over paths of 8 Mbit/s and 1 Mbit/s. With its data on the second path the connection is as slow as that path:
/// 32 s and more; the other is used only until the second is up.
#[test]
fn a_fair_single_path_has_the_data_to_itself() {
    for (what, transport) in stacks() {
        let config = bulk(&transport, vec![path("wide", 8_000, 10), path("thin", 1_000, 10)], 4_000_000);
        for manager in [PathManager::FullMesh, PathManager::Backup] {
            let mut config = config.clone();
            config.transport.path_manager = manager;
            let run = run(&single::fair(&config, 1), "min-rtt", "newreno");
            finishes(&run, 4_000_000, what);
            let [wide, thin] = [0, 1].map(|path: usize| run.sim.connection(0).path_tallies[path].delivered);
            assert!(wide < 100_000 && thin > 3_900_000, "{what} {manager:?}: {wide} and {thin}");
        }
    }
}

/// A path fails whose last packets have arrived and are not acknowledged. If the peer's limit has told that before they
/// are overdue, nothing repeats them, and QUIC keeps them in the send buffer. That is soon full, until the path is
/// given up 3 s later. `earliest-delivery` sends them again elsewhere, whenever the path fails; so does the transport
/// itself at the first probe timeout.
#[test]
fn a_send_buffer_full_of_what_has_arrived_does_not_stop_the_connection() {
    let standstill = |scheduler: &str, reinject_at_pto: bool, at: u64| {
        let mut transport = TransportConfig { reinject_at_pto, ..TransportConfig::mpquic() };
        transport.send_buffer = Buffer::Fixed(Bytes::new(500_000));
        transport.receive_buffer = Buffer::Fixed(Bytes::new(250_000));
        let paths = vec![path("lasts", 20_000, 10), down(path("dies", 20_000, 12), at, None)];
        let run = run(&bulk(&transport, paths, 5_000_000), scheduler, "newreno");
        finishes(&run, 5_000_000, scheduler);
        let arrived = run.notes.iter().filter(|(_, note)| matches!(note, Note::Arrived { .. }));
        let arrived: Vec<Instant> = arrived.map(|(at, _)| *at).collect();
        arrived.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap()
    };
    let longest =
        |scheduler, reinjects| (1_000..1_100).step_by(7).map(|at| standstill(scheduler, reinjects, at)).max().unwrap();
    let plain = "earliest-delivery:copies=false";
    let (scheduler, transport) = (longest("earliest-delivery", false), longest(plain, true));
    assert!(scheduler.max(transport) < Span::from_millis(200), "{scheduler}, {transport}");
    let nobody = longest(plain, false);
    assert!(nobody > Span::from_secs(1), "{nobody}");
}
