//! Hearing of a sender: datagrams, what noq makes of them, and what it owes for them.

use noq_proto::{ConnectionEvent, Endpoint, FourTuple};
use weftway_cc::Signal;
use weftway_host::sending::{Chunk, SentPacket};
use weftway_path::{Bytes, Event, Health, Instant, Offset, PathId};

use super::connection::QuicEvent;
use super::observer::{Report, What};
use super::record::Record;
use super::sender::{Sender, receive_window};
use super::sending_path::{Outcome, Stage};
use super::source::Source;

impl<S: Source> Sender<S> {
    /// Takes a datagram that came by `route`, and returns the path that has these addresses.
    pub fn handle(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        event: ConnectionEvent,
        route: FourTuple,
    ) -> Option<PathId> {
        let known = self.connection.path_at(route);
        if known != self.heard {
            self.answer(now);
        }
        self.connection.handle_event(now, endpoint, event);
        if known.is_none() {
            self.connection.follow_migration();
        }
        let path = self.connection.path_at(route);
        path.into_iter().for_each(|path| self.answers.heard(now, path));
        self.heard = path;
        self.take_in(now, path);
        path
    }

    /// Sends on the path that was heard last what it owes.
    pub(super) fn answer(&mut self, now: Instant) {
        if let Some(path) = self.heard.take() {
            self.answers.answer(now, &mut self.connection, path);
        }
    }

    /// Takes in what a call into noq brought: that of a datagram which came `from` a path, or another one.
    pub fn take_in(&mut self, now: Instant, from: Option<PathId>) {
        self.now = now;
        self.fit_records();
        self.take_reports(from);
        // The peer opened a path anew that we took for alive: its packets are counted from the beginning.
        for id in self.dispatch.views.set().iter() {
            if self.paths[id.index()].generation != self.connection.generation(id) {
                self.path_down(id, Stage::Absent);
            }
        }
        while let Some(event) = self.connection.poll_event() {
            match event {
                QuicEvent::Connected => self.established = true,
                QuicEvent::PathUp(id) => self.path_up(id),
                QuicEvent::PathMoved(id) => {
                    self.path_down(id, Stage::Absent);
                    self.path_up(id);
                }
                QuicEvent::PathClosed(id) => self.path_down(id, Stage::Absent),
                QuicEvent::Lost(why) => self.broken = Some(why),
            }
        }
        while let Some(record) = self.connection.receive() {
            match Record::parse(&record) {
                Some(Record::Limit { edge, arrived }) if !S::DUPLEX => {
                    self.dispatch.flow.edge = self.dispatch.flow.edge.max(edge);
                    self.acknowledge_below(arrived);
                }
                Some(Record::Data(at, bytes)) => {
                    if let Some(arrived) = self.source.receive(at, bytes, from) {
                        self.acknowledge_below(arrived);
                    }
                }
                _ => {}
            }
        }
        if S::DUPLEX {
            let una = self.dispatch.outbox.una();
            self.dispatch.flow.edge = self.dispatch.flow.edge.max(una + receive_window(&self.setting.transport));
        }
        if self.setting.groups.is_due(now) {
            self.setting.groups.look(now, &mut self.dispatch.views);
        }
        self.dispatch.question.ready = true;
    }

    fn acknowledge_below(&mut self, arrived: Offset) {
        if arrived <= self.dispatch.outbox.next() {
            self.dispatch.outbox.acknowledge_below(arrived);
        }
    }

    fn take_reports(&mut self, from: Option<PathId>) {
        let mut reports = std::mem::take(&mut self.reports);
        self.connection.take_reports(&mut reports);
        let mut rest = reports.as_slice();
        while let Some(first) = rest.first() {
            let count = rest.iter().take_while(|report| report.observer == first.observer).count();
            let (of_path, others) = rest.split_at(count);
            if let Some(id) = self.connection.watched(first.observer) {
                self.settle_reports(id, of_path, from == Some(id) || self.takes_all_trips);
            }
            rest = others;
        }
        self.reports = reports;
    }

