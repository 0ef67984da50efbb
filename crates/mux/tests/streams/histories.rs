//! Any history of operations, of what a network may do, and of connections that are lost and followed by others: at its
//! end, each stream has what was written to it, in order and once; nothing is left over; and what is promised is given
//! back.

use std::cell::Cell;
use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weftway_mux::{Limits, Mux, Read, Ready, Record, Side, StreamError, StreamId};
use weftway_path::{Bytes as Count, Instant, Span};

/// Something that happens at one end, or to a record that it has sent.
#[derive(Clone, Debug)]
enum Op {
    Open { class: u8 },
    Write { stream: Index, bytes: u16 },
    Read { stream: Index, bytes: u16 },
    BeginAs { stream: Index, class: u8, bytes: u16 },
    Finish(Index),
    Reset(Index),
    Datagram { class: u8, ms: u8 },
    Cut { most: u16 },
    Deliver(Index),
    Repeat(Index),
    Lose(Index),
    Ack(Index),
    LoseAck(Index),
    Abandon(Index),
    Ask,
    Sever { heard: bool },
    Advance { ms: u8 },
}

/// Item of a list, by its place.
#[derive(Clone, Copy, Debug)]
struct Index(usize);

impl Op {
    /// The end and the operation that a number stands for: proptest draws and shrinks numbers much faster than trees of
    /// choices.
    fn decode(word: u64) -> (usize, Self) {
        let (end, kind, number) = (word as usize & 1, (word >> 1) as u8 % 53, (word >> 16) as u16);
        let (index, ms) = (Index((word >> 32) as usize), (number % 80) as u8);
        let op = match kind {
            0..2 => Self::Open { class: number as u8 % 4 },
            2..8 => Self::Write { stream: index, bytes: 1 + number % 6000 },
            8..14 => Self::Read { stream: index, bytes: number % 6000 },
            14 => Self::Finish(index),
            15 => Self::Reset(index),
            16 => Self::Datagram { class: index.0 as u8 % 4, ms },
            17..25 => Self::Cut { most: 20 + number % 3000 },
            25..33 => Self::Deliver(index),
            33 => Self::Repeat(index),
            34..36 => Self::Lose(index),
            36..42 => Self::Ack(index),
            42 => Self::LoseAck(index),
            43 => Self::Abandon(index),
            44 => Self::Ask,
            45..47 => Self::Advance { ms },
            52 => Self::Sever { heard: number % 3 > 0 },
            // More of what moves data.
            47..49 => Self::Write { stream: index, bytes: 1 + number % 6000 },
            49 => Self::BeginAs { stream: index, class: number as u8 % 4, bytes: number % 3000 },
            _ => Self::Deliver(index),
        };
        (end, op)
    }
}

fn history() -> impl Strategy<Value = Vec<(usize, Op)>> {
    prop::collection::vec(any::<u64>(), 1..250).prop_map(|words| words.into_iter().map(Op::decode).collect())
}

/// Knowledge of one end about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Half {
    id: StreamId,
    written: u64,
    finished: bool,
    read: u64,
    ended: bool,
    reset: bool,
    /// Calls that it could not carry out, and has not been told to go on with.
    waits_to_write: bool,
    waits_to_read: bool,
}

struct End {
    mux: Mux,
    streams: Vec<Half>,
    /// Records that it has sent and that are under way; and arrivals of which it has not heard.
    records: Vec<Record>,
    acks: Vec<Record>,
    sent: BTreeSet<u64>,
    received: BTreeSet<u64>,
    datagrams: u64,
    waits_to_open: bool,
}

struct World {
    now: Instant,
    ends: [End; 2],
    /// Both ends' streams that one of them has reset.
    reset: BTreeSet<StreamId>,
}

const LIMITS: Limits =
    Limits { receive: Count::new(200_000), send: Count::new(40_000), streams: 4, first_credit: Count::new(3_000) };

fn byte(id: StreamId, end: usize, at: u64) -> u8 {
    (at ^ (at >> 8) ^ (id.number() * 31) ^ (id.opener() as u64 * 5) ^ (end as u64 * 17)) as u8
}

fn pick<T>(index: Index, list: &[T]) -> Option<usize> {
    index.0.checked_rem(list.len())
}

