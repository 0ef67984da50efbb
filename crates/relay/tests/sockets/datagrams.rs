//! Datagrams of programs: those that are carried, and those that are dropped.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};

use weftway_path::Span;
use weftway_relay::{Class, DatagramCounts, NameConfig, RelayLimits};

use crate::associated::{Program, associate, await_next, header, next, socket, udp_echo};
use crate::name_server::{NameServer, Say};
use crate::programs::{bytes, exchange, is_reset, through};
use crate::servers::{echo, reset};
use crate::wire::Faults;
use crate::world::{CLIENT, Running, Setting, World};

/// What the proxy counts, of all programs.
pub fn here(world: &World) -> DatagramCounts {
    let mut counts = DatagramCounts::default();
    world.proxy.flows().for_each(|flow| counts += flow.datagrams);
    counts
}

/// What the relay counts.
pub fn there(world: &World) -> DatagramCounts {
    world.relay.datagrams(CLIENT)
}

/// Every name is this machine's.
fn names() -> NameServer {
    NameServer::new(|name, _| match name {
        "unknown.example" => Say::NoName,
        // The first may not be.
        _ => Say::Addresses(&["10.0.0.1", "127.0.0.1"]),
    })
}

#[test]
fn datagrams_come_back_by_address_and_by_name_whatever_becomes_of_records() {
    let server = udp_echo("127.0.0.1:0");
    for seed in 0..3 {
        let faults = Faults { late: Span::from_millis(3), one_in: 5, seed };
        let known = names();
        let names = Some(NameConfig::of_servers([known.address]));
        let world = Running::new(Setting { faults, names, ..Setting::default() });
        let program = Program::new(world.address);
        for number in 0..20 {
            for host in ["127.0.0.1", "::ffff:127.0.0.1", "Some.Example"] {
                program.exchange(host, server, &bytes(number * 50, number as u64));
            }
        }
        assert_eq!(known.asked("some.example"), 1);
        drop(program);
        world.until_nothing_is_left();
    }
}

#[test]
fn datagrams_to_addresses_of_both_families() {
    if let Err(error) = UdpSocket::bind("[::1]:0") {
        eprintln!("skipped: no IPv6 here ({error})");
        return;
    }
    let world = Running::new(Setting { allowed: &["127.0.0.0/8", "::1/128"], ..Setting::default() });
    let program = Program::new(world.address);
    for (host, server) in [("::1", udp_echo("[::1]:0")), ("127.0.0.1", udp_echo("127.0.0.1:0"))] {
        program.exchange(host, server, b"hello");
    }
}

#[test]
fn flows_tell_what_became_of_datagrams() {
    let (server, world) = (udp_echo("127.0.0.1:0"), Running::new(Setting::default()));
    let program = Program::new(world.address);
    program.send_to("127.0.0.1", server.port(), &[1; 100]);
    assert_eq!(await_next(&program.udp).0.len(), 110);
    let one = DatagramCounts { up: 1, down: 1, ..DatagramCounts::default() };
    world.until("both have counted", |world| here(world).down == 1 && there(world) == one);
    let told = world.with(|world| {
        let flows = world.proxy.flows();
        flows.map(|flow| (flow.purpose.to_string(), flow.class, flow.up, flow.down, flow.datagrams)).collect::<Vec<_>>()
    });
    assert_eq!(told, [("udp:".to_owned(), Class::Realtime, 100, 100, one)]);
}

