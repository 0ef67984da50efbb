//! XQUIC's schedulers: round-trip times within classes of performance, and reinjection.
//!
//! Rule: a path is low with srtt > 2 s, two timeouts in a row or more than 30 % of its packets lost
//! lately; else middling with srtt > min(500 ms, 3·least srtt), cwnd/srtt < 375 000 B/s or a loss
//! above 10 %; else high. Of the open paths,
//!   minrtt:  the best class; in a class available paths before standby ones; then the least srtt;
//!   backup:  the same, but a standby path only if its class is better than that of every available
//!            path, full ones included;
//!   rap:     the least srtt, whatever the path is for;
//!   interop: the least srtt of the available; standby paths if no path is available, full or not.
//! Data sent before go by the same rule, first off the paths that the transport says to avoid: none
//! under QUIC, where XQUIC's mask is for reinjection alone. A packet in flight
//! is reinjected once, by the same rule, on another path, where `backup` takes standby paths:
//!   default:  when nothing else is to be sent;
//!   deadline: before new data, when it is as old as max(min(1.1·least srtt, 500 ms), 20 ms).
//! Recent loss is lost over sent, in the last two spans of five srtt the larger of their two.
//! Reference: alibaba/xquic src/transport/scheduler, src/transport/reinjection_control, `xqc_multipath.c`.
//! State: per path, what was sent and lost of late, and the packets that were not reinjected.
//! Departs from print: `interop` takes the last of several standby paths there, here the one of
//! least srtt; losses count when they are found, there when they are repaired. The estimate that a
//! rate-based controller gives is not used for cwnd/srtt. XQUIC's deadline also reinjects what is in
//! flight on low paths, whatever its age, each time it has sent; that is left out. Reinjection of
//! datagrams and `backup_fec` are left out: there are none here.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BlockedReason, Context, Decision, Event, Instant, Path, PathId, PathSet, SendKind, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::once::Once;
use crate::shared::per_path::PerPath;

mod records;

use records::Recent;

