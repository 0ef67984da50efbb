//! A link on which nothing changes: no jitter, no marks, no changes to come, a queue that drops its tail.
//!
//! What is pushed first arrives first, one delay after its departure, so one ring is enough: the packets that have
//! departed come before those that wait. One that the wire loses is in the ring as well, because it waits as others do;
//! its number is in a list. The first change from outside moves everything to the rings of the general case.

use weftway_path::{Bytes, Instant, Ring, Span};

use super::{Counts, Flight, LARGEST, Link, Reason, Verdict, Waiting};

/// Packets under way on a plain link. A packet's number in the ring is its serial.
#[derive(Clone, Debug)]
pub(crate) struct Plain<T> {
    /// True if the link is plain and loses nothing.
    pub(crate) is_on: bool,
    /// True if it is plain, but for packets that it loses.
    pub(crate) loses: bool,
    ring: Ring<Carried<T>>,
    /// The first packet not known to have departed.
    waiting: u64,
    /// The bytes of all packets that were ever in the ring.
    bytes: u64,
    /// The numbers of packets in the ring that will not arrive.
    lost: Ring<u64>,
    /// The first of these; the largest number without one.
    first_lost: u64,
    /// Lost packets that have left the ring: their number and bytes.
    gone: (u64, u64),
}

/// A packet, from when it is pushed until it arrives.
#[derive(Clone, Copy, Debug)]
struct Carried<T> {
    departure: Instant,
    /// The bytes of all packets before it.
    before: u64,
    item: T,
}

impl<T> Default for Plain<T> {
    fn default() -> Self {
        let (ring, lost) = (Ring::default(), Ring::default());
        Self { is_on: false, loses: false, ring, waiting: 0, bytes: 0, lost, first_lost: u64::MAX, gone: (0, 0) }
    }
}

impl<T: Copy> Plain<T> {
    /// Number of packets that are under way and will arrive.
    pub(crate) fn len(&self) -> u64 {
        (self.ring.len() - self.lost.len()) as u64
    }

    /// Returns true if packet `serial`, which is in the ring, is lost.
    fn is_lost(&self, serial: u64) -> bool {
        self.lost.get(self.lost.partition_point(|&lost| lost < serial)) == Some(&serial)
    }

    /// Items that will arrive.
    fn arriving(&self) -> impl Iterator<Item = &Carried<T>> {
        let serials = (self.ring.base()..self.ring.end()).filter(|&serial| !self.is_lost(serial));
        serials.map(|serial| &self.ring[serial])
    }

    /// Packet `serial`, the newest, will not arrive.
    fn lose(&mut self, serial: u64) {
        self.lost.push(serial);
        self.first_lost = self.first_lost.min(serial);
    }

    /// The oldest packet leaves the ring if it is lost and has departed by `now`; whether it did.
    fn forget_lost(&mut self, now: Instant) -> bool {
        let serial = self.ring.base();
        let leaves = self.first_lost == serial && self.ring[serial].departure <= now;
        if leaves {
            self.gone = (self.gone.0 + 1, self.gone.1 + u64::from(self.size(serial)));
            self.ring.forget_below(serial + 1);
            self.lost.pop();
            self.first_lost = self.lost.front().copied().unwrap_or(u64::MAX);
            self.waiting = self.waiting.max(serial + 1);
        }
        leaves
    }

    /// The number of the first packet from `serial` on that will arrive, where none before that is lost.
    #[inline]
    fn first_arriving(&self, mut serial: u64) -> u64 {
        let mut number = self.lost.base();
        while self.lost.get(number) == Some(&serial) {
            (number, serial) = (number + 1, serial + 1);
        }
        serial
    }

    /// Number of packets that are not known to have departed.
    #[inline]
    pub(crate) fn waiting_len(&self) -> u64 {
        self.ring.end() - self.waiting
    }

    /// Their bytes.
    #[inline]
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.bytes - self.before(self.waiting)
    }

    /// Departures and sizes of those.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Instant, u32)> {
        (self.waiting..self.ring.end()).map(|serial| (self.ring[serial].departure, self.size(serial)))
    }

    /// The bytes of all packets before number `serial`, which is not gone.
    #[inline]
    fn before(&self, serial: u64) -> u64 {
        self.ring.get(serial).map_or(self.bytes, |carried| carried.before)
    }

    /// The bytes of packet `serial`, which is under way.
    fn size(&self, serial: u64) -> u32 {
        (self.before(serial + 1) - self.before(serial)).min(LARGEST) as u32
    }

    /// Counts of the packets that found room, as their ring tells it.
    pub(crate) fn counts(&self) -> Counts {
        let (gone, gone_bytes) = self.gone;
        Counts {
            pushed: self.ring.end(),
            delivered: self.ring.base() - gone,
            delivered_bytes: Bytes::new(self.before(self.ring.base()) - gone_bytes),
            lost: gone + self.lost.len() as u64,
            ..Counts::default()
        }
    }

    /// Items under way.
    pub(crate) fn items(&self) -> impl Iterator<Item = &T> {
        self.arriving().map(|carried| &carried.item)
    }

    /// Items that will arrive, with their times.
    pub(crate) fn arrivals(&self, delay: Span) -> impl Iterator<Item = (Instant, &T)> {
        self.arriving().map(move |carried| (carried.departure + delay, &carried.item))
    }
}

