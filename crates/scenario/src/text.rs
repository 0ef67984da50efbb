//! Values with a small grammar of their own, written as text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::units::{Dimension, InBdp, InBytes, InPackets, Packets, Quantity, Size, Text, Time, split};

/// A type that is read from a text.
pub(super) trait FromText: std::marker::Sized {
    /// With its article.
    const WHAT: &'static str;
    /// A right one.
    const EXAMPLE: &'static str;
    /// Its numbers have units.
    const UNIT: bool = true;

    fn read(text: &str) -> Result<Self, String>;
}

macro_rules! read_from_text {
    ($($type:ident $(<$d:ident>)?;)*) => {$(
        impl<'de $(, $d: Dimension)?> Deserialize<'de> for $type $(<$d>)? {
            fn deserialize<S: Deserializer<'de>>(deserializer: S) -> Result<Self, S::Error> {
                deserializer.deserialize_any(Text {
                    read: <Self as FromText>::read,
                    what: Self::WHAT,
                    example: Self::EXAMPLE,
                    unit: Self::UNIT,
                })
            }
        }

        impl$(<$d: Dimension>)? JsonSchema for $type $(<$d>)? {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                Self::WHAT.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "examples": [Self::EXAMPLE] })
            }
        }
    )*};
}

read_from_text! {
    Ecn;
    Jitter;
    Queue;
    Seeds;
    Window;
    Spread<D>;
}

/// By how much delays vary: "normal 2 ms", "uniform 5 ms", "correlated 2 ms over 100 ms".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Jitter {
    /// With this standard deviation.
    Normal(Time),
    /// With this half width.
    Uniform(Time),
    /// Normal with this standard deviation, and correlated over this time.
    Correlated(Time, Time),
}

impl FromText for Jitter {
    const WHAT: &'static str = "a jitter";
    const EXAMPLE: &'static str = "normal 2 ms";

    fn read(text: &str) -> Result<Self, String> {
        match text.trim().split_once(' ') {
            Some(("normal", size)) => Time::read(size).map(Self::Normal),
            Some(("uniform", size)) => Time::read(size).map(Self::Uniform),
            Some(("correlated", rest)) if rest.contains(" over ") => {
                let (size, over) = rest.split_once(" over ").unwrap_or_default();
                Ok(Self::Correlated(Time::read(size)?, Time::read(over)?))
            }
            _ => Err(format!(
                "expected \"normal 2 ms\", \"uniform 2 ms\" or \"correlated 2 ms over 100 ms\", found \"{text}\""
            )),
        }
    }
}

/// Limit of a queue before a link: "100 packets", "64 kB", "1.5 BDP", "unlimited".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Queue {
    Unlimited,
    Packets(Packets),
    Bytes(Size),
    /// In thousandths of the path's rate times its two delays.
    Bdp(Quantity<InBdp>),
}

impl FromText for Queue {
    const WHAT: &'static str = "a queue";
    const EXAMPLE: &'static str = "100 packets";

    fn read(text: &str) -> Result<Self, String> {
        let is = |units: &[(&str, u64)], unit| units.iter().any(|(name, _)| *name == unit);
        match split(text).1 {
            "unlimited" => Ok(Self::Unlimited),
            unit if is(InPackets::UNITS, unit) => Quantity::read(text).map(Self::Packets),
            unit if is(InBdp::UNITS, unit) => Quantity::read(text).map(Self::Bdp),
            unit if is(InBytes::UNITS, unit) => Quantity::read(text).map(Self::Bytes),
            _ => Err(format!("expected \"100 packets\", \"64 kB\" or \"1 BDP\", found \"{text}\"")),
        }
    }
}

/// Rule for marking packets: "codel", or above a threshold, "20 packets" or "30 kB".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ecn {
    /// Marked where CoDel would drop it.
    CoDel,
    /// Marked when more packets than this wait.
    Packets(Packets),
    /// Marked when more bytes than this wait.
    Bytes(Size),
}

impl FromText for Ecn {
    const WHAT: &'static str = "a rule for marks";
    const EXAMPLE: &'static str = "20 packets";

    fn read(text: &str) -> Result<Self, String> {
        match Queue::read(text) {
            Ok(Queue::Packets(n)) => Ok(Self::Packets(n)),
            Ok(Queue::Bytes(n)) => Ok(Self::Bytes(n)),
            _ if text.trim() == "codel" => Ok(Self::CoDel),
            _ => Err(format!("expected \"codel\", \"20 packets\" or \"30 kB\", found \"{text}\"")),
        }
    }
}

/// Seeds, half-open: "0..30".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seeds(pub Range<u64>);

impl Default for Seeds {
    /// Ten seeds: enough for an interval of confidence, few enough to wait for.
    fn default() -> Self {
        Self(0..10)
    }
}

