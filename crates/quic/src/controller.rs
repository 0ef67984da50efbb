//! The project's congestion controllers on noq.
//!
//! [`Controllers`] is a `ControllerFactory` of noq: it makes one [`Adapter`] for each path of one connection. The
//! adapter keeps what noq does not tell (delivery rate, the use of the window, losses) and hands it to a
//! [`weftway_cc::Controller`]. Who wants to look or to steer gives it a [`Hook`]: it is told what happens on every
//! path, and may keep a path's window shut.
//!
//! ```
//! use std::sync::Arc;
//! use weftway_quic::controller::Controllers;
//!
//! let mut transport = noq_proto::TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(Controllers::new("cubic:slow_start=hystart++")?));
//! # Ok::<(), weftway_path::spec::SpecError>(())
//! ```
//!
//! Sizes are those that noq counts: whole QUIC packets, of those that ask for an acknowledgement.
//!
//! - One factory belongs to one connection. Coupled controllers (`lia`, `olia`, `balia`, `dlia`, `wvegas`,
//!   `coupled-bbr`, `mptcp-bbr`, `bdp`) read the other paths of their factory, and paths are numbered by their factory.
//! - Paths are numbered in the order in which noq makes them. noq does not say which path it makes a controller for: a
//!   path that moves to another remote address gets a controller, and a number, of its own. Above [`PathId::MAX_PATHS`]
//!   the numbers of paths that are gone are used again.
//! - noq's own hints (`on_cwnd_limited`, `app_limited`) are wrong while a hook shuts windows. Both are worked out here
//!   from what is in flight, what the window and the pacer would have let out, and when.
//! - A window of 0 reaches noq's pacer if `metrics()` is left as it is: it reports the controller's window here, shut
//!   or not.
//! - The packet size that a controller reckons with stays what it was at the start (`initial_mtu`).

#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller as NoqController, ControllerFactory, ControllerMetrics};
use weftway_cc::{Acked, Congestion, Controller, Entry, Flavour, Sent, Setup, Share, Signal};
use weftway_host::sending::{RateSampler, Sample, SentPacket};
use weftway_path::spec::SpecError;
use weftway_path::{BitRate, Bytes, Instant, Offset, Path, PathId, Receipt, Recovery, Ring, Span};

/// noq's clock.
type Clock = std::time::Instant;

/// Looks at the paths of a connection, and may keep their windows shut. All calls about one connection come one after
/// another: noq makes them while it holds the connection.
#[expect(unused_variables, reason = "what a hook does not listen to")]
pub trait Hook: Send + Sync + fmt::Debug + 'static {
    /// A path was made.
    fn opened(&self, now: Instant, path: &Path) {}

    /// Hears that nothing uses the path's controller any more.
    fn closed(&self, path: PathId) {}

    /// Returns true if noq may send on the path, whose window has room or not: noq asks before each datagram, and also
    /// when it reports statistics.
    fn is_open(&self, path: PathId) -> bool {
        true
    }

    /// noq reads the controller's figures: when it comes to the path in its round over all paths, after
    /// [`Hook::is_open`] when it asks its pacer, and for statistics.
    fn visited(&self, path: PathId) {}

    /// Data waited, and noq sent none of them on this path, whose window has no room or is shut.
    fn limited(&self, path: PathId) {}

    /// A packet left; `path` is the state after it. The answer is the number and the first byte by which
    /// [`Hook::acked`] and [`Hook::lost`] name it.
    fn sent(&self, now: Instant, path: &Path, bytes: Bytes) -> (u64, Offset) {
        (0, Offset::ZERO)
    }

    /// The packets that left one after another were handed out in one piece: noq begins its next round over all paths.
    fn flushed(&self, path: PathId) {}

    /// A packet was acknowledged.
    fn acked(&self, now: Instant, receipt: Receipt) {}

    /// A packet was declared lost.
    fn lost(&self, now: Instant, receipt: Receipt) {}

    /// An acknowledgement or a loss was dealt with to its end: the path's new state. `reduced` if its window was
    /// reduced.
    fn updated(&self, now: Instant, path: &Path, reduced: bool) {}
}

