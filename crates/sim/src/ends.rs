//! The two ends of a connection: what the sender of the data keeps, and what their receiver keeps.

use weftway_cc::Share;
use weftway_host::sending::{Dispatch, Groups, Views};
use weftway_path::{BlockedReason, Bytes, Instant, Offset, Path, PathId, PathSet, Span};
use weftway_scenario::config::{Buffer, PathConfig, TransportConfig};
use weftway_scenario::stack::ReceiveWindow;

use crate::receiver::{MAX_BLOCKS, Receiver};
use crate::sender::PathSender;
use crate::wire::Ack;
use crate::writer::Writer;

/// The end that sends the data, below [`Dispatch`].
#[derive(Clone)]
pub struct SendEnd {
    pub senders: Vec<PathSender>,
    /// Shares that coupled controllers read of each other.
    pub shares: Vec<Share>,
    /// Which paths share a bottleneck.
    pub groups: Groups,
    pub writer: Writer,
    pub meta: MetaTimer,
    pub head_of_line: HeadOfLine,
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
    /// Timer of a connection that has sent nothing; `interval` is how long it runs when no subflow's timer is pending.
    pub fn new(interval: Span) -> Self {
        Self { at: Instant::NEVER, since: Instant::ZERO, backoff: 0, runs: interval, interval }
    }

    /// It counts from now on.
    #[inline]
    pub fn restart(&mut self, now: Instant) {
        (self.since, self.runs) = (now, self.interval);
    }
}

/// For whom data at the head are repeated and others penalised: the fastest open path.
#[derive(Clone)]
pub struct HeadOfLine {
    /// Time at which each path last had others penalised.
    pub penalised: Vec<Instant>,
    /// The path that was the fastest when it was last looked for.
    fastest: Option<PathId>,
    /// Paths that have changed since, in turns that are over.
    pub changed: PathSet,
}

impl HeadOfLine {
    /// State of a connection with so many paths.
    pub fn new(paths: usize) -> Self {
        Self { penalised: vec![Instant::ZERO; paths], fastest: None, changed: PathSet::EMPTY }
    }

    /// The open path with the smallest round-trip time, the first of equals. Only paths that have changed are compared
    /// with the one that was it before, unless that has changed itself.
    #[inline]
    pub fn fastest_open(&mut self, dispatch: &Dispatch) -> Option<PathId> {
        let Dispatch { views, question, .. } = dispatch;
        // Backups help out only when they are all there is.
        let only_backups = !views.usable().iter().any(Path::is_active);
        let changed = core::mem::take(&mut self.changed).or(question.changed);
        let before = self.fastest.filter(|&id| !changed.contains(id));
        let compared = before.map_or(question.open, |id| question.open.and(changed.with(id)));
        let fastest = |among: PathSet| {
            let paths = among.iter().map(|id| views.get(id)).filter(|path| only_backups || path.is_active());
            paths.min_by_key(|path| path.srtt).map(|path| path.id)
        };
        self.fastest = fastest(compared);
        debug_assert_eq!(self.fastest, fastest(question.open), "paths that change are noted");
        self.fastest
    }
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
    /// Number of acknowledgements under way that have them.
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
fn largest_window(transport: &TransportConfig) -> Option<Bytes> {
    let window = match transport.receive_buffer {
        Buffer::Fixed(bytes) => transport.stream_window.map_or(bytes, |stream| bytes.min(stream)),
        Buffer::Auto { max } => max,
    };
    (transport.rules.receive_window == ReceiveWindow::Credit).then(|| window.max(transport.mss))
}

impl SendEnd {
    /// A sender over these paths.
    pub fn new(transport: &TransportConfig, groups: Groups, senders: Vec<PathSender>, write: Bytes) -> Self {
        let paths = senders.len();
        Self {
            shares: senders.iter().map(|sender| Share { usable: false, ..sender.cc.share() }).collect(),
            senders,
            groups,
            writer: Writer::new(transport, write),
            meta: MetaTimer::new(transport.min_rto),
            head_of_line: HeadOfLine::new(paths),
        }
    }
}

/// Dispatch of packets to these paths, for a receiver that announces `edge`.
pub fn dispatch(transport: &TransportConfig, configs: &[PathConfig], groups: &Groups, edge: Offset) -> Dispatch {
    let view = |n: usize| {
        let mut path = Path::new(PathId::new(n as u8), transport.mss, transport.initial_cwnd());
        path.role = configs[n].role;
        path.bottleneck = groups.of(path.id);
        path.blocked = BlockedReason::Validation;
        path
    };
    let views = Views::new((0..configs.len()).map(view).collect());
    let mut dispatch = Dispatch::new(transport.mss, views, edge);
    dispatch.largest_window = largest_window(transport);
    dispatch
}

impl ReceiveEnd {
    /// A receiver of so many paths.
    pub fn new(transport: &TransportConfig, paths: usize) -> Self {
        Self { receiver: Receiver::new(transport, paths), described: Vec::new(), free: Vec::new() }
    }

    /// Writes down the blocks of an acknowledgement for path `id`; where they are. QUIC's acknowledgements with the
    /// same gaps share them: they differ in the end of the highest block, and in low ones that the sender has settled.
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
        let (transport, id) = (TransportConfig::mpquic(), PathId::new(0));
        let mut end = ReceiveEnd::new(&transport, 1);
        let mut arrive = |index: u64| {
            let data = Data { index, settled: 0, offset: Offset::ZERO, bytes: 1, echo: 0, sent_at: Instant::ZERO };
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
