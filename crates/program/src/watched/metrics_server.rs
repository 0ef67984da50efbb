//! A server of HTTP for Prometheus: whatever it is asked for, it answers with the metrics.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;

use crate::failure::{Done, Failure, system_text};

use super::metrics;
use super::snapshot::Snapshot;

/// Port where Prometheus looks for metrics, if none is named.
pub const PORT: u16 = 9464;
/// Requests that are answered at once; who comes then is sent away.
const MOST_AT_ONCE: usize = 16;
/// Longest wait for a request, and for one that does not take its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A longer request is not answered.
const LONGEST: usize = 1 << 14;

/// The server. Its threads end with it, those that answer soon after.
pub struct MetricsServer {
    /// Address where it listens.
    pub address: SocketAddr,
    snapshot: Arc<Mutex<Option<Snapshot>>>,
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
        let snapshot = Arc::new(Mutex::new(None));
        let told = Arc::clone(&snapshot);
        let thread = thread::Builder::new().name("metrics".into()).spawn(move || serve(&listening, &closed, &told));
        Ok(Self { address, snapshot, open: Some(open), thread: Some(thread.map_err(failed)?) })
    }

    /// Takes the snapshot that is told from now on.
    pub fn tell(&self, snapshot: &Snapshot) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
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
fn serve(listening: &TcpListener, closed: &OwnedFd, told: &Arc<Mutex<Option<Snapshot>>>) {
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
fn answer_beside(stream: TcpStream, busy: &Arc<AtomicUsize>, told: &Arc<Mutex<Option<Snapshot>>>) {
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

fn answer(mut stream: TcpStream, told: &Mutex<Option<Snapshot>>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = read_head(&mut stream)?;
    let method = request.split(|&byte| byte == b' ').next().unwrap_or_default();
    if method != b"GET" && method != b"HEAD" {
        let refused =
            "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.write_all(refused.as_bytes());
    }
    let snapshot = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let body = snapshot.as_ref().map(metrics::text).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if method == b"GET" { stream.write_all(body.as_bytes()) } else { Ok(()) }
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
    fn a_port_is_free_again_after_the_server_and_taken_before() {
        let first = server();
        let taken = MetricsServer::new(&[first.address], "here").err();
        assert!(matches!(taken, Some(Failure::Run(text)) if text == "--metrics here: Address already in use"));
        let address = first.address;
        drop(first);
        MetricsServer::new(&[address], "here").expect("it is free again");
    }
}
