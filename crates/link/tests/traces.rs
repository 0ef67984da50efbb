//! The traces that come with the project are what `traces/SOURCES.md` says they are.

use std::fs;
use std::path::{Path, PathBuf};

use weftway_link::{LteModel, Trace, lte};
use weftway_path::Span;

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The commands in SOURCES.md: what was asked of `make_trace`, and the file it went to.
fn commands(sources: &str) -> Vec<(Vec<String>, String)> {
    let ours = sources.lines().filter_map(|line| line.split_once("--example make_trace -- "));
    ours.map(|(_, rest)| {
        let (arguments, file) = rest.split_once(" > traces/").expect("each command names its file");
        (arguments.split_whitespace().map(str::to_owned).collect(), file.to_owned())
    })
    .collect()
}

#[test]
fn each_command_makes_its_file_again() {
    for (arguments, file) in commands(&read(&traces().join("SOURCES.md"))) {
        let [model, seed, seconds] = arguments.as_slice() else { panic!("{arguments:?}") };
        let model = LteModel::named(model).expect("a known model");
        let trace = lte(&model, seed.parse().unwrap(), Span::from_secs(seconds.parse().unwrap()));
        assert!(trace.to_string() == read(&traces().join(&file)), "{file} differs from what its command makes");
        assert_eq!(Trace::parse(&trace.to_string()), Ok(trace));
    }
}

#[test]
fn every_file_has_its_command_and_is_small() {
    let commands = commands(&read(&traces().join("SOURCES.md")));
    for entry in fs::read_dir(traces()).expect("traces exists") {
        let entry = entry.expect("a readable entry");
        let name = entry.file_name().into_string().expect("a plain name");
        if name != "SOURCES.md" && name != "drives" {
            assert!(commands.iter().any(|(_, file)| *file == name), "{name} has no command in SOURCES.md");
            assert!(entry.metadata().unwrap().len() <= 150_000, "{name} is larger than 150 kB");
        }
    }
}

#[test]
fn every_drive_file_has_its_source_and_is_small() {
    let source = read(&traces().join("drives/SOURCES.md"));
    for entry in fs::read_dir(traces().join("drives")).expect("drives exists") {
        let entry = entry.expect("a readable entry");
        let name = entry.file_name().into_string().expect("a plain name");
        assert!(name == "SOURCES.md" || source.contains(&format!("`{name}`")), "SOURCES.md does not name {name}");
        assert!(entry.metadata().unwrap().len() <= 250_000, "{name} is larger than 250 kB");
    }
}
