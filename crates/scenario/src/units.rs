//! Numbers with units, as text: "10 ms", "30 Mbit/s", "0.5 %". A number without a unit is
//! refused, and so is a unit of another kind. Reading is exact: no float is involved.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use weftway_path::spec::nearest;
use weftway_path::{BitRate, Bytes, Span};

/// A kind of quantity: what it is called, how it is written, what it becomes.
pub(super) trait Dimension: Copy {
    /// The type behind it.
    type Value: Copy;
    /// With its article, as in "expected a time".
    const WHAT: &'static str;
    /// A right one.
    const EXAMPLE: &'static str;
    /// A right range.
    const RANGE: &'static str;
    /// Each unit and what it is in the smallest.
    const UNITS: &'static [(&'static str, u64)];
    /// The largest that makes sense, in the smallest unit.
    const MOST: u64 = u64::MAX / 4;

    fn value(smallest: u64) -> Self::Value;
}

macro_rules! dimension {
    (
        $(#[$doc:meta])*
        $name:ident($value:ty) = $make:expr;
        $what:literal, $example:literal, $range:literal, $units:expr $(, most $most:expr)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub(super) struct $name;

        impl Dimension for $name {
            type Value = $value;
            const WHAT: &'static str = $what;
            const EXAMPLE: &'static str = $example;
            const RANGE: &'static str = $range;
            const UNITS: &'static [(&'static str, u64)] = $units;
            $(const MOST: u64 = $most;)?

            fn value(smallest: u64) -> $value {
                $make(smallest)
            }
        }

        impl From<Quantity<$name>> for $value {
            fn from(quantity: Quantity<$name>) -> Self {
                quantity.get()
            }
        }
    };
}

const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Units as people type them, and as they are here. In rates a small b is a bit and a large one a byte.
const TYPED: &[(&str, &str)] = &[
    ("bytes", "B"),
    ("bps", "bit/s"),
    ("kbps", "kbit/s"),
    ("mbps", "Mbit/s"),
    ("gbps", "Gbit/s"),
    ("b/s", "bit/s"),
    ("kb/s", "kbit/s"),
    ("mb/s", "Mbit/s"),
    ("gb/s", "Gbit/s"),
    ("kBps", "kB/s"),
    ("MBps", "MB/s"),
    ("msec", "ms"),
    ("sec", "s"),
    ("pkts", "packets"),
];

