//! A scheduler of the registry that steers: what it is told between two looks at the kernel, and what it is asked.

use std::collections::HashMap;

use weftway_host::{Carried, Host, Refusal, Transport, ask, mismatch};
use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Context, Decision, Event, Offset, Path, PathId, Receipt, SendKind};
use weftway_sched::{Needs, Scheduler, TransportRules};

use super::Connection;

/// Offers of the kernel to those who steer it.
const OFFERS: Needs = Needs { wake: true, events: true, ..Needs::NONE };

/// Why the scheduler that `spec` names cannot steer the kernel, if it cannot.
pub fn steering_obstacle(spec: &str) -> Result<Option<String>, SpecError> {
    let lacking = mismatch(Host::of(spec)?.needs, OFFERS, "the kernel");
    Ok(lacking.map(|lacking| format!("{lacking} to those who steer it")))
}

/// A scheduler for each connection.
pub struct Askers {
    spec: String,
    by_token: HashMap<u32, Asker>,
    /// Decisions against the rules by those whose connection is gone.
    faults: u64,
}

/// A scheduler that is asked once per interval, and what it has been told.
///
/// The kernel tells no packet by itself. What a path sent, had acknowledged and lost between two looks is told as one
/// event of each kind, in bytes; `Sent` only of the path that was chosen, so that a turn lasts an interval.
struct Asker {
    scheduler: Box<dyn Scheduler>,
    host: Host,
    /// The paths at the last look.
    known: Vec<Path>,
    chosen: Option<PathId>,
    /// The number of the last choice: what happens until the next one is its outcome.
    serial: u64,
}

/// A look at a connection, as a host asks about it.
struct Look<'a> {
    host: &'a mut Host,
    cx: Context<'a>,
    /// The path that is to carry what follows, if the answer names one.
    chosen: Option<PathId>,
}

impl Askers {
    /// For the scheduler that `spec` names.
    pub fn new(spec: &str) -> Result<Self, SpecError> {
        weftway_sched::build(spec)?;
        Ok(Self { spec: spec.to_owned(), by_token: HashMap::new(), faults: 0 })
    }

    /// Decision of the scheduler of the connection with this token.
    pub fn ask(&mut self, token: u32, cx: &Context<'_>) -> Decision {
        let new = || Asker::new(weftway_sched::build(&self.spec).expect("it was built before"));
        self.by_token.entry(token).or_insert_with(new).ask(cx)
    }

    /// Forgets the connections that are gone.
    pub fn retain(&mut self, connections: &[Connection]) {
        let Self { by_token, faults, .. } = self;
        by_token.retain(|token, asker| {
            let stays = connections.iter().any(|connection| connection.token == *token);
            *faults += if stays { 0 } else { asker.host.counts.faults };
            stays
        });
    }

    /// Decisions against the rules so far.
    pub fn faults(&self) -> u64 {
        self.faults + self.by_token.values().map(|asker| asker.host.counts.faults).sum::<u64>()
    }
}

impl Asker {
    fn new(scheduler: Box<dyn Scheduler>) -> Self {
        let host = Host::new(scheduler.needs(), TransportRules::NONE);
        Self { scheduler, host, known: Vec::new(), chosen: None, serial: 0 }
    }

    fn ask(&mut self, cx: &Context<'_>) -> Decision {
        for event in self.events(cx) {
            match event {
                Event::PathUp(_) | Event::PathDown(_) => self.host.events.push_rare(event),
                _ => self.host.events.push(event),
            }
        }
        self.host.woken(cx.now);
        self.known = cx.paths.to_vec();
        let mut look = Look { host: &mut self.host, cx: *cx, chosen: None };
        ask(&mut look, self.scheduler.as_mut());
        let Some(path) = look.chosen else { return Decision::Wait };
        self.chosen = Some(path);
        self.serial = self.host.next_serial();
        Decision::Send(path)
    }

    /// Events since the last look.
    fn events(&self, cx: &Context<'_>) -> Vec<Event> {
        let gone = self.known.iter().filter(|path| cx.path(path.id).is_none()).map(|path| Event::PathDown(path.id));
        let mut events: Vec<Event> = gone.collect();
        for path in cx.paths {
            match self.known.iter().find(|known| known.id == path.id) {
                // Another path has the number of one that is gone.
                Some(before) if path.sent.bytes < before.sent.bytes => {
                    events.extend([Event::PathDown(path.id), Event::PathUp(path.id)]);
                }
                Some(before) => self.progress(before, path, &mut events),
                None => events.push(Event::PathUp(path.id)),
            }
        }
        events
    }

    fn progress(&self, before: &Path, now: &Path, events: &mut Vec<Event>) {
        let receipt = |bytes| Receipt { path: now.id, offset: Offset::ZERO, bytes, serial: self.serial };
        let grown = |of: fn(&Path) -> Bytes| of(now).saturating_sub(of(before));
        let (sent, acked, lost) =
            (grown(|path| path.sent.bytes), grown(|path| path.acked.bytes), grown(|path| path.lost.bytes));
        if sent > Bytes::ZERO && self.chosen == Some(now.id) {
            events.push(Event::Sent(receipt(sent), SendKind::Fresh));
        }
        if acked > Bytes::ZERO {
            events.push(Event::Acked(receipt(acked)));
        }
        if lost > Bytes::ZERO {
            events.push(Event::Lost(receipt(lost)));
        }
        if now.ssthresh < before.ssthresh {
            events.push(Event::Congestion(now.id));
        }
    }
}

