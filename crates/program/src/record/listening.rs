//! The end that listens: it answers only peers that have shown where they are, one recording at a time.
//!
//! Who has not shown it gets no more bytes than it sent, and nothing is kept of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::channel::Channel;
use super::cookies::Cookies;
use super::wire::{
    Body, Feedback, HELLO_BYTES, Kind, Ns, Packet, Plan, SECOND_NS, Session as Name, other_version, packed, session_of,
    unpacked,
};
use super::{arrivals, places};
use crate::text::amount;

/// A recording takes at most this time.
pub const MOST_SECONDS: u32 = 3600;
const MOST_PATHS: u8 = 16;

/// A recording ends of which nothing is heard for so long: longer than most outages of all links.
pub const SILENCE_NS: Ns = 30 * SECOND_NS;
/// After this silence another recording may take its place.
const GONE_NS: Ns = 5 * SECOND_NS;
/// Time of a recording before its first second and after its last.
const GRACE_NS: Ns = 20 * SECOND_NS;

/// Packets that leave, and where to.
pub type Out = Vec<(Vec<u8>, SocketAddr)>;

/// The other end of one path.
pub struct Peer {
    /// State of what was sent and came.
    pub channel: Channel,
    address: SocketAddr,
}

/// The recording that is going on.
pub struct Session {
    name: Name,
    plan: Plan,
    begin_ns: Ns,
    heard_ns: Ns,
    /// By path.
    pub peers: BTreeMap<u8, Peer>,
}

/// Answers of the listening end: no socket, and no clock of its own.
pub struct Host<'a> {
    cap: u64,
    cookies: Cookies,
    tell: Box<dyn FnMut(&str) + 'a>,
    /// The recording that is going on.
    pub session: Option<Session>,
}

impl<'a> Host<'a> {
    /// An end that grants `cap` bytes a path and direction at most. `tell` is told what goes on.
    pub fn new(cap: u64, secret: &[u8], tell: impl FnMut(&str) + 'a) -> Self {
        Self { cap, cookies: Cookies::new(secret), tell: Box::new(tell), session: None }
    }

    /// The answer to a packet.
    pub fn receive(&mut self, now_ns: Ns, arrived_ns: Ns, data: &[u8], address: SocketAddr) -> Out {
        let is_hello_long = data.len() >= HELLO_BYTES;
        if other_version(data).is_some() {
            // One as short as such an answer is itself has none: two ends would answer each other for ever.
            let answer = || (packed(Kind::OtherVersion, 0, session_of(data), &[], 0), address);
            return is_hello_long.then(answer).into_iter().collect();
        }
        let Some(packet) = unpacked(data) else { return Vec::new() };
        let answer = match packet.kind {
            Kind::Hello => is_hello_long.then(|| {
                let cookie = self.cookies.bake(now_ns, &address.to_string(), packet.session, packet.path);
                packed(Kind::Cookie, packet.path, packet.session, &cookie, 0)
            }),
            Kind::Start => self.start(now_ns, &packet, address),
            _ => self.heard(now_ns, arrived_ns, &packet, data.len(), address),
        };
        answer.map(|answer| (answer, address)).into_iter().collect()
    }

    fn start(&mut self, now_ns: Ns, packet: &Packet<'_>, address: SocketAddr) -> Option<Vec<u8>> {
        let (cookie, plan) = Plan::unpack(packet.body)?;
        let (name, path) = (packet.session, packet.path);
        if !self.cookies.is_valid(&cookie, now_ns, &address.to_string(), name, path) {
            return None;
        }
        if let Some(reason) = self.obstacle(now_ns, packet, &plan) {
            return Some(packed(Kind::Refused, path, name, reason.as_bytes(), 0));
        }
        let session = self.session_of(now_ns, name, plan, address);
        session.heard_ns = now_ns;
        let plan = session.plan;
        let header = places::header(address);
        let peer = session
            .peers
            .entry(path)
            .or_insert_with(|| Peer { channel: Channel::new(name, path, plan, now_ns, header), address });
        // Asked again: the answer was lost, or the path has another address since.
        peer.address = address;
        let began = super::wire::time_bytes(peer.channel.begin_ns);
        Some(packed(Kind::Ready, path, name, &began, 0))
    }

