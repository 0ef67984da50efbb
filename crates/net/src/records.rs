//! The records of an application whose messages are flows or datagrams: a mux at each end decides whose bytes leave
//! next, puts each stream in order, and drops datagrams whose deadline has passed, the same for the simulator and for
//! QUIC.
//!
//! The bytes of flows are zeros, for nobody looks at them. Of a datagram the first eight say where it begins in all
//! that was written. Both ends take as much as is written: credit, which bounds the memory of a real receiver, holds
//! nothing up here, and what the receiving mux would say is not sent. The connection's own windows hold.

use std::collections::VecDeque;

use bytes::Bytes as Data;
use weftway_mux::{Limits, Mux, Next, Read, Ready, Record, Side, StreamId, leave_within};
use weftway_path::{Bytes, Instant, Message, Offset, Path, Span};
use weftway_scenario::App;
use weftway_scenario::config::{SimConfig, Workload};

/// Bytes that are written at a time, as often as a flow needs it.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// As much as no flow, and no number of flows that a scenario may have, needs.
const ENOUGH: Bytes = Bytes::new(1 << 60);
const FIRST_CREDIT: Bytes = Bytes::new(1 << 40);

/// Stream that all datagrams belong to.
const FLOW: StreamId = StreamId::CONTROL;
/// Their class: as `weft pipe` has it.
const CLASS: u8 = 1;

/// The records of a run, at both ends.
#[derive(Clone, Debug)]
pub struct Records {
    sending: Mux,
    receiving: Mux,
    /// Place where each flow begins in all that was written, by the number of its stream.
    starts: Vec<u64>,
    /// Time for which a datagram is of use; none of flows.
    deadline: Option<Span>,
    /// Records of datagrams that may be under way, oldest first.
    cut: VecDeque<Record>,
    /// End of the application's data that were taken up already.
    written: u64,
    /// The payload of a full record.
    most: usize,
    now: Instant,
    /// Time that a datagram takes to the other end: the least that is possible, and as things are now.
    way: [Span; 2],
}

impl Records {
    /// Records of a run of `config`, if its application has any.
    pub fn of(config: &SimConfig) -> Option<Box<Self>> {
        let (count, deadline) = match config.workload {
            Workload::Flows { count, .. } => (count, None),
            Workload::Datagrams { deadline, .. } => (1, Some(deadline)),
            _ => return None,
        };
        let limits = Limits { receive: ENOUGH, send: ENOUGH, streams: count, first_credit: FIRST_CREDIT };
        let end = |side| Mux::new(side, limits, limits).ok();
        Some(Box::new(Self {
            sending: end(Side::Connecting)?,
            receiving: end(Side::Listening)?,
            starts: Vec::new(),
            deadline,
            cut: VecDeque::new(),
            written: 0,
            most: config.transport.mss.get() as usize,
            now: Instant::ZERO,
            way: [Span::ZERO; 2],
        }))
    }

