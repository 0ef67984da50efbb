//! A host's duties, as a scheduler that checks them: put it on any transport, run, and read [`Duties::breaches`].
//!
//! It sends on a random path that is open, and now and then waits, sends a duplicate, sends ahead, takes a queue back
//! or breaks a rule on purpose. It expects:
//!
//! - every packet is told as `Sent` before anything else of it, and has one outcome: acknowledged, perhaps after a
//!   loss, or lost, or taken back;
//! - a window that is shut, or a send buffer that is full, while a path is open is told as `Starved` with its cause,
//!   once until a packet may go again;
//! - `Wake` comes when it was asked for, not before, and is never missed;
//! - `PathUp` and `PathDown` come in pairs, and what it sees are the paths that are up;
//! - it hears nothing that it did not declare;
//! - what a path's view counts as acknowledged and lost are the events that were told;
//! - what it does against the rules is counted as a fault, and nothing else is.
//!
//! A host that asks at intervals tells no packets but what each path sent, had acknowledged and lost in between: there
//! the bytes are held against the view ([`Duties::of_intervals`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weftway_path::{
    BlockedReason, Bytes, Context, Counters, Decision, Event, Instant, Offset, PathId, PathSet, Receipt, Span, Starved,
};
use weftway_sched::{Needs, Scheduler};

/// Needs that schedulers declare, on a host that offers `all`: everything; all but two; events with a little; wake-ups
/// alone; all but events; nothing.
pub fn declarations(all: Needs) -> [Needs; 7] {
    let events = Needs { events: true, flow: true, ..Needs::NONE };
    [
        all,
        Needs { queueing: false, recall: false, ..all },
        Needs { copies: true, wake: true, ..events },
        events,
        Needs { wake: true, ..Needs::NONE },
        Needs { events: false, ..all },
        Needs::NONE,
    ]
}

/// The scheduler that checks its host. Clones share what they found.
#[derive(Clone)]
pub struct Duties {
    needs: Needs,
    /// Time by which a wake-up may come later than asked for: nothing, where time is virtual.
    late: Span,
    /// True if events are what happened in an interval, and not packets.
    sums: bool,
    seed: u64,
    draws: u64,
    /// Time at which it wants to be woken.
    wake: Option<Instant>,
    found: Arc<Mutex<Found>>,
}

/// Breaches that were found, and counts of what there was to be checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Duties that were not met, in the order in which that was seen.
    pub breaches: Vec<String>,
    /// Episodes in which the window was shut, or the send buffer full, while a path was open.
    pub starved: u64,
    /// Wake-ups.
    pub woken: u64,
    /// Times a path came up.
    pub ups: u64,
    /// Times a path went down.
    pub downs: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets acknowledged.
    pub acked: u64,
    /// Losses.
    pub lost: u64,
    /// Packets taken back.
    pub recalled: u64,
    /// Decisions that broke a rule on purpose.
    pub provoked: u64,
    packets: BTreeMap<u64, Packet>,
    up: PathSet,
    told: BTreeMap<u8, (Counters, Counters)>,
    told_starved: Option<Starved>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    receipt: Receipt,
    lost: bool,
    over: Option<&'static str>,
}

impl Found {
    /// Counts what another run found, too.
    pub fn add(&mut self, other: &Self) {
        self.starved += other.starved;
        self.woken += other.woken;
        (self.ups, self.downs) = (self.ups + other.ups, self.downs + other.downs);
        (self.sent, self.acked) = (self.sent + other.sent, self.acked + other.acked);
        (self.lost, self.recalled) = (self.lost + other.lost, self.recalled + other.recalled);
        self.provoked += other.provoked;
    }

    /// Number of times that the rarest of what is to be checked came up: with zero something was not checked.
    pub fn least(&self) -> u64 {
        let Self { starved, woken, downs, acked, lost, recalled, provoked, .. } = *self;
        [starved, woken, downs, acked, lost, recalled, provoked].into_iter().min().unwrap_or(0)
    }

    fn breach(&mut self, at: Instant, what: impl FnOnce() -> String) {
        // The first ones tell enough.
        if self.breaches.len() < 20 {
            self.breaches.push(format!("{} ms: {}", at.since(Instant::ZERO).as_nanos() as f64 / 1e6, what()));
        }
    }

    fn outcome(&mut self, at: Instant, receipt: &Receipt, what: &'static str) {
        let mut fault = None;
        match self.packets.get_mut(&receipt.serial) {
            None => fault = Some("was never sent".to_owned()),
            Some(packet) if packet.receipt != *receipt => fault = Some(format!("was sent as {:?}", packet.receipt)),
            Some(Packet { over: Some(before), .. }) => fault = Some(format!("was {before} before")),
            // TCP sends again under the same number.
            Some(packet) if what == "lost" => packet.lost = true,
            Some(packet) => packet.over = Some(what),
        }
        if let Some(why) = fault {
            self.breach(at, || format!("{receipt:?} is {what}, and {why}"));
        }
    }
}

