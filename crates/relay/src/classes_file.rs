//! The file of rules that say which flow is of which class.
//!
//! ```toml
//! [[rule]]
//! name      = "calls"
//! transport = "udp"
//! host      = ["*.call.example", "192.0.2.0/24"]
//! port      = [443, "3478-3481"]
//! dscp      = ["EF", "CS4-CS7"]
//! class     = "realtime"
//! ```

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{self, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use weftway_path::spec::nearest;

use crate::classes::{CLASSES, Class, Classes, Hosts, Rule, Transport};
use crate::dscp::Dscp;

/// A file of rules makes no sense: where, why, and what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRules(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, deserialize_with = "rules")]
    rule: Vec<Table>,
}

/// The tables `[[rule]]`.
fn rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Table>, D::Error> {
    struct Reader;
    impl<'de> Visitor<'de> for Reader {
        type Value = Vec<Table>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("rules, each of them under a line `[[rule]]`")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Table>, A::Error> {
            let mut tables = Vec::new();
            while let Some(table) = items.next_element()? {
                tables.push(table);
            }
            Ok(tables)
        }

        fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Vec<Table>, A::Error> {
            Err(A::Error::custom("a rule begins with `[[rule]]`, with two brackets on each side: `[rule]` is no list"))
        }
    }
    from.deserialize_any(Reader)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    transport: Option<Transport>,
    #[serde(default)]
    host: OneOrMore<Hosts>,
    #[serde(default)]
    port: OneOrMore<Ports>,
    #[serde(default)]
    dscp: OneOrMore<Marks>,
    class: Class,
}

impl Classes {
    /// Reads a file of rules.
    pub fn parse(text: &str) -> Result<Self, BadRules> {
        let file: File = toml::from_str(text).map_err(|error| BadRules(error.to_string().trim_end().to_owned()))?;
        let rules = file.rule.into_iter().zip(1..).map(|(table, number)| Rule {
            name: table.name.unwrap_or_else(|| format!("number {number}")),
            transport: table.transport,
            hosts: table.host.0,
            ports: table.port.0.into_iter().map(|ports| ports.0).collect(),
            marks: table.dscp.0.into_iter().map(|marks| marks.0).collect(),
            class: table.class,
        });
        Ok(Self::new(rules.collect()))
    }
}

/// Value of `all` with this name.
fn named<'de, D: Deserializer<'de>, T: Copy>(from: D, what: &str, all: &[(&'static str, T)]) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    let names = || all.iter().map(|(name, _)| *name);
    let found = all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let near = nearest(&text, names()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let names = names().collect::<Vec<_>>().join(", ");
        D::Error::custom(format!("{what} is one of {names}, not `{text}`{near}"))
    })
}

impl<'de> Deserialize<'de> for Class {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        named(from, "`class`", &CLASSES.map(|class| (class.name(), class)))
    }
}

impl<'de> Deserialize<'de> for Transport {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        named(from, "`transport`", &[("tcp", Self::Tcp), ("udp", Self::Udp)])
    }
}