    /// Sets the time and the usable paths: what a path's queue adds to its round trip is taken to be on the way there.
    pub fn set_now<'a>(&mut self, now: Instant, paths: impl Iterator<Item = &'a Path> + Clone) {
        self.now = now;
        if self.deadline.is_some() {
            let least = paths.clone().map(|path| path.min_rtt / 2).min();
            let usual = paths.map(|path| path.srtt.saturating_sub(path.min_rtt / 2)).min();
            self.way = [least, usual].map(Option::unwrap_or_default);
        }
    }

    /// Takes up what `app` has written since the last time: opens a stream for each flow, or sends datagrams.
    pub fn take_written(&mut self, now: Instant, app: &App) {
        self.now = now;
        for message in app.flows_from(self.written) {
            let bytes = message.end - message.start;
            if self.deadline.is_some() {
                self.send(message, bytes);
                continue;
            }
            let Ok(id) = self.sending.open(now, message.class, b"", None) else { break };
            self.starts.push(message.start);
            self.write(id, bytes);
        }
        self.written = app.written();
    }

    fn send(&mut self, message: &Message, bytes: u64) {
        let mut payload = message.start.to_be_bytes().to_vec();
        payload.resize(bytes as usize, 0);
        let arrive = message.deadline.map(|deadline| deadline.since(self.now));
        let leave = arrive.map(|within| leave_within(within, self.way));
        let sent = self.sending.send_datagram_within(self.now, FLOW, CLASS, leave, arrive, payload.into());
        debug_assert!(sent.is_ok(), "a mux takes each datagram: {sent:?}");
    }

    fn write(&mut self, id: StreamId, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let part = Data::from_static(&ZEROS[..left.min(ZEROS.len() as u64) as usize]);
            let Ok(count @ 1..) = self.sending.write(self.now, id, part) else { break };
            left -= count as u64;
        }
        debug_assert_eq!(left, 0, "a stream takes all of its flow");
        let _ = self.sending.finish(id);
    }

    /// The record that would be cut now.
    fn next(&mut self) -> Option<Next> {
        self.sending.peek(self.now, self.most)
    }

    /// End of what was cut, and of what would be cut of all that waits: at least the next record.
    pub fn written(&mut self) -> u64 {
        let next = self.next().map_or(0, |next| (next.bytes as u64).max(self.sending.unsent().get()));
        self.sending.next_place().get() + next
    }

    /// Message that the next record begins with.
    pub fn message(&mut self) -> Option<Message> {
        self.next()?.message
    }

    /// Number of bytes that the next record has; 0 if there is none.
    pub fn next_record(&mut self) -> u64 {
        self.next().map_or(0, |next| next.bytes as u64)
    }

    /// The next record is cut: it begins at `at`, and has as many bytes as was told.
    pub fn cut(&mut self, at: Offset, bytes: u64) {
        let record = self.sending.cut(self.now, bytes as usize);
        let cut = record.as_ref().map(|record| (record.place, record.payload.len() as u64));
        debug_assert_eq!(cut, Some((at, bytes)), "a record is cut as it was told");
        if let (Some(deadline), Some(record)) = (self.deadline, record) {
            while self.cut.front().is_some_and(|first| first.datagrams_until + deadline <= self.now) {
                self.cut.pop_front();
            }
            self.cut.push_back(record);
        }
    }

    /// Record of datagrams at `at`, until long after its deadline.
    fn find(&self, at: Offset) -> Option<&Record> {
        self.cut.binary_search_by_key(&at, |cut| cut.place).ok().and_then(|index| self.cut.get(index))
    }

    /// Returns true if the record at `at`, which is lost, is of use at `soonest`. If not, the other end learns that it
    /// does not come. The sending end does not know it to have arrived, if it has.
    pub fn is_wanted(&mut self, at: Offset, soonest: Instant) -> bool {
        if self.deadline.is_none() {
            return true;
        }
        match self.sending.payload(at) {
            Some(_) => self.sending.lost(self.now, soonest, at),
            None => self.find(at).is_some_and(|cut| cut.datagrams_until > soonest),
        }
    }

    /// The record at `at`, until the sending end knows that it has arrived; of datagrams for longer.
    pub fn record(&self, at: Offset) -> Option<Data> {
        self.sending.payload(at).or_else(|| self.find(at).map(|cut| cut.payload.clone()))
    }

    /// The sending end knows that the record at `at` has arrived. May be told more than once.
    pub fn acked(&mut self, at: Offset) {
        self.sending.acked(at);
    }

    /// Place before which everything has arrived or never will; none of streams.
    pub fn arrived(&self) -> Option<Offset> {
        self.deadline.map(|_| self.receiving.arrived())
    }

    /// The record at `at` arrives, perhaps not for the first time: `app` learns which flows are whole, and which
    /// datagrams have come.
    pub fn arrive(&mut self, now: Instant, at: Offset, record: &[u8], app: &mut App) {
        let taken = self.receiving.receive(now, at, record);
        debug_assert!(taken.is_ok(), "a mux understands another one: {taken:?}");
        while let Some(ready) = self.receiving.poll_ready() {
            match ready {
                Ready::Accept => {
                    while let Some(accepted) = self.receiving.accept() {
                        self.read(now, accepted.id, app);
                    }
                }
                Ready::Read(id) => self.read(now, id, app),
                Ready::Datagram => {
                    while let Some((_, datagram)) = self.receiving.next_datagram() {
                        if let Some(start) = datagram.first_chunk() {
                            app.flow_arrived(now, u64::from_be_bytes(*start));
                        }
                    }
                }
                Ready::Open | Ready::Write(_) => {}
            }
        }
    }

    /// Reads all that is there of a stream.
    fn read(&mut self, now: Instant, id: StreamId, app: &mut App) {
        loop {
            match self.receiving.read(id) {
                Ok(Read::Bytes(bytes)) => {
                    let count = bytes.len();
                    let _ = self.receiving.took(now, id, count);
                }
                Ok(Read::End) => {
                    if let Some(&start) = self.starts.get(id.number() as usize) {
                        app.flow_arrived(now, start);
                    }
                    return;
                }
                Ok(Read::Wait) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::Span;
    use weftway_scenario::config::{FlowClass, FlowKind, TransportConfig};

    use super::*;

    /// Records that are cut for the two ends: 1200 B each, with the class of what they begin with.
    fn records(flows: &mut Records) -> Vec<(Offset, u8)> {
        let mut cut = Vec::new();
        while let Some(message) = flows.message() {
            let (at, bytes) = (flows.sending.next_place(), flows.next_record());
            assert!((1..=1200).contains(&bytes) && flows.written() >= at.get() + bytes);
            flows.cut(at, bytes);
            cut.push((at, message.class));
        }
        cut
    }

    /// Flows of 5000 B, as many as come by then. Those of class 1 leave before those of class 2. A flow is whole when
    /// its last piece is there, be it the first that was cut, and however often a record comes.
    #[test]
    fn urgent_flows_leave_first_and_each_is_whole_by_itself() {
        let kind = |class| FlowKind { class, weight: 1, median: Bytes::new(5_000), sigma: 0.0 };
        let kinds = vec![kind(FlowClass::Interactive), kind(FlowClass::Bulk)];
        let workload = Workload::Flows { mean_gap: Span::from_millis(1), count: 6, kinds };
        let config = SimConfig { workload, ..SimConfig::new(TransportConfig::mpquic(), Vec::new(), Bytes::ZERO) };
        let mut app = App::of(&config.workload, 2);
        let mut flows = Records::of(&config).unwrap();
        let later = Instant::from_millis(1_000);
        app.start(Instant::ZERO);
        app.run(later);
        flows.take_written(later, &app);
        flows.take_written(later, &app);
        let classes: Vec<u8> = app.flows_from(0).map(|flow| flow.class).collect();
        let urgent = classes.iter().filter(|&&class| class == 1).count();
        assert!((1..6).contains(&urgent), "both classes: {classes:?}");
        let cut = records(&mut flows);
        // 30 kB fill 25 records; heads take one more.
        assert_eq!(cut.len(), 26);
        assert!(cut.is_sorted_by_key(|(_, class)| class), "{cut:?}");
        assert_eq!(flows.written(), flows.sending.next_place().get());
        // In the order opposite to that of the cuts, each record twice: flows of bulk are whole first.
        for (at, _) in cut.iter().rev() {
            let record = flows.record(*at).unwrap();
            for _ in 0..2 {
                flows.arrive(later, *at, &record, &mut app);
            }
            flows.acked(*at);
            assert_eq!(flows.record(*at), None);
        }
        assert!(app.is_done(later, 0));
        assert_eq!(app.classes, [vec![2; 6 - urgent], vec![1; urgent]].concat());
    }

    /// A scenario says how long a datagram may be that one packet holds.
    #[test]
    fn the_head_of_a_datagram_is_as_scenarios_have_it() {
        assert_eq!(weftway_mux::frame::datagram_head(FLOW) as u64, weftway_scenario::DATAGRAM_HEAD.get());
    }

    #[test]
    fn other_workloads_have_no_records() {
        assert!(Records::of(&SimConfig::new(TransportConfig::mpquic(), Vec::new(), Bytes::new(1))).is_none());
    }
}
