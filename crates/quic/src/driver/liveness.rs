//! Paths of a sender come up, fall silent, are given up and come back.
//!
//! A path that brings nothing for too long with data outstanding, or loses most of what it is given, is given up: its
//! data go to the others. It is asked now and then whether it is alive.

use weftway_host::sending::{Carrier, Dispatch, SentPacket, may_offer};
use weftway_path::{Bytes, Event, Health, Instant, Path, PathId, Recovery, Span};

use super::sender::{Sender, controller};
use super::sending_path::{SendingPath, Stage};
use super::source::Source;

impl<S: Source> Sender<S> {
    /// The path is usable from now on.
    pub(super) fn path_up(&mut self, id: PathId) {
        if self.paths[id.index()].stage == Stage::Up {
            return;
        }
        let noq_srtt = self.connection.srtt(id);
        let rtt = self.connection.take_validation_rtt(id).or(noq_srtt);
        let Ok(cc) = controller(&self.setting, id, self.now, rtt) else { return };
        let path = &mut self.paths[id.index()];
        path.renew(self.now, self.connection.generation(id), cc, &self.setting.transport);
        let mut view = Path::new(id, self.record, self.setting.transport.initial_cwnd());
        view.role = self.dispatch.views.get(id).role;
        view.bottleneck = self.setting.groups.of(id);
        if let Some((rtt, noq_srtt)) = rtt.zip(noq_srtt) {
            path.begin_rtt(&mut view, rtt, noq_srtt);
        }
        path.publish(&mut view, &mut self.shares[id.index()]);
        *self.dispatch.views.get_mut(id) = view;
        self.dispatch.views.set_usable(id, true);
        self.dispatch.set_beginning(id, self.setting.transport.sibling_window);
        self.dispatch.announce(id, Event::PathUp(id));
        self.refresh(id);
        self.dispatch.question.ready = true;
    }

    /// The path is not usable any more: its data go to the others.
    pub(super) fn path_down(&mut self, id: PathId, stage: Stage) {
        let was = std::mem::replace(&mut self.paths[id.index()].stage, stage);
        if was != Stage::Up {
            return;
        }
        let path = &mut self.paths[id.index()];
        let Dispatch { outbox, host, views, .. } = &mut self.dispatch;
        let (view, events) = (views.get_mut(id), &mut host.events);
        path.outages.begin(self.now);
        path.give_up_flight(id, view, outbox, |receipt| events.push(Event::Lost(receipt)));
        path.give_up_queue(id, view, |receipt, chunk| {
            events.push(Event::Recalled(receipt));
            outbox.lose(chunk, id);
        });
        (view.recovery, view.health) = (Recovery::Open, Health::Good);
        self.dispatch.views.set_usable(id, false);
        self.shares[id.index()].usable = false;
        self.refresh(id);
        self.dispatch.announce(id, Event::PathDown(id));
        self.dispatch.question.ready = true;
    }

    /// The path is gone: its address, or its interface.
    pub fn remove_path(&mut self, now: Instant, id: PathId) {
        self.now = now;
        self.path_down(id, Stage::Absent);
    }

    /// The path is there again, and noq never closed it: whether it is alive is to be seen.
    pub fn revive_path(&mut self, now: Instant, id: PathId) {
        self.now = now;
        if self.paths[id.index()].stage == Stage::Absent && self.connection.has_path(id) {
            self.paths[id.index()].stage = Stage::Down { ask_at: now };
        }
    }