#[test]
fn a_destination_that_may_not_be_gets_nothing() {
    let known = names();
    let names = Some(NameConfig::of_servers([known.address]));
    let world = Running::new(Setting { allowed: &[], names, ..Setting::default() });
    let (program, server) = (Program::new(world.address), socket("127.0.0.1:0"));
    let port = server.local_addr().unwrap().port();
    let hosts = ["127.0.0.1", "::ffff:127.0.0.1", "::1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "some.example"];
    for (host, count) in hosts.into_iter().zip(1..) {
        program.send_to(host, port, b"hello");
        world.until(host, |world| there(world).dropped == count);
    }
    assert_eq!(world.with(|world| there(world).up), 0);
    assert_eq!(next(&server), None);
}

#[test]
fn the_relay_passes_on_only_what_comes_from_where_the_program_has_sent_to() {
    let world = Running::new(Setting::default());
    let (program, server, stranger) = (Program::new(world.address), socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    let at = server.local_addr().unwrap();
    program.send_to("127.0.0.1", at.port(), b"question");
    let (question, relay) = await_next(&server);
    assert_eq!(question, b"question");
    let relay = SocketAddr::new(at.ip(), relay.port());
    // The same address with another port, and another address with the same.
    stranger.send_to(b"stranger", relay).unwrap();
    let other = UdpSocket::bind(("127.0.0.2", at.port())).unwrap();
    other.send_to(b"stranger", relay).unwrap();
    world.until("both are dropped", |world| there(world).dropped == 2);
    server.send_to(b"answer", relay).unwrap();
    assert_eq!(await_next(&program.udp).0, [&header("127.0.0.1", at.port())[..], b"answer"].concat());
    assert_eq!(world.with(|world| there(world).down), 1);
}

#[test]
fn the_proxy_takes_and_gives_datagrams_only_from_and_to_the_program() {
    let (server, world) = (udp_echo("127.0.0.1:0"), Running::new(Setting::default()));
    let (program, stranger, far) = (Program::new(world.address), socket("127.0.0.1:0"), socket("127.0.0.2:0"));
    let hello = [&header("127.0.0.1", server.port())[..], b"hello"].concat();
    // Before the program, from another address than its connection's.
    far.send_to(&hello, program.way).unwrap();
    world.until("it is dropped", |world| here(world).dropped == 1);
    program.exchange("127.0.0.1", server, b"hello");
    stranger.send_to(&hello, program.way).unwrap();
    far.send_to(&hello, program.way).unwrap();
    world.until("both are dropped", |world| here(world).dropped == 3);
    program.exchange("127.0.0.1", server, b"again");
    assert_eq!((next(&stranger), next(&far)), (None, None));
}

#[test]
fn fragments_and_what_is_no_datagram_are_dropped() {
    let (server, world) = (udp_echo("127.0.0.1:0"), Running::new(Setting::default()));
    let program = Program::new(world.address);
    let good = [&header("127.0.0.1", server.port())[..], b"hello"].concat();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let bad = [
        changed(2, 1),
        changed(2, 0x81),
        changed(0, 1),
        changed(1, 1),
        changed(3, 2),
        good[..9].to_vec(),
        header("127.0.0.1", 0),
        header("a b", 80),
        vec![],
    ];
    for (bytes, count) in bad.iter().zip(1..) {
        program.send(bytes);
        world.until("it is dropped", |world| here(world).dropped == count);
    }
    assert_eq!(world.with(|world| here(world).up), 0);
    // None at all is one, too.
    program.exchange("127.0.0.1", server, b"");
}

#[test]
fn what_no_four_records_hold_is_dropped_and_holds_up_nothing() {
    let (server, world) = (socket("127.0.0.1:0"), Running::new(Setting::default()));
    let program = Program::new(world.address);
    let port = server.local_addr().unwrap().port();
    // Records of 1154 bytes, the head of a datagram (4) of one of the first 32 streams and that of a piece (4), an
    // address of IPv4 and its port (7).
    let most = 4 * (1154 - 4 - 4) - 7;
    for (length, count) in [(most + 1, 1), (9000, 2), (65_000, 3)] {
        program.send_to("127.0.0.1", port, &vec![1; length]);
        world.until("it is dropped", |world| here(world).too_long == count);
    }
    program.send_to("127.0.0.1", port, &vec![2; most]);
    let (datagram, relay) = await_next(&server);
    assert_eq!(datagram, vec![2; most]);
    for (length, count) in [(most + 1, 1), (65_000, 2)] {
        server.send_to(&vec![3; length], ("127.0.0.1", relay.port())).unwrap();
        world.until("it is dropped", |world| there(world).too_long == count);
    }
    server.send_to(&vec![4; most], ("127.0.0.1", relay.port())).unwrap();
    assert_eq!(await_next(&program.udp).0, [header("127.0.0.1", port), vec![4; most]].concat());
}

#[test]
fn the_end_of_the_connection_is_that_of_its_datagrams() {
    let (server, world) = (udp_echo("127.0.0.1:0"), Running::new(Setting::default()));
    let ends: [fn(Program); 2] = [drop, |program| reset(program.tcp)];
    for end in ends {
        let mut program = Program::new(world.address);
        // What comes on the connection itself is nothing that is known.
        program.tcp.write_all(&[7; 300_000]).unwrap();
        program.exchange("127.0.0.1", server, b"hello");
        let way = program.way;
        end(program);
        world.until_nothing_is_left();
        world.until("its port is free", |_| UdpSocket::bind(way).is_ok());
    }
}

#[test]
fn a_program_learns_that_the_connection_to_the_relay_is_lost() {
    let (server, world) = (udp_echo("127.0.0.1:0"), Running::new(Setting::default()));
    let mut program = Program::new(world.address);
    program.exchange("127.0.0.1", server, b"hello");
    world.with(|world| world.lose());
    assert!(is_reset(&program.tcp.read(&mut [0]).unwrap_err()));
    world.with(|world| world.connect());
    Program::new(world.address).exchange("127.0.0.1", server, b"hello");
    world.until_nothing_is_left();
}

#[test]
fn more_programs_with_datagrams_than_may_be_are_refused() {
    let relay = RelayLimits { associations: 2, ..RelayLimits::default() };
    let (server, world) = (udp_echo("127.0.0.1:0"), Running::new(Setting { relay, ..Setting::default() }));
    let programs = [(); 2].map(|()| Program::new(world.address));
    assert_eq!(associate(world.address).0, 1);
    // Connections are not counted with them.
    assert!(exchange(&through(world.address, echo()), b"hello") == b"hello");
    drop(programs);
    world.until_nothing_is_left();
    Program::new(world.address).exchange("127.0.0.1", server, b"hello");
}

#[test]
fn a_name_that_is_not_found_is_looked_up_again_after_a_while() {
    let (known, server) = (names(), udp_echo("127.0.0.1:0"));
    let names = Some(NameConfig::of_servers([known.address]));
    let world = Running::new(Setting { names, ..Setting::default() });
    let program = Program::new(world.address);
    for (count, looked_up) in [(1, 1), (2, 1), (3, 2)] {
        if count == 3 {
            world.with(|world| world.skip(Span::from_secs(5)));
        }
        program.send_to("unknown.example", server.port(), b"hello");
        world.until("it is dropped", |world| there(world).dropped == count);
        assert_eq!(known.asked("unknown.example"), looked_up);
    }
    program.exchange("some.example", server, b"hello");
    assert_eq!(known.asked("some.example"), 1);
    // One that was found, too, once its servers say that it may be another machine's by now.
    world.with(|world| world.skip(Span::from_secs(60)));
    program.exchange("some.example", server, b"hello");
    assert_eq!(known.asked("some.example"), 2);
}

#[test]
fn a_name_that_takes_long_holds_up_no_other_and_what_waits_for_it_is_bounded() {
    let known = NameServer::new(|name, _| match name {
        "held.example" => Say::Nothing,
        _ => Say::Addresses(&["127.0.0.1"]),
    });
    let names = Some(NameConfig::of_servers([known.address]));
    let world = Running::new(Setting { names, ..Setting::default() });
    let (program, server, other) = (Program::new(world.address), socket("127.0.0.1:0"), udp_echo("127.0.0.1:0"));
    let port = server.local_addr().unwrap().port();
    program.send_to("held.example", port, &[0]);
    program.exchange("other.example", other, b"hello");
    for number in 1..40 {
        program.send_to("held.example", port, &[number]);
    }
    // 32 wait.
    world.until("the others are dropped", |world| there(world).dropped == 8);
    known.release(&["127.0.0.1"]);
    for number in 0..32 {
        assert_eq!(await_next(&server).0, [number]);
    }
}