/// Makes the controllers of one connection's paths.
#[derive(Clone, Debug)]
pub struct Controllers {
    entry: &'static Entry,
    given: Vec<(String, String)>,
    hook: Option<Arc<dyn Hook>>,
    connection: Arc<Connection>,
}

/// State that the paths of a connection share.
#[derive(Debug, Default)]
struct Connection {
    /// Time at which the first path was made: time zero of all that is told.
    origin: OnceLock<Clock>,
    /// Shares that each path publishes, by number; [`Share::usable`] while it lives.
    shares: Mutex<Vec<Share>>,
}

impl Connection {
    fn shares(&self) -> MutexGuard<'_, Vec<Share>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, now: Clock) -> Instant {
        let since = now.saturating_duration_since(*self.origin.get_or_init(|| now));
        Instant::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1))
    }
}

impl Controllers {
    /// The controllers that `spec` names, for example `cubic:slow_start=hystart++`.
    pub fn new(spec: &str) -> Result<Self, SpecError> {
        let (entry, spec) = weftway_cc::parse(spec)?;
        entry.make(&spec.given, &setup(PathId::new(0), 1200, Instant::ZERO))?;
        let connection = Arc::default();
        Ok(Self { entry, given: spec.given, hook: None, connection })
    }

    /// Adds a hook that looks and steers.
    #[must_use]
    pub fn with_hook(self, hook: Arc<dyn Hook>) -> Self {
        Self { hook: Some(hook), ..self }
    }

    /// Factory for another connection: its paths count from 0 again, and nothing is shared. The hook stays behind.
    #[must_use]
    pub fn fresh(&self) -> Self {
        Self { hook: None, connection: Arc::default(), ..self.clone() }
    }

    /// `now` on the clock of everything that a hook is told: it counts from when the first path was made.
    pub fn at(&self, now: Clock) -> Instant {
        self.connection.at(now)
    }

    /// The next path's number, for which `share` is kept; `None` if all are in use.
    fn number(&self) -> Option<PathId> {
        let shares = self.connection.shares();
        let next = shares.len();
        let index = if next < PathId::MAX_PATHS { next } else { shares.iter().position(|share| !share.usable)? };
        Some(PathId::new(index as u8))
    }
}

/// The window a path starts with (RFC 9002 §7.2).
fn initial_window(mtu: u64) -> u64 {
    (10 * mtu).min(14_720.max(2 * mtu))
}

fn setup(path: PathId, mtu: u16, now: Instant) -> Setup {
    let mtu = u64::from(mtu.max(1));
    Setup {
        path,
        mss: Bytes::new(mtu),
        initial_window: Bytes::new(initial_window(mtu)),
        flavour: Flavour::Quic,
        seed: u64::from(path.get()),
        now,
        rtt: None,
    }
}

impl ControllerFactory for Controllers {
    fn build(self: Arc<Self>, now: Clock, current_mtu: u16) -> Box<dyn NoqController> {
        let now = self.connection.at(now);
        // A path beyond the most that a connection has is controlled all the same; nobody sees it.
        let number = self.number();
        let setup = setup(number.unwrap_or_default(), current_mtu, now);
        let Ok(cc) = self.entry.make(&self.given, &setup) else {
            unreachable!("the same switches made a controller in `new`")
        };
        let mut path = Path::new(setup.path, setup.mss, setup.initial_window);
        path.cwnd = cc.cwnd();
        let life = number.map(|number| {
            let mut shares = self.connection.shares();
            let share = Share { path: number, ..cc.share() };
            match shares.get_mut(number.index()) {
                Some(old) => *old = share,
                None => shares.push(share),
            }
            Arc::new(Life { number, hook: self.hook.clone(), connection: Arc::clone(&self.connection) })
        });
        let mut adapter = Adapter {
            coupled: self.entry.coupled,
            connection: Arc::clone(&self.connection),
            life,
            cc: Mutex::new(cc),
            path,
            initial_window: setup.initial_window.get(),
            metrics: Figures::default(),
            flight: Ring::default(),
            sampler: RateSampler::default(),
            batch: Batch::default(),
            usage: Usage::default(),
            recovery_start: None,
            paced_until: now,
            now,
            withheld: AtomicBool::new(false),
            shut: AtomicBool::new(false),
        };
        adapter.publish();
        if let Some(hook) = adapter.hook() {
            hook.opened(now, &adapter.path);
        }
        Box::new(adapter)
    }
}

