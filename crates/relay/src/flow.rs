//! The end of a TCP connection and a stream that are one connection: carries bytes, ends and resets from each to the
//! other.
//!
//! Each direction goes on until what it reads from has nothing or what it writes to takes nothing; whichever it was
//! says when there is more. So no byte is read from a socket while the stream takes none, and none is taken from the
//! stream that the socket has not.

use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};
use weftway_mux::{Mux, Read, StreamError, StreamId};
use weftway_path::Instant;

use crate::pace::{Pace, Way};
use crate::refusal::ABORTED;

/// Bytes that one read takes from a socket.
pub const READ: usize = 64 << 10;
/// Bytes that each direction carries before others have their turn.
const BURST: usize = 256 << 10;
/// Number of parts of a stream that are written at once: 64 KiB of those that a mux keeps.
const PARTS: usize = 16;
/// Size from which bytes that were read are kept without a copy.
const LARGE: usize = 16 << 10;

/// This machine's end of a TCP connection: a socket of the kernel, or one of a tunnel. It never waits.
pub trait TcpEnd {
    /// Returns true if the other end has reset the connection, or it is broken otherwise. What came before may be read
    /// still.
    fn has_failed(&self) -> bool;

    /// Reads into what is spare of `buffer`, which is not nothing: how many bytes, 0 at the end. None if it has to
    /// wait.
    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>>;

    /// Writes the first of these bytes, which are some: how many. None if it has to wait.
    fn write_parts(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>>;

    /// No more is written.
    fn finish(&mut self);
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It waits to be woken.
    Idle,
    /// It has more to do, and lets others have their turn.
    More,
    /// Both directions have ended.
    Over,
    /// Connection broken by one of both ends; the other one's is to be reset.
    Broken,
}

/// Why it cannot go on.
struct Broken;

impl From<StreamError> for Broken {
    fn from(_: StreamError) -> Self {
        Self
    }
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// State of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Open,
    /// Source that has ended; what was read before is yet to be written.
    Ending,
    Over,
}

/// A stream, and what is on the way between it and a socket.
#[derive(Debug)]
pub struct Flow {
    id: StreamId,
    to_stream: Half,
    to_socket: Half,
    /// Read from the socket, or put before it, and not taken by the stream: at most [`READ`], or what it began with.
    for_stream: Bytes,
    /// Put before what the stream brings.
    for_socket: Bytes,
    /// The stream may have something, or take something.
    stream_readable: bool,
    stream_writable: bool,
    /// Bytes that the stream took from the socket, and that the socket took from the stream.
    carried: [u64; 2],
}

impl Flow {
    /// Before what the socket brings, the stream gets `for_stream`; before what the stream brings, the socket gets
    /// `for_socket`.
    pub fn new(id: StreamId, for_stream: Bytes, for_socket: Bytes) -> Self {
        Self {
            id,
            to_stream: Half::Open,
            to_socket: Half::Open,
            for_stream,
            for_socket,
            stream_readable: true,
            stream_writable: true,
            carried: [0; 2],
        }
    }

    /// The stream has something to read, as the mux tells.
    pub fn note_readable(&mut self) {
        self.stream_readable = true;
    }

    /// The stream takes more, as the mux tells.
    pub fn note_writable(&mut self) {
        self.stream_writable = true;
    }

    /// Numbers of bytes from the socket to the stream, and from the stream to the socket.
    pub fn carried(&self) -> [u64; 2] {
        self.carried
    }

    /// Carries what can be carried without waiting, and what `pace` allows. `buffer` is empty, with room for [`READ`]
    /// bytes.
    pub fn turn(
        &mut self,
        now: Instant,
        socket: &mut impl TcpEnd,
        mux: &mut Mux,
        buffer: &mut Vec<u8>,
        pace: &mut Pace,
    ) -> Turn {
        debug_assert!(buffer.is_empty(), "what others have read would be carried");
        let result = self.carry(now, socket, mux, buffer, pace);
        match result {
            Ok(_) if self.to_stream == Half::Over && self.to_socket == Half::Over => Turn::Over,
            Ok(true) => Turn::More,
            Ok(false) => Turn::Idle,
            Err(Broken) => {
                // Not open any more, if it was the stream that broke.
                let _ = mux.reset(self.id, ABORTED);
                Turn::Broken
            }
        }
    }

