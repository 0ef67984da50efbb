//! A file that takes keys from another.

use std::fs;
use std::path::PathBuf;

use super::PLAIN;
use crate::{Mistake, Scenario};

/// A folder of its own with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weftway-base-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        fs::write(folder.join(file), text).unwrap();
    }
    folder
}

#[test]
fn keys_of_the_file_stand_over_those_of_its_base() {
    let top =
        "base = \"network.toml\"\n[path.lte]\ndelay = \"50 ms\"\n[path.dsl]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n";
    let folder = folder("over", &[("network.toml", PLAIN), ("figure.toml", top)]);
    let scenario = Scenario::load(&folder.join("figure.toml"), &["path.wifi.delay=11 ms".to_owned()]).unwrap();
    let config = &scenario.variants().unwrap()[0].config;
    let delays: Vec<_> = config.paths.iter().map(|path| (path.name.as_str(), path.data.delay.as_millis())).collect();
    assert_eq!(delays, [("wifi", 11), ("lte", 50), ("dsl", 1)]);
    // The text of the whole is the same scenario: a hash that counts the same keys.
    let whole = Scenario::parse(scenario.text(), "whole.toml", &folder, &scenario.sets).unwrap();
    assert_eq!(whole.hash(), scenario.hash());
    assert_eq!(whole.title, "Two paths");
}

/// A paper's 5 Mbit/s, and its claim, are read as those of another column, two bases further down.
#[test]
fn what_the_base_says_of_one_column_may_be_said_of_another() {
    let says = "[figure.one]\nx = \"scheduler\"\ny = \"goodput_mbps\"\n[published]\npaper = \"P\"\nplace = \"T\"\nvalues = [{ metric = \"goodput_mbps\", \
        scheduler = \"ecf\", value = 5, unit = \"Mbit/s\", place = \"T\" }]\n[expect.least]\nkind = \"bound\"\nclaim = \"much\"\n\
        metric = \"goodput_mbps\"\nmin = 1\n";
    let plain = format!("{PLAIN}[vary]\nscheduler = [\"ecf\", \"blest\"]\n{says}");
    let top = |names: &str| format!("base = \"middle.toml\"\nbase_metric = {names}\n");
    let (good, wrong) = (top("{ goodput_mbps = \"chosen_rate_mbps\" }"), top("{ goodput_mbps = \"chosen_rate\" }"));
    let files = [
        ("plain.toml", plain.as_str()),
        ("middle.toml", "base = \"plain.toml\"\ntitle = \"between\"\n"),
        ("good.toml", &good),
        ("wrong.toml", &wrong),
        ("none.toml", "base_metric = { goodput_mbps = \"chosen_rate_mbps\" }\n"),
    ];
    let folder = folder("metric", &files);
    let whole = Scenario::load(&folder.join("good.toml"), &[]).unwrap();
    let text = whole.text();
    assert_eq!((text.matches("chosen_rate_mbps").count(), text.matches("goodput_mbps").count()), (3, 0), "{text}");
    // A column that there is not is told where it was written.
    let error = Scenario::load(&folder.join("wrong.toml"), &[]).unwrap_err();
    let place = error.place.clone().unwrap();
    assert!(place.source.ends_with("wrong.toml") && place.line == 2, "{error}");
    let error = Scenario::load(&folder.join("none.toml"), &[]).unwrap_err();
    assert!(error.reason.contains("`base`"), "{error}");
}

#[test]
fn another_kind_of_a_thing_takes_no_keys_of_the_first() {
    let top = "base = \"network.toml\"\n[workload]\nkind = \"duration\"\nduration = \"5 s\"\n";
    let folder = folder("kind", &[("network.toml", PLAIN), ("figure.toml", top)]);
    Scenario::load(&folder.join("figure.toml"), &[]).unwrap();
}

#[test]
fn a_mistake_in_the_base_is_shown_in_the_base() {
    let files = [("network.toml", PLAIN.replace("10 ms", "10 m")), ("figure.toml", "base = \"network.toml\"\n".into())];
    let folder = folder("wrong", &files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let error = Scenario::load(&folder.join("figure.toml"), &[]).unwrap_err();
    let place = error.place.unwrap();
    assert!(place.source.ends_with("network.toml") && place.line == 5, "{place:?}");
}

#[test]
fn a_base_that_is_missing_or_goes_in_a_circle_is_refused() {
    let circle = "base = \"circle.toml\"\n";
    let folder = folder("circle", &[("circle.toml", circle), ("none.toml", "base = \"nowhere.toml\"\n")]);
    let error = |file: &str| Scenario::load(&folder.join(file), &[]).unwrap_err();
    assert!(error("circle.toml").reason.contains("circle"), "{}", error("circle.toml"));
    let missing = error("none.toml");
    assert_eq!(missing.mistake, Mistake::File);
    assert_eq!(missing.place.unwrap().line, 1);
}
