//! Readers that are fast, and then stop: the rate of another one beside them, and the memory that they hold.

use std::collections::BTreeMap;

use bytes::Bytes as Payload;
use weftway_mux::{Limits, Mux, Read, Ready, StreamId};
use weftway_path::{Bytes, Instant, Span};

use crate::network::{Network, PathSpec};

/// 76 Mbit/s together.
const PATHS: [PathSpec; 2] = [path(60, 10), path(16, 30)];

/// Records are long, so that there are few.
const fn path(mbps: u64, delay: u64) -> PathSpec {
    PathSpec { mbps, delay: Span::from_millis(delay), loss: 0.0, jitter: Span::ZERO, mtu: 6000 }
}

/// Byte `at` of every stream, which does not repeat within 64 KiB.
fn byte(at: u64) -> u8 {
    (at ^ ((at >> 8) * 31)) as u8
}

/// Direction of the bytes on the streams, all of which the end that connects opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Down,
    Up,
}

/// The reader of an endless stream.
#[derive(Clone, Copy, Debug)]
struct Reader {
    read: u64,
    /// It stops when it has read so much.
    until: u64,
}

struct World {
    network: Network,
    way: Way,
    written: BTreeMap<StreamId, u64>,
    readers: BTreeMap<StreamId, Reader>,
    /// 64 KiB twice.
    pattern: Payload,
}

impl World {
    fn new(paths: &[PathSpec], way: Way, mebibytes: u64) -> Self {
        let limits = Limits { receive: Bytes::new(mebibytes << 20), ..Limits::default() };
        let pattern: Vec<u8> = (0..2u64 << 16).map(|at| byte(at % (1 << 16))).collect();
        Self {
            network: Network::new(paths, limits, 7),
            way,
            written: BTreeMap::new(),
            readers: BTreeMap::new(),
            pattern: pattern.into(),
        }
    }

    /// The end that reads.
    fn reading(&self) -> usize {
        usize::from(self.way == Way::Up)
    }

    fn mux(&mut self) -> &mut Mux {
        let reading = self.reading();
        &mut self.network.ends[reading].mux
    }

    /// A stream whose reader stops when it has read so much.
    fn open(&mut self, until: u64) -> StreamId {
        let (now, way) = (self.network.now, self.way);
        let id = self.network.ends[0].mux.open(now, 2, b"", None).unwrap();
        self.readers.insert(id, Reader { read: 0, until });
        match way {
            Way::Down => self.read(id),
            Way::Up => self.write(id),
        }
        id
    }

    fn write(&mut self, id: StreamId) {
        let (now, mux) = (self.network.now, &mut self.network.ends[1 - self.reading()].mux);
        let written = self.written.entry(id).or_default();
        loop {
            let from = (*written % (1 << 16)) as usize;
            // The other end may have reset it.
            let Ok(taken) = mux.write(now, id, self.pattern.slice(from..from + 10_000)) else { return };
            *written += taken as u64;
            if taken < 10_000 {
                return;
            }
        }
    }

    fn read(&mut self, id: StreamId) {
        let (now, reading) = (self.network.now, self.reading());
        let (mux, Some(reader)) = (&mut self.network.ends[reading].mux, self.readers.get_mut(&id)) else { return };
        while reader.read < reader.until
            && let Ok(Read::Bytes(bytes)) = mux.read(id)
        {
            let count = (bytes.len() as u64).min(reader.until - reader.read) as usize;
            let from = (reader.read % (1 << 16)) as usize;
            assert!(bytes[..count] == self.pattern[from..from + count], "at {}", reader.read);
            mux.took(now, id, count).unwrap();
            reader.read += count as u64;
        }
    }

    /// Whatever happens until then, or at the next moment.
    fn go_on(&mut self, until: Instant) {
        for end in 0..2 {
            while let Some(ready) = self.network.ends[end].mux.poll_ready() {
                let id = match ready {
                    Ready::Accept => {
                        let Some(accepted) = self.network.ends[end].mux.accept() else { continue };
                        accepted.id
                    }
                    Ready::Read(id) | Ready::Write(id) => id,
                    _ => continue,
                };
                if end == self.reading() { self.read(id) } else { self.write(id) }
            }
        }
        let memory = self.mux().limits().0.receive.get();
        assert!(self.mux().receive_memory() as u64 <= memory, "more than is promised");
        self.network.flush();
        self.network.step(until);
    }

    fn pass(&mut self, span: Span) {
        let end = self.network.now + span;
        while self.network.now < end {
            self.go_on(end);
        }
    }

