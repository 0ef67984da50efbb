//! The resolver with servers on this machine and a time of the tests' own: nothing happens because it is late.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};

use super::*;
use name_server::{NameServer, Say};

#[path = "../../tests/sockets/name_server.rs"]
mod name_server;

/// The longest time that anything may take, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);

const CLIENT: ClientId = ClientId(1);
const OTHER: ClientId = ClientId(2);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn resolver(config: NameConfig, most: usize) -> Resolver<u32> {
    Resolver::new(NameSource::Fixed(config), most).unwrap()
}

/// Waits until a server has answered.
fn await_server(resolver: &Resolver<u32>) {
    let mut poll = Poll::new().unwrap();
    let fd = resolver.fd().as_raw_fd();
    poll.registry().register(&mut SourceFd(&fd), Token(0), Interest::READABLE).unwrap();
    let mut events = Events::with_capacity(1);
    poll.poll(&mut events, Some(LONG)).unwrap();
    assert!(!events.is_empty(), "waited for an answer");
}

/// The next answer; the time stands still.
fn await_answer(resolver: &mut Resolver<u32>, now: Instant) -> (u32, Found) {
    loop {
        resolver.turn(now);
        if let Some(answer) = resolver.next_answer() {
            return (answer.tag, answer.found);
        }
        await_server(resolver);
    }
}

fn addresses(texts: &[&str], more: bool) -> Found {
    Found::Addresses { addresses: texts.iter().map(|text| text.parse().unwrap()).collect(), more }
}

/// Answers of a server: none for names that begin with `silent`, an address for others.
fn some(name: &str, _: bool) -> Say {
    if name.starts_with("silent") { Say::Nothing } else { Say::Addresses(&["192.0.2.1"]) }
}

#[test]
fn names_are_found_while_a_hundred_of_any_client_are_not_answered() {
    let server = NameServer::new(some);
    let mut resolver = resolver(NameConfig::of_servers([server.address]), 1024);
    for number in 0..100 {
        assert!(resolver.ask(at(0), CLIENT, &number, &format!("silent{number}.example")));
    }
    // The time stands still: none of them has been given up.
    for (tag, client) in [(200, OTHER), (201, CLIENT)] {
        assert!(resolver.ask(at(0), client, &tag, &format!("good{tag}.example")));
        assert_eq!(await_answer(&mut resolver, at(0)), (tag, addresses(&["192.0.2.1"], false)));
    }
    assert_eq!((resolver.running(), resolver.next_event()), (100, at(1000)));
    // It asks again after one second and after two, and gives up after three.
    for ms in [1000, 2000, 2999] {
        resolver.turn(at(ms));
        assert!(resolver.next_answer().is_none());
    }
    resolver.turn(at(3000));
    let silent: Vec<_> = std::iter::from_fn(|| resolver.next_answer()).collect();
    assert!(silent.len() == 100 && silent.iter().all(|answer| answer.found == Found::Silence));
    assert!(resolver.next_event().is_never());
}

#[test]
fn a_client_has_a_quarter_and_what_is_silent_makes_room() {
    let server = NameServer::new(|_, _| Say::Nothing);
    let mut resolver = resolver(NameConfig::of_servers([server.address]), 8);
    let mut ask = |ms, client, tag: u32| {
        let asked = resolver.ask(at(ms), ClientId(client), &tag, &format!("silent{tag}.example"));
        (asked, resolver.next_answer().map(|answer| (answer.tag, answer.found)))
    };
    assert_eq!([ask(0, 1, 10), ask(1, 1, 11), ask(2, 1, 12)], [(true, None), (true, None), (false, None)]);
    // After a second its oldest goes.
    assert_eq!(ask(1000, 1, 12), (true, Some((10, Found::Silence))));
    for client in 2..5 {
        for tag in [10 * client as u32, 10 * client as u32 + 1] {
            assert_eq!(ask(1000, client, tag), (true, None));
        }
    }
    // All are taken: another client takes from one of those that have most, without waiting.
    assert_eq!(ask(1000, 9, 90), (true, Some((40, Found::Silence))));
    // Where none has more than it has, it waits.
    assert_eq!(ask(1000, 9, 91), (true, Some((30, Found::Silence))));
    assert_eq!(ask(1000, 9, 92), (false, None));
}

