//! A scenario as TOML gives it: values that know where they were written, in the file's order.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Fault, Mistake};
use super::source::{NOWHERE, Site};

/// A value and its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub value: Value,
    pub site: Site,
}

/// Value of TOML; dates count as text.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Real(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

impl Default for Value {
    fn default() -> Self {
        Self::Table(Vec::new())
    }
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    pub key_site: Site,
    pub node: Node,
}

/// Says which table or key the line at `at` begins for the second time, and in which line it was first.
fn named_before(text: &str, at: usize) -> Option<String> {
    let number = text.get(..at)?.matches('\n').count();
    let lines: Vec<&str> = text.lines().map(|line| line.split('#').next().unwrap_or(line).trim()).collect();
    let line = *lines.get(number)?;
    let earlier = || lines[..number].iter().enumerate().rev();
    let header = |line: &str| Some(line.strip_prefix('[')?.strip_suffix(']')?.trim().to_owned());
    let key = |line: &str| Some(line.split_once('=')?.0.trim().to_owned());
    let (name, first) = match header(line) {
        Some(name) => (name.clone(), earlier().find(|(_, line)| header(line).as_ref() == Some(&name))),
        None => {
            let name = key(line)?;
            let mut table = earlier().take_while(|(_, line)| header(line).is_none());
            (name.clone(), table.find(|(_, line)| key(line).as_ref() == Some(&name)))
        }
    };
    Some(format!("`{name}` is there already, in line {}", first?.0 + 1))
}

impl Node {
    /// Reads a whole TOML text whose first character has the position `start`.
    pub fn parse(text: &str, start: usize) -> Result<Self, Fault> {
        let table = DeTable::parse(text).map_err(|error| {
            let site = error.span().unwrap_or(0..0);
            let twice = || named_before(text, site.start);
            let reason = if error.message() == "duplicate key" { twice() } else { None };
            let reason = reason.unwrap_or_else(|| error.message().to_owned());
            Fault::new(Mistake::Syntax, reason).site(&(site.start + start..site.end + start))
        })?;
        Ok(Self { value: Value::Table(entries(table.into_inner(), start)?), site: NOWHERE })
    }

    /// Its entries, if it is a table.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The value at `path`.
    pub fn get(&self, path: &[&str]) -> Option<&Self> {
        let Some((key, rest)) = path.split_first() else { return Some(self) };
        self.entries().iter().find(|entry| entry.key == *key)?.node.get(rest)
    }

    /// The value of `key`, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Value::Table(entries) = &mut self.value else { return None };
        entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
    }

    /// Where the value at `path` was written, or the nearest table around it. Items of lists are
    /// found by number.
    pub fn find(&self, path: &[String]) -> Option<Site> {
        let (key, rest) = path.split_first()?;
        let node = match &self.value {
            Value::Table(entries) => &entries.iter().find(|entry| entry.key == *key)?.node,
            Value::List(items) => items.get(key.parse::<usize>().ok()?)?,
            _ => return None,
        };
        Some(node.find(rest).unwrap_or_else(|| node.site.clone()))
    }

    /// Moves it and all within to where it is written: from `from` to `to`.
    pub fn shift(&mut self, to: usize, from: usize) {
        let moved = |site: &Site| (site.start + to).saturating_sub(from)..(site.end + to).saturating_sub(from);
        self.site = moved(&self.site);
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.shift(to, from)),
            Value::Table(entries) => entries.iter_mut().for_each(|entry| {
                entry.key_site = moved(&entry.key_site);
                entry.node.shift(to, from);
            }),
            _ => {}
        }
    }

    /// Takes the value at `path` out.
    pub fn remove(&mut self, path: &[&str]) -> Option<Self> {
        let Value::Table(entries) = &mut self.value else { return None };
        let (key, rest) = path.split_first()?;
        let at = entries.iter().position(|entry| entry.key == *key)?;
        if rest.is_empty() { Some(entries.remove(at).node) } else { entries[at].node.remove(rest) }
    }

    /// Puts `node` at `path`, making the tables on the way; `site` is where the path was written.
    pub fn set(&mut self, path: &[&str], node: Self, site: &Site) -> Result<(), Fault> {
        let Some((key, rest)) = path.split_first() else {
            *self = node;
            return Ok(());
        };
        let Value::Table(entries) = &mut self.value else {
            return Err(Fault::new(Mistake::Key, format!("`{key}` is inside a value that has no keys")).site(site));
        };
        let at = entries.iter().position(|entry| entry.key == *key).unwrap_or_else(|| {
            let node = Self { value: Value::Table(Vec::new()), site: site.clone() };
            entries.push(Entry { key: (*key).to_owned(), key_site: site.clone(), node });
            entries.len() - 1
        });
        entries[at].node.set(rest, node, site)
    }
}

