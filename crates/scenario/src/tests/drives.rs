//! Measured links: what a drive file becomes, and what is refused.

use std::fs;
use std::path::PathBuf;

use weftway_link::{Change, Limit, Loss, Rate, Set};
use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::config::PathConfig;
use crate::drive::Drives;
use crate::{Mistake, Scenario, ScenarioError};

const SCENARIO: &str = r#"time_limit = "12 s"
[drive]
file = { down = "two.csv" }
run = 7
[path.lte]
drive = "lte"
rate = { up = "5 Mbit/s" }
delay = "30 ms"
queue = { down = "1 BDP" }
[path.wifi]
drive = "wifi"
rate = { up = "20 Mbit/s" }
delay = { up = "10 ms" }
queue = { down = "1 BDP", up = "9 packets" }
[workload]
kind = "bulk"
bytes = "1 MB"
"#;

const FILE: &str = "run,at_s,lte_mbps,wifi_mbps,wifi_delay_ms,wifi_loss_percent
3,0,1,1,1,
7,10.0,8,40,5,
7,11.5,0,,,2
7,13,1,30,9,0
";

fn folder(name: &str, file: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weftway-drive-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("two.csv"), file).unwrap();
    folder
}

fn read(name: &str, text: &str, file: &str) -> Result<Vec<PathConfig>, ScenarioError> {
    let folder = folder(name, file);
    let scenario = Scenario::parse(text, "test.toml", &folder, &[]);
    let variants = scenario.and_then(|scenario| scenario.variants());
    fs::remove_dir_all(folder).unwrap();
    Ok(variants?.remove(0).config.paths)
}

fn mbps(mbps: u64) -> Rate {
    Rate::Constant(BitRate::from_mbps(mbps))
}

fn change(ms: u64, set: Set) -> Change {
    Change { at: Instant::from_millis(ms), set }
}

#[test]
fn links_change_as_they_did_and_the_run_begins_anew() {
    let paths = read("plain", SCENARIO, FILE).unwrap();
    let [lte, wifi] = &paths[..] else { panic!("two paths") };
    // The run lasts 3 s and as long as its last step, 4.5 s: it begins anew at 4.5 and at 9 s, until 12.
    assert_eq!((&lte.data.rate, &lte.acks.rate, lte.data.delay), (&mbps(8), &mbps(5), Span::from_millis(30)));
    let rates = [(1500, 0), (3000, 1), (4500, 8), (6000, 0), (7500, 1), (9000, 8), (10_500, 0)];
    assert_eq!(lte.data.changes, rates.map(|(ms, rate)| change(ms, Set::Rate(mbps(rate)))));
    assert_eq!(lte.acks.changes, []);
    // (8 + 0 + 1)/3 Mbit/s for 60 ms.
    assert_eq!(lte.data.queue.limit, Limit::Bytes(Bytes::new(22_500)));
    // (40 + 40 + 30)/3 Mbit/s for 5 ms as measured at the beginning and 10 as given, in whole bit/s.
    assert_eq!(wifi.data.queue.limit, Limit::Bytes(Bytes::new(68_749)));
    // What was not measured anew stays; the delay of the way up is the path's.
    assert_eq!((wifi.data.delay, wifi.acks.delay), (Span::from_millis(5), Span::from_millis(10)));
    let first: Vec<Change> =
        wifi.data.changes.iter().take_while(|change| change.at < Instant::from_millis(4500)).cloned().collect();
    let expected = [
        change(1500, Set::Loss(Loss::Bernoulli(0.02))),
        change(3000, Set::Rate(mbps(30))),
        change(3000, Set::Delay(Span::from_millis(9))),
        change(3000, Set::Loss(Loss::None)),
    ];
    assert_eq!(first, expected);
}

#[test]
fn a_connection_may_begin_within_a_run() {
    let text = SCENARIO.replace("run = 7", "run = 7\nstart = \"6.5 s\"");
    let paths = read("start", &text, FILE).unwrap();
    // 6.5 s are 2 s into the second turn.
    assert_eq!(paths[0].data.rate, mbps(0));
    assert_eq!(paths[0].data.changes[..2], [change(1000, Set::Rate(mbps(1))), change(2500, Set::Rate(mbps(8)))]);
}

