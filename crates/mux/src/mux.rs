//! The value itself: what one end knows of its connection, when a stream is over, and who may go on. What the
//! application does with it is in `application`, what leaves in `plan` and `sending`, what arrives in `receiving`.

use std::collections::{BTreeMap, VecDeque};

use weftway_host::sending::RangeSet;
use weftway_path::{Instant, Span};

use crate::arrived::Arrived;
use crate::budget::Budget;
use crate::cutter::{Cutter, Party};
use crate::datagrams::{Inbox, Outbox};
use crate::id::{Side, StreamId};
use crate::incoming::Incoming;
use crate::limits::{ARRIVED_EVERY, CLASSES, FIRST_RECORD, FIRST_RTT, LARGEST_RECORD, Limits, LimitsError, slot};
use crate::outgoing::Outgoing;
use crate::records::Records;
use crate::stream::{Opening, Stream, WriterWaits};

/// Event that lets the application go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// A stream waits for [`Mux::accept`].
    Accept,
    /// [`Mux::open`] was refused, and need not be any more.
    Open,
    /// [`Mux::read`] found nothing, and now finds bytes, the end, or a reset. Of a reset it tells in any case, if
    /// [`Ready::Write`] does not.
    Read(StreamId),
    /// [`Mux::write`] did not take everything, and now takes more, or tells of a reset.
    Write(StreamId),
    /// A datagram waits for [`Mux::next_datagram`].
    Datagram,
}

/// Counts of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams whose deadline passed before they were cut.
    pub datagrams_expired: u64,
    /// Datagrams that arrived and were dropped, since the application took none.
    pub datagrams_dropped: u64,
    /// Records that came again.
    pub duplicates: u64,
}

/// Frames that wait to be cut and belong to no stream's bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    pub resets: VecDeque<(StreamId, u32)>,
    pub credits: VecDeque<StreamId>,
    pub limit: bool,
    pub question: bool,
    /// The limit that the peer was told last: how many streams, and what has arrived.
    pub told: (u64, u64),
}

/// Many streams and datagrams over one connection: the end of one peer.
#[derive(Clone, Debug)]
pub struct Mux {
    pub(crate) side: Side,
    pub(crate) own: Limits,
    pub(crate) peer: Limits,
    pub(crate) rtt: Span,
    /// Bytes of a full record.
    record: usize,
    /// Number of connections that have carried it before this one.
    pub(crate) connection: u64,
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    /// Number of streams that this end has opened.
    pub(crate) opened: u64,
    /// Number of streams that it may open in all.
    pub(crate) may_open: u64,
    pub(crate) wants_open: bool,
    /// The numbers of the peer's streams that are over.
    pub(crate) gone: RangeSet,
    /// Highest number of a stream of the peer's, and one.
    pub(crate) seen: u64,
    pub(crate) offered: VecDeque<StreamId>,
    /// [`Ready::Accept`] is among those that wait.
    pub(crate) told_to_accept: bool,
    pub(crate) cutter: Cutter,
    pub(crate) control: Control,
    pub(crate) records: Records,
    pub(crate) arrived: Arrived,
    pub(crate) peer_arrived: u64,
    pub(crate) budget: Budget,
    pub(crate) outbox: Outbox,
    pub(crate) inbox: Inbox,
    /// Bytes of all streams that wait to be cut.
    pub(crate) waiting: u64,
    /// Frames that were taken back and wait to be cut again.
    pub(crate) again: usize,
    /// Streams whose writers wait for memory, the longest first.
    pub(crate) writers: [VecDeque<StreamId>; CLASSES],
    pub(crate) ready: VecDeque<Ready>,
    pub(crate) duplicates: u64,
}