    /// Settles what noq told of one path in one go, after a datagram that came on this path (`own`) or on another; and
    /// what counts as lost by now. Without reports only time has passed.
    pub(super) fn settle_reports(&mut self, id: PathId, reports: &[Report], own: bool) {
        let now = self.now;
        let finds_losses = self.setting.transport.adapts_to_reordering;
        let prior_in_flight = self.dispatch.views.get(id).bytes_in_flight;
        let mut outcome = Outcome { prior_in_flight, ..Outcome::default() };
        for report in reports {
            let (path, view) = (&mut self.paths[id.index()], self.dispatch.views.get_mut(id));
            match report.what {
                What::Acked { number, .. } => {
                    outcome.heard = true;
                    if let Some(packet) = path.on_acked(now, view, number, &mut outcome) {
                        if let Some(packet) = path.parts.acked(number, packet) {
                            self.dispatch.outbox.acknowledge(packet.chunk);
                            self.source.acked(packet.offset);
                            self.dispatch.host.events.push(Event::Acked(packet.receipt(id)));
                        }
                    } else if let Some(late) =
                        path.on_late(now, view, &mut self.shares[id.index()], number, &mut outcome)
                    {
                        self.arrived_after_all(&late);
                    }
                }
                What::Lost { number, .. } => {
                    self.lose(id, number, &mut outcome);
                    self.paths[id.index()].forget(number, &mut outcome);
                }
                What::EndOfAcks => {
                    // What came another way shows that way's delay.
                    outcome.rtt = outcome.rtt.filter(|_| own);
                    if let Some(noq_srtt) = self.connection.srtt(id) {
                        path.on_rtt(view, outcome.rtt, noq_srtt);
                    }
                }
                What::Congestion { marked: true, .. } => self.congestion(id, Signal::Ecn, &outcome),
                What::Congestion { persistent: true, .. } => self.congestion(id, Signal::Persistent, &outcome),
                What::Congestion { .. } if !finds_losses => self.congestion(id, Signal::Loss, &outcome),
                What::Spurious if self.setting.transport.credit_late_acks && !finds_losses => {
                    path.on_spurious(now, view, &mut self.shares[id.index()]);
                }
                What::Congestion { .. } | What::Spurious => {}
            }
        }
        self.find_losses(id, &mut outcome);
        let (path, view) = (&mut self.paths[id.index()], self.dispatch.views.get_mut(id));
        if outcome.heard {
            (view.pto_count, view.health) = (0, Health::Good);
            path.last_progress = now;
        } else if view.bytes_in_flight == Bytes::ZERO {
            // The last packet that was awaited is lost. A silent path takes no new data, and without any it would never
            // be heard.
            view.health = Health::Good;
        }
        // At once (RFC 9002 §A.7, §A.10), and not in the next turn: timers may be looked at before.
        path.arm(now, view, self.setting.transport.ack_delay);
        if matches!(path.stage, Stage::Down { .. }) && outcome.heard && path.outages.is_over() {
            return self.path_up(id);
        }
        self.finish(id, &outcome);
    }

    /// Finds what is lost now, where noq does not say it.
    fn find_losses(&mut self, id: PathId, outcome: &mut Outcome) {
        while let Some(number) = self.paths[id.index()].next_lost(self.now, self.dispatch.views.get(id)) {
            self.lose(id, number, outcome);
        }
        if self.setting.transport.adapts_to_reordering && outcome.lost > Bytes::ZERO {
            self.congestion(id, Signal::Loss, outcome);
        }
    }

    fn lose(&mut self, id: PathId, number: u64, outcome: &mut Outcome) {
        let (path, view) = (&mut self.paths[id.index()], self.dispatch.views.get_mut(id));
        let packet = path.on_lost(view, number, outcome);
        if let Some(packet) = packet.and_then(|packet| path.parts.lost(number, packet)) {
            path.offered.lose(number, packet.chunk, id, &mut self.dispatch.outbox);
            self.dispatch.host.events.push(Event::Lost(packet.receipt(id)));
        }
    }

    fn congestion(&mut self, id: PathId, signal: Signal, outcome: &Outcome) {
        let (path, view) = (&mut self.paths[id.index()], self.dispatch.views.get_mut(id));
        if path.on_congestion(self.now, view, signal, outcome, &self.shares) {
            self.dispatch.host.events.push(Event::Congestion(id));
        }
    }

    /// A packet has arrived that was declared lost: a copy of its data that waits to be sent is not needed.
    fn arrived_after_all(&mut self, packet: &SentPacket) {
        // What left in parts is known as a whole alone.
        let is_whole = |chunk: &Chunk| (chunk.offset, chunk.bytes) == (packet.offset, packet.bytes);
        if self.dispatch.outbox.get(packet.chunk).is_some_and(is_whole) {
            self.dispatch.outbox.acknowledge(packet.chunk);
            self.source.acked(packet.offset);
        }
    }

    /// The controller learns of all that one call into noq settled.
    fn finish(&mut self, id: PathId, outcome: &Outcome) {
        let (path, view) = (&mut self.paths[id.index()], self.dispatch.views.get_mut(id));
        if path.stage == Stage::Up && (outcome.acked > Bytes::ZERO || outcome.lost > Bytes::ZERO) {
            path.finish(self.now, view, outcome, &self.shares);
            path.publish(view, &mut self.shares[id.index()]);
            self.check_losses(id);
        }
    }
}
