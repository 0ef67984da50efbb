//! Outcome of a transfer: told by `weft send` and `weft recv`.

use std::collections::BTreeMap;

use serde_json::json;
use weftway_transfer::{LinkProgress, PathProgress, Report, Skipped};

use crate::failure::{Done, Failure, INTERRUPTED};
use crate::output;
use crate::table::Table;
use crate::text::{amount, number_of, printable};

/// The status where some files did not arrive, and all others did: rsync's.
pub const PARTLY: u8 = 23;

/// Number of things that are never sent of which each is named.
const SHOWN: usize = 5;

/// The end of a transfer that an interrupt stopped.
pub fn resumable() -> Failure {
    let told = "interrupted; what has arrived is kept: run the same command again to go on";
    Failure::Status(told.to_owned(), INTERRUPTED)
}

/// Prints what came of a transfer by `show`, and ends the command if not all of it arrived.
pub fn finish(report: &Report, show: impl Fn(&Report) -> Done) -> Done {
    for line in complaints(report) {
        output::say(&line);
    }
    show(report)?;
    match report.failed.len() {
        0 => Ok(()),
        count => {
            let entries = if count == 1 { "entry" } else { "entries" };
            Err(Failure::Status(format!("{count} {entries} did not arrive; all others did"), PARTLY))
        }
    }
}

/// Prints a report for a person.
pub fn print_summary(report: &Report) -> Done {
    summary(report).iter().try_for_each(|line| output::print(line))
}

/// Says, for a person, what came that is not kept.
pub fn print_rate(report: &Report) -> Done {
    output::say(&format!("{}, {:.1} Mbit/s", amount(report.bytes), report.goodput_mbps));
    Ok(())
}

/// Prints a report as a line, for a program that reads it at once.
pub fn print_line(report: &Report) -> Done {
    output::print(&output::json_text(&json!(report)))
}

/// Prints a report as the one element of an array.
pub fn print_array(report: &Report) -> Done {
    output::print_json(&[json!(report)])
}

/// A line for each kind of what is never sent, and one for each file that did not arrive.
pub fn complaints(report: &Report) -> Vec<String> {
    let mut kinds: Vec<&str> = Vec::new();
    let mut of_kind: BTreeMap<&str, Vec<&Skipped>> = BTreeMap::new();
    for one in &report.skipped {
        if !kinds.contains(&one.kind.as_str()) {
            kinds.push(&one.kind);
        }
        of_kind.entry(&one.kind).or_default().push(one);
    }
    let skipped = kinds.into_iter().map(|kind| skipped(kind, of_kind.get(kind).map_or(&[], Vec::as_slice)));
    let failed = report.failed.iter();
    let failed = failed.map(|one| format!("weft: {}: {}", printable(&one.path, ""), printable(&one.reason, "")));
    skipped.chain(failed).collect()
}

/// The line for one kind of what is never sent.
fn skipped(kind: &str, all: &[&Skipped]) -> String {
    let named: Vec<String> = all.iter().take(SHOWN).map(|one| printable(&one.path, "")).collect();
    let more = all.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("skipped {}: {}{more}", number_of(all.len() as u64, kind), named.join(", "))
}

/// Lines that tell the outcome of a transfer.
pub fn summary(report: &Report) -> Vec<String> {
    let had = report.had_bytes;
    let known = if had > 0 { format!("; {} were there", amount(had)) } else { String::new() };
    let mut lines = vec![format!(
        "{}, {}, verified{known}: {:.1} s, {:.1} Mbit/s{}",
        number_of(report.files, "file"),
        amount(report.bytes),
        report.elapsed_s,
        report.goodput_mbps,
        gain(report)
    )];
    lines.extend(table(report).lines());
    let costs = report.paths.iter().filter_map(|path| Some(format!("{}: {}", path.path, cost(path.policy.as_ref()?)?)));
    lines.extend(costs);
    lines
}

/// Each path of a transfer. A receiver does not know what was lost on the way to it.
fn table(report: &Report) -> Table {
    let mut table = Table::new(["path", "data", "share", "round trip", "lost packets", "given up"]);
    let whole = report.paths.iter().map(|path| path.bytes).sum::<u64>().max(1);
    let is_sender = json!(report.role) == "send";
    for path in &report.paths {
        let share = format!("{:.0} %", 100.0 * path.bytes as f64 / whole as f64);
        let of_sender = |count: u64| if is_sender { count.to_string() } else { String::new() };
        let (lost, given_up) = (of_sender(path.lost), of_sender(path.given_up));
        table.add([path.path.clone(), amount(path.bytes), share, round_trip(path), lost, given_up]);
    }
    table
}

