//! Who waits, and for how long: programs that say nothing, a relay that finds nothing, more connections than may be.

use std::io::Read;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use weftway_path::Span;
use weftway_relay::{Lookup, ProxyLimits, RelayLimits};

use crate::programs::{connect, exchange, http, socks, through};
use crate::servers::echo;
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
fn more_programs_than_may_be_wait_in_the_kernels_queue() {
    let (server, limits) = (echo(), ProxyLimits { connections: 4, handshakes: 2 });
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
    let relay = RelayLimits { dials: 2, names: 1, resolvers: 2 };
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
