//! Both ends of a transfer over sockets of this machine, for the tests that need them. 127.0.0.1 and 127.0.0.2 are two
//! paths.
#![allow(dead_code, reason = "no test binary needs all of it")]

pub mod forwarder;
pub mod peer;
pub mod ports;
pub mod programs;
pub mod running;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use noq_proto::{DatagramEvent, Endpoint, EndpointConfig};
use tempfile::TempDir;
use weftway_path::Span;
use weftway_quic::driver::observer::ObserverState;
use weftway_transfer::{
    Connect, Failure, Links, Listen, OtherEnd, Progress, ReceiveOptions, Report, SendOptions, receive,
};
use weftway_udp::settings::ETHERNET_PAYLOAD;
use weftway_udp::tls::{Identity, Pairing};
use weftway_udp::{Local, Net};

pub type Outcome = Result<Report, Failure>;

/// Interval in which a user is told.
const OFTEN: Span = Span::from_millis(2);

pub fn sending(other: impl Into<OtherEnd>, paths: &[&str]) -> SendOptions {
    let mut options = SendOptions::new(other);
    options.links = Links::plain(locals(paths));
    options.times.tell_every = OFTEN;
    options
}

pub fn receiving(other: impl Into<OtherEnd>, paths: &[&str]) -> ReceiveOptions {
    // Nothing of a test outlives it: it need not be on the disk itself.
    let mut options = ReceiveOptions { paths: locals(paths), sync: false, ..ReceiveOptions::new(other) };
    options.times.tell_every = OFTEN;
    options
}

fn locals(paths: &[&str]) -> Vec<Local> {
    paths.iter().map(|path| Local::parse(path)).collect()
}

pub fn here() -> SocketAddr {
    ([0, 0, 0, 0], 0).into()
}

/// A receiver that listens on a thread.
pub struct Listening {
    pub address: SocketAddr,
    pub stop: Arc<AtomicBool>,
    pub done: Arc<AtomicU64>,
    /// What it has told its user.
    pub notes: Arc<Mutex<Vec<String>>>,
    thread: JoinHandle<Outcome>,
}

impl Listening {
    pub fn at(target: &Path, identity: Identity) -> Self {
        Self::with(target, receiving(Listen { address: here(), identity }, &[]))
    }

    pub fn with(target: &Path, options: ReceiveOptions) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let notes: Arc<Mutex<Vec<String>>> = Arc::default();
        let (told, address) = channel();
        let (target, halt, so_far, said) = (target.to_owned(), stop.clone(), done.clone(), Arc::clone(&notes));
        let thread = std::thread::spawn(move || {
            receive(&target, options, &mut |progress: &Progress| {
                let _ = progress.listening.map(|address| told.send(address));
                so_far.store(progress.done, Ordering::Relaxed);
                said.lock().unwrap().extend(progress.note.clone());
                !halt.load(Ordering::Relaxed)
            })
        });
        Self { address: loopback(&address), stop, done, notes, thread }
    }

    pub fn end(self) -> Outcome {
        self.thread.join().unwrap()
    }
}

/// A receiver with an empty target, and how to pair with it.
pub fn listening() -> (TempDir, Pairing, Listening) {
    let target = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let pairing = identity.pairing();
    let receiver = Listening::at(target.path(), identity);
    (target, pairing, receiver)
}

pub fn loopback(address: &Receiver<SocketAddr>) -> SocketAddr {
    ([127, 0, 0, 1], address.recv().unwrap().port()).into()
}

/// Options of a sender that connects.
pub fn connect(address: SocketAddr, pairing: &Pairing, paths: &[&str]) -> SendOptions {
    sending(Connect::to(vec![address], pairing.clone()), paths)
}

/// Options of a receiver that connects.
pub fn fetch(address: SocketAddr, pairing: &Pairing, paths: &[&str]) -> ReceiveOptions {
    receiving(Connect::to(vec![address], pairing.clone()), paths)
}

pub const BOTH: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// Bytes that repeat nowhere.
pub fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_be_bytes()).finalize_xof().fill(&mut out);
    out
}

