//! Looks names up, on threads of its own: the system's resolver waits. How many names wait for a thread is bounded.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use mio::Waker;

/// How many names wait for a thread, for each thread.
const WAITING: usize = 32;

/// Finds the addresses of a name and a port.
pub type Lookup = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// That of the system.
pub fn system() -> Lookup {
    Arc::new(|name, port| Ok((name, port).to_socket_addrs()?.collect()))
}

/// The server of names that the system asks first (resolv.conf(5)).
pub fn server_of_system() -> Option<SocketAddr> {
    first_server(&std::fs::read_to_string("/etc/resolv.conf").ok()?)
}

fn first_server(text: &str) -> Option<SocketAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|&word| word == "nameserver")?;
        words.next()?.parse::<IpAddr>().ok()
    });
    servers.map(|ip| SocketAddr::new(ip, 53)).next()
}

/// A name to look up. `T` comes back with the answer.
struct Question<T> {
    tag: T,
    name: String,
    port: u16,
}

/// What was found.
pub struct Answer<T> {
    /// What came with the name.
    pub tag: T,
    /// The name.
    pub name: String,
    /// Its addresses.
    pub addresses: io::Result<Vec<SocketAddr>>,
}

/// Threads that look names up. They end when this does; one that is still waiting for the system, when that answers.
pub struct Resolver<T> {
    questions: SyncSender<Question<T>>,
    answers: Receiver<Answer<T>>,
}

impl<T: Send + 'static> Resolver<T> {
    /// With so many threads; `waker` is woken for each answer.
    pub fn new(threads: usize, lookup: &Lookup, waker: Waker) -> io::Result<Self> {
        let (questions, asked) = sync_channel(WAITING * threads);
        let (answer, answers) = channel();
        let (asked, waker) = (Arc::new(Mutex::new(asked)), Arc::new(waker));
        for number in 0..threads {
            let (asked, answer, lookup, waker) = (asked.clone(), answer.clone(), lookup.clone(), waker.clone());
            thread::Builder::new()
                .name(format!("resolver {number}"))
                .spawn(move || serve(&asked, &answer, &lookup, &waker))?;
        }
        Ok(Self { questions, answers })
    }

    /// Looks a name up. False if as many wait as may.
    pub fn ask(&self, tag: T, name: &str, port: u16) -> bool {
        self.questions.try_send(Question { tag, name: name.to_owned(), port }).is_ok()
    }

    /// The next answer that has come.
    pub fn next_answer(&self) -> Option<Answer<T>> {
        self.answers.try_recv().ok()
    }
}

fn serve<T>(asked: &Mutex<Receiver<Question<T>>>, answer: &Sender<Answer<T>>, lookup: &Lookup, waker: &Waker) {
    loop {
        // Held while this thread waits: the others wait for the lock instead, which is the same.
        let question = asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Question { tag, name, port }) = question else { return };
        let addresses = lookup(&name, port);
        if answer.send(Answer { tag, name, addresses }).is_err() {
            return;
        }
        // A relay that is gone has nobody to wake.
        let _ = waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll, Token};

    use super::*;

    #[test]
    fn every_answer_wakes_and_no_more_wait_than_may() {
        let mut poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(0)).unwrap();
        let (release, held) = channel::<()>();
        let held = Mutex::new(held);
        let lookup: Lookup = Arc::new(move |name, port| {
            held.lock().unwrap().recv().ok();
            if name == "none" { Err(io::ErrorKind::NotFound.into()) } else { Ok(vec![([192, 0, 2, 1], port).into()]) }
        });
        let resolver = Resolver::new(2, &lookup, waker).unwrap();
        // Two threads hold one each, sooner or later.
        let asked = (0..).take_while(|&tag| resolver.ask(tag, if tag == 0 { "none" } else { "some" }, 80)).count();
        assert!((2 * WAITING..=2 * WAITING + 2).contains(&asked), "{asked}");
        drop(release);
        let (mut found, mut events) = (Vec::new(), Events::with_capacity(8));
        while found.len() < asked {
            poll.poll(&mut events, Some(Duration::from_secs(20))).unwrap();
            assert!(!events.is_empty(), "waited for an answer");
            while let Some(answer) = resolver.next_answer() {
                assert_eq!(answer.addresses.is_ok(), answer.tag != 0);
                found.push(answer.tag);
            }
        }
        found.sort_unstable();
        assert!(found.into_iter().eq(0..asked));
    }
}