impl Mux {
    /// This end is `side`, and takes as much as `own` says; the other end as much as `peer` says. The other end has the
    /// same two, the other way round.
    pub fn new(side: Side, own: Limits, peer: Limits) -> Result<Self, LimitsError> {
        peer.free()?;
        let budget = Budget::new(own.free()?.get());
        Ok(Self {
            side,
            own,
            peer,
            rtt: FIRST_RTT,
            record: FIRST_RECORD,
            connection: 0,
            streams: BTreeMap::new(),
            opened: 0,
            may_open: peer.streams,
            wants_open: false,
            gone: RangeSet::default(),
            seen: 0,
            offered: VecDeque::new(),
            told_to_accept: false,
            cutter: Cutter::default(),
            control: Control { told: (own.streams, 0), ..Control::default() },
            records: Records::default(),
            arrived: Arrived::default(),
            peer_arrived: 0,
            budget,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            waiting: 0,
            again: 0,
            writers: Default::default(),
            ready: VecDeque::new(),
            duplicates: 0,
        })
    }

    /// This end of the connection.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Limits of this end, and of the other one.
    pub fn limits(&self) -> (Limits, Limits) {
        (self.own, self.peer)
    }

    /// The round-trip time that credit is reckoned with: the longest smoothed one of the paths in use. 100 ms at first.
    pub fn set_rtt(&mut self, rtt: Span) {
        self.rtt = rtt;
    }

    /// Bytes of a full record, as the owner of the connection said last.
    pub fn record(&self) -> usize {
        self.record
    }

    /// Full records have so many bytes from now on. A datagram that waits and is longer is dropped, and counts as one
    /// whose deadline has passed: those behind it would wait for it.
    pub fn set_record(&mut self, bytes: usize) {
        if bytes < self.record {
            let (cutter, before) = (&mut self.cutter, self.outbox.expired());
            self.outbox.shorten(bytes, |class| cutter.leave(class, Party::Datagrams));
            if self.outbox.expired() > before {
                self.wake_writers();
            }
        }
        self.record = bytes;
    }

    pub(crate) fn new_stream(&self, now: Instant, opening: Opening) -> Stream {
        Stream::new(now, opening, self.own.first_credit.get(), self.peer.first_credit.get())
    }

    /// Stream `id` of the peer waits to be accepted.
    pub(crate) fn offer(&mut self, id: StreamId) {
        self.offered.push_back(id);
        if !std::mem::replace(&mut self.told_to_accept, true) {
            self.ready.push_back(Ready::Accept);
        }
    }

    pub(crate) fn want_credit(&mut self, id: StreamId, due: bool) {
        if let Some(stream) = self.streams.get_mut(&id)
            && due
            && !stream.credit_due
        {
            stream.credit_due = true;
            self.control.credits.push_back(id);
        }
    }

    /// Counts so far.
    pub fn counts(&self) -> Counts {
        Counts {
            datagrams_expired: self.outbox.expired(),
            datagrams_dropped: self.inbox.dropped(),
            duplicates: self.duplicates,
        }
    }

    /// Number of streams that are open, or over and not known to be so by the application.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// The memory for what has arrived on streams and is not taken, in bytes; at most [`Limits::receive`].
    pub fn receive_memory(&self) -> usize {
        self.streams.values().map(|stream| stream.incoming.memory()).sum()
    }

    /// Bytes that have arrived on stream `id` and are left there by a reader that has taken nothing for a second. 0 if
    /// the reader reads, or waits for more.
    pub fn left_unread(&self, now: Instant, id: StreamId) -> u64 {
        let incoming = self.streams.get(&id).map(|stream| &stream.incoming);
        incoming.filter(|incoming| incoming.has_stopped(now)).map_or(0, Incoming::unread)
    }

    /// The memory to receive that is promised to no stream, in bytes.
    pub fn free_memory(&self) -> u64 {
        self.budget.free()
    }

    /// The memory for what was written and is not acknowledged, in bytes: at most [`Limits::send`], and the heads of
    /// frames.
    pub fn send_memory(&self) -> u64 {
        self.waiting + self.outbox.memory() + self.records.bytes()
    }

