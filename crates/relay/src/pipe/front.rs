//! The end of pipes where the sources of datagrams are: a local socket for each pipe.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use mio::Token;
use weftway_mux::{Mux, OpenError, Read, StreamError, StreamId};
use weftway_path::{Instant, Span};

use crate::datagram::{DatagramCounts, Drops, Sent};
use crate::flow::READ;
use crate::front::{Front, next_ready};
use crate::limits::{BURST, MOST_DATAGRAMS, WAIT_FOR_ANSWER};
use crate::pipe::end::{CLASS, End, Ended, Given, Setting};
use crate::pipe::sources::Sources;
use crate::refusal::{ABORTED, CONNECTED, Refusal};
use crate::socket::Poller;
use crate::target::{PipeTarget, Purpose};
use crate::udp::{Marked, MarkedRoom, Udp};
use crate::view::{FlowView, PipeView, WayCounts};

/// Time after which a pipe is opened again that the relay has ended.
const PAUSE: Span = Span::from_secs(1);
/// Time after which it is asked for again that the relay could not open, though it may.
const LONG_PAUSE: Span = Span::from_secs(5);
/// Bytes that the kernel keeps until they are taken: 300 Mbit/s for 50 ms.
const KEPT: usize = 2 << 20;
/// Time between two looks for sources that are idle.
const LOOK: Span = Span::from_secs(10);

/// A pipe, as the user wants it.
#[derive(Clone, Debug)]
pub struct Pipe {
    /// Its name for the user, if it has one.
    pub name: Option<String>,
    /// Where it takes datagrams; a port of 0 is one that is free.
    pub listen: SocketAddr,
    /// Where they lead, and for how long they are of use.
    pub target: PipeTarget,
    /// Datagrams that no packet holds travel in pieces.
    pub pieces: bool,
}

/// Stage of a pipe.
enum Stage {
    /// It is to be opened, once this time has come.
    Closed(Instant),
    /// It waits for the relay's word, until then.
    Opening(Box<End>, Instant),
    /// Its datagrams are carried.
    Open(Box<End>),
    /// The relay does not allow it.
    Refused,
}

/// Datagrams that were dropped at this end.
#[derive(Clone, Copy, Debug, Default)]
struct Dropped {
    counts: DatagramCounts,
    not_open: u64,
    too_many_sources: u64,
    malformed: u64,
}

/// A pipe.
struct Local {
    name: String,
    purpose: Purpose,
    listen: SocketAddr,
    target: PipeTarget,
    pieces: bool,
    udp: Udp,
    sources: Sources,
    stage: Stage,
    dropped: Dropped,
    carried: [u64; 2],
    /// Datagrams of connections before, to the relay and from it.
    before: [WayCounts; 2],
    /// The user knows that datagrams were too long, or came from too many sources.
    told: [bool; 2],
    /// The relay has carried it before: what it refuses for a while it is asked for again.
    was_open: bool,
    /// The user knows that it is asked for again.
    told_again: bool,
}

/// Local sockets, each of which is the end of a pipe.
pub struct Pipes {
    poller: Poller,
    locals: Vec<Local>,
    by_stream: BTreeMap<StreamId, usize>,
    may_open: bool,
    has_datagrams: bool,
    /// Some socket has more than was read.
    has_more: bool,
    refusals: BTreeMap<&'static str, u64>,
    notes: VecDeque<String>,
    /// Why none of the pipes is carried.
    failure: Option<String>,
    look_at: Instant,
    room: MarkedRoom,
}

impl Pipes {
    /// Takes datagrams where each of these says.
    pub fn listen(pipes: Vec<Pipe>) -> io::Result<Self> {
        let poller = Poller::new()?;
        let local = |(number, pipe): (usize, Pipe)| {
            let udp = Udp::bind(pipe.listen, poller.registry(), Token(number))
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", pipe.listen)))?;
            udp.keep(KEPT);
            udp.tell_marks();
            let listen = udp.address()?;
            Ok(Local {
                name: pipe.name.unwrap_or_else(|| listen.to_string()),
                purpose: Purpose::Pipe(pipe.target.clone()),
                listen,
                target: pipe.target,
                pieces: pipe.pieces,
                udp,
                sources: Sources::default(),
                stage: Stage::Closed(Instant::ZERO),
                dropped: Dropped::default(),
                carried: [0; 2],
                before: Default::default(),
                told: [false; 2],
                was_open: false,
                told_again: false,
            })
        };
        Ok(Self {
            locals: pipes.into_iter().enumerate().map(local).collect::<io::Result<_>>()?,
            poller,
            by_stream: BTreeMap::new(),
            may_open: true,
            has_datagrams: false,
            has_more: false,
            refusals: BTreeMap::new(),
            notes: VecDeque::new(),
            failure: None,
            look_at: Instant::ZERO,
            room: MarkedRoom::new(READ),
        })
    }

