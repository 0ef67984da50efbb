//! A lab is what its plan says: addresses, routes, shared links, absences; and nothing when it is gone.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant as Wall};

use weftway_emu::{
    EmuError, EmulatorReport, Lab, LabPath, LabPlan, Namespace, Record, RunningLab, Traffic, Way, client_address,
    record, server_address,
};
use weftway_link::LinkConfig;
use weftway_path::{BitRate, Instant, Span};

use crate::on_time::on_time;

const PORT: u16 = 9000;

fn way(mbps: u64, millis: u64, via: Option<usize>) -> Way {
    let (rate, delay) = (BitRate::from_mbps(mbps).into(), Span::from_millis(millis));
    Way { link: LinkConfig { rate, delay, ..LinkConfig::default() }, seeds: mbps.into(), via }
}

fn path(name: &str, millis: u64) -> LabPath {
    let (up, down) = (way(10, millis, None), way(10, millis, None));
    LabPath { name: name.to_owned(), up, down, presence: Vec::new() }
}

fn plan(paths: Vec<LabPath>) -> LabPlan {
    LabPlan { paths, shared: Vec::new() }
}

/// `None` where there is no right to it; the reason gets past the test harness, which keeps what a passing test prints.
fn build(plan: &LabPlan) -> Option<Lab> {
    match Lab::build(plan) {
        Ok(lab) => Some(lab),
        Err(error @ EmuError::Missing { .. }) => {
            std::io::stderr().write_all(format!("skipped: {error}\n").as_bytes()).unwrap();
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn client(lab: &RunningLab, path: usize) -> UdpSocket {
    lab.client.within(|| Ok(UdpSocket::bind((client_address(path), 0)).unwrap())).unwrap()
}

fn server(lab: &RunningLab, path: usize) -> UdpSocket {
    let at = SocketAddr::from((server_address(path), PORT));
    let socket = lab.server.within(|| Ok(UdpSocket::bind(at).unwrap())).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket
}

/// Time that a packet takes from `from` to the server's address on `path`; `None` if it does not come.
fn trip(from: &UdpSocket, to: &UdpSocket, path: usize) -> Option<Duration> {
    let begin = Wall::now();
    from.send_to(b"hello", (server_address(path), PORT)).unwrap();
    match to.recv_from(&mut [0; 100]) {
        Ok((bytes, _)) => {
            assert_eq!(bytes, 5);
            Some(begin.elapsed())
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

fn finish(lab: RunningLab) -> EmulatorReport {
    lab.emulator.finish().unwrap().1
}

#[test]
fn a_source_address_chooses_the_path() {
    let Some(lab) = build(&plan(vec![path("wifi", 5), path("lte", 15)])) else { return };
    let lab = lab.start(None).unwrap();
    for (number, millis) in [(0, 5), (1, 15)] {
        let took = trip(&client(&lab, number), &server(&lab, number), number).unwrap();
        assert!(took >= Duration::from_millis(millis), "{took:?}");
    }
    // The client's address on one path, the server's on the other: it takes the client's.
    let (from, to) = (client(&lab, 1), server(&lab, 0));
    assert!(trip(&from, &to, 0).unwrap() >= Duration::from_millis(15));
    let pushed: Vec<u64> = finish(lab).links.iter().map(|link| link.pushed).collect();
    assert_eq!(pushed, [1, 0, 2, 0]);
}

#[test]
fn devices_are_called_like_their_paths() {
    let names = ["wifi", "a-name-too-long-for-a-device", "lo"];
    let Some(lab) = build(&plan(names.map(|name| path(name, 1)).to_vec())) else { return };
    for end in [lab.client(), lab.server()] {
        assert_eq!(devices(end), ["lo", "path1", "path2", "wifi"]);
    }
    let subjects: Vec<&str> = lab.subjects().iter().map(|subject| subject.name.as_str()).collect();
    assert_eq!(subjects[..3], ["wifi.up", "wifi.down", "a-name-too-long-for-a-device.up"]);
}

fn devices(namespace: &Namespace) -> Vec<String> {
    let text = namespace.within(|| Ok(fs::read_to_string("/proc/thread-self/net/dev").unwrap())).unwrap();
    let mut names: Vec<String> =
        text.lines().skip(2).map(|line| line.split(':').next().unwrap().trim().into()).collect();
    names.sort();
    names
}

/// A handle of its own keeps each namespace; the devices went with the lab.
#[test]
fn nothing_is_left_of_a_lab() {
    let Some(lab) = build(&plan(vec![path("wifi", 1)])) else { return };
    let kept = [lab.client(), lab.server()].map(|end| end.within(Namespace::current).unwrap());
    drop(lab.start(None).unwrap());
    assert!(kept.iter().all(|end| devices(end) == ["lo"]));
}

/// Two access links of 100 Mbit/s and 5 ms into one of 8 Mbit/s and 10 ms. Fifty packets of 972 + 28 B on each path,
/// sent at once, need 100 · 1 ms there; the access links add 0.08 ms to the first.
#[test]
fn paths_that_share_a_link_share_its_rate() {
    let shared =
        LinkConfig { rate: BitRate::from_mbps(8).into(), delay: Span::from_millis(10), ..LinkConfig::default() };
    let access = |name: &str| LabPath { up: way(100, 5, Some(0)), ..path(name, 0) };
    let plan = LabPlan { paths: vec![access("left"), access("right")], shared: vec![(shared, 1.into())] };
    let Some(lab) = build(&plan) else { return };
    let (lab, recording) = recorded(lab);
    let ends = [0, 1].map(|number| (client(&lab, number), server(&lab, number)));
    let begin = Wall::now();
    for _ in 0..50 {
        for (number, (from, _)) in ends.iter().enumerate() {
            from.send_to(&[0; 972], (server_address(number), PORT)).unwrap();
        }
    }
    for (_, to) in &ends {
        (0..50).for_each(|_| assert_eq!(to.recv_from(&mut [0; 1000]).unwrap().0, 972));
    }
    let took = begin.elapsed();
    assert!(took >= Duration::from_micros(115_080), "{took:?}");
    let report = finish(lab);
    let traffic = recording.finish().unwrap();
    assert_eq!((report.links[4].pushed, report.links[4].delivered), (100, 100));
    // The log's subjects are the links that devices lead into, to the far end.
    assert_eq!((traffic[0].delivered, traffic[2].delivered), (50, 50));
    // Planned times: lateness is not in them.
    let least = traffic[0].least_delay.unwrap();
    assert!(least.abs_diff(Span::from_micros(16_080)) < Span::from_micros(2), "{least}");
}

fn recorded(lab: Lab) -> (RunningLab, weftway_emu::Recording) {
    let (recorder, recording) = record(Record { subjects: lab.subjects().to_vec(), ..Record::default() }).unwrap();
    (lab.start(Some(recorder)).unwrap(), recording)
}

/// There from 200 to 400 ms after the start. Each look is 100 ms from a change.
#[test]
fn a_path_that_is_absent_carries_nothing() {
    on_time(|| {
        let presence = vec![Instant::from_millis(200), Instant::from_millis(400)];
        let Some(lab) = build(&plan(vec![LabPath { presence, ..path("wifi", 1) }])) else { return };
        let (lab, recording) = recorded(lab);
        let (from, to) = (client(&lab, 0), server(&lab, 0));
        to.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let clock = lab.emulator.clock();
        for (millis, there) in [(100, false), (300, true), (500, false)] {
            let wait = Instant::from_millis(millis).since(clock.now());
            std::thread::sleep(Duration::from_nanos(wait.as_nanos()));
            assert_eq!(trip(&from, &to, 0).is_some(), there, "at {millis} ms");
        }
        let report = finish(lab);
        let Traffic { packets, delivered, dropped, .. } = recording.finish().unwrap().remove(0);
        assert_eq!((packets, delivered, dropped), (3, 1, 2));
        assert_eq!(report.links[0].dropped_down, 2);
    });
}

/// Nothing but what was asked for: no router solicitations, no neighbour discovery, no name service.
#[test]
fn an_idle_lab_is_silent() {
    on_time(|| {
        let Some(lab) = build(&plan(vec![path("wifi", 1)])) else { return };
        let lab = lab.start(None).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let report = finish(lab);
        assert_eq!(report.links.iter().map(|link| link.pushed).sum::<u64>(), 0);
        assert_eq!((report.lateness.packets(), report.refused), (0, 0));
    });
}
