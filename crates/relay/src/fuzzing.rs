//! The parsers of what local programs and the other end send, for the fuzzer.

use crate::datagram::{read, read_marked};
use crate::handshake::Handshake;
use crate::step::Step;

/// What a local program says, in one piece.
pub fn handshake(bytes: &[u8]) {
    let (mut handshake, mut rest) = (Handshake::default(), bytes);
    while let Step::Answer(count, _) = handshake.step(rest) {
        rest = &rest[count..];
    }
}

/// A datagram of either end.
pub fn datagram(bytes: &[u8]) {
    let _ = (read(bytes), read_marked(bytes));
}
