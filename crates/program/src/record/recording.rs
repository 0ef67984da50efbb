//! The end with the links: greets the other one over each of them, measures, and fetches what the other one got.

use super::arrivals::{self, RECORDS_PER_PACKET, RECORDS_PER_S};
use super::channel::{Channel, QUIET_NS};
use super::line::{AGAIN_NS, Line, SILENT_NS};
use super::listening::SILENCE_NS;
use super::places::{self, Received};
use super::probes::STEP_NS;
use super::waiting;
use super::wire::{
    Feedback, Kind, Ns, Packet, Plan, SECOND_NS, Session, other_version, packed, unpacked, versions_differ,
};
use crate::failure::{Done, Failure, INTERRUPTED};
use crate::signals;
use crate::text::printable;

/// The other end is not there, or a link leads nowhere, if nothing comes within this time.
const ANSWER_NS: Ns = 5 * SECOND_NS;
/// The recording begins so long after the probes, or after the load.
const SETTLE_NS: Ns = SECOND_NS;
/// Time from one question for records to the next, while the recording goes on.
const FETCH_NS: Ns = SECOND_NS;
/// Time after which what left at the end of the recording is there, or lost.
const LINGER_NS: Ns = SECOND_NS;
/// Time for which the other end is asked for its last records.
const DRAIN_NS: Ns = 10 * SECOND_NS;
/// Time for that after an interrupt.
const HASTY_NS: Ns = 2 * SECOND_NS;
/// Time that no honest peer records for longer, before and after what is asked for.
const BESIDE_S: usize = 60;
/// Longest wait without a look around.
const TURN_NS: Ns = 50_000_000;

/// Measurement, from `begin_ns` to `end_ns` by this end's clock.
pub struct Recorded {
    /// The paths.
    pub lines: Vec<Line>,
    /// Request that began it.
    pub plan: Plan,
    /// Time when it began.
    pub begin_ns: Ns,
    /// Time when it ended.
    pub end_ns: Ns,
    /// The path whose cap was spent before the end.
    pub spent: Option<String>,
    /// It was interrupted.
    pub interrupted: bool,
    /// Why records of the other end are missing, if they are.
    pub missing: Option<String>,
}

impl Recorded {
    /// Number of steps of a drive between begin and end.
    pub fn steps(&self) -> usize {
        usize::try_from((self.end_ns - self.begin_ns) / STEP_NS).unwrap_or(0)
    }
}

/// A recording over several paths.
pub struct Recorder {
    plan: Plan,
    peer: String,
    session: Session,
    lines: Vec<Line>,
    is_over: bool,
    /// Why the other end does not go on with this recording.
    gone: Option<String>,
    /// The other end is gone if nothing is heard of it for so long.
    silence_ns: Ns,
}

impl Recorder {
    /// A recording over these paths with the end at `peer`.
    pub fn new(paths: &[String], peer: &str, plan: Plan) -> Done<Self> {
        let found = places::addresses(peer)?;
        let line = |path: &String| Ok(Line::new(path, places::at(path, &found)?));
        Ok(Self {
            plan,
            peer: peer.to_owned(),
            session: super::random()?,
            lines: paths.iter().map(line).collect::<Done<_>>()?,
            is_over: false,
            gone: None,
            silence_ns: SILENCE_NS,
        })
    }

    /// Measures until the time is over, a cap is spent, the other end is gone, or there is an interrupt.
    ///
    /// `tell` is told for how many seconds the other end was heard, some times a second.
    pub fn run(mut self, mut tell: impl FnMut(u32)) -> Done<Recorded> {
        places::hurry();
        self.greet(&mut tell)?;
        self.measure(&mut tell)
    }

    fn greet(&mut self, tell: &mut impl FnMut(u32)) -> Done {
        let end = places::now_ns() + ANSWER_NS;
        loop {
            let silent: Vec<_> = self.lines.iter().filter(|line| line.channel.is_none()).collect();
            if silent.is_empty() {
                return Ok(());
            }
            if signals::interrupted() {
                return Err(Failure::Status("interrupted before anything was measured".to_owned(), INTERRUPTED));
            }
            if places::now_ns() > end {
                let names: Vec<_> = silent.iter().map(|line| line.name.as_str()).collect();
                return Err(no_answer(&names, &self.peer, self.lines.len()));
            }
            tell(0);
            self.turn()?;
        }
    }

