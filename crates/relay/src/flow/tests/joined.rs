//! A flow with the other end of its socket, and that of its stream.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant as StdInstant};

use bytes::Bytes;
use weftway_mux::{Limits, Mux, Read, Ready, Side};
use weftway_path::Instant;

use crate::flow::{Flow, READ, Turn};
use crate::pace::Pace;
use crate::socket::{Poller, Socket, token};
use crate::stream::Stream;

pub const NOW: Instant = Instant::ZERO;
/// As much as is written at once.
const MUCH: usize = 1 << 20;

/// A flow with the other end of its socket, and that of its stream.
pub struct Joined {
    pub poller: Poller,
    pub socket: Option<Socket>,
    pub peer: TcpStream,
    pub mux: Mux,
    pub far: Mux,
    pub flow: Flow,
    pub buffer: Vec<u8>,
    pub last: Turn,
}

impl Joined {
    pub fn new() -> Self {
        let poller = Poller::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_nonblocking(true).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let socket =
            Socket::connected(Stream::Tcp(mio::net::TcpStream::from_std(stream)), poller.registry(), token(0, 0))
                .unwrap();
        let limits = Limits::default();
        let mut mux = Mux::new(Side::Connecting, limits, limits).unwrap();
        let mut far = Mux::new(Side::Listening, limits, limits).unwrap();
        let id = mux.open(NOW, 1, b"there", None).unwrap();
        deliver(&mut mux, &mut far);
        far.accept().unwrap();
        let flow = Flow::new(id, Bytes::new(), Bytes::new());
        let buffer = Vec::with_capacity(READ);
        Self { poller, socket: Some(socket), peer, mux, far, flow, buffer, last: Turn::More }
    }

    /// The flow has its turns, as long as it is told of anything.
    pub fn turn(&mut self) {
        let Some(socket) = &mut self.socket else { return };
        let mut due = self.last == Turn::More;
        self.poller.collect(|event| {
            socket.note(event);
            due = true;
        });
        while let Some(ready) = self.mux.poll_ready() {
            match ready {
                Ready::Read(_) => self.flow.note_readable(),
                Ready::Write(_) => self.flow.note_writable(),
                Ready::Accept | Ready::Open | Ready::Datagram => continue,
            }
            due = true;
        }
        if due {
            self.last = self.flow.turn(NOW, socket, &mut self.mux, &mut self.buffer, &mut Pace::default());
        }
        match self.last {
            Turn::Over => self.socket = None,
            Turn::Broken => self.socket.take().unwrap().reset(),
            Turn::Idle | Turn::More => {}
        }
    }

    /// Both ends of the stream hear of each other.
    pub fn deliver(&mut self) {
        deliver(&mut self.mux, &mut self.far);
        deliver(&mut self.far, &mut self.mux);
    }

    /// Goes on until it is so.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let began = StdInstant::now();
        while !is_so(self) {
            assert!(began.elapsed() < Duration::from_secs(60), "waited for this: {what}");
            self.turn();
        }
    }

    /// Turns, until they change nothing for a while: what a socket has to tell has been told.
    pub fn settle(&mut self) {
        let (mut quiet, mut before) = (0, self.flow.carried());
        while quiet < 20 {
            self.turn();
            std::thread::sleep(Duration::from_millis(1));
            quiet = if self.flow.carried() == before && self.last != Turn::More { quiet + 1 } else { 0 };
            before = self.flow.carried();
        }
    }

    /// The far end writes what is taken of so many bytes.
    pub fn write_far(&mut self, count: usize) -> usize {
        self.far.write(NOW, self.flow.id, vec![7; count].into()).unwrap()
    }

    /// The far end reads what there is: how many bytes, and whether that is the end.
    pub fn read_far(&mut self) -> (usize, bool) {
        let mut read = 0;
        loop {
            let count = match self.far.read(self.flow.id).unwrap() {
                Read::Bytes(bytes) => bytes.len(),
                Read::Wait => return (read, false),
                Read::End => return (read, true),
            };
            self.far.took(NOW, self.flow.id, count).unwrap();
            read += count;
        }
    }

    /// The program reads what there is: how many bytes, and whether that is the end.
    pub fn read_peer(&mut self) -> (usize, bool) {
        let (mut read, mut buffer) = (0, [0; 10_000]);
        loop {
            match self.peer.read(&mut buffer) {
                Ok(0) => return (read, true),
                Ok(count) => read += count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return (read, false),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The program writes until the kernel takes no more: how many bytes.
    pub fn fill(&mut self) -> usize {
        let (mut written, mut before) = (0, usize::MAX);
        while written != before {
            before = written;
            while let Ok(count) = self.peer.write(&[7; 10_000]) {
                written += count;
            }
            self.settle();
        }
        written
    }

    /// The far end writes until nothing is taken, since the program reads nothing: how many bytes.
    pub fn fill_far(&mut self) -> usize {
        let mut written = 0;
        loop {
            let count = self.write_far(MUCH);
            written += count;
            self.deliver();
            self.settle();
            self.deliver();
            if count == 0 {
                return written;
            }
        }
    }
}

pub fn deliver(from: &mut Mux, to: &mut Mux) {
    while let Some(record) = from.cut(NOW, 1200) {
        to.receive(NOW, record.place, &record.payload).unwrap();
        from.acked(record.place);
    }
}