    fn carry(
        &mut self,
        now: Instant,
        socket: &mut impl TcpEnd,
        mux: &mut Mux,
        buffer: &mut Vec<u8>,
        pace: &mut Pace,
    ) -> Result<bool, Broken> {
        let more = self.carry_to_stream(now, socket, mux, buffer, pace)?;
        // What was received before a reset is read first, as far as the stream takes it.
        if socket.has_failed() && !more {
            return Err(Broken);
        }
        Ok(self.carry_to_socket(now, socket, mux, pace)? || more)
    }

    /// Returns whether there may be more.
    fn carry_to_stream(
        &mut self,
        now: Instant,
        socket: &mut impl TcpEnd,
        mux: &mut Mux,
        buffer: &mut Vec<u8>,
        pace: &mut Pace,
    ) -> Result<bool, Broken> {
        let mut read = 0;
        while self.to_stream != Half::Over && self.stream_writable {
            if !self.for_stream.is_empty() {
                let count = mux.write(now, self.id, self.for_stream.clone())?;
                self.for_stream.advance(count);
                self.carried[0] += count as u64;
                self.stream_writable = self.for_stream.is_empty();
            } else if self.to_stream == Half::Ending {
                mux.finish(self.id)?;
                self.to_stream = Half::Over;
            } else if read >= BURST {
                return Ok(true);
            } else if !pace.may(Way::ToClient) {
                break;
            } else {
                match socket.read(buffer)? {
                    None => break,
                    Some(0) => self.to_stream = Half::Ending,
                    Some(count) => {
                        read += count;
                        pace.took(Way::ToClient, count);
                    }
                }
                self.for_stream = take(buffer);
            }
        }
        Ok(false)
    }

    /// Returns whether there may be more.
    fn carry_to_socket(
        &mut self,
        now: Instant,
        socket: &mut impl TcpEnd,
        mux: &mut Mux,
        pace: &mut Pace,
    ) -> Result<bool, Broken> {
        while !self.for_socket.is_empty() {
            let Some(count) = socket.write_parts(&[IoSlice::new(&self.for_socket)])? else { break };
            self.for_socket.advance(count);
        }
        let mut written = 0;
        while self.to_socket == Half::Open && self.stream_readable {
            match mux.read(self.id)? {
                Read::Wait => self.stream_readable = false,
                Read::End => (self.to_socket, self.stream_readable) = (Half::Ending, false),
                Read::Bytes(_) if written >= BURST => return Ok(true),
                Read::Bytes(_) if !self.for_socket.is_empty() || !pace.may(Way::FromClient) => break,
                Read::Bytes(_) => {
                    let mut parts = [IoSlice::new(&[]); PARTS];
                    let filled =
                        parts.iter_mut().zip(mux.parts(self.id)).map(|(part, bytes)| *part = IoSlice::new(bytes));
                    let filled = filled.count();
                    let Some(count) = socket.write_parts(&parts[..filled])? else { break };
                    mux.took(now, self.id, count)?;
                    self.carried[1] += count as u64;
                    written += count;
                    pace.took(Way::FromClient, count);
                }
            }
        }
        if self.to_socket == Half::Ending && self.for_socket.is_empty() {
            socket.finish();
            self.to_socket = Half::Over;
        }
        if self.to_socket != Half::Open && std::mem::take(&mut self.stream_readable) {
            // Behind the end there is nothing to tell but a reset.
            mux.read(self.id)?;
        }
        Ok(false)
    }
}

/// Takes the bytes that were read, with no more memory than they need; `buffer` is empty again.
fn take(buffer: &mut Vec<u8>) -> Bytes {
    if buffer.len() < LARGE {
        let bytes = Bytes::copy_from_slice(buffer);
        buffer.clear();
        return bytes;
    }
    let mut read = std::mem::replace(buffer, Vec::with_capacity(READ));
    read.shrink_to_fit();
    read.into()
}

#[cfg(test)]
mod tests;