    /// Readers that stop, one after the other. Each reads so many bytes as fast as it can before.
    fn stop(&mut self, readers: usize, bytes: u64) -> Vec<StreamId> {
        let read = |world: &mut Self| {
            let id = world.open(bytes);
            while world.readers[&id].read < bytes {
                world.go_on(Instant::NEVER);
            }
            id
        };
        (0..readers).map(|_| read(self)).collect()
    }

    /// Mbit/s of a further reader in its second second.
    fn rate(&mut self) -> f64 {
        let id = self.open(u64::MAX);
        self.pass(Span::from_secs(1));
        let before = self.readers[&id].read;
        self.pass(Span::from_secs(1));
        (self.readers[&id].read - before) as f64 * 8e-6
    }
}

/// Beside `readers` that have stopped after so many bytes each, a further one has nine tenths of the paths' rate.
/// Headers take some 1 %.
fn check_rate(paths: &[PathSpec], way: Way, mebibytes: u64, (readers, bytes): (usize, u64)) {
    let mut world = World::new(paths, way, mebibytes);
    world.stop(readers, bytes);
    let (rate, most) = (world.rate(), paths.iter().map(|path| path.mbps).sum::<u64>() as f64);
    assert!(rate > 0.9 * most, "{way:?}, beside {readers}: {rate:.1} of {most} Mbit/s");
}

/// Each of the readers had the whole rate before it stopped.
#[test]
fn a_reader_has_its_rate_beside_eighty_that_have_stopped() {
    check_rate(&PATHS, Way::Down, 256, (80, 4_000_000));
}

/// The least memory: half of what is left beside what each stream begins with are 57 windows of 256 KiB, and the path's
/// round trip needs 150 kB.
#[test]
fn a_small_memory_leaves_each_reader_a_window_of_256_kib() {
    for way in [Way::Down, Way::Up] {
        check_rate(&PATHS[..1], way, 64, (60, 1_000_000));
    }
}

/// Readers that go on find all that they left, and the memory that they were promised is free again.
#[test]
fn readers_that_stop_and_go_on_miss_nothing() {
    for way in [Way::Down, Way::Up] {
        let mut world = World::new(&PATHS, way, 96);
        let free = world.mux().free_memory();
        let readers = world.stop(30, 500_000);
        world.pass(Span::from_secs(2));
        let now = world.network.now;
        let left: u64 = readers.iter().map(|&id| world.mux().left_unread(now, id)).sum();
        assert!(left > 30 * (200 << 10), "{left}");
        for round in 2..4 {
            for &id in &readers {
                world.readers.get_mut(&id).unwrap().until = 500_000 * round;
                world.read(id);
            }
            while readers.iter().any(|id| world.readers[id].read < 500_000 * round) {
                world.go_on(Instant::NEVER);
            }
            world.pass(Span::from_millis(1500));
        }
        for &id in &readers {
            world.mux().reset(id, 0).unwrap();
        }
        world.pass(Span::from_secs(1));
        let streams = match way {
            Way::Down => world.mux().open_streams(),
            Way::Up => 0,
        };
        assert_eq!((streams, world.mux().free_memory(), world.mux().receive_memory()), (0, free, 0));
    }
}

/// 300 Mbit/s over a round trip of 100 ms are 3.75 MB. The default memory, which is the least, has a window for it.
#[test]
fn a_long_fast_path_is_filled_by_one_stream() {
    check_rate(&[path(300, 50)], Way::Down, 64, (0, 0));
}

/// The unread bytes of a reader that has stopped are reported, and not those of one that waits for more.
#[test]
fn unread_bytes_of_a_stopped_reader_are_reported() {
    let mut world = World::new(&PATHS, Way::Down, 64);
    let stopped = world.stop(1, 1_000_000)[0];
    let reads = world.open(u64::MAX);
    world.pass(Span::from_millis(900));
    let now = world.network.now;
    assert_eq!(world.mux().left_unread(now, stopped), 0, "it stopped less than a second ago");
    world.pass(Span::from_millis(300));
    let now = world.network.now;
    let left = world.mux().left_unread(now, stopped);
    assert!(left > 0 && left <= world.mux().receive_memory() as u64, "{left}");
    assert_eq!(world.mux().left_unread(now, reads), 0);
    world.readers.get_mut(&stopped).unwrap().until = u64::MAX;
    world.read(stopped);
    assert_eq!(world.mux().left_unread(now, stopped), 0);
}
