//! Datagrams that leave in one call to the kernel (UDP_SEGMENT).

use std::net::{IpAddr, SocketAddr};

use noq_udp::{EcnCodepoint, Transmit};

/// Bytes that one call takes at most (UDP's own limit, less the headers).
const MOST: usize = 65_000;

/// Datagrams of one size, the last of which may be smaller, from one address to another.
#[derive(Debug)]
pub struct Batch {
    to: SocketAddr,
    from: Option<IpAddr>,
    ecn: Option<EcnCodepoint>,
    /// The size of each datagram but the last.
    size: usize,
    bytes: Vec<u8>,
}

impl Batch {
    /// It begins with `transmit`. Its bytes are kept in `room`, which is empty.
    pub fn new(transmit: &Transmit<'_>, mut room: Vec<u8>) -> Self {
        room.reserve(MOST.max(transmit.contents.len()));
        room.extend_from_slice(transmit.contents);
        let Transmit { destination: to, src_ip: from, ecn, .. } = *transmit;
        Self { to, from, ecn, size: size(transmit), bytes: room }
    }

    /// Returns true if `transmit` takes the same way.
    pub fn leads(&self, transmit: &Transmit<'_>) -> bool {
        (self.to, self.from) == (transmit.destination, transmit.src_ip)
    }

    /// Returns true if `transmit` may follow in the same call, which takes at most so many `segments`.
    pub fn takes(&self, transmit: &Transmit<'_>, segments: usize) -> bool {
        let (size, all) = (size(transmit), self.bytes.len() + transmit.contents.len());
        // Only the last datagram is smaller than the others. One that is alone and larger than what follows may probe
        // how long packets may be: what left in the same call would be lost with it.
        let is_ragged = !self.bytes.len().is_multiple_of(self.size);
        let may_be_probe = self.bytes.len() == self.size && transmit.contents.len() < self.size;
        let fits = size == self.size || size < self.size && size >= transmit.contents.len();
        let has_room = all <= MOST && all.div_ceil(self.size) <= segments;
        self.leads(transmit) && self.ecn == transmit.ecn && fits && !is_ragged && !may_be_probe && has_room
    }

    /// Adds what it [takes](Batch::takes).
    pub fn push(&mut self, contents: &[u8]) {
        self.bytes.extend_from_slice(contents);
    }

    /// All of it.
    pub fn transmit(&self) -> Transmit<'_> {
        Transmit {
            destination: self.to,
            ecn: self.ecn,
            contents: &self.bytes,
            segment_size: (self.bytes.len() > self.size).then_some(self.size),
            src_ip: self.from,
        }
    }

    /// It has left: its memory, for another one.
    pub fn into_room(mut self) -> Vec<u8> {
        self.bytes.clear();
        self.bytes
    }
}

/// The size of each datagram of `transmit` but the last.
fn size(transmit: &Transmit<'_>) -> usize {
    transmit.segment_size.unwrap_or(transmit.contents.len()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transmit(port: u16, bytes: &[u8], segment_size: Option<usize>) -> Transmit<'_> {
        let destination = ([192, 0, 2, 1], port).into();
        Transmit { destination, ecn: None, contents: bytes, segment_size, src_ip: None }
    }

    #[test]
    fn datagrams_of_one_size_and_way_are_one_call_and_the_last_may_be_smaller() {
        let data = [7; 400];
        let mut batch = Batch::new(&transmit(1, &data[..100], None), Vec::new());
        assert_eq!(batch.transmit().segment_size, None, "one datagram");
        let takes = |batch: &Batch, more: &Transmit<'_>| batch.takes(more, 4);
        assert!(!takes(&batch, &transmit(2, &data[..100], None)), "another address");
        let from = Some([192, 0, 2, 9].into());
        assert!(!takes(&batch, &Transmit { src_ip: from, ..transmit(1, &data[..100], None) }), "from another address");
        let marked = Transmit { ecn: Some(EcnCodepoint::Ect0), ..transmit(1, &data[..100], None) };
        assert!(!takes(&batch, &marked), "other marks");
        assert!(!takes(&batch, &transmit(1, &data[..101], None)), "larger");
        assert!(takes(&batch, &transmit(1, &data[..300], Some(100))));
        assert!(!takes(&batch, &transmit(1, &data[..301], Some(100))), "five datagrams, a call takes four");
        assert!(!takes(&batch, &transmit(1, &data[..160], Some(80))), "two that are smaller");
        assert!(takes(&batch, &transmit(1, &data[..150], Some(100))), "the last of two is smaller");
        assert!(
            !takes(&batch, &transmit(1, &data[..80], None)),
            "one that is larger, and alone, may be a probe that is lost"
        );
        batch.push(&data[..100]);
        assert!(takes(&batch, &transmit(1, &data[..80], None)), "one that is smaller is the last");
        batch.push(&data[..80]);
        let all = batch.transmit();
        assert_eq!((all.contents.len(), all.segment_size), (280, Some(100)));
        assert!(!takes(&batch, &transmit(1, &data[..80], None)), "nothing follows the last");
    }

    #[test]
    fn a_call_takes_no_more_bytes_than_a_datagram_may_have() {
        let data = vec![0; 32_501];
        let batch = Batch::new(&transmit(1, &data[..32_500], None), Vec::new());
        assert!(batch.takes(&transmit(1, &data[..32_500], None), 64), "65 000 bytes");
        let batch = Batch::new(&transmit(1, &data, None), batch.into_room());
        assert_eq!(batch.transmit().contents.len(), 32_501, "the memory was emptied");
        assert!(!batch.takes(&transmit(1, &data, None), 64), "65 002 bytes");
    }
}
