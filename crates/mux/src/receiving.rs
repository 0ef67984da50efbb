//! Receiving: each frame of each record arrives once, whatever order the records come in. A record that is missing
//! holds up only the streams that have a piece in it.

use bytes::Bytes;
use weftway_path::{Instant, Offset};

use crate::error::ProtocolError;
use crate::frame::{Frame, Frames};
use crate::id::StreamId;
use crate::mux::{Mux, Ready};
use crate::stream::{Opening, Stream, WriterWaits};

/// The class of a stream whose opening has not arrived. Nothing is written to it by then.
const UNKNOWN_CLASS: u8 = 3;

impl Mux {
    /// A record arrives: whether it is new. What it brings to the application, [`Mux::poll_ready`] tells.
    ///
    /// After an error the connection is to be closed. A part of the record may have been taken in.
    pub fn receive(&mut self, now: Instant, place: Offset, payload: &[u8]) -> Result<bool, ProtocolError> {
        if payload.is_empty() {
            return Err(ProtocolError::Empty(place));
        }
        let new = self.arrived.note(place, payload.len())?;
        if new {
            for frame in Frames::new(payload) {
                self.take_in(now, place, frame.map_err(|error| ProtocolError::Frame { place, error })?)?;
            }
            self.note_limit();
        } else {
            self.duplicates += 1;
        }
        Ok(new)
    }

    /// Everything of the peer's sequence before it has arrived, or will never.
    pub fn arrived(&self) -> Offset {
        self.arrived.next()
    }

    fn take_in(&mut self, now: Instant, place: Offset, frame: Frame<'_>) -> Result<(), ProtocolError> {
        match frame {
            Frame::Stream { id, at, fin, bytes } => self.take_piece(now, id, at, fin, bytes)?,
            Frame::Datagram { flow, bytes } => {
                if self.inbox.push(place, flow, bytes) {
                    self.ready.push_back(Ready::Datagram);
                }
            }
            Frame::Open { id, class, target } => self.take_opening(now, id, class, target)?,
            Frame::Reset { id, code } => self.take_reset(now, id, code)?,
            Frame::Credit { id, edge } => {
                if let Some(stream) = self.stream_of_peer(now, id)? {
                    stream.outgoing.raise(edge);
                    if stream.outgoing.credit() > 0 {
                        self.wake_writer(id, WriterWaits::Credit);
                    }
                }
            }
            Frame::Limit { streams, arrived } => {
                let next = self.records.next();
                if arrived > next.get() {
                    return Err(ProtocolError::Arrived { arrived: Offset::new(arrived), next });
                }
                self.may_open = self.may_open.max(streams);
                self.peer_arrived = self.peer_arrived.max(arrived);
                self.acked_below(Offset::new(arrived));
                self.wake_opener();
            }
            Frame::Question => self.control.limit = true,
            Frame::Skip { to } => self.arrived.skip(to)?,
        }
        Ok(())
    }

    fn take_piece(
        &mut self,
        now: Instant,
        id: StreamId,
        at: u64,
        fin: bool,
        bytes: &[u8],
    ) -> Result<(), ProtocolError> {
        self.stream_of_peer(now, id)?;
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.reset.is_none()) else { return Ok(()) };
        if stream.incoming.arrive(now, id, (at, bytes, fin), &mut self.budget)?
            && std::mem::take(&mut stream.reader_waits)
        {
            self.ready.push_back(Ready::Read(id));
        }
        Ok(())
    }

    fn take_opening(&mut self, now: Instant, id: StreamId, class: u8, target: &[u8]) -> Result<(), ProtocolError> {
        if id.opener() == self.side {
            return Err(ProtocolError::NotOpened(id));
        }
        let Some(stream) = self.stream_of_peer(now, id)? else { return Ok(()) };
        if stream.opening != Opening::Awaited {
            // It is cut again when its record was given up.
            let same = stream.class == class && stream.target == target;
            return if same { Ok(()) } else { Err(ProtocolError::Reopened(id)) };
        }
        stream.set_class(class);
        (stream.target, stream.opening) = (Bytes::copy_from_slice(target), Opening::Offered);
        self.offer(id);
        Ok(())
    }

    fn take_reset(&mut self, now: Instant, id: StreamId, code: u32) -> Result<(), ProtocolError> {
        let Some(stream) = self.stream_of_peer(now, id)? else { return Ok(()) };
        let unknown = matches!(stream.opening, Opening::Awaited | Opening::Offered);
        if unknown || stream.ended && !stream.outgoing.is_open() {
            // The application has never heard of it, or has done with it.
            self.offered.retain(|&offered| offered != id);
            self.forget(id);
            return Ok(());
        }
        stream.reset = Some(code);
        let waits = std::mem::replace(&mut stream.writer_waits, WriterWaits::No) != WriterWaits::No;
        // A reader learns it even if it did not wait: one that takes nothing any more would never look.
        if std::mem::take(&mut stream.reader_waits) || !waits {
            self.ready.push_back(Ready::Read(id));
        }
        if waits {
            self.ready.push_back(Ready::Write(id));
        }
        self.silence(id);
        self.wake_writers();
        Ok(())
    }

    /// The stream that the peer speaks of, which begins if it is one of the peer's and new; none if it is over.
    fn stream_of_peer(&mut self, now: Instant, id: StreamId) -> Result<Option<&mut Stream>, ProtocolError> {
        if !self.streams.contains_key(&id) {
            let number = id.number();
            if id.opener() == self.side {
                return if number < self.opened { Ok(None) } else { Err(ProtocolError::NotOpened(id)) };
            }
            if self.gone.range_of(number).is_some() {
                return Ok(None);
            }
            let allowed = self.control.told.0;
            if number >= allowed {
                return Err(ProtocolError::Streams { id, allowed });
            }
            self.seen = self.seen.max(number + 1);
            let mut stream = self.new_stream(now, Opening::Awaited);
            stream.set_class(UNKNOWN_CLASS);
            self.streams.insert(id, stream);
        }
        Ok(self.streams.get_mut(&id))
    }
}