fn round_trip(path: &PathProgress) -> String {
    path.srtt_ms.map(|time| format!("{time:.1} ms")).unwrap_or_default()
}

/// Ratio of what arrived to what the best path carried, where there are several.
fn gain(report: &Report) -> String {
    let ratio = report.ratio_to_best_path.filter(|&ratio| ratio > 0.0 && report.paths.len() > 1);
    ratio.map(|ratio| format!(", {ratio:.1} times what the best path carried")).unwrap_or_default()
}

/// Bytes that a link carried and their cost, where it has a price.
fn cost(policy: &LinkProgress) -> Option<String> {
    let cost = policy.cost?;
    Some(format!("{} both ways, headers included, cost {cost:.2}", amount(policy.carried)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(more: serde_json::Value) -> Report {
        let mut report = json!({
            "role": "send", "peer": "127.0.0.1:4433", "files": 3, "bytes": 3_000_005, "had_bytes": 0, "sent_bytes": 3_000_005,
            "elapsed_s": 1.25, "goodput_mbps": 19.2, "ratio_to_best_path": 1.5, "scheduler": "min-rtt", "cc": "cubic",
            "skipped": [], "failed": [],
            "paths": [
                { "path": "wlan0", "up": true, "bytes": 2_000_005, "srtt_ms": 12.34, "packets": 9, "lost": 1,
                  "retransmissions": 1, "given_up": 0 },
                { "path": "wwan0", "up": true, "bytes": 1_000_000, "srtt_ms": null, "packets": 9, "lost": 2,
                  "retransmissions": 2, "given_up": 3,
                  "policy": { "tier": "backup", "open": true, "carried": 1_100_000, "left": null, "cost": 0.0044 } },
            ],
        });
        for (key, value) in more.as_object().unwrap() {
            report[key] = value.clone();
        }
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn a_summary_has_a_line_for_all_and_one_for_each_path() {
        let lines = summary(&report(json!({})));
        let whole = "3 files, 3.0 MB, verified: 1.2 s, 19.2 Mbit/s, 1.5 times what the best path carried";
        assert_eq!((lines.len(), lines[0].as_str()), (5, whole));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&lines[2]), "wlan0 2.0 MB 67 % 12.3 ms 1 0");
        assert_eq!(words(&lines[3]), "wwan0 1.0 MB 33 % 2 3");
        assert_eq!(lines[4], "wwan0: 1.1 MB both ways, headers included, cost 0.00");
        let lines =
            summary(&report(json!({ "role": "receive", "files": 1, "had_bytes": 5, "ratio_to_best_path": null })));
        assert_eq!(lines[0], "1 file, 3.0 MB, verified; 5 B were there: 1.2 s, 19.2 Mbit/s");
        assert_eq!(words(&lines[2]), "wlan0 2.0 MB 67 % 12.3 ms");
    }

    #[test]
    fn names_do_not_command_the_terminal() {
        let skipped: Vec<_> = (0..7).map(|at| json!({ "path": format!("l{at}"), "kind": "symbolic link" })).collect();
        let failed = json!([{ "path": "a\u{1b}]0;owned\u{7}\nb", "reason": "ü is \u{202e} no reason" }]);
        let report = report(json!({ "skipped": skipped, "failed": failed }));
        let lines = complaints(&report);
        assert_eq!(lines[0], "skipped 7 symbolic links: l0, l1, l2, l3, l4 and 2 more");
        assert!(lines[1].starts_with("weft: a") && !lines[1].contains(char::is_control), "{}", lines[1]);
    }

    #[test]
    fn what_did_not_arrive_is_the_status() {
        assert!(finish(&report(json!({})), |_| Ok(())).is_ok());
        let failed = json!([{ "path": "a", "reason": "no" }]);
        let ended = finish(&report(json!({ "failed": failed })), |_| Ok(()));
        let Err(Failure::Status(told, PARTLY)) = ended else { panic!("not all of it arrived") };
        assert_eq!(told, "1 entry did not arrive; all others did");
    }
}
