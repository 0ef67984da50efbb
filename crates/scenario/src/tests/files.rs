//! The scenarios and experiments that come with the project.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Claim, Scenario};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every TOML file in `folder` and below, in order. Distributions are scenarios only once drawn, and networks only as
/// bases of others.
fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let (folders, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let folders = folders.iter().filter(|folder| !folder.ends_with("distributions") && !folder.ends_with("network"));
    files.chain(folders.flat_map(|folder| toml_files(folder))).collect()
}

#[test]
fn every_file_is_sound_and_says_what_it_shows() {
    let files: Vec<PathBuf> =
        ["scenarios", "experiments"].iter().flat_map(|name| toml_files(&root().join(name))).collect();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let scenario = Scenario::load(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert!(!scenario.title.is_empty() && !scenario.description.is_empty(), "{}", file.display());
        // What `reproduce` draws.
        let is_experiment = file.starts_with(root().join("experiments"));
        assert_eq!(!scenario.figures.is_empty(), is_experiment, "{}", file.display());
    }
}

/// LLHD's Table 1 gives a rate and an amount for the same 300 s: r · 300 s / 8 in MiB must be the
/// amount within 2.5 %, or one of them was copied wrongly.
#[test]
fn the_published_numbers_of_llhd_agree_with_each_other() {
    let scenario = Scenario::load(&root().join("experiments/lubna-2022/table1.toml"), &[]).unwrap();
    let published = scenario.published.as_ref().unwrap();
    let of = |metric: &str, scheduler: &str| {
        let is = |name: &Option<String>, wanted: &str| name.as_deref() == Some(wanted);
        let mut found =
            published.values.iter().filter(|value| is(&value.metric, metric) && is(&value.scheduler, scheduler));
        found.find(|value| value.over.is_none()).unwrap().value
    };
    for scheduler in &scenario.schedulers {
        let mib = of("goodput_mbps", scheduler) * 1e6 * 300.0 / 8.0 / f64::from(1 << 20);
        let printed = of("sent_mib", scheduler);
        assert!((mib / printed - 1.0).abs() < 0.026, "{scheduler}: {mib} MiB, printed {printed}");
    }
    let Some((_, Claim::Ratio { value, .. })) = scenario.claims.iter().find(|(name, _)| name == "gain") else {
        panic!("the gain is claimed");
    };
    let (llhd, min_rtt) = (of("goodput_mbps", "llhd"), of("goodput_mbps", "min-rtt"));
    assert!((llhd / min_rtt - value).abs() < 0.001);
}