/// A tree with a large file, small ones, empty ones, directories, and a link that leads out.
pub fn tree(bytes: usize) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("photos");
    fs::create_dir_all(root.join("2024/empty")).unwrap();
    fs::write(root.join("big"), noise(bytes, 1)).unwrap();
    fs::write(root.join("2024/none"), "").unwrap();
    for at in 0..20 {
        fs::write(root.join(format!("2024/ü{at}")), noise(100 * at, at as u64)).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
    (dir, root)
}

/// Every file below `root` is below `target/photos`, byte for byte, and nothing else.
pub fn assert_same(root: &Path, target: &Path) {
    let list = |root: &Path| {
        let mut names = Vec::new();
        let mut dirs = vec![root.to_owned()];
        while let Some(dir) = dirs.pop() {
            for found in fs::read_dir(dir).unwrap().map(Result::unwrap) {
                if found.file_type().unwrap().is_symlink() {
                    continue;
                }
                names.push(found.path().strip_prefix(root).unwrap().to_owned());
                if found.file_type().unwrap().is_dir() {
                    dirs.push(found.path());
                }
            }
        }
        names.sort();
        names
    };
    let copy = target.join(root.file_name().unwrap());
    assert_eq!(list(root), list(&copy));
    for name in list(root).into_iter().filter(|name| root.join(name).is_file()) {
        let (ours, theirs) = (fs::metadata(root.join(&name)).unwrap(), fs::metadata(copy.join(&name)).unwrap());
        assert_eq!(ours.modified().unwrap(), theirs.modified().unwrap(), "{name:?}");
        assert_eq!(ours.permissions(), theirs.permissions(), "{name:?}");
        assert!(fs::read(root.join(&name)).unwrap() == fs::read(copy.join(&name)).unwrap(), "{name:?}");
    }
    assert_eq!(fs::read_dir(target).unwrap().count(), 1, "no partial files are left");
}

/// Forwards datagrams between a client and `server`: from the client those that `pass` lets through.
pub fn relay(
    server: SocketAddr,
    mut pass: impl FnMut(SocketAddr, &[u8]) -> bool + Send + 'static,
) -> (SocketAddr, Arc<AtomicBool>, JoinHandle<()>) {
    let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = inside.local_addr().unwrap();
    inside.set_nonblocking(true).unwrap();
    outside.set_nonblocking(true).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let halt = stop.clone();
    let thread = std::thread::spawn(move || {
        let mut client = None;
        let mut buffer = vec![0; 1 << 16];
        while !halt.load(Ordering::Relaxed) {
            let mut idle = true;
            while let Ok((length, from)) = inside.recv_from(&mut buffer) {
                idle = false;
                if pass(from, &buffer[..length]) {
                    client = Some(from);
                    let _ = outside.send_to(&buffer[..length], server);
                }
            }
            while let Ok((length, _)) = outside.recv_from(&mut buffer) {
                idle = false;
                let _ = client.map(|client| inside.send_to(&buffer[..length], client));
            }
            if idle {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
    });
    (address, stop, thread)
}

/// An end that refuses every connection.
pub struct Refusing {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Refusing {
    /// How many it has refused.
    pub fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Begins to refuse connections.
pub fn refusing() -> Refusing {
    let server = Identity::generate().unwrap().server().unwrap().config(ObserverState::new(), ETHERNET_PAYLOAD);
    let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(server)), true);
    let mut net = Net::server(endpoint, &[], ([127, 0, 0, 1], 0).into()).unwrap();
    let (address, stop) = (net.sockets()[0].address(), Arc::new(AtomicBool::new(false)));
    let halt = stop.clone();
    let thread = std::thread::spawn(move || {
        let mut count = 0;
        while !halt.load(Ordering::Relaxed) {
            net.wait(net.now() + Span::from_millis(20), None);
            net.receive();
            while let Some(arrival) = net.next_arrival() {
                if let Some(DatagramEvent::NewConnection(incoming)) = net.handle(net.now(), arrival) {
                    let mut answer = Vec::new();
                    let transmit = net.endpoint.refuse(incoming, &mut answer);
                    net.respond(&transmit, &answer);
                    count += 1;
                }
            }
            net.flush();
        }
        count
    });
    Refusing { address, stop, thread }
}
