//! The simulation as a value: it stops at every decision.

mod answering;
mod layout;

use weftway_host::{Host, Turn};
use weftway_link::Link;
use weftway_net::AppData;
use weftway_path::{Bytes, Context, Decision, Instant, PathId, Span};
use weftway_scenario::config::{CrossLink, SimConfig, TransportConfig};
use weftway_scenario::{App, Verdict, mix};
use weftway_sched::Scheduler;
use weftway_sched::learned::Task;

use crate::calendar;
use crate::connection::{Connection, Parts};
use crate::cross::CrossSource;
use crate::listeners::Listener;
use crate::net::Net;
use crate::port::Port;
use crate::wire::{Datagram, Load};
use answering::{Answering, Outside, Schedulers, SteppedTask};
use layout::{Layout, build};

/// Why a simulation stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Connection so-and-so (0 is the one under test) asks its scheduler.
    Decide(usize),
    /// Its scheduler should be told what happened ([`Sim::tell`]), though nothing is asked.
    Observe(usize),
    /// It is over.
    Done(Verdict),
}

/// Outcome of a try to go on by one event.
enum Step {
    /// It happened.
    Happened,
    /// The next one comes after the time asked for.
    Later,
    /// The run is over.
    Over(Verdict),
}

/// Reason for which a run stopped.
enum Stop {
    /// At a question that was left open, or at something that was not told.
    Asks,
    /// The time asked for has come, and nothing happens before it.
    Later,
    /// At its end.
    Over(Verdict),
}

/// A simulation.
#[derive(Clone)]
pub struct Sim {
    now: Instant,
    net: Net,
    conns: Vec<Connection>,
    /// Link to which a link's packets go on, if not to an end: from a path's own link to a shared one.
    onward: Vec<Option<usize>>,
    /// True if anything goes on so.
    has_relays: bool,
    cross: Vec<CrossSource>,
    cross_source: usize,
    /// The connection whose turn it is.
    turn: Option<usize>,
    limit: Instant,
    /// Time at which the second connection opens: a rival's, or the other half of a call.
    second_start: Instant,
    second_source: usize,
    /// True if the second connection is half of a call: the run is over when both halves are.
    is_call: bool,
}

/// Time at which the second connection opens, if there is one. Both halves of a call open at once.
fn second_start(config: &SimConfig) -> Instant {
    let alone = if config.is_call() { Instant::ZERO } else { Instant::NEVER };
    config.rival.as_ref().map_or(alone, |rival| rival.start)
}

impl Sim {
    /// A simulation of `config` under controller `cc`. Equal seeds behave equally. The controller
    /// must exist: [`weftway_cc::parse`] says whether it does.
    pub fn new(config: &SimConfig, cc: &str, seed: u64) -> Result<Self, weftway_path::spec::SpecError> {
        let mut layout = Layout::new(config, seed);
        let main = layout.connection(0, &config.transport, &config.paths, cc, AppData::of(config, seed));
        let main = Parts { write: config.write, ..main };
        let mut parts = vec![main];
        if let Some(rival) = &config.rival {
            let endless = weftway_scenario::config::Workload::Duration { span: Span::MAX };
            let app = App::new(&endless, mix(seed, 0xa1));
            parts.push(layout.connection(1, &rival.transport, &rival.paths, &rival.cc, app.into()));
        } else if let Some(back) = config.workload.reverse() {
            parts.push(layout.reverse(&parts[0], App::new(&back, mix(seed, 0xa2)).into()));
        }
        let mut source = layout.net.links.len();
        for part in &mut parts {
            part.source = source;
            source += 1 + part.configs.len();
        }
        let (cross_source, second_source) = (source, source + config.cross.len());
        let mut conns = parts.into_iter().map(build).collect::<Result<Vec<_>, _>>()?;
        // A rival has no policy.
        let offers = if config.is_call() { 2 } else { 1 };
        conns.iter_mut().take(offers).for_each(|conn| conn.dispatch.set_policy(weftway_net::policy(config)));
        let timers = second_source + 1 - layout.net.links.len();
        let cross = config.cross.iter().enumerate();
        let base = config.shared.len();
        let cross = cross
            .map(|(at, traffic)| {
                let link = match traffic.on {
                    CrossLink::Path(path) => base + 2 * path,
                    CrossLink::Shared(shared) => shared,
                };
                CrossSource::new(traffic, link, mix(seed, 0xd000 + at as u64))
            })
            .collect();
        let mut sim = Self {
            now: Instant::ZERO,
            net: Net::new(layout.net.links, timers),
            conns,
            has_relays: layout.net.onward.iter().any(Option::is_some),
            onward: layout.net.onward,
            cross,
            cross_source,
            turn: None,
            limit: (Instant::ZERO + config.time_limit).min(calendar::END),
            second_start: second_start(config),
            second_source,
            is_call: config.is_call(),
        };
        sim.start();
        Ok(sim)
    }

