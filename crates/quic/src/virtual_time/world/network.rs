//! Datagrams on links: where each goes, and what becomes of it.

use bytes::BytesMut;
use weftway_link::{Link, Reason, Verdict};
use weftway_net::{Links, Route};
use weftway_path::{Bytes, Instant, PathId, PathSet};
use weftway_scenario::config::SimConfig;
use weftway_scenario::mix;

use crate::driver::connection::Outgoing;
use crate::virtual_time::setup::HEADERS;

/// Counters of links for packets with data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireTally {
    /// Lost on the way, or because a link was down.
    pub lost: u64,
    /// Dropped by a full queue.
    pub dropped: u64,
    /// Bytes that they took on the path's own link.
    pub bytes: u64,
}

/// The links of a run and the datagrams on them.
pub struct Network {
    /// The links, by number.
    pub links: Vec<Link<u32>>,
    /// Which links each path uses.
    pub routes: Vec<Route>,
    /// The paths that exist now.
    pub present: PathSet,
    /// Counters of the links for the data of each path.
    pub wire: Vec<WireTally>,
    /// Number of datagrams that were put on links.
    pub count: u64,
    pub(in crate::virtual_time) copies: Copies,
    /// Bytes that a packet takes beside its data, and what one without data takes, as the scenario has it.
    headers: Bytes,
    bare: Bytes,
    seed: u64,
    datagrams: Datagrams,
}

/// A datagram on a link.
#[derive(Debug)]
pub struct Datagram {
    /// Its payload.
    pub bytes: BytesMut,
    /// Path that it takes.
    pub path: PathId,
    /// True if it is ECN-capable.
    pub ecn: bool,
    /// True if it goes from the sender of the data to the receiver.
    pub forward: bool,
    /// Bytes that it takes on a link.
    size: Bytes,
    is_data: bool,
    /// True if the network brings it once more, after it has arrived.
    again: bool,
}

/// Parts of a datagram that decide about its way.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// Number of bytes of the data in it.
    pub payload: u32,
    /// True if it is ECN-capable.
    pub ecn: bool,
    /// True if it goes from the sender of the data to the receiver.
    pub forward: bool,
}

/// Number of times that the network copies a datagram: a fault that tests inject. No scenario has it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::virtual_time) struct Copies {
    /// In units of 2⁻³².
    share: u64,
    draws: u64,
    pub made: u64,
}

/// Copy of a datagram: whether it follows, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copy {
    No,
    /// At once.
    Now,
    /// Time at which the first one has arrived.
    Late,
}

impl Copies {
    /// Sets the share of datagrams that is copied from now on.
    pub fn set_share(&mut self, share: f64) {
        self.share = (share.clamp(0.0, 1.0) * 2f64.powi(32)).round() as u64;
    }

    fn draw(&mut self, seed: u64) -> Copy {
        if self.share == 0 {
            return Copy::No;
        }
        self.draws += 1;
        let draw = mix(mix(seed, 0xc09), self.draws);
        match (draw >> 32 < self.share, draw & 1) {
            (false, _) => Copy::No,
            (true, 0) => Copy::Now,
            (true, _) => Copy::Late,
        }
    }
}

impl Network {
    /// The links of `config`, with nothing on them.
    pub fn new(config: &SimConfig, seed: u64) -> Self {
        let mut net = Links::new(config, seed);
        let routes: Vec<Route> = config.paths.iter().map(|path| net.add(0, path, config.transport.ecn)).collect();
        Self {
            links: net.links,
            wire: vec![WireTally::default(); routes.len()],
            routes,
            present: PathSet::EMPTY,
            count: 0,
            copies: Copies::default(),
            headers: config.transport.packet - config.transport.mss,
            bare: config.transport.ack_packet,
            seed,
            datagrams: Datagrams::default(),
        }
    }

    /// A datagram goes onto its link, if it has one.
    pub(in crate::virtual_time) fn send(&mut self, now: Instant, out: &Outgoing, forward: bool) {
        if let Some(path) = out.path {
            self.send_bytes(now, path, &out.bytes, Carried { payload: out.payload, ecn: out.ecn, forward });
        }
    }

