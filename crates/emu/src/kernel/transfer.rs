//! A transfer, from the sockets to the outcome.
//!
//! Both ends are threads of this process, so that one clock serves both. A socket belongs to the namespace in which
//! it was made, whichever thread uses it: only making it, and reading counters, needs a visit there.

use std::mem;
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use weftway_path::{Bytes, Instant};

use crate::kernel::counters::{self, Counters};
use crate::kernel::order::{Ends, Opener, Outcome, Transfer, Work};
use crate::kernel::receiving::{Received, receive};
use crate::kernel::run::{Run, Unconnected, broke_off};
use crate::kernel::sample::{Sample, Subflow};
use crate::kernel::sending::{Sent, send};
use crate::kernel::socket;
use crate::{Clock, EmuError};

/// Carries out `order` and tells what came of it. Setting `stop` ends it within some tens of milliseconds, with
/// [`EmuError::Interrupted`]. When this returns, an unfinished connection is reset and a finished one is closing.
///
/// # Errors
///
/// Where MPTCP, the controller or an address is not to be had, and where the kernel breaks the connection off. A
/// transfer that is merely not over by the time limit is no error.
pub fn transfer(ends: &Ends, order: &Transfer, stop: &AtomicBool) -> Result<Outcome, EmuError> {
    ReadyTransfer::new(ends, order)?.start(Clock::new(), stop)
}

/// A transfer that can be started at any time: its sockets are there, its namespaces' counters are read. Visits to
/// namespaces take from a fraction of a millisecond to seconds on a busy machine, and they are over.
#[derive(Debug)]
pub struct ReadyTransfer<'a> {
    ends: &'a Ends<'a>,
    order: &'a Transfer,
    before: [Counters; 2],
    listener: TcpListener,
    opening: TcpStream,
    to: SocketAddrV4,
}

impl<'a> ReadyTransfer<'a> {
    /// Prepares everything up to `connect`.
    ///
    /// # Errors
    ///
    /// Where MPTCP, the controller or an address is not to be had.
    pub fn new(ends: &'a Ends<'a>, order: &'a Transfer) -> Result<Self, EmuError> {
        let before = count(ends)?;
        let (listener, opening, to) = sockets(ends, order)?;
        Ok(Self { ends, order, before, listener, opening, to })
    }

    /// Connects and carries the transfer out, as [`transfer`] does. Its time zero is that of `clock`, which should be
    /// now: take the clock of links that have just been started.
    ///
    /// # Errors
    ///
    /// Where the kernel breaks the connection off.
    pub fn start(self, clock: Clock, stop: &'a AtomicBool) -> Result<Outcome, EmuError> {
        let Self { ends, order, before, listener, opening, to } = self;
        let run = Run { ends, order, clock, stop, read: AtomicBool::new(false), broken: AtomicBool::new(false) };
        socket::connect(&opening, to).map_err(broke_off("connecting"))?;
        let (sent, received) = both(&run, listener, opening);
        let (mut sent, received) = (sent?, received?);
        let outcome = conclude(&run, &mut sent, &received, before);
        close(&sent, &received, outcome.as_ref().is_ok_and(|outcome| outcome.finished && !is_endless(order)));
        match outcome {
            Ok(outcome) if !outcome.finished && stop.load(Ordering::Relaxed) => Err(EmuError::Interrupted),
            outcome => outcome,
        }
    }
}

/// A socket that listens, one that is to connect, and where to.
fn sockets(ends: &Ends, order: &Transfer) -> Result<(TcpListener, TcpStream, SocketAddrV4), EmuError> {
    let sender = (ends.sender, ends.sender_address, Opener::Sender);
    let receiver = (ends.receiver, ends.receiver_address, Opener::Receiver);
    let (opener, other) = match order.opener {
        Opener::Sender => (sender, receiver),
        Opener::Receiver => (receiver, sender),
    };
    let listener = other.0.within(|| socket::listen(socket::new(order, other.2)?))?;
    let opening = opener.0.within(|| {
        let socket = socket::new(order, opener.2)?;
        socket::bind(&socket, opener.1)?;
        Ok(TcpStream::from(socket))
    })?;
    let port = listener.local_addr().map_err(EmuError::system("asking for a port"))?.port();
    Ok((listener, opening, SocketAddrV4::new(other.1, port)))
}

