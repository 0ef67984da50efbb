//! Earliest delivery.
use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{
    BitRate, BlockedReason, Bytes, Context, Decision, Event, Flow, Instant, Path, PathId, SendKind, Span,
};

use crate::Scheduler;
use crate::choose;
use crate::sent_ahead::SentAhead;
use crate::in_flight::{InFlight, Promise};
use crate::min_rtt;
use crate::per_path::PerPath;
use crate::registry::{Arity, Entry, Input, Needs, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "earliest-delivery",
    aliases: &["weft"],
    version: 1,
    summary: "where a packet given now is delivered in order first, foretold from rate, round trip, backlog and silence",
    reference: "Weftway, docs/explanation/earliest-delivery.md",
    provenance: Provenance::Code,
    goal: "delivery in order, early and late paths alike",
    application: "general",
    inputs: &[
        Input::Rtt,
        Input::MinRtt,
        Input::Cwnd,
        Input::InFlight,
        Input::Mss,
        Input::Loss,
        Input::Rate,
        Input::Queue,
        Input::Window,
    ],
    needs: Needs { flow: true, copies: true, ahead: true, wake: true, events: true, ..Needs::NONE },
    arity: Arity::Any,
    waits: true,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[
        switch("ahead", "data ahead"),
        switch("copies", "copies"),
        switch("overdue", "copies of what is overdue"),
        switch("insure", "copies of what may be lost"),
        switch("waiting", "waiting"),
        switch("backlog", "backlog"),
        switch("loss", "loss"),
        switch("stall", "stall"),
        switch("edge", "edge"),
        knob("k0", "1"),
        knob("k1", "1"),
        knob("k2", "0"),
        knob("k3", "2"),
        knob("k4", "1"),
        knob("k5", "1"),
        knob("k6", "2"),
        knob("k7", "3"),
        knob("k8", "2"),
        knob("k9", "2"),
    ],
    build,
};

const fn knob(name: &'static str, default: &'static str) -> Param {
    Param { name, default, values: "number, -1000 to 1000", doc: "tuning" }
}

const fn switch(name: &'static str, doc: &'static str) -> Param {
    Param { name, default: "true", values: "true | false", doc }
}

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let k = |name: &str| params.within(name, -1000.0..=1000.0);
    let terms = Terms {
        ahead: params.get("ahead")?,
        copies: params.get("copies")?,
        overdue: params.get("overdue")?,
        insure: params.get("insure")?,
        waiting: params.get("waiting")?,
        backlog: params.get("backlog")?,
        loss: params.get("loss")?,
        stall: params.get("stall")?,
        edge: params.get("edge")?,
        k: [k("k0")?, k("k1")?, k("k2")?, k("k3")?, k("k4")?, k("k5")?, k("k6")?, k("k7")?, k("k8")?, k("k9")?],
    };
    Ok(Box::new(EarliestDelivery { terms, ..EarliestDelivery::default() }))
}

#[derive(Clone, Default)]
struct Terms {
    ahead: bool,
    copies: bool,
    overdue: bool,
    insure: bool,
    waiting: bool,
    backlog: bool,
    loss: bool,
    stall: bool,
    edge: bool,
    k: [f64; 10],
}

#[derive(Clone, Default)]
struct EarliestDelivery {
    terms: Terms,
    peaks: PerPath<Peak>,
    flights: InFlight,
    ahead: SentAhead,
    load: Load,
    /// The packet of which the last answer asked a copy.
    asked: Option<u64>,
    wake: Option<Instant>,
    /// The first byte of the message that was sent last.
    message: weftway_path::Offset,
}

/// The largest delivery rates of a path in this span of round trips and in the one before.
#[derive(Clone, Copy, Default)]
struct Peak {
    began: Instant,
    rate: BitRate,
    before: BitRate,
}

const SPAN: u64 = 4;

impl Peak {
    fn note(&mut self, now: Instant, path: &Path, span: u64) {
        if now.since(self.began) >= path.srtt * span {
            *self = Self { began: now, rate: path.delivery_rate, before: self.rate };
        } else {
            self.rate = self.rate.max(path.delivery_rate);
        }
    }
}

/// What was sent lately, and how much of it as insurance.
#[derive(Clone, Copy, Default)]
struct Load {
    at: Instant,
    /// Bytes, of which a share is forgotten with time.
    recent: u64,
    fresh: u64,
    insured: u64,
}

const MEMORY: Span = Span::from_millis(250);

impl Load {
    fn decayed(&self, now: Instant) -> u64 {
        let gone = now.since(self.at).as_nanos().min(MEMORY.as_nanos());
        self.recent - (self.recent as u128 * gone as u128 / MEMORY.as_nanos() as u128) as u64
    }

