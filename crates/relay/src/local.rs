//! A connection of a local program: says where it wants to, waits for a stream and for the relay's word, and is carried.

use bytes::Bytes;
use mio::event::Event;
use weftway_mux::{Mux, Read, StreamError, StreamId};
use weftway_path::Instant;

use crate::flow::{Flow, Turn};
use crate::handshake::{Handshake, MOST_BYTES, Protocol};
use crate::limits::{HANDSHAKE, LINGER, WAIT_FOR_ANSWER, WAIT_FOR_STREAM};
use crate::refusal::{ABORTED, CONNECTED, Failure, Refusal};
use crate::socket::Socket;
use crate::step::Step;
use crate::target::Target;

/// What a program asked for.
#[derive(Clone, Debug)]
struct Request {
    protocol: Protocol,
    target: Target,
}

/// How far it has come.
enum Stage {
    /// It says where it wants to.
    Hello(Handshake),
    /// It waits for a stream.
    Waiting(Request),
    /// It waits for the relay's word on its stream.
    Opening(Request, StreamId),
    /// Its bytes are carried.
    Joined(Target, StreamId, Flow),
    /// It has its refusal, and time to read it.
    Closing,
}

/// A connection of a local program.
pub struct Local {
    socket: Socket,
    /// What it sent and nobody has understood or carried: at most [`MOST_BYTES`].
    input: Vec<u8>,
    /// What it is told, as far as it has not taken it.
    output: Vec<u8>,
    stage: Stage,
    deadline: Instant,
}

impl Local {
    /// One that has just been accepted.
    pub fn new(now: Instant, socket: Socket) -> Self {
        let stage = Stage::Hello(Handshake::default());
        let input = Vec::with_capacity(MOST_BYTES);
        Self { socket, input, output: Vec::new(), stage, deadline: now + HANDSHAKE }
    }

    /// Takes note of what its socket tells.
    pub fn note(&mut self, event: &Event) {
        self.socket.note(event);
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

    /// When it is to have its turn, whatever comes before.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether it has not said yet where it wants to.
    pub fn is_new(&self) -> bool {
        matches!(self.stage, Stage::Hello(_))
    }

    /// Where it wants to, if it waits for a stream.
    pub fn wants(&self) -> Option<&Target> {
        match &self.stage {
            Stage::Waiting(request) => Some(&request.target),
            _ => None,
        }
    }

    /// Its stream.
    pub fn stream(&self) -> Option<StreamId> {
        match self.stage {
            Stage::Opening(_, id) | Stage::Joined(_, id, _) => Some(id),
            Stage::Hello(_) | Stage::Waiting(_) | Stage::Closing => None,
        }
    }

    /// Where its bytes are carried to, and how many were, to the stream and from it.
    pub fn flow(&self) -> Option<(&Target, [u64; 2])> {
        match &self.stage {
            Stage::Joined(target, _, flow) => Some((target, flow.carried())),
            _ => None,
        }
    }

    /// It has a stream now.
    pub fn open(&mut self, now: Instant, id: StreamId) {
        if let Stage::Waiting(request) = &self.stage {
            self.stage = Stage::Opening(request.clone(), id);
            self.deadline = now + WAIT_FOR_ANSWER;
        }
    }

    /// Its stream is gone with the connection to the relay. Whether there is anything left to tell it.
    pub fn lose(&mut self, now: Instant) -> bool {
        if let Stage::Opening(request, _) = &self.stage {
            self.refuse(now, &request.clone(), Failure::Lost);
        }
        !matches!(self.stage, Stage::Joined(..))
    }

    /// Ends it, and tells the program that this is no orderly end.
    pub fn reset(self) {
        self.socket.reset();
    }

    /// Does what can be done without waiting. What becomes of its stream needs the mux that this belongs to.
    pub fn turn(&mut self, now: Instant, mux: Option<&mut Mux>, buffer: &mut Vec<u8>) -> Turn {
        match (&mut self.stage, mux) {
            (Stage::Joined(_, _, flow), Some(mux)) => flow.turn(now, &mut self.socket, mux, buffer),
            (Stage::Joined(..), None) => Turn::Idle,
            (_, mut mux) => {
                let goes_on =
                    self.keep_time(now, mux.as_deref_mut()) && !self.socket.has_failed() && self.flush().is_ok();
                match &self.stage {
                    _ if !goes_on => self.abandon(mux),
                    Stage::Hello(_) => self.hear(now),
                    Stage::Opening(_, id) => self.learn(now, *id, mux),
                    Stage::Closing => self.drain(buffer),
                    Stage::Waiting(_) | Stage::Joined(..) => Turn::Idle,
                }
            }
        }
    }

    /// Whether it goes on, although its time may be over.
    fn keep_time(&mut self, now: Instant, mux: Option<&mut Mux>) -> bool {
        if now < self.deadline {
            return true;
        }
        let (request, failure) = match &self.stage {
            Stage::Hello(_) | Stage::Closing => return false,
            Stage::Joined(..) => return true,
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
        if let (Stage::Opening(_, id), Some(mux)) = (&self.stage, mux) {
            let _ = mux.reset(*id, ABORTED);
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
        self.close(now, request.protocol.refused(failure, &request.target));
    }

    fn close(&mut self, now: Instant, words: Vec<u8>) {
        self.output.extend(words);
        self.stage = Stage::Closing;
        self.deadline = now + LINGER;
    }

    /// Takes in what the program says.
    fn hear(&mut self, now: Instant) -> Turn {
        while let Stage::Hello(handshake) = &mut self.stage {
            match handshake.step(&self.input) {
                Step::More => match self.socket.read(&mut self.input) {
                    Ok(None) => return Turn::Idle,
                    Ok(Some(0)) | Err(_) => return Turn::Over,
                    Ok(Some(_)) => {}
                },
                Step::Answer(count, answer) => {
                    self.input.drain(..count);
                    self.output.extend_from_slice(answer);
                    if self.flush().is_err() {
                        return Turn::Over;
                    }
                }
                Step::Connect(count, target) => {
                    self.input.drain(..count);
                    let protocol = handshake.protocol().unwrap_or(Protocol::Socks);
                    self.stage = Stage::Waiting(Request { protocol, target });
                    self.deadline = now + WAIT_FOR_STREAM;
                }
                Step::Refuse(words) if words.is_empty() => return Turn::Over,
                Step::Refuse(words) => {
                    self.close(now, words);
                    return Turn::More;
                }
            }
        }
        Turn::Idle
    }

    /// Learns what the relay says.
    fn learn(&mut self, now: Instant, id: StreamId, mux: Option<&mut Mux>) -> Turn {
        let Stage::Opening(request, _) = &self.stage else { return Turn::Idle };
        let (request, Some(mux)) = (request.clone(), mux) else { return Turn::Idle };
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
        let mut words = std::mem::take(&mut self.output);
        words.extend(request.protocol.connected());
        let early = Bytes::copy_from_slice(&self.input);
        self.input = Vec::new();
        self.stage = Stage::Joined(request.target, id, Flow::new(id, early, words.into()));
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