type Outcomes<'a> = (Result<Sent, EmuError>, Result<Received<'a>, EmuError>);

/// Runs both ends.
fn both<'a>(run: &Run<'a>, listener: TcpListener, opening: TcpStream) -> Outcomes<'a> {
    let (listening, opening) = (Unconnected::Listening(listener), Unconnected::Connecting(opening));
    let (senders, receivers) = match run.order.opener {
        Opener::Sender => (opening, listening),
        Opener::Receiver => (listening, opening),
    };
    thread::scope(|scope| {
        let receiver = scope.spawn(|| run.guard(|| receive(run, receivers)));
        let sender = scope.spawn(|| run.guard(|| send(run, senders)));
        (end_of(sender), end_of(receiver))
    })
}

fn end_of<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Puts the outcome together while the connection still exists.
fn conclude(run: &Run, sent: &mut Sent, received: &Received, before: [Counters; 2]) -> Result<Outcome, EmuError> {
    let [sender_counters, receiver_counters] = count(run.ends)?;
    let mut joined = [&sent.joined, &received.joined].into_iter().flatten();
    let opened = joined.find(|joined| joined.opened());
    let last = sent.last.take().unwrap_or_else(|| nothing(run.order));
    Ok(Outcome {
        elapsed: received.ended.since(Instant::ZERO),
        delivered: Bytes::new(received.sink.read()),
        finished: is_finished(run, received),
        message_delays: received.sink.delays(&sent.due),
        established: opened.map(|joined| joined.at.since(Instant::ZERO)),
        samples: mem::take(&mut sent.samples),
        fallback: run.order.multipath && sent.joined.is_some() && is_tcp(&last),
        received: last_received(run, received)?,
        last,
        sender_counters: counters::growth(&before[0], &sender_counters),
        receiver_counters: counters::growth(&before[1], &receiver_counters),
    })
}

fn count(ends: &Ends) -> Result<[Counters; 2], EmuError> {
    Ok([counters::read(ends.sender)?, counters::read(ends.receiver)?])
}

fn is_endless(order: &Transfer) -> bool {
    matches!(order.work, Work::Duration { .. })
}

/// A duration is over when its span is, if there was a connection.
fn is_finished(run: &Run, received: &Received) -> bool {
    match run.order.work {
        Work::Duration { span } => received.joined.is_some() && received.ended >= Instant::ZERO + span,
        _ => received.joined.is_some() && received.sink.is_done(),
    }
}

fn is_tcp(sample: &Sample) -> bool {
    sample.connection.is_none_or(|connection| connection.fallback)
}

/// Last sample of the receiver's kernel: what came out of order, for one.
fn last_received(run: &Run, received: &Received) -> Result<Sample, EmuError> {
    let Some(joined) = &received.joined else { return Ok(nothing(run.order)) };
    let at = run.clock.now().since(Instant::ZERO);
    let look = run.observer(Opener::Receiver).look(&joined.stream, at);
    look.map_err(EmuError::system("reading the receiver's statistics"))
}

/// Sample of a connection that never was.
fn nothing(order: &Transfer) -> Sample {
    Sample { paths: vec![Subflow::default(); order.paths.len()], ..Sample::default() }
}

/// A finished connection closes in its own time. What is left of another would go on being sent, and meet the next
/// transfer: it is reset.
fn close(sent: &Sent, received: &Received, gently: bool) {
    for joined in [&sent.joined, &received.joined].into_iter().flatten() {
        if gently {
            // A refusal means that it is closed already.
            let _ = joined.stream.shutdown(Shutdown::Write);
        } else {
            socket::abort(&joined.stream);
        }
    }
}
