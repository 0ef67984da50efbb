//! The relay's end of a pipe: each source has a socket of its own, which sends to the target alone and takes datagrams
//! from there alone.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use bytes::Bytes;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use weftway_mux::{Mux, StreamId};
use weftway_path::{Instant, Offset, Span};

use crate::datagram::{DatagramCounts, Sent};
use crate::dscp::Dscp;
use crate::flow::Turn;
use crate::limits::{BURST, MOST_SOURCES, SOURCE_IDLE};
use crate::pace::{Pace, Way};
use crate::pipe::end::{End, Given, Setting};
use crate::refusal::{ABORTED, CONNECTED};
use crate::socket::{Poller, token};
use crate::target::PipeTarget;
use crate::udp::{Udp, any_like};

/// Time between two looks for sources that are idle.
const LOOK: Span = Span::from_secs(10);

/// Number of datagrams of a source that are passed on before the next source has its turn.
const SHARE: usize = 8;
/// Bytes that the kernel keeps for a source until they are taken: 300 Mbit/s for 25 ms.
const KEPT: usize = 1 << 20;

/// The socket of a source.
#[derive(Debug)]
struct Socket {
    udp: Udp,
    /// When something came or went here last.
    used: Instant,
    /// It is among those that are to be read.
    waits: bool,
}

/// A pipe at the relay.
pub struct RemotePipe {
    end: End,
    deliver: SocketAddr,
    /// Its sockets have their own, since there are more of them than an entry's token tells.
    poller: Poller,
    is_registered: bool,
    sockets: BTreeMap<u16, Socket>,
    /// Marks of sources' datagrams.
    marks: BTreeMap<u16, Dscp>,
    /// Sources whose sockets are to be read.
    run: VecDeque<u16>,
    look_at: Instant,
    counts: DatagramCounts,
    /// Bytes of data from the sources, and to them.
    carried: [u64; 2],
}

impl RemotePipe {
    /// A pipe on stream `id` whose target has this address.
    pub fn new(now: Instant, id: StreamId, pipe: &PipeTarget, deliver: IpAddr) -> io::Result<Self> {
        let PipeTarget { latency, order, ref target } = *pipe;
        // What comes back is cut by the same rule: while packets are looked for that hold more.
        let setting = Setting { latency, order, may_cut: false };
        Ok(Self {
            end: End::new(now, id, setting, &[CONNECTED]),
            deliver: SocketAddr::new(deliver.to_canonical(), target.port),
            poller: Poller::new()?,
            is_registered: false,
            sockets: BTreeMap::new(),
            marks: BTreeMap::new(),
            run: VecDeque::new(),
            look_at: now + LOOK,
            counts: DatagramCounts::default(),
            carried: [0; 2],
        })
    }

    /// Counters of datagrams.
    pub fn counts(&self) -> DatagramCounts {
        let dropped = self.counts.dropped + self.end.malformed();
        DatagramCounts { dropped, ..self.counts }
    }

    /// Numbers of bytes of data from the sources and to them.
    pub fn carried(&self) -> [u64; 2] {
        self.carried
    }

    /// Instant of its next turn, whatever comes before.
    pub fn next_event(&self) -> Instant {
        self.end.next_event()
    }

    /// Notes that a datagram is dropped because the client has sent too many.
    pub fn drop_one(&mut self) {
        self.counts.dropped += 1;
    }

    /// Takes a datagram of the client, which came in the record at `place`.
    pub fn up(&mut self, now: Instant, mux: &mut Mux, place: Offset, bytes: Bytes) {
        if let Some(given) = self.end.take(now, mux, place, bytes) {
            self.give(now, given);
        }
        self.give_held(now, mux);
    }

    /// Sends those datagrams of the client to the target that were held until now.
    fn give_held(&mut self, now: Instant, mux: &Mux) {
        while let Some(given) = self.end.held(now, mux) {
            self.give(now, given);
        }
    }

    /// Sends a datagram of a source to the target.
    fn give(&mut self, now: Instant, (source, data): Given) {
        let deliver = self.deliver;
        let sent = self.socket(now, source).is_some_and(|socket| socket.udp.send(&data, deliver));
        if sent {
            self.counts.up += 1;
            self.carried[0] += data.len() as u64;
        } else {
            self.counts.dropped += 1;
        }
    }

