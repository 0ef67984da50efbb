//! Transfers of the running kernel over a namespace's loopback device.
//!
//! They need the right to make a namespace, and half of them MPTCP. Without, they say that they are skipped.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weftway_emu::netlink::Route;
use weftway_emu::{
    EmuError, Ends, Lab, LabPath, LabPlan, Namespace, Opener, Outcome, RunningLab, Subflow, Transfer, Way, Work,
    available_controllers, client_address, mptcp_enabled, probe, server_address, transfer,
};
use weftway_link::{LinkConfig, Loss};
use weftway_path::{BitRate, Bytes, Span};

use crate::on_time::on_time;

const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A namespace with a loopback device that is up; `None` where there is no right to it.
fn namespace() -> Option<Namespace> {
    let namespace = Namespace::new();
    let up = namespace.and_then(|namespace| {
        namespace.within(|| Route::open()?.set_up("lo", 65_536, 1000))?;
        Ok(namespace)
    });
    or_skip(up)
}

/// `None`, with the reason, for what this machine or user does not have. Everything else is a failure.
fn or_skip<T>(result: Result<T, EmuError>) -> Option<T> {
    match result {
        Err(error @ EmuError::Missing { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        result => Some(result.unwrap()),
    }
}

/// TCP, and MPTCP where it is to be had.
fn protocols(namespace: &Namespace) -> Vec<bool> {
    if mptcp_enabled(namespace).unwrap() {
        return vec![false, true];
    }
    eprintln!("skipped for MPTCP: the kernel has none, or it is switched off");
    vec![false]
}

fn order(multipath: bool, work: Work) -> Transfer {
    Transfer {
        multipath,
        opener: Opener::Sender,
        cc: "reno".to_owned(),
        work,
        write: Bytes::new(256 << 10),
        time_limit: Span::from_secs(20),
        nodelay: false,
        send_buffer: None,
        receive_buffer: None,
        sample_every: Span::from_millis(1),
        paths: vec![HOME],
    }
}

fn run(namespace: &Namespace, order: &Transfer) -> Result<Outcome, EmuError> {
    let ends = Ends { sender: namespace, receiver: namespace, sender_address: HOME, receiver_address: HOME };
    transfer(&ends, order, &AtomicBool::new(false))
}

#[test]
fn bulk_arrives_whole_and_is_accounted_for() {
    let Some(namespace) = namespace() else { return };
    let bytes = Bytes::new(5_000_000);
    for multipath in protocols(&namespace) {
        for opener in [Opener::Sender, Opener::Receiver] {
            let order = Transfer { opener, ..order(multipath, Work::Bulk { bytes }) };
            let outcome = run(&namespace, &order).unwrap();
            assert_eq!((outcome.finished, outcome.fallback), (true, false));
            assert_eq!(outcome.delivered, bytes);
            assert!(outcome.established.unwrap() <= outcome.elapsed);
            accounted(&outcome, multipath, opener);
        }
    }
}

/// The real-time priorities of this process's threads, field 40 of `proc_pid_stat(5)`; 0 of an ordinary one.
fn priorities() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread may be gone by now.
    let stats = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("stat")).ok());
    let of = |stat: String| stat.rsplit_once(')').unwrap().1.split_whitespace().nth(37).unwrap().parse().unwrap();
    stats.map(of).collect()
}

/// The links' thread has priority 50. Both ends have the one below.
#[test]
fn the_ends_of_a_transfer_run_just_below_the_links() {
    let Some(namespace) = namespace() else { return };
    let realtime = probe().parts.into_iter().find(|part| part.name == "real-time priority").unwrap();
    if let Err(absence) = realtime.state {
        return eprintln!("skipped: real-time priority cannot be had: {}", absence.reason);
    }
    let order = order(false, Work::Duration { span: Span::from_millis(300) });
    let seen = thread::scope(|scope| {
        let transfer = scope.spawn(|| run(&namespace, &order).unwrap());
        let mut most = 0;
        while !transfer.is_finished() {
            most = most.max(priorities().iter().filter(|&&priority| priority == 49).count());
            thread::sleep(Duration::from_millis(5));
        }
        most
    });
    assert!(seen >= 2, "{seen} threads");
}

