//! Gives the sources that decide results a name, `WEFTWAY_CODE`: a row says which code made it, the same on every
//! machine, and a comparison does not resume from rows of other code. What the kernel does depends on fewer of them:
//! `WEFTWAY_KERNEL_CODE`. Runs on QUIC depend on the driver in place of the simulator: `WEFTWAY_QUIC_CODE`;
//! those of picoquic, on how it is driven: `WEFTWAY_PICOQUIC_CODE`. It also copies the scenarios and what they read into
//! `OUT_DIR/data`, from where they become part of the wheel (`include` in `pyproject.toml`).

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Topmost crates that run a scenario: the oracle over the simulator, the driver of QUIC, and that of picoquic. A row depends on each of
/// them and on every crate of ours below it, as their manifests say, each as a whole: a list of crates or files would
/// miss one. The policies that come with `sched` count too, and the manifest of `quic`, which names the release of noq.
const SIMULATOR: &str = "oracle";
const QUIC: &str = "quic";
const PICOQUIC: &str = "picoquic";
/// Crates that a run of the kernel depends on: links, how they are driven, and what is asked of the kernel. Of
/// `scenario`, which holds the model's settings too, only how links and traffic are read from a file, what is written
/// and how it is measured: a change of the model costs no kernel rows.
const KERNEL_CRATES: [&str; 3] = ["path", "link", "emu"];
const KERNEL_SOURCES: [&str; 11] = [
    "../scenario/src/drive.rs",
    "../scenario/src/links.rs",
    "../scenario/src/measurement",
    "../scenario/src/measurement.rs",
    "../scenario/src/resolve.rs",
    "../scenario/src/seeds.rs",
    "../scenario/src/text.rs",
    "../scenario/src/traces.rs",
    "../scenario/src/traffic.rs",
    "../scenario/src/units.rs",
    "../scenario/src/workload.rs",
];
const POLICIES: &str = "../sched/policies";

/// The folders at the root of the repository that an installed package has too.
const DATA: [&str; 5] = ["board", "experiments", "scenarios", "sweeps", "traces"];

fn main() -> io::Result<()> {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let tell = |name: &str, crates: &[String], more: &[&str]| {
        let sources = crates.iter().map(|name| format!("../{name}/src"));
        let sources: Vec<_> = sources.chain(more.iter().map(|&path| path.to_owned())).collect();
        println!("cargo::rustc-env={name}={version}+{:016x}", hash(&sources)?);
        io::Result::Ok(())
    };
    tell("WEFTWAY_CODE", &with_those_below(SIMULATOR)?, &[POLICIES])?;
    tell("WEFTWAY_QUIC_CODE", &with_those_below(QUIC)?, &[POLICIES, "../quic/Cargo.toml"])?;
    tell("WEFTWAY_PICOQUIC_CODE", &with_those_below(PICOQUIC)?, &[POLICIES, "../quic/Cargo.toml"])?;
    tell("WEFTWAY_KERNEL_CODE", &KERNEL_CRATES.map(str::to_owned), &KERNEL_SOURCES)?;
    copy_data(Path::new(&env::var_os("OUT_DIR").unwrap_or_default()))
}

/// The crate `name` and every crate of ours that it is built with.
fn with_those_below(name: &str) -> io::Result<Vec<String>> {
    let mut found = vec![name.to_owned()];
    let mut at = 0;
    while let Some(name) = found.get(at) {
        let manifest = format!("../{name}/Cargo.toml");
        println!("cargo::rerun-if-changed={manifest}");
        for other in dependencies(&fs::read_to_string(manifest)?) {
            if !found.contains(&other) {
                found.push(other);
            }
        }
        at += 1;
    }
    Ok(found)
}

/// The crates of ours that a manifest names, on whichever system, but not for its tests alone.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut counts = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            counts = line == "[dependencies]" || (line.starts_with("[target.") && line.ends_with(".dependencies]"));
        } else if let Some(rest) = line.strip_prefix("weftway-").filter(|_| counts) {
            found.push(rest.split(['.', ' ', '=']).next().unwrap_or(rest).to_owned());
        }
    }
    found
}

/// Copies the data folders to `out`/data, and leaves nothing there that they no longer have.
fn copy_data(out: &Path) -> io::Result<()> {
    let target = out.join("data");
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    for folder in DATA {
        let source = Path::new("../..").join(folder);
        println!("cargo::rerun-if-changed={}", source.display());
        let mut files = Vec::new();
        list(&source, &mut files)?;
        for file in files {
            let copy = target.join(folder).join(file.strip_prefix(&source).unwrap_or(&file));
            fs::create_dir_all(copy.parent().unwrap_or(&target))?;
            fs::copy(&file, copy)?;
        }
    }
    Ok(())
}

/// Hash of the files given, and of those in the folders given.
fn hash(sources: &[impl AsRef<Path>]) -> io::Result<u64> {
    let mut files = Vec::new();
    for source in sources.iter().map(AsRef::as_ref) {
        println!("cargo::rerun-if-changed={}", source.display());
        if source.is_dir() {
            list(source, &mut files)?;
        } else {
            files.push(source.to_path_buf());
        }
    }
    files.sort();
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for file in &files {
        hash.add(file.to_string_lossy().replace('\\', "/").as_bytes());
        hash.add(&fs::read(file)?);
    }
    Ok(hash.0)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// FNV-1a, 64 bits: enough to tell versions apart, and no dependency.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
