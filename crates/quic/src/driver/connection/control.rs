//! The control stream: an ordinary bidirectional stream beside the data records, and how a connection is ended.

use std::time::Duration;

use bytes::Bytes;
use noq_proto::{
    ConnectionError, Dir, Endpoint, EndpointEvent, PathStatus, ReadError, ReadableError, TransportErrorCode, WriteError,
};
use weftway_path::{Instant, PathId, Span};

use super::QuicConnection;

/// Reason for which the peer ended the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason {
    /// The application's code.
    pub code: u64,
    /// Text that it gave.
    pub reason: String,
}

impl CloseReason {
    fn of(error: &ConnectionError) -> Option<Self> {
        let ConnectionError::ApplicationClosed(close) = error else { return None };
        let reason = String::from_utf8_lossy(&close.reason).into_owned();
        Some(Self { code: close.error_code.into_inner(), reason })
    }
}

/// Returns true if the peer has no room for a connection (RFC 9000 §20.1: CONNECTION_REFUSED), or closed it during the
/// handshake: its reason, whichever it is, is then sent as APPLICATION_ERROR, as the handshake's packets may be read by
/// others (§10.2.3).
fn is_refusal(error: &ConnectionError) -> bool {
    let ConnectionError::ConnectionClosed(close) = error else { return false };
    [TransportErrorCode::CONNECTION_REFUSED, TransportErrorCode::APPLICATION_ERROR].contains(&close.error_code)
}

/// The control stream is over, or was never opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl QuicConnection {
    /// Opens the control stream, once the handshake is done.
    pub fn open_control(&mut self) {
        if self.control.is_none() {
            self.control = self.inner.streams().open(Dir::Bi);
        }
    }

    /// Writes to the control stream; how much it took.
    pub fn write_control(&mut self, bytes: &[u8]) -> Result<usize, Ended> {
        let Some(id) = self.control else { return Ok(0) };
        match self.inner.send_stream(id).write(bytes) {
            Ok(taken) => Ok(taken),
            Err(WriteError::Blocked) => Ok(0),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => Err(Ended),
        }
    }

    /// Appends what the peer wrote on the control stream.
    pub fn read_control(&mut self, into: &mut Vec<u8>) -> Result<(), Ended> {
        if self.control.is_none() {
            self.control = self.inner.streams().accept(Dir::Bi);
        }
        let Some(id) = self.control else { return Ok(()) };
        let mut stream = self.inner.recv_stream(id);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => return Err(Ended),
        };
        let result = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => into.extend_from_slice(&chunk.bytes),
                Err(ReadError::Blocked) => break Ok(()),
                Ok(None) | Err(ReadError::Reset(_)) => break Err(Ended),
            }
        };
        // Flow control leaves with the next flush.
        let _ = chunks.finalize();
        result
    }

    /// Ends the connection. The datagrams that say so are in the outgoing queue.
    pub fn close(&mut self, now: Instant, endpoint: &mut Endpoint, code: u32, reason: &str) {
        self.inner.close(self.clock.theirs(now), code.into(), Bytes::copy_from_slice(reason.as_bytes()));
        self.settle(now, endpoint);
        self.flush(now);
    }

    /// Lets the endpoint forget this connection before noq is done with it.
    pub fn forget(self, endpoint: &mut Endpoint) {
        // Of one that noq is done with the handle may be another connection's by now.
        if !self.inner.is_drained() {
            let _ = endpoint.handle_event(self.handle, EndpointEvent::drained());
        }
    }

    /// Reason that the peer gave when it ended the connection.
    pub fn close_reason(&self) -> Option<CloseReason> {
        CloseReason::of(self.over.as_ref()?)
    }

    /// Returns true if the peer had no room for this connection. The next one may find some.
    pub fn is_refused(&self) -> bool {
        self.over.as_ref().is_some_and(is_refusal)
    }

    /// Returns true if nothing is left to do for a connection that is over.
    pub fn is_drained(&self) -> bool {
        self.inner.is_drained()
    }

    /// A path on which nothing came for so long says that it is alive, beginning with the next packet. None: it says
    /// nothing.
    pub fn set_keep_alive(&mut self, interval: Option<Span>) {
        let interval = interval.map(|span| Duration::from_nanos(span.as_nanos()));
        for number in self.numbers.iter().flatten() {
            // A path that is closed meanwhile needs none.
            let _ = self.inner.set_path_keep_alive_interval(*number, interval);
        }
    }

    /// Sets whether noq should put what is no data onto this path only if no better one is there.
    pub fn set_backup(&mut self, path: PathId, backup: bool) {
        let Some(number) = self.numbers[path.index()] else { return };
        let status = if backup { PathStatus::Backup } else { PathStatus::Available };
        if self.inner.path_status(number).is_ok_and(|old| old != status) {
            // A path that is closed meanwhile needs no status.
            let _ = self.inner.set_path_status(number, status);
        }
    }
}
