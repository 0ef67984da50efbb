//! Rate at which a source may send into a pipe, so that its datagrams arrive in time.
//!
//! A link carries what its window lets go in a round trip, or its pacer; and no more than is delivered, while a queue
//! stands on it. A link serves a pipe if it answers, data may take it, and its one-way delay is within the pipe's
//! latency. Of the sum of these links, what waits has to leave within the latency, too; and of what this end sends for
//! each byte that comes, the copies are not the source's.

use weftway_path::{BitRate, Bytes, Health, Path, Span};

use crate::seen::LinkHealth;

/// A queue stands on a link whose round trip is longer than the least one by half of it, and by this time.
const LEAST_QUEUE: Span = Span::from_millis(5);
/// Deviations beyond the mean that nearly no delay exceeds: as long as a probe timeout waits (RFC 9002 §6.2.1).
const NEARLY_ALL: u64 = 4;

/// A link as the connection sees it now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinkNow {
    /// Its name.
    pub path: String,
    /// Health, whatever the latency of a pipe.
    health: LinkHealth,
    /// Rate that it carries.
    rate: BitRate,
    /// One-way delay that nearly no packet exceeds. What a queue adds to the round trip is taken to be on the way
    /// there.
    way: Span,
}

impl LinkNow {
    /// The link of a path which `is_up`, and which a policy lets data take if it `is_open`.
    pub fn of(path: String, view: &Path, is_up: bool, is_open: bool) -> Self {
        let health = match view.health {
            _ if !is_up => LinkHealth::Down,
            _ if !is_open => LinkHealth::Closed,
            Health::Good => LinkHealth::Good,
            Health::Suspect | Health::Stale => LinkHealth::Silent,
        };
        let window = BitRate::of(view.cwnd, view.srtt);
        let paced = if view.pacing_rate > BitRate::ZERO { window.min(view.pacing_rate) } else { window };
        let queue = view.srtt.saturating_sub(view.min_rtt);
        let is_queueing = queue > view.min_rtt / 2 && queue > LEAST_QUEUE && view.delivery_rate > BitRate::ZERO;
        let rate = if is_queueing { paced.min(view.delivery_rate) } else { paced };
        let way = (view.srtt + view.rttvar * NEARLY_ALL).saturating_sub(view.min_rtt / 2);
        Self { path, health, rate, way }
    }

    /// Health for a pipe of this latency.
    pub fn health(&self, latency: Span) -> LinkHealth {
        if self.health == LinkHealth::Good && self.way > latency { LinkHealth::Late } else { self.health }
    }
}

/// Rate at which links bring new data within `latency`, while `waiting` bytes have to leave as well.
pub(crate) fn in_time(links: &[LinkNow], latency: Span, waiting: Bytes) -> BitRate {
    let serving = links.iter().filter(|link| link.health(latency) == LinkHealth::Good);
    let all = serving.fold(0, |sum: u64, link| sum.saturating_add(link.rate.as_bps()));
    BitRate::from_bps(all.saturating_sub(BitRate::of(waiting, latency).as_bps()))
}

/// Part of `all` for a pipe beside others: what these leave, of which `others` was sent in the last second, and no less
/// than an even share among `count`. For each byte that came, `overhead` bytes were sent.
pub(crate) fn share_of(all: BitRate, others: BitRate, count: u64, overhead: f64) -> BitRate {
    let left = all.as_bps().saturating_sub(others.as_bps());
    let share = left.max(all.as_bps() / count.max(1));
    BitRate::from_bps((share as f64 / overhead.max(1.0)) as u64)
}

#[cfg(test)]
mod tests {
    use weftway_link::{Change, Limit, LinkConfig, Set};
    use weftway_mux::{Limits, Side};
    use weftway_path::{Instant, PathId, Role};
    use weftway_quic::virtual_time::Pair;
    use weftway_scenario::config::{PathConfig, SimConfig};

    use super::*;
    use crate::setting::Scheduling;

    /// A window of 100 000 bytes in a round trip of 40 ms: 20 Mbit/s.
    fn view() -> Path {
        let mut view = Path::new(PathId::new(0), Bytes::new(1200), Bytes::new(100_000));
        (view.srtt, view.min_rtt, view.rttvar) = (Span::from_millis(40), Span::from_millis(40), Span::from_millis(5));
        view
    }

    fn link(view: &Path) -> LinkNow {
        LinkNow::of("wlan0".into(), view, true, true)
    }

    #[test]
    fn a_link_carries_what_its_window_and_its_pacer_allow() {
        let mut view = view();
        assert_eq!(link(&view).rate, BitRate::from_mbps(20));
        // 40 ms, and four deviations of 5, less half of the least round trip.
        assert_eq!(link(&view).way, Span::from_millis(40));
        view.pacing_rate = BitRate::from_mbps(12);
        // What was delivered may be all that there was to send.
        view.delivery_rate = BitRate::from_mbps(2);
        assert_eq!(link(&view).rate, BitRate::from_mbps(12));
        // Now a queue of 40 ms stands there.
        view.srtt = Span::from_millis(80);
        assert_eq!((link(&view).rate, link(&view).way), (BitRate::from_mbps(2), Span::from_millis(80)));
    }

