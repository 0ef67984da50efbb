//! Pipes: datagrams to one target and back, in time or not.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as StdInstant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weftway_mux::{Limits, Mux};
use weftway_path::{Instant, Span};
use weftway_relay::{
    ClientId, Front, NameConfig, NameSource, Order, Pipe, PipeLeave, PipeTarget, PipeView, Pipes, Policy, Relay,
    RelayLimits,
};

use crate::associated::{await_next, next, socket, udp_echo};
use crate::name_server::{NameServer, Say};
use crate::programs::bytes;
use crate::wire::{Faults, Wire};
use crate::world::{CLIENT, PATIENCE};

/// Pipes and a relay with a wire between them.
struct World {
    pipes: Pipes,
    relay: Relay,
    wire: Option<Wire>,
    faults: Faults,
    began: StdInstant,
    notes: Vec<String>,
}

impl World {
    fn now(&self) -> Instant {
        // The relay's clock shows something else.
        Instant::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn turn(&mut self) -> Span {
        let now = self.now();
        let ahead = Span::from_secs(1000);
        let Some(wire) = &mut self.wire else {
            self.pipes.turn(now, None);
            return self.pipes.next_event().since(now);
        };
        let [here, there] = &mut wire.muxes;
        self.pipes.turn(now, Some(here));
        self.relay.collect(now + ahead);
        self.relay.turn(now + ahead, CLIENT, there);
        let busy = wire.turn(now);
        self.notes.extend(std::iter::from_fn(|| self.pipes.take_note()));
        if busy {
            return Span::ZERO;
        }
        // The mux of the relay counts by the wire's clock, which is the front's.
        let relay = self.relay.next_event();
        let relay = if relay.is_never() { relay } else { Instant::ZERO + relay.since(Instant::ZERO + ahead) };
        wire.next_event().min(relay).min(self.pipes.next_event()).since(self.now())
    }

    fn pipe(&self) -> PipeView {
        self.pipes.pipes(self.now()).remove(0)
    }
}

struct Running {
    world: Arc<Mutex<World>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A pipe to this target.
fn to(target: &str, latency_ms: u64, order: Order) -> Pipe {
    let target = PipeTarget { latency: Span::from_millis(latency_ms), order, target: target.parse().unwrap() };
    Pipe { name: None, listen: "127.0.0.1:0".parse().unwrap(), target, pieces: true }
}

impl Running {
    fn new(pipes: Vec<Pipe>, allowed: &[&str], faults: Faults, names: NameSource) -> Self {
        let policy = Policy::parse(&[""; 0], &[""; 0]).unwrap();
        let mut relay = Relay::with_names(policy, RelayLimits::default(), names).unwrap();
        relay.allow_pipes(PipeLeave::parse(allowed).unwrap());
        let world = World {
            pipes: Pipes::listen(pipes).unwrap(),
            relay,
            wire: Some(Wire::new(Limits::default(), faults)),
            faults,
            began: StdInstant::now(),
            notes: Vec::new(),
        };
        let fds = [world.pipes.fd(), world.relay.fd()].map(|fd| fd.as_fd().try_clone_to_owned().unwrap());
        let (world, stop) = (Arc::new(Mutex::new(world)), Arc::new(AtomicBool::new(false)));
        let (shared, stopped) = (world.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let wait = shared.lock().unwrap().turn().min(Span::from_millis(5));
                let mut polled = fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
                let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as i64 }));
            }
        });
        Self { world, stop, thread: Some(thread) }
    }

    /// Another connection to the relay, or to another one.
    fn connect_again(&self, change: impl FnOnce(&mut Relay)) {
        self.with(|world| {
            let now = world.now();
            world.wire = None;
            world.pipes.lost(now);
            world.relay.gone(CLIENT);
            change(&mut world.relay);
            world.wire = Some(Wire::new(Limits::default(), world.faults));
        });
    }

    fn plain(pipe: Pipe, allowed: &str) -> Self {
        Self::new(vec![pipe], &[allowed], Faults::NONE, NameSource::system())
    }

    fn with<T>(&self, what: impl FnOnce(&mut World) -> T) -> T {
        what(&mut self.world.lock().unwrap())
    }

    fn until(&self, what: &str, mut is_so: impl FnMut(&mut World) -> bool) {
        let began = StdInstant::now();
        while !self.with(&mut is_so) {
            assert!(began.elapsed() < PATIENCE, "waited for this: {what}; {:?}", self.with(|world| world.pipe()));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Where the first pipe takes datagrams, once the relay carries it.
    fn open(&self) -> SocketAddr {
        self.until("the pipe is open", |world| world.pipe().open);
        self.with(|world| world.pipe().listen.parse().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

#[test]
fn answers_come_back_to_the_source_that_they_belong_to() {
    let server = udp_echo("127.0.0.1:0");
    for seed in 0..2 {
        let faults = Faults { late: Span::from_millis(3), one_in: 5, seed };
        let pipe = to(&server.to_string(), 3000, Order::Mostly);
        let running = Running::new(vec![pipe], &["127.0.0.0/8:*"], faults, NameSource::system());
        let (at, sources) = (running.open(), [(); 5].map(|()| socket("127.0.0.1:0")));
        for round in 0..30 {
            for (source, number) in sources.iter().zip(0..) {
                // Of no bytes at all, too, and of more than a record holds.
                let data = bytes(round * 30 * (number as usize + 1), number);
                source.send_to(&data, at).unwrap();
                assert_eq!(await_next(source), (data, at));
            }
        }
        assert_eq!(running.with(|world| world.pipe().sources), 5);
        running.until("both ends have told of all", |world| {
            let PipeView { up, down, .. } = world.pipe();
            (up.total.datagrams, up.total.delivered, down.total.delivered) == (150, 150, 150)
        });
        let view = running.with(|world| world.pipe());
        assert_eq!((view.up.total.lost, view.up.total.late, view.down.total.lost), (0, 0, 0));
        assert!(view.drops.is_empty(), "{:?}", view.drops);
    }
}

#[test]
fn each_source_has_a_socket_of_its_own_at_the_relay_and_no_stranger_gets_in() {
    let server = socket("127.0.0.1:0");
    let at = server.local_addr().unwrap();
    let running = Running::plain(to(&at.to_string(), 5000, Order::Mostly), &at.to_string());
    let (pipe, one, other) = (running.open(), socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    let flow = |source: &UdpSocket, word: &[u8]| {
        source.send_to(word, pipe).unwrap();
        let (came, from) = await_next(&server);
        assert_eq!(came, word);
        from
    };
    let (first, second) = (flow(&one, b"one"), flow(&other, b"other"));
    assert_ne!(first.port(), second.port());
    assert_eq!(flow(&one, b"again").port(), first.port());
    let stranger = socket("127.0.0.1:0");
    stranger.send_to(b"stranger", ("127.0.0.1", first.port())).unwrap();
    running.until("it is dropped", |world| world.relay.datagrams(CLIENT).dropped == 1);
    server.send_to(b"answer", ("127.0.0.1", second.port())).unwrap();
    assert_eq!(await_next(&other), (b"answer".to_vec(), pipe));
    assert_eq!(next(&one), None);
}

/// As `ping_group_range` is for pings, the kernel tells of marks on Linux alone.
#[cfg(target_os = "linux")]
#[test]
fn datagrams_keep_their_mark() {
    use rustix::net::sockopt::set_ip_tos;

    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::IpRecvTos};
    use std::os::fd::AsRawFd;

    let (server, source) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    setsockopt(&server, IpRecvTos, &true).unwrap();
    let at = server.local_addr().unwrap();
    let running = Running::plain(to(&at.to_string(), 5000, Order::Mostly), &at.to_string());
    let pipe = running.open();
    let mark = || {
        let (mut bytes, mut control) = ([0; 100], nix::cmsg_space!(i32));
        let parts = &mut [std::io::IoSliceMut::new(&mut bytes)];
        let came = recvmsg::<()>(server.as_raw_fd(), parts, Some(&mut control), MsgFlags::empty()).ok()?;
        came.cmsgs().unwrap().find_map(|one| match one {
            ControlMessageOwned::Ipv4Tos(field) => Some(field),
            _ => None,
        })
    };
    // EF, and the bits of congestion notification, which are the path's.
    set_ip_tos(&source, 46 << 2 | 1).unwrap();
    let began = StdInstant::now();
    let found = || {
        source.send_to(b"voice", pipe).unwrap();
        mark()
    };
    // Another connection to the relay, which knows of no mark.
    for _ in 0..2 {
        while found() != Some(46 << 2) {
            assert!(began.elapsed() < PATIENCE, "no datagram has its mark");
        }
        running.connect_again(|_| ());
        running.open();
        while mark().is_some() {}
    }
}

/// Records come up to 30 ms late and overtake each other; each datagram is held for 300 ms.
#[test]
fn in_order_datagrams_come_as_they_were_sent_and_not_before_their_time() {
    let server = socket("127.0.0.1:0");
    let at = server.local_addr().unwrap();
    let faults = Faults { late: Span::from_millis(30), one_in: 0, seed: 3 };
    let running =
        Running::new(vec![to(&at.to_string(), 300, Order::Always)], &[&at.to_string()], faults, NameSource::system());
    let (pipe, source, began) = (running.open(), socket("127.0.0.1:0"), StdInstant::now());
    // Until the clocks are known.
    std::thread::sleep(Duration::from_millis(500));
    let sent_at = began.elapsed();
    for number in 0..50u8 {
        source.send_to(&[number; 1000], pipe).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut came = Vec::new();
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 2000];
    while came.len() < 50
        && let Ok(count) = server.recv(&mut buffer)
    {
        assert_eq!(count, 1000);
        came.push(buffer[0]);
        // Half of the longest round trip is the most by which the clocks are wrong.
        assert!(began.elapsed() - sent_at >= Duration::from_millis(265), "{:?}", began.elapsed() - sent_at);
    }
    assert!(came.is_sorted(), "{came:?}");
    running.until("all are told of", |world| world.pipe().up.total.datagrams == 50);
    let told = running.with(|world| world.pipe().up.total);
    assert_eq!((told.delivered, came.len() as u64), (50 - told.late - told.lost, told.delivered));
}

/// Each record is on its way for up to 100 ms, and a datagram is of use for 60.
#[test]
fn what_is_late_is_dropped_at_the_far_end_and_counted() {
    let server = socket("127.0.0.1:0");
    let at = server.local_addr().unwrap();
    let faults = Faults { late: Span::from_millis(100), one_in: 0, seed: 5 };
    let running =
        Running::new(vec![to(&at.to_string(), 60, Order::Mostly)], &[&at.to_string()], faults, NameSource::system());
    let (pipe, source) = (running.open(), socket("127.0.0.1:0"));
    std::thread::sleep(Duration::from_millis(1500));
    for number in 0..100u8 {
        source.send_to(&[number], pipe).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    running.until("all are told of", |world| world.pipe().up.total.datagrams == 100);
    let told = running.with(|world| world.pipe().up.total);
    assert!(told.late > 5 && told.delivered > 5 && told.delivered + told.late + told.lost == 100, "{told:?}");
    let came = std::iter::from_fn(|| next(&server)).count() as u64;
    assert_eq!(came, told.delivered);
}

#[test]
fn a_relay_without_leave_refuses_and_says_what_would_allow_it() {
    let server = socket("127.0.0.1:0");
    let at = server.local_addr().unwrap();
    let running = Running::plain(to(&at.to_string(), 200, Order::Mostly), "127.0.0.1:1");
    running.until("it is refused", |world| world.pipes.failure().is_some());
    let told = running.with(|world| world.pipes.failure().unwrap().to_owned());
    let expected = format!("the relay refuses a pipe to {at}: it allows no pipe there; `weft relay --allow-pipe` with");
    assert!(told.starts_with(&expected), "{told}");
    assert_eq!(running.with(|world| world.pipes.refusals()["not_allowed"]), 1);
    assert_eq!(running.with(|world| world.relay.streams(CLIENT)), 0);
}

#[test]
fn of_several_pipes_the_others_go_on() {
    let (server, other) = (udp_echo("127.0.0.1:0"), socket("127.0.0.1:0"));
    let refused = other.local_addr().unwrap().to_string();
    let pipes = vec![to(&server.to_string(), 5000, Order::Mostly), to(&refused, 200, Order::Mostly)];
    let running = Running::new(pipes, &[&server.to_string()], Faults::NONE, NameSource::system());
    let (at, source) = (running.open(), socket("127.0.0.1:0"));
    running.until("one is refused", |world| world.notes.iter().any(|note| note.contains("refuses a pipe to")));
    source.send_to(b"hello", at).unwrap();
    assert_eq!(await_next(&source).0, b"hello");
    assert_eq!(running.with(|world| world.pipes.failure().map(str::to_owned)), None);
}

#[test]
fn a_name_is_found_by_the_relay_or_not() {
    let server = udp_echo("127.0.0.1:0");
    let known = NameServer::new(|name, _| match name {
        "media.example" => Say::Addresses(&["127.0.0.1"]),
        _ => Say::NoName,
    });
    let names = || NameSource::Fixed(NameConfig::of_servers([known.address]));
    let pipe = |name: &str| vec![to(&format!("{name}:{}", server.port()), 5000, Order::Mostly)];
    let running = Running::new(pipe("media.example"), &["*.example:*", "media.example:*"], Faults::NONE, names());
    let (at, source) = (running.open(), socket("127.0.0.1:0"));
    source.send_to(b"hello", at).unwrap();
    assert_eq!(await_next(&source).0, b"hello");
    let running = Running::new(pipe("other.example"), &["*.example:*"], Faults::NONE, names());
    running.until("it is refused", |world| world.pipes.failure().is_some_and(|why| why.contains("no such name")));
}

#[test]
fn a_pipe_is_opened_again_by_another_connection() {
    let server = udp_echo("127.0.0.1:0");
    let running = Running::plain(to(&server.to_string(), 1000, Order::Mostly), &server.to_string());
    let (at, source) = (running.open(), socket("127.0.0.1:0"));
    source.send_to(b"hello", at).unwrap();
    assert_eq!(await_next(&source).0, b"hello");
    running.until("it is told of", |world| world.pipe().up.total.delivered == 1);
    source.send_to(b"and then", at).unwrap();
    assert_eq!(await_next(&source).0, b"and then");
    running.with(|world| {
        let now = world.now();
        world.wire = None;
        world.pipes.lost(now);
        world.relay.gone(CLIENT);
    });
    running.until("it is closed", |world| !world.pipe().open);
    source.send_to(b"nobody", at).unwrap();
    running.until("it is dropped", |world| world.pipe().drops.get("not_open") == Some(&1));
    running.with(|world| world.wire = Some(Wire::new(Limits::default(), world.faults)));
    assert_eq!(running.open(), at);
    let told = running.with(|world| world.pipe().up.total);
    assert_eq!((told.datagrams, told.delivered, told.lost), (2, 1, 1), "what was told stays, and the rest is lost");
    source.send_to(b"again", at).unwrap();
    assert_eq!(await_next(&source).0, b"again");
}

/// A server of names that does not know a name any more, or not yet again, ends no pipe that was carried.
#[test]
fn a_name_that_was_found_is_asked_for_again() {
    let server = udp_echo("127.0.0.1:0");
    let known = NameServer::new(|_, _| Say::Addresses(&["127.0.0.1"]));
    let unknown = NameServer::new(|_, _| Say::NoName);
    let names = |of: &NameServer| NameSource::Fixed(NameConfig::of_servers([of.address]));
    let pipe = to(&format!("media.example:{}", server.port()), 5000, Order::Mostly);
    let running = Running::new(vec![pipe], &["media.example:*"], Faults::NONE, names(&known));
    running.open();
    running.connect_again(|relay| {
        let policy = Policy::parse(&[""; 0], &[""; 0]).unwrap();
        *relay = Relay::with_names(policy, RelayLimits::default(), names(&unknown)).unwrap();
        relay.allow_pipes(PipeLeave::parse(&["media.example:*"]).unwrap());
    });
    running
        .until("it is refused", |world| world.notes.iter().any(|note| note.contains("it knows no such name; it is")));
    assert_eq!(running.with(|world| world.pipes.failure().map(str::to_owned)), None);
}

/// Datagrams to everybody need leave that this machine's sockets have not: that address is as one without a route.
#[test]
fn of_several_addresses_one_that_has_a_route_is_taken() {
    let server = udp_echo("127.0.0.1:0");
    let known = NameServer::new(|_, is_v4| match is_v4 {
        true => Say::Addresses(&["255.255.255.255", "127.0.0.1"]),
        false => Say::Addresses(&[]),
    });
    let names = NameSource::Fixed(NameConfig::of_servers([known.address]));
    let pipe = to(&format!("media.example:{}", server.port()), 5000, Order::Mostly);
    let running = Running::new(vec![pipe], &["media.example:*"], Faults::NONE, names);
    let (at, source) = (running.open(), socket("127.0.0.1:0"));
    source.send_to(b"hello", at).unwrap();
    assert_eq!(await_next(&source).0, b"hello");
}

/// This end has no turn for 300 ms, as on a busy machine: what came meanwhile is of use for 200 ms. On other systems
/// than Linux the kernel does not tell when it came.
#[cfg(target_os = "linux")]
#[test]
fn the_time_in_the_kernel_counts() {
    let server = socket("127.0.0.1:0");
    let at = server.local_addr().unwrap();
    let running = Running::plain(to(&at.to_string(), 200, Order::Mostly), &at.to_string());
    let (pipe, source) = (running.open(), socket("127.0.0.1:0"));
    let sent = |word: &[u8]| {
        source.send_to(word, pipe).unwrap();
        await_next(&server).0
    };
    assert_eq!(sent(b"first"), b"first");
    running.with(|_| {
        source.send_to(b"late", pipe).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    });
    assert_eq!(sent(b"next"), b"next");
    running.until("all are told of", |world| world.pipe().up.total.datagrams == 3);
    let told = running.with(|world| world.pipe().up.total);
    assert_eq!((told.delivered, told.late + told.lost), (2, 1));
}

/// A source that floods a pipe which leads nowhere takes no turn from the others.
#[test]
fn a_flood_at_a_pipe_that_is_not_open_takes_its_share_of_turns() {
    let mut pipes = Pipes::listen(vec![to("127.0.0.1:9", 200, Order::Mostly)]).unwrap();
    let at = pipes.addresses()[0].trim_start_matches("udp://").to_owned();
    let source = socket("127.0.0.1:0");
    (0..100).for_each(|_| assert_eq!(source.send_to(b"flood", &at).unwrap(), 5));
    pipes.turn(Instant::ZERO, None);
    assert_eq!((pipes.drops()["not_open"], pipes.next_event()), (64, Instant::ZERO));
    pipes.turn(Instant::ZERO, None);
    assert_eq!(pipes.drops()["not_open"], 100);
}

/// A target that floods: all sources together bring in a turn as much as one socket may, and each some of it.
#[test]
fn answers_to_many_sources_take_the_turns_of_one_flow() {
    let server = socket("127.0.0.1:0");
    let at = server.local_addr().unwrap();
    let mut relay = Relay::new(Policy::default(), RelayLimits::default()).unwrap();
    relay.allow_pipes(PipeLeave::parse(&[at.to_string()]).unwrap());
    let mut wire = Wire::new(Limits::default(), Faults::NONE);
    let now = Instant::from_millis(5);
    let pipe = wire.muxes[0].open(now, 1, format!("pipe:1/200000//{at}").as_bytes(), None).unwrap();
    for source in 0..20 {
        wire.muxes[0].send_datagram(now, pipe, 1, None, vec![0, 0, 0, 0, source, b'x'].into()).unwrap();
    }
    let turn = |wire: &mut Wire, relay: &mut Relay| {
        wire.turn(now);
        relay.collect(now);
        relay.turn(now, CLIENT, &mut wire.muxes[1]);
        wire.turn(now);
        std::iter::from_fn(|| wire.muxes[0].next_datagram())
            .filter(|(_, bytes)| bytes[0] & 0xf == 0)
            .collect::<Vec<_>>()
    };
    assert!(turn(&mut wire, &mut relay).is_empty());
    let mut buffer = [0; 100];
    for _ in 0..20 {
        let (_, source) = server.recv_from(&mut buffer).unwrap();
        (0..50).for_each(|_| assert_eq!(server.send_to(b"answer", source).unwrap(), 6));
    }
    let came = turn(&mut wire, &mut relay);
    let sources: std::collections::BTreeSet<u8> = came.iter().map(|(_, bytes)| bytes[4]).collect();
    assert_eq!((came.len(), sources.len()), (64, 8));
    let more: usize = (0..20).map(|_| turn(&mut wire, &mut relay).len()).sum();
    assert_eq!(came.len() + more, 1000);
}

/// The far end takes nothing any more, and a source sends 105 Mbit/s, 2.6 MB in the time that a datagram has: what waits
/// is bounded, new datagrams without room and old ones without time are dropped and counted, and once the far end takes
/// records again, the next datagram arrives.
#[test]
fn a_flood_at_a_far_end_that_never_reads_is_bounded_and_counted() {
    let (server, source) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    let at = server.local_addr().unwrap().to_string();
    let mut pipes = Pipes::listen(vec![to(&at, 200, Order::Mostly)]).unwrap();
    let listen = pipes.addresses()[0].trim_start_matches("udp://").to_owned();
    let mut relay = Relay::new(Policy::default(), RelayLimits::default()).unwrap();
    relay.allow_pipes(PipeLeave::parse(&[&at]).unwrap());
    let mut wire = Wire::new(Limits::default(), Faults::NONE);
    let whole = |pipes: &mut Pipes, relay: &mut Relay, wire: &mut Wire, now| {
        for _ in 0..4 {
            pipes.turn(now, Some(&mut wire.muxes[0]));
            wire.turn(now);
            relay.collect(now);
            relay.turn(now, CLIENT, &mut wire.muxes[1]);
            wire.turn(now);
        }
    };
    whole(&mut pipes, &mut relay, &mut wire, Instant::from_millis(5));
    assert!(pipes.pipes(Instant::from_millis(5))[0].open);
    let (mut sent, mut most) = (0, 0);
    for ms in (10..1010).step_by(4) {
        let now = Instant::from_millis(ms);
        for _ in 0..40 {
            source.send_to(&[7; 1316], &listen).unwrap();
            sent += 1;
        }
        pipes.turn(now, Some(&mut wire.muxes[0]));
        while pipes.next_event() == Instant::ZERO {
            pipes.turn(now, Some(&mut wire.muxes[0]));
        }
        most = most.max(wire.muxes[0].unsent_datagrams().get());
    }
    let taken = pipes.flows().map(|flow| flow.datagrams.up).sum::<u64>();
    let dropped = pipes.drops()["no_room"];
    let expired = wire.muxes[0].counts().datagrams_expired;
    assert!(
        most <= (1 << 20) + 1400 && dropped > 1000 && expired > 1000,
        "{most} bytes wait, {dropped} and {expired} dropped"
    );
    assert_eq!(taken + dropped, sent, "each is taken or counted");
    let now = Instant::from_millis(3000);
    source.send_to(b"new", &listen).unwrap();
    whole(&mut pipes, &mut relay, &mut wire, now);
    assert_eq!(await_next(&server).0, b"new");
}

/// More sources than may be: those that are there go on, and so does the relay.
#[test]
fn a_flood_of_sources_ends_none_of_those_that_are_there() {
    let server = udp_echo("127.0.0.1:0");
    let running = Running::plain(to(&server.to_string(), 5000, Order::Mostly), &server.to_string());
    let (at, source) = (running.open(), socket("127.0.0.1:0"));
    source.send_to(b"hello", at).unwrap();
    assert_eq!(await_next(&source).0, b"hello");
    let flood: Vec<UdpSocket> = (0..300).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let dropped = |world: &World| world.pipe().drops.get("too_many_sources").copied().unwrap_or(0);
    for (one, count) in flood.iter().zip(2..) {
        one.send_to(b"flood", at).unwrap();
        running.until("it is known", |world| world.pipe().sources as u64 + dropped(world) == count);
    }
    assert_eq!(running.with(|world| dropped(world)), 45);
    assert_eq!(running.with(|world| world.pipe().sources), 256);
    running.until("the user is told", |world| world.notes.iter().any(|note| note.contains("more sources")));
    source.send_to(b"again", at).unwrap();
    assert_eq!(await_next(&source).0, b"again");
}

/// A client that says what no client says: the relay ends that pipe, and carries the next.
#[test]
fn a_client_that_says_nonsense_ends_its_own_pipe_alone() {
    let server = socket("127.0.0.1:0");
    let at = server.local_addr().unwrap();
    let mut relay = Relay::new(Policy::default(), RelayLimits::default()).unwrap();
    relay.allow_pipes(PipeLeave::parse(&[at.to_string()]).unwrap());
    let mut wire = Wire::new(Limits::default(), Faults::NONE);
    let target = format!("pipe:1/200000//{at}");
    let now = Instant::from_millis(5);
    let open = |mux: &mut Mux, target: &str| mux.open(now, 1, target.as_bytes(), None).unwrap();
    let turn = |wire: &mut Wire, relay: &mut Relay| {
        for _ in 0..5 {
            wire.turn(now);
            relay.collect(now);
            relay.turn(now, ClientId(1), &mut wire.muxes[1]);
        }
        wire.turn(now);
        relay.streams(ClientId(1))
    };
    let good = open(&mut wire.muxes[0], &target);
    // Datagrams of all kinds and lengths, and pieces.
    for length in 0..60 {
        for first in 0..=255u8 {
            let _ = wire.muxes[0].send_datagram(now, good, 1, None, vec![first; length].into());
        }
    }
    assert_eq!(turn(&mut wire, &mut relay), 1, "datagrams end nothing");
    for line in ["nonsense\n", "{\"came\":{\"second\":-1}}\n", "{\"clock\":1}\n{\"clock\":\"x\"}\n"] {
        let bad = open(&mut wire.muxes[0], &target);
        wire.muxes[0].write(now, bad, line.as_bytes().to_vec().into()).unwrap();
        assert_eq!(turn(&mut wire, &mut relay), 1, "{line}");
        assert!(wire.muxes[0].read(bad).is_err() || wire.muxes[0].read(bad).is_err());
    }
    // Another version, none at all, and more pipes than may be.
    for (target, code) in [(format!("pipe:9/x/{at}"), 7), (format!("pipe:1/0//{at}"), 1), ("pipe:1".to_owned(), 1)] {
        let bad = open(&mut wire.muxes[0], &target);
        turn(&mut wire, &mut relay);
        assert_eq!(wire.muxes[0].read(bad), Err(weftway_mux::StreamError::Reset(code)), "{target}");
    }
    let all: Vec<_> = (0..20).map(|_| open(&mut wire.muxes[0], &target)).collect();
    assert_eq!(turn(&mut wire, &mut relay), 16);
    assert_eq!(wire.muxes[0].read(all[19]), Err(weftway_mux::StreamError::Reset(9)));
}
