//! The sender's files: what is found below the name that the user gave, and what is left out.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::tree::manifest::{Entry, Manifest, ManifestError};

/// A file or a folder that could not be read or written, while the others were sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedFile {
    /// Its name, as the receiver has it.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// Thing that is never sent: no file and no directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name below the root.
    pub path: String,
    /// A symbolic link, FIFO, socket or device.
    pub kind: String,
}

/// Folder of a manifest's files on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The file or directory, links resolved.
    path: PathBuf,
    /// Name of it in the manifest; nothing if it is the root of the file system.
    name: PathBuf,
}

impl Root {
    /// Path of the file that the manifest calls `name`.
    pub fn file(&self, name: &str) -> PathBuf {
        match Path::new(name).strip_prefix(&self.name) {
            Ok(rest) if rest.as_os_str().is_empty() => self.path.clone(),
            Ok(rest) => self.path.join(rest),
            Err(_) => self.path.join(name),
        }
    }
}

/// Files that were found.
#[derive(Debug)]
pub struct FoundFiles {
    /// List of what is sent.
    pub manifest: Manifest,
    /// Folder of these files.
    pub root: Root,
    /// Things that are never sent.
    pub skipped: Vec<Skipped>,
    /// Files that cannot be read.
    pub failed: Vec<FailedFile>,
}

impl FoundFiles {
    /// Everything at and below `path`, under the name that it has there. A symbolic link is followed if it is `path`
    /// itself; below it, links are skipped.
    pub fn at(path: &Path) -> Result<Self, ManifestError> {
        let unreadable = |error| ManifestError::Read(path.to_owned(), error);
        let whole = path.canonicalize().map_err(unreadable)?;
        let name = path.file_name().or(whole.file_name()).map(PathBuf::from).unwrap_or_default();
        let kind = fs::metadata(&whole).map_err(unreadable)?.file_type();
        if let Some(kind) = special(kind) {
            return Err(ManifestError::Kind(path.to_owned(), kind));
        }
        let root = Root { path: whole, name };
        let mut found = Self { manifest: Manifest::default(), root, skipped: Vec::new(), failed: Vec::new() };
        for item in walkdir::WalkDir::new(&found.root.path).sort_by_file_name() {
            let is_root = item.as_ref().map_or_else(walkdir::Error::depth, walkdir::DirEntry::depth) == 0;
            match found.add(item) {
                // If nothing else is sent, this is all there is to say.
                Err((_, error)) if is_root => return Err(unreadable(error)),
                Err((path, error)) => found.failed.push(FailedFile { path, reason: error.to_string() }),
                Ok(()) => {}
            }
        }
        found.manifest.check()?;
        Ok(found)
    }

    /// Adds what the walk came to; or its name, and why it cannot be read.
    fn add(&mut self, item: walkdir::Result<walkdir::DirEntry>) -> Result<(), (String, io::Error)> {
        let item = item.map_err(|error| {
            let path = self.name_of(error.path().unwrap_or(&self.root.path));
            (path.display().to_string(), error.into())
        })?;
        let name = self.name_of(item.path());
        let Some(path) = name.to_str().map(str::to_owned) else {
            return Err((name.display().to_string(), io::Error::other("this name is not UTF-8; rename it")));
        };
        if path.is_empty() {
            return Ok(());
        }
        if let Some(kind) = special(item.file_type()) {
            self.skipped.push(Skipped { path, kind: kind.to_owned() });
            return Ok(());
        }
        match entry(&item, &path) {
            Ok(entry) => self.manifest.entries.push(entry),
            Err(error) => return Err((path, error)),
        }
        Ok(())
    }

    fn name_of(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.root.path) {
            Ok(rest) if rest.as_os_str().is_empty() => self.root.name.clone(),
            Ok(rest) => self.root.name.join(rest),
            Err(_) => path.to_owned(),
        }
    }
}