    /// The probe timer of path `id` fired. Its probes repeat the oldest data.
    pub(super) fn probe(&mut self, id: PathId) {
        let count = self.paths[id.index()].on_probe_timeout(self.now, self.dispatch.views.get_mut(id));
        let offers = self.may_offer(id, self.paths[id.index()].due_at(self.dispatch.views.get(id)));
        if offers {
            self.offer(id);
        }
        for _ in 0..count {
            if self.connection.is_early_spent() || !self.dispatch.may_repeat(id) {
                break;
            }
            // Of which nothing is known.
            let Some(packet) = self.paths[id.index()].flight.oldest_unsettled(0).copied() else { break };
            // It may have left in parts.
            let whole = self.dispatch.outbox.get(packet.chunk).copied();
            let (offset, bytes) = whole.map_or((packet.offset, packet.bytes), |chunk| (chunk.offset, chunk.bytes));
            let assigned = self.dispatch.repeat(id, &SentPacket { offset, bytes, ..packet });
            self.transmit(id, &assigned);
        }
        if offers {
            let path = &mut self.paths[id.index()];
            path.offered.add_all(&path.flight);
        }
        self.refresh(id);
    }

    /// Returns true if another path may carry what path `id` has, of which an acknowledgement was expected at `due`.
    fn may_offer(&self, id: PathId, due: Instant) -> bool {
        let last_progress = |other: PathId| self.paths[other.index()].last_progress;
        self.setting.transport.reinject_at_pto && may_offer(&self.dispatch.views, id, due, last_progress)
    }

    /// Time at which what path `id` has may go on the other paths. The probe timer runs from the newest packet, and
    /// fires late where a queue is long.
    pub(super) fn offer_at(&self, id: PathId) -> Instant {
        let (path, view) = (&self.paths[id.index()], self.dispatch.views.get(id));
        let due = path.due_at(view);
        if path.stage == Stage::Up && self.may_offer(id, due) {
            path.silent_at(view, due, self.setting.transport.ack_delay)
        } else {
            Instant::NEVER
        }
    }

    /// Offers what path `id` has, in flight or waiting, to the other paths. The path is kept, and no packet counts as
    /// lost (RFC 9002 §6.2).
    pub(super) fn offer(&mut self, id: PathId) {
        let Dispatch { outbox, host, views, .. } = &mut self.dispatch;
        let (path, view) = (&mut self.paths[id.index()], views.get_mut(id));
        path.offer_flight(id, view, outbox);
        path.give_up_queue(id, view, |receipt, chunk| {
            host.events.push(Event::Recalled(receipt));
            outbox.lose(chunk, id);
        });
    }

    /// Time at which a path is given up that has been silent with data outstanding.
    pub(super) fn give_up_at(&self, id: PathId) -> Instant {
        let (path, view) = (&self.paths[id.index()], self.dispatch.views.get(id));
        if view.bytes_in_flight == Bytes::ZERO {
            return Instant::NEVER;
        }
        path.last_progress + self.patience(id)
    }

    /// Time that nothing has to come back for a path to be given up.
    fn patience(&self, id: PathId) -> Span {
        // Its own round trip may still be under way.
        let own = SendingPath::pto(self.dispatch.views.get(id), self.setting.transport.ack_delay) * 3;
        self.setting.transport.path_timeout.max(own)
    }

    /// Gives a path up that answers and loses most of what it is given, if there is another one.
    pub(super) fn check_losses(&mut self, id: PathId) {
        let period = self.patience(id);
        let loses_most = self.paths[id.index()].outages.loses_most(self.now, self.dispatch.views.get(id), period);
        if loses_most && !self.dispatch.views.set().without(id).is_empty() {
            self.give_up(id, true);
        }
    }

    fn give_up(&mut self, id: PathId, loses_most: bool) {
        let interval = self.setting.transport.probe_interval;
        let ask_at =
            self.paths[id.index()].outages.give_up(self.now, self.dispatch.views.get(id), loses_most, interval);
        self.path_down(id, Stage::Down { ask_at });
    }

    pub(super) fn check_silence(&mut self, id: PathId) {
        let again = self.now + self.setting.transport.probe_interval;
        match self.paths[id.index()].stage {
            Stage::Up if self.give_up_at(id) <= self.now => self.give_up(id, false),
            Stage::Down { ask_at } if ask_at <= self.now => {
                self.connection.ping(id);
                self.paths[id.index()].outages.ask();
                self.paths[id.index()].stage = Stage::Down { ask_at: again };
            }
            _ => {}
        }
    }
}
