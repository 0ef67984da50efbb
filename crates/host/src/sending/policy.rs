//! Which paths a scheduler is offered: tiers that open when they are needed, and how much each path may still carry.
//!
//! | tier | offered |
//! |---|---|
//! | primary | always |
//! | secondary | while the offered paths do not suffice, or no path above works |
//! | backup | while no path above works |
//!
//! A path above works while it is up, answers, and may carry more. The offered paths do not suffice when data have
//! waited for [`Thresholds::open_after`] without a pause, or what waits would take longer than
//! [`Thresholds::open_delay`].
//!
//! A tier that opens stays open until it was not needed for [`Thresholds::close_after`]. Where it is needed again soon
//! after it was closed, it stays open twice as long as before.
//!
//! A path that is closed stays up: it opens without a handshake. The time comes with each call, and all numbers are
//! whole.

use weftway_path::{Bytes, Counters, Instant, PathId, PathSet, Span, Thresholds, Tier};

use super::Views;

/// Most doublings of a tier's time: where a tier is needed again within its time after it was closed, that time is
/// doubled.
const MOST_DOUBLINGS: u64 = 32;
/// For so long paths above that were never up are waited for: they are still shaking hands.
const JOINING: Span = Span::from_secs(1);
/// A path with so many probe timeouts in a row does not answer …
const SILENT: u32 = 2;
/// … if this lasts so long: where round trips are short a busy machine is silent, too.
const SILENT_FOR: Span = Span::from_millis(100);

/// Terms under which a path is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Tier: says when it is offered.
    pub tier: Tier,
    /// Bytes that it may still carry; none: as much as it can.
    pub left: Option<Bytes>,
}

/// The state of one connection's policy.
#[derive(Clone, Debug)]
pub struct Policy {
    paths: Vec<Metered>,
    thresholds: Thresholds,
    /// Bytes that a packet takes on the wire beside its payload, and what a full one takes.
    overhead: u64,
    full: u64,
    secondary: Standby,
    backup: Standby,
    /// Since when data have waited that no offered path takes.
    waiting_since: Option<Instant>,
    /// Since when each path has not answered; never: it does, or is down.
    silent_since: Vec<Instant>,
    /// Paths that were up once.
    met: PathSet,
    /// Until when the others are waited for; none before the first look.
    joining_until: Option<Instant>,
    due: Instant,
}

/// A path, and what it has carried.
#[derive(Clone, Debug)]
struct Metered {
    tier: Tier,
    left: Option<u64>,
    /// Packets that TCP has repeated by itself since the path came up, as far as it is counted.
    repeated: Counters,
}

/// A tier that is not always open.
#[derive(Clone, Copy, Debug)]
struct Standby {
    open: bool,
    needed_at: Instant,
    closed_at: Option<Instant>,
    /// Time that it stays open when it is not needed.
    hold: Span,
}

impl Standby {
    fn look(&mut self, now: Instant, is_needed: bool, close_after: Span) {
        if is_needed {
            self.needed_at = now;
            if !self.open {
                self.open = true;
                let again = self.closed_at.is_some_and(|at| now < at + self.hold);
                self.hold = if again { (self.hold * 2).min(close_after * MOST_DOUBLINGS) } else { close_after };
            }
        } else if self.open && self.closes_at() <= now {
            (self.open, self.closed_at) = (false, Some(now));
        }
    }

    fn closes_at(&self) -> Instant {
        if self.open { self.needed_at + self.hold } else { Instant::NEVER }
    }
}

impl Policy {
    /// Paths with these terms. A packet of `mss` bytes of payload takes `overhead` more on the wire.
    pub fn new(terms: &[Terms], thresholds: Thresholds, mss: Bytes, overhead: Bytes) -> Self {
        let path = |terms: &Terms| Metered {
            tier: terms.tier,
            left: terms.left.map(Bytes::get),
            repeated: Counters::default(),
        };
        let shut = Standby { open: false, needed_at: Instant::ZERO, closed_at: None, hold: thresholds.close_after };
        Self {
            paths: terms.iter().map(path).collect(),
            thresholds,
            overhead: overhead.get(),
            full: mss.get() + overhead.get(),
            secondary: shut,
            backup: shut,
            waiting_since: None,
            silent_since: vec![Instant::NEVER; terms.len()],
            met: PathSet::EMPTY,
            joining_until: None,
            due: Instant::NEVER,
        }
    }

