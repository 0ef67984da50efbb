//! Bytes of each stream by path, for the user. A mux knows no paths: who carries its records tells it.

use weftway_path::{Offset, PathId};

use crate::frame::{Frame, Frames};
use crate::id::StreamId;
use crate::mux::Mux;
use crate::stream::PathBytes;

impl Mux {
    /// The record at `place` leaves on `path`.
    pub fn on_sent(&mut self, place: Offset, path: PathId) {
        let Some(record) = self.records.get(place) else { return };
        for (id, bytes) in pieces(&record.payload) {
            let stream = self.streams.get_mut(&id);
            if let Some(sent) = stream.and_then(|stream| stream.path_bytes.sent.get_mut(path.index())) {
                *sent += bytes;
            }
        }
    }

    /// A record with this payload came on `path`.
    pub fn on_received(&mut self, payload: &[u8], path: PathId) {
        for (id, bytes) in pieces(payload) {
            let stream = self.streams.get_mut(&id);
            if let Some(received) = stream.and_then(|stream| stream.path_bytes.received.get_mut(path.index())) {
                *received += bytes;
            }
        }
    }

    /// Bytes of stream `id` by path.
    pub fn path_bytes(&self, id: StreamId) -> Option<&PathBytes> {
        Some(&self.streams.get(&id)?.path_bytes)
    }
}

/// Streams of a record, with the bytes of each.
fn pieces(payload: &[u8]) -> impl Iterator<Item = (StreamId, u64)> {
    Frames::new(payload).filter_map(|frame| match frame.ok()? {
        Frame::Stream { id, bytes, .. } | Frame::Datagram { flow: id, bytes } => Some((id, bytes.len() as u64)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use weftway_path::Instant;

    use super::*;
    use crate::stream::COUNTED_PATHS;
    use crate::{Limits, Side};

    const NOW: Instant = Instant::ZERO;

    /// Two streams share the second record; a datagram belongs to the first stream. The first record leaves twice.
    #[test]
    fn bytes_of_each_stream_are_counted_by_path() {
        let mux = |side| Mux::new(side, Limits::default(), Limits::default()).unwrap();
        let (mut here, mut there) = (mux(Side::Connecting), mux(Side::Listening));
        let [one, two] = [b"one", b"two"].map(|target| here.open(NOW, 2, target, None).unwrap());
        here.write(NOW, one, vec![1; 900].into()).unwrap();
        let first = here.cut(NOW, 1000).unwrap();
        here.write(NOW, one, vec![1; 100].into()).unwrap();
        here.write(NOW, two, vec![2; 300].into()).unwrap();
        let second = here.cut(NOW, 1000).unwrap();
        here.send_datagram(NOW, one, 0, None, vec![3; 50].into()).unwrap();
        let third = here.cut(NOW, 1000).unwrap();
        for (record, path) in [(&first, 0), (&first, 1), (&second, 1), (&third, 3), (&third, 63)] {
            here.on_sent(record.place, PathId::new(path));
            there.receive(NOW, record.place, &record.payload).unwrap();
            there.on_received(&record.payload, PathId::new(path));
        }
        let counts = [[900, 1000, 0, 50, 0, 0, 0, 0], [0, 300, 0, 0, 0, 0, 0, 0]];
        for (id, bytes) in [one, two].into_iter().zip(counts) {
            let none = [0; COUNTED_PATHS];
            assert_eq!(here.path_bytes(id), Some(&PathBytes { sent: bytes, received: none }));
            assert_eq!(there.path_bytes(id), Some(&PathBytes { sent: none, received: bytes }));
        }
        here.resume(NOW, &there.received()).unwrap();
        assert_eq!(here.path_bytes(one), Some(&PathBytes::default()), "another connection has other paths");
    }
}