/// Shared by a controller and its copies: when the last is gone, so is the path.
#[derive(Debug)]
struct Life {
    number: PathId,
    hook: Option<Arc<dyn Hook>>,
    connection: Arc<Connection>,
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(share) = self.connection.shares().get_mut(self.number.index()) {
            share.usable = false;
        }
        if let Some(hook) = &self.hook {
            hook.closed(self.number);
        }
    }
}

/// Figures that `metrics()` reports, kept so that no lock is taken to read it.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    cwnd: u64,
    ssthresh: Option<u64>,
    pacing: Option<u64>,
    quantum: Option<u64>,
    bandwidth: Option<u64>,
}

/// An acknowledgement in the making.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    bytes: Bytes,
    prior_in_flight: Bytes,
    sample: Sample,
    rtt: Option<Span>,
    /// noq's smoothed and smallest round-trip time, which lack this acknowledgement's sample.
    known: Option<(Span, Span)>,
    /// Lost since the acknowledgement before.
    lost: Bytes,
    /// Lost since the congestion event before.
    episode: Bytes,
}

/// Use of the window, over this round trip and the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    peak: Bytes,
    before: Bytes,
    round: Bytes,
}

impl Usage {
    /// Returns true if the window is what limits the path (RFC 9002 §7.8). In slow start a window may grow to twice
    /// what was used (`tcp_is_cwnd_limited`).
    fn is_limited(&self, path: &Path) -> bool {
        let used = self.peak.max(self.before);
        used + path.mss > path.cwnd || path.cwnd < path.ssthresh && path.cwnd < used + used
    }
}

/// A controller of this project as one of noq's.
pub struct Adapter {
    coupled: bool,
    connection: Arc<Connection>,
    life: Option<Arc<Life>>,
    /// Never locked: noq wants a type that may be shared, and changes it only through `&mut`.
    cc: Mutex<Box<dyn Controller>>,
    path: Path,
    initial_window: u64,
    metrics: Figures,
    /// Packets in the order in which they left; `chunk` is noq's packet number.
    flight: Ring<SentPacket>,
    sampler: RateSampler,
    batch: Batch,
    usage: Usage,
    recovery_start: Option<Instant>,
    /// Time at which what has left is paid for at the pacing rate.
    paced_until: Instant,
    /// The newest time seen.
    now: Instant,
    /// The hook kept the window shut though it had room, and nothing has left since.
    withheld: AtomicBool,
    /// The window was shut when noq last read it.
    shut: AtomicBool,
}

/// Removes a closed path: of what was in flight on it nothing more will be known.
impl Drop for Adapter {
    fn drop(&mut self) {
        if self.life.as_ref().is_some_and(|life| Arc::strong_count(life) == 1)
            && let Some(hook) = self.hook()
        {
            for packet in self.flight.iter().filter(|packet| !packet.acked && !packet.lost) {
                hook.lost(self.now, receipt(self.path.id, packet));
            }
        }
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Time by which noq's pacer may let a packet out late (its bursts and its timer's grain) before this says that the
/// application limits the path.
const PACER_GRAIN: Span = Span::from_millis(2);

/// Time that a packet is waited for of which noq says nothing more (a lost probe of the packet size, a discarded
/// handshake packet): this, or so many round-trip times.
const FORGOTTEN: (Span, u64) = (Span::from_millis(500), 8);

impl Adapter {
    fn hook(&self) -> Option<&dyn Hook> {
        self.life.as_ref()?.hook.as_deref()
    }

