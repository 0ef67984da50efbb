//! The default scheduler of MPTCP in today's Linux: the path that drains its send queue first.
//!
//! Rule: over active paths that are not stale, `argmin linger`, `linger = send queue /
//! average pacing rate`; backups if there is no active path. A path without a rate is passed over.
//! The path then carries a burst of `min(65428 bytes, window left)` and its average becomes
//! `(average·backlog + pacing·burst) / (backlog + burst)`. It stays chosen until the burst is used
//! and a fragment of the data ends, it falls out, its send memory is full, the next acknowledgement
//! comes, or what the application wrote at once is sent. There is no test of the congestion window:
//! TCP queues below.
//! Data that are sent again, because a subflow is stale or gone, follow the same rule.
//! Reference: Linux net/mptcp/protocol.c, mptcp_subflow_get_send, `__subflow_push_pending`.
//! State: average pacing rate per path; the path, the rest of the burst and the fragment.

use weftway_path::{BitRate, BlockedReason, Bytes, Context, Decision, Event, Health, Offset, Path, PathId, SendKind};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "linux-v1",
    aliases: &["linux", "mptcp-v1", "linux-default", "upstream"],
    version: 2,
    summary: "the path that would drain its send queue first, in bursts",
    reference: "Linux net/mptcp/protocol.c, mptcp_subflow_get_send",
    provenance: Provenance::Code,
    goal: "use of every path's memory",
    application: "general",
    inputs: &[Input::InFlight, Input::Rate, Input::Queue, Input::Window],
    needs: Needs { flow: true, queueing: true, events: true, ..Needs::NONE },
    waits: true,
    build: |_| Ok(Box::new(LinuxV1::default())),
    ..Entry::NEW
};

/// `MPTCP_SEND_BURST_SIZE`: 64 KiB less the headers of a full segment.
const BURST: Bytes = Bytes::new(65_536 - 20 - 40 - 40 - 8);

/// The bytes of a fragment, in which the kernel keeps what the application wrote: `PAGE_FRAG_CACHE_MAX_SIZE` less the
/// head of a `mptcp_data_frag`. The rest of a burst and free memory are looked at between fragments, not within one.
pub const FRAGMENT: u64 = 32 * 1024 - 40;

#[derive(Clone, Default)]
struct LinuxV1 {
    averages: PerPath<BitRate>,
    /// Burst that the last answer starts if it is carried out.
    planned: Option<Burst>,
    current: Option<Current>,
}

/// The burst that is being sent.
#[derive(Clone, Debug, PartialEq)]
struct Current {
    path: PathId,
    /// Rest of it.
    left: Bytes,
    /// It is not cut short by the peer's window.
    whole: bool,
    /// The fragment of the packet sent last.
    fragment: u64,
    /// The end of what the application had written: the push ends there.
    end: Offset,
}

#[derive(Clone, Copy)]
struct Burst {
    path: PathId,
    bytes: Bytes,
    average: BitRate,
    end: Offset,
}

impl LinuxV1 {
    /// The average, which starts as the rate at which the path is first looked at.
    fn note_averages(&mut self, cx: &Context<'_>) {
        for path in cx.paths {
            let average = self.averages.at(path.id);
            if *average == BitRate::ZERO {
                *average = path.pacing_rate;
            }
        }
    }

    fn average(&self, path: &Path) -> u64 {
        self.averages.get(path.id).map_or(0, |rate| rate.as_bps())
    }

    /// Returns true if `a` drains before `b`: `backlog_a/rate_a < backlog_b/rate_b`.
    fn drains_before(&self, a: &Path, b: &Path) -> bool {
        let product = |backlog: &Path, rate: &Path| backlog.send_memory().get() as u128 * self.average(rate) as u128;
        product(a, b) < product(b, a)
    }

