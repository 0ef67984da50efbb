//! Telling, asking and hearing a scheduler, and carrying out its decision.

use weftway_path::{BlockedReason, Bytes, Context, Decision, Instant, Path, PathId};
use weftway_sched::Scheduler;
use weftway_sched::learned::Task;

use crate::host::Host;
use crate::transport::{Carried, Decided, Refusal, Transport};

/// Tells `scheduler` what happened, and asks when it wants to be woken.
#[inline]
pub fn tell<T: Transport + ?Sized>(transport: &mut T, scheduler: &mut dyn Scheduler) {
    tell_events(transport, scheduler);
    note_wake(transport, scheduler);
}

#[inline]
fn tell_events<T: Transport + ?Sized>(transport: &mut T, scheduler: &mut dyn Scheduler) {
    let events = transport.host_mut().events.take();
    let cx = transport.context();
    for event in &events {
        scheduler.observe(&cx, event);
    }
    transport.host_mut().events.give_back(events);
}

/// The answer of `scheduler` to the question as it stands. What happened is told first; when it wants to be woken, it
/// is asked once, after its answer.
#[inline(always)]
pub fn answer<T: Transport + ?Sized>(transport: &mut T, scheduler: &mut dyn Scheduler) -> Decision {
    if !transport.host().events.is_empty() {
        tell_events(transport, scheduler);
    }
    let decision = scheduler.select(&transport.context());
    let Host { explains, compares, .. } = *transport.host();
    if explains {
        let asks_why = transport.asks_why(decision);
        let cx = transport.context();
        let why = if asks_why { scheduler.explain(&cx) } else { None };
        let decided = Decided { offset: cx.packet.map(|packet| packet.offset), decision, why };
        transport.log(decided);
    }
    if compares {
        scheduler.decided(&transport.context(), decision);
    }
    note_wake(transport, scheduler);
    decision
}

/// Puts one question, from its beginning to its end.
#[inline(always)]
pub fn ask<T: Transport + ?Sized>(transport: &mut T, scheduler: &mut dyn Scheduler) {
    let decision = answer(transport, scheduler);
    settle(transport, decision);
}

/// Outcome of a question to a learned task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The task asks for an answer from outside. Nothing was carried out; the question comes again.
    Asks,
    /// The task answered by itself, and that was carried out.
    Over,
}

/// Puts one question to a learned task, whose answers come from outside: `observation` is what there is to see if it
/// asks for one.
#[inline(always)]
pub fn ask_task<T: Transport + ?Sized>(transport: &mut T, task: &mut dyn Task, observation: &mut [f32]) -> Turn {
    let host = transport.host();
    if host.needs.wake && !host.events.is_empty() {
        // What it hears may change when it wants to be woken.
        tell(transport, task);
    }
    let decision = task.decide(&transport.context(), transport.host().events.as_slice(), observation);
    transport.host_mut().events.clear();
    let Some(decision) = decision else { return Turn::Asks };
    // Nearly always it wants to be woken when it did before: its timer is armed.
    if transport.host().needs.wake {
        let wake = task.wake();
        if wake != Some(transport.host().wake) {
            take_wake(transport, wake);
        }
    }
    settle(transport, decision);
    Turn::Over
}

/// Tells a learned task what happened where nothing is to be decided. It may ask all the same.
#[inline]
pub fn tell_task<T: Transport + ?Sized>(transport: &mut T, task: &mut dyn Task, observation: &mut [f32]) -> Turn {
    tell(transport, task);
    if task.question(&transport.context(), observation) {
        return Turn::Asks;
    }
    // What the task has learned may change when it wants to be woken.
    note_wake(transport, task);
    Turn::Over
}

/// Carries out `decision`. One that breaks a rule is a fault, and the path with the lowest round-trip time carries the
/// packet instead.
#[inline(always)]
pub fn settle<T: Transport + ?Sized>(transport: &mut T, decision: Decision) {
    transport.host_mut().counts.decisions += 1;
    if decision == Decision::Wait {
        return wait(transport);
    }
    match transport.carry(decision) {
        Ok(Carried::Packet | Carried::Queue) => {}
        Ok(Carried::Nothing) => wait(transport),
        Err(Refusal::Path | Refusal::NoPacket | Refusal::Unsupported) => fault(transport),
    }
}

/// Arms the wake-up that `scheduler` asks for. A time that has passed is a fault and asks for nothing: it would be
/// asked for at once again, for ever. The exception is the wake-up that is due at this very time and not delivered yet.
#[inline]
pub fn note_wake<T: Transport + ?Sized>(transport: &mut T, scheduler: &(impl Scheduler + ?Sized)) {
    if transport.host().needs.wake {
        take_wake(transport, scheduler.wake());
    }
}

/// The scheduler wants to be woken then, or not at all.
#[inline(always)]
fn take_wake<T: Transport + ?Sized>(transport: &mut T, wake: Option<Instant>) {
    match wake {
        None if transport.host().wake.is_never() => {}
        None => transport.host_mut().wake = Instant::NEVER,
        Some(at) => set_wake(transport, at),
    }
}

fn set_wake<T: Transport + ?Sized>(transport: &mut T, at: Instant) {
    let now = transport.context().now;
    let host = transport.host_mut();
    if at > now {
        host.wake = at;
        if !at.is_never() {
            transport.wake_at(at);
        }
    } else if host.wake != now {
        host.counts.faults += 1;
        host.wake = Instant::NEVER;
    }
}

/// Notes that nothing is sent now. Something must bring the question back, or this is a fault.
fn wait<T: Transport + ?Sized>(transport: &mut T) {
    let (wake, cx) = (transport.host().wake, transport.context());
    if cx.packet.is_some() {
        if wake.is_never() && !transport.asks_again() && !cx.paths.iter().any(returns) {
            return fault(transport);
        }
        transport.host_mut().counts.waits += 1;
    }
    transport.pause();
}

/// Returns true if an acknowledgement or a pacer of this path will bring the question back.
fn returns(path: &Path) -> bool {
    path.unacked() > Bytes::ZERO || path.blocked == BlockedReason::Pacing
}

#[cold]
fn fault<T: Transport + ?Sized>(transport: &mut T) {
    transport.host_mut().counts.faults += 1;
    let instead = fastest(&transport.context()).map(|id| transport.carry(Decision::Send(id)));
    if !matches!(instead, Some(Ok(Carried::Packet))) {
        transport.pause();
    }
}

/// Path with the lowest round-trip time among those that may carry the packet at hand.
fn fastest(cx: &Context<'_>) -> Option<PathId> {
    cx.packet?;
    let open = cx.paths.iter().filter(|path| path.is_open());
    open.min_by_key(|path| path.srtt).map(|path| path.id)
}
