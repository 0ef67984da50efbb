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
    /// Number of calendar events that were handled.
    pub events: u64,
}

impl Net {
    /// `links`, and room for `timers` more sources.
    pub fn new(links: Vec<Link<Datagram>>, timers: usize) -> Self {
        let calendar = Calendar::new(links.len() + timers);
        Self { links, calendar, events: 0 }
    }

    /// Puts a packet of `bytes` on a link.
    #[inline(never)]
    pub fn send(&mut self, now: Instant, link: usize, bytes: Bytes, datagram: Datagram) -> Verdict {
        self.send_inline(now, link, bytes, || datagram)
    }

    /// Sends a packet, for the two callers that do it for each packet, which is made where the link keeps it.
    #[inline(always)]
    pub fn send_inline(
        &mut self,
        now: Instant,
        link: usize,
        bytes: Bytes,
        datagram: impl FnOnce() -> Datagram,
    ) -> Verdict {
        let sent_on = &mut self.links[link];
        let before = sent_on.next_event();
        let verdict = sent_on.push_with(now, bytes, datagram);
        if sent_on.next_event() != before {
            self.calendar.set(link, sent_on.next_event());
        }
        verdict
    }

    /// Brings the time of a link up to date from which something has been taken.
    #[inline(always)]
    pub fn look_again(&mut self, link: usize) {
        self.calendar.set(link, self.links[link].next_event());
    }
}
