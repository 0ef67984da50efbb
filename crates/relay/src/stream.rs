//! A connection of the kernel: TCP, or one to a socket with a place in the file system.

use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// A connection of TCP.
    Tcp(TcpStream),
    /// A connection within this machine.
    Unix(UnixStream),
}

impl Stream {
    /// The addresses of its two ends, its own first. One that is not of TCP has none.
    pub fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        match self {
            Self::Tcp(stream) => Ok((stream.local_addr()?, stream.peer_addr()?)),
            Self::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns true if it is of TCP.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// The error that waits, if one does.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::Tcp(stream) => stream.take_error(),
            Self::Unix(stream) => stream.take_error(),
        }
    }

    /// Sends at once what is written.
    pub fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Unix(_) => Ok(()),
        }
    }

    /// Writes the first bytes of `parts`: how many.
    pub fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => { stream }.write_vectored(parts),
            Self::Unix(stream) => { stream }.write_vectored(parts),
        }
    }

    /// Ends what is written.
    pub fn finish(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.register(registry, token, interests),
            Self::Unix(stream) => stream.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, interests),
            Self::Unix(stream) => stream.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.deregister(registry),
            Self::Unix(stream) => stream.deregister(registry),
        }
    }
}
