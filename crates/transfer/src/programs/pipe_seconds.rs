//! The last second of each pipe: which link carried how much of it, and the rate at which its source may send.

use std::collections::{BTreeMap, VecDeque};

use weftway_mux::StreamId;
use weftway_path::{BitRate, Bytes as Count, Instant, Span};
use weftway_relay::{Front, PipeView};

use crate::programs::pipe_rates::{LinkNow, in_time, share_of};
use crate::seen::{FlowPath, PipeLink, PipeProgress, PipeRate};

/// Time over which the shares of links are taken, and for which a rate has to last to be that of the next second.
const EVERY: Span = Span::from_secs(1);

/// Bytes of a pipe since it is connected.
#[derive(Clone, Default)]
struct Bytes {
    /// Bytes that came at its socket and were sent.
    came: u64,
    /// Bytes that were sent over each link.
    sent: Vec<FlowPath>,
}

/// The connection that carries pipes, at a moment.
#[derive(Default)]
pub(crate) struct Carrying {
    /// Its links.
    pub links: Vec<LinkNow>,
    /// Bytes of datagrams that wait to be sent.
    pub waiting: Count,
}

/// A pipe a second ago, and what it has sent in that second.
struct Second {
    at: Instant,
    before: Bytes,
    /// Rate at which it was sent over all links in that second, copies included.
    taken: BitRate,
    overhead: Option<f64>,
    /// What each link carried.
    sent: Vec<(String, u64)>,
    /// Rates at which its source might have sent in the last second, each with its time.
    rates: VecDeque<(Instant, u64)>,
}

/// The last second of each pipe.
#[derive(Default)]
pub(crate) struct PipeSeconds(BTreeMap<StreamId, Second>);

/// Ratio of two numbers, to three digits behind the point.
fn ratio(part: u64, whole: u64) -> f64 {
    (1000.0 * part as f64 / whole as f64).round() / 1000.0
}

impl PipeSeconds {
    /// Shows the pipes of a front end to the user. `paths` says by which paths a stream went.
    pub fn see(
        &mut self,
        now: Instant,
        front: &impl Front,
        carrying: &Carrying,
        paths: impl Fn(StreamId) -> Vec<FlowPath>,
    ) -> Vec<PipeProgress> {
        let came = |id| front.flows().find(|flow| flow.id == id).map_or(0, |flow| flow.up);
        let views = front.pipes(now);
        self.0.retain(|id, _| views.iter().any(|view| view.id == Some(*id)));
        for id in views.iter().filter_map(|view| view.id) {
            self.note(now, id, Bytes { came: came(id), sent: paths(id) });
        }
        views.into_iter().map(|view| self.progress(now, view, carrying)).collect()
    }

    /// Takes in what a pipe has carried so far: once a second its last second is another one.
    fn note(&mut self, now: Instant, id: StreamId, bytes: Bytes) {
        let second = self.0.entry(id).or_insert_with(|| Second {
            at: now,
            before: bytes.clone(),
            taken: BitRate::ZERO,
            overhead: None,
            sent: Vec::new(),
            rates: VecDeque::new(),
        });
        let elapsed = now.since(second.at);
        if elapsed < EVERY {
            return;
        }
        let of = |path: &str| second.before.sent.iter().find(|one| one.path == path).map_or(0, |one| one.sent);
        // Another connection counts anew.
        let more = |one: &FlowPath| one.sent.checked_sub(of(&one.path)).unwrap_or(one.sent);
        second.sent = bytes.sent.iter().map(|one| (one.path.clone(), more(one))).collect();
        let all: u64 = second.sent.iter().map(|(_, sent)| sent).sum();
        let came = bytes.came.saturating_sub(second.before.came);
        second.taken = BitRate::of(Count::new(all), elapsed);
        second.overhead = (came > 0).then(|| ratio(all, came));
        (second.at, second.before) = (now, bytes);
    }

    /// A pipe for the user.
    fn progress(&mut self, now: Instant, view: PipeView, carrying: &Carrying) -> PipeProgress {
        let (id, latency) = (view.id, view.latency);
        let mut told = PipeProgress::of(view);
        let others = self.0.iter().filter(|(one, _)| Some(**one) != id);
        let others = others.fold(0, |sum: u64, (_, one)| sum.saturating_add(one.taken.as_bps()));
        let count = self.0.len() as u64;
        let Some(second) = id.and_then(|id| self.0.get_mut(&id)) else { return told };
        told.overhead = second.overhead;
        let all = second.sent.iter().map(|(_, sent)| sent).sum::<u64>().max(1);
        let link = |link: &LinkNow| {
            let sent = second.sent.iter().find(|(path, _)| *path == link.path).map_or(0, |(_, sent)| *sent);
            let (path, health) = (link.path.clone(), link.health(latency));
            PipeLink { path, sent, share: ratio(sent, all), health }
        };
        told.links = carrying.links.iter().map(link).collect();
        let in_time = in_time(&carrying.links, latency, carrying.waiting);
        let present = share_of(in_time, BitRate::from_bps(others), count, second.overhead.unwrap_or(1.0)).as_bps();
        second.rates.push_back((now, present));
        while second.rates.front().is_some_and(|(at, _)| now.since(*at) > EVERY) {
            second.rates.pop_front();
        }
        let least = second.rates.iter().map(|(_, rate)| *rate).min();
        told.rate = PipeRate { now_bps: present, next_bps: least.unwrap_or(present) };
        told
    }
}

