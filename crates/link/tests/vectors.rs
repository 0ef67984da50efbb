//! Every file in `vectors/link` holds.

#[test]
fn all_vectors_hold() {
    let files = weftway_vectors::files("link");
    assert!(!files.is_empty(), "no vectors");
    for (path, text) in files {
        let report = weftway_vectors::link::run(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(report.failures.is_empty(), "{}: {}", path.display(), report.failures[0]);
    }
}
