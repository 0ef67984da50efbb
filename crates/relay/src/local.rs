//! A connection of a local program: says where it wants to, waits for a stream and for the relay's word, and is
//! carried.

use std::sync::Arc;

use bytes::Bytes;
use mio::Registry;
use mio::event::Event;
use weftway_mux::{Mux, Read, StreamError, StreamId};
use weftway_path::Instant;

use crate::accounts::Accounts;
use crate::classes::Classes;
use crate::flow::{Flow, TcpEnd, Turn};
use crate::handshake::{Handshake, MOST_BYTES, Protocol};
use crate::limits::{HANDSHAKE, LINGER, WAIT_FOR_ANSWER, WAIT_FOR_STREAM};
use crate::local_udp::{self, LocalUdp};
use crate::pace::Pace;
use crate::refusal::{ABORTED, CONNECTED, Failure, Refusal};
use crate::socket::Socket;
use crate::socks;
use crate::stage::{Request, Stage};
use crate::step::Step;
use crate::target::Purpose;

/// The room for a program's bytes at first.
const FIRST_ROOM: usize = 1 << 10;

/// A connection of a local program.
pub struct Local {
    socket: Socket,
    /// Bytes that it sent and nobody has understood or carried: at most [`MOST_BYTES`].
    input: Vec<u8>,
    /// Bytes for it, as far as it has not taken them.
    output: Vec<u8>,
    stage: Stage,
    deadline: Instant,
    /// Length of a record.
    record: usize,
    classes: Arc<Classes>,
    accounts: Arc<Accounts>,
    /// Why it was refused, until that is counted.
    refused: Option<Failure>,
}

impl Local {
    /// Connection that has just been accepted.
    pub fn new(
        now: Instant,
        socket: Socket,
        record: usize,
        (classes, accounts): (Arc<Classes>, Arc<Accounts>),
    ) -> Self {
        let stage = Stage::Hello(Handshake::default());
        let (input, output, deadline, refused) = (Vec::new(), Vec::new(), now + HANDSHAKE, None);
        Self { socket, input, output, stage, deadline, record, classes, accounts, refused }
    }

    /// Takes note of what its socket `number` tells.
    pub fn note(&mut self, number: usize, event: &Event) {
        match &mut self.stage {
            Stage::Associated(_, udp) if number == local_udp::NUMBER => udp.note(),
            _ if number == local_udp::NUMBER => {}
            _ => self.socket.note(event),
        }
    }

    /// A datagram came on its stream.
    pub fn take_datagram(&mut self, bytes: Bytes) {
        if let Stage::Associated(_, udp) = &mut self.stage {
            udp.down(bytes);
        }
    }

    /// Its stream has something to read, as the mux tells.
    pub fn note_readable(&mut self) {
        if let Stage::Joined(.., flow) = &mut self.stage {
            flow.note_readable();
        }
    }

    /// Its stream takes more, as the mux tells.
    pub fn note_writable(&mut self) {
        if let Stage::Joined(.., flow) = &mut self.stage {
            flow.note_writable();
        }
    }

    /// Instant of its next turn, whatever comes before.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Stage.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// It has a stream now.
    pub fn open(&mut self, now: Instant, id: StreamId) {
        if let Stage::Waiting(request) = &self.stage {
            self.stage = Stage::Opening(request.clone(), id);
            self.deadline = now + WAIT_FOR_ANSWER;
        }
    }

    /// Why it was refused, once.
    pub fn take_refused(&mut self) -> Option<Failure> {
        self.refused.take()
    }

    /// Its stream is gone with the connection to the relay. Whether there is anything left to tell it.
    pub fn lose(&mut self, now: Instant) -> bool {
        if let Stage::Opening(request, _) = &self.stage {
            self.refuse(now, &request.clone(), Failure::Lost);
        }
        !self.stage.is_carried()
    }

