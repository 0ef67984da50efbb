//! Manifest of a transfer: names, sizes, modes and times; and the place of each file in the stream of bytes.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A file or a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name below the target: components with `/` between them.
    pub path: String,
    /// Its size; 0 for a directory.
    pub size: u64,
    /// Its permissions: nine bits.
    pub mode: u32,
    /// Time of its last change, in nanoseconds since 1970.
    pub mtime: i64,
    /// True if it is a directory.
    pub dir: bool,
    /// Bytes that it takes on the sender's disk. A sparse file takes less than its size.
    pub allocated: u64,
    /// The BLAKE3 hash of a file in hexadecimal digits, where the sender compares contents and not times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl Entry {
    /// The bytes of a file that are not in holes.
    pub fn stored(&self) -> u64 {
        self.allocated.min(self.size)
    }

    /// The bytes of its texts.
    pub fn names(&self) -> usize {
        self.path.len() + self.hash.as_ref().map_or(0, String::len)
    }
}

/// All entries, in the order in which they are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The entries.
    pub entries: Vec<Entry>,
}

/// A manifest is refused, or cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A name that would leave the target, or that is none.
    #[error("the name {0:?} is refused: {1}")]
    Name(String, &'static str),
    /// Two entries want one name.
    #[error("the name {0:?} stands for two things")]
    Collision(String),
    /// Path of the user that cannot be read.
    #[error("{0}: {1}")]
    Read(PathBuf, io::Error),
    /// Path of the user that is neither a file nor a directory.
    #[error("{0}: this is a {1}; weft send takes a file or a directory")]
    Kind(PathBuf, &'static str),
    /// More than can be numbered.
    #[error("{0} entries are more than {MAX_ENTRIES}")]
    Count(usize),
    /// Names that are too long together.
    #[error("all names together have more than {0} bytes")]
    Names(usize),
    /// More bytes than a record can name.
    #[error("all files together are larger than {MAX_BYTES} bytes")]
    Size,
}

/// Folder of the receiver's partial files, below the target. No entry may have this name.
pub const HIDDEN: &str = ".weft-partial";
/// Entries of a manifest at most.
pub const MAX_ENTRIES: usize = 1 << 22;
/// Bytes of all names at most: an end keeps them in memory.
pub const MAX_NAMES: usize = 1 << 30;
/// Bytes of all files at most: a record has 62 bits for where it begins.
pub const MAX_BYTES: u64 = 1 << 61;
/// Longest path and name of a file system: PATH_MAX and NAME_MAX of Linux.
const MAX_PATH: usize = 4095;
const MAX_NAME: usize = 255;

/// Checks that a name stays below the target.
pub fn check_name(path: &str) -> Result<(), ManifestError> {
    let refuse = |why| Err(ManifestError::Name(path.to_owned(), why));
    if path.is_empty() || path.len() > MAX_PATH {
        return refuse("a name has 1 to 4095 bytes");
    }
    if path.starts_with('/') {
        return refuse("it is absolute");
    }
    for part in path.split('/') {
        match part {
            ".." => return refuse("it leads out of the target"),
            "" | "." => return refuse("it has an empty component"),
            part if part.len() > MAX_NAME => return refuse("a component has at most 255 bytes"),
            part if part.contains('\0') => return refuse("it has a NUL"),
            _ => {}
        }
    }
    if path.split('/').next() == Some(HIDDEN) {
        return refuse("the receiver keeps partial files there");
    }
    Ok(())
}

impl Manifest {
    /// Checks that all names stay below the target, and no two collide.
    pub fn check(&self) -> Result<(), ManifestError> {
        if self.entries.len() > MAX_ENTRIES {
            return Err(ManifestError::Count(self.entries.len()));
        }
        if self.bytes() > MAX_BYTES {
            return Err(ManifestError::Size);
        }
        if self.entries.iter().map(Entry::names).sum::<usize>() > MAX_NAMES {
            return Err(ManifestError::Names(MAX_NAMES));
        }
        let mut kinds: HashMap<&str, bool> = HashMap::new();
        for entry in &self.entries {
            check_name(&entry.path)?;
            if kinds.insert(&entry.path, entry.dir).is_some() {
                return Err(ManifestError::Collision(entry.path.clone()));
            }
        }
        for entry in &self.entries {
            let parents = entry.path.match_indices('/').map(|(at, _)| &entry.path[..at]);
            for parent in parents {
                if kinds.get(parent) == Some(&false) {
                    return Err(ManifestError::Collision(parent.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.size))
    }

    /// Number of files.
    pub fn files(&self) -> u64 {
        self.entries.iter().filter(|entry| !entry.dir).count() as u64
    }
}

/// A part of a file, where it is in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The entry's number.
    pub entry: u32,
    /// The stream's offset at which it begins.
    pub start: u64,
    /// The file's offset at which it begins: what is before is there already.
    pub from: u64,
    /// Its length, never 0.
    pub length: u64,
}

impl Piece {
    /// The stream's offset behind it.
    pub fn end(&self) -> u64 {
        self.start + self.length
    }
}

/// The stream of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The pieces, one behind the other.
    pub pieces: Vec<Piece>,
}

impl Layout {
    /// The files of `manifest` from `had` on, by entry; entries beyond the end of `had` are sent whole.
    pub fn new(manifest: &Manifest, had: &[u64]) -> Self {
        let (mut pieces, mut start) = (Vec::new(), 0);
        for (at, entry) in manifest.entries.iter().enumerate() {
            let from = had.get(at).copied().unwrap_or(0).min(entry.size);
            let length = entry.size - from;
            if !entry.dir && length > 0 {
                pieces.push(Piece { entry: at as u32, start, from, length });
                start += length;
            }
        }
        Self { pieces }
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.pieces.last().map_or(0, Piece::end)
    }

    /// The number of the piece that holds the byte at `offset`.
    pub fn at(&self, offset: u64) -> Option<usize> {
        let at = self.pieces.partition_point(|piece| piece.end() <= offset);
        (at < self.pieces.len()).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn file(path: &str, size: u64) -> Entry {
        Entry { path: path.into(), size, mode: 0o644, mtime: 0, dir: false, allocated: size, hash: None }
    }

    #[test]
    fn names_that_leave_the_target_are_refused() {
        let long = "a".repeat(256);
        for name in ["", "/etc/passwd", "..", "a/../../b", "a/..", "a//b", "./a", "a/.", "a/", "a\0b", &long] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name(&format!("{HIDDEN}/x")).is_err());
        for name in ["a", "a/b", "..a/b..", "a b/ü", ".hidden"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn names_that_collide_are_refused() {
        let twice = Manifest { entries: vec![file("a", 1), file("a", 2)] };
        assert!(matches!(twice.check(), Err(ManifestError::Collision(_))));
        let below = Manifest { entries: vec![file("a/b/c", 1), file("a/b", 2)] };
        assert!(matches!(below.check(), Err(ManifestError::Collision(_))));
        let dir = Entry { dir: true, ..file("a", 0) };
        assert!(Manifest { entries: vec![dir, file("a/b", 2)] }.check().is_ok());
    }

    #[test]
    fn sizes_beyond_all_numbers_are_refused() {
        let huge = Manifest { entries: vec![file("a", u64::MAX), file("b", u64::MAX)] };
        assert!(matches!(huge.check(), Err(ManifestError::Size)));
    }

    #[test]
    fn the_stream_holds_what_is_missing() {
        let manifest = Manifest { entries: vec![file("a", 10), file("b", 0), file("c", 5), file("d", 7)] };
        let layout = Layout::new(&manifest, &[4, 0, 5]);
        let piece = |entry, start, from, length| Piece { entry, start, from, length };
        assert_eq!(layout.pieces, [piece(0, 0, 4, 6), piece(3, 6, 0, 7)]);
        assert_eq!((layout.bytes(), layout.at(5), layout.at(6), layout.at(13)), (13, Some(0), Some(1), None));
    }

    proptest! {
        #[test]
        fn every_byte_of_the_stream_is_in_one_piece(
            sizes in prop::collection::vec((0u64..20, 0u64..25), 0..12),
        ) {
            let entries = sizes.iter().enumerate().map(|(at, (size, _))| file(&format!("f{at}"), *size)).collect();
            let had: Vec<u64> = sizes.iter().map(|(_, had)| *had).collect();
            let layout = Layout::new(&Manifest { entries }, &had);
            let missing: u64 = sizes.iter().map(|(size, had)| size.saturating_sub(*had)).sum();
            prop_assert_eq!(layout.bytes(), missing);
            for offset in 0..missing {
                let piece = layout.pieces[layout.at(offset).unwrap()];
                prop_assert!(piece.start <= offset && offset < piece.end());
            }
            prop_assert_eq!(layout.at(missing), None);
        }

        /// A name that passes the check cannot be a path that leaves the directory it is joined to.
        #[test]
        fn an_accepted_name_stays_below(name in "[./a\\\\\0]{0,12}") {
            if check_name(&name).is_ok() {
                let parts: Vec<_> = Path::new(&name).components().collect();
                let normal = parts.iter().all(|part| matches!(part, std::path::Component::Normal(_)));
                prop_assert!(normal && !parts.is_empty(), "{:?}", name);
            }
        }
    }
}
