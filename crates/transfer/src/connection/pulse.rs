//! Signs of life: of the other end, and of this one for it.
//!
//! A connection may be alive while the program behind it is not: it has stopped, or it means ill. Each end therefore
//! waits for the other one only so long. An end that has work of its own to do, such as reading a large file, says so
//! now and then.

use weftway_path::{Instant, Span};

use crate::failure::Failure;

/// An end that is at work and has nothing else to say says so this often. The other one waits several times as long.
const WORKING: Span = Span::from_secs(5);

/// Signs of life of the other end.
pub(crate) struct Pulse {
    /// Count of what had come when something came last.
    mark: u64,
    /// Instant of that.
    since: Instant,
    /// Instant from which this end may say again that it is at work.
    work_at: Instant,
}

impl Pulse {
    /// Both ends begin now.
    pub fn new(now: Instant) -> Self {
        Self { mark: 0, since: now, work_at: now + WORKING }
    }

    /// Looks whether anything came: `mark` counts it. It is not the other end's fault that nothing came if this one is
    /// busy.
    pub fn look(&mut self, now: Instant, mark: u64, is_busy: bool, patience: Span) -> Result<(), Failure> {
        if mark != self.mark || is_busy {
            (self.mark, self.since) = (mark, now);
        }
        if self.since + patience < now { Err(Failure::Stalled) } else { Ok(()) }
    }

    /// Returns true if this end is to say that it is at work.
    pub fn is_due(&mut self, now: Instant, is_busy: bool) -> bool {
        let due = is_busy && self.work_at <= now;
        if due || !is_busy {
            self.work_at = now + WORKING;
        }
        due
    }
}

/// Time without progress after which something is stuck on a silent path: data, or what is said beside them.
const PATIENCE: Span = Span::from_secs(3);

/// Progress of a transfer.
#[derive(Default)]
pub(crate) struct Advance {
    /// Bytes that had arrived in order.
    bytes: u64,
    /// Instant at which these became more, or of the last look that found it stuck.
    since: Instant,
}

impl Advance {
    /// Takes in how many bytes have arrived in order. Returns true if these were as many for a while.
    pub fn is_stuck(&mut self, now: Instant, bytes: u64) -> bool {
        let (is_same, is_stuck) = (bytes == self.bytes, self.since + PATIENCE < now);
        if !is_same || is_stuck {
            *self = Self { bytes, since: now };
        }
        is_same && is_stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_is_given_up_when_nothing_came_for_so_long_and_this_one_was_idle() {
        let (at, patience) = (Instant::from_millis, Span::from_secs(40));
        let mut pulse = Pulse::new(at(1000));
        let mut look = |ms, mark, busy| pulse.look(at(ms), mark, busy, patience).is_ok();
        assert!(look(41_000, 0, false));
        assert!(look(41_001, 1, false), "something came");
        assert!(look(81_001, 1, false));
        assert!(look(90_000, 1, true), "this end is busy");
        assert!(look(130_000, 1, false));
        assert!(!look(130_001, 1, false));
    }

    #[test]
    fn who_is_at_work_says_so_every_five_seconds() {
        let at = Instant::from_millis;
        let mut pulse = Pulse::new(at(0));
        let due: Vec<bool> = [4999, 5000, 5001, 9999, 10_000].map(|ms| pulse.is_due(at(ms), true)).into();
        assert_eq!(due, [false, true, false, false, true]);
        assert!(!pulse.is_due(at(20_000), false), "it has nothing to do");
        assert!(!pulse.is_due(at(20_001), true));
    }
}