    fn start(&mut self) {
        for (at, source) in self.cross.iter().enumerate() {
            self.net.calendar.set(self.cross_source + at, source.next());
        }
        if !self.second_start.is_never() {
            self.net.calendar.set(self.second_source, self.second_start);
        }
        self.open(0);
        self.turn = Some(0);
    }

    fn open(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        conn.open_first(&mut self.net, self.now);
        let next = conn.own_next(conn.receive.receiver.due().0);
        self.net.calendar.lower(conn.source, next);
    }

    /// Connection `conn` is to ask the scheduler that `host` was made for.
    pub fn host(&mut self, conn: usize, host: Host) {
        let conn = &mut self.conns[conn];
        conn.set_host(host);
        conn.dispatch.host.explains = conn.listeners.is_on();
    }

    /// Lets `listener` listen to the connection under test.
    pub fn listen(&mut self, listener: Box<dyn Listener>) {
        self.conns[0].listeners.add(listener);
        self.conns[0].dispatch.host.explains = true;
    }

    /// Number of connections that ask schedulers.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Connection `conn`.
    pub fn connection(&self, conn: usize) -> &Connection {
        &self.conns[conn]
    }

    /// Link number `at`.
    pub fn link(&self, at: usize) -> &Link<Datagram> {
        &self.net.links[at]
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Number of calendar events that were handled.
    pub fn calendar_events(&self) -> u64 {
        self.net.events
    }

    /// Context that connection `conn`'s scheduler sees.
    #[inline]
    pub fn context(&self, conn: usize) -> Context<'_> {
        self.conns[conn].dispatch.context(self.now)
    }

    /// The links, the connection under test, and whose turn it is.
    pub(crate) fn parts(&mut self) -> (&mut Net, &mut Connection, &mut Option<usize>) {
        (&mut self.net, &mut self.conns[0], &mut self.turn)
    }

