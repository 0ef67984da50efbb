//! A program as `weft top` shows it.

use serde::Deserialize;
use serde_json::Value;

use super::fields::{count, counts, list, number, some_text, text};
use crate::display::CARRYING;
use crate::table::{Table, wrapped};
use crate::text::{NOTHING, amount, bars, number_of, printable};
use crate::watched::{ToldFlow, queue_ms};

/// Most connections that are shown of each program: those that carried most.
pub const MOST_FLOWS: usize = 10;
/// Seconds that a bar of the last minute stands for.
const SECONDS: usize = 2;

/// A line of the view.
#[derive(Clone, Debug)]
pub struct Line {
    pub text: String,
    pub style: Style,
}

/// The looks of a line on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Dim,
    Italic,
}

/// A text as lines of at most so many columns.
pub fn lines_of(text: &str, style: Style, columns: usize) -> Vec<Line> {
    wrapped(text, columns).into_iter().map(|text| Line { text, style }).collect()
}

/// A program: its links, its clients, the connections that carried most, so many of them at most.
pub fn view(snapshot: &Value, flows: usize, columns: usize) -> Vec<Line> {
    let mut lines = lines_of(&title(snapshot), Style::Bold, columns);
    let plain = |text: String| lines_of(&text, Style::Plain, columns);
    let table = |table: Table| {
        let styles = std::iter::once(Style::Bold).chain(std::iter::repeat(Style::Plain));
        table.lines_within(columns).into_iter().zip(styles).map(|(text, style)| Line { text, style })
    };
    let (paths, clients) = (list(snapshot, "paths"), list(snapshot, "by_client"));
    if !paths.is_empty() {
        lines.extend(table(links_table(paths)));
    }
    if snapshot["last_packet"].is_object() {
        lines.extend(plain(last_packet(&snapshot["last_packet"])));
    }
    if !clients.is_empty() {
        lines.extend(table(clients_table(clients)));
    }
    let busiest = list(snapshot, "busiest");
    if !busiest.is_empty() && flows > 0 {
        lines.extend(table(flows_table(&busiest[..flows.min(busiest.len())])));
    }
    let pipes = list(snapshot, "pipes");
    if !pipes.is_empty() {
        lines.extend(table(pipes_table(pipes)));
        lines.extend(pipes.iter().filter(|pipe| pipe["open"] == true).flat_map(|pipe| plain(room(pipe))));
    }
    if count(&snapshot["unread"], "connections") > 0 {
        lines.extend(plain(unread(&snapshot["unread"])));
    }
    for (name, said) in [("refusals", "refused"), ("drops", "dropped")] {
        let reasons = reasons(snapshot, name);
        if !reasons.is_empty() {
            lines.extend(plain(format!("{said}: {reasons}")));
        }
    }
    for loss in list(snapshot, "losses") {
        lines.extend(lines_of(&held_down(&text(snapshot, "cc"), loss), Style::Italic, columns));
    }
    let dropped = count(snapshot, "dropped_lines");
    if dropped > 0 {
        lines.extend(plain(format!("nobody reads what it prints: {} dropped", number_of(dropped, "line"))));
    }
    for note in list(snapshot, "notes").iter().filter_map(Value::as_str) {
        lines.extend(lines_of(&printable(note, ""), Style::Italic, columns));
    }
    lines.push(Line { text: String::new(), style: Style::Plain });
    lines
}

fn title(snapshot: &Value) -> String {
    let mut at: Vec<String> =
        list(snapshot, "ports").iter().filter_map(Value::as_str).map(|at| printable(at, "")).collect();
    if at.is_empty() {
        at.extend(some_text(snapshot, "listening"));
    }
    let place = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
    let (program, state) = (text(snapshot, "program"), text(snapshot, "state"));
    let title = format!("weft {program}{place} ({}): {state}", count(snapshot, "pid"));
    if !CARRYING.contains(&state.as_str()) {
        let done = count(snapshot, "had") + count(snapshot, "done");
        return match count(snapshot, "bytes") {
            0 => title,
            bytes => format!("{title}, {} of {}", amount(done), amount(bytes)),
        };
    }
    let scheduler = some_text(snapshot, "scheduler").map(|name| format!(", scheduler {name}")).unwrap_or_default();
    let listens = some_text(snapshot, "listening").is_some();
    let clients =
        if listens { format!(", {}", number_of(count(snapshot, "clients"), "client")) } else { String::new() };
    let classes: Vec<String> =
        counts(snapshot, "by_class").iter().map(|(name, count)| format!("{count} {name}")).collect();
    let classes = if classes.is_empty() { String::new() } else { format!(" ({})", classes.join(", ")) };
    format!("{title}{scheduler}{clients}, {}{classes}", number_of(count(snapshot, "flows"), "connection"))
}

