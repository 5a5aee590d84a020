//! Property strings: `key=value` pairs in one text, as Proxmox VE writes disks and network cards.
//!
//! [`Property`] joins a text with a struct. Whoever reads the struct sees fields; whoever changes it
//! changes only what they touched: other pairs, their order and their spelling stay as they were,
//! and so do pairs that this crate does not know. The text always says what the struct says: a value
//! that the text cannot hold, such as one with a comma, is refused.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer;
use serde::de::Visitor;
use serde::de::value::MapDeserializer;
use serde_json::Value;
use thiserror::Error;

pub use cpu::Cpu;
pub use drive::CacheMode;
pub use drive::Discard;
pub use drive::Drive;
pub use drive::EfiDisk;
pub use drive::TpmState;
pub use network::IpConfig;
pub use network::NetDevice;
pub use network::NetModel;
pub use system::Agent;
pub use system::Boot;
pub use system::MachineType;
pub use system::Memory;
pub use system::Startup;
pub use system::Vga;

mod cpu;
mod drive;
mod network;
mod system;
#[cfg(test)]
mod tests;

/// A text that is not a property string, or not of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a property string: {problem}")]
pub struct InvalidProperty {
    problem: String,
}

impl InvalidProperty {
    fn new(problem: impl fmt::Display) -> Self {
        Self { problem: problem.to_string() }
    }
}

/// What a kind of property string looks like.
pub trait Format: Serialize + DeserializeOwned + Clone {
    /// The key that may stand without its name.
    const DEFAULT_KEY: Option<&'static str>;
    /// Other spellings of keys, and the keys that they mean.
    const ALIASES: &'static [(&'static str, &'static str)] = &[];

    /// Other pairs for which a pair is short: `virtio=BC:24:…` means `model` and `macaddr`.
    fn expand(_key: &str, _value: &str) -> Option<Vec<(&'static str, String)>> {
        None
    }

    /// The short form of the pairs, if there is one: taken from `pairs`, and put in their place.
    fn contract(_pairs: &mut Pairs) {}
}

/// A property string as pairs, in their order.
pub type Pairs = Vec<(String, String)>;

/// One piece of the text between two commas.
struct Piece<'a> {
    /// As it is written.
    text: &'a str,
    /// What it means: mostly one pair.
    means: Pairs,
}

/// A property string of the kind `T`.
///
/// It derefs to the struct, to be read. Its `Display` is the text on the wire.
///
/// ```
/// use pve_api::property::{Drive, Property};
///
/// let mut disk: Property<Drive> = "local:110/vm-110-disk-0.qcow2,size=50M,new=1".parse()?;
/// assert_eq!(disk.size.as_deref(), Some("50M"));
/// disk.change(|disk| disk.ssd = Some(true))?;
/// assert_eq!(disk.as_str(), "local:110/vm-110-disk-0.qcow2,size=50M,new=1,ssd=1");
/// assert!(disk.change(|disk| disk.serial = Some("a,size=1G".to_owned())).is_err());
/// assert_eq!(disk.size.as_deref(), Some("50M"));
/// # Ok::<(), pve_api::property::InvalidProperty>(())
/// ```
#[derive(Debug, Clone)]
pub struct Property<T> {
    text: String,
    value: T,
}

impl<T: Format> Property<T> {
    /// A property string from a struct alone. A value that its text cannot hold is refused.
    pub fn new(value: T) -> Result<Self, InvalidProperty> {
        Self::written("", value)
    }

    /// Changes the struct. A value that the text cannot hold is refused, and then nothing is
    /// changed.
    pub fn change(&mut self, change: impl FnOnce(&mut T)) -> Result<(), InvalidProperty> {
        let mut value = self.value.clone();
        change(&mut value);
        *self = Self::written(&self.text, value)?;
        Ok(())
    }

    /// The text on the wire.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Writes `value` over `text`, and reads it back: what does not come back was something else.
    fn written(text: &str, value: T) -> Result<Self, InvalidProperty> {
        let wanted = pairs_of(&value);
        let refused = |(key, value): &(String, String)| {
            InvalidProperty::new(format!("'{value}' cannot stand under '{key}'"))
        };
        let ends_early =
            |(key, value): &&(String, String)| value.contains(',') || key.contains([',', '=']);
        if let Some(pair) = wanted.iter().find(ends_early) {
            return Err(refused(pair));
        }
        let text = rewritten::<T>(text, &wanted)?;
        let read: Self = text.parse()?;
        let got = pairs_of(&read.value);
        let lost = wanted.iter().find(|pair| !got.contains(pair));
        match lost.or_else(|| got.iter().find(|pair| !wanted.contains(pair))) {
            None => Ok(Self { text, value }),
            Some(pair) => Err(refused(pair)),
        }
    }
}