    /// Connection `conn`, as a host sees it.
    #[inline]
    fn port(&mut self, conn: usize) -> Port<'_> {
        Port { conn: &mut self.conns[conn], net: &mut self.net, now: self.now }
    }

    /// Tells `scheduler` what happened on connection `conn`.
    #[inline]
    pub fn tell(&mut self, conn: usize, scheduler: &mut dyn Scheduler) {
        weftway_host::tell(&mut self.port(conn), scheduler);
    }

    /// Connection `conn` asks `scheduler`, which is told first what happened; its decision is carried out.
    #[inline]
    pub fn ask(&mut self, conn: usize, scheduler: &mut dyn Scheduler) {
        weftway_host::ask(&mut self.port(conn), scheduler);
    }

    /// The answer of `scheduler`, which is told first what happened. [`Sim::apply`] carries it out.
    pub fn answer(&mut self, conn: usize, scheduler: &mut dyn Scheduler) -> Decision {
        weftway_host::answer(&mut self.port(conn), scheduler)
    }

    /// Connection `conn` asks a learned `task`; see [`weftway_host::ask_task`].
    pub fn ask_task(&mut self, conn: usize, task: &mut dyn Task, observation: &mut [f32]) -> Turn {
        weftway_host::ask_task(&mut self.port(conn), task, observation)
    }

    /// Returns true if the question at which connection `conn` stands is the same when it comes again. Linux v1 may
    /// write between.
    #[inline]
    pub(crate) fn question_repeats(&self, conn: usize) -> bool {
        let Connection { dispatch, send, .. } = &self.conns[conn];
        self.turn == Some(conn) && dispatch.question.next.is_some() && send.writer.writes_at_once()
    }

    /// After an answer from outside: when `scheduler` wants to be woken.
    pub fn note_wake(&mut self, conn: usize, scheduler: &dyn Scheduler) {
        weftway_host::note_wake(&mut self.port(conn), scheduler);
    }

    /// Carries out a decision for connection `conn`.
    #[inline]
    pub fn apply(&mut self, conn: usize, decision: Decision) {
        weftway_host::settle(&mut self.port(conn), decision);
    }

    /// Runs to the end with `schedulers` that answer, one per connection. The same as [`Sim::advance`], [`Sim::ask`]
    /// and [`Sim::tell`] in turn, without leaving this function.
    pub fn run(&mut self, schedulers: &mut [&mut dyn Scheduler]) -> Verdict {
        let mut answering = Schedulers { schedulers };
        loop {
            if let Stop::Over(verdict) = self.run_with(&mut answering, Instant::NEVER, false) {
                return verdict;
            }
        }
    }

    /// Runs to the next question of `task`, which serves connection 0, or to the end; `rival` serves the other
    /// connection. With `repeats` the question at which it stopped comes again without another look
    /// ([`Sim::question_repeats`]).
    #[inline(always)]
    pub(crate) fn run_to_question(
        &mut self,
        task: &mut dyn Task,
        rival: Option<&mut (dyn Scheduler + '_)>,
        observation: &mut [f32],
        repeats: bool,
    ) -> Option<Verdict> {
        match self.run_with(&mut SteppedTask { task, rival, observation }, Instant::NEVER, repeats) {
            Stop::Over(verdict) => Some(verdict),
            Stop::Asks | Stop::Later => None,
        }
    }

    /// Runs until a scheduler is asked, has something to learn, or the simulation is over.
    #[inline]
    pub fn advance(&mut self) -> Pause {
        loop {
            if let Some(pause) = self.advance_until(Instant::NEVER) {
                return pause;
            }
        }
    }

    /// Runs as [`Sim::advance`] does, but not beyond `until`: with `None` that time has come.
    #[inline]
    pub fn advance_until(&mut self, until: Instant) -> Option<Pause> {
        let mut outside = Outside(None);
        match self.run_with(&mut outside, until, false) {
            Stop::Asks => outside.0,
            Stop::Later => None,
            Stop::Over(verdict) => Some(Pause::Done(verdict)),
        }
    }

    /// Runs until a question is left open, beyond `until`, or to the end.
    #[inline(always)]
    fn run_with(&mut self, answering: &mut impl Answering, until: Instant, mut repeats: bool) -> Stop {
        if self.turn.is_none() && self.is_over() {
            return Stop::Over(Verdict::Finished);
        }
        loop {
            if let Some(at) = self.turn {
                let mut port = self.port(at);
                while core::mem::take(&mut repeats) || port.prepare() {
                    if answering.ask(&mut port, at) == Turn::Asks {
                        return Stop::Asks;
                    }
                }
                port.conn.end_turn(port.net, port.now);
                let asks = !port.conn.dispatch.host.events.is_empty() && answering.tell(&mut port, at) == Turn::Asks;
                self.turn = None;
                if asks {
                    return Stop::Asks;
                }
                // What ends a connection gives it a turn.
                if self.is_over() {
                    return Stop::Over(Verdict::Finished);
                }
            }
            match self.next_event(until) {
                Step::Happened => {}
                Step::Later => return Stop::Later,
                Step::Over(verdict) => return Stop::Over(verdict),
            }
        }
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.conns[0].finished.is_some() && (!self.is_call || self.conns[1].finished.is_some())
    }

    /// Handles one event, unless the next one comes after `until` or there is none.
    #[inline(always)]
    fn next_event(&mut self, until: Instant) -> Step {
        let (at, source) = self.net.calendar.next();
        if at > until.min(self.limit) {
            return self.stop(at, until);
        }
        debug_assert!(at >= self.now, "time never goes back");
        self.now = at;
        self.net.events += 1;
        if source < self.net.links.len() {
            self.deliver(source)
        } else {
            self.fire(source)
        }
        Step::Happened
    }

    /// Stops, since nothing happens before `until` and the limit; `at` is the next time at which anything does.
    #[cold]
    fn stop(&mut self, at: Instant, until: Instant) -> Step {
        if at > until && until <= self.limit {
            self.now = self.now.max(until);
            return Step::Later;
        }
        self.now = self.limit.min(at);
        let usable = !self.conns[0].dispatch.views.offered().is_empty();
        Step::Over(if usable { Verdict::TimeLimit } else { Verdict::NoPath })
    }

    /// Something that is no arrival: a timer, or a source of cross traffic.
    #[inline(never)]
    fn fire(&mut self, source: usize) {
        for at in 0..self.conns.len() {
            let conn = &mut self.conns[at];
            let first = conn.source;
            if source == first {
                conn.on_own_timer(&mut self.net, self.now);
                self.turn = Some(at);
                return;
            }
            if source > first && source <= first + conn.configs.len() {
                conn.on_path_timer(&mut self.net, self.now, PathId::new((source - first - 1) as u8));
                self.turn = Some(at);
                return;
            }
        }
        if source == self.second_source {
            self.net.calendar.set(source, Instant::NEVER);
            self.open(1);
            self.turn = Some(1);
            return;
        }
        let cross = &mut self.cross[source - self.cross_source];
        cross.run(&mut self.net, self.now);
        let next = cross.next();
        self.net.calendar.set(source, next);
    }

    /// A link hands over its next packet, which has arrived unless it goes on to another link.
    #[inline(always)]
    fn deliver(&mut self, link: usize) {
        let last = !self.has_relays || self.onward[link].is_none();
        let Some((datagram, ce)) = self.net.links[link].pop_in_place(self.now) else {
            return self.net.look_again(link);
        };
        let Datagram { conn, path: id, epoch, marked, .. } = *datagram;
        let at = usize::from(conn);
        if last && let Load::Data(data) = datagram.load {
            self.net.look_again(link);
            let conn = &mut self.conns[at];
            conn.on_data(&mut self.net, self.now, (id, epoch), &data, ce || marked);
            // Data that arrive change nothing for the sender: no turn, unless they end the run.
            if conn.finished.is_some() {
                self.turn = Some(at);
            }
        } else if last && let Load::Ack(ack) = datagram.load {
            self.net.look_again(link);
            self.conns[at].on_ack(&mut self.net, self.now, (id, epoch), &ack);
            self.turn = Some(at);
        } else {
            let datagram = *datagram;
            self.net.look_again(link);
            self.deliver_rare(at, &datagram, link, ce);
        }
    }

    /// Delivers what comes once in a while out of `link`: it goes onward, or has arrived at connection `at`.
    #[cold]
    fn deliver_rare(&mut self, at: usize, datagram: &Datagram, link: usize, marked: bool) {
        if let Some(via) = self.onward[link] {
            return self.relay(via, datagram, marked);
        }
        let conn = &mut self.conns[at];
        match datagram.load {
            Load::Handshake(handshake) => conn.on_handshake(&mut self.net, self.now, datagram, handshake),
            Load::Ping => conn.on_question(&mut self.net, self.now, datagram.path),
            Load::Cross | Load::Data(_) | Load::Ack(_) => return,
        }
        self.turn = Some(at);
    }

    /// A packet goes on to a shared link.
    #[inline(never)]
    fn relay(&mut self, via: usize, datagram: &Datagram, marked: bool) {
        if matches!(datagram.load, Load::Cross) {
            return;
        }
        let conn = &mut self.conns[usize::from(datagram.conn)];
        let bytes = wire_bytes(&conn.transport, conn.routes.len(), datagram);
        let verdict = self.net.send(self.now, via, bytes, Datagram { marked, ..*datagram });
        if matches!(datagram.load, Load::Data(_)) {
            conn.path_tallies[datagram.path.index()].on_shared(verdict);
        }
    }

    /// Fails, heals or changes a path's links, as the world would.
    pub fn disturb(&mut self, id: PathId, change: &weftway_link::Set) {
        let route = self.conns[0].routes[id.index()];
        for link in [route.data, route.acks] {
            self.net.links[link].set(self.now, change);
            self.net.calendar.set(link, self.net.links[link].next_event());
        }
    }
}