    /// Ends it, and tells the program that this is no orderly end.
    pub fn reset(self) {
        self.socket.reset();
    }

    /// Does what can be done without waiting, as entry `key`. What becomes of its stream needs the mux that this
    /// belongs to.
    pub fn turn(
        &mut self,
        now: Instant,
        key: usize,
        registry: &Registry,
        mux: Option<&mut Mux>,
        buffer: &mut Vec<u8>,
    ) -> Turn {
        match (&mut self.stage, mux) {
            (Stage::Joined(_, _, flow), Some(mux)) => {
                flow.turn(now, &mut self.socket, mux, buffer, &mut Pace::default())
            }
            (Stage::Joined(..) | Stage::Associated(..), None) => Turn::Idle,
            (_, mut mux) => {
                let goes_on =
                    self.keep_time(now, mux.as_deref_mut()) && !self.socket.has_failed() && self.flush().is_ok();
                match (&mut self.stage, mux) {
                    (_, mux) if !goes_on => self.abandon(mux),
                    (Stage::Hello(_), _) => self.hear(now),
                    (&mut Stage::Opening(_, id), Some(mux)) => self.learn(now, id, mux, key, registry),
                    (Stage::Associated(_, udp), Some(mux)) => udp.turn(now, &mut self.socket, mux, buffer),
                    (Stage::Closing, _) => self.drain(buffer),
                    _ => Turn::Idle,
                }
            }
        }
    }

    /// Returns true if it goes on, although its time may be over.
    fn keep_time(&mut self, now: Instant, mux: Option<&mut Mux>) -> bool {
        if now < self.deadline {
            return true;
        }
        let (request, failure) = match &self.stage {
            Stage::Hello(_) | Stage::Closing => return false,
            Stage::Joined(..) | Stage::Associated(..) => return true,
            Stage::Waiting(request) if mux.is_some() => (request.clone(), Failure::NoStream),
            Stage::Waiting(request) => (request.clone(), Failure::NoConnection),
            Stage::Opening(request, id) => {
                if let Some(mux) = mux {
                    let _ = mux.reset(*id, ABORTED);
                }
                (request.clone(), Failure::NoAnswer)
            }
        };
        self.refuse(now, &request, failure);
        true
    }

    /// The program is gone, or has had its time.
    fn abandon(&mut self, mux: Option<&mut Mux>) -> Turn {
        if let (Some(id), Some(mux)) = (self.stage.stream(), mux) {
            let _ = mux.reset(id, ABORTED);
        }
        self.stage = Stage::Closing;
        Turn::Over
    }

    fn flush(&mut self) -> std::io::Result<()> {
        while !self.output.is_empty() {
            let Some(count) = self.socket.write(&self.output)? else { break };
            self.output.drain(..count);
        }
        Ok(())
    }

    fn refuse(&mut self, now: Instant, request: &Request, failure: Failure) {
        self.refused = Some(failure);
        self.close(now, request.protocol.refused(failure, &request.purpose));
    }

    fn close(&mut self, now: Instant, words: Vec<u8>) {
        self.output.extend(words);
        self.stage = Stage::Closing;
        self.deadline = now + LINGER;
    }

    /// Takes in what the program says.
    fn hear(&mut self, now: Instant) -> Turn {
        while let Stage::Hello(handshake) = &mut self.stage {
            match handshake.step(&self.input, &self.accounts) {
                Step::More => {
                    make_room(&mut self.input);
                    match self.socket.read(&mut self.input) {
                        Ok(None) => return Turn::Idle,
                        Ok(Some(0)) | Err(_) => return Turn::Over,
                        Ok(Some(_)) => {}
                    }
                }
                Step::Answer(count, answer) => {
                    self.input.drain(..count);
                    self.output.extend_from_slice(answer);
                    if self.flush().is_err() {
                        return Turn::Over;
                    }
                }
                Step::Connect(count, target) => self.ask(now, count, Purpose::Connection(target)),
                // Their sender could not be told from other users of this machine.
                Step::Associate(_) if !self.socket.is_tcp() => self.close(now, socks::refused(Refusal::Command)),
                Step::Associate(count) => self.ask(now, count, Purpose::Datagrams),
                Step::Refuse(words) if words.is_empty() => return Turn::Over,
                Step::Refuse(words) => {
                    self.close(now, words);
                    return Turn::More;
                }
            }
        }
        Turn::Idle
    }

