//! The link itself: what happens when a packet comes and goes. Changes of what was planned are in
//! `replan`.
//!
//! A packet's departure is computed when it comes: a FIFO needs no event for it. `waiting` holds the
//! departures not yet known to have passed, which is the queue; `flight` holds what will arrive, in
//! order of arrival, and only its head concerns whoever drives the link. CoDel decides when a packet
//! leaves the queue, so such a link keeps packets back and has an event for each.
//!
//! A link that neither changes nor delays, marks or reorders anything needs none of that: one ring holds its packets
//! from their departure to their arrival (`plain`), also those that it loses. Most links are so.

use weftway_path::{Bytes, Instant, Ring, Span};

use crate::arq::Repairs;
use crate::codel::{Codel, Held};
use crate::jitter::{HostJitter, Jitters};
use crate::loss::Losses;
use crate::timetable::Timetable;
use crate::wire::Wire;
use crate::{Discipline, Ecn, Limit, LinkConfig, Loss, Seeds};

mod plain;
mod replan;

use plain::Plain;
use replan::Resumed;

/// Fate of a packet at [`Link::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It waits, and will arrive unless the link fails. With CoDel it may yet be dropped, or lost on
    /// the wire: that shows only in [`Link::counts`].
    Queued,
    /// It waits and will use capacity, and then be lost on the wire.
    Lost,
    /// It was dropped.
    Dropped(Reason),
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue was full.
    Queue,
    /// The link was down.
    Down,
}

/// A packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<T> {
    /// Item that was pushed.
    pub item: T,
    /// True if it was marked "congestion experienced" on the way.
    pub ce: bool,
}

/// Counts of packets so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets offered.
    pub pushed: u64,
    /// Packets handed over.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: Bytes,
    /// Packets dropped by a full queue or by CoDel.
    pub dropped_queue: u64,
    /// Packets dropped because the link failed or was down.
    pub dropped_down: u64,
    /// Packets lost on the wire for good.
    pub lost: u64,
    /// Packets lost on the wire and repaired by the link.
    pub repaired: u64,
    /// Packets marked.
    pub marked: u64,
}

/// Direction of a bottleneck.
///
/// Times given to it must not decrease. It may be driven late: what happens does not depend on how
/// late, except that a packet cannot be pushed into the past.
#[derive(Clone, Debug)]
pub struct Link<T> {
    /// Answer of `next_event`.
    pub(crate) next: Instant,
    /// The earliest change or departure from CoDel's queue.
    pub(crate) internal: Instant,
    /// Packets under way on a plain link; then `flight` and `waiting` are empty.
    pub(crate) plain: Plain<T>,
    pub(crate) flight: Ring<Flight>,
    /// Items of the packets in `flight`: a packet that overtakes others moves 24 bytes of each, not all.
    pub(crate) items: Items<T>,
    pub(crate) waiting: Ring<Waiting>,
    /// The bytes in `waiting`.
    pub(crate) waiting_bytes: u64,
    /// Departure of the last packet in `waiting`.
    pub(crate) free_at: Instant,
    pub(crate) delay: Span,
    pub(crate) wire: Wire,
    pub(crate) noise: Noise,
    pub(crate) up: bool,
    pub(crate) limit: Room,
    marks_above: Option<Room>,
    /// Number of the next packet that reaches the wire. A plain link that loses nothing has it in its ring.
    pub(crate) serial: u64,
    /// Counts of packets so far; on a plain link only those that [`Plain::counts`] does not tell.
    pub(crate) counts: Counts,
    pub(crate) resumed: Option<Resumed>,
    pub(crate) codel: Option<Codel<T>>,
    pub(crate) dequeue_at: Instant,
    pub(crate) timetable: Timetable,
}

/// Delay and loss on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Noise {
    /// True if packets may be delayed or lost on the wire, so that there is something to draw.
    pub(crate) is_on: bool,
    pub(crate) losses: Losses,
    pub(crate) jitters: Option<Jitters>,
    pub(crate) host_jitter: Option<HostJitter>,
    pub(crate) repairs: Option<Repairs>,
    /// True if a packet that is delayed less overtakes others.
    pub(crate) reorders: bool,
}

