//! The sender's end of a transfer.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use nix::poll::PollFlags;
use weftway_path::{Instant, Span};

use crate::EmuError;
use crate::kernel::order::Opener;
use crate::kernel::run::{Joined, REQUEST, Run, Unconnected, broke_off, check};
use crate::kernel::sample::{Observer, Sample};
use crate::kernel::workload::Source;

/// Bytes that are written, again and again.
static PAYLOAD: [u8; 4 << 20] = [0; 4 << 20];

/// Time from one look at the acknowledgements to the next.
const GRACE_STEP: Duration = Duration::from_millis(1);

/// The round trip that acknowledgements are waited for is not taken to be longer.
const TRIP: Span = Span::from_secs(1);

/// An acknowledgement may be held back for so long: the kernel's `TCP_DELACK_MIN`.
const DELAYED_ACK: Span = Span::from_millis(40);

/// State of the sender at the end.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub joined: Option<Joined>,
    /// Times at which each message was due.
    pub due: Vec<Instant>,
    pub samples: Vec<Sample>,
    pub last: Option<Sample>,
}

/// Writes what the application writes, and looks at the connection from time to time.
pub(super) fn send(run: &Run, socket: Unconnected) -> Result<Sent, EmuError> {
    let Some(joined) = run.join(socket)? else { return Ok(Sent::default()) };
    let mut sender = Sender::new(run, &joined.stream);
    let due = match sender.asked(&joined)? {
        Some(start) => sender.write(Source::new(&run.order.work, start))?,
        None => Vec::new(),
    };
    let last = sender.settle()?;
    let samples = sender.samples;
    Ok(Sent { joined: Some(joined), due, samples, last: Some(last) })
}

struct Sender<'a> {
    run: &'a Run<'a>,
    stream: &'a TcpStream,
    observer: Observer,
    samples: Vec<Sample>,
    next_sample: Instant,
    /// Bytes of requests that have come, less those of requests answered.
    heard: usize,
    /// True if the socket took less than it was given. An application waits then until the socket is writable, which it
    /// is with a third of its buffer free; trying earlier puts data in by the drop.
    full: bool,
}

impl<'a> Sender<'a> {
    fn new(run: &'a Run<'a>, stream: &'a TcpStream) -> Self {
        let observer = run.observer(Opener::Sender);
        Self { run, stream, observer, samples: Vec::new(), next_sample: run.clock.now(), heard: 0, full: false }
    }

    /// Time at which the application starts: at once in an upload, with the request in a download. `None`: never.
    fn asked(&mut self, joined: &Joined) -> Result<Option<Instant>, EmuError> {
        if joined.opened() {
            return Ok(Some(joined.at));
        }
        while self.goes_on(self.run.clock.now()) {
            if self.request()? {
                return Ok(Some(self.run.clock.now()));
            }
            self.wait(PollFlags::POLLIN, Instant::NEVER)?;
        }
        Ok(None)
    }

    /// Until the receiver has everything, or time is over. When each message was due.
    fn write(&mut self, mut source: Source) -> Result<Vec<Instant>, EmuError> {
        let listens = self.run.order.work.has_requests();
        let listen = if listens { PollFlags::POLLIN } else { PollFlags::empty() };
        let mut sent = 0;
        let mut now = self.run.clock.now();
        while self.goes_on(now) {
            self.sample(now)?;
            while listens && self.request()? {
                source.asked(now);
            }
            let written = source.written(now);
            let bytes = if self.full { 0 } else { self.push(written - sent)? };
            sent += bytes;
            if bytes == 0 {
                let room = if sent < written { PollFlags::POLLOUT } else { PollFlags::empty() };
                let found = self.wait(room | listen, source.next_event())?;
                self.full &= !found.intersects(PollFlags::POLLOUT | PollFlags::POLLERR | PollFlags::POLLHUP);
            }
            now = self.run.clock.now();
        }
        Ok(source.into_due())
    }

    fn goes_on(&self, now: Instant) -> bool {
        self.run.goes_on(now) && !self.run.read.load(Ordering::Acquire)
    }

    fn wait(&self, events: PollFlags, until: Instant) -> Result<PollFlags, EmuError> {
        let found = self.run.wait(self.stream, events, until.min(self.next_sample))?;
        check(self.stream, "sending").map(|()| found)
    }

    /// Gives the socket at most so many bytes; how many it took.
    fn push(&mut self, bytes: u64) -> Result<u64, EmuError> {
        let bytes = bytes.min(self.run.order.write.get()).min(PAYLOAD.len() as u64) as usize;
        if bytes == 0 {
            return Ok(0);
        }
        let mut stream = self.stream;
        let taken = match stream.write(&PAYLOAD[..bytes]) {
            Ok(taken) => taken,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(broke_off("sending")(error)),
        };
        self.full = taken < bytes;
        Ok(taken as u64)
    }

    /// Returns true if another request is there. Of several, each is answered by itself.
    fn request(&mut self) -> Result<bool, EmuError> {
        let mut stream = self.stream;
        match stream.read(&mut [0; REQUEST]) {
            Ok(0) => return Err(EmuError::Transfer("the receiver closed the connection".to_owned())),
            Ok(bytes) => self.heard += bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(broke_off("sending")(error)),
        }
        let whole = self.heard >= REQUEST;
        self.heard -= if whole { REQUEST } else { 0 };
        Ok(whole)
    }

    /// A sample, if it is time.
    fn sample(&mut self, now: Instant) -> Result<(), EmuError> {
        if now < self.next_sample {
            return Ok(());
        }
        let sample = self.look()?;
        self.samples.push(sample);
        // What was missed is not made up for.
        self.next_sample = now + self.run.order.sample_every;
        Ok(())
    }

    fn look(&mut self) -> Result<Sample, EmuError> {
        let at = self.run.clock.now().since(Instant::ZERO);
        self.observer.look(self.stream, at).map_err(EmuError::system("reading the connection's statistics"))
    }

    /// The last sample: when everything is acknowledged, or should have been since all was read. There is nothing to
    /// wait for where the transfer was cut off.
    fn settle(&mut self) -> Result<Sample, EmuError> {
        let mut last = self.look()?;
        let trip = last.paths.iter().map(|path| path.srtt).max().unwrap_or(TRIP).min(TRIP);
        let until = self.run.clock.now() + trip + DELAYED_ACK;
        let cut_off = !self.run.goes_on(self.run.clock.now());
        while !cut_off && last.in_doubt() && self.run.clock.now() < until {
            thread::sleep(GRACE_STEP);
            last = self.look()?;
        }
        Ok(last)
    }
}
