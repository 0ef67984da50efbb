//! The sender as a [`Carrier`] of [`Dispatch`]: how its packets are cut, placed on paths, and what waits in their
//! queues.

use weftway_cc::Setup;
use weftway_host::sending::{Assigned, Carrier, Data, Dispatch};
use weftway_path::{BlockedReason, Bytes, Instant, PathId, Starved};

use super::sender::{Sender, Setting, send_buffer};
use super::sending_path::Stage;
use super::source::Source;

impl<S: Source> Carrier for Sender<S> {
    type Data = S::Data;

    fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    fn dispatch_mut(&mut self) -> &mut Dispatch {
        &mut self.dispatch
    }

    fn data(&mut self) -> &mut S::Data {
        self.source.data()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn is_live(&self) -> bool {
        self.established && self.broken.is_none() && !self.connection.is_early_spent()
    }

    fn buffered(&mut self) -> u64 {
        let room = self.dispatch.outbox.una() + send_buffer(&self.setting.transport);
        self.source.data().written().min(room.get())
    }

    fn begin(&mut self, id: PathId, window: Bytes) {
        let Setting { transport, seed, cc, .. } = &self.setting;
        let view = self.dispatch.views.get_mut(id);
        let rtt = Some(view.srtt);
        let plain = weftway_net::controller_setup(transport, *seed, id);
        let setup = Setup { now: self.now, rtt, initial_window: window, ..plain };
        if let Ok(cc) = weftway_net::controller(cc, transport, &setup) {
            let path = &mut self.paths[id.index()];
            path.cc = cc;
            path.publish(view, &mut self.shares[id.index()]);
        }
    }

    fn place(&mut self, id: PathId, mut assigned: Assigned) {
        let path = &mut self.paths[id.index()];
        if path.sends_at_once(self.now, self.dispatch.views.get(id)) {
            self.transmit(id, &assigned);
        } else {
            assigned.join_queue(self.dispatch.views.get_mut(id), Bytes::new(u64::from(assigned.bytes)));
            path.queue.push_back(assigned);
        }
        Carrier::refresh(self, id);
    }

    fn has_queue(&self, id: PathId) -> bool {
        !self.paths[id.index()].queue.is_empty()
    }

    fn take_queued(&mut self, id: PathId) -> Option<Assigned> {
        let assigned = self.paths[id.index()].queue.pop_front()?;
        self.dispatch.views.get_mut(id).queued -= Bytes::new(u64::from(assigned.bytes));
        Some(assigned)
    }

    fn refresh(&mut self, id: PathId) {
        let offered = self.dispatch.views.offered().contains(id);
        let (path, view) = (&mut self.paths[id.index()], self.dispatch.views.get_mut(id));
        view.release = path.pacer.release();
        view.blocked = match path.stage {
            Stage::Up if !offered => BlockedReason::Transport,
            Stage::Up => path.blocked_reason(self.now, view),
            Stage::Absent | Stage::Down { .. } => BlockedReason::Validation,
        };
        path.arm(self.now, view, self.setting.transport.ack_delay);
        let blocked = view.blocked;
        self.dispatch.question.note(id, blocked);
        if self.dispatch.host.needs.queueing {
            let held = self.dispatch.views.get(id).send_queue();
            self.dispatch.set_queue_room(id, send_buffer(&self.setting.transport).saturating_sub(held));
        }
    }

    /// The window opens with the next limit, which [`Sender::next_event`] waits for no longer than until `probe_at`.
    fn blocked(&mut self, _: Starved) {}
}