    fn measure(mut self, tell: &mut impl FnMut(u32)) -> Done<Recorded> {
        let settle_ns = if self.plan.load { QUIET_NS + SETTLE_NS } else { SETTLE_NS };
        let began = self.lines.iter().filter_map(|line| Some(line.channel.as_ref()?.begin_ns)).max();
        let begin_ns = began.unwrap_or_else(places::now_ns) + settle_ns;
        let end_ns = begin_ns + Ns::from(self.plan.seconds) * SECOND_NS;
        let mut spent = None;
        loop {
            let now = places::now_ns();
            if now >= end_ns || spent.is_some() || self.is_gone(now) || signals::interrupted() {
                break;
            }
            self.turn()?;
            spent = self.spent();
            self.fetch(now, FETCH_NS);
            let heard_ns = (now.min(self.heard_ns()) - begin_ns).max(0);
            tell(u32::try_from(heard_ns / SECOND_NS).unwrap_or(u32::MAX));
        }
        let end_ns = places::now_ns().min(end_ns);
        self.drain(end_ns)?;
        let (interrupted, missing) = (signals::interrupted(), self.missing());
        Ok(Recorded { lines: self.lines, plan: self.plan, begin_ns, end_ns, spent, interrupted, missing })
    }

    /// Time when the other end was heard last, over any path.
    fn heard_ns(&self) -> Ns {
        self.lines.iter().map(|line| line.heard_ns).max().unwrap_or(0)
    }

    /// Returns true if the other end does not go on: it says so, or has forgotten this recording, since all is silent.
    fn is_gone(&self, now_ns: Ns) -> bool {
        self.gone.is_some() || now_ns - self.heard_ns() > self.silence_ns
    }

    fn missing(&mut self) -> Option<String> {
        if self.gone.is_some() || self.is_complete() {
            return self.gone.take();
        }
        let silent_ns = places::now_ns() - self.heard_ns();
        Some(if silent_ns < SILENT_NS {
            format!("the last records of {} did not arrive", self.peer)
        } else {
            format!("{} has not answered for {:.0} s", self.peer, silent_ns as f64 / 1e9)
        })
    }

    fn is_complete(&self) -> bool {
        self.lines.iter().all(|line| line.is_complete)
    }

    fn spent(&self) -> Option<String> {
        let is_spent = |channel: &Channel| channel.is_spent || channel.other_is_spent;
        let spent = self.lines.iter().find(|line| line.channel.as_ref().is_some_and(is_spent));
        spent.map(|line| line.name.clone())
    }

    /// Asks for records that are not here yet; for those of each path over itself, and then over another one.
    fn fetch(&mut self, now_ns: Ns, every_ns: Ns) {
        let turn = usize::try_from(now_ns / every_ns).unwrap_or(0);
        for at in 0..self.lines.len() {
            let line = &mut self.lines[at];
            if now_ns - line.asked_ns < every_ns || line.is_complete {
                continue;
            }
            line.asked_ns = now_ns;
            let first = u32::try_from(line.records.len()).unwrap_or(u32::MAX);
            let via = (at + turn) % self.lines.len();
            let via = &mut self.lines[via];
            if let Some(channel) = &mut via.channel {
                let asked = channel.ask(number(at), first);
                via.send(vec![asked]);
            }
        }
    }

    /// Waits for what is under way, and fetches all records; then says goodbye.
    fn drain(&mut self, end_ns: Ns) -> Done {
        let hasty = signals::interrupted();
        self.lines.iter_mut().filter_map(|line| line.channel.as_mut()).for_each(Channel::end_load);
        let give_up_ns = places::now_ns() + LINGER_NS + if hasty { HASTY_NS } else { DRAIN_NS };
        loop {
            let now = places::now_ns();
            let is_left = if hasty { signals::interrupted_again() } else { signals::interrupted() };
            if now >= give_up_ns || self.is_complete() || self.is_gone(now) || is_left {
                break;
            }
            self.turn()?;
            if now > end_ns + LINGER_NS {
                self.is_over = true;
                self.fetch(now, AGAIN_NS);
            }
        }
        for _ in 0..2 {
            for (at, line) in self.lines.iter_mut().enumerate() {
                line.send(vec![packed(Kind::Bye, number(at), self.session, &[], 0)]);
            }
        }
        Ok(())
    }

