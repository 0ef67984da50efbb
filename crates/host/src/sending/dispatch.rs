//! What stands between a scheduler and the packets of one connection, whatever carries them.
//!
//! A transport that sends keeps one [`Dispatch`] and implements [`Carrier`]; in return it is a [`Transport`]:
//!
//! | decided here | supplied by the transport |
//! |---|---|
//! | which packet is next: what was handed back, else what was never sent | how far the application has written, where a packet ends |
//! | whether the scheduler must be asked ([`prepare`]) | whether a path can take a packet ([`Question::note`]) |
//! | what each decision means, and what is refused | how a packet leaves ([`Carrier::place`]), what waits in queues |
//! | when the scheduler is told of a shut window or a full buffer | what the transport does about it ([`Carrier::blocked`]) |
//!
//! A question sends nothing. The only place where a transport sends unasked in between is [`Carrier::blocked`].

mod closing;

use weftway_path::{
    BlockedReason, Bytes, Context, Decision, Event, Flow, Instant, Message, Offset, Packet, PathId, PathSet, SendKind,
    Span, Starved,
};

use self::closing::{look_at_policy, look_while_waiting};
use super::{Assigned, Chunk, Outbox, Policy, Question, SentPacket, Views};
use crate::{Carried, Decided, Host, Refusal, Transport};

/// How long a shut window may stay silent before the sender asks.
pub const PROBE_AFTER: Span = Span::from_millis(200);

/// The sending half of a connection, above its paths.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// What is kept for the scheduler.
    pub host: Host,
    /// The data.
    pub outbox: Outbox,
    /// The data, as schedulers see them.
    pub flow: Flow,
    /// The paths, as schedulers see them.
    pub views: Views,
    /// Which of them it is offered, where a policy says so.
    policy: Option<Box<Policy>>,
    /// What the scheduler is asked.
    pub question: Question,
    /// When to ask about a shut window.
    pub probe_at: Instant,
    /// QUIC: the most that the receiver's limit is ever beyond what it has read, where that limit is all that tells what
    /// has arrived.
    pub largest_window: Option<Bytes>,
    /// When the message of the flow was written, if one is known.
    message_written: Option<Instant>,
    /// The payload of a full packet.
    mss: u64,
}

impl Dispatch {
    /// Of a connection whose packets have `mss` bytes of payload and whose receiver announces `edge`. Nothing is written,
    /// and no path is usable.
    pub fn new(mss: Bytes, views: Views, edge: Offset) -> Self {
        Self {
            host: Host::default(),
            outbox: Outbox::default(),
            flow: Flow { edge, ..Flow::default() },
            question: Question::new(views.len()),
            views,
            policy: None,
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

    /// Whether a policy is there is asked together with what the scheduler needs.
    fn note_policy(&mut self) {
        self.host.acts_without_room = self.host.needs.recall || self.policy.is_some();
        self.host.notes_sent = self.host.needs.events || self.policy.is_some();
    }

    /// From now on a full packet has `mss` bytes of payload. What is cut stays as it is.
    pub fn set_mss(&mut self, mss: Bytes) {
        self.mss = mss.get();
    }

    /// The question as it stands.
    #[inline]
    pub fn context(&self, now: Instant) -> Context<'_> {
        let (paths, open) = (self.views.usable(), self.question.open);
        debug_assert_eq!(open, PathSet::open(paths), "the paths that may send are kept");
        Context { now, paths, open, packet: self.question.packet(), flow: Some(&self.flow) }
    }

    /// Whether the peer's window holds back data that are ready.
    #[inline]
    pub fn is_shut(&self) -> bool {
        self.outbox.is_blocked_by(self.flow.edge)
    }

    /// Whether a scheduler could put anything anywhere. One that uses queues looks at their room.
    #[inline]
    fn has_room(&self) -> bool {
        let paths = if self.host.needs.queueing { self.question.queue_open } else { self.question.open };
        !paths.is_empty()
    }

    /// Whether path `id` takes the next packet, or another one, from this scheduler.
    #[inline]
    fn takes(&self, id: PathId) -> bool {
        self.question.open.contains(id)
            || (self.host.needs.queueing && (self.question.queue_open.contains(id) || self.fits(id)))
    }

    /// Whether the queue of path `id` has room for the next packet, be it no full one.
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

    /// Whether something is there that a path with room would carry.
    #[inline(always)]
    pub fn wants_room(&mut self) -> bool {
        let copies = self.host.needs.copies && self.outbox.has_sent();
        let fresh = self.flow.unsent > Bytes::ZERO || self.question.next.is_some();
        fresh || copies || self.outbox.first_reinjection().is_some()
    }

    /// The part of the flow that acknowledgements and packets move. MPTCP's DATA_ACK comes with the window in one message.
    /// QUIC acknowledges packets on their own path and raises the limit on any: a limit that overtakes a slow path's
    /// acknowledgements tells that all but a buffer below it was read (RFC 9000 §4.1). The send buffer keeps it all the same.
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

    /// When the message of the flow was written, if byte `at` lies in it.
    #[inline]
    fn written_around(&self, at: Offset) -> Option<Instant> {
        self.message_written.filter(|_| self.flow.message_start <= at && at < self.flow.message_end)
    }

    /// Whether nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.views.set().iter().all(|id| self.views.get(id).unacked() == Bytes::ZERO)
    }

