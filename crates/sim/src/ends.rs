//! The two ends of a connection: what the sender of the data keeps, and what their receiver keeps.

use weftway_cc::Share;
use weftway_host::sending::{Groups, Outbox, Views};
use weftway_path::{BlockedReason, Bytes, Flow, Instant, Offset, Path, PathId, PathSet, Span};
use weftway_scenario::config::{Bottlenecks, Buffer, PathConfig, Transport};
use weftway_scenario::stack::ReceiveWindow;

use crate::net::Route;
use crate::question::Question;
use crate::receiver::{MAX_BLOCKS, Receiver};
use crate::sender::PathSender;
use crate::wire::Ack;

/// The end that sends the data.
#[derive(Clone)]
pub struct SendEnd {
    /// What schedulers see of each path.
    pub views: Views,
    pub senders: Vec<PathSender>,
    /// What coupled controllers read of each other.
    pub shares: Vec<Share>,
    /// Which paths share a bottleneck.
    pub groups: Groups,
    pub outbox: Outbox,
    pub flow: Flow,
    /// QUIC: the most that the receiver's limit is ever beyond what it has read.
    pub largest_window: Option<Bytes>,
    pub question: Question,
    pub writer: Writer,
    pub meta: MetaTimer,
    /// When to ask about a shut window.
    pub probe_at: Instant,
    pub relief: Relief,
}

/// How far the application's data come to the sender.
#[derive(Clone)]
pub struct Writer {
    /// How far the application writes ahead of what is acknowledged.
    pub buffer: u64,
    /// How far the buffer lets it write: a full one takes more when a third of it is free.
    pub writable: u64,
    /// How much it writes at once. Only Linux v1 tells writes apart.
    pub at_once: u64,
    /// What it has written.
    pub written: u64,
    /// When it was last looked at, and how far it could write then.
    pub writing: (Instant, u64),
    /// The end of the message in which chunks are being cut.
    pub message_end: u64,
    /// The last packet that was not full: its path and first byte.
    pub small: Option<(PathId, Offset)>,
    /// The path that took the last packet, and when.
    pub pushed: Option<(PathId, Instant)>,
    /// Where the fragment ends that is being sent.
    pub fragment: u64,
}

/// MPTCP's timer of the connection: when it fires, the oldest data are sent again.
#[derive(Clone)]
pub struct MetaTimer {
    pub at: Instant,
    pub since: Instant,
    pub backoff: u32,
    /// Linux v1: how long it runs since it was started.
    pub runs: Span,
    /// Linux v1: how long it will run when it is started next, as the last push found it.
    pub interval: Span,
}

impl MetaTimer {
    /// Of a connection that has sent nothing; `interval` is how long it runs when no subflow's timer is pending.
    fn new(interval: Span) -> Self {
        Self { at: Instant::NEVER, since: Instant::ZERO, backoff: 0, runs: interval, interval }
    }

    /// It counts from now on.
    #[inline]
    pub fn restart(&mut self, now: Instant) {
        (self.since, self.runs) = (now, self.interval);
    }
}

/// Whom opportunistic retransmission and penalisation are for: the fastest open path.
#[derive(Clone)]
pub struct Relief {
    /// When each path last had others penalised.
    pub last: Vec<Instant>,
    /// The path that was the fastest when it was last looked for.
    fastest: Option<PathId>,
    /// Paths that have changed since, in turns that are over.
    pub changed: PathSet,
}

/// The end that receives the data.
#[derive(Clone)]
pub struct ReceiveEnd {
    pub receiver: Receiver,
    /// Blocks of acknowledgements that are under way.
    pub described: Vec<Described>,
    /// Places in it that nobody uses.
    free: Vec<u32>,
}

/// The blocks of acknowledgements of one path.
#[derive(Clone)]
pub struct Described {
    path: PathId,
    /// The gaps between the blocks ([`crate::wire::Ack::gaps`]).
    gaps: u32,
    /// How many acknowledgements under way have them.
    users: u32,
    count: usize,
    blocks: [(u64, u64); MAX_BLOCKS],
}

impl Described {
    /// The blocks of an acknowledgement.
    pub fn blocks(&mut self, ack: &Ack, quic: bool) -> &[(u64, u64)] {
        if quic {
            self.blocks[0].1 = ack.highest;
        }
        &self.blocks[..self.count]
    }
}

/// The most that QUIC's limit is beyond what was read: the receive buffer.
fn largest_window(transport: &Transport) -> Option<Bytes> {
    let window = match transport.receive_buffer {
        Buffer::Fixed(bytes) => transport.stream_window.map_or(bytes, |stream| bytes.min(stream)),
        Buffer::Auto { max } => max,
    };
    (transport.rules.receive_window == ReceiveWindow::Credit).then(|| window.max(transport.mss))
}

/// The paths that share a bottleneck, as the scenario says or as is found out.
fn groups(source: Bottlenecks, routes: &[Route]) -> Groups {
    let given = |at: usize| {
        let via = routes[at].via;
        let first = routes.iter().position(|route| via.is_some() && route.via == via);
        Some(first.unwrap_or(at) as u8)
    };
    match source {
        Bottlenecks::None => Groups::given(vec![None; routes.len()]),
        Bottlenecks::Given => Groups::given((0..routes.len()).map(given).collect()),
        Bottlenecks::Detected => Groups::detected(routes.len()),
    }
}

