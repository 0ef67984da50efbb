//! A transport as a host sees it.

use weftway_path::{Context, Decision, Instant, Offset};

use crate::Host;

/// A connection that asks a scheduler.
pub trait Transport {
    /// State that is kept for the scheduler.
    fn host(&self) -> &Host;

    /// State that is kept for the scheduler, to change.
    fn host_mut(&mut self) -> &mut Host;

    /// The transport as the scheduler sees it now. It has a packet if one is at hand and may go.
    fn context(&self) -> Context<'_>;

    /// Carries `decision` out, or refuses it and does nothing. It is never asked to carry [`Decision::Wait`].
    fn carry(&mut self, decision: Decision) -> Result<Carried, Refusal>;

    /// The scheduler waits: it is not asked again until something happens.
    fn pause(&mut self);

    /// Returns true if the question comes again by itself, as with a host that asks at intervals: then a scheduler may
    /// always wait.
    fn asks_again(&self) -> bool {
        false
    }

    /// Arms the timer that ends with [`weftway_path::Event::Wake`]; [`Host::woken`] says whether it is due. The time
    /// lies ahead. A host without timers does nothing, and offers no wake-ups.
    fn wake_at(&mut self, at: Instant) {
        let _ = at;
    }

    /// Returns true if the log takes the reason of this decision: the scheduler writes it out only then.
    fn asks_why(&mut self, decision: Decision) -> bool {
        let _ = decision;
        true
    }

    /// Writes a decision and its reason to the log, if there is one. Told only if [`Host::explains`].
    fn log(&mut self, decided: Decided) {
        let _ = decided;
    }
}

/// A decision that was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// A packet was sent, or joined its path's queue.
    Packet,
    /// A path's queue was taken back.
    Queue,
    /// There was nothing to carry: no unsent packet for `Ahead`, no packet to repeat, nothing to take back.
    Nothing,
}

/// Why a transport does not carry a decision out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no such path, it is full, or it may not send now.
    Path,
    /// There is no packet at hand.
    NoPacket,
    /// The transport does not do such a thing for this scheduler.
    Unsupported,
}

/// A decision, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The packet at hand, if there was one.
    pub offset: Option<Offset>,
    /// The decision.
    pub decision: Decision,
    /// The scheduler's reason.
    pub why: Option<String>,
}