impl<'de> Deserialize<'de> for Hosts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let why = "is no host: a name, *.example.org for all names below one, an address, or a network as 192.0.2.0/24; a \
                   range of addresses is written as networks, and no name ends in a number";
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` {why}")))
    }
}

/// Ports from one to another.
struct Ports(RangeInclusive<u16>);

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Ports;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port from 1 to 65535, or two of them as \"5000-5010\"")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Ports, E> {
                let port = u16::try_from(number).ok().filter(|&port| port > 0);
                let port = port.ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))?;
                Ok(Ports(port..=port))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Ports, E> {
                let port = |text: &str| text.trim().parse().ok().filter(|&port: &u16| port > 0);
                let ends = text.split_once('-').and_then(|(from, to)| Some((port(from)?, port(to)?)));
                let ends = ends.filter(|(from, to)| from <= to);
                let (from, to) = ends.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))?;
                Ok(Ports(from..=to))
            }
        }
        from.deserialize_any(Reader)
    }
}

/// Marks from one to another.
struct Marks(RangeInclusive<Dscp>);

impl<'de> Deserialize<'de> for Marks {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Marks;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mark, EF, CS5, AF41 or a number from 0 to 63, or two of them as \"CS4-CS7\"")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Marks, E> {
                let mark = number.to_string().parse();
                let mark = mark.map_err(|()| E::invalid_value(de::Unexpected::Signed(number), &self))?;
                Ok(Marks(mark..=mark))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Marks, E> {
                let (from, to) = text.split_once('-').unwrap_or((text, text));
                let ends = from.trim().parse::<Dscp>().ok().zip(to.trim().parse().ok()).filter(|(from, to)| from <= to);
                let (from, to) = ends.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))?;
                Ok(Marks(from..=to))
            }
        }
        from.deserialize_any(Reader)
    }
}

/// A value, or a list of such that is not empty.
struct OneOrMore<T>(Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number, or a list of these")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<OneOrMore<T>, E> {
                T::deserialize(de::value::I64Deserializer::new(number)).map(|value| OneOrMore(vec![value]))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<OneOrMore<T>, E> {
                T::deserialize(de::value::StrDeserializer::new(text)).map(|value| OneOrMore(vec![value]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OneOrMore<T>, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = items.next_element()? {
                    values.push(value);
                }
                // An empty list would be no condition, and so the opposite of what it looks like.
                if values.is_empty() {
                    Err(de::Error::custom("an empty list: leave the key out"))
                } else {
                    Ok(OneOrMore(values))
                }
            }
        }
        from.deserialize_any(Reader(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        let text = r#"
            [[rule]]
            name = "calls"
            transport = "udp"
            host = ["*.call.example", "192.0.2.0/24"]
            port = [443, "3478-3481"]
            dscp = ["EF", "CS4-CS7", 5]
            class = "realtime"
            [[rule]]
            host = "backup.example"
            port = 22
            class = "bulk"
        "#;
        let mark = |number: &str| number.parse().unwrap();
        let hosts = |texts: &[&str]| texts.iter().map(|text| Hosts::parse(text).unwrap()).collect();
        let rules = vec![
            Rule {
                name: "calls".to_owned(),
                transport: Some(Transport::Udp),
                hosts: hosts(&["*.call.example", "192.0.2.0/24"]),
                ports: vec![443..=443, 3478..=3481],
                marks: vec![mark("46")..=mark("46"), mark("32")..=mark("56"), mark("5")..=mark("5")],
                class: Class::Realtime,
            },
            Rule {
                name: "number 2".to_owned(),
                transport: None,
                hosts: hosts(&["backup.example"]),
                ports: vec![22..=22],
                marks: vec![],
                class: Class::Bulk,
            },
        ];
        assert_eq!(Classes::parse(text), Ok(Classes::new(rules)));
        assert_eq!(Classes::parse(""), Ok(Classes::default()));
    }

    #[test]
    fn what_makes_no_sense_gets_one_error_that_says_where() {
        for (line, words) in [
            ("class = \"bluk\"", "did you mean `bulk`?"),
            ("class = \"bulk\"\nports = 22", "unknown field `ports`, expected one of `name`"),
            ("port = 22", "missing field `class`"),
            ("class = \"bulk\"\nport = 0", "a port from 1 to 65535"),
            ("class = \"bulk\"\nport = [22, \"9-2\"]", "a port from 1 to 65535"),
            ("class = \"bulk\"\nport = []", "leave the key out"),
            ("class = \"bulk\"\nhost = \"a b\"", "`a b` is no host"),
            ("class = \"bulk\"\nhost = \"192.0.2.1-192.0.2.9\"", "a range of addresses is written as networks"),
            ("class = \"bulk\"\nhost = [\"a.example\", \"192.168.1\"]", "no name ends in a number"),
            ("class = \"bulk\"\nhost = \"*.7\"", "no name ends in a number"),
            ("class = \"bulk\"\ntransport = \"sctp\"", "`transport` is one of tcp, udp, not `sctp`"),
            ("class = ", "line 2"),
        ] {
            let error = Classes::parse(&format!("[[rule]]\n{line}\n")).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("line ") && error.contains('^'), "{error}");
        }
    }

    #[test]
    fn a_rule_that_is_no_list_is_told_as_that() {
        let error = Classes::parse("[rule]\nport = 443\nclass = \"bulk\"\n").unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("begins with `[[rule]]`"), "{error}");
        let error = Classes::parse("rule = 3\n").unwrap_err().to_string();
        assert!(error.contains("each of them under a line `[[rule]]`"), "{error}");
    }
}
