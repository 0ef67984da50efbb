//! The local ports of a proxy.

use std::io;
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use weftway_path::Instant;

use crate::limits::NO_DESCRIPTORS;

struct Port {
    socket: TcpListener,
    address: SocketAddr,
    /// Connections may wait in the kernel's queue.
    ready: bool,
}

/// Local ports. Their tokens are the highest, from above.
pub struct Ports {
    ports: Vec<Port>,
    /// Not before is anything accepted.
    at: Instant,
}

impl Ports {
    /// Listens at `addresses`.
    pub fn listen(addresses: &[SocketAddr], registry: &Registry) -> io::Result<Self> {
        let mut ports = Vec::new();
        for (number, &address) in addresses.iter().enumerate() {
            let explain =
                |error: io::Error| io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"));
            let mut socket = TcpListener::bind(address).map_err(explain)?;
            registry.register(&mut socket, Token(usize::MAX - number), Interest::READABLE)?;
            ports.push(Port { address: socket.local_addr()?, socket, ready: true });
        }
        Ok(Self { ports, at: Instant::ZERO })
    }

    /// Where it listens.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.ports.iter().map(|port| port.address)
    }

    /// Takes note of an event, if it is of a port.
    pub fn note(&mut self, token: Token) -> bool {
        let port = self.ports.get_mut(usize::MAX - token.0);
        port.map(|port| port.ready = true).is_some()
    }

    /// When a connection may be there to be accepted.
    pub fn next_event(&self) -> Instant {
        if self.ports.iter().any(|port| port.ready) { self.at } else { Instant::NEVER }
    }

    /// Accepts a connection, if any waits.
    pub fn accept(&mut self, now: Instant) -> Option<TcpStream> {
        while now >= self.at
            && let Some(port) = self.ports.iter_mut().find(|port| port.ready)
        {
            match port.socket.accept() {
                Ok((stream, _)) => return Some(stream),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => port.ready = false,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    // No descriptor or no memory is left. More of it is there when others are closed.
                    _ => self.at = now + NO_DESCRIPTORS,
                },
            }
        }
        None
    }
}
