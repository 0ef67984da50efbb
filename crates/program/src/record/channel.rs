//! Path at an end: packets in, packets out, and when to come back. No socket, and no clock of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::arrivals::{Arrivals, MOST_QUEUE_US};
use super::probes;
use super::window::{KNOCK_NS, Window};
use super::wire::{Body, FULL_BYTES, Feedback, Kind, Ns, Packet, Plan, Probe, SECOND_NS, Session, ask, load, packed};

/// Load begins after this time, in which round trips are those without load.
pub const QUIET_NS: Ns = 2 * SECOND_NS;
const FEEDBACK_NS: Ns = 20_000_000;
/// Ten times what records take, for those that are lost; a peer that asks for more gets nothing.
const ANSWERED_BYTES_PER_S: u64 = 25_000;
/// No honest peer says more: one more than this is still a number.
const MOST_NUMBER: u32 = u32::MAX - 1;
/// No honest peer lets a packet wait for more than an hour.
const MOST_WAIT_NS: Ns = 3600 * SECOND_NS;
/// No honest peer sends probes for longer than this before and after what is recorded.
const PROBED_BESIDE_NS: Ns = 60 * SECOND_NS;
/// The share of the cap that load and probes leave: half of it for feedback, the other half for answers alone.
const REST: f64 = 0.02;
/// No more packets of load leave before the other paths have their turn.
const BURST: i64 = 64;

/// Round trip of a probe that came back with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// Time when it came back.
    pub at_ns: Ns,
    /// Time that it was under way.
    pub rtt_ns: Ns,
    /// The other end's clock less this one's.
    pub offset_ns: Ns,
}

/// State of a path: what was sent and what came there.
pub struct Channel {
    session: Session,
    path: u8,
    plan: Plan,
    /// Time when it began.
    pub begin_ns: Ns,
    header: usize,
    probes: u32,
    /// Times when each probe left, by its number.
    pub probes_sent_ns: BTreeMap<u32, Ns>,
    load: u32,
    load_sent_ns: Ns,
    window: Window,
    sent_bytes: u64,
    /// The cap allows no more.
    pub is_spent: bool,
    /// Nor does it at the other end.
    pub other_is_spent: bool,
    /// Packets that came.
    pub arrivals: Arrivals,
    most_probes: u32,
    came_probes: BTreeSet<u32>,
    /// Times when probes of trains left, by their number and the other end's clock.
    pub trains: BTreeMap<u32, Ns>,
    /// Round trips of probes that came back.
    pub round_trips: Vec<RoundTrip>,
    echo: u32,
    echo_ns: Ns,
    fastest_ns: Option<Ns>,
    came: u32,
    newest: Feedback,
    feedback_ns: Option<Ns>,
    answered_bytes: u64,
    is_over: bool,
}

impl Channel {
    /// A path that begins at `begin_ns`. `header` is what IP and UDP add to a packet, in bytes.
    pub fn new(session: Session, path: u8, plan: Plan, begin_ns: Ns, header: usize) -> Self {
        let probed_ns = Ns::from(plan.seconds) * SECOND_NS + PROBED_BESIDE_NS;
        Self {
            session,
            path,
            plan,
            begin_ns,
            header,
            probes: 0,
            probes_sent_ns: BTreeMap::new(),
            load: 0,
            load_sent_ns: 0,
            window: Window::default(),
            sent_bytes: 0,
            is_spent: false,
            other_is_spent: false,
            arrivals: Arrivals::default(),
            most_probes: probes::between(0, probed_ns).end,
            came_probes: BTreeSet::new(),
            trains: BTreeMap::new(),
            round_trips: Vec::new(),
            echo: 0,
            echo_ns: 0,
            fastest_ns: None,
            came: 0,
            newest: Feedback::none(path),
            feedback_ns: None,
            answered_bytes: 0,
            is_over: false,
        }
    }

    /// Lets no more load leave, and answers none: so the other end has nothing that makes it go on.
    pub fn end_load(&mut self) {
        (self.is_over, self.feedback_ns) = (true, None);
    }