#[cfg(test)]
mod tests {
    use weftway_mux::Side;
    use weftway_path::{Path, PathId};

    use super::*;
    use crate::seen::LinkHealth;

    fn id(number: u64) -> StreamId {
        StreamId::new(Side::Connecting, number)
    }

    fn view(number: u64) -> PipeView {
        PipeView { id: Some(id(number)), latency: Span::from_millis(200), ..PipeView::default() }
    }

    fn sent(wlan: u64, wwan: u64) -> Vec<FlowPath> {
        let of = |(path, sent): (&str, u64)| FlowPath { path: path.into(), sent, received: 0 };
        [("wlan0", wlan), ("wwan0", wwan)].map(of).to_vec()
    }

    /// Links with windows of so many bytes in a round trip of 20 ms; one without any is down.
    fn carrying(windows: [u64; 2]) -> Carrying {
        let link = |(name, window): (&str, u64)| {
            let mut path = Path::new(PathId::new(0), Count::new(1200), Count::new(window));
            (path.srtt, path.min_rtt) = (Span::from_millis(20), Span::from_millis(20));
            LinkNow::of(name.into(), &path, window > 0, window > 0)
        };
        Carrying { links: ["wlan0", "wwan0"].into_iter().zip(windows).map(link).collect(), waiting: Count::ZERO }
    }

    #[test]
    fn the_last_second_of_each_link_is_told() {
        let mut seconds = PipeSeconds::default();
        let mut told = |ms, came, wlan, wwan| {
            let now = Instant::from_millis(ms);
            seconds.note(now, id(1), Bytes { came, sent: sent(wlan, wwan) });
            let told = seconds.progress(now, view(1), &carrying([1000, 0]));
            let links: Vec<_> = told.links.iter().map(|link| (link.sent, link.share)).collect();
            assert_eq!(told.links[1].health, LinkHealth::Down);
            (told.overhead, links)
        };
        assert_eq!(told(0, 1000, 1000, 0), (None, vec![(0, 0.0); 2]));
        // 3000 bytes more came; 3000 were sent over one link, and 1000 over the other.
        assert_eq!(told(1000, 4000, 4000, 1000), (Some(1.333), vec![(3000, 0.75), (1000, 0.25)]));
        assert_eq!(told(1999, 9000, 9000, 9000).0, Some(1.333), "it is told for a second");
        // Another connection, and nothing came.
        assert_eq!(told(2000, 4000, 100, 0), (None, vec![(100, 1.0), (0, 0.0)]));
    }

    /// 25 000 bytes in 20 ms are 10 Mbit/s, 12 500 are 5.
    #[test]
    fn a_rate_falls_at_once_and_has_to_last_for_a_second_to_rise() {
        let mut seconds = PipeSeconds::default();
        let mut told = |ms, windows| {
            let now = Instant::from_millis(ms);
            seconds.note(now, id(1), Bytes::default());
            let PipeRate { now_bps, next_bps } = seconds.progress(now, view(1), &carrying(windows)).rate;
            (now_bps, next_bps)
        };
        assert_eq!(told(0, [25_000, 12_500]), (15_000_000, 15_000_000));
        assert_eq!(told(100, [0, 12_500]), (5_000_000, 5_000_000));
        assert_eq!(told(200, [25_000, 12_500]), (15_000_000, 5_000_000));
        assert_eq!(told(1100, [25_000, 12_500]), (15_000_000, 5_000_000));
        assert_eq!(told(1101, [25_000, 12_500]), (15_000_000, 15_000_000));
        assert_eq!(told(1102, [0, 0]), (0, 0));
        let closed = PipeView { id: None, ..view(1) };
        assert_eq!(
            seconds.progress(Instant::from_millis(1103), closed, &carrying([9000; 2])).rate,
            PipeRate::default()
        );
    }

    /// Of 10 Mbit/s the first pipe takes 4, of which each byte is sent twice, and the second 1.
    /// The first sends twice what comes, 8 of 10 Mbit/s: the second has an even share.
    #[test]
    fn pipes_share_what_there_is() {
        let mut seconds = PipeSeconds::default();
        for (ms, first, second) in [(0, 0, 0), (1000, 500_000, 125_000)] {
            seconds.note(Instant::from_millis(ms), id(1), Bytes { came: first, sent: sent(first, first) });
            seconds.note(Instant::from_millis(ms), id(2), Bytes { came: second, sent: sent(second, 0) });
        }
        let mut rate =
            |number| seconds.progress(Instant::from_millis(1000), view(number), &carrying([25_000, 0])).rate.now_bps;
        assert_eq!((rate(1), rate(2)), (4_500_000, 5_000_000));
    }
}
