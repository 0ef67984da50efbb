//! Links: one direction of one bottleneck, as a value to step.
//!
//! A [`Link`] takes packets with [`Link::push`], says with [`Link::next_event`] when to come back,
//! and hands packets over with [`Link::pop`]. It reads no clock: a simulator drives it with
//! virtual time, an emulator with the clock on the wall. A packet passes, in this order,
//!
//! ```text
//! queue limit → serialisation at the rate → loss → link-layer retransmission → delay and jitter → the host's jitter
//! ```
//!
//! so a lost packet has used capacity, and delay takes no place in the queue.
//!
//! ```
//! use weftway_link::{Link, LinkConfig, Rate, Verdict};
//! use weftway_path::{BitRate, Bytes, Instant, Span};
//!
//! let config = LinkConfig {
//!     rate: Rate::Constant(BitRate::from_mbps(10)),
//!     delay: Span::from_millis(20),
//!     ..LinkConfig::default()
//! };
//! let mut link = Link::new(&config, 1);
//! assert_eq!(link.push(Instant::ZERO, Bytes::new(1250), "hello"), Verdict::Queued);
//!
//! // 1250 bytes take 1 ms at 10 Mbit/s.
//! let arrival = link.next_event();
//! assert_eq!(arrival, Instant::from_millis(21));
//! assert_eq!(link.pop(arrival).map(|delivery| delivery.item), Some("hello"));
//! assert!(link.next_event().is_never());
//! ```
//!
//! # Draws
//!
//! Every random component has its own PCG32 generator (XSH-RR, 64-bit state), so that adding one
//! moves no other's draws. For component number `c` (loss 1, jitter 2, retransmission 3, redraw 4, host jitter 6, common
//! redraws 7, fades 8) of a link with seed `s` the initial state is `mix(s + c · 0x9E3779B97F4A7C15)`, where
//! `mix` is the output function of SplitMix64, and the stream is `c`. For what links of a group draw in
//! common, `s` is `mix(r ^ g)` with the run's seed `r` and the group's number `g`. Each component's page says
//! what it draws and when; a draw with probability `p` succeeds when 32 fresh bits are below `p · 2³²`, rounded.
//!
//! # Not modelled
//!
//! Routing, several bottlenecks in a row (chain links for that), corruption, duplication, and the
//! capacity that link-layer retransmissions use.

mod arq;
mod capacity;
mod codel;
mod config;
mod draw;
mod fade;
mod generate;
mod jitter;
mod link;
mod loss;
mod outlook;
mod supply;
mod timetable;
mod trace;
mod wire;

pub use capacity::{capacity, time_to_carry};
pub use config::{
    Arq, Change, Common, Discipline, Distribution, Ecn, Fade, Jitter, Limit, LinkConfig, Loss, Queue, Rate, Redraw, Set,
};
pub use draw::Seeds;
pub use generate::{LteModel, State, lte};
pub use link::{Counts, Delivery, Link, Reason, Verdict};
pub use outlook::Outlook;
pub use supply::{SURE, Supply};
pub use trace::{OPPORTUNITY, Trace, TraceError};