/// Path of one of the last packets, and what the scheduler says of it.
fn last_packet(last: &Value) -> String {
    let says = some_text(last, "scheduler_says").unwrap_or_else(|| "this scheduler gives no reasons".to_owned());
    format!("a packet went over {}: {}", text(last, "path"), rounded(&says))
}

/// A scheduler's reason with one digit after each point: `12.345678 ms` is 12.3 ms.
fn rounded(reason: &str) -> String {
    let shorter = |word: &str| {
        let number = word.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        match number.parse::<f64>() {
            Ok(value) if number.contains('.') => format!("{value:.1}{}", &word[number.len()..]),
            _ => word.to_owned(),
        }
    };
    reason.split_inclusive(' ').map(shorter).collect()
}

/// Line about a link on which losses without a queue hold the congestion controller down.
fn held_down(cc: &str, loss: &Value) -> String {
    let percent = number(loss, "percent").unwrap_or_default();
    let link = text(loss, "path");
    format!("{link} loses {percent:.1} % without a queue, which holds {cc} down: try --cc bdp or bbr1 at this end")
}

/// Packets declared lost of those that a link has carried, in percent.
fn lost_share(path: &Value) -> Option<f64> {
    let packets = count(path, "packets");
    (packets > 0).then(|| 100.0 * count(path, "lost") as f64 / packets as f64)
}

/// Line about connections that hold memory without being read.
fn unread(unread: &Value) -> String {
    let one = |flow: &Value| format!("{} {}", target(&told(flow)), amount(count(flow, "bytes")));
    let most: Vec<String> = list(unread, "most").iter().map(one).collect();
    let [bytes, promised, memory] = ["bytes", "promised", "memory"].map(|name| amount(count(unread, name)));
    let connections = number_of(count(unread, "connections"), "connection");
    format!("not read: {connections} with {bytes} ({}), {promised} of {memory} of memory are promised", most.join(", "))
}

/// Counts with their reasons, in the order of these.
fn reasons(snapshot: &Value, name: &str) -> String {
    let mut counts = counts(snapshot, name);
    counts.sort();
    let told: Vec<String> = counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    told.join(", ")
}

fn links_table(paths: &[Value]) -> Table {
    let names = ["link", "Mbit/s", "last minute", "round trip", "queue", "lost", "tier", "cap left", ""];
    let mut table = Table::new(names).with_giving_way(2);
    let minutes: Vec<Vec<f64>> =
        paths.iter().map(|path| list(path, "minute").iter().filter_map(Value::as_f64).collect()).collect();
    let nothing = || NOTHING.to_owned();
    for (path, minute) in paths.iter().zip(sparklines(&minutes)) {
        let policy = &path["policy"];
        let ms = |ms: Option<f64>| ms.map_or_else(nothing, |ms| format!("{ms:.1} ms"));
        let rtt = number(path, "srtt_ms");
        let lost = lost_share(path).map_or_else(nothing, |lost| format!("{lost:.1} %"));
        let state = match (is_up(path), policy["open"].as_bool()) {
            (false, _) => "down",
            (true, Some(false)) => "closed",
            _ => "",
        };
        table.add([
            text(path, "path"),
            format!("{:.1}", number(path, "mbps").unwrap_or(0.0)),
            minute,
            ms(rtt),
            ms(queue_ms(rtt, number(path, "min_rtt_ms"))),
            lost,
            some_text(policy, "tier").unwrap_or_else(nothing),
            policy["left"].as_u64().map_or_else(nothing, amount),
            state.to_owned(),
        ]);
    }
    table
}

fn is_up(path: &Value) -> bool {
    path["up"].as_bool().unwrap_or(false)
}

