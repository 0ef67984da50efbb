//! IP packets of local programs over one connection: the local end of `weft tunnel`.
//!
//! A [`Tunnel`] is a front end as [`Proxy`](weftway_relay::Proxy) is: it opens a stream of a [`Mux`](weftway_mux::Mux)
//! for each connection of a program, and one for the datagrams of each local port. But programs know nothing of it:
//! their packets come from a network [`Device`], and what they get is written to it.
//!
//! # What becomes of a packet
//!
//! | packet | what becomes of it |
//! |---|---|
//! | the first of a TCP connection | a stream is opened to where it leads. Once the relay is connected there, the program is answered by a TCP of this crate's own ([smoltcp]), whose bytes the stream carries. If the relay cannot connect, the program gets a reset, or is told by ICMP |
//! | UDP | a datagram of the stream that its local port has. What comes back goes to that port |
//! | an echo request of ICMP | the same, for each identifier. The relay sends it, and the reply comes back |
//! | a question to a server of names that no relay would ask (a private address) | goes to the server that the relay asks, or to another one: see [`Names`] |
//! | a fragment of IP | waits for the others of its packet; the whole packet is one of the above. What is too long for the device on the way back is cut |
//! | anything else | dropped and counted |
//!
//! # Where to begin
//!
//! | module | what it decides |
//! |---|---|
//! | `tunnel`, `entry` | whose packet it is, and who has its turn |
//! | `tcp_flow`, `association` | how far a connection, or the datagrams of a port, have come |
//! | `stack` | nothing: smoltcp for one connection |
//! | `packet` | what a packet is |
//! | `fragments` | which fragments are of one packet, and which are dropped |
//! | `reply` | nothing: packets for programs |
//! | `device` | nothing: the device, and what its kernel segments and sums up |
//!
//! Nothing here reads a clock or a random number. Tests step a program's TCP, a tunnel and a mux in virtual time.

#![cfg(target_os = "linux")]

mod association;
mod device;
mod entry;
mod fragments;
mod packet;
mod reply;
mod stack;
mod tcp_flow;
mod tunnel;

pub use device::{Device, TunDevice};
pub use tunnel::{Names, PacketCounts, Tunnel};