impl World {
    fn new() -> Self {
        let end = |side| End {
            mux: Mux::new(side, LIMITS, LIMITS).unwrap(),
            streams: Vec::new(),
            records: Vec::new(),
            acks: Vec::new(),
            sent: BTreeSet::new(),
            received: BTreeSet::new(),
            datagrams: 0,
            waits_to_open: false,
        };
        Self { now: Instant::ZERO, ends: [end(Side::Connecting), end(Side::Listening)], reset: BTreeSet::new() }
    }

    fn apply(&mut self, at: usize, op: Op) {
        let (now, end) = (self.now, &mut self.ends[at]);
        match op {
            Op::Open { class } => match end.mux.open(now, class, b"there", None) {
                Ok(id) => end.begin(id),
                Err(_) => end.waits_to_open = true,
            },
            Op::Write { stream, bytes } => {
                if let Some(stream) = pick(stream, &end.streams) {
                    self.write(at, stream, u64::from(bytes));
                }
            }
            Op::Read { stream, bytes } => {
                if let Some(stream) = pick(stream, &end.streams) {
                    self.read(at, stream, usize::from(bytes));
                }
            }
            Op::BeginAs { stream, class, bytes } => {
                if let Some(stream) = pick(stream, &end.streams) {
                    let half = &mut end.streams[stream];
                    if let Err(error) = end.mux.begin_as(half.id, class, bytes.into()) {
                        half.refused(error, &self.reset);
                    }
                }
            }
            Op::Finish(stream) => {
                if let Some(stream) = pick(stream, &end.streams) {
                    self.finish(at, stream);
                }
            }
            Op::Reset(stream) => {
                if let Some(stream) = pick(stream, &end.streams) {
                    self.reset(at, stream);
                }
            }
            Op::Datagram { class, ms } => end.send_datagram(now, at, class, ms),
            Op::Cut { most } => {
                end.cut(now, usize::from(most));
            }
            Op::Ask => end.mux.ask(),
            Op::Sever { heard } => self.sever(heard),
            Op::Advance { ms } => self.now += Span::from_millis(u64::from(ms)),
            of_a_record => self.apply_to_record(at, of_a_record),
        }
        let end = &self.ends[at];
        assert!(end.mux.receive_memory() as u64 <= LIMITS.receive.get());
        assert!(end.mux.una() <= end.mux.blocking() && end.mux.blocking() <= end.mux.next_place());
    }

    fn apply_to_record(&mut self, at: usize, op: Op) {
        let (now, end) = (self.now, &mut self.ends[at]);
        match op {
            Op::Deliver(record) => {
                if let Some(record) = pick(record, &end.records) {
                    self.deliver(at, record);
                }
            }
            Op::Repeat(record) => {
                if let Some(record) = pick(record, &end.records) {
                    end.records.push(end.records[record].clone());
                }
            }
            Op::Lose(record) => {
                if let Some(record) = pick(record, &end.records) {
                    let record = end.records.swap_remove(record);
                    end.lose(now, &record);
                }
            }
            Op::Ack(record) => {
                if let Some(record) = pick(record, &end.acks) {
                    let record = end.acks.swap_remove(record);
                    end.mux.acked(record.place);
                }
            }
            Op::LoseAck(record) => {
                if let Some(record) = pick(record, &end.acks) {
                    let record = end.acks.swap_remove(record);
                    end.lose(now, &record);
                }
            }
            Op::Abandon(record) => {
                if let Some(record) = pick(record, &end.records) {
                    let place = end.records[record].place;
                    end.mux.abandon(now, place);
                }
            }
            other => panic!("{other:?} is of no record"),
        }
    }

    /// The connection is lost with all that is under way, and another one goes on. If the end that connects has not
    /// `heard` that the other one took it over, it tries once more.
    fn sever(&mut self, heard: bool) {
        let now = self.now;
        for end in &mut self.ends {
            end.records.clear();
            end.acks.clear();
        }
        let [here, there] = &mut self.ends;
        if !heard {
            there.mux.resume(now, &here.mux.received()).unwrap();
            // What leaves by it arrives nowhere.
            let _ = there.mux.cut(now, 600);
        }
        let (ours, theirs) = (here.mux.received(), there.mux.received());
        there.mux.resume(now, &ours).unwrap();
        here.mux.resume(now, &theirs).unwrap();
        assert_eq!(here.mux.connection(), there.mux.connection());
    }

