//! Watching the links while they run, for those who watch.
//!
//! Whoever watches asks, and the thread that drives the links answers at its next turn. It waits for nobody, and does
//! nothing as long as nobody asks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use weftway_link::{Counts, Link};
use weftway_path::{Bytes, Instant};

/// A link at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// Counts of what has happened on it so far.
    pub counts: Counts,
    /// Packets that wait, with the one in transmission.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: Bytes,
}

/// All links at the same moment, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time at which it was.
    pub at: Instant,
    /// The links; none before the first answer.
    pub links: Vec<LinkState>,
}

/// State that is shared between the one who asks and the thread that answers.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    asked: AtomicBool,
    last: Mutex<Moment>,
}

impl Watch {
    /// The last answer. Asks anew.
    pub fn ask(&self) -> Moment {
        let moment = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.asked.store(true, Ordering::Relaxed);
        moment
    }

    /// Answers if somebody has asked. If somebody reads the last answer just now, the next turn answers.
    #[inline]
    pub fn answer<T: Copy>(&self, links: &[Link<T>], now: impl FnOnce() -> Instant) {
        if !self.asked.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut last) = self.last.try_lock() else { return };
        self.asked.store(false, Ordering::Relaxed);
        let at = now();
        let state = |link: &Link<T>| {
            let (waiting, waiting_bytes) = link.backlog(at);
            LinkState { counts: link.counts(), waiting, waiting_bytes }
        };
        last.at = at;
        last.links.clear();
        last.links.extend(links.iter().map(state));
    }
}

#[cfg(test)]
mod tests {
    use weftway_link::{Limit, LinkConfig, Queue, Rate};
    use weftway_path::{BitRate, Span};

    use super::*;

    /// A link of 10 Mbit/s and 10 ms, on which 1250 B take 1 ms, with room for three of four packets.
    fn link() -> Link<()> {
        let config = LinkConfig {
            rate: Rate::Constant(BitRate::from_mbps(10)),
            delay: Span::from_millis(10),
            queue: Queue { limit: Limit::Packets(3), ..Queue::default() },
            ..LinkConfig::default()
        };
        let mut link = Link::new(&config, 1);
        for _ in 0..4 {
            let _ = link.push(Instant::ZERO, Bytes::new(1250), ());
        }
        link
    }

    #[test]
    fn an_answer_comes_after_a_question_and_once() {
        let (watch, mut links) = (Watch::default(), [link()]);
        let answer = |links: &[Link<()>], ms| watch.answer(links, || Instant::from_millis(ms));
        answer(&links, 1);
        assert_eq!(watch.ask(), Moment::default(), "nobody had asked");
        // At 2 ms two packets have left the queue, and none has arrived; the fourth found it full.
        answer(&links, 2);
        let moment = watch.ask();
        let LinkState { counts, waiting, waiting_bytes } = moment.links[0];
        assert_eq!((moment.at, waiting, waiting_bytes), (Instant::from_millis(2), 1, Bytes::new(1250)));
        assert_eq!((counts.pushed, counts.delivered, counts.dropped_queue), (4, 0, 1));
        // At 12 ms two have arrived. The question of 13 ms is the next one.
        while links[0].pop(Instant::from_millis(12)).is_some() {}
        answer(&links, 12);
        answer(&links, 13);
        let moment = watch.ask();
        assert_eq!((moment.at, moment.links.len()), (Instant::from_millis(12), 1));
        assert_eq!((moment.links[0].waiting, moment.links[0].counts.delivered_bytes), (0, Bytes::new(2500)));
    }

    #[test]
    fn who_reads_an_answer_is_not_waited_for() {
        let (watch, links) = (Watch::default(), [link()]);
        watch.ask();
        let reading = watch.last.lock().unwrap();
        watch.answer(&links, || Instant::from_millis(1));
        drop(reading);
        assert_eq!(watch.last.lock().unwrap().links.len(), 0);
        watch.answer(&links, || Instant::from_millis(2));
        assert_eq!(watch.ask().at, Instant::from_millis(2));
    }
}