    pub(crate) fn room(&self, class: u8) -> u64 {
        self.own.send_share(class).saturating_sub(self.send_memory())
    }

    /// Datagrams have a part of the memory for themselves. What they have under way counts as that of streams does.
    pub(crate) fn datagram_room(&self) -> u64 {
        let share = self.own.datagram_share().saturating_sub(self.outbox.memory());
        share.min(self.own.send.get().saturating_sub(self.send_memory()))
    }

    /// Memory is free again: writers that wait for it go on, in their order.
    pub(crate) fn wake_writers(&mut self) {
        for class in 0..CLASSES {
            let share = self.own.send_share(class as u8);
            while self.room(class as u8) >= (share / 2).min(LARGEST_RECORD as u64)
                && let Some(id) = self.writers[class].pop_front()
            {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.in_writers = false;
                    self.wake_writer(id, WriterWaits::Memory);
                }
            }
        }
    }

    /// The writer of stream `id` goes on, if it waits for this.
    pub(crate) fn wake_writer(&mut self, id: StreamId, what: WriterWaits) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.writer_waits == what
        {
            stream.writer_waits = WriterWaits::No;
            self.ready.push_back(Ready::Write(id));
        }
    }

    /// Opening goes on, if it waits and may.
    pub(crate) fn wake_opener(&mut self) {
        if self.wants_open && self.opened < self.may_open && self.budget.free() >= slot(self.own.first_credit).get() {
            self.wants_open = false;
            self.ready.push_back(Ready::Open);
        }
    }

    /// Drops the datagrams whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Instant) {
        let (cutter, before) = (&mut self.cutter, self.outbox.expired());
        self.outbox.expire(now, |class| cutter.leave(class, Party::Datagrams));
        if self.outbox.expired() > before {
            self.wake_writers();
        }
    }

    /// Stream `id` takes turns in cutting, if it has anything to cut.
    pub(crate) fn join(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !stream.in_turn
            && stream.has_more()
        {
            stream.in_turn = true;
            self.cutter.join(stream.cut_as, Party::Stream(id));
        }
    }

    /// Drops everything that stream `id` holds. It stays, for its application to learn why.
    pub(crate) fn silence(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let outgoing = std::mem::replace(&mut stream.outgoing, Outgoing::new(0));
        stream.incoming.clear(&mut self.budget);
        self.waiting -= outgoing.waiting();
        self.again -= outgoing.again();
        self.records.move_hole(id, outgoing.hole(), None);
        if std::mem::take(&mut stream.in_turn) {
            self.cutter.leave(stream.cut_as, Party::Stream(id));
        }
    }

    /// Stream `id` is over. What still arrives of it is not looked at.
    pub(crate) fn forget(&mut self, id: StreamId) {
        self.silence(id);
        if self.streams.remove(&id).is_none() {
            return;
        }
        if id.opener() == self.side {
            self.budget.give(slot(self.own.first_credit).get());
        } else {
            self.gone.insert(id.number(), id.number() + 1, |_, _| ());
            self.note_limit();
        }
        self.wake_opener();
        self.wake_writers();
    }

    pub(crate) fn forget_if_over(&mut self, id: StreamId) {
        if self.streams.get(&id).is_some_and(Stream::is_over) {
            self.forget(id);
        }
    }

    /// Number of streams that the peer may open in all, and the end of the data that have arrived from it.
    pub(crate) fn limit(&self) -> (u64, u64) {
        (self.own.streams + self.gone.total(), self.arrived.next().get())
    }

    /// Tells the peer a new limit if it needs to know: less than half of its streams are left to open, or much has
    /// arrived.
    pub(crate) fn note_limit(&mut self) {
        let ((streams, arrived), (told_streams, told_arrived)) = (self.limit(), self.control.told);
        let scarce = told_streams.saturating_sub(self.seen) < (self.own.streams / 2).max(1);
        self.control.limit |= streams > told_streams && scarce || arrived - told_arrived >= ARRIVED_EVERY;
    }
}
