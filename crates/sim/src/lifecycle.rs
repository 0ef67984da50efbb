//! Paths come up, fail and return: the path manager's part of a connection.
//!
//! A handshake is one message to and fro. It is complete for the data sender after so many one-way
//! trips: MPTCP's first subflow and a QUIC path 2 for the side that opens, 3 for the other; a
//! joining subflow 4 and 3 (RFC 8684 §3.2: the opener waits for the fourth message).
//!
//! On QUIC the messages fill datagrams. Each side validates a path, and the client answers the server's challenge with
//! a third message before its data. The first handshake has four: with the fourth the server gives the connection IDs
//! that other paths need, and the client opens these. A few packets without data follow on the first path, as noq has
//! them.
//!
//! A connection opens on its first path and on no other, however long that does not answer (`connect` of Linux, noq).
//! Linux v1 repeats the first handshake twice with MPTCP's option; the next goes without, and the connection is plain
//! TCP on that path alone (`mptcp_active_detect_blackhole`). Later connections of Linux are plain TCP from the start,
//! for an hour (`net.mptcp.blackhole_timeout`); that is not modelled. In a race all paths shake hands from the start.
//! With the first answer its path is what the first path is otherwise; the other handshakes are dropped, since no peer
//! knows yet that they are of the same connection, and begin anew when the others are opened.

use weftway_cc::{Controller, Setup};
use weftway_host::sending::{Dispatch, RangeSet};
use weftway_path::{BlockedReason, Bytes, Event, Health, Instant, PathId, Recovery, Span};
use weftway_scenario::config::{Direction, PathManager, TransportConfig};
use weftway_scenario::stack::LossRecovery;

use crate::connection::Connection;
use crate::ends::ReceiveEnd;
use crate::listeners::Note;
use crate::net::Net;
use crate::path_manager::Stage;
use crate::sender::PathSender;
use crate::wire::{Datagram, Handshake, Load};

/// QUIC: the server's last message of the first handshake, with connection IDs.
const LAST: u8 = 3;
/// QUIC: the client's ID in place of the one that the server has retired.
const NEW_ID: u8 = 4;
/// QUIC: what of the server's IDs did not fit into its last message.
const MORE_IDS: u8 = 5;
/// QUIC: the acknowledgement of both.
const ACK_OF_IDS: u8 = 6;

/// The size on the wire of a handshake's message on a connection with so many paths.
pub fn handshake_bytes(transport: &TransportConfig, paths: usize, leg: u8) -> Bytes {
    match leg {
        LAST if transport.rules.pads_handshakes => transport.id_packets(paths).0,
        MORE_IDS => transport.id_packets(paths).1.unwrap_or_default(),
        NEW_ID if transport.rules.pads_handshakes => transport.ack_packet.max(Bytes::new(84)),
        ACK_OF_IDS => transport.ack_packet,
        _ => transport.handshake_packet(),
    }
}

/// First wait for an answer to a handshake; it doubles, on some stacks after a few of equal length.
const HANDSHAKE_TIMEOUT: Span = Span::from_secs(1);

impl Connection {
    /// Returns true if the scenario lets path `id` exist at `now`.
    pub(crate) fn is_present(&self, id: PathId, now: Instant) -> bool {
        weftway_net::is_present(&self.configs[id.index()], now)
    }

