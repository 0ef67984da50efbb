//! The end that sends.

use std::path::Path;
use std::sync::Arc;

use weftway_host::Host;
use weftway_path::{Instant, PathSet, Role as PathRole, Span};
use weftway_quic::driver::Sender;
use weftway_sched::Scheduler;

use crate::connection::control_stream::{AcceptedConnection, ControlStream};
use crate::connection::pulse::{Advance, Pulse};
use crate::connection::session::{Session, ended};
use crate::connection::switching::take_over;
use crate::failure::{Failure, code};
use crate::files::outcome::Report;
use crate::files::outcome::{FailedEntries, Outcome};
use crate::files::qlog::Log;
use crate::files::rounds::ConnectionEnd;
use crate::files::source::{FileSource, Hashed, Hasher, read_all};
use crate::options::{OtherEnd, SendOptions};
use crate::progress::{State, Watch};
use crate::seen::PathProgress;
use crate::setting::{RECORD, Scheduling, build_within};
use crate::tree::found::{FailedFile, FoundFiles, Root, Skipped};
use crate::tree::manifest::{Layout, Manifest};
use crate::wire::{Message, Role};

/// Entries of the manifest in a message, and bytes of their names.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 256 << 10;
/// The manifest is written down as far as the stream takes it soon.
const QUEUE: usize = 256 << 10;

/// Sends `root`, a file or a directory, under its own name.
pub fn send(root: &Path, options: SendOptions, watch: Watch<'_>) -> Result<Report, Failure> {
    let SendOptions { other, links, scheduling, checksum, qlog, times } = options;
    scheduling.check()?;
    let mut found = FoundFiles::at(root)?;
    if checksum {
        read_all(&mut found, times.tell_every, &mut *watch)?;
    }
    let FoundFiles { manifest, root: files, skipped, failed: unreadable } = found;
    let is_client = matches!(other, OtherEnd::Connect(_));
    let paths = links.all.iter().map(|link| link.local.to_string()).collect();
    let log = qlog.map(|file| Log::create(&file, root, is_client, paths, 1200 - RECORD)).transpose()?;
    let (mut session, target) = Session::open(other, links, times, (Role::Send, root), watch)?;
    session.progress.bytes = manifest.bytes();
    session.progress.files = manifest.files();
    session.progress.scheduler = Some(scheduling.scheduler.clone());
    session.progress.cc = Some(scheduling.cc.clone());
    let job = Job { manifest: Arc::new(manifest), files, skipped, unreadable, scheduling, log };
    session.transfer(target, Role::Send, |session, accepted| job.serve(session, accepted))
}

/// Files to be sent, and their scheduling.
struct Job {
    manifest: Arc<Manifest>,
    files: Root,
    skipped: Vec<Skipped>,
    /// Files that cannot be read, and are not in the manifest.
    unreadable: Vec<FailedFile>,
    scheduling: Scheduling,
    log: Option<Log>,
}

impl Job {
    /// Builds the scheduler of a name, whose events are logged if the user wants it.
    fn build(&self, name: &str) -> Result<(Box<dyn Scheduler>, Host), Failure> {
        build_within(name, |scheduler| match &self.log {
            Some(log) => log.around(scheduler),
            None => scheduler,
        })
    }

    /// Sends to an end that was let in.
    fn serve(&self, session: &mut Session<'_>, accepted: Box<AcceptedConnection>) -> Result<ConnectionEnd, Failure> {
        session.begin(&accepted.id);
        let mut sending = Sending::new(self, accepted, session.net.now())?;
        session.begin_metering(&mut sending.sender);
        let outcome = match sending.run(session) {
            Ok(Some(accepted)) => {
                session.supersede(sending.sender.connection);
                Ok(ConnectionEnd::Superseded(accepted))
            }
            Ok(None) => {
                let report = sending.report(session);
                session.close(sending.sender.connection, code::DONE, "");
                session.progress.state = State::Done;
                // The transfer is over: nothing is left to stop.
                let _ = session.tell();
                Ok(ConnectionEnd::Report(Box::new(report)))
            }
            Err(failure) => {
                sending.note(session);
                session.close_because_of(sending.sender.connection, &failure);
                Err(failure)
            }
        };
        if let Some(Err(error)) = self.log.as_ref().map(Log::finish) {
            session.say(format!("the qlog is incomplete: {error}"));
            let _ = session.tell();
        }
        outcome
    }
}

