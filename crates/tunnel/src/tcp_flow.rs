//! A TCP connection of a local program: waits for a stream and for the relay's word, and is carried.

use bytes::Bytes;
use weftway_mux::{Mux, Read, StreamError, StreamId};
use weftway_path::Instant;
use weftway_relay::parts::{ABORTED, CONNECTED, Flow, Pace, Turn, WAIT_FOR_ANSWER, WAIT_FOR_STREAM};
use weftway_relay::{Class, FIRST_BYTES, Failure, FlowView, Purpose, Refusal};

use crate::device::Device;
use crate::packet::Ends;
use crate::reply::{self, Unreachable};
use crate::stack::{Outside, Stack, refuse};

/// Stage. The first segment waits for what the relay says: the program is answered once the server would be.
enum Stage {
    /// It waits for a stream.
    Waiting(Vec<u8>),
    /// It waits for the relay's word on its stream.
    Opening(Vec<u8>, StreamId),
    /// Its bytes are carried.
    Joined(Box<Stack>, StreamId, Flow),
    /// Its stream is over; the program takes the rest.
    Closing(Box<Stack>),
    /// Over: nothing is left.
    Over,
}

/// A TCP connection of a local program.
pub struct TcpFlow {
    ends: Ends,
    purpose: Purpose,
    class: Class,
    stage: Stage,
    until: Instant,
    /// Why it was refused, until that is counted.
    refused: Option<Failure>,
    is_long: bool,
}

impl TcpFlow {
    /// The program has sent the first segment, `packet`, of a connection.
    pub fn new(now: Instant, ends: Ends, purpose: Purpose, class: Class, packet: &[u8]) -> Self {
        let stage = Stage::Waiting(packet.to_vec());
        Self { ends, purpose, class, stage, until: now + WAIT_FOR_STREAM, refused: None, is_long: false }
    }

    /// Its ends.
    pub fn ends(&self) -> Ends {
        self.ends
    }

    /// Target and class of the stream that it waits for, if it does.
    pub fn wants(&self) -> Option<(&Purpose, Class)> {
        matches!(self.stage, Stage::Waiting(_)).then_some((&self.purpose, self.class))
    }

    /// Its stream.
    pub fn stream(&self) -> Option<StreamId> {
        match self.stage {
            Stage::Opening(_, id) | Stage::Joined(_, id, _) => Some(id),
            Stage::Waiting(_) | Stage::Closing(_) | Stage::Over => None,
        }
    }

