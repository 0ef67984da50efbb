//! The tests of links in one program, which is linked once. `cargo test FILE::` runs those of one file.

mod capacity;
mod draws;
mod link;
mod properties;
mod traces;
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
