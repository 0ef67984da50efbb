//! Finding the next packet, and whether the scheduler must be asked about it.

use weftway_path::{Bytes, Event, Instant, Offset, Packet, PathId, SendKind, Starved};

use super::super::Chunk;
use super::carrier::{Carrier, Data};
use super::closing::look_at_policy;
use super::{Dispatch, PROBE_AFTER};

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

/// The policy may open a path now that those which are offered take nothing: then another turn follows at once. Whether
/// the scheduler may take something back.
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

/// Prepares a question where nothing may go though there is room: whether the scheduler must be asked all the same, for
/// a duplicate, or to take something back.
#[inline(never)]
fn prepare_without_packet<C: Carrier>(carrier: &mut C) -> bool {
    if carrier.dispatch().policy.is_some() {
        look_at_policy(carrier, None);
    }
    let written = carrier.data().written();
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

/// Returns true if the scheduler may take back what waits in some path's queue.
#[inline]
fn may_recall<C: Carrier>(carrier: &C) -> bool {
    let Dispatch { host, views, .. } = carrier.dispatch();
    host.needs.recall && views.set().iter().any(|id| gives_back(carrier, id))
}

/// Returns true if path `id` has something to give back, and has not given back at this time: a scheduler that only
/// takes back comes to an end.
pub(super) fn gives_back<C: Carrier>(carrier: &C, id: PathId) -> bool {
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

/// The first of what was handed back that is still of use.
#[inline(always)]
fn first_reinjection<C: Carrier>(carrier: &mut C) -> Option<(u64, Chunk)> {
    let mut number = carrier.dispatch_mut().outbox.first_reinjection()?;
    // Only records may be of no use any more. While the peer's window is shut no new one can tell the peer that one does
    // not come: a late one goes again, for the window to open.
    let soonest = match carrier.data().cuts() {
        true if carrier.dispatch().is_shut() => Instant::ZERO,
        true => soonest(carrier),
        false => carrier.now(),
    };
    loop {
        let chunk = *carrier.dispatch().outbox.chunk(number);
        if carrier.data().is_wanted(chunk.offset, soonest) {
            return Some((number, chunk));
        }
        carrier.dispatch_mut().outbox.acknowledge(number);
        number = carrier.dispatch_mut().outbox.first_reinjection()?;
    }
}

/// Time before which no packet that leaves now arrives: half of the least round-trip time that any path has shown.
fn soonest<C: Carrier>(carrier: &C) -> Instant {
    let least = carrier.dispatch().views.usable().iter().map(|path| path.min_rtt).min();
    carrier.now() + least.unwrap_or_default() / 2
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
        carrier.data().cut(chunk.offset, bytes.into());
    }
    fits.then_some((number, chunk))
}

/// Number of bytes that the next chunk has: a full packet, or what is left of a message. None, where the send buffer
/// ends within it: the rest of it is waited for.
#[inline(always)]
pub(super) fn next_bytes<C: Carrier>(carrier: &mut C) -> Option<u32> {
    let Dispatch { outbox, mss, .. } = carrier.dispatch();
    let (at, mss) = (outbox.cut_at().get(), *mss);
    while carrier.dispatch().flow.end.get() < at + mss && carrier.write_more() {}
    let end = carrier.dispatch().flow.end.get();
    if at >= end {
        return None;
    }
    // Nothing is known of data that have no order until they are cut: where messages end is never beyond them.
    if at >= carrier.dispatch().question.message_end {
        if carrier.data().cuts() {
            let bytes = carrier.data().next_record();
            return (bytes > 0 && at + bytes <= end).then_some(bytes as u32);
        }
        let known = carrier.data().keeps_messages() && carrier.dispatch().written_around(Offset::new(at)).is_some();
        let message_end = if known {
            carrier.dispatch().flow.message_end.get()
        } else {
            carrier.data().message_at(at).map_or(end, |message| message.end)
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
pub(super) fn sync<C: Carrier>(carrier: &mut C) {
    let written = carrier.buffered();
    carrier.dispatch_mut().sync_all(written);
    find_message(carrier);
}

/// Looks up the message that the next byte lies in, unless that is known.
#[inline(always)]
fn find_message<C: Carrier>(carrier: &mut C) {
    let has_messages = carrier.data().has_messages();
    let flow = &carrier.dispatch().flow;
    if !has_messages && flow.message_end > flow.next {
        return;
    }
    match carrier.dispatch().written_around(flow.next) {
        // The same as before, only older.
        Some(written) if carrier.data().keeps_messages() => {
            carrier.dispatch_mut().flow.message_age = carrier.now().since(written);
        }
        _ => look_up_message(carrier),
    }
}

#[inline(never)]
fn look_up_message<C: Carrier>(carrier: &mut C) {
    let (now, next) = (carrier.now(), carrier.dispatch().flow.next);
    let message = carrier.data().message_at(next.get());
    carrier.dispatch_mut().set_message(now, message);
}