    fn note(&mut self, now: Instant, bytes: Bytes) {
        self.recent = self.decayed(now) + bytes.get();
        self.at = now;
    }

    fn rate(&self, now: Instant) -> BitRate {
        BitRate::of(Bytes::new(self.decayed(now)), MEMORY)
    }
}

/// What a packet given to a path now has before it.
#[derive(Clone, Copy, Debug)]
struct Forecast {
    rate: BitRate,
    rtt: Span,
    /// Until it arrives, if it is not lost.
    arrival: Span,
    /// The same, with what a loss would cost.
    expected: Span,
    /// How long an acknowledgement has been overdue.
    overdue: Span,
}

const GRACE: Span = Span::from_millis(10);

fn loss_permille(path: &Path) -> u64 {
    path.lost.packets.saturating_mul(1000).checked_div(path.sent.packets).unwrap_or(0).min(500)
}

fn grows(path: &Path) -> bool {
    path.cwnd < path.ssthresh
}

impl EarliestDelivery {
    fn rate(&self, path: &Path) -> BitRate {
        let peak = self.peaks.get(path.id).copied().unwrap_or_default();
        let window = if path.srtt.is_zero() { BitRate::ZERO } else { BitRate::of(path.cwnd, path.srtt) };
        let window = if path.pacing_rate > BitRate::ZERO { window.min(path.pacing_rate) } else { window };
        peak.rate.max(peak.before).max(window)
    }

    fn forecast(&self, now: Instant, path: &Path) -> Forecast {
        let rate = self.rate(path);
        let least = path.min_rtt;
        let noise = path.srtt.saturating_sub(least) / 2;
        let rtt = if !self.terms.backlog {
            path.srtt
        } else if rate == BitRate::ZERO {
            path.srtt
        } else {
            let drained = rate.transmission_time(path.unacked());
            match self.terms.k[6] as i64 {
                1 => path.srtt.max(drained),
                2 => (least.max(drained) + noise + path.srtt) / 2,
                3 => least.max(drained) + path.rttvar,
                4 => least.max(drained),
                5 => least + noise + drained.saturating_sub(least) ,
                6 => if path.unacked() < path.cwnd.mul_div(1, 2) { least.max(drained) + noise } else { path.srtt.max(drained) },
                _ => least.max(drained) + noise,
            }
        };
        let silent = self.terms.stall && path.unacked() > Bytes::ZERO;
        let due = self.flights.due(path.id).filter(|_| silent);
        let overdue = due.map_or(Span::ZERO, |due| now.since(due));
        let held = if path.blocked == BlockedReason::Pacing { path.release.since(now) } else { Span::ZERO };
        let arrival = rtt.saturating_sub(least / 2) + overdue.mul_div(1 + self.terms.k[7] as u64, 1) + held;
        let loss = if self.terms.loss { (rtt * 3 / 2).mul_div(loss_permille(path) * (2 - self.terms.k[2] as u64), 2000) } else { Span::ZERO };
        Forecast { rate, rtt, arrival, expected: arrival + loss, overdue }
    }

    /// What `fast` delivers in `time`.
    fn delivers(&self, path: &Path, fast: &Forecast, time: Span) -> Bytes {
        if !grows(path) || fast.rtt.is_zero() {
            return fast.rate.bytes_in(time);
        }
        let rounds = (time.as_nanos() / fast.rtt.as_nanos()).min(6);
        let rest = time.saturating_sub(fast.rtt * rounds);
        let factor = 1u64 << rounds;
        fast.rate.bytes_in(fast.rtt * (factor - 1)) + fast.rate.bytes_in(rest * factor)
    }