impl Noise {
    /// Notes whether there is something to draw, with this loss.
    pub(crate) fn look(&mut self, loss: &Loss) {
        self.is_on = self.jitters.is_some() || self.host_jitter.is_some() || *loss != Loss::None;
    }
}

/// A packet whose last bit has not left yet, so far as is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) departure: Instant,
    /// Nanoseconds on top of the delay: jitter, retries, and the host's jitter.
    pub(crate) extra: i64,
    pub(crate) bytes: u32,
}

/// Room for packets that wait, in packets and in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Room {
    /// Up to `limit`.
    pub(crate) fn new(limit: Limit) -> Self {
        match limit {
            Limit::Unlimited => Self { packets: u64::MAX, bytes: u64::MAX },
            Limit::Packets(packets) => Self { packets, bytes: u64::MAX },
            Limit::Bytes(bytes) => Self { packets: u64::MAX, bytes: bytes.get() },
        }
    }
}

/// A packet that will arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) arrival: Instant,
    pub(crate) serial: u64,
    /// Its size, and in the highest bit whether it is marked.
    pub(crate) size: u32,
}

const MARKED: u32 = 1 << 31;

/// Items of packets: that of packet `n` is at `n` modulo the length, a power of two.
#[derive(Clone, Debug)]
pub(crate) struct Items<T> {
    slots: Vec<T>,
    /// No packet below this number is under way.
    low: u64,
}

impl<T: Copy> Items<T> {
    #[inline]
    fn slot(&self, serial: u64) -> usize {
        serial as usize & self.slots.len().wrapping_sub(1)
    }

    /// Keeps the item of packet `serial`, the highest number so far. `flight` tells which others are under way.
    #[inline]
    pub(crate) fn add(&mut self, serial: u64, item: T, flight: &Ring<Flight>) {
        if serial - self.low >= self.slots.len() as u64 {
            self.make_room(serial, item, flight);
        }
        let slot = self.slot(serial);
        self.slots[slot] = item;
    }

    /// Twice the room that is needed: the next packets find some without a search.
    #[cold]
    fn make_room(&mut self, serial: u64, filler: T, flight: &Ring<Flight>) {
        self.low = flight.iter().map(|flight| flight.serial).min().unwrap_or(serial);
        let room = ((serial - self.low + 1) as usize * 2).next_power_of_two().max(16);
        if room > self.slots.len() {
            let mut slots = vec![filler; room];
            flight.iter().for_each(|flight| slots[flight.serial as usize & (room - 1)] = *self.get(flight.serial));
            self.slots = slots;
        }
    }

    #[inline]
    fn get(&self, serial: u64) -> &T {
        &self.slots[self.slot(serial)]
    }
}

impl<T: Copy> Link<T> {
    /// An empty link at time zero; equal seeds behave equally.
    pub fn new(config: &LinkConfig, seed: u64) -> Self {
        Self::of_run(config, seed.into())
    }

    /// An empty link at time zero, one of those of a run.
    pub fn of_run(config: &LinkConfig, seeds: Seeds) -> Self {
        let seed = seeds.own;
        let codel = match config.queue.discipline {
            Discipline::DropTail => None,
            Discipline::CoDel { target, interval } => {
                Some(Codel::new(target, interval, config.ecn == Some(Ecn::CoDel)))
            }
        };
        let timetable = Timetable::new(config, seeds);
        let mut link = Self {
            next: Instant::NEVER,
            internal: timetable.next(),
            plain: Plain::default(),
            flight: Ring::default(),
            items: Items { slots: Vec::new(), low: 0 },
            waiting: Ring::default(),
            waiting_bytes: 0,
            free_at: Instant::ZERO,
            delay: config.delay,
            wire: Wire::new(&config.rate, Instant::ZERO),
            noise: Noise {
                is_on: false,
                losses: Losses::new(&config.loss, seed),
                jitters: config.jitter.map(|jitter| Jitters::new(jitter.distribution, seed)),
                host_jitter: HostJitter::new(config.host_jitter, seed),
                repairs: config.arq.map(|arq| Repairs::new(arq, seed)),
                reorders: config.jitter.is_some_and(|jitter| jitter.reorder),
            },
            up: true,
            limit: Room::new(config.queue.limit),
            marks_above: if let Some(Ecn::Above(limit)) = config.ecn { Some(Room::new(limit)) } else { None },
            serial: 0,
            counts: Counts::default(),
            resumed: None,
            codel,
            dequeue_at: Instant::NEVER,
            timetable,
        };
        link.noise.look(&config.loss);
        link.settle(Instant::ZERO);
        // A change at time zero has been made by now; what a plain link draws are losses.
        let loses = link.noise.is_on;
        (link.plain.is_on, link.plain.loses) = (link.is_plain() && !loses, link.is_plain() && loses);
        link
    }

