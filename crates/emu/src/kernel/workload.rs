//! The application at both ends: what the sender has written by when, and what the receiver makes of what it reads.

use std::collections::VecDeque;

use weftway_path::{Instant, Span};

use crate::kernel::order::Work;

/// More than any transfer writes.
const ENDLESS: u64 = u64::MAX;

/// The sender's application.
#[derive(Debug)]
pub(super) struct Source<'a> {
    work: &'a Work,
    start: Instant,
    written: u64,
    /// Times at which each message was due, so far. A delay counts from then, even if the socket had no room.
    due: Vec<Instant>,
}

impl<'a> Source<'a> {
    /// An application that starts now.
    pub fn new(work: &'a Work, start: Instant) -> Self {
        let mut source = Self { work, start, written: 0, due: Vec::new() };
        match work {
            Work::Bulk { bytes } => source.written = bytes.get(),
            Work::Duration { .. } => source.written = ENDLESS,
            Work::Messages { .. } => {}
            Work::RequestResponse { .. } | Work::Web { .. } => source.asked(start),
        }
        source
    }

    /// A request has arrived.
    pub fn asked(&mut self, now: Instant) {
        match self.work {
            Work::RequestResponse { bytes, count, .. } if (self.due.len() as u64) < *count => {
                self.write(now, bytes.get());
            }
            Work::Web { objects, .. } => {
                if let Some(object) = objects.get(self.due.len()) {
                    self.write(now, object.bytes.get());
                }
            }
            _ => {}
        }
    }

    /// The bytes that it has written by `now`.
    pub fn written(&mut self, now: Instant) -> u64 {
        while let Some((due, bytes)) = self.next().filter(|(due, _)| *due <= now) {
            self.write(due, bytes);
        }
        self.written
    }

    /// Time at which it writes next of its own accord.
    pub fn next_event(&self) -> Instant {
        self.next().map_or(Instant::NEVER, |(due, _)| due)
    }

    /// Times at which each message was due.
    pub fn into_due(self) -> Vec<Instant> {
        self.due
    }

    fn next(&self) -> Option<(Instant, u64)> {
        let Work::Messages { written } = self.work else { return None };
        written.get(self.due.len()).map(|(after, bytes)| (self.start + *after, bytes.get()))
    }

    fn write(&mut self, due: Instant, bytes: u64) {
        self.due.push(due);
        self.written += bytes.max(1);
    }
}

/// The receiver's application.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    work: &'a Work,
    read: u64,
    /// The byte after the next message's last.
    end: u64,
    arrivals: Vec<Instant>,
    /// Times at which to ask for more, soonest first.
    requests: VecDeque<Instant>,
}

impl<'a> Sink<'a> {
    /// Receiver's application before anything is read.
    pub fn new(work: &'a Work) -> Self {
        let mut sink = Self { work, read: 0, end: 0, arrivals: Vec::new(), requests: VecDeque::new() };
        sink.end = sink.next_size();
        sink
    }

    /// Takes in that so many bytes more are read.
    pub fn took(&mut self, now: Instant, bytes: u64) {
        self.read += bytes;
        while self.read >= self.end {
            self.arrivals.push(now);
            self.end = self.end.saturating_add(self.next_size());
            self.follow(now);
        }
    }

    /// The requests that follow from what has just arrived.
    fn follow(&mut self, now: Instant) {
        match self.work {
            Work::RequestResponse { think, .. } if !self.is_done() => self.asks_at(now + *think, 1),
            Work::Web { objects, think } => {
                let children = objects.get(self.arrivals.len() - 1).map_or(0, |object| object.children);
                self.asks_at(now + *think, children);
            }
            _ => {}
        }
    }

    /// Adds so many requests that are due then, or after those before them if that is later.
    pub fn asks_at(&mut self, due: Instant, count: u64) {
        let due = self.requests.back().map_or(due, |last| due.max(*last));
        self.requests.extend((0..count).map(|_| due));
    }

    /// Time at which the next request is due.
    pub fn next_request(&self) -> Instant {
        self.requests.front().copied().unwrap_or(Instant::NEVER)
    }

    /// Returns true if a request is due now; it is then sent.
    pub fn asks(&mut self, now: Instant) -> bool {
        self.next_request() <= now && self.requests.pop_front().is_some()
    }

    /// Returns true if everything has arrived.
    pub fn is_done(&self) -> bool {
        match self.work {
            Work::Bulk { bytes } => self.read >= bytes.get(),
            Work::Duration { .. } => false,
            Work::Messages { .. } | Work::RequestResponse { .. } | Work::Web { .. } => self.end == ENDLESS,
        }
    }

    /// Bytes read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Time that each message took of those that were due.
    pub fn delays(&self, due: &[Instant]) -> Vec<Option<Span>> {
        let delay = |(k, due): (usize, &Instant)| self.arrivals.get(k).map(|arrival| arrival.since(*due));
        due.iter().enumerate().map(delay).collect()
    }

