//! The files of measurements that a scenario names, traces and drives: read once however many variants use them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use weftway_link::Trace;

use super::drive::Drives;
use super::error::{Fault, Mistake};
use super::reading;

/// The traces and drives that a scenario names.
#[derive(Clone, Debug, Default)]
pub(super) struct Traces {
    base: PathBuf,
    traces: BTreeMap<String, Read<Trace>>,
    drives: BTreeMap<String, Read<Drives>>,
}

#[derive(Clone, Debug)]
struct Read<T> {
    content: Arc<T>,
    digest: [u8; 32],
}

impl Traces {
    /// For a scenario in the folder `base`.
    pub fn new(base: &Path) -> Self {
        // A file that is named without a folder lies in this one.
        let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
        let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
        Self { base, ..Self::default() }
    }

    /// The trace that the scenario names `name`.
    pub fn get(&mut self, name: &str) -> Result<Arc<Trace>, Fault> {
        if let Some(read) = self.traces.get(name) {
            return Ok(read.content.clone());
        }
        let read = self.read("trace", name, |text| Trace::parse(text).map_err(|error| error.to_string()))?;
        Ok(self.traces.entry(name.to_owned()).or_insert(read).content.clone())
    }

    /// The drive file that the scenario names `name`.
    pub fn drives(&mut self, name: &str) -> Result<Arc<Drives>, Fault> {
        if let Some(read) = self.drives.get(name) {
            return Ok(read.content.clone());
        }
        let read = self.read("drive", name, Drives::parse)?;
        Ok(self.drives.entry(name.to_owned()).or_insert(read).content.clone())
    }

    /// A digest of the file's content, if it has been read.
    pub fn digest(&self, name: &str) -> Option<[u8; 32]> {
        let trace = self.traces.get(name).map(|read| read.digest);
        trace.or_else(|| self.drives.get(name).map(|read| read.digest))
    }

    fn read<T>(&self, what: &str, name: &str, parse: fn(&str) -> Result<T, String>) -> Result<Read<T>, Fault> {
        let fault = |reason| Fault::new(Mistake::Trace, format!("{what} `{name}`: {reason}"));
        let Some(path) = self.find(name) else {
            let help = format!("{what}s are looked for in {} and the folders above it", self.base.display());
            let there = self.base.ancestors().map(|folder| folder.join(name)).find(|path| path.exists());
            let reason = match there {
                Some(path) if path.is_dir() => format!("a folder, where a {what} file is expected"),
                Some(_) => format!("a device or a pipe, where a {what} file is expected"),
                None => "no such file".to_owned(),
            };
            return Err(fault(reason).help(help));
        };
        let text = reading::read(&path).map_err(fault)?;
        let content = Arc::new(parse(&text).map_err(fault)?);
        Ok(Read { content, digest: Sha256::digest(text.as_bytes()).into() })
    }

    /// Beside the scenario, or else in the nearest folder above it.
    fn find(&self, name: &str) -> Option<PathBuf> {
        self.base.ancestors().map(|folder| folder.join(name)).find(|path| path.is_file())
    }
}
