//! Steering the running kernel over two emulated paths. Needs namespaces, TUN devices and MPTCP; says so where they
//! are missing.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use weftway_emu::netlink::{Endpoint, EndpointFlags, Events, PathManager, Route, SubflowInfo, diagnose};
use weftway_emu::steer::{self, Mode, Settings, Steering, SteeringReport};
use weftway_emu::{
    Clock, EmuError, Ends, Lab, LabPath, LabPlan, Namespace, Opener, Outcome, RunningLab, Transfer, Way, Work,
    client_address, mptcp_enabled, server_address, transfer,
};
use weftway_link::LinkConfig;
use weftway_path::{BitRate, Bytes, Context, Decision, Instant, PathId, Role, Span};

use crate::on_time::on_time;

const EXCLUSIVE: Settings = Settings { interval: Span::from_millis(50), mode: Mode::Exclusive, token: None };

/// 1000 B every 5 ms for 3 s: 1.6 Mbit/s, of which either path has room for six.
const PERIOD: Span = Span::from_millis(5);
const MESSAGES: u64 = 600;
const MESSAGE: Bytes = Bytes::new(1000);

/// Two paths of 10 Mbit/s and 10 ms.
fn plan() -> LabPlan {
    let way = |seed: u64| {
        let (rate, delay) = (BitRate::from_mbps(10).into(), Span::from_millis(10));
        Way { link: LinkConfig { rate, delay, ..LinkConfig::default() }, seeds: seed.into(), via: None }
    };
    let path =
        |name: &str, seed| LabPath { name: name.to_owned(), up: way(seed), down: way(seed + 1), presence: Vec::new() };
    LabPlan { paths: vec![path("wifi", 1), path("lte", 3)], shared: Vec::new() }
}

