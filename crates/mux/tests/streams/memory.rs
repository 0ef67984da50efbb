//! Datagrams beside a thousand streams whose readers have stopped.

use weftway_mux::{Limits, Read, Ready, StreamId};
use weftway_path::{Instant, Span};

use crate::network::{Network, PathSpec};

const PATH: PathSpec = PathSpec { mbps: 100, delay: Span::from_millis(10), loss: 0.0, jitter: Span::ZERO, mtu: 1200 };
const STREAMS: usize = 1000;

/// Each reader of end 0 takes 100 kB and stops; end 1 always has more to write.
fn unread(network: &mut Network, taken: &mut [usize], until: Instant) {
    while network.now < until {
        drive(network, taken);
        network.flush();
        network.step(until);
    }
}

fn drive(network: &mut Network, taken: &mut [usize]) {
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
    while let Some(ready) = near.mux.poll_ready() {
        if let Ready::Read(id) = ready {
            let taken = &mut taken[id.number() as usize];
            while *taken < 100_000
                && let Ok(Read::Bytes(bytes)) = near.mux.read(id)
            {
                let count = bytes.len();
                *taken += count;
                near.mux.took(now, id, count).unwrap();
            }
        }
    }
}

fn write(mux: &mut weftway_mux::Mux, now: Instant, id: StreamId) {
    while mux.write(now, id, bytes::Bytes::from_static(&[3; 10_000])) == Ok(10_000) {}
}

#[test]
fn probe() {
    for class in [1, 2] {
        let mut network = Network::new(&[PATH], Limits::default(), 5);
        let now = network.now;
        let open = |_| network.ends[0].mux.open(now, class, b"", None).unwrap();
        let _streams: Vec<_> = (0..STREAMS).map(open).collect();
        let mut taken = vec![0; STREAMS];
        for ms in [500, 2000, 6000, 12_000] {
            let until = Instant::from_millis(ms);
            unread(&mut network, &mut taken, until);
            let now = network.now;
            let [near, far] = &mut network.ends;
            let id = StreamId::CONTROL;
            println!(
                "class {class}: near free {} receive {} send {}; far send {} unsent {} {:?}",
                near.mux.free_memory(), near.mux.receive_memory(), near.mux.send_memory(), far.mux.send_memory(), far.mux.unsent(),
                [0, 1, 2].map(|class| far.mux.send_datagram(now, id, class, None, vec![0; 100].into()))
            );
        }
    }
}