    fn ids(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.configs.len() as u8).map(PathId::new)
    }

    /// Opens the connection on the first path that exists, or in a race on all of them.
    pub(crate) fn open_first(&mut self, net: &mut Net, now: Instant) {
        for id in self.ids() {
            if self.is_present(id, now) {
                self.open_path(net, now, id);
                if !self.paths.racing() {
                    break;
                }
            }
        }
        self.paths.end_look(weftway_net::next_presence(&self.configs, now));
    }

    /// The first answer of a race came on path `id`: the other handshakes come to nothing.
    fn win(&mut self, id: PathId) {
        self.paths.end_race();
        for other in self.ids().filter(|&other| other != id) {
            self.paths.set_stage(other, Stage::Absent);
            let epoch = &mut self.send.senders[other.index()].epoch;
            *epoch = epoch.wrapping_add(1);
        }
    }

    /// Opens the other paths, if the path manager's policy says so.
    pub(crate) fn open_others(&mut self, net: &mut Net, now: Instant) {
        if self.paths.joined() || self.transport.path_manager == PathManager::PrimaryFirst {
            return;
        }
        self.paths.join();
        for id in self.ids() {
            if self.paths.stage(id) == Stage::Absent && self.paths.may_use(id) && self.is_present(id, now) {
                self.open_path(net, now, id);
            }
        }
    }

    fn open_path(&mut self, net: &mut Net, now: Instant, id: PathId) {
        self.send.senders[id.index()].epoch = self.send.senders[id.index()].epoch.wrapping_add(1);
        let retry_at = self.ticks.expires(now, now + HANDSHAKE_TIMEOUT);
        self.paths.set_stage(id, Stage::Handshaking { retry_at, tries: 1 });
        self.send.writer.join(&mut self.send.senders[id.index()], &self.transport);
        if let Some(acks) = &mut self.receive.receiver.picoquic
            && self.transport.direction == Direction::Download
        {
            acks.open(id);
        }
        self.send_shake(net, now, id, 0, now);
    }

    fn send_shake(&mut self, net: &mut Net, now: Instant, id: PathId, leg: u8, echo: Instant) {
        let upload = self.transport.direction == Direction::Upload;
        let from_sender = leg.is_multiple_of(2) == upload;
        let route = self.routes[id.index()];
        let link = if from_sender { route.data } else { route.acks };
        let echo = if from_sender { now } else { echo };
        let load = Load::Handshake(Handshake { leg, echo });
        let epoch = self.send.senders[id.index()].epoch;
        let bytes = handshake_bytes(&self.transport, self.routes.len(), leg);
        let _ = net.send(now, link, bytes, Datagram { conn: self.number, path: id, epoch, marked: false, load });
        net.calendar.lower(self.source, self.paths.stage(id).next_event());
        if leg == LAST
            && self.transport.rules.pads_handshakes
            && self.transport.id_packets(self.routes.len()).1.is_some()
        {
            self.send_shake(net, now, id, MORE_IDS, echo);
        }
    }

    /// QUIC: the client has heard nothing since its last message of the handshake, which may be lost.
    #[inline(never)]
    pub(crate) fn repeat_handshake(&mut self, net: &mut Net, now: Instant, id: PathId) {
        if self.transport.rules.pads_handshakes && self.transport.direction == Direction::Upload {
            self.send_shake(net, now, id, 2, now);
        }
    }

    /// A handshake message arrived at the sender or the receiver.
    pub(crate) fn on_handshake(&mut self, net: &mut Net, now: Instant, datagram: &Datagram, handshake: Handshake) {
        let id = datagram.path;
        if datagram.epoch != self.send.senders[id.index()].epoch {
            return;
        }
        let upload = self.transport.direction == Direction::Upload;
        let at_sender = handshake.leg.is_multiple_of(2) != upload;
        if let Some(acks) = &mut self.receive.receiver.picoquic
            && !at_sender
        {
            acks.open(id);
        }
        // What opens another path tells as much.
        self.paths.answered |= !at_sender && self.paths.established.is_some();
        if self.paths.racing() && handshake.leg == 1 {
            self.win(id);
        }
        let first = self.paths.established.is_none();
        let needed = match (upload, first || !self.transport.rules.joins) {
            (true, true) => 2,
            (true, false) => 4,
            (false, _) => 3,
        };
        if self.transport.rules.pads_handshakes && handshake.leg >= 3 {
            self.on_ids(net, now, id, handshake);
        } else if at_sender && handshake.leg + 1 >= needed {
            // The handshake goes on; what is left of it need not be waited for. A path that is only asked whether it is
            // alive is validated.
            let opens = matches!(self.paths.stage(id), Stage::Handshaking { .. });
            if self.transport.rules.pads_handshakes && opens && (first || upload) {
                self.send_shake(net, now, id, handshake.leg + 1, handshake.echo);
            }
            self.path_up(net, now, id, now.since(handshake.echo));
        } else if self.is_validated(handshake.leg) {
            // The client's answer to the server's challenge asks for acknowledgements at once.
            if upload {
                self.owe_ack(net, now, id);
                self.send_all_acks(net, now, id);
            }
        } else if handshake.leg < 4 {
            self.send_shake(net, now, id, handshake.leg + 1, handshake.echo);
            // The client's connection IDs came with its last message, and ask for an acknowledgement.
            if handshake.leg == 2 && self.transport.rules.pads_handshakes && upload {
                self.owe_ack(net, now, id);
            }
        }
    }

    /// QUIC: what follows the handshake on the first path, connection IDs above all.
    fn on_ids(&mut self, net: &mut Net, now: Instant, id: PathId, handshake: Handshake) {
        let upload = self.transport.direction == Direction::Upload;
        match handshake.leg {
            LAST => {
                // The server uses another ID from now on; the client replaces the one that it had.
                if !self.paths.joined() {
                    self.send_shake(net, now, id, NEW_ID, handshake.echo);
                }
                self.open_others(net, now);
            }
            MORE_IDS if upload => self.send_shake(net, now, id, ACK_OF_IDS, handshake.echo),
            _ => {}
        }
        let at_receiver = handshake.leg.is_multiple_of(2) == upload;
        if at_receiver && handshake.leg != ACK_OF_IDS {
            self.owe_ack(net, now, id);
        }
    }

    /// A packet without data asks the receiver for an acknowledgement.
    fn owe_ack(&mut self, net: &mut Net, now: Instant, id: PathId) {
        let epoch = self.send.senders[id.index()].epoch;
        if self.receive.receiver.paths[id.index()].epoch != epoch {
            self.meets(now, id, epoch);
        }
        if let Some(acks) = &mut self.receive.receiver.picoquic {
            acks.arrived(now, id, None);
            return self.acknowledge_all(net, now, false);
        }
        let inbound = &mut self.receive.receiver.paths[id.index()];
        if inbound.owe(now, &self.transport) {
            self.send_ack(net, now, id);
        } else {
            net.calendar.lower(self.source, inbound.due);
        }
    }

    /// Returns true if QUIC's server has with this message what it needs of the client: nothing but an acknowledgement
    /// follows, once the client has the connection IDs.
    fn is_validated(&self, leg: u8) -> bool {
        leg == 2 && self.transport.rules.pads_handshakes && self.paths.joined()
    }

    /// The path is usable from now on; its handshake took `rtt`.
    fn path_up(&mut self, net: &mut Net, now: Instant, id: PathId, rtt: Span) {
        if self.paths.stage(id) == Stage::Up || self.paths.stage(id) == Stage::Absent {
            return;
        }
        self.paths.set_stage(id, Stage::Up);
        self.renew(now, id, rtt);
        self.receive.receiver.paths[id.index()].capture.start(rtt);
        if let Some(acks) = &mut self.receive.receiver.picoquic {
            acks.set_rtt(id, rtt);
        }
        self.dispatch.views.set_usable(id, true);
        self.dispatch.set_beginning(id, self.transport.sibling_window);
        let quic = self.transport.rules.recovery == LossRecovery::Quic;
        let (sender, mut ctx) = self.send_context(net, now, id);
        if quic {
            sender.quic_start(&mut ctx, rtt);
        } else {
            sender.tcp_start(&mut ctx, rtt);
        }
        self.dispatch.announce(id, Event::PathUp(id));
        self.listeners.note(now, self.number, || Note::Up(id));
        if self.paths.established.is_none() {
            self.paths.established = Some(now);
            self.data.app.start(now);
            self.data.take_written(now);
            if self.data.app.is_done(now, 0) {
                self.finished = Some(now);
            }
            net.calendar.lower(self.source, self.data.app.next_event());
        }
        self.send.writer.grow_buffer(id, &mut self.send.senders, &self.transport);
        self.refresh(net, now, id);
        self.wake();
    }

    /// A sender and a view as new, counters included.
    fn renew(&mut self, now: Instant, id: PathId, rtt: Span) {
        let old = &self.send.senders[id.index()];
        let (link, epoch) = (old.data_link, old.epoch);
        let setup = Setup { now, rtt: Some(rtt), ..self.setup(id) };
        let cc = self.controller(&setup);
        let mut sender = PathSender::new(id, link, cc, &self.transport, self.data.app.has_messages(), now);
        sender.epoch = epoch;
        self.send.senders[id.index()] = sender;
        let mut view = weftway_path::Path::new(id, self.transport.mss, setup.initial_window);
        view.role = weftway_net::role(&self.transport, &self.configs, id);
        view.bottleneck = self.send.groups.of(id);
        *self.dispatch.views.get_mut(id) = view;
    }

    /// A controller for a path that comes up, or starts anew.
    fn controller(&self, setup: &Setup) -> Box<dyn Controller> {
        weftway_net::controller(&self.cc.spec, &self.transport, setup).expect("the controller was built before")
    }

    /// Path `id`, which has sent nothing, starts with this window. One whose window is held keeps it.
    pub(crate) fn begin(&mut self, net: &mut Net, now: Instant, id: PathId, initial_window: Bytes) {
        let rtt = Some(self.dispatch.views.get(id).srtt);
        let cc = self.controller(&Setup { now, rtt, initial_window, ..self.setup(id) });
        let (sender, mut ctx) = self.send_context(net, now, id);
        sender.begin(cc);
        sender.publish(&mut ctx);
    }

    /// Setup of a controller of path `id`.
    pub(crate) fn setup(&self, id: PathId) -> Setup {
        weftway_net::controller_setup(&self.transport, self.cc.seed, id)
    }

    /// The path is not usable any more: what it held goes back to the connection.
    pub(crate) fn path_down(&mut self, net: &mut Net, now: Instant, id: PathId, stage: Stage) {
        let was_up = self.paths.stage(id) == Stage::Up;
        self.paths.set_stage(id, stage);
        net.calendar.lower(self.source, stage.next_event());
        if !was_up {
            return;
        }
        self.hand_back_all(id);
        self.dispatch.views.set_usable(id, false);
        self.send.shares[id.index()].usable = false;
        self.refresh(net, now, id);
        self.dispatch.announce(id, Event::PathDown(id));
        self.listeners.note(now, self.number, || Note::Down(id));
        if !self.paths.joined() && self.dispatch.views.set().is_empty() {
            self.open_next(net, now);
        }
        self.wake();
    }

    /// Everything that path `id` has not delivered goes back to the connection.
    fn hand_back_all(&mut self, id: PathId) {
        let quic = self.transport.rules.recovery == LossRecovery::Quic;
        let sender = &mut self.send.senders[id.index()];
        let Dispatch { outbox, host, views, .. } = &mut self.dispatch;
        let (view, events) = (views.get_mut(id), &mut host.events);
        // What TCP acknowledged selectively waits behind a hole of its subflow, and goes with the subflow.
        let packets = (sender.flight.base()..).zip(sender.flight.iter());
        for (number, packet) in packets.filter(|(_, packet)| !(quic && packet.acked)) {
            if !packet.lost && !packet.acked {
                let receipt = packet.receipt(id);
                view.lost.add(receipt.bytes);
                events.push(Event::Lost(receipt));
            }
            if !quic {
                outbox.hand_back(packet.chunk);
            } else if !packet.lost {
                // Else it was handed back when it was declared lost.
                sender.quic.offered.lose(number, packet.chunk, id, outbox);
            }
        }
        for assigned in sender.queue.iter() {
            events.push(Event::Recalled(assigned.receipt(id)));
            if quic { outbox.lose(assigned.chunk, id) } else { outbox.hand_back(assigned.chunk) }
        }
        sender.flight.clear();
        sender.queue.clear();
        sender.sacked = RangeSet::default();
        (sender.tcp, sender.quic) = Default::default();
        sender.disarm();
        // What still travels belongs to the past.
        sender.epoch = sender.epoch.wrapping_add(1);
        (view.bytes_in_flight, view.queued) = (Bytes::ZERO, Bytes::ZERO);
        (view.blocked, view.recovery, view.health) = (BlockedReason::Validation, Recovery::Open, Health::Good);
    }

    /// Opens the first path that exists and is not open.
    fn open_next(&mut self, net: &mut Net, now: Instant) {
        let opens = |id| self.paths.stage(id) == Stage::Absent && self.paths.may_use(id) && self.is_present(id, now);
        let next = self.ids().find(|&id| opens(id));
        if let Some(id) = next {
            self.open_path(net, now, id);
        }
    }

    /// Gives up path `id` if it has been silent for too long with data outstanding. When to look again, unless it is
    /// given up.
    #[inline]
    pub(crate) fn check_silence(&mut self, net: &mut Net, now: Instant, id: PathId) -> Instant {
        let outstanding = self.dispatch.views.get(id).bytes_in_flight > Bytes::ZERO;
        if self.paths.stage(id) != Stage::Up || !outstanding {
            return Instant::NEVER;
        }
        // A path is not silent while its own round trip may still be under way.
        let sender = &self.send.senders[id.index()];
        let own = match self.transport.rules.recovery {
            LossRecovery::Tcp => sender.tcp.rtt.rto(),
            LossRecovery::Quic => sender.quic.rtt.pto(self.transport.ack_delay),
        };
        let patience = sender.last_progress + self.transport.path_timeout.max(own * 3);
        if patience > now {
            return patience;
        }
        let retry_at = now + self.transport.probe_interval;
        self.path_down(net, now, id, Stage::Down { retry_at });
        Instant::NEVER
    }

    /// Handshakes to repeat, paths to probe, paths that the scenario adds or removes.
    #[cold]
    pub(crate) fn look_at_stages(&mut self, net: &mut Net, now: Instant) {
        self.paths.begin_look();
        self.run_stages(net, now);
        self.paths.end_look(weftway_net::next_presence(&self.configs, now));
    }

    fn run_stages(&mut self, net: &mut Net, now: Instant) {
        for id in self.ids() {
            let present = self.is_present(id, now);
            match self.paths.stage(id) {
                Stage::Absent if present && self.paths.opens(id) => self.open_path(net, now, id),
                Stage::Up | Stage::Down { .. } | Stage::Handshaking { .. } if !present => {
                    self.path_down(net, now, id, Stage::Absent);
                }
                Stage::Handshaking { retry_at, tries } if retry_at <= now => {
                    let doublings = tries.saturating_sub(self.transport.rules.even_handshakes).min(5);
                    let retry_at = self.ticks.expires(now, now + HANDSHAKE_TIMEOUT * (1 << doublings));
                    self.paths.set_stage(id, Stage::Handshaking { retry_at, tries: tries + 1 });
                    if self.gives_up_mptcp(tries) {
                        self.become_tcp(id);
                    }
                    self.send_shake(net, now, id, 0, now);
                }
                Stage::Down { retry_at } if retry_at <= now => {
                    self.paths.set_stage(id, Stage::Down { retry_at: now + self.transport.probe_interval });
                    self.send_shake(net, now, id, 0, now);
                }
                _ => {}
            }
        }
    }

    /// Returns true if the first handshake goes on without MPTCP, after so many `tries` with it.
    fn gives_up_mptcp(&self, tries: u32) -> bool {
        let begins = self.paths.established.is_none() && !self.paths.racing();
        begins && self.transport.rules.repeats_before_tcp.is_some_and(|repeats| tries > repeats)
    }

    /// The connection becomes plain TCP on path `id`. Nothing has been sent yet, and the path's sender and view are
    /// made anew when it comes up.
    fn become_tcp(&mut self, id: PathId) {
        self.paths.become_tcp(id);
        self.transport = self.transport.as_tcp();
        self.receive = ReceiveEnd::new(&self.transport, self.configs.len());
        self.dispatch.set_mss(self.transport.mss);
        self.dispatch.flow.edge = self.receive.receiver.data.edge();
    }

    /// The receiver meets a packet of another time. Whether it is of a path that has come up anew, and no straggler
    /// from before it went down.
    #[cold]
    pub(crate) fn meets(&mut self, now: Instant, id: PathId, epoch: u8) -> bool {
        let ahead = epoch.wrapping_sub(self.receive.receiver.paths[id.index()].epoch);
        let is_new = ahead > 0 && ahead < 128;
        if is_new {
            let released = self.receive.receiver.renew(now, id, epoch);
            self.count_released(id, released);
        }
        is_new
    }
}
