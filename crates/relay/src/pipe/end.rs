//! An end of a pipe, without sockets: what becomes of datagrams that come here, and of those of the other end.

use std::collections::VecDeque;

use bytes::Bytes;
use weftway_mux::frame::datagram_head;
use weftway_mux::{Mux, Read, StreamError, StreamId, leave_within};
use weftway_path::{Instant, Offset, Span};

use crate::classes::Class;
use crate::datagram::Sent;
use crate::dscp::Dscp;
use crate::limits::MOST_SOURCES;
use crate::pieces::Pieces;
use crate::pipe::clock::Clock;
use crate::pipe::head::{Head, clock_of, stamp};
use crate::pipe::hold::{Hold, NEVER};
use crate::pipe::tally::{Arriving, Coming, Ledger};
use crate::pipe::words::{BadWord, Word, Words};
use crate::target::Order;
use crate::view::{WayCounts, WayView};

/// The scheduler decides on which link a datagram goes; those of [`Class::Realtime`] take the fastest one, whatever it
/// says.
pub const CLASS: Class = Class::Interactive;
/// Time for which noq looks for a new length after packets were found to hold more or less: up to three questions for
/// each length, a few round trips each. Datagrams that no packet holds meanwhile travel in pieces.
const SEARCH: Span = Span::from_secs(10);
/// The first questions for the other end's clock come sooner one after the other.
const FIRST_PINGS: u32 = 10;
const FIRST_INTERVAL: Span = Span::from_millis(100);
const INTERVAL: Span = Span::from_secs(1);
/// Time between two answers to the other end's questions, at least. Those that come together were held up, and tell
/// little.
const ANSWER_EVERY: Span = Span::from_millis(10);
/// Bytes that wait for an end that does not read: further lines are left out.
const MOST_UNTOLD: usize = 64 << 10;

/// A datagram that has overtaken others waits for them for this part of the latency at most.
const PATIENCE: u64 = 2;
/// It no longer waits when this part of its time is left.
const MARGIN: u64 = 8;

/// Why a pipe's stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The other end has reset it, with this code.
    Reset(u32),
    /// The other end has ended it, or says what makes no sense.
    Broken,
}

/// Settings of an end.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Time after its arrival at one end within which a datagram is of use at the other.
    pub latency: Span,
    /// Order in which datagrams of the other end are given.
    pub order: Order,
    /// Datagrams that no packet holds travel in pieces.
    pub may_cut: bool,
}

/// A datagram for this end's sockets: its source and its data.
pub type Given = (u16, Bytes);

/// An end of a pipe.
#[derive(Debug)]
pub struct End {
    id: StreamId,
    setting: Setting,
    pieces: Pieces,
    /// Bytes of a full record, and when that was another number last.
    record: (usize, Instant),
    /// Bytes of the longest full record so far. What has fitted it travels in pieces while records are shorter: a link
    /// that loses much for a moment is taken for one that holds less.
    longest_record: usize,
    clock: Clock,
    hold: Hold,
    coming: Coming,
    /// No datagram has the stamp of the one before, so that the other end knows their order.
    next_stamp: u64,
    arriving: Arriving,
    /// Datagrams that come here, and those that come at the other end.
    ledgers: [Ledger; 2],
    words: Words,
    /// Bytes that the stream has not taken yet.
    outgoing: Vec<u8>,
    pings: u32,
    ping_at: Instant,
    answer_at: Instant,
    /// Datagrams of the other end that made no sense.
    malformed: u64,
    /// Marks of the other end's sources that are new.
    marks: VecDeque<(u16, Dscp)>,
}