    /// The path of least linger, memory or not.
    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        // An active path keeps backups out even while it has no rate yet and cannot be chosen itself.
        let has_active = usable(cx).any(Path::is_active);
        let rated = usable(cx).filter(|path| path.is_active() == has_active && self.average(path) > 0);
        choose::best(rated, |a, b| self.drains_before(a, b))
    }

    /// The path in the middle of its burst.
    fn going_on<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        // Each write ends with a push of its own, which begins with a choice.
        let current = self.current.as_ref().filter(|current| current.end == end_of(cx))?;
        let within = cx.packet.is_some_and(|packet| fragment_of(packet.offset) == current.fragment);
        let goes_on = current.left > Bytes::ZERO || (current.whole && within);
        usable(cx).find(|path| path.id == current.path).filter(|path| goes_on && has_memory(cx, path))
    }

    fn plan(&self, cx: &Context<'_>, path: &Path) -> Burst {
        let bytes = cx.flow.map_or(BURST, |flow| flow.credit().min(BURST));
        let (backlog, burst) = (path.send_memory().get() as u128, bytes.get() as u128);
        let average = self.average(path) as u128;
        let average = match backlog + burst {
            _ if burst == 0 => average,
            total => (average * backlog + path.pacing_rate.as_bps() as u128 * burst) / total,
        };
        Burst { path: path.id, bytes, average: BitRate::from_bps(average as u64), end: end_of(cx) }
    }
}

/// The paths that answer, are established, and take new data by the transport's own rules.
fn usable<'a>(cx: &Context<'a>) -> impl Iterator<Item = &'a Path> {
    let held = |path: &&Path| matches!(path.blocked, BlockedReason::Validation | BlockedReason::Transport);
    cx.paths.iter().filter(|path| path.health != Health::Stale).filter(move |path| !held(path))
}

/// The offset after what the application has written.
fn end_of(cx: &Context<'_>) -> Offset {
    cx.flow.map_or(Offset::ZERO, |flow| flow.end)
}

/// The number of the fragment that holds the byte at `offset`.
fn fragment_of(offset: Offset) -> u64 {
    offset.get() / FRAGMENT
}

fn has_memory(cx: &Context<'_>, path: &Path) -> bool {
    path.queue_room >= cx.packet.map_or(Bytes::new(1), |packet| packet.bytes)
}

