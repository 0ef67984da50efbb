//! Tests of the one sequence: order of frames, waits, frames that are not sent again, and what schedulers are told.

use bytes::Bytes as Payload;
use weftway_mux::limits::MOST_FRAMES;
use weftway_mux::{Limits, Mux, OpenError, Read, Ready, Record, Side, StreamError, StreamId};
use weftway_path::{Bytes, Instant, Message, Offset, Span};

const NOW: Instant = Instant::ZERO;

fn pair(limits: Limits) -> [Mux; 2] {
    [Side::Connecting, Side::Listening].map(|side| Mux::new(side, limits, limits).unwrap())
}

fn open(mux: &mut Mux, class: u8) -> StreamId {
    mux.open(NOW, class, b"", None).unwrap()
}

fn write(mux: &mut Mux, id: StreamId, bytes: &'static [u8]) {
    assert_eq!(mux.write(NOW, id, Payload::from_static(bytes)), Ok(bytes.len()));
}

fn receive(mux: &mut Mux, record: &Record) {
    assert_eq!(mux.receive(NOW, record.place, &record.payload), Ok(true));
    while mux.accept().is_some() {}
}

/// Takes what can be read, the end included.
fn take(mux: &mut Mux, id: StreamId) -> Vec<u8> {
    let mut read = Vec::new();
    while let Ok(Read::Bytes(bytes)) = mux.read(id) {
        let count = bytes.len();
        read.extend_from_slice(bytes);
        mux.took(NOW, id, count).unwrap();
    }
    read
}

#[test]
fn an_urgent_stream_overtakes_what_waits_and_not_what_is_cut() {
    let [mut here, mut there] = pair(Limits::default());
    let bulk = open(&mut here, 3);
    write(&mut here, bulk, &[3; 3000]);
    let first = here.cut(NOW, 1000).unwrap();
    let urgent = open(&mut here, 0);
    write(&mut here, urgent, b"now");
    let second = here.cut(NOW, 1000).unwrap();
    assert_eq!(second.place, first.place + Bytes::new(first.payload.len() as u64));
    receive(&mut there, &second);
    assert_eq!(take(&mut there, urgent), b"now");
    // What is left of the record is the other stream's, and waits for the first.
    assert_eq!(take(&mut there, bulk), b"");
    receive(&mut there, &first);
    assert!(take(&mut there, bulk).len() > 1900);
}

#[test]
fn a_record_that_is_missing_holds_up_its_own_streams_and_schedulers_learn_which_it_is() {
    let [mut here, mut there] = pair(Limits::default());
    let [a, b] = [0, 1].map(|_| open(&mut here, 1));
    let cut = |here: &mut Mux, id, bytes| {
        write(here, id, bytes);
        here.cut(NOW, 1000).unwrap()
    };
    let records =
        [cut(&mut here, a, b"a1"), cut(&mut here, b, b"b1"), cut(&mut here, b, b"b2"), cut(&mut here, a, b"a2")];
    assert_eq!((here.blocking(), here.una()), (Offset::ZERO, Offset::ZERO));
    // The second is lost. Nobody waits for the first, which is only late.
    receive(&mut there, &records[2]);
    here.acked(records[2].place);
    assert_eq!(here.blocking(), records[1].place);
    receive(&mut there, &records[0]);
    receive(&mut there, &records[3]);
    assert_eq!((take(&mut there, a), take(&mut there, b)), (b"a1a2".to_vec(), b"".to_vec()));
    assert!(here.lost(NOW, NOW, records[1].place));
    assert_eq!(here.payload(records[1].place).as_ref(), Some(&records[1].payload));
    receive(&mut there, &records[1]);
    assert_eq!(take(&mut there, b), b"b1b2");
    for record in &records {
        here.acked(record.place);
    }
    assert_eq!((here.blocking(), here.una()), (here.next_place(), here.next_place()));
}

