//! A socket of a connection that never waits, and whether it is ready: `mio` tells each change once, so it is
//! remembered here until the kernel says otherwise.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Registry, Token};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_keepalive, set_socket_linger};

use crate::flow::TcpEnd;
use crate::stream::Stream;

/// Number of events that one call brings.
const EVENTS: usize = 256;
/// Number of sockets that an entry may have at once, so that a token tells both.
pub const SOCKETS: usize = 8;

/// The token of socket `number` of entry `key`.
pub fn token(key: usize, number: usize) -> Token {
    Token(key * SOCKETS + number)
}

/// The entry and the number of the socket that a token tells.
pub fn parts(token: Token) -> (usize, usize) {
    (token.0 / SOCKETS, token.0 % SOCKETS)
}

/// Returns true if the process, or the system, has no descriptor left.
pub fn is_scarce(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|scarce| code == Some(scarce.raw_os_error()))
}

/// Poller of sockets.
pub struct Poller {
    poll: Poll,
    events: Events,
}

impl Poller {
    /// New poller.
    pub fn new() -> io::Result<Self> {
        Ok(Self { poll: Poll::new()?, events: Events::with_capacity(EVENTS) })
    }

    /// Registry of sockets.
    pub fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Calls `tell` with each event since the last time.
    pub fn collect(&mut self, mut tell: impl FnMut(&Event)) {
        loop {
            match self.poll.poll(&mut self.events, Some(Duration::ZERO)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
                Ok(()) => {}
            }
            if self.events.iter().inspect(|event| tell(event)).count() < EVENTS {
                return;
            }
        }
    }
}

/// The socket of a connection.
#[derive(Debug)]
pub struct Socket {
    stream: Stream,
    readable: bool,
    writable: bool,
    /// An error waits, which ends both directions.
    failed: bool,
}

impl Socket {
    /// Socket that is connected.
    pub fn connected(mut stream: Stream, registry: &Registry, token: Token) -> io::Result<Self> {
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let mut socket = Self { stream, readable: false, writable: false, failed: false };
        socket.begin();
        Ok(socket)
    }

    /// The addresses of its two ends, its own first. One that is not of TCP has none.
    pub fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        self.stream.ends()
    }

    /// Returns true if it is of TCP.
    pub fn is_tcp(&self) -> bool {
        self.stream.is_tcp()
    }

    /// Begins to connect to `address`.
    pub fn connect(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<Self> {
        let mut stream = Stream::Tcp(TcpStream::connect(address)?);
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { stream, readable: false, writable: false, failed: false })
    }

    /// Returns whether that has come to its end, or why it cannot.
    pub fn is_connected(&mut self) -> io::Result<bool> {
        if !self.writable && !self.failed {
            return Ok(false);
        }
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.ends() {
            Ok(_) => {
                self.begin();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                self.writable = false;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Both directions are tried before anything is told of them.
    fn begin(&mut self) {
        (self.readable, self.writable, self.failed) = (true, true, false);
        // What cannot be set makes the connection slower, no more.
        let _ = self.stream.set_nodelay();
        let _ = set_socket_keepalive(&self.stream, true);
    }

    /// Takes note of an event.
    pub fn note(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_read_closed();
        self.writable |= event.is_writable() || event.is_write_closed();
        self.failed |= event.is_error();
    }

    /// Writes the first of `bytes`, which are some: how many. None if it has to wait.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.write_parts(&[IoSlice::new(bytes)])
    }

    /// Ends both directions, and tells the other end that this is no orderly end.
    pub fn reset(self) {
        let _ = set_socket_linger(&self.stream, Some(Duration::ZERO));
    }
}

impl TcpEnd for Socket {
    fn has_failed(&self) -> bool {
        self.failed
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        while self.readable {
            match rustix::io::read(&self.stream, spare_capacity(buffer)).map_err(io::Error::from) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn write_parts(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        while self.writable {
            match self.stream.write_vectored(parts) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn finish(&mut self) {
        // It fails if the other end has closed the connection, which reading tells.
        let _ = self.stream.finish();
    }
}
