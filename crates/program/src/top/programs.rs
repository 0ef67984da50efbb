//! All programs of this user that run, as `weft top` follows them.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::reader::{Reader, running};
use crate::failure::Done;

/// Time between two looks for another program that has started.
const LOOK: Duration = Duration::from_secs(1);
/// A note is shown for so long.
const NOTE: Duration = Duration::from_secs(10);

/// Programs that run.
#[derive(Default)]
pub struct Programs {
    programs: Vec<Program>,
    looked: Option<Instant>,
}

struct Program {
    reader: Reader,
    /// Its last snapshot.
    snapshot: Option<Value>,
    /// Its last note for its user, and the instant until which that is shown.
    note: Option<(Instant, Value)>,
}

impl Programs {
    /// Finds those that have started, now and then.
    pub fn look(&mut self) -> Done {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            self.looked = Some(Instant::now());
            let known: Vec<&Path> = self.readers().map(|reader| reader.path.as_path()).collect();
            let found = running(&known)?;
            self.programs.extend(found.into_iter().map(|reader| Program { reader, snapshot: None, note: None }));
        }
        Ok(())
    }

    /// Sockets on which each of them tells something.
    pub fn readers(&self) -> impl Iterator<Item = &Reader> {
        self.programs.iter().map(|program| &program.reader)
    }

    /// Takes in what those that are `ready` have told, in the order of the readers. One that has ended is left.
    pub fn read(&mut self, ready: &[bool]) {
        let mut ready = ready.iter().copied();
        self.programs.retain_mut(|program| !ready.next().unwrap_or(false) || program.read().is_ok());
    }

    /// The last snapshot of each, with what it told its user last, if that is not long ago.
    pub fn snapshots(&self) -> Vec<Value> {
        self.programs.iter().filter_map(Program::shown).collect()
    }

    /// Asks the program with this number for something, if it runs still.
    pub fn ask(&mut self, pid: u64, request: &Value) {
        let is_it = |program: &Program| program.snapshot.as_ref().is_some_and(|told| told["pid"] == pid);
        self.programs.retain_mut(|program| !is_it(program) || program.reader.ask(request).is_ok());
    }
}

impl Program {
    fn read(&mut self) -> std::io::Result<()> {
        if let Some(snapshot) = self.reader.read()? {
            if let Some(note) = snapshot["notes"].as_array().and_then(|notes| notes.last()) {
                self.note = Some((Instant::now() + NOTE, note.clone()));
            }
            self.snapshot = Some(snapshot);
        }
        Ok(())
    }

    fn shown(&self) -> Option<Value> {
        let mut snapshot = self.snapshot.clone()?;
        let note = self.note.as_ref().filter(|(until, _)| Instant::now() < *until).map(|(_, note)| note.clone());
        snapshot["notes"] = note.into_iter().collect();
        Some(snapshot)
    }
}
