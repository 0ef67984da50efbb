//! The datagrams of a local program (RFC 1928, section 7), between its socket and the datagrams of a stream. They come
//! and go as long as the connection lives on which the program asked for them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use mio::Registry;
use weftway_mux::{Mux, Read, StreamId};
use weftway_path::Instant;

use crate::classes::{Class, Classes, Transport};
use crate::datagram::{DatagramCounts, Sent, WHOLE, mark, read};
use crate::dscp::Dscp;
use crate::flow::{TcpEnd, Turn};
use crate::limits::BURST;
use crate::pieces::Pieces;
use crate::refusal::ABORTED;
use crate::socket::{Socket, token};
use crate::udp::Udp;

/// The number of its socket among those of a local connection.
pub const NUMBER: usize = 1;

/// The datagrams of a local program.
#[derive(Debug)]
pub struct LocalUdp {
    id: StreamId,
    udp: Udp,
    /// Address of the program's connection; so do its datagrams.
    ip: IpAddr,
    /// Address of the first of them; so do the others, and here it gets its own.
    program: Option<SocketAddr>,
    /// Length of a record.
    record: usize,
    classes: Arc<Classes>,
    /// Class of the program's last datagram.
    class: Class,
    pieces: Pieces,
    counts: DatagramCounts,
    carried: [u64; 2],
}

impl LocalUdp {
    /// For a program whose connection `socket` has stream `id`, as entry `key`. Its socket is at the address where that
    /// connection came in.
    pub fn new(
        socket: &Socket,
        id: StreamId,
        (record, classes): (usize, &Arc<Classes>),
        registry: &Registry,
        key: usize,
    ) -> io::Result<Self> {
        let (here, there) = socket.ends()?;
        let mut at = here;
        at.set_port(0);
        if let IpAddr::V4(ip) = here.ip().to_canonical() {
            at = SocketAddr::new(ip.into(), 0);
        }
        let udp = Udp::bind(at, registry, token(key, NUMBER))?;
        let ip = there.ip().to_canonical();
        Ok(Self {
            id,
            udp,
            ip,
            program: None,
            record,
            classes: classes.clone(),
            class: Class::Realtime,
            pieces: Pieces::default(),
            counts: DatagramCounts::default(),
            carried: [0; 2],
        })
    }

    /// Address to which the program is to send its datagrams.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.udp.address()
    }

    /// The stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The socket has datagrams.
    pub fn note(&mut self) {
        self.udp.note();
    }

    /// Counters of datagrams.
    pub fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// The class of the last datagram that the program sent.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Numbers of bytes of data from the program and to it.
    pub fn carried(&self) -> [u64; 2] {
        self.carried
    }

    /// Takes what the program has sent, some of it. `socket` is its connection: what comes on that is nothing that is
    /// known.
    pub fn turn(&mut self, now: Instant, socket: &mut Socket, mux: &mut Mux, buffer: &mut Vec<u8>) -> Turn {
        let came = socket.read(buffer);
        buffer.clear();
        match came {
            Ok(Some(0)) | Err(_) => {
                let _ = mux.reset(self.id, ABORTED);
                return Turn::Over;
            }
            Ok(None | Some(_)) => {}
        }
        if !matches!(mux.read(self.id), Ok(Read::Wait)) {
            // The relay ends it, or says what no relay says.
            let _ = mux.reset(self.id, ABORTED);
            return Turn::Broken;
        }
        for _ in 0..BURST {
            match self.udp.receive(buffer) {
                None if matches!(came, Ok(None)) => return Turn::Idle,
                None => return Turn::More,
                Some(Err(_)) => {}
                Some(Ok(source)) => self.up(now, source, buffer, mux),
            }
        }
        // Others read into it.
        buffer.clear();
        Turn::More
    }

    /// The program has sent a datagram, or somebody else has.
    fn up(&mut self, now: Instant, source: SocketAddr, bytes: &[u8], mux: &mut Mux) {
        let is_programs = source.ip().to_canonical() == self.ip && self.program.is_none_or(|program| program == source);
        let parts = bytes.strip_prefix(&WHOLE).and_then(|rest| Some((rest, read(rest)?)));
        let Some((rest, (target, data))) = parts.filter(|_| is_programs) else {
            self.counts.dropped += 1;
            return;
        };
        self.program = Some(source);
        self.class = self.classes.decide(Transport::Udp, &target, Dscp::NONE).class;
        let mut marked = rest.to_vec();
        mark(&mut marked, self.class);
        let sent = self.pieces.send(now, mux, (self.id, self.record), self.class, marked);
        self.counts.count(sent, |counts| &mut counts.up);
        if sent == Sent::Yes {
            self.carried[0] += data.len() as u64;
        }
    }

    /// The relay has sent a datagram.
    pub fn down(&mut self, bytes: Bytes) {
        let Some(bytes) = self.pieces.take(bytes) else { return };
        if let (Some((_, data)), Some(program)) = (read(&bytes), self.program)
            && self.udp.send(&[&WHOLE, &bytes[..]].concat(), program)
        {
            self.counts.down += 1;
            self.carried[1] += data.len() as u64;
        } else {
            self.counts.dropped += 1;
        }
    }
}
