//! Programs, a proxy, a relay and a server on this machine: 127.0.0.1 and 127.0.0.2 are two paths.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use weftway_path::Span;
use weftway_relay::{Accounts, Classes, PortAddress};
use weftway_transfer::{ClientRules, Connect, Failure, ProxyOptions, State, proxy};
use weftway_udp::tls::Identity;

use crate::ends::ports;
use crate::ends::programs::{
    bytes, connect, echo, local, start_proxy, start_proxy_as, start_proxy_with, start_relay, start_relay_again,
    start_relay_for, start_relay_with, there_and_back,
};
use crate::ends::running::PATIENCE;

#[test]
fn programs_are_carried_over_two_paths_and_back() {
    let identity = Identity::generate().unwrap();
    let again = Identity::load(&identity.store()).unwrap();
    let (mut relay, address) = start_relay(again);
    // In turn over both paths, once both are there: otherwise it depends on the machine how much the second one
    // carries.
    let (mut proxy, port) = start_proxy_with(identity.pairing(), address, |options| {
        options.scheduling.scheduler = "round-robin".to_owned();
    });
    proxy.until("both paths", |progress| progress.paths.iter().filter(|path| path.up).count() == 2);
    let server = echo();
    there_and_back(port, server, 20_000_000, 1);
    let carried = proxy.until("both paths to carry", |progress| {
        progress.paths.len() == 2 && progress.paths.iter().all(|path| path.bytes > 1_000_000)
    });
    assert!(carried.paths.iter().all(|path| path.up), "{:?}", carried.paths);
    thread::scope(|scope| {
        for seed in 0..40 {
            scope.spawn(move || there_and_back(port, server, 1000 * seed, seed));
        }
    });
    // A port at which nobody listens, and an address that nobody may reach through a relay.
    let nobody = SocketAddr::new(local(1), ports::free());
    assert_eq!(connect(port, nobody).err(), Some(5));
    assert_eq!(connect(port, "10.1.2.3:80".parse().unwrap()).err(), Some(2));
    assert!(matches!(proxy.end(), Err(Failure::Interrupted)));
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
}

#[test]
fn a_relay_that_comes_back_is_found_again() {
    let identity = Identity::generate().unwrap();
    let again = || Identity::load(&identity.store()).unwrap();
    let (mut relay, address) = start_relay(again());
    let (mut proxy, port) = start_proxy(&identity, address);
    let server = echo();
    there_and_back(port, server, 100_000, 1);
    // One that is open when the relay goes ends at once.
    let mut open = connect(port, server).unwrap();
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
    let mut rest = Vec::new();
    assert!(open.read_to_end(&mut rest).is_err() || rest.is_empty());
    let mut relay = start_relay_again(again(), address.port());
    there_and_back(port, server, 100_000, 2);
    assert!(matches!(proxy.end(), Err(Failure::Interrupted)));
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
}

#[test]
fn a_relay_that_has_moved_is_found_where_its_name_leads() {
    let identity = Identity::generate().unwrap();
    let again = || Identity::load(&identity.store()).unwrap();
    let (mut relay, before) = start_relay(again());
    let place = Arc::new(Mutex::new(before));
    let known = place.clone();
    let (mut proxy, port) = start_proxy_with(identity.pairing(), before, move |options| {
        options.relay.lookup = Some(Arc::new(move || Ok(vec![*known.lock().unwrap()])));
    });
    let server = echo();
    there_and_back(port, server, 100_000, 1);
    // Another one takes its place, elsewhere.
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
    let (mut relay, now) = start_relay(again());
    assert_ne!(now, before);
    *place.lock().unwrap() = now;
    proxy.until_told(&format!("connected to the relay at {now}"));
    there_and_back(port, server, 100_000, 2);
    for running in [&mut proxy, &mut relay] {
        assert!(matches!(running.end(), Err(Failure::Interrupted)));
    }
}

