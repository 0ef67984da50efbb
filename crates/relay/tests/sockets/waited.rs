//! Who waits, and for how long: programs that say nothing, a relay that finds nothing, more connections than may be.

use std::io::Read;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weftway_mux::Limits;
use weftway_path::{Instant, Span};
use weftway_relay::{ClientId, Lookup, Policy, ProxyLimits, Relay, RelayLimits};

use crate::programs::{connect, exchange, http, socks, through};
use crate::servers::echo;
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

#[test]
fn a_name_that_is_not_found_in_time_times_out_and_the_next_one_is_looked_up() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let lookup: Lookup = Arc::new(move |name, port| {
        if name == "held.example" {
            let _ = held.lock().unwrap().recv();
        }
        Ok(vec![([127, 0, 0, 1], port).into()])
    });
    let server = echo();
    let relay = RelayLimits { names: 1, resolvers: 1, ..RelayLimits::default() };
    let world = Running::new(Setting { lookup: Some(lookup), relay, ..Setting::default() });
    std::thread::scope(|scope| {
        let program = scope.spawn(|| socks(world.address, "held.example", 80).0);
        world.until("the relay has the stream", |world| world.streams()[2] == 1);
        world.with(|world| world.skip(Span::from_secs(10)));
        assert_eq!(program.join().unwrap(), 6);
        world.until_nothing_is_left();
        // Its answer comes when nobody waits for it any more, and makes room for the next name.
        let next = scope.spawn(|| socks(world.address, "next.example", server.port()));
        world.until("the relay has the stream", |world| world.streams()[2] == 1);
        release.send(()).unwrap();
        let (code, socket) = next.join().unwrap();
        assert_eq!((code, exchange(&socket, b"hello")), (0, b"hello".to_vec()));
    });
}

#[test]
fn a_name_that_may_be_looked_up_at_last_is_due_whosever_turn_it_is() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let lookup: Lookup = Arc::new(move |_, _| {
        let _ = held.lock().unwrap().recv();
        Ok(vec![])
    });
    let limits = RelayLimits { names: 1, ..RelayLimits::default() };
    let mut relay = Relay::with_lookup(Policy::default(), limits, &lookup).unwrap();
    let mut wires = [0, 1].map(|_| Wire::new(Limits::default(), Faults::NONE));
    for now in [Instant::ZERO, Instant::ZERO + Span::from_secs(5)] {
        wires[0].muxes[0].open(now, 1, b"some.example:80", None).unwrap();
        wires[0].turn(now);
        relay.turn(now, ClientId(0), &mut wires[0].muxes[1]);
    }
    // The first has had its time; its answer is for nobody. The second may be looked up.
    let now = Instant::ZERO + Span::from_secs(10);
    relay.turn(now, ClientId(0), &mut wires[0].muxes[1]);
    assert_eq!((relay.streams(ClientId(0)), relay.next_event()), (1, now + Span::from_secs(5)));
    release.send(()).unwrap();
    poll(&mut [PollFd::new(&relay.fd(), PollFlags::IN)], Some(&Timespec { tv_sec: 60, tv_nsec: 0 })).unwrap();
    relay.turn(now, ClientId(1), &mut wires[1].muxes[1]);
    assert_eq!(relay.next_event(), Instant::ZERO);
}

#[test]
fn more_programs_than_may_be_wait_in_the_kernels_queue() {
    let (server, limits) = (echo(), ProxyLimits { connections: 4, handshakes: 2, ..ProxyLimits::default() });
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
    let relay = RelayLimits { dials: 2, names: 1, resolvers: 2, ..RelayLimits::default() };
    let lookup: Lookup = Arc::new(|_, port| Ok(vec![([127, 0, 0, 1], port).into()]));
    let world = Running::new(Setting { lookup: Some(lookup), relay, ..Setting::default() });
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