impl End {
    /// An end on stream `id`, which says `first` and then what its clock shows.
    pub fn new(now: Instant, id: StreamId, setting: Setting, first: &[u8]) -> Self {
        let mut outgoing = first.to_vec();
        Word::Clock(now.as_micros()).put(&mut outgoing);
        Self {
            id,
            setting,
            pieces: Pieces::default(),
            record: (0, now),
            longest_record: 0,
            clock: Clock::default(),
            hold: Hold::default(),
            coming: Coming::default(),
            next_stamp: 0,
            arriving: Arriving::new(setting.latency.as_micros()),
            ledgers: Default::default(),
            words: Words::default(),
            outgoing,
            pings: 0,
            ping_at: now,
            answer_at: now,
            malformed: 0,
            marks: VecDeque::new(),
        }
    }

    /// The stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Number of datagrams of the other end that made no sense.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Datagrams that come here, and those that come at the other end, for the user.
    pub fn ways(&self, now: Instant) -> [WayView; 2] {
        let (latency, theirs) = (self.setting.latency.as_micros(), self.clock.theirs(now).unwrap_or(0));
        [self.ledgers[0].view(now.as_micros(), latency), self.ledgers[1].view(theirs, latency)]
    }

    /// Ends the pipe. Returns how many datagrams there were of each way. Those that came here and of which the other end
    /// has not told yet count as lost.
    pub fn over(mut self) -> [WayCounts; 2] {
        if let Some(rest) = self.coming.rest() {
            self.ledgers[0].came(rest);
        }
        while let Some(became) = self.arriving.over(u64::MAX) {
            self.ledgers[1].became(&became);
        }
        self.ledgers.map(Ledger::over)
    }

    /// Instant of the next turn, whatever comes before.
    pub fn next_event(&self) -> Instant {
        if self.hold.is_full() {
            return Instant::ZERO;
        }
        let own = |theirs: Option<u64>| theirs.and_then(|theirs| self.clock.own(theirs)).unwrap_or(Instant::NEVER);
        let held = own(self.hold.due());
        let over = self.coming.next().map_or(Instant::NEVER, |us| Instant::from_nanos(us.saturating_mul(1000)));
        self.ping_at.min(held).min(over).min(own(self.arriving.next()))
    }

    /// Sends a datagram of `source` that came so long ago.
    pub fn send(&mut self, now: Instant, waited: Span, mux: &mut Mux, source: u16, data: &[u8]) -> Sent {
        let came = now.as_micros().saturating_sub(waited.as_micros());
        let came = came.max(self.next_stamp).max(self.coming.begins());
        self.next_stamp = came + 1;
        if let Some(over) = self.coming.count(came, data.len()) {
            self.ledgers[0].came(over);
            self.tell(&Word::Came(over));
        }
        let bytes = Head::Data { stamp: stamp(came), source, data }.written();
        let record = mux.record();
        if record != self.record.0 {
            self.record = (record, now);
            self.longest_record = self.longest_record.max(record);
        }
        let needed = bytes.len() + datagram_head(self.id);
        let is_searching = now.since(self.record.1) < SEARCH;
        let may_cut = self.setting.may_cut || is_searching || needed <= self.longest_record;
        if needed > record && !may_cut {
            return Sent::TooLong;
        }
        // It has waited for a part of its time already.
        let latency = self.setting.latency;
        let way = self.clock.round_trips().map_or([Span::ZERO; 2], |trips| trips.map(|trip| trip / 2));
        let times = [leave_within(latency, way), latency].map(|time| time.saturating_sub(waited));
        self.pieces.send_within(now, mux, (self.id, record), (CLASS, times), bytes)
    }

