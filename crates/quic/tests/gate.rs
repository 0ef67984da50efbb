//! A gate in whole connections, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use crate::net::{Link, Net, clock, read_all, transport};
use noq_proto::{Dir, StreamId};
use proptest::prelude::*;
use weftway_host::testing::Duties;
use weftway_path::{Context, Decision, Event, Span};
use weftway_quic::gate::{Gate, OFFERS};
use weftway_sched::{Needs, Scheduler};

fn link(mbps: f64, ms: u64) -> Link {
    Link { mbps, delay: Duration::from_millis(ms), queue: Duration::from_millis(100) }
}

fn gated(gate: &Gate, links: &[Link]) -> (Net, Gate) {
    let plain = transport(links.len() as u32);
    let (client, gate) = gate.with_clock(clock).connection(&plain);
    (Net::new(links, client, Arc::new(plain)), gate)
}

/// Sends `bytes` from the client (or the server); the time until the last has been read, if that is at most 60 s.
fn transfer(net: &mut Net, from_server: bool, bytes: usize) -> Option<Duration> {
    transfer_while(net, from_server, bytes, |_, _| {})
}

/// The same; `meanwhile` may change the network, and knows for how long it runs.
fn transfer_while(
    net: &mut Net,
    from_server: bool,
    bytes: usize,
    mut meanwhile: impl FnMut(&mut Net, Duration),
) -> Option<Duration> {
    let begin = net.now;
    let sender = |net: &mut Net, from_server: bool| -> StreamId {
        let side = if from_server { &mut net.server } else { &mut net.client };
        side.conn().streams().open(Dir::Uni).expect("a stream")
    };
    let id = sender(net, from_server);
    let (mut left, mut got, mut streams) = (bytes, 0, Vec::new());
    let data = vec![7; 1 << 16];
    let done = net.run_until(begin + Duration::from_secs(60), |net| {
        let elapsed = net.now - begin;
        meanwhile(net, elapsed);
        let (from, to) = match from_server {
            true => (&mut net.server, &mut net.client),
            false => (&mut net.client, &mut net.server),
        };
        while left > 0 {
            match from.conn().send_stream(id).write(&data[..left.min(data.len())]) {
                Ok(written) => left -= written,
                Err(_) => break,
            }
        }
        got += read_all(to, &mut streams).iter().map(|(_, bytes, _)| bytes).sum::<usize>();
        got >= bytes
    });
    done.then(|| net.now - begin)
}

#[test]
fn every_registry_entry_is_carried_or_refused_in_one_line() {
    let mut carried = 0;
    for entry in weftway_sched::all() {
        let scheduler = entry.make(&[]).unwrap();
        let carries = |scheduler: &dyn Scheduler| scheduler.needs().union(OFFERS) == OFFERS;
        let part = scheduler.report().sending_part.filter(|(_, part)| carries(&**part));
        let lacks = !carries(&*scheduler) && part.is_none();
        match Gate::new(entry.name) {
            Ok(gate) => {
                assert!(!lacks, "{}", entry.name);
                let runs = if carries(&*scheduler) { entry.name } else { part.expect("a part").0 };
                assert_eq!(gate.name(), runs, "it tells what runs");
                carried += 1;
                let (mut net, gate) = gated(&gate, &[link(20.0, 10), link(10.0, 20)]);
                assert!(transfer(&mut net, false, 300_000).is_some(), "{} does not finish", entry.name);
                assert!(gate.counts().decisions > 0, "{} is never asked", entry.name);
            }
            Err(error) => {
                assert!(lacks, "{}", entry.name);
                let text = error.to_string();
                assert!(text.contains(entry.name) && text.contains("a gate does not offer"), "{text}");
                assert_eq!(text.lines().count(), 1, "{text}");
            }
        }
    }
    assert!(carried > 0);
}