    /// The time of [`Dispatch::probe_at`] has come: whether to ask about the window, which is shut, because the message that
    /// opened it may be lost. Then it will be asked again.
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

    /// Cuts `bytes` that no scheduler decides on, since they go before all else, for path `id`. None if the window is shut for
    /// them.
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

    /// Path `id` will not carry `assigned`, which it was given: the data wait to be sent again, and the scheduler learns it.
    pub fn give_up(&mut self, id: PathId, assigned: &Assigned) {
        self.outbox.lose(assigned.chunk, id);
        self.host.events.push(Event::Lost(assigned.receipt(id)));
    }
}

/// What a transport supplies to [`Dispatch`].
pub trait Carrier {
    /// The sending half above the paths.
    fn dispatch(&self) -> &Dispatch;

    /// The same, to change.
    fn dispatch_mut(&mut self) -> &mut Dispatch;

    /// The time.
    fn now(&self) -> Instant;

    /// Whether data may leave at all: the handshake is done, and the connection not over.
    #[inline]
    fn is_live(&self) -> bool {
        true
    }

    /// How much the application has written, whether or not the send buffer takes it.
    fn written(&mut self) -> u64;

    /// How far the send buffer takes what the application has written.
    fn buffered(&mut self) -> u64;

    /// Writes more at this very time, now that everything before is sent: whether it did. The flow is up to date then.
    #[inline]
    fn write_more(&mut self) -> bool {
        self.cuts() && write_up(self)
    }

    /// The message that byte `at` belongs to; none where the data are one message.
    fn message_at(&mut self, at: u64) -> Option<Message>;

    /// Whether the data are more than one message.
    fn has_messages(&self) -> bool;

    /// Whether a message stays what [`Carrier::message_at`] has said of it until it is sent.
    #[inline]
    fn keeps_messages(&self) -> bool {
        false
    }

    /// Where a packet ends that begins at `at` and has `bytes` at most: how many it has.
    #[inline]
    fn packet_bytes(&self, at: u64, bytes: u64) -> u64 {
        let _ = at;
        bytes
    }

    /// Whether what ends a packet is fixed before a path takes it.
    #[inline]
    fn cuts_at_once(&self) -> bool {
        false
    }

    /// Whether the data have no order until they are cut: what is written now may then come before what was written earlier.
    /// If not, they are one row of bytes, and the next three methods are not called.
    #[inline]
    fn cuts(&self) -> bool {
        false
    }

    /// How many bytes the next packet has, 0 if there is none.
    fn next_record(&mut self) -> u64 {
        0
    }

    /// The data from `at` on are cut: they are the same from now on.
    fn cut(&mut self, at: Offset, bytes: u64) {
        let _ = (at, bytes);
    }

    /// Whether the packet at `at`, which is lost, is of use to anybody. If not, it is not sent again, and counts as arrived.
    fn is_wanted(&mut self, at: Offset) -> bool {
        let _ = at;
        true
    }

    /// Of the paths that have `carried` data which wait to be sent again, those that should not carry them once more.
    #[inline]
    fn avoided(&self, carried: PathSet) -> PathSet {
        let _ = carried;
        PathSet::EMPTY
    }

    /// Sends `assigned` on path `id`, or puts it into the path's queue ([`Assigned::join_queue`]).
    fn place(&mut self, id: PathId, assigned: Assigned);

    /// Whether anything waits in the queue of path `id`.
    fn has_queue(&self, id: PathId) -> bool;

