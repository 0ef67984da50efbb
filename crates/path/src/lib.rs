//! The vocabulary of Weftway: units, time, and everything a packet scheduler sees and says.
//!
//! This crate holds no trait and does no input or output. A simulator, a QUIC stack and a vector
//! file all describe a connection with the same [`Context`]; every scheduler answers with a
//! [`Decision`]; what then happens comes back as an [`Event`].
//!
//! ```
//! use weftway_path::{BitRate, Bytes, Span};
//!
//! let rate = BitRate::from_mbps(10);
//! assert_eq!(rate.transmission_time(Bytes::new(1250)), Span::from_millis(1));
//! assert_eq!(rate.bdp(Span::from_millis(40)), Bytes::new(50_000));
//! ```

mod context;
mod decision;
mod event;
mod path;
mod ring;
pub mod spec;
mod tier;
mod time;
mod units;
mod wide;

pub use context::{Context, Flow, Message, Packet};
pub use decision::Decision;
pub use event::{Event, Receipt, SendKind, Starved};
pub use path::{BlockedReason, Counters, Health, Path, PathId, PathSet, Recovery, Role};
pub use ring::Ring;
pub use tier::{Thresholds, Tier};
pub use time::{Instant, Span};
pub use units::{BitRate, Bytes, Offset};
