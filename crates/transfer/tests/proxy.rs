//! Programs, a proxy, a relay and a server on this machine: 127.0.0.1 and 127.0.0.2 are two paths.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weftway_path::Span;
use weftway_quic::udp::Local;
use weftway_quic::udp::tls::{Identity, Pairing};
use weftway_relay::{Classes, Policy};
use weftway_transfer::{ClientRules, Failure, Options, OtherEnd, Progress, proxy, relay};

/// Nothing here takes as long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A proxy or a relay on a thread, until it is stopped.
struct Running {
    stop: Arc<AtomicBool>,
    told: Receiver<Progress>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Running {
    fn start(run: impl FnOnce(&mut dyn FnMut(&Progress) -> bool) -> Result<(), Failure> + Send + 'static) -> Self {
        let (stop, (tell, told)) = (Arc::new(AtomicBool::new(false)), channel());
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            run(&mut |progress: &Progress| {
                let _ = tell.send(progress.clone());
                !stopped.load(Ordering::Relaxed)
            })
        });
        Self { stop, told, thread: Some(thread) }
    }

    /// The first state of which `is` is true.
    fn until(&self, what: &str, is: impl Fn(&Progress) -> bool) -> Progress {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let progress = self.told.recv_timeout(left).unwrap_or_else(|_| panic!("waited for {what}"));
            if is(&progress) {
                return progress;
            }
        }
    }

    /// What came of it, once it has ended by itself.
    fn ended(&mut self) -> Result<(), Failure> {
        let (thread, deadline) = (self.thread.take().unwrap(), Instant::now() + PATIENCE);
        while !thread.is_finished() {
            assert!(Instant::now() < deadline, "it goes on");
            thread::sleep(Duration::from_millis(5));
        }
        thread.join().unwrap()
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn local(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// A relay that may connect to this machine, and where it listens.
fn start_relay(identity: Identity, port: u16) -> (Running, SocketAddr) {
    start_relay_with(identity, port, None)
}

/// One that is told what becomes of its identity.
fn start_relay_with(identity: Identity, port: u16, identities: Option<Receiver<Identity>>) -> (Running, SocketAddr) {
    start_relay_for(identity, port, identities, ClientRules::default())
}

/// One that says how much each client may have.
fn start_relay_for(
    identity: Identity,
    port: u16,
    identities: Option<Receiver<Identity>>,
    rules: ClientRules,
) -> (Running, SocketAddr) {
    let policy = Policy::parse(&["127.0.0.0/8"]).unwrap();
    let other = OtherEnd::Listen { address: SocketAddr::new(local(1), port), identity };
    let options = Options { tell_every: Span::from_millis(20), identities, ..Options::new(other) };
    let running = Running::start(move |watch| relay(policy, rules, options, watch));
    let address = running.until("the relay to listen", |progress| progress.listening.is_some()).listening.unwrap();
    (running, address)
}

/// A proxy over two paths, and where programs connect to it.
fn start_proxy(identity: &Identity, address: SocketAddr) -> (Running, SocketAddr) {
    start_proxy_as(identity.pairing(), address)
}

fn start_proxy_as(pairing: Pairing, address: SocketAddr) -> (Running, SocketAddr) {
    let other = OtherEnd::Connect { addresses: vec![address], pairing };
    let paths = vec![Local::Address(local(1)), Local::Address(local(2))];
    let options = Options { paths, tell_every: Span::from_millis(20), ..Options::new(other) };
    let port = SocketAddr::new(local(1), 0);
    let running = Running::start(move |watch| proxy(&[port], Classes::default(), options, watch));
    let progress = running.until("the proxy to listen", |progress| !progress.ports.is_empty());
    (running, progress.ports[0])
}

/// A server that sends back what it gets, until the other end has ended its half.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind((local(1), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let (mut from, mut to) = (&stream, &stream);
                let _ = std::io::copy(&mut from, &mut to);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

/// A connection to `target` through the proxy, by SOCKS5: or the code of the refusal.
fn connect(port: SocketAddr, target: SocketAddr) -> Result<TcpStream, u8> {
    let mut stream = TcpStream::connect(port).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut method = [0; 2];
    stream.read_exact(&mut method).unwrap();
    assert_eq!(method, [5, 0]);
    let SocketAddr::V4(target) = target else { panic!("an IPv4 address") };
    let mut request = vec![5, 1, 0, 1];
    request.extend(target.ip().octets());
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request).unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    if reply[1] == 0 { Ok(stream) } else { Err(reply[1]) }
}

fn bytes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|at| (at ^ (at >> 8) ^ (at >> 16) ^ (seed * 37)) as u8).collect()
}

/// Sends `count` bytes through, and gets all of them back.
fn there_and_back(port: SocketAddr, target: SocketAddr, count: usize, seed: usize) {
    let stream = connect(port, target).unwrap();
    let sent = bytes(count, seed);
    let mut got = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        (&stream).read_to_end(&mut got).unwrap();
    });
    assert!(got == sent, "{} of {count} bytes", got.len());
}