    fn cc(&mut self) -> &mut Box<dyn Controller> {
        self.cc.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path as a scheduler sees it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes over what the controller says.
    fn publish(&mut self) {
        let cc = self.cc.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (cwnd, ssthresh, rate, share) = (cc.cwnd(), cc.ssthresh(), cc.pacing_rate(), cc.share());
        let quantum = rate.map(|_| cc.send_quantum().get());
        self.metrics = Figures {
            // noq's pacer divides by it.
            cwnd: cwnd.get().max(1),
            ssthresh: (ssthresh != Bytes::MAX).then(|| ssthresh.get()),
            pacing: rate.map(|rate| (rate.as_bps() / 8).max(1)),
            quantum,
            bandwidth: Some(share.bandwidth.as_bps()).filter(|bandwidth| *bandwidth > 0),
        };
        self.path.cwnd = cwnd;
        self.path.link_rate = share.link_rate;
        self.path.ssthresh = ssthresh;
        // noq's pacer refills at 5/4 of a window per round trip.
        let implied = || match self.path.srtt.is_zero() {
            true => BitRate::ZERO,
            false => BitRate::of(cwnd.mul_div(5, 4), self.path.srtt),
        };
        self.path.pacing_rate = rate.unwrap_or_else(implied);
        if self.coupled
            && let Some(life) = &self.life
            && let Some(slot) = self.connection.shares().get_mut(life.number.index())
        {
            *slot = Share { path: life.number, srtt: self.path.srtt, ..share };
        }
    }

    /// Calls the controller with what its siblings publish.
    fn with_siblings(&mut self, call: impl FnOnce(&mut dyn Controller, &[Share])) {
        let cc = self.cc.get_mut().unwrap_or_else(PoisonError::into_inner);
        if self.coupled && self.life.is_some() {
            call(cc.as_mut(), &self.connection.shares());
        } else {
            let share = Share { srtt: self.path.srtt, ..cc.share() };
            call(cc.as_mut(), &[share]);
        }
    }

    /// The packet of so many `bytes` that noq names so, if it is not settled. Its number alone does not name it: the
    /// handshake's packets have numbers of their own, and several of them leave at the same time.
    fn find(&self, sent: Option<Instant>, pn: u64, bytes: u64) -> Option<u64> {
        let Some(sent) = sent else {
            // Losses come without a time. Numbers rise with time, but for the handshake's.
            let at = self.flight.partition_point(|packet| packet.chunk < pn);
            let hit = |index: u64| {
                let packet = self.flight.get(index)?;
                (packet.chunk == pn && u64::from(packet.bytes) == bytes && packet.is_undecided()).then_some(index)
            };
            return hit(at).or_else(|| (self.flight.base()..self.flight.end()).find(|index| hit(*index).is_some()));
        };
        let from = self.flight.partition_point(|packet| (packet.sent_at, packet.chunk) < (sent, pn));
        let is = |packet: &SentPacket| {
            packet.sent_at == sent && packet.chunk == pn && u64::from(packet.bytes) == bytes && !packet.acked
        };
        if self.flight.get(from).is_some_and(is) {
            return Some(from);
        }
        let first = self.flight.partition_point(|packet| packet.sent_at < sent);
        let same = |index: &u64| self.flight.get(*index).is_some_and(|packet| packet.sent_at == sent);
        (first..self.flight.end()).take_while(same).find(|index| self.flight.get(*index).is_some_and(is))
    }

    /// Forgets what is settled, and what noq has forgotten.
    fn settle(&mut self) {
        let patience = FORGOTTEN.0.max(self.path.srtt * FORGOTTEN.1);
        while self
            .flight
            .front()
            .is_some_and(|oldest| oldest.acked || oldest.lost || oldest.sent_at + patience < self.now)
        {
            self.flight.pop();
        }
    }

    /// Notes whether the path might have sent by its window and its pacer, and did not.
    fn note_idle(&mut self, now: Instant, app_limited: bool) {
        let room = self.path.bytes_in_flight + self.path.mss <= self.path.cwnd;
        let grain = PACER_GRAIN.max(self.path.srtt / 4);
        let nothing_to_send = app_limited || *self.withheld.get_mut();
        if room && nothing_to_send && self.paced_until + grain < now {
            self.sampler.on_app_limited(self.path.bytes_in_flight);
        }
    }

    /// Takes a round-trip sample into the averages (RFC 9002 §5.3). noq's own averages, which leave out what the peer
    /// says of its delay, are taken over where they are known.
    fn note_rtt(&mut self) {
        let Some(sample) = self.batch.rtt else { return };
        let path = &mut self.path;
        path.latest_rtt = sample;
        path.rtt_samples += 1;
        path.rtt_sum += sample;
        path.max_rtt = path.max_rtt.max(sample);
        if path.rtt_samples == 1 {
            (path.srtt, path.rttvar, path.min_rtt) = (sample, sample / 2, sample);
            return;
        }
        let (srtt, min) = self.batch.known.unwrap_or((path.srtt, path.min_rtt));
        path.rttvar = Span::from_nanos((3 * path.rttvar.as_nanos() + srtt.abs_diff(sample).as_nanos()) / 4);
        path.min_rtt = path.min_rtt.min(min).min(sample);
        path.srtt = srtt;
    }

    /// A packet is acknowledged; `known` is noq's smoothed and smallest round-trip time.
    fn acknowledge(
        &mut self,
        now: Clock,
        sent: Clock,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        known: (Duration, Duration),
    ) {
        let (now, sent_at) = (self.connection.at(now).max(self.now), self.connection.at(sent));
        self.now = now;
        if self.batch.bytes == Bytes::ZERO {
            self.note_idle(now, app_limited);
            self.batch.prior_in_flight = self.path.bytes_in_flight;
            self.batch.sample = Sample::default();
            let span = |time: Duration| Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            self.batch.known = Some((span(known.0), span(known.1)));
        }
        let size = Bytes::new(bytes);
        self.batch.bytes += size;
        self.path.bytes_in_flight = self.path.bytes_in_flight.saturating_sub(size);
        let Some(index) = self.find(Some(sent_at), pn, bytes) else { return };
        let Some(packet) = self.flight.get_mut(index) else { return };
        packet.acked = true;
        let packet = *packet;
        self.path.acked.add(size);
        self.sampler.on_delivered(now, &packet, &mut self.batch.sample);
        if self.batch.sample.newest_sent == Some(packet.sent_at) {
            self.batch.rtt = Some(now.max(packet.sent_at).since(packet.sent_at));
        }
        if let Some(hook) = self.hook() {
            hook.acked(now, receipt(self.path.id, &packet));
        }
    }

    fn update(&mut self, reduced: bool) {
        self.publish();
        if let Some(hook) = self.hook() {
            hook.updated(self.now, &self.path, reduced);
        }
    }
}

/// Names `packet`, which left on `path`.
fn receipt(path: PathId, packet: &SentPacket) -> Receipt {
    packet.receipt(path)
}

impl NoqController for Adapter {
    fn on_packet_sent(&mut self, now: Clock, bytes: u16, pn: u64) {
        let now = self.connection.at(now).max(self.now);
        self.now = now;
        let size = Bytes::new(u64::from(bytes));
        let after_idle = self.path.bytes_in_flight == Bytes::ZERO;
        *self.withheld.get_mut() = false;
        let mut packet = SentPacket { chunk: pn, ..SentPacket::new(now, self.path.next, u32::from(bytes)) };
        self.sampler.on_sent(now, after_idle, &mut packet);
        let path = &mut self.path;
        path.bytes_in_flight += size;
        path.sent.add(size);
        path.next += size;
        self.usage.peak = self.usage.peak.max(path.bytes_in_flight);
        if path.pacing_rate > BitRate::ZERO {
            self.paced_until = self.paced_until.max(now) + path.pacing_rate.transmission_time(size);
        }
        let bytes_in_flight = path.bytes_in_flight;
        let sent = Sent { now, bytes: size, bytes_in_flight, after_idle, app_limited: packet.app_limited };
        self.cc().on_sent(&sent);
        self.metrics.cwnd = self.cc().cwnd().get().max(1);
        self.path.cwnd = Bytes::new(self.metrics.cwnd);
        if let Some(hook) = self.hook() {
            (packet.serial, packet.offset) = hook.sent(now, &self.path, size);
        }
        self.flight.push(packet);
    }