    /// The first bytes of what it has sent say what it wants.
    fn ask(&mut self, now: Instant, count: usize, purpose: Purpose) {
        self.input.drain(..count);
        if let Stage::Hello(handshake) = &self.stage {
            let protocol = handshake.protocol().unwrap_or(Protocol::Socks);
            self.stage = Stage::Waiting(Request { protocol, purpose });
            self.deadline = now + WAIT_FOR_STREAM;
        }
    }

    /// Learns what the relay says.
    fn learn(&mut self, now: Instant, id: StreamId, mux: &mut Mux, key: usize, registry: &Registry) -> Turn {
        let Stage::Opening(request, _) = &self.stage else { return Turn::Idle };
        let request = request.clone();
        let word = match mux.read(id) {
            Ok(Read::Wait) => return Turn::Idle,
            Ok(Read::Bytes(bytes)) => bytes.first().copied(),
            Ok(Read::End) => None,
            Err(StreamError::Reset(code)) => {
                self.refuse(now, &request, Failure::Refused(Refusal::from_code(code)));
                return Turn::More;
            }
            Err(StreamError::NotOpen | StreamError::Finished) => None,
        };
        if word != Some(CONNECTED) || mux.took(now, id, 1).is_err() {
            // No relay of this version says that.
            let _ = mux.reset(id, ABORTED);
            self.refuse(now, &request, Failure::Refused(Refusal::General));
            return Turn::More;
        }
        let early = std::mem::take(&mut self.input);
        self.stage = match request.purpose {
            Purpose::Connection(_) | Purpose::NamesByTcp => {
                let mut words = std::mem::take(&mut self.output);
                words.extend(request.protocol.connected());
                Stage::Joined(request.purpose, id, Flow::new(id, Bytes::copy_from_slice(&early), words.into()))
            }
            // No program asks for pings, for a pipe, or for the relay's own server of names.
            Purpose::Datagrams | Purpose::Echo | Purpose::Names | Purpose::Pipe(_) => {
                let udp = LocalUdp::new(&self.socket, id, (self.record, &self.classes), registry, key);
                let Ok((udp, at)) = udp.and_then(|udp| udp.address().map(|at| (udp, at))) else {
                    // No descriptor is left, or the program is gone.
                    let _ = mux.reset(id, ABORTED);
                    self.refuse(now, &request, Failure::Refused(Refusal::General));
                    return Turn::More;
                };
                self.output.extend(socks::associated(at));
                Stage::Associated(request.purpose, udp)
            }
        };
        self.deadline = Instant::NEVER;
        Turn::More
    }

    /// Reads what nobody wants, since an end with unread bytes would become a reset, and the program lose its refusal.
    fn drain(&mut self, buffer: &mut Vec<u8>) -> Turn {
        if !self.output.is_empty() {
            return Turn::Idle;
        }
        self.socket.finish();
        let read = self.socket.read(buffer);
        buffer.clear();
        match read {
            Ok(None) => Turn::Idle,
            Ok(Some(0)) | Err(_) => Turn::Over,
            Ok(Some(_)) => Turn::More,
        }
    }
}

/// Makes room for more of what a program says before it is carried: it is a few bytes mostly, and [`MOST_BYTES`] at
/// most.
fn make_room(input: &mut Vec<u8>) {
    if input.len() == input.capacity() {
        let more = input.len().max(FIRST_ROOM).min(MOST_BYTES - input.len());
        input.reserve_exact(more);
    }
}
