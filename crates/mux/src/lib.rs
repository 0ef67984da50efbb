//! Many streams and datagrams over one connection, as a value to step: it has no socket, no clock and no thread.
//!
//! A [`Mux`] is one end. Its application opens streams, writes, reads; its transport takes records ([`Mux::cut`]),
//! carries them over whatever paths there are, tells what became of each ([`Mux::acked`], [`Mux::lost`]), and hands
//! over those of the other end ([`Mux::receive`]).
//!
//! # One sequence, and delivery by stream
//!
//! A record has a place in one sequence for the whole connection, and gets it when it is cut. Schedulers, copies and
//! recalls know that sequence and nothing else, so they work as they do for a single transfer. What waits has no place:
//! a message of an urgent stream, written late, is cut before all that waits. Where the records arrive, each stream is
//! put in order by itself, so a lost record holds up only the streams that have a piece in it.
//!
//! # Connections come and go
//!
//! A mux outlives the connection that carries its records. When another one takes its place, each end tells what it has
//! received ([`Mux::received`]), and goes on ([`Mux::resume`]).
//!
//! # What bounds what
//!
//! | what | bound |
//! |---|---|
//! | what has arrived and is not taken | [`Limits::receive`], by promises: each stream its first credit, and more as its reader is faster; large promises leave a part to small ones |
//! | what is written and not acknowledged | [`Limits::send`]; the less urgent a class, the less of it |
//! | streams that the peer has open | [`Limits::streams`] |
//! | frames outstanding, and gaps in what has arrived | [`limits::MOST_FRAMES`] |
//! | datagrams that have arrived | [`limits::MOST_DATAGRAMS_WAITING`] |
//! | what a class cuts before less urgent ones that wait | 32 KiB more than these; then as much as they |
//!
//! A reader that stops holds up its own stream; the memory that it was promised stays its own. A peer that does not
//! keep to a bound, or sends what is no record, gets one [`ProtocolError`].
//!
//! ```
//! use bytes::Bytes;
//! use weftway_mux::{Limits, Mux, Read, Ready, Side};
//! use weftway_path::Instant;
//!
//! let now = Instant::ZERO;
//! let mut here = Mux::new(Side::Connecting, Limits::default(), Limits::default())?;
//! let mut there = Mux::new(Side::Listening, Limits::default(), Limits::default())?;
//!
//! let id = here.open(now, 1, b"example.org:80", None)?;
//! assert_eq!(here.write(now, id, Bytes::from_static(b"hello"))?, 5);
//! here.finish(id)?;
//!
//! // A transport carries the record, and says when it has arrived.
//! let record = here.cut(now, 1200).unwrap();
//! there.receive(now, record.place, &record.payload)?;
//! here.acked(record.place);
//!
//! assert_eq!(there.poll_ready(), Some(Ready::Accept));
//! let accepted = there.accept().unwrap();
//! assert_eq!((accepted.id, &accepted.target[..]), (id, &b"example.org:80"[..]));
//! assert_eq!(there.read(id)?, Read::Bytes(b"hello"));
//! there.took(now, id, 5)?;
//! assert_eq!(there.read(id)?, Read::End);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod application;
mod arrived;
mod budget;
mod cutter;
mod datagrams;
mod error;
pub mod frame;
mod id;
mod incoming;
pub mod limits;
mod mux;
mod outgoing;
mod pages;
mod path_bytes;
mod plan;
mod receiving;
mod records;
mod resuming;
mod sending;
mod stream;

pub use application::{Accepted, Read};
pub use datagrams::leave_within;
pub use error::{DatagramError, OpenError, ProtocolError, StreamError};
pub use id::{Side, StreamId};
pub use limits::{Limits, LimitsError};
pub use mux::{Counts, Mux, Ready};
pub use records::Record;
pub use resuming::Received;
pub use sending::Next;
pub use stream::{COUNTED_PATHS, PathBytes};