impl Duties {
    /// A scheduler that declares `needs`. Wake-ups may be `late` by so much.
    pub fn new(needs: Needs, seed: u64, late: Span) -> Self {
        Self { needs, late, sums: false, seed, draws: 0, wake: None, found: Arc::default() }
    }

    /// Duties of a host that asks every `interval`, and tells what happened in between as one event of each kind.
    pub fn of_intervals(needs: Needs, seed: u64, interval: Span) -> Self {
        Self { sums: true, ..Self::new(needs, seed, interval) }
    }

    /// Findings so far.
    pub fn found(&self) -> Found {
        self.lock().clone()
    }

    /// Breaches at the end: with the faults that the host counted, which are those that were provoked.
    pub fn breaches(&self, faults: u64) -> Vec<String> {
        let mut found = self.found();
        if faults != found.provoked {
            found.breaches.push(format!("{faults} faults were counted, {} rules were broken", found.provoked));
        }
        found.breaches
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number below `most` (SplitMix64 of a counter).
    fn draw(&mut self, most: u64) -> u64 {
        self.draws += 1;
        let mut x = (self.seed ^ 0x5eed).wrapping_add(self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % most.max(1)
    }

    fn hears_paths(&self) -> bool {
        self.needs.events || self.needs.wake
    }

    /// Checks what holds at every question.
    fn check(&self, cx: &Context<'_>) {
        let mut found = self.lock();
        self.check_wake(cx, &mut found);
        let seen = cx.paths.iter().fold(PathSet::EMPTY, |set, path| set.with(path.id));
        if self.hears_paths() && seen != found.up {
            let up = found.up;
            found.breach(cx.now, || format!("paths {seen:?} are seen, and {up:?} were told as up"));
        }
        if !self.needs.events {
            return;
        }
        for path in cx.paths {
            let told = found.told.get(&path.id.get()).copied().unwrap_or_default();
            let counted = (path.acked, path.lost);
            let bytes = |(acked, lost): (Counters, Counters)| (acked.bytes, lost.bytes);
            if bytes(counted) != bytes(told) || !self.sums && counted != told {
                found.breach(cx.now, || format!("{:?} counts {counted:?}, told were {told:?}", path.id));
            }
        }
        if cx.packet.is_some() {
            found.told_starved = None;
        } else if let Some(why) = starved(cx)
            && found.told_starved.is_none()
        {
            found.breach(cx.now, || format!("{why:?} is not told"));
            found.told_starved = Some(why);
        }
    }

    fn check_wake(&self, cx: &Context<'_>, found: &mut Found) {
        if let Some(at) = self.wake.filter(|&at| at + self.late < cx.now) {
            found.breach(cx.now, || format!("the wake-up for {} ms is missed", at.since(Instant::ZERO).as_millis()));
        }
    }

    fn hear(&self, cx: &Context<'_>, event: &Event) {
        let mut found = self.lock();
        let now = cx.now;
        let declared = match event {
            Event::Wake => self.needs.wake,
            Event::PathUp(_) | Event::PathDown(_) => self.hears_paths(),
            _ => self.needs.events,
        };
        if !declared {
            found.breach(now, || format!("{event:?} is told, and was not declared"));
        }
        match *event {
            Event::Sent(receipt, _) => {
                found.sent += 1;
                if !found.up.contains(receipt.path) {
                    found.breach(now, || format!("{receipt:?} is sent on a path that is not up"));
                }
                let packet = Packet { receipt, lost: false, over: None };
                if !self.sums && found.packets.insert(receipt.serial, packet).is_some() {
                    found.breach(now, || format!("two packets have number {}", receipt.serial));
                }
            }
            Event::Acked(receipt) => {
                found.acked += 1;
                self.outcome(&mut found, now, &receipt, "acknowledged");
                found.told.entry(receipt.path.get()).or_default().0.add(receipt.bytes);
            }
            Event::Lost(receipt) => {
                found.lost += 1;
                self.outcome(&mut found, now, &receipt, "lost");
                found.told.entry(receipt.path.get()).or_default().1.add(receipt.bytes);
            }
            Event::Recalled(receipt) => {
                found.recalled += 1;
                self.outcome(&mut found, now, &receipt, "taken back");
            }
            Event::Starved(why) => {
                found.starved += 1;
                if let Some(before) = found.told_starved.replace(why) {
                    found.breach(now, || format!("{why:?} is told after {before:?}, and no packet could go between"));
                }
                // With nothing unsent it is the buffer; with a packet that ends beyond the window it is not.
                let truly = starved(cx).or(cx.flow.filter(|flow| flow.unsent.get() == 0).map(|_| Starved::SendBuffer));
                if truly.is_some_and(|truly| truly != why) {
                    found.breach(now, || format!("{why:?} is told: {:?}", cx.flow));
                }
            }
            Event::PathUp(id) => {
                found.ups += 1;
                if found.up.contains(id) {
                    found.breach(now, || format!("{id:?} is told to be up, and was"));
                }
                found.up = found.up.with(id);
                // An interval's host meets paths that have carried something before.
                let before = cx.path(id).filter(|_| self.sums).map(|path| (path.acked, path.lost));
                found.told.insert(id.get(), before.unwrap_or_default());
            }
            Event::PathDown(id) => {
                found.downs += 1;
                if !found.up.contains(id) {
                    found.breach(now, || format!("{id:?} is told to be down, and was"));
                }
                found.up = found.up.without(id);
                let open = |packet: &&Packet| packet.receipt.path == id && packet.over.is_none() && !packet.lost;
                if let Some(packet) = found.packets.values().find(open) {
                    let receipt = packet.receipt;
                    found.breach(now, || format!("{id:?} is down, and {receipt:?} has no outcome"));
                }
            }
            Event::Wake => {
                found.woken += 1;
                if self.wake.is_none_or(|at| now < at) {
                    let asked = self.wake;
                    found.breach(now, || format!("a wake-up comes, and {asked:?} was asked for"));
                }
                self.check_wake(cx, &mut found);
            }
            Event::Congestion(_) => {}
        }
    }

    fn outcome(&self, found: &mut Found, at: Instant, receipt: &Receipt, what: &'static str) {
        if !self.sums {
            found.outcome(at, receipt, what);
        }
    }

    /// A decision against the rules, if there is one now.
    fn provoke(&mut self, cx: &Context<'_>) -> Option<Decision> {
        let offset = cx.flow.map_or(Offset::ZERO, |flow| flow.next);
        let nowhere = PathId::new(63);
        let (path, open) = (cx.paths.first()?.id, cx.open.iter().next());
        let wrong = match self.draw(4) {
            0 => Decision::Send(nowhere),
            1 if !self.needs.copies => Decision::Repeat(open.unwrap_or(path), Offset::ZERO),
            2 if !self.needs.ahead => Decision::Ahead(open.unwrap_or(path), offset),
            3 if !self.needs.recall => Decision::Recall(path),
            _ => return None,
        };
        self.lock().provoked += 1;
        Some(wrong)
    }

    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let count = u64::from(cx.open.len());
        let at = self.draw(count) as usize;
        let chosen = cx.open.iter().nth(at);
        let flow = cx.flow.copied().unwrap_or_default();
        let reach = flow.edge.since(flow.next).get();
        // A decision that finds nothing to carry is one to wait, which something has to bring back.
        let waits = cx.paths.iter().any(|path| path.unacked() > Bytes::ZERO);
        match (self.draw(16), chosen) {
            (0, _) if cx.packet.is_some() => self.provoke(cx).or(chosen.map(Decision::Send)),
            (1, _) if self.needs.wake => {
                let pause = Span::from_micros(500 + self.draw(5_000));
                self.wake = Some(cx.now + pause);
                Some(Decision::Wait)
            }
            (2, Some(id)) if self.needs.copies && waits => Some(Decision::Repeat(id, flow.una)),
            (3, Some(id)) if self.needs.ahead && waits => {
                Some(Decision::Ahead(id, flow.next + Bytes::new(self.draw(reach.min(20_000)))))
            }
            (4, _) if self.needs.recall && waits => cx.paths.first().map(|path| Decision::Recall(path.id)),
            // A queue takes a packet although the window is full.
            (5..8, _) if self.needs.queueing => {
                let takes = |path: &&weftway_path::Path| {
                    path.blocked != BlockedReason::Transport && path.queue_room >= path.mss
                };
                cx.paths.iter().filter(takes).max_by_key(|path| path.srtt).map(|path| Decision::Send(path.id))
            }
            _ => None,
        }
        .filter(|decision| cx.packet.is_some() || !matches!(decision, Decision::Send(_)))
        .or(chosen.filter(|_| cx.packet.is_some()).map(Decision::Send))
        .unwrap_or(Decision::Wait)
    }
}

/// Reason why nothing new may go though a path is open, as far as the context tells.
fn starved(cx: &Context<'_>) -> Option<Starved> {
    let flow = cx.flow?;
    let mss = cx.paths.iter().map(|path| path.mss).max()?;
    if cx.packet.is_some() || cx.open.is_empty() {
        return None;
    }
    // A full packet is there, and its end lies beyond the window.
    (flow.unsent >= mss && flow.next + mss > flow.edge).then_some(Starved::Window)
}

impl Scheduler for Duties {
    fn needs(&self) -> Needs {
        self.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.check(cx);
        self.decide(cx)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.hear(cx, event);
        if *event == Event::Wake {
            self.wake = None;
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.wake
    }
}
