//! Tests of delay: a reader that stops delays nobody else; bulk delays an urgent message hardly.

use bytes::Bytes as Payload;
use weftway_mux::{Limits, Mux, Read, StreamId};
use weftway_path::{Bytes, Instant, Span};

use crate::load::{Load, Script};
use crate::network::{Network, PathSpec};

const PATH: PathSpec = PathSpec { mbps: 20, delay: Span::from_millis(25), loss: 0.0, jitter: Span::ZERO, mtu: 1200 };

/// Runs until the streams of `live` are read; when each was, and how much was written on each of the others.
fn run(scripts: Vec<Script>, live: std::ops::Range<usize>) -> (Vec<Instant>, Vec<u64>) {
    let limits = Limits { receive: Bytes::new(2 << 20), streams: 40, ..Limits::default() };
    let mut network = Network::new(&[PATH], limits, 3);
    let mut load = Load::new(scripts);
    let is_read = |load: &Load| live.clone().all(|number| load.states[1][number].read == load.scripts[number].sizes[0]);
    while !is_read(&load) {
        load.drive(&mut network);
        network.flush();
        network.step(load.next_tick());
        assert!(network.now < Instant::ZERO + Span::from_secs(100), "nobody waits for ever");
        assert!(network.ends[1].mux.receive_memory() as u64 <= limits.receive.get());
    }
    let written = load.states[0].iter().map(|state| state.written).collect();
    (load.states[1][live.clone()].iter().map(|state| state.read_at).collect(), written)
}

/// Ten streams beside thirty whose readers take `pace` bytes in 10 ms and at some point nothing any more.
fn scripts(stalled: impl Iterator<Item = Script>) -> Vec<Script> {
    stalled.chain((0..10).map(|_| Script::bulk(300_000, 2))).collect()
}

#[test]
fn a_reader_that_stops_delays_no_other_stream_by_more_than_a_round_trip() {
    // Thirty readers that never read, of streams that would fill all memory many times.
    let stopped = (0..30).map(|_| Script { paces: [u64::MAX, 0], ..Script::bulk(10_000_000, 2) });
    let (beside_stopped, written) = run(scripts(stopped), 30..40);
    assert!(written[..30].iter().all(|&bytes| bytes > 0 && bytes < 100_000), "{written:?}");
    // The same bytes, and readers that take them.
    let reading = written[..30].iter().map(|&bytes| Script::bulk(bytes, 2));
    let (beside_reading, _) = run(scripts(reading), 30..40);
    for (stopped, reading) in beside_stopped.into_iter().zip(beside_reading) {
        assert!(stopped <= reading + PATH.rtt(), "{stopped} and {reading}");
    }
}

/// The 99th percentile of how late messages of 1 kB arrive, in an urgent stream, beside so many streams of bulk.
fn p99(path: PathSpec, bulk: usize) -> Span {
    // Enough credit for the messages that wait for a lost one.
    let limits = Limits { first_credit: Bytes::new(64 << 10), streams: 64, ..Limits::default() };
    let mut network = Network::new(&[path], limits, 5);
    let urgent = network.ends[0].mux.open(network.now, 0, b"", None).unwrap();
    let bulk: Vec<_> = (0..bulk).map(|_| network.ends[0].mux.open(network.now, 3, b"", None).unwrap()).collect();
    let period = Span::from_millis(20);
    let (mut written, mut arrived) = (Vec::new(), Vec::new());
    let mut read = 0;
    while arrived.len() < 3000 {
        let now = network.now;
        if written.len() < 3000 && now >= Instant::ZERO + period * written.len() as u64 {
            assert_eq!(network.ends[0].mux.write(now, urgent, Payload::from_static(&[1; 1000])), Ok(1000));
            written.push(now);
        }
        for &id in &bulk {
            while network.ends[0].mux.write(now, id, Payload::from_static(&[3; 10_000])) == Ok(10_000) {}
            take_all(&mut network.ends[1].mux, now, id);
        }
        read += take_all(&mut network.ends[1].mux, now, urgent);
        while arrived.len() < read / 1000 {
            arrived.push(now);
        }
        network.flush();
        network.step(if written.len() < 3000 { Instant::ZERO + period * written.len() as u64 } else { Instant::NEVER });
    }
    let mut late: Vec<Span> = arrived.iter().zip(&written).map(|(arrived, written)| arrived.since(*written)).collect();
    late.sort();
    late[late.len() * 99 / 100]
}

fn take_all(mux: &mut Mux, now: Instant, id: StreamId) -> usize {
    while mux.accept().is_some() {}
    let mut read = 0;
    while let Ok(Read::Bytes(bytes)) = mux.read(id) {
        let count = bytes.len();
        mux.took(now, id, count).unwrap();
        read += count;
    }
    read
}

#[test]
fn an_urgent_message_is_hardly_later_beside_bulk_than_alone() {
    for path in [PATH, PathSpec { loss: 0.02, jitter: Span::from_millis(2), ..PATH }] {
        let (alone, beside) = (p99(path, 0), p99(path, 5));
        assert!(beside <= alone.mul_div(12, 10), "{beside} beside bulk, {alone} alone");
    }
}