    /// Returns true if nothing can happen to a packet but that it waits, that it is lost, or that the queue is full.
    fn is_plain(&self) -> bool {
        let Noise { jitters, host_jitter, repairs, .. } = &self.noise;
        let loses_at_most = jitters.is_none() && host_jitter.is_none() && repairs.is_none();
        self.up && self.internal.is_never() && loses_at_most && self.codel.is_none() && self.marks_above.is_none()
    }

    /// Offers a packet of `bytes` IP bytes (below 2 GiB).
    #[inline(always)]
    pub fn push(&mut self, now: Instant, bytes: Bytes, item: T) -> Verdict {
        self.push_with(now, bytes, || item)
    }

    /// Does as [`push`](Self::push), with an item that is made where it is kept.
    #[inline(always)]
    pub fn push_with(&mut self, now: Instant, bytes: Bytes, item: impl FnOnce() -> T) -> Verdict {
        if !self.plain.is_on && !self.plain.loses {
            return self.push_any(now, bytes, item());
        }
        let next = self.next;
        let verdict = self.push_plain(now, bytes, item);
        if self.plain.is_on || verdict != Verdict::Queued { verdict } else { self.draw_loss(now, next) }
    }

    #[inline(never)]
    fn push_any(&mut self, now: Instant, bytes: Bytes, item: T) -> Verdict {
        if self.internal <= now {
            self.settle(now);
        }
        self.counts.pushed += 1;
        if !self.up {
            self.counts.dropped_down += 1;
            return Verdict::Dropped(Reason::Down);
        }
        self.retire(now);
        if self.exceeds(self.limit, 1, bytes.get()) {
            self.counts.dropped_queue += 1;
            return Verdict::Dropped(Reason::Queue);
        }
        let marked = self.marks_above.is_some_and(|room| self.exceeds(room, 0, 0));
        let bytes = wire_bytes(bytes);
        let lost = if self.codel.is_some() {
            self.enqueue(now, Held { item, bytes, marked, since: now })
        } else {
            self.carry(now, bytes, marked, item)
        };
        // Behind others in order, it changes nothing of what is next.
        if self.flight.len() <= 1 || self.noise.reorders || !self.internal.is_never() {
            self.refresh();
        }
        if lost { Verdict::Lost } else { Verdict::Queued }
    }

    /// Time of the next call of [`pop`](Self::pop); [`Instant::NEVER`] when nothing is under way.
    #[inline]
    pub fn next_event(&self) -> Instant {
        self.next
    }

    /// A packet that has arrived by `now`. `None` does not mean that no other event is due: call it
    /// until [`next_event`](Self::next_event) is later than `now`.
    #[inline]
    pub fn pop(&mut self, now: Instant) -> Option<Delivery<T>> {
        self.pop_in_place(now).map(|(&item, ce)| Delivery { item, ce })
    }

    /// Does as [`pop`](Self::pop), where the packet is kept, and tells if it was marked: it can be read until the next
    /// one comes.
    #[inline(always)]
    pub fn pop_in_place(&mut self, now: Instant) -> Option<(&T, bool)> {
        if self.plain.is_on { self.pop_plain(now) } else { self.pop_any(now) }
    }

