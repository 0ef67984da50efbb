//! Datagrams beside a thousand streams that nobody reads: they can begin, and they find room.

use bytes::Bytes as Payload;
use weftway_mux::{DatagramError, Limits, Mux, Read, Ready, Side, StreamId};
use weftway_path::{Bytes, Instant, Span};

use crate::network::{Network, PathSpec};

const PATH: PathSpec = PathSpec { mbps: 400, delay: Span::from_millis(10), loss: 0.0, jitter: Span::ZERO, mtu: 1200 };
/// Number of fast readers that stop. A window is five halves of a round trip of 400 Mbit/s, 2.5 MB, or what is left of
/// its part.
const FAST: usize = 40;

fn write(mux: &mut Mux, now: Instant, id: StreamId) {
    while mux.write(now, id, Payload::from_static(&[3; 10_000])) == Ok(10_000) {}
}

/// The far end writes what it may, and the reader of `fast` takes all that comes, until a time.
fn go_on(network: &mut Network, fast: StreamId, until: Instant) {
    while network.now < until {
        let now = network.now;
        let [near, far] = &mut network.ends;
        while let Some(accepted) = far.mux.accept() {
            write(&mut far.mux, now, accepted.id);
        }
        while let Some(ready) = far.mux.poll_ready() {
            if let Ready::Write(id) = ready {
                write(&mut far.mux, now, id);
            }
        }
        while near.mux.poll_ready().is_some() {}
        while let Ok(Read::Bytes(bytes)) = near.mux.read(fast) {
            let count = bytes.len();
            near.mux.took(now, fast, count).unwrap();
        }
        network.flush();
        network.step(until);
    }
}

/// A thousand connections are open. Some of them were fast, one after the other, and nobody reads on. Without a part
/// that is kept, the last of them have so much of the memory that there is none for another stream, whatever it is for.
#[test]
fn datagrams_begin_beside_a_thousand_unread_streams() {
    let mut network = Network::new(&[PATH], Limits::default(), 5);
    let now = network.now;
    let streams: Vec<_> = (0..1000).map(|_| network.ends[0].mux.open(now, 2, b"", None).unwrap()).collect();
    for &fast in &streams[..FAST] {
        let until = network.now + Span::from_millis(300);
        go_on(&mut network, fast, until);
    }
    let now = network.now;
    let flow = network.ends[0].mux.open(now, 0, b"udp:", None).expect("there is memory for one more stream");
    // And for others: an eighth of 64 MiB without the slots of the relay's streams, 32.1 MiB, has 200 of 20 KiB.
    for _ in 0..199 {
        network.ends[0].mux.open(now, 2, b"", None).unwrap();
    }
    for end in &mut network.ends {
        end.mux.send_datagram(now, flow, 0, Some(Span::from_millis(500)), vec![7; 172].into()).unwrap();
    }
    go_on(&mut network, streams[0], now + Span::from_millis(60));
    for end in &mut network.ends {
        assert_eq!(end.mux.next_datagram(), Some((flow, vec![7; 172].into())));
    }
}

/// No record leaves: the streams fill what they may. Datagrams of each class have their eighth, 1 MiB of 8: each takes
/// its 100 bytes and 64.
#[test]
fn datagrams_have_memory_that_streams_do_not_take() {
    let now = Instant::ZERO;
    let own = Limits { send: Bytes::new(8 << 20), ..Limits::default() };
    for class in 0..3 {
        let mut mux = Mux::new(Side::Connecting, own, Limits::default()).unwrap();
        for _ in 0..1000 {
            let id = mux.open(now, 0, b"", None).unwrap();
            write(&mut mux, now, id);
        }
        let full = mux.send_memory();
        assert_eq!(full, 7 << 20, "streams take no more than seven eighths");
        let mut send = || mux.send_datagram(now, StreamId::CONTROL, class, None, vec![1; 100].into());
        for number in 0..(1 << 20) / 164 {
            assert_eq!(send(), Ok(()), "class {class}, {number}");
        }
        assert_eq!(send(), Err(DatagramError::Full));
        assert!(mux.send_memory() <= 8 << 20);
    }
}
