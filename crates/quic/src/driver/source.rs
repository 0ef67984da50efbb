//! What a sender sends.

use bytes::BytesMut;
use weftway_path::{Bytes, Message, Offset, PathId};

/// Where the data come from, and where those of the other direction go.
///
/// Most have one row of bytes. Where [`Source::cuts`] the data have no order until they are cut into records: what is written
/// late may leave first. A record then is what was cut at one time, and travels whole.
pub trait Source {
    /// Whether the other end sends data, too, and tells in them what has arrived ([`Source::receive`]). No limit is heard then
    /// but that of these data.
    const DUPLEX: bool = false;

    /// Whether the data have no order until they are cut. It stays as it is.
    fn cuts(&self) -> bool {
        false
    }

    /// How much the application has written. Where it is not known before they are cut how long the data are: at least as
    /// much as the next record has, and nothing beyond what was cut if there is none.
    fn written(&mut self) -> u64;

    /// The message that byte `at` belongs to.
    fn message_at(&mut self, at: u64) -> Option<Message>;

    /// Whether the data are more than one message.
    fn has_messages(&self) -> bool {
        false
    }

    /// Appends so many bytes of the data from `offset` on.
    fn append(&self, offset: Offset, bytes: usize, to: &mut BytesMut);

    /// A full record has so many bytes from now on. Only where [`Source::cuts`], as those that follow.
    fn set_record(&mut self, most: Bytes) {
        let _ = most;
    }

    /// How many bytes the next record has; 0 if there is none.
    fn next_record(&mut self) -> u64 {
        0
    }

    /// The next record is cut: it begins at `at`, and has as many bytes as was told.
    fn cut(&mut self, at: Offset, bytes: u64) {
        let _ = (at, bytes);
    }

    /// How many bytes a record has that goes before all others, on the path by which it arrives soonest; 0 if there is none.
    fn next_urgent(&mut self) -> u64 {
        0
    }

    /// That record is cut: it begins at `at`, and has as many bytes as was told.
    fn cut_urgent(&mut self, at: Offset, bytes: u64) {
        let _ = (at, bytes);
    }

    /// The record at `at` has arrived. May be told more than once.
    fn acked(&mut self, at: Offset) {
        let _ = at;
    }

    /// Whether the record at `at`, which is lost, is of use to anybody. If not, it is sent no more.
    fn is_wanted(&mut self, at: Offset) -> bool {
        let _ = at;
        true
    }

    /// What is at `at` leaves on `path`. Only where [`Source::cuts`].
    fn sent(&mut self, at: Offset, path: PathId) {
        let _ = (at, path);
    }

    /// A record of the other direction arrives, on a path that may not be known. Everything of this one before what is returned
    /// has arrived, as it says.
    fn receive(&mut self, at: Offset, bytes: &[u8], from: Option<PathId>) -> Option<Offset> {
        let _ = (at, bytes, from);
        None
    }
}