    #[inline(never)]
    fn pop_any(&mut self, now: Instant) -> Option<(&T, bool)> {
        if self.plain.loses {
            return self.pop_lossy(now);
        }
        if self.internal <= now {
            self.settle(now);
        }
        if self.flight.front()?.arrival > now {
            return None;
        }
        let head = self.flight.pop()?;
        self.counts.delivered += 1;
        self.counts.delivered_bytes += Bytes::new(u64::from(head.size & !MARKED));
        let (serial, ce) = (head.serial, head.size & MARKED != 0);
        self.refresh();
        Some((self.items.get(serial), ce))
    }

    /// Backlog at `now`, the packet in transmission included: packets and bytes. With CoDel, and with
    /// changes to come, call it when the events up to `now` have been popped.
    pub fn backlog(&self, now: Instant) -> (u64, Bytes) {
        let waiting = self.waiting.iter().map(|entry| (entry.departure, entry.bytes)).chain(self.plain.waiting());
        let mut packets = self.waiting.len() as u64 + self.plain.waiting_len();
        let mut bytes = self.waiting_bytes + self.plain.waiting_bytes();
        for (_, size) in waiting.take_while(|&(departure, _)| departure <= now) {
            packets -= 1;
            bytes -= u64::from(size);
        }
        let (held, held_bytes) = self.held();
        (packets + held, Bytes::new(bytes + held_bytes))
    }

    /// Wait of a packet pushed at `now` before its transmission begins, as far as is
    /// known then: changes to come and drops by CoDel are not. [`Span::MAX`] while nothing departs.
    pub fn queueing_delay(&self, now: Instant) -> Span {
        let mut free = self.free_at;
        if let Some(codel) = &self.codel {
            let mut wire = self.wire.clone();
            for held in codel.queue() {
                free = wire.depart(free.max(self.dequeue_at), Bytes::new(held.bytes.into()));
            }
        }
        if free.is_never() { Span::MAX } else { free.since(now) }
    }

    /// Counts of packets so far.
    pub fn counts(&self) -> Counts {
        if !(self.plain.is_on || self.plain.loses) {
            return self.counts;
        }
        let (passed, dropped_queue) = (self.plain.counts(), self.counts.dropped_queue);
        Counts { pushed: passed.pushed + dropped_queue, dropped_queue, ..passed }
    }

    /// Packets inside: waiting, or on their way and not lost.
    pub fn pending(&self) -> u64 {
        self.flight.len() as u64 + self.plain.len() + self.held().0
    }

