//! Rule for a host that shows no data: each packet goes where it should arrive first.

use weftway_path::{Context, Decision};

use super::{EarliestDelivery, Predicted};
use crate::shared::choose;

/// Packets of the first path, in time, by which the path of the packet before may be later and still carry the next
/// one.
const BATCH: u64 = 16;
/// Part of the first path's round trip by which it may be later, if that is less.
const SLACK_PART: u64 = 8;

impl EarliestDelivery {
    /// The scheduler for a host that only sends.
    pub(super) fn arrival_only(&self) -> Self {
        Self { options: self.options.arrival_only(), ..Self::default() }
    }

    /// Sends where a packet should arrive first, without a view of the data.
    pub(super) fn earliest_arrival(&mut self, cx: &Context<'_>) -> Decision {
        let lost = cx.packet.filter(|packet| packet.reinjection);
        let first = match lost {
            Some(packet) => self.first_usable(cx, packet.avoid).filter(|(path, _)| path.is_open()),
            None => self.first_open(cx).map(|first| self.in_a_row(cx, first)),
        };
        let path = first.map(|(path, _)| path);
        self.last_path = path.map(|path| path.id).or(self.last_path);
        choose::send_or_wait(cx, path)
    }

    /// The path of the packet before, if it is open and hardly later than the first: what goes in a row leaves at once.
    fn in_a_row<'a, 's>(&'s self, cx: &Context<'a>, first: Predicted<'a, 's>) -> Predicted<'a, 's> {
        let (_, f) = first;
        let slack = (f.airtime() * BATCH).min(f.rtt / SLACK_PART);
        let last = self.serving_paths(cx).find(|(path, _)| Some(path.id) == self.last_path && path.is_open());
        last.filter(|(_, last)| last.expected <= f.expected + slack).unwrap_or(first)
    }
}
