//! A transport of sixty lines runs every scheduler that needs no more than it offers, and refuses the rest in one line.

use weftway_host::{Carried, Host, Refusal, Transport, ask, mismatch, tell};
use weftway_path::{
    BlockedReason, Bytes, Context, Decision, Event, Flow, Instant, Offset, Packet, Path, PathId, PathSet, Receipt,
    SendKind, Span,
};
use weftway_sched::Needs;

const MSS: u64 = 1_000;
const OFFERS: Needs = Needs { flow: true, events: true, wake: true, ..Needs::NONE };

/// Two paths without loss: a packet is acknowledged one round-trip time after it was sent, 20 and 50 ms.
struct Toy {
    host: Host,
    now: Instant,
    paths: Vec<Path>,
    packet: Packet,
    flow: Flow,
    /// What is in flight: when it is acknowledged, and the receipt.
    flight: Vec<(Instant, Receipt)>,
    alarm: Instant,
    ready: bool,
}

impl Toy {
    /// The next acknowledgement or wake-up. Without either nothing will ever happen.
    fn step(&mut self) {
        let (at, next) = (0..self.flight.len()).map(|at| (at, self.flight[at].0)).min_by_key(|next| next.1).unzip();
        self.now = next.unwrap_or(Instant::NEVER).min(self.alarm);
        assert!(!self.now.is_never(), "it waits for nothing");
        self.ready = true;
        if self.alarm <= self.now {
            self.host.woken(std::mem::replace(&mut self.alarm, Instant::NEVER));
        } else {
            let (_, receipt) = self.flight.swap_remove(at.unwrap());
            let path = &mut self.paths[receipt.path.index()];
            (path.bytes_in_flight, path.blocked) = (path.bytes_in_flight - receipt.bytes, BlockedReason::None);
            (path.acked.bytes, path.acked.packets) = (path.acked.bytes + receipt.bytes, path.acked.packets + 1);
            self.host.events.push(Event::Acked(receipt));
        }
        self.flow.una = self.flight.iter().map(|(_, receipt)| receipt.offset).min().unwrap_or(self.flow.next);
    }
}

impl Transport for Toy {
    fn host(&self) -> &Host {
        &self.host
    }

    fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    fn context(&self) -> Context<'_> {
        let packet = (self.flow.next < self.flow.end).then_some(&self.packet);
        Context::new(self.now, &self.paths, packet, Some(&self.flow))
    }

    fn carry(&mut self, decision: Decision) -> Result<Carried, Refusal> {
        let Decision::Send(id) = decision else { return Err(Refusal::Unsupported) };
        let path = self.paths.get_mut(id.index()).filter(|path| path.is_open()).ok_or(Refusal::Path)?;
        let Packet { offset, bytes, .. } = self.packet;
        let receipt = Receipt { path: id, offset, bytes, serial: self.host.next_serial() };
        path.bytes_in_flight += bytes;
        (path.sent.bytes, path.sent.packets) = (path.sent.bytes + bytes, path.sent.packets + 1);
        path.blocked = if path.bytes_in_flight < path.cwnd { BlockedReason::None } else { BlockedReason::Congestion };
        self.flight.push((self.now + path.srtt, receipt));
        (self.packet.offset, self.flow.next, self.flow.unsent) =
            (offset + bytes, offset + bytes, self.flow.unsent - bytes);
        self.host.events.push(Event::Sent(receipt, SendKind::Fresh));
        Ok(Carried::Packet)
    }

    fn pause(&mut self) {
        self.ready = false;
    }

    fn wake_at(&mut self, at: Instant) {
        self.alarm = at;
    }
}

/// Two paths with a window of ten packets each, and so many bytes to send.
fn toy(mut host: Host, bytes: u64) -> Toy {
    (0..2).for_each(|id| host.events.push_rare(Event::PathUp(PathId::new(id))));
    let path = |(id, ms): (u8, u64)| {
        let mut path = Path::new(PathId::new(id), Bytes::new(MSS), Bytes::new(10 * MSS));
        let rtt = Span::from_millis(ms);
        (path.srtt, path.min_rtt, path.max_rtt, path.latest_rtt, path.rtt_samples) = (rtt, rtt, rtt, rtt, 1);
        path
    };
    let (end, none) = (Offset::new(bytes), PathSet::EMPTY);
    let flow = Flow { end, edge: end, message_end: end, unsent: Bytes::new(bytes), ..Flow::default() };
    let packet =
        Packet { offset: Offset::ZERO, bytes: Bytes::new(MSS), reinjection: false, carried: none, avoid: none };
    let paths = [(0, 20), (1, 50)].map(path).to_vec();
    Toy { host, now: Instant::ZERO, paths, packet, flow, flight: vec![], alarm: Instant::NEVER, ready: true }
}

/// Every scheduler of the registry brings all packets over, with no fault, or is refused by name of what it lacks.
#[test]
fn every_scheduler_runs_or_is_refused_in_one_line() {
    let (mut ran, mut refused) = (0, 0);
    for entry in weftway_sched::all() {
        let mut scheduler = entry.make(&[]).unwrap();
        if let Some(why) = mismatch(scheduler.needs(), OFFERS, "the toy") {
            assert!(why.starts_with("it needs ") && why.ends_with(", which the toy does not offer"), "{why}");
            assert!(!why.contains('\n') && !why.contains("(flow)"), "{why}");
            refused += 1;
            continue;
        }
        let mut toy = toy(Host::serving(scheduler.as_ref(), entry.transport), 200 * MSS);
        while toy.flow.una < toy.flow.end {
            while toy.ready && toy.context().packet.is_some() && toy.paths.iter().any(Path::is_open) {
                ask(&mut toy, scheduler.as_mut());
            }
            toy.step();
            tell(&mut toy, scheduler.as_mut());
            assert!(toy.now < Instant::from_millis(60_000), "{} does not come to an end", entry.name);
        }
        assert_eq!(toy.host.counts.faults, 0, "{}: {:?}", entry.name, toy.host.counts);
        assert!(toy.host.counts.decisions >= 200, "{}", entry.name);
        ran += 1;
    }
    println!("{ran} ran, {refused} were refused");
    assert!(ran >= 30 && refused >= 5, "{ran} ran, {refused} were refused");
}
