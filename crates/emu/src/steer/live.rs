//! Steering beside a program: a thread that steers the connections of the caller's namespace.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::{Askers, Connection, Settings, Steering, SteeringReport};
use crate::EmuError;

/// Steers until it is stopped or dropped; then priorities are what they were.
#[derive(Debug)]
pub struct LiveSteering {
    connections: Arc<Mutex<Vec<Connection>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<SteeringReport, EmuError>>>,
}

impl LiveSteering {
    /// Begins in the calling thread's namespace. Needs `CAP_NET_ADMIN`.
    pub fn start(mut askers: Askers, settings: Settings) -> Result<Self, EmuError> {
        let mut steering = Steering::open(settings)?;
        let (connections, stop) = (Arc::new(Mutex::default()), Arc::new(AtomicBool::new(false)));
        let thread = thread::spawn({
            let (connections, stop) = (connections.clone(), stop.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    steering.step(&mut |token, cx| askers.ask(token, cx))?;
                    askers.retain(steering.connections());
                    steering.connections().clone_into(&mut lock(&connections));
                    steering.wait()?;
                }
                Ok(SteeringReport { faults: askers.faults(), ..steering.finish()? })
            }
        });
        Ok(Self { connections, stop, thread: Some(thread) })
    }

    /// Returns true if it goes on: it may have ended by itself, which [`LiveSteering::stop`] explains.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// The connections as they were last seen.
    pub fn connections(&self) -> Vec<Connection> {
        lock(&self.connections).clone()
    }

    /// Restores the priorities: what was done.
    pub fn stop(mut self) -> Result<SteeringReport, EmuError> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("only this and `drop` take it");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for LiveSteering {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread restores the priorities, and there is nobody to tell of a failure.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