    /// The open path that delivers first.
    fn first_open<'a>(&self, cx: &Context<'a>) -> Option<(&'a Path, Forecast)> {
        let mut best: Option<(&Path, Forecast)> = None;
        for path in choose::candidates(cx) {
            let forecast = self.forecast(cx.now, path);
            if best.as_ref().is_none_or(|(_, other)| forecast.expected < other.expected) {
                best = Some((path, forecast));
            }
        }
        best
    }

    fn fresh(&self, cx: &Context<'_>, flow: &Flow, again: bool) -> Option<Decision> {
        let (slow, s) = self.first_open(cx)?;
        let mut before = Bytes::ZERO;
        for path in choose::standing(cx).filter(|path| !path.is_open()) {
            if path.blocked == BlockedReason::Transport {
                continue;
            }
            let f = self.forecast(cx.now, path);
            if f.expected < s.expected {
                before += self.delivers(path, &f, s.expected.saturating_sub(f.expected));
            }
        }
        let send = if again { Decision::Ahead(slow.id, flow.next) } else { Decision::Send(slow.id) };
        if before < slow.mss {
            return Some(send);
        }
        if before >= flow.unsent {
            return if self.terms.waiting { None } else { Some(send) };
        }
        if !self.terms.ahead {
            return Some(send);
        }
        let last = self.ahead.credit(flow).saturating_sub(slow.mss);
        let position = before.min(last);
        if self.terms.edge && before.saturating_sub(position) + slow.unacked() > flow.window() {
            return None;
        }
        let at = self.ahead.past(flow, position);
        if at + slow.mss > flow.edge {
            return None;
        }
        Some(if at <= flow.next { send } else { Decision::Ahead(slow.id, at) })
    }

    /// Data that were sent before.
    fn again(&self, cx: &Context<'_>, flow: &Flow) -> Option<Decision> {
        let avoid = cx.packet?.avoid;
        let usable = |path: &&Path| path.blocked != BlockedReason::Transport;
        let others = || choose::standing(cx).filter(usable).filter(|path| !avoid.contains(path.id));
        let first = choose::least(others(), |path| self.forecast(cx.now, path).expected);
        let first = match first {
            Some(first) => first,
            None => choose::least(choose::standing(cx).filter(usable), |path| self.forecast(cx.now, path).expected)?,
        };
        if first.is_open() {
            return Some(Decision::Send(first.id));
        }
        if flow.unsent > Bytes::ZERO && flow.credit() >= first.mss { self.fresh(cx, flow, true) } else { None }
    }

    /// What was sent lately, of what all paths could bring.
    fn load_permille(&self, cx: &Context<'_>) -> u64 {
        let total = cx.paths.iter().fold(0u64, |sum, path| sum.saturating_add(self.rate(path).as_bps())).max(1);
        (self.load.rate(cx.now).as_bps().saturating_mul(1000) / total).min(990)
    }

    /// A copy that pays.
    fn copy(&mut self, cx: &Context<'_>, flow: &Flow) -> Option<Decision> {
        if !self.terms.copies {
            return None;
        }
        let now = cx.now;
        let load = self.load_permille(cx);
        let budget = self.load.insured < self.load.fresh + 30_000;
        let mut best: Option<(Span, PathId, u64, weftway_path::Offset)> = None;
        for path in choose::candidates(cx) {
            let s = self.forecast(now, path);
            let airtime = s.rate.transmission_time(path.mss);
            let premium = airtime.mul_div(load * 1000, (1000 - load) * (1000 - load));
            let light = path.unacked() < s.rate.bytes_in(path.min_rtt);
            for other in cx.paths.iter().filter(|other| other.id != path.id) {
                let q = self.forecast(now, other);
                let is_overdue = !q.overdue.is_zero() && self.terms.overdue;
                let first = self.flights.first_single(other.id, flow.una);
                let is_lost = self.terms.k[1] > 0.0 && cx.packet.is_none_or(|packet| !packet.reinjection) && first.is_some_and(|(_, flown)| flown.lost);
                let candidate = if is_overdue || is_lost {
                    first
                } else if self.terms.k[3] == 1.0 || self.terms.k[3] == 2.0 && flow.una < self.message {
                    let sure = self.flights.first_after(other.id, flow.una, now + s.expected + airtime);
                    sure.or_else(|| self.flights.last_single(other.id, flow.una))
                } else {
                    self.flights.last_single(other.id, flow.una)
                };
                let Some((serial, flown)) = candidate else { continue };
                if flown.carried.contains(path.id) {
                    continue;
                }
                let loss = if is_overdue { 500 } else { loss_permille(other) };
                let eta = if is_overdue { q.arrival.max(q.overdue) } else if is_lost { q.arrival } else { flown.eta.since(now) };
                let sure = eta.saturating_sub(s.expected);
                let lost = (eta + q.rtt * 5 / 2).saturating_sub(s.expected);
                let gain = sure.mul_div(1000 - loss, 1000) + lost.mul_div(loss, 1000);
                let is_sure = sure > airtime;
                let pays = if is_overdue || is_sure {
                    gain > airtime
                } else {
                    self.terms.insure && budget && light && gain > premium
                };
                if pays && best.is_none_or(|(most, ..)| gain > most) {
                    best = Some((gain, path.id, serial, flown.offset));
                }
            }
        }
        let (_, path, serial, offset) = best?;
        self.asked = Some(serial);
        Some(Decision::Repeat(path, offset))
    }

    /// A copy of what is overdue and keeps everything else from being delivered.
    fn rescue(&mut self, cx: &Context<'_>, flow: &Flow) -> Option<Decision> {
        if !self.terms.copies || !self.terms.overdue {
            return None;
        }
        let (path, s) = self.first_open(cx)?;
        let now = cx.now;
        let airtime = s.rate.transmission_time(path.mss);
        // Until the message at hand could be complete.
        let rest = if self.terms.k[4] > 0.0 { s.rate.transmission_time(flow.message_end.min(flow.end).since(flow.next)) } else { Span::ZERO };
        let beats = now + s.expected + airtime;
        for other in cx.paths.iter().filter(|other| other.id != path.id) {
            let q = self.forecast(now, other);
            let late = q.overdue > q.rtt.mul_div((self.terms.k[0] * 1000.0) as u64, 1000);
            let (candidate, gain, count) = if late {
                let eta = q.arrival.max(q.overdue);
                let gain = eta.saturating_sub(s.expected) / 2 + (eta + q.rtt * 5 / 2).saturating_sub(s.expected) / 2;
                (self.flights.first_single(other.id, flow.una), gain, self.flights.singles(other.id))
            } else if self.terms.k[4] > 0.0 {
                let Some((_, last)) = self.flights.last_single(other.id, flow.una) else { continue };
                let gain = last.eta.since(now).saturating_sub(s.expected);
                (self.flights.first_after(other.id, flow.una, beats), gain, self.flights.count_after(other.id, beats))
            } else {
                continue;
            };
            let Some((serial, flown)) = candidate else { continue };
            if flown.carried.contains(path.id) || flown.offset > flow.next {
                continue;
            }
            let busy = if self.terms.k[5] > 0.0 { (airtime * count).mul_div(1000, 1000 - self.load_permille(cx)) } else { airtime * count };
            if gain > busy + rest {
                let offset = flown.offset;
                self.asked = Some(serial);
                return Some(Decision::Repeat(path.id, offset));
            }
        }
        None
    }

    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.asked = None;
        let Some(flow) = cx.flow else { return choose::send_or_wait(cx, min_rtt::pick(cx)) };
        let new = match cx.packet {
            Some(packet) if packet.reinjection => self.again(cx, flow),
            Some(_) if { self.message = flow.message_start; self.terms.k[0] > 0.0 } => self.rescue(cx, flow).or_else(|| self.fresh(cx, flow, false)),
            Some(_) => self.fresh(cx, flow, false),
            None => None,
        };
        new.or_else(|| self.copy(cx, flow)).unwrap_or_else(|| choose::wait(cx))
    }

    fn promise(&self, now: Instant, path: &Path) -> Promise {
        let f = self.forecast(now, path);
        Promise { eta: now + f.arrival, due: now + match self.terms.k[9] as i64 { 1 => f.rtt + (path.rttvar * 4).max(f.rtt / 4 + GRACE), 2 => f.rtt + f.rtt / 2 + GRACE, 3 => f.rtt + f.rtt / 4 + GRACE * 3, _ => f.rtt + f.rtt / 4 + GRACE } }
    }

    fn next_overdue(&self, cx: &Context<'_>) -> Option<Instant> {
        let dues = cx.paths.iter().filter_map(|path| self.flights.due(path.id));
        dues.filter(|due| *due > cx.now).min()
    }
}

