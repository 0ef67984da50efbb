//! Files that are there whole or not at all.

use std::path::Path;

use crate::failure::{Done, Failure};

/// Writes a file beside its name, and gives it its name when it is whole.
pub fn write(file: &Path, text: &str) -> Done {
    std::fs::write(file, text).map_err(|error| Failure::file(file, &error))
}
