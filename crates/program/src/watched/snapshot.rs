//! Snapshots of a running program, one a second: its progress, and the rates of each link in the last minute.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Map, Value, json};
use weftway_transfer::{PathProgress, Progress};

use super::losses::{Loss, Losses};
use super::values::{push, rounded};
use crate::display::rates;
use crate::text::printable;

/// Time between two snapshots.
const EVERY: Duration = Duration::from_secs(1);
/// Rates that are kept of each link, one for each snapshot.
const MINUTE: usize = 60;

/// A program at a moment, the same for all that are told of it (docs/how-to/see.md).
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The verb that runs.
    pub program: String,
    /// Seconds since 1970.
    pub at: f64,
    /// The state of `progress`, or of the tunnel.
    pub state: String,
    /// Progress; its paths are in `paths`, and its note in `notes`.
    pub progress: Progress,
    /// All that the user was told since the snapshot before.
    pub notes: Vec<String>,
    /// Lines of output that nobody took.
    pub dropped_lines: u64,
    /// Each link.
    pub paths: Vec<PathNow>,
    /// Links on which losses without a queue hold the controller down, those of clients among them.
    pub losses: Vec<Loss>,
}

/// A link at a moment.
#[derive(Clone, Debug, Serialize)]
pub struct PathNow {
    /// Its counters.
    #[serde(flatten)]
    pub path: PathProgress,
    /// The rate since the snapshot before.
    pub mbps: f64,
    /// The rates of the last minute, the latest last.
    pub minute: VecDeque<f64>,
}

impl Snapshot {
    /// The snapshot as `weft top --json` prints it.
    pub fn json(&self) -> Value {
        let mut told = Map::new();
        told.insert("program".into(), json!(self.program));
        told.insert("pid".into(), json!(std::process::id()));
        told.insert("at".into(), json!(self.at));
        if let Value::Object(progress) = json!(self.progress) {
            told.extend(progress.into_iter().filter(|(key, _)| key != "note" && key != "paths"));
        }
        told.insert("state".into(), json!(self.state));
        told.insert("notes".into(), json!(self.notes));
        told.insert("dropped_lines".into(), json!(self.dropped_lines));
        told.insert("losses".into(), json!(self.losses));
        told.insert("paths".into(), json!(self.paths));
        Value::Object(told)
    }
}

/// Makes the snapshots of one program.
pub struct Snapshots {
    program: String,
    due: Option<Instant>,
    /// The paths of the snapshot before, and its time.
    before: Option<(Vec<PathProgress>, Instant)>,
    notes: Vec<String>,
    minutes: HashMap<String, VecDeque<f64>>,
    losses: Losses,
}

