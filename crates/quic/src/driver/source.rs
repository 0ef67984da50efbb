//! The data of a sender.

use bytes::BytesMut;
use weftway_host::sending::Data;
use weftway_path::{Bytes, Offset, PathId};

/// Source of the data, and sink of those of the other direction.
///
/// Most have one row of bytes. Where [`Data::cuts`] the data have no order until they are cut into records: what is
/// written late may leave first. A record then is what was cut at one time, and travels whole.
pub trait Source {
    /// True if the other end sends data, too, and tells in them what has arrived ([`Source::receive`]). No limit is
    /// heard then but that of these data.
    const DUPLEX: bool = false;

    /// Type of the data.
    type Data: Data;

    /// The data, whose bytes [`Source::append`] has.
    fn data(&mut self) -> &mut Self::Data;

    /// Appends so many bytes of the data from `offset` on.
    fn append(&self, offset: Offset, bytes: usize, to: &mut BytesMut);

    /// A full record has so many bytes from now on. Only where [`Data::cuts`] this matters.
    fn set_record(&mut self, most: Bytes) {
        let _ = most;
    }

    /// Number of bytes that a record has that goes before all others, on the path by which it arrives soonest; 0 if
    /// there is none.
    fn next_urgent(&mut self) -> u64 {
        0
    }

    /// Cuts that record: it begins at `at`, and has as many bytes as was told.
    fn cut_urgent(&mut self, at: Offset, bytes: u64) {
        let _ = (at, bytes);
    }

    /// The record at `at` has arrived. May be told more than once.
    fn acked(&mut self, at: Offset) {
        let _ = at;
    }

    /// Notes that what is at `at` leaves on `path`. Only where [`Data::cuts`].
    fn sent(&mut self, at: Offset, path: PathId) {
        let _ = (at, path);
    }

    /// A record of the other direction arrives, on a path that may not be known. Everything of this one before what is
    /// returned has arrived, as it says.
    fn receive(&mut self, at: Offset, bytes: &[u8], from: Option<PathId>) -> Option<Offset> {
        let _ = (at, bytes, from);
        None
    }
}