impl Transport for Look<'_> {
    fn host(&self) -> &Host {
        self.host
    }

    fn host_mut(&mut self) -> &mut Host {
        self.host
    }

    fn context(&self) -> Context<'_> {
        self.cx
    }

    /// A path is all that can be named; the priorities are set when the answer is known.
    fn carry(&mut self, decision: Decision) -> Result<Carried, Refusal> {
        let Decision::Send(path) = decision else { return Err(Refusal::Unsupported) };
        self.chosen = self.cx.path(path).map(|path| path.id);
        self.chosen.map(|_| Carried::Packet).ok_or(Refusal::Path)
    }

    fn pause(&mut self) {}

    /// With the next look.
    fn asks_again(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use weftway_host::testing::{Duties, Found};
    use weftway_path::{Instant, Packet, PathSet, Span};

    use super::*;

    const MSS: Bytes = Bytes::new(1000);
    const PACKET: Packet =
        Packet { offset: Offset::ZERO, bytes: MSS, reinjection: false, carried: PathSet::EMPTY, avoid: PathSet::EMPTY };

    /// Names a path, notes what it is told, and wants to be woken 120 ms after its first question.
    #[derive(Clone)]
    struct Recorder {
        names: PathId,
        told: Arc<Mutex<Vec<Event>>>,
        wake: Option<Instant>,
    }

    impl Scheduler for Recorder {
        fn needs(&self) -> Needs {
            OFFERS
        }

        fn select(&mut self, cx: &Context<'_>) -> Decision {
            self.wake.get_or_insert(cx.now + Span::from_millis(120));
            Decision::Send(self.names)
        }

        fn observe(&mut self, _: &Context<'_>, event: &Event) {
            if *event == Event::Wake {
                self.wake = Some(Instant::NEVER);
            }
            self.told.lock().unwrap().push(*event);
        }

        fn wake(&self) -> Option<Instant> {
            self.wake
        }
    }

    /// A path that so many bytes were sent on, acknowledged and lost.
    fn path(id: u8, [sent, acked, lost]: [u64; 3]) -> Path {
        let mut path = Path::new(PathId::new(id), MSS, MSS);
        (path.sent.bytes, path.acked.bytes) = (Bytes::new(sent), Bytes::new(acked));
        (path.lost.bytes, path.ssthresh) = (Bytes::new(lost), Bytes::MAX);
        path
    }

    struct Lab {
        asker: Asker,
        told: Arc<Mutex<Vec<Event>>>,
        now: Instant,
    }

    impl Lab {
        fn new(names: u8) -> Self {
            let told = Arc::new(Mutex::new(Vec::new()));
            let scheduler = Recorder { names: PathId::new(names), told: told.clone(), wake: None };
            Self { asker: Asker::new(Box::new(scheduler)), told, now: Instant::ZERO }
        }

        /// Events that are told by a look 50 ms after the one before.
        fn look(&mut self, paths: &[Path]) -> Vec<Event> {
            self.now += Span::from_millis(50);
            let _ = self.asker.ask(&Context::new(self.now, paths, Some(&PACKET), None));
            std::mem::take(&mut *self.told.lock().unwrap())
        }
    }

    /// Up to three paths, of which each is there or not and goes on by as much as a draw says.
    struct Kernel {
        paths: [Option<[u64; 3]>; 3],
        state: u64,
    }

    impl Kernel {
        fn new(seed: u64) -> Self {
            Self { paths: [Some([700, 0, 0]), Some([0; 3]), None], state: seed }
        }

        fn draw(&mut self, most: u64) -> u64 {
            self.state = self.state.wrapping_add(1);
            weftway_scenario::mix(self.state, 0x57ee) % most
        }

        fn step(&mut self) -> Vec<Path> {
            for at in 0..3 {
                let (turn, bytes) = (self.draw(40), self.draw(20_000));
                self.paths[at] = match self.paths[at] {
                    // A subflow that is met late has carried something before.
                    None => (turn < 8).then_some([bytes + 1, bytes / 2, bytes / 4]),
                    // The first one always stays.
                    Some(_) if at > 0 && turn == 0 => None,
                    // Another one in its place, which has sent less.
                    Some([sent, ..]) if turn == 1 => Some([sent / 2, sent / 8, 0]),
                    Some([sent, acked, lost]) => {
                        let (open, gone) = (sent + bytes - acked - lost, self.draw(8) * 1000);
                        let lost_now = gone.min(open / 4);
                        Some([sent + bytes, acked + (open - lost_now) / 2, lost + lost_now])
                    }
                };
            }
            let there = self.paths.iter().enumerate().filter_map(|(at, counts)| Some((at, (*counts)?)));
            there.map(|(at, counts)| path(at as u8, counts)).collect()
        }
    }

    fn receipt(path: u8, bytes: u64, serial: u64) -> Receipt {
        Receipt { path: PathId::new(path), offset: Offset::ZERO, bytes: Bytes::new(bytes), serial }
    }

    #[test]
    fn what_grew_between_two_looks_is_one_event_of_each_kind() {
        let mut lab = Lab::new(0);
        let (p0, p1) = (PathId::new(0), PathId::new(1));
        assert_eq!(lab.look(&[path(0, [0; 3]), path(1, [0; 3])]), [Event::PathUp(p0), Event::PathUp(p1)]);
        // What the path that was not chosen sent is no decision carried out; that it arrived is told.
        let told = lab.look(&[path(0, [5000, 3000, 1000]), path(1, [2000, 2000, 0])]);
        let expected = [
            Event::Sent(receipt(0, 5000, 0), SendKind::Fresh),
            Event::Acked(receipt(0, 3000, 0)),
            Event::Lost(receipt(0, 1000, 0)),
            Event::Acked(receipt(1, 2000, 0)),
        ];
        assert_eq!(told, expected);
        // The second choice has number 1.
        let mut reduced = path(0, [5000, 4000, 1000]);
        reduced.ssthresh = MSS;
        let told = lab.look(&[reduced, path(1, [2000, 2000, 0])]);
        assert_eq!(told, [Event::Acked(receipt(0, 1000, 1)), Event::Congestion(p0)]);
    }

    #[test]
    fn a_path_that_is_gone_is_down_and_its_number_may_come_back_as_another() {
        let mut lab = Lab::new(0);
        let (p0, p1) = (PathId::new(0), PathId::new(1));
        lab.look(&[path(0, [9000, 0, 0]), path(1, [0; 3])]);
        assert_eq!(lab.look(&[path(0, [9000, 0, 0])]), [Event::PathDown(p1)]);
        // It has sent less than before: a new subflow.
        assert_eq!(lab.look(&[path(0, [100, 0, 0])]), [Event::PathDown(p0), Event::PathUp(p0)]);
        // 150 ms after the first question the 120 ms are over.
        assert_eq!(lab.look(&[path(0, [100, 0, 0])]), [Event::Wake]);
    }

    /// Paths that a random kernel moves on, and takes away and brings back, with all that it may declare.
    #[test]
    fn steering_meets_a_hosts_duties() {
        let mut all = Found::default();
        for needs in [OFFERS, Needs { events: false, ..OFFERS }, Needs { wake: false, ..OFFERS }, Needs::NONE] {
            for seed in 0..4 {
                let duties = Duties::of_intervals(needs, seed, Span::from_millis(50));
                let mut asker = Asker::new(Box::new(duties.clone()));
                let mut kernel = Kernel::new(seed);
                for look in 1..2000 {
                    let paths = kernel.step();
                    let now = Instant::ZERO + Span::from_millis(50 * look);
                    let _ = asker.ask(&Context::new(now, &paths, Some(&PACKET), None));
                }
                let breaches = duties.breaches(asker.host.counts.faults);
                assert!(breaches.is_empty(), "{needs:?}, seed {seed}:\n{}", breaches.join("\n"));
                all.add(&duties.found());
            }
        }
        let Found { woken, downs, sent, acked, lost, provoked, .. } = all;
        assert!([woken, downs, sent, acked, lost, provoked].into_iter().all(|count| count > 100), "{all:?}");
    }

    /// A scheduler that names a path that is not there has the fastest instead, and that is a fault.
    #[test]
    fn an_unknown_path_is_a_fault() {
        let mut lab = Lab::new(9);
        let mut far = path(1, [0; 3]);
        far.srtt = Span::from_millis(90);
        let cx = [path(0, [0; 3]), far];
        lab.look(&cx);
        assert_eq!((lab.asker.chosen, lab.asker.host.counts.faults), (Some(PathId::new(0)), 1));
    }

    #[test]
    fn every_connection_has_a_scheduler_of_its_own() {
        let mut askers = Askers::new("round-robin").unwrap();
        let paths = [path(0, [0; 3]), path(1, [0; 3])];
        let cx = Context::new(Instant::ZERO, &paths, None, None);
        let _ = (askers.ask(7, &cx), askers.ask(8, &cx));
        assert_eq!(askers.by_token.len(), 2);
        askers.retain(&[]);
        assert!(askers.by_token.is_empty());
        assert!(Askers::new("round-robbin").is_err());
    }

    #[test]
    fn what_the_kernel_cannot_offer_is_said_in_a_line() {
        assert_eq!(steering_obstacle("min-rtt").unwrap(), None);
        assert_eq!(
            steering_obstacle("redundant").unwrap().unwrap(),
            "it needs a view of the connection's data (flow), copies, which the kernel does not offer to those who steer it"
        );
        assert_eq!(steering_obstacle("pdaa3c-quality").unwrap(), None, "wake-ups are offered");
    }
}