impl Scheduler for LinuxV1 {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.planned = None;
        self.note_averages(cx);
        if cx.packet.is_none() {
            return Decision::Wait;
        }
        if let Some(path) = self.going_on(cx) {
            return Decision::Send(path.id);
        }
        let chosen = self.pick(cx).filter(|path| has_memory(cx, path));
        self.planned = chosen.map(|path| self.plan(cx, path));
        choose::send_or_wait(cx, chosen)
    }

    fn observe(&mut self, _: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(receipt, SendKind::Fresh | SendKind::Reinjection) => {
                if let Some(burst) = self.planned.take().filter(|burst| burst.path == receipt.path) {
                    *self.averages.at(burst.path) = burst.average;
                    self.current = Some(Current {
                        path: burst.path,
                        left: burst.bytes,
                        whole: burst.bytes == BURST,
                        fragment: 0,
                        end: burst.end,
                    });
                }
                if let Some(current) = self.current.as_mut().filter(|current| current.path == receipt.path) {
                    current.left = current.left.saturating_sub(receipt.bytes);
                    current.fragment = fragment_of(receipt.offset);
                }
            }
            Event::PathUp(path) => {
                self.averages.reset(path);
                self.current = None;
            }
            // Each acknowledgement pushes anew, and a push begins with a choice.
            Event::Acked(..) | Event::Lost(..) => self.current = None,
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        if let Some(current) = self.current.as_ref().filter(|_| self.going_on(cx).is_some()) {
            return Some(format!("{:?} goes on with its burst, {} left", current.path, current.left));
        }
        let path = self.pick(cx)?;
        let average = BitRate::from_bps(self.average(path));
        Some(format!("{:?} drains first: {} at {average}", path.id, path.send_memory()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{Bench, path};

    #[test]
    fn only_what_is_sent_moves_the_average() {
        let mut linux = LinuxV1::default();
        let mut bench = Bench::new(vec![path(0, 20, 100, 0)]);
        bench.paths[0].pacing_rate = BitRate::from_mbps(8);
        let answer = linux.select(&bench.context());
        bench.paths[0].pacing_rate = BitRate::from_mbps(4);
        assert_eq!(linux.select(&bench.context()), answer);
        assert_eq!(linux.averages.get(PathId::new(0)), Some(&BitRate::from_mbps(8)));
        let sent = bench.carry(answer).unwrap();
        linux.observe(&bench.context(), &sent);
        // No backlog: (8·0 + 4·65428)/65428. The burst has 65 428 - 1400 bytes left.
        assert_eq!(linux.averages.get(PathId::new(0)), Some(&BitRate::from_mbps(4)));
        let current = linux.current.unwrap();
        assert_eq!((current.path, current.left), (PathId::new(0), Bytes::new(64_028)));
    }

    /// Tests that the next write is a push of its own, which begins with a choice: the path that drains first, not the
    /// one in the middle of its burst.
    #[test]
    fn a_burst_ends_with_the_write() {
        let mut bench = Bench::new(vec![path(0, 20, 100, 0), path(1, 20, 100, 1)]);
        bench.paths.iter_mut().for_each(|path| path.pacing_rate = BitRate::from_mbps(8));
        let (mut linux, first, second) = (LinuxV1::default(), PathId::new(0), PathId::new(1));
        for _ in 0..3 {
            let answer = linux.select(&bench.context());
            // Path 0 goes on although path 1 drains first after two packets.
            assert_eq!(answer, Decision::Send(first));
            let sent = bench.carry(answer).unwrap();
            linux.observe(&bench.context(), &sent);
        }
        bench.flow.end += Bytes::new(1);
        assert_eq!(linux.select(&bench.context()), Decision::Send(second));
    }

    /// A burst that begins with packet 3, at 4200, is used up after 47 packets of 1400 bytes, at 70 000. It goes on to
    /// the end of the third fragment, at 98 184: packet 70 begins before, packet 71 after.
    #[test]
    fn a_burst_ends_with_a_fragment() {
        let mut bench = Bench::new(vec![path(0, 20, 1000, 0), path(1, 20, 1000, 0)]);
        bench.paths.iter_mut().for_each(|path| path.pacing_rate = BitRate::from_mbps(8));
        let mut linux = LinuxV1::default();
        let mut send = |linux: &mut LinuxV1| {
            let answer = linux.select(&bench.context());
            let sent = bench.carry(answer).unwrap();
            linux.observe(&bench.context(), &sent);
            answer
        };
        (0..3).for_each(|_| assert_eq!(send(&mut linux), Decision::Send(PathId::new(0))));
        // As an acknowledgement does.
        linux.current = None;
        (3..71).for_each(|n| assert_eq!(send(&mut linux), Decision::Send(PathId::new(1)), "packet {n}"));
        assert_eq!(send(&mut linux), Decision::Send(PathId::new(0)));
    }

    /// The heads of buffers count: 5 packets and 8 heads of 832 bytes drain after 9 packets.
    #[test]
    fn buffers_count_with_their_heads() {
        let mut bench = Bench::new(vec![path(0, 20, 100, 5), path(1, 20, 100, 9)]);
        bench.paths.iter_mut().for_each(|path| path.pacing_rate = BitRate::from_mbps(8));
        let mut linux = LinuxV1::default();
        assert_eq!(linux.select(&bench.context()), Decision::Send(PathId::new(0)));
        bench.paths[0].overhead = Bytes::new(8 * 832);
        assert_eq!(linux.select(&bench.context()), Decision::Send(PathId::new(1)));
    }

    /// Tests that data which arrived above a hole are in the send queue still: 9 packets of which 8 are retained drain
    /// after 5.
    #[test]
    fn what_is_retained_counts() {
        let mut bench = Bench::new(vec![path(0, 20, 100, 1), path(1, 20, 100, 5)]);
        bench.paths.iter_mut().for_each(|path| path.pacing_rate = BitRate::from_mbps(8));
        let mut linux = LinuxV1::default();
        assert_eq!(linux.select(&bench.context()), Decision::Send(PathId::new(0)));
        bench.paths[0].retained = Bytes::new(8 * bench.paths[0].mss.get());
        assert_eq!(linux.select(&bench.context()), Decision::Send(PathId::new(1)));
    }
}