#[test]
fn the_hash_is_of_what_the_file_says() {
    let hash = |name, file| {
        let folder = folder(name, file);
        let hash = Scenario::parse(SCENARIO, "test.toml", &folder, &[]).unwrap().hash().to_owned();
        fs::remove_dir_all(folder).unwrap();
        hash
    };
    assert_eq!(hash("same", FILE), hash("again", FILE));
    assert_ne!(hash("one", FILE), hash("other", &FILE.replace("13,1", "13,3")));
}

#[test]
fn mistakes_in_a_scenario() {
    let cases = [
        ("drive = \"lte\"", "drive = \"ltr\"", Mistake::Name, "unknown link of the drive `ltr` in `two.csv`"),
        ("run = 7", "run = 8", Mistake::Value, "`two.csv` has no run 8"),
        ("run = 7\n", "", Mistake::Missing, "`two.csv` holds 2 runs: which one?"),
        ("two.csv", "three.csv", Mistake::Trace, "drive `three.csv`: no such file"),
        (
            "{ up = \"5 Mbit/s\" }",
            "\"5 Mbit/s\"",
            Mistake::Value,
            "the drive takes the place of `rate`; give one of them",
        ),
        (
            "delay = { up = \"10 ms\" }",
            "delay = \"10 ms\"",
            Mistake::Value,
            "the drive has measured the delay; give one of them",
        ),
        (
            "delay = \"30 ms\"",
            "redraw = { down = { every = \"1 s\", rate = \"1 Mbit/s..2 Mbit/s\" } }",
            Mistake::Value,
            "the drive takes the place of `redraw`; give one of them",
        ),
        ("rate = { up = \"5 Mbit/s\" }\n", "", Mistake::Missing, "how fast is this link?"),
    ];
    for (from, to, mistake, words) in cases {
        assert!(SCENARIO.contains(from), "{from}");
        let error = read("mistake", &SCENARIO.replacen(from, to, 1), FILE).expect_err(to);
        assert_eq!((error.mistake, error.reason.contains(words)), (mistake, true), "{error}");
    }
    let alone = SCENARIO.replace("[drive]\nfile = { down = \"two.csv\" }\nrun = 7\n", "");
    assert!(read("alone", &alone, FILE).expect_err("no drive").reason.contains("there is no [drive]"));
    let unused = SCENARIO.replace("drive = \"lte\"\nrate = { up", "rate = { down = \"1 Mbit/s\", up");
    let unused = unused.replace("drive = \"wifi\"\nrate = { up", "rate = { down = \"1 Mbit/s\", up");
    let error = read("unused", &unused, FILE).expect_err("unused");
    assert_eq!(error.reason, "no path is a link of this drive");
}

/// Both directions are on one clock, which files would leave that begin at different moments.
#[test]
fn the_files_of_both_directions_begin_at_the_same_moment() {
    let both = SCENARIO.replace("{ down = \"two.csv\" }", "{ down = \"two.csv\", up = \"up.csv\" }");
    let both = both.replace("rate = { up = \"5 Mbit/s\" }\n", "").replace("rate = { up = \"20 Mbit/s\" }\n", "");
    let both = both.replace("delay = { up = \"10 ms\" }\n", "");
    let read = |name: &str, up: &str| {
        let folder = folder(name, FILE);
        fs::write(folder.join("up.csv"), up).unwrap();
        let scenario = Scenario::parse(&both, "test.toml", &folder, &[]).and_then(|scenario| scenario.variants());
        fs::remove_dir_all(folder).unwrap();
        scenario
    };
    read("begin", FILE).unwrap();
    let error = read("begin-later", &FILE.replace("7,10.0", "7,10.5")).expect_err("another clock");
    assert_eq!(error.reason, "run 7 begins at 10000 ms in `two.csv`, at 10500 ms in `up.csv`");
}

