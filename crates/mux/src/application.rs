//! Calls of the application: it opens and accepts streams, writes, reads, finishes, resets, sends datagrams, and learns
//! what it may go on with.

use bytes::Bytes;
use weftway_path::{Instant, Offset, Span};

use crate::cutter::Party;
use crate::datagrams::{COST, Waiting};
use crate::error::{DatagramError, OpenError, StreamError};
use crate::id::{Side, StreamId};
use crate::limits::{CLASSES, LARGEST_DATAGRAM, LARGEST_TARGET, slot};
use crate::mux::{Mux, Ready};
use crate::stream::{Opening, Stream, WriterWaits};

/// Answer to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// The next bytes. They stay until [`Mux::took`] says how many of them are taken.
    Bytes(&'a [u8]),
    /// No bytes yet: [`Ready::Read`] tells when.
    Wait,
    /// Everything was taken; the peer has finished the stream.
    End,
}

/// A stream that the other end opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The stream.
    pub id: StreamId,
    /// Urgency in both directions: 0 to 3, 0 the most. The other end may have begun as another class.
    pub class: u8,
    /// Target of the stream, in the words of the application that opened it.
    pub target: Bytes,
}

impl Mux {
    /// Opens a stream of `class` (0 to 3, 0 the most urgent). The peer's application learns `target`, at most
    /// [`LARGEST_TARGET`] bytes. What is written on this end is told to schedulers as due within `deadline`.
    pub fn open(
        &mut self,
        now: Instant,
        class: u8,
        target: &[u8],
        deadline: Option<Span>,
    ) -> Result<StreamId, OpenError> {
        if usize::from(class) >= CLASSES {
            return Err(OpenError::Class(class));
        }
        if target.len() > LARGEST_TARGET {
            return Err(OpenError::Target(target.len()));
        }
        let id = self.next_id()?;
        let mut stream = self.new_stream(now, Opening::Due);
        stream.set_class(class);
        (stream.target, stream.deadline) = (Bytes::copy_from_slice(target), deadline);
        self.streams.insert(id, stream);
        self.join(id);
        Ok(id)
    }

    fn next_id(&mut self) -> Result<StreamId, OpenError> {
        if self.opened >= self.may_open || !self.budget.take_slot(slot(self.own.first_credit).get()) {
            self.wants_open = true;
            return Err(OpenError::TooMany);
        }
        self.opened += 1;
        Ok(StreamId::new(self.side, self.opened - 1))
    }

    /// Makes a mux with a stream that both ends have without a word, for what their programs tell each other beside all
    /// others: [`StreamId::CONTROL`], of class 0. It is one of those that the end that connects may open. Both ends
    /// must have it, or none.
    pub fn with_control(mut self) -> Result<Self, OpenError> {
        if self.side == Side::Connecting {
            self.next_id()?;
        } else {
            self.seen = 1;
        }
        self.streams.insert(StreamId::CONTROL, self.new_stream(Instant::ZERO, Opening::Done));
        Ok(self)
    }

    /// The next stream that the other end opened. It is to be read at once, for its first bytes may have arrived:
    /// [`Ready::Read`] follows only a read that found nothing.
    pub fn accept(&mut self) -> Option<Accepted> {
        let id = self.offered.pop_front()?;
        let stream = self.streams.get_mut(&id)?;
        stream.opening = Opening::Done;
        Some(Accepted { id, class: stream.class, target: stream.target.clone() })
    }

    /// This end cuts the first `bytes` of what it sends on a stream as those of `class` (3 if it is more), whatever the
    /// stream's own class is. Those that were cut count. The peer is not told: it may do the same with what it sends.
    pub fn begin_as(&mut self, id: StreamId, class: u8, bytes: u64) -> Result<(), StreamError> {
        let stream = self.usable(id)?;
        let (before, in_turn) = (stream.cut_as, std::mem::take(&mut stream.in_turn));
        (stream.cut_as, stream.cut_as_until) = (class.min(CLASSES as u8 - 1), bytes);
        stream.has_begun();
        if in_turn {
            self.cutter.leave(before, Party::Stream(id));
        }
        self.join(id);
        Ok(())
    }

    /// Writes to a stream: how many of the bytes are taken, from the first on. It takes what the peer's credit and this
    /// end's memory allow; if those are not all, [`Ready::Write`] tells when it takes more.
    pub fn write(&mut self, now: Instant, id: StreamId, mut bytes: Bytes) -> Result<usize, StreamError> {
        let class = self.usable(id)?.cut_as;
        let room = self.room(class);
        let stream = self.usable(id)?;
        if !stream.outgoing.is_open() {
            return Err(StreamError::Finished);
        }
        let credit = stream.outgoing.credit();
        let count = (bytes.len() as u64).min(credit).min(room) as usize;
        let is_cut = stream.outgoing.waiting() == 0;
        stream.is_endless = count < bytes.len() || (stream.is_endless && !is_cut);
        if count < bytes.len() {
            stream.writer_waits = if credit <= room { WriterWaits::Credit } else { WriterWaits::Memory };
            if credit > room && !stream.in_writers {
                stream.in_writers = true;
                self.writers[usize::from(class)].push_back(id);
            }
        }
        if count > 0 {
            let Some(stream) = self.streams.get_mut(&id) else { return Err(StreamError::NotOpen) };
            stream.outgoing.write(now, bytes.split_to(count));
            self.waiting += count as u64;
            self.join(id);
        }
        Ok(count)
    }