    fn write(&mut self, at: usize, stream: usize, bytes: u64) {
        let end = &mut self.ends[at];
        let half = &mut end.streams[stream];
        let bytes: Vec<u8> = (half.written..half.written + bytes).map(|n| byte(half.id, at, n)).collect();
        let all = bytes.len();
        match end.mux.write(self.now, half.id, Bytes::from(bytes)) {
            Ok(count) => {
                half.written += count as u64;
                half.waits_to_write = count < all;
            }
            Err(StreamError::Finished) => assert!(half.finished),
            Err(error) => half.refused(error, &self.reset),
        }
    }

    fn read(&mut self, at: usize, stream: usize, most: usize) -> bool {
        let end = &mut self.ends[at];
        let half = &mut end.streams[stream];
        match end.mux.read(half.id) {
            Ok(Read::Bytes(bytes)) => {
                let count = bytes.len().min(most);
                let expected = (half.read..).map(|n| byte(half.id, 1 - at, n)).take(count);
                assert!(bytes[..count].iter().copied().eq(expected), "{half:?}");
                half.read += count as u64;
                end.mux.took(self.now, half.id, count).unwrap();
                half.waits_to_read = false;
                return count > 0;
            }
            Ok(Read::Wait) => {
                assert!(!half.ended);
                half.waits_to_read = true;
            }
            Ok(Read::End) => (half.ended, half.waits_to_read) = (true, false),
            Err(error) => half.refused(error, &self.reset),
        }
        false
    }

    fn finish(&mut self, at: usize, stream: usize) {
        let end = &mut self.ends[at];
        let half = &mut end.streams[stream];
        match end.mux.finish(half.id) {
            Ok(()) => (half.finished, half.waits_to_write) = (true, false),
            Err(StreamError::Finished) => assert!(half.finished),
            Err(error) => half.refused(error, &self.reset),
        }
    }

    fn reset(&mut self, at: usize, stream: usize) {
        let end = &mut self.ends[at];
        let half = &mut end.streams[stream];
        match end.mux.reset(half.id, 6) {
            Ok(()) => {
                self.reset.insert(half.id);
                (half.reset, half.waits_to_write, half.waits_to_read) = (true, false, false);
            }
            Err(error) => half.refused(error, &self.reset),
        }
    }

    fn deliver(&mut self, from: usize, record: usize) {
        let record = self.ends[from].records.swap_remove(record);
        let end = &mut self.ends[1 - from];
        end.mux.receive(self.now, record.place, &record.payload).unwrap();
        while let Some(accepted) = end.mux.accept() {
            assert_eq!(&accepted.target[..], b"there");
            end.begin(accepted.id);
        }
        while let Some((_, bytes)) = end.mux.next_datagram() {
            let number = u64::from_be_bytes(bytes[..8].try_into().unwrap());
            assert!(end.received.insert(number), "a datagram came twice");
        }
        end.hear();
        // Whoever waits and was not told would find nothing.
        for stream in 0..end.streams.len() {
            if self.ends[1 - from].streams[stream].waits_to_read {
                self.read(1 - from, stream, 1);
                assert!(self.ends[1 - from].streams[stream].waits_to_read, "a reader is not told");
            }
        }
        self.ends[from].acks.push(record);
    }

    /// Everything arrives and is read, until nothing is left to do.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "it comes to an end");
            let mut busy = false;
            for at in 0..2 {
                busy |= self.ends[at].cut(self.now, 1200) || !self.ends[at].records.is_empty();
                while !self.ends[at].records.is_empty() {
                    self.deliver(at, 0);
                }
                let end = &mut self.ends[at];
                busy |= !end.acks.is_empty();
                for record in std::mem::take(&mut end.acks) {
                    end.mux.acked(record.place);
                }
                for stream in 0..self.ends[at].streams.len() {
                    while self.read(at, stream, usize::MAX) {
                        busy = true;
                    }
                }
            }
            self.now += Span::from_millis(5);
            let now = self.now;
            self.ends.iter_mut().for_each(End::hear);
            if !busy && self.ends.iter_mut().all(|end| end.mux.peek(now, 1200).is_none()) {
                return;
            }
        }
    }

    fn check(&self) {
        for (at, end) in self.ends.iter().enumerate() {
            assert_eq!(end.mux.una(), end.mux.next_place());
            assert_eq!((end.mux.send_memory(), end.mux.receive_memory()), (0, 0));
            let other = &self.ends[1 - at];
            assert_eq!(end.mux.arrived(), other.mux.next_place());
            assert!(end.received.is_subset(&other.sent));
            for half in end.streams.iter().filter(|half| !self.reset.contains(&half.id)) {
                assert!(half.finished || !half.waits_to_write, "a writer is not told: {half:?}");
                let there = other.streams.iter().find(|there| there.id == half.id).unwrap();
                assert_eq!((half.read, half.ended), (there.written, there.finished), "{half:?} {there:?}");
            }
        }
    }
}

