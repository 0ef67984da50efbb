//! The receiver's disk, on a thread of its own.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as Inbox, Sender as Outbox, channel};
use std::thread::JoinHandle;

use super::store::StoreError;
use super::writer::Writer;

/// What the disk has to do.
pub(super) enum Task {
    Write(Vec<u8>),
    Expect(u32, blake3::Hash),
    /// The sender cannot read this file.
    GiveUp(u32),
}

/// What it tells.
pub(super) enum DiskEvent {
    /// This file cannot be written. The others can.
    Failed(u32, StoreError),
    /// All has come: so many files are there.
    Done(u64),
    /// Nothing can be written any more.
    Broken(StoreError),
}

/// The disk's thread.
pub(super) struct Disk {
    tasks: Option<Outbox<Task>>,
    /// Bytes of the stream that are written.
    written: Arc<AtomicU64>,
    events: Inbox<DiskEvent>,
    waker: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Disk {
    pub fn start(mut writer: Writer) -> std::io::Result<Self> {
        let (tasks, orders) = channel();
        let (report, events) = channel();
        let written = Arc::new(AtomicU64::new(0));
        let (waker, mut wakes) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        wakes.set_nonblocking(true)?;
        let so_far = written.clone();
        let thread = std::thread::spawn(move || {
            // Whoever waits for events has gone if they cannot be sent; what is written stays.
            let mut done = false;
            let mut tell = |writer: &mut Writer, result: Result<(), StoreError>| {
                let is_done = !done && result.is_ok() && writer.is_done();
                let result = if is_done { writer.finish() } else { result };
                for (entry, error) in writer.take_failures() {
                    let _ = report.send(DiskEvent::Failed(entry, error));
                }
                let goes_on = result.is_ok();
                match result {
                    Ok(()) if is_done => {
                        done = true;
                        let _ = report.send(DiskEvent::Done(writer.files()));
                    }
                    Ok(()) => {}
                    Err(error) => {
                        let _ = report.send(DiskEvent::Broken(error));
                    }
                }
                let _ = wakes.write(&[0]);
                goes_on
            };
            let mut goes_on = tell(&mut writer, Ok(()));
            for task in orders {
                if !goes_on {
                    return;
                }
                let result = match task {
                    Task::Write(bytes) => writer.write(&bytes).map(|()| {
                        so_far.fetch_add(bytes.len() as u64, Ordering::Release);
                    }),
                    Task::Expect(file, hash) => writer.expect(file, hash),
                    Task::GiveUp(file) => writer.give_up(file),
                };
                goes_on = tell(&mut writer, result);
            }
        });
        Ok(Self { tasks: Some(tasks), written, events, waker, thread: Some(thread) })
    }

    pub fn order(&self, task: Task) {
        // A disk that failed has said why.
        let _ = self.tasks.as_ref().map(|tasks| tasks.send(task));
    }

    /// Bytes of the stream that are written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// What happened next.
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
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // It writes what it was given, and ends.
            let _ = thread.join();
        }
    }
}

/// Puts data into the ring of what waits for the disk; what was handed over already is left out.
pub(super) fn keep(ring: &mut [u8], mut from: u64, mut data: &[u8], next: u64) {
    if from < next {
        let known = usize::try_from(next - from).unwrap_or(usize::MAX).min(data.len());
        (from, data) = (from + known as u64, &data[known..]);
    }
    let at = (from % ring.len() as u64) as usize;
    let (first, rest) = data.split_at(data.len().min(ring.len() - at));
    ring[at..at + first.len()].copy_from_slice(first);
    ring[..rest.len()].copy_from_slice(rest);
}