pub(crate) static ENTRY: Entry = Entry {
    name: "xquic",
    version: 2,
    summary: "the smallest round-trip time in the best class of paths, and copies of late packets",
    reference: "alibaba/xquic src/transport/scheduler, src/transport/reinjection_control",
    provenance: Provenance::Code,
    goal: "latency and availability",
    application: "mobile, short videos",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Loss],
    needs: Needs { copies: true, events: true, ..Needs::NONE },
    waits: true,
    presets: &[
        Preset { name: "xquic-minrtt", switches: "rule=minrtt", doc: "XQUIC's default" },
        Preset { name: "xquic-backup", switches: "rule=backup", doc: "standby paths rest while others do as well" },
        Preset { name: "xquic-rap", switches: "rule=rap", doc: "round-trip times alone" },
        Preset { name: "xquic-interop", switches: "rule=interop", doc: "standby paths only without an available one" },
    ],
    params: &[
        Param {
            name: "rule",
            default: "minrtt",
            values: "minrtt | backup | rap | interop",
            doc: "which of XQUIC's schedulers",
        },
        Param {
            name: "reinject",
            default: "off",
            values: "off | default | deadline",
            doc: "which packets in flight go once more: none, all at the end, or the late ones at once",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let rules = [("minrtt", Rule::MinRtt), ("backup", Rule::Backup), ("rap", Rule::Rap), ("interop", Rule::Interop)];
    let reinject = [("off", Reinject::Off), ("default", Reinject::AtEnd), ("deadline", Reinject::Late)];
    Ok(Box::new(Xquic {
        rule: params.choice("rule", &rules)?,
        reinject: params.choice("reinject", &reinject)?,
        recent: PerPath::default(),
        once: PerPath::default(),
        asked: None,
    }))
}

#[derive(Clone, Copy)]
enum Rule {
    MinRtt,
    Backup,
    Rap,
    Interop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reinject {
    Off,
    AtEnd,
    Late,
}

/// Performance of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Class {
    High,
    Mid,
    Low,
}

#[derive(Clone)]
struct Xquic {
    rule: Rule,
    reinject: Reinject,
    recent: PerPath<Recent>,
    /// The packets that each path sent once.
    once: PerPath<Once>,
    /// The path whose oldest packet the last answer repeats.
    asked: Option<PathId>,
}

/// Over the paths that are up, full or not.
fn least_srtt(cx: &Context<'_>) -> Span {
    cx.paths.iter().filter(is_up).map(|path| path.srtt).min().unwrap_or_default()
}

fn is_up(path: &&Path) -> bool {
    path.blocked != BlockedReason::Validation
}

/// The age at which a packet is late.
fn deadline(least_srtt: Span) -> Span {
    let flexible = least_srtt.mul_div(11, 10);
    flexible.min(Span::from_millis(500)).max(Span::from_millis(20))
}

impl Xquic {
    fn class(&self, now: Instant, path: &Path, least_srtt: Span) -> Class {
        let lost_more =
            |percent| self.recent.get(path.id).is_some_and(|recent| recent.lost_more(percent, now, path.srtt));
        let slow = (least_srtt * 3).min(Span::from_millis(500));
        // cwnd/srtt in bytes per second.
        let is_narrow = path.cwnd.get() as u128 * 1_000_000_000 < 375_000 * path.srtt.as_nanos() as u128;
        if path.srtt > Span::from_secs(2) || path.pto_count >= 2 || lost_more(30) {
            Class::Low
        } else if path.srtt > slow || is_narrow || lost_more(10) {
            Class::Mid
        } else {
            Class::High
        }
    }

    /// The open path for a packet, not one of `skip`.
    fn pick<'a>(&self, cx: &Context<'a>, skip: PathSet, is_copy: bool) -> Option<&'a Path> {
        let least = least_srtt(cx);
        let open = cx.sendable().filter(|path| !skip.contains(path.id));
        let available = || cx.paths.iter().filter(is_up).filter(|path| path.is_active());
        let key = |path: &Path| (self.class(cx.now, path, least), !path.is_active(), path.srtt);
        match self.rule {
            Rule::MinRtt => choose::least(open, key),
            Rule::Backup => {
                let best = available().map(|path| self.class(cx.now, path, least)).min();
                let is_better = |path: &Path| best.is_none_or(|best| self.class(cx.now, path, least) < best);
                choose::least(open.filter(|path| is_copy || path.is_active() || is_better(path)), key)
            }
            Rule::Rap => choose::least(open, |path| path.srtt),
            Rule::Interop => {
                let is_alone = available().next().is_none();
                choose::least(open.filter(|path| is_alone || path.is_active()), |path| path.srtt)
            }
        }
    }

    /// The path that sent the oldest packet that is due, other than `than`.
    fn oldest(&self, cx: &Context<'_>, than: Option<PathId>) -> Option<PathId> {
        let age = if self.reinject == Reinject::Late { deadline(least_srtt(cx)) } else { Span::ZERO };
        let due = cx.paths.iter().filter(|path| Some(path.id) != than).filter_map(|path| {
            let first = self.once.get(path.id)?.first()?;
            (cx.now.since(first.sent) >= age).then_some((first.serial, path.id))
        });
        due.min().map(|(_, path)| path)
    }

    /// The copy that is due first. If the oldest packet's own path is the only one open, a packet
    /// of another path may still go there.
    fn copy(&self, cx: &Context<'_>) -> Option<(PathId, Decision)> {
        let is_time = match self.reinject {
            Reinject::Off => false,
            Reinject::AtEnd => cx.packet.is_none(),
            Reinject::Late => true,
        };
        if !is_time || cx.sendable().next().is_none() {
            return None;
        }
        let to = |origin: PathId| {
            let path = self.pick(cx, PathSet::of(origin), true)?;
            let first = self.once.get(origin)?.first()?;
            Some((origin, Decision::Repeat(path.id, first.offset)))
        };
        let oldest = self.oldest(cx, None)?;
        to(oldest).or_else(|| to(self.oldest(cx, Some(oldest))?))
    }

    fn pick_data<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let avoid = cx.packet.map_or(PathSet::EMPTY, |packet| packet.avoid);
        let fallback = || if avoid.is_empty() { None } else { self.pick(cx, PathSet::EMPTY, false) };
        self.pick(cx, avoid, false).or_else(fallback)
    }
}

impl Scheduler for Xquic {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let copy = if cx.packet.is_some_and(|packet| packet.reinjection) { None } else { self.copy(cx) };
        self.asked = copy.map(|(origin, _)| origin);
        copy.map_or_else(|| choose::send_or_wait(cx, self.pick_data(cx)), |(_, decision)| decision)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        let asked = self.asked.take();
        // The copy went out, or there was nothing to repeat.
        if let Some(origin) = asked.filter(|_| !matches!(event, Event::Sent(_, kind) if *kind != SendKind::Duplicate)) {
            self.once.at(origin).pass();
        }
        match *event {
            Event::Sent(receipt, kind) => {
                let srtt = cx.path(receipt.path).map_or(Span::ZERO, |path| path.srtt);
                self.recent.at(receipt.path).note_sent(cx.now, srtt);
                if self.reinject != Reinject::Off && kind != SendKind::Duplicate {
                    self.once.at(receipt.path).push(cx.now, &receipt, ());
                }
            }
            Event::Acked(receipt) => self.once.at(receipt.path).remove(receipt.serial),
            Event::Lost(receipt) => {
                self.recent.at(receipt.path).note_lost();
                self.once.at(receipt.path).remove(receipt.serial);
            }
            Event::PathUp(path) | Event::PathDown(path) => {
                self.recent.reset(path);
                self.once.reset(path);
            }
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick_data(cx)?;
        let class = self.class(cx.now, path, least_srtt(cx));
        Some(format!("{:?} is of class {class:?}, srtt {}", path.id, path.srtt))
    }
}
