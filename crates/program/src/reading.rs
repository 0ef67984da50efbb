//! Files of text that people write, in whatever editor.

use std::path::Path;

use crate::failure::{Done, Failure};

/// The text of a file in UTF-8, without the mark that some editors write before it.
pub fn text(file: &Path) -> Done<String> {
    std::fs::read_to_string(file).map_err(|error| Failure::file(file, &error))
}