dimension! {
    /// A length of time, in nanoseconds.
    InTime(Span) = Span::from_nanos;
    "a time", "10 ms", "5 ms..25 ms", &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ]
}
dimension! {
    /// A rate, in bits per second.
    InRate(BitRate) = BitRate::from_bps;
    "a rate", "30 Mbit/s", "5 Mbit/s..20 Mbit/s", &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("kB/s", 8_000),
        ("MB/s", 8_000_000),
    ]
}
dimension! {
    /// A number of bytes.
    InBytes(Bytes) = Bytes::new;
    "a size", "64 KiB", "16 KiB..64 KiB", SIZES
}
/// Units of what others reckon with, too: rates in bits per second, sizes in bytes, times in
/// nanoseconds.
#[must_use]
pub fn units() -> [(&'static str, &'static [(&'static str, u64)]); 3] {
    [("rate", InRate::UNITS), ("size", InBytes::UNITS), ("time", InTime::UNITS)]
}

dimension! {
    /// A number of packets.
    InPackets(u64) = core::convert::identity;
    "a number of packets", "100 packets", "10 packets..100 packets", &[("packets", 1), ("packet", 1)]
}
dimension! {
    /// A share of a whole, in thousand-millionths.
    InShare(f64) = |billionths| billionths as f64 / 1e9;
    "a share", "0.5 %", "0 %..2 %", &[("%", 10_000_000)], most 1_000_000_000
}
dimension! {
    /// A multiple of the bandwidth-delay product, in thousandths.
    InBdp(u64) = core::convert::identity;
    "a queue in bandwidth-delay products", "1 BDP", "1 BDP..2 BDP", &[("BDP", 1000)]
}

dimension! {
    /// Price of a number of bytes, in millionths for a GB.
    InPrice(u64) = core::convert::identity;
    "a price", "4 /GB", "2 /GB..5 /GB", &[("/GB", 1_000_000), ("/MB", 1_000_000_000)]
}

/// A length of time.
pub(super) type Time = Quantity<InTime>;
/// A rate.
pub(super) type Rate = Quantity<InRate>;
/// A number of bytes.
pub(super) type Size = Quantity<InBytes>;
/// A number of packets.
pub(super) type Packets = Quantity<InPackets>;
/// A share of a whole, from 0 to 1.
pub(super) type Share = Quantity<InShare>;
/// Price of a number of bytes.
pub(super) type Price = Quantity<InPrice>;

/// A number in the smallest unit of its dimension.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Quantity<D>(u64, PhantomData<D>);

impl<D: Dimension> Quantity<D> {
    pub fn get(self) -> D::Value {
        D::value(self.0)
    }

    /// In the smallest unit.
    pub fn smallest(self) -> u64 {
        self.0
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Reads a number and its unit.
    pub fn read(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text);
        // The Greek letter mu looks like the sign for micro.
        let unit = &unit.replace('\u{3bc}', "\u{b5}");
        let Some(&(_, scale)) = D::UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(wrong_unit::<D>(text, number, unit));
        };
        let smallest = scaled(number, scale).map_err(|reason| format!("\"{text}\": {reason}"))?;
        if smallest > D::MOST {
            let most = if D::MOST == InShare::MOST { "is more than 100 %" } else { "is too large" };
            return Err(format!("\"{text}\" {most}"));
        }
        Ok(Self(smallest, PhantomData))
    }
}

impl From<Packets> for u32 {
    /// Returns the number, or the largest that fits.
    fn from(packets: Packets) -> Self {
        Self::try_from(packets.get()).unwrap_or(Self::MAX)
    }
}

impl From<Size> for Option<Bytes> {
    fn from(size: Size) -> Self {
        Some(size.get())
    }
}

/// The number and the unit of `text`.
pub(super) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-._".contains(c))).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn wrong_unit<D: Dimension>(text: &str, number: &str, unit: &str) -> String {
    let names = || D::UNITS.iter().map(|(name, _)| *name);
    if number.is_empty() {
        return format!("expected {} such as \"{}\", found \"{text}\"", D::WHAT, D::EXAMPLE);
    }
    if unit.is_empty() {
        return format!("\"{text}\" has no unit; {} is written like \"{}\"", D::WHAT, D::EXAMPLE);
    }
    if let Some(rest) = unit.strip_prefix(',') {
        return without_comma::<D>(text, number, rest);
    }
    // Where all units are the same amount, as for packets, any of them may be meant.
    let is_alike = D::UNITS.iter().all(|(_, scale)| *scale == D::UNITS[0].1);
    let typed = TYPED.iter().find(|(typed, _)| is_typed(typed, unit)).map(|(_, unit)| *unit);
    let near = names().find(|name| Some(*name) == typed).or_else(|| names().find(|name| is_typed(name, unit)));
    let near =
        near.map(str::to_owned).or_else(|| nearest(unit, names()).filter(|near| is_alike || is_slip(near, unit)));
    let hint = match near {
        Some(near) => format!("did you mean \"{number} {near}\"?"),
        None => format!("one of {}, as in \"{}\"", names().collect::<Vec<_>>().join(", "), D::EXAMPLE),
    };
    format!("`{unit}` is no unit of {}; {hint}", D::WHAT)
}

/// Message about a number with a comma, which stands for thousands in some countries and for the point in others.
fn without_comma<D: Dimension>(text: &str, number: &str, rest: &str) -> String {
    let (part, unit) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    let hint = match (part.len(), unit.trim_start()) {
        (_, unit) if unit.starts_with([',', '.']) => "leave the comma out of whole numbers".to_owned(),
        (0, _) => "leave the comma out".to_owned(),
        (_, "") => format!("{} is written like \"{}\"", D::WHAT, D::EXAMPLE),
        (3, unit) => format!("write \"{number}{part} {unit}\" or \"{number}.{part} {unit}\""),
        (_, unit) => format!("did you mean \"{number}.{part} {unit}\"?"),
    };
    format!("\"{text}\" has a comma, and the decimal mark is a point; {hint}")
}

/// Returns true if a unit is this one, large letters or small; but bits are no bytes, and `Mb` is megabits.
fn is_typed(name: &str, unit: &str) -> bool {
    let is_rate = name.ends_with("ps") || name.ends_with("/s");
    let is_bits = unit.ends_with('b') && unit.starts_with(|c: char| c.is_ascii_uppercase());
    name.eq_ignore_ascii_case(unit) && if is_rate { name.contains('B') == unit.contains('B') } else { !is_bits }
}

/// Returns true if a unit is this one but for a slip, and no other amount: a TB is no B, a MiB no MB, a Mb no MB; `m`
/// may be minutes or milliseconds.
fn is_slip(name: &str, unit: &str) -> bool {
    let lower = |text: &str| text.to_ascii_lowercase();
    let begins = |text: &str| lower(text).chars().next();
    let is_binary = |text: &str| lower(text).contains("ib");
    let has_bits = lower(unit).contains("bit");
    let same_bytes = name.contains('B') == (unit.contains('B') && !has_bits);
    unit.chars().count() > 1 && begins(name) == begins(unit) && is_binary(name) == is_binary(unit) && same_bytes
}

/// `number`, a decimal, times `scale`, to the nearest whole.
fn scaled(number: &str, scale: u64) -> Result<u64, &'static str> {
    if let Some(rest) = number.strip_prefix('-') {
        return scaled(rest, scale).and(Err("must not be negative"));
    }
    let number = number.replace('_', "");
    let number = number.strip_prefix('+').unwrap_or(&number);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("this is no number");
    }
    // 18 digits times the largest scale, 3.6e12, stay below 2^128.
    if digits.len() > 18 {
        return Err("too many digits");
    }
    let tens = 10u128.pow(part.len() as u32);
    let mantissa: u128 = digits.parse().map_err(|_| "this is no number")?;
    u64::try_from((mantissa * u128::from(scale) + tens / 2) / tens).map_err(|_| "too large")
}