/// Part of the manifest that was told.
#[derive(Default)]
struct ToldManifest {
    /// Number of entries that were told.
    entries: usize,
    /// Number of files that were told of those that it leaves out.
    left_out: usize,
    /// True once all of it was told.
    whole: bool,
}

/// A transfer.
struct Sending<'a> {
    job: &'a Job,
    sender: Sender<FileSource>,
    scheduler: Box<dyn Scheduler>,
    scheduler_name: String,
    control: ControlStream,
    pulse: Pulse,
    told: ToldManifest,
    /// Bytes that the receiver has of each entry.
    had: Vec<u64>,
    layout: Layout,
    /// Number of files that the receiver says to have, once it says that all is there.
    done: Option<u64>,
    hasher: Option<Hasher>,
    hashes_missing: usize,
    failed: FailedEntries,
    begun: Option<Instant>,
    ended: Option<Instant>,
    /// Paths that were usable once.
    known: PathSet,
    advance: Advance,
}

impl<'a> Sending<'a> {
    fn new(job: &'a Job, accepted: Box<AcceptedConnection>, now: Instant) -> Result<Self, Failure> {
        let paths = accepted.connection.paths().count();
        let (scheduler, host) = job.build(&job.scheduling.scheduler)?;
        let source = FileSource::new(job.manifest.clone(), job.files.clone());
        let setting = job.scheduling.setting(paths);
        let roles = vec![PathRole::default(); paths];
        let mut sender = Sender::new(accepted.connection, source, setting, &roles)
            .map_err(|error| Failure::Spec(error.to_string()))?;
        sender.set_host(host);
        Ok(Self {
            job,
            sender,
            scheduler,
            scheduler_name: job.scheduling.scheduler.clone(),
            control: accepted.control,
            pulse: Pulse::new(now),
            told: ToldManifest::default(),
            had: vec![0; job.manifest.entries.len()],
            layout: Layout::default(),
            done: None,
            hasher: None,
            hashes_missing: 0,
            failed: FailedEntries::default(),
            begun: None,
            ended: None,
            known: PathSet::EMPTY,
            advance: Advance::default(),
        })
    }

    /// Until the receiver has everything, or connects again.
    fn run(&mut self, session: &mut Session<'_>) -> Result<Option<Box<AcceptedConnection>>, Failure> {
        session.progress.state = State::Agreeing;
        self.sender.take_in(session.net.now(), None);
        while self.ended.is_none() {
            self.receive(session);
            let now = session.net.now();
            self.fire_timers(now, session);
            self.converse(now)?;
            self.look_for_the_end(now);
            self.look_after_paths(now, session);
            let mark = self.sender.delivered().get() + self.control.moved();
            self.pulse.look(now, mark, self.is_hashing(), session.times.stall_after)?;
            self.switch(session)?;
            session.meter(now, &mut self.sender)?;
            self.sender.turn(now, self.scheduler.as_mut());
            if let Some(why) = self.sender.broken() {
                return Err(match self.done {
                    Some(_) => Failure::Protocol("it says that all is there, and has not confirmed it".to_owned()),
                    None => ended(&self.sender.connection, why),
                });
            }
            session.net.send(&mut self.sender.connection);
            if let Some(accepted) = session.accept(now) {
                return Ok(Some(accepted));
            }
            if session.is_tick(now) {
                self.note(session);
                session.tick(now)?;
            }
            session.net.moderate(self.sender.shortest_trip().unwrap_or(Span::ZERO));
            session.wait(self.next_event(now), None);
        }
        Ok(None)
    }

    fn receive(&mut self, session: &mut Session<'_>) {
        let (whose, sender) = (self.sender.connection.handle(), &mut self.sender);
        let mut heard = Vec::new();
        session.receive(whose, |now, net, event, route| {
            let path = sender.handle(now, &mut net.endpoint, event, route);
            heard.extend(path.filter(|path| heard.last() != Some(path)));
        });
        let now = session.net.now();
        heard.into_iter().for_each(|path| session.on_received(now, path));
    }