    /// A datagram with these bytes goes onto the link of `path`, if that is there.
    pub fn send_bytes(&mut self, now: Instant, path: PathId, bytes: &[u8], carried: Carried) {
        if !self.present.contains(path) {
            return;
        }
        self.count += 1;
        let copy = self.copies.draw(self.seed);
        let Carried { payload, ecn, forward } = carried;
        let (is_data, size) = (payload > 0, self.size(payload, bytes.len()));
        let bytes = BytesMut::from(bytes);
        let second = (copy == Copy::Now).then(|| bytes.clone());
        let again = copy == Copy::Late;
        self.put(now, Datagram { bytes, path, ecn, size, is_data, again, forward });
        if let Some(bytes) = second {
            self.send_copy(now, Datagram { bytes, path, ecn, size, is_data: false, again: false, forward });
        }
    }

    /// Bytes that a datagram takes on a link: what the scenario says of a packet with so much data (`options.packet`)
    /// or with none (`options.ack_packet`), unless it is larger.
    fn size(&self, payload: u32, bytes: usize) -> Bytes {
        let asked = if payload == 0 { self.bare } else { self.headers + Bytes::new(u64::from(payload)) };
        asked.max(Bytes::new(bytes as u64 + HEADERS))
    }

    /// A copy goes the way of what it copies. No tally counts it.
    fn send_copy(&mut self, now: Instant, datagram: Datagram) {
        self.copies.made += 1;
        self.put(now, datagram);
    }

    fn put(&mut self, now: Instant, datagram: Datagram) {
        let route = self.routes[datagram.path.index()];
        let link = if datagram.forward { route.data } else { route.acks };
        let number = self.datagrams.add(datagram, &self.links);
        self.push(now, link, number);
    }

    fn push(&mut self, now: Instant, link: usize, number: u32) {
        let Some(datagram) = self.datagrams.get(number) else { return };
        let (path, is_data, size) = (datagram.path, datagram.is_data, datagram.size);
        let verdict = self.links[link].push(now, size, number);
        let tally = &mut self.wire[path.index()];
        if is_data && link == self.routes[path.index()].data {
            tally.bytes += size.get();
        }
        match verdict {
            Verdict::Queued => return,
            Verdict::Lost | Verdict::Dropped(Reason::Down) => tally.lost += u64::from(is_data),
            Verdict::Dropped(Reason::Queue) => tally.dropped += u64::from(is_data),
        }
        self.datagrams.take(number);
    }

    /// A datagram came to the end of a link. It goes on to the next one, or has arrived.
    pub fn deliver(&mut self, now: Instant, link: usize, number: u32) -> Option<Datagram> {
        let datagram = self.datagrams.get(number)?;
        let route = self.routes[datagram.path.index()];
        if datagram.forward
            && link == route.data
            && let Some(via) = route.via
        {
            self.push(now, via, number);
            return None;
        }
        let datagram = self.datagrams.take(number)?;
        if datagram.again {
            let Datagram { ref bytes, path, ecn, size, forward, .. } = datagram;
            let bytes = bytes.clone();
            self.send_copy(now, Datagram { bytes, path, ecn, size, is_data: false, again: false, forward });
        }
        Some(datagram)
    }
}

/// Datagrams on links, by number: links hold numbers.
#[derive(Debug, Default)]
struct Datagrams {
    slots: Vec<Option<Datagram>>,
    free: Vec<u32>,
}

impl Datagrams {
    fn add(&mut self, datagram: Datagram, links: &[Link<u32>]) -> u32 {
        if self.free.is_empty() && self.slots.len() == self.slots.capacity() {
            self.sweep(links);
        }
        match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = Some(datagram);
                number
            }
            None => {
                self.slots.push(Some(datagram));
                self.slots.len() as u32 - 1
            }
        }
    }

    /// A link that drops what it had taken does not say so. What is on no link is gone.
    fn sweep(&mut self, links: &[Link<u32>]) {
        let mut alive = vec![false; self.slots.len()];
        links.iter().flat_map(Link::items).for_each(|&number| alive[number as usize] = true);
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if slot.is_some() && !alive[number] {
                *slot = None;
                self.free.push(number as u32);
            }
        }
    }

    fn get(&self, number: u32) -> Option<&Datagram> {
        self.slots[number as usize].as_ref()
    }

    fn take(&mut self, number: u32) -> Option<Datagram> {
        let datagram = self.slots[number as usize].take()?;
        self.free.push(number);
        Some(datagram)
    }
}
