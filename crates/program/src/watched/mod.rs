//! A running program, and all that are told of it: its user, `weft top`, Prometheus, systemd.
//!
//! A program gets its progress ten times a second. Once a second a [`Snapshot`] is made of it, which is the same for
//! all that ask (docs/how-to/see.md). `weft top` may ask the program to switch its scheduler, and for its last hour.

mod hour;
mod hour_page;
mod local_socket;
mod losses;
mod metrics;
mod metrics_server;
mod moment;
mod read;
mod service_manager;
mod snapshot;
mod svg;
mod values;

use std::sync::mpsc::Sender;
use std::time::Instant;

use serde_json::Value;
use weftway_transfer::Progress;

use crate::address::{resolve, split_listening};
use crate::display::{Display, state_name};
use crate::failure::{Done, Failure};
use crate::output::{self, BesideTraffic};
use crate::text::printable;

use hour::Hour;
use local_socket::LocalSocket;
use metrics_server::MetricsServer;
use service_manager::ServiceManager;
use snapshot::{Snapshot, Snapshots};

pub use hour_page::page as hour_page;
pub use local_socket::{check_ours, folder};
pub use read::ToldFlow;
pub use values::queue_ms;

/// Most schedulers that take over each time that the program looks.
const MOST_SWITCHES: usize = 8;
/// Notes that are kept, the latest, for a reader of JSON that does not read on.
const MOST_NOTES: usize = 100;

/// Snapshots as lines of JSON on standard output. Where nobody reads, the last is kept, with the notes of all.
#[derive(Default)]
struct Lines(Option<Value>);

impl Lines {
    fn tell(&mut self, mut told: Value) {
        if let Some(kept) = self.0.take() {
            told["notes"] = latest_notes(&kept["notes"], &told["notes"]);
        }
        if !output::write_if_free(&(output::json_text(&told) + "\n")) {
            self.0 = Some(told);
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(kept) = self.0.take() {
            let _ = output::print(&output::json_text(&kept));
        }
    }
}

fn latest_notes(earlier: &Value, later: &Value) -> Value {
    let all: Vec<&Value> = [earlier, later].into_iter().filter_map(Value::as_array).flatten().collect();
    all[all.len().saturating_sub(MOST_NOTES)..].iter().copied().cloned().collect()
}

/// A running program. While this lives, nobody who does not read what is printed holds the program up.
pub struct Watched {
    // They end in this order: what is printed at the end is still printed beside traffic.
    metrics: Option<MetricsServer>,
    lines: Option<Lines>,
    socket: Option<LocalSocket>,
    display: Display,
    manager: ServiceManager,
    snapshots: Snapshots,
    hour: Hour,
    _beside: BesideTraffic,
}

impl Watched {
    /// A program of this name. With `json` standard output has its snapshots; at `metrics` Prometheus may ask.
    pub fn new(program: &str, metrics: Option<&str>, json: bool) -> Done<Self> {
        let beside = output::beside_traffic();
        let manager = ServiceManager::new();
        let metrics = metrics.map(serve_metrics).transpose()?;
        let socket = LocalSocket::new(program);
        if let Some(text) = socket.as_ref().err().and_then(Failure::text) {
            // Nobody needs it to carry anything.
            output::say(&format!("weft top will not show this program: {}", printable(text, "")));
        }
        Ok(Self {
            metrics,
            lines: json.then(Lines::default),
            socket: socket.ok(),
            display: Display::new("listening at"),
            manager,
            snapshots: Snapshots::new(program),
            hour: Hour::default(),
            _beside: beside,
        })
    }

    /// Takes in how far it is: called ten times a second.
    pub fn tell(&mut self, progress: &Progress) {
        self.tell_as(progress, None, None);
    }

    /// Takes in how far a tunnel is, whose state may be another (`bypassed`, `blocked`) and which may have something
    /// more to tell.
    pub fn tell_as(&mut self, progress: &Progress, state: Option<&str>, note: Option<&str>) {
        let with_note;
        let progress = match note {
            Some(note) => {
                with_note = Progress { note: joined(progress.note.as_deref(), note), ..progress.clone() };
                &with_note
            }
            None => progress,
        };
        let own = state_name(progress.state);
        let state = state.unwrap_or(own);
        let now = Instant::now();
        self.display.tell(progress, state);
        self.manager.alive(now);
        if let Some(metrics) = &self.metrics {
            metrics.tell_pipes(&progress.pipes);
        }
        if let Some(snapshot) = self.snapshots.take(progress, state, output::dropped_lines(), now) {
            self.tell_all(&snapshot);
        }
    }

    fn tell_all(&mut self, snapshot: &Snapshot) {
        self.manager.tell(snapshot);
        self.hour.tell(snapshot);
        if let Some(metrics) = &self.metrics {
            metrics.tell(snapshot);
        }
        let told = snapshot.json();
        if let Some(socket) = &mut self.socket {
            socket.tell(&told, || self.hour.told());
        }
        if let Some(lines) = &mut self.lines {
            lines.tell(told);
        }
    }

    /// Passes on the names of schedulers that are to take over, as `weft top` was told.
    pub fn pass_schedulers(&mut self, switches: &Sender<String>) {
        let requests = self.socket.as_mut().map(LocalSocket::requests).unwrap_or_default();
        let named = requests.iter().filter_map(|request| request.get("scheduler")?.as_str().map(str::to_owned));
        for name in named.take(MOST_SWITCHES) {
            // The program may end, and take none any more.
            let _ = switches.send(name);
        }
    }
}

/// Two notes as one.
fn joined(first: Option<&str>, second: &str) -> Option<String> {
    let both: Vec<&str> = first.into_iter().chain([second]).filter(|text| !text.is_empty()).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

/// Refuses a place that `--metrics` cannot name.
pub fn check_metrics(text: &str) -> Done {
    split_listening(text, metrics_server::PORT).map(drop)
}

fn serve_metrics(text: &str) -> Done<MetricsServer> {
    let (host, port) = split_listening(text, metrics_server::PORT)?;
    let host = host.unwrap_or_else(|| "127.0.0.1".to_owned());
    let served = MetricsServer::new(&resolve(&host, port)?, &format!("{host}:{port}"))?;
    output::say(&format!("metrics at http://{}/metrics", served.address));
    Ok(served)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_notes_the_latest_are_kept() {
        let earlier = Value::from_iter(0..99);
        assert_eq!(latest_notes(&json!([]), &json!(["a"])), json!(["a"]));
        let kept = latest_notes(&earlier, &json!(["a", "b"]));
        assert_eq!((kept[0].as_i64(), kept[99].as_str(), kept[100].as_str()), (Some(1), Some("b"), None));
    }

    #[test]
    fn a_note_more_stands_behind_the_first() {
        assert_eq!(joined(Some("it is here"), "it is kept").as_deref(), Some("it is here; it is kept"));
        assert_eq!(joined(None, "it is kept").as_deref(), Some("it is kept"));
        assert_eq!(joined(None, ""), None);
    }
}
