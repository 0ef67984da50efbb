//! The links of a simulation and the calendar that they share.

use weftway_link::{Link, Verdict};
use weftway_path::{Bytes, Instant};

use crate::calendar::Calendar;
use crate::wire::Datagram;

/// All links, and when each source of events is due. The first sources are the links, by number.
#[derive(Clone)]
pub struct Net {
    /// The links.
    pub links: Vec<Link<Datagram>>,
    /// The calendar.
    pub calendar: Calendar,
    /// How many calendar events were handled.
    pub events: u64,
}

impl Net {
    /// `links`, and room for `timers` more sources.
    pub fn new(links: Vec<Link<Datagram>>, timers: usize) -> Self {
        let calendar = Calendar::new(links.len() + timers);
        Self { links, calendar, events: 0 }
    }

    /// Puts a packet of `bytes` on a link.
    #[inline]
    pub fn send(&mut self, now: Instant, link: usize, bytes: Bytes, datagram: Datagram) -> Verdict {
        let verdict = self.links[link].push(now, bytes, datagram);
        self.calendar.set(link, self.links[link].next_event());
        verdict
    }
}
