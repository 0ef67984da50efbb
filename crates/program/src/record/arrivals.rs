//! Arrivals on a path, as short records: a probe each, and of everything else a sum for each 10 ms.

use super::probes::{PER_STEP, STEP_NS};
use super::wire::{Body, FULL_BYTES, HEAD, Ns, SECOND_NS, ask, time_bytes};

/// Everything but probes is counted in bins of this time.
pub const BIN_NS: Ns = 10_000_000;
/// After this time nothing more is expected in a bin.
const LATE_NS: Ns = 50_000_000;
/// A bin in which no load came has this wait.
pub const MOST_QUEUE_US: u32 = u32::MAX;

const RECORD: usize = 19;
const ASK: usize = 5;
/// Records that one packet holds.
pub const RECORDS_PER_PACKET: usize = (FULL_BYTES - HEAD - ASK) / RECORD;

/// Number of records of a second of a path: its probes, and bins.
pub const RECORDS_PER_S: usize = (SECOND_NS / STEP_NS) as usize * PER_STEP as usize + (SECOND_NS / BIN_NS) as usize;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A probe that came.
    Probe,
    /// Sum of what came within 10 ms.
    Bin,
}

/// A probe that came, or what came within 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which of both.
    pub what: What,
    /// By the receiver's clock; of a bin its begin.
    pub arrived_ns: Ns,
    /// Bytes of IP packets.
    pub size: u32,
    /// Number of a probe; of a bin the least time that load waited on its way, in µs.
    pub number: u32,
    /// Packets of load that are missing before those in the bin.
    pub lost: u16,
}

impl Record {
    /// A probe that came.
    pub fn probe(arrived_ns: Ns, size: u32, number: u32) -> Self {
        Self { what: What::Probe, arrived_ns, size, number, lost: 0 }
    }

    fn pack(&self, into: &mut Vec<u8>) {
        into.push(u8::from(self.what == What::Bin));
        into.extend(time_bytes(self.arrived_ns));
        into.extend(self.size.to_be_bytes());
        into.extend(self.number.to_be_bytes());
        into.extend(self.lost.to_be_bytes());
    }

    fn unpack(body: &mut Body<'_>) -> Option<Self> {
        let what = match body.byte()? {
            0 => What::Probe,
            1 => What::Bin,
            _ => return None,
        };
        let (arrived_ns, size, number) = (body.time()?, body.number()?, body.number()?);
        Some(Self { what, arrived_ns, size, number, lost: u16::from_be_bytes(body.take()?) })
    }
}

/// The records of a path from `first` on, as many as a packet holds.
pub fn packed(path: u8, first: u32, records: &[Record]) -> Vec<u8> {
    let some = records.get(first as usize..).unwrap_or_default();
    let mut body = ask(path, first);
    some.iter().take(RECORDS_PER_PACKET).for_each(|record| record.pack(&mut body));
    body
}

/// Path of the records in a packet, the number of the first, and the records.
pub fn unpacked(body: &[u8]) -> Option<(u8, u32, Vec<Record>)> {
    let mut body = Body(body);
    let (path, first) = (body.byte()?, body.number()?);
    let mut records = Vec::with_capacity(body.0.len() / RECORD);
    while !body.0.is_empty() {
        records.push(Record::unpack(&mut body)?);
    }
    Some((path, first, records))
}

/// The records of one path at one end.
#[derive(Default)]
pub struct Arrivals {
    /// Records that are closed.
    pub records: Vec<Record>,
    open: Option<Record>,
}

impl Arrivals {
    /// Takes in a probe that came.
    pub fn add_probe(&mut self, arrived_ns: Ns, number: u32, size: u32) {
        self.records.push(Record::probe(arrived_ns, size, number));
    }

    /// Takes in what else came: load waited for `queue_us`, and `lost` packets before it are missing.
    pub fn add(&mut self, arrived_ns: Ns, size: u32, queue_us: u32, lost: u32) {
        let begin = arrived_ns / BIN_NS * BIN_NS;
        if self.open.is_some_and(|open| begin > open.arrived_ns) {
            self.close();
        }
        let empty = Record { what: What::Bin, arrived_ns: begin, size: 0, number: MOST_QUEUE_US, lost: 0 };
        let open = self.open.get_or_insert(empty);
        open.size = open.size.saturating_add(size);
        open.number = open.number.min(queue_us);
        open.lost = open.lost.saturating_add(u16::try_from(lost).unwrap_or(u16::MAX));
    }

    /// Ends the bin that is open, if nothing more is expected in it by now.
    pub fn close_late(&mut self, now_ns: Ns) {
        if self.open.is_some_and(|open| now_ns >= open.arrived_ns + BIN_NS + LATE_NS) {
            self.close();
        }
    }

    fn close(&mut self) {
        self.records.extend(self.open.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_cross_in_packets() {
        let bin = Record { what: What::Bin, arrived_ns: 20, size: 2456, number: 15, lost: 2 };
        let kept = [Record::probe(10, 92, 3), bin];
        assert_eq!(unpacked(&packed(1, 0, &kept)), Some((1, 0, kept.to_vec())));
        assert_eq!(unpacked(&packed(1, 1, &kept)), Some((1, 1, vec![bin])));
        assert_eq!(unpacked(&packed(1, 9, &kept)), Some((1, 9, Vec::new())));
        assert_eq!(unpacked(&[0; 7]), None);
        let mut unknown = packed(1, 0, &kept);
        unknown[5] = 7;
        assert_eq!(unpacked(&unknown), None);
        assert_eq!(packed(0, 0, &vec![bin; 100]).len(), 5 + 62 * 19);
    }

    #[test]
    fn a_bin_has_the_sum_of_what_came_in_it_and_ends_with_the_next_or_after_a_while() {
        let mut arrivals = Arrivals::default();
        arrivals.add(12_000_000, 100, MOST_QUEUE_US, 0);
        arrivals.add(19_999_999, 1200, 70, 70_000);
        arrivals.add(15_000_000, 1200, 90, 1);
        arrivals.add(20_000_000, 10, MOST_QUEUE_US, 0);
        let first = Record { what: What::Bin, arrived_ns: 10_000_000, size: 2500, number: 70, lost: u16::MAX };
        assert_eq!(arrivals.records, [first]);
        arrivals.close_late(79_999_999);
        assert_eq!(arrivals.records.len(), 1);
        arrivals.close_late(80_000_000);
        assert_eq!((arrivals.records.len(), arrivals.records[1].size), (2, 10));
    }
}
