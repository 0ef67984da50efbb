//! The layer between a scheduler and the packets of one connection, whatever carries them.
//!
//! A transport that sends keeps one [`Dispatch`] and implements [`Carrier`] over its [`Data`]; in return it is a
//! [`Transport`]:
//!
//! | decided here | supplied by the transport |
//! |---|---|
//! | which packet is next: what was handed back, else what was never sent | what there is to send ([`Data`]), where a packet ends |
//! | whether the scheduler must be asked ([`prepare`]) | whether a path can take a packet ([`Question::note`]) |
//! | what each decision means, and what is refused | how a packet leaves ([`Carrier::place`]), what waits in queues |
//! | when the scheduler is told of a shut window or a full buffer | what the transport does about it ([`Carrier::blocked`]) |
//!
//! A question sends nothing. The only place where a transport sends unasked in between is [`Carrier::blocked`].

mod carrier;
mod carry;
mod closing;
mod prepare;

use weftway_path::{
    BlockedReason, Bytes, Context, Event, Flow, Instant, Message, Offset, PathId, PathSet, SendKind, Span,
};

use super::{Assigned, Outbox, Policy, Question, SentPacket, Views};
use crate::Host;

pub use self::carrier::{Carrier, Data, write_up};
pub use self::carry::assign;
pub use self::prepare::prepare;

/// Time that a shut window may stay silent before the sender asks.
pub const PROBE_AFTER: Span = Span::from_millis(200);

/// The sending half of a connection, above its paths.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// State that is kept for the scheduler.
    pub host: Host,
    /// The data.
    pub outbox: Outbox,
    /// The data, as schedulers see them.
    pub flow: Flow,
    /// The paths, as schedulers see them.
    pub views: Views,
    /// Which of them it is offered, where a policy says so.
    pub policy: Option<Box<Policy>>,
    /// Paths whose first packet sets their window by what others have shown.
    beginning: PathSet,
    /// Question to the scheduler.
    pub question: Question,
    /// Time to ask about a shut window.
    pub probe_at: Instant,
    /// QUIC: the most that the receiver's limit is ever beyond what it has read, where that limit is all that tells
    /// what has arrived.
    pub largest_window: Option<Bytes>,
    /// Time at which the message of the flow was written, if one is known.
    message_written: Option<Instant>,
    /// The payload of a full packet.
    mss: u64,
}

impl Dispatch {
    /// Sending half of a connection whose packets have `mss` bytes of payload and whose receiver announces `edge`.
    /// Nothing is written, and no path is usable.
    pub fn new(mss: Bytes, views: Views, edge: Offset) -> Self {
        Self {
            host: Host::default(),
            outbox: Outbox::default(),
            flow: Flow { edge, ..Flow::default() },
            question: Question::new(views.len()),
            views,
            policy: None,
            beginning: PathSet::EMPTY,
            probe_at: Instant::NEVER,
            largest_window: None,
            message_written: None,
            mss: mss.get(),
        }
    }

    /// Decisions come from the scheduler that `host` was made for.
    pub fn set_host(&mut self, host: Host) {
        self.host = host;
        self.note_policy();
    }

    /// Notes what is asked together: the scheduler's needs, and whether a policy is there.
    fn note_policy(&mut self) {
        self.host.acts_without_room = self.host.needs.recall || self.policy.is_some();
        self.host.notes_sent = self.host.needs.events || self.policy.is_some();
    }

    /// Sets the payload of a full packet to `mss` bytes from now on. What is cut stays as it is.
    pub fn set_mss(&mut self, mss: Bytes) {
        self.mss = mss.get();
    }

    /// Notes that path `id` has come up, and whether its first packet sets its window by what others have shown
    /// ([`Carrier::begin`]).
    pub fn set_beginning(&mut self, id: PathId, beside: bool) {
        self.beginning = self.beginning.put(id, beside);
    }