/// The text with other pairs.
fn rewritten<T: Format>(text: &str, now: &Pairs) -> Result<String, InvalidProperty> {
    let pieces = pieces::<T>(text)?;
    let before: Pairs = pieces.iter().flat_map(|piece| piece.means.clone()).collect();
    // What was read, written as we would write it: what differs from it has been changed.
    let read = pairs_of(&from_pairs::<T>(&before)?);
    let find = |pairs: &Pairs, key: &str| {
        pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    };
    let mut texts = Vec::new();
    for piece in &pieces {
        let same = |(key, _): &(String, String)| find(now, key) == find(&read, key);
        if piece.means.iter().all(same) {
            texts.push(piece.text.to_owned());
            continue;
        }
        let kept = piece.means.iter().filter_map(|(key, _)| Some((key.clone(), find(now, key)?)));
        let mut kept: Pairs = kept.collect();
        T::contract(&mut kept);
        let bare = !piece.text.contains('=');
        texts.extend(kept.iter().map(|(key, value)| write_pair::<T>(key, value, bare)));
    }
    let mut added: Pairs =
        now.iter().filter(|(key, _)| find(&before, key).is_none()).cloned().collect();
    T::contract(&mut added);
    texts.extend(added.iter().map(|(key, value)| write_pair::<T>(key, value, true)));
    Ok(texts.join(","))
}

/// One pair as text; the default key stands bare where that is allowed.
fn write_pair<T: Format>(key: &str, value: &str, bare: bool) -> String {
    if bare && T::DEFAULT_KEY == Some(key) && !value.contains('=') {
        value.to_owned()
    } else {
        format!("{key}={value}")
    }
}

/// The fields of a struct as pairs; booleans as `1` and `0`.
fn pairs_of<T: Serialize>(value: &T) -> Pairs {
    let Ok(Value::Object(fields)) = serde_json::to_value(value) else { return Vec::new() };
    let text = |value: Value| match value {
        Value::Bool(flag) => u8::from(flag).to_string(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    let there = fields.into_iter().filter(|(_, value)| !value.is_null());
    there.map(|(key, value)| (key, text(value))).collect()
}

fn from_pairs<T: Format>(pairs: &Pairs) -> Result<T, InvalidProperty> {
    let pairs = pairs.iter().map(|(key, value)| (key.as_str(), Text(value)));
    T::deserialize(MapDeserializer::new(pairs)).map_err(InvalidProperty::new)
}

/// A value of a pair, which is always there.
struct Text<'a>(&'a str);

impl<'de> Deserializer<'de> for Text<'de> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de> for Text<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Takes a text apart.
fn pieces<T: Format>(text: &str) -> Result<Vec<Piece<'_>>, InvalidProperty> {
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (key, value) = match (part.split_once('='), T::DEFAULT_KEY) {
            (Some((key, value)), _) => (key, value),
            (None, _) if T::expand(part, "").is_some() => (part, ""),
            (None, Some(default)) => (default, part),
            (None, None) => return Err(InvalidProperty::new(format!("'{part}' has no key"))),
        };
        let key = T::ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, key)| key);
        let means: Pairs = match T::expand(key, value) {
            Some(pairs) => pairs.into_iter().map(|(key, value)| (key.into(), value)).collect(),
            None => vec![(key.to_owned(), value.to_owned())],
        };
        let mut seen = pieces.iter().flat_map(|piece| &piece.means);
        if let Some((key, _)) = seen.find(|(known, _)| means.iter().any(|(key, _)| key == known)) {
            return Err(InvalidProperty::new(format!("'{key}' stands twice")));
        }
        pieces.push(Piece { text: part, means });
    }
    Ok(pieces)
}

impl<T: Format> FromStr for Property<T> {
    type Err = InvalidProperty;

    fn from_str(text: &str) -> Result<Self, InvalidProperty> {
        let pieces = pieces::<T>(text)?;
        let pairs = pieces.into_iter().flat_map(|piece| piece.means).collect();
        Ok(Self { value: from_pairs(&pairs)?, text: text.to_owned() })
    }
}

impl<T> fmt::Display for Property<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T> Deref for Property<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for Property<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T: Format> Serialize for Property<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, T: Format> Deserialize<'de> for Property<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: String = crate::lenient::value(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl<T: Format> crate::lenient::Lenient for Property<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// Declares the struct of a property string: every key may be missing.
macro_rules! properties {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $key:literal $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $(
                $(#[$field_doc])*
                #[serde(
                    rename = $key,
                    default,
                    deserialize_with = "crate::lenient::value",
                    skip_serializing_if = "Option::is_none"
                )]
                pub $field: Option<$type>,
            )*
            /// Keys that this version of the crate does not know.
            #[serde(flatten)]
            pub extra: serde_json::Map<String, serde_json::Value>,
        }

        impl TryFrom<$name> for $crate::property::Property<$name> {
            type Error = $crate::property::InvalidProperty;

            fn try_from(value: $name) -> Result<Self, Self::Error> {
                Self::new(value)
            }
        }
    };
}
use properties;
