//! What is refused, and what the program is told.

use std::io::{Read, Write};

use weftway_relay::NameConfig;

use crate::name_server::{NameServer, Say};
use crate::programs::{bytes, connect, exchange, http, socks, socks_reply};
use crate::servers::{closed, echo};
use crate::world::{Running, Setting};

/// The answer to a request by HTTP, with its line of text: it arrives although nobody wants what the program sends
/// behind its request.
fn answer(world: &Running, target: &str) -> (String, String) {
    let (head, mut socket) = http(world.address, target, &[0; 100_000]);
    let mut body = String::new();
    socket.read_to_string(&mut body).unwrap();
    (head.lines().next().unwrap_or_default().to_owned(), body)
}

/// Names with these addresses; no other is known, since nobody answers for it.
fn names(names: &[(&str, &[&str])]) -> Option<NameConfig> {
    let mut config = NameConfig::of_servers([closed()]);
    for (name, addresses) in names {
        config.hosts.insert((*name).to_owned(), addresses.iter().map(|address| address.parse().unwrap()).collect());
    }
    Some(config)
}

#[test]
fn a_port_where_nothing_listens() {
    let (target, world) = (closed(), Running::new(Setting::default()));
    assert_eq!(socks(world.address, "127.0.0.1", target.port()).0, 5);
    let (status, line) = answer(&world, &target.to_string());
    assert_eq!(status, "HTTP/1.1 502 Bad Gateway");
    assert_eq!(line, format!("{target}: nothing listens on that port\n"));
    world.until_nothing_is_left();
}

#[test]
fn addresses_that_are_not_public_however_they_are_named() {
    let names = names(&[
        ("metadata.example", &["169.254.169.254"]),
        ("mapped.example", &["::ffff:10.0.0.1"]),
        ("home.example", &["::1", "fd00::1", "192.168.1.1"]),
    ]);
    let world = Running::new(Setting { names, ..Setting::default() });
    for host in [
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::1",
        "metadata.example",
        "mapped.example",
        "home.example",
    ] {
        assert_eq!(socks(world.address, host, 80).0, 2, "{host}");
    }
    let (status, line) = answer(&world, "metadata.example:80");
    assert_eq!(status, "HTTP/1.1 403 Forbidden");
    assert_eq!(line, "metadata.example:80: the relay's policy allows no connection to that address\n");
    world.until_nothing_is_left();
}

#[test]
fn this_machine_by_every_name_unless_it_is_exempted() {
    let (server, world) = (echo(), Running::new(Setting { allowed: &[], ..Setting::default() }));
    for host in ["localhost", "127.0.0.1", "127.1", "0x7f000001", "2130706433", "::ffff:127.0.0.1", "0.0.0.0", "::"] {
        let code = socks(world.address, host, server.port()).0;
        // An address is written whole, and no name ends in a number: 1 is that this is no host.
        let expected = if ["127.1", "0x7f000001", "2130706433"].contains(&host) { 1 } else { 2 };
        assert_eq!(code, expected, "{host}");
    }
    world.until_nothing_is_left();
}

#[test]
fn a_name_is_looked_up_once_and_only_what_was_judged_is_dialled() {
    // A name that is public when it is judged and this machine when it is dialled would be looked up twice.
    let (server, known) = (echo(), NameServer::new(|_, _| Say::Addresses(&["10.0.0.1", "::ffff:127.0.0.1"])));
    let names = Some(NameConfig::of_servers([known.address]));
    let world = Running::new(Setting { names, ..Setting::default() });
    let (code, socket) = socks(world.address, "both.example", server.port());
    assert_eq!((code, known.asked("both.example")), (0, 1));
    let sent = bytes(10_000, 0);
    assert!(exchange(&socket, &sent) == sent);
}

#[test]
fn names_that_nobody_knows() {
    let world = Running::new(Setting { names: names(&[("empty.example", &[])]), ..Setting::default() });
    assert_eq!(socks(world.address, "unknown.example", 80).0, 4);
    assert_eq!(socks(world.address, "empty.example", 80).0, 4);
    let (status, line) = answer(&world, "unknown.example:80");
    assert_eq!(status, "HTTP/1.1 502 Bad Gateway");
    assert_eq!(line, "unknown.example:80: the relay knows no such name, or has no route to that host\n");
}

#[test]
fn an_address_that_fails_is_followed_by_the_next() {
    // Nothing listens at the first.
    let server = echo();
    let names = names(&[("two.example", &["127.0.0.2", "127.0.0.1"])]);
    let world = Running::new(Setting { names, ..Setting::default() });
    let (code, socket) = socks(world.address, "two.example", server.port());
    assert_eq!(code, 0);
    assert_eq!(exchange(&socket, b"hello"), b"hello");
}

#[test]
fn what_is_no_connect() {
    let world = Running::new(Setting::default());
    let say = |words: &[u8]| {
        let (mut socket, mut answer) = (connect(world.address), Vec::new());
        socket.write_all(words).unwrap();
        socket.read_to_end(&mut answer).unwrap();
        answer
    };
    let get = say(b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n");
    assert!(get.starts_with(b"HTTP/1.1 405 "), "{get:?}");
    // BIND.
    let mut socket = connect(world.address);
    socket.write_all(&[5, 1, 0, 5, 2, 0, 1, 192, 0, 2, 1, 0, 80]).unwrap();
    socket.read_exact(&mut [0; 2]).unwrap();
    assert_eq!(socks_reply(&mut socket), 7);
    assert_eq!(say(&[5, 1, 2]), [5, 0xff]);
    world.until_nothing_is_left();
}

#[test]
fn what_speaks_nothing_that_is_known_is_closed() {
    let world = Running::new(Setting::default());
    for words in [&[4, 1, 0, 80, 192, 0, 2, 1, 0][..], &[0x16, 3, 1], b"\0"] {
        let mut socket = connect(world.address);
        socket.write_all(words).unwrap();
        // Whether as an end or as a reset is the kernel's matter.
        assert!(matches!(socket.read(&mut [0; 10]), Ok(0) | Err(_)));
    }
    world.until_nothing_is_left();
}
