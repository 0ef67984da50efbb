//! Multipath packet schedulers: which path of a connection carries the next packet.
//!
//! A [`Scheduler`] is asked with a [`Context`] and answers with a [`Decision`]. One file holds one
//! scheduler; [`all`] lists them. `select` is idempotent: asked again with no event between, it
//! gives the same answer and behaves the same later. What depends on a decision being carried out
//! moves in `observe(Event::Sent)`.
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
//! To add one: a file with its rule and its `ENTRY`, a line in `schedulers!`, a file in
//! `vectors/sched`. A scheduler may also live outside this crate: any `Box<dyn Scheduler>` will do.

/// Declares a module for each scheduler and lists its `ENTRY`: one line adds one.
macro_rules! schedulers {
    ($($module:ident)*) => {
        $(mod $module;)*
        static ALL: &[&Entry] = &[$(&$module::ENTRY),*];
    };
}

schedulers! {
    min_rtt
    average_rtt
    round_robin
    redundant
    ecf
    blest
    otias
    lamps
    llhd
    prs
    stms
    musher
    linux_v1
    q_learning
    lin_ucb
    peekaboo
    m_peekaboo
    ucb1_redundancy
    dpsaf
    sb_fps
    bccps
    dems
    late
    rtt_probs
    thin_stream
    blocking_time
    dpsw2a
    po_mptcp
    silva
    nagayama
    lts
    lws
    hsr
    espc
    dmptcp
    qaware
    wrr
    ll_bm
    strict_priority
    rtt_threshold
    pdaa3c_quality
    mp_quic_go
    xquic
    tquic
    picoquic
    daps
    sttf
    fdps
    random
    dqn
    rlds
    rosello
    lee_yoo
    falcon
    evolved
    stsgat
    pdaa3c
    reles
    gaps
    earliest_delivery
}

mod choose;
mod copies;
mod forecast;
mod in_flight;
// Joins the list together with its policy file.
mod interval;
pub mod learned;
mod per_path;
mod probes;
mod registry;
mod sent_ahead;
pub mod testing;
pub mod vector;

pub use interval::{Interval, Mode};
pub use learned::fallback::FallbackTally;
pub use linux_v1::FRAGMENT;
pub use registry::{Arity, Entry, Input, Needs, Preset, Provenance, TransportRules, all, build, find, parse};
use weftway_path::{Bytes, Context, Decision, Event, Instant};

/// A packet scheduler.
pub trait Scheduler: Send + dyn_clone::DynClone {
    /// What it needs from its host beyond paths and the packet at hand: nothing, if it does not say so. A scheduler made
    /// of others needs what they need.
    fn needs(&self) -> Needs {
        Needs::NONE
    }

    /// The part of its rule that a host can carry which only sends, and that part's name, where the rule has one.
    fn sending_part(&self) -> Option<(&'static str, Box<dyn Scheduler>)> {
        None
    }

    /// Which path carries the packet at hand. Asking has no effect of its own: asked again with
    /// no event between, the answer and everything after it are the same.
    fn select(&mut self, cx: &Context<'_>) -> Decision;

    /// Something happened; `cx` is the state just after.
    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        let _ = (cx, event);
    }

    /// When to ask again although nothing happened. The host sends [`Event::Wake`] then. It lies ahead of the time at
    /// which the scheduler was last asked or told something: a host counts another time as a fault, and ignores it.
    fn wake(&self) -> Option<Instant> {
        None
    }

    /// `decision` was taken as the answer to `cx`, once. Told to schedulers that have a [`Scheduler::fallback`]; never
    /// steers.
    fn decided(&mut self, cx: &Context<'_>, decision: Decision) {
        let _ = (cx, decision);
    }

    /// What became of its fallback, which decides where what is seen left the ranges of training, as far as the host
    /// told what was [`Scheduler::decided`]; none for schedulers without one.
    fn fallback(&self) -> Option<FallbackTally> {
        None
    }

    /// What was acknowledged on the path that it had chosen for an interval, up to the end of the last interval; none for
    /// schedulers that decide for each packet.
    fn chosen_bytes(&self) -> Option<Bytes> {
        None
    }

    /// Why the answer to `cx` is what it is, in one line for a log. Never steers.
    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let _ = cx;
        None
    }
}

dyn_clone::clone_trait_object!(Scheduler);
