//! The end that receives.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use weftway_path::{Bytes, Instant, PathId, Span};
use weftway_quic::driver::connection::{News, QuicConnection};
use weftway_quic::driver::receiver::Receiver;
use weftway_quic::driver::record::Record;
use weftway_quic::udp::tls::MAX_PATHS;

use super::control_stream::{AcceptedConnection, ControlStream};
use super::disk::{Disk, DiskEvent, Task, keep};
use super::files::FailedFile;
use super::manifest::{Layout, MAX_ENTRIES, Manifest};
use super::options::{Failure, Options, Report, State, Watch, code};
use super::outcome::{all_failed, arrived, goodput, peer, ratio_to_best_path};
use super::session::{Session, lost};
use super::setting::{RECORD, WINDOW};
use super::store::Store;
use super::wire::{Message, Role};
use super::writer::Writer;

/// So much goes to the disk at a time, unless less is left.
const PIECE: u64 = 256 << 10;
/// Files in a message.
const BATCH: usize = 4000;
/// How long the sender may take to end the connection once it knows that all is well.
const CLOSE_TIMEOUT: Span = Span::from_secs(3);
/// When nothing came on by then, something is stuck on a silent path.
const PATIENCE: Span = Span::from_secs(3);

/// Receives into the directory `target`.
pub fn receive(target: &Path, options: Options, watch: Watch<'_>) -> Result<Report, Failure> {
    // What is wrong with the target shows before anybody is waited for.
    let store = Arc::new(Store::open(target)?);
    let (mut session, other) = Session::open(options, Role::Receive, target, watch)?;
    while let Some(other) = &other {
        let accepted = session.connect(other, Role::Receive)?;
        match take(&mut session, &store, accepted) {
            Ok(Ended::Report(report)) => return Ok(*report),
            Ok(Ended::Superseded(_)) => return Err(Failure::Lost("another end came".to_owned())),
            Err(failure) if session.may_go_on(&failure) => {}
            Err(failure) => return Err(failure),
        }
    }
    let mut next = None;
    loop {
        let accepted = match next.take() {
            Some(accepted) => accepted,
            None => session.admit()?,
        };
        match take(&mut session, &store, accepted) {
            Ok(Ended::Report(report)) => return Ok(*report),
            Ok(Ended::Superseded(accepted)) => next = Some(accepted),
            Err(failure) if failure.is_passing() => session.wait_again(&failure),
            Err(failure) => return Err(failure),
        }
    }
}

enum Ended {
    Report(Box<Report>),
    /// The other end came anew.
    Superseded(Box<AcceptedConnection>),
}

/// Receives from an end that was let in. What has arrived in order is on the disk when this returns.
fn take(session: &mut Session<'_>, store: &Arc<Store>, accepted: Box<AcceptedConnection>) -> Result<Ended, Failure> {
    session.begin(&accepted.id);
    let mut receiving = Receiving::new(accepted);
    let result = receiving.run(session, store);
    // What has arrived in order is kept, whatever happened.
    receiving.hand_over(0);
    drop(receiving.disk.take());
    match result {
        Ok(None) => {
            let report = receiving.report(session);
            session.close(receiving.connection, code::DONE, "");
            session.progress.state = State::Done;
            // The transfer is over: nothing is left to stop.
            let _ = session.tell();
            Ok(Ended::Report(Box::new(report)))
        }
        Ok(Some(accepted)) => {
            session.supersede(receiving.connection);
            Ok(Ended::Superseded(accepted))
        }
        Err(failure) => {
            receiving.note(session);
            session.close_because_of(receiving.connection, &failure);
            Err(failure)
        }
    }
}

/// A transfer.
struct Receiving {
    connection: QuicConnection,
    control: ControlStream,
    receiver: Receiver,
    manifest: Manifest,
    layout: Layout,
    disk: Option<Disk>,
    /// What has arrived and is not with the disk yet: byte `at` of the stream is at `at % WINDOW`.
    ring: Vec<u8>,
    /// Everything before it is with the disk.
    handed: u64,
    /// Since when an acknowledgement of each path is due.
    ack_due_since: [Instant; MAX_PATHS],
    /// The path that brought something last.
    last: PathId,
    limit_due: bool,
    begun: Option<Instant>,
    ended: Option<Instant>,
    files: u64,
    /// What the sender could not read before it made the manifest.
    left_out: Vec<FailedFile>,
    /// Entries that one of the ends could not read or write, and why.
    failed: BTreeMap<u32, String>,
    packets: [u64; MAX_PATHS],
    moved: (Instant, u64),
}

