//! A file that says what a tunnel has changed, as long as it has not taken it back: one for each network namespace.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::{Done, Failure, system_text};

/// Changes of a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Settings of the kernel, as they were before.
    #[serde(default)]
    pub settings: BTreeMap<PathBuf, String>,
    /// True if there is a kill switch. Nothing: nobody knows.
    #[serde(default)]
    pub closed: Option<bool>,
}

/// The file, which one tunnel has at a time.
pub struct StateFile {
    path: PathBuf,
    file: File,
}

impl StateFile {
    /// Opens the file of this network namespace, unless another tunnel has it.
    pub fn open() -> Done<Self> {
        let inode =
            fs::metadata("/proc/self/ns/net").map_err(|error| refused(Path::new("/proc/self/ns/net"), &error))?;
        Self::open_at(Path::new("/run/weftway").join(format!("tunnel-{}.json", inode.ino())))
    }

    fn open_at(path: PathBuf) -> Done<Self> {
        let file = Self::lock(&path).map_err(|error| match error {
            TryLockError::WouldBlock => Failure::input("a tunnel runs already: there is one at a time"),
            TryLockError::Error(error) => refused(&path, &error),
        })?;
        Ok(Self { path, file })
    }

    fn lock(path: &Path) -> Result<File, TryLockError> {
        let made = path.parent().map_or(Ok(()), |folder| DirBuilder::new().recursive(true).mode(0o755).create(folder));
        made.map_err(TryLockError::Error)?;
        loop {
            let file = File::options().read(true).append(true).create(true).open(path).map_err(TryLockError::Error)?;
            file.try_lock()?;
            // Another tunnel may have ended meanwhile, and its file with it.
            let own = file.metadata().map_err(TryLockError::Error)?.ino();
            if fs::metadata(path).is_ok_and(|there| there.ino() == own) {
                return Ok(file);
            }
        }
    }

    /// Reads what a tunnel has written down that has not taken it back. Nobody knows what one has changed that was
    /// killed as it wrote.
    pub fn read(&mut self) -> Option<Changes> {
        let mut text = String::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_string(&mut text));
        if read.is_ok() && matches!(text.trim(), "" | "{}") {
            return None;
        }
        Some(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Writes down what is changed next.
    pub fn write(&mut self, changes: &Changes) -> io::Result<()> {
        let text = serde_json::to_string(changes)?;
        self.file.set_len(0)?;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_all()
    }

    /// Takes the file away: nothing is changed any more.
    pub fn remove(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// A change that could not be written down.
    pub fn failure(&self, error: &io::Error) -> Failure {
        Failure::file(&self.path, error)
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::input(format!("weft tunnel needs root: {}: {}", path.display(), system_text(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Changes {
        Changes { settings: [(PathBuf::from("/a"), "1".to_owned())].into(), closed: Some(true) }
    }

    #[test]
    fn changes_are_known_until_they_are_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weftway/tunnel.json");
        let mut state = StateFile::open_at(path.clone()).unwrap();
        assert_eq!(state.read(), None);
        state.write(&Changes::default()).unwrap();
        state.write(&changes()).unwrap();
        drop(state);
        assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"settings":{"/a":"1"},"closed":true}"#);
        let mut state = StateFile::open_at(path.clone()).unwrap();
        assert_eq!(state.read(), Some(changes()));
        state.remove().unwrap();
        assert!(!path.exists() && state.read().is_none());
        state.remove().unwrap();
    }

    #[test]
    fn there_is_one_tunnel_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tunnel.json");
        let _first = StateFile::open_at(path.clone()).unwrap();
        let second = StateFile::open_at(path).err();
        assert!(
            matches!(second, Some(Failure::Input(text)) if text == "a tunnel runs already: there is one at a time")
        );
    }

    #[test]
    fn of_a_file_that_is_cut_off_nobody_knows_anything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tunnel.json");
        for (text, known) in [
            (r#"{"settings": {"/a""#, Some(Changes::default())),
            ("[]", Some(Changes::default())),
            ("{}", None),
            (r#"{"settings": {"/a": "1"}, "closed": true}"#, Some(changes())),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(StateFile::open_at(path.clone()).unwrap().read(), known, "{text}");
        }
    }
}
