//! TCP connections and datagrams of other programs over one connection: the local sockets of `weft proxy` and `weft
//! relay`.
//!
//! A [`Proxy`] listens where the programs are. It speaks SOCKS5 and HTTP CONNECT, and opens a stream of a
//! [`Mux`](weftway_mux::Mux) for each connection. A [`Relay`] is at the other end of that mux, and of those of other
//! clients: it dials where each stream leads. What carries the records of a mux is the owner's matter; nothing here
//! knows of QUIC or UDP.
//!
//! # How it is driven
//!
//! Both are values to step, like all others, but with sockets that never wait. Their owner waits for all that may
//! happen: for [`Proxy::fd`] beside its own sockets, and until [`Proxy::next_event`] at the latest. Then it calls
//! [`Proxy::turn`] with the time and the mux, and has the mux send what there is. With a relay it is the same.
//!
//! # What a stream carries
//!
//! Its target is `host:port`; names are resolved at the relay. The first byte that comes back is 0: the relay is
//! connected, and all that follows comes from there. If it could not connect, it resets the stream, with the code of
//! SOCKS5's reply. An end of one direction is passed on as such, and so is a reset.
//!
//! # Datagrams
//!
//! A program asks for them by UDP ASSOCIATE of SOCKS5 (RFC 1928, section 7), and they live as long as the connection on
//! which it asks. Their stream has the target `udp:`, and carries nothing but the relay's first byte. Each datagram of
//! the program is a datagram of that stream, of use for half a second: the kind of an address and its class in one
//! byte, the address and the port, as SOCKS5 has them, and the data. One that comes back is the same, and of the class
//! that the proxy gave what was sent there. It arrives or it does not, as with UDP.
//!
//! One that no record holds travels in pieces, four at most, and is lost with any of them. In a record of `weft`, which
//! has 1154 bytes, there is room for 1140 bytes of data to or from an address of IPv4, and 1128 for IPv6; a few more on
//! the first streams of a connection. Four pieces hold 4.5 kB.
//!
//! Nobody else gets in. The proxy takes datagrams from the address of the program's connection alone, and only from the
//! port that the first of them came from. The relay judges each destination as for connections, and takes datagrams
//! from destinations alone, by address and port.
//!
//! # What bounds what
//!
//! | what | bound |
//! |---|---|
//! | bytes in memory between a socket and a stream | one read of 64 KiB, taken only while the stream takes them |
//! | what a program sends before it is connected | 64 KiB; the rest waits in the kernel |
//! | what a connection carries before others have their turn | 256 KiB each way |
//! | local connections, and those that have not said where they want to | [`ProxyLimits`] |
//! | sockets that are being connected, names that are looked up, for all clients | [`RelayLimits`] |
//! | streams and rate of each client | [`ClientLimits`] |
//! | programs with datagrams at the relay, for each client | [`RelayLimits`] |
//! | datagrams that a socket brings before others have their turn | 64 |
//! | destinations and names that the relay knows of a program's datagrams | 1024 and 64, those used last |
//! | datagrams of a program that wait for a name | 32 |
//! | pipes of a client; sources of a pipe, each with a socket; bytes of a pipe that wait for their time | 16; 256; 8 MiB |
//! | datagrams that wait to be sent to the other end | 1 MiB of data, and 32 KiB of each flow |
//! | streams, and what they hold in memory; datagrams that have arrived | [`weftway_mux::Limits`] |
//!
//! # Where to begin
//!
//! `flow` joins a socket and a stream, the same at both ends; `local_udp` and `remote_udp` do so for datagrams. The
//! rest is what comes before:
//!
//! | module | what it decides |
//! |---|---|
//! | `front` | nothing: what an owner of a front end calls |
//! | `proxy`, `ports`, `local`, `stage`, `accounts` | which connections are accepted; how far each has come |
//! | `handshake`, `step`, `socks`, `http` | where a program wants to, from its bytes alone |
//! | `relay`, `client`, `remote` | which streams are accepted; how far each has come |
//! | `policy`, `boundary` | which addresses may be dialled |
//! | `names`, `dial` | which addresses a name has, and which of them is used |
//! | `places` | who may dial when many do |
//! | `datagram`, `pieces` | what a datagram says, and in how many records it travels |
//! | `target` | what a target is |
//! | `pipe` | what becomes of datagrams that all lead to one target, in time or not |
//! | `classes`, `classes_file` | how urgent a flow is |
//! | `refusal` | what the relay's word means, and what a program is told |
//! | `socket`, `stream`, `udp`, `wakes` | nothing: which sockets are ready, and who is to have its turn |
//! | `limits`, `pace`, `recent` | how much at once, how fast, and how long |
//! | `view` | nothing: what is told of a connection |

#![cfg(unix)]

mod accounts;
mod boundary;
mod classes;
mod classes_file;
mod client;
mod datagram;
mod dial;
mod dscp;
mod flow;
mod front;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod http;
mod limits;
mod local;
mod local_udp;
mod names;
mod pace;
mod pieces;
mod pipe;
mod places;
mod policy;
mod ports;
mod proxy;
mod recent;
mod refusal;
mod relay;
mod remote;
mod remote_udp;
mod socket;
mod socks;
mod stage;
mod step;
mod stream;
mod target;
mod udp;
mod view;
mod wakes;

pub use accounts::{Accounts, BadAccount, BadAccounts};
pub use classes::{CLASSES, Class, Classes, FIRST_BYTES, Hosts, Rule, Transport};
pub use classes_file::BadRules;
pub use client::ClientId;
pub use datagram::{DEADLINE, DatagramCounts, Drops};
pub use dscp::Dscp;
pub use front::Front;
pub use limits::{ClientLimits, LEAST_LATENCY, MOST_LATENCY, MOST_PIPES, ProxyLimits, RelayLimits};
pub use names::{NameConfig, NameSource};
pub use pipe::{NoLeave, Pipe, PipeLeave, Pipes};
pub use policy::{NoNetwork, Policy};
pub use ports::{NoPortAddress, PortAddress};
pub use proxy::Proxy;
pub use refusal::{Failure, Refusal};
pub use relay::Relay;
pub use target::{Host, Order, PipeTarget, Purpose, Target, TargetError};
pub use view::{FlowView, PipeView, WayCounts, WaySecond, WayView};

/// Parts of another front end than [`Proxy`]: `weft tunnel` has one.
pub mod parts {
    pub use crate::datagram::{Sent, mark, read};
    pub use crate::flow::{Flow, READ, TcpEnd, Turn};
    pub use crate::front::next_ready;
    pub use crate::limits::{MOST_DATAGRAMS, WAIT_FOR_ANSWER, WAIT_FOR_STREAM};
    pub use crate::pace::Pace;
    pub use crate::pieces::Pieces;
    pub use crate::refusal::{ABORTED, CONNECTED};
    pub use crate::remote_udp::ECHO_PORT;
    pub use crate::socks::put_address;
    pub use crate::wakes::{RunQueue, Timers};
}
