//! State that the two ends of a transfer share, and how they wait.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::time::Duration;
use weftway_path::{Instant, Span};

use crate::kernel::order::{Ends, Opener, Transfer, Work};
use crate::kernel::sample::{Observer, View};
use crate::{Clock, EmuError, priority};

/// Time in which a stop is noticed.
const LOOK_UP: Span = Span::from_millis(20);

/// The size of a request: one small packet.
pub(super) const REQUEST: usize = 64;

/// A transfer under way.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub ends: &'a Ends<'a>,
    pub order: &'a Transfer,
    /// Zero is just before `connect`.
    pub clock: Clock,
    /// The caller wants no more of it.
    pub stop: &'a AtomicBool,
    /// The receiver has all that it will read.
    pub read: AtomicBool,
    /// True once an end has failed.
    pub broken: AtomicBool,
}

/// The socket of an end that has no connection yet.
#[derive(Debug)]
pub(super) enum Unconnected {
    /// It accepts one.
    Listening(TcpListener),
    /// It has called `connect`.
    Connecting(TcpStream),
}

/// A connection, as one end has it.
#[derive(Debug)]
pub(super) struct Joined {
    pub stream: TcpStream,
    /// Time at which it had it.
    pub at: Instant,
    /// Socket that accepted it; `None` at the end that called `connect`. Kept open until the end: a further subflow is
    /// let in only where somebody listens.
    pub listener: Option<TcpListener>,
}

impl Joined {
    /// Returns true if this end called `connect`.
    pub fn opened(&self) -> bool {
        self.listener.is_none()
    }
}

impl Run<'_> {
    /// Time at which it ends, whatever has arrived.
    pub fn until(&self) -> Instant {
        let limit = match self.order.work {
            Work::Duration { span } => span.min(self.order.time_limit),
            _ => self.order.time_limit,
        };
        Instant::ZERO + limit
    }

    /// Returns true if there is a reason to go on at `now`.
    pub fn goes_on(&self, now: Instant) -> bool {
        now < self.until() && !self.stop.load(Ordering::Relaxed) && !self.broken.load(Ordering::Relaxed)
    }

    /// Does the work of one end. If it fails, the other end stops.
    pub fn guard<T>(&self, work: impl FnOnce() -> Result<T, EmuError>) -> Result<T, EmuError> {
        // Exact timers, and real-time priority where it can be had: where not, the probe and the links' report say so.
        let _ = priority::realtime_end();
        work().inspect_err(|_| self.broken.store(true, Ordering::Relaxed))
    }

    /// Waits until `socket` is ready for `events`, or until a time not long after now, or for a look at the stop flag.
    pub fn wait(&self, socket: &impl AsFd, events: PollFlags, until: Instant) -> Result<PollFlags, EmuError> {
        let span = until.min(self.until()).since(self.clock.now()).min(LOOK_UP);
        let mut socket = [PollFd::new(socket.as_fd(), events)];
        let timeout = TimeSpec::from_duration(Duration::from_nanos(span.as_nanos()));
        match ppoll(&mut socket, Some(timeout), None) {
            Ok(_) => Ok(socket[0].revents().unwrap_or(PollFlags::empty())),
            Err(Errno::EINTR) => Ok(PollFlags::empty()),
            Err(errno) => Err(EmuError::errno("waiting for a socket")(errno)),
        }
    }

    /// The connection; `None` if it did not come about before the end.
    pub fn join(&self, socket: Unconnected) -> Result<Option<Joined>, EmuError> {
        match socket {
            Unconnected::Listening(listener) => self.accept(listener),
            Unconnected::Connecting(stream) => self.connected(stream),
        }
    }

    fn accept(&self, listener: TcpListener) -> Result<Option<Joined>, EmuError> {
        while self.goes_on(self.clock.now()) {
            match listener.accept() {
                Ok((stream, _)) => {
                    let nodelay = self.order.nodelay;
                    let set = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(nodelay));
                    set.map_err(EmuError::system("setting up an accepted connection"))?;
                    return Ok(Some(Joined { stream, at: self.clock.now(), listener: Some(listener) }));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.wait(&listener, PollFlags::POLLIN, Instant::NEVER)?;
                }
                Err(error) => return Err(EmuError::Transfer(format!("accepting: {error}"))),
            }
        }
        Ok(None)
    }

    fn connected(&self, stream: TcpStream) -> Result<Option<Joined>, EmuError> {
        while self.goes_on(self.clock.now()) {
            self.wait(&stream, PollFlags::POLLOUT, Instant::NEVER)?;
            check(&stream, "connecting")?;
            if stream.peer_addr().is_ok() {
                return Ok(Some(Joined { stream, at: self.clock.now(), listener: None }));
            }
        }
        Ok(None)
    }

    /// An observer of the connection at the end named.
    pub fn observer(&self, end: Opener) -> Observer {
        Observer::new(View {
            paths: self.order.paths.clone(),
            ends: [self.ends.sender_address, self.ends.receiver_address],
            from_sender: end == Opener::Sender,
            multipath: self.order.multipath,
        })
    }
}

/// An error that the connection met in the meantime.
pub(super) fn check(stream: &TcpStream, doing: &str) -> Result<(), EmuError> {
    match stream.take_error() {
        Ok(None) => Ok(()),
        Ok(Some(error)) | Err(error) => Err(broke_off(doing)(error)),
    }
}

/// The connection broke off.
pub(super) fn broke_off(doing: &str) -> impl FnOnce(std::io::Error) -> EmuError {
    move |error| EmuError::Transfer(format!("{doing}: {error}"))
}
