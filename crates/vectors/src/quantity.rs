//! Numbers with units, as people write them.

use serde::Deserialize;
use weftway_path::{BitRate, Span};

/// Time in a vector file: `"20 ms"`.
#[derive(Clone, Copy, Deserialize, Default, Debug)]
#[serde(try_from = "String")]
pub(crate) struct Time(pub(crate) Span);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        span(&text).map(Self)
    }
}

/// Rate in a vector file: `"10 Mbit/s"`.
#[derive(Clone, Copy, Deserialize, Debug)]
#[serde(try_from = "String")]
pub(crate) struct Rate(pub(crate) BitRate);

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        rate(&text).map(Self)
    }
}

fn span(text: &str) -> Result<Span, String> {
    scaled(text, &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)]).map(Span::from_nanos)
}

fn rate(text: &str) -> Result<BitRate, String> {
    let units =
        [("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("B/s", 8), ("kB/s", 8_000), ("MB/s", 8_000_000)];
    scaled(text, &units).map(BitRate::from_bps)
}

/// Reads the number in `text` times its unit.
pub(crate) fn scaled(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let complaint = || {
        let known: Vec<_> = units.iter().map(|(unit, _)| *unit).collect();
        format!("`{text}` is not a number with one of the units {}", known.join(", "))
    };
    let (number, unit) = text.trim().split_once(' ').ok_or_else(complaint)?;
    let (_, scale) = units.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(complaint)?;
    let number: f64 = number.parse().ok().filter(|number| *number >= 0.0).ok_or_else(complaint)?;
    Ok((number * *scale as f64 + 0.5) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_missed() {
        assert_eq!(span("1.5 ms"), Ok(Span::from_micros(1500)));
        assert_eq!(rate("1.25 MB/s"), Ok(BitRate::from_mbps(10)));
        assert_eq!(span("20").unwrap_err(), "`20` is not a number with one of the units ns, us, ms, s");
    }
}