    /// The recording of this name, which begins if it is not going on.
    fn session_of(&mut self, now_ns: Ns, name: Name, plan: Plan, address: SocketAddr) -> &mut Session {
        let old = self.session.take().filter(|session| session.name == name);
        if old.is_none() {
            let load = match plan.load {
                true => format!("load up to {} a path and direction", amount(plan.cap)),
                false => "probes".to_owned(),
            };
            (self.tell)(&format!("{}: {} paths, {} s, {load}", address.ip(), plan.paths, plan.seconds));
        }
        let begun = || Session { name, plan, begin_ns: now_ns, heard_ns: now_ns, peers: BTreeMap::new() };
        self.session.insert(old.unwrap_or_else(begun))
    }

    /// Why what is asked for is not granted.
    fn obstacle(&self, now_ns: Ns, packet: &Packet<'_>, plan: &Plan) -> Option<String> {
        let is_busy = |session: &Session| session.name != packet.session && now_ns - session.heard_ns < GONE_NS;
        if self.session.as_ref().is_some_and(is_busy) {
            return Some("it is busy with another recording".to_owned());
        }
        if plan.seconds > MOST_SECONDS {
            return Some(format!("a recording takes at most {MOST_SECONDS} s there"));
        }
        if plan.paths > MOST_PATHS || packet.path >= plan.paths {
            return Some(format!("a recording has at most {MOST_PATHS} paths there"));
        }
        (plan.cap > self.cap).then(|| {
            let (asked, granted) = (amount(plan.cap), amount(self.cap));
            format!(
                "it grants at most {granted} a path and direction, and {asked} are asked for; its --cap allows more"
            )
        })
    }

    /// Takes in a packet of the recording that is going on, if it comes from where its path is.
    fn heard(
        &mut self,
        now_ns: Ns,
        arrived_ns: Ns,
        packet: &Packet<'_>,
        size: usize,
        from: SocketAddr,
    ) -> Option<Vec<u8>> {
        let session = self.session.as_mut().filter(|session| session.name == packet.session)?;
        let peer = session.peers.get_mut(&packet.path).filter(|peer| peer.address == from)?;
        session.heard_ns = now_ns;
        if packet.kind == Kind::Bye {
            self.end("finished");
            return None;
        }
        peer.channel.receive(arrived_ns, packet, size);
        match packet.kind {
            Kind::Feedback => {
                let told = Feedback::unpack(packet.body)?;
                session.peers.get_mut(&told.path)?.channel.on_feedback(arrived_ns, told);
                None
            }
            Kind::Ask => {
                let mut body = Body(packet.body);
                let (path, first) = (body.byte()?, body.number()?);
                let records = arrivals::packed(path, first, &session.peers.get(&path)?.channel.arrivals.records);
                session.peers.get_mut(&packet.path)?.channel.answer(&records)
            }
            _ => None,
        }
    }

    /// Packets that leave now without having been asked for in this moment.
    pub fn due(&mut self, now_ns: Ns) -> Out {
        let Some(session) = self.session.as_mut() else { return Vec::new() };
        if now_ns - session.heard_ns > SILENCE_NS {
            self.end(&format!("nothing was heard for {} s", SILENCE_NS / SECOND_NS));
            return Vec::new();
        }
        if now_ns - session.begin_ns > Ns::from(session.plan.seconds) * SECOND_NS + GRACE_NS {
            self.end("over");
            return Vec::new();
        }
        let news: Vec<_> = session.peers.values_mut().filter_map(|peer| peer.channel.feedback(now_ns)).collect();
        let mut found = Vec::new();
        for told in &news {
            let told = session.peers.values_mut().filter_map(|peer| Some((peer.channel.told(told)?, peer.address)));
            found.extend(told);
        }
        for peer in session.peers.values_mut() {
            found.extend(peer.channel.due(now_ns).into_iter().map(|data| (data, peer.address)));
        }
        found
    }

    /// Time when something is due next, if nothing comes.
    pub fn wake_ns(&self, now_ns: Ns) -> Ns {
        let peers = self.session.iter().flat_map(|session| session.peers.values());
        peers.map(|peer| peer.channel.wake_ns(now_ns)).fold(now_ns + SECOND_NS, Ns::min)
    }

    /// Returns true if something is sent there without having been asked for.
    pub fn is_peer(&self, address: SocketAddr) -> bool {
        self.session.iter().flat_map(|session| session.peers.values()).any(|peer| peer.address == address)
    }

    fn end(&mut self, why: &str) {
        (self.tell)(why);
        self.session = None;
    }
}

#[cfg(test)]
#[path = "listening_tests.rs"]
mod tests;
