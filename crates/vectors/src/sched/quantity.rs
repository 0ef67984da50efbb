//! Amounts of data: packets, or bytes with a unit.

use serde::Deserialize;
use weftway_path::Bytes;

use crate::quantity::scaled;
use crate::testing;

/// Packets, or text with a unit.
#[derive(Clone, Deserialize, Debug)]
#[serde(untagged)]
pub(super) enum Amount {
    Packets(u64),
    Text(String),
}

impl Amount {
    pub(super) fn bytes(&self) -> Result<Bytes, String> {
        match self {
            Self::Packets(n) => Ok(testing::packets(*n)),
            Self::Text(text) if text == "infinite" => Ok(Bytes::MAX),
            Self::Text(text) => {
                scaled(text, &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)]).map(Bytes::new)
            }
        }
    }

    pub(super) fn count(&self) -> Result<u64, String> {
        match self {
            Self::Packets(n) => Ok(*n),
            Self::Text(_) => self.bytes().map(|bytes| bytes.packets(testing::MSS)),
        }
    }
}
