//! The end that receives.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use weftway_path::{Bytes, Instant, PathId, Span};
use weftway_quic::driver::answers::Answers;
use weftway_quic::driver::connection::{QuicConnection, QuicEvent};
use weftway_quic::driver::receiver::Receiver;
use weftway_quic::driver::record::Record;
use weftway_udp::settings::MAX_PATHS;

use crate::connection::control_stream::{AcceptedConnection, ControlStream};
use crate::connection::pulse::{Advance, Pulse};
use crate::connection::session::{Session, lost};
use crate::failure::{Failure, code};
use crate::files::arrived::{Arrived, PIECE};
use crate::files::disk::{Disk, DiskEvent, Task};
use crate::files::incoming::Incoming;
use crate::files::outcome::Report;
use crate::files::outcome::{FailedEntries, Outcome};
use crate::files::rounds::ConnectionEnd;
use crate::options::{Links, ReceiveOptions};
use crate::progress::{State, Watch};
use crate::setting::{LARGEST_RECORD, WINDOW};
use crate::tree::found::FailedFile;
use crate::tree::manifest::{Layout, Manifest};
use crate::tree::store::Store;
use crate::wire::{Message, Role};

/// Time in which the sender has to end the connection once it is told that all is well, or this many round trips: it
/// must be sure of every byte first.
const CLOSE_TIMEOUT: Span = Span::from_secs(3);
const CLOSE_TRIPS: u64 = 3;

/// Receives into the directory `target`.
pub fn receive(target: &Path, options: ReceiveOptions, watch: Watch<'_>) -> Result<Report, Failure> {
    // What is wrong with the target shows before anybody is waited for.
    let store = Store::open(target)?;
    let ReceiveOptions { other, paths, sync, times } = options;
    let store = Arc::new(if sync { store } else { store.without_sync() });
    let (mut session, connects_to) = Session::open(other, Links::plain(paths), times, (Role::Receive, target), watch)?;
    session.transfer(connects_to, Role::Receive, |session, accepted| take(session, &store, accepted))
}

/// Receives from an end that was let in. What has arrived in order is on the disk when this returns.
fn take(
    session: &mut Session<'_>,
    store: &Arc<Store>,
    accepted: Box<AcceptedConnection>,
) -> Result<ConnectionEnd, Failure> {
    session.begin(&accepted.id);
    let mut receiving = Receiving::new(accepted, session.net.now());
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
            Ok(ConnectionEnd::Report(Box::new(report)))
        }
        Ok(Some(accepted)) => {
            session.supersede(receiving.connection);
            Ok(ConnectionEnd::Superseded(accepted))
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
    pulse: Pulse,
    /// The manifest, while it arrives.
    incoming: Incoming,
    manifest: Arc<Manifest>,
    manifest_bytes: u64,
    manifest_files: u64,
    layout: Arc<Layout>,
    disk: Option<Disk>,
    /// Bytes that have arrived and are not with the disk yet.
    arrived: Arrived,
    answers: Answers,
    /// The path that brought something last.
    last: PathId,
    limit_due: bool,
    /// Since when data may flow: the sender was told what is missing.
    begun: Option<Instant>,
    ended: Option<Instant>,
    files: u64,
    /// Files that the sender could not read before it made the manifest.
    left_out: Vec<FailedFile>,
    failed: FailedEntries,
    /// Files whose hash the sender has told.
    hashed: HashSet<u32>,
    packets: [u64; MAX_PATHS],
    advance: Advance,
    /// The shortest smoothed round trip so far.
    shortest_trip: Option<Span>,
}

