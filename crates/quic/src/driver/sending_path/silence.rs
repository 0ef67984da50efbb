//! Silence of a path that is not answered: its probe timer, what it leaves to the other paths, and what it gives up.

use weftway_host::sending::{Outbox, silent_at};
use weftway_path::{Bytes, Health, Instant, Path, PathId, Receipt, Span};

use super::{SendingPath, Stage};

/// kGranularity (RFC 9002 §6.1.2).
pub(super) const GRANULARITY: Span = Span::from_millis(1);

impl SendingPath {
    /// The probe timeout without its back-off.
    pub fn pto(view: &Path, ack_delay: Span) -> Span {
        view.srtt + (view.rttvar * 4).max(GRANULARITY) + ack_delay
    }

    /// Arms the probe timer.
    pub fn arm(&mut self, now: Instant, view: &Path, ack_delay: Span) {
        self.probe_at = if self.stage != Stage::Up || view.bytes_in_flight == Bytes::ZERO {
            Instant::NEVER
        } else {
            (self.last_sent + Self::pto(view, ack_delay) * (1 << view.pto_count.min(10))).max(now)
        };
    }

    /// The probe timer fired: how many packets may pass the window.
    pub fn on_probe_timeout(&mut self, now: Instant, view: &mut Path) -> u32 {
        self.tally.timeouts += 1;
        view.pto_count += 1;
        if view.pto_count >= 2 {
            view.health = Health::Suspect;
        }
        self.last_sent = now;
        1 + u32::from(view.pto_count > 1)
    }

    /// Time at which the path is silent, of which an acknowledgement is expected at `due`.
    pub fn silent_at(&self, view: &Path, due: Instant, ack_delay: Span) -> Instant {
        silent_at(due, self.last_progress, Self::pto(view, ack_delay), view.srtt)
    }

    /// Time at which the oldest packet that was not offered to the other paths should be acknowledged.
    pub fn due_at(&self, view: &Path) -> Instant {
        self.offered.due_at(&self.flight, self.flight.base(), view.srtt)
    }

    /// The path is silent: what it has in flight may go on the others, other than what was offered to them before. It
    /// takes no new data while another path can, until something is heard of it.
    pub fn offer_flight(&mut self, id: PathId, view: &mut Path, outbox: &mut Outbox) {
        view.health = Health::Suspect;
        self.offered.offer(&self.flight, id, outbox);
    }

    /// Everything that waits is taken back: `back` learns of it, and of its chunk.
    pub fn give_up_queue(&mut self, id: PathId, view: &mut Path, mut back: impl FnMut(Receipt, u64)) {
        self.queue.drain(..).for_each(|assigned| back(assigned.receipt(id), assigned.chunk));
        view.queued = Bytes::ZERO;
    }

    /// Everything in flight is given up, to be sent again: `lost` learns of each packet.
    pub fn give_up_flight(&mut self, id: PathId, view: &mut Path, outbox: &mut Outbox, mut lost: impl FnMut(Receipt)) {
        let packets = (self.flight.base()..).zip(self.flight.iter());
        for (number, packet) in packets.filter(|(_, packet)| !packet.is_settled()) {
            view.lost.add(Bytes::new(packet.bytes.into()));
            if let Some(packet) = self.parts.lost(number, *packet) {
                lost(packet.receipt(id));
                self.offered.lose(number, packet.chunk, id, outbox);
            }
        }
        self.flight.clear();
        self.parts.clear();
        if let Some(reordering) = &mut self.reordering {
            reordering.clear();
        }
        self.probe_at = Instant::NEVER;
        self.tally.given_up += 1;
        view.bytes_in_flight = Bytes::ZERO;
    }
}