    /// The socket of a source. None if no descriptor is left, or the machine does not know the target's family.
    fn socket(&mut self, now: Instant, source: u16) -> Option<&Socket> {
        if !self.sockets.contains_key(&source) {
            if self.sockets.len() >= MOST_SOURCES {
                // The other end has forgotten it, for it has as many at most.
                let (&oldest, _) = self.sockets.iter().min_by_key(|(_, socket)| socket.used)?;
                self.sockets.remove(&oldest);
            }
            let udp =
                Udp::bind((any_like(self.deliver), 0).into(), self.poller.registry(), Token(source.into())).ok()?;
            udp.keep(KEPT);
            if let Some(mark) = self.marks.get(&source) {
                udp.mark(*mark);
            }
            self.sockets.insert(source, Socket { udp, used: now, waits: false });
        }
        let socket = self.sockets.get_mut(&source)?;
        socket.used = now;
        Some(socket)
    }

    /// Takes what has come for the sources, some of it, as entry `key`.
    pub fn turn(
        &mut self,
        now: Instant,
        (key, registry): (usize, &Registry),
        mux: &mut Mux,
        buffer: &mut Vec<u8>,
        pace: &mut Pace,
    ) -> Turn {
        let is_registered = self.is_registered || {
            let fd = std::os::fd::AsFd::as_fd(self.poller.registry()).as_raw_fd();
            registry.register(&mut SourceFd(&fd), token(key, 0), Interest::READABLE).is_ok()
        };
        self.is_registered = is_registered;
        if !is_registered || self.end.turn(now, mux).is_err() {
            let _ = mux.reset(self.end.id(), ABORTED);
            return Turn::Over;
        }
        while let Some((source, mark)) = self.end.next_mark() {
            if let Some(socket) = self.sockets.get(&source) {
                socket.udp.mark(mark);
            }
            // A source's first datagram may come after its mark.
            if self.marks.len() >= MOST_SOURCES {
                self.marks.retain(|source, _| self.sockets.contains_key(source));
            }
            if self.marks.len() < MOST_SOURCES || self.marks.contains_key(&source) {
                self.marks.insert(source, mark);
            }
        }
        let Self { poller, sockets, run, .. } = self;
        poller.collect(|event| {
            let source = event.token().0 as u16;
            if let Some(socket) = sockets.get_mut(&source) {
                socket.udp.note();
                if !std::mem::replace(&mut socket.waits, true) {
                    run.push_back(source);
                }
            }
        });
        // Others have their turn as soon as after one socket, however many sources there are.
        let mut left = BURST;
        while left > 0
            && let Some(source) = self.run.pop_front()
        {
            if self.down(now, source, &mut left, mux, buffer, pace) {
                self.run.push_back(source);
            }
        }
        buffer.clear();
        self.give_held(now, mux);
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.sockets.retain(|_, socket| now.since(socket.used) < SOURCE_IDLE);
            self.marks.retain(|source, _| self.sockets.contains_key(source));
        }
        if self.run.is_empty() { Turn::Idle } else { Turn::More }
    }

    /// Passes on what has come for a source, some of it, and `left` datagrams at most. Returns true if there is more.
    fn down(
        &mut self,
        now: Instant,
        source: u16,
        left: &mut usize,
        mux: &mut Mux,
        buffer: &mut Vec<u8>,
        pace: &mut Pace,
    ) -> bool {
        let Some(socket) = self.sockets.get_mut(&source) else { return false };
        for _ in 0..SHARE.min(*left) {
            *left -= 1;
            let Some(received) = socket.udp.receive(buffer) else {
                socket.waits = false;
                return false;
            };
            match received {
                // It tells of a datagram that did not arrive.
                Err(_) => {}
                Ok(from) if from != self.deliver || !pace.may_send(Way::ToClient, buffer.len()) => {
                    self.counts.dropped += 1;
                }
                Ok(_) => {
                    socket.used = now;
                    let sent = self.end.send(now, Span::ZERO, mux, source, buffer);
                    self.counts.count(sent, |counts| &mut counts.down);
                    if sent == Sent::Yes {
                        self.carried[1] += buffer.len() as u64;
                    }
                }
            }
        }
        true
    }
}
