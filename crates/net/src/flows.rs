//! The streams of an application whose messages are flows: a mux at each end decides whose bytes leave next and puts
//! each stream in order, the same for the simulator and for QUIC.
//!
//! The bytes of flows are zeros, for nobody looks at them. Both ends take as much as is written: credit, which bounds
//! the memory of a real receiver, holds nothing up here, and what the receiving mux would say is not sent. The
//! connection's own windows hold.

use bytes::Bytes as Data;
use weftway_mux::{Limits, Mux, Next, Read, Ready, Side, StreamId};
use weftway_path::{Bytes, Instant, Message, Offset};
use weftway_scenario::App;
use weftway_scenario::config::{SimConfig, Workload};

/// Bytes that are written at a time, as often as a flow needs it.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// As much as no flow, and no number of flows that a scenario may have, needs.
const ENOUGH: Bytes = Bytes::new(1 << 60);
const FIRST_CREDIT: Bytes = Bytes::new(1 << 40);

/// The streams of a run, at both ends.
#[derive(Clone, Debug)]
pub struct Flows {
    sending: Mux,
    receiving: Mux,
    /// Start of each flow in all that was written, by the number of its stream.
    starts: Vec<u64>,
    /// Offset up to which the application's data are in streams.
    written: u64,
    /// The payload of a full record.
    most: usize,
    now: Instant,
}

impl Flows {
    /// The streams of a run of `config`, if its application opens any.
    pub fn of(config: &SimConfig) -> Option<Box<Self>> {
        let Workload::Flows { count, .. } = config.workload else { return None };
        let limits = Limits { receive: ENOUGH, send: ENOUGH, streams: count, first_credit: FIRST_CREDIT };
        let end = |side| Mux::new(side, limits, limits).ok();
        Some(Box::new(Self {
            sending: end(Side::Connecting)?,
            receiving: end(Side::Listening)?,
            starts: Vec::new(),
            written: 0,
            most: config.transport.mss.get() as usize,
            now: Instant::ZERO,
        }))
    }

    /// Opens a stream for each flow that `app` has written since the last time.
    pub fn open(&mut self, now: Instant, app: &App) {
        self.now = now;
        for flow in app.flows_from(self.written) {
            let Ok(id) = self.sending.open(now, flow.class, b"", None) else { break };
            self.starts.push(flow.start);
            self.write(id, flow.end - flow.start);
        }
        self.written = app.written();
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

    /// End of the bytes that were cut, and of those that would be cut of all that waits: at least the next record.
    pub fn written(&mut self) -> u64 {
        let next = self.next().map_or(0, |next| next.bytes as u64);
        self.sending.next_place().get() + next.max(self.sending.unsent().get())
    }

    /// Message that the next record begins with.
    pub fn message(&mut self) -> Option<Message> {
        self.next()?.message
    }

    /// Bytes of the next record; 0 if there is none.
    pub fn next_record(&mut self) -> u64 {
        self.next().map_or(0, |next| next.bytes as u64)
    }

    /// The next record is cut: it begins at `at`, and has as many bytes as was told.
    pub fn cut(&mut self, at: Offset, bytes: u64) {
        let record = self.sending.cut(self.now, bytes as usize);
        let cut = record.map(|record| (record.place, record.payload.len() as u64));
        debug_assert_eq!(cut, Some((at, bytes)), "a record is cut as it was told");
    }

    /// The record at `at`, until the sending end knows that it has arrived.
    pub fn record(&self, at: Offset) -> Option<Data> {
        self.sending.payload(at)
    }

    /// The sending end knows that the record at `at` has arrived. May be told more than once.
    pub fn acked(&mut self, at: Offset) {
        self.sending.acked(at);
    }

    /// The record at `at` arrives, perhaps not for the first time: `app` learns which flows are whole.
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
                Ready::Open | Ready::Write(_) | Ready::Datagram => {}
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
    use weftway_scenario::config::{FlowClass, FlowKind, Transport};

    use super::*;

    /// Cuts all records for the two ends, of at most 1200 B, each with the class that it begins with.
    fn records(flows: &mut Flows) -> Vec<(Offset, u8)> {
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
        let config = SimConfig { workload, ..SimConfig::new(Transport::mpquic(), Vec::new(), Bytes::ZERO) };
        let mut app = App::of(&config.workload, 2);
        let mut flows = Flows::of(&config).unwrap();
        let later = Instant::from_millis(1_000);
        app.start(Instant::ZERO);
        app.run(later);
        flows.open(later, &app);
        flows.open(later, &app);
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

    #[test]
    fn other_workloads_have_no_streams() {
        assert!(Flows::of(&SimConfig::new(Transport::mpquic(), Vec::new(), Bytes::new(1))).is_none());
    }
}
