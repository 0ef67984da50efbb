//! Programs of this machine, a proxy, a relay, and a server that sends back what it gets.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Receiver;
use std::thread;

use weftway_path::Span;
use weftway_relay::{Accounts, Classes, Policy, PortAddress};
use weftway_transfer::{ClientRules, Connect, Links, Listen, ProxyOptions, RelayOptions, proxy, relay};
use weftway_udp::Local;
use weftway_udp::tls::{Identity, Pairing};

use super::ports;
use super::running::{PATIENCE, Running};

pub fn local(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// A relay that may connect to this machine, and where it listens.
pub fn start_relay(identity: Identity) -> (Running, SocketAddr) {
    start_relay_with(identity, None)
}

/// One that is told what becomes of its identity.
pub fn start_relay_with(identity: Identity, identities: Option<Receiver<Identity>>) -> (Running, SocketAddr) {
    start_relay_for(identity, identities, ClientRules::default())
}

/// One that says how much each client may have.
pub fn start_relay_for(
    identity: Identity,
    identities: Option<Receiver<Identity>>,
    rules: ClientRules,
) -> (Running, SocketAddr) {
    start_relay_at(ports::free(), identity, identities, rules)
}

/// One that takes the place of another.
pub fn start_relay_again(identity: Identity, port: u16) -> Running {
    start_relay_at(port, identity, None, ClientRules::default()).0
}

fn start_relay_at(
    port: u16,
    identity: Identity,
    identities: Option<Receiver<Identity>>,
    rules: ClientRules,
) -> (Running, SocketAddr) {
    start_relay_of(port, identity, rules, |options| options.identities = identities)
}

/// One with other options.
pub fn start_relay_that(identity: Identity, change: impl FnOnce(&mut RelayOptions)) -> (Running, SocketAddr) {
    start_relay_of(ports::free(), identity, ClientRules::default(), change)
}

fn start_relay_of(
    port: u16,
    identity: Identity,
    rules: ClientRules,
    change: impl FnOnce(&mut RelayOptions),
) -> (Running, SocketAddr) {
    let policy = Policy::parse(&["127.0.0.0/8"], &[""; 0]).unwrap();
    let listen = Listen { address: SocketAddr::new(local(1), port), identity };
    let mut options = RelayOptions::new(listen);
    change(&mut options);
    options.times.tell_every = Span::from_millis(20);
    let running = Running::start(move |watch| relay(policy, rules, None, options, watch));
    let address = running.until("the relay to listen", |progress| progress.listening.is_some()).listening.unwrap();
    (running, address)
}

/// A proxy over two paths, and where programs connect to it.
pub fn start_proxy(identity: &Identity, address: SocketAddr) -> (Running, SocketAddr) {
    start_proxy_as(identity.pairing(), address)
}

pub fn start_proxy_as(pairing: Pairing, address: SocketAddr) -> (Running, SocketAddr) {
    start_proxy_with(pairing, address, |_| ())
}

/// One with other options.
pub fn start_proxy_with(
    pairing: Pairing,
    address: SocketAddr,
    change: impl FnOnce(&mut ProxyOptions),
) -> (Running, SocketAddr) {
    let links = Links::plain(vec![Local::Address(local(1)), Local::Address(local(2))]);
    let mut options = ProxyOptions { links, ..ProxyOptions::new(Connect::to(vec![address], pairing)) };
    options.times.tell_every = Span::from_millis(20);
    change(&mut options);
    let port = PortAddress::Tcp(SocketAddr::new(local(1), 0));
    let running = Running::start(move |watch| proxy(&[port], Classes::default(), Accounts::default(), options, watch));
    let progress = running.until("the proxy to listen", |progress| !progress.ports.is_empty());
    (running, progress.ports[0].parse().unwrap())
}

/// A server that sends back what it gets, until the other end has ended its half.
pub fn echo() -> SocketAddr {
    let listener = TcpListener::bind((local(1), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let (mut from, mut to) = (&stream, &stream);
                let _ = std::io::copy(&mut from, &mut to);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

/// A connection to `target` through the proxy, by SOCKS5: or the code of the refusal.
pub fn connect(port: SocketAddr, target: SocketAddr) -> Result<TcpStream, u8> {
    let mut stream = TcpStream::connect(port).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut method = [0; 2];
    stream.read_exact(&mut method).unwrap();
    assert_eq!(method, [5, 0]);
    let SocketAddr::V4(target) = target else { panic!("an IPv4 address") };
    let mut request = vec![5, 1, 0, 1];
    request.extend(target.ip().octets());
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request).unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    if reply[1] == 0 { Ok(stream) } else { Err(reply[1]) }
}

pub fn bytes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|at| (at ^ (at >> 8) ^ (at >> 16) ^ (seed * 37)) as u8).collect()
}

/// Sends `count` bytes through, and gets all of them back.
pub fn there_and_back(port: SocketAddr, target: SocketAddr, count: usize, seed: usize) {
    let stream = connect(port, target).unwrap();
    let sent = bytes(count, seed);
    let mut got = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        (&stream).read_to_end(&mut got).unwrap();
    });
    assert!(got == sent, "{} of {count} bytes", got.len());
}
