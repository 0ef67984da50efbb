//! The application at both ends: what the sender has written by when, and what the receiver makes of what it reads.

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
    /// When each message was due, so far. A delay counts from then, even if the socket had no room.
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
            Work::RequestResponse { .. } => source.asked(start),
        }
        source
    }

    /// A request has arrived.
    pub fn asked(&mut self, now: Instant) {
        if let Work::RequestResponse { bytes, count, .. } = self.work
            && (self.due.len() as u64) < *count
        {
            self.write(now, bytes.get());
        }
    }

    /// The bytes that it has written by `now`.
    pub fn written(&mut self, now: Instant) -> u64 {
        while let Some((due, bytes)) = self.next().filter(|(due, _)| *due <= now) {
            self.write(due, bytes);
        }
        self.written
    }

    /// When it writes next of its own accord.
    pub fn next_event(&self) -> Instant {
        self.next().map_or(Instant::NEVER, |(due, _)| due)
    }

    /// When each message was due.
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
}

impl<'a> Sink<'a> {
    /// Nothing is read yet.
    pub fn new(work: &'a Work) -> Self {
        let mut sink = Self { work, read: 0, end: 0, arrivals: Vec::new() };
        sink.end = sink.next_size();
        sink
    }

    /// So many bytes more are read. When to ask for the next answer, if it is time to.
    pub fn took(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        self.read += bytes;
        let before = self.arrivals.len();
        while self.read >= self.end {
            self.arrivals.push(now);
            self.end = self.end.saturating_add(self.next_size());
        }
        match self.work {
            Work::RequestResponse { think, .. } if self.arrivals.len() > before && !self.is_done() => {
                Some(now + *think)
            }
            _ => None,
        }
    }

    /// Whether everything has arrived.
    pub fn is_done(&self) -> bool {
        match self.work {
            Work::Bulk { bytes } => self.read >= bytes.get(),
            Work::Duration { .. } => false,
            Work::Messages { .. } | Work::RequestResponse { .. } => self.end == ENDLESS,
        }
    }

    /// Bytes read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// How long each message took of those that were due.
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
            Work::Bulk { .. } | Work::Duration { .. } => None,
        };
        size.map_or(ENDLESS, |size| size.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::Bytes;

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
        assert_eq!((sink.took(at(3), 9), sink.took(at(4), 1)), (None, Some(at(9))));
        source.asked(at(10));
        source.asked(at(11));
        assert_eq!(source.written(at(12)), 20);
        assert_eq!((sink.took(at(13), 10), sink.is_done()), (None, true));
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
