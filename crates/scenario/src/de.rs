//! From values that know their place to typed ones. serde's own formats lose the place inside
//! tagged and alternative forms; this one keeps it, and reads two forms by their look:
//!
//! - an enum is named by a text, or by the key `kind` of a table that holds the variant's keys;
//! - [`super::schema::Directed`] is a value for both directions, unless it is a table with the
//!   keys `down` or `up`.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::{Fault, Mistake};
use super::tree::{Entry, Node, Value};

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.value {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Whole(number) => visitor.visit_i64(*number),
            Value::Real(number) => visitor.visit_f64(*number),
            Value::Flag(flag) => visitor.visit_bool(*flag),
            Value::List(items) => visitor.visit_seq(Items(items)),
            Value::Table(entries) => visitor.visit_map(Fields { rest: entries, skip: None }),
        }
        .map_err(|fault| fault.site(&self.site))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let choice = match &self.value {
            _ if name == "Directed" => Choice { name: direction(self), named_at: self, content: Content::Node(self) },
            Value::Text(name) => Choice { name, named_at: self, content: Content::Nothing },
            Value::Table(_) => tagged(self, variants)?,
            _ => return Err(Fault::value(format!("expected one of {}", variants.join(", "))).site(&self.site)),
        };
        visitor.visit_enum(choice).map_err(|fault| fault.site(&self.site))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map struct identifier ignored_any
    }
}

fn direction(node: &Node) -> &'static str {
    if node.get(&["down"]).or(node.get(&["up"])).is_some() { "each" } else { "both" }
}

fn tagged<'de>(node: &'de Node, variants: &'static [&'static str]) -> Result<Choice<'de>, Fault> {
    let Some(kind) = node.get(&["kind"]) else {
        let fault = Fault::new(Mistake::Missing, "the key `kind` is missing");
        return Err(fault.help(format!("one of {}", variants.join(", "))).site(&node.site));
    };
    let Value::Text(name) = &kind.value else {
        return Err(Fault::value(format!("expected one of {}", variants.join(", "))).site(&kind.site));
    };
    Ok(Choice { name, named_at: kind, content: Content::Table(node.entries()) })
}

struct Items<'de>(&'de [Node]);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(None) };
        self.0 = rest;
        seed.deserialize(first).map(Some)
    }
}

struct Fields<'de> {
    rest: &'de [Entry],
    skip: Option<&'static str>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        while let Some(entry) = self.rest.first() {
            if self.skip != Some(entry.key.as_str()) {
                return seed.deserialize(text(&entry.key)).map(Some).map_err(|fault| fault.site(&entry.key_site));
            }
            self.rest = &self.rest[1..];
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let (entry, rest) = self.rest.split_first().expect("a key was read before its value");
        self.rest = rest;
        seed.deserialize(&entry.node)
    }
}

fn text(name: &str) -> StrDeserializer<'_, Fault> {
    name.into_deserializer()
}

struct Choice<'de> {
    name: &'de str,
    named_at: &'de Node,
    content: Content<'de>,
}

enum Content<'de> {
    Nothing,
    Node(&'de Node),
    Table(&'de [Entry]),
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = Fault;
    type Variant = Content<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'de>), Fault> {
        let variant = seed.deserialize(text(self.name)).map_err(|fault| fault.site(&self.named_at.site))?;
        Ok((variant, self.content))
    }
}

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self {
            Self::Nothing => Ok(()),
            _ => Err(Fault::value("expected the name alone, found a table")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        match self {
            Self::Node(node) => seed.deserialize(node),
            _ => Err(Fault::value("this form takes a single value")),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        Err(serde::de::Error::invalid_type(Unexpected::TupleVariant, &visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        match self {
            Self::Table(entries) => visitor.visit_map(Fields { rest: entries, skip: Some("kind") }),
            _ => Err(Fault::value("expected a table with the key `kind`")),
        }
    }
}
