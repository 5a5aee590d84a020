//! Lists that survive an item which cannot be read.

use std::ops::Deref;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::decode::Envelope;
use crate::decode::not_json;
use crate::decode::plain;
use crate::decode::repair;
use crate::error::Call;
use crate::error::Error;
use crate::error::Result;

/// A list as the server gave it, less the items that could not be read.
#[derive(Debug, Clone, PartialEq)]
pub struct List<T> {
    /// The items, in the server's order (which may be any).
    pub items: Vec<T>,
    /// The items that could not be read.
    pub skipped: Vec<Skipped>,
}

/// An item of a list that could not be read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Skipped {
    /// Where in the document.
    pub path: String,
    /// What was found there.
    pub problem: String,
    /// The item itself.
    pub item: Value,
}

impl<T: DeserializeOwned> List<T> {
    /// The `data` of an answer as a list; `null` is an empty one.
    pub(crate) fn decode(call: &Call, body: &[u8]) -> Result<Self> {
        // Nearly always every item is fine, and this is the quick way.
        if let Ok(Envelope { data }) = serde_json::from_slice::<Envelope<Option<Vec<T>>>>(body) {
            return Ok(Self { items: data.unwrap_or_default(), skipped: Vec::new() });
        }
        match serde_json::from_slice(body) {
            Ok(Envelope { data: Value::Array(items) }) => Ok(Self::from_items(call, items)),
            Ok(Envelope { data }) => Err(Error::Decode {
                call: call.clone(),
                path: "data".to_owned(),
                problem: format!("expected a list, found {}", kind(&data)),
            }),
            Err(error) => match repair(body) {
                Some(repaired) => Self::decode(call, repaired.as_bytes()),
                None => Err(not_json(call, &error)),
            },
        }
    }
}

impl<T: DeserializeOwned> List<T> {
    fn from_items(call: &Call, values: Vec<Value>) -> Self {
        let mut list = Self { items: Vec::with_capacity(values.len()), skipped: Vec::new() };
        for (index, item) in values.into_iter().enumerate() {
            match serde_path_to_error::deserialize(&item) {
                Ok(read) => list.items.push(read),
                Err(error) => {
                    let path = match error.path().to_string().as_str() {
                        "." => format!("data[{index}]"),
                        inner => format!("data[{index}].{inner}"),
                    };
                    let problem = plain(error.inner());
                    tracing::warn!(%call, path, problem, "an item of the list cannot be read");
                    list.skipped.push(Skipped { path, problem, item });
                }
            }
        }
        list
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}