#[test]
fn two_paths_carry_more_than_one_and_the_gate_loses_nothing_to_noq() {
    let links = [link(10.0, 10), link(10.0, 10)];
    let (mut net, gate) = gated(&Gate::new("min-rtt").unwrap(), &links);
    let gated = transfer(&mut net, false, 4_000_000).unwrap();
    let plain = Arc::new(transport(2));
    let ungated = transfer(&mut Net::new(&links, plain.clone(), plain), false, 4_000_000).unwrap();
    eprintln!("gated {gated:?}, ungated {ungated:?}");
    // One link alone takes 3.2 s.
    assert!(gated < Duration::from_millis(2400), "{gated:?}");
    assert!(gated.as_secs_f64() < ungated.as_secs_f64() * 1.1, "{gated:?} {ungated:?}");
    let sent = gate.paths().iter().map(|path| path.sent.packets).collect::<Vec<_>>();
    assert!(sent.iter().all(|packets| *packets > 500), "{sent:?}");
    assert_eq!((gate.counts().faults, gate.counts().passed), (0, 0), "{:?}", gate.counts());
}

#[test]
fn equal_decisions_in_a_row_leave_in_one_piece() {
    let links = [link(500.0, 5), link(500.0, 5)];
    // Eight packets on a connection that has large windows and nothing in flight.
    let pieces = |spec: &str| {
        let (mut net, _) = gated(&Gate::new(spec).unwrap(), &links);
        transfer(&mut net, false, 4_000_000).unwrap();
        net.run_for(Duration::from_secs(1));
        net.client.pieces.clear();
        transfer(&mut net, false, 9000).unwrap();
        net.client.pieces.len()
    };
    let (tens, ones) = (pieces("round-robin:num_segments=10"), pieces("round-robin"));
    assert!(tens <= 4 && ones >= 8, "{tens} {ones}");
}

/// Always waits.
#[derive(Clone)]
struct Waits;

impl Scheduler for Waits {
    fn needs(&self) -> Needs {
        Needs::NONE
    }

    fn select(&mut self, _cx: &Context<'_>) -> Decision {
        Decision::Wait
    }

    fn observe(&mut self, _cx: &Context<'_>, _event: &Event) {}
}

#[test]
fn a_waiting_scheduler_does_not_starve_the_other_direction() {
    let waits = Gate::with_scheduler("waits", Box::new(Waits)).unwrap();
    let (mut net, gate) = gated(&waits, &[link(20.0, 10)]);
    // The client has data of its own all the time; the server sends 2 MB, 0.8 s at 20 Mbit/s.
    let id = net.client.conn().streams().open(Dir::Uni).unwrap();
    while net.client.conn().send_stream(id).write(&[0; 65_536]).is_ok_and(|written| written > 0) {}
    let time = transfer(&mut net, true, 2_000_000).expect("it ends");
    assert!(time < Duration::from_secs(3), "{time:?}");
    let counts = gate.counts();
    assert!(counts.waits > 0 && counts.escapes > 0, "{counts:?}");
}

#[test]
fn an_eternal_wait_is_overruled_when_nothing_is_in_flight() {
    let waits = Gate::with_scheduler("waits", Box::new(Waits)).unwrap();
    let (mut net, gate) = gated(&waits, &[link(20.0, 10)]);
    net.run_for(Duration::from_secs(2));
    assert!(transfer(&mut net, false, 20_000).is_some());
    assert!(gate.counts().faults > 0, "{:?}", gate.counts());
}

/// The faster link is a backup, of which the gate was not told: each transfer of 1 MB takes 0.4 s on the other one.
#[test]
fn a_backup_of_which_the_gate_was_not_told_does_not_stop_it() {
    for backup in [0, 1] {
        let mut links = [link(20.0, 20); 2];
        links[backup].delay = Duration::from_millis(2);
        let (mut net, gate) = gated(&Gate::new("min-rtt").unwrap(), &links);
        transfer(&mut net, false, 1_000_000).unwrap();
        assert_eq!(gate.counts().passed, 0, "{:?}", gate.counts());
        net.run_for(Duration::from_secs(1));
        let id = noq_proto::PathId::from(backup as u32);
        net.client.conn().set_path_status(id, noq_proto::PathStatus::Backup).unwrap();
        for _ in 0..2 {
            let sent = |at: usize| gate.paths()[at].sent.packets;
            let before = sent(backup);
            let time = transfer(&mut net, false, 1_000_000);
            assert!(time.is_some_and(|time| time < Duration::from_secs(2)), "{time:?} {:?}", gate.counts());
            assert!(sent(backup) < before + 20, "{before} {}", sent(backup));
            net.run_for(Duration::from_secs(1));
        }
        assert!(gate.counts().passed > 0, "{:?}", gate.counts());
    }
}

/// Chooses this path while it is open.
#[derive(Clone)]
struct Prefers(usize);

impl Scheduler for Prefers {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let path = cx.sendable().find(|path| path.id.index() == self.0).or(cx.sendable().next());
        path.map_or(Decision::Wait, |path| Decision::Send(path.id))
    }
}