    /// Takes note of what has come at sockets.
    fn collect(&mut self) {
        let locals = &mut self.locals;
        self.poller.collect(|event| {
            if let Some(local) = locals.get_mut(event.token().0) {
                local.udp.note();
            }
        });
    }

    /// Gives what the relay has sent to where it belongs.
    fn take_datagrams(&mut self, now: Instant, mux: &mut Mux) {
        for _ in 0..MOST_DATAGRAMS {
            if !self.has_datagrams {
                return;
            }
            let Some((place, id, bytes)) = mux.next_datagram_at() else {
                self.has_datagrams = false;
                return;
            };
            if let Some(local) = self.by_stream.get(&id).and_then(|&at| self.locals.get_mut(at))
                && let Stage::Opening(end, _) | Stage::Open(end) = &mut local.stage
                && let Some(given) = end.take(now, mux, place, bytes)
            {
                local.give(now, given);
            }
        }
    }

    /// Opens pipes that are to be.
    fn open(&mut self, now: Instant, mux: &mut Mux) {
        for (at, local) in self.locals.iter_mut().enumerate() {
            if !self.may_open || !matches!(local.stage, Stage::Closed(until) if until <= now) {
                continue;
            }
            match mux.open(now, CLASS.number(), local.purpose.to_string().as_bytes(), None) {
                Ok(id) => {
                    let PipeTarget { latency, order, .. } = local.target;
                    let setting = Setting { latency, order, may_cut: local.pieces };
                    let mut end = Box::new(End::new(now, id, setting, b""));
                    // It is open.
                    let _ = end.flush(now, mux);
                    local.stage = Stage::Opening(end, now + WAIT_FOR_ANSWER);
                    local.sources.forget_marks();
                    self.by_stream.insert(id, at);
                }
                Err(OpenError::TooMany) => self.may_open = false,
                // No target is of that kind.
                Err(OpenError::Class(_) | OpenError::Target(_)) => local.stage = Stage::Refused,
            }
        }
    }

    /// Has a pipe do what it can.
    fn step(&mut self, now: Instant, at: usize, mux: &mut Mux) {
        let Some(local) = self.locals.get_mut(at) else { return };
        let ended = match &mut local.stage {
            Stage::Closed(_) | Stage::Refused => Ok(()),
            Stage::Opening(end, by) => match answer(now, end.id(), *by, mux) {
                Ok(false) => end.flush(now, mux),
                Ok(true) => {
                    self.notes.push_back(format!("{} leads to {}", local.listen, local.target.target));
                    let stage = std::mem::replace(&mut local.stage, Stage::Closed(now));
                    if let Stage::Opening(end, _) = stage {
                        local.stage = Stage::Open(end);
                        (local.was_open, local.told_again) = (true, false);
                    }
                    Ok(())
                }
                Err(ended) => Err(ended),
            },
            Stage::Open(_) => Ok(()),
        };
        let is_opening = matches!(local.stage, Stage::Opening(..));
        let ended = ended.and_then(|()| local.turn(now, mux, &mut self.room));
        self.has_more |= matches!(ended, Ok(true));
        self.notes.extend(local.take_warning());
        let Err(ended) = ended else { return };
        if let Some(id) = local.close(now + PAUSE) {
            let _ = mux.reset(id, ABORTED);
            self.by_stream.remove(&id);
        }
        let refusal = match ended {
            Ended::Reset(code) => Refusal::from_code(code),
            Ended::Broken => Refusal::General,
        };
        if is_opening {
            *self.refusals.entry(refusal.name()).or_default() += 1;
            let why = format!("the relay refuses a pipe to {}: {}", local.target.target, refusal.of_pipe());
            if ended == Ended::Reset(ABORTED) || refusal.may_pass(local.was_open) {
                local.stage = Stage::Closed(now + LONG_PAUSE);
                if !std::mem::replace(&mut local.told_again, true) {
                    let every = LONG_PAUSE.as_millis() / 1000;
                    self.notes.push_back(format!("{why}; it is asked again every {every} s"));
                }
                return;
            }
            local.stage = Stage::Refused;
            if self.locals.iter().all(|local| matches!(local.stage, Stage::Refused)) {
                self.failure = Some(why);
            } else {
                self.notes.push_back(why);
            }
        } else {
            self.notes.push_back(format!("the relay has ended the pipe to {}", local.target.target));
        }
    }
}

