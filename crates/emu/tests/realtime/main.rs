//! Tests with bounds on the real clock, in one program. `./test` runs it when nothing else runs.

mod lab;
mod links;
mod on_time;
mod steer;
mod transfer;

/// A file that no line above names would never be run.
#[test]
fn every_file_is_named_above() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/realtime");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") else { continue };
        assert!(include_str!("main.rs").contains(&format!("\nmod {module};\n")), "tests/realtime/{name} is not run");
    }
}
