//! The control stream of a mux: what both ends of a carried connection tell each other beside the streams of programs.
//! Of the most urgent class, it waits for none of them; and as every stream of the mux it goes on when the connection
//! is lost.

use bytes::Bytes;
use weftway_mux::{Mux, Read, StreamId};
use weftway_path::Instant;

use crate::failure::Failure;
use crate::wire::{LENGTH, Message, decode, encode};

/// The longest message: eight paths need a tenth of it.
const LONGEST: usize = 4 << 10;
/// The other end has taken nothing for long when so much waits.
const MOST_QUEUED: usize = 4 * LONGEST;

/// End of the control stream of a mux.
#[derive(Debug, Default)]
pub(crate) struct MuxControl {
    /// Bytes that have arrived and are no whole message yet.
    incoming: Vec<u8>,
    /// Bytes that the stream has not taken yet.
    outgoing: Vec<u8>,
}

impl MuxControl {
    /// Sends a message with the next [`MuxControl::exchange`].
    pub fn send(&mut self, message: &Message) -> Result<(), Failure> {
        self.outgoing.extend(encode(message)?);
        if self.outgoing.len() > MOST_QUEUED {
            return Err(Failure::Protocol("it does not read the control stream".to_owned()));
        }
        Ok(())
    }

    /// The next message of the other end.
    pub fn receive(&mut self) -> Result<Option<Message>, Failure> {
        Ok(decode(&mut self.incoming, LONGEST)?)
    }

    /// Gives the stream what is to be sent, and takes what has arrived.
    pub fn exchange(&mut self, now: Instant, mux: &mut Mux) -> Result<(), Failure> {
        let ended = |_| Failure::Protocol("it ended the control stream".to_owned());
        if !self.outgoing.is_empty() {
            let waiting = Bytes::copy_from_slice(&self.outgoing);
            let taken = mux.write(now, StreamId::CONTROL, waiting).map_err(ended)?;
            self.outgoing.drain(..taken);
        }
        while self.incoming.len() <= LONGEST + LENGTH {
            let count = match mux.read(StreamId::CONTROL).map_err(ended)? {
                Read::Bytes(bytes) => {
                    self.incoming.extend_from_slice(bytes);
                    bytes.len()
                }
                Read::Wait => break,
                Read::End => return Err(Failure::Protocol("it ended the control stream".to_owned())),
            };
            mux.took(now, StreamId::CONTROL, count).map_err(ended)?;
        }
        Ok(())
    }
}