impl SendEnd {
    /// A sender whose receiver announces `edge`.
    pub fn new(
        transport: &Transport,
        configs: &[PathConfig],
        routes: &[Route],
        senders: Vec<PathSender>,
        write: Bytes,
        edge: Offset,
    ) -> Self {
        let paths = configs.len();
        let groups = groups(transport.bottlenecks, routes);
        let view = |n: usize| {
            let mut path = Path::new(PathId::new(n as u8), transport.mss, transport.initial_cwnd());
            path.role = configs[n].role;
            path.bottleneck = groups.of(path.id);
            path.blocked = BlockedReason::Validation;
            path
        };
        Self {
            views: Views::new((0..paths).map(view).collect()),
            shares: senders.iter().map(|sender| Share { usable: false, ..sender.cc.share() }).collect(),
            senders,
            groups,
            outbox: Outbox::default(),
            flow: Flow { edge, ..Flow::default() },
            largest_window: largest_window(transport),
            question: Question::new(paths),
            writer: Writer::new(transport, write),
            meta: MetaTimer::new(transport.min_rto),
            probe_at: Instant::NEVER,
            relief: Relief { last: vec![Instant::ZERO; paths], fastest: None, changed: PathSet::EMPTY },
        }
    }
}

impl SendEnd {
    /// The open path with the smallest round-trip time, the first of equals. Only paths that have changed are compared with
    /// the one that was it before, unless that has changed itself.
    #[inline]
    pub fn fastest_open(&mut self) -> Option<PathId> {
        let Self { views, question, relief, .. } = self;
        // Backups help out only when they are all there is.
        let only_backups = !views.usable().iter().any(Path::is_active);
        let changed = core::mem::take(&mut relief.changed).or(question.dirty);
        let before = relief.fastest.filter(|&id| !changed.contains(id));
        let compared = before.map_or(question.open, |id| question.open.and(changed.with(id)));
        let fastest = |among: PathSet| {
            let paths = among.iter().map(|id| views.get(id)).filter(|path| only_backups || path.is_active());
            paths.min_by_key(|path| path.srtt).map(|path| path.id)
        };
        relief.fastest = fastest(compared);
        debug_assert_eq!(relief.fastest, fastest(question.open), "paths that change are noted");
        relief.fastest
    }
}

impl Writer {
    fn new(transport: &Transport, write: Bytes) -> Self {
        Self {
            buffer: 0,
            writable: 0,
            at_once: if transport.rules.pushes_fragments { write.get() } else { u64::MAX },
            written: 0,
            writing: (Instant::ZERO, 0),
            message_end: 0,
            small: None,
            pushed: None,
            fragment: 0,
        }
    }
}

impl ReceiveEnd {
    /// A receiver of so many paths.
    pub fn new(transport: &Transport, paths: usize) -> Self {
        Self { receiver: Receiver::new(transport, paths), described: Vec::new(), free: Vec::new() }
    }

    /// Writes down the blocks of an acknowledgement for path `id`; where they are. QUIC's acknowledgements with the same
    /// gaps share them: they differ in the end of the highest block, and in low ones that the sender has settled.
    #[inline(never)]
    pub fn describe_gaps(&mut self, id: PathId, quic: bool) -> u32 {
        let path = &mut self.receiver.paths[id.index()];
        if let Some(described) = self.described.get_mut(path.described)
            && quic
            && described.users > 0
            && (described.path, described.gaps) == (id, path.gaps)
        {
            described.users += 1;
            return path.described as u32;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            let blocks = [(0, 0); MAX_BLOCKS];
            self.described.push(Described { path: id, gaps: 0, users: 0, count: 0, blocks });
            self.described.len() as u32 - 1
        });
        let described = &mut self.described[place as usize];
        (described.path, described.gaps, described.users) = (id, path.gaps, 1);
        described.count = path.blocks(quic, &mut described.blocks);
        path.described = place as usize;
        place
    }

    /// An acknowledgement with the blocks at `place` is not under way any more.
    pub fn forget_gaps(&mut self, place: u32) {
        let described = &mut self.described[place as usize];
        described.users -= 1;
        if described.users == 0 {
            self.free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Data;

    /// Packet 1 is missing. 2 and then 3 extend one block; 5 begins another.
    #[test]
    fn acknowledgements_with_equal_gaps_share_their_blocks() {
        let (transport, id) = (Transport::mpquic(), PathId::new(0));
        let mut end = ReceiveEnd::new(&transport, 1);
        let mut arrive = |index: u64| {
            let data = Data { index, settled: 0, offset: Offset::ZERO, bytes: 1, sent_at: Instant::ZERO };
            end.receiver.paths[0].arrive(Instant::ZERO, &data, false, &transport);
            (index > 0).then(|| (end.describe_gaps(id, true), end.receiver.paths[0].highest()))
        };
        let [_, first, second, third] = [0, 2, 3, 5].map(&mut arrive);
        let (first, second, third) = (first.unwrap(), second.unwrap(), third.unwrap());
        assert_eq!((first.0, first.1, second.1, third.1), (second.0, 3, 4, 6));
        assert_ne!(first.0, third.0);
        // The place is free again when neither of the two is under way.
        end.forget_gaps(first.0);
        assert!(end.free.is_empty());
        end.forget_gaps(second.0);
        assert_eq!(end.free, [first.0]);
        assert_eq!(end.described[third.0 as usize].blocks[..2], [(5, 6), (2, 4)]);
    }
}
