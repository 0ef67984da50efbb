//! Acknowledgements as picoquic 1.1.53 sends them: one packet tells of all paths
//! (`picoquic_is_ack_needed`, `picoquic_sort_available_paths`).
//!
//! There are two kinds, each with its own account of what it has told. A nominal acknowledgement leaves on the path of
//! the shortest round trip, a copy on the path that sent longest ago. Round trips are those of handshake messages,
//! which are padded both ways: a receiver of data measures no others. Either kind is due when two packets of one path
//! have come since the last of its kind, or 1 ms after the first. From the first gap on each packet is acknowledged at
//! once: with several paths picoquic takes the mark of a gap off another account than that on which it set it. A
//! nominal one waits while a path that was opened before the shortest one sent longer ago; copies alone then tell of
//! every eighth packet.
//!
//! Departures: the longer intervals at high rates (`picoquic_compute_ack_gap_and_delay`), and old ranges left out of
//! long acknowledgements (`picoquic_sack_select_ack_ranges`), are not followed.

use weftway_path::{Instant, PathId, PathSet, Span};

/// Packets of one path after which an acknowledgement is due (`ack_gap_remote`).
const PACKETS: u64 = 2;
/// Time after which one is due (`PICOQUIC_ACK_DELAY_MIN`).
const DELAY: Span = Span::from_millis(1);
/// Packets of one path after which one is due that nothing has asked for.
const UNASKED_PACKETS: u64 = 8;

/// The kinds of acknowledgements, as places of their accounts.
const NOMINAL: usize = 0;
const COPY: usize = 1;

/// Account of one kind of acknowledgements, for one path or for all.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// A packet has asked for an acknowledgement since the last.
    owes: bool,
    /// Time at which it came.
    since: Instant,
    /// Number of the highest packet that was told of, plus one.
    told: u64,
    /// Time at which the last one left.
    told_at: Instant,
}

impl Account {
    /// Returns true if an acknowledgement is due, with all packets below `top` there; `due` becomes the time at which
    /// one will be if it is earlier.
    fn is_due(&self, now: Instant, top: u64, gap: bool, due: &mut Instant) -> bool {
        if !self.owes {
            return self.told + UNASKED_PACKETS <= top && self.told_at + DELAY <= now;
        }
        let latest = self.since + DELAY;
        let is_due = gap || self.told + PACKETS <= top || latest <= now;
        if !is_due {
            *due = latest.min(*due);
        }
        is_due
    }
}

/// State of one path.
#[derive(Clone, Copy, Debug, Default)]
struct Inbound {
    accounts: [Account; 2],
    /// Round trip of its handshake.
    rtt: Span,
    /// Number of the highest packet that has arrived, plus one.
    top: u64,
    /// Time at which an acknowledgement last left on it.
    sent_at: Instant,
}

/// Acknowledgements of all paths together.
#[derive(Clone, Debug)]
pub struct PicoquicAcks {
    paths: Vec<Inbound>,
    /// Accounts of all paths together.
    all: [Account; 2],
    /// A packet has come out of order.
    gap: bool,
    /// Paths in the order in which they were opened.
    opened: Vec<PathId>,
    /// Time at which an acknowledgement is due at the latest.
    pub due: Instant,
}

impl PicoquicAcks {
    /// A receiver for `paths` paths.
    pub fn new(paths: usize) -> Self {
        Self {
            paths: vec![Inbound::default(); paths],
            all: Default::default(),
            gap: false,
            opened: Vec::with_capacity(paths),
            due: Instant::NEVER,
        }
    }

    /// Path `id` is being opened, if it was not before.
    pub fn open(&mut self, id: PathId) {
        if !self.opened.contains(&id) {
            self.opened.push(id);
        }
    }

    /// Path `id` is up; its handshake took `rtt`.
    pub fn set_rtt(&mut self, id: PathId, rtt: Span) {
        self.paths[id.index()].rtt = rtt;
    }

