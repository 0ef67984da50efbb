//! Who waits, and for how long: programs that say nothing, a relay that finds nothing, more connections than may be.

use std::io::Read;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weftway_mux::{Limits, Read as StreamRead};
use weftway_path::{Instant, Span};
use weftway_relay::{ClientId, NameConfig, NameSource, Policy, ProxyLimits, Relay, RelayLimits};

use crate::name_server::{NameServer, Say};
use crate::programs::{connect, exchange, http, socks, through};
use crate::servers::{echo, full};
use crate::wire::{Faults, Wire};
use crate::world::{Running, Setting};

#[test]
fn a_program_that_says_nothing_is_closed_after_ten_seconds() {
    let world = Running::new(Setting::default());
    let mut socket = connect(world.address);
    world.until("it is accepted", |world| world.proxy.connections() == 1);
    world.with(|world| world.skip(Span::from_secs(10)));
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    world.until_nothing_is_left();
}

#[test]
fn programs_wait_ten_seconds_for_a_connection() {
    let world = Running::new(Setting::default());
    world.with(|world| world.lose());
    std::thread::scope(|scope| {
        let by_socks = scope.spawn(|| socks(world.address, "192.0.2.1", 80).0);
        let by_http = scope.spawn(|| http(world.address, "192.0.2.1:80", b"").0);
        world.until("both have asked", |world| world.proxy.waiting() == 2);
        world.with(|world| world.skip(Span::from_secs(10)));
        assert_eq!(by_socks.join().unwrap(), 1);
        let head = by_http.join().unwrap();
        assert!(head.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"), "{head}");
    });
}

/// A server that does not answer for `held.example` and says of others that they are on this machine; how it is asked.
fn names() -> (NameServer, NameConfig) {
    let server = NameServer::new(|name, _| match name {
        "held.example" => Say::Nothing,
        _ => Say::Addresses(&["127.0.0.1"]),
    });
    let config = NameConfig::of_servers([server.address]);
    (server, config)
}

#[test]
fn a_name_that_is_not_found_in_time_times_out_and_the_next_one_is_looked_up() {
    let (server, (_known, names)) = (echo(), names());
    let relay = RelayLimits { names: 1, ..RelayLimits::default() };
    let world = Running::new(Setting { names: Some(names), relay, ..Setting::default() });
    std::thread::scope(|scope| {
        let program = scope.spawn(|| socks(world.address, "held.example", 80).0);
        world.until("the relay has the stream", |world| world.streams()[2] == 1);
        // It waits for the first.
        let next = scope.spawn(|| socks(world.address, "next.example", server.port()));
        world.until("the relay has both streams", |world| world.streams()[2] == 2);
        world.with(|world| world.skip(Span::from_secs(3)));
        assert_eq!(program.join().unwrap(), 6);
        let (code, socket) = next.join().unwrap();
        assert_eq!((code, exchange(&socket, b"hello")), (0, b"hello".to_vec()));
    });
}

#[test]
fn a_name_that_may_be_looked_up_at_last_is_due_whosever_turn_it_is() {
    let (_known, names) = names();
    let limits = RelayLimits { names: 1, ..RelayLimits::default() };
    let mut relay = Relay::with_names(Policy::default(), limits, NameSource::Fixed(names)).unwrap();
    let mut wires = [0, 1].map(|_| Wire::new(Limits::default(), Faults::NONE));
    for host in ["held.example:80", "other.example:80"] {
        wires[0].muxes[0].open(Instant::ZERO, 1, host.as_bytes(), None).unwrap();
    }
    wires[0].turn(Instant::ZERO);
    relay.turn(Instant::ZERO, ClientId(0), &mut wires[0].muxes[1]);
    assert_eq!(relay.next_event(), Instant::ZERO + Span::from_secs(1), "when the first is asked for again");
    // The first has been silent for a second: the second may be looked up in its place.
    let now = Instant::ZERO + Span::from_secs(1);
    relay.collect(now);
    assert_eq!([0, 1].map(|number| relay.is_due(now, ClientId(number))), [true, false]);
    assert_eq!((relay.streams(ClientId(0)), relay.next_event()), (2, Instant::ZERO));
}

/// Has a relay carry streams of a client to these targets, until the last of them leads there. The time begins at zero
/// and goes on by `step` as often as nothing else happens.
fn until_the_last_is_connected(mut relay: Relay, targets: &[String], step: Span) -> Instant {
    let mut wire = Wire::new(Limits::default(), Faults::NONE);
    let mut now = Instant::ZERO;
    let open = |target: &String| wire.muxes[0].open(now, 1, target.as_bytes(), None).unwrap();
    let last = targets.iter().map(open).last().unwrap();
    loop {
        wire.turn(now);
        relay.collect(now);
        relay.turn(now, ClientId(0), &mut wire.muxes[1]);
        wire.turn(now);
        match wire.muxes[0].read(last).expect("it leads somewhere") {
            StreamRead::Bytes(bytes) => {
                assert_eq!(bytes, [0]);
                return now;
            }
            StreamRead::Wait | StreamRead::End => {}
        }
        if relay.next_event() <= now {
            continue;
        }
        // The kernel makes a connection on this machine at once. Where none comes for a moment, the time goes on.
        let wait = if step == Span::ZERO { 60_000 } else { 5 };
        let wait = Timespec { tv_sec: wait / 1000, tv_nsec: wait % 1000 * 1_000_000 };
        let ready = poll(&mut [PollFd::new(&relay.fd(), PollFlags::IN)], Some(&wait)).unwrap();
        assert!(ready > 0 || step > Span::ZERO, "nothing happens any more");
        if ready == 0 {
            now += step;
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_connection_is_made_while_all_places_are_with_hosts_that_do_not_answer() {
    let (silent, _queue) = full("127.0.0.1:0");
    let limits = RelayLimits { dials: 4, ..RelayLimits::default() };
    let policy = Policy::new(vec!["127.0.0.0/8".parse().unwrap()], vec![]);
    let relay = Relay::new(policy, limits).unwrap();
    // The last one leads to another host.
    let good = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    let mut targets = vec![silent.to_string(); 9];
    targets.push(good.local_addr().unwrap().to_string());
    // The time stands still: none of the silent ones has been given up.
    assert_eq!(until_the_last_is_connected(relay, &targets, Span::ZERO), Instant::ZERO);
}

#[cfg(target_os = "linux")]
#[test]
fn all_addresses_of_a_name_are_tried_one_shortly_after_the_other() {
    let good = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = good.local_addr().unwrap().port();
    let silent: Vec<_> = (2..12).map(|last| full(&format!("127.0.0.{last}:{port}"))).collect();
    let mut names = NameConfig::of_servers([]);
    let addresses = silent.iter().map(|(address, _)| address.ip()).chain(["127.0.0.1".parse().unwrap()]);
    names.hosts.insert("many.example".to_owned(), addresses.collect());
    let policy = Policy::new(vec!["127.0.0.0/8".parse().unwrap()], vec![]);
    let relay = Relay::with_names(policy, RelayLimits::default(), NameSource::Fixed(names)).unwrap();
    let step = Span::from_millis(250);
    let at = until_the_last_is_connected(relay, &[format!("many.example:{port}")], step);
    // Ten times 250 ms after the first one, or a little later where this machine is slow; the time for all is ten
    // seconds.
    assert!(at >= Instant::ZERO + step * 10 && at < Instant::ZERO + Span::from_secs(10), "{at:?}");
}

#[test]
fn more_programs_than_may_be_wait_in_the_kernels_queue() {
    let (server, limits) = (echo(), ProxyLimits { connections: 2, handshakes: 2, ..ProxyLimits::default() });
    let world = Running::new(Setting { proxy: limits, ..Setting::default() });
    let silent: Vec<_> = (0..2).map(|_| connect(world.address)).collect();
    world.until("both are accepted", |world| world.proxy.connections() == 2);
    std::thread::scope(|scope| {
        let programs: Vec<_> =
            (0..6).map(|_| scope.spawn(|| exchange(&through(world.address, server), b"hello"))).collect();
        assert_eq!(world.with(|world| world.proxy.connections()), 2);
        drop(silent);
        for program in programs {
            assert_eq!(program.join().unwrap(), b"hello");
        }
    });
    world.until_nothing_is_left();
}

#[test]
fn more_streams_than_may_be_dialled_at_once_wait() {
    let server = echo();
    let relay = RelayLimits { dials: 2, names: 1, ..RelayLimits::default() };
    let (_known, names) = names();
    let world = Running::new(Setting { names: Some(names), relay, ..Setting::default() });
    std::thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| {
                let (code, socket) = socks(world.address, "some.example", server.port());
                assert_eq!((code, exchange(&socket, b"hello")), (0, b"hello".to_vec()));
            });
        }
    });
    world.until_nothing_is_left();
}

#[test]
fn those_that_say_nothing_keep_nobody_out() {
    let limits = ProxyLimits { handshakes: 8, ..ProxyLimits::default() };
    let (server, world) = (echo(), Running::new(Setting { proxy: limits, ..Setting::default() }));
    let mut silent: Vec<_> = (0..20).map(|_| connect(world.address)).collect();
    // No time passes: the places of the oldest are taken.
    let sent = [7; 1000];
    assert!(exchange(&through(world.address, server), &sent) == sent);
    world.until("the others are gone", |world| world.proxy.connections() <= 8);
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "the oldest went first");
    drop(silent);
    world.until_nothing_is_left();
}