impl Receiving {
    fn new(accepted: Box<AcceptedConnection>) -> Self {
        let mut receiver = Receiver::new(Bytes::new(WINDOW), Bytes::new(RECORD), MAX_PATHS);
        receiver.took(weftway_path::Offset::ZERO);
        Self {
            connection: accepted.connection,
            control: accepted.control,
            receiver,
            manifest: Manifest::default(),
            layout: Layout::default(),
            disk: None,
            ring: Vec::new(),
            handed: 0,
            ack_due_since: [Instant::NEVER; MAX_PATHS],
            last: PathId::new(0),
            limit_due: false,
            begun: None,
            ended: None,
            files: 0,
            left_out: Vec::new(),
            failed: BTreeMap::new(),
            packets: [0; MAX_PATHS],
            moved: (Instant::ZERO, 0),
        }
    }

    /// Until everything is there, or the sender connects again.
    fn run(
        &mut self,
        session: &mut Session<'_>,
        store: &Arc<Store>,
    ) -> Result<Option<Box<AcceptedConnection>>, Failure> {
        session.progress.state = State::Agreeing;
        loop {
            let busy = self.take_datagrams(session);
            let now = session.net.now();
            if self.connection.timeout() <= now {
                self.connection.handle_timeout(now, &mut session.net.endpoint);
                self.answer_oldest(now);
            }
            if !busy || self.receiver.next().get() >= self.handed + PIECE {
                self.hand_over(if busy { PIECE } else { 1 });
            }
            if let Some(result) = self.look_for_the_end(now) {
                return result.map(|()| None);
            }
            self.converse(now, store)?;
            self.look_at_disk(now)?;
            self.tell_limit(now);
            self.look_after_paths(now, session);
            self.connection.answer(now, self.last);
            session.net.send(&mut self.connection);
            if let Some(accepted) = session.accept(now) {
                return Ok(Some(accepted));
            }
            if session.is_tick(now) {
                self.note(session);
                session.tick(now)?;
            }
            let waker = self.disk.as_ref().map(Disk::waker);
            let until = self.ended.map_or(Instant::NEVER, |ended| ended + CLOSE_TIMEOUT);
            session.wait(self.connection.timeout().min(until), waker);
        }
    }

    /// What has arrived, path by path: each answers for itself.
    fn take_datagrams(&mut self, session: &mut Session<'_>) -> bool {
        let whose = self.connection.handle();
        let mut heard = [false; MAX_PATHS];
        let busy = session.receive(whose, |now, net, event, route| {
            let path = self.path_of(route);
            if path != self.last {
                self.connection.answer(now, self.last);
            }
            self.connection.handle_event(now, &mut net.endpoint, event);
            if self.connection.path_at(route).is_none() {
                self.connection.follow_migration();
            }
            self.last = self.path_of(route);
            self.ack_due_since[self.last.index()] = self.ack_due_since[self.last.index()].min(now);
            heard[self.last.index()] = true;
            self.take_records(now);
        });
        let now = session.net.now();
        for path in (0..MAX_PATHS).filter(|&at| heard[at]).map(|at| PathId::new(at as u8)) {
            session.on_received(now, path);
        }
        busy
    }

    fn path_of(&self, route: noq_proto::FourTuple) -> PathId {
        self.connection.path_at(route).unwrap_or(self.last)
    }

    fn take_records(&mut self, now: Instant) {
        while let Some(record) = self.connection.receive() {
            match Record::parse(&record) {
                Some(Record::Data(offset, data)) if self.disk.is_some() => {
                    let (from, edge) = (offset.get(), self.receiver.edge().get());
                    let end = from.saturating_add(data.len() as u64);
                    if end > self.layout.bytes() {
                        continue;
                    }
                    if end <= edge {
                        keep(&mut self.ring, from, data, self.receiver.next().get());
                        self.packets[self.last.index()] += 1;
                    }
                    self.limit_due |= self.receiver.arrive(now, self.last, offset, data.len());
                }
                Some(Record::Question) => {
                    self.receiver.asked();
                    self.limit_due = true;
                }
                _ => {}
            }
        }
    }

