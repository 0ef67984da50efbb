use super::super::estimate::Path;
use super::*;
use weftway_scenario::Scenario;

fn step(mbps: f64, delay_ms: Option<f64>, loss_percent: Option<f64>) -> Step {
    Step { mbps: Some(mbps), delay_ms, loss_percent }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A path that was measured with probes up, and of which the delay alone is not known down.
fn path(name: &str) -> Path {
    let up = Estimate { steps: vec![step(8.0, Some(20.0), Some(0.5)), step(0.0, None, None)], ..Estimate::default() };
    let down = Estimate { steps: vec![step(30.0, None, Some(0.0)), step(10.0, None, None)], ..Estimate::default() };
    Path { name: name.to_owned(), up, down }
}

#[test]
fn a_drive_has_a_line_for_each_step_and_a_column_for_what_was_measured() {
    let one = [step(1.0, Some(20.0), Some(0.5)), step(0.0, None, None)];
    let other = [step(2.5, None, None), step(3.0, None, None), step(4.0, None, None)];
    let text = drive_text(&names(&["a", "b"]), &[&one, &other]);
    let lines = "at_s,a_mbps,a_delay_ms,a_loss_percent,b_mbps\n0.0,1.000,20.00,0.50,2.500\n0.5,0.000,,,3.000\n";
    assert_eq!(text, lines);
}

#[test]
fn links_are_called_as_a_scenario_may_call_them() {
    assert_eq!(link_names(&names(&["wlan0", "192.0.2.7"])).unwrap(), ["wlan0", "192-0-2-7"]);
    let Err(Failure::Input(why)) = link_names(&names(&["192.0.2.1", "192-0-2-1"])) else { panic!("it is refused") };
    assert!(why.contains("two paths are the link `192-0-2-1`"), "{why}");
}

/// 120 steps of 4 · 1228 + 4 · 92 bytes.
#[test]
fn probes_take_little() {
    assert_eq!(probe_bytes(60, 28), 633_600);
}

#[test]
fn a_scenario_says_what_was_not_measured_and_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    for (name, links, workload) in
        [("one", &["a"][..], None), ("two", &["a", "b"], Some("web")), ("many", &["a"; 16], Some("call"))]
    {
        let links: Vec<_> = links.iter().enumerate().map(|(at, link)| format!("{link}{at}")).collect();
        let paths: Vec<_> = links.iter().map(|link| path(link)).collect();
        let files = drive_files(&place(name));
        for (side, file) in files.iter().enumerate() {
            let steps: Vec<_> = paths.iter().map(|path| &path.directions()[side].1.steps[..]).collect();
            scenario::create(file, &drive_text(&links, &steps)).unwrap();
        }
        let lines = names(&["Recorded by hand."]);
        let notes = Notes { lines: &lines, rate: UPPER };
        let made = scenario::write(&place(name), [&files[0], &files[1]], &links, &paths, workload, &notes).unwrap();
        Scenario::load(&made.file, &[]).unwrap();
        assert_eq!(made.assumed[..2], ["a0.delay.down", "a0.queue"]);
        let again = scenario::write(&place(name), [&files[0], &files[1]], &links, &paths, workload, &notes);
        assert!(matches!(again, Err(Failure::Input(why)) if why.contains("exists already")));
    }
    assert_eq!(std::fs::read_to_string(place("two.toml")).unwrap(), TWO);
}

#[test]
fn a_scenario_that_could_not_be_run_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("none").to_string_lossy().into_owned();
    let (files, links, paths) = (drive_files(&name), names(&["a"]), vec![path("a")]);
    let notes = Notes { lines: &[], rate: UPPER };
    // Its drives are not there.
    let made = scenario::write(&name, [&files[0], &files[1]], &links, &paths, None, &notes);
    assert!(matches!(made, Err(Failure::Input(why)) if why.contains("none.down.csv")));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

const TWO: &str = r#"# Recorded by hand.
title     = "a0 and b1 as measured: web"
transport = "mpquic"           # assumed
scheduler = ["min-rtt", "round-robin", "blest", "earliest-delivery"]
cc        = "cubic"            # assumed
direction = "download"         # assumed
seeds     = "0..5"

[drive]
file = { down = "two.down.csv", up = "two.up.csv" }

# The connection begins on the first path; assumed in the order of the drive.
[path.a0]
drive      = "a0"              # upper bounds: what a few packets back to back reached; --load measures
delay.down = "20 ms"           # assumed: not measured
queue      = "1 BDP"           # assumed: not measured

[path.b1]
drive      = "b1"              # upper bounds: what a few packets back to back reached; --load measures
delay.down = "20 ms"           # assumed: not measured
queue      = "1 BDP"           # assumed: not measured

[workload]                     # as asked for; sizes and rates are assumed
kind     = "web"
document = "60 kB"
think    = "10 ms"
objects  = [{ name = "script", bytes = "150 kB" }, { bytes = "60 kB", count = 12 }, { bytes = "20 kB", count = 4, after = "script" }]
"#;

#[test]
fn a_table_has_a_row_for_each_direction() {
    let scenario =
        Written { file: "it's.toml".into(), links: names(&["wlan0"]), assumed: names(&["wlan0.queue", "all"]) };
    let told = scenario.told();
    assert_eq!(told[0], "wrote    it's.toml: wlan0");
    assert_eq!(told[1], "assumed  wlan0.queue; all: the comments in the file say why");
    assert_eq!(shlex::split(&told[2]).unwrap(), ["next", "weft", "compare", "it's.toml"]);
    let files = drive_files("it's");
    let (links, paths) = (names(&["wlan0"]), vec![path("wlan0")]);
    let mut report =
        Report { links, paths, seconds: 1.0, load: false, scenario, files, caveats: Vec::new(), cut: None };
    let lines = [
        "1 s, probes",
        "              Mbit/s",
        "             at most               round trip  lost   out",
        "link            mean  least  most          ms     %     %",
        "wlan0  down     20.0   10.0  30.0           –     –   0.0",
        "       up        4.0    0.0   8.0           –     –  50.0",
    ];
    assert_eq!(table(&report), lines);
    report.load = true;
    assert_eq!(table(&report)[1], "             Mbit/s               round trip  lost   out");
    let rows = records(&report);
    assert_eq!((rows.len(), &rows[1]["rate_mbps"], &rows[1]["drive"]), (2, &json!(4.0), &json!("it's.up.csv")));
    assert_eq!(rows[0]["rate_is"], "measured");
}