    /// View of it, if it is carried.
    pub fn view(&self) -> Option<FlowView<'_>> {
        match &self.stage {
            Stage::Joined(_, id, flow) => Some(FlowView::new(*id, &self.purpose, self.class, flow.carried())),
            _ => None,
        }
    }

    /// Returns true if it has carried more than what is interactive of each connection: once.
    pub fn grows_long(&mut self) -> bool {
        let is_long = self.view().is_some_and(|view| view.up + view.down > FIRST_BYTES);
        is_long && !std::mem::replace(&mut self.is_long, true)
    }

    /// Why it was refused, once.
    pub fn take_refused(&mut self) -> Option<Failure> {
        self.refused.take()
    }

    /// It has a stream now.
    pub fn open(&mut self, now: Instant, id: StreamId) {
        if let Stage::Waiting(first) = &mut self.stage {
            self.stage = Stage::Opening(std::mem::take(first), id);
            self.until = now + WAIT_FOR_ANSWER;
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

    /// The program has sent a segment.
    pub fn take<D: Device>(&mut self, now: Instant, packet: &[u8], resets: bool, outside: &mut Outside<D>) {
        match &mut self.stage {
            Stage::Joined(stack, ..) | Stage::Closing(stack) => stack.take(now, packet, outside),
            // It gives up.
            Stage::Waiting(_) if resets => self.stage = Stage::Over,
            Stage::Opening(first, _) if resets => first.clear(),
            // It repeats the first one.
            Stage::Waiting(_) | Stage::Opening(..) | Stage::Over => {}
        }
    }

    /// Instant of its next turn, whatever comes before.
    pub fn next_event(&mut self, now: Instant) -> Instant {
        match &mut self.stage {
            Stage::Joined(stack, ..) | Stage::Closing(stack) => stack.next_event(now),
            Stage::Waiting(_) | Stage::Opening(..) => self.until,
            Stage::Over => Instant::NEVER,
        }
    }

    /// Its stream is gone with the connection to the relay, if it has one.
    pub fn lose<D: Device>(&mut self, now: Instant, outside: &mut Outside<D>) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Opening(first, _) => self.refuse(now, &first, Failure::Lost, outside),
            Stage::Joined(mut stack, ..) => stack.reset(now, outside),
            stage => self.stage = stage,
        }
    }

    /// Does what can be done without waiting. What becomes of its stream needs the mux that this belongs to. `seed` is
    /// for the first sequence number of an answer.
    pub fn turn<D: Device>(
        &mut self,
        now: Instant,
        seed: u64,
        mux: Option<&mut Mux>,
        buffer: &mut Vec<u8>,
        outside: &mut Outside<D>,
    ) -> Turn {
        let turn = match (&mut self.stage, mux) {
            (Stage::Waiting(_) | Stage::Opening(..), mux) => return self.advance(now, seed, mux, outside),
            (Stage::Joined(stack, _, flow), Some(mux)) => {
                let turn = flow.turn(now, &mut **stack, mux, buffer, &mut Pace::default());
                stack.send(now, outside);
                turn
            }
            (Stage::Joined(stack, ..) | Stage::Closing(stack), _) => {
                stack.send(now, outside);
                Turn::Idle
            }
            (Stage::Over, _) => Turn::Over,
        };
        match (turn, std::mem::replace(&mut self.stage, Stage::Over)) {
            (Turn::Broken, Stage::Joined(mut stack, ..)) => {
                stack.reset(now, outside);
                return Turn::Over;
            }
            (Turn::Over, Stage::Joined(stack, ..)) => self.stage = Stage::Closing(stack),
            (_, stage) => self.stage = stage,
        }
        match &mut self.stage {
            Stage::Closing(stack) if stack.is_over() => Turn::Over,
            Stage::Closing(_) => Turn::Idle,
            _ => turn,
        }
    }

    /// It has no stream yet, or waits for the relay's word.
    fn advance<D: Device>(&mut self, now: Instant, seed: u64, mux: Option<&mut Mux>, outside: &mut Outside<D>) -> Turn {
        let (first, opened) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Waiting(first) => (first, None),
            Stage::Opening(first, id) => (first, Some(id)),
            stage => {
                self.stage = stage;
                return Turn::Idle;
            }
        };
        let outcome = match (opened, mux) {
            (Some(id), Some(mux)) if first.is_empty() || now >= self.until => {
                let _ = mux.reset(id, ABORTED);
                Word::Refused(Failure::NoAnswer)
            }
            (Some(id), Some(mux)) => learn(now, id, mux),
            (None, Some(_)) if now >= self.until => Word::Refused(Failure::NoStream),
            (None, None) if now >= self.until => Word::Refused(Failure::NoConnection),
            _ => Word::None,
        };
        match (outcome, opened) {
            (Word::Connected, Some(id)) => {
                let mut stack = Box::new(Stack::new(now, self.ends, seed, outside));
                stack.take(now, &first, outside);
                stack.send(now, outside);
                self.stage = Stage::Joined(stack, id, Flow::new(id, Bytes::new(), Bytes::new()));
                Turn::More
            }
            (Word::Refused(failure), _) => {
                self.refuse(now, &first, failure, outside);
                Turn::Over
            }
            (_, Some(id)) => {
                self.stage = Stage::Opening(first, id);
                Turn::Idle
            }
            (_, None) => {
                self.stage = Stage::Waiting(first);
                Turn::Idle
            }
        }
    }

    /// Tells the program that it leads nowhere, unless it has given up.
    fn refuse<D: Device>(&mut self, now: Instant, first: &[u8], failure: Failure, outside: &mut Outside<D>) {
        self.refused = Some(failure);
        if first.is_empty() {
            return;
        }
        let Ends { program, server } = self.ends;
        let why = match failure {
            Failure::Refused(Refusal::NotAllowed) => Unreachable::Prohibited,
            Failure::Refused(Refusal::NetworkUnreachable) => Unreachable::Network,
            Failure::Refused(Refusal::HostUnreachable | Refusal::TimedOut) | Failure::NoAnswer => Unreachable::Host,
            _ => return refuse(now, self.ends, first, outside),
        };
        if reply::unreachable(&mut outside.buffer, first, (server.ip(), program.ip()), why) {
            outside.send();
        }
    }
}

/// Word of the relay about a stream.
pub enum Word {
    /// No word yet.
    None,
    /// It leads where it should.
    Connected,
    /// It leads nowhere.
    Refused(Failure),
}

/// Learns what it says. A stream that is refused is reset.
pub fn learn(now: Instant, id: StreamId, mux: &mut Mux) -> Word {
    let word = match mux.read(id) {
        Ok(Read::Wait) => return Word::None,
        Ok(Read::Bytes(bytes)) => bytes.first().copied(),
        Err(StreamError::Reset(code)) => return Word::Refused(Failure::Refused(Refusal::from_code(code))),
        Ok(Read::End) | Err(StreamError::NotOpen | StreamError::Finished) => None,
    };
    if word == Some(CONNECTED) && mux.took(now, id, 1).is_ok() {
        return Word::Connected;
    }
    // No relay of this version says that.
    let _ = mux.reset(id, ABORTED);
    Word::Refused(Failure::Refused(Refusal::General))
}
