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

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Format>(text: &str) -> Property<T> {
        text.parse().unwrap()
    }

    #[test]
    fn what_was_not_touched_keeps_its_order_and_spelling() {
        let text = "backup=no,file=local:1/a.qcow2,iothread=on,x-new=7,size=50M";
        let mut disk = read::<Drive>(text);
        assert_eq!((disk.backup, disk.iothread), (Some(false), Some(true)));
        assert_eq!(disk.to_string(), text);
        disk.change(|disk| {
            disk.iothread = None;
            disk.size = Some("1G".to_owned());
            disk.discard = Some(Discard::On);
        })
        .unwrap();
        assert_eq!(disk.to_string(), "backup=no,file=local:1/a.qcow2,x-new=7,size=1G,discard=on");
        disk.change(|disk| disk.backup = Some(true)).unwrap();
        assert_eq!(disk.to_string(), "backup=1,file=local:1/a.qcow2,x-new=7,size=1G,discard=on");
    }

    #[test]
    fn a_network_card_may_name_its_model_in_three_ways() {
        for text in [
            "virtio=BC:24:11:4F:C2:7E,bridge=vmbr0",
            "model=virtio,macaddr=BC:24:11:4F:C2:7E,bridge=vmbr0",
            "bridge=vmbr0,virtio=bc:24:11:4f:c2:7e,tag=5",
        ] {
            let card = read::<NetDevice>(text);
            assert_eq!(card.model, Some(NetModel::Virtio), "{text}");
            assert_eq!(
                card.address.map(|address| address.to_string()).as_deref(),
                Some("BC:24:11:4F:C2:7E")
            );
            assert_eq!(card.to_string(), text);
        }
        let mut card = read::<NetDevice>("virtio,bridge=vmbr0");
        assert_eq!((card.model.clone(), card.address), (Some(NetModel::Virtio), None));
        let address = "BC:24:11:00:00:01".parse().unwrap();
        card.change(|card| card.address = Some(address)).unwrap();
        assert_eq!(card.to_string(), "virtio,bridge=vmbr0,macaddr=BC:24:11:00:00:01");
        card.change(|card| (card.model, card.address) = (Some(NetModel::E1000), None)).unwrap();
        assert_eq!(card.to_string(), "e1000,bridge=vmbr0");
    }

    #[test]
    fn a_new_property_string_begins_with_its_bare_key() {
        let disk = Property::new(Drive {
            file: Some("ceph-pool:32".to_owned()),
            ssd: Some(true),
            iothread: Some(true),
            ..Drive::default()
        })
        .unwrap();
        insta::assert_snapshot!(disk, @"ceph-pool:32,iothread=1,ssd=1");
        let card = Property::new(NetDevice {
            model: Some(NetModel::Virtio),
            bridge: Some("vmbr9".to_owned()),
            firewall: Some(true),
            ..NetDevice::default()
        })
        .unwrap();
        insta::assert_snapshot!(card, @"virtio,bridge=vmbr9,firewall=1");
        let boot = Boot { order: Some("scsi0;net0".to_owned()), ..Boot::default() };
        let boot = Property::new(boot).unwrap();
        insta::assert_snapshot!(boot, @"order=scsi0;net0");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["ip", "ip=1,ip=2", "x"] {
            assert!(text.parse::<Property<IpConfig>>().is_err(), "{text}");
        }
        assert!("virtio,virtio=BC:24:11:4F:C2:7E".parse::<Property<NetDevice>>().is_err());
        assert!("local:1,iothread=perhaps".parse::<Property<Drive>>().is_err());
    }

    #[test]
    fn a_value_that_the_text_cannot_hold_is_refused_and_changes_nothing() {
        let text = "local:1/a.raw,size=50M";
        for bad in ["a,ssd=1", "a,", ",", "a,b"] {
            let drive =
                |serial: &str| Drive { serial: Some(serial.to_owned()), ..Drive::default() };
            assert!(Property::new(drive(bad)).is_err(), "{bad:?}");
            let file = Drive { file: Some(bad.to_owned()), ..Drive::default() };
            assert!(Property::new(file).is_err(), "{bad:?}");
            let mut disk = read::<Drive>(text);
            assert!(disk.change(|disk| disk.serial = Some(bad.to_owned())).is_err(), "{bad:?}");
            assert_eq!((disk.as_str(), &disk.serial), (text, &None));
        }
        let nothing = Drive { file: Some(String::new()), ..Drive::default() };
        assert!(Property::new(nothing).is_err(), "a bare value that is empty is none");
        let error = Property::new(Cpu { model: Some("a,b".to_owned()), ..Cpu::default() });
        insta::assert_snapshot!(error.unwrap_err(), @"not a property string: 'a,b' cannot stand under 'cputype'");
        let extra = |key: &str, value: Value| Drive {
            extra: [(key.to_owned(), value)].into_iter().collect(),
            ..Drive::default()
        };
        for (key, value) in [("a,b", "1".into()), ("a=b", "1".into()), ("a", vec![1, 2].into())] {
            assert!(Property::new(extra(key, value)).is_err(), "{key}");
        }
    }

    #[test]
    fn a_value_with_an_equals_sign_keeps_its_meaning() {
        let file = Some("nfs:iso/a=b.iso".to_owned());
        let mut disk = Property::new(Drive { file: file.clone(), ..Drive::default() }).unwrap();
        assert_eq!(disk.to_string(), "file=nfs:iso/a=b.iso");
        assert_eq!(read::<Drive>(disk.as_str()).file, file);
        disk.change(|disk| disk.serial = Some("c=d".to_owned())).unwrap();
        assert_eq!(disk.to_string(), "file=nfs:iso/a=b.iso,serial=c=d");
        let mut bare = read::<Drive>("local:iso/a.iso,media=cdrom");
        bare.change(|disk| disk.file.clone_from(&file)).unwrap();
        assert_eq!(bare.to_string(), "file=nfs:iso/a=b.iso,media=cdrom");
    }

    #[test]
    fn a_model_that_is_not_known_stays_one_beside_an_address() {
        let card = NetDevice {
            model: Some("new-card".into()),
            address: Some("BC:24:11:00:00:01".parse().unwrap()),
            ..NetDevice::default()
        };
        let card = Property::new(card).unwrap();
        assert_eq!(card.to_string(), "new-card,macaddr=BC:24:11:00:00:01");
        assert_eq!(read::<NetDevice>(card.as_str()).model, card.model);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back_or_refused(
            file in ".{0,12}", serial in "[a,=b ]{0,6}", ssd: Option<bool>, other in "[a,=;]{0,5}"
        ) {
            let drive = Drive {
                file: Some(file),
                serial: Some(serial),
                ssd,
                extra: [("other".to_owned(), other.into())].into_iter().collect(),
                ..Drive::default()
            };
            if let Ok(property) = Property::new(drive.clone()) {
                proptest::prop_assert_eq!(&read::<Drive>(property.as_str()).value, &drive);
                proptest::prop_assert_eq!(property.value, drive);
            }
        }
    }
}
