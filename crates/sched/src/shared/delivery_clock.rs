//! Clock of when a path will have delivered what was given to it: the clock that EDPF and S-EDPF share.
//!
//! `A_l = max(now + D_l, A_l) + L/B_l` with each packet of L bytes that path l takes: D_l is the delay of the path
//! without its queue, B_l its rate, and A_l when its last packet is delivered. The clock hears nothing of what happens
//! on the path.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BlockedReason, Bytes, Context, Decision, Event, Instant, Path};

use crate::shared::choose;
use crate::shared::forecast;
use crate::shared::per_path::PerPath;

/// Meaning of D_l.
pub(crate) const DELAY: Param = Param {
    name: "delay",
    default: "min",
    values: "min | smoothed",
    doc: "the delay of a path: half of its smallest round-trip time, or of the smoothed one, which counts the queue twice",
};

/// Rule by which A_l is forgotten.
pub(crate) const IDLE: Param = Param {
    name: "idle",
    default: "free",
    values: "free | clock",
    doc: "when a path is free again: once nothing is in flight on it, or, as in print, by its clock alone",
};

/// Switch that lets a full path win.
pub(crate) const FULL: Param = Param {
    name: "full",
    default: "pass",
    values: "pass | wait",
    doc: "what happens if the path that would deliver first is full: the best open one takes the packet, or it waits",
};

/// The clocks of all paths.
#[derive(Clone, Default)]
pub(crate) struct Clocks {
    is_smoothed: bool,
    is_kept: bool,
    waits: bool,
    busy_until: PerPath<Option<Instant>>,
}

impl Clocks {
    pub(crate) fn read(params: &Params) -> Result<Self, SpecError> {
        Ok(Self {
            is_smoothed: params.choice(DELAY.name, &[("min", false), ("smoothed", true)])?,
            is_kept: params.choice(IDLE.name, &[("free", false), ("clock", true)])?,
            waits: params.choice(FULL.name, &[("pass", false), ("wait", true)])?,
            busy_until: PerPath::default(),
        })
    }

    /// Returns the time at which `bytes` that `path` takes now would be delivered.
    #[inline]
    pub(crate) fn arrival(&self, now: Instant, path: &Path, bytes: Bytes) -> Instant {
        // A path without a sample of its own has its handshake's smoothed time.
        let is_smoothed = self.is_smoothed || path.min_rtt.is_zero();
        let delay = if is_smoothed { path.srtt } else { path.min_rtt } / 2;
        (now + delay).max(self.busy_until(path).unwrap_or_default()) + forecast::rate(path).transmission_time(bytes)
    }

    /// Returns the time at which the last packet that `path` took is delivered, if it took one.
    #[inline]
    pub(crate) fn busy_until(&self, path: &Path) -> Option<Instant> {
        self.busy_until.get(path.id).copied().flatten()
    }

    /// The path with the smallest key for the packet at hand; nothing, if that one is full and waited for.
    pub(crate) fn pick<'a, K: PartialOrd>(&self, cx: &Context<'a>, key: impl Fn(&Path) -> K) -> Option<&'a Path> {
        if self.waits && cx.packet.is_some_and(|packet| packet.avoid.is_empty()) {
            let usable = choose::standing(cx).filter(|path| path.blocked != BlockedReason::Transport);
            return choose::least(usable, key).filter(|path| path.is_open());
        }
        choose::pick_least(cx, key)
    }

    /// The answer that sends on [`Clocks::pick`].
    pub(crate) fn decide<K: PartialOrd>(&self, cx: &Context<'_>, key: impl Fn(&Path) -> K) -> Decision {
        choose::send_or_wait(cx, self.pick(cx, key))
    }

    pub(crate) fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(sent, _) => {
                if let Some(path) = cx.path(sent.path) {
                    *self.busy_until.at(path.id) = Some(self.arrival(cx.now, path, sent.bytes));
                }
            }
            Event::Acked(gone) | Event::Lost(gone) | Event::Recalled(gone) => {
                let is_idle = cx.path(gone.path).is_some_and(|path| path.unacked() == Bytes::ZERO);
                if is_idle && !self.is_kept {
                    self.busy_until.reset(gone.path);
                }
            }
            Event::PathUp(path) | Event::PathDown(path) => self.busy_until.reset(path),
            _ => {}
        }
    }
}
