//! Gives the sources that decide results a name, `WEFTWAY_CODE`: a row says which code made it,
//! the same on every machine, and a comparison does not resume from rows of other code. What the kernel does depends
//! on fewer of them: `WEFTWAY_KERNEL_CODE`. Runs on QUIC depend on the driver in place of the simulator:
//! `WEFTWAY_QUIC_CODE`. It also copies the scenarios and what they read into `OUT_DIR/data`, from where they become part of
//! the wheel (`include` in `pyproject.toml`).

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The crates on which a row depends, each as a whole: a list of files would miss one that is moved. The policies that come
/// with `sched` count too, and the manifest of `quic`, which names the release of noq.
const CRATES: [&str; 8] = ["path", "sched", "host", "cc", "link", "scenario", "net", "sim"];
const QUIC_CRATES: [&str; 8] = ["path", "sched", "host", "cc", "link", "scenario", "net", "quic"];
/// What a run of the kernel depends on: links, how they are driven, and what is asked of the kernel. Of `scenario`, which
/// holds the model's settings too, only how links and traffic are read from a file, what is written and how it is measured:
/// a change of the model costs no kernel rows.
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
const DATA: [&str; 4] = ["experiments", "scenarios", "sweeps", "traces"];

fn main() -> io::Result<()> {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let folders = |crates: &[&str], more: &[&str]| {
        let sources = crates.iter().map(|name| format!("../{name}/src"));
        sources.chain(more.iter().map(|&path| path.to_owned())).collect::<Vec<_>>()
    };
    println!("cargo::rustc-env=WEFTWAY_CODE={version}+{:016x}", hash(&folders(&CRATES, &[POLICIES]))?);
    let quic = folders(&QUIC_CRATES, &[POLICIES, "../quic/Cargo.toml"]);
    println!("cargo::rustc-env=WEFTWAY_QUIC_CODE={version}+{:016x}", hash(&quic)?);
    println!(
        "cargo::rustc-env=WEFTWAY_KERNEL_CODE={version}+{:016x}",
        hash(&folders(&KERNEL_CRATES, &KERNEL_SOURCES))?
    );
    copy_data(Path::new(&env::var_os("OUT_DIR").unwrap_or_default()))
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

/// Of the files given, and of those in the folders given.
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
