//! A proxy or a relay on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weftway_transfer::{Failure, Progress};

/// Nothing here takes as long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One that runs until it is stopped.
pub struct Running {
    stop: Arc<AtomicBool>,
    pub told: Receiver<Progress>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Running {
    pub fn start(run: impl FnOnce(&mut dyn FnMut(&Progress) -> bool) -> Result<(), Failure> + Send + 'static) -> Self {
        let (stop, (tell, told)) = (Arc::new(AtomicBool::new(false)), channel());
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            run(&mut |progress: &Progress| {
                let _ = tell.send(progress.clone());
                !stopped.load(Ordering::Relaxed)
            })
        });
        Self { stop, told, thread: Some(thread) }
    }

    /// The first state of which `is` is true.
    pub fn until(&self, what: &str, is: impl Fn(&Progress) -> bool) -> Progress {
        let deadline = Instant::now() + PATIENCE;
        let mut last = None;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let progress = self.told.recv_timeout(left);
            let progress = progress.unwrap_or_else(|_| panic!("waited for {what}; the last state was {last:?}"));
            if is(&progress) {
                return progress;
            }
            last = Some(progress);
        }
    }

    /// Waits until one of the notes says `words`.
    pub fn until_told(&self, words: &str) -> String {
        let told = |progress: &Progress| progress.note.clone().filter(|note| note.contains(words));
        told(&self.until(words, |progress| told(progress).is_some())).unwrap()
    }

    /// What came of it, once it has ended by itself.
    pub fn ended(&mut self) -> Result<(), Failure> {
        let (thread, deadline) = (self.thread.take().unwrap(), Instant::now() + PATIENCE);
        while !thread.is_finished() {
            assert!(Instant::now() < deadline, "it goes on");
            thread::sleep(Duration::from_millis(5));
        }
        thread.join().unwrap()
    }

    /// Stops it.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