/// Every byte is in the statistics: sent and acknowledged once, and once more for each time that MPTCP's timer handed
/// it out again; the SYN of the side that connects is acknowledged too.
fn accounted(outcome: &Outcome, multipath: bool, opener: Opener) {
    let acked = outcome.samples.iter().map(|sample| sample.paths[0].bytes_acked);
    assert!(acked.is_sorted());
    let (last, connection) = (&outcome.last.paths[0], outcome.last.connection);
    assert_eq!(connection.is_some(), multipath);
    let handed_out = 5_000_000 + connection.map_or(0, |connection| connection.bytes_retrans.get());
    assert_eq!(last.bytes_acked.get(), handed_out + u64::from(opener == Opener::Sender), "{last:?}");
    assert_eq!(last.bytes_sent.get() - last.bytes_retrans.get(), handed_out);
    assert_eq!((last.open, last.unacked, outcome.last.unmatched), (1, 0, 0));
    assert!(last.cwnd_packets >= 2 && last.cwnd > Bytes::ZERO && last.srtt > Span::ZERO);
    assert!(outcome.received.paths[0].bytes_received.get() >= 5_000_000);
    if let Some(connection) = connection {
        assert_eq!(connection.bytes_sent.get(), 5_000_000);
        assert_eq!(outcome.received.connection.unwrap().bytes_received.get(), 5_000_000);
        // One namespace has both ends of the one connection.
        assert_eq!(outcome.sender_counters["MPTcpExt.MPCapableSYNRX"], 1);
    }
    assert_eq!(outcome.sender_counters["Tcp.ActiveOpens"], 1);
    assert_eq!(outcome.receiver_counters["Tcp.PassiveOpens"], 1);
}

/// Three messages, 50 ms apart; on a loopback device each is there long before the next.
#[test]
fn messages_are_timed_one_by_one() {
    on_time(|| {
        let Some(namespace) = namespace() else { return };
        for multipath in protocols(&namespace) {
            let written: Vec<_> = (0..3).map(|k| (Span::from_millis(50 * k), Bytes::new(3000))).collect();
            let outcome = run(&namespace, &order(multipath, Work::Messages { written })).unwrap();
            assert!(outcome.finished);
            assert_eq!((outcome.delivered, outcome.message_delays.len()), (Bytes::new(9000), 3));
            for delay in &outcome.message_delays {
                assert!(delay.unwrap() > Span::ZERO && delay.unwrap() < Span::from_millis(50), "{delay:?}");
            }
            assert!(outcome.elapsed >= Span::from_millis(100));
        }
    });
}

/// Five answers with 10 ms between an answer and the next request: four pauses.
#[test]
fn answers_follow_requests() {
    on_time(|| {
        let Some(namespace) = namespace() else { return };
        let work = Work::RequestResponse { bytes: Bytes::new(20_000), think: Span::from_millis(10), count: 5 };
        for multipath in protocols(&namespace) {
            for opener in [Opener::Sender, Opener::Receiver] {
                let outcome = run(&namespace, &Transfer { opener, ..order(multipath, work.clone()) }).unwrap();
                assert!(outcome.finished);
                assert_eq!(outcome.delivered, Bytes::new(100_000));
                assert_eq!(outcome.message_delays.iter().flatten().count(), 5);
                assert!(outcome.elapsed >= Span::from_millis(40) && outcome.elapsed < Span::from_secs(1));
            }
        }
    });
}

#[test]
fn a_duration_ends_when_it_is_over() {
    on_time(|| {
        let Some(namespace) = namespace() else { return };
        for multipath in protocols(&namespace) {
            let span = Span::from_millis(200);
            let outcome = run(&namespace, &order(multipath, Work::Duration { span })).unwrap();
            assert!(outcome.finished && outcome.delivered > Bytes::ZERO);
            let late = outcome.elapsed.saturating_sub(span);
            assert!(outcome.elapsed >= span && late < Span::from_millis(50), "{late} late");
        }
    });
}

/// A transfer that is cut off leaves no connection behind that goes on sending: after the reset nothing is open.
#[test]
fn a_time_limit_is_no_error_and_leaves_nothing_behind() {
    let Some(namespace) = namespace() else { return };
    for multipath in protocols(&namespace) {
        let written = vec![(Span::ZERO, Bytes::new(10)), (Span::from_secs(5), Bytes::new(10))];
        let limit = Span::from_millis(100);
        let order = Transfer { time_limit: limit, ..order(multipath, Work::Messages { written }) };
        let outcome = run(&namespace, &order).unwrap();
        assert!(!outcome.finished && outcome.elapsed >= limit);
        // The second was never written, so there is nothing to say about it.
        assert_eq!((outcome.delivered, outcome.message_delays.len()), (Bytes::new(10), 1));
        let open = namespace.within(|| Ok(established())).unwrap();
        assert_eq!(open, 0);
    }
}

