//! CoDel: drops (or marks) when packets have waited too long for too long.
//!
//! At each departure from the queue: once the sojourn time has been at least `target` for `interval`,
//! drop, and drop again after interval/√count while it stays so. RFC 8289 §5, whose names are used.
//! State: when the time above the target runs out, whether it is dropping, when it drops next, how
//! often it dropped in this episode. Deviation: marks take the place of drops as in Linux, one packet
//! at a time.

use std::collections::VecDeque;

use weftway_path::{Instant, Span};

/// A packet that waits, with whatever the link needs to know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<T> {
    pub(crate) item: T,
    pub(crate) bytes: u32,
    pub(crate) marked: bool,
    pub(crate) since: Instant,
}

/// A queue under CoDel.
#[derive(Clone, Debug)]
pub(crate) struct Codel<T> {
    target: Span,
    interval: Span,
    marks: bool,
    queue: VecDeque<Held<T>>,
    bytes: u64,
    largest: u64,
    first_above: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u64,
    last_count: u64,
}

impl<T: Copy> Codel<T> {
    pub(crate) fn new(target: Span, interval: Span, marks: bool) -> Self {
        Self {
            target,
            interval,
            marks,
            queue: VecDeque::new(),
            bytes: 0,
            largest: 0,
            first_above: None,
            dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    pub(crate) fn queue(&self) -> &VecDeque<Held<T>> {
        &self.queue
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn push(&mut self, held: Held<T>) {
        self.bytes += u64::from(held.bytes);
        self.largest = self.largest.max(u64::from(held.bytes));
        self.queue.push_back(held);
    }

    /// Empties the queue and says how many packets were in it.
    pub(crate) fn clear(&mut self) -> u64 {
        let packets = self.queue.len() as u64;
        self.queue.clear();
        self.bytes = 0;
        self.first_above = None;
        packets
    }

    /// The packet that leaves at `now`, if one is left, and how many were dropped before it.
    pub(crate) fn pop(&mut self, now: Instant) -> (Option<Held<T>>, u64) {
        let (mut packet, mut too_long) = self.take(now);
        let mut drops = 0;
        if self.dropping {
            self.dropping = too_long;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if self.mark(&mut packet) {
                    self.drop_next = self.control_law(self.drop_next);
                    break;
                }
                drops += 1;
                (packet, too_long) = self.take(now);
                self.dropping = too_long;
                if too_long {
                    self.drop_next = self.control_law(self.drop_next);
                }
            }
        } else if too_long {
            if !self.mark(&mut packet) {
                drops += 1;
                (packet, _) = self.take(now);
            }
            self.start_dropping(now);
        }
        (packet, drops)
    }

    /// The next packet, and whether the queue has been too slow for long enough to drop it.
    fn take(&mut self, now: Instant) -> (Option<Held<T>>, bool) {
        let Some(packet) = self.queue.pop_front() else {
            self.first_above = None;
            return (None, false);
        };
        self.bytes -= u64::from(packet.bytes);
        if now.since(packet.since) < self.target || self.bytes <= self.largest {
            self.first_above = None;
            return (Some(packet), false);
        }
        let first_above = *self.first_above.get_or_insert(now + self.interval);
        (Some(packet), now >= first_above)
    }

    fn mark(&self, packet: &mut Option<Held<T>>) -> bool {
        if let (true, Some(packet)) = (self.marks, packet) {
            packet.marked = true;
            return true;
        }
        false
    }

    /// A new episode. If the last one was recent, it starts at the rate that had worked then.
    fn start_dropping(&mut self, now: Instant) {
        let delta = self.count - self.last_count;
        let recent = now.since(self.drop_next) < self.interval * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.dropping = true;
        self.drop_next = self.control_law(now);
    }

    /// interval / √count after `from`, the root exact to 2⁻¹⁶.
    fn control_law(&self, from: Instant) -> Instant {
        from + self.interval.mul_div(1 << 16, (self.count << 32).isqrt())
    }
}
