//! Carrying out decisions: what each means, and what is refused.

use weftway_path::{Context, Decision, Instant, Offset, PathId, SendKind};

use super::super::{Assigned, Chunk};
use super::Dispatch;
use super::carrier::{Carrier, Data, empty_queue};
use super::closing::look_while_waiting;
use super::prepare::{gives_back, next_bytes, sync};
use crate::{Carried, Decided, Host, Refusal, Transport};

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
        carrier.data().cut(chunk.offset, chunk.bytes.into());
        chunk
    } else {
        dispatch.outbox.carry(number, id)
    };
    place(carrier, id, number, chunk, kind);
    Ok(Carried::Packet)
}

/// Carries out every decision but to send the next packet.
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
    if dispatch.beginning.contains(id) {
        begin(carrier, id);
    }
    carrier.place(id, assigned);
}

/// Path `id` sends its first packet: with the window that what others have shown is worth on it, if that is more.
#[cold]
fn begin<C: Carrier>(carrier: &mut C, id: PathId) {
    let dispatch = carrier.dispatch_mut();
    dispatch.set_beginning(id, false);
    let least = dispatch.views.get(id).cwnd;
    if let Some(window) = dispatch.views.window_beside(id, least).filter(|&window| window > least) {
        carrier.begin(id, window);
    }
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
        carrier.data().cut(chunk.offset, bytes.into());
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
