use std::sync::Arc;
use std::time::Duration;

use noq_proto::congestion::ControllerFactory as _;
use weftway_path::{Context, Decision, PathSet};

use super::*;

fn gate(spec: &str) -> Gate {
    Gate::new(spec).unwrap()
}

fn build(gate: &Gate, now: Clock) -> Box<dyn Controller> {
    Arc::new(gate.clone()).build(now, 1200)
}

/// Shows the scheduler a path with this round-trip time.
fn prove(gate: &Gate, path: u8, rtt: u64) {
    let mut known = Path::new(PathId::new(path), Bytes::new(1200), Bytes::new(12_000));
    known.srtt = weftway_path::Span::from_millis(rtt);
    known.rtt_samples = 1;
    gate.shared.updated(Instant::ZERO, &known, false);
}

#[test]
fn a_path_is_open_until_its_first_acknowledgement_and_a_new_one_only_for_a_few_packets() {
    let (gate, now) = (gate("min-rtt"), Clock::now());
    let mut first = build(&gate, now);
    for pn in 0..9 {
        assert!(first.window() > 0, "the handshake needs packet {pn}");
        first.on_packet_sent(now, 1200, pn);
    }
    prove(&gate, 0, 10);
    let mut second = build(&gate, now);
    for pn in 0..UNPROVEN {
        assert!(second.window() > 0);
        second.on_packet_sent(now, 1200, pn);
    }
    assert_eq!(second.window(), 0);
    assert!(first.window() > 0, "the scheduler has but this one");
}

#[test]
fn only_the_chosen_window_is_open_and_statistics_change_nothing() {
    let (gate, now) = (gate("min-rtt"), Clock::now());
    let (mut first, mut second) = (build(&gate, now), build(&gate, now));
    prove(&gate, 0, 50);
    prove(&gate, 1, 10);
    for _ in 0..3 {
        assert_eq!((second.window(), first.window()), (12_000, 0));
        assert_eq!(first.metrics().congestion_window, 12_000, "noq's pacer divides by it");
    }
    assert_eq!(gate.counts().decisions, 1, "asked once until something happens");
    for pn in 0..10 {
        assert!(second.window() > 0);
        second.on_packet_sent(now, 1200, pn);
    }
    assert_eq!((first.window(), second.window()), (12_000, 0), "its window is full");
    first.on_packet_sent(now, 1200, 0);
    assert_eq!(gate.counts().unasked, 0);
}

#[test]
fn a_path_that_noqs_pacer_holds_gives_way_and_stays_open() {
    let (gate, now) = (gate("min-rtt"), Clock::now());
    let (first, second, third) = (build(&gate, now), build(&gate, now), build(&gate, now));
    prove(&gate, 0, 10);
    prove(&gate, 1, 20);
    prove(&gate, 2, 30);
    // As noq does it: it reads the figures when it comes to a path, then the window, then the figures for its pacer.
    first.metrics();
    assert!(first.window() > 0);
    first.metrics();
    // Nothing left: on to the next path.
    second.metrics();
    assert!(second.window() > 0, "the next best");
    assert_eq!(third.window(), 0);
    assert!(first.window() > 0, "so that noq's timer lets it go on");
    assert_eq!(gate.counts().paced, 1);
}

#[test]
fn the_end_of_a_piece_is_not_taken_for_the_pacer() {
    let (gate, now) = (gate("min-rtt"), Clock::now());
    let (first, mut second) = (build(&gate, now), build(&gate, now));
    prove(&gate, 0, 20);
    prove(&gate, 1, 10);
    second.metrics();
    assert!(second.window() > 0);
    second.metrics();
    second.on_packet_sent(now, 1200, 0);
    // Room for one more datagram is looked for, and the piece is full.
    assert!(second.window() > 0);
    second.metrics();
    second.on_sent(now, 1200, 0);
    // noq's next round.
    first.metrics();
    assert_eq!(first.window(), 0);
    assert_eq!(gate.counts().paced, 0);
}

#[test]
fn a_copy_after_a_rebinding_is_open() {
    let (gate, now) = (gate("min-rtt"), Clock::now());
    let (first, _second) = (build(&gate, now), build(&gate, now));
    prove(&gate, 0, 50);
    prove(&gate, 1, 10);
    assert_eq!(first.window(), 0);
    assert!(first.clone_box().window() > 0, "noq's pacer is made from it");
}