    /// Sends what is due, and takes what has come before something is due again.
    fn turn(&mut self) -> Done {
        let now = places::now_ns();
        let news: Vec<_> = self.lines.iter_mut().filter_map(|line| line.channel.as_mut()?.feedback(now)).collect();
        for (at, line) in self.lines.iter_mut().enumerate() {
            line.tell(&news);
            line.greet_again(now, number(at), self.session);
            line.send_due(now);
        }
        let wakes = self
            .lines
            .iter()
            .filter(|line| line.waiting.is_empty())
            .filter_map(|line| Some(line.channel.as_ref()?.wake_ns(now)));
        let wait_ns = wakes.min().unwrap_or(now + TURN_NS) - places::now_ns();
        let sockets: Vec<_> = self.lines.iter().map(|line| (&line.socket, !line.waiting.is_empty())).collect();
        waiting::wait(&sockets, wait_ns.clamp(0, TURN_NS));
        for at in 0..self.lines.len() {
            for one in places::received(&self.lines[at].socket) {
                self.receive(at, &one)?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, at: usize, one: &Received) -> Done {
        let line = &mut self.lines[at];
        if let (Some(theirs), None) = (other_version(&one.data), &line.channel) {
            return Err(versions_differ(theirs));
        }
        let Some(packet) = unpacked(&one.data).filter(|packet| packet.session == self.session) else { return Ok(()) };
        line.heard_ns = places::now_ns();
        match packet.kind {
            Kind::Cookie => {
                let cookie = packet.body.get(..16).unwrap_or(packet.body);
                line.send(vec![packed(Kind::Start, number(at), self.session, &self.plan.pack(cookie), 0)]);
            }
            Kind::Refused => {
                let reason = printable(&String::from_utf8_lossy(packet.body), "");
                if line.channel.is_none() {
                    return Err(Failure::run(format!("{} refused: {reason}", self.peer)));
                }
                self.gone = Some(format!("{} refused to go on: {reason}", self.peer));
            }
            Kind::Ready => self.granted(at, &packet),
            _ => self.heard(at, one, &packet),
        }
        Ok(())
    }

    fn granted(&mut self, at: usize, packet: &Packet<'_>) {
        let Some(other_begin_ns) = super::wire::Body(packet.body).time() else { return };
        let line = &mut self.lines[at];
        if line.channel.is_none() {
            line.other_begin_ns = other_begin_ns;
            let header = places::header(line.peer);
            line.channel = Some(Channel::new(self.session, number(at), self.plan, places::now_ns(), header));
        } else if line.other_begin_ns != other_begin_ns {
            self.gone = Some(format!("{} began anew, and what it had got before is lost", self.peer));
        }
    }

    fn heard(&mut self, at: usize, one: &Received, packet: &Packet<'_>) {
        let Some(channel) = &mut self.lines[at].channel else { return };
        channel.receive(one.arrived_ns, packet, one.data.len());
        match packet.kind {
            Kind::Records => self.take(packet),
            Kind::Feedback => {
                if let Some(told) = Feedback::unpack(packet.body)
                    && let Some(line) = self.lines.get_mut(usize::from(told.path))
                    && let Some(channel) = &mut line.channel
                {
                    channel.on_feedback(one.arrived_ns, told);
                }
            }
            _ => {}
        }
    }

    /// Takes in records of the other end; those that are here already are left out.
    fn take(&mut self, packet: &Packet<'_>) {
        let Some((path, first, records)) = arrivals::unpacked(packet.body) else { return };
        let Some(line) = self.lines.get_mut(usize::from(path)) else { return };
        let Some(known) = line.records.len().checked_sub(first as usize) else { return };
        let new = records.get(known..).unwrap_or_default();
        if line.records.len() + new.len() > (self.plan.seconds as usize + BESIDE_S) * RECORDS_PER_S {
            self.gone = Some(format!("{} sent more records than there can be", self.peer));
            return;
        }
        line.records.extend(new);
        if records.len() == RECORDS_PER_PACKET {
            line.asked_ns = 0;
        } else if self.is_over {
            line.is_complete = true;
        }
    }
}

/// The number of a path on the wire: there are few.
fn number(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}

fn no_answer(silent: &[&str], peer: &str, paths: usize) -> Failure {
    let (over, hint) = if silent.len() < paths {
        (silent.join(" and "), "the other paths have answers: has this link a route to it?")
    } else {
        ("any path".to_owned(), "is `weft record --listen` running there, and is its UDP port open?")
    };
    Failure::run(format!("no answer from {peer} over {over} within {} s; {hint}", ANSWER_NS / SECOND_NS))
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