    /// The size of the message after those that have arrived; endless after the last.
    fn next_size(&self) -> u64 {
        let next = self.arrivals.len();
        let size = match self.work {
            Work::Messages { written } => written.get(next).map(|(_, bytes)| bytes.get()),
            Work::RequestResponse { bytes, count, .. } => ((next as u64) < *count).then_some(bytes.get()),
            Work::Web { objects, .. } => objects.get(next).map(|object| object.bytes.get()),
            Work::Bulk { .. } | Work::Duration { .. } => None,
        };
        size.map_or(ENDLESS, |size| size.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::Bytes;
    use weftway_scenario::config::WebObject;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// The application starts at 20 ms: messages are due at 20 and 30 ms, and the second is empty.
    #[test]
    fn a_delay_counts_from_when_a_message_was_due() {
        let written = vec![(Span::ZERO, Bytes::new(100)), (Span::from_millis(10), Bytes::ZERO)];
        let work = Work::Messages { written };
        let mut source = Source::new(&work, at(20));
        assert_eq!((source.written(at(25)), source.next_event()), (100, at(30)));
        assert_eq!((source.written(at(33)), source.next_event()), (101, Instant::NEVER));
        let mut sink = Sink::new(&work);
        sink.took(at(40), 99);
        assert!(!sink.is_done());
        sink.took(at(41), 2);
        assert!(sink.is_done());
        let delays = sink.delays(&source.into_due());
        assert_eq!(delays, [Some(Span::from_millis(21)), Some(Span::from_millis(11))]);
    }

    #[test]
    fn what_was_never_due_has_no_delay_and_what_never_came_has_none() {
        let written = (0..3).map(|k| (Span::from_millis(10 * k), Bytes::new(5))).collect();
        let work = Work::Messages { written };
        let mut source = Source::new(&work, at(0));
        source.written(at(15));
        let mut sink = Sink::new(&work);
        sink.took(at(18), 7);
        assert_eq!(sink.delays(&source.into_due()), [Some(Span::from_millis(18)), None]);
    }

    /// Two answers of 10 bytes: the first unasked, the second 5 ms after the first has arrived, no third.
    #[test]
    fn an_answer_calls_for_the_next_request_until_the_last() {
        let work = Work::RequestResponse { bytes: Bytes::new(10), think: Span::from_millis(5), count: 2 };
        let (mut source, mut sink) = (Source::new(&work, at(0)), Sink::new(&work));
        assert_eq!(source.written(at(1)), 10);
        sink.took(at(3), 9);
        assert_eq!(sink.next_request(), Instant::NEVER);
        sink.took(at(4), 1);
        assert_eq!((sink.next_request(), sink.asks(at(8)), sink.asks(at(9))), (at(9), false, true));
        source.asked(at(10));
        source.asked(at(11));
        assert_eq!(source.written(at(12)), 20);
        sink.took(at(13), 10);
        assert_eq!((sink.next_request(), sink.is_done()), (Instant::NEVER, true));
    }

    /// A document of 10 bytes names a style sheet of 4 and a picture of 5; the style sheet names a font of 6.
    #[test]
    fn an_object_of_a_page_is_asked_for_when_what_names_it_has_arrived() {
        let object = |bytes, children| WebObject { bytes: Bytes::new(bytes), children };
        let objects = vec![object(10, 2), object(4, 1), object(5, 0), object(6, 0)];
        let work = Work::Web { objects, think: Span::from_millis(5) };
        let (mut source, mut sink) = (Source::new(&work, at(0)), Sink::new(&work));
        assert_eq!(source.written(at(0)), 10);
        sink.took(at(20), 10);
        assert_eq!(
            (sink.asks(at(24)), sink.asks(at(25)), sink.asks(at(25)), sink.asks(at(25))),
            (false, true, true, false)
        );
        source.asked(at(30));
        source.asked(at(30));
        assert_eq!(source.written(at(30)), 19);
        sink.took(at(40), 9);
        assert_eq!((sink.next_request(), sink.is_done()), (at(45), false));
        source.asked(at(50));
        sink.took(at(60), 6);
        assert!(sink.is_done());
        assert_eq!(sink.delays(&source.into_due()), [20, 10, 10, 10].map(|ms| Some(Span::from_millis(ms))));
    }

    #[test]
    fn a_duration_never_runs_dry_and_nothing_is_soon_done() {
        let work = Work::Duration { span: Span::from_millis(1) };
        let (mut source, mut sink) = (Source::new(&work, at(0)), Sink::new(&work));
        assert_eq!(source.written(at(9)), ENDLESS);
        sink.took(at(9), 1 << 40);
        assert!(!sink.is_done());
        assert!(Sink::new(&Work::Messages { written: Vec::new() }).is_done());
        assert!(Sink::new(&Work::Bulk { bytes: Bytes::ZERO }).is_done());
    }
}