/// Returns true if the relay has said that the pipe leads where it should.
fn answer(now: Instant, id: StreamId, by: Instant, mux: &mut Mux) -> Result<bool, Ended> {
    match mux.read(id) {
        Ok(Read::Wait) if now < by => Ok(false),
        Ok(Read::Wait) => Err(Ended::Reset(Refusal::TimedOut.code().into())),
        Ok(Read::Bytes(bytes)) if bytes.first() == Some(&CONNECTED) => {
            mux.took(now, id, 1).map(|()| true).map_err(|_| Ended::Broken)
        }
        Err(StreamError::Reset(code)) => Err(Ended::Reset(code)),
        // No relay of this version says that.
        Ok(Read::Bytes(_) | Read::End) | Err(StreamError::NotOpen | StreamError::Finished) => Err(Ended::Broken),
    }
}

impl Local {
    /// Takes what has come at the socket, some of it, and gives what is due. Returns true if there is more.
    fn turn(&mut self, now: Instant, mux: &mut Mux, room: &mut MarkedRoom) -> Result<bool, Ended> {
        let Stage::Open(end) = &mut self.stage else { return Ok(self.discard(room)) };
        end.turn(now, mux)?;
        let mut more = true;
        for _ in 0..BURST {
            match self.udp.receive_marked(room) {
                None => {
                    more = false;
                    break;
                }
                // It tells of an answer that did not arrive.
                Some(Err(_)) => {}
                Some(Ok(Marked { source, mark, waited, data })) => match self.sources.number(now, source) {
                    None => self.dropped.too_many_sources += 1,
                    Some(number) => {
                        if self.sources.is_new_mark(now, number, mark) {
                            end.mark(number, mark);
                        }
                        let sent = end.send(now, waited, mux, number, data);
                        self.dropped.counts.count(sent, |counts| &mut counts.up);
                        if sent == Sent::Yes {
                            self.carried[0] += data.len() as u64;
                        }
                    }
                },
            }
        }
        while let Stage::Open(end) = &mut self.stage
            && let Some(given) = end.held(now, mux)
        {
            self.give(now, given);
        }
        Ok(more)
    }

    /// Drops what comes while it leads nowhere, some of it: it would be late. Returns true if there is more.
    fn discard(&mut self, room: &mut MarkedRoom) -> bool {
        for _ in 0..BURST {
            match self.udp.receive_marked(room) {
                None => return false,
                Some(received) => self.dropped.not_open += u64::from(received.is_ok()),
            }
        }
        true
    }

    /// Gives a datagram to its source.
    fn give(&mut self, now: Instant, (source, data): Given) {
        match self.sources.address(now, source) {
            Some(address) if self.udp.send(&data, address) => {
                self.dropped.counts.down += 1;
                self.carried[1] += data.len() as u64;
            }
            _ => self.dropped.counts.dropped += 1,
        }
    }

    /// Closes it until this time: returns the stream that it had.
    fn close(&mut self, until: Instant) -> Option<StreamId> {
        match std::mem::replace(&mut self.stage, Stage::Closed(until)) {
            Stage::Opening(end, _) | Stage::Open(end) => {
                self.dropped.malformed += end.malformed();
                let id = end.id();
                self.before.iter_mut().zip(end.over()).for_each(|(before, way)| *before += way);
                Some(id)
            }
            Stage::Closed(_) | Stage::Refused => None,
        }
    }

