//! Sending: records are cut, and are acknowledged or lost. A record keeps its place and its bytes for as long as it
//! is outstanding, whatever path carries it and however often.

use bytes::Bytes;
use weftway_path::{Bytes as Count, Instant, Message, Offset};

use crate::cutter::Party;
use crate::frame::{Frame, Frames, put_stream_head};
use crate::id::StreamId;
use crate::mux::Mux;
use crate::plan::{Part, Plan};
use crate::records::{Outstanding, Record};
use crate::stream::{Opening, Stream};

/// The record that would be cut now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Bytes of its payload.
    pub bytes: usize,
    /// The message in it with the earliest deadline, or the first, which is what is left of one write, or a datagram: it
    /// begins where the record does, and ends where it would if it were sent alone. None if the record
    /// holds no bytes of the application's, or that message is of a stream whose writer waits to write more: nobody
    /// knows where that ends.
    pub message: Option<Message>,
}

impl Mux {
    /// Plans the record that [`Mux::cut`] would cut with the same arguments, or with as many bytes as this tells;
    /// nothing changes.
    pub fn peek(&mut self, now: Instant, most_bytes: usize) -> Option<Next> {
        self.expire(now);
        let plan = self.plan(most_bytes);
        (plan.bytes > 0).then_some(Next { bytes: plan.bytes, message: plan.message.flatten() })
    }

    /// Cuts the next record, of `most_bytes` payload at most: its place in the sequence is behind all that were cut
    /// before. None if nothing waits, or if what waits is not acknowledged as fast as it is cut (see
    /// [`MOST_FRAMES`](crate::limits::MOST_FRAMES)).
    ///
    /// A stream's first frame needs room for its target as a whole, a datagram for all its bytes: what does not fit
    /// waits for a larger record. 600 bytes are enough for every target.
    pub fn cut(&mut self, now: Instant, most_bytes: usize) -> Option<Record> {
        self.expire(now);
        let plan = self.plan(most_bytes);
        self.cut_as_planned(&plan)
    }

    /// Bytes that [`Mux::cut_urgent`] would cut; 0 if no datagram of class 0 is next.
    pub fn peek_urgent(&mut self, now: Instant, most_bytes: usize) -> usize {
        self.expire(now);
        self.plan_urgent(most_bytes).bytes
    }

    /// Cuts a record of datagrams of class 0 alone, where one is next: what is sent before everything else, and perhaps
    /// twice, takes nothing along.
    pub fn cut_urgent(&mut self, now: Instant, most_bytes: usize) -> Option<Record> {
        self.expire(now);
        let plan = self.plan_urgent(most_bytes);
        self.cut_as_planned(&plan)
    }

    fn cut_as_planned(&mut self, plan: &Plan) -> Option<Record> {
        if plan.bytes == 0 {
            return None;
        }
        let place = self.records.next();
        let mut payload = Vec::with_capacity(plan.bytes);
        let frames = plan.frames + self.put_control(plan, &mut payload);
        let mut datagrams_until = Instant::ZERO;
        for part in &plan.parts {
            match *part {
                Part::Stream { class, id, open, piece } => self.put_stream(class, id, open, piece, place, &mut payload),
                Part::Datagrams { class, count } => {
                    datagrams_until = datagrams_until.max(self.put_datagrams(class, count, &mut payload));
                }
            }
        }
        debug_assert_eq!(payload.len(), plan.bytes, "a record is cut as it was planned");
        let payload = Bytes::from(payload);
        self.records.push(Outstanding { payload: payload.clone(), frames, datagrams_until });
        Some(Record { place, payload, datagrams_until })
    }

