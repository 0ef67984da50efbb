//! A running program, and all that are told of it: its user, `weft top`, Prometheus, systemd.

use weftway_transfer::Progress;

use crate::failure::Done;

/// A running program. While this lives, nobody who does not read what is printed holds the program up.
pub struct Watched {}

impl Watched {
    /// A program of this name. With `json` standard output has its snapshots; at `metrics` Prometheus may ask.
    pub fn new(program: &str, metrics: Option<&str>, json: bool) -> Done<Self> {
        let _ = (program, metrics, json);
        Ok(Self {})
    }

    /// Takes in how far it is: called ten times a second.
    pub fn tell(&mut self, progress: &Progress) {
        self.tell_as(progress, None, None);
    }

    /// The same of a tunnel, whose state may be another (`bypassed`, `blocked`) and which may have something more to tell.
    pub fn tell_as(&mut self, progress: &Progress, state: Option<&str>, note: Option<&str>) {
        let _ = (progress, state, note);
    }

    /// Names of schedulers that are to take over, as `weft top` was told.
    pub fn schedulers(&mut self) -> Vec<String> {
        Vec::new()
    }
}