#[test]
fn a_scheduler_is_told_the_message_at_hand() {
    let [mut here, _] = pair(Limits::default());
    let id = here.open(NOW, 2, b"", Some(Span::from_millis(30))).unwrap();
    let written = Instant::from_millis(5);
    here.write(written, id, Payload::from_static(&[0; 1500])).unwrap();
    here.write(Instant::from_millis(9), id, Payload::from_static(&[0; 100])).unwrap();
    let message = |start, end| Message { start, end, class: 2, written, deadline: Some(Instant::from_millis(35)) };
    let now = Instant::from_millis(10);
    let next = here.peek(now, 1000).unwrap();
    assert_eq!((next.bytes, next.message), (1000, Some(message(0, 1500))));
    let record = here.cut(now, 1000).unwrap();
    // An opening of 5 bytes (kind, stream, class, count) and a head of 5 (kind, stream, offset, count).
    assert_eq!((record.payload.len(), here.unsent()), (1000, Bytes::new(1600 - 990)));
    assert_eq!(here.peek(now, 1000).unwrap().message, Some(message(1000, 1510)));
    here.ask();
    while here.cut(now, 1000).is_some() {}
    here.ask();
    assert_eq!(here.peek(now, 1000).unwrap().message, None);
}

/// A record of bytes that may take any time, a datagram that has a second, and one that has 200 ms, has 200 ms.
#[test]
fn a_record_is_as_urgent_as_the_part_of_it_with_the_earliest_deadline() {
    let [mut here, _] = pair(Limits::default());
    let id = here.open(NOW, 0, b"", None).unwrap();
    here.write(NOW, id, Payload::from_static(&[0; 50])).unwrap();
    let tells = |here: &mut Mux| here.peek(NOW, 1000).unwrap().message.and_then(|message| message.deadline);
    assert_eq!(tells(&mut here), None);
    for (span, told) in [(1000, 1000), (200, 200), (300, 200)] {
        here.send_datagram(NOW, id, 0, Some(Span::from_millis(span)), vec![0; 100].into()).unwrap();
        assert_eq!(tells(&mut here), Some(NOW + Span::from_millis(told)));
    }
}

#[test]
fn where_a_writer_waits_to_write_more_no_message_ends() {
    let [mut here, mut there] = pair(Limits { first_credit: Bytes::new(2000), ..Limits::default() });
    let (bulk, request) = (here.open(NOW, 2, b"", None).unwrap(), here.open(NOW, 1, b"", None).unwrap());
    assert_eq!(here.write(NOW, bulk, Payload::from_static(&[0; 3000])), Ok(2000));
    assert_eq!(here.peek(NOW, 1000).unwrap().message, None);
    // What another stream has written whole, and goes first, is a message as before, with the opening and head of the
    // other.
    assert_eq!(here.write(NOW, request, Payload::from_static(&[0; 1500])), Ok(1500));
    assert_eq!(here.peek(NOW, 1000).unwrap().message.map(|message| message.class), Some(1));
    while let Some(record) = here.cut(NOW, 1000) {
        receive(&mut there, &record);
    }
    assert_eq!(take(&mut there, bulk).len(), 2000);
    while let Some(record) = there.cut(NOW, 1000) {
        receive(&mut here, &record);
    }
    // Credit came, and nothing waits: now the rest is written whole, and ends.
    assert_eq!(here.write(NOW, bulk, Payload::from_static(&[0; 1000])), Ok(1000));
    assert!(here.peek(NOW, 1000).unwrap().message.is_some());
}

/// A writer that is as fast as this end's memory lets it: after each wait it writes what it has read meanwhile, whole.
#[test]
fn what_a_writer_writes_after_a_wait_is_no_message_while_older_bytes_are_left() {
    let [mut here, _] =
        pair(Limits { first_credit: Bytes::new(1 << 20), send: Bytes::new(64 << 10), streams: 4, ..Limits::default() });
    let bulk = here.open(NOW, 2, b"", None).unwrap();
    let acked = |here: &mut Mux| {
        let record = here.cut(NOW, 1000)?;
        here.acked(record.place);
        Some(record)
    };
    let taken = here.write(NOW, bulk, Payload::from(vec![0; 100_000])).unwrap();
    assert!(taken < 100_000);
    while here.poll_ready() != Some(Ready::Write(bulk)) {
        acked(&mut here).unwrap();
    }
    assert_eq!(here.write(NOW, bulk, Payload::from_static(&[0; 2000])), Ok(2000));
    assert_eq!(here.peek(NOW, 1000).unwrap().message, None, "older bytes are left");
    while acked(&mut here).is_some() {}
    assert_eq!(here.write(NOW, bulk, Payload::from_static(&[0; 2000])), Ok(2000));
    assert!(here.peek(NOW, 1000).unwrap().message.is_some(), "all is cut: this may be all that there is");
}