/// The relay is away for longer than the test takes, and one attempt to reach it as well.
#[test]
fn programs_are_served_while_the_relay_is_looked_for() {
    let identity = Identity::generate().unwrap();
    let (mut relay, address) = start_relay(Identity::load(&identity.store()).unwrap());
    let (mut proxy, port) = start_proxy_with(identity.pairing(), address, |options| {
        options.times.give_up_after = Span::from_secs(3600);
    });
    there_and_back(port, echo(), 1000, 1);
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
    proxy.until("an attempt to connect", |progress| progress.state == State::Connecting);
    // It waits for a connection to the relay, as long as it may, and is told that there is none.
    assert_eq!(connect(port, SocketAddr::new(local(1), 80)).err(), Some(1));
    assert!(matches!(proxy.end(), Err(Failure::Interrupted)));
}

#[test]
fn a_client_has_its_name_until_it_is_revoked() {
    let mut identity = Identity::generate().unwrap();
    let again = |identity: &Identity| Identity::load(&identity.store()).unwrap();
    identity.add("laptop").unwrap();
    let (tell, identities) = channel();
    let (mut relay, address) = start_relay_with(again(&identity), Some(identities));
    let (mut laptop, laptop_port) = start_proxy_as(identity.pairing_of("laptop").unwrap(), address);
    let told = relay.until_told("is here");
    assert!(told.starts_with("laptop is here (127.0.0."), "{told}");
    let (mut plain, port) = start_proxy(&identity, address);
    let told = relay.until_told("is here");
    assert!(told.starts_with("127.0.0."), "{told}");
    let server = echo();
    there_and_back(laptop_port, server, 100_000, 1);

    // A new name is taken while the relay runs.
    identity.add("phone").unwrap();
    tell.send(again(&identity)).unwrap();
    relay.until_told("the pairing lines have changed");
    let (mut phone, _) = start_proxy_as(identity.pairing_of("phone").unwrap(), address);
    relay.until_told("phone is here");

    // So is a revocation: the client's connections end, and it is told why. It does not come again.
    let mut open = connect(laptop_port, server).unwrap();
    identity.revoke("laptop").unwrap();
    identity.add("laptop").unwrap();
    tell.send(again(&identity)).unwrap();
    relay.until_told("laptop has no valid token any more (127.0.0.");
    let mut rest = Vec::new();
    assert!(open.read_to_end(&mut rest).is_err() || rest.is_empty());
    let failure = laptop.ended().unwrap_err();
    assert!(matches!(&failure, Failure::Refused(why) if why.contains("wrong token")), "{failure}");
    // The others stay.
    there_and_back(port, server, 100_000, 2);
    for running in [&mut plain, &mut phone, &mut relay] {
        assert!(matches!(running.end(), Err(Failure::Interrupted)));
    }
}

#[test]
fn what_a_client_may_have_goes_by_its_name_and_a_refusal_is_told_once() {
    let mut identity = Identity::generate().unwrap();
    identity.add("laptop").unwrap();
    let rules = ClientRules::parse(&["connections=100", "laptop,connections=1,memory=64MB"]).unwrap();
    let again = Identity::load(&identity.store()).unwrap();
    let (mut relay, address) = start_relay_for(again, None, rules);
    let (mut laptop, laptop_port) = start_proxy_as(identity.pairing_of("laptop").unwrap(), address);
    let (mut plain, port) = start_proxy(&identity, address);
    let server = echo();
    let _open = [connect(laptop_port, server).unwrap(), connect(port, server).unwrap()];
    for _ in 0..3 {
        assert_eq!(connect(laptop_port, server).err(), Some(1));
    }
    there_and_back(port, server, 100_000, 1);
    relay.until_told("laptop has as many connections as it may");
    assert_eq!(connect(laptop_port, server).err(), Some(1));
    for running in [&mut laptop, &mut plain, &mut relay] {
        assert!(matches!(running.end(), Err(Failure::Interrupted)));
    }
    let again = relay.told.try_iter().filter_map(|progress| progress.note).any(|note| note.contains("as it may"));
    assert!(!again, "it is told once");
}

