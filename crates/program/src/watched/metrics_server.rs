//! A server of HTTP for Prometheus, and for encoders that ask how much they may send.
//!
//! At [`PIPES`] it answers with the pipes as JSON, at all else with the metrics.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;

use serde_json::{Value, json};
use weftway_transfer::PipeProgress;

use crate::failure::{Done, Failure, system_text};
use crate::output::json_text;

use super::metrics;
use super::snapshot::Snapshot;

/// Place of the pipes.
const PIPES: &[u8] = b"/pipes";
/// Port where Prometheus looks for metrics, if none is named.
pub const PORT: u16 = 9464;
/// Requests that are answered at once; who comes then is sent away.
const MOST_AT_ONCE: usize = 16;
/// Longest wait for a request, and for one that does not take its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A longer request is not answered.
const LONGEST: usize = 1 << 14;

/// Answers of the server.
#[derive(Default)]
struct Told {
    snapshot: Mutex<Option<Snapshot>>,
    pipes: Mutex<Vec<PipeProgress>>,
}

/// The server. Its threads end with it, those that answer soon after.
pub struct MetricsServer {
    /// Address where it listens.
    pub address: SocketAddr,
    told: Arc<Told>,
    /// Its other end is closed when the server ends.
    open: Option<OwnedFd>,
    thread: Option<thread::JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at the first of these addresses that can be had. `named` is what the user called them.
    pub fn new(addresses: &[SocketAddr], named: &str) -> Done<Self> {
        let failed = |error: io::Error| Failure::run(format!("--metrics {named}: {}", system_text(&error)));
        let listening = TcpListener::bind(addresses).map_err(failed)?;
        listening.set_nonblocking(true).map_err(failed)?;
        let address = listening.local_addr().map_err(failed)?;
        let (closed, open) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let told = Arc::new(Told::default());
        let known = Arc::clone(&told);
        let thread = thread::Builder::new().name("metrics".into()).spawn(move || serve(&listening, &closed, &known));
        Ok(Self { address, told, open: Some(open), thread: Some(thread.map_err(failed)?) })
    }

    /// Takes the snapshot that is told from now on.
    pub fn tell(&self, snapshot: &Snapshot) {
        *self.told.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
    }

    /// Takes the pipes that are told from now on: called ten times a second, so that an encoder learns soon of a rate
    /// that falls.
    pub fn tell_pipes(&self, pipes: &[PipeProgress]) {
        pipes.clone_into(&mut self.told.pipes.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.open = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers until `closed` is.
fn serve(listening: &TcpListener, closed: &OwnedFd, told: &Arc<Told>) {
    let busy = Arc::new(AtomicUsize::new(0));
    loop {
        let mut waited = [PollFd::new(listening, PollFlags::IN), PollFd::new(closed, PollFlags::IN)];
        if poll(&mut waited, None).is_err_and(|error| error != rustix::io::Errno::INTR) {
            return;
        }
        if !waited[1].revents().is_empty() {
            return;
        }
        match listening.accept() {
            Ok((stream, _)) if busy.load(Ordering::Relaxed) < MOST_AT_ONCE => answer_beside(stream, &busy, told),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // There are no descriptors left, for example.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Answers on a thread of its own, so that one who is slow holds up no others.
fn answer_beside(stream: TcpStream, busy: &Arc<AtomicUsize>, told: &Arc<Told>) {
    let (here, told) = (Arc::clone(busy), Arc::clone(told));
    busy.fetch_add(1, Ordering::Relaxed);
    let answering = move || {
        let _ = answer(stream, &told);
        here.fetch_sub(1, Ordering::Relaxed);
    };
    if thread::Builder::new().name("metrics".into()).spawn(answering).is_err() {
        busy.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(mut stream: TcpStream, told: &Told) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = read_head(&mut stream)?;
    let mut words = request.split(|&byte| byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if method != b"GET" && method != b"HEAD" {
        let refused =
            "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.write_all(refused.as_bytes());
    }
    let (kind, body) = if target.split(|&byte| byte == b'?').next() == Some(PIPES) {
        ("application/json", pipes(&told.pipes.lock().unwrap_or_else(PoisonError::into_inner)))
    } else {
        let snapshot = told.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ("text/plain; version=0.0.4; charset=utf-8", snapshot.as_ref().map(metrics::text).unwrap_or_default())
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if method == b"GET" { stream.write_all(body.as_bytes()) } else { Ok(()) }
}

/// The pipes as `--json` has them, without their targets: others than the user may ask.
fn pipes(pipes: &[PipeProgress]) -> String {
    let mut told = json!(pipes);
    for pipe in told.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        pipe.remove("deliver");
    }
    json_text(&told) + "\n"
}

/// Reads a request to the empty line at its end. All of it has to come in time, and not only each part.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let (mut head, mut part) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > LONGEST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let length = stream.read(&mut part)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&part[..length]);
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use weftway_transfer::PipeRate;

    use super::super::snapshot::tests::{progress, snapshot};
    use super::*;

    fn asked(server: &MetricsServer, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn server() -> MetricsServer {
        MetricsServer::new(&["127.0.0.1:0".parse().expect("an address")], "127.0.0.1:0").expect("a free port")
    }

    #[test]
    fn the_last_snapshot_is_told_and_one_who_is_slow_holds_up_nobody() {
        let server = server();
        let _slow = TcpStream::connect(server.address).expect("it listens");
        let nothing = asked(&server, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(nothing.starts_with("HTTP/1.1 200 OK\r\n") && nothing.ends_with("\r\n\r\n"), "{nothing}");
        server.tell(&snapshot(&progress()));
        let told = asked(&server, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        assert!(told.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{told}");
        assert!(told.contains("\nweft_connected 1.0\n"), "{told}");
        let head = asked(&server, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.ends_with("\r\n\r\n") && !head.contains("Content-Length: 0\r\n"), "{head}");
        assert!(asked(&server, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn an_encoder_is_told_what_it_may_send() {
        let server = server();
        let body = |told: String| told.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).expect("a body");
        assert_eq!(body(asked(&server, "GET /pipes HTTP/1.1\r\n\r\n")), "[]\n");
        let rate = PipeRate { now_bps: 8_000_000, next_bps: 5_000_000 };
        let (name, deliver) = ("camera".to_owned(), "secret.example:9001".to_owned());
        server.tell_pipes(&[PipeProgress { name, deliver, rate, ..PipeProgress::default() }]);
        let told = asked(&server, "GET /pipes?x=1 HTTP/1.1\r\n\r\n");
        assert!(told.contains("\r\nContent-Type: application/json\r\n") && !told.contains("secret"), "{told}");
        let told: Value = serde_json::from_str(&body(told)).expect("JSON");
        assert_eq!(told[0]["rate"], json!({ "now_bps": 8_000_000, "next_bps": 5_000_000 }));
        assert_eq!(told[0]["name"], "camera");
    }

    #[test]
    fn a_port_is_free_again_after_the_server_and_taken_before() {
        let first = server();
        let taken = MetricsServer::new(&[first.address], "here").err();
        assert!(matches!(taken, Some(Failure::Run(text)) if text == "--metrics here: Address already in use"));
        let address = first.address;
        drop(first);
        MetricsServer::new(&[address], "here").expect("it is free again");
    }
}