impl Receiving {
    fn new(accepted: Box<AcceptedConnection>, now: Instant) -> Self {
        let mut receiver = Receiver::new(Bytes::new(WINDOW), Bytes::new(LARGEST_RECORD), MAX_PATHS);
        receiver.took(weftway_path::Offset::ZERO);
        Self {
            connection: accepted.connection,
            control: accepted.control,
            receiver,
            pulse: Pulse::new(now),
            incoming: Incoming::new(),
            manifest: Arc::default(),
            manifest_bytes: 0,
            manifest_files: 0,
            layout: Arc::default(),
            disk: None,
            arrived: Arrived::default(),
            answers: Answers::new(MAX_PATHS),
            last: PathId::new(0),
            limit_due: false,
            begun: None,
            ended: None,
            files: 0,
            left_out: Vec::new(),
            failed: FailedEntries::default(),
            hashed: HashSet::new(),
            packets: [0; MAX_PATHS],
            advance: Advance::default(),
            shortest_trip: None,
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
                let oldest = self.answers.oldest();
                self.answers.answer(now, &mut self.connection, oldest);
            }
            if !busy || self.receiver.next().get() >= self.arrived.handed() + PIECE {
                self.hand_over(if busy { PIECE } else { 1 });
            }
            if let Some(result) = self.look_for_the_end(now) {
                return result.map(|()| None);
            }
            self.converse(store)?;
            self.look_at_disk(now, session)?;
            self.look_at_pulse(now, session)?;
            self.tell_limit(now);
            self.look_after_paths(now, session);
            self.answers.answer(now, &mut self.connection, self.last);
            session.net.send(&mut self.connection);
            if let Some(accepted) = session.accept(now) {
                return Ok(Some(accepted));
            }
            if session.is_tick(now) {
                self.note(session);
                session.tick(now)?;
            }
            let trips = self.connection.paths().filter_map(|path| self.connection.srtt(path));
            self.shortest_trip = trips.chain(self.shortest_trip).min();
            session.net.moderate(self.shortest_trip.unwrap_or(Span::ZERO));
            let waker = self.disk.as_ref().map(Disk::waker);
            let until = self.ended.map_or(Instant::NEVER, |ended| ended + self.close_timeout());
            session.wait(self.connection.timeout().min(until), waker);
        }
    }

    /// Takes the datagrams that have arrived, path by path: each answers for itself.
    fn take_datagrams(&mut self, session: &mut Session<'_>) -> bool {
        let whose = self.connection.handle();
        let mut heard = [false; MAX_PATHS];
        let busy = session.receive(whose, |now, net, event, route| {
            let path = self.path_of(route);
            if path != self.last {
                self.answers.answer(now, &mut self.connection, self.last);
            }
            self.connection.handle_event(now, &mut net.endpoint, event);
            if self.connection.path_at(route).is_none() {
                self.connection.follow_migration();
            }
            self.last = self.path_of(route);
            self.answers.heard(now, self.last);
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
                Some(Record::Data(offset, data)) if self.begun.is_some() => {
                    let (from, edge) = (offset.get(), self.receiver.edge().get());
                    let end = from.saturating_add(data.len() as u64);
                    if end > self.layout.bytes() {
                        continue;
                    }
                    if end <= edge {
                        self.arrived.keep(from, data, self.receiver.next().get());
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
        while let Some(room) = disk.take_room() {
            self.arrived.recycle(room);
        }
        while let Some(piece) = self.arrived.take(next, least, self.layout.bytes()) {
            disk.order(Task::Write(piece));
        }
    }

    fn look_at_disk(&mut self, now: Instant, session: &mut Session<'_>) -> Result<(), Failure> {
        while let Some(event) = self.disk.as_ref().and_then(Disk::next_event) {
            match event {
                DiskEvent::Had(files) => self.control.send(&Message::Have { files })?,
                DiskEvent::Failed(files) => {
                    self.control.send(&Message::Failed { files: files.clone() })?;
                    for (entry, reason) in files {
                        self.failed.add(entry, reason)?;
                    }
                }
                DiskEvent::Agreed(layout) => {
                    self.layout = layout;
                    self.begun = Some(now);
                    self.control.send(&Message::Ready)?;
                }
                DiskEvent::Note(text) => session.say(text),
                DiskEvent::Done(files) => {
                    self.files = files;
                    self.ended = Some(now);
                    self.limit_due = true;
                    self.control.send(&Message::Done { files })?;
                }
                DiskEvent::Again(1) => return Err(Failure::Again("1 file".to_owned())),
                DiskEvent::Again(files) => return Err(Failure::Again(format!("{files} files"))),
                DiskEvent::Broken(failure) => return Err(failure),
            }
            self.control.exchange(&mut self.connection)?;
        }
        let Some(disk) = &self.disk else { return Ok(()) };
        self.limit_due |= self.receiver.took(weftway_path::Offset::new(disk.written()));
        Ok(())
    }

    /// Looks whether the sender is at work, and tells it that this end is.
    fn look_at_pulse(&mut self, now: Instant, session: &Session<'_>) -> Result<(), Failure> {
        let is_busy = self.disk.as_ref().is_some_and(Disk::is_busy);
        if self.pulse.is_due(now, is_busy) {
            self.control.send(&Message::Working)?;
            self.control.exchange(&mut self.connection)?;
        }
        let mark = self.receiver.tally.arrived + self.control.moved();
        self.pulse.look(now, mark, is_busy || self.ended.is_some(), session.times.stall_after)
    }

    fn tell_limit(&mut self, now: Instant) {
        if std::mem::take(&mut self.limit_due) {
            let limit = Record::limit(self.receiver.edge(), self.receiver.next());
            let _ = self.connection.send(now, self.last, bytes::Bytes::copy_from_slice(&limit), 0);
        }
    }

    fn close_timeout(&self) -> Span {
        let trips = self.connection.paths().filter_map(|path| self.connection.srtt(path));
        trips.max().map_or(CLOSE_TIMEOUT, |trip| CLOSE_TIMEOUT.max(trip * CLOSE_TRIPS))
    }

    /// Returns the end of the connection, if it is over.
    fn look_for_the_end(&mut self, now: Instant) -> Option<Result<(), Failure>> {
        let is_over = self.connection.is_closed();
        if self.ended.is_some_and(|ended| is_over || ended + self.close_timeout() <= now) {
            // The sender knows, or it is gone: either way everything is here.
            return Some(Ok(()));
        }
        if is_over {
            return Some(Err(lost(&mut self.connection)));
        }
        while let Some(event) = self.connection.poll_event() {
            if let QuicEvent::Lost(why) = event {
                return Some(Err(crate::connection::session::ended(&self.connection, &why)));
            }
        }
        None
    }

    /// Exchanges messages beside the data.
    fn converse(&mut self, store: &Arc<Store>) -> Result<(), Failure> {
        self.control.exchange(&mut self.connection)?;
        while let Some(message) = self.control.receive()? {
            match message {
                Message::Entries { entries } if self.disk.is_none() => self.incoming.add(entries)?,
                Message::LeftOut { files } if self.disk.is_none() => self.incoming.leave_out(files)?,
                Message::Manifest { entries } if self.disk.is_none() => self.begin(entries, store)?,
                Message::Hashes { files } => self.expect(files)?,
                Message::Failed { files } => self.give_up(files)?,
                Message::Working => {}
                other => return Err(Failure::Protocol(format!("a message comes out of turn: {}", other.name()))),
            }
        }
        Ok(())
    }

    /// The manifest is complete: the disk looks what is there.
    fn begin(&mut self, entries: u64, store: &Arc<Store>) -> Result<(), Failure> {
        let incoming = std::mem::replace(&mut self.incoming, Incoming::new());
        if entries != incoming.len() as u64 {
            return Err(Failure::Protocol("its manifest has holes".to_owned()));
        }
        let (manifest, left_out) = incoming.into_parts();
        (self.manifest_bytes, self.manifest_files) = (manifest.bytes(), manifest.files());
        (self.manifest, self.left_out) = (Arc::new(manifest), left_out);
        self.disk = Some(Disk::start(store.clone(), self.manifest.clone()).map_err(Failure::Socket)?);
        Ok(())
    }

    /// Each hash is taken once: a sender cannot fill the queue of a disk that is busy.
    fn expect(&mut self, files: Vec<(u32, String)>) -> Result<(), Failure> {
        for (file, hash) in files {
            let hash = blake3::Hash::from_hex(&hash)
                .map_err(|_| Failure::Protocol(format!("the hash of file {file} is not 64 hexadecimal digits")))?;
            self.check_sent(file)?;
            if !self.hashed.insert(file) {
                return Err(Failure::Protocol(format!("it tells the hash of file {file} twice")));
            }
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
            if self.failed.add(file, reason)? {
                if self.hashed.contains(&file) {
                    self.failed.arrives(file);
                }
                if let Some(disk) = &self.disk {
                    disk.order(Task::GiveUp(file));
                }
            }
        }
        Ok(())
    }

    fn check_sent(&self, file: u32) -> Result<(), Failure> {
        let known = self.layout.pieces.binary_search_by_key(&file, |piece| piece.entry);
        known.map(|_| ()).map_err(|_| Failure::Protocol(format!("it speaks of file {file}, which is not sent")))
    }

    fn look_after_paths(&mut self, now: Instant, session: &Session<'_>) {
        if self.advance.is_stuck(now, self.receiver.next().get()) {
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
        (progress.bytes, progress.files) = (self.manifest_bytes, self.manifest_files);
        progress.had = if self.begun.is_some() { progress.bytes - self.layout.bytes() } else { 0 };
        (progress.done, progress.paths) = (next, paths);
    }

    fn report(&self, session: &mut Session<'_>) -> Report {
        self.note(session);
        let outcome = Outcome {
            role: Role::Receive,
            connection: &self.connection,
            manifest: &self.manifest,
            layout: &self.layout,
            left_out: &self.left_out,
            failed: &self.failed,
            files: self.files,
            begun: self.begun,
            ended: self.ended,
            paths: &session.progress.paths,
        };
        outcome.report()
    }
}