    /// Takes a datagram of the other end, which came in the record at `place`: returns it if it is to be given now, before
    /// those that are held.
    pub fn take(&mut self, now: Instant, mux: &mut Mux, place: Offset, bytes: Bytes) -> Option<Given> {
        let bytes = self.pieces.take(bytes)?;
        match Head::read(&bytes) {
            Some(Head::Data { stamp, source, data }) => {
                let data = bytes.slice_ref(data);
                // Without a clock nothing is late; it counts as lost, for nobody knows its second.
                let Some(theirs) = self.clock.theirs(now) else { return Some((source, data)) };
                // One that says it came later than now is held for twice the latency at most: clocks are wrong by less.
                let latest = theirs.saturating_add(self.setting.latency.as_micros());
                let came = clock_of(stamp, theirs).min(latest);
                let delay = theirs.saturating_sub(came);
                self.arriving.count(came, delay);
                if delay > self.setting.latency.as_micros() {
                    return None;
                }
                let latency = self.setting.latency.as_micros();
                let is_next = place < mux.arrived() && self.hold.is_empty();
                let last = (came + latency).saturating_sub(latency / MARGIN);
                let wait = match self.setting.order {
                    Order::Always => (came + latency, NEVER),
                    Order::Mostly if !is_next && theirs < last => ((theirs + latency / PATIENCE).min(last), place),
                    Order::Mostly | Order::Any => return Some((source, data)),
                };
                self.hold.push(came, wait, source, data);
                None
            }
            Some(Head::Ping(clock)) => {
                if now >= self.answer_at {
                    self.answer_at = now + ANSWER_EVERY;
                    self.put(now, mux, Head::Pong(clock, now.as_micros()));
                }
                None
            }
            Some(Head::Pong(asked, clock)) => {
                self.clock.answered(now, asked, clock);
                None
            }
            None => {
                self.malformed += 1;
                None
            }
        }
    }

    /// The next datagram that was held until now.
    pub fn held(&mut self, now: Instant, mux: &Mux) -> Option<Given> {
        let theirs = self.clock.theirs(now)?;
        self.hold.pop(theirs, mux.arrived())
    }

    /// Sends a question or an answer, if there is room.
    fn put(&self, now: Instant, mux: &mut Mux, head: Head<'_>) {
        // Another one follows.
        let _ = mux.send_datagram(now, self.id, CLASS.number(), Some(INTERVAL), head.written().into());
    }

    /// Tells the other end that datagrams of a source are marked so.
    pub fn mark(&mut self, source: u16, mark: Dscp) {
        self.tell(&Word::Mark(source, mark.number()));
    }

    /// The next source of the other end whose datagrams are marked anew, and how.
    pub fn next_mark(&mut self) -> Option<(u16, Dscp)> {
        self.marks.pop_front()
    }

    fn tell(&mut self, word: &Word) {
        if self.outgoing.len() < MOST_UNTOLD {
            word.put(&mut self.outgoing);
        }
    }

    /// Tells the other end what there is to tell, and hears what it tells.
    pub fn turn(&mut self, now: Instant, mux: &mut Mux) -> Result<(), Ended> {
        loop {
            let count = match mux.read(self.id) {
                Ok(Read::Wait) => break,
                Ok(Read::Bytes(bytes)) => {
                    self.words.push(bytes);
                    bytes.len()
                }
                Ok(Read::End) => return Err(Ended::Broken),
                Err(StreamError::Reset(code)) => return Err(Ended::Reset(code)),
                Err(StreamError::NotOpen | StreamError::Finished) => return Err(Ended::Broken),
            };
            mux.took(now, self.id, count).map_err(|_| Ended::Broken)?;
            while let Some(word) = self.words.next().map_err(|BadWord| Ended::Broken)? {
                self.hear(now, word);
            }
        }
        if let Some(over) = self.coming.over(now.as_micros()) {
            self.ledgers[0].came(over);
            self.tell(&Word::Came(over));
        }
        while let Some(became) = self.clock.theirs(now).and_then(|theirs| self.arriving.over(theirs)) {
            self.ledgers[1].became(&became);
            self.tell(&Word::Became(became));
        }
        if now >= self.ping_at {
            self.put(now, mux, Head::Ping(now.as_micros()));
            self.pings = self.pings.saturating_add(1);
            self.ping_at = now + if self.pings < FIRST_PINGS { FIRST_INTERVAL } else { INTERVAL };
        }
        self.flush(now, mux)
    }