/// One of two paths, or of three, is closed while nothing is sent. The application looks at statistics or not. Each
/// message after that leaves at once on another path, though noq has not yet forgotten the closed one.
#[test]
fn a_path_that_either_end_closes_is_not_chosen_again() {
    let cases = (2..4).flat_map(|links| (0..links).map(move |closed| (links, closed)));
    let cases = cases.flat_map(|case| ["prefers", "round-robin", "random"].map(|scheduler| (case, scheduler)));
    let cases =
        cases.flat_map(|case| [(false, false), (false, true), (true, false), (true, true)].map(|how| (case, how)));
    for (((links, closed), scheduler), (by_server, looks)) in cases {
        let case = format!("{scheduler}: {closed} of {links} closed, by the server: {by_server}, statistics: {looks}");
        let pattern = match scheduler {
            "prefers" => Gate::with_scheduler(scheduler, Box::new(Prefers(closed))),
            _ => Gate::new(scheduler),
        };
        let (mut net, gate) = gated(&pattern.unwrap(), &vec![link(20.0, 20); links]);
        let message = |net: &mut Net| {
            net.run_for(Duration::from_millis(10));
            transfer(net, false, 1000)
        };
        (0..12).for_each(|_| _ = message(&mut net));
        net.run_for(Duration::from_secs(1));
        assert!(gate.paths()[closed].sent.packets >= 4, "{case}: it serves");
        let (id, now) = (noq_proto::PathId::from(closed as u32), net.now);
        let side = if by_server { &mut net.server } else { &mut net.client };
        side.conn().close_path(now, id, 0_u32.into()).unwrap();
        net.run_for(Duration::from_millis(60));
        for _ in 0..4 {
            if looks {
                (0..links as u32).for_each(|id| _ = net.client.conn().path_stats(id.into()));
            }
            let time = message(&mut net);
            assert!(time.is_some_and(|time| time < Duration::from_millis(25)), "{case}: {time:?} {:?}", gate.counts());
            assert!(gate.paths().iter().any(|path| path.id.index() == closed), "{case}: noq has forgotten it");
        }
    }
}

#[test]
fn a_decision_is_obeyed() {
    // The second link is the fast one: noq by itself fills the first.
    let links = [link(50.0, 50), link(50.0, 5)];
    let (mut net, _) = gated(&Gate::new("min-rtt").unwrap(), &links);
    transfer(&mut net, false, 1200).unwrap();
    net.run_for(Duration::from_secs(1));
    net.client.pieces.clear();
    transfer(&mut net, false, 2000).unwrap();
    assert_eq!(net.client.pieces[0].0, 1, "{:?}", net.client.pieces);
    let plain = Arc::new(transport(2));
    let mut net = Net::new(&links, plain.clone(), plain);
    net.client.pieces.clear();
    transfer(&mut net, false, 2000).unwrap();
    assert_eq!(net.client.pieces[0].0, 0, "{:?}", net.client.pieces);
}

