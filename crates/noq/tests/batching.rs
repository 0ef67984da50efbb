//! Batches that a sender gathers, on a runtime that does nothing by itself; and a whole transfer.
#![cfg(unix)]

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use noq::udp::{EcnCodepoint, RecvMeta, Transmit};
use noq::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpSender};
use weftway_noq::Batching;
use weftway_quic::gate::Gate;

use pair::Failure;

mod pair;

/// Call to the kernel: port, size of its datagrams, bytes.
type Call = (u16, Option<usize>, Vec<u8>);

/// A kernel that takes what it is given, unless it is busy or broken, and what was given to the runtime.
#[derive(Default)]
struct Fake {
    calls: Mutex<Vec<Call>>,
    busy: AtomicBool,
    broken: AtomicBool,
    /// The device cannot segment, and whether that is known.
    whole: AtomicBool,
    known: AtomicBool,
    tasks: Mutex<Vec<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl std::fmt::Debug for Fake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fake")
    }
}

#[derive(Clone, Debug)]
struct Shared(Arc<Fake>);

impl Runtime for Shared {
    fn new_timer(&self, _: Instant) -> Pin<Box<dyn AsyncTimer>> {
        unreachable!("nobody waits here")
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.tasks.lock().unwrap().push(future);
    }

    fn wrap_udp_socket(&self, _: UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        Ok(Box::new(self.clone()))
    }
}

impl AsyncUdpSocket for Shared {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(self.clone())
    }

    fn poll_recv(
        &mut self,
        _: &mut Context<'_>,
        _: &mut [IoSliceMut<'_>],
        _: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(address(9))
    }
}

impl UdpSender for Shared {
    fn poll_send(self: Pin<&mut Self>, transmit: &Transmit<'_>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.0.busy.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        if self.0.broken.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if transmit.segment_size.is_some() && self.0.whole.load(Ordering::Relaxed) {
            // As noq's own senders do it.
            self.0.known.store(true, Ordering::Relaxed);
            return Poll::Ready(Ok(()));
        }
        let call = (transmit.destination.port(), transmit.segment_size, transmit.contents.to_vec());
        self.0.calls.lock().unwrap().push(call);
        Poll::Ready(Ok(()))
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        NonZeroUsize::new(if self.0.known.load(Ordering::Relaxed) { 1 } else { 4 }).unwrap()
    }
}

fn address(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn transmit(port: u16, contents: &[u8]) -> Transmit<'_> {
    Transmit { destination: address(port), ecn: None, contents, segment_size: None, src_ip: None }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A sender, its task, and the kernel below.
struct Bench {
    fake: Arc<Fake>,
    sender: Option<Pin<Box<dyn UdpSender>>>,
    connection: Arc<Woken>,
    task: Arc<Woken>,
}

impl Bench {
    fn new() -> Self {
        let fake = Arc::new(Fake::default());
        let runtime = Batching::new(Arc::new(Shared(Arc::clone(&fake))));
        let socket = runtime.wrap_udp_socket(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let mut bench =
            Self { fake, sender: Some(socket.create_sender()), connection: Arc::default(), task: Arc::default() };
        assert!(!bench.run(), "it waits for the first datagram");
        bench
    }

    fn send(&mut self, transmit: &Transmit<'_>) -> Poll<io::Result<()>> {
        let waker = Waker::from(Arc::clone(&self.connection));
        let sender = self.sender.as_mut().expect("the sender lives").as_mut();
        sender.poll_send(transmit, &mut Context::from_waker(&waker))
    }

    fn takes(&mut self, transmit: &Transmit<'_>) -> bool {
        matches!(self.send(transmit), Poll::Ready(Ok(())))
    }

    /// The runtime runs the task: whether it is over.
    fn run(&mut self) -> bool {
        let waker = Waker::from(Arc::clone(&self.task));
        let mut tasks = self.fake.tasks.lock().unwrap();
        let task = tasks.first_mut().expect("a task").as_mut();
        task.poll(&mut Context::from_waker(&waker)).is_ready()
    }

    fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.fake.calls.lock().unwrap())
    }
}

#[test]
fn datagrams_that_alternate_leave_in_one_call_for_each_path() {
    let mut bench = Bench::new();
    for (port, byte) in [(1, 1), (2, 2), (1, 3), (2, 4), (1, 5), (2, 6)] {
        assert!(bench.takes(&transmit(port, &[byte; 10])));
    }
    assert_eq!(bench.calls(), [], "they leave when the turn is over");
    assert_eq!(bench.task.0.load(Ordering::Relaxed), 1, "the task is woken once");
    assert!(!bench.run());
    let bytes = |parts: [u8; 3]| parts.iter().flat_map(|byte| [*byte; 10]).collect::<Vec<u8>>();
    assert_eq!(bench.calls(), [(1, Some(10), bytes([1, 3, 5])), (2, Some(10), bytes([2, 4, 6]))]);
    assert!(bench.takes(&transmit(2, &[7; 10])));
    assert_eq!(bench.task.0.load(Ordering::Relaxed), 2, "and again in the next turn");
    assert!(!bench.run());
    assert_eq!(bench.calls(), [(2, None, vec![7; 10])]);
}