#[test]
fn a_datagram_is_not_sent_again_once_it_is_too_late() {
    let [mut here, mut there] = pair(Limits::default());
    let flow = StreamId::new(Side::Connecting, 0);
    let send = |here: &mut Mux| {
        let deadline = Some(Span::from_millis(50));
        here.send_datagram(NOW, flow, 0, deadline, Payload::from_static(b"tick")).unwrap();
        here.cut(NOW, 1000).unwrap()
    };
    let (first, second) = (send(&mut here), send(&mut here));
    receive(&mut there, &second);
    here.acked(second.place);
    assert_eq!(there.next_datagram(), Some((flow, Payload::from_static(b"tick"))));
    assert!(here.lost(Instant::from_millis(49), Instant::from_millis(49), first.place), "it is of use yet");
    assert!(!here.lost(Instant::from_millis(50), Instant::from_millis(50), first.place));
    assert_eq!((here.payload(first.place), here.una()), (None, here.next_place()));
    // The other end learns that it does not come, and does not want it any more.
    assert_eq!(there.arrived(), Offset::ZERO);
    let skip = here.cut(NOW, 1000).unwrap();
    receive(&mut there, &skip);
    assert_eq!(there.arrived(), here.next_place());
    assert_eq!(there.receive(NOW, first.place, &first.payload), Ok(false));
    assert_eq!(there.next_datagram(), None);
}

/// It takes some 20 ms to the other end: one that leaves later than after 30 ms comes after 50. Schedulers are told the
/// 50; one that is lost is sent again if it can be there by then.
#[test]
fn a_datagram_leaves_in_time_to_arrive_in_time() {
    let [mut here, _] = pair(Limits::default());
    let flow = StreamId::new(Side::Connecting, 0);
    let [leave, arrive] = [30, 50].map(|ms| Some(Span::from_millis(ms)));
    let at = Instant::from_millis;
    let send = |here: &mut Mux| {
        here.send_datagram_within(at(0), flow, 1, leave, arrive, Payload::from_static(b"tick")).unwrap();
    };
    send(&mut here);
    assert_eq!(here.peek(at(29), 1000).unwrap().message.unwrap().deadline, Some(at(50)));
    assert_eq!(here.peek(at(30), 1000), None);
    send(&mut here);
    let record = here.cut(at(29), 1000).unwrap();
    assert!(here.lost(at(35), at(49), record.place));
    assert!(!here.lost(at(35), at(50), record.place));
}

#[test]
fn a_datagram_that_is_too_late_does_not_come_again_with_the_stream_beside_it() {
    let [mut here, mut there] = pair(Limits::default());
    let id = open(&mut here, 1);
    write(&mut here, id, b"abc");
    here.send_datagram(NOW, id, 1, Some(Span::from_millis(50)), Payload::from_static(b"tick")).unwrap();
    let both = here.cut(NOW, 1000).unwrap();
    assert!(!here.lost(Instant::from_millis(50), Instant::from_millis(50), both.place));
    let piece = here.cut(Instant::from_millis(50), 1000).unwrap();
    receive(&mut there, &piece);
    assert_eq!((take(&mut there, id), there.next_datagram()), (b"abc".to_vec(), None));
}

#[test]
fn a_datagram_does_not_wait_behind_bulk_and_expires_before_it_is_cut() {
    let [mut here, mut there] = pair(Limits::default());
    let bulk = open(&mut here, 3);
    write(&mut here, bulk, &[3; 5000]);
    for (ms, bytes) in [(10, &b"late"[..]), (30, b"soon")] {
        let deadline = Some(Span::from_millis(ms));
        here.send_datagram(NOW, bulk, 1, deadline, Payload::copy_from_slice(bytes)).unwrap();
    }
    let record = here.cut(Instant::from_millis(10), 1000).unwrap();
    receive(&mut there, &record);
    assert_eq!(there.next_datagram(), Some((bulk, Payload::from_static(b"soon"))));
    assert_eq!((there.next_datagram(), here.counts().datagrams_expired), (None, 1));
}