    #[test]
    fn a_link_that_does_not_serve_adds_nothing() {
        let (latency, good) = (Span::from_millis(100), link(&view()));
        let mut slow = view();
        slow.srtt = Span::from_millis(101);
        let mut silent = view();
        silent.health = Health::Suspect;
        let cases = [
            (link(&slow), LinkHealth::Late),
            (link(&silent), LinkHealth::Silent),
            (LinkNow::of("wwan0".into(), &view(), true, false), LinkHealth::Closed),
            (LinkNow::of("wwan0".into(), &view(), false, false), LinkHealth::Down),
        ];
        for (other, health) in cases {
            assert_eq!(other.health(latency), health);
            assert_eq!(in_time(&[good.clone(), other], latency, Bytes::ZERO), BitRate::from_mbps(20), "{health:?}");
        }
        assert_eq!(link(&slow).health(Span::from_millis(200)), LinkHealth::Good);
        assert_eq!(in_time(&[good.clone(), good.clone()], latency, Bytes::ZERO), BitRate::from_mbps(40));
        // 100 000 bytes have to leave within 100 ms: 8 Mbit/s. More than can leave so soon leaves no room.
        assert_eq!(in_time(std::slice::from_ref(&good), latency, Bytes::new(100_000)), BitRate::from_mbps(12));
        assert_eq!(in_time(&[good], latency, Bytes::new(1_000_000)), BitRate::ZERO);
    }

    #[test]
    fn a_pipe_has_what_the_others_leave_and_copies_are_not_the_sources() {
        let mbps = BitRate::from_mbps;
        assert_eq!(share_of(mbps(30), mbps(0), 1, 1.0), mbps(30));
        assert_eq!(share_of(mbps(30), mbps(0), 1, 1.25), mbps(24));
        assert_eq!(share_of(mbps(30), mbps(4), 3, 0.5), mbps(26));
        assert_eq!(share_of(mbps(30), mbps(50), 3, 1.0), mbps(10));
        assert_eq!(share_of(mbps(0), mbps(50), 0, f64::NAN), mbps(0));
    }

    const LATENCY: Span = Span::from_millis(200);

    /// A link of so many Mbit/s and milliseconds, both ways, which changes to the relay.
    fn path(mbps: u64, ms: u64, changes: &[(u64, Set)]) -> PathConfig {
        let mut link = LinkConfig { rate: BitRate::from_mbps(mbps).into(), ..LinkConfig::default() };
        (link.delay, link.queue.limit) = (Span::from_millis(ms), Limit::Packets(100));
        let changes = changes.iter().map(|(ms, set)| Change { at: Instant::from_millis(*ms), set: set.clone() });
        let data = LinkConfig { changes: changes.collect(), ..link.clone() };
        PathConfig { name: String::new(), role: Role::Active, data, acks: link, via: None, presence: Vec::new() }
    }

    /// 1000 bytes each 5 ms, 1.6 Mbit/s, over these links for nine seconds: `rate(from, to)` are the least and the most
    /// Mbit/s that an encoder is told between these milliseconds.
    fn told(paths: Vec<PathConfig>) -> impl Fn(u64, u64) -> (f64, f64) {
        let transport = Scheduling::default().setting(paths.len()).transport;
        let config = SimConfig::new(transport, paths, Bytes::new(1));
        let mut pair = Pair::new(&config, ("deadline", "cubic"), 1, Limits::default()).unwrap();
        let (mut flow, mut next, mut rates) = (None, Instant::from_millis(500), Vec::new());
        while next < Instant::from_millis(9000) {
            pair.step(next).unwrap();
            let now = pair.now();
            if let Some(mux) = pair.mux(Side::Listening) {
                while mux.next_datagram().is_some() {}
                pair.turn(Side::Listening);
            }
            let Some(duplex) = pair.duplex(Side::Connecting) else { continue };
            if next <= now {
                let mux = duplex.mux();
                let flow = *flow.get_or_insert_with(|| mux.open(now, 1, b"pipe", None).unwrap());
                let _ = mux.send_datagram(now, flow, 1, Some(LATENCY), vec![0; 1000].into());
                next += Span::from_millis(5);
            }
            pair.turn(Side::Connecting);
            let Some(duplex) = pair.duplex(Side::Connecting) else { continue };
            let (sender, mux) = (duplex.sender(), duplex.streams().mux());
            let (up, usable) = (sender.up(), sender.usable());
            let links = (0..config.paths.len() as u8)
                .map(PathId::new)
                .map(|id| LinkNow::of(String::new(), sender.view(id), up.contains(id), usable.contains(id)));
            let links: Vec<_> = links.collect();
            let rate = in_time(&links, LATENCY, mux.unsent_datagrams());
            rates.push((now.since(Instant::ZERO).as_millis(), rate.as_mbps_f64()));
        }
        move |from, to| {
            let within = rates.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, rate)| *rate);
            let within: Vec<f64> = within.collect();
            assert!(!within.is_empty(), "no rate between {from} and {to} ms");
            within
                .into_iter()
                .fold((f64::MAX, 0.0), |(least, most): (f64, f64), rate| (least.min(rate), most.max(rate)))
        }
    }

    /// Of two links the better one is cut at 3 s and back at 6 s.
    #[test]
    fn an_encoder_is_told_of_a_cut_within_a_third_of_a_second() {
        let rate = told(vec![path(8, 10, &[(3000, Set::Down), (6000, Set::Up)]), path(4, 30, &[])]);
        let (before, most) = rate(2000, 3000);
        assert!(before > 1.6, "it is sent: {before}");
        let (least, during) = rate(3333, 6000);
        assert!(least > 0.5 && during < before * 0.75, "{least} to {during} during, {before} to {most} before");
        assert!(rate(7000, 9000).0 > during, "{:?} after, {during} during", rate(7000, 9000));
    }

    /// The only link falls from 8 Mbit/s to one, less than is sent.
    #[test]
    fn an_encoder_is_told_of_a_link_that_brings_less_than_it_sends() {
        let rate = told(vec![path(8, 10, &[(3000, Set::Rate(BitRate::from_mbps(1).into()))])]);
        assert!(rate(2000, 3000).0 > 1.6, "{:?}", rate(2000, 3000));
        assert!(rate(4000, 9000).1 < 1.2, "{:?}", rate(4000, 9000));
    }
}