#[test]
fn what_is_in_flight_is_what_noq_says() {
    let (mut net, gate) = gated(&Gate::new("min-rtt").unwrap(), &[link(20.0, 10), link(10.0, 20)]);
    transfer(&mut net, false, 1_000_000).unwrap();
    net.run_for(Duration::from_secs(2));
    for path in gate.paths() {
        assert_eq!(path.bytes_in_flight.get(), 0, "{path:?}");
        assert!(path.delivery_rate.as_bps() > 1_000_000, "{path:?}");
        assert!(path.min_rtt.as_millis() >= 20, "{path:?}");
        assert!(path.acked.packets + path.lost.packets >= path.sent.packets - 2, "{path:?}");
    }
}

#[test]
fn every_controller_carries_a_transfer_over_two_paths() {
    for entry in weftway_cc::all() {
        let gate = Gate::new("min-rtt").unwrap().with_controller(entry.name).unwrap();
        let (mut net, gate) = gated(&gate, &[link(20.0, 10), link(10.0, 20)]);
        // 30 Mbit/s carry 3 MB in 0.8 s.
        let time = transfer(&mut net, false, 3_000_000).unwrap_or_else(|| panic!("{} does not finish", entry.name));
        eprintln!("{:12} {time:?} {:?}", entry.name, gate.counts());
        assert!(time < Duration::from_secs(4), "{}: {time:?}", entry.name);
    }
}

/// A gate shows a scheduler less than other hosts do, and owes it the same for what it shows.
#[test]
fn a_gate_meets_a_hosts_duties() {
    // Nothing wakes noq: while data flow, a wake-up is late by the time to the next packet or acknowledgement.
    let cases =
        [(Needs { wake: false, ..OFFERS }, Span::ZERO), (OFFERS, Span::from_millis(250)), (Needs::NONE, Span::ZERO)];
    for (needs, late) in cases {
        for seed in 0..4 {
            let duties = Duties::new(needs, seed, late);
            let gate = Gate::with_scheduler("duties", Box::new(duties.clone())).unwrap();
            // A queue of 20 ms loses packets.
            let short = Link { queue: Duration::from_millis(20), ..link(10.0, 20) };
            let (mut net, gate) = gated(&gate, &[link(20.0, 10), short]);
            assert!(transfer(&mut net, false, 2_000_000).is_some(), "seed {seed} does not finish");
            let found = duties.found();
            // A wait that only a wake-up would end is overruled, and counts as a fault.
            let faults = if needs.wake { found.provoked } else { gate.counts().faults };
            let breaches = duties.breaches(faults);
            assert!(breaches.is_empty(), "seed {seed}:\n{}", breaches.join("\n"));
            assert!(!needs.wake || found.woken > 10 && gate.counts().faults >= found.provoked, "{found:?}");
            assert!(!needs.events || found.acked > 1000 && found.lost > 0 && found.ups == 2, "{found:?}");
        }
    }
}

/// min-RTT sends a few packets on the fast link; in turn each link gets every second one.
#[test]
fn another_scheduler_takes_over_while_data_are_under_way() {
    let (mut net, gate) = gated(&Gate::new("min-rtt").unwrap(), &[link(20.0, 5), link(20.0, 60)]);
    transfer(&mut net, false, 1_000_000).unwrap();
    let shares = |net: &mut Net| {
        net.run_for(Duration::from_secs(1));
        let sent = || [0, 1].map(|at| gate.paths()[at].sent.packets);
        let before = sent();
        transfer(net, false, 7000).unwrap();
        let after = sent();
        [0, 1].map(|at| after[at] - before[at])
    };
    let [fast, slow] = shares(&mut net);
    assert!(3 * slow < fast, "{slow} and {fast}");
    let refused = gate.switch("ecf").unwrap_err().to_string();
    assert!(refused.contains("a gate does not offer"), "{refused}");
    gate.switch("no such rule").unwrap_err();
    assert_eq!(gate.name(), "min-rtt");
    let before = gate.counts();
    gate.switch("round-robin").unwrap();
    assert_eq!(gate.name(), "round-robin");
    let [fast, slow] = shares(&mut net);
    assert!(slow.abs_diff(fast) <= 1, "{slow} and {fast}");
    let counts = gate.counts();
    assert!(counts.decisions > before.decisions && counts.faults == 0, "counts go on: {counts:?}");
    // In the middle of a transfer, again and again.
    let mut switches = 0;
    let time = transfer_while(&mut net, false, 2_000_000, |_, elapsed| {
        if elapsed.as_millis() / 50 > switches {
            switches += 1;
            gate.switch(["min-rtt", "llhd", "round-robin:num_segments=10"][switches as usize % 3]).unwrap();
        }
    });
    assert!(time.is_some() && switches > 5, "{time:?}, {switches} switches");
}

