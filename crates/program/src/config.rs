//! Options of a command in a file: `--config weft.toml`.