    /// No more is written to the stream. What arrives on it can still be read.
    pub fn finish(&mut self, id: StreamId) -> Result<(), StreamError> {
        if !self.usable(id)?.outgoing.finish() {
            return Err(StreamError::Finished);
        }
        self.join(id);
        Ok(())
    }

    /// Reads the bytes that have arrived on a stream and are not taken.
    pub fn read(&mut self, id: StreamId) -> Result<Read<'_>, StreamError> {
        let stream = self.usable(id)?;
        if stream.incoming.has_ended() {
            stream.ended = true;
            self.forget_if_over(id);
            return Ok(Read::End);
        }
        stream.reader_waits = stream.incoming.front().is_empty();
        let stream = self.usable(id)?;
        Ok(if stream.reader_waits { Read::Wait } else { Read::Bytes(stream.incoming.front()) })
    }

    /// All bytes of which [`Mux::read`] shows the first, in parts as they lie in memory; none if the stream is not
    /// open.
    pub fn parts(&self, id: StreamId) -> impl Iterator<Item = &[u8]> {
        self.streams.get(&id).into_iter().flat_map(|stream| stream.incoming.parts())
    }

    /// The application has taken so many of the bytes that [`Mux::read`] and [`Mux::parts`] show; no more than those
    /// count. The peer may send as many more.
    pub fn took(&mut self, now: Instant, id: StreamId, bytes: usize) -> Result<(), StreamError> {
        self.usable(id)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Err(StreamError::NotOpen) };
        let due = stream.incoming.take(now, self.rtt, bytes, &mut self.budget);
        self.want_credit(id, due);
        self.wake_opener();
        Ok(())
    }

    /// Ends a stream in both directions at once. What was not read or not sent is dropped; the peer's application
    /// learns `code`.
    pub fn reset(&mut self, id: StreamId, code: u32) -> Result<(), StreamError> {
        self.usable(id)?;
        self.forget(id);
        self.control.resets.push_back((id, code));
        Ok(())
    }

    /// Sends a datagram that belongs to stream `flow`, whether or not that is open any more. It is sent before the
    /// streams of less urgent classes, and not once `deadline` has passed since now. One that is lost is sent again
    /// only while it can arrive before its deadline, or that of another one in the same record.
    pub fn send_datagram(
        &mut self,
        now: Instant,
        flow: StreamId,
        class: u8,
        deadline: Option<Span>,
        bytes: Bytes,
    ) -> Result<(), DatagramError> {
        self.send_datagram_within(now, flow, class, deadline, deadline, bytes)
    }

    /// Sends a datagram as [`Mux::send_datagram`] does, but not once `leave_within` has passed since now: it would not
    /// arrive within `arrive_within`, as it should.
    pub fn send_datagram_within(
        &mut self,
        now: Instant,
        flow: StreamId,
        class: u8,
        leave_within: Option<Span>,
        arrive_within: Option<Span>,
        bytes: Bytes,
    ) -> Result<(), DatagramError> {
        if usize::from(class) >= CLASSES {
            return Err(DatagramError::Class(class));
        }
        if bytes.len() > LARGEST_DATAGRAM {
            return Err(DatagramError::TooLong(bytes.len()));
        }
        self.expire(now);
        if self.datagram_room() < bytes.len() as u64 + COST {
            return Err(DatagramError::Full);
        }
        if !self.outbox.has_more(class) {
            self.cutter.join(class, Party::Datagrams);
        }
        let [leave_by, deadline] =
            [leave_within, arrive_within].map(|time| time.map_or(Instant::NEVER, |span| now + span));
        self.outbox.push(class, Waiting { flow, bytes, written: now, leave_by, deadline });
        Ok(())
    }

    /// Takes the datagram that was sent first of those that have arrived. Others that were sent before may come later,
    /// or never.
    pub fn next_datagram(&mut self) -> Option<(StreamId, Bytes)> {
        self.next_datagram_at().map(|(_, flow, bytes)| (flow, bytes))
    }

    /// Takes it with the place of its record: below [`Mux::arrived`], nothing that was sent before is missing.
    pub fn next_datagram_at(&mut self) -> Option<(Offset, StreamId, Bytes)> {
        self.inbox.pop()
    }

    /// Takes the next event that lets the application go on: each once, in the order in which they came about.
    pub fn poll_ready(&mut self) -> Option<Ready> {
        let ready = self.ready.pop_front()?;
        if ready == Ready::Accept {
            self.told_to_accept = false;
        }
        Some(ready)
    }

    /// Returns true if [`Mux::poll_ready`] has anything to tell.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Asks the peer for a limit, which also says what has arrived. For an end that hears nothing on the paths that
    /// carry its data.
    pub fn ask(&mut self) {
        self.control.question = true;
    }

    /// The stream, if the application may use it. A reset is told, and the stream is over.
    fn usable(&mut self, id: StreamId) -> Result<&mut Stream, StreamError> {
        let reset = self.streams.get(&id).and_then(|stream| stream.reset);
        if let Some(code) = reset {
            self.forget(id);
            return Err(StreamError::Reset(code));
        }
        let known = |stream: &&mut Stream| matches!(stream.opening, Opening::Due | Opening::Done);
        self.streams.get_mut(&id).filter(known).ok_or(StreamError::NotOpen)
    }
}
