//! A scheduler of the registry that steers: what it is told between two looks at the kernel, and what it is asked.

use std::collections::HashMap;

use weftway_host::{Carried, Host, Refusal, Transport, answer, mismatch};
use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Context, Decision, Event, Offset, Path, PathId, Receipt, SendKind};
use weftway_sched::{Needs, Scheduler, TransportRules};

use super::Connection;

/// What the kernel offers to those who steer it.
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

/// One look at a connection, as a host asks about it.
struct Look<'a> {
    host: &'a mut Host,
    cx: Context<'a>,
}

impl Askers {
    /// For the scheduler that `spec` names.
    pub fn new(spec: &str) -> Result<Self, SpecError> {
        weftway_sched::build(spec)?;
        Ok(Self { spec: spec.to_owned(), by_token: HashMap::new() })
    }

    /// What the scheduler of the connection with this token decides.
    pub fn ask(&mut self, token: u32, cx: &Context<'_>) -> Decision {
        let new = || Asker::new(weftway_sched::build(&self.spec).expect("it was built before"));
        self.by_token.entry(token).or_insert_with(new).ask(cx)
    }

    /// Forgets the connections that are gone.
    pub fn retain(&mut self, connections: &[Connection]) {
        self.by_token.retain(|token, _| connections.iter().any(|connection| connection.token == *token));
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
        let decision = answer(&mut Look { host: &mut self.host, cx: *cx }, self.scheduler.as_mut());
        if let Decision::Send(path) = decision {
            self.chosen = Some(path);
            self.serial = self.host.next_serial();
        }
        decision
    }

    /// What happened since the last look.
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
        if matches!(decision, Decision::Send(_)) { Ok(Carried::Packet) } else { Err(Refusal::Unsupported) }
    }

    /// The next look comes by itself.
    fn pause(&mut self) {}
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use weftway_path::{Instant, Span};

    use super::*;

    const MSS: Bytes = Bytes::new(1000);

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

        /// What is told by a look 50 ms after the one before.
        fn look(&mut self, paths: &[Path]) -> Vec<Event> {
            self.now += Span::from_millis(50);
            let _ = self.asker.ask(&Context::new(self.now, paths, None, None));
            std::mem::take(&mut *self.told.lock().unwrap())
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