    /// Takes the first packet out of the queue of path `id`, and out of [`weftway_path::Path::queued`].
    fn take_queued(&mut self, id: PathId) -> Option<Assigned>;

    /// Brings up to date whether path `id` can take a packet.
    fn refresh(&mut self, id: PathId);

    /// A path has room and nothing may go. The transport may act: opportunistic retransmission, penalties, a timer for
    /// [`Dispatch::probe_at`]. Called at each question as long as it lasts.
    fn blocked(&mut self, why: Starved);

    /// Arms the scheduler's timer ([`Transport::wake_at`]).
    #[inline]
    fn wake_at(&mut self, at: Instant) {
        let _ = at;
    }

    /// Whether the log takes a reason ([`Transport::asks_why`]).
    fn asks_why(&mut self, decision: Decision) -> bool {
        let _ = decision;
        true
    }

    /// Writes a decision to the log ([`Transport::log`]).
    fn log(&mut self, decided: Decided) {
        let _ = decided;
    }
}

impl<C: Carrier> Transport for C {
    #[inline]
    fn host(&self) -> &Host {
        &self.dispatch().host
    }

    #[inline]
    fn host_mut(&mut self) -> &mut Host {
        &mut self.dispatch_mut().host
    }

    #[inline]
    fn context(&self) -> Context<'_> {
        self.dispatch().context(self.now())
    }

    #[inline(always)]
    fn carry(&mut self, decision: Decision) -> Result<Carried, Refusal> {
        carry(self, decision)
    }

    #[inline]
    fn pause(&mut self) {
        self.dispatch_mut().question.ready = false;
        if self.dispatch().policy.is_some() {
            look_while_waiting(self);
        }
    }

    #[inline]
    fn wake_at(&mut self, at: Instant) {
        Carrier::wake_at(self, at);
    }

    fn asks_why(&mut self, decision: Decision) -> bool {
        Carrier::asks_why(self, decision)
    }

    fn log(&mut self, decided: Decided) {
        Carrier::log(self, decided);
    }
}

/// Takes up the next packet, and lets the transport act where nothing may go: whether the scheduler must be asked.
#[inline(always)]
pub fn prepare<C: Carrier>(carrier: &mut C) -> bool {
    let question = &carrier.dispatch().question;
    if !question.ready || !carrier.is_live() {
        return false;
    }
    if !question.paced.is_empty() && question.pacers_seen != carrier.now() {
        look_at_pacers(carrier);
    }
    if !carrier.dispatch().has_room() {
        return prepare_without_room(carrier);
    }
    take_up(carrier);
    let question = &mut carrier.dispatch_mut().question;
    if question.next.is_some() {
        // An episode in which nothing may go is over when a packet may.
        question.starved = false;
        return true;
    }
    prepare_without_packet(carrier)
}

/// Paths whose pacer has let go meanwhile can send.
#[inline(never)]
fn look_at_pacers<C: Carrier>(carrier: &mut C) {
    let now = carrier.now();
    let dispatch = carrier.dispatch_mut();
    dispatch.question.pacers_seen = now;
    for id in dispatch.question.paced.iter() {
        if carrier.dispatch().views.get(id).release <= now {
            carrier.refresh(id);
        }
    }
}

/// No path can take anything: whether the scheduler must be asked, to take something back.
#[inline(always)]
fn prepare_without_room<C: Carrier>(carrier: &mut C) -> bool {
    carrier.dispatch_mut().question.next = None;
    if carrier.dispatch().host.acts_without_room && acts_without_room(carrier) {
        return true;
    }
    // With nothing more to send a pacer's release is not waited for; the application may have more since.
    if carrier.dispatch().flow.unsent == Bytes::ZERO {
        sync(carrier);
    } else {
        carrier.dispatch_mut().sync_una();
    }
    false
}

/// The policy may open a path now that those which are offered take nothing: then another turn follows at once. Whether the
/// scheduler may take something back.
#[cold]
#[inline(never)]
fn acts_without_room<C: Carrier>(carrier: &mut C) -> bool {
    if carrier.dispatch().policy.is_some() {
        sync(carrier);
        let Dispatch { outbox, flow, .. } = carrier.dispatch_mut();
        let waits = flow.unsent > Bytes::ZERO || outbox.first_reinjection().is_some();
        let unsent = flow.unsent;
        look_at_policy(carrier, waits.then_some(unsent));
    }
    may_recall(carrier) && {
        sync(carrier);
        true
    }
}