/// The size of a datagram on the wire.
fn wire_bytes(transport: &TransportConfig, paths: usize, datagram: &Datagram) -> Bytes {
    match datagram.load {
        Load::Data(data) => transport.data_packet(Bytes::new(u64::from(data.bytes))),
        Load::Handshake(handshake) => crate::lifecycle::handshake_bytes(transport, paths, handshake.leg),
        Load::Ack(_) | Load::Ping | Load::Cross => transport.ack_packet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_link::LinkConfig;
    use weftway_path::{BitRate, BlockedReason, PathSet, Role};
    use weftway_scenario::config::{MessageSize, PathConfig, Workload};
    use weftway_sched::{Needs, TransportRules};

    /// Two lossy paths, messages with pauses between them: what is lost goes again when nothing else is to be sent, and
    /// no timer tells then that the pacer has let go. No path is ever shown as held by one that has.
    #[test]
    fn a_pacer_that_has_let_go_holds_no_path() {
        let path = |(name, mbps): (&str, u64)| {
            let delay = Span::from_millis(20);
            let loss = weftway_link::Loss::Bernoulli(0.1);
            let data = LinkConfig { rate: BitRate::from_mbps(mbps).into(), delay, loss, ..LinkConfig::default() };
            let acks = LinkConfig { loss: weftway_link::Loss::None, ..data.clone() };
            PathConfig { name: name.into(), role: Role::Active, acks, data, via: None, presence: vec![] }
        };
        let mut config =
            SimConfig::new(TransportConfig::mpquic(), [("a", 20), ("b", 10)].map(path).to_vec(), Bytes::ZERO);
        config.workload = Workload::Messages {
            sizes: vec![MessageSize::of(Bytes::new(60_000))],
            period: Span::from_millis(50),
            count: 400,
            deadline: None,
        };
        let mut scheduler = weftway_sched::build("round-robin").unwrap();
        let mut sim = Sim::new(&config, "bbr1", 1).unwrap();
        sim.host(0, Host::of("round-robin").unwrap());
        let mut paced = 0;
        loop {
            match sim.advance() {
                Pause::Decide(_) => {
                    let cx = sim.context(0);
                    for path in cx.paths.iter().filter(|path| path.blocked == BlockedReason::Pacing) {
                        assert!(path.release > cx.now, "{:?} at {}", path.id, cx.now);
                        paced += 1;
                    }
                    sim.ask(0, scheduler.as_mut());
                }
                Pause::Observe(_) => sim.tell(0, scheduler.as_mut()),
                Pause::Done(_) => break,
            }
        }
        assert!(paced > 100, "pacers held paths back {paced} times");
    }

    /// A message is not looked up for each packet. What a scheduler sees of it is what the application says, all the
    /// same.
    #[test]
    fn a_question_shows_the_message_of_the_next_byte() {
        let path = |(name, mbps): (&str, u64)| {
            let (delay, loss) = (Span::from_millis(20), weftway_link::Loss::Bernoulli(0.05));
            let data = LinkConfig { rate: BitRate::from_mbps(mbps).into(), delay, loss, ..LinkConfig::default() };
            PathConfig { name: name.into(), role: Role::Active, acks: data.clone(), data, via: None, presence: vec![] }
        };
        let paths = [("a", 8), ("b", 4)].map(path).to_vec();
        let size = |bytes, class| MessageSize { class, ..MessageSize::of(Bytes::new(bytes)) };
        for transport in [TransportConfig::mptcp_v09x(), TransportConfig::mptcp_linux_v1(), TransportConfig::mpquic()] {
            let mut config = SimConfig::new(transport, paths.clone(), Bytes::ZERO);
            let (sizes, deadline) = (vec![size(700, 0), size(9_000, 1)], Some(Span::from_millis(80)));
            config.workload = Workload::Messages { sizes, period: Span::from_millis(3), count: 500, deadline };
            let mut scheduler = weftway_sched::build("ecf").unwrap();
            let mut sim = Sim::new(&config, "cubic", 1).unwrap();
            sim.host(0, Host::of("ecf").unwrap());
            let mut within = 0;
            loop {
                match sim.advance() {
                    Pause::Decide(_) => {
                        let (now, flow) = (sim.now, sim.conns[0].dispatch.flow);
                        // What goes again may come when all that is written has gone.
                        if let Some(said) = sim.conns[0].data.app.message_at(flow.next.get()) {
                            let seen = (flow.message_start.get(), flow.message_end.get(), flow.class, flow.deadline);
                            assert_eq!(seen, (said.start, said.end, said.class, said.deadline));
                            assert_eq!(flow.message_age, now.since(said.written));
                            within += u32::from(flow.next.get() > said.start);
                        }
                        sim.ask(0, scheduler.as_mut());
                    }
                    Pause::Observe(_) => sim.tell(0, scheduler.as_mut()),
                    Pause::Done(_) => break,
                }
            }
            assert!(within > 500, "{within} questions within a message");
        }
    }

    /// Who steps from question to question sees the run that [`Sim::run`] makes by itself.
    #[test]
    fn a_run_is_the_same_in_steps() {
        let path = |(name, mbps): (&str, u64)| {
            let delay = Span::from_millis(20);
            let loss = weftway_link::Loss::Bernoulli(0.02);
            let data = LinkConfig { rate: BitRate::from_mbps(mbps).into(), delay, loss, ..LinkConfig::default() };
            PathConfig { name: name.into(), role: Role::Active, acks: data.clone(), data, via: None, presence: vec![] }
        };
        let paths = [("a", 20), ("b", 10)].map(path).to_vec();
        for transport in [TransportConfig::mptcp_v09x(), TransportConfig::mptcp_linux_v1(), TransportConfig::mpquic()] {
            for name in ["blest", "round-robin", "peekaboo"] {
                let config = SimConfig::new(transport.clone(), paths.clone(), Bytes::new(1_000_000));
                let end = |in_steps: bool| {
                    let mut scheduler = weftway_sched::build(name).unwrap();
                    let mut sim = Sim::new(&config, "cubic", 1).unwrap();
                    sim.host(0, Host::of(name).unwrap());
                    let verdict = loop {
                        if !in_steps {
                            break sim.run(&mut [scheduler.as_mut()]);
                        }
                        match sim.advance() {
                            Pause::Decide(_) => sim.ask(0, scheduler.as_mut()),
                            Pause::Observe(_) => sim.tell(0, scheduler.as_mut()),
                            Pause::Done(verdict) => break verdict,
                        }
                    };
                    let Connection { tally, path_tallies, .. } = sim.connection(0);
                    format!("{verdict:?} {} {} {tally:?} {path_tallies:?}", sim.now(), sim.calendar_events())
                };
                assert_eq!(end(true), end(false), "{name} over {:?}", transport.stack);
            }
        }
    }

    /// Bytes in the device of path 1 of two at each of the first questions, all of which it answers; checked on both
    /// paths against the links.
    fn device_queues(needs: Needs, transport: &TransportConfig) -> Vec<Bytes> {
        let path = |(name, mbps): (&str, u64)| {
            let delay = Span::from_millis(10);
            let data = LinkConfig { rate: BitRate::from_mbps(mbps).into(), delay, ..LinkConfig::default() };
            PathConfig { name: name.into(), role: Role::Active, acks: data.clone(), data, via: None, presence: vec![] }
        };
        let paths = [("other", 20), ("used", 10)].map(path).to_vec();
        let config = SimConfig::new(transport.clone(), paths, Bytes::new(1_000_000));
        let mut sim = Sim::new(&config, "newreno", 1).unwrap();
        sim.host(0, Host::new(needs, TransportRules::NONE));
        let mut seen = Vec::new();
        while seen.len() < 40 {
            let Pause::Decide(_) = sim.advance() else { continue };
            let cx = sim.context(0);
            let Some(used) = cx.path(PathId::new(1)) else {
                sim.apply(0, Decision::Wait);
                continue;
            };
            for path in cx.paths.iter().filter(|_| needs.device) {
                let (packets, bytes) = sim.net.links[sim.conns[0].routes[path.id.index()].data].backlog(sim.now);
                let headers = transport.packet - transport.mss;
                assert_eq!(path.device_queue, bytes - headers.mul_div(packets, 1), "{:?} at {}", path.id, sim.now);
            }
            seen.push(used.device_queue);
            let decision = if used.is_open() { Decision::Send(used.id) } else { Decision::Send(PathId::new(0)) };
            sim.apply(0, decision);
        }
        seen
    }

    /// Ten packets go at once, 1.2 ms apart on the wire; all have left it when the first acknowledgement comes after
    /// 20 ms, and two packets or more may follow.
    #[test]
    fn the_device_queue_follows_the_link() {
        for transport in [TransportConfig::mptcp_v09x(), TransportConfig::mptcp_linux_v1(), TransportConfig::mpquic()] {
            let seen = device_queues(Needs { device: true, ..Needs::NONE }, &transport);
            let packets = |n: u64| transport.mss.mul_div(n, 1);
            assert_eq!(seen[..10], (0..10).map(packets).collect::<Vec<_>>(), "{:?}", transport.stack);
            assert!(seen[10..].contains(&Bytes::ZERO), "{seen:?}");
            assert_eq!(device_queues(Needs::NONE, &transport), [Bytes::ZERO; 40]);
        }
    }

    /// Windows after the fast path of three penalises both slow ones, which hold the head.
    fn penalised(first_only: bool) -> [u64; 3] {
        let path = |(name, ms): (&str, u64)| {
            let delay = Span::from_millis(ms);
            let data = LinkConfig { rate: BitRate::from_mbps(10).into(), delay, ..LinkConfig::default() };
            PathConfig { name: name.into(), role: Role::Active, acks: data.clone(), data, via: None, presence: vec![] }
        };
        let mut transport = TransportConfig::mptcp_v09x();
        transport.penalise_first_only = first_only;
        let paths = [("fast", 10), ("one", 50), ("two", 50)].map(path).to_vec();
        let config = SimConfig::new(transport, paths, Bytes::new(10_000_000));
        let mut sim = Sim::new(&config, "newreno", 1).unwrap();
        // Nothing is sent yet: every window is the initial ten packets.
        let ids = [0, 1, 2].map(PathId::new);
        let conn = &mut sim.conns[0];
        for (id, ms) in ids.into_iter().zip([20, 100, 100]) {
            conn.dispatch.views.get_mut(id).srtt = Span::from_millis(ms);
        }
        let holders = PathSet::of(ids[1]).with(ids[2]);
        conn.penalise(&mut sim.net, Instant::from_millis(1_000), ids[0], holders);
        ids.map(|id| conn.send.senders[id.index()].cc.cwnd().packets(config.transport.mss))
    }

    /// Versions up to 0.94 stop at the first holder; later ones halve all of them. 10 / 2 = 5.
    #[test]
    fn penalisation_meets_the_first_holder_or_all() {
        assert_eq!(penalised(true), [10, 5, 10]);
        assert_eq!(penalised(false), [10, 5, 5]);
    }

    /// The meta timer's time if it was `before`, and a DATA_ACK at 1.009 s lets it run for `runs` from then on.
    fn meta_timer_at(before: Instant, runs: Span) -> Instant {
        let link = LinkConfig { delay: Span::from_millis(10), ..LinkConfig::default() };
        let path = |name: &str| PathConfig {
            name: name.into(),
            role: Role::Active,
            acks: link.clone(),
            data: link.clone(),
            via: None,
            presence: vec![],
        };
        let config =
            SimConfig::new(TransportConfig::mptcp_linux_v1(), ["a", "b"].map(path).to_vec(), Bytes::new(1_000_000));
        let mut sim = Sim::new(&config, "cubic", 1).unwrap();
        sim.host(0, Host::of("linux-v1").unwrap());
        let mut scheduler = weftway_sched::build("linux-v1").unwrap();
        while !sim.conns[0].dispatch.outbox.has_sent() {
            let Pause::Decide(_) = sim.advance() else { panic!("data are to be sent") };
            sim.ask(0, scheduler.as_mut());
        }
        let Sim { conns, net, .. } = &mut sim;
        let conn = &mut conns[0];
        // Nothing waits to be pushed: the last push has said how long it runs.
        conn.dispatch.flow.unsent = Bytes::ZERO;
        (conn.send.meta.at, conn.send.meta.interval) = (before, runs);
        net.calendar.set(conn.source, before);
        conn.meta_progress(net, Instant::from_millis(1_009));
        conn.send.meta.at
    }

    /// A timer for 1.1744 s that is due at 1.1355 s now is brought forward. One that is due later is looked at when it
    /// fires.
    #[test]
    fn a_shorter_run_brings_the_meta_timer_forward() {
        let before = Instant::from_micros(1_174_400);
        assert_eq!(meta_timer_at(before, Span::from_micros(126_500)), Instant::from_micros(1_135_500));
        assert_eq!(meta_timer_at(before, Span::from_millis(200)), before);
    }
}