#[test]
fn what_no_path_has_room_for_is_cut_anew_in_smaller_records() {
    let [mut here, mut there] = pair(Limits::default());
    let id = open(&mut here, 1);
    write(&mut here, id, &[7; 9000]);
    here.finish(id).unwrap();
    let large = here.cut(NOW, 9100).unwrap();
    here.abandon(NOW, large.place);
    while let Some(record) = here.cut(NOW, 1200) {
        assert!(record.payload.len() <= 1200);
        receive(&mut there, &record);
        here.acked(record.place);
    }
    assert_eq!(take(&mut there, id), [7; 9000]);
    assert_eq!(there.read(id), Ok(Read::End));
    // It comes after all, and brings nothing.
    assert_eq!((there.arrived(), there.receive(NOW, large.place, &large.payload)), (here.next_place(), Ok(false)));
}

#[test]
fn a_stream_that_is_reset_is_not_sent_again() {
    let [mut here, mut there] = pair(Limits::default());
    let id = open(&mut here, 1);
    write(&mut here, id, b"abc");
    let first = here.cut(NOW, 1000).unwrap();
    receive(&mut there, &first);
    here.acked(first.place);
    assert_eq!(there.read(id), Ok(Read::Bytes(b"abc")));
    write(&mut here, id, b"def");
    let second = here.cut(NOW, 1000).unwrap();
    here.reset(id, 9).unwrap();
    assert!(!here.lost(NOW, NOW, second.place));
    let reset = here.cut(NOW, 1000).unwrap();
    receive(&mut there, &reset);
    assert_eq!(there.write(NOW, id, Payload::from_static(b"x")), Err(StreamError::Reset(9)));
    assert_eq!(there.read(id), Err(StreamError::NotOpen));
    assert_eq!((here.open_streams(), there.open_streams()), (0, 0));
}

#[test]
fn a_stream_is_half_closed_until_both_ends_have_finished() {
    let [mut here, mut there] = pair(Limits::default());
    let id = open(&mut here, 1);
    write(&mut here, id, b"question");
    here.finish(id).unwrap();
    assert_eq!(here.write(NOW, id, Payload::from_static(b"x")), Err(StreamError::Finished));
    let record = here.cut(NOW, 1000).unwrap();
    receive(&mut there, &record);
    here.acked(record.place);
    assert_eq!((take(&mut there, id), there.read(id)), (b"question".to_vec(), Ok(Read::End)));
    assert_eq!(here.read(id), Ok(Read::Wait));
    write(&mut there, id, b"answer");
    there.finish(id).unwrap();
    let record = there.cut(NOW, 1000).unwrap();
    receive(&mut here, &record);
    assert_eq!(here.poll_ready(), Some(Ready::Read(id)));
    assert_eq!(take(&mut here, id), b"answer");
    // The end was read with it.
    assert_eq!(here.read(id), Err(StreamError::NotOpen));
    assert_eq!((here.open_streams(), there.open_streams()), (0, 1));
    there.acked(record.place);
    assert_eq!(there.open_streams(), 0);
}

#[test]
fn a_reset_is_told_also_to_whoever_neither_reads_nor_writes() {
    let [mut here, mut there] = pair(Limits::default());
    let id = open(&mut here, 1);
    write(&mut here, id, b"abc");
    let record = here.cut(NOW, 1000).unwrap();
    receive(&mut there, &record);
    // Its reader found something, and does not take it.
    assert_eq!(there.read(id), Ok(Read::Bytes(b"abc")));
    while there.poll_ready().is_some() {}
    here.reset(id, 9).unwrap();
    let reset = here.cut(NOW, 1000).unwrap();
    receive(&mut there, &reset);
    assert_eq!([there.poll_ready(), there.poll_ready()], [Some(Ready::Read(id)), None]);
    assert_eq!(there.read(id), Err(StreamError::Reset(9)));
}

#[test]
fn a_peer_that_has_as_many_streams_as_it_may_opens_another_when_one_is_over() {
    let [mut here, mut there] = pair(Limits { streams: 2, ..Limits::default() });
    let [a, _] = [0, 1].map(|_| open(&mut here, 1));
    assert_eq!(here.open(NOW, 1, b"", None), Err(OpenError::TooMany));
    let record = here.cut(NOW, 1000).unwrap();
    receive(&mut there, &record);
    there.reset(a, 0).unwrap();
    let record = there.cut(NOW, 1000).unwrap();
    receive(&mut here, &record);
    assert_eq!(here.poll_ready(), Some(Ready::Open));
    assert!(here.open(NOW, 1, b"", None).is_ok());
}