/// Nothing may go though there is room: whether the scheduler must be asked all the same, for a duplicate, or to take
/// something back.
#[inline(never)]
fn prepare_without_packet<C: Carrier>(carrier: &mut C) -> bool {
    if carrier.dispatch().policy.is_some() {
        look_at_policy(carrier, None);
    }
    let written = carrier.written();
    let now = carrier.now();
    let dispatch = carrier.dispatch_mut();
    let why = if dispatch.is_shut() {
        Some(Starved::Window)
    } else {
        (dispatch.outbox.cut_at().get() < written).then_some(Starved::SendBuffer)
    };
    let told = core::mem::replace(&mut dispatch.question.starved, why.is_some());
    if let Some(why) = why {
        if !told {
            dispatch.host.events.push(Event::Starved(why));
        }
        if why == Starved::Window && dispatch.probe_at.is_never() {
            dispatch.probe_at = now + PROBE_AFTER;
        }
        carrier.blocked(why);
    }
    let Dispatch { host, question, outbox, .. } = carrier.dispatch();
    host.needs.copies && !question.open.is_empty() && outbox.has_sent() || may_recall(carrier)
}

/// Whether the scheduler may take back what waits in some path's queue.
#[inline]
fn may_recall<C: Carrier>(carrier: &C) -> bool {
    let Dispatch { host, views, .. } = carrier.dispatch();
    host.needs.recall && views.set().iter().any(|id| gives_back(carrier, id))
}

/// Whether path `id` has something to give back, and has not given back at this time: a scheduler that only takes back
/// comes to an end.
fn gives_back<C: Carrier>(carrier: &C, id: PathId) -> bool {
    carrier.has_queue(id) && carrier.dispatch().question.recalled[id.index()] != carrier.now()
}

/// Finds the next packet: what was handed back, else what was never sent.
#[inline(always)]
fn take_up<C: Carrier>(carrier: &mut C) {
    if carrier.dispatch().question.synced {
        sync_sent(carrier);
    } else {
        sync(carrier);
        carrier.dispatch_mut().question.synced = true;
    }
    let found = match first_reinjection(carrier) {
        Some((number, chunk)) => Some((number, chunk, SendKind::Reinjection)),
        None => next_fresh(carrier).map(|(number, chunk)| (number, chunk, SendKind::Fresh)),
    };
    carrier.dispatch_mut().question.next = found.map(|(number, _, kind)| (number, kind));
    if let Some((_, chunk, kind)) = found {
        let avoid = carrier.avoided(chunk.carried);
        carrier.dispatch_mut().question.packet = Packet {
            offset: chunk.offset,
            bytes: Bytes::new(u64::from(chunk.bytes)),
            reinjection: kind == SendKind::Reinjection,
            carried: chunk.carried,
            avoid,
        };
    }
}

/// The flow ends where the send buffer now does: whether that is further than before. What a record has beside the
/// application's bytes is not known before it is cut.
#[inline(never)]
pub fn write_up<C: Carrier + ?Sized>(carrier: &mut C) -> bool {
    let end = carrier.buffered();
    let is_more = end > carrier.dispatch().flow.end.get();
    if is_more {
        carrier.dispatch_mut().write(end);
    }
    is_more
}

/// The first of what was handed back that is still of use.
#[inline(always)]
fn first_reinjection<C: Carrier>(carrier: &mut C) -> Option<(u64, Chunk)> {
    while let Some(number) = carrier.dispatch_mut().outbox.first_reinjection() {
        let chunk = *carrier.dispatch().outbox.chunk(number);
        if !carrier.cuts() || carrier.is_wanted(chunk.offset) {
            return Some((number, chunk));
        }
        carrier.dispatch_mut().outbox.acknowledge(number);
    }
    None
}

#[inline(always)]
fn next_fresh<C: Carrier>(carrier: &mut C) -> Option<(u64, Chunk)> {
    let Dispatch { outbox, flow, .. } = carrier.dispatch();
    let edge = flow.edge;
    if let Some(number) = outbox.first_unsent() {
        let chunk = *outbox.chunk(number);
        return (chunk.end() <= edge).then_some((number, chunk));
    }
    let bytes = next_bytes(carrier)?;
    let (number, chunk) = carrier.dispatch().outbox.next_cut(bytes);
    let fits = chunk.end() <= edge;
    // A chunk is cut when a path takes it: until then nothing changes what it will be.
    if !fits || carrier.cuts_at_once() {
        carrier.dispatch_mut().outbox.cut(bytes);
        if carrier.cuts() {
            carrier.cut(chunk.offset, bytes.into());
        }
    }
    fits.then_some((number, chunk))
}

