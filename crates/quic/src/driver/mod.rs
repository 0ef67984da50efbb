//! A connection driven from outside: choose a path, poll a datagram, send it.
//!
//! The driver owns noq's connection and no socket: it takes datagrams and the time, and gives datagrams out. Its sender
//! is a [`Transport`](weftway_host::Transport), so every scheduler of the registry runs on it, with the same questions
//! and events as in the simulator.
//!
//! # How data travel
//!
//! As records in DATAGRAM frames (RFC 9221), one to a packet. noq tells its congestion controllers of every packet by
//! number: sent, acknowledged, lost. A packet holds one record, so the driver knows what became of each piece of data,
//! and on which path. Copies (`Repeat`), data out of order (`Ahead`), data taken back (`Recall`) and data handed back
//! after a loss are then what they are in the simulator: entries of the host crate's outbox. A stream per path would
//! give retransmission for nothing, but only on the path that lost, and noq does not say what of a stream has arrived;
//! a path that dies would take its stream along until noq discards it.
//!
//! What streams would have brought is done here: a lost record is scheduled again, and the receiver's limit travels in
//! records of its own ([`record`]). PTO and acknowledgements stay noq's, and so does loss detection in scenarios. Over
//! sockets noq waits longer, and the driver finds losses by a time threshold that adapts to reordering
//! (`sending_path/reordering.rs`).
//!
//! # How a decision is carried out
//!
//! Before the scheduler is asked, everything that is no data has left. A decision opens its path's window and closes
//! all others, queues one record, polls one datagram, and closes again. Nothing else can then be in the way of the
//! record, and no record is ever in the way of an acknowledgement. The congestion window and the pacer are the
//! driver's, one controller of `weftway-cc` for each path; noq's own are passed over.
//!
//! # Path health
//!
//! A path whose oldest packet is overdue, and of which nothing is heard, is silent: what it has may go on the other
//! paths at once, and schedulers prefer these until it answers. It is kept, and nothing counts as lost.
//!
//! A path that is silent for the path timeout though data are outstanding is given up: its data go to the other paths
//! at once. noq keeps it, and it is asked with a PING now and then; with the first answer it is as new. So a path that
//! returns needs no new connection IDs, and the last path is treated as every other.
//!
//! A path that answers and loses more than two thirds of what it is given, over the path timeout and 16 packets or
//! more, is given up too, if there is another. It has to answer twice in a row to come back. One that comes back and is
//! of no use again is asked after a longer pause, up to eight times as long, and has to answer up to five times.

pub mod answers;
mod carrier;
pub mod connection;
pub mod duplex;
mod hearing;
mod liveness;
pub mod observer;
mod outage;
mod realtime;
mod realtime_state;
pub mod receiver;
pub mod record;
pub mod sender;
mod sending_path;
pub mod source;
pub mod streams;
mod transmit;

pub use sender::{OFFERS, Sender, Setting};
pub use sending_path::PathTally;
pub use sending_path::reordering::NOQ_ROUND_TRIPS;
pub use source::Source;
