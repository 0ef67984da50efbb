//! Trace files, read once however many variants use them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use weftway_link::Trace;

use super::error::{Fault, Mistake};

/// The traces that a scenario names.
#[derive(Clone, Debug, Default)]
pub(super) struct Traces {
    base: PathBuf,
    read: BTreeMap<String, Read>,
}

#[derive(Clone, Debug)]
struct Read {
    trace: Arc<Trace>,
    digest: [u8; 32],
}

impl Traces {
    /// For a scenario in the folder `base`.
    pub fn new(base: &Path) -> Self {
        // A file that is named without a folder lies in this one.
        let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
        let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
        Self { base, read: BTreeMap::new() }
    }

    /// The trace that the scenario names `name`.
    pub fn get(&mut self, name: &str) -> Result<Arc<Trace>, Fault> {
        if let Some(read) = self.read.get(name) {
            return Ok(read.trace.clone());
        }
        let fault = |reason| Fault::new(Mistake::Trace, format!("trace `{name}`: {reason}"));
        let Some(path) = self.find(name) else {
            let help = format!("traces are looked for in {} and the folders above it", self.base.display());
            let is_folder = self.base.ancestors().any(|folder| folder.join(name).is_dir());
            let reason = if is_folder { "a folder, where a trace file is expected" } else { "no such file" };
            return Err(fault(reason.to_owned()).help(help));
        };
        let text = fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
        let trace = Arc::new(Trace::parse(&text).map_err(|error| fault(error.to_string()))?);
        let digest = Sha256::digest(text.as_bytes()).into();
        self.read.insert(name.to_owned(), Read { trace: trace.clone(), digest });
        Ok(trace)
    }

    /// A digest of the file's content, if it has been read.
    pub fn digest(&self, name: &str) -> Option<[u8; 32]> {
        self.read.get(name).map(|read| read.digest)
    }

    /// Beside the scenario, or else in the nearest folder above it.
    fn find(&self, name: &str) -> Option<PathBuf> {
        self.base.ancestors().map(|folder| folder.join(name)).find(|path| path.is_file())
    }
}