    fn on_sent(&mut self, _now: Clock, _bytes: u64, _largest_pn: u64) {
        if let Some(hook) = self.hook() {
            hook.flushed(self.path.id);
        }
    }

    /// noq says this of a window that the hook keeps shut, too. Of an open one it means that more is in flight than
    /// this was told of: packets that are padded and ask for no acknowledgement.
    fn on_cwnd_limited(&mut self) {
        let path = &mut self.path;
        if !*self.shut.get_mut() && path.bytes_in_flight + path.mss <= path.cwnd {
            path.bytes_in_flight = path.cwnd.saturating_sub(path.mss) + Bytes::new(1);
            self.update(false);
        }
        if let Some(hook) = self.hook() {
            hook.limited(self.path.id);
        }
    }

    fn on_ack(&mut self, now: Clock, sent: Clock, bytes: u64, pn: u64, app_limited: bool, rtt: &RttEstimator) {
        self.acknowledge(now, sent, bytes, pn, app_limited, (rtt.get(), rtt.min()));
    }

    fn on_end_acks(&mut self, now: Clock, in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        let now = self.connection.at(now).max(self.now);
        self.now = now;
        // noq takes packets out without a word: those of a discarded handshake space, lost probes of the packet size.
        self.path.bytes_in_flight = Bytes::new(in_flight);
        if self.batch.bytes == Bytes::ZERO {
            return;
        }
        self.note_rtt();
        let batch = self.batch;
        let (rate, interval) = self.sampler.finish(now, self.path.min_rtt, &batch.sample);
        if let Some(rate) = rate {
            self.path.delivery_rate = rate;
        }
        let newest_sent = batch.sample.newest_sent.unwrap_or(Instant::ZERO);
        let recovered = self.recovery_start.is_some_and(|start| newest_sent > start);
        if recovered && self.path.recovery != Recovery::Open {
            self.path.recovery = Recovery::Open;
            self.cc().on_recovered(now);
        }
        let acked = Acked {
            now,
            bytes: batch.bytes,
            lost: batch.lost,
            prior_in_flight: batch.prior_in_flight,
            bytes_in_flight: self.path.bytes_in_flight,
            rtt: batch.rtt,
            srtt: self.path.srtt,
            min_rtt: self.path.min_rtt,
            newest_sent,
            delivered: self.sampler.delivered(),
            prior_delivered: batch.sample.prior_delivered,
            rate,
            interval,
            app_limited: batch.sample.app_limited,
            cwnd_limited: self.usage.is_limited(&self.path),
            recovery: self.path.recovery,
            reducing: false,
        };
        if acked.prior_delivered >= self.usage.round {
            self.usage =
                Usage { peak: self.path.bytes_in_flight, before: self.usage.peak, round: self.sampler.delivered() };
        }
        self.batch = Batch { episode: batch.episode, ..Batch::default() };
        self.with_siblings(|cc, siblings| cc.on_acked(&acked, siblings));
        self.settle();
        self.update(false);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Clock) {
        self.now = self.connection.at(now).max(self.now);
        let size = Bytes::new(u64::from(lost_bytes));
        // What only acknowledges has size 0 and was never counted. What was forgotten here was: a path that was dead
        // for a while loses packets long after they were sent.
        self.path.bytes_in_flight = self.path.bytes_in_flight.saturating_sub(size);
        let Some(index) = self.find(None, pn, size.get()).filter(|_| lost_bytes > 0) else { return };
        let Some(packet) = self.flight.get_mut(index) else { return };
        packet.lost = true;
        let packet = *packet;
        self.batch.lost += size;
        self.batch.episode += size;
        self.path.lost.add(size);
        if let Some(hook) = self.hook() {
            hook.lost(self.now, receipt(self.path.id, &packet));
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Clock,
        sent: Clock,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        let (now, lost_sent) = (self.connection.at(now).max(self.now), self.connection.at(sent));
        self.now = now;
        let lost = if is_ecn { Bytes::ZERO } else { Bytes::new(lost_bytes) };
        let before = self.path.bytes_in_flight + self.batch.episode;
        self.batch.episode = Bytes::ZERO;
        let signal = match (is_persistent_congestion, is_ecn) {
            (true, _) => Signal::Persistent,
            (false, true) => Signal::Ecn,
            (false, false) => Signal::Loss,
        };
        let srtt = self.path.srtt;
        let congestion = Congestion { now, signal, bytes_in_flight: before, lost, lost_sent, srtt };
        // Once a round trip (RFC 9002 §7.3.2).
        let known = self.recovery_start.is_some_and(|start| lost_sent <= start);
        let reduced = (!known || is_persistent_congestion) && !self.cc().ignores(&congestion);
        if reduced {
            self.recovery_start = Some(now);
            self.path.recovery = Recovery::Recovery;
            self.with_siblings(|cc, siblings| cc.on_congestion(&congestion, siblings));
        }
        self.settle();
        self.update(reduced);
    }

    fn on_spurious_congestion_event(&mut self) {
        let now = self.now;
        self.recovery_start = None;
        self.path.recovery = Recovery::Open;
        self.cc().on_spurious(now);
        self.update(false);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.path.mss = Bytes::new(u64::from(new_mtu.max(1)));
        self.update(false);
    }

    fn window(&self) -> u64 {
        let open = self.hook().is_none_or(|hook| hook.is_open(self.path.id));
        self.shut.store(!open, Ordering::Relaxed);
        if !open && self.path.bytes_in_flight + self.path.mss <= self.path.cwnd {
            self.withheld.store(true, Ordering::Relaxed);
        }
        if open { self.metrics.cwnd } else { 0 }
    }

    fn metrics(&self) -> ControllerMetrics {
        if let Some(hook) = self.hook() {
            hook.visited(self.path.id);
        }
        let Figures { cwnd, ssthresh, pacing, quantum, bandwidth } = self.metrics;
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = cwnd;
        metrics.ssthresh = ssthresh;
        metrics.pacing_rate = pacing;
        metrics.send_quantum = quantum;
        metrics.bandwidth_estimate = bandwidth;
        metrics
    }

    /// The copy takes the path's place after a change of address that looks like a rebinding: nothing that it has sent
    /// is in flight.
    fn clone_box(&self) -> Box<dyn NoqController> {
        let cc = self.cc.lock().unwrap_or_else(PoisonError::into_inner);
        let mut path = self.path.clone();
        path.bytes_in_flight = Bytes::ZERO;
        if let Some(hook) = self.hook() {
            // A new address starts as a new path does: noq's pacer reads the copy's window at once.
            hook.opened(self.now, &path);
        }
        Box::new(Self {
            coupled: self.coupled,
            connection: Arc::clone(&self.connection),
            life: self.life.clone(),
            cc: Mutex::new(cc.clone()),
            path,
            initial_window: self.initial_window,
            metrics: self.metrics,
            flight: Ring::default(),
            sampler: self.sampler.clone(),
            batch: Batch::default(),
            usage: self.usage,
            recovery_start: self.recovery_start,
            paced_until: self.paced_until,
            now: self.now,
            withheld: AtomicBool::new(false),
            shut: AtomicBool::new(false),
        })
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The simplest hook: somebody else decides which paths are open. All are at the start.
#[derive(Debug)]
pub struct Doors(portable_atomic::AtomicU64);

impl Default for Doors {
    fn default() -> Self {
        Self(u64::MAX.into())
    }
}

impl Doors {
    /// Opens these paths, and shuts all others.
    pub fn open(&self, paths: weftway_path::PathSet) {
        let bits = paths.iter().fold(0, |bits, path| bits | 1 << path.get());
        self.0.store(bits, Ordering::Release);
    }

    /// Opens all paths.
    pub fn open_all(&self) {
        self.0.store(u64::MAX, Ordering::Release);
    }
}

impl Hook for Doors {
    fn is_open(&self, path: PathId) -> bool {
        self.0.load(Ordering::Acquire) >> path.get() & 1 == 1
    }
}
