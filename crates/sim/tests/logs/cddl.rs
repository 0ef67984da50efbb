//! As much of CDDL (RFC 8610) as the qlog drafts use, and a check of JSON against it: maps with
//! optional fields, arrays with occurrence, choices, literals, `.size`, `~` and the sockets.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// A schema: rules by name.
pub struct Schema {
    rules: HashMap<String, Type>,
}

#[derive(Clone, Debug)]
enum Type {
    Name(String),
    Literal(String),
    Sized(Box<Type>, u32),
    Choice(Vec<Type>),
    Map(Vec<Member>),
    Array { least: usize, most: usize, of: Box<Type> },
}

#[derive(Clone, Debug)]
enum Member {
    Field {
        key: String,
        optional: bool,
        ty: Type,
    },
    /// The fields of another rule.
    Fields(String),
    /// Any other field.
    Others,
}

impl Schema {
    /// Reads a schema; panics where it is not in the subset.
    pub fn new(text: &str) -> Self {
        let mut reader = Reader { tokens: tokens(text), at: 0 };
        let mut rules: HashMap<String, Type> = HashMap::new();
        while reader.at < reader.tokens.len() {
            let name = reader.take();
            match reader.take().as_str() {
                "=" => assert!(rules.insert(name.clone(), reader.choice()).is_none(), "{name} is defined twice"),
                "/=" => {
                    let more = reader.choice();
                    let all = rules.remove(&name).into_iter().chain([more]).collect();
                    rules.insert(name, Type::Choice(all));
                }
                "//=" => {
                    reader.expect("(");
                    rules.insert(name, Type::Map(reader.members(")")));
                }
                other => panic!("{name} is followed by {other}"),
            }
        }
        Self { rules }
    }

    /// Checks that `value` is a `rule`; if not, says why not.
    pub fn check(&self, value: &Value, rule: &str) -> Result<(), String> {
        self.is(value, &Type::Name(rule.to_owned())).map_err(|why| format!("{rule}: {why}"))
    }

    fn is(&self, value: &Value, ty: &Type) -> Result<(), String> {
        let must = |holds: bool| if holds { Ok(()) } else { Err(format!("{value} is no {ty:?}")) };
        match ty {
            Type::Name(name) => match name.as_str() {
                "any" => Ok(()),
                "text" => must(value.is_string()),
                "bool" => must(value.is_boolean()),
                "uint" => must(value.is_u64()),
                "float32" | "float64" => must(value.is_number()),
                name => self.is(value, self.rules.get(name).unwrap_or_else(|| panic!("{name} is not defined"))),
            },
            Type::Literal(text) => must(value.as_str() == Some(text)),
            Type::Sized(of, bytes) => {
                self.is(value, of)?;
                must(value.as_u64().is_some_and(|n| *bytes == 8 || n >> (8 * bytes) == 0))
            }
            Type::Choice(types) => {
                let misses: Vec<_> = types.iter().map_while(|ty| self.is(value, ty).err()).collect();
                if misses.len() < types.len() { Ok(()) } else { Err(misses.join("; ")) }
            }
            Type::Array { least, most, of } => {
                let items = value.as_array().ok_or_else(|| format!("{value} is no array"))?;
                must((*least..=*most).contains(&items.len()))?;
                items.iter().try_for_each(|item| self.is(item, of))
            }
            Type::Map(members) => self.has(value.as_object().ok_or_else(|| format!("{value} is no map"))?, members),
        }
    }

    fn has(&self, map: &Map<String, Value>, members: &[Member]) -> Result<(), String> {
        let mut open = false;
        let mut known = Vec::new();
        self.fields(members, &mut known, &mut open);
        for &(key, optional, ty) in &known {
            match map.get(key) {
                Some(value) => self.is(value, ty).map_err(|why| format!("{key}: {why}"))?,
                None if optional => {}
                None => return Err(format!("{key} is missing")),
            }
        }
        let stranger = map.keys().find(|key| !open && known.iter().all(|(known, ..)| known != key));
        stranger.map_or(Ok(()), |key| Err(format!("{key} is not defined")))
    }

    fn fields<'a>(&'a self, members: &'a [Member], known: &mut Vec<(&'a str, bool, &'a Type)>, open: &mut bool) {
        for member in members {
            match member {
                Member::Field { key, optional, ty } => known.push((key, *optional, ty)),
                Member::Others => *open = true,
                Member::Fields(name) => match self.rules.get(name) {
                    Some(Type::Map(members)) => self.fields(members, known, open),
                    // A socket that nobody plugged.
                    None if name.starts_with("$$") => {}
                    other => panic!("{name} has no fields: {other:?}"),
                },
            }
        }
    }
}

struct Reader {
    tokens: Vec<String>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn take(&mut self) -> String {
        self.at += 1;
        self.tokens[self.at - 1].clone()
    }

    fn takes(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: &str) {
        assert!(self.takes(token), "{token} expected, {} found", self.peek());
    }

    fn choice(&mut self) -> Type {
        let mut types = vec![self.one()];
        while self.takes("/") {
            types.push(self.one());
        }
        if types.len() == 1 { types.remove(0) } else { Type::Choice(types) }
    }

    fn one(&mut self) -> Type {
        let token = self.take();
        let ty = match token.as_str() {
            "{" => Type::Map(self.members("}")),
            "[" => self.array(),
            _ => match token.strip_prefix('"') {
                Some(text) => Type::Literal(text.to_owned()),
                None => Type::Name(token),
            },
        };
        if self.takes(".size") {
            return Type::Sized(Box::new(ty), self.take().parse().expect("a size in bytes"));
        }
        if self.takes(".default") {
            self.take();
        }
        ty
    }

    fn array(&mut self) -> Type {
        let first: Option<usize> = self.peek().parse().ok();
        self.at += usize::from(first.is_some());
        let plus = self.takes("+");
        let many = plus || self.takes("*");
        let last: Option<usize> = self.peek().parse().ok();
        self.at += usize::from(last.is_some());
        let of = Box::new(self.choice());
        self.expect("]");
        let least = first.unwrap_or(usize::from(plus || !many));
        Type::Array { least, most: last.unwrap_or(if many { usize::MAX } else { 1 }), of }
    }

    fn members(&mut self, end: &str) -> Vec<Member> {
        let mut members = Vec::new();
        while !self.takes(end) {
            let optional = self.takes("?");
            let many = self.takes("*");
            let include = self.takes("~") || self.peek().starts_with("$$");
            let key = self.take();
            members.push(if include {
                Member::Fields(key)
            } else if many {
                assert_eq!((key.as_str(), self.take().as_str(), self.take().as_str()), ("text", "=>", "any"));
                Member::Others
            } else {
                self.expect(":");
                Member::Field { key, optional, ty: self.choice() }
            });
            self.takes(",");
        }
        members
    }
}

/// The tokens; a text literal keeps its opening quote.
fn tokens(text: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || "$_-@.".contains(c);
    let mut tokens = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim();
        while !rest.is_empty() && !rest.starts_with(';') {
            let length = if let Some(inner) = rest.strip_prefix('"') {
                inner.find('"').expect("a closing quote") + 1
            } else if rest.starts_with(is_name) {
                rest.find(|c| !is_name(c)).unwrap_or(rest.len())
            } else {
                ["//=", "/=", "=>"].iter().find(|op| rest.starts_with(**op)).map_or(1, |op| op.len())
            };
            tokens.push(rest[..length].to_owned());
            let quote = usize::from(rest.starts_with('"'));
            rest = rest[length + quote..].trim_start();
        }
    }
    tokens
}