/// Connections in state "established" (01) in the calling thread's namespace.
fn established() -> usize {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    table.lines().filter(|line| line.split_whitespace().nth(3) == Some("01")).count()
}

#[test]
fn a_stop_ends_it_soon() {
    on_time(|| {
        let Some(namespace) = namespace() else { return };
        for multipath in protocols(&namespace) {
            let ends = Ends { sender: &namespace, receiver: &namespace, sender_address: HOME, receiver_address: HOME };
            let order = order(multipath, Work::Messages { written: vec![(Span::from_secs(10), Bytes::new(1))] });
            let stop = AtomicBool::new(false);
            let took = thread::scope(|scope| {
                let transfer = scope.spawn(|| transfer(&ends, &order, &stop));
                thread::sleep(Duration::from_millis(50));
                let stopped = Instant::now();
                stop.store(true, Ordering::Relaxed);
                assert!(matches!(transfer.join().unwrap(), Err(EmuError::Interrupted)));
                stopped.elapsed()
            });
            assert!(took < Duration::from_millis(100), "{took:?}");
        }
    });
}

#[test]
fn an_unknown_controller_is_told_with_those_there_are() {
    let Some(namespace) = namespace() else { return };
    let names = available_controllers(&namespace).unwrap();
    assert!(names.contains(&"reno".to_owned()), "{names:?}");
    let order = Transfer { cc: "weft".to_owned(), ..order(false, Work::Bulk { bytes: Bytes::new(1) }) };
    let error = run(&namespace, &order).unwrap_err().to_string();
    assert!(error.contains("`weft`") && error.contains(&names.join(", ")), "{error}");
}

/// Nobody listens beyond the loopback device.
#[test]
fn no_way_to_the_receiver_is_an_error() {
    let Some(namespace) = namespace() else { return };
    let nowhere = Ipv4Addr::new(192, 0, 2, 1);
    let ends = Ends { sender: &namespace, receiver: &namespace, sender_address: HOME, receiver_address: nowhere };
    let order = order(false, Work::Bulk { bytes: Bytes::new(1) });
    let error = transfer(&ends, &order, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, EmuError::Transfer(_)), "{error}");
}

/// Two paths of 10 Mbit/s and 10 ms, the second of them with loss; `None` where there is no right to them.
fn lab() -> Option<RunningLab> {
    let way = |loss: &Loss, seed: u64| {
        let (rate, delay) = (BitRate::from_mbps(10).into(), Span::from_millis(10));
        Way {
            link: LinkConfig { rate, delay, loss: loss.clone(), ..LinkConfig::default() },
            seeds: seed.into(),
            via: None,
        }
    };
    let path = |name: &str, loss, seed| LabPath {
        name: name.to_owned(),
        up: way(loss, seed),
        down: way(loss, seed + 1),
        presence: Vec::new(),
    };
    let paths = vec![path("wifi", &Loss::None, 1), path("lte", &Loss::Bernoulli(0.01), 3)];
    let lab = Lab::build(&LabPlan { paths, shared: Vec::new() });
    let lab = lab.and_then(|lab| {
        lab.join_paths(&[false, false])?;
        lab.start(None)
    });
    or_skip(lab).filter(|lab| protocols(&lab.client).contains(&true))
}

/// The paths are told apart by the client's addresses, at whichever end the client is. `connect` takes a round trip
/// of 20 ms. The payload of 3 MB takes 2.4 s at 10 Mbit/s and 1.2 s at 20.
#[test]
fn two_paths_are_told_apart_and_add_up() {
    on_time(|| {
        let bytes = Bytes::new(3_000_000);
        for opener in [Opener::Sender, Opener::Receiver] {
            let Some(lab) = lab() else { return };
            let outcome = over_two_paths(&lab, opener, Work::Bulk { bytes });
            assert!(outcome.finished && !outcome.fallback && outcome.delivered == bytes);
            assert!((Span::from_millis(20)..Span::from_millis(50)).contains(&outcome.established.unwrap()));
            assert!((Span::from_millis(1200)..Span::from_millis(2400)).contains(&outcome.elapsed));
            let paths = &outcome.last.paths;
            assert!(paths.iter().all(|path| path.open == 1 && path.srtt >= Span::from_millis(20)), "{paths:?}");
            assert!(paths.iter().all(|path| path.bytes_sent > Bytes::new(300_000)), "{paths:?}");
            assert_eq!((outcome.last.unmatched, outcome.received.unmatched), (0, 0));
            each_byte_once(&outcome);
            assert!(outcome.samples.len() > 50 && outcome.samples.is_sorted_by_key(|sample| sample.at));
        }
    });
}

