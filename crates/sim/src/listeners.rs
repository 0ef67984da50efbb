//! Listeners to a run: golden traces, qlog, timelines. There are none by default, and then a note costs one branch.

use std::sync::{Arc, Mutex};

use weftway_cc::Signal;
use weftway_host::Decided;
use weftway_link::Verdict;
use weftway_path::{Decision, Instant, Offset, PathId};

/// Something worth a line in a log.
#[derive(Clone, Debug)]
pub enum Note {
    /// A scheduler was asked and answered; `why` is its own explanation.
    Decided(Decided),
    /// A packet was put on its link.
    Sent {
        /// The path.
        path: PathId,
        /// Its number on the path.
        index: u64,
        /// Its first byte.
        offset: Offset,
        /// Its payload.
        bytes: u32,
        /// Verdict of the link.
        verdict: Verdict,
    },
    /// A packet reached the receiver.
    Arrived {
        /// The path.
        path: PathId,
        /// Its number on the path.
        index: u64,
        /// Its first byte.
        offset: Offset,
        /// Its payload.
        bytes: u32,
        /// Everything before it has now arrived.
        in_order_to: Offset,
        /// Bytes held out of order after it.
        held: u64,
    },
    /// An acknowledgement reached the sender.
    Acked {
        /// The path.
        path: PathId,
        /// Everything below has arrived on it.
        cum: u64,
        /// Everything before it has arrived in order.
        una: Offset,
        /// The window after it, in bytes.
        cwnd: u64,
        /// In flight after it, in bytes.
        in_flight: u64,
        /// Smoothed round-trip time after it, in microseconds.
        srtt_us: u64,
    },
    /// A packet was declared lost.
    Lost {
        /// The path.
        path: PathId,
        /// Its number on the path.
        index: u64,
    },
    /// A timer fired.
    Timeout {
        /// The path.
        path: PathId,
        /// Which: `rto`, `tlp`, `pto`; `stale` if the meta timer has found that the path brings nothing (Linux v1).
        kind: &'static str,
    },
    /// A congestion episode began.
    Congestion {
        /// The path.
        path: PathId,
        /// Signal that was seen.
        signal: Signal,
    },
    /// A path became usable.
    Up(PathId),
    /// A path is no longer usable.
    Down(PathId),
}

/// Takes notes.
pub trait Listener: Send {
    /// Takes a note; `conn` 0 is the connection under test.
    fn note(&mut self, now: Instant, conn: u8, note: &Note);

    /// Returns true if the note of this decision is to have the scheduler's reason, which takes a while to write out.
    /// If any listener asks for it, all get it.
    fn asks_why(&mut self, now: Instant, conn: u8, decision: Decision) -> bool {
        let _ = (now, conn, decision);
        true
    }
}

/// A listener that its owner can look at afterwards.
impl<T: Listener> Listener for Arc<Mutex<T>> {
    fn note(&mut self, now: Instant, conn: u8, note: &Note) {
        // A note can only be lost if an earlier one panicked.
        if let Ok(mut listener) = self.lock() {
            listener.note(now, conn, note);
        }
    }

    fn asks_why(&mut self, now: Instant, conn: u8, decision: Decision) -> bool {
        self.lock().is_ok_and(|mut listener| listener.asks_why(now, conn, decision))
    }
}

/// All listeners. A cloned simulation has none.
#[derive(Default)]
pub struct Listeners(Vec<Box<dyn Listener>>);

impl Listeners {
    /// Adds a listener.
    pub fn add(&mut self, listener: Box<dyn Listener>) {
        self.0.push(listener);
    }

    /// Returns true if anybody listens.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.0.is_empty()
    }

    /// Takes a note if anybody listens.
    #[inline]
    pub fn note(&mut self, now: Instant, conn: u8, note: impl FnOnce() -> Note) {
        if self.is_on() {
            self.spread(now, conn, &note());
        }
    }

    /// Returns true if anybody asks for the reason of a decision.
    pub fn asks_why(&mut self, now: Instant, conn: u8, decision: Decision) -> bool {
        self.0.iter_mut().any(|listener| listener.asks_why(now, conn, decision))
    }

    #[cold]
    fn spread(&mut self, now: Instant, conn: u8, note: &Note) {
        self.0.iter_mut().for_each(|listener| listener.note(now, conn, note));
    }
}

impl Clone for Listeners {
    fn clone(&self) -> Self {
        Self::default()
    }
}
