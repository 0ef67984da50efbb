//! Files and directories over several links: [`send`] and [`receive`], which are `weft send` and `weft recv`; and both ends of
//! `weft proxy`, `weft tunnel` and `weft relay`.
//!
//! # What travels
//!
//! The data are one stream of bytes: the files of the manifest one after the other, less what the receiver has already.
//! They travel as the driver's records, so every scheduler of the registry runs. Everything else travels on an ordinary
//! QUIC stream as messages ([`wire`]): token and role, the manifest, what the receiver has, the hash of each file, and that
//! all files are there.
//!
//! # What is kept
//!
//! The receiver writes a file below a hidden directory of the target ([`store`]) and renames it when its BLAKE3 hash is
//! the sender's. What was written stays there when either end stops, and the next transfer goes on behind it.
//!
//! # Who may
//!
//! The end that listens shows a certificate, the end that connects a token ([`weftway_udp::tls`]). Nothing is told to
//! an end that has not shown the token. The end that connects may be the sender or the receiver.
//!
//! # Where to begin
//!
//! [`wire`] has all messages in their order. `sending` and `receiving` are the two ends, a loop each; the rest serves them:
//!
//! | module | what it decides |
//! |---|---|
//! | `files`, [`manifest`], `incoming` | which files are sent, under which names, and where each lies in the stream of bytes |
//! | `opening` | the end that connects: over which path and address the connection is made |
//! | `listener` | the end that listens: which connection has the token and is accepted |
//! | `rounds` | whether another connection follows one that ended |
//! | `session` | when the user is told; sockets and other end are the same for both ends |
//! | `pulse` | when an end is given up that says nothing |
//! | `control_stream`, `mux_control` | nothing: they bring messages whole |
//! | `source` | what the next record holds, and the sender's hashes |
//! | `disk`, `writer`, [`store`] | when a file is whole, and which name and permissions it gets; a thread of its own |
//! | `links`, `metering`, `usage` | which links are open to data, and how much each may still carry |
//! | `peer_policy`, `policy_exchange` | the same of the other end's links; what both ends tell each other of them |
//! | `proxying`, `tunnelling`, `relaying`, `carried` | what becomes of the streams of `weft proxy` and `weft relay` when a connection is lost |
//! | `client_rules` | how much each client of a relay may have |
//! | `switching`, `explaining` | which scheduler takes over while a program is at work; what it says of a packet |
//! | `setting`, `options` | the driver's settings over sockets; what the user may set |
//! | `outcome`, `seen`, `qlog` | nothing: reports and the log |
//! | [`doctor`] | nothing: what this machine's interfaces and sockets allow |
//!
//! Which path carries a record, and when a path is given up, is the driver's matter ([`weftway_quic::driver`]).

#![cfg(unix)]

mod arrived;
mod carried;
mod client_rules;
mod control_stream;
mod disk;
pub mod doctor;
mod explaining;
mod files;
mod incoming;
mod links;
mod listener;
pub mod manifest;
mod memory;
mod metering;
mod mux_control;
mod opening;
mod options;
mod outcome;
mod peer_policy;
mod policy_exchange;
mod proxying;
mod pulse;
mod qlog;
mod receiving;
mod relaying;
mod rounds;
mod seen;
mod sending;
mod session;
mod setting;
mod source;
pub mod store;
mod switching;
#[cfg(all(target_os = "linux", feature = "tunnel"))]
mod tunnelling;
mod usage;
mod whereabouts;
pub mod wire;
mod writer;

pub use client_rules::ClientRules;
pub use files::{FailedFile, Skipped};
pub use links::{Cap, Link, LinkProgress, LinkTerms, Period};
pub use manifest::{Entry, Manifest};
pub use options::{Failure, Options, OtherEnd, Progress, Report, State, Watch};
pub use proxying::proxy;
pub use receiving::receive;
pub use relaying::relay;
pub use seen::{ByClass, ClientProgress, FlowPath, FlowProgress, LastPacket, PathProgress, Seen, Unread, UnreadFlow};
pub use sending::send;
#[cfg(all(target_os = "linux", feature = "tunnel"))]
pub use tunnelling::tunnel;
pub use whereabouts::Lookup;