#[test]
fn programs_are_carried_over_two_paths_and_back() {
    let identity = Identity::generate().unwrap();
    let again = Identity::load(&identity.store()).unwrap();
    let (mut relay, address) = start_relay(again, 0);
    let (mut proxy, port) = start_proxy(&identity, address);
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
    let nobody = TcpListener::bind((local(1), 0)).unwrap().local_addr().unwrap();
    assert_eq!(connect(port, nobody).err(), Some(5));
    assert_eq!(connect(port, "10.1.2.3:80".parse().unwrap()).err(), Some(2));
    assert!(matches!(proxy.end(), Err(Failure::Interrupted)));
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
}

#[test]
fn a_relay_that_comes_back_is_found_again() {
    let identity = Identity::generate().unwrap();
    let again = || Identity::load(&identity.store()).unwrap();
    let (mut relay, address) = start_relay(again(), 0);
    let (mut proxy, port) = start_proxy(&identity, address);
    let server = echo();
    there_and_back(port, server, 100_000, 1);
    // One that is open when the relay goes ends at once.
    let mut open = connect(port, server).unwrap();
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
    let mut rest = Vec::new();
    assert!(open.read_to_end(&mut rest).is_err() || rest.is_empty());
    let (mut relay, _) = start_relay(again(), address.port());
    there_and_back(port, server, 100_000, 2);
    assert!(matches!(proxy.end(), Err(Failure::Interrupted)));
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
}

/// Waits until one of the notes says `words`.
fn until_told(running: &Running, words: &str) -> String {
    let told = |progress: &Progress| progress.note.clone().filter(|note| note.contains(words));
    told(&running.until(words, |progress| told(progress).is_some())).unwrap()
}

#[test]
fn a_client_has_its_name_until_it_is_revoked() {
    let mut identity = Identity::generate().unwrap();
    let again = |identity: &Identity| Identity::load(&identity.store()).unwrap();
    identity.add("laptop").unwrap();
    let (tell, identities) = channel();
    let (mut relay, address) = start_relay_with(again(&identity), 0, Some(identities));
    let (mut laptop, laptop_port) = start_proxy_as(identity.pairing_of("laptop").unwrap(), address);
    let told = until_told(&relay, "is here");
    assert!(told.starts_with("laptop is here (127.0.0."), "{told}");
    let (mut plain, port) = start_proxy(&identity, address);
    let told = until_told(&relay, "is here");
    assert!(told.starts_with("127.0.0."), "{told}");
    let server = echo();
    there_and_back(laptop_port, server, 100_000, 1);

    // A new name is taken while the relay runs.
    identity.add("phone").unwrap();
    tell.send(again(&identity)).unwrap();
    until_told(&relay, "the pairing lines have changed");
    let (mut phone, _) = start_proxy_as(identity.pairing_of("phone").unwrap(), address);
    until_told(&relay, "phone is here");

    // So is a revocation: the client's connections end, and it is told why. It does not come again.
    let mut open = connect(laptop_port, server).unwrap();
    identity.revoke("laptop").unwrap();
    identity.add("laptop").unwrap();
    tell.send(again(&identity)).unwrap();
    until_told(&relay, "laptop has no valid token any more (127.0.0.");
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
    let rules = ClientRules::parse(&["connections=100", "laptop,connections=1,memory=24MB"]).unwrap();
    let again = Identity::load(&identity.store()).unwrap();
    let (mut relay, address) = start_relay_for(again, 0, None, rules);
    let (mut laptop, laptop_port) = start_proxy_as(identity.pairing_of("laptop").unwrap(), address);
    let (mut plain, port) = start_proxy(&identity, address);
    let server = echo();
    let _open = [connect(laptop_port, server).unwrap(), connect(port, server).unwrap()];
    for _ in 0..3 {
        assert_eq!(connect(laptop_port, server).err(), Some(1));
    }
    there_and_back(port, server, 100_000, 1);
    until_told(&relay, "laptop has as many connections as it may");
    assert_eq!(connect(laptop_port, server).err(), Some(1));
    for running in [&mut laptop, &mut plain, &mut relay] {
        assert!(matches!(running.end(), Err(Failure::Interrupted)));
    }
    let again = relay.told.try_iter().filter_map(|progress| progress.note).any(|note| note.contains("as it may"));
    assert!(!again, "it is told once");
}

#[test]
fn an_identity_that_is_made_anew_ends_all_lines() {
    let (old, new) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (tell, identities) = channel();
    let (mut relay, address) = start_relay_with(Identity::load(&old.store()).unwrap(), 0, Some(identities));
    let (mut before, _) = start_proxy(&old, address);
    until_told(&relay, "is here");
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
    let (_relay, address) = start_relay(Identity::generate().unwrap(), 0);
    let other = Identity::generate().unwrap();
    let end = OtherEnd::Connect { addresses: vec![address], pairing: other.pairing() };
    let failure =
        proxy(&[SocketAddr::new(local(1), 0)], Classes::default(), Options::new(end), &mut |_| true).unwrap_err();
    assert!(matches!(failure, Failure::OtherIdentity(_)), "{failure}");
}

#[test]
fn the_longest_datagram_that_fits_goes_there_and_back() {
    let identity = Identity::generate().unwrap();
    let again = Identity::load(&identity.store()).unwrap();
    let (mut relay, address) = start_relay(again, 0);
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