    /// Time to look again, though nothing happened.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Another look is due at `at`.
    pub(super) fn look_again_at(&mut self, at: Instant) {
        self.due = self.due.min(at);
    }

    /// The time of [`Policy::due`] has come, and another look follows.
    pub fn fired(&mut self, now: Instant) {
        if self.due <= now {
            self.due = Instant::NEVER;
        }
    }

    /// Bytes that path `id` may still carry; none: as much as it can.
    pub fn left(&self, id: PathId) -> Option<Bytes> {
        self.paths[id.index()].left.map(Bytes::new)
    }

    /// Path `id` may carry so much from now on.
    pub fn set_left(&mut self, id: PathId, left: Option<Bytes>) {
        self.paths[id.index()].left = left.map(Bytes::get);
    }

    /// Path `id` takes over these terms.
    pub fn set_terms(&mut self, id: PathId, terms: Terms) {
        self.paths[id.index()].tier = terms.tier;
        self.set_left(id, terms.left);
    }

    /// Path `id` was given a packet with so much payload; `repeated` is what TCP has repeated on it by itself. Whether
    /// it has room for another one below its cap.
    pub fn charge(&mut self, id: PathId, payload: Bytes, repeated: Counters) -> bool {
        let overhead = self.overhead;
        let path = &mut self.paths[id.index()];
        let Some(left) = &mut path.left else { return true };
        // A path that came up anew counts from the beginning.
        let known = if repeated.packets < path.repeated.packets { Counters::default() } else { path.repeated };
        path.repeated = repeated;
        let bytes = payload.get() + repeated.bytes.get() - known.bytes.get();
        let packets = 1 + repeated.packets - known.packets;
        *left = left.saturating_sub(bytes + packets * overhead);
        *left >= self.full
    }

    /// Path `id` gave back a packet with so much payload, which was not sent.
    pub fn refund(&mut self, id: PathId, payload: Bytes) {
        if let Some(left) = &mut self.paths[id.index()].left {
            *left = left.saturating_add(payload.get() + self.overhead);
        }
    }

    /// Returns true if data wait that no offered path takes.
    pub fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// Returns true if path `id` may carry another full packet.
    pub fn may_carry(&self, id: PathId) -> bool {
        self.paths[id.index()].left.is_none_or(|left| left >= self.full)
    }

    /// The paths that are closed as tiers and caps are now.
    pub fn closed(&self) -> PathSet {
        let is_closed = |id: &PathId| {
            let is_open = match self.paths[id.index()].tier {
                Tier::Primary => true,
                Tier::Secondary => self.secondary.open,
                Tier::Backup => self.backup.open,
                Tier::Never => false,
            };
            !is_open || !self.may_carry(*id)
        };
        self.ids().filter(is_closed).fold(PathSet::EMPTY, PathSet::with)
    }

    /// Looks which tiers are needed. `waiting` is what the offered paths do not take, none where they take all there
    /// is.
    pub fn look(&mut self, now: Instant, waiting: Option<Bytes>, views: &Views) {
        self.met = self.met.or(views.set());
        for id in self.ids() {
            let is_silent = views.set().contains(id) && views.get(id).pto_count >= SILENT;
            let since = &mut self.silent_since[id.index()];
            *since = if is_silent { now.min(*since) } else { Instant::NEVER };
        }
        self.joining_until.get_or_insert(now + JOINING);
        let since = self.waiting_since.unwrap_or(now);
        self.waiting_since = waiting.map(|_| since);
        let Thresholds { open_after, open_delay, close_after } = self.thresholds;
        let overflows = waiting.is_some_and(|bytes| {
            now.since(since) >= open_after || open_delay.is_some_and(|delay| drain_time(bytes, views) > delay)
        });
        let below_primary = !self.works_above(now, Tier::Secondary, views);
        self.secondary.look(now, overflows || below_primary, close_after);
        let below_secondary = !self.works_above(now, Tier::Backup, views);
        self.backup.look(now, below_secondary, close_after);
        let joining = self.joining_until.filter(|&until| until > now).unwrap_or(Instant::NEVER);
        let silent = self.silent_since.iter().map(|&since| since + SILENT_FOR).filter(|&at| at > now).min();
        let closes = self.secondary.closes_at().min(self.backup.closes_at());
        self.due = joining.min(closes).min(silent.unwrap_or(Instant::NEVER));
    }