impl Half {
    /// The stream is over at this end, or the other end has reset it.
    fn refused(&mut self, error: StreamError, reset: &BTreeSet<StreamId>) {
        (self.waits_to_write, self.waits_to_read) = (false, false);
        match error {
            StreamError::Reset(code) => {
                assert!(code == 6 && reset.contains(&self.id) && !self.reset);
                self.reset = true;
            }
            StreamError::NotOpen => assert!(self.reset || self.finished && self.ended, "{self:?}"),
            StreamError::Finished => panic!("finished: {self:?}"),
        }
    }
}

impl End {
    fn begin(&mut self, id: StreamId) {
        self.streams.push(Half {
            id,
            written: 0,
            finished: false,
            read: 0,
            ended: false,
            reset: false,
            waits_to_write: false,
            waits_to_read: false,
        });
    }

    /// Takes note of what it may go on with.
    fn hear(&mut self) {
        while let Some(ready) = self.mux.poll_ready() {
            match ready {
                Ready::Read(id) => self.halves(id).for_each(|half| half.waits_to_read = false),
                Ready::Write(id) => self.halves(id).for_each(|half| half.waits_to_write = false),
                Ready::Open => self.waits_to_open = false,
                Ready::Accept | Ready::Datagram => {}
            }
        }
    }

    fn halves(&mut self, id: StreamId) -> impl Iterator<Item = &mut Half> {
        self.streams.iter_mut().filter(move |half| half.id == id)
    }

    fn send_datagram(&mut self, now: Instant, at: usize, class: u8, ms: u8) {
        let flow = StreamId::new(Side::Connecting, at as u64);
        let bytes = Bytes::copy_from_slice(&[&self.datagrams.to_be_bytes()[..], &[0; 50]].concat());
        let deadline = (ms > 0).then_some(Span::from_millis(u64::from(ms)));
        if self.mux.send_datagram(now, flow, class, deadline, bytes).is_ok() {
            self.sent.insert(self.datagrams);
            self.datagrams += 1;
        }
    }

    fn cut(&mut self, now: Instant, most: usize) -> bool {
        let next = self.mux.peek(now, most);
        let record = self.mux.cut(now, most);
        assert_eq!(next.map(|next| next.bytes), record.as_ref().map(|record| record.payload.len()));
        assert!(record.as_ref().is_none_or(|record| record.payload.len() <= most));
        let cut = record.is_some();
        self.records.extend(record);
        cut
    }

    /// The record is lost, or this end believes so.
    fn lose(&mut self, now: Instant, record: &Record) {
        if self.mux.lost(now, now, record.place) {
            assert_eq!(self.mux.payload(record.place).as_ref(), Some(&record.payload));
            self.records.push(record.clone());
        }
    }
}

/// Histories: `PROPTEST_CASES` asks for so many.
#[test]
fn every_history_ends_well() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let histories = config.cases;
    let (operations, read) = (Cell::new(0), Cell::new(0));
    let outcome = TestRunner::new(config).run(&history(), |history| {
        operations.set(operations.get() + history.len());
        read.set(read.get() + end_well(history));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    println!("{histories} histories, {} operations, {} bytes read", operations.get(), read.get());
}

/// Runs one history to its end; returns the bytes that were read in it.
fn end_well(history: Vec<(usize, Op)>) -> u64 {
    let mut world = World::new();
    for (at, op) in history {
        world.apply(at, op);
    }
    world.settle();
    world.check();
    // All streams are over: nothing of them is left at either end.
    for at in 0..2 {
        for stream in 0..world.ends[at].streams.len() {
            if !world.ends[at].streams[stream].finished {
                world.finish(at, stream);
            }
        }
    }
    world.settle();
    world.check();
    let fresh = Mux::new(Side::Connecting, LIMITS, LIMITS).unwrap();
    for end in &world.ends {
        assert!(!end.waits_to_open, "an opener is not told");
        assert_eq!((end.mux.open_streams(), end.mux.free_memory()), (0, fresh.free_memory()));
    }
    world.ends.iter().flat_map(|end| &end.streams).map(|half| half.read).sum()
}