#[test]
fn a_backup_rests_while_an_active_path_lives() {
    let (gate, now) = (gate("min-rtt"), Clock::now());
    let (first, second) = (build(&gate, now), build(&gate, now));
    prove(&gate, 0, 50);
    prove(&gate, 1, 10);
    assert_eq!(first.window(), 0);
    gate.set_role(PathId::new(1), Role::Backup);
    assert_eq!((first.window(), second.window()), (12_000, 0));
}

/// Chooses this path while it is open.
#[derive(Clone)]
struct Prefers(u8);

impl Scheduler for Prefers {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let path = cx.sendable().find(|path| path.id.get() == self.0).or(cx.sendable().next());
        path.map_or(Decision::Wait, |path| Decision::Send(path.id))
    }
}

/// A gate that chooses the path with this number, of two.
fn preferring(path: u8) -> (Gate, Vec<Box<dyn Controller>>) {
    let gate = Gate::with_scheduler("prefers", Box::new(Prefers(path))).unwrap();
    let paths = (0..2).map(|_| build(&gate, Clock::now())).collect();
    (0..2).for_each(|path| prove(&gate, path, 10));
    (gate, paths)
}

/// noq's round over paths that have nothing to send but data, the `backup` among them: where data leave.
fn round(paths: &[Box<dyn Controller>], backup: usize) -> Option<usize> {
    for (at, path) in paths.iter().enumerate() {
        path.metrics();
        if at != backup && path.window() > 0 {
            path.metrics();
            return Some(at);
        }
    }
    None
}

#[test]
fn a_backup_of_which_the_gate_does_not_know_gives_way_in_noqs_next_round() {
    let now = Clock::now();
    for backup in [0, 1] {
        let (gate, mut paths) = preferring(backup as u8);
        // Nothing to send.
        paths.iter().for_each(|path| _ = path.metrics());
        paths.iter().for_each(|path| _ = path.metrics());
        assert_eq!(round(&paths, backup), None, "the scheduler chose the backup");
        let other = 1 - backup;
        for pn in 0..3 {
            assert_eq!(round(&paths, backup), Some(other));
            paths[other].on_packet_sent(now, 1200, pn);
        }
        assert_eq!((gate.counts().passed, gate.counts().unasked), (1, 0), "it stays so while data wait");
        assert_eq!(gate.paths()[backup].blocked, weftway_path::BlockedReason::Transport);
        // A path that is no backup any more.
        paths[backup].metrics();
        assert!(paths[backup].window() > 0);
        paths[backup].on_packet_sent(now, 1200, 0);
        assert_eq!((paths[backup].window(), paths[other].window()), (12_000, 0), "it is chosen again");
    }
}

#[test]
fn statistics_are_not_taken_for_noqs_rounds() {
    let (gate, paths) = preferring(1);
    for _ in 0..3 {
        assert_eq!(paths[0].window(), 0);
        paths[0].metrics();
        // noq has nothing to send.
        paths.iter().for_each(|path| _ = path.metrics());
    }
    assert_eq!(round(&paths, usize::MAX), Some(1));
    assert_eq!(gate.counts().passed, 0);
}

#[test]
fn a_path_to_which_noq_no_longer_comes_is_not_chosen() {
    let now = Clock::now();
    for closed in [0, 1] {
        let (gate, mut paths) = preferring(closed as u8);
        // A round with nothing to send.
        paths.iter().for_each(|path| _ = path.metrics());
        let (gone, other) = (paths.remove(closed), &mut paths[0]);
        for pn in 0..3 {
            // noq's pacer looks, an acknowledgement leaves, and the next round has nothing to send.
            other.metrics();
            other.metrics();
            other.on_sent(now, 0, pn);
            other.metrics();
            other.metrics();
            assert!(other.window() > 0, "at once, in the first round with data");
            other.on_packet_sent(now, 1200, pn);
            other.on_sent(now, 1200, pn);
        }
        assert_eq!((gate.counts().passed, gate.counts().unasked), (0, 0), "nothing waited");
        assert_eq!(gate.paths()[closed].blocked, weftway_path::BlockedReason::Transport);
        gone.metrics();
        assert_eq!((other.window(), gone.window()), (0, 12_000), "noq came to it again");
    }
}