impl Snapshots {
    /// Snapshots of a program of this name.
    pub fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            due: None,
            before: None,
            notes: Vec::new(),
            minutes: HashMap::new(),
            losses: Losses::default(),
        }
    }

    /// Takes the progress in, and returns a snapshot if one is due. No note is lost.
    pub fn take(&mut self, progress: &Progress, state: &str, dropped_lines: u64, now: Instant) -> Option<Snapshot> {
        self.notes.extend(progress.note.as_deref().map(|note| printable(note, "")));
        if self.due.is_some_and(|due| now < due) {
            return None;
        }
        self.due = Some(now + EVERY);
        let paths = self.paths(&progress.paths, now);
        let of_clients = progress.connections.by_client.iter().flat_map(|client| &client.paths);
        let losses =
            self.losses.see(progress.cc.as_deref().unwrap_or_default(), progress.paths.iter().chain(of_clients));
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Some(Snapshot {
            program: self.program.clone(),
            at: rounded(at, 3),
            state: state.to_owned(),
            progress: Progress { note: None, paths: Vec::new(), ..progress.clone() },
            notes: std::mem::take(&mut self.notes),
            dropped_lines,
            paths,
            losses,
        })
    }

    /// The paths with their rates; they are kept for the next snapshot.
    fn paths(&mut self, paths: &[PathProgress], now: Instant) -> Vec<PathNow> {
        let (before, seconds) = match &self.before {
            Some((before, at)) => (Some(&before[..]), now.duration_since(*at).as_secs_f64()),
            None => (None, 0.0),
        };
        let carried = rates(before, paths, seconds);
        self.before = Some((paths.to_vec(), now));
        paths.iter().zip(carried).map(|(path, mbps)| self.path(path, rounded(mbps, 3))).collect()
    }

    fn path(&mut self, path: &PathProgress, mbps: f64) -> PathNow {
        let minute = self.minutes.entry(path.path.clone()).or_default();
        push(minute, mbps, MINUTE);
        PathNow { path: path.clone(), mbps, minute: minute.clone() }
    }
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use weftway_transfer::{ByClass, Connections, FlowPath, FlowProgress, LinkProgress, State};

    use super::*;

    /// A link with a policy.
    pub fn path(name: &str) -> PathProgress {
        PathProgress {
            path: name.to_owned(),
            up: true,
            bytes: 1000,
            carried: Some(5_000_000),
            srtt_ms: Some(12.5),
            min_rtt_ms: Some(10.0),
            packets: 200,
            lost: 1,
            policy: Some(LinkProgress {
                tier: "secondary".into(),
                open: false,
                carried: 5_000_000,
                left: Some(7_000_000),
                cost: None,
            }),
            ..PathProgress::default()
        }
    }

    /// A proxy that carries three connections.
    pub fn progress() -> Progress {
        let share = |path: &str, received| FlowPath { path: path.into(), sent: 100, received };
        let busiest = FlowProgress {
            target: "example.org:443".into(),
            class: "bulk",
            up: 10,
            down: 2_000_000,
            paths: vec![share("wlan0", 1_499_900), share("wwan0", 500_000)],
        };
        Progress {
            state: State::Relaying,
            ports: vec!["127.0.0.1:1080".into()],
            flows: 3,
            connections: Connections {
                by_class: ByClass { realtime: 1, interactive: 0, bulk: 2 },
                busiest: vec![busiest],
                refusals: BTreeMap::from([("not_allowed", 4)]),
                drops: BTreeMap::from([("too_long", 2), ("malformed", 1)]),
                ..Connections::default()
            },
            paths: vec![path("wlan0")],
            ..Progress::default()
        }
    }

    /// A snapshot of this progress.
    pub fn snapshot(progress: &Progress) -> Snapshot {
        Snapshots::new("proxy").take(progress, "relaying", 0, Instant::now()).expect("the first is due")
    }

    fn noted(note: Option<String>) -> Progress {
        Progress { note, ..progress() }
    }

    #[test]
    fn a_snapshot_comes_each_second_and_no_note_is_lost() {
        let (mut snapshots, began) = (Snapshots::new("proxy"), Instant::now());
        let first = snapshots.take(&noted(Some("connected\u{1b}".into())), "relaying", 0, began).expect("due");
        assert_eq!((first.notes, first.paths[0].mbps), (vec!["connected\\x1b".to_owned()], 0.0));
        for number in 0..9 {
            let note = (number % 4 == 0).then(|| format!("note {number}"));
            let now = began + Duration::from_millis(100 * number);
            assert!(snapshots.take(&noted(note), "relaying", 0, now).is_none());
        }
        let mut faster = progress();
        faster.paths[0].carried = Some(6_250_000);
        let second = snapshots.take(&faster, "bypassed", 7, began + Duration::from_secs(1)).expect("due");
        assert_eq!(second.notes, ["note 0", "note 4", "note 8"]);
        let told = second.json();
        assert_eq!((&told["paths"][0]["mbps"], &told["paths"][0]["minute"]), (&json!(10.0), &json!([0.0, 10.0])));
        assert_eq!((&told["program"], &told["pid"]), (&json!("proxy"), &json!(std::process::id())));
        assert_eq!((&told["state"], &told["dropped_lines"]), (&json!("bypassed"), &json!(7)));
        assert_eq!((&told["by_class"]["bulk"], &told["drops"]["malformed"]), (&json!(2), &json!(1)));
        assert!(told.get("note").is_none());
        let keys: Vec<_> = told.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!((&keys[..4], keys.last()), (&["program", "pid", "at", "state"][..], Some(&"paths")));
    }

    #[test]
    fn a_minute_of_rates_is_kept() {
        let (mut snapshots, began) = (Snapshots::new("proxy"), Instant::now());
        let mut minute = VecDeque::new();
        for second in 0..100 {
            let mut told = progress();
            told.paths[0].carried = Some(125_000 * second * second);
            let now = began + Duration::from_secs(second);
            let snapshot = snapshots.take(&told, "relaying", 0, now).expect("one a second");
            minute = snapshot.paths[0].minute.clone();
        }
        assert_eq!((minute.len(), minute.back()), (60, Some(&(2.0 * 99.0 - 1.0))));
    }
}
