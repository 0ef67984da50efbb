//! A queue before a file: its writer does not wait, and a thread hands on what was written.
//!
//! A terminal that was stopped with Ctrl-S, a pipe that nobody reads and a full disk hold up this thread alone. The
//! descriptor stays as it is: `O_NONBLOCK` would be set for the shell and for all programs that have the same terminal.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use rustix::event::{PollFd, PollFlags, poll};

/// Bytes that may wait to be written beside traffic, as many as a pipe of Linux holds. More are dropped.
const MOST_BYTES: u64 = 1 << 16;
/// Bytes that are written at once: a pipe takes them whole (`PIPE_BUF`), and each slice shows that somebody reads.
const SLICE: usize = 4096;
/// Longest wait, when a program ends, for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest wait for a reader that takes a little now and then.
const LONGEST_END: Duration = Duration::from_secs(30);

/// A file, and what waits to be written to it.
pub struct Queue {
    shared: Arc<Shared>,
    patience: Duration,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something was put in, or taken out.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    parts: VecDeque<Vec<u8>>,
    /// Bytes that were put in since the beginning.
    put: u64,
    /// Bytes that are written, or that failed to be.
    taken: u64,
    /// Lines that were dropped.
    dropped: u64,
    /// Number of dropped lines that the user was told of.
    told: u64,
    /// Error of the last write, if it failed.
    error: Option<Errno>,
    is_beside_traffic: bool,
    /// `taken` when a reader was given up. Until it takes something nobody waits for it again.
    gave_up_at: Option<u64>,
}

impl State {
    fn reader_has_gone(&self) -> bool {
        self.error == Some(Errno::EPIPE)
    }

    fn is_free(&self) -> bool {
        self.put == self.taken && !self.reader_has_gone()
    }

    fn put(&mut self, part: &[u8]) {
        self.put += part.len() as u64;
        self.parts.push_back(part.to_vec());
    }
}

impl Queue {
    /// A queue before this file. Error: the system has no thread for it.
    pub fn new(file: OwnedFd) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let worker = Arc::clone(&shared);
        let name = "output".to_owned();
        std::thread::Builder::new().name(name).stack_size(1 << 16).spawn(move || worker.work(&file))?;
        Ok(Self { shared, patience: PATIENCE })
    }

    /// Puts text in, or drops it where too much waits already; without traffic the reader is waited for first. Returns
    /// true if it was put in.
    pub fn write(&self, part: &[u8]) -> bool {
        let mut state = self.shared.lock();
        if !state.reader_has_gone() && state.put - state.taken >= MOST_BYTES {
            let waits_for_nobody = state.is_beside_traffic || state.gave_up_at == Some(state.taken);
            let has_room;
            (state, has_room) =
                if waits_for_nobody { (state, false) } else { self.wait(state, MOST_BYTES - 1, Instant::now()) };
            if !has_room {
                state.dropped += lines(part);
                return false;
            }
        }
        if state.reader_has_gone() {
            state.dropped += lines(part);
            return false;
        }
        if !part.is_empty() {
            state.put(part);
            self.shared.changed.notify_all();
        }
        true
    }

    /// Puts a line in if no other waits, and drops it otherwise; returns true if it was put in.
    pub fn write_if_free(&self, line: &[u8]) -> bool {
        let mut state = self.shared.lock();
        let is_free = state.is_free();
        if is_free {
            state.put(line);
            self.shared.changed.notify_all();
        } else {
            state.dropped += 1;
        }
        is_free
    }

    /// Returns true while nothing waits to be written and the reader has not gone.
    pub fn is_free(&self) -> bool {
        self.shared.lock().is_free()
    }

    /// Sets whether this is beside traffic, where nobody waits for the reader.
    pub fn set_beside_traffic(&self, is_beside_traffic: bool) {
        self.shared.lock().is_beside_traffic = is_beside_traffic;
    }

    /// Number of lines that were dropped.
    pub fn dropped(&self) -> u64 {
        self.shared.lock().dropped
    }

    /// Number of lines that were dropped since the last call, once the reader takes some again; otherwise none.
    pub fn newly_dropped(&self) -> Option<u64> {
        let mut state = self.shared.lock();
        if state.error.is_some() || !state.is_free() || state.dropped == state.told {
            return None;
        }
        let count = state.dropped - state.told;
        state.told = state.dropped;
        Some(count)
    }

    /// Waits for the reader from `begun` on. Error: what was written last could not be handed on.
    pub fn finish(&self, begun: Instant) -> Result<(), Errno> {
        let (state, all_is_taken) = self.wait(self.shared.lock(), 0, begun);
        match state.error {
            Some(error) if all_is_taken => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until at most `most` bytes are left, as long as a reader takes some; returns true if they are.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State>, most: u64, begun: Instant) -> (MutexGuard<'a, State>, bool) {
        let (mut taken, mut since) = (state.taken, begun);
        while state.put - state.taken > most {
            let now = Instant::now();
            if state.taken != taken {
                (taken, since) = (state.taken, now);
            }
            let end = (since + self.patience).min(begun + LONGEST_END);
            if now >= end {
                state.gave_up_at = Some(taken);
                return (state, false);
            }
            let waited = self.shared.changed.wait_timeout(state, end - now);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        (state, true)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, file: &OwnedFd) {
        loop {
            let mut state = self.lock();
            let part = loop {
                match state.parts.pop_front() {
                    Some(part) => break part,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            self.hand_on(file, &part);
        }
    }

    /// Writes all of a part. What is taken, and an error, are seen at the same moment.
    fn hand_on(&self, file: &OwnedFd, part: &[u8]) {
        let mut rest = part;
        while !rest.is_empty() {
            let written = write_some(file.as_fd(), rest);
            let mut state = self.lock();
            state.error = written.err();
            let count = match written {
                Ok(count) => count,
                Err(_) => {
                    state.dropped += lines(part);
                    rest.len()
                }
            };
            state.taken += count as u64;
            rest = &rest[count..];
            self.changed.notify_all();
        }
    }
}

/// Writes a slice to a file, and waits for its reader. An interrupt breaks the wait off: nothing was written.
fn write_some(file: BorrowedFd<'_>, text: &[u8]) -> Result<usize, Errno> {
    let error = |error: rustix::io::Errno| Errno::from_raw(error.raw_os_error());
    loop {
        match rustix::io::write(file, &text[..text.len().min(SLICE)]) {
            // Another program with this terminal or pipe has set O_NONBLOCK.
            Err(rustix::io::Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&file, PollFlags::OUT)], None);
            }
            Err(rustix::io::Errno::INTR) => {}
            written => return written.map_err(error),
        }
    }
}

/// Writes text to a file, and waits for its reader unless the program is interrupted. Returns true if it wrote all.
pub fn write_now(file: BorrowedFd<'_>, text: &[u8], is_interrupted: impl Fn() -> bool) -> Result<bool, Errno> {
    let mut rest = text;
    while !rest.is_empty() {
        // A signal breaks this wait off. What is ready takes a slice without one.
        match poll(&mut [PollFd::new(&file, PollFlags::OUT)], None) {
            Err(rustix::io::Errno::INTR) if is_interrupted() => return Ok(false),
            Err(rustix::io::Errno::INTR) => continue,
            _ => rest = &rest[write_some(file, rest)?..],
        }
    }
    Ok(true)
}

fn lines(part: &[u8]) -> u64 {
    let count = part.iter().filter(|&&byte| byte == b'\n').count() as u64;
    if part.is_empty() { 0 } else { count.max(1) }
}

#[cfg(test)]
mod tests;