/// A link of a history: what it is, how many of a hundred datagrams it loses, and when it dies and returns, in
/// milliseconds.
#[derive(Clone, Debug)]
struct Line {
    mbps: u32,
    ms: u64,
    queue: u64,
    loss: u8,
    dead: Option<(u64, u64)>,
}

/// A transfer behind a gate, and what happens to its links.
#[derive(Clone, Debug)]
struct History {
    lines: Vec<Line>,
    scheduler: &'static str,
    cc: &'static str,
    bytes: usize,
}

fn history() -> impl Strategy<Value = History> {
    let line = (1u32..40, 1u64..80, 10u64..200, 0u8..10, prop::option::of((0u64..2_000, 1u64..2_000)));
    let line = line.prop_map(|(mbps, ms, queue, loss, dead)| Line { mbps, ms, queue, loss, dead });
    let carried = weftway_sched::all().iter().map(|entry| entry.name).filter(|name| Gate::new(name).is_ok());
    let controllers = weftway_cc::all().iter().map(|entry| entry.name).collect::<Vec<_>>();
    let (scheduler, cc) = (prop::sample::select(carried.collect::<Vec<_>>()), prop::sample::select(controllers));
    let rest = (prop::collection::vec(line, 1..4), scheduler, cc, 1usize..400_000);
    rest.prop_map(|(lines, scheduler, cc, bytes)| History { lines, scheduler, cc, bytes })
}

impl History {
    /// Sends there and back: both transfers end.
    fn check(&self) -> Result<(), TestCaseError> {
        let milliseconds = Duration::from_millis;
        let to_link = |line: &Line| Link {
            mbps: f64::from(line.mbps),
            delay: milliseconds(line.ms),
            queue: milliseconds(line.queue),
        };
        let links: Vec<Link> = self.lines.iter().map(to_link).collect();
        let gate = Gate::new(self.scheduler).unwrap().with_controller(self.cc).unwrap();
        let (mut net, gate) = gated(&gate, &links);
        net.loss = self.lines.iter().map(|line| f64::from(line.loss) / 100.0).collect();
        for from_server in [false, true] {
            let time = transfer_while(&mut net, from_server, self.bytes, |net, elapsed| {
                for (at, line) in self.lines.iter().enumerate() {
                    let is_dead = |(from, span)| (milliseconds(from)..milliseconds(from + span)).contains(&elapsed);
                    net.dead[at] = line.dead.is_some_and(is_dead);
                }
            });
            prop_assert!(time.is_some(), "from the server: {from_server}; {:?} {:?}", gate.counts(), gate.paths());
            net.dead.fill(false);
        }
        prop_assert_eq!(gate.counts().faults, 0);
        Ok(())
    }
}

proptest! {
    #![proptest_config(crate::histories(60))]

    /// Losses and links that die and return: what is sent arrives, whatever the scheduler and the controller.
    #[test]
    fn what_is_sent_arrives(history in history()) {
        history.check()?;
    }
}

/// A link of 1 Mbit/s is dead for the first 0.2 s. What was sent then is declared lost 0.9 s later, when noq's third
/// probe is answered: it must not take the window for ever.
#[test]
fn a_link_that_was_dead_goes_on() {
    let slow = Link { queue: Duration::from_millis(10), ..link(1.0, 17) };
    let (mut net, gate) = gated(&Gate::new("min-rtt").unwrap().with_controller("newreno").unwrap(), &[slow]);
    let time = transfer_while(&mut net, false, 15_000, |net, elapsed| net.dead[0] = elapsed.as_millis() < 200);
    assert!(time.is_some_and(|time| time < Duration::from_secs(2)), "{time:?} {:?}", gate.paths());
}