fn clients_table(clients: &[Value]) -> Table {
    let mut table = Table::new(["client", "links", "connections", "from it", "to it", "round trips"]);
    for client in clients {
        let links: Vec<&Value> = list(client, "paths").iter().filter(|path| is_up(path)).collect();
        let rtts: Vec<String> =
            links.iter().filter_map(|path| Some(format!("{:.0} ms", number(path, "srtt_ms")?))).collect();
        table.add([
            some_text(client, "name").unwrap_or_else(|| "without a name".to_owned()),
            links.len().to_string(),
            count(client, "flows").to_string(),
            amount(count(client, "up")),
            amount(count(client, "down")),
            if rtts.is_empty() { NOTHING.to_owned() } else { rtts.join(", ") },
        ]);
    }
    table
}

fn flows_table(flows: &[Value]) -> Table {
    let mut table = Table::new(["connection", "class", "sent", "received", "links"]).with_last_to_the_left();
    for flow in flows {
        let [up, down] = ["up", "down"].map(|way| amount(count(flow, way)));
        let flow = told(flow);
        table.add([target(&flow), printable(&flow.class, ""), up, down, printable(&flow.shares(), "")]);
    }
    table
}

/// Pipes, each way in a line of its own: what came in the last second, and what became of it.
fn pipes_table(pipes: &[Value]) -> Table {
    let names = ["pipe", "", "datagrams/s", "late", "lost", "50 %", "95 %", "99 %", "overhead"];
    let mut table = Table::new(names);
    for pipe in pipes {
        let name = format!("{} to {}", pipe_name(pipe), text(pipe, "deliver"));
        for (way, name) in [("up", name), ("down", String::new())] {
            let second = &pipe[way]["second"];
            let ms = |key| number(second, key).map_or_else(|| NOTHING.to_owned(), |ms| format!("{ms:.1} ms"));
            let [datagrams, late, lost] = ["datagrams", "late", "lost"].map(|key| count(second, key).to_string());
            let overhead = number(pipe, "overhead").filter(|_| way == "up");
            let overhead = overhead.map_or_else(String::new, |overhead| format!("{overhead:.2}"));
            let [p50, p95, p99] = ["p50_ms", "p95_ms", "p99_ms"].map(ms);
            table.add([name, way.to_owned(), datagrams, late, lost, p50, p95, p99, overhead]);
        }
    }
    table
}

/// Line about the rate at which the source of a pipe may send, and about the links that carry it: the part of each, and
/// its health if that is not good.
fn room(pipe: &Value) -> String {
    let link = |link: &Value| {
        let health = some_text(link, "health").filter(|health| health != "good");
        let health = health.map(|health| format!(" ({health})")).unwrap_or_default();
        format!("{} {:.0} %{health}", text(link, "path"), 100.0 * number(link, "share").unwrap_or(0.0))
    };
    let links: Vec<String> = list(pipe, "links").iter().map(link).collect();
    let [now, next] = ["now_bps", "next_bps"].map(|key| 1e-6 * number(&pipe["rate"], key).unwrap_or(0.0));
    let name = pipe_name(pipe);
    format!("{name} has room for {now:.1} Mbit/s now, {next:.1} in the next second: {}", links.join(", "))
}

/// Name of a pipe. One that tells none is named by the place where it takes datagrams.
fn pipe_name(pipe: &Value) -> String {
    some_text(pipe, "name").unwrap_or_else(|| text(pipe, "listen"))
}

fn told(flow: &Value) -> ToldFlow {
    ToldFlow::deserialize(flow).unwrap_or_default()
}

fn target(flow: &ToldFlow) -> String {
    printable(flow.name(), "")
}

/// The last minute of each link in bars, all of one scale, the latest on the right.
///
/// Each bar is the mean of as many seconds as it stands for.
fn sparklines(minutes: &[Vec<f64>]) -> Vec<String> {
    let means: Vec<Vec<f64>> = minutes.iter().map(|rates| means(rates)).collect();
    let most = means.iter().flatten().copied().fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1.0 };
    means.iter().map(|some| bars(some, most)).collect()
}

fn means(rates: &[f64]) -> Vec<f64> {
    let mut means: Vec<f64> =
        rates.rchunks(SECONDS).map(|group| group.iter().sum::<f64>() / group.len() as f64).collect();
    means.reverse();
    means
}

#[cfg(test)]
pub mod tests;