fn over_two_paths(lab: &RunningLab, opener: Opener, work: Work) -> Outcome {
    let (up, client, server) = (opener == Opener::Sender, client_address(0), server_address(0));
    let ends = match up {
        true => Ends { sender: &lab.client, receiver: &lab.server, sender_address: client, receiver_address: server },
        false => Ends { sender: &lab.server, receiver: &lab.client, sender_address: server, receiver_address: client },
    };
    let paths = vec![client, client_address(1)];
    transfer(&ends, &Transfer { opener, paths, ..order(true, work) }, &AtomicBool::new(false)).unwrap()
}

/// The connection counts what it sends once, and apart from it what it hands to another subflow; the subflows count
/// everything. What is lost on the way is sent again by the same subflow.
fn each_byte_once(outcome: &Outcome) {
    let connection = outcome.last.connection.unwrap();
    assert_eq!((connection.subflows, connection.bytes_sent), (1, outcome.delivered));
    let total = |of: fn(&Subflow) -> Bytes| outcome.last.paths.iter().map(|path| of(path).get()).sum::<u64>();
    let first_time = total(|path| path.bytes_sent) - total(|path| path.bytes_retrans);
    assert_eq!(first_time, outcome.delivered.get() + connection.bytes_retrans.get());
    let [wifi, lte] = &outcome.last.paths[..] else { panic!("two paths") };
    assert!(lte.total_retrans > wifi.total_retrans, "{lte:?}");
    assert_eq!(outcome.sender_counters["Tcp.RetransSegs"], u64::from(wifi.total_retrans + lte.total_retrans));
    assert!(outcome.received.paths[1].out_of_order > 0);
}

/// An upload's message of 1000 B is alone on its path: 10 ms, and (1000 + 72) · 8 / 10 Mbit/s = 0.86 ms for its bits
/// with the headers of IP (20), TCP (32) and MPTCP (20).
#[test]
fn a_message_takes_a_one_way_trip() {
    on_time(|| {
        let Some(lab) = lab() else { return };
        let written = vec![(Span::from_millis(100), Bytes::new(1000))];
        let outcome = over_two_paths(&lab, Opener::Sender, Work::Messages { written });
        let delay = outcome.message_delays[0].unwrap();
        assert!((Span::from_micros(10_858)..Span::from_millis(25)).contains(&delay), "{delay}");
    });
}

/// The link's queue has no end, so what is in flight is what the receiver's window allows: the kernel doubles a buffer
/// for its overhead, and offers 131 072 B at the very most. A queue of these, with 52 B of headers to 1448 B, takes
/// 109 ms at 10 Mbit/s, besides the 20 ms.
#[test]
fn a_receive_buffer_bounds_what_is_in_flight() {
    on_time(|| {
        let Some(lab) = lab() else { return };
        let (sender_address, receiver_address) = (client_address(0), server_address(0));
        let ends = Ends { sender: &lab.client, receiver: &lab.server, sender_address, receiver_address };
        let bulk =
            Transfer { paths: vec![sender_address], ..order(false, Work::Bulk { bytes: Bytes::new(1_000_000) }) };
        let worst = |receive_buffer| {
            let outcome =
                transfer(&ends, &Transfer { receive_buffer, ..bulk.clone() }, &AtomicBool::new(false)).unwrap();
            assert!(outcome.finished);
            let paths = || outcome.samples.iter().map(|sample| sample.paths[0]);
            (paths().map(|path| path.bytes_in_flight).max().unwrap(), paths().map(|path| path.srtt).max().unwrap())
        };
        let (in_flight, srtt) = worst(Some(Bytes::new(65_536)));
        assert!(in_flight <= Bytes::new(131_072) && srtt < Span::from_millis(140), "{in_flight}, {srtt}");
        let (in_flight, _) = worst(None);
        assert!(in_flight > Bytes::new(262_144), "{in_flight}");
    });
}