impl Scheduler for EarliestDelivery {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let decision = self.decide(cx);
        self.wake = self.next_overdue(cx);
        decision
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        let una = cx.flow.map(|flow| flow.una).unwrap_or_default();
        if let Some(serial) = self.asked.take().filter(|_| !matches!(event, Event::Sent(..))) {
            self.flights.close(serial);
        }
        match *event {
            Event::Sent(sent, kind) => {
                if let (SendKind::Ahead | SendKind::Fresh, Some(flow)) = (kind, cx.flow) {
                    self.ahead.add(flow, sent.offset, sent.offset + sent.bytes);
                }
                if let Some(path) = cx.path(sent.path) {
                    let promise = self.promise(cx.now, path);
                    self.flights.sent(cx.now, &sent, kind, promise, una);
                }
                self.load.note(cx.now, sent.bytes);
                match kind {
                    SendKind::Duplicate => self.load.insured += sent.bytes.get(),
                    _ => self.load.fresh += sent.bytes.get(),
                }
            }
            Event::Acked(acked) => {
                self.flights.acked(cx.now, &acked, una);
                if let Some(path) = cx.path(acked.path) {
                    self.peaks.at(path.id).note(cx.now, path, if self.terms.k[8] > 0.0 { self.terms.k[8] as u64 } else { SPAN });
                }
            }
            Event::Lost(lost) => self.flights.lost(&lost, una),
            Event::PathUp(path) | Event::PathDown(path) => {
                self.peaks.reset(path);
                self.flights.forget(path);
            }
            _ => {}
        }
        self.wake = self.next_overdue(cx);
    }

    fn wake(&self) -> Option<Instant> {
        self.wake
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let foretold = cx.paths.iter().map(|path| {
            let f = self.forecast(cx.now, path);
            format!("{:?} {} ({}{:?})", path.id, f.expected, if f.overdue.is_zero() { "" } else { "late " }, path.blocked)
        });
        Some(foretold.collect::<Vec<_>>().join(", "))
    }
}
