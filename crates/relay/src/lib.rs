//! TCP connections of other programs over one connection: the local sockets of `weft proxy` and `weft relay`.
//!
//! A [`Proxy`] listens where the programs are. It speaks SOCKS5 and HTTP CONNECT, and opens a stream of a
//! [`Mux`](weftway_mux::Mux) for each connection. A [`Relay`] is at the other end of that mux, and of those of other clients:
//! it dials where each stream leads. What carries the records of a mux is the owner's matter; nothing here knows of QUIC or UDP.
//!
//! # How it is driven
//!
//! Both are values to step, like all others, but with sockets that never wait. Their owner waits for all that may happen: for
//! [`Proxy::fd`] beside its own sockets, and until [`Proxy::next_event`] at the latest. Then it calls [`Proxy::turn`] with the
//! time and the mux, and has the mux send what there is. With a relay it is the same.
//!
//! # What a stream carries
//!
//! Its target is `host:port`; names are resolved at the relay. The first byte that comes back is 0: the relay is connected,
//! and all that follows comes from there. If it could not connect, it resets the stream, with the code of SOCKS5's reply. An
//! end of one direction is passed on as such, and so is a reset.
//!
//! # What bounds what
//!
//! | what | bound |
//! |---|---|
//! | bytes in memory between a socket and a stream | one read of 64 KiB, taken only while the stream takes them |
//! | what a program sends before it is connected | 8 KiB; the rest waits in the kernel |
//! | what a connection carries before others have their turn | 256 KiB each way |
//! | local connections, and those that have not said where they want to | [`ProxyLimits`] |
//! | streams that are being connected, names that are looked up, for each client | [`RelayLimits`] |
//! | streams, and what they hold in memory | [`weftway_mux::Limits`] |
//!
//! # Where to begin
//!
//! `flow` joins a socket and a stream, the same at both ends. The rest is what comes before:
//!
//! | module | what it decides |
//! |---|---|
//! | `proxy`, `ports`, `local` | which connections are accepted; how far each has come |
//! | `handshake`, `step`, `socks`, `http` | where a program wants to, from its bytes alone |
//! | `relay`, `client`, `remote` | which streams are accepted; how far each has come |
//! | `policy` | which addresses may be dialled |
//! | `resolver`, `dial` | which addresses a name has, and which of them is used |
//! | `target` | what a target is, and how urgent its stream |
//! | `refusal` | what the relay's word means, and what a program is told |
//! | `socket`, `wakes` | nothing: which sockets are ready, and who is to have its turn |
//! | `limits` | how much at once, and how long |

#![cfg(unix)]

mod client;
mod dial;
mod flow;
mod handshake;
mod http;
mod limits;
mod local;
mod policy;
mod ports;
mod proxy;
mod refusal;
mod relay;
mod remote;
mod resolver;
mod socket;
mod socks;
mod step;
mod target;
mod wakes;

pub use client::ClientId;
pub use limits::{ProxyLimits, RelayLimits};
pub use policy::{NoNetwork, Policy};
pub use proxy::{FlowView, Proxy};
pub use refusal::{Failure, Refusal};
pub use relay::Relay;
pub use resolver::Lookup;
pub use target::{Host, Target, TargetError};
