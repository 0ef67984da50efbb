//! XLINK: min-RTT, and what is in flight once more on another path while the player's buffer is short.
//!
//! Rule: new data go by min-RTT. A packet in flight is reinjected once, the oldest first, on the open path of least
//! srtt other than its own, at two times:
//!   by priority: before new data of a later message that is no more urgent, since then all of its own is sent;
//!   at the end: when nothing new is to be sent.
//! The control lets it, with Δt the time that is left until the packet is played, by two thresholds T₁ ≤ T₂:
//!   `Δt < T₁`: always; `Δt > T₂`: never; else `Δt < max(srtt_p + rttvar_p)` over the paths with packets in flight.
//! Reference: Zheng et al.: XLINK: QoE-Driven Multi-Path QUIC Transport in Large-scale Video Services, SIGCOMM 2021,
//! from descriptions of its rule.
//! State: per path the packets that were not reinjected, with message, class and deadline.
//! Departs from print: there the player tells how much it has buffered; here Δt runs until the deadline of the packet's
//! message, and a message without one is played at once. The paper picks its thresholds from the buffers of its users,
//! as percentiles; ours are times. That the video's first frame goes before the rest of its message is left out: a
//! message has no frames here. XQUIC, its authors' code, has no such control in its public history: `xqc_reinj_xlink.c`
//! of 2023 reinjects whenever there are two paths. Its modes are `xquic:reinject=…`. As here, a packet is reinjected
//! once there, on another path, and the oldest that finds one goes first.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Instant, Offset, PathId, SendKind, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;
use crate::shared::once::{Once, Record};
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "xlink",
    summary: "min-RTT, and copies of what is in flight while what is buffered for the player runs short",
    reference: "Zheng et al.: XLINK: QoE-Driven Multi-Path QUIC Transport in Large-scale Video Services, SIGCOMM 2021",
    provenance: Provenance::Secondary,
    goal: "few stalls at little cost",
    application: "short videos",
    inputs: &[Input::Rtt, Input::InFlight, Input::Size],
    needs: Needs { flow: true, copies: true, events: true, ..Needs::NONE },
    params: &[
        Param {
            name: "low",
            default: "50",
            values: "ms, 0 to 3600000",
            doc: "T₁: with less time left than this, what is in flight is always reinjected",
        },
        Param {
            name: "high",
            default: "500",
            values: "ms, `low` to 3600000",
            doc: "T₂: with more time left than this, never",
        },
        Param {
            name: "priority",
            default: "message",
            values: "message | end",
            doc: "what is reinjected goes before new data of later messages, or only when nothing new is to be sent",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let low = params.within("low", 0..=3_600_000)?;
    Ok(Box::new(Xlink {
        low: Span::from_millis(low),
        high: Span::from_millis(params.within("high", low..=3_600_000)?),
        by_message: params.choice("priority", &[("message", true), ("end", false)])?,
        ..Xlink::default()
    }))
}

#[derive(Clone, Default)]
struct Xlink {
    low: Span,
    high: Span,
    by_message: bool,
    /// The packets that each path sent once.
    once: PerPath<Once<Piece>>,
    /// Piece to which the packet at hand belongs.
    at_hand: Piece,
    /// The path whose oldest packet the last answer repeats.
    asked: Option<PathId>,
}

/// Piece to which a packet belongs.
#[derive(Clone, Copy, Default)]
struct Piece {
    message: Offset,
    class: u8,
    deadline: Option<Instant>,
}

impl Piece {
    fn next(cx: &Context<'_>) -> Self {
        cx.flow.map_or_else(Self::default, |flow| Self {
            message: flow.message_start,
            class: flow.class,
            deadline: flow.deadline,
        })
    }
}

/// Returns how long the packets in flight may still take.
fn delivery_time(cx: &Context<'_>) -> Span {
    let busy = cx.paths.iter().filter(|path| path.bytes_in_flight > Bytes::ZERO);
    busy.map(|path| path.srtt + path.rttvar).max().unwrap_or_default()
}

impl Xlink {
    /// Returns true if the player's buffer is so short that a piece is reinjected.
    fn is_short(&self, cx: &Context<'_>, piece: &Piece) -> bool {
        let left = piece.deadline.map_or(Span::ZERO, |deadline| deadline.since(cx.now));
        left.is_zero() || left < self.low || left <= self.high && left < delivery_time(cx)
    }

    /// Returns true if its turn has come: nothing else is at hand, or only pieces of later messages that are no more
    /// urgent.
    fn is_due(&self, cx: &Context<'_>, piece: &Piece) -> bool {
        let next = Piece::next(cx);
        cx.packet.is_none() || self.by_message && next.message > piece.message && next.class >= piece.class
    }

    /// The oldest packet that is to be reinjected, of paths other than `than`.
    fn oldest(&self, cx: &Context<'_>, than: Option<PathId>) -> Option<(PathId, &Record<Piece>)> {
        let first = cx.paths.iter().filter(|path| Some(path.id) != than).filter_map(|path| {
            let record = self.once.get(path.id)?.first()?;
            (self.is_due(cx, &record.about) && self.is_short(cx, &record.about)).then_some((path.id, record))
        });
        first.min_by_key(|(_, record)| record.serial)
    }

    /// The copy that is due first. If the oldest packet's own path is the only one open, a packet of another path may
    /// still go there.
    fn copy(&self, cx: &Context<'_>) -> Option<(PathId, Decision)> {
        let to = |(origin, record): (PathId, &Record<Piece>)| {
            let others = choose::candidates(cx).filter(|path| path.id != origin);
            let path = choose::least(others, |path| path.srtt)?;
            Some((origin, Decision::Repeat(path.id, record.offset)))
        };
        let oldest = self.oldest(cx, None)?;
        to(oldest).or_else(|| to(self.oldest(cx, Some(oldest.0))?))
    }
}

impl Scheduler for Xlink {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.at_hand = Piece::next(cx);
        let copy = if cx.packet.is_some_and(|packet| packet.reinjection) { None } else { self.copy(cx) };
        self.asked = copy.map(|(origin, _)| origin);
        copy.map_or_else(|| choose::send_or_wait(cx, choose::min_rtt(cx)), |(_, decision)| decision)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        let asked = self.asked.take();
        // The copy went out, or there was nothing to repeat.
        if let Some(origin) = asked.filter(|_| !matches!(event, Event::Sent(_, kind) if *kind != SendKind::Duplicate)) {
            self.once.at(origin).pass();
        }
        match *event {
            Event::Sent(receipt, SendKind::Fresh) => self.once.at(receipt.path).push(cx.now, &receipt, self.at_hand),
            Event::Acked(receipt) | Event::Lost(receipt) => self.once.at(receipt.path).remove(receipt.serial),
            Event::PathUp(path) | Event::PathDown(path) => self.once.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        if let Some((path, record)) = self.oldest(cx, None) {
            return Some(format!("{path:?} holds byte {}, which is needed soon", record.offset.get()));
        }
        let path = choose::min_rtt(cx)?;
        Some(format!("{:?} has the least srtt, {}", path.id, path.srtt))
    }
}