/// How many bytes the next chunk has: a full packet, or what is left of a message. None, where the send buffer ends within
/// it: the rest of it is waited for.
#[inline(always)]
fn next_bytes<C: Carrier>(carrier: &mut C) -> Option<u32> {
    let Dispatch { outbox, mss, .. } = carrier.dispatch();
    let (at, mss) = (outbox.cut_at().get(), *mss);
    while carrier.dispatch().flow.end.get() < at + mss && carrier.write_more() {}
    let end = carrier.dispatch().flow.end.get();
    if at >= end {
        return None;
    }
    // Nothing is known of data that have no order until they are cut: where messages end is never beyond them.
    if at >= carrier.dispatch().question.message_end {
        if carrier.cuts() {
            let bytes = carrier.next_record();
            return (bytes > 0 && at + bytes <= end).then_some(bytes as u32);
        }
        let known = carrier.keeps_messages() && carrier.dispatch().written_around(Offset::new(at)).is_some();
        let message_end = if known {
            carrier.dispatch().flow.message_end.get()
        } else {
            carrier.message_at(at).map_or(end, |message| message.end)
        };
        carrier.dispatch_mut().question.message_end = message_end;
    }
    let bytes = mss.min(carrier.dispatch().question.message_end - at);
    let bytes = carrier.packet_bytes(at, bytes);
    (at + bytes <= end).then_some(bytes as u32)
}

/// Brings the flow up to date after a packet of this turn.
#[inline(always)]
fn sync_sent<C: Carrier>(carrier: &mut C) {
    carrier.dispatch_mut().sync_sent();
    find_message(carrier);
}

/// Brings the flow up to date.
#[inline(never)]
fn sync<C: Carrier>(carrier: &mut C) {
    let written = carrier.buffered();
    carrier.dispatch_mut().sync_all(written);
    find_message(carrier);
}

/// Looks up the message that the next byte lies in, unless that is known.
#[inline(always)]
fn find_message<C: Carrier>(carrier: &mut C) {
    let flow = &carrier.dispatch().flow;
    let has_messages = carrier.has_messages();
    if !has_messages && flow.message_end > flow.next {
        return;
    }
    match carrier.dispatch().written_around(flow.next) {
        // The same as before, only older.
        Some(written) if carrier.keeps_messages() => {
            carrier.dispatch_mut().flow.message_age = carrier.now().since(written);
        }
        _ => look_up_message(carrier),
    }
}

#[inline(never)]
fn look_up_message<C: Carrier>(carrier: &mut C) {
    let (now, next) = (carrier.now(), carrier.dispatch().flow.next);
    let message = carrier.message_at(next.get());
    carrier.dispatch_mut().set_message(now, message);
}

/// Carries out the scheduler's decision, or says why not.
#[inline(always)]
fn carry<C: Carrier>(carrier: &mut C, decision: Decision) -> Result<Carried, Refusal> {
    let Decision::Send(id) = decision else { return carry_other(carrier, decision) };
    let dispatch = carrier.dispatch_mut();
    let (number, kind) = dispatch.question.next.ok_or(Refusal::NoPacket)?;
    if !dispatch.takes(id) {
        return Err(Refusal::Path);
    }
    if kind == SendKind::Reinjection {
        dispatch.outbox.took_reinjection();
    }
    let chunk = if number == dispatch.outbox.end() {
        let chunk = dispatch.outbox.cut_for(dispatch.question.packet.bytes.get() as u32, id);
        if carrier.cuts() {
            carrier.cut(chunk.offset, chunk.bytes.into());
        }
        chunk
    } else {
        dispatch.outbox.carry(number, id)
    };
    place(carrier, id, number, chunk, kind);
    Ok(Carried::Packet)
}