    /// Returns true if a path above `tier` works, or may come up yet.
    fn works_above(&self, now: Instant, tier: Tier, views: &Views) -> bool {
        let joins = self.joining_until.is_some_and(|until| now < until);
        self.ids().filter(|&id| self.paths[id.index()].tier < tier && self.may_carry(id)).any(|id| {
            let answers = views.set().contains(id) && now < self.silent_since[id.index()] + SILENT_FOR;
            answers || joins && !self.met.contains(id)
        })
    }

    fn ids(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.paths.len() as u8).map(PathId::new)
    }
}

/// Time that `waiting` and what is under way take on the offered paths, at a window in each round trip.
fn drain_time(waiting: Bytes, views: &Views) -> Span {
    let per_second = |cwnd: Bytes, srtt: Span| cwnd.mul_div(1_000_000_000, srtt.as_nanos().max(1)).get();
    let rate: u64 = views.usable().iter().map(|path| per_second(path.cwnd, path.srtt)).sum();
    let under_way: u64 = views.usable().iter().map(|path| path.unacked().get()).sum();
    let backlog = Bytes::new(waiting.get() + under_way);
    if rate == 0 { Span::ZERO } else { Span::from_nanos(backlog.mul_div(1_000_000_000, rate).get()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::Path;

    const NEVER: Option<Bytes> = None;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn terms(tiers: &[Tier]) -> Vec<Terms> {
        tiers.iter().map(|&tier| Terms { tier, left: NEVER }).collect()
    }

    fn policy(tiers: &[Tier]) -> Policy {
        Policy::new(&terms(tiers), Thresholds::default(), Bytes::new(1200), Bytes::new(80))
    }

    /// Paths of 20 ms with windows of 50 kB: 20 Mbit/s each.
    fn views(up: &[bool]) -> Views {
        let path =
            |n| Path { srtt: Span::from_millis(20), ..Path::new(PathId::new(n), Bytes::new(1200), Bytes::new(50_000)) };
        let mut views = Views::new((0..up.len() as u8).map(path).collect());
        (0..up.len()).for_each(|n| views.set_usable(PathId::new(n as u8), up[n]));
        views
    }

    /// Open paths after a look at `now`, by number.
    fn open(policy: &mut Policy, now: Instant, waiting: bool, views: &Views) -> Vec<u8> {
        policy.look(now, waiting.then_some(Bytes::new(100_000)), views);
        let closed = policy.closed();
        policy.ids().filter(|id| !closed.contains(*id)).map(PathId::get).collect()
    }

    const THREE: [Tier; 3] = [Tier::Primary, Tier::Secondary, Tier::Backup];

    #[test]
    fn a_secondary_path_opens_when_data_wait_without_a_pause() {
        let (mut policy, views) = (policy(&THREE), views(&[true; 3]));
        assert_eq!(open(&mut policy, at(0), true, &views), [0]);
        assert_eq!(open(&mut policy, at(249), true, &views), [0]);
        assert_eq!(open(&mut policy, at(249), false, &views), [0], "a pause");
        assert_eq!(open(&mut policy, at(250), true, &views), [0]);
        assert_eq!(open(&mut policy, at(499), true, &views), [0]);
        assert_eq!(open(&mut policy, at(500), true, &views), [0, 1]);
    }

    /// It stays open for 2 s after it was needed last, for 4 s where it is needed within 2 s of its closing, and for 2
    /// s again when it was not.
    #[test]
    fn a_tier_that_is_needed_again_soon_stays_open_twice_as_long() {
        let (mut policy, views) = (policy(&THREE), views(&[true; 3]));
        open(&mut policy, at(0), true, &views);
        assert_eq!(open(&mut policy, at(250), true, &views), [0, 1]);
        assert_eq!(policy.due(), at(1_000), "the start is over");
        policy.fired(at(1_000));
        assert_eq!(open(&mut policy, at(1_000), false, &views), [0, 1]);
        assert_eq!(policy.due(), at(2_250));
        assert_eq!(open(&mut policy, at(2_250), false, &views), [0]);
        open(&mut policy, at(3_000), true, &views);
        assert_eq!(open(&mut policy, at(3_250), true, &views), [0, 1]);
        assert_eq!(open(&mut policy, at(7_249), false, &views), [0, 1]);
        assert_eq!(open(&mut policy, at(7_250), false, &views), [0]);
        open(&mut policy, at(20_000), true, &views);
        assert_eq!(open(&mut policy, at(20_250), true, &views), [0, 1]);
        assert_eq!(open(&mut policy, at(22_250), false, &views), [0]);
    }

    /// 100 kB at 20 Mbit/s take 40 ms.
    #[test]
    fn a_secondary_path_opens_when_what_waits_would_take_too_long() {
        let views = views(&[true, false, false]);
        for (bound, expected) in [(40, vec![0]), (39, vec![0, 1])] {
            let thresholds = Thresholds { open_delay: Some(Span::from_millis(bound)), ..Thresholds::default() };
            let mut policy = Policy::new(&terms(&THREE), thresholds, Bytes::new(1200), Bytes::new(80));
            assert_eq!(open(&mut policy, at(0), true, &views), expected, "{bound} ms");
        }
    }

    #[test]
    fn tiers_open_one_after_the_other_when_no_path_above_works() {
        let mut policy = policy(&THREE);
        assert_eq!(open(&mut policy, at(0), false, &views(&[true; 3])), [0]);
        assert_eq!(open(&mut policy, at(10), false, &views(&[false, true, true])), [0, 1]);
        assert_eq!(open(&mut policy, at(20), false, &views(&[false, false, true])), [0, 1, 2]);
        assert_eq!(open(&mut policy, at(3_000), false, &views(&[true; 3])), [0]);
    }

    #[test]
    fn a_path_that_does_not_answer_does_not_work() {
        let (mut policy, mut views) = (policy(&THREE), views(&[true; 3]));
        views.get_mut(PathId::new(0)).pto_count = 1;
        assert_eq!(open(&mut policy, at(0), true, &views), [0]);
        views.get_mut(PathId::new(0)).pto_count = 2;
        assert_eq!(open(&mut policy, at(1), true, &views), [0]);
        assert_eq!(policy.due(), at(101));
        assert_eq!(open(&mut policy, at(101), true, &views), [0, 1]);
    }

    /// At the beginning the others may still come.
    #[test]
    fn paths_above_that_were_never_up_are_waited_for_for_a_second() {
        let (mut policy, views) = (policy(&THREE), views(&[false, false, true]));
        assert_eq!(open(&mut policy, at(5), true, &views), [0]);
        assert_eq!(policy.due(), at(1_005));
        assert_eq!(open(&mut policy, at(1_005), true, &views), [0, 1, 2]);
    }

    /// 1280 bytes a packet: three fit, and the next tier opens.
    #[test]
    fn a_path_closes_before_the_packet_that_does_not_fit_below_its_cap() {
        let (views, first) = (views(&[true; 3]), PathId::new(0));
        let mut policy = policy(&THREE);
        policy.set_left(first, Some(Bytes::new(3 * 1280 + 1279)));
        let (mss, none) = (Bytes::new(1200), Counters::default());
        let room: Vec<bool> = (0..3).map(|_| policy.charge(first, mss, none)).collect();
        assert_eq!(room, [true, true, false]);
        assert_eq!(open(&mut policy, at(0), true, &views), [1]);
        policy.refund(first, mss);
        assert!(policy.may_carry(first));
        policy.set_left(first, Some(Bytes::new(u64::MAX)));
        policy.refund(first, mss);
        assert_eq!(policy.left(first), Some(Bytes::new(u64::MAX)));
    }

    #[test]
    fn what_tcp_repeats_counts_and_what_it_repeated_before_the_path_failed_does_not_count_again() {
        let first = PathId::new(0);
        let mut policy = policy(&THREE);
        policy.set_left(first, Some(Bytes::new(100_000)));
        let repeated = |packets| Counters { bytes: Bytes::new(1200 * packets), packets };
        policy.charge(first, Bytes::new(1200), repeated(2));
        assert_eq!(policy.left(first), Some(Bytes::new(100_000 - 3 * 1280)));
        policy.charge(first, Bytes::new(1200), repeated(2));
        policy.charge(first, Bytes::new(1200), repeated(1));
        assert_eq!(policy.left(first), Some(Bytes::new(100_000 - 6 * 1280)));
    }
}
