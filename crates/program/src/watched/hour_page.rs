//! The last hour of running programs as a page: one file without a script, in the looks of a report.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::text::{NOTHING, amount, printable};

use super::hour::{EVERY, SAMPLES};
use super::moment::Moment;
use super::read::{ShownHour, ShownPath, ShownSnapshot};
use super::svg::{Axis, Kind, Unit, Values, down, lane, line, top};
use super::values::queue_ms;

/// Chart of a link or a client: the key in the hour, its title, what it counts, how it is drawn.
type Lane = (&'static str, &'static str, Kind, &'static str);

const LINK_LANES: [Lane; 4] = [
    ("mbps", "Rate", Kind::Rate, "area"),
    ("srtt_ms", "Round trip", Kind::Time, "trace"),
    ("queue_ms", "Queue", Kind::Time, "trace"),
    ("loss", "Lost of what this end sent", Kind::Share, "trace"),
];
const CLIENT_LANES: [Lane; 2] =
    [("down_mbps", "To its programs", Kind::Rate, "area"), ("up_mbps", "From its programs", Kind::Rate, "area")];

/// Minutes that a page may show: a program that has not run for an hour yet is shown over less.
const WINDOWS_MIN: [usize; 4] = [4, 8, 20, 60];
/// Marks on the axis of time.
const TICKS: usize = 4;
/// Connections that are listed.
const MOST_FLOWS: usize = 10;

const PAGE: &str = include_str!("hour.html");
/// The style sheet of reports, which `weft` has.
const STYLE: &str = include_str!("../../../../python/weftway/report/style.css");
/// Colours of links, on light and on dark pages: those of reports (python/weftway/report/palette.py).
const LIGHT: [&str; 8] = ["#1f7a8c", "#e09a2b", "#7a55a8", "#6b9a2f", "#c4476a", "#3f5fb0", "#93714a", "#6a7580"];
const DARK: [&str; 8] = ["#4fb3c6", "#f0b558", "#b295de", "#a1cc66", "#ee8aa5", "#8ea6ee", "#cbab85", "#a7b2bd"];

/// The page of programs, each of which told its snapshot with its last hour.
pub fn page(snapshots: &[Value]) -> String {
    let told: Vec<ShownSnapshot> =
        snapshots.iter().filter_map(|one| serde_json::from_value(one.clone()).ok()).collect();
    let heads: Vec<_> = told.iter().map(|one| format!("weft {} ({})", one.program, one.pid)).collect();
    let latest = told.iter().map(|one| one.at).fold(0.0, f64::max);
    let programs: String = told.iter().map(program).collect();
    let fills = [
        ("$title", escape(&format!("The last hour of {}", heads.join(", ")))),
        ("$style", style()),
        ("$made", escape(&Moment::of(latest).date())),
        ("$programs", programs),
    ];
    filled(PAGE, &fills)
}

/// A text in which each name is replaced by what belongs there, in this order.
fn filled(text: &str, fills: &[(&str, String)]) -> String {
    let (mut page, mut rest) = (String::new(), text);
    for (name, value) in fills {
        let Some((before, after)) = rest.split_once(name) else { continue };
        page += before;
        page += value;
        rest = after;
    }
    page + rest
}

/// The style sheet with the colours of links in their places.
fn style() -> String {
    let colours =
        |all: [&str; 8]| all.iter().enumerate().map(|(at, colour)| format!("--p{at}:{colour};")).collect::<String>();
    let classes: String = (0..LIGHT.len()).map(|at| format!(".p{at}{{color:var(--p{at})}}")).collect();
    STYLE.replace("/* light */", &colours(LIGHT)).replace("/* dark */", &colours(DARK)) + &classes
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#x27;",
            _ => safe.push(one),
        }
    }
    safe
}

/// A text of another program, as HTML.
fn shown(text: &str) -> String {
    escape(&printable(text, ""))
}