#[test]
fn a_name_has_its_places_and_what_it_may_have_once_however_many_connections_it_makes() {
    let mut identity = Identity::generate().unwrap();
    identity.add("phone").unwrap();
    let pairing = identity.pairing_of("phone").unwrap();
    let rules = ClientRules::parse(&["phone,places=2,connections=3"]).unwrap();
    let (relay, address) = start_relay_for(Identity::load(&identity.store()).unwrap(), None, rules);
    let (one, one_port) = start_proxy_as(pairing.clone(), address);
    let (mut other, other_port) = start_proxy_as(pairing.clone(), address);
    for proxy in [&one, &other] {
        proxy.until_told("connected to the relay");
    }
    let server = echo();
    let _open = [one_port, one_port, other_port].map(|port| connect(port, server).unwrap());
    for port in [one_port, other_port] {
        assert_eq!(connect(port, server).err(), Some(1), "three in all");
    }

    // The newest is asked to come again, and those that are here stay. Another name has a place.
    let hurried = |options: &mut ProxyOptions| options.times.give_up_after = Span::from_millis(1500);
    let (mut third, _) = start_proxy_with(pairing.clone(), address, hurried);
    relay.until_told("phone has no place: its pairing line has the 2 that it may have");
    assert!(matches!(third.ended(), Err(Failure::Full)));
    let (_plain, port) = start_proxy(&identity, address);
    there_and_back(port, server, 1000, 1);

    // A place that is given up is there for the next one.
    assert!(matches!(other.end(), Err(Failure::Interrupted)));
    let (again, _) = start_proxy_as(pairing, address);
    again.until_told("connected to the relay");
}

#[test]
fn an_identity_that_is_made_anew_ends_all_lines() {
    let (old, new) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (tell, identities) = channel();
    let (mut relay, address) = start_relay_with(Identity::load(&old.store()).unwrap(), Some(identities));
    let (mut before, _) = start_proxy(&old, address);
    relay.until_told("is here");
    tell.send(Identity::load(&new.store()).unwrap()).unwrap();
    let failure = before.ended().unwrap_err();
    assert!(matches!(failure, Failure::Refused(_)), "{failure}");
    let (mut after, port) = start_proxy(&new, address);
    there_and_back(port, echo(), 100_000, 1);
    for running in [&mut after, &mut relay] {
        assert!(matches!(running.end(), Err(Failure::Interrupted)));
    }
}

#[test]
fn who_has_another_pairing_line_gets_no_relay() {
    let (_relay, address) = start_relay(Identity::generate().unwrap());
    let other = Identity::generate().unwrap();
    let end = Connect::to(vec![address], other.pairing());
    let (port, open) = (PortAddress::Tcp(SocketAddr::new(local(1), 0)), Accounts::default());
    let failure = proxy(&[port], Classes::default(), open, ProxyOptions::new(end), &mut |_| true).unwrap_err();
    assert!(matches!(failure, Failure::OtherIdentity(_)), "{failure}");
}

#[test]
fn the_longest_datagram_that_fits_goes_there_and_back() {
    let identity = Identity::generate().unwrap();
    let again = Identity::load(&identity.store()).unwrap();
    let (mut relay, address) = start_relay(again);
    let (mut proxy, port) = start_proxy(&identity, address);
    let server = UdpSocket::bind((local(1), 0)).unwrap();
    let at = server.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((count, source)) = server.recv_from(&mut buffer) {
            let _ = server.send_to(&buffer[..count], source);
        }
    });
    // A request for a way for datagrams: where they are to be sent to.
    let mut stream = TcpStream::connect(port).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..6], [5, 0, 5, 0, 0, 1]);
    let way = SocketAddr::new(local(1), u16::from_be_bytes([reply[10], reply[11]]));

    let program = UdpSocket::bind((local(1), 0)).unwrap();
    program.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let [high, low] = at.port().to_be_bytes();
    // The longest on any stream, as the documentation says.
    let sent = [&[0, 0, 0, 1, 127, 0, 0, 1, high, low][..], &bytes(1140, 1)].concat();
    let mut buffer = [0; 2000];
    let came = (0..20).find_map(|_| {
        program.send_to(&sent, way).unwrap();
        program.recv_from(&mut buffer).ok()
    });
    let (count, source) = came.expect("an echo");
    assert_eq!((&buffer[..count], source), (&sent[..], way));
    assert!(matches!(proxy.end(), Err(Failure::Interrupted)));
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
}