#[test]
fn a_choice_that_noq_does_not_come_to_ends_in_its_next_round() {
    let (gate, paths) = preferring(1);
    let [mut first, _gone] = paths.try_into().unwrap();
    first.on_packet_sent(Clock::now(), 1200, 0);
    first.on_sent(Clock::now(), 1200, 0);
    for open in [false, true] {
        first.metrics();
        assert_eq!(first.window() > 0, open);
        first.on_cwnd_limited();
    }
    assert_eq!(gate.counts().passed, 1);
}

#[test]
fn what_noqs_pacer_looks_at_hides_no_path() {
    let now = Clock::now();
    let (gate, mut paths) = preferring(1);
    for pn in 0..3 {
        // Only an acknowledgement, or a probe.
        paths[0].metrics();
        paths[0].metrics();
        paths[0].on_sent(now, 0, pn);
        paths[0].metrics();
        assert_eq!(paths[0].window(), 0);
        paths[0].on_cwnd_limited();
        paths[1].metrics();
        assert!(paths[1].window() > 0);
        paths[1].on_packet_sent(now, 1200, pn);
        paths[1].on_sent(now, 1200, pn);
    }
    assert_eq!(gate.counts().passed, 0);
}

#[test]
fn a_probe_that_noqs_pacer_holds_hides_no_path() {
    let now = Clock::now();
    let gate = gate("min-rtt");
    let [first, second, third]: [_; 3] = std::array::from_fn(|_| build(&gate, now));
    (0..3).for_each(|path| prove(&gate, path, 30 - u64::from(path)));
    for _ in 0..2 {
        first.metrics();
        // Its pacer is asked of a probe, for which no window is read.
        second.metrics();
        second.metrics();
        third.metrics();
        assert!(third.window() > 0);
        let blocked = |path: &Path| path.blocked == weftway_path::BlockedReason::Transport;
        assert!(!gate.paths().iter().any(blocked));
        gate.shared.forget();
    }
    assert_eq!(gate.counts().passed, 0);
}

#[test]
fn a_number_that_is_used_again_begins_anew() {
    let (gate, now) = (gate("min-rtt"), Clock::now());
    let mut paths: Vec<_> = (0..70).map(|_| build(&gate, now)).collect();
    assert!(paths[64..].iter().all(|path| path.window() > 0), "what nobody sees is not shut");
    gate.set_role(PathId::new(1), Role::Backup);
    prove(&gate, 1, 10);
    assert!(!gate.paths()[0].is_active());
    paths.remove(1);
    paths.push(build(&gate, now));
    prove(&gate, 1, 10);
    assert!(gate.paths()[0].is_active());
}

/// Always waits.
#[derive(Clone)]
struct Waits;

impl Scheduler for Waits {
    fn select(&mut self, _cx: &Context<'_>) -> Decision {
        Decision::Wait
    }
}

/// Panics when it is asked for the third time.
#[derive(Clone)]
struct Panics(u8);

impl Scheduler for Panics {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.0 += 1;
        assert!(self.0 < 3, "as a test wants it");
        Decision::Send(cx.paths[1].id)
    }
}

#[test]
fn min_rtt_takes_over_from_a_scheduler_that_panics() {
    let (gate, now) = (Gate::with_scheduler("panics", Box::new(Panics(0))).unwrap(), Clock::now());
    let (first, mut second) = (build(&gate, now), build(&gate, now));
    prove(&gate, 0, 10);
    prove(&gate, 1, 20);
    for pn in 0..2 {
        assert_eq!(first.window(), 0);
        assert!(second.window() > 0);
        second.on_packet_sent(now, 1200, pn);
        prove(&gate, 1, 20);
    }
    for _ in 0..2 {
        assert!(first.window() > 0, "the fastest");
        assert_eq!(second.window(), 0);
        prove(&gate, 1, 20);
    }
    let counts = gate.counts();
    assert_eq!((gate.name().as_str(), counts.faults, counts.decisions), ("min-rtt", 1, 4), "{counts:?}");
}

thread_local! {
    static NOW: std::cell::Cell<Option<Clock>> = const { std::cell::Cell::new(None) };
}

