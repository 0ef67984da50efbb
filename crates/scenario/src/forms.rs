//! Forms that several keys share: a name or a list of names, tables by name, a text or a table.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A name, or several.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OneOrMany(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a list of names")
            }

            fn visit_str<E>(self, name: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![name.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OneOrMany, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = items.next_element()? {
                    names.push(name);
                }
                Ok(OneOrMany(names))
            }
        }

        deserializer.deserialize_any(Names)
    }
}

impl JsonSchema for OneOrMany {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Names".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

/// Tables by name, in the file's order.
#[derive(Clone, Debug)]
pub(super) struct Named<T>(pub Vec<(String, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Named<T> {
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Tables<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of named tables")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut tables = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    tables.push(entry);
                }
                Ok(Named(tables))
            }
        }

        deserializer.deserialize_any(Tables(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Named{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, T>::json_schema(generator)
    }
}

/// Reads a value that is a text in the simple case and a table in the other.
pub(super) struct TextOrTable<T, V> {
    pub text: fn(&str) -> Result<V, String>,
    pub table: fn(T) -> V,
    pub example: &'static str,
}

impl<'de, T: Deserialize<'de>, V> Visitor<'de> for TextOrTable<T, V> {
    type Value = V;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.example)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V, E> {
        (self.text)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<V, E> {
        Err(E::custom(format!("{number} has no unit; expected {}", self.example)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<V, E> {
        Err(E::custom(format!("{number} has no unit; expected {}", self.example)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(self.table)
    }
}