    /// Items inside, in no order that means anything: for a caller that keeps packets elsewhere and
    /// must know which it may forget.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        let held = self.codel.iter().flat_map(|codel| codel.queue().iter().map(|held| &held.item));
        self.flight.iter().map(|flight| self.item(flight)).chain(self.plain.items()).chain(held)
    }

    /// Items of `flight`.
    pub(crate) fn item(&self, flight: &Flight) -> &T {
        self.items.get(flight.serial)
    }

    /// Returns true if the link is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Backlog that CoDel keeps back: packets and bytes.
    #[inline]
    pub(crate) fn held(&self) -> (u64, u64) {
        self.codel.as_ref().map_or((0, 0), |codel| (codel.queue().len() as u64, codel.bytes()))
    }

    /// Returns true if the backlog, with this much more, is above `room`.
    #[inline]
    fn exceeds(&self, room: Room, packets: u64, bytes: u64) -> bool {
        let (held, held_bytes) = self.held();
        self.waiting.len() as u64 + held + packets > room.packets
            || self.waiting_bytes + held_bytes + bytes > room.bytes
    }

    /// Forgets what has departed by `now`. Who asks for the [backlog](Self::backlog) with each packet does this before:
    /// it then has little to look at.
    #[inline]
    pub fn retire(&mut self, now: Instant) {
        self.retire_plain(now);
        while let Some(head) = self.waiting.front()
            && head.departure <= now
        {
            self.waiting_bytes -= u64::from(head.bytes);
            self.waiting.pop();
        }
    }

    /// Puts a packet on the wire as soon as it is free, and says whether the packet gets lost.
    #[inline(always)]
    pub(crate) fn carry(&mut self, now: Instant, bytes: u32, marked: bool, item: T) -> bool {
        let departure = self.wire.depart(self.free_at.max(now), Bytes::new(bytes.into()));
        self.free_at = departure;
        let (extra, lost) = if self.noise.is_on { self.disturb(departure) } else { (0, false) };
        self.waiting.push(Waiting { departure, extra, bytes });
        self.waiting_bytes += u64::from(bytes);
        self.counts.marked += u64::from(marked);
        let serial = self.serial;
        self.serial += 1;
        if lost {
            self.counts.lost += 1;
            return true;
        }
        let arrival = self.arrival(departure, extra);
        let size = if marked { bytes | MARKED } else { bytes };
        self.items.add(serial, item, &self.flight);
        self.insert(Flight { arrival, serial, size });
        false
    }

    /// Draws the fate of the next packet on the wire: nanoseconds on top of its delay, and true if it gets lost.
    fn disturb(&mut self, departure: Instant) -> (i64, bool) {
        let mut extra = self.noise.jitters.as_mut().map_or(0, |jitters| jitters.draw(departure));
        let lost = self.noise.losses.take(self.serial, departure) && !self.repair(&mut extra);
        if let Some(host_jitter) = &mut self.noise.host_jitter {
            extra = extra.saturating_add_unsigned(host_jitter.draw());
        }
        (extra, lost)
    }

    fn repair(&mut self, extra: &mut i64) -> bool {
        let Some(delay) = self.noise.repairs.as_mut().and_then(Repairs::repair) else {
            return false;
        };
        *extra = extra.saturating_add_unsigned(delay.as_nanos());
        self.counts.repaired += 1;
        true
    }

    /// Arrival of a packet that departs at `departure`, if none before it is later.
    #[inline]
    pub(crate) fn arrival(&self, departure: Instant, extra: i64) -> Instant {
        if departure.is_never() {
            return departure;
        }
        departure + Span::from_nanos(self.delay.as_nanos().saturating_add_signed(extra))
    }

    #[inline(always)]
    fn insert(&mut self, mut flight: Flight) {
        if let Some(last) = self.flight.back()
            && last.arrival > flight.arrival
        {
            if self.noise.reorders {
                let number = self.flight.partition_point(|other| other.arrival <= flight.arrival);
                return self.flight.insert(number, flight);
            }
            flight.arrival = last.arrival;
        }
        self.flight.push(flight);
    }

    /// Puts a packet into CoDel's queue, and on the wire at once if that is free.
    #[cold]
    fn enqueue(&mut self, now: Instant, held: Held<T>) -> bool {
        let Some(codel) = &mut self.codel else { return false };
        codel.push(held);
        let lost = self.counts.lost;
        if self.dequeue_at.is_never() {
            self.dequeue_at = self.wire.opening(self.free_at.max(now));
            if self.dequeue_at <= now {
                self.dequeue(now);
            }
            self.internal = self.timetable.next().min(self.dequeue_at);
        }
        self.counts.lost > lost
    }

    /// Takes a packet from CoDel's queue and puts it on the wire.
    #[cold]
    pub(crate) fn dequeue(&mut self, at: Instant) {
        let Some(codel) = &mut self.codel else { return };
        let (held, drops) = codel.pop(at);
        let more = !codel.queue().is_empty();
        self.counts.dropped_queue += drops;
        if let Some(held) = held {
            self.retire(at);
            self.carry(at, held.bytes, held.marked, held.item);
        }
        self.dequeue_at = if more { self.wire.opening(self.free_at.max(at)) } else { Instant::NEVER };
    }

    /// Brings `next` up to date.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        let head = self.flight.front().map_or(Instant::NEVER, |flight| flight.arrival);
        self.next = if self.internal.is_never() { head } else { head.min(self.next_internal()) };
    }
}

/// Sizes are kept in 32 bits, less the one that says whether a packet is marked: more than any packet or offloaded
/// burst.
const LARGEST: u64 = (MARKED - 1) as u64;

#[inline]
fn wire_bytes(bytes: Bytes) -> u32 {
    debug_assert!(bytes.get() <= LARGEST, "a packet is smaller than 2 GiB");
    bytes.get().min(LARGEST) as u32
}
