//! Many datagrams at once: none is forgotten, and nothing waits for them.

use std::io::{Read, Write};

use bytes::Bytes;
use weftway_mux::{Limits, Mux, StreamId};
use weftway_path::Instant;
use weftway_relay::{Policy, Relay, RelayLimits};

use crate::associated::{Program, await_next, header, socket};
use crate::datagrams::{here, there};
use crate::programs::{bytes, exchange, through};
use crate::servers::echo;
use crate::wire::{Faults, Wire};
use crate::world::{CLIENT, Running, Setting};

/// More datagrams than are passed on in a turn, from one end to the other, as they travel there.
fn send_many(now: Instant, mux: &mut Mux, flow: StreamId, port: u16) {
    let bytes = Bytes::copy_from_slice(&header("127.0.0.1", port)[3..]);
    (0..600).for_each(|_| mux.send_datagram(now, flow, 0, None, bytes.clone()).unwrap());
}

#[test]
fn datagrams_that_came_at_once_are_all_carried() {
    let (server, world) = (socket("127.0.0.1:0"), Running::new(Setting::default()));
    let port = server.local_addr().unwrap().port();
    let programs = [(); 10].map(|()| Program::new(world.address));
    // More than one turn takes from a socket, and more than one passes on; as many as fit into the kernel's memory.
    world.with(|_| {
        for program in &programs {
            (0..150).for_each(|number| program.send_to("127.0.0.1", port, &[number]));
        }
    });
    world.until("all are sent", |world| there(world).up == 1500 && here(world).up == 1500);
    let sent = bytes(1_000_000, 1);
    assert!(exchange(&through(world.address, echo()), &sent) == sent);
}

/// What a turn takes from a program's socket is 64 datagrams, and bytes of a connection are read right behind them.
#[test]
fn no_datagram_gets_into_a_connection() {
    let (server, world) = (socket("127.0.0.1:0"), Running::new(Setting::default()));
    let program = Program::new(world.address);
    let (mut connection, sent) = (through(world.address, echo()), bytes(1000, 1));
    let mut echoed = vec![0; sent.len()];
    for _ in 0..10 {
        world.with(|_| {
            (0..64).for_each(|_| program.send_to("127.0.0.1", server.local_addr().unwrap().port(), &[7; 9]));
            connection.write_all(&sent).unwrap();
        });
        connection.read_exact(&mut echoed).unwrap();
        assert!(echoed == sent, "{:?} ...", &echoed[..20]);
    }
}

#[test]
fn datagrams_that_came_to_the_relay_at_once_are_all_carried() {
    let (server, world) = (socket("127.0.0.1:0"), Running::new(Setting::default()));
    let program = Program::new(world.address);
    program.send_to("127.0.0.1", server.local_addr().unwrap().port(), b"hello");
    let relay = ("127.0.0.1", await_next(&server).1.port());
    world.with(|_| (0..150).for_each(|number| assert_eq!(server.send_to(&[number], relay).unwrap(), 1)));
    world.until("all are sent", |world| there(world).down == 150 && here(world).down == 150);
}

#[test]
fn what_a_turn_of_the_relay_leaves_is_due_at_once() {
    let policy = Policy::parse(&["127.0.0.0/8"], &[""; 0]).unwrap();
    let mut relay = Relay::new(policy, RelayLimits::default()).unwrap();
    let (mut wire, now, server) = (Wire::new(Limits::default(), Faults::NONE), Instant::ZERO, socket("127.0.0.1:0"));
    let flow = wire.muxes[0].open(now, 0, b"udp:", None).unwrap();
    wire.turn(now);
    relay.turn(now, CLIENT, &mut wire.muxes[1]);
    send_many(now, &mut wire.muxes[0], flow, server.local_addr().unwrap().port());
    wire.turn(now);
    for (sent, due) in [(512, Instant::ZERO), (600, Instant::NEVER)] {
        relay.turn(now, CLIENT, &mut wire.muxes[1]);
        assert_eq!((relay.datagrams(CLIENT).up, relay.next_event()), (sent, due));
    }
}

#[test]
fn what_a_turn_of_the_proxy_leaves_is_due_at_once() {
    let (server, world) = (socket("127.0.0.1:0"), Running::new(Setting::default()));
    let program = Program::new(world.address);
    program.send_to("127.0.0.1", server.local_addr().unwrap().port(), b"hello");
    await_next(&server);
    world.with(|world| {
        let flow = world.proxy.flows().next().unwrap().id;
        let wire = world.wire.as_mut().unwrap();
        send_many(Instant::ZERO, &mut wire.muxes[1], flow, 80);
        wire.turn(Instant::ZERO);
        for (sent, due) in [(512, Instant::ZERO), (600, Instant::NEVER)] {
            world.turn();
            assert_eq!((here(world).down, world.proxy.next_event()), (sent, due));
        }
    });
}
