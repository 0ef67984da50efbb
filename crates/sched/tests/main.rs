//! The tests of the schedulers in one program, which is linked once. `cargo test FILE::` runs those of one file.

mod conformance;
mod in_place;
mod inputs;
mod learned;
mod properties;
mod vectors;

/// A file that no line above names would never be run.
#[test]
fn every_file_is_named_above() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") else { continue };
        assert!(include_str!("main.rs").contains(&format!("\nmod {module};\n")), "tests/{name} is not run");
    }
}
