//! The receiver's disk, on a thread of its own: a slow one must not look like a dead link.
//!
//! The thread first looks what is there of each file, and tells this in parts. Then it writes.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Inbox, Sender as Outbox, channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

use portable_atomic::AtomicU64;

use crate::failure::Failure;
use crate::tree::manifest::{Layout, Manifest};
use crate::tree::store::{Store, StoreError};
use crate::tree::writer::Writer;

/// Files that are told at a time.
const BATCH: usize = 4000;

/// Task of the disk.
pub(crate) enum Task {
    /// The next bytes of the stream are written.
    Write(Vec<u8>),
    Expect(u32, blake3::Hash),
    /// The sender cannot read this file.
    GiveUp(u32),
}

/// Event at the disk.
pub(crate) enum DiskEvent {
    /// Bytes of some files that are there already.
    Had(Vec<(u32, u64)>),
    /// These files cannot be written, for these reasons. The others can.
    Failed(Vec<(u32, String)>),
    /// All that is there was told: this is missing.
    Agreed(Arc<Layout>),
    /// Something that the user must know.
    Note(String),
    /// All has come: so many files are there.
    Done(u64),
    /// All has come, and so many files are to be fetched again.
    Again(u64),
    /// No file can be written any more.
    Broken(Failure),
}

/// The disk's thread.
pub(crate) struct Disk {
    tasks: Option<Outbox<Task>>,
    /// Tasks that it was given, and tasks that it has done. To look what is there is the first one.
    ordered: Cell<u64>,
    done: Arc<AtomicU64>,
    /// Bytes of the stream that are written.
    written: Arc<AtomicU64>,
    /// It is to look at nothing more.
    stop: Arc<AtomicBool>,
    events: Inbox<DiskEvent>,
    /// Buffers that are written: fresh memory costs the kernel more than the copy does.
    spare: Inbox<Vec<u8>>,
    waker: UnixStream,
    thread: Option<JoinHandle<()>>,
}

/// Sender of the thread's events.
struct EventSender {
    events: Outbox<DiskEvent>,
    waker: UnixStream,
}

impl EventSender {
    fn tell(&self, event: DiskEvent) {
        // Whoever waits for events has gone if they cannot be sent; what is written stays.
        let _ = self.events.send(event);
        self.wake();
    }

    /// Files that cannot be written: as many at a time as go into a message.
    fn tell_failed(&self, files: &[(u32, String)]) {
        for files in files.chunks(BATCH) {
            self.tell(DiskEvent::Failed(files.to_vec()));
        }
    }

    fn wake(&self) {
        let _ = (&self.waker).write(&[0]);
    }
}

/// Makes folders, and tells what is there and what is missing. A writer of what is missing.
fn agree(
    store: &Arc<Store>,
    manifest: &Arc<Manifest>,
    stop: &Arc<AtomicBool>,
    events: &EventSender,
) -> Result<Writer, Failure> {
    manifest.check()?;
    let mut had = Vec::with_capacity(manifest.entries.len());
    let (mut told, mut failed, mut left_out) = (Vec::new(), Vec::new(), HashSet::new());
    store.prepare(manifest, stop, |entry, found| {
        let at = had.len() as u32;
        // What cannot be written need not be sent.
        had.push(found.as_ref().map_or(entry.size, |had| *had));
        told.extend(had.last().filter(|&&had| had > 0).map(|&had| (at, had)));
        if let Err(error) = found {
            left_out.insert(at);
            failed.push((at, error.reason()));
        }
        if told.len() >= BATCH {
            events.tell(DiskEvent::Had(std::mem::take(&mut told)));
        }
    })?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    if let Some(note) = remove_old_parts(store, manifest) {
        events.tell(DiskEvent::Note(note));
    }
    let layout = Arc::new(Layout::new(manifest, &had));
    store.check_room(manifest, &layout)?;
    events.tell(DiskEvent::Had(told));
    events.tell_failed(&failed);
    events.tell(DiskEvent::Agreed(layout.clone()));
    Ok(Writer::new(store.clone(), manifest.clone(), layout, left_out, stop.clone()))
}

fn remove_old_parts(store: &Store, manifest: &Manifest) -> Option<String> {
    match store.remove_old_parts(manifest, SystemTime::now()) {
        Ok((0, _)) => None,
        Ok((count, bytes)) => {
            let files = if count == 1 { "1 partial file".to_owned() } else { format!("{count} partial files") };
            Some(format!("removed {files} of earlier transfers, {bytes} bytes: nobody went on with them for a week"))
        }
        Err(error) => Some(format!("old partial files could not be removed: {error}")),
    }
}

