//! The links and the connection start together: what is planned for a link comes when the connection is that old.

use std::io::Write;
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weftway_emu::kernel::{Setup, measure};
use weftway_emu::{
    EmuError, Ends, Lab, LabPath, LabPlan, Opener, ReadyLab, ReadyTransfer, Transfer, Way, Work, client_address,
    server_address,
};
use weftway_link::{Change, LinkConfig, Set};
use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::on_time::on_time;

/// Longer than the links are up.
const PREPARATION: Duration = Duration::from_millis(400);

/// One path of 10 Mbit/s and 10 ms, which goes down at 300 ms.
fn plan() -> LabPlan {
    let link = LinkConfig {
        rate: BitRate::from_mbps(10).into(),
        delay: Span::from_millis(10),
        changes: vec![Change { at: Instant::from_millis(300), set: Set::Down }],
        ..LinkConfig::default()
    };
    let way = |seed: u64| Way { link: link.clone(), seeds: seed.into(), via: None };
    let path = LabPath { name: "wifi".to_owned(), up: way(1), down: way(2), presence: Vec::new() };
    LabPlan { paths: vec![path], shared: Vec::new() }
}

/// `None` where there is no right to it; the reason gets past the test harness, which keeps what a passing test prints.
fn lab() -> Option<ReadyLab> {
    match Lab::build(&plan()).and_then(|lab| lab.ready(None)) {
        Ok(lab) => Some(lab),
        Err(error @ EmuError::Missing { .. }) => {
            std::io::stderr().write_all(format!("skipped: {error}\n").as_bytes()).unwrap();
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn upload(work: Work) -> Transfer {
    Transfer {
        multipath: false,
        opener: Opener::Sender,
        cc: "reno".to_owned(),
        work,
        write: Bytes::new(256 << 10),
        time_limit: Span::from_secs(1),
        nodelay: false,
        send_buffer: None,
        receive_buffer: None,
        sample_every: Span::from_millis(5),
        paths: vec![client_address(0)],
    }
}

/// `connect` takes 20 ms, so the messages are written 200 and 470 ms after it was called.
#[test]
fn a_link_goes_down_when_the_connection_is_that_old_however_long_preparations_took() {
    on_time(|| {
        let Some(ReadyLab { emulator, client, server }) = lab() else { return };
        let (sender_address, receiver_address) = (client_address(0), server_address(0));
        let ends = Ends { sender: &client, receiver: &server, sender_address, receiver_address };
        let message = |ms| (Span::from_millis(ms), Bytes::new(1000));
        let order = upload(Work::Messages { written: vec![message(180), message(450)] });
        thread::sleep(PREPARATION);
        let transfer = ReadyTransfer::new(&ends, &order).unwrap();
        thread::sleep(PREPARATION);
        let emulator = emulator.start();
        let outcome = transfer.start(emulator.clock(), &AtomicBool::new(false)).unwrap();
        let came: Vec<bool> = outcome.message_delays.iter().map(Option::is_some).collect();
        assert_eq!(came, [true, false], "{:?}", outcome.established);
        assert!(emulator.finish().unwrap().1.first_entered.is_some_and(|at| at < Instant::from_millis(5)));
    });
}

#[test]
fn what_is_sent_before_the_links_start_waits_for_them() {
    let Some(ReadyLab { emulator, client, server }) = lab() else { return };
    let bound = |address| move || Ok(UdpSocket::bind((address, 9000)).unwrap());
    let from = client.within(bound(client_address(0))).unwrap();
    let to = server.within(bound(server_address(0))).unwrap();
    from.send_to(b"hello", (server_address(0), 9000)).unwrap();
    to.set_read_timeout(Some(PREPARATION)).unwrap();
    assert!(to.recv(&mut [0; 100]).is_err(), "nothing moves");
    let emulator = emulator.start();
    assert_eq!(to.recv(&mut [0; 100]).unwrap(), 5);
    assert_eq!(emulator.finish().unwrap().1.links[0].delivered, 1);
}

#[test]
fn a_lab_that_is_never_started_ends() {
    let Some(lab) = lab() else { return };
    drop(lab);
}

/// With several busy threads to each processor, a new thread waits for tens of milliseconds until it runs: nothing
/// that needs one may happen between the start of the links and that of the connection.
#[test]
fn on_a_crowded_machine_links_start_with_the_connection() {
    let Some(_) = lab() else { return };
    let order = upload(Work::Bulk { bytes: Bytes::new(1000) });
    let run = || measure(&plan(), &Setup::default(), &order, None, &AtomicBool::new(false)).unwrap().report;
    let reports = in_a_crowd(|| (0..5).map(|_| run()).collect::<Vec<_>>());
    if reports.iter().any(|report| !report.realtime) {
        return eprintln!("skipped: the links have no real-time priority here");
    }
    let mut starts: Vec<Instant> = reports.iter().map(|report| report.first_entered.unwrap()).collect();
    starts.sort();
    assert!(starts[2] <= Instant::from_millis(5), "{starts:?}");
}

/// Does `work` while other threads want the processors.
fn in_a_crowd<T>(work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    let others = 8 * thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..others {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = catch_unwind(AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}
