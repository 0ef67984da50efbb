//! A third transport, in a hundred lines: two paths that lose every fiftieth packet. Every scheduler runs on it that
//! needs no more than it offers, the rest is refused in one line, and it meets a host's duties.

use std::collections::VecDeque;

use weftway_host::sending::{Assigned, Carrier, Data, Dispatch, Views, prepare};
use weftway_host::testing::{Duties, Found, declarations};
use weftway_host::{Host, ask, mismatch, tell};
use weftway_path::{BlockedReason, Bytes, Event, Instant, Offset, Path, PathId, Span, Starved};
use weftway_sched::{Needs, Scheduler, TransportRules};

const MSS: u64 = 1_000;
const WINDOW: u64 = 60 * MSS;
const OFFERS: Needs = Needs { device: false, ..weftway_host::EVERYTHING };

/// As many bytes, written at the beginning.
struct File(u64);

impl Data for File {
    fn written(&mut self) -> u64 {
        self.0
    }
}

/// Two paths of 20 and 50 ms with a window of ten packets each; a packet is acknowledged one round trip after it was
/// sent, or found lost then.
struct Toy {
    dispatch: Dispatch,
    now: Instant,
    file: File,
    /// What is in flight, with the time at which its fate is known, and whether it is lost.
    flight: Vec<(Instant, PathId, Assigned, bool)>,
    queues: [VecDeque<Assigned>; 2],
    sent: u64,
    alarm: Instant,
}

impl Carrier for Toy {
    type Data = File;

    fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    fn dispatch_mut(&mut self) -> &mut Dispatch {
        &mut self.dispatch
    }

    fn data(&mut self) -> &mut File {
        &mut self.file
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn buffered(&mut self) -> u64 {
        self.file.0
    }

    fn place(&mut self, id: PathId, mut assigned: Assigned) {
        let view = self.dispatch.views.get_mut(id);
        if view.is_open() && self.queues[id.index()].is_empty() {
            self.transmit(id, assigned);
        } else {
            assigned.join_queue(view, Bytes::new(u64::from(assigned.bytes)));
            self.queues[id.index()].push_back(assigned);
        }
        self.refresh(id);
    }

    fn has_queue(&self, id: PathId) -> bool {
        !self.queues[id.index()].is_empty()
    }

    fn take_queued(&mut self, id: PathId) -> Option<Assigned> {
        let assigned = self.queues[id.index()].pop_front()?;
        self.dispatch.views.get_mut(id).queued -= Bytes::new(u64::from(assigned.bytes));
        Some(assigned)
    }

    fn refresh(&mut self, id: PathId) {
        let view = self.dispatch.views.get_mut(id);
        let full = view.bytes_in_flight + view.queued + view.mss > view.cwnd;
        view.blocked = if full { BlockedReason::Congestion } else { BlockedReason::None };
        let (blocked, held) = (view.blocked, view.send_queue());
        self.dispatch.question.note(id, blocked);
        self.dispatch.set_queue_room(id, Bytes::new(20 * MSS).saturating_sub(held));
    }

    fn blocked(&mut self, _: Starved) {}

    fn wake_at(&mut self, at: Instant) {
        self.alarm = self.alarm.min(at);
    }
}

impl Toy {
    /// With so many bytes to send. Both paths are up.
    fn new(host: Host, bytes: u64) -> Self {
        let path = |(id, ms): (u8, u64)| {
            let mut path = Path::new(PathId::new(id), Bytes::new(MSS), Bytes::new(10 * MSS));
            let rtt = Span::from_millis(ms);
            (path.srtt, path.min_rtt, path.max_rtt, path.latest_rtt, path.rtt_samples) = (rtt, rtt, rtt, rtt, 1);
            path
        };
        let views = Views::new([(0, 20), (1, 50)].map(path).to_vec());
        let dispatch = Dispatch::new(Bytes::new(MSS), views, Offset::new(WINDOW));
        let (flight, queues, now, alarm) = (Vec::new(), Default::default(), Instant::ZERO, Instant::NEVER);
        let mut toy = Self { dispatch, now, file: File(bytes), flight, queues, sent: 0, alarm };
        toy.dispatch.set_host(host);
        for id in [0, 1].map(PathId::new) {
            toy.dispatch.views.set_usable(id, true);
            toy.dispatch.host.events.push_rare(Event::PathUp(id));
            toy.refresh(id);
        }
        toy.dispatch.question.ready = true;
        toy
    }