    /// Writes the control frames: of how many runs of records that were given up they tell.
    fn put_control(&mut self, plan: &Plan, payload: &mut Vec<u8>) -> usize {
        let mut skipped = 0;
        if plan.limit {
            let (streams, arrived) = self.limit();
            Frame::Limit { streams, arrived }.put(payload);
            (self.control.told, self.control.limit) = ((streams, arrived), false);
        }
        if let Some(to) = self.records.skip().filter(|_| plan.skip) {
            Frame::Skip { to: to.get() }.put(payload);
            skipped = self.records.skipped(to);
        }
        if plan.question {
            Frame::Question.put(payload);
            self.control.question = false;
        }
        for (id, code) in self.control.resets.drain(..plan.resets) {
            Frame::Reset { id, code }.put(payload);
        }
        for id in self.control.credits.drain(..plan.credits) {
            if let Some(stream) = self.streams.get_mut(&id)
                && std::mem::take(&mut stream.credit_due)
                && stream.reset.is_none()
            {
                Frame::Credit { id, edge: stream.incoming.credit() }.put(payload);
            }
        }
        skipped
    }

    fn put_stream(
        &mut self,
        class: u8,
        id: StreamId,
        open: bool,
        piece: Option<usize>,
        place: Offset,
        payload: &mut Vec<u8>,
    ) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let before = payload.len();
        if open {
            Frame::Open { id, class: stream.class, target: &stream.target }.put(payload);
            stream.opening = Opening::Done;
        }
        if let Some(count) = piece
            && let Some(run) = stream.outgoing.front(count)
        {
            let (hole, again) = (stream.outgoing.hole(), stream.outgoing.again());
            let head = payload.len();
            put_stream_head(payload, id, run.at, false, count);
            let fin = stream.outgoing.cut(count, place, |part| payload.extend_from_slice(part));
            payload[head] = u8::from(fin);
            self.waiting -= count as u64;
            self.again -= again - stream.outgoing.again();
            self.records.move_hole(id, hole, stream.outgoing.hole());
        }
        let moves = stream.has_begun();
        stream.in_turn = stream.has_more() && !moves;
        self.cutter.served(class, Party::Stream(id), payload.len() - before, stream.in_turn);
        self.join(id);
    }

    /// Returns the latest deadline of the datagrams.
    fn put_datagrams(&mut self, class: u8, count: usize, payload: &mut Vec<u8>) -> Instant {
        let (before, mut until) = (payload.len(), Instant::ZERO);
        for datagram in (0..count).filter_map(|_| self.outbox.pop(class)) {
            Frame::Datagram { flow: datagram.flow, bytes: &datagram.bytes }.put(payload);
            until = until.max(datagram.deadline);
        }
        self.cutter.served(class, Party::Datagrams, payload.len() - before, self.outbox.has_more(class));
        until
    }

    /// The payload of the record at `place`, to be sent once more, as long as it is outstanding.
    pub fn payload(&self, place: Offset) -> Option<Bytes> {
        self.records.get(place).map(|record| record.payload.clone())
    }

    /// The peer has the record at `place`. May be told more than once.
    pub fn acked(&mut self, place: Offset) {
        if let Some(record) = self.records.remove(place) {
            self.settle(&record);
            self.wake_writers();
        }
    }

    /// Everything before `arrived` is with the peer, as it says.
    pub(crate) fn acked_below(&mut self, arrived: Offset) {
        while let Some(record) = self.records.remove_first_below(arrived) {
            self.settle(&record);
        }
        self.wake_writers();
    }

    /// Settles a record whose contents have arrived.
    fn settle(&mut self, record: &Outstanding) {
        for frame in Frames::new(&record.payload).flatten() {
            let Frame::Stream { id, at, fin, .. } = frame else { continue };
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let hole = stream.outgoing.hole();
            stream.outgoing.acknowledge(at, fin);
            self.records.move_hole(id, hole, stream.outgoing.hole());
            self.forget_if_over(id);
        }
    }

    /// The record at `place` is lost, on every path that carried it: whether it is to be sent again. If not, it is
    /// given up, as with [`Mux::abandon`]: because nothing in it is of use any more (its streams are over), or its
    /// datagrams would be too late at `soonest`, before which it cannot arrive.
    pub fn lost(&mut self, now: Instant, soonest: Instant, place: Offset) -> bool {
        let Some(record) = self.records.get(place) else { return false };
        let until = record.datagrams_until;
        let is_late = until > Instant::ZERO && until <= soonest;
        let matters =
            !is_late && Frames::new(&record.payload).flatten().any(|frame| self.matters(soonest, frame, until));
        if !matters {
            self.abandon(now, place);
        }
        matters
    }

    /// Tells whether it would make a difference if a frame arrived now.
    fn matters(&self, now: Instant, frame: Frame<'_>, until: Instant) -> bool {
        match frame {
            Frame::Stream { id, .. } | Frame::Open { id, .. } => self.live(id).is_some(),
            Frame::Datagram { .. } => until > now,
            Frame::Reset { .. } | Frame::Skip { .. } => true,
            Frame::Credit { id, edge } => self.live(id).is_some_and(|stream| stream.incoming.told() == edge),
            Frame::Limit { streams, arrived } => self.control.told == (streams, arrived),
            Frame::Question => false,
        }
    }

    /// Stream `id`, unless it is over or reset.
    fn live(&self, id: StreamId) -> Option<&Stream> {
        self.streams.get(&id).filter(|stream| stream.reset.is_none())
    }

    /// The record at `place` is not sent again. What is still of use in it is cut anew, at another place and perhaps in
    /// smaller records (since no path has room for it any more); the peer learns that the record does not come.
    pub fn abandon(&mut self, now: Instant, place: Offset) {
        let Some(record) = self.records.give_up(place) else { return };
        for frame in Frames::new(&record.payload).flatten() {
            if self.matters(now, frame, Instant::ZERO) {
                self.take_back(now, frame, &record.payload);
            }
        }
        self.wake_writers();
    }

    fn take_back(&mut self, now: Instant, frame: Frame<'_>, payload: &Bytes) {
        match frame {
            Frame::Stream { id, at, fin, bytes } => {
                let Some(stream) = self.streams.get_mut(&id) else { return };
                let outgoing = &mut stream.outgoing;
                let (hole, again, waiting) = (outgoing.hole(), outgoing.again(), outgoing.waiting());
                outgoing.take_back(now, at, payload.slice_ref(bytes), fin);
                self.again += outgoing.again() - again;
                self.waiting += outgoing.waiting() - waiting;
                self.records.move_hole(id, hole, stream.outgoing.hole());
                self.join(id);
            }
            Frame::Open { id, .. } => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.opening = Opening::Due;
                    self.join(id);
                }
            }
            Frame::Reset { id, code } => self.control.resets.push_back((id, code)),
            Frame::Credit { id, .. } => self.want_credit(id, true),
            Frame::Limit { .. } => self.control.limit = true,
            // A datagram comes once or not at all: the record may have arrived.
            Frame::Datagram { .. } | Frame::Question | Frame::Skip { .. } => {}
        }
    }

    /// Place at which the first outstanding record begins. Everything before is with the peer, or given up.
    pub fn una(&self) -> Offset {
        self.records.una()
    }

    /// Place at which the next record will begin.
    pub fn next_place(&self) -> Offset {
        self.records.next()
    }

    /// Place of the lowest record that holds up a reader: later bytes of one of its streams have arrived, as far as is
    /// known, and wait for it. If there is none, [`Mux::una`].
    pub fn blocking(&self) -> Offset {
        self.records.hole().unwrap_or_else(|| self.una())
    }

    /// Everything before it has arrived, as the peer says.
    pub fn peer_arrived(&self) -> Offset {
        Offset::new(self.peer_arrived)
    }

    /// The bytes of datagrams that wait to be cut, without heads.
    pub fn unsent_datagrams(&self) -> Count {
        Count::new(self.outbox.bytes())
    }

    /// The bytes of a flow's datagrams of a class that wait to be cut, with 64 for each; up to one datagram less.
    pub fn unsent_datagrams_of(&self, class: u8, flow: StreamId) -> Count {
        Count::new(self.outbox.of(class, flow))
    }

    /// The bytes that wait to be cut, of streams and of datagrams, without heads.
    pub fn unsent(&self) -> Count {
        Count::new(self.waiting + self.outbox.bytes())
    }
}