/// `None`, with the reason, where there is no right to a lab or no MPTCP. `joins`: the client's kernel opens subflows.
fn lab(joins: bool) -> Option<RunningLab> {
    let lab = Lab::build(&plan()).and_then(|lab| {
        if joins {
            lab.join_paths(&[false, false])?;
        }
        lab.start(None)
    });
    match lab {
        Ok(lab) if mptcp_enabled(&lab.client).unwrap() => Some(lab),
        Ok(_) => {
            eprintln!("skipped: the kernel has no MPTCP, or it is switched off");
            None
        }
        Err(error @ EmuError::Missing { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn by_program(namespace: &Namespace) {
    let choose = || {
        fs::write("/proc/sys/net/mptcp/pm_type", "1").unwrap();
        Ok(())
    };
    namespace.within(choose).unwrap();
}

fn ends(lab: &RunningLab, opener: Opener) -> Ends<'_> {
    let (client, server) = (client_address(0), server_address(0));
    match opener {
        Opener::Sender => {
            Ends { sender: &lab.client, receiver: &lab.server, sender_address: client, receiver_address: server }
        }
        Opener::Receiver => {
            Ends { sender: &lab.server, receiver: &lab.client, sender_address: server, receiver_address: client }
        }
    }
}

fn stream(opener: Opener) -> Transfer {
    Transfer {
        multipath: true,
        opener,
        cc: "reno".to_owned(),
        work: Work::Messages { written: (0..MESSAGES).map(|k| (PERIOD * k, MESSAGE)).collect() },
        write: Bytes::new(256 << 10),
        time_limit: Span::from_secs(10),
        nodelay: false,
        send_buffer: None,
        receive_buffer: None,
        sample_every: Span::from_millis(5),
        paths: vec![client_address(0), client_address(1)],
    }
}

/// What a steered transfer left behind.
struct Moved {
    outcome: Outcome,
    report: SteeringReport,
    /// Times at which the rule began to name another path than before, from about the transfer's time zero.
    turns: Vec<Instant>,
    /// The sender's subflows when the steering was over and the transfer was not.
    after: Vec<SubflowInfo>,
}

/// Streams for 3 s. The rule, from its first question on: the second path for 800 ms, the first for 800 ms, the second
/// again; the steering ends 2.4 s after the start.
fn moved(lab: &RunningLab, opener: Opener) -> Moved {
    let ends = ends(lab, opener);
    let clock = Clock::new();
    let turns = Mutex::new(Vec::new());
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut rule = |_: u32, cx: &Context<'_>| {
        assert!(cx.flow.is_none() && cx.packet.is_some() && cx.sendable().count() == cx.paths.len());
        let mut turns = turns.lock().unwrap();
        let first = *turns.first().unwrap_or(&clock.now());
        let turn = clock.now().since(first).as_millis() / 800;
        if turns.len() as u64 <= turn {
            turns.push(clock.now());
        }
        Decision::Send(cx.paths[[1, 0, 1][turn.min(2) as usize]].id)
    };
    let (zero, outcome, report, after) = thread::scope(|scope| {
        let steering = scope.spawn(|| ends.sender.within(|| Steering::open(EXCLUSIVE)?.run(&mut rule, &stop)));
        thread::sleep(Duration::from_millis(20));
        let zero = clock.now();
        let transfer = scope.spawn(|| transfer(&ends, &stream(opener), &never));
        thread::sleep(Duration::from_millis(2400));
        stop.store(true, Ordering::Relaxed);
        let report = steering.join().unwrap().unwrap();
        let after = ends.sender.within(diagnose).unwrap();
        (zero, transfer.join().unwrap().unwrap(), report, after)
    });
    let turns = turns.into_inner().unwrap().into_iter().map(|turn| Instant::ZERO + turn.since(zero));
    Moved { outcome, report, turns: turns.collect(), after }
}

/// Bytes that each path sent from one time to another.
fn sent(outcome: &Outcome, from: Instant, to: Instant) -> [u64; 2] {
    let total = |at: Instant, path: usize| {
        let before = outcome.samples.iter().take_while(|sample| Instant::ZERO + sample.at <= at);
        before.last().map_or(0, |sample| sample.paths[path].bytes_sent.get())
    };
    [0, 1].map(|path| total(to, path) - total(from, path))
}

/// A path that was left is silent after 150 ms: 20 ms of round trip, and room for a busy machine. From then to 100 ms
/// before the next turn, 800 ms after the one before, 550 ms bring 110 messages; as a turn comes with a look, every 50
/// ms, and the last time is cut by the end of the steering, 60 at least. A look at the counters that comes late takes a
/// message or two for a later one.
fn check(moved: &Moved) {
    let Moved { outcome, report, turns, after } = moved;
    assert!(outcome.finished && !outcome.fallback);
    assert_eq!(outcome.delivered.get(), MESSAGES * MESSAGE.get());
    assert_eq!((turns.len(), report.connections, report.switches, report.errors), (3, 1, 2, 0), "{report:?}");
    let settled = turns.iter().map(|&turn| turn + Span::from_millis(150));
    let until =
        turns.iter().map(|&turn| turn + Span::from_millis(650)).take(2).chain([turns[2] + Span::from_millis(500)]);
    for ((from, to), [used, idle]) in settled.zip(until).zip([[1, 0], [0, 1], [1, 0]]) {
        let bytes = sent(outcome, from, to);
        assert!(bytes[used] >= 60_000 && bytes[idle] <= 2000, "{from:?} to {to:?}: {bytes:?}");
    }
    // About 2.3 s at 50 ms; two orders at the first decision, which leaves the first path, and at each switch.
    assert!((30..=50).contains(&report.decisions) && report.waits == 0, "{report:?}");
    assert!((5..=6).contains(&report.orders.calls), "{report:?}");
    assert!(report.questions.calls == report.decisions && report.looks.calls >= 2 * report.decisions);
    let backups: Vec<bool> = after.iter().map(|subflow| subflow.mptcp.unwrap().flags.backup_loc()).collect();
    assert_eq!(backups, [false, false], "priorities are what they were");
}

#[test]
fn a_stream_is_moved_by_endpoints_and_back() {
    on_time(|| {
        let Some(lab) = lab(true) else { return };
        check(&moved(&lab, Opener::Sender));
    });
}

/// The server's subflows have one address; its userspace path manager tells them apart.
#[test]
fn a_stream_is_moved_by_token_and_back() {
    on_time(|| {
        let Some(lab) = lab(true) else { return };
        by_program(&lab.server);
        check(&moved(&lab, Opener::Receiver));
    });
}

/// The second subflow is bound to its device, as `ip mptcp endpoint add … dev …` has it: it is found all the same.
#[test]
fn a_subflow_that_is_bound_to_a_device_is_steered() {
    on_time(|| {
        let Some(lab) = lab(true) else { return };
        let bind = || {
            let address = client_address(1);
            let has = |address| {
                move |one: &nix::ifaddrs::InterfaceAddress| {
                    one.address.as_ref().and_then(|one| one.as_sockaddr_in()).is_some_and(|one| one.ip() == address)
                }
            };
            let device = getifaddrs().unwrap().find(has(address)).unwrap().interface_name;
            let device = Some(Route::open()?.device_index(&device)?);
            let manager = PathManager::open()?;
            manager.remove_endpoint(2, address)?;
            let flags = EndpointFlags { subflow: true, ..EndpointFlags::default() };
            manager.add_endpoint(&Endpoint { id: Some(2), address, device, flags })
        };
        lab.client.within(bind).unwrap();
        let moved = moved(&lab, Opener::Sender);
        assert_eq!(moved.after.iter().filter(|subflow| subflow.interface != 0).count(), 1, "{:?}", moved.after);
        check(&moved);
    });
}

/// A connection that the path manager let have one subflow only is there first; the one with two is asked about.
#[test]
fn a_connection_of_one_subflow_is_passed_over() {
    on_time(|| {
        let Some(lab) = lab(true) else { return };
        let limit = |subflows| lab.client.within(|| PathManager::open()?.set_limits(subflows, 8)).unwrap();
        let never = AtomicBool::new(false);
        let moved = thread::scope(|scope| {
            limit(0);
            let work = Work::Messages { written: (0..MESSAGES + 200).map(|k| (PERIOD * k, MESSAGE)).collect() };
            let order = Transfer { work, ..stream(Opener::Sender) };
            let (ends, never) = (ends(&lab, Opener::Sender), &never);
            let single = scope.spawn(move || transfer(&ends, &order, never));
            thread::sleep(Duration::from_millis(200));
            limit(8);
            let moved = moved(&lab, Opener::Sender);
            assert!(single.join().unwrap().unwrap().finished);
            moved
        });
        // The first one's subflow, and two.
        assert_eq!((moved.after.len(), moved.report.connections), (3, 2), "{:?}", moved.after);
        assert!(moved.report.decisions >= 30 && moved.report.switches == 2, "{:?}", moved.report);
    });
}

/// The rule panics at its second question, when the subflow that it did not choose is a backup.
#[test]
fn priorities_are_restored_when_the_rule_panics() {
    on_time(|| {
        let Some(lab) = lab(true) else { return };
        by_program(&lab.server);
        let ends = ends(&lab, Opener::Receiver);
        let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
        let backups = || {
            let all = diagnose().unwrap();
            all.iter().map(|subflow| subflow.mptcp.unwrap().flags.backup_loc()).filter(|&is_backup| is_backup).count()
        };
        let asked = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let mut rule = |_: u32, cx: &Context<'_>| {
                let mut asked = asked.lock().unwrap();
                asked.push(backups());
                assert!(asked.len() < 2, "the rule panics");
                Decision::Send(cx.paths[1].id)
            };
            let stop = &stop;
            let steering = scope.spawn(move || ends.sender.within(|| Steering::open(EXCLUSIVE)?.run(&mut rule, stop)));
            thread::sleep(Duration::from_millis(20));
            let transfer = scope.spawn(|| transfer(&ends, &stream(Opener::Receiver), &never));
            assert!(steering.join().is_err());
            let after = ends.sender.within(|| Ok(backups())).unwrap();
            assert!(transfer.join().unwrap().unwrap().finished);
            assert_eq!(after, 0);
        });
        assert_eq!(asked.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner), [0, 1]);
    });
}

