//! Every file in `vectors/link` holds.

use std::fs;
use std::path::Path;

use weftway_link::vector;

#[test]
fn all_vectors_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/link");
    let mut cases = 0;
    for entry in fs::read_dir(&folder).expect("vectors/link exists") {
        let path = entry.expect("a readable entry").path();
        let text = fs::read_to_string(&path).expect("a readable vector");
        let report = vector::run(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(report.checks > 0, "{} checks nothing", path.display());
        cases += report.cases;
    }
    assert!(cases > 0, "no vectors in {}", folder.display());
}
