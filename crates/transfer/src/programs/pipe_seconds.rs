//! Which link carried how much of a pipe in the last second.

use std::collections::BTreeMap;

use weftway_mux::StreamId;
use weftway_path::{Instant, Span};
use weftway_relay::{Front, PipeView};

use crate::seen::{FlowPath, PipeLink, PipeProgress};

/// Time over which the shares of links are taken.
const EVERY: Span = Span::from_secs(1);

/// Bytes of a pipe since it is connected.
#[derive(Clone, Default)]
struct Bytes {
    /// Bytes that came at its socket and were sent.
    came: u64,
    /// Bytes that were sent over each link.
    sent: Vec<FlowPath>,
}

/// A pipe a second ago, and what it has sent in that second.
struct Second {
    at: Instant,
    before: Bytes,
    overhead: Option<f64>,
    links: Vec<PipeLink>,
}

/// The last second of each pipe.
#[derive(Default)]
pub(crate) struct PipeSeconds(BTreeMap<StreamId, Second>);

impl PipeSeconds {
    /// Shows the pipes of a front end to the user. `paths` says by which paths a stream went.
    pub fn see(
        &mut self,
        now: Instant,
        front: &impl Front,
        paths: impl Fn(StreamId) -> Vec<FlowPath>,
    ) -> Vec<PipeProgress> {
        let came = |id| front.flows().find(|flow| flow.id == id).map_or(0, |flow| flow.up);
        let views = front.pipes(now).into_iter();
        let seen: Vec<_> = views
            .map(|view| match view.id {
                Some(id) => self.progress(now, view, came(id), paths(id)),
                None => PipeProgress::of(view),
            })
            .collect();
        self.0.retain(|id, _| seen.iter().any(|pipe| pipe.id == Some(*id)));
        seen
    }

    /// A pipe for the user. It has sent `sent`, and `came` bytes for it came.
    fn progress(&mut self, now: Instant, view: PipeView, came: u64, sent: Vec<FlowPath>) -> PipeProgress {
        let mut told = PipeProgress::of(view);
        let Some(id) = told.id else { return told };
        let bytes = Bytes { came, sent };
        let second = self.0.entry(id).or_insert_with(|| Second {
            at: now,
            before: bytes.clone(),
            overhead: None,
            links: Vec::new(),
        });
        if now.since(second.at) >= EVERY {
            let of = |path: &str| second.before.sent.iter().find(|one| one.path == path).map_or(0, |one| one.sent);
            // Another connection counts anew.
            let more = |one: &FlowPath| one.sent.checked_sub(of(&one.path)).unwrap_or(one.sent);
            let all: u64 = bytes.sent.iter().map(more).sum();
            let came = bytes.came.saturating_sub(second.before.came);
            let rounded = |part: u64, whole: u64| (1000.0 * part as f64 / whole as f64).round() / 1000.0;
            second.links = bytes
                .sent
                .iter()
                .map(|one| PipeLink { path: one.path.clone(), sent: more(one), share: rounded(more(one), all.max(1)) })
                .collect();
            second.overhead = (came > 0).then(|| rounded(all, came));
            (second.at, second.before) = (now, bytes);
        }
        (told.overhead, told.links) = (second.overhead, second.links.clone());
        told
    }
}

#[cfg(test)]
mod tests {
    use weftway_mux::Side;

    use super::*;

    #[test]
    fn the_last_second_of_each_link_is_told() {
        let mut seconds = PipeSeconds::default();
        let view = || PipeView { id: Some(StreamId::new(Side::Connecting, 1)), ..PipeView::default() };
        let sent = |wlan: u64, wwan: u64| {
            [("wlan0", wlan), ("wwan0", wwan)].map(|(path, sent)| FlowPath { path: path.into(), sent, received: 0 })
        };
        let mut told = |ms, came, wlan, wwan| {
            let told = seconds.progress(Instant::from_millis(ms), view(), came, sent(wlan, wwan).to_vec());
            let links: Vec<_> = told.links.iter().map(|link| (link.sent, link.share)).collect();
            (told.overhead, links)
        };
        assert_eq!(told(0, 1000, 1000, 0), (None, vec![]));
        // 3000 bytes more came; 3000 were sent over one link, and 1000 over the other.
        assert_eq!(told(1000, 4000, 4000, 1000), (Some(1.333), vec![(3000, 0.75), (1000, 0.25)]));
        assert_eq!(told(1999, 9000, 9000, 9000).0, Some(1.333), "it is told for a second");
        // Another connection, and nothing came.
        assert_eq!(told(2000, 4000, 100, 0), (None, vec![(100, 1.0), (0, 0.0)]));
    }
}