    fn transmit(&mut self, id: PathId, assigned: Assigned) {
        let (view, payload) = (self.dispatch.views.get_mut(id), Bytes::new(u64::from(assigned.bytes)));
        view.bytes_in_flight += payload;
        view.sent.add(payload);
        view.next = view.next.max(assigned.offset + payload);
        self.sent += 1;
        self.flight.push((self.now + view.srtt, id, assigned, self.sent.is_multiple_of(50)));
    }

    /// The next acknowledgement, loss or wake-up. Without any nothing will ever happen.
    fn step(&mut self) {
        let next = (0..self.flight.len()).min_by_key(|&at| self.flight[at].0);
        self.now = next.map_or(Instant::NEVER, |at| self.flight[at].0).min(self.alarm);
        assert!(!self.now.is_never(), "it waits for nothing");
        if self.alarm <= self.now {
            self.alarm = Instant::NEVER;
            self.dispatch.host.woken(self.now);
            self.alarm = self.dispatch.host.wake();
        } else if let Some(at) = next {
            let (_, id, assigned, lost) = self.flight.swap_remove(at);
            let (receipt, Dispatch { views, outbox, host, flow, .. }) = (assigned.receipt(id), &mut self.dispatch);
            let view = views.get_mut(id);
            view.bytes_in_flight -= receipt.bytes;
            if lost {
                view.lost.add(receipt.bytes);
                outbox.lose(assigned.chunk, id);
                host.events.push(Event::Lost(receipt));
            } else {
                view.acked.add(receipt.bytes);
                outbox.acknowledge(assigned.chunk);
                host.events.push(Event::Acked(receipt));
            }
            flow.edge = outbox.una() + Bytes::new(WINDOW);
            while let view = self.dispatch.views.get(id)
                && view.bytes_in_flight + view.mss <= view.cwnd
                && let Some(assigned) = self.take_queued(id)
            {
                self.transmit(id, assigned);
            }
            self.refresh(id);
        }
        self.dispatch.question.ready = true;
        self.dispatch.question.synced = false;
    }

    /// Everything arrives.
    fn run(&mut self, scheduler: &mut dyn Scheduler) {
        while self.dispatch.outbox.una() < Offset::new(self.file.0) {
            while prepare(self) {
                ask(self, scheduler);
            }
            self.dispatch.question.changed = weftway_path::PathSet::EMPTY;
            tell(self, scheduler);
            self.step();
            assert!(self.now < Instant::from_millis(60_000), "it does not come to an end");
        }
    }
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
        let mut toy = Toy::new(Host::serving(scheduler.as_ref(), entry.transport), 200 * MSS);
        toy.run(scheduler.as_mut());
        let counts = toy.dispatch.host.counts;
        assert_eq!(counts.faults, 0, "{}: {counts:?}", entry.name);
        assert!(counts.decisions >= 200, "{}", entry.name);
        ran += 1;
    }
    println!("{ran} ran, {refused} were refused");
    assert!(ran >= 50 && refused >= 1, "{ran} ran, {refused} were refused");
}

#[test]
fn the_toy_meets_a_hosts_duties() {
    let mut all = Found::default();
    for needs in declarations(OFFERS) {
        for seed in 0..10 {
            let mut duties = Duties::new(needs, seed, Span::ZERO);
            let mut toy = Toy::new(Host::new(needs, TransportRules::NONE), 500 * MSS);
            toy.run(&mut duties);
            let breaches = duties.breaches(toy.dispatch.host.counts.faults);
            assert!(breaches.is_empty(), "seed {seed}:\n{}", breaches.join("\n"));
            all.add(&duties.found());
        }
    }
    // No path of the toy goes down.
    println!("{all:?}");
    let Found { starved, woken, acked, lost, provoked, .. } = all;
    assert!([starved, woken, acked, lost, provoked].into_iter().all(|count| count >= 10), "{all:?}");
}