impl FromText for Seeds {
    const WHAT: &'static str = "a range of seeds";
    const EXAMPLE: &'static str = "0..30";
    const UNIT: bool = false;

    fn read(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let range = text.split_once("..").and_then(|(from, to)| Some((number(from)?, number(to)?)));
        match range {
            None => Err(format!("expected \"0..30\" (30 itself is left out), found \"{text}\"")),
            Some((from, to)) if to < from => {
                Err(format!("the seeds \"{text}\" are in reverse; write \"{to}..{from}\""))
            }
            Some((from, to)) if from == to => Err(format!(
                "\"{text}\" holds no seed: its end is left out; write \"{from}..{}\"",
                from.saturating_add(1)
            )),
            Some((from, to)) if to - from > Self::MOST => Err(format!("\"{text}\": at most {} seeds", Self::MOST)),
            Some((from, to)) => Ok(Self(from..to)),
        }
    }
}

impl Seeds {
    /// More are a slip of the finger.
    const MOST: u64 = 1_000_000;
}

/// A stretch of time: "5 s..20 s", "30 s..".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub from: Time,
    pub to: Option<Time>,
}

impl FromText for Window {
    const WHAT: &'static str = "a stretch of time";
    const EXAMPLE: &'static str = "0 s..20 s";

    fn read(text: &str) -> Result<Self, String> {
        let Some((from, to)) = text.split_once("..") else {
            return Err(format!("expected \"0 s..20 s\" or \"30 s..\", found \"{text}\""));
        };
        let from = Time::read(from)?;
        let to = if to.trim().is_empty() { None } else { Some(Time::read(to)?) };
        if to.is_some_and(|to| to <= from) {
            return Err(format!("\"{text}\" ends before it begins"));
        }
        Ok(Self { from, to })
    }
}

/// A range to draw from: "5 Mbit/s..20 Mbit/s", both ends included, or a single value, "5 Mbit/s".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread<D> {
    pub least: Quantity<D>,
    pub most: Quantity<D>,
}

impl<D: Dimension> FromText for Spread<D> {
    const WHAT: &'static str = "a range";
    const EXAMPLE: &'static str = D::RANGE;

    fn read(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let (least, most) = (Quantity::<D>::read(least)?, Quantity::<D>::read(most)?);
        if most.smallest() < least.smallest() {
            return Err(format!("the range \"{text}\" is in reverse"));
        }
        Ok(Self { least, most })
    }
}

/// A plain number: how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(inline)]
pub(super) struct Count(pub u64);

impl Count {
    pub fn one() -> Self {
        Self(1)
    }

    pub fn smallest(self) -> u64 {
        self.0
    }
}

impl From<Count> for u64 {
    fn from(count: Count) -> Self {
        count.0
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;

        impl Visitor<'_> for Whole {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Count, E> {
                u64::try_from(number).map(Count).map_err(|_| E::custom(format!("{number} must not be negative")))
            }
        }

        deserializer.deserialize_any(Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_half_open() {
        assert_eq!(Seeds::read("0..30"), Ok(Seeds(0..30)));
        assert_eq!(Seeds::read("5..2").unwrap_err(), "the seeds \"5..2\" are in reverse; write \"2..5\"");
        assert_eq!(Seeds::read("3..3").unwrap_err(), "\"3..3\" holds no seed: its end is left out; write \"3..4\"");
        assert!(Seeds::read("30").is_err());
        assert_eq!(Seeds::read("1..1000001"), Ok(Seeds(1..1_000_001)));
        let all = Seeds::read("0..18446744073709551615").unwrap_err();
        assert_eq!(all, "\"0..18446744073709551615\": at most 1000000 seeds");
    }

    #[test]
    fn jitter_has_a_shape_and_a_size() {
        let time = |text| Time::read(text).unwrap();
        assert_eq!(Jitter::read("uniform 5 ms"), Ok(Jitter::Uniform(time("5 ms"))));
        assert_eq!(Jitter::read("correlated 2 ms over 0.1 s"), Ok(Jitter::Correlated(time("2 ms"), time("100 ms"))));
        assert!(Jitter::read("2 ms").is_err());
        assert!(Jitter::read("normal").is_err());
        assert!(Jitter::read("correlated 2 ms").is_err());
    }

    #[test]
    fn a_queue_counts_packets_bytes_or_round_trips() {
        assert!(matches!(Queue::read("100 packets"), Ok(Queue::Packets(n)) if n.get() == 100));
        assert!(matches!(Queue::read("1.5 BDP"), Ok(Queue::Bdp(n)) if n.get() == 1500));
        assert!(matches!(Queue::read("64 kB"), Ok(Queue::Bytes(n)) if n.get().get() == 64_000));
        assert!(Queue::read("100").is_err());
    }

    #[test]
    fn a_window_may_be_open() {
        assert_eq!(Window::read("30 s..").unwrap().to, None);
        assert!(Window::read("30 s..20 s").is_err());
    }
}