impl<'de, D: Dimension> Deserialize<'de> for Quantity<D> {
    fn deserialize<S: Deserializer<'de>>(deserializer: S) -> Result<Self, S::Error> {
        deserializer.deserialize_any(Text { read: Self::read, what: D::WHAT, example: D::EXAMPLE, unit: true })
    }
}

impl<D: Dimension> JsonSchema for Quantity<D> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        D::WHAT.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let units: Vec<_> = D::UNITS.iter().map(|(name, _)| *name).collect();
        json_schema!({
            "type": "string",
            "pattern": format!("^\\s*\\+?[0-9][0-9_]*(\\.[0-9]+)?\\s*({})\\s*$", units.join("|").replace('µ', "[µ\u{3bc}]")),
            "examples": [D::EXAMPLE],
        })
    }
}

/// Reads a text with a function, and says what a bare number lacks.
pub(super) struct Text<F> {
    pub read: F,
    pub what: &'static str,
    pub example: &'static str,
    /// It is a unit that a bare number lacks.
    pub unit: bool,
}

impl<F> Text<F> {
    fn bare<E: Error>(&self, number: impl fmt::Display) -> E {
        let Self { what, example, .. } = self;
        E::custom(match self.unit {
            true => format!("{number} has no unit; {what} is written like \"{example}\""),
            false => format!("{number} is not {what}; that is written like \"{example}\""),
        })
    }
}

impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Text<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} such as \"{}\"", self.what, self.example)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        Err(self.bare(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        Err(self.bare(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Result<Span, String> {
        Time::read(text).map(Time::get)
    }

    #[test]
    fn numbers_are_read_exactly() {
        assert_eq!(time("10 ms"), Ok(Span::from_millis(10)));
        assert_eq!(time("0.1us"), Ok(Span::from_nanos(100)));
        assert_eq!(time("1_000 s"), Ok(Span::from_secs(1000)));
        // The sign for micro, and the Greek letter.
        assert_eq!(time("10 \u{b5}s"), Ok(Span::from_micros(10)));
        assert_eq!(time("10 \u{3bc}s"), Ok(Span::from_micros(10)));
        // A third of a nanosecond is nothing; half of one is rounded up.
        assert_eq!(time("0.3 ns"), Ok(Span::ZERO));
        assert_eq!(time("0.5 ns"), Ok(Span::from_nanos(1)));
        assert_eq!(Rate::read("1.5 Mbit/s").unwrap().get(), BitRate::from_bps(1_500_000));
        assert_eq!(Rate::read("64 kB/s").unwrap().get(), BitRate::from_bps(512_000));
        assert_eq!(Size::read("6 MiB").unwrap().get(), Bytes::new(6 * 1024 * 1024));
        assert_eq!(Share::read("0.5 %").unwrap().get(), 0.005);
    }

    #[test]
    fn mistakes_say_what_would_be_right() {
        let reason = |text| time(text).unwrap_err();
        assert_eq!(reason("10"), "\"10\" has no unit; a time is written like \"10 ms\"");
        assert_eq!(
            reason("10 Mbit/s"),
            "`Mbit/s` is no unit of a time; one of ns, us, µs, ms, s, min, h, as in \"10 ms\""
        );
        assert_eq!(reason("10 msec"), "`msec` is no unit of a time; did you mean \"10 ms\"?");
        assert_eq!(reason("soon"), "expected a time such as \"10 ms\", found \"soon\"");
        assert_eq!(reason("-1 ms"), "\"-1 ms\": must not be negative");
        assert_eq!(reason("1.2.3 ms"), "\"1.2.3 ms\": this is no number");
        assert_eq!(reason("99999999999999 h"), "\"99999999999999 h\": too large");
        assert_eq!(Share::read("100.1 %").unwrap_err(), "\"100.1 %\" is more than 100 %");
        assert_eq!(Rate::read("30 Mbps").unwrap_err(), "`Mbps` is no unit of a rate; did you mean \"30 Mbit/s\"?");
        // No other amount is proposed: neither of another unit, nor of a number that is cut at its comma.
        let units = "one of B, kB, MB, GB, KiB, MiB, GiB, as in \"64 KiB\"";
        for unit in ["TB", "PB", "TiB", "Mb", "Kbit", "bits"] {
            let told = Size::read(&format!("20 {unit}")).unwrap_err();
            assert_eq!(told, format!("`{unit}` is no unit of a size; {units}"));
        }
        assert!(Rate::read("20 Tbit/s").unwrap_err().contains("; one of bit/s, kbit/s"));
        assert!(Rate::read("20 Mibit/s").unwrap_err().contains("; one of bit/s, kbit/s"));
        assert!(Rate::read("20 MiB/s").unwrap_err().contains("; one of bit/s, kbit/s"));
        assert!(reason("10 m").contains("; one of ns, us"));
        assert!(Rate::read("20 Mbits/s").unwrap_err().ends_with("did you mean \"20 Mbit/s\"?"));
        let comma = "has a comma, and the decimal mark is a point";
        let rate = |text| Rate::read(text).unwrap_err();
        assert_eq!(rate("1,5 Mbit/s"), format!("\"1,5 Mbit/s\" {comma}; did you mean \"1.5 Mbit/s\"?"));
        assert_eq!(rate("1,5Mbit/s"), format!("\"1,5Mbit/s\" {comma}; did you mean \"1.5 Mbit/s\"?"));
        assert_eq!(
            rate("1,500 kbit/s"),
            format!("\"1,500 kbit/s\" {comma}; write \"1500 kbit/s\" or \"1.500 kbit/s\"")
        );
        assert_eq!(
            rate("1,500,000 bit/s"),
            format!("\"1,500,000 bit/s\" {comma}; leave the comma out of whole numbers")
        );
        assert_eq!(rate("1,5"), format!("\"1,5\" {comma}; a rate is written like \"30 Mbit/s\""));
        let bits_and_bytes = [
            ("b/s", "bit/s"),
            ("kb/s", "kbit/s"),
            ("Mb/s", "Mbit/s"),
            ("mb/s", "Mbit/s"),
            ("Gb/s", "Gbit/s"),
            ("mbit/s", "Mbit/s"),
            ("KB/s", "kB/s"),
            ("MBps", "MB/s"),
            ("MBPS", "MB/s"),
        ];
        for (typed, unit) in bits_and_bytes {
            let told = Rate::read(&format!("30 {typed}")).unwrap_err();
            assert_eq!(told, format!("`{typed}` is no unit of a rate; did you mean \"30 {unit}\"?"));
        }
    }
}
