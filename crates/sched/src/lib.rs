//! Multipath packet schedulers: which path of a connection carries the next packet.
//!
//! A [`Scheduler`] is asked with a [`Context`] and answers with a [`Decision`]. [`all`] lists the schedulers: those
//! that follow a rule are in `rules`, a file each; those that learn are in [`learned`]; what several use is in
//! `shared`. `select` is idempotent: asked again with no event between, it gives the same answer and behaves the same
//! later. What depends on a decision being carried out moves in `observe(Event::Sent)`.
//!
//! ```
//! use weftway_path::{Bytes, Context, Decision, Instant, Packet, Path, PathId, PathSet, Offset, Span};
//!
//! let mut min_rtt = weftway_sched::build("min-rtt").unwrap();
//! let mut paths = [0, 1].map(|n| Path::new(PathId::new(n), Bytes::new(1400), Bytes::new(14_000)));
//! paths[0].srtt = Span::from_millis(40);
//! paths[1].srtt = Span::from_millis(20);
//! let (carried, avoid) = (PathSet::EMPTY, PathSet::EMPTY);
//! let packet = Packet { offset: Offset::ZERO, bytes: Bytes::new(1400), reinjection: false, carried, avoid };
//! let cx = Context::new(Instant::ZERO, &paths, Some(&packet), None);
//! assert_eq!(min_rtt.select(&cx), Decision::Send(PathId::new(1)));
//! ```
//!
//! To add one: a file in `rules` with its rule and its `ENTRY`, a line in `schedulers!`, a file in
//! `vectors/sched`. A scheduler may also live outside this crate: any `Box<dyn Scheduler>` will do.

/// Declares the modules of `rules` and lists the `ENTRY` of each scheduler, in the order of the registry: one line adds
/// one. Modules of `learned` are declared there.
macro_rules! schedulers {
    ($($room:ident :: $module:ident)*) => {
        /// The rules, a file each. Code that several of them use is in `shared`.
        mod rules {
            $(schedulers!(@declare $room $module);)*
        }
        static ALL: &[&Entry] = &[$(&$room::$module::ENTRY),*];
    };
    (@declare rules $module:ident) => { pub(crate) mod $module; };
    (@declare learned $module:ident) => {};
}

schedulers! {
    rules::min_rtt
    rules::average_rtt
    rules::round_robin
    rules::redundant
    rules::ecf
    rules::blest
    rules::otias
    rules::lamps
    rules::llhd
    rules::prs
    rules::stms
    rules::musher
    rules::linux_v1
    learned::q_learning
    learned::lin_ucb
    learned::peekaboo
    learned::m_peekaboo
    learned::ucb1_redundancy
    rules::dpsaf
    rules::sb_fps
    rules::bccps
    rules::dems
    rules::late
    rules::rtt_probs
    rules::thin_stream
    rules::blocking_time
    rules::dpsw2a
    rules::po_mptcp
    rules::silva
    rules::nagayama
    rules::lts
    rules::lws
    rules::hsr
    rules::espc
    rules::dmptcp
    rules::qaware
    rules::wrr
    rules::ll_bm
    rules::strict_priority
    rules::rtt_threshold
    rules::pdaa3c_quality
    rules::mp_quic_go
    rules::xquic
    rules::tquic
    rules::picoquic
    rules::daps
    rules::sttf
    rules::fdps
    rules::random
    rules::edpf
    rules::s_edpf
    rules::xlink
    rules::deadline
    learned::dqn
    learned::rlds
    learned::rosello
    learned::lee_yoo
    learned::falcon
    learned::evolved
    learned::stsgat
    learned::pdaa3c
    learned::reles
    learned::gaps
    rules::earliest_delivery
    learned::foreseen
}

mod entry;
pub mod learned;
pub mod reason;
mod registry;
mod shared;

pub use entry::{Arity, Entry, Input, Learning, Needs, Preset, Provenance, ShippedPolicy, Timing, TransportRules};
pub use registry::{all, build, find, parse};
pub use rules::linux_v1::FRAGMENT;
pub use shared::interval::{Interval, Mode};
use weftway_path::{Bytes, Context, Decision, Event, Instant};

/// A packet scheduler.
pub trait Scheduler: Send + dyn_clone::DynClone {
    /// Needs from its host beyond paths and the packet at hand: none, if it does not say so. A scheduler made
    /// of others needs what they need.
    fn needs(&self) -> Needs {
        Needs::NONE
    }

    /// Which path carries the packet at hand. Asking has no effect of its own: asked again with
    /// no event between, the answer and everything after it are the same.
    fn select(&mut self, cx: &Context<'_>) -> Decision;

    /// Something happened; `cx` is the state just after.
    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        let _ = (cx, event);
    }

    /// Time to ask again although nothing happened. The host sends [`Event::Wake`] then. It lies ahead of the time at
    /// which the scheduler was last asked or told something: a host counts another time as a fault, and ignores it.
    fn wake(&self) -> Option<Instant> {
        None
    }

    /// `decision` was taken as the answer to `cx`, once. Told to schedulers that report a [fallback](Report::fallback);
    /// never steers. No event says it: an event comes with the state after it, and a fallback compares what it would
    /// have done before.
    fn decided(&mut self, cx: &Context<'_>, decision: Decision) {
        let _ = (cx, decision);
    }

    /// Report of itself beside its decisions: empty, if it does not say so.
    fn report(&self) -> Report {
        Report::default()
    }

    /// Why the answer to `cx` is what it is, in one line for a log. Never steers.
    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let _ = cx;
        None
    }
}

dyn_clone::clone_trait_object!(Scheduler);

/// Report of a scheduler beside its decisions.
#[derive(Clone, Default)]
pub struct Report {
    /// Tally of its fallback, which decides where what is seen left the ranges of training, as far as the host
    /// told what was [`Scheduler::decided`]; none for schedulers without one.
    pub fallback: Option<FallbackTally>,
    /// Bytes acknowledged on the path that it had chosen for an interval, up to the end of the last interval; none for
    /// schedulers that decide for each packet.
    pub chosen_bytes: Option<Bytes>,
    /// The part of its rule that a host can carry which only sends, and that part's name, where the rule has one.
    pub sending_part: Option<(&'static str, Box<dyn Scheduler>)>,
}

/// Tally of a fallback.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FallbackTally {
    /// Packets that it decided.
    pub decided: u64,
    /// Decisions that were not its own, and that it would have made otherwise.
    pub differs: u64,
}