    /// A packet that asks for an acknowledgement has come on path `id`; data have a `number` there.
    pub fn arrived(&mut self, now: Instant, id: PathId, number: Option<u64>) {
        let path = &mut self.paths[id.index()];
        if let Some(number) = number {
            self.gap |= number > path.top;
            path.top = path.top.max(number + 1);
        }
        for accounts in [&mut path.accounts, &mut self.all] {
            // Copies owe nothing more until a nominal one has left (`picoquic_set_ack_needed`).
            if !accounts[NOMINAL].owes {
                for account in accounts {
                    (account.owes, account.since) = (true, now);
                }
            }
        }
    }

    /// Path `id` has come up anew, and its packets are numbered from zero.
    pub fn renew(&mut self, id: PathId) {
        let path = &mut self.paths[id.index()];
        *path = Inbound { rtt: path.rtt, ..Inbound::default() };
    }

    /// The next acknowledgement to leave now, if there is one: its path, one of those that are `up`. With `must` it is a
    /// nominal one, due or not. [`due`](Self::due) is set.
    pub fn next(&mut self, now: Instant, up: PathSet, must: bool) -> Option<PathId> {
        self.due = Instant::NEVER;
        let (mut nominal, mut idle): (Option<PathId>, Option<PathId>) = (None, None);
        // No path that was opened before the nominal one sent longer ago.
        let mut may_send = false;
        for &id in self.opened.iter().filter(|&&id| up.contains(id)) {
            let path = &self.paths[id.index()];
            if nominal.is_none_or(|shortest| path.rtt < self.paths[shortest.index()].rtt) {
                (nominal, may_send) = (Some(id), false);
            }
            if idle.is_none_or(|idle| path.sent_at < self.paths[idle.index()].sent_at) {
                idle = Some(id);
                may_send |= nominal == idle;
            }
        }
        let (nominal, idle) = (nominal?, idle?);
        let is_nominal = must || self.is_due(now, NOMINAL) && may_send;
        let by = if is_nominal { nominal } else { idle };
        let kind = if by == nominal { NOMINAL } else { COPY };
        if !must && !self.is_due(now, kind) {
            return None;
        }
        self.told(now, by, kind);
        Some(by)
    }

    fn is_due(&mut self, now: Instant, kind: usize) -> bool {
        let Self { paths, all, gap, opened, due } = self;
        // The account of all paths has no packets of its own.
        all[kind].is_due(now, 0, *gap, due)
            || opened
                .iter()
                .map(|id| &paths[id.index()])
                .any(|path| path.accounts[kind].is_due(now, path.top, false, due))
    }