/// The same for every decision but to send the next packet.
#[inline(never)]
fn carry_other<C: Carrier>(carrier: &mut C, decision: Decision) -> Result<Carried, Refusal> {
    let dispatch = carrier.dispatch_mut();
    match decision {
        Decision::Ahead(..) if !dispatch.host.needs.ahead => return Err(Refusal::Unsupported),
        Decision::Repeat(..) if !dispatch.host.needs.copies => return Err(Refusal::Unsupported),
        Decision::Ahead(id, _) | Decision::Repeat(id, _) if !dispatch.takes(id) => return Err(Refusal::Path),
        Decision::Ahead(id, offset) => {
            let Some(number) = find_ahead(carrier, offset) else { return Ok(Carried::Nothing) };
            let fresh = carrier.dispatch().outbox.first_unsent() == Some(number);
            assign(carrier, id, number, if fresh { SendKind::Fresh } else { SendKind::Ahead });
        }
        Decision::Repeat(id, offset) => {
            let Some(number) = dispatch.outbox.copy_from(offset, id) else { return Ok(Carried::Nothing) };
            assign(carrier, id, number, SendKind::Duplicate);
        }
        Decision::Recall(id) => return recall(carrier, id),
        Decision::Send(_) | Decision::Wait => return Ok(Carried::Nothing),
    }
    Ok(Carried::Packet)
}

/// Gives chunk `number`, which was cut, to path `id`.
#[inline(never)]
pub fn assign<C: Carrier>(carrier: &mut C, id: PathId, number: u64, kind: SendKind) {
    let chunk = carrier.dispatch_mut().outbox.carry(number, id);
    place(carrier, id, number, chunk, kind);
}

/// Gives chunk `number`, which was `chunk` before, to path `id`.
#[inline(always)]
fn place<C: Carrier>(carrier: &mut C, id: PathId, number: u64, chunk: Chunk, kind: SendKind) {
    let Chunk { offset, bytes, carried, .. } = chunk;
    let dispatch = carrier.dispatch_mut();
    let serial = dispatch.host.next_serial();
    let (first, after) = (!carried.contains(id), Offset::ZERO);
    let assigned = Assigned { chunk: number, serial, kind, offset, bytes, first, after };
    // Carried out when the path has the packet, be it in its queue: the next question may come at once.
    dispatch.tell_sent(id, &assigned);
    carrier.place(id, assigned);
}

/// The first unsent chunk at or after `offset`, cutting as far as window and data allow.
fn find_ahead<C: Carrier>(carrier: &mut C, offset: Offset) -> Option<u64> {
    let Dispatch { outbox, flow, .. } = carrier.dispatch();
    if let Some(number) = outbox.unsent_from(offset) {
        return (outbox.chunk(number).end() <= flow.edge).then_some(number);
    }
    loop {
        let Dispatch { outbox, flow, .. } = carrier.dispatch();
        if outbox.cut_at() >= flow.edge {
            return None;
        }
        let bytes = next_bytes(carrier)?;
        let Dispatch { outbox, flow, .. } = carrier.dispatch_mut();
        let (number, chunk) = outbox.cut(bytes);
        let fits = chunk.end() <= flow.edge;
        if carrier.cuts() {
            carrier.cut(chunk.offset, bytes.into());
        }
        if chunk.offset >= offset {
            return fits.then_some(number);
        }
    }
}

/// Takes back what waits in the queue of path `id`. The next question is about it.
fn recall<C: Carrier>(carrier: &mut C, id: PathId) -> Result<Carried, Refusal> {
    if !carrier.dispatch().host.needs.recall {
        return Err(Refusal::Unsupported);
    }
    if !carrier.dispatch().views.set().contains(id) {
        return Err(Refusal::Path);
    }
    if !gives_back(carrier, id) {
        return Ok(Carried::Nothing);
    }
    let now = carrier.now();
    carrier.dispatch_mut().question.recalled[id.index()] = now;
    empty_queue(carrier, id);
    sync(carrier);
    carrier.refresh(id);
    Ok(Carried::Queue)
}

/// What waits in the queue of path `id` is to be sent again.
fn empty_queue<C: Carrier>(carrier: &mut C, id: PathId) {
    let mut next = None;
    while let Some(assigned) = carrier.take_queued(id) {
        next = next.or(Some(assigned.after));
        let dispatch = carrier.dispatch_mut();
        dispatch.outbox.recall(assigned.chunk, id, assigned.first, assigned.kind == SendKind::Reinjection);
        dispatch.refund(id, assigned.bytes);
        dispatch.host.events.push(Event::Recalled(assigned.receipt(id)));
    }
    let view = carrier.dispatch_mut().views.get_mut(id);
    view.next = next.unwrap_or(view.next);
}