    /// Takes in a packet of `size` bytes.
    pub fn receive(&mut self, arrived_ns: Ns, packet: &Packet<'_>, size: usize) {
        let bytes = u32::try_from(size + self.header).unwrap_or(u32::MAX);
        match packet.kind {
            Kind::Probe => {
                // Each once, and no more than there can be: what is kept of a peer does not grow as it likes.
                if let Some(probe) = Probe::unpack(packet.body)
                    && probe.number < self.most_probes
                    && self.came_probes.insert(probe.number)
                {
                    self.on_probe(arrived_ns, &probe, bytes);
                }
            }
            Kind::Load => {
                let mut body = Body(packet.body);
                if let (Some(number), Some(sent_ns)) = (body.number(), body.time()) {
                    self.on_load(arrived_ns, number.min(MOST_NUMBER), sent_ns, bytes);
                }
            }
            _ => self.arrivals.add(arrived_ns, bytes, MOST_QUEUE_US, 0),
        }
    }

    /// Takes in what the other end has got of the load on this path.
    pub fn on_feedback(&mut self, arrived_ns: Ns, told: Feedback) {
        self.other_is_spent = told.is_spent;
        self.window.on_feedback(arrived_ns, told, self.load);
    }

    fn on_probe(&mut self, arrived_ns: Ns, probe: &Probe, size: u32) {
        self.arrivals.add_probe(arrived_ns, probe.number, size);
        if probes::in_train(probe.number).is_some() {
            self.trains.insert(probe.number, probe.sent_ns);
        }
        if probe.number >= self.echo {
            (self.echo, self.echo_ns) = (probe.number + 1, arrived_ns);
        }
        let echoed = probe.echo.checked_sub(1).and_then(|number| self.probes_sent_ns.get(&number));
        if let Some(left) = echoed {
            let waited = probe.sent_ns - probe.echo_arrived_ns;
            let (there, back) = (probe.echo_arrived_ns - left, probe.sent_ns - arrived_ns);
            let (rtt_ns, offset_ns) = ((arrived_ns - left - waited).max(0), (there + back).div_euclid(2));
            self.round_trips.push(RoundTrip { at_ns: arrived_ns, rtt_ns, offset_ns });
        }
    }

    fn on_load(&mut self, arrived_ns: Ns, number: u32, sent_ns: Ns, size: u32) {
        let took = arrived_ns - sent_ns;
        let fastest = self.fastest_ns.map_or(took, |before| before.min(took));
        self.fastest_ns = Some(fastest);
        let queue_ns = (took - fastest).min(MOST_WAIT_NS);
        let lost = number.saturating_sub(self.newest.expected);
        self.arrivals.add(arrived_ns, size, u32::try_from(queue_ns / 1000).unwrap_or(MOST_QUEUE_US), lost);
        self.came = self.came.saturating_add(1);
        if number >= self.newest.expected {
            self.newest = Feedback { expected: number + 1, sent_ns, queue_ns, ..self.newest };
        }
        if self.feedback_ns.is_none() && !self.is_over {
            self.feedback_ns = Some(arrived_ns);
        }
    }

    /// Packets that leave now.
    pub fn due(&mut self, now_ns: Ns) -> Vec<Vec<u8>> {
        self.arrivals.close_late(now_ns);
        let mut found = Vec::new();
        while self.begin_ns + probes::due_ns(self.probes) <= now_ns && self.may_send() {
            found.push(self.probe(now_ns));
        }
        if self.plan.load && !self.is_over && now_ns >= self.begin_ns + QUIET_NS {
            let mut room = self.window.room(now_ns, self.load, self.load_sent_ns).min(BURST);
            while room > 0 && self.may_send() {
                found.push(self.next_load(now_ns));
                room -= 1;
            }
        }
        found
    }

    /// Time when something is due next, if nothing comes.
    pub fn wake_ns(&self, now_ns: Ns) -> Ns {
        let probe = (!self.is_spent).then(|| self.begin_ns + probes::due_ns(self.probes));
        let loads = self.plan.load && !self.is_spent && !self.is_over;
        let load = loads.then(|| {
            let is_free = self.window.in_flight(self.load) < self.window.limit;
            (self.begin_ns + QUIET_NS).max(if is_free { now_ns } else { self.load_sent_ns + KNOCK_NS })
        });
        [self.feedback_ns, probe, load].into_iter().flatten().min().unwrap_or(now_ns + SECOND_NS)
    }