    /// Gives the stream what this end tells.
    pub fn flush(&mut self, now: Instant, mux: &mut Mux) -> Result<(), Ended> {
        if !self.outgoing.is_empty() {
            let waiting = Bytes::copy_from_slice(&self.outgoing);
            let taken = mux.write(now, self.id, waiting).map_err(|_| Ended::Broken)?;
            self.outgoing.drain(..taken);
        }
        Ok(())
    }

    fn hear(&mut self, now: Instant, word: Word) {
        match word {
            Word::Clock(theirs) => self.clock.hello(now, theirs),
            Word::Came(came) => {
                self.ledgers[1].came(came);
                self.arriving.asked(came.second);
            }
            Word::Became(became) => self.ledgers[0].became(&became),
            Word::Mark(source, number) => {
                if let Some(mark) = Dscp::of_number(number).filter(|_| self.marks.len() < MOST_SOURCES) {
                    self.marks.push_back((source, mark));
                }
            }
        }
    }
}

/// Datagrams and lines of the other end, for the fuzzer: the first byte of each says how long it is, its highest bit that
/// it is a datagram.
pub fn fuzz(bytes: &[u8]) {
    use weftway_mux::{Limits, Side};

    let Ok(mut mux) = Mux::new(Side::Connecting, Limits::default(), Limits::default()) else { return };
    let Ok(id) = mux.open(Instant::ZERO, CLASS.number(), b"", None) else { return };
    let order = [Order::Always, Order::Mostly, Order::Any][bytes.len() % 3];
    let setting = Setting { latency: Span::from_millis(200), order, may_cut: true };
    let (mut end, mut rest, mut now) = (End::new(Instant::ZERO, id, setting, b""), bytes, Instant::ZERO);
    while let Some((first, behind)) = rest.split_first() {
        let (one, behind) = behind.split_at(usize::from(first & 0x7f).min(behind.len()));
        now += Span::from_millis(one.len() as u64 * 7);
        if first & 0x80 > 0 {
            end.take(now, &mut mux, Offset::new(one.len() as u64), Bytes::copy_from_slice(one));
        } else {
            end.words.push(one);
            while let Ok(Some(word)) = end.words.next() {
                end.hear(now, word);
            }
        }
        if end.turn(now, &mut mux).is_err() {
            return;
        }
        while end.held(now, &mux).is_some() {}
        let _ = (end.next_event(), end.ways(now));
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use weftway_mux::{Limits, Side};

    use super::*;

    fn end(order: Order) -> (Mux, End) {
        let mut mux = Mux::new(Side::Connecting, Limits::default(), Limits::default()).unwrap();
        let id = mux.open(Instant::ZERO, CLASS.number(), b"", None).unwrap();
        let setting = Setting { latency: Span::from_millis(200), order, may_cut: false };
        (mux, End::new(Instant::ZERO, id, setting, b""))
    }

    #[test]
    fn a_flood_of_questions_gets_few_answers() {
        let (mut mux, mut end) = end(Order::Mostly);
        for _ in 0..10_000 {
            end.take(Instant::from_millis(5), &mut mux, Offset::ZERO, Head::Ping(7).written().into());
        }
        assert_eq!(mux.unsent_datagrams().get(), 17);
        end.take(Instant::from_millis(15), &mut mux, Offset::ZERO, Head::Ping(7).written().into());
        assert_eq!(mux.unsent_datagrams().get(), 34);
    }

    /// The other end takes no byte of the stream for many hours: lines for it are left out.
    #[test]
    fn lines_for_an_end_that_never_reads_are_bounded() {
        let (mut mux, mut end) = end(Order::Mostly);
        let mut most = 0;
        for second in 0..30_000 {
            let now = Instant::from_millis(1000 * second);
            end.send(now, Span::ZERO, &mut mux, 0, b"data");
            end.turn(now, &mut mux).unwrap();
            most = most.max(end.outgoing.len());
        }
        assert!((MOST_UNTOLD..MOST_UNTOLD + 200).contains(&most), "{most}");
    }

    /// The other end says of one that it came a minute from now.
    #[test]
    fn none_is_held_for_more_than_twice_its_latency() {
        let (mut mux, mut end) = end(Order::Always);
        let at = Instant::from_millis;
        end.hear(at(1000), Word::Clock(5_000_000));
        let ahead = Head::Data { stamp: stamp(65_000_000), source: 3, data: b"ahead" };
        assert_eq!(end.take(at(1000), &mut mux, Offset::ZERO, ahead.written().into()), None);
        assert_eq!((end.held(at(1399), &mux), end.next_event()), (None, Instant::ZERO));
        assert_eq!(end.held(at(1400), &mux), Some((3, Bytes::from_static(b"ahead"))));
    }

    /// Times and numbers of the datagrams that an end gives, of those that the other one has sent, by the times and the
    /// numbers of those that come.
    fn given(order: Order, came: &[(u64, usize)]) -> Vec<(u64, u8)> {
        let at = Instant::from_millis;
        let (mut far, mut other) = end(Order::Mostly);
        let mut records = Vec::new();
        for number in 0..4 {
            assert_eq!(other.send(at(0), Span::ZERO, &mut far, 0, &[number]), Sent::Yes);
            records.push(far.cut(at(0), 1000).unwrap());
        }
        let mut mux = Mux::new(Side::Listening, Limits::default(), Limits::default()).unwrap();
        let mut here = End::new(at(0), other.id, Setting { order, ..other.setting }, b"");
        here.hear(at(0), Word::Clock(0));
        let mut given = Vec::new();
        for ms in 0..250 {
            for &(_, number) in came.iter().filter(|(when, _)| *when == ms) {
                mux.receive(at(ms), records[number].place, &records[number].payload).unwrap();
            }
            while let Some((place, _, bytes)) = mux.next_datagram_at() {
                given.extend(here.take(at(ms), &mut mux, place, bytes).map(|(_, data)| (ms, data[0])));
            }
            given.extend(std::iter::from_fn(|| here.held(at(ms), &mux)).map(|(_, data)| (ms, data[0])));
        }
        given
    }

    #[test]
    fn what_overtook_others_waits_for_them() {
        let came = [(30, 2), (31, 1), (60, 0), (61, 3)];
        assert_eq!(given(Order::Mostly, &came), [(60, 0), (60, 1), (60, 2), (61, 3)]);
        assert_eq!(given(Order::Any, &came), [(30, 2), (31, 1), (60, 0), (61, 3)]);
        assert_eq!(given(Order::Always, &came), [(200, 0), (201, 1), (201, 2), (201, 3)]);
        // For half of the latency; and never when less than an eighth of its time is left.
        assert_eq!(given(Order::Mostly, &[(30, 1), (131, 0)]), [(130, 1), (131, 0)]);
        assert_eq!(given(Order::Mostly, &[(80, 1), (174, 3), (180, 0)]), [(176, 1), (176, 3), (180, 0)]);
        assert_eq!(given(Order::Mostly, &[(176, 1), (180, 0)]), [(176, 1), (180, 0)]);
    }

    /// The other end has run for less than the latency, and more has come than may be held.
    #[test]
    fn what_is_too_much_to_hold_is_given_however_young_the_other_end_is() {
        let (mut mux, mut end) = end(Order::Always);
        end.setting.latency = Span::from_secs(10);
        end.hear(Instant::from_millis(1), Word::Clock(1));
        let mut stamps = 0..;
        while !end.hold.is_full() {
            let stamp = stamp(stamps.next().unwrap_or_default());
            end.take(
                Instant::from_millis(2),
                &mut mux,
                Offset::ZERO,
                Head::Data { stamp, source: 3, data: &[0; 1000] }.written().into(),
            );
        }
        assert_eq!(end.next_event(), Instant::ZERO);
        assert!(end.held(Instant::from_millis(2), &mux).is_some() && !end.hold.is_full());
    }

    /// A link that loses half of its packets for a while is taken for one whose packets hold less, for longer than one
    /// searches: what has gone in one packet goes in pieces meanwhile. What never fitted is dropped.
    #[test]
    fn what_has_fitted_once_is_not_dropped() {
        let (mut mux, mut end) = end(Order::Mostly);
        let at = Instant::from_millis;
        let mut send = |mux: &mut Mux, ms, bytes: usize| end.send(at(ms), Span::ZERO, mux, 0, &vec![0; bytes]);
        mux.set_record(1400);
        assert_eq!(send(&mut mux, 0, 1316), Sent::Yes);
        mux.set_record(1150);
        assert_eq!(send(&mut mux, 1000, 1316), Sent::Yes);
        assert_eq!([1316, 1500].map(|bytes| send(&mut mux, 60_000, bytes)), [Sent::Yes, Sent::TooLong]);
    }

    /// One pipe has ten times as much as its connection carries, the other a datagram now and then.
    #[test]
    fn a_pipe_that_floods_takes_nothing_from_another() {
        let (mut mux, mut flood) = end(Order::Mostly);
        let id = mux.open(Instant::ZERO, CLASS.number(), b"", None).unwrap();
        let mut voice = End::new(Instant::ZERO, id, flood.setting, b"");
        let (mut cut, mut lost) = (Vec::new(), 0);
        for ms in 0..1000 {
            let now = Instant::from_millis(ms);
            (0..20).for_each(|_| lost += u64::from(flood.send(now, Span::ZERO, &mut mux, 0, &[0; 1000]) != Sent::Yes));
            if ms % 20 == 0 {
                assert_eq!(voice.send(now, Span::ZERO, &mut mux, 0, b"voice"), Sent::Yes, "at {ms} ms");
            }
            for _ in 0..2 {
                cut.push((ms, mux.cut(now, 1100).unwrap()));
            }
        }
        assert!(lost > 10_000, "{lost}");
        let voices = cut.iter().filter(|(_, record)| record.payload.windows(5).any(|part| part == b"voice"));
        assert_eq!(voices.clone().count(), 50);
        assert!(voices.map(|(ms, _)| ms % 20).max() <= Some(1), "each waits for one of the other pipe");
    }

    /// A question and its answer take 60 ms, one way 30: what leaves 170 ms after it came arrives in time.
    #[test]
    fn what_cannot_arrive_in_time_is_not_sent() {
        let (mut mux, mut end) = end(Order::Mostly);
        let at = Instant::from_millis;
        end.take(at(1060), &mut mux, Offset::ZERO, Head::Pong(1_000_000, 7_000_000).written().into());
        for number in 0..2 {
            assert_eq!(end.send(at(1060 + number), Span::ZERO, &mut mux, 0, b"data"), Sent::Yes);
        }
        assert!(mux.cut(at(1230), 1000).is_some_and(|record| !record.payload.is_empty()));
        assert_eq!(mux.counts().datagrams_expired, 1);
        assert_eq!(mux.unsent_datagrams().get(), 0);
        // One that waited 160 ms before has 10 left.
        assert_eq!(end.send(at(2000), Span::from_millis(160), &mut mux, 0, b"data"), Sent::Yes);
        assert_eq!((mux.peek_urgent(at(2009), 1000), mux.unsent_datagrams().get()), (0, 9));
        assert_eq!((mux.peek_urgent(at(2010), 1000), mux.unsent_datagrams().get()), (0, 0));
        // A queue under way has made it 300 ms: what has waited for half of the latency is left out.
        for second in 2..7 {
            let answer = Head::Pong(second * 1_000_000, second * 1_000_000 + 6_150_000);
            end.take(at(second * 1000 + 300), &mut mux, Offset::ZERO, answer.written().into());
        }
        assert_eq!(end.send(at(6300), Span::ZERO, &mut mux, 0, b"data"), Sent::Yes);
        assert_eq!((mux.peek_urgent(at(6399), 1000), mux.unsent_datagrams().get()), (0, 9));
        assert_eq!((mux.peek_urgent(at(6400), 1000), mux.unsent_datagrams().get()), (0, 0));
    }
}