fn entry(item: &walkdir::DirEntry, path: &str) -> io::Result<Entry> {
    let meta = item.metadata()?;
    if meta.is_file() {
        // What cannot be read shows now, not when its turn comes.
        let mut file = open(item.path())?;
        if meta.len() == 0 && file.read(&mut [0])? > 0 {
            return Err(io::Error::other("it says that it is empty, and is not; send a copy of it"));
        }
    }
    Ok(Entry {
        path: path.to_owned(),
        size: if meta.is_dir() { 0 } else { meta.len() },
        mode: meta.permissions().mode() & 0o777,
        mtime: meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()),
        dir: meta.is_dir(),
        // `st_blocks` counts in 512 bytes, whatever the file system's blocks are.
        allocated: if meta.is_dir() { 0 } else { meta.blocks().saturating_mul(512) },
        hash: None,
    })
}

/// Kind of it, if it is neither file nor directory.
fn special(kind: FileType) -> Option<&'static str> {
    if kind.is_file() || kind.is_dir() {
        None
    } else if kind.is_symlink() {
        Some("symbolic link")
    } else if kind.is_fifo() {
        Some("FIFO")
    } else if kind.is_socket() {
        Some("socket")
    } else {
        Some("device")
    }
}

/// Opens a file, if it is one: what took its place meanwhile is not waited for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file any more"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(found: &FoundFiles) -> Vec<&str> {
        found.manifest.entries.iter().map(|entry| entry.path.as_str()).collect()
    }

    #[test]
    fn a_link_that_is_named_itself_is_followed_and_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("release-7")).unwrap();
        fs::write(dir.path().join("release-7/notes"), "seven").unwrap();
        symlink("release-7", dir.path().join("latest")).unwrap();
        symlink("release-7/notes", dir.path().join("news")).unwrap();
        let folder = FoundFiles::at(&dir.path().join("latest")).unwrap();
        assert_eq!(names(&folder), ["latest", "latest/notes"]);
        assert_eq!(fs::read(folder.root.file("latest/notes")).unwrap(), b"seven");
        let file = FoundFiles::at(&dir.path().join("news")).unwrap();
        assert_eq!(names(&file), ["news"]);
        assert_eq!(fs::read(open_of(&file, "news")).unwrap(), b"seven");
        // A path that ends in no name has that of the directory.
        let dots = FoundFiles::at(&dir.path().join("release-7/.")).unwrap();
        assert_eq!(names(&dots)[0], "release-7");
    }

    fn open_of(found: &FoundFiles, name: &str) -> PathBuf {
        let path = found.root.file(name);
        open(&path).unwrap();
        path
    }

    #[test]
    fn what_is_no_file_is_refused_by_itself_and_skipped_in_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("things");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        symlink("file", folder.join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        let found = FoundFiles::at(&folder).unwrap();
        assert_eq!(names(&found), ["things", "things/file"]);
        let skipped: Vec<_> = found.skipped.iter().map(|skipped| (&*skipped.path, &*skipped.kind)).collect();
        assert_eq!(skipped, [("things/link", "symbolic link"), ("things/socket", "socket")]);
        for (path, kind) in [(folder.join("socket"), "socket"), ("/dev/null".into(), "device")] {
            let error = FoundFiles::at(&path).unwrap_err();
            assert!(matches!(&error, ManifestError::Kind(_, found) if *found == kind), "{error}");
        }
    }

    /// Files that the kernel makes up say that they have 0 bytes.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_says_that_it_is_empty_and_is_not_is_refused() {
        let path = Path::new("/proc/self/cmdline");
        let error = FoundFiles::at(path).unwrap_err();
        assert!(matches!(&error, ManifestError::Read(named, _) if named == path), "{error}");
        assert!(error.to_string().contains("it says that it is empty, and is not"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("empty"), "").unwrap();
        assert_eq!(FoundFiles::at(&dir.path().join("empty")).unwrap().manifest.files(), 1);
    }

    #[test]
    fn what_cannot_be_named_is_left_out_and_told() {
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "").unwrap();
        fs::write(dir.path().join("tea"), "").unwrap();
        let found = FoundFiles::at(dir.path()).unwrap();
        assert_eq!((found.manifest.files(), found.failed.len()), (1, 1));
        assert!(found.failed[0].reason.contains("UTF-8"), "{:?}", found.failed);
    }
}
