use super::super::wire::{FULL_BYTES, Probe, ask, load};
use super::*;

const MS: Ns = 1_000_000;
const SESSION: Name = *b"session!";
const PLAN: Plan = Plan { paths: 2, seconds: 10, load: false, cap: 1_000_000 };

fn here() -> SocketAddr {
    ([192, 0, 2, 1], 5000).into()
}

fn elsewhere() -> SocketAddr {
    ([192, 0, 2, 9], 5000).into()
}

/// A listening end that grants a megabyte.
fn host() -> Host<'static> {
    Host::new(1_000_000, b"secret", |_| ())
}

fn plan(paths: u8, seconds: u32, load: bool, cap: u64) -> Plan {
    Plan { paths, seconds, load, cap }
}

fn kind(data: &[u8]) -> Kind {
    unpacked(data).unwrap().kind
}

fn hello(host: &mut Host<'_>, path: u8, session: Name, address: SocketAddr) -> Vec<u8> {
    let answers = host.receive(0, 0, &packed(Kind::Hello, path, session, &[], HELLO_BYTES), address);
    let [(cookie, _)] = &answers[..] else { panic!("{} answers", answers.len()) };
    assert_eq!(kind(cookie), Kind::Cookie);
    unpacked(cookie).unwrap().body.to_vec()
}

/// Greets the host as one does; its last answer.
fn greeted(host: &mut Host<'_>, plan: Plan, path: u8, session: Name) -> Vec<u8> {
    let cookie = hello(host, path, session, here());
    let start = packed(Kind::Start, path, session, &plan.pack(&cookie), 0);
    let mut answers = host.receive(0, 0, &start, here());
    assert_eq!((answers.len(), answers[0].1), (1, here()));
    answers.remove(0).0
}

fn bytes(out: &Out) -> usize {
    out.iter().map(|(data, _)| data.len()).sum()
}

/// Bytes of IP packets.
fn whole(out: &Out) -> usize {
    bytes(out) + 28 * out.len()
}

#[test]
fn who_has_not_shown_its_address_gets_no_more_than_it_sent() {
    let mut host = host();
    let mut forged: Vec<_> = Kind::ALL
        .iter()
        .flat_map(|kind| [0, 64, FULL_BYTES].map(|size| packed(*kind, 0, SESSION, &[0; 64], size)))
        .collect();
    for rest in [10, 1000] {
        forged.push([&b"weft\x07"[..], &vec![0; rest]].concat());
    }
    forged.push(packed(Kind::Hello, 0, SESSION, &[], 0));
    for data in forged {
        assert!(bytes(&host.receive(0, 0, &data, here())) <= data.len());
    }
    assert!(host.due(SECOND_NS).is_empty());
    // A cookie of another address is none.
    let cookie = hello(&mut host, 0, SESSION, elsewhere());
    let start = packed(Kind::Start, 0, SESSION, &PLAN.pack(&cookie), 0);
    assert!(host.receive(0, 0, &start, here()).is_empty());
    // Nor does a recording that goes on answer somebody else.
    greeted(&mut host, PLAN, 0, SESSION);
    assert!(host.receive(0, 0, &packed(Kind::Ask, 0, SESSION, &[0; 5], 0), elsewhere()).is_empty());
    let due = host.due(SECOND_NS);
    assert!(!due.is_empty() && due.iter().all(|(_, address)| *address == here()));
}

#[test]
fn two_ends_of_different_versions_do_not_answer_each_other_for_ever() {
    let mut host = host();
    let mut theirs = packed(Kind::Hello, 0, SESSION, &[], HELLO_BYTES);
    theirs[4] = 9;
    let answers = host.receive(0, 0, &theirs, here());
    let mut answer = answers[0].0.clone();
    assert_eq!((answers.len(), kind(&answer), unpacked(&answer).unwrap().session), (1, Kind::OtherVersion, SESSION));
    answer[4] = 9;
    assert!(host.receive(0, 0, &answer, here()).is_empty());
}