    fn fire_timers(&mut self, now: Instant, session: &mut Session<'_>) {
        if self.sender.next_event() <= now {
            self.sender.on_timer(now, &mut session.net.endpoint);
        }
    }

    fn next_event(&self, now: Instant) -> Instant {
        let hashes = if self.hashes_missing > 0 { now + Span::from_millis(20) } else { Instant::NEVER };
        self.sender.next_event().min(hashes)
    }

    /// Exchanges messages beside the data.
    fn converse(&mut self, now: Instant) -> Result<(), Failure> {
        self.control.exchange(&mut self.sender.connection)?;
        while let Some(message) = self.control.receive()? {
            self.on_message(now, message)?;
        }
        self.tell_manifest()?;
        self.tell_hashes()?;
        if self.pulse.is_due(now, self.is_hashing()) {
            self.control.send(&Message::Working)?;
        }
        self.control.exchange(&mut self.sender.connection)?;
        Ok(())
    }

    /// Tells the manifest, as far as the stream takes it.
    fn tell_manifest(&mut self) -> Result<(), Failure> {
        let (entries, left_out) = (&self.job.manifest.entries, &self.job.unreadable);
        while !self.told.whole && self.control.queued() < QUEUE {
            let message = if self.told.entries < entries.len() {
                let batch = batch(&entries[self.told.entries..], |entry| entry.path.len());
                self.told.entries += batch.len();
                Message::Entries { entries: batch.to_vec() }
            } else if self.told.left_out < left_out.len() {
                let batch = batch(&left_out[self.told.left_out..], |file| file.path.len() + file.reason.len());
                self.told.left_out += batch.len();
                Message::LeftOut { files: batch.to_vec() }
            } else {
                self.told.whole = true;
                Message::Manifest { entries: entries.len() as u64 }
            };
            self.control.send(&message)?;
        }
        Ok(())
    }

    /// Tells the hashes that are known by now, and what could not be read.
    fn tell_hashes(&mut self) -> Result<(), Failure> {
        let Some(hasher) = &self.hasher else { return Ok(()) };
        hasher.sent(self.sender.delivered().get());
        let mut failed = self.sender.source.take_failures();
        let (mut files, mut grown) = (Vec::new(), Vec::new());
        while files.len() + failed.len() < BATCH
            && let Some((file, result)) = hasher.next()
        {
            self.hashes_missing -= 1;
            match result {
                // The receiver has given it up.
                Ok(_) if self.failed.contains(file) => {}
                Ok(Hashed { hash, grew }) => {
                    files.push((file, hash.to_hex().to_string()));
                    if grew {
                        let size = self.job.manifest.entries[file as usize].size;
                        failed.push((file, format!("it grew while it was sent: its first {size} bytes arrived")));
                        grown.push(file);
                    }
                }
                Err(why) => failed.push((file, why)),
            }
        }
        failed.retain(|(file, _)| !self.failed.contains(*file));
        for (file, why) in &failed {
            self.failed.add(*file, why.clone())?;
        }
        grown.into_iter().for_each(|file| self.failed.arrives(file));
        // A file that failed and whose hash is told arrives all the same: the hash goes first.
        if !files.is_empty() {
            self.control.send(&Message::Hashes { files })?;
        }
        if !failed.is_empty() {
            self.control.send(&Message::Failed { files: failed })?;
        }
        Ok(())
    }

    fn on_message(&mut self, now: Instant, message: Message) -> Result<(), Failure> {
        match message {
            Message::Have { files } if self.begun.is_none() => {
                for (file, bytes) in files {
                    let known = self.had.get_mut(file as usize);
                    *known.ok_or_else(|| Failure::Protocol(format!("it has file {file}, which is none")))? = bytes;
                }
            }
            Message::Ready if self.begun.is_none() && self.told.whole => self.begin(now),
            Message::Working => {}
            Message::Failed { files } => {
                for (file, reason) in files {
                    if file as usize >= self.job.manifest.entries.len() {
                        return Err(Failure::Protocol(format!("it speaks of file {file}, which is none")));
                    }
                    self.failed.add(file, reason)?;
                }
            }
            Message::Done { files } if self.begun.is_some() => {
                let all = self.job.manifest.files();
                if files > all || files + (self.failed.len() as u64) < all {
                    return Err(Failure::Protocol(format!("it has {files} files of {all}, and names no others")));
                }
                self.done = Some(files);
            }
            other => return Err(Failure::Protocol(format!("a message comes out of turn: {}", other.name()))),
        }
        Ok(())
    }