#[test]
fn mistakes_in_a_drive_file() {
    let cases = [
        ("", "the file is empty"),
        ("run,at_s,lte_mbps\n", "there is no sample"),
        ("at_s,lte\n0,1\n", "line 1: `lte` is no column of a drive"),
        ("at_s,lte_delay_ms\n0,1\n", "line 1: `lte_delay_ms` is no column"),
        ("lte_mbps\n1\n", "line 1: there is no column `at_s`"),
        ("at_s,_mbps\n0,1\n", "line 1: `_mbps` names no link"),
        ("at_s,lte_mbps,lte_mbps\n0,1,1\n", "line 1: two columns are called `lte_mbps`"),
        ("at_s,lte_mbps\n0,1,2\n", "line 2: 3 fields, where the first line names 2 columns"),
        ("at_s,lte_mbps\n0,fast\n", "line 2: `fast` is not a number from 0 to 1000000000"),
        ("at_s,lte_mbps\n0,-1\n", "line 2: `-1` is not a number from 0 to 1000000000"),
        ("at_s,lte_mbps\n0,NaN\n", "line 2: `NaN` is not a number from 0 to 1000000000"),
        ("at_s,lte_mbps\n-1,1\n", "line 2: `-1` is not a number from 0 to 10000000000"),
        (
            "at_s,lte_mbps\n1700000000000,1\n",
            "line 2: `1700000000000` is not a number from 0 to 10000000000; `at_s` counts seconds, are these milliseconds?",
        ),
        ("at_s,lte_mbps\n,1\n", "line 2: `at_s` is empty"),
        ("at_s,lte_mbps\n0,\n", "line 2: the run begins without a rate of `lte`"),
        ("at_s,lte_mbps\n1,1\n\n1,2\n", "line 4: `at_s` must grow by 10 ms or more from line to line of a run"),
        ("at_s,lte_mbps\n1,1\n1.000001,2\n", "line 3: `at_s` must grow by 10 ms or more"),
        ("at_s,lte_mbps,lte_loss_percent\n0,1,101\n", "line 2: a loss of 101 %"),
        ("run,at_s,lte_mbps\n0,0,1\n1,0,1\n0,1,1\n", "line 4: run 0 goes on after another one"),
        ("run,at_s,lte_mbps\nx,0,1\n", "line 2: `x` is no number of a run"),
    ];
    for (text, words) in cases {
        let error = Drives::parse(text).expect_err(text);
        assert!(error.starts_with(words), "{text:?}: {error}");
    }
    assert!(Drives::parse("\u{feff}at_s,lte_mbps\r\n0, 1 \r\n").is_ok());
    assert!(Drives::parse("at_s,lte_mbps\n1700000000,1\n1700000001.5,2\n").is_ok(), "Unix time");
}

#[test]
fn a_run_in_which_a_link_carries_nothing_is_one_and_a_lone_sample_lasts() {
    let silent = FILE.replace("7,10.0,8", "7,10.0,0").replace("13,1", "13,0");
    let paths = read("silent", SCENARIO, &silent).unwrap();
    assert_eq!((&paths[0].data.rate, &paths[0].data.changes), (&mbps(0), &Vec::new()));
    assert_eq!(paths[0].data.queue.limit, Limit::Bytes(Bytes::new(1500)), "1 BDP of nothing has room for a packet");
    let dead = silent.replace("0,40,5", "0,0,5").replace("0,30,9", "0,0,9");
    let error = read("dead", SCENARIO, &dead).expect_err("no link carries anything");
    assert_eq!(error.reason, "in run 7 of `two.csv` no link of a path carries anything");
    let text = SCENARIO.replace("run = 7\n", "");
    let only = dead.replace("3,0,1,1,1,\n", "");
    let error = read("only-dead", &text, &only).expect_err("nor in the only run");
    assert!(error.reason.contains("run 7 of `two.csv`"), "{error}");
    let text = SCENARIO.replace("run = 7", "run = 3");
    assert_eq!(read("lone", &text, FILE).unwrap()[0].data.changes, []);
}

#[test]
fn the_drives_that_come_with_the_project_are_read() {
    for file in ["us-2023.down.csv", "us-2023.up.csv"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/drives").join(file);
        let drives = Drives::parse(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(drives.links(), ["att", "verizon"]);
        assert_eq!(drives.runs().count(), 90);
        for (number, run) in drives.runs() {
            assert!(run.lasts() >= Span::from_secs(29), "{file}, run {number}");
            let within = |rate: &BitRate| (300_000..=200_000_000).contains(&rate.as_bps());
            assert!(run.mean_rates().iter().all(within), "{file}, run {number}: {:?}", run.mean_rates());
        }
    }
}