    fn told(&mut self, now: Instant, by: PathId, kind: usize) {
        for path in &mut self.paths {
            path.accounts[kind] = Account { owes: false, told: path.top, told_at: now, ..path.accounts[kind] };
        }
        self.all[kind].owes = false;
        self.paths[by.index()].sent_at = now;
        self.gap &= self.paths.len() > 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Span = Span::from_micros(200);

    /// A receiver of three paths, whose round trips take 50, 20 and 80 ms.
    struct Lab {
        acks: PicoquicAcks,
        up: PathSet,
        now: Instant,
    }

    impl Lab {
        fn new() -> Self {
            let (mut acks, mut up) = (PicoquicAcks::new(3), PathSet::EMPTY);
            for (id, ms) in [(0, 50), (1, 20), (2, 80)] {
                acks.set_rtt(PathId::new(id), Span::from_millis(ms));
                up = up.with(PathId::new(id));
            }
            Self { acks, up, now: Instant::ZERO }
        }

        /// Packet `number` comes on path `id`, which is opened if it was not before, 200 us after the last: the paths on
        /// which acknowledgements leave.
        fn come(&mut self, id: u8, number: u64) -> Vec<u8> {
            self.now += STEP;
            self.acks.open(PathId::new(id));
            self.acks.arrived(self.now, PathId::new(id), Some(number));
            self.leave()
        }

        fn leave(&mut self) -> Vec<u8> {
            core::iter::from_fn(|| self.acks.next(self.now, self.up, false)).map(PathId::get).collect()
        }
    }

    const NONE: [u8; 0] = [];

    #[test]
    fn two_packets_of_one_path_or_a_millisecond_make_one_due() {
        let mut lab = Lab::new();
        assert_eq!(lab.come(0, 0), NONE);
        assert_eq!(lab.acks.due, lab.now + DELAY);
        assert_eq!(lab.come(0, 1), [0]);
        assert_eq!(lab.acks.due, Instant::NEVER);
        assert_eq!(lab.come(0, 2), NONE);
        lab.now = lab.acks.due;
        assert_eq!(lab.leave(), [0]);
        assert_eq!(lab.leave(), NONE, "it has told of all");
    }

    #[test]
    fn a_limit_that_was_raised_leaves_at_once_and_tells_of_what_has_come() {
        let mut lab = Lab::new();
        assert_eq!(lab.come(0, 0), NONE);
        assert_eq!(lab.acks.next(lab.now, lab.up, true), Some(PathId::new(0)));
        assert_eq!(lab.come(0, 1), NONE, "the first is told of");
    }

    #[test]
    fn a_copy_leaves_on_the_path_that_sent_longest_ago() {
        let mut lab = Lab::new();
        lab.come(0, 0);
        assert_eq!(lab.come(0, 1), [0]);
        assert_eq!(lab.come(2, 0), [2], "of two packets of path 0, which no copy has told of");
        assert_eq!(lab.come(2, 1), [0]);
        // Path 1 has sent nothing yet: the nominal one need not wait. Of 0 and 2, path 2 sent longer ago.
        assert_eq!(lab.come(1, 0), NONE);
        assert_eq!(lab.come(1, 1), [1, 2]);
    }

    /// The nominal acknowledgement waits while path 2, opened before path 1, has sent no later. Copies are then due
    /// after eight packets, not two.
    #[test]
    fn eight_packets_wait_while_an_earlier_path_sent_longer_ago() {
        let mut lab = Lab::new();
        for (id, number) in [(0, 0), (0, 1), (2, 0), (2, 1), (1, 0), (1, 1)] {
            lab.come(id, number);
        }
        assert_eq!(lab.come(1, 2), NONE);
        assert_eq!(lab.come(1, 3), [0], "a copy alone");
        for number in 4..11 {
            assert_eq!(lab.come(1, number), NONE, "packet {number}");
        }
        assert_eq!(lab.come(1, 11), [2, 1]);
    }

    #[test]
    fn from_the_first_gap_on_each_packet_is_acknowledged() {
        let mut lab = Lab::new();
        for (id, number) in [(1, 0), (1, 1), (0, 0), (0, 1)] {
            lab.come(id, number);
        }
        assert_eq!(lab.come(1, 3), [1, 0]);
        for number in 4..8 {
            assert!(lab.come(1, number).contains(&1), "packet {number}");
        }
        // With one path the acknowledgement takes the mark off.
        let mut lab = Lab { acks: PicoquicAcks::new(1), ..Lab::new() };
        assert_eq!(lab.come(0, 1), [0]);
        assert_eq!(lab.come(0, 2), NONE);
    }

    #[test]
    fn a_path_that_comes_up_anew_counts_from_zero_and_one_that_is_down_is_not_taken() {
        let mut lab = Lab::new();
        for (id, number) in [(1, 0), (1, 1), (0, 0), (0, 1)] {
            lab.come(id, number);
        }
        lab.acks.renew(PathId::new(1));
        assert_eq!(lab.come(1, 0), NONE, "no gap, and the first of two");
        let all = lab.up;
        lab.up = all.without(PathId::new(1));
        assert_eq!(lab.come(0, 2), NONE);
        assert_eq!(lab.come(0, 3), [0]);
        lab.up = PathSet::EMPTY;
        assert_eq!((lab.come(0, 4), lab.acks.due), (vec![], Instant::NEVER));
        lab.up = all;
        assert_eq!(lab.come(1, 1), NONE);
        lab.now = lab.acks.due;
        assert_eq!(lab.leave(), [1, 0]);
    }
}
