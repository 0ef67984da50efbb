//! Plan of the next record, which changes nothing, so that a scheduler can be told of a record before it is cut.
//!
//! Control frames come first; they are few and short. Then each party in its order, as much as fits. Only the last has
//! more than that.

use weftway_path::{Instant, Message};

use crate::cutter::Party;
use crate::frame::{Frame, LARGEST_PIECE, stream_head};
use crate::id::StreamId;
use crate::limits::{CONTROL_FRAMES, LARGEST_RECORD, MOST_FRAMES};
use crate::mux::Mux;
use crate::stream::{Opening, Stream};

/// A piece of a stream is not cut shorter than this to fill a record.
const LEAST_PIECE: usize = 64;

/// A part of a record that comes from a stream, or from the datagrams of a class.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A stream: whether it is opened first, and then how many bytes, if any frame of it follows.
    Stream { class: u8, id: StreamId, open: bool, piece: Option<usize> },
    /// Datagrams of a class.
    Datagrams { class: u8, count: usize },
}

/// Contents of the next record.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub resets: usize,
    /// Entries of the queue of credits that are dealt with; some may be of streams that are over.
    pub credits: usize,
    pub limit: bool,
    pub question: bool,
    pub skip: bool,
    pub parts: Vec<Part>,
    /// Number of frames.
    pub frames: usize,
    /// Number of bytes.
    pub bytes: usize,
    /// Message of the part of it with the earliest deadline, or of the application's first bytes, at places as if it
    /// were sent alone from here on; none of a stream whose writer had to wait since the last time that all was cut,
    /// for nobody knows where that ends.
    pub message: Option<Option<Message>>,
}

impl Plan {
    /// Adds a frame of so many bytes if it fits into `most`.
    fn fit(&mut self, bytes: usize, most: usize) -> bool {
        let fits = self.bytes + bytes <= most;
        if fits {
            self.bytes += bytes;
            self.frames += 1;
        }
        fits
    }

    /// Adds the message of a part.
    fn add(&mut self, message: Option<Message>) {
        let deadline =
            |message: Option<Message>| message.and_then(|message| message.deadline).unwrap_or(Instant::NEVER);
        if self.message.is_none_or(|other| deadline(message) < deadline(other)) {
            self.message = Some(message);
        }
    }
}

impl Mux {
    /// Plans a record of `most` bytes at most.
    pub(crate) fn plan(&self, most: usize) -> Plan {
        let most = most.min(LARGEST_RECORD);
        let mut plan = Plan::default();
        let outstanding = self.outstanding();
        if outstanding < MOST_FRAMES - LARGEST_RECORD {
            self.plan_control(most, &mut plan);
        }
        if outstanding < MOST_FRAMES - LARGEST_RECORD - CONTROL_FRAMES {
            self.plan_parts(most, &mut plan);
        }
        plan
    }

    /// Plans a record of nothing but datagrams of class 0, if they are next.
    pub(crate) fn plan_urgent(&self, most: usize) -> Plan {
        let mut plan = Plan::default();
        let is_next = self.outbox.has_more(0) && self.cutter.parties().next().is_some_and(|(class, _)| class == 0);
        if is_next && self.outstanding() < MOST_FRAMES - LARGEST_RECORD - CONTROL_FRAMES {
            self.plan_datagrams(0, most.min(LARGEST_RECORD), &mut plan);
        }
        plan
    }

    /// Frames under way that may become gaps in what arrives. Where nothing is under way the next record cannot
    /// wait for one that arrives.
    fn outstanding(&self) -> usize {
        match self.records.gaps() {
            0 => 0,
            gaps => gaps + self.again,
        }
    }

    fn plan_control(&self, most: usize, plan: &mut Plan) {
        let control = &self.control;
        if control.limit {
            let (streams, arrived) = self.limit();
            plan.limit = plan.fit(Frame::Limit { streams, arrived }.length(), most);
        }
        if let Some(to) = self.records.skip() {
            plan.skip = plan.fit(Frame::Skip { to: to.get() }.length(), most);
        }
        plan.question = control.question && plan.fit(Frame::Question.length(), most);
        for &(id, code) in &control.resets {
            if !plan.fit(Frame::Reset { id, code }.length(), most) {
                return;
            }
            plan.resets += 1;
        }
        for id in &control.credits {
            if let Some(stream) = self.streams.get(id).filter(|stream| stream.reset.is_none()) {
                let edge = stream.incoming.next_edge();
                if !plan.fit(Frame::Credit { id: *id, edge }.length(), most) {
                    return;
                }
            }
            plan.credits += 1;
        }
    }

    fn plan_parts(&self, most: usize, plan: &mut Plan) {
        for (class, party) in self.cutter.parties() {
            let room = most - plan.bytes;
            let fits = match party {
                Party::Stream(id) => {
                    self.streams.get(&id).is_none_or(|stream| self.plan_stream(class, id, stream, room, plan))
                }
                Party::Datagrams => {
                    self.plan_datagrams(class, room, plan);
                    // One that is too long for this record is in nobody's way.
                    true
                }
            };
            // Whoever does not fit into an empty record is in nobody's way either.
            if !fits && plan.bytes > 0 {
                return;
            }
        }
    }

    /// Plans as many datagrams of `class` as fit into `room`.
    fn plan_datagrams(&self, class: u8, room: usize, plan: &mut Plan) {
        let (count, bytes, urgent) = self.outbox.fitting(class, room);
        if let Some(urgent) = urgent {
            let deadline = Some(urgent.deadline).filter(|deadline| !deadline.is_never());
            let message = self.message(class, urgent.written, deadline, urgent.bytes.len());
            plan.add(Some(message));
            plan.parts.push(Part::Datagrams { class, count });
            plan.frames += count;
            plan.bytes += bytes;
        }
    }

    /// Plans what fits of a stream into `room`: whether anything does.
    fn plan_stream(&self, class: u8, id: StreamId, stream: &Stream, room: usize, plan: &mut Plan) -> bool {
        let open = stream.opening == Opening::Due;
        let opening = Frame::Open { id, class: stream.class, target: &stream.target };
        let opening = if open { opening.length() } else { 0 };
        let Some(room) = room.checked_sub(opening) else { return false };
        let run = stream.outgoing.front(room.min(LARGEST_PIECE));
        let piece = run.and_then(|run| {
            let room = room.checked_sub(stream_head(id, run.at))?;
            (room >= run.bytes.min(LEAST_PIECE)).then_some((run, run.bytes.min(room)))
        });
        if piece.is_none() && !open {
            return false;
        }
        if let Some((run, _)) = piece.filter(|&(_, bytes)| bytes > 0) {
            let deadline = stream.deadline.map(|span| run.written + span);
            plan.add((!stream.is_endless).then(|| self.message(class, run.written, deadline, run.left)));
        }
        plan.bytes += opening + piece.map_or(0, |(run, bytes)| stream_head(id, run.at) + bytes);
        plan.frames += usize::from(open) + usize::from(piece.is_some());
        plan.parts.push(Part::Stream { class, id, open, piece: piece.map(|(_, bytes)| bytes) });
        true
    }

    fn message(&self, class: u8, written: Instant, deadline: Option<Instant>, left: usize) -> Message {
        let start = self.records.next().get();
        Message { start, end: start + left as u64, written, deadline, class }
    }
}