#[test]
fn what_is_asked_for_beyond_the_limits_is_refused() {
    let mut host = host();
    let said = |answer: &[u8]| String::from_utf8(unpacked(answer).unwrap().body.to_vec()).unwrap();
    let refused = greeted(&mut host, plan(1, 10, true, 2_000_000), 0, SESSION);
    assert!(said(&refused).contains("1.0 MB a path and direction, and 2.0 MB are asked for"));
    for (plan, path) in [
        (plan(1, 10, true, 1_000_001), 0),
        (plan(1, 3601, false, 1000), 0),
        (plan(17, 10, false, 1000), 0),
        (plan(1, 10, false, 1000), 1),
    ] {
        assert_eq!(kind(&greeted(&mut host, plan, path, SESSION)), Kind::Refused);
    }
    assert_eq!(kind(&greeted(&mut host, PLAN, 0, SESSION)), Kind::Ready);
    assert!(said(&greeted(&mut host, PLAN, 0, *b"another!")).contains("busy"));
}

#[test]
fn no_more_is_sent_than_the_cap_allows_however_much_is_asked_for() {
    let mut host = host();
    greeted(&mut host, plan(1, 10, true, 100_000), 0, SESSION);
    let mut sent = 0;
    for at in (0..15_000u32).step_by(10) {
        let (now, count) = (Ns::from(at) * MS, at * 10);
        let told = Feedback { now_ns: now + 1, count, expected: count, sent_ns: now, ..Feedback::none(0) };
        sent += whole(&host.receive(now, now, &packed(Kind::Feedback, 0, SESSION, &told.pack(), 0), here()));
        sent += whole(&host.due(now));
    }
    assert!((90_001..=100_000).contains(&sent), "{sent}");
}

/// Load comes for a minute: its feedback would take 230 kB, in a megabyte that this end's own load uses up.
#[test]
fn feedback_is_within_the_cap_and_leaves_room_for_answers() {
    let mut host = host();
    greeted(&mut host, plan(1, 60, true, 1_000_000), 0, SESSION);
    let (mut sent, mut now) = (0, 0);
    for number in 0..3000 {
        now = Ns::from(number) * 20 * MS;
        host.receive(now, now, &packed(Kind::Load, 0, SESSION, &load(number, now), FULL_BYTES), here());
        sent += whole(&host.due(now));
    }
    let answers = host.receive(now, now, &packed(Kind::Ask, 0, SESSION, &ask(0, 0), 0), here());
    assert_eq!((answers.len(), kind(&answers[0].0)), (1, Kind::Records));
    let all = sent + whole(&answers);
    assert!((980_001..=1_000_000).contains(&all), "{all}");
}

/// 16 probes a second can come of 10 s, and of a minute besides; those of other numbers, or twice, are not kept.
#[test]
fn what_is_kept_of_a_peer_is_bounded() {
    let mut host = host();
    greeted(&mut host, PLAN, 0, SESSION);
    for number in (0..2000).chain(0..2000).chain([u32::MAX - 2]) {
        let probe = Probe { number, sent_ns: 0, echo: 1, echo_arrived_ns: 0 };
        host.receive(0, 0, &packed(Kind::Probe, 0, SESSION, &probe.pack(), 0), here());
    }
    let channel = &host.session.as_ref().unwrap().peers[&0].channel;
    assert_eq!((channel.arrivals.records.len(), channel.trains.len()), (16 * 70, 8 * 70));
    assert_eq!((host.is_peer(here()), host.is_peer(elsewhere())), (true, false));
}

#[test]
fn a_recording_ends_by_itself_when_nothing_is_heard() {
    let mut host = host();
    greeted(&mut host, plan(1, 3600, false, 1_000_000), 0, SESSION);
    host.due(29_000 * MS);
    assert!(host.session.is_some());
    host.due(31_000 * MS);
    assert!(host.session.is_none());
}