    /// Returns true if the cap allows another probe, or packet of load.
    fn may_send(&mut self) -> bool {
        self.is_spent = self.is_spent || !self.has_left(REST);
        !self.is_spent
    }

    /// Returns true if this share of the cap is left after another packet.
    fn has_left(&self, share: f64) -> bool {
        let after = self.sent_bytes + (FULL_BYTES + self.header) as u64;
        after as f64 <= self.plan.cap as f64 * (1.0 - share)
    }

    fn packed(&mut self, kind: Kind, body: &[u8], size: usize) -> Vec<u8> {
        let data = packed(kind, self.path, self.session, body, size);
        self.sent_bytes += (data.len() + self.header) as u64;
        data
    }

    fn probe(&mut self, now_ns: Ns) -> Vec<u8> {
        let number = self.probes;
        self.probes += 1;
        self.probes_sent_ns.insert(number, now_ns);
        // Under load, what arrives tells the rate.
        let is_full = probes::in_train(number).is_some() && !self.plan.load;
        let probe = Probe { number, sent_ns: now_ns, echo: self.echo, echo_arrived_ns: self.echo_ns };
        self.packed(Kind::Probe, &probe.pack(), if is_full { FULL_BYTES } else { probes::SINGLE_BYTES })
    }

    fn next_load(&mut self, now_ns: Ns) -> Vec<u8> {
        let body = load(self.load, now_ns);
        self.load = self.load.saturating_add(1);
        self.load_sent_ns = now_ns;
        self.packed(Kind::Load, &body, FULL_BYTES)
    }

    /// Feedback on the load that this end has got, if it is time to tell.
    pub fn feedback(&mut self, now_ns: Ns) -> Option<Feedback> {
        self.feedback_ns.filter(|at| now_ns >= *at)?;
        self.feedback_ns = Some(now_ns + FEEDBACK_NS);
        Some(Feedback { now_ns, count: self.came, is_spent: self.is_spent, ..self.newest })
    }

    /// Feedback about this path or another one, as it leaves here, if the cap allows it.
    pub fn told(&mut self, feedback: &Feedback) -> Option<Vec<u8>> {
        self.has_left(REST / 2.0).then(|| self.packed(Kind::Feedback, &feedback.pack(), 0))
    }

    /// The question for the other end's records of a path, from `first` on.
    pub fn ask(&mut self, path: u8, first: u32) -> Vec<u8> {
        self.packed(Kind::Ask, &ask(path, first), 0)
    }

    /// The answer to that, unless more was asked for than there can be, or than the cap allows.
    pub fn answer(&mut self, records: &[u8]) -> Option<Vec<u8>> {
        let most = ANSWERED_BYTES_PER_S * u64::from(self.plan.seconds);
        if self.answered_bytes > most || !self.has_left(0.0) {
            return None;
        }
        let data = self.packed(Kind::Records, records, 0);
        self.answered_bytes += (data.len() + self.header) as u64;
        Some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::wire::unpacked;

    const MS: Ns = 1_000_000;

    /// The other clock is 1 s ahead. The probe leaves at 0, is there after 30 ms, and is told 100 ms later; that takes
    /// 50 ms: 80 ms in all. By the mean of both ways the clocks differ by (1030 + (1130 − 180)) / 2 = 990 ms.
    #[test]
    fn a_round_trip_is_without_the_wait_between_and_tells_the_other_clock() {
        let plan = Plan { paths: 2, seconds: 10, load: false, cap: 1_000_000 };
        let mut channel = Channel::new(*b"session!", 0, plan, 0, 28);
        assert_eq!(channel.due(0).len(), 4);
        let probe = Probe { number: 4, sent_ns: 1130 * MS, echo: 1, echo_arrived_ns: 1030 * MS };
        let data = packed(Kind::Probe, 0, *b"session!", &probe.pack(), 0);
        channel.receive(180 * MS, &unpacked(&data).unwrap(), 64);
        assert_eq!(channel.round_trips, [RoundTrip { at_ns: 180 * MS, rtt_ns: 80 * MS, offset_ns: 990 * MS }]);
    }
}
