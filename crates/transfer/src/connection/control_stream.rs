//! The control stream, and a connection whose ends have found each other on it.

use weftway_quic::driver::connection::QuicConnection;
use weftway_udp::token::KnownToken;

use crate::wire::{LENGTH, MAX_MESSAGE, Message, SessionState, TransferId, VERSION, WireError, decode, encode};

/// A connection to an end whose token is right, or that has found ours right.
pub(crate) struct AcceptedConnection {
    pub connection: QuicConnection,
    pub control: ControlStream,
    pub id: TransferId,
    /// Token that the end that connects has shown. It knows no name for it.
    pub shown: KnownToken,
    /// True if the links of the end that connects have a policy.
    pub policy: bool,
    /// The session that the other end speaks of: the one that a proxy wants to go on with, or that a relay has for it.
    pub session: Option<SessionState>,
}

impl AcceptedConnection {
    /// Answers the greeting of a proxy: it is in `session` from now on.
    pub fn welcome(&mut self, session: SessionState) -> Result<(), WireError> {
        self.control.send(&Message::Welcome { version: VERSION, session: Some(session) })?;
        self.control.exchange(&mut self.connection)
    }
}

/// End of the control stream.
#[derive(Debug)]
pub(crate) struct ControlStream {
    /// Bytes that have arrived and are no whole message yet.
    incoming: Vec<u8>,
    /// Bytes that the stream has not taken yet.
    outgoing: Vec<u8>,
    longest: usize,
    /// Bytes that travelled so far, in both directions.
    moved: u64,
}

impl ControlStream {
    /// To an end that may send messages of at most `longest` bytes.
    pub fn new(longest: usize) -> Self {
        Self { incoming: Vec::new(), outgoing: Vec::new(), longest, moved: 0 }
    }

    /// The other end has shown its token: it may send long messages.
    pub fn trust(&mut self) {
        self.longest = MAX_MESSAGE;
    }

    /// Sends a message as soon as the stream takes it.
    pub fn send(&mut self, message: &Message) -> Result<(), WireError> {
        self.outgoing.extend(encode(message)?);
        Ok(())
    }

    /// The next message of the other end.
    pub fn receive(&mut self) -> Result<Option<Message>, WireError> {
        decode(&mut self.incoming, self.longest)
    }

    /// Bytes that the stream has not taken yet.
    pub fn queued(&self) -> usize {
        self.outgoing.len()
    }

    /// Bytes that travelled so far, in both directions: the other end takes and says something as long as this rises.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Gives the connection's stream what is to be sent, and takes what has arrived.
    pub fn exchange(&mut self, connection: &mut QuicConnection) -> Result<(), WireError> {
        if !self.outgoing.is_empty() {
            let taken = connection.write_control(&self.outgoing).map_err(|_| WireError::Ended)?;
            self.outgoing.drain(..taken);
            self.moved += taken as u64;
        }
        if self.incoming.len() <= self.longest + LENGTH {
            let before = self.incoming.len();
            connection.read_control(&mut self.incoming).map_err(|_| WireError::Ended)?;
            self.moved += (self.incoming.len() - before) as u64;
        }
        Ok(())
    }
}