    /// The question as it stands.
    #[inline]
    pub fn context(&self, now: Instant) -> Context<'_> {
        let (paths, open) = (self.views.usable(), self.question.open);
        debug_assert_eq!(open, PathSet::open(paths), "the paths that may send are kept");
        Context { now, paths, open, packet: self.question.packet(), flow: Some(&self.flow) }
    }

    /// Returns true if the peer's window holds back data that are ready.
    #[inline]
    pub fn is_shut(&self) -> bool {
        self.outbox.is_blocked_by(self.flow.edge)
    }

    /// Returns true if a scheduler could put anything anywhere. One that uses queues looks at their room.
    #[inline]
    fn has_room(&self) -> bool {
        let paths = if self.host.needs.queueing { self.question.queue_open } else { self.question.open };
        !paths.is_empty()
    }

    /// Returns true if path `id` takes the next packet, or another one, from this scheduler.
    #[inline]
    fn takes(&self, id: PathId) -> bool {
        self.question.open.contains(id)
            || (self.host.needs.queueing && (self.question.queue_open.contains(id) || self.fits(id)))
    }

    /// Returns true if the queue of path `id` has room for the next packet, be it no full one.
    fn fits(&self, id: PathId) -> bool {
        self.views.offered().contains(id) && {
            let view = self.views.get(id);
            view.blocked != BlockedReason::Transport && view.queue_room >= self.question.packet.bytes
        }
    }

    /// Notes how much the queue of path `id` still takes.
    #[inline]
    pub fn set_queue_room(&mut self, id: PathId, room: Bytes) {
        let offered = self.views.offered().contains(id);
        let view = self.views.get_mut(id);
        view.queue_room = room;
        let open = offered && view.blocked != BlockedReason::Transport && room >= view.mss;
        self.question.queue_open = self.question.queue_open.put(id, open);
    }

    /// Returns true if something is there that a path with room would carry.
    #[inline(always)]
    pub fn wants_room(&mut self) -> bool {
        let copies = self.host.needs.copies && self.outbox.has_sent();
        let fresh = self.flow.unsent > Bytes::ZERO || self.question.next.is_some();
        fresh || copies || self.outbox.first_reinjection().is_some()
    }

    /// The part of the flow that acknowledgements and packets move. MPTCP's DATA_ACK comes with the window in one
    /// message. QUIC acknowledges packets on their own path and raises the limit on any: a limit that overtakes a slow
    /// path's acknowledgements tells that all but a buffer below it was read (RFC 9000 §4.1). The send buffer keeps it
    /// all the same.
    #[inline]
    fn sync_una(&mut self) {
        let (flow, outbox) = (&mut self.flow, &self.outbox);
        (flow.una, flow.next) = (outbox.una(), outbox.next());
        if let Some(window) = self.largest_window {
            flow.acked = Some(flow.una);
            flow.una = flow.una.max(Offset::ZERO + flow.edge.since(Offset::ZERO + window));
        }
    }

    /// The flow after a packet of this turn: nothing was acknowledged meanwhile.
    #[inline(always)]
    fn sync_sent(&mut self) {
        let (flow, outbox) = (&mut self.flow, &self.outbox);
        flow.next = outbox.next();
        flow.unsent = Bytes::new(flow.end.get().saturating_sub(outbox.cut_at().get()) + outbox.skipped());
    }

    /// The whole flow, when the application has written up to `written`.
    #[inline(always)]
    fn sync_all(&mut self, written: u64) {
        // A send buffer that shrinks, because a path is gone, keeps what it holds.
        let end = written.max(self.outbox.cut_at().get());
        self.sync_una();
        self.flow.end = Offset::new(end);
        self.flow.unsent = Bytes::new(end.saturating_sub(self.outbox.cut_at().get()) + self.outbox.skipped());
    }

    /// The send buffer takes the data up to `end`, for [`Carrier::write_more`].
    pub fn write(&mut self, end: u64) {
        self.flow.end = Offset::new(end);
        self.sync_sent();
    }

    /// The message that the next byte lies in.
    fn set_message(&mut self, now: Instant, message: Option<Message>) {
        let flow = &mut self.flow;
        flow.message_start = message.map_or(flow.next, |message| Offset::new(message.start));
        flow.message_end = message.map_or(flow.end, |message| Offset::new(message.end));
        flow.deadline = message.and_then(|message| message.deadline);
        flow.message_age = message.map_or(Span::ZERO, |message| now.since(message.written));
        flow.class = message.map_or(0, |message| message.class);
        self.message_written = message.map(|message| message.written);
    }

    /// Time at which the message of the flow was written, if byte `at` lies in it.
    #[inline]
    fn written_around(&self, at: Offset) -> Option<Instant> {
        self.message_written.filter(|_| self.flow.message_start <= at && at < self.flow.message_end)
    }

    /// Returns true if nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.views.set().iter().all(|id| self.views.get(id).unacked() == Bytes::ZERO)
    }

    /// The time of [`Dispatch::probe_at`] has come: whether to ask about the window, which is shut, because the message
    /// that opened it may be lost. Then it will be asked again.
    pub fn probes_window(&mut self, now: Instant) -> bool {
        self.probe_at = if self.is_shut() { now + PROBE_AFTER } else { Instant::NEVER };
        !self.probe_at.is_never()
    }

    /// A packet that repeats `packet` on its path without a decision of the scheduler, which learns of it: a probe.
    pub fn repeat(&mut self, id: PathId, packet: &SentPacket) -> Assigned {
        let assigned = Assigned {
            chunk: packet.chunk,
            serial: self.host.next_serial(),
            kind: SendKind::Reinjection,
            offset: packet.offset,
            bytes: packet.bytes,
            first: false,
            after: Offset::ZERO,
        };
        self.host.events.push(Event::Sent(assigned.receipt(id), assigned.kind));
        self.charge(id, assigned.bytes);
        assigned
    }

    /// Cuts `bytes` that no scheduler decides on, since they go before all else, for path `id`. None if the window is
    /// shut for them.
    pub fn expedite(&mut self, id: PathId, bytes: u32) -> Option<Assigned> {
        let (number, chunk) = self.outbox.next_cut(bytes);
        if chunk.end() > self.flow.edge {
            return None;
        }
        self.outbox.cut_for(bytes, id);
        let assigned = Assigned {
            chunk: number,
            serial: self.host.next_serial(),
            kind: SendKind::Fresh,
            offset: chunk.offset,
            bytes,
            first: true,
            after: Offset::ZERO,
        };
        self.tell_sent(id, &assigned);
        Some(assigned)
    }

    /// Path `id` was given `assigned`: scheduler and policy learn of it.
    #[inline(always)]
    fn tell_sent(&mut self, id: PathId, assigned: &Assigned) {
        if self.host.notes_sent {
            self.host.events.push(Event::Sent(assigned.receipt(id), assigned.kind));
            if self.policy.is_some() {
                self.charge(id, assigned.bytes);
            }
        }
    }

    /// Path `id` will not carry `assigned`, which it was given: the data wait to be sent again, and the scheduler
    /// learns it.
    pub fn give_up(&mut self, id: PathId, assigned: &Assigned) {
        self.outbox.lose(assigned.chunk, id);
        self.host.events.push(Event::Lost(assigned.receipt(id)));
    }
}
