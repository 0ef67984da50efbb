//! Ports of this process alone.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that Linux gives to sockets which ask for none: no other socket takes one before it is listened at, or
/// while nobody listens there for a while.
const PORTS: Range<u32> = 10_000..32_000;

/// A port that is free for UDP and TCP, and that no other test of this process gets.
pub fn free() -> u16 {
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    (0..PORTS.len())
        // Test programs beside this one begin elsewhere.
        .map(|_| (process::id() * 211 + DRAWN.fetch_add(1, Ordering::Relaxed)) % PORTS.len() as u32 + PORTS.start)
        .map(|port| port as u16)
        .find(|&port| is_free(port))
        .expect("a free port")
}

fn is_free(port: u16) -> bool {
    let at = (Ipv4Addr::UNSPECIFIED, port);
    UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok()
}