/// Nobody but the steering opens a second subflow here.
#[test]
fn a_client_without_path_manager_gets_its_subflows() {
    on_time(|| {
        let Some(lab) = lab(false) else { return };
        by_program(&lab.client);
        // The server's own path manager lets none in until it is told.
        lab.server.within(|| PathManager::open()?.set_limits(8, 8)).unwrap();
        let moved = moved(&lab, Opener::Sender);
        assert_eq!(moved.report.joins, 1, "{:?}", moved.report);
        check(&moved);
    });
}

/// With the server's in-kernel path manager nothing tells its subflows apart: it is said, and nothing is asked.
#[test]
fn what_cannot_be_told_apart_is_not_steered() {
    let Some(lab) = lab(true) else { return };
    let ends = ends(&lab, Opener::Receiver);
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let work = Work::Messages { written: (0..60).map(|k| (PERIOD * k, MESSAGE)).collect() };
    let report = thread::scope(|scope| {
        let mut rule = |_: u32, _: &Context<'_>| panic!("nothing is asked");
        let stop = &stop;
        let run = move || Steering::open(EXCLUSIVE)?.run(&mut rule, stop);
        let steering = scope.spawn(move || ends.sender.within(run));
        transfer(&ends, &Transfer { work, ..stream(Opener::Receiver) }, &never).unwrap();
        stop.store(true, Ordering::Relaxed);
        steering.join().unwrap().unwrap()
    });
    assert_eq!((report.connections, report.decisions), (1, 0));
    let why = report.last_error.unwrap();
    assert!(why.contains("several subflows have the local address 10.0.1.2"), "{why}");
}

