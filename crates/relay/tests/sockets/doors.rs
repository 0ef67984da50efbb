//! Ports of a proxy that not everybody may use: with a password, or as a socket of the file system.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use weftway_relay::{Accounts, Classes, PortAddress, Proxy, ProxyLimits};

use crate::programs::{connect, exchange, socks_reply};
use crate::servers::echo;
use crate::world::{Running, Setting};

/// A world whose port wants a password.
fn with_password() -> Running {
    Running::new(Setting { accounts: Accounts::parse("ada:secret").unwrap(), ..Setting::default() })
}

#[test]
fn a_program_with_the_password_is_carried_and_another_one_is_not() {
    let (server, world) = (echo(), with_password());
    let request = [&[5, 1, 0, 1, 127, 0, 0, 1][..], &server.port().to_be_bytes()].concat();
    for (password, right) in [(&b"secret"[..], true), (b"Secret", false)] {
        let mut socket = connect(world.address);
        // All in one piece: what comes behind a wrong password counts for nothing.
        let said = [&[5, 2, 0, 2, 1, 3][..], b"ada", &[6], password, &request].concat();
        socket.write_all(&said).unwrap();
        let mut answers = [0; 4];
        socket.read_exact(&mut answers).unwrap();
        assert_eq!(answers, [5, 2, 1, u8::from(!right)]);
        if right {
            assert_eq!(socks_reply(&mut socket), 0);
            assert!(exchange(&socket, b"hello") == b"hello");
        } else {
            assert_eq!(socket.read(&mut answers).unwrap(), 0);
        }
    }
    let mut without = connect(world.address);
    without.write_all(&[5, 1, 0]).unwrap();
    let mut answer = [0; 2];
    without.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 0xff]);
    world.until_nothing_is_left();
}

#[test]
fn a_long_head_with_the_password_is_carried() {
    let (server, world) = (echo(), with_password());
    let mut socket = connect(world.address);
    let cookie = "a".repeat(18_000);
    // ada:secret
    let head =
        format!("CONNECT {server} HTTP/1.1\r\nCookie: {cookie}\r\nProxy-Authorization: Basic YWRhOnNlY3JldA==\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let expected = b"HTTP/1.1 200 Connection established\r\n\r\n";
    let mut answer = vec![0; expected.len()];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer, expected);
    assert!(exchange(&socket, b"hello") == b"hello");
    world.until_nothing_is_left();
}

#[test]
fn a_socket_of_the_file_system_carries_connections_and_no_datagrams() {
    let path = std::env::temp_dir().join(format!("weftway-doors-{}", std::process::id()));
    let (server, world) = (echo(), Running::new(Setting::default()));
    let at = PortAddress::Unix(path.clone());
    world.with(|world| {
        world.proxy = Proxy::listen(&[at], ProxyLimits::default(), Classes::default(), Accounts::default()).unwrap();
    });
    let ask = |command: u8| {
        let mut socket = UnixStream::connect(&path).unwrap();
        let request = [&[5, command, 0, 1, 127, 0, 0, 1][..], &server.port().to_be_bytes()].concat();
        socket.write_all(&[&[5, 1, 0][..], &request].concat()).unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).unwrap();
        (answer[3], socket)
    };
    let (code, mut socket) = ask(1);
    assert_eq!(code, 0);
    socket.write_all(b"hello").unwrap();
    let mut hello = [0; 5];
    socket.read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"hello");
    assert_eq!(ask(3).0, 7, "others could send to the port of the datagrams");
    drop(socket);
    world.until_nothing_is_left();
}
