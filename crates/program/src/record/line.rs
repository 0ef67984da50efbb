//! Path from the end with the links: its socket, and what is known of it.

use std::net::{SocketAddr, UdpSocket};

use super::arrivals::Record;
use super::channel::Channel;
use super::places::{self, Back};
use super::wire::{Feedback, HELLO_BYTES, Kind, Ns, SECOND_NS, Session, packed};

/// Time after which what is not answered is asked again.
pub const AGAIN_NS: Ns = 250_000_000;
/// A path from which nothing comes for so long is greeted again: its address may be another one.
pub const SILENT_NS: Ns = 2 * SECOND_NS;

/// Path from this end.
pub struct Line {
    /// Interface or address, as the option names it.
    pub name: String,
    /// Its socket.
    pub socket: UdpSocket,
    /// Address of the other end.
    pub peer: SocketAddr,
    greeted_ns: Ns,
    /// None: it was not answered yet.
    pub channel: Option<Channel>,
    /// Time when the other end began on it, by its own clock.
    pub other_begin_ns: Ns,
    /// Time when anything came on it last.
    pub heard_ns: Ns,
    /// Records of what the other end got, as far as they are known here.
    pub records: Vec<Record>,
    /// Time when records were asked for last.
    pub asked_ns: Ns,
    /// The other end's records are all here.
    pub is_complete: bool,
    /// Packets that the socket did not take.
    pub waiting: Vec<Vec<u8>>,
}

impl Line {
    /// A path over this socket to that address.
    pub fn new(name: &str, (socket, peer): (UdpSocket, SocketAddr)) -> Self {
        Self {
            name: name.to_owned(),
            socket,
            peer,
            greeted_ns: -AGAIN_NS,
            channel: None,
            other_begin_ns: 0,
            heard_ns: 0,
            records: Vec::new(),
            asked_ns: 0,
            is_complete: false,
            waiting: Vec::new(),
        }
    }

    /// Sends; what the socket does not take waits.
    pub fn send(&mut self, mut out: Vec<Vec<u8>>) {
        let taken = out.iter().take_while(|data| places::send(&self.socket, data, self.peer, &Back::Any)).count();
        self.waiting.extend(out.drain(taken..));
    }

    /// Sends what this end has got of the load, on this path and others.
    pub fn tell(&mut self, news: &[Feedback]) {
        if let Some(channel) = &mut self.channel {
            let told = news.iter().filter_map(|told| channel.told(told)).collect();
            self.send(told);
        }
    }

    /// Greets the other end, if it was not heard of late.
    pub fn greet_again(&mut self, now_ns: Ns, path: u8, session: Session) {
        let is_heard = self.channel.is_some() && now_ns - self.heard_ns < SILENT_NS;
        if !is_heard && now_ns - self.greeted_ns >= AGAIN_NS {
            self.greeted_ns = now_ns;
            self.send(vec![packed(Kind::Hello, path, session, &[], HELLO_BYTES)]);
        }
    }

    /// Sends what waits, or what is due.
    pub fn send_due(&mut self, now_ns: Ns) {
        let Some(channel) = &mut self.channel else { return };
        let out = if self.waiting.is_empty() { channel.due(now_ns) } else { std::mem::take(&mut self.waiting) };
        self.send(out);
    }
}