impl fmt::Display for Node {
    /// As `--set` takes it: a text without its quotes, anything else as in TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Text(text) => f.write_str(text),
            _ => self.toml().fmt(f),
        }
    }
}

impl Node {
    fn toml(&self) -> toml::Value {
        match &self.value {
            Value::Text(text) => toml::Value::String(text.clone()),
            Value::Whole(number) => toml::Value::Integer(*number),
            Value::Real(number) => toml::Value::Float(*number),
            Value::Flag(flag) => toml::Value::Boolean(*flag),
            Value::List(items) => toml::Value::Array(items.iter().map(Self::toml).collect()),
            Value::Table(entries) => {
                toml::Value::Table(entries.iter().map(|entry| (entry.key.clone(), entry.node.toml())).collect())
            }
        }
    }
}

impl Node {
    /// A table as TOML: a line per key.
    pub fn lines(&self) -> String {
        self.entries().iter().map(|entry| format!("{} = {}\n", quoted(&entry.key), entry.node.inline())).collect()
    }

    /// As TOML on one line, keys in their order.
    fn inline(&self) -> String {
        match &self.value {
            Value::List(items) => format!("[{}]", items.iter().map(Self::inline).collect::<Vec<_>>().join(", ")),
            Value::Table(entries) => {
                let entry = |entry: &Entry| format!("{} = {}", quoted(&entry.key), entry.node.inline());
                format!("{{ {} }}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
            // The crate writes a text of several lines over several lines, which an inline table does not take.
            Value::Text(text) => quoted(text),
            _ => self.toml().to_string(),
        }
    }
}

/// `text` as a TOML string on one line. JSON's escapes are TOML's.
fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string().replace('\u{7f}', "\\u007f")
}

fn entries(table: DeTable<'_>, start: usize) -> Result<Vec<Entry>, Fault> {
    let mut entries = table
        .into_iter()
        .map(|(key, node)| {
            let key_site = shift(key.span(), start);
            Ok(Entry { key: key.into_inner().into_owned(), key_site, node: Node::from_toml(node, start)? })
        })
        .collect::<Result<Vec<_>, Fault>>()?;
    // The parser sorts by name; the order of paths is the order of the file.
    entries.sort_by_key(|entry| entry.key_site.start);
    Ok(entries)
}

impl Node {
    fn from_toml(node: Spanned<DeValue<'_>>, start: usize) -> Result<Self, Fault> {
        let site = shift(node.span(), start);
        let value = match node.into_inner() {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => Value::Whole(
                i64::from_str_radix(number.as_str(), number.radix())
                    .map_err(|_| Fault::value("this number is too large").site(&site))?,
            ),
            DeValue::Float(number) => {
                Value::Real(number.as_str().parse().map_err(|_| Fault::value("this is no number").site(&site))?)
            }
            DeValue::Boolean(flag) => Value::Flag(flag),
            DeValue::Datetime(date) => Value::Text(date.to_string()),
            DeValue::Array(items) => {
                Value::List(items.into_iter().map(|item| Self::from_toml(item, start)).collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Value::Table(entries(table, start)?),
        };
        Ok(Self { value, site })
    }
}

fn shift(site: Site, start: usize) -> Site {
    site.start + start..site.end + start
}