#[test]
fn what_is_known_is_not_asked_for_again_until_it_is_too_old() {
    let server = NameServer::new(some);
    let mut resolver = resolver(NameConfig::of_servers([server.address]), 8);
    for (ms, asked) in [(0, 1), (59_999, 1), (60_000, 2)] {
        assert!(resolver.ask(at(ms), CLIENT, &0, "Some.Example"));
        assert_eq!(await_answer(&mut resolver, at(ms)).1, addresses(&["192.0.2.1"], false));
        assert_eq!(server.asked("some.example"), asked);
    }
    // A name that is looked up already is not asked for once more.
    for tag in 0..3 {
        assert!(resolver.ask(at(60_000), ClientId(tag.into()), &tag, "silent.example"));
    }
    assert_eq!(resolver.running(), 1);
}

#[test]
fn hosts_localhost_and_what_is_no_name_need_no_server() {
    let mut config = NameConfig::of_servers(["127.0.0.1:1".parse().unwrap()]);
    config.hosts.insert("mine".to_owned(), vec!["192.0.2.9".parse().unwrap()]);
    let mut resolver = resolver(config, 1);
    for (name, found) in [
        ("Mine", addresses(&["192.0.2.9"], false)),
        ("mine.", addresses(&["192.0.2.9"], false)),
        ("localhost", addresses(&["::1", "127.0.0.1"], false)),
        ("a.localhost", addresses(&["::1", "127.0.0.1"], false)),
        ("a.invalid", Found::Nothing),
    ] {
        assert!(resolver.ask(at(0), CLIENT, &0, name));
        assert_eq!(resolver.next_answer().map(|answer| answer.found), Some(found), "{name}");
    }
}

#[test]
fn addresses_of_ipv6_come_at_once_and_those_of_ipv4_alone_after_the_delay() {
    let server = NameServer::new(|name, is_v4| match (name, is_v4) {
        ("six.example", false) => Say::Addresses(&["2001:db8::1"]),
        ("four.example", true) => Say::Addresses(&["192.0.2.1"]),
        _ => Say::Nothing,
    });
    let mut resolver = resolver(NameConfig::of_servers([server.address]), 8);
    assert!(resolver.ask(at(0), CLIENT, &6, "six.example"));
    assert_eq!(await_answer(&mut resolver, at(0)), (6, addresses(&["2001:db8::1"], true)));
    // The rest comes with the last answer.
    server.release(&["192.0.2.2"]);
    assert_eq!(await_answer(&mut resolver, at(10)), (6, addresses(&["2001:db8::1", "192.0.2.2"], false)));
    assert!(resolver.ask(at(100), CLIENT, &4, "four.example"));
    while resolver.next_event() != at(150) {
        resolver.turn(at(100));
    }
    assert!(resolver.next_answer().is_none());
    assert_eq!(await_answer(&mut resolver, at(150)), (4, addresses(&["192.0.2.1"], true)));
    // Those of IPv6 never come.
    resolver.turn(at(3100));
    assert_eq!(await_answer(&mut resolver, at(3100)), (4, addresses(&["192.0.2.1"], false)));
}

#[test]
fn a_server_that_cannot_tell_is_followed_by_the_next_and_one_that_is_silent_after_a_second() {
    let closed = "127.0.0.1:1".parse().unwrap();
    let (fails, tells) = (NameServer::new(|_, _| Say::Failure), NameServer::new(some));
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Nobody listens at the first, the second fails: the third is asked without waiting.
    let mut one = resolver(NameConfig::of_servers([closed, fails.address, tells.address]), 8);
    assert!(one.ask(at(0), CLIENT, &0, "some.example"));
    assert_eq!(await_answer(&mut one, at(0)).1, addresses(&["192.0.2.1"], false));
    let mut two = resolver(NameConfig::of_servers([fails.address]), 8);
    assert!(two.ask(at(0), CLIENT, &0, "some.example"));
    assert_eq!(await_answer(&mut two, at(0)).1, Found::Nothing);
    let mut three = resolver(NameConfig::of_servers([silent.local_addr().unwrap(), tells.address]), 8);
    assert!(three.ask(at(0), CLIENT, &0, "some.example"));
    assert_eq!(tells.asked("some.example"), 1, "by the first resolver");
    assert_eq!(await_answer(&mut three, at(1000)).1, addresses(&["192.0.2.1"], false));
    // As long as it answers nobody, the next one is asked beside it.
    assert!(three.ask(at(1000), CLIENT, &0, "other.example"));
    assert_eq!(await_answer(&mut three, at(1000)).1, addresses(&["192.0.2.1"], false));
}

