//! Pipes: datagrams that all lead to one target, and are of use for a given time (`weft pipe`).
//!
//! A pipe is a stream of the mux, whose target is a [`PipeTarget`](crate::target::PipeTarget). The stream carries what
//! both ends tell each other (`words`); the datagrams of the pipe are datagrams of that stream (`head`). Each source of
//! datagrams at the front end has a number, and a socket of its own at the relay, so that answers find their way back.
//!
//! A datagram says when it came, by the clock of the end where it came. The other end knows that clock by round trips
//! of the pipe (`clock`), so it knows until when the datagram is of use. What is late is dropped there.
//!
//! | module | what it decides |
//! |---|---|
//! | `head`, `words` | what a datagram, and what a line of the stream says |
//! | `clock` | what the other end's clock shows |
//! | `hold` | which datagrams wait: for their time, or for those before them |
//! | `tally` | how many datagrams of each second came, were late, or were lost |
//! | `sources` | which number a source has |
//! | `end` | what both ends do with datagrams |
//! | `front`, `remote` | the end where the sources are, and the relay's |
//! | `leave` | which targets a relay allows |

mod clock;
mod end;
mod front;
mod head;
mod hold;
mod leave;
mod remote;
mod sources;
mod tally;
mod words;

pub use front::{Pipe, Pipes};
pub use leave::{NoLeave, PipeLeave};
pub use remote::RemotePipe;

/// Reads what an end of a pipe may get, for the fuzzer.
pub fn fuzz(bytes: &[u8]) {
    end::fuzz(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = PipeLeave::parse(&[text]);
    }
}