    /// The receiver has said what it has: data may flow.
    fn begin(&mut self, now: Instant) {
        self.layout = Layout::new(&self.job.manifest, &self.had);
        self.hashes_missing = self.layout.pieces.len();
        self.hasher = Some(Hasher::start(self.job.manifest.clone(), self.job.files.clone(), &self.layout));
        self.sender.source.begin(self.layout.clone());
        self.sender.wake();
        self.begun = Some(now);
    }

    /// Keeps control data off paths that were given up, and closes one on which something is stuck.
    fn look_after_paths(&mut self, now: Instant, session: &mut Session<'_>) {
        let usable = self.sender.usable();
        self.known = usable.iter().fold(self.known, |known, path| known.with(path));
        for path in self.known.iter() {
            self.sender.connection.set_backup(path, !usable.is_empty() && !usable.contains(path));
        }
        if self.advance.is_stuck(now, self.sender.delivered().get()) {
            session.close_silent(now, &mut self.sender.connection);
        }
    }

    /// Returns true if the receiver waits for nothing but hashes.
    fn is_hashing(&self) -> bool {
        self.hasher.as_ref().is_some_and(Hasher::is_at_work) && self.sender.delivered().get() == self.layout.bytes()
    }

    /// The receiver says that all is there. It is believed once it has confirmed every byte.
    fn look_for_the_end(&mut self, now: Instant) {
        if self.done.is_some() && self.sender.delivered().get() == self.layout.bytes() {
            self.ended = Some(now);
        }
    }

    /// Other schedulers take over, if the user said so.
    fn switch(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        let Self { job, scheduler, sender, scheduler_name, .. } = self;
        take_over(job.scheduling.switch.as_ref(), scheduler_name, session, |name| {
            let host;
            (*scheduler, host) = job.build(name)?;
            sender.switch_host(host);
            Ok(())
        })
    }

    fn paths(&self, session: &Session<'_>) -> Vec<PathProgress> {
        session.sent(&self.sender)
    }

    fn note(&self, session: &mut Session<'_>) {
        let whole = self.job.manifest.bytes();
        let delivered = self.sender.delivered().get();
        let paths = self.paths(session);
        let progress = &mut session.progress;
        progress.state = match self.begun {
            None => State::Agreeing,
            Some(_) if delivered < self.layout.bytes() => State::Transferring,
            Some(_) => State::Verifying,
        };
        progress.had = if self.begun.is_some() { whole - self.layout.bytes() } else { 0 };
        (progress.done, progress.paths) = (delivered, paths);
    }

    fn report(&self, session: &mut Session<'_>) -> Report {
        self.note(session);
        let outcome = Outcome {
            role: Role::Send,
            connection: &self.sender.connection,
            manifest: &self.job.manifest,
            layout: &self.layout,
            left_out: &self.job.unreadable,
            failed: &self.failed,
            files: self.done.unwrap_or(0),
            begun: self.begun,
            ended: self.ended,
            paths: &session.progress.paths,
        };
        Report {
            scheduler: Some(self.scheduler_name.clone()),
            cc: Some(self.job.scheduling.cc.clone()),
            skipped: self.job.skipped.clone(),
            ..outcome.report()
        }
    }
}

/// The first items, as many as go into a message.
fn batch<T>(items: &[T], bytes: impl Fn(&T) -> usize) -> &[T] {
    let mut left = BATCH_BYTES;
    let fits = |item: &&T| {
        let fits = left > 0;
        left = left.saturating_sub(bytes(item));
        fits
    };
    &items[..items.iter().take(BATCH).take_while(fits).count()]
}
