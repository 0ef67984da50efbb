//! Marks of a program's packets (DSCP, RFC 2474): a number of six bits in the IP header, with names of RFC 2474, 2597,
//! 3246, 5865 and 8622. Only a tunnel and a pipe see it; what programs give a proxy has no header.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dscp(u8);

/// The names that are no row.
const NAMES: [(&str, u8); 3] = [("LE", 1), ("VA", 44), ("EF", 46)];

impl Dscp {
    /// No program has marked it.
    pub const NONE: Self = Self(0);
    /// Lower effort than all else: RFC 8622, and before it RFC 3662.
    pub const LOW: [RangeInclusive<Self>; 2] = [Self(1)..=Self(1), Self(8)..=Self(8)];
    /// Signals and voices of telephony and what is interactive in real time: CS4 to CS7, VA, EF (RFC 4594).
    pub const URGENT: [RangeInclusive<Self>; 6] = [
        Self(32)..=Self(32),
        Self(40)..=Self(40),
        Self(44)..=Self(44),
        Self(46)..=Self(46),
        Self(48)..=Self(48),
        Self(56)..=Self(56),
    ];

    /// Mark in the field of IPv4 (type of service) or IPv6 (traffic class), whose last two bits are ECN's.
    #[cfg(target_os = "linux")]
    pub fn of_field(field: u8) -> Self {
        Self(field >> 2)
    }

    /// The field with this mark.
    pub fn field(self) -> u8 {
        self.0 << 2
    }

    /// Mark of this number, if it is one.
    pub fn of_number(number: u8) -> Option<Self> {
        (number < 64).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Mark of an IP packet, whose first two bytes these are.
    pub fn of_packet([first, second]: [u8; 2]) -> Self {
        match first >> 4 {
            6 => Self((first & 0xf) << 2 | second >> 6),
            _ => Self(second >> 2),
        }
    }
}

impl FromStr for Dscp {
    type Err = ();

    /// `EF`, `CS5`, `AF41` or a number up to 63.
    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some((_, number)) = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            return Ok(Self(*number));
        }
        let digits = text.as_bytes().get(2..).unwrap_or_default();
        let kind = text.get(..2).map(str::to_ascii_uppercase);
        match (kind.as_deref(), digits) {
            (Some("CS"), &[class @ b'0'..=b'7']) => Ok(Self((class - b'0') << 3)),
            (Some("AF"), &[class @ b'1'..=b'4', drop @ b'1'..=b'3']) => {
                Ok(Self((class - b'0') << 3 | (drop - b'0') << 1))
            }
            _ => text.parse().ok().filter(|&number: &u8| number < 64).map(Self).ok_or(()),
        }
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, drop) = (self.0 >> 3, self.0 >> 1 & 3);
        match self.0 {
            number if number & 7 == 0 => write!(f, "CS{class}"),
            number if number & 1 == 0 && (1..=4).contains(&class) => write!(f, "AF{class}{drop}"),
            number => match NAMES.iter().find(|(_, named)| *named == number) {
                Some((name, _)) => f.write_str(name),
                None => write!(f, "{number}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in table 3 of RFC 4594 and in RFC 8622.
    #[test]
    fn marks_have_the_names_of_the_rfcs() {
        for (name, number) in [
            ("CS0", 0),
            ("LE", 1),
            ("CS1", 8),
            ("AF11", 10),
            ("AF21", 18),
            ("AF33", 30),
            ("CS4", 32),
            ("AF41", 34),
            ("VA", 44),
            ("EF", 46),
            ("CS7", 56),
        ] {
            assert_eq!(name.parse(), Ok(Dscp(number)));
            assert_eq!((name.to_lowercase().parse(), number.to_string().parse()), (Ok(Dscp(number)), Ok(Dscp(number))));
            assert_eq!(Dscp(number).to_string(), name);
        }
        for text in ["", "64", "-1", "EFF", "CS8", "CS", "AF14", "AF51", "AF1", "ä", "é1"] {
            assert_eq!(text.parse::<Dscp>(), Err(()), "{text}");
        }
        assert_eq!(Dscp(63).to_string(), "63");
    }

    /// EF is 101110, and two bits of congestion notification follow: 10111001 of IPv4, 6 and 1011, 1001 of IPv6.
    #[test]
    fn the_mark_is_in_the_header() {
        assert_eq!(Dscp::of_packet([0x45, 0xb9]), Dscp(46));
        assert_eq!(Dscp::of_packet([0x6b, 0x9a]), Dscp(46));
        assert_eq!(Dscp::of_packet([0x60, 0x0f]), Dscp::NONE);
    }
}
