//! A manifest that arrives in parts. The other end has the token, and may still mean ill: it cannot fill this one's
//! memory.

use crate::tree::found::FailedFile;
use crate::tree::manifest::{Entry, MAX_ENTRIES, MAX_NAMES, Manifest, ManifestError};

/// Entries that have come.
pub(crate) struct Incoming {
    manifest: Manifest,
    left_out: Vec<FailedFile>,
    /// Bytes of all names and reasons.
    names: usize,
    most: usize,
}

impl Incoming {
    /// Manifest of which nothing has come.
    pub fn new() -> Self {
        Self { manifest: Manifest::default(), left_out: Vec::new(), names: 0, most: MAX_NAMES }
    }

    /// Some entries.
    pub fn add(&mut self, entries: Vec<Entry>) -> Result<(), ManifestError> {
        self.names += entries.iter().map(Entry::names).sum::<usize>();
        self.manifest.entries.extend(entries);
        self.check()
    }

    /// Files that the sender leaves out.
    pub fn leave_out(&mut self, files: Vec<FailedFile>) -> Result<(), ManifestError> {
        self.names += files.iter().map(|file| file.path.len() + file.reason.len()).sum::<usize>();
        self.left_out.extend(files);
        self.check()
    }

    fn check(&self) -> Result<(), ManifestError> {
        let count = self.manifest.entries.len().max(self.left_out.len());
        if count > MAX_ENTRIES {
            return Err(ManifestError::Count(count));
        }
        if self.names > self.most { Err(ManifestError::Names(self.most)) } else { Ok(()) }
    }

    /// Number of entries that have come.
    pub fn len(&self) -> usize {
        self.manifest.entries.len()
    }

    /// The manifest, and what it leaves out.
    pub fn into_parts(self) -> (Manifest, Vec<FailedFile>) {
        (self.manifest, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_fill_the_memory_are_refused() {
        let name = "n".repeat(100);
        let entry = Entry { path: name.clone(), size: 1, mode: 0, mtime: 0, dir: false, allocated: 1, hash: None };
        let left_out = FailedFile { path: name.clone(), reason: name };
        let mut incoming = Incoming { most: 1000, ..Incoming::new() };
        incoming.add(vec![entry.clone(); 5]).unwrap();
        incoming.leave_out(vec![left_out.clone(); 2]).unwrap();
        assert_eq!(incoming.len(), 5);
        incoming.add(vec![entry.clone()]).unwrap();
        assert!(matches!(incoming.add(vec![entry]), Err(ManifestError::Names(1000))));
        let mut incoming = Incoming { most: 1000, ..Incoming::new() };
        assert!(matches!(incoming.leave_out(vec![left_out; 6]), Err(ManifestError::Names(_))));
    }
}
