//! Runs that are written down.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use weftway_path::{Decision, Instant};
use weftway_sim::log::{GoldenTrace, Qlog, Timeline};
use weftway_sim::{Listener, Note};

use crate::errors::Error;
use crate::job::{Alone, Finished, Job};

/// Details of how a run was made, key by key.
type Details = Vec<(String, String)>;

/// Runs a job on this thread and writes its events to one file, its qlog to another: kind and
/// text, as from a batch.
#[pyfunction]
pub fn record(
    py: Python<'_>,
    job: Job,
    details: Details,
    events: Option<PathBuf>,
    qlog: Option<PathBuf>,
) -> PyResult<(&'static str, String)> {
    if let Some(why) = job.obstacle() {
        return Ok(Finished::Skipped(why).told());
    }
    let events = events.map(|path| events_file(&path, &details)).transpose().map_err(Error::File)?;
    let qlog = qlog.map(|path| qlog_file(&path, &job, &details)).transpose().map_err(Error::File)?;
    let listeners = events.iter().map(Log::listener).chain(qlog.iter().map(Log::listener)).collect();
    let row = job.run_here(py, listeners, &Alone::default())?;
    events.map(Log::keep).transpose().map_err(Error::File)?;
    qlog.map(Log::keep).transpose().map_err(Error::File)?;
    Ok(Finished::Row(row).told())
}

/// Runs a job on this thread: what it looked like over time, as JSON. No path runs alone for it.
#[pyfunction]
pub fn timeline(py: Python<'_>, job: Job) -> PyResult<Option<String>> {
    let watch = Watch::new(&job);
    job.run_here(py, vec![watch.listener()], &Alone::unwanted())?;
    Ok(watch.told())
}

/// Takes down what a run looks like over time. A simulation owns those who listen to it, so that each note costs no
/// lock; what was taken down comes back when the simulation is dropped.
pub struct Watch {
    names: Vec<String>,
    place: Arc<Mutex<Option<Timeline>>>,
}

struct Watcher {
    timeline: Timeline,
    place: Arc<Mutex<Option<Timeline>>>,
}

impl Watch {
    /// For a run of this job.
    pub fn new(job: &Job) -> Self {
        Self { names: job.path_names(), place: Arc::default() }
    }

    /// Listener that the run is to be told to.
    pub fn listener(&self) -> Box<dyn Listener> {
        Box::new(Watcher { timeline: Timeline::new(self.names.clone()), place: self.place.clone() })
    }

    /// Timeline of the run, as JSON; nothing before its simulation is dropped.
    pub fn told(&self) -> Option<String> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().map(|timeline| timeline.to_json().to_string())
    }
}

impl Listener for Watcher {
    fn note(&mut self, now: Instant, conn: u8, note: &Note) {
        self.timeline.note(now, conn, note);
    }

    fn asks_why(&mut self, now: Instant, conn: u8, decision: Decision) -> bool {
        self.timeline.asks_why(now, conn, decision)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let timeline = std::mem::replace(&mut self.timeline, Timeline::new([""; 0]));
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(timeline);
    }
}

/// A file that is written beside its place, and put into it when it is whole. What a link leads to is replaced, not the
/// link; a device or a pipe, as `/dev/stdout`, stays and is written to.
struct Log<L: Ends> {
    listener: Arc<Mutex<L>>,
    /// File that is written, and where it goes: nowhere if it is written where it belongs.
    half: Option<(PathBuf, PathBuf)>,
}

/// A listener that writes to a file until its end.
trait Ends: Listener {
    /// Writes out what is buffered.
    fn end(&mut self) -> io::Result<()>;
}

impl Ends for GoldenTrace<File> {
    fn end(&mut self) -> io::Result<()> {
        self.finish().map(drop)
    }
}

impl Ends for Qlog<File> {
    fn end(&mut self) -> io::Result<()> {
        self.finish().map(drop)
    }
}

impl<L: Ends + 'static> Log<L> {
    fn new(place: &Path, make: impl FnOnce(File) -> L) -> io::Result<Self> {
        let is_device = fs::metadata(place).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
        let half = (!is_device).then(|| {
            let place = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
            let name = place.file_name().unwrap_or_default().to_string_lossy();
            (place.with_file_name(format!(".{name}.{}", std::process::id())), place)
        });
        let file = half.as_ref().map_or(place, |(half, _)| half);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = File::create(file)?;
        Ok(Self { listener: Arc::new(Mutex::new(make(file))), half })
    }

    fn listener(&self) -> Box<dyn Listener> {
        Box::new(self.listener.clone())
    }

    fn keep(self) -> io::Result<()> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).end()?;
        self.half.as_ref().map_or(Ok(()), |(half, place)| fs::rename(half, place))
    }
}

impl<L: Ends> Drop for Log<L> {
    fn drop(&mut self) {
        // Gone already if the log was kept.
        if let Some((half, _)) = &self.half {
            let _ = fs::remove_file(half);
        }
    }
}

fn events_file(place: &Path, details: &Details) -> io::Result<Log<GoldenTrace<File>>> {
    Log::new(place, |file| GoldenTrace::new(file, details.iter().map(|(key, value)| (key, value))))
}

fn qlog_file(place: &Path, job: &Job, details: &Details) -> io::Result<Log<Qlog<File>>> {
    let details = details.iter().map(|(key, value)| (key, value));
    Log::new(place, |file| Qlog::new(file, job.config(), &job.title(), details))
}