#[test]
fn an_answer_that_is_cut_short_comes_by_tcp() {
    let server = NameServer::new(|_, _| Say::TooLong(&["192.0.2.1", "192.0.2.2"]));
    let mut resolver = resolver(NameConfig::of_servers([server.address]), 8);
    assert!(resolver.ask(at(0), CLIENT, &0, "long.example"));
    assert_eq!(await_answer(&mut resolver, at(0)).1, addresses(&["192.0.2.1", "192.0.2.2"], false));
}

#[test]
fn search_domains_are_tried_as_the_number_of_dots_says() {
    let server = NameServer::new(|name, _| match name {
        "a.two.example" | "a.b" => Say::Addresses(&["192.0.2.1"]),
        _ => Say::NoName,
    });
    let search = vec!["one.example".to_owned(), "two.example".to_owned()];
    let mut resolver = resolver(NameConfig { search, ..NameConfig::of_servers([server.address]) }, 8);
    let mut ask = |name| {
        assert!(resolver.ask(at(0), CLIENT, &0, name));
        await_answer(&mut resolver, at(0)).1
    };
    assert_eq!(ask("a"), addresses(&["192.0.2.1"], false));
    assert_eq!([server.asked("a"), server.asked("a.one.example"), server.asked("a.two.example")], [0, 1, 1]);
    assert_eq!(ask("a.b"), addresses(&["192.0.2.1"], false));
    assert_eq!(server.asked("a.b.one.example"), 0);
    assert_eq!((ask("a."), server.asked("a")), (Found::Nothing, 1));
    assert_eq!((ask("c.d"), server.asked("c.d.two.example")), (Found::Nothing, 1));
}

#[test]
fn a_search_domain_whose_servers_cannot_tell_is_followed_by_the_next_name() {
    let server = NameServer::new(|name, _| if name == "a.b" { Say::Addresses(&["192.0.2.1"]) } else { Say::Failure });
    let search = vec!["fails.example".to_owned()];
    let mut resolver = resolver(NameConfig { search, dots: 5, ..NameConfig::of_servers([server.address]) }, 8);
    assert!(resolver.ask(at(0), CLIENT, &0, "a.b"));
    assert_eq!(await_answer(&mut resolver, at(0)).1, addresses(&["192.0.2.1"], false));
    assert_eq!(server.asked("a.b.fails.example"), 1);
}

#[test]
fn a_server_that_knows_no_addresses_of_ipv6_does_not_hide_those_of_ipv4() {
    // It says that there is no such name, and only then what the addresses of IPv4 are.
    let server = NameServer::new(|_, is_v4| if is_v4 { Say::Nothing } else { Say::NoName });
    let mut resolver = resolver(NameConfig::of_servers([server.address]), 8);
    assert!(resolver.ask(at(0), CLIENT, &0, "some.example"));
    await_server(&resolver);
    resolver.turn(at(0));
    server.release(&["192.0.2.1"]);
    assert_eq!(await_answer(&mut resolver, at(0)).1, addresses(&["192.0.2.1"], false));
}

#[test]
fn a_name_that_makes_room_has_the_addresses_that_are_known() {
    let server = NameServer::new(|_, is_v4| if is_v4 { Say::Nothing } else { Say::Addresses(&["2001:db8::1"]) });
    let mut resolver = resolver(NameConfig::of_servers([server.address]), 1);
    assert!(resolver.ask(at(0), CLIENT, &0, "half.example"));
    assert_eq!(await_answer(&mut resolver, at(0)), (0, addresses(&["2001:db8::1"], true)));
    assert!(resolver.ask(at(1000), CLIENT, &1, "other.example"));
    let answer = resolver.next_answer().map(|answer| (answer.tag, answer.found));
    assert_eq!(answer, Some((0, addresses(&["2001:db8::1"], false))));
}