#[test]
fn a_question_is_answered_with_what_has_arrived() {
    let [mut here, mut there] = pair(Limits::default());
    let id = open(&mut here, 1);
    write(&mut here, id, b"abc");
    here.ask();
    let record = here.cut(NOW, 1000).unwrap();
    receive(&mut there, &record);
    // The acknowledgement is lost with its path; the answer is not.
    let answer = there.cut(NOW, 1000).unwrap();
    receive(&mut here, &answer);
    assert_eq!((here.peer_arrived(), here.una()), (here.next_place(), here.next_place()));
}

#[test]
fn no_more_frames_are_outstanding_than_a_peer_keeps_gaps_and_a_question_gets_through() {
    let limits = Limits { first_credit: Bytes::new(1 << 20), streams: 4, ..Limits::default() };
    let [mut here, _] = pair(limits);
    let id = open(&mut here, 1);
    let mut count = 0;
    loop {
        write(&mut here, id, b"a");
        if here.cut(NOW, 1000).is_none() {
            break;
        }
        count += 1;
    }
    assert!(count < MOST_FRAMES && count > MOST_FRAMES / 2, "{count}");
    here.ask();
    assert_eq!(here.cut(NOW, 1000).map(|record| record.payload.len()), Some(1));
}

#[test]
fn records_that_are_given_up_while_an_early_one_is_late_leave_no_more_gaps_than_a_peer_keeps() {
    let [mut here, mut there] = pair(Limits::default());
    let late = open(&mut here, 1);
    here.cut(NOW, 1000).unwrap();
    let deadline = Some(Span::from_nanos(1));
    let mut count = 0;
    loop {
        here.send_datagram(NOW, late, 0, deadline, Payload::from_static(b"tick")).unwrap();
        let Some(record) = here.cut(NOW, 1000) else { break };
        count += 1;
        if count % 2 == 0 {
            assert!(!here.lost(Instant::from_millis(1), Instant::from_millis(1), record.place));
        } else {
            receive(&mut there, &record);
            here.acked(record.place);
        }
        while there.next_datagram().is_some() {}
    }
    // Every second record is a gap.
    assert!(count > MOST_FRAMES && count <= 2 * MOST_FRAMES, "{count}");
}

#[test]
fn bulk_does_not_keep_an_urgent_stream_from_writing() {
    let limits =
        Limits { send: Bytes::new(64_000), first_credit: Bytes::new(256 << 10), streams: 8, ..Limits::default() };
    let [mut here, mut there] = pair(limits);
    let (bulk, urgent) = (open(&mut here, 3), open(&mut here, 0));
    // Class 3 has half.
    assert_eq!(here.write(NOW, bulk, Payload::from_static(&[3; 100_000])), Ok(32_000));
    assert_eq!(here.write(NOW, urgent, Payload::from_static(&[0; 10_000])), Ok(10_000));
    assert_eq!(here.poll_ready(), None);
    while let Some(record) = here.cut(NOW, 1200) {
        receive(&mut there, &record);
        here.acked(record.place);
    }
    assert_eq!(here.poll_ready(), Some(Ready::Write(bulk)));
}

#[test]
fn a_writer_goes_on_when_datagrams_that_are_too_late_leave_room() {
    let mib = Bytes::new(1 << 20);
    let limits = Limits { send: mib, first_credit: mib, streams: 8, ..Limits::default() };
    // The first time before they are cut, the second after.
    for cut in [false, true] {
        let [mut here, _] = pair(limits);
        let id = open(&mut here, 0);
        here.cut(NOW, 1000).unwrap();
        let deadline = Some(Span::from_millis(10));
        while here.send_datagram(NOW, id, 1, deadline, Payload::from_static(&[0; 1000])).is_ok() {}
        let records: Vec<_> = std::iter::from_fn(|| if cut { here.cut(NOW, 1200) } else { None }).collect();
        let taken = here.write(NOW, id, Payload::from_static(&[0; 900_000])).unwrap();
        assert!(taken < 900_000 && here.poll_ready().is_none());
        let later = Instant::from_millis(10);
        assert!(records.iter().all(|record| !here.lost(later, later, record.place)));
        here.peek(later, 1200);
        assert_eq!(here.poll_ready(), Some(Ready::Write(id)));
    }
}
