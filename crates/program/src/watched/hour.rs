//! Last hour of a program: one sample every ten seconds, in memory.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::snapshot::{PathNow, Snapshot};
use super::values::{push, queue_ms, rounded};

/// Snapshots of a sample; one comes every second.
pub const EVERY: usize = 10;
/// Samples of an hour.
pub const SAMPLES: usize = 360;
/// Most links, and most clients, whose hour is kept: those that came first.
const MOST_NAMES: usize = 16;
/// Most notes that are kept.
const MOST_NOTES: usize = 50;

/// The last value of each key of a name.
type Found = (String, Vec<(&'static str, Option<f64>)>);

/// The past values of each key of a name.
type Past = Vec<(&'static str, VecDeque<Option<f64>>)>;

/// The columns of names, in the order in which they came.
#[derive(Default)]
struct Columns(Vec<(String, Past)>);

impl Columns {
    /// Adds one more value of each; none of what is not there now, and of what was not there before.
    fn append(&mut self, length: usize, found: Vec<Found>) {
        for (name, values) in &found {
            if self.0.len() < MOST_NAMES && !self.0.iter().any(|(kept, _)| kept == name) {
                let empty = values.iter().map(|&(key, _)| (key, VecDeque::from(vec![None; length]))).collect();
                self.0.push((name.clone(), empty));
            }
        }
        for (name, series) in &mut self.0 {
            let values = found.iter().find(|(one, _)| one == name).map_or(&[][..], |(_, values)| values);
            for (key, past) in series {
                let value = values.iter().find(|(one, _)| one == key).and_then(|&(_, value)| value);
                let digits = if *key == "loss" { 4 } else { 2 };
                push(past, value.map(|value| rounded(value, digits)), SAMPLES);
            }
        }
    }

    fn json(&self) -> Value {
        let names = self.0.iter().map(|(name, series)| {
            let series: Map<_, _> = series.iter().map(|(key, past)| ((*key).to_owned(), json!(past))).collect();
            (name.clone(), Value::Object(series))
        });
        Value::Object(names.collect())
    }
}

/// The samples of links, of a relay's clients, and of connections, with what the user was told.
#[derive(Default)]
pub struct Hour {
    length: usize,
    snapshots: Vec<Snapshot>,
    /// The last snapshot of the sample before.
    before: Option<Snapshot>,
    links: Columns,
    clients: Columns,
    flows: Columns,
    notes: VecDeque<(f64, String)>,
    at: f64,
}

impl Hour {
    /// Takes a snapshot in.
    pub fn tell(&mut self, snapshot: &Snapshot) {
        for note in &snapshot.notes {
            push(&mut self.notes, (snapshot.at, note.clone()), MOST_NOTES);
        }
        self.snapshots.push(snapshot.clone());
        if self.snapshots.len() < EVERY {
            return;
        }
        let snapshots = std::mem::take(&mut self.snapshots);
        let before = self.before.take();
        self.sample(&snapshots, before.as_ref().unwrap_or(&snapshots[0]));
        self.at = snapshot.at;
        self.before = snapshots.into_iter().next_back();
    }

    /// All of it, as whoever asks gets it: columns of equal length, the latest last.
    pub fn told(&self) -> Value {
        json!({
            "every_s": EVERY,
            "at": self.at,
            "links": self.links.json(),
            "clients": self.clients.json(),
            "flows": self.flows.json(),
            "notes": self.notes,
        })
    }

    fn sample(&mut self, snapshots: &[Snapshot], before: &Snapshot) {
        let Some(last) = snapshots.last() else { return };
        self.links.append(self.length, last.paths.iter().map(|path| link(path, snapshots, before)).collect());
        self.clients.append(self.length, clients(last, before));
        let open = last.progress.connections.by_class;
        let open = [("realtime", open.realtime), ("interactive", open.interactive), ("bulk", open.bulk)];
        let flows = open.map(|(name, count)| (name.to_owned(), vec![("open", Some(count as f64))]));
        self.flows.append(self.length, flows.into());
        self.length = (self.length + 1).min(SAMPLES);
    }
}

/// A link in these snapshots: what it carried, its round trip, and the share that was lost since `before`.
fn link(last: &PathNow, snapshots: &[Snapshot], before: &Snapshot) -> Found {
    let name = &last.path.path;
    let all = || snapshots.iter().flat_map(|one| &one.paths).filter(|one| one.path.path == *name);
    let earlier = before.paths.iter().rfind(|one| one.path.path == *name).unwrap_or(last);
    let values = vec![
        ("mbps", mean(all().map(|one| Some(one.mbps)))),
        ("srtt_ms", mean(all().map(|one| one.path.srtt_ms))),
        ("queue_ms", mean(all().map(|one| queue_ms(one.path.srtt_ms, one.path.min_rtt_ms)))),
        ("loss", loss(earlier, last)),
        ("up", Some(if last.path.up { 1.0 } else { 0.0 })),
    ];
    (name.clone(), values)
}

/// The rates of a relay's clients since `before`.
fn clients(last: &Snapshot, before: &Snapshot) -> Vec<Found> {
    let seconds = (last.at - before.at).max(1e-3);
    let rate = |now: u64, earlier: u64| Some(8e-6 * now.saturating_sub(earlier) as f64 / seconds);
    let known = &before.progress.connections.by_client;
    let rates = last.progress.connections.by_client.iter().map(|client| {
        let earlier = known.iter().find(|one| one.name == client.name).unwrap_or(client);
        let name = client.name.as_deref().unwrap_or_default();
        let name = if name.is_empty() { "without a name" } else { name };
        let values = vec![("up_mbps", rate(client.up, earlier.up)), ("down_mbps", rate(client.down, earlier.down))];
        (name.to_owned(), values)
    });
    rates.collect()
}

fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let known: Vec<f64> = values.flatten().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// The share of the packets between two snapshots that were lost. A new connection counts anew.
fn loss(before: &PathNow, after: &PathNow) -> Option<f64> {
    let packets = after.path.packets.checked_sub(before.path.packets).filter(|&packets| packets > 0)?;
    let lost = after.path.lost.checked_sub(before.path.lost)?;
    Some((lost as f64 / packets as f64).min(1.0))
}

#[cfg(test)]
pub mod tests {
    use weftway_transfer::{ClientProgress, Connections, PathProgress, Progress};

    use super::super::snapshot::tests::{path, progress, snapshot};
    use super::*;

    /// Snapshot of a program in second `at` with these links.
    pub fn second(at: usize, paths: Vec<(PathProgress, f64)>) -> Snapshot {
        let now = |(path, mbps)| PathNow { path, mbps, minute: VecDeque::new() };
        let told = Progress { scheduler: Some("min-rtt".into()), paths: vec![], ..progress() };
        Snapshot { at: 1e9 + at as f64, paths: paths.into_iter().map(now).collect(), ..snapshot(&told) }
    }

    /// A link that sends a hundred packets a second and loses one.
    pub fn link_at(name: &str, at: usize, srtt_ms: Option<f64>) -> PathProgress {
        PathProgress { packets: 100 * at as u64, lost: at as u64, srtt_ms, ..path(name) }
    }

    fn client(name: Option<&str>, up: u64, down: u64) -> ClientProgress {
        ClientProgress { name: name.map(str::to_owned), up, down, ..ClientProgress::default() }
    }

    fn with_clients(at: usize, paths: Vec<(PathProgress, f64)>, by_client: Vec<ClientProgress>) -> Snapshot {
        let mut told = second(at, paths);
        told.progress.connections = Connections { by_client, busiest: vec![], ..told.progress.connections };
        told
    }

    #[test]
    fn ten_seconds_make_a_sample() {
        let mut hour = Hour::default();
        for at in 0..EVERY {
            hour.tell(&second(at, vec![(link_at("wlan0", at, Some(10.0 + at as f64)), at as f64)]));
        }
        // The second link is there from now on; it has no round trip yet. Of the first one, more was lost.
        for at in EVERY..2 * EVERY {
            let first = PathProgress { lost: 9 + 20, ..link_at("wlan0", at, Some(12.5)) };
            let other = PathProgress { up: false, packets: 0, lost: 0, ..link_at("wwan0", at, None) };
            hour.tell(&second(at, vec![(first, 0.0), (other, 0.0)]));
        }
        let told = hour.told();
        // (0 + 1 + … + 9) / 10; the loss is that since the first snapshot: 9 of 900, and then 20 of 1000.
        let first = json!({
            "mbps": [4.5, 0.0], "srtt_ms": [14.5, 12.5], "queue_ms": [4.5, 2.5], "loss": [0.01, 0.02], "up": [1.0, 1.0],
        });
        let other = json!({
            "mbps": [null, 0.0], "srtt_ms": [null, null], "queue_ms": [null, null], "loss": [null, null],
            "up": [null, 0.0],
        });
        assert_eq!((&told["links"]["wlan0"], &told["links"]["wwan0"]), (&first, &other));
        assert_eq!(told["flows"]["bulk"]["open"], json!([2.0, 2.0]));
    }

    #[test]
    fn of_clients_the_rates_are_kept() {
        let mut hour = Hour::default();
        for at in 0..2 * EVERY {
            // 125 kB a second are 1 Mbit/s.
            let at_second = at as u64;
            let laptop = client(Some("laptop"), 125_000 * at_second, 250_000 * at_second);
            hour.tell(&with_clients(at, vec![], vec![laptop, client(None, 0, 0)]));
        }
        let told = &hour.told()["clients"];
        assert_eq!(told["laptop"], json!({ "up_mbps": [1.0, 1.0], "down_mbps": [2.0, 2.0] }));
        assert_eq!(told["without a name"]["up_mbps"], json!([0.0, 0.0]));
    }

    /// The longest hour that there can be, and more: what came first is not kept.
    pub fn full() -> (Hour, Snapshot) {
        let mut hour = Hour::default();
        let names = 0..=MOST_NAMES;
        let at_end = EVERY * (SAMPLES + 5);
        let mut last = second(0, vec![]);
        for at in 0..at_end {
            let paths = names.clone().map(|n| (link_at(&format!("link{n}"), at, Some(1234.56)), 1234.56)).collect();
            let bytes = at as u64 * 100_000_000;
            let clients = names.clone().map(|n| client(Some(&format!("client{n}")), bytes, bytes)).collect();
            last = Snapshot { notes: vec![format!("note {at}")], ..with_clients(at, paths, clients) };
            hour.tell(&last);
        }
        (hour, last)
    }

    #[test]
    fn an_hour_has_its_bounds() {
        let told = full().0.told();
        let names = |kind: &str| told[kind].as_object().expect("names").len();
        assert_eq!((names("links"), names("clients")), (MOST_NAMES, MOST_NAMES));
        assert_eq!(told["notes"].as_array().expect("notes").len(), MOST_NOTES);
        let all = ["links", "clients", "flows"].map(|kind| told[kind].as_object().expect("names"));
        for series in all.into_iter().flat_map(|names| names.values()) {
            for values in series.as_object().expect("keys").values() {
                assert_eq!(values.as_array().expect("values").len(), SAMPLES);
            }
        }
    }
}