    /// Gives the disk what has arrived in order, if it is at least so much.
    fn hand_over(&mut self, least: u64) {
        let Some(disk) = &self.disk else { return };
        let next = self.receiver.next().get();
        while self.handed < next && next - self.handed >= least.min(self.layout.bytes() - self.handed) {
            let at = (self.handed % WINDOW) as usize;
            let length = (next - self.handed).min(PIECE).min(WINDOW - at as u64);
            disk.order(Task::Write(self.ring[at..at + length as usize].to_vec()));
            self.handed += length;
        }
    }

    fn look_at_disk(&mut self, now: Instant) -> Result<(), Failure> {
        while let Some(event) = self.disk.as_ref().and_then(Disk::next_event) {
            match event {
                DiskEvent::Failed(entry, error) => {
                    let reason = error.reason();
                    self.control.send(&Message::Failed { files: vec![(entry, reason.clone())] })?;
                    self.failed.entry(entry).or_insert(reason);
                }
                DiskEvent::Done(files) => {
                    self.files = files;
                    self.ended = Some(now);
                    self.control.send(&Message::Done { files })?;
                }
                DiskEvent::Broken(error) => return Err(error.into()),
            }
            self.control.exchange(&mut self.connection)?;
        }
        let Some(disk) = &self.disk else { return Ok(()) };
        self.limit_due |= self.receiver.took(weftway_path::Offset::new(disk.written()));
        Ok(())
    }

    fn tell_limit(&mut self, now: Instant) {
        if std::mem::take(&mut self.limit_due) {
            let limit = Record::limit(self.receiver.edge(), self.receiver.next());
            let _ = self.connection.send(now, self.last, bytes::Bytes::copy_from_slice(&limit), false);
        }
    }

    /// A timer of noq's: of delayed acknowledgements the oldest is due.
    fn answer_oldest(&mut self, now: Instant) {
        let oldest = (0..MAX_PATHS).min_by_key(|&at| self.ack_due_since[at]).unwrap_or(0);
        self.ack_due_since[oldest] = Instant::NEVER;
        self.connection.answer(now, PathId::new(oldest as u8));
    }

    /// Whether the connection is over, and how.
    fn look_for_the_end(&mut self, now: Instant) -> Option<Result<(), Failure>> {
        let is_over = self.connection.is_closed();
        if self.ended.is_some_and(|ended| is_over || ended + CLOSE_TIMEOUT <= now) {
            // The sender knows, or it is gone: either way everything is here.
            return Some(Ok(()));
        }
        if is_over {
            return Some(Err(lost(&mut self.connection)));
        }
        while let Some(event) = self.connection.next_news() {
            if let News::Lost(why) = event {
                return Some(Err(super::session::ended(&self.connection, &why)));
            }
        }
        None
    }

    /// What is said beside the data.
    fn converse(&mut self, now: Instant, store: &Arc<Store>) -> Result<(), Failure> {
        self.control.exchange(&mut self.connection)?;
        while let Some(message) = self.control.receive()? {
            match message {
                Message::Entries { entries } if self.begun.is_none() => {
                    self.manifest.entries.extend(entries);
                    if self.manifest.entries.len() > MAX_ENTRIES {
                        self.manifest.check()?;
                    }
                }
                Message::Manifest { entries } if self.begun.is_none() => {
                    if entries != self.manifest.entries.len() as u64 {
                        return Err(Failure::Protocol("its manifest has holes".to_owned()));
                    }
                    self.begin(now, store)?;
                }
                Message::LeftOut { files } if self.begun.is_none() => {
                    self.left_out.extend(files);
                    if self.left_out.len() > MAX_ENTRIES {
                        return Err(Failure::Protocol("it leaves out more files than there can be".to_owned()));
                    }
                }
                Message::Hashes { files } => self.expect(files)?,
                Message::Failed { files } => self.give_up(files)?,
                other => return Err(Failure::Protocol(format!("a message comes out of turn: {}", other.name()))),
            }
        }
        Ok(())
    }