    /// A warning for the user, each once.
    fn take_warning(&mut self) -> Option<String> {
        let listen = self.listen;
        if self.dropped.counts.too_long > 0 && !std::mem::replace(&mut self.told[0], true) {
            return Some(format!(
                "{listen}: datagrams longer than a packet of the links are dropped: send shorter ones, or see --pieces"
            ));
        }
        if self.dropped.too_many_sources > 0 && !std::mem::replace(&mut self.told[1], true) {
            return Some(format!(
                "{listen}: datagrams come from more sources than are carried at once; some are dropped"
            ));
        }
        None
    }

    fn end(&self) -> Option<&End> {
        match &self.stage {
            Stage::Open(end) => Some(end),
            _ => None,
        }
    }

    fn drops(&self) -> Drops {
        let Dropped { counts, not_open, too_many_sources, malformed } = self.dropped;
        let malformed = malformed + self.end().map_or(0, End::malformed);
        let mut drops = counts.drops();
        let more = [("not_open", not_open), ("too_many_sources", too_many_sources), ("malformed", malformed)];
        drops.extend(more.into_iter().filter(|&(_, count)| count > 0));
        drops
    }
}

impl Front for Pipes {
    fn addresses(&self) -> Vec<String> {
        self.locals.iter().map(|local| format!("udp://{}", local.listen)).collect()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.poller.registry().as_fd()
    }

    fn next_event(&self) -> Instant {
        if self.has_more || self.has_datagrams {
            return Instant::ZERO;
        }
        let next = self.locals.iter().map(|local| match &local.stage {
            Stage::Open(end) => end.next_event(),
            Stage::Opening(_, by) => *by,
            // Without a connection it is opened once there is one.
            Stage::Closed(until) if self.may_open && *until > Instant::ZERO => *until,
            Stage::Closed(_) | Stage::Refused => Instant::NEVER,
        });
        next.min().unwrap_or(Instant::NEVER)
    }

    fn turn(&mut self, now: Instant, mux: Option<&mut Mux>) {
        self.collect();
        self.has_more = false;
        let Some(mux) = mux else {
            self.lost(now);
            for local in &mut self.locals {
                self.has_more |= local.discard(&mut self.room);
            }
            return;
        };
        while next_ready(mux, &mut self.may_open, &mut self.has_datagrams).is_some() {}
        self.take_datagrams(now, mux);
        self.open(now, mux);
        for at in 0..self.locals.len() {
            self.step(now, at, mux);
        }
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.locals.iter_mut().for_each(|local| local.sources.forget_idle(now));
        }
    }

    fn lost(&mut self, _: Instant) {
        (self.may_open, self.has_datagrams, self.has_more) = (true, false, false);
        self.by_stream.clear();
        for local in &mut self.locals {
            local.close(Instant::ZERO);
        }
    }

    fn flows(&self) -> impl Iterator<Item = FlowView<'_>> {
        self.locals.iter().filter_map(|local| {
            let view = FlowView::new(local.end()?.id(), &local.purpose, CLASS, local.carried);
            Some(FlowView { datagrams: local.dropped.counts, ..view })
        })
    }

    fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        &self.refusals
    }

    fn drops(&self) -> Drops {
        let mut all = Drops::new();
        for (reason, count) in self.locals.iter().flat_map(Local::drops) {
            *all.entry(reason).or_default() += count;
        }
        all
    }

    fn pipes(&self, now: Instant) -> Vec<PipeView> {
        let view = |local: &Local| {
            let end = local.end();
            let [mut up, mut down] = end.map_or_else(Default::default, |end| end.ways(now));
            up.total += local.before[0];
            down.total += local.before[1];
            PipeView {
                id: end.map(End::id),
                name: local.name.clone(),
                listen: local.listen.to_string(),
                deliver: local.target.target.to_string(),
                latency: local.target.latency,
                open: end.is_some(),
                sources: local.sources.len(),
                up,
                down,
                drops: local.drops(),
            }
        };
        self.locals.iter().map(view).collect()
    }

    fn take_note(&mut self) -> Option<String> {
        self.notes.pop_front()
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}