impl<T: Copy> Link<T> {
    /// [`Link::push`] on a plain link.
    #[inline(always)]
    pub(crate) fn push_plain(&mut self, now: Instant, bytes: Bytes, item: impl FnOnce() -> T) -> Verdict {
        if self.lacks_room(bytes) {
            self.retire_plain(now);
            if self.lacks_room(bytes) {
                self.counts.dropped_queue += 1;
                return Verdict::Dropped(Reason::Queue);
            }
        }
        debug_assert!(bytes.get() <= LARGEST, "a packet is smaller than 2 GiB");
        let departure = self.wire.depart(self.free_at.max(now), bytes);
        self.free_at = departure;
        if self.plain.ring.is_empty() {
            self.next = departure + self.delay;
        }
        let before = self.plain.bytes;
        self.plain.bytes = before + bytes.get();
        self.plain.ring.push_with(|| Carried { departure, before, item: item() });
        Verdict::Queued
    }

    /// A link that is plain but for losses has taken a packet: whether it is lost. Before it the next event was at
    /// `next`.
    #[inline(never)]
    pub(crate) fn draw_loss(&mut self, now: Instant, next: Instant) -> Verdict {
        let (serial, departure) = (self.serial, self.free_at);
        self.serial += 1;
        if self.noise.losses.take(serial, departure) {
            self.next = next;
            self.plain.lose(serial);
            // Where nearly all is lost, too, the ring does not grow.
            while self.plain.forget_lost(now) {}
            return Verdict::Lost;
        }
        self.next = if next.is_never() { departure + self.delay } else { next };
        Verdict::Queued
    }

    /// Returns true if the queue has no room for another packet of `bytes`, unless some of those that wait have
    /// departed.
    #[inline]
    fn lacks_room(&self, bytes: Bytes) -> bool {
        self.plain.waiting_len() >= self.limit.packets
            || self.limit.bytes != u64::MAX && self.plain.waiting_bytes() + bytes.get() > self.limit.bytes
    }

    /// Forgets what has departed by `now`.
    #[inline]
    pub(crate) fn retire_plain(&mut self, now: Instant) {
        while let Some(head) = self.plain.ring.get(self.plain.waiting)
            && head.departure <= now
        {
            self.plain.waiting += 1;
        }
    }

    /// [`Link::pop`] on a plain link.
    #[inline(always)]
    pub(crate) fn pop_plain(&mut self, now: Instant) -> Option<(&T, bool)> {
        if self.next > now {
            return None;
        }
        let Plain { ring, waiting, .. } = &mut self.plain;
        let serial = ring.base();
        let (head, behind) = ring.pop_with_next()?;
        if *waiting == serial {
            *waiting += 1;
        }
        self.next = behind.map_or(Instant::NEVER, |behind| behind.departure + self.delay);
        Some((&head.item, false))
    }

    /// [`Link::pop`] on a link that is plain but for losses.
    #[inline(always)]
    pub(crate) fn pop_lossy(&mut self, now: Instant) -> Option<(&T, bool)> {
        let Plain { ring, first_lost, .. } = &self.plain;
        if first_lost - ring.base() > 1 { self.pop_plain(now) } else { self.pop_beside_lost(now) }
    }

    /// Pops where one of the two oldest packets is lost.
    #[inline(never)]
    fn pop_beside_lost(&mut self, now: Instant) -> Option<(&T, bool)> {
        if self.next > now {
            return None;
        }
        // What is lost before the packet that arrives has departed before it.
        while self.plain.forget_lost(now) {}
        let plain = &mut self.plain;
        let serial = plain.ring.base();
        let behind = plain.ring.get(plain.first_arriving(serial + 1));
        self.next = behind.map_or(Instant::NEVER, |behind| behind.departure + self.delay);
        plain.waiting = plain.waiting.max(serial + 1);
        Some((&plain.ring.pop()?.item, false))
    }

    /// The link is plain no more: what is under way goes to the rings of the general case.
    #[cold]
    pub(crate) fn leave_plain(&mut self) {
        self.counts = self.counts();
        let plain = core::mem::take(&mut self.plain);
        if !(plain.is_on || plain.loses) {
            return;
        }
        self.serial = plain.ring.end();
        self.waiting_bytes = plain.waiting_bytes();
        for (serial, &Carried { departure, item, .. }) in (plain.ring.base()..).zip(plain.ring.iter()) {
            let bytes = plain.size(serial);
            if !plain.is_lost(serial) {
                self.items.add(serial, item, &self.flight);
                self.flight.push(Flight { arrival: departure + self.delay, serial, size: bytes });
            }
            if serial >= plain.waiting {
                self.waiting.push(Waiting { departure, extra: 0, bytes });
            }
        }
    }
}
