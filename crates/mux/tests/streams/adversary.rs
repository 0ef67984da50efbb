//! A peer that means ill: each bound holds, and what breaks the protocol is one error.

use proptest::prelude::*;
use weftway_mux::frame::Frame;
use weftway_mux::limits::{MOST_DATAGRAMS_WAITING, MOST_FRAMES};
use weftway_mux::{Limits, Mux, ProtocolError, Read, Ready, Side, StreamId};
use weftway_path::{Bytes, Instant, Offset};

const MAX: u64 = (1 << 62) - 1;
const NOW: Instant = Instant::ZERO;

/// A peer that sends whatever it likes to one end.
struct Peer {
    mux: Mux,
    place: u64,
}

impl Peer {
    fn new(limits: Limits) -> Self {
        Self { mux: Mux::new(Side::Listening, limits, limits).unwrap(), place: 0 }
    }

    fn send(&mut self, frames: &[Frame<'_>]) -> Result<bool, ProtocolError> {
        let mut payload = Vec::new();
        frames.iter().for_each(|frame| frame.put(&mut payload));
        let place = Offset::new(self.place);
        self.place += payload.len() as u64;
        self.mux.receive(NOW, place, &payload)
    }

    fn piece(&mut self, number: u64, at: u64, bytes: &[u8]) -> Result<bool, ProtocolError> {
        self.send(&[Frame::Stream { id: theirs(number), at, fin: false, bytes }])
    }
}

fn theirs(number: u64) -> StreamId {
    StreamId::new(Side::Connecting, number)
}

fn ours(number: u64) -> StreamId {
    StreamId::new(Side::Listening, number)
}

#[test]
fn bytes_beyond_the_credit_are_refused_at_every_offset() {
    let edge = Limits::default().first_credit.get();
    for at in [edge, edge + 1, 1 << 32, MAX - 1] {
        let error = ProtocolError::Credit { id: theirs(0), end: at + 1, edge };
        assert_eq!(Peer::new(Limits::default()).piece(0, at, b"a"), Err(error));
    }
    assert_eq!(Peer::new(Limits::default()).piece(0, edge - 1, b"a"), Ok(true));
}

#[test]
fn bytes_anywhere_below_the_credit_fit_into_the_memory() {
    let limits = Limits { receive: Bytes::new(512 * (20 << 10)), streams: 512, ..Limits::default() };
    let mut peer = Peer::new(limits);
    // A byte in each kilobyte of all that may be sent, highest first, on all streams that there may be.
    for at in (0..limits.first_credit.get()).rev().step_by(1000) {
        for number in 0..limits.streams {
            assert_eq!(peer.piece(number, at, b"a"), Ok(true));
        }
    }
    let memory = peer.mux.receive_memory() as u64;
    assert!(memory > 0 && memory <= limits.receive.get(), "{memory}");
}

#[test]
fn bytes_that_begin_and_end_amid_pages_fit_into_the_memory() {
    // The least memory for so many streams. 4098 bytes lie in three pages, if the first of them is the last of a page.
    let (first_credit, streams) = (Bytes::new(4098), 512);
    let receive = Bytes::new(streams * (first_credit.get() + 8192));
    let limits = Limits { receive, streams, first_credit, ..Limits::default() };
    let less = Limits { receive: receive - Bytes::new(1), ..limits };
    assert!(Mux::new(Side::Listening, less, less).is_err());
    let mut peer = Peer::new(limits);
    for number in 0..streams {
        let id = theirs(number);
        assert_eq!(peer.send(&[Frame::Open { id, class: 1, target: b"" }]), Ok(true));
        assert_eq!(peer.piece(number, 0, &[0; 4095]), Ok(true));
        assert!(peer.mux.accept().is_some());
        peer.mux.took(NOW, id, 4095).unwrap();
        while peer.mux.cut(NOW, 1200).is_some() {}
        for at in [4095, 4096, 8192] {
            assert_eq!(peer.piece(number, at, b"a"), Ok(true));
        }
    }
    assert_eq!(peer.mux.receive_memory() as u64, streams * 3 * 4096);
    assert!(peer.mux.receive_memory() as u64 <= receive.get());
}

#[test]
fn a_million_openings_are_refused_or_leave_nothing() {
    let limits = Limits::default();
    let mut peer = Peer::new(limits);
    let open = |number| Frame::Open { id: theirs(number), class: 1, target: b"somewhere" };
    for number in 0..1_000_000 {
        let result = peer.send(&[open(number)]);
        if number < limits.streams {
            assert_eq!(result, Ok(true));
        } else {
            let error = ProtocolError::Streams { id: theirs(number), allowed: limits.streams };
            assert_eq!(result, Err(error));
        }
    }
    assert_eq!(peer.mux.open_streams() as u64, limits.streams);
    assert_eq!([peer.mux.poll_ready(), peer.mux.poll_ready()], [Some(Ready::Accept), None]);

    // Each is reset at once, and so may be followed by another as soon as the peer was told.
    let mut peer = Peer::new(limits);
    for number in 0..1_000_000 {
        assert_eq!(peer.send(&[open(number), Frame::Reset { id: theirs(number), code: 0 }]), Ok(true));
        while let Some(record) = peer.mux.cut(NOW, 1200) {
            peer.mux.acked(record.place);
        }
    }
    assert_eq!((peer.mux.open_streams(), peer.mux.send_memory()), (0, 0));
    assert_eq!([peer.mux.poll_ready(), peer.mux.poll_ready()], [Some(Ready::Accept), None]);
    assert_eq!(peer.send(&[open(1_000_000)]), Ok(true));
    assert_eq!(peer.mux.accept().map(|accepted| accepted.id), Some(theirs(1_000_000)));
}

#[test]
fn streams_that_are_not_open_are_told_from_those_that_are_over() {
    let mut peer = Peer::new(Limits::default());
    let code = 4;
    assert_eq!(peer.send(&[Frame::Reset { id: ours(0), code }]), Err(ProtocolError::NotOpened(ours(0))));
    assert_eq!(
        peer.send(&[Frame::Open { id: ours(7), class: 0, target: b"" }]),
        Err(ProtocolError::NotOpened(ours(7)))
    );
    let id = peer.mux.open(NOW, 0, b"", None).unwrap();
    peer.mux.reset(id, code).unwrap();
    // What was under way when it was reset.
    let late = [Frame::Credit { id, edge: MAX }, Frame::Stream { id, at: MAX - 1, fin: true, bytes: b"a" }];
    assert_eq!(peer.send(&late), Ok(true));
    assert_eq!(peer.mux.receive_memory(), 0);
}

#[test]
fn a_stream_is_opened_in_one_way() {
    let open = |target| Frame::Open { id: theirs(3), class: 1, target };
    let mut peer = Peer::new(Limits::default());
    assert_eq!(peer.send(&[open(b"a"), open(b"a")]), Ok(true));
    assert_eq!(peer.send(&[open(b"b")]), Err(ProtocolError::Reopened(theirs(3))));
}

#[test]
fn gaps_have_an_end_in_the_sequence_and_over_all_streams() {
    let mut peer = Peer::new(Limits::default());
    let outcome = (0..2 * MOST_FRAMES as u64).map(|number| peer.mux.receive(NOW, Offset::new(2 * number + 1), &[7]));
    let kept = outcome.take_while(|outcome| *outcome == Ok(true)).count();
    assert_eq!(kept, MOST_FRAMES);

    let mut peer = Peer::new(Limits::default());
    let at = (1..Limits::default().first_credit.get()).step_by(2);
    let places = at.flat_map(|at| (0..Limits::default().streams).map(move |number| (number, at)));
    let mut kept = 0;
    let mut refused = None;
    for (number, at) in places {
        match peer.piece(number, at, b"a") {
            Ok(_) => kept += 1,
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    assert_eq!((kept, refused), (MOST_FRAMES, Some(ProtocolError::Gaps)));
}

#[test]
fn places_end_where_numbers_do_and_nothing_is_acknowledged_that_was_not_sent() {
    let mut peer = Peer::new(Limits::default());
    for place in [MAX, u64::MAX] {
        assert_eq!(peer.mux.receive(NOW, Offset::new(place), &[7]), Err(ProtocolError::Place(Offset::new(place))));
    }
    assert_eq!(peer.mux.receive(NOW, Offset::ZERO, &[]), Err(ProtocolError::Empty(Offset::ZERO)));
    let (arrived, next) = (Offset::new(1), Offset::ZERO);
    assert_eq!(peer.send(&[Frame::Limit { streams: MAX, arrived: 1 }]), Err(ProtocolError::Arrived { arrived, next }));
    // All places are skipped: what comes at a lower one is not looked at.
    assert_eq!(peer.send(&[Frame::Skip { to: MAX }]), Ok(true));
    assert_eq!(peer.send(&[Frame::Open { id: ours(0), class: 0, target: b"" }]), Ok(false));
    assert_eq!(peer.mux.arrived(), Offset::new(MAX));
}

#[test]
fn credit_and_streams_without_end_are_used_as_far_as_memory_goes() {
    let limits = Limits { send: Bytes::new(1 << 20), ..Limits::default() };
    let mut peer = Peer::new(limits);
    peer.send(&[Frame::Limit { streams: MAX, arrived: 0 }]).unwrap();
    let mut written = 0;
    while let Ok(id) = peer.mux.open(NOW, 0, b"", None) {
        peer.send(&[Frame::Credit { id, edge: MAX }]).unwrap();
        written += peer.mux.write(NOW, id, vec![0; 100_000].into()).unwrap();
    }
    // An eighth is for datagrams.
    assert_eq!(written as u64, 7 << 17);
    // 64 MiB are 3276 slots of 12 KiB and two pages, and 16 KiB; the peer has 1536 of them.
    assert_eq!((peer.mux.open_streams(), peer.mux.free_memory()), (1740, 16 << 10));
}

#[test]
fn datagrams_that_nobody_takes_have_an_end() {
    let mut peer = Peer::new(Limits::default());
    for _ in 0..5000 {
        peer.send(&[Frame::Datagram { flow: theirs(9), bytes: &[0; 1000] }]).unwrap();
    }
    let mut kept = 0;
    while let Some((_, bytes)) = peer.mux.next_datagram() {
        kept += bytes.len() as u64;
    }
    assert!(kept > 0 && kept <= MOST_DATAGRAMS_WAITING.get());
    assert_eq!(kept / 1000 + peer.mux.counts().datagrams_dropped, 5000);
}

/// Draws one of the numbers at which something begins or ends, or a small one.
fn number(draw: u64) -> u64 {
    let edge = Limits::default().first_credit.get();
    match draw % 8 {
        0 => MAX,
        1 => MAX - draw / 8 % 3000,
        2 => edge,
        3 => edge - 1,
        4 => Limits::default().streams,
        _ => draw / 8 % 3000,
    }
}

/// A frame, out of whatever a peer may think of.
fn frame(draw: u64) -> Frame<'static> {
    static BYTES: [u8; 3000] = [7; 3000];
    let (kind, small, large) = (draw % 10, (draw >> 8) % 5, number(draw >> 16));
    let side = if draw & 1 << 60 == 0 { Side::Connecting } else { Side::Listening };
    let id = StreamId::new(side, if small == 4 { large } else { small });
    let bytes = &BYTES[..(draw >> 40) as usize % 3000];
    match kind {
        0..3 => {
            let at = large.min(MAX - 3000);
            Frame::Stream { id, at, fin: bytes.is_empty() || draw >> 61 == 0, bytes }
        }
        3 => Frame::Datagram { flow: id, bytes },
        4 | 5 => Frame::Open { id, class: (draw >> 50) as u8 % 4, target: &bytes[..bytes.len().min(9)] },
        6 => Frame::Reset { id, code: 1 },
        7 => Frame::Credit { id, edge: large },
        8 => Frame::Limit { streams: large, arrived: number(draw >> 20) },
        _ if draw & 1 << 59 == 0 => Frame::Question,
        _ => Frame::Skip { to: large },
    }
}

/// Lets the application and the transport of this end go on, with one of the streams.
fn go_on(mux: &mut Mux, draw: u64, ids: &mut Vec<StreamId>) {
    ids.extend(std::iter::from_fn(|| mux.accept()).map(|accepted| accepted.id));
    ids.extend(mux.open(NOW, 1, b"", None));
    let id = ids[(draw >> 8) as usize % ids.len()];
    match draw % 6 {
        0 => drop(mux.write(NOW, id, vec![1; 5000].into())),
        1 => drop(mux.finish(id)),
        2 => drop(mux.reset(id, 2)),
        3 => {
            if let Ok(Read::Bytes(bytes)) = mux.read(id) {
                let count = bytes.len();
                mux.took(NOW, id, count).unwrap();
            }
        }
        _ => {
            if let Some(record) = mux.cut(NOW, 1200) {
                mux.acked(record.place);
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_a_peer_sends_is_taken_in_or_refused_within_the_memory(draws in prop::collection::vec(any::<u64>(), 1..100)) {
        let limits = Limits { streams: 8, receive: Bytes::new(400_000), ..Limits::default() };
        let (mut peer, mut ids) = (Peer::new(limits), Vec::new());
        for draw in draws {
            go_on(&mut peer.mux, draw, &mut ids);
            // A real peer's connection would end with the first error.
            let _ = peer.send(&[frame(draw)]);
            prop_assert!(peer.mux.receive_memory() as u64 <= limits.receive.get());
            prop_assert!(peer.mux.open_streams() as u64 <= 2 * limits.receive.get() / 20_000);
        }
    }
}