#[test]
fn what_does_not_fit_waits_until_the_others_have_left() {
    let mut bench = Bench::new();
    assert!((0..4).all(|byte| bench.takes(&transmit(1, &[byte; 10]))));
    assert!(!bench.takes(&transmit(1, &[4; 10])), "a call takes four datagrams");
    assert!(!bench.run());
    assert_eq!(bench.connection.0.load(Ordering::Relaxed), 1, "the connection is woken");
    assert_eq!(bench.calls().len(), 1);

    assert!(bench.takes(&transmit(1, &[4; 10])));
    let marked = Transmit { ecn: Some(EcnCodepoint::Ect0), ..transmit(1, &[5; 10]) };
    assert!(!bench.takes(&marked), "marks are those of the whole call");
    assert!(!bench.takes(&transmit(1, &[5; 11])), "it is longer than those before");
    assert!(bench.takes(&transmit(2, &[6; 11])), "another path is free");
    assert!(!bench.takes(&transmit(2, &[7; 10])), "what is longer, and alone, may be a probe that is lost");
    assert!(!bench.run());
    assert_eq!(bench.calls(), [(1, None, vec![4; 10]), (2, None, vec![6; 11])]);
}

#[test]
fn a_kernel_that_is_busy_keeps_the_order() {
    let mut bench = Bench::new();
    bench.fake.busy.store(true, Ordering::Relaxed);
    assert!((0..4).all(|byte| bench.takes(&transmit(1, &[byte; 10]))));
    assert!(!bench.run());
    assert!(bench.takes(&transmit(1, &[4; 10])), "it goes on gathering");
    assert!(!bench.run());
    assert_eq!(bench.calls(), []);
    bench.fake.busy.store(false, Ordering::Relaxed);
    assert!(!bench.run());
    let all: Vec<u8> = bench.calls().into_iter().flat_map(|(_, _, bytes)| bytes).collect();
    assert_eq!(all, (0..5).flat_map(|byte| [byte; 10]).collect::<Vec<u8>>());
}

#[test]
fn a_device_that_cannot_segment_gets_single_datagrams() {
    let mut bench = Bench::new();
    bench.fake.whole.store(true, Ordering::Relaxed);
    for (port, byte) in [(1, 1), (2, 2), (1, 3), (2, 4)] {
        assert!(bench.takes(&transmit(port, &[byte; 10])));
    }
    // noq has pieces of its own, the last of which is smaller.
    assert!(bench.takes(&Transmit { segment_size: Some(10), ..transmit(3, &[5; 15]) }));
    assert!(!bench.run());
    let single = |port, byte, size| (port, None, vec![byte; size]);
    let all =
        [single(1, 1, 10), single(1, 3, 10), single(2, 2, 10), single(2, 4, 10), single(3, 5, 10), single(3, 5, 5)];
    assert_eq!(bench.calls(), all, "what was refused, and what waited behind it");
    assert_eq!(bench.sender.as_ref().unwrap().max_transmit_segments().get(), 1, "noq makes no more pieces");

    assert!(bench.takes(&transmit(1, &[6; 10])));
    assert!(!bench.takes(&transmit(1, &[7; 10])), "a call takes one datagram");
    assert!(!bench.run());
    assert_eq!(bench.calls(), [single(1, 6, 10)]);
}

#[test]
fn what_was_gathered_leaves_though_the_sender_is_gone() {
    let mut bench = Bench::new();
    assert!(bench.takes(&transmit(1, b"close")));
    bench.sender = None;
    assert!(bench.run(), "the task is over");
    assert_eq!(bench.calls(), [(1, None, b"close".to_vec())]);
}

#[test]
fn a_socket_that_fails_tells_the_connection() {
    let mut bench = Bench::new();
    bench.fake.broken.store(true, Ordering::Relaxed);
    assert!(bench.takes(&transmit(1, &[0; 10])));
    assert!(bench.run());
    let Poll::Ready(Err(error)) = bench.send(&transmit(1, &[0; 10])) else { panic!("no error") };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

/// 4 MB over two addresses of the loopback device, path by turns once the second one has answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_alternates_arrives_as_it_was_sent() -> Result<(), Failure> {
    let gate = Gate::new("round-robin")?;
    let mut transport = pair::transport();
    transport.congestion_controller_factory(Arc::new(gate.clone()));
    let runtime: Arc<dyn Runtime> = Arc::new(Batching::new(Arc::new(TokioRuntime)));
    let pair = pair::connect(transport, [Arc::clone(&runtime), runtime]).await?;

    let data: Vec<u8> = (0..4_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut sender = pair.client.open_uni().await?;
    let sending = async {
        sender.write_all(&data).await?;
        sender.finish()?;
        Ok::<_, Failure>(())
    };
    let receiving = async { Ok::<_, Failure>(pair.server.accept_uni().await?.read_to_end(data.len()).await?) };
    let (sent, received) = tokio::join!(sending, receiving);
    sent?;
    assert!(received? == data);
    assert_eq!(gate.counts().faults, 0, "{:?}", gate.counts());
    Ok(())
}
