//! A gate in whole connections, in virtual time.

mod net;

use std::sync::Arc;
use std::time::Duration;

use net::{Link, Net, clock, read_all, transport};
use noq_proto::{Dir, StreamId};
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
    let begin = net.now;
    let sender = |net: &mut Net, from_server: bool| -> StreamId {
        let side = if from_server { &mut net.server } else { &mut net.client };
        side.conn().streams().open(Dir::Uni).expect("a stream")
    };
    let id = sender(net, from_server);
    let (mut left, mut got, mut streams) = (bytes, 0, Vec::new());
    let data = vec![7; 1 << 16];
    let done = net.run_until(begin + Duration::from_secs(60), |net| {
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
    assert_eq!(gate.counts().faults, 0, "{:?}", gate.counts());
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
    for needs in [OFFERS, Needs::NONE] {
        for seed in 0..4 {
            let duties = Duties::new(needs, seed, Span::ZERO);
            let gate = Gate::with_scheduler("duties", Box::new(duties.clone())).unwrap();
            // A queue of 20 ms loses packets.
            let short = Link { queue: Duration::from_millis(20), ..link(10.0, 20) };
            let (mut net, gate) = gated(&gate, &[link(20.0, 10), short]);
            assert!(transfer(&mut net, false, 2_000_000).is_some(), "seed {seed} does not finish");
            let breaches = duties.breaches(gate.counts().faults);
            assert!(breaches.is_empty(), "seed {seed}:\n{}", breaches.join("\n"));
            let found = duties.found();
            assert!(!needs.events || found.acked > 1000 && found.lost > 0 && found.ups == 2, "{found:?}");
        }
    }
}