/// A transfer in a lab of its own, either way: the second path carries nearly everything. 600 messages take 3 s, of
/// which the first 100 to 200 ms go by before there are two subflows and a look at them.
#[test]
fn a_measurement_is_steered_from_its_start() {
    on_time(|| {
        if lab(false).is_none() {
            return;
        }
        for opener in [Opener::Sender, Opener::Receiver] {
            let setup = weftway_emu::kernel::Setup { backups: vec![false, false], ..Default::default() };
            let mut rule = |_: u32, _: &Context<'_>| Decision::Send(PathId::new(1));
            let order = stream(opener);
            let (measured, report) =
                steer::measure((&plan(), &setup, &order), EXCLUSIVE, &mut rule, &AtomicBool::new(false)).unwrap();
            let paths = measured.outcome.last.paths.iter().map(|path| path.bytes_acked.get()).collect::<Vec<_>>();
            assert!(measured.outcome.finished && report.errors == 0, "{report:?}");
            assert!(paths[1] > 9 * paths[0], "{paths:?}");
        }
    });
}

/// The first path is a backup of its own accord, which the rule sees. Chosen, it is active, and the other a backup: two
/// orders.
#[test]
fn a_path_that_is_kept_as_a_backup_can_be_chosen() {
    on_time(|| {
        if lab(false).is_none() {
            return;
        }
        let setup = weftway_emu::kernel::Setup { backups: vec![true, false], ..Default::default() };
        let mut rule = |_: u32, cx: &Context<'_>| {
            assert_eq!(cx.paths.iter().map(|path| path.role).collect::<Vec<_>>(), [Role::Backup, Role::Active]);
            Decision::Send(PathId::new(0))
        };
        let (order, stop) = (stream(Opener::Sender), AtomicBool::new(false));
        let (measured, report) = steer::measure((&plan(), &setup, &order), EXCLUSIVE, &mut rule, &stop).unwrap();
        let paths = measured.outcome.last.paths.iter().map(|path| path.bytes_acked.get()).collect::<Vec<_>>();
        assert!(paths[0] > 9 * paths[1], "{paths:?}");
        assert_eq!((report.orders.calls, report.errors), (2, 0), "{report:?}");
    });
}

/// A bulk transfer in mode preferred: the chosen path's window is full at most looks, and then both paths send. In
/// mode exclusive the other one carries what it had in the beginning.
#[test]
fn others_help_out_where_they_are_let() {
    on_time(|| {
        if lab(false).is_none() {
            return;
        }
        let share = |mode| {
            let setup = weftway_emu::kernel::Setup { backups: vec![false, false], ..Default::default() };
            let mut rule = |_: u32, _: &Context<'_>| Decision::Send(PathId::new(0));
            let order = Transfer { work: Work::Bulk { bytes: Bytes::new(4_000_000) }, ..stream(Opener::Sender) };
            let settings = Settings { mode, ..EXCLUSIVE };
            let stop = AtomicBool::new(false);
            let (measured, _) = steer::measure((&plan(), &setup, &order), settings, &mut rule, &stop).unwrap();
            let bytes =
                measured.outcome.last.paths.iter().map(|path| path.bytes_acked.get() as f64).collect::<Vec<_>>();
            bytes[1] / (bytes[0] + bytes[1])
        };
        let (exclusive, preferred) = (share(Mode::Exclusive), share(Mode::Preferred));
        assert!(exclusive < 0.2 && preferred > 0.3, "{exclusive} and {preferred}");
    });
}

/// A namespace without connections is steered, too.
#[test]
fn nothing_to_steer_is_no_error() {
    let Ok(namespace) = Namespace::new() else { return eprintln!("skipped: no right to a network namespace") };
    if let Err(error) = namespace.within(Events::open) {
        return eprintln!("skipped: {error}");
    }
    let stop = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        let run = || namespace.within(|| Steering::open(EXCLUSIVE)?.run(&mut |_, _| Decision::Wait, &stop));
        let steering = scope.spawn(run);
        thread::sleep(Duration::from_millis(120));
        stop.store(true, Ordering::Relaxed);
        steering.join().unwrap().unwrap()
    });
    assert_eq!((report.connections, report.decisions, report.errors), (0, 0, 0));
}