    /// The manifest is complete: looks what is there, and says so.
    fn begin(&mut self, now: Instant, store: &Arc<Store>) -> Result<(), Failure> {
        self.manifest.check()?;
        let mut had = Vec::with_capacity(self.manifest.entries.len());
        for (at, (entry, found)) in self.manifest.entries.iter().zip(store.prepare(&self.manifest)?).enumerate() {
            // What cannot be written need not be sent.
            had.push(found.as_ref().map_or(entry.size, |had| *had));
            if let Err(error) = found {
                self.failed.insert(at as u32, error.reason());
            }
        }
        self.layout = Layout::new(&self.manifest, &had);
        store.check_room(&self.manifest, &self.layout)?;
        let files: Vec<(u32, u64)> = had.iter().enumerate().map(|(at, &had)| (at as u32, had)).collect();
        let files: Vec<(u32, u64)> = files.into_iter().filter(|&(_, had)| had > 0).collect();
        for files in files.chunks(BATCH) {
            self.control.send(&Message::Have { files: files.to_vec() })?;
        }
        let failed: Vec<(u32, String)> = self.failed.iter().map(|(&at, reason)| (at, reason.clone())).collect();
        for files in failed.chunks(BATCH) {
            self.control.send(&Message::Failed { files: files.to_vec() })?;
        }
        self.control.send(&Message::Ready)?;
        let left_out: HashSet<u32> = self.failed.keys().copied().collect();
        let writer = Writer::new(store.clone(), self.manifest.clone(), self.layout.clone(), left_out)?;
        self.ring = vec![0; WINDOW as usize];
        self.disk = Some(Disk::start(writer).map_err(Failure::Socket)?);
        self.begun = Some(now);
        self.control.exchange(&mut self.connection)?;
        Ok(())
    }

    fn expect(&self, files: Vec<(u32, String)>) -> Result<(), Failure> {
        for (file, hash) in files {
            let hash = blake3::Hash::from_hex(&hash)
                .map_err(|error| Failure::Protocol(format!("{hash:?} is no hash: {error}")))?;
            self.check_sent(file)?;
            if let Some(disk) = &self.disk {
                disk.order(Task::Expect(file, hash));
            }
        }
        Ok(())
    }

    /// The sender cannot read these files any more.
    fn give_up(&mut self, files: Vec<(u32, String)>) -> Result<(), Failure> {
        for (file, reason) in files {
            self.check_sent(file)?;
            self.failed.entry(file).or_insert(reason);
            if let Some(disk) = &self.disk {
                disk.order(Task::GiveUp(file));
            }
        }
        Ok(())
    }

    fn check_sent(&self, file: u32) -> Result<(), Failure> {
        let known = self.layout.pieces.binary_search_by_key(&file, |piece| piece.entry);
        known.map(|_| ()).map_err(|_| Failure::Protocol(format!("it speaks of file {file}, which is not sent")))
    }

    fn look_after_paths(&mut self, now: Instant, session: &Session<'_>) {
        let next = self.receiver.next().get();
        if next != self.moved.1 {
            self.moved = (now, next);
        } else if self.moved.0 + PATIENCE < now {
            self.moved.0 = now;
            session.close_silent(now, &mut self.connection);
        }
    }

    fn note(&self, session: &mut Session<'_>) {
        let next = self.receiver.next().get();
        let paths = session.paths(&self.connection, |path, progress| {
            progress.up = self.connection.has_path(path);
            (progress.bytes, progress.packets) = (self.receiver.delivered[path.index()], self.packets[path.index()]);
        });
        let progress = &mut session.progress;
        progress.state = match self.begun {
            None => State::Agreeing,
            Some(_) if next < self.layout.bytes() => State::Transferring,
            Some(_) => State::Verifying,
        };
        (progress.bytes, progress.files) = (self.manifest.bytes(), self.manifest.files());
        progress.had = if self.begun.is_some() { progress.bytes - self.layout.bytes() } else { 0 };
        (progress.done, progress.paths) = (next, paths);
    }

    fn report(&self, session: &mut Session<'_>) -> Report {
        self.note(session);
        let elapsed = self.begun.zip(self.ended).map_or(Span::ZERO, |(from, to)| to.since(from));
        Report {
            role: Role::Receive,
            peer: peer(&self.connection),
            files: self.files,
            bytes: arrived(&self.manifest, &self.layout, &self.failed),
            sent_bytes: self.layout.bytes(),
            elapsed_s: elapsed.as_secs_f64(),
            goodput_mbps: goodput(self.layout.bytes(), elapsed),
            ratio_to_best_path: ratio_to_best_path(self.layout.bytes(), &session.progress.paths),
            scheduler: None,
            cc: None,
            skipped: Vec::new(),
            failed: all_failed(&self.left_out, &self.failed, &self.manifest),
            paths: session.progress.paths.clone(),
        }
    }
}
