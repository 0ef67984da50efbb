//! The receiver's end of a transfer.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

use nix::poll::PollFlags;
use weftway_path::Instant;

use crate::EmuError;
use crate::kernel::run::{Joined, REQUEST, Run, Unconnected, broke_off};
use crate::kernel::workload::Sink;

/// Size of what is read at once, at most.
const BUFFER: usize = 256 << 10;

/// State of the receiver at the end.
#[derive(Debug)]
pub(super) struct Received<'a> {
    pub joined: Option<Joined>,
    pub sink: Sink<'a>,
    /// Time at which it read the last byte, or gave up.
    pub ended: Instant,
}

/// Reads until everything is there, or time is over.
pub(super) fn receive<'a>(run: &Run<'a>, socket: Unconnected) -> Result<Received<'a>, EmuError> {
    let mut sink = Sink::new(&run.order.work);
    let joined = run.join(socket)?;
    let ended = match &joined {
        Some(joined) => read(run, joined, &mut sink)?,
        None => run.clock.now(),
    };
    run.read.store(true, Ordering::Release);
    Ok(Received { joined, sink, ended })
}

/// Time at which it ended.
fn read(run: &Run, joined: &Joined, sink: &mut Sink) -> Result<Instant, EmuError> {
    let mut stream = &joined.stream;
    let mut buffer = vec![0; BUFFER];
    // Who downloads asks first.
    if joined.opened() {
        sink.asks_at(joined.at, 1);
    }
    let mut now = run.clock.now();
    while !sink.is_done() && run.goes_on(now) {
        while sink.asks(now) {
            ask(stream)?;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(EmuError::Transfer("the sender closed the connection".to_owned())),
            Ok(bytes) => sink.took(run.clock.now(), bytes as u64),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                run.wait(stream, PollFlags::POLLIN, sink.next_request())?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(broke_off("receiving")(error)),
        }
        now = run.clock.now();
    }
    Ok(now)
}

/// Requests always fit: nothing else goes in this direction.
fn ask(mut stream: &TcpStream) -> Result<(), EmuError> {
    stream.write_all(&[0; REQUEST]).map_err(broke_off("asking"))
}