fn program(told: &ShownSnapshot) -> String {
    let at = if told.ports.is_empty() { told.listening.clone().unwrap_or_default() } else { told.ports.join(", ") };
    let at = if at.is_empty() { at } else { format!(" at {at}") };
    let scheduler = told.scheduler.as_ref().map(|name| format!(", scheduler {name}")).unwrap_or_default();
    let facts = format!("{}{scheduler}, {} connections, process {}", told.state, told.flows, told.pid);
    let mut parts = links(told);
    for (lanes, columns) in [(&LINK_LANES[..], &told.hour.links), (&CLIENT_LANES, &told.hour.clients)] {
        let drawn = columns.keys().enumerate().map(|(place, name)| drawn(&told.hour, columns, name, lanes, place));
        parts.extend(drawn);
    }
    parts += &flows(told);
    parts += &notes(&told.hour.notes);
    let head = shown(&format!("weft {}{at}", told.program));
    format!("<section><h2>{head}</h2><p class=\"lede\">{}</p>{parts}</section>", shown(&facts))
}

/// The key of a colour.
fn swatch(place: usize) -> String {
    format!("<i class=\"swatch p{}\" aria-hidden=\"true\"></i>", place % LIGHT.len())
}

/// A row of a table: its head is HTML, its cells are text with their columns' names.
type Row = (String, Vec<(&'static str, String)>);

/// Each link as it is now.
fn links(told: &ShownSnapshot) -> String {
    let rows: Vec<Row> = told.paths.iter().enumerate().map(|(place, now)| (link_head(place, now), link(now))).collect();
    table("Links now", "link", &rows)
}

fn link_head(place: usize, now: &ShownPath) -> String {
    format!("<th scope=\"row\"><span class=\"key\">{}{}</span></th>", swatch(place), shown(&now.path.path))
}

fn link(now: &ShownPath) -> Vec<(&'static str, String)> {
    let (path, policy) = (&now.path, now.path.policy.as_ref());
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    let ms = |value: Option<f64>| or_nothing(value.map(|ms| format!("{ms:.1} ms")));
    let lost = (path.packets > 0).then(|| format!("{:.1} %", 100.0 * path.lost as f64 / path.packets as f64));
    let state = match policy {
        _ if !path.up => "down",
        Some(policy) if !policy.open => "closed",
        _ => "open",
    };
    vec![
        ("Mbit/s", format!("{:.1}", now.mbps)),
        ("round trip", ms(path.srtt_ms)),
        ("queue", ms(queue_ms(path.srtt_ms, path.min_rtt_ms))),
        ("lost", or_nothing(lost)),
        ("carried", or_nothing(path.carried.map(amount))),
        ("tier", or_nothing(policy.map(|policy| policy.tier.clone()))),
        ("cap left", or_nothing(policy.and_then(|policy| policy.left).map(amount))),
        ("state", state.to_owned()),
    ]
}

/// The lanes of a link or a client. All of its kind have the same scale.
fn drawn(hour: &ShownHour, columns: &Map<String, Value>, name: &str, lanes: &[Lane], place: usize) -> String {
    let window = window(hour);
    let shades = down(&series(columns, name, "up"), window);
    let mut all = String::new();
    for &(key, title, kind, css) in lanes {
        let of_all: Vec<Values> = columns.keys().map(|one| series(columns, one, key)).collect();
        let most = top(&of_all);
        let axis = Axis::to(if most == 0.0 { 1e-3 } else { most });
        let unit = Unit::new(kind, axis.high);
        let values = series(columns, name, key);
        let note = match values.iter().flatten().next_back() {
            Some(&last) => format!("{} at the end, {} at most", unit.value(last), unit.value(top([&values]))),
            None => "not known".to_owned(),
        };
        let css = format!("{css} p{}", place % LIGHT.len());
        all += &lane(title, &escape(&note), &(shades.clone() + &line(&values, window, &axis, &css)), &axis, &unit);
    }
    let head = format!("<h3><span class=\"key\">{}{}</span></h3>", swatch(place), shown(name));
    format!("{head}<div class=\"lanes\">{all}{}</div>", ago(window))
}

/// The values of a key of a name; none where it has no such key.
fn series(columns: &Map<String, Value>, name: &str, key: &str) -> Values {
    let values = columns.get(name).and_then(|columns| columns.get(key)?.as_array());
    values.map(|values| values.iter().map(Value::as_f64).collect()).unwrap_or_default()
}

/// Open connections: their number, and a table of those that carried most.
fn flows(told: &ShownSnapshot) -> String {
    let (hour, window) = (&told.hour, window(&told.hour));
    let open: Vec<(&String, Values)> =
        hour.flows.keys().map(|name| (name, series(&hour.flows, name, "open"))).collect();
    let axis = Axis::to(top(open.iter().map(|(_, values)| values)).max(3.0));
    let unit = Unit::new(Kind::Count, axis.high);
    let mut lanes = String::new();
    for (place, (name, values)) in open.iter().enumerate() {
        let drawn = line(values, window, &axis, &format!("area p{}", place % LIGHT.len()));
        lanes += &lane(&shown(name), "connections open", &drawn, &axis, &unit);
    }
    if !lanes.is_empty() {
        lanes = format!("<h3>Connections</h3><div class=\"lanes\">{lanes}{}</div>", ago(window));
    }
    let busiest = told.busiest.iter().take(MOST_FLOWS).map(|flow| {
        let cells = vec![
            ("class", flow.class.clone()),
            ("sent", amount(flow.up)),
            ("received", amount(flow.down)),
            ("links", flow.shares()),
        ];
        (format!("<th scope=\"row\">{}</th>", shown(flow.name())), cells)
    });
    lanes + &table("Connections that carried most, of those that are open", "connection", &busiest.collect::<Vec<_>>())
}

/// Notes for the user, the latest first.
fn notes(notes: &[(f64, String)]) -> String {
    let row = |(at, text): &(f64, String)| {
        (format!("<th scope=\"row\">{}</th>", Moment::of(*at).time()), vec![("", text.clone())])
    };
    table("What was told", "at", &notes.iter().rev().map(row).collect::<Vec<_>>())
}

/// Samples that are shown: the shortest window that has all.
fn window(hour: &ShownHour) -> usize {
    let lengths = hour.flows.keys().map(|name| series(&hour.flows, name, "open").len());
    let known = lengths.max().unwrap_or(0).min(SAMPLES);
    let windows = WINDOWS_MIN.map(|minutes| 60 * minutes / EVERY);
    windows.into_iter().find(|&window| window >= known).unwrap_or(SAMPLES)
}

/// The axis of time, in minutes before now.
fn ago(window: usize) -> String {
    let minutes = window * EVERY / 60;
    let mut marks = String::new();
    for at in 0..TICKS {
        let side = if at == 0 { "from-left" } else { "centred" };
        let left = 100.0 * at as f64 / TICKS as f64;
        let ago = minutes - minutes * at / TICKS;
        let _ = write!(marks, "<i class=\"{side}\" style=\"left:{left:.1}%\">−{ago}\u{202f}min</i>");
    }
    marks += "<i class=\"from-right\" style=\"left:100.0%\">now</i>";
    format!("<div class=\"lane foot\"><span></span><span class=\"ticks time\">{marks}</span></div>")
}

/// A table whose rows are cards on a narrow screen; a column's name stands in each row.
fn table(title: &str, first: &str, rows: &[Row]) -> String {
    let Some((_, cells)) = rows.first() else { return String::new() };
    let heads: String = cells.iter().map(|(name, _)| format!("<th>{name}</th>")).collect();
    let cell = |(name, text): &(&str, String)| format!("<td data-label=\"{name}\">{}</td>", shown(text));
    let body: String = rows
        .iter()
        .map(|(head, cells)| format!("<tr>{head}{}</tr>", cells.iter().map(cell).collect::<String>()))
        .collect();
    format!(
        "<table class=\"cards\"><caption>{title}</caption><thead><tr><th>{first}</th>{heads}</tr></thead>\
         <tbody>{body}</tbody></table>"
    )
}

#[cfg(test)]
mod tests {
    use weftway_transfer::{FlowPath, FlowProgress, PathProgress};

    use super::super::hour::Hour;
    use super::super::hour::tests::{link_at, second};
    use super::super::snapshot::Snapshot;
    use super::*;

    fn with_hour(last: &Snapshot, hour: &Hour) -> Value {
        let mut told = last.json();
        told["hour"] = hour.told();
        told
    }

    /// A proxy with two links, of which one was down for five minutes, and a target that means ill.
    fn shown_hour() -> Value {
        let (mut hour, mut last) = (Hour::default(), second(0, vec![]));
        for at in 0..EVERY * 120 {
            let up = !(300..600).contains(&at);
            let first = link_at("wlan0", at, Some(12.0 + (at % 3) as f64));
            let other = PathProgress { up, ..link_at("wwan0", at, up.then_some(40.0)) };
            last = second(at, vec![(first, 50.0 + (at % 7) as f64), (other, if up { 9.0 } else { 0.0 })]);
            let share = |path: &str, sent| FlowPath { path: path.into(), sent, received: 1 };
            last.progress.connections.busiest = vec![FlowProgress {
                target: format!("<b>mean</b>.{}org:443", "a-very-long-name.".repeat(8)),
                class: "bulk",
                up: 1,
                down: 2,
                paths: vec![share("wlan0", 1), share("<i>", 0)],
            }];
            last.notes = if at == 7 { vec!["<i>connected</i> $made".into()] } else { vec![] };
            hour.tell(&last);
        }
        with_hour(&last, &hour)
    }

    /// Elements of a page in their order; each that is opened is closed.
    fn elements(page: &str) -> Vec<String> {
        let (mut open, mut seen) = (Vec::<String>::new(), Vec::new());
        for tag in page.split('<').skip(1) {
            let name: String = tag.chars().take_while(|one| !" />".contains(*one)).collect();
            if let Some(ended) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), ended.split('>').next());
            } else if !["!doctype", "meta"].contains(&&name[..]) && !tag.contains("/>") {
                open.push(name.clone());
            }
            seen.push(name);
        }
        assert!(open.is_empty(), "{open:?}");
        seen
    }

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let text = page(&[shown_hour()]);
        let seen = elements(&text);
        for name in ["table", "polyline", "svg"] {
            assert!(seen.iter().any(|one| one == name), "{name}");
        }
        for name in ["script", "link", "img", "iframe", "b"] {
            assert!(!seen.iter().any(|one| one == name), "it loads nothing, and a target is only text: {name}");
        }
        for words in ["http://", "https://", "@import", "url(", "/* light */"] {
            assert!(!text.contains(words), "{words}");
        }
        for words in [
            "wlan0",
            "wwan0",
            "secondary",
            "7.0 MB",
            "&lt;b&gt;mean",
            "&lt;i&gt;connected&lt;/i&gt; $made",
            "scheduler min-rtt",
            "--p7:#6a7580;",
            "--p7:#a7b2bd;",
        ] {
            assert!(text.contains(words), "{words}");
        }
        // A rate, a round trip, a queue, a loss of each link; three classes.
        assert_eq!(text.matches("class=\"lane\"").count(), 2 * 4 + 3);
        // 300 seconds were down: 30 samples in each of four lanes. The program runs for 1200 seconds: so wide is the
        // page.
        assert_eq!(text.matches("class=\"down\"").count(), 30 * 4);
        assert!(text.contains("x=\"250.0\" y=\"0\" width=\"8.3\""));
    }

    #[test]
    fn a_program_that_began_just_now_is_shown_over_less() {
        let (mut hour, last) = (Hour::default(), second(0, vec![(link_at("wlan0", 0, None), 0.0)]));
        let mut seconds = 0;
        for (minutes, window) in [(1, 4), (4, 4), (5, 8), (8, 8), (9, 20), (20, 20), (21, 60), (60, 60)] {
            while seconds < 60 * minutes {
                hour.tell(&last);
                seconds += 1;
            }
            let text = page(&[with_hour(&last, &hour)]);
            let told = format!("left:0.0%\">−{window}\u{202f}min<");
            assert_eq!(text.matches(&told).count(), 2, "of the link, and of connections");
        }
        let text = page(&[last.json()]);
        assert!(text.contains("wlan0"), "a program without an hour has a page, too");
    }
}