/// Tells what became of a task, and of all of them once all has come. Whether another task can be done.
fn settle(writer: &mut Writer, result: Result<(), StoreError>, is_over: &mut bool, events: &EventSender) -> bool {
    let is_done = !*is_over && result.is_ok() && writer.is_done();
    let result = if is_done && writer.again() == 0 { writer.finish() } else { result };
    let failed: Vec<_> = writer.take_failures().iter().map(|(at, error)| (*at, error.reason())).collect();
    events.tell_failed(&failed);
    match result {
        Ok(()) if is_done => {
            *is_over = true;
            let again = writer.again();
            events.tell(if again > 0 { DiskEvent::Again(again) } else { DiskEvent::Done(writer.files()) });
            true
        }
        Ok(()) => {
            events.wake();
            true
        }
        Err(error) => {
            events.tell(DiskEvent::Broken(error.into()));
            false
        }
    }
}

impl Disk {
    /// Begins with the files of `manifest`.
    pub fn start(store: Arc<Store>, manifest: Arc<Manifest>) -> std::io::Result<Self> {
        let (tasks, orders) = channel();
        let (report, events) = channel();
        let (used, spare) = channel();
        let (written, done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::default());
        let (waker, wakes) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        wakes.set_nonblocking(true)?;
        let sender = EventSender { events: report, waker: wakes };
        let (so_far, finished, halt) = (written.clone(), done.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
            let mut writer = match agree(&store, &manifest, &halt, &sender) {
                Ok(writer) => writer,
                Err(failure) => return sender.tell(DiskEvent::Broken(failure)),
            };
            let settled = writer.settle_whole();
            // One that was stopped has not come to all of them.
            let mut is_over = halt.load(Ordering::Relaxed);
            finished.fetch_add(1, Ordering::Release);
            let mut goes_on = settle(&mut writer, settled, &mut is_over, &sender);
            for task in orders {
                if !goes_on {
                    return;
                }
                let result = match task {
                    Task::Write(bytes) => writer.write(&bytes).map(|()| {
                        so_far.fetch_add(bytes.len() as u64, Ordering::Release);
                        // Nobody needs it once the transfer is over.
                        let _ = used.send(bytes);
                    }),
                    Task::Expect(file, hash) => writer.expect(file, hash),
                    Task::GiveUp(file) => writer.give_up(file),
                };
                goes_on = settle(&mut writer, result, &mut is_over, &sender);
                finished.fetch_add(1, Ordering::Release);
            }
        })?;
        let ordered = Cell::new(1);
        Ok(Self { tasks: Some(tasks), ordered, done, written, stop, events, spare, waker, thread: Some(thread) })
    }

    /// The memory of bytes that are written.
    pub fn take_room(&self) -> Option<Vec<u8>> {
        self.spare.try_recv().ok()
    }

    pub fn order(&self, task: Task) {
        self.ordered.set(self.ordered.get() + 1);
        // A disk that failed has said why.
        let _ = self.tasks.as_ref().map(|tasks| tasks.send(task));
    }

    /// Returns true if it has something to do, and does it: a thread that panicked does nothing.
    pub fn is_busy(&self) -> bool {
        let is_alive = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        is_alive && self.done.load(Ordering::Acquire) < self.ordered.get()
    }

    /// Bytes of the stream that are written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Next event.
    pub fn next_event(&self) -> Option<DiskEvent> {
        let mut waker = &self.waker;
        while waker.read(&mut [0; 256]).is_ok_and(|count| count == 256) {}
        self.events.try_recv().ok()
    }

    /// Readable when something happened.
    pub fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // It looks at nothing more, writes what it was given, and ends.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_fail_are_told_in_parts_that_fit_into_a_message() {
        let (events, told) = channel();
        let (waker, _wakes) = UnixStream::pair().unwrap();
        let events = EventSender { events, waker };
        let failed: Vec<_> = (0..2 * BATCH as u32 + 1).map(|at| (at, "no permission".to_owned())).collect();
        events.tell_failed(&failed);
        let parts: Vec<Vec<_>> = told
            .try_iter()
            .filter_map(|event| match event {
                DiskEvent::Failed(files) => Some(files),
                _ => None,
            })
            .collect();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [BATCH, BATCH, 1]);
        assert_eq!(parts.concat(), failed);
    }
}