#[test]
fn a_wait_lets_a_packet_out_each_quarter_of_a_round_trip() {
    let now = Clock::now();
    NOW.set(Some(now));
    let gate = Gate::with_scheduler("waits", Box::new(Waits)).unwrap().with_clock(|| NOW.get().unwrap());
    let mut path = build(&gate, now);
    path.on_packet_sent(now, 1200, 0);
    let mut known = Path::new(PathId::new(0), Bytes::new(1200), Bytes::new(12_000));
    (known.srtt, known.rtt_samples) = (weftway_path::Span::from_millis(20), 1);
    known.bytes_in_flight = Bytes::new(1200);
    gate.shared.updated(Instant::ZERO, &known, false);
    NOW.set(Some(now + Duration::from_millis(4)));
    assert_eq!(path.window(), 0);
    NOW.set(Some(now + Duration::from_millis(5)));
    assert!(path.window() > 0);
    path.on_packet_sent(now + Duration::from_millis(5), 1200, 1);
    assert_eq!((path.window(), gate.counts().escapes), (0, 1));
}

#[test]
fn paths_that_are_gone_are_not_shown() {
    let (gate, now) = (gate("min-rtt"), Clock::now());
    let (first, second) = (build(&gate, now), build(&gate, now));
    prove(&gate, 0, 50);
    prove(&gate, 1, 10);
    drop(second);
    assert_eq!(
        gate.paths().iter().map(|path| path.id).collect::<Vec<_>>(),
        PathSet::of(PathId::new(0)).iter().collect::<Vec<_>>()
    );
    assert!(first.window() > 0);
}

#[test]
fn a_closed_path_leaves_no_packet_without_an_outcome() {
    use weftway_host::testing::Duties;
    use weftway_path::Span;
    let duties = Duties::new(OFFERS, 1, Span::ZERO);
    let (gate, now) = (Gate::with_scheduler("duties", Box::new(duties.clone())).unwrap(), Clock::now());
    let (mut first, _second) = (build(&gate, now), build(&gate, now));
    first.on_packet_sent(now, 1200, 0);
    prove(&gate, 0, 10);
    prove(&gate, 1, 10);
    first.on_packet_sent(now, 1200, 1);
    drop(first);
    // The next question tells what happened.
    gate.shared.is_open(PathId::new(1));
    let found = duties.found();
    assert_eq!((found.sent, found.lost, found.downs), (2, 2, 1), "{found:?}");
    assert_eq!(found.breaches, Vec::<String>::new());
}

thread_local! {
    static NOW_MS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A clock that stands where the test puts it.
fn set_clock() -> Clock {
    static BASE: std::sync::LazyLock<Clock> = std::sync::LazyLock::new(Clock::now);
    *BASE + Duration::from_millis(NOW_MS.get())
}

/// Waits, and asks to be woken 5 ms later.
#[derive(Clone, Default)]
struct Sleeps {
    wake: Option<Instant>,
    woken: Arc<std::sync::atomic::AtomicU64>,
}

impl Scheduler for Sleeps {
    fn needs(&self) -> Needs {
        Needs { wake: true, ..Needs::NONE }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.wake.get_or_insert(cx.now + weftway_path::Span::from_millis(5));
        Decision::Wait
    }

    fn observe(&mut self, _cx: &Context<'_>, event: &weftway_path::Event) {
        if *event == weftway_path::Event::Wake {
            self.wake = None;
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.wake
    }
}

#[test]
fn a_wake_up_comes_with_the_first_question_after_it_is_due_and_no_wait_hangs_on_it() {
    let sleeps = Sleeps::default();
    let gate = Gate::with_scheduler("sleeps", Box::new(sleeps.clone())).unwrap().with_clock(set_clock);
    let mut first = build(&gate, set_clock());
    prove(&gate, 0, 40);
    let told = || (gate.counts().faults, gate.counts().waits, sleeps.woken.load(Ordering::Relaxed));
    // Nothing is in flight: nobody would ask again, and the wait is overruled.
    assert!(first.window() > 0);
    assert_eq!(told(), (1, 1, 0));
    // A packet is: the wait holds. One ms later the wake-up is not due yet, six ms later it is.
    first.on_packet_sent(set_clock(), 1200, 0);
    assert_eq!(first.window(), 0);
    assert_eq!(told(), (1, 2, 0));
    for (now, woken) in [(1, 0), (6, 1)] {
        NOW_MS.set(now);
        gate.shared.forget();
        gate.shared.is_open(PathId::new(0));
        assert_eq!(told().2, woken, "{now} ms");
    }
    assert_eq!(gate.counts().faults, 1);
}
