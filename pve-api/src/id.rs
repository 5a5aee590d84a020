//! Identifiers of Proxmox VE, checked once when they come in.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;
use thiserror::Error;

/// A text that is not the identifier it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is not {wanted}")]
pub struct InvalidId {
    text: String,
    wanted: &'static str,
}

/// The number of a guest, 100 to 999999999; unique in the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Vmid(u32);

impl Vmid {
    /// The smallest number that Proxmox VE gives to a guest.
    pub const MIN: Self = Self(100);
    /// The largest number that Proxmox VE gives to a guest.
    pub const MAX: Self = Self(999_999_999);

    /// The number itself.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Vmid {
    type Error = InvalidId;

    fn try_from(number: u32) -> Result<Self, InvalidId> {
        let vmid = Self(number);
        if (Self::MIN..=Self::MAX).contains(&vmid) {
            Ok(vmid)
        } else {
            Err(InvalidId { text: number.to_string(), wanted: "a VMID (100 to 999999999)" })
        }
    }
}

impl From<Vmid> for u32 {
    fn from(vmid: Vmid) -> Self {
        vmid.0
    }
}

impl FromStr for Vmid {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = InvalidId { text: text.to_owned(), wanted: "a VMID (100 to 999999999)" };
        match text.parse::<u32>() {
            Ok(number) if !text.starts_with('+') => Self::try_from(number).or(Err(wrong)),
            _ => Err(wrong),
        }
    }
}

impl fmt::Display for Vmid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $wanted:literal, $fits:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text as it stands on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                let fits: fn(&str) -> bool = $fits;
                if fits(&text) { Ok(Self(text)) } else { Err(InvalidId { text, wanted: $wanted }) }
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

text_id! {
    /// The name of a cluster node, such as `pve1`: a host name without dots.
    NodeName, "a node name (letters, digits and '-')", is_node_name
}
text_id! {
    /// The name of a storage, such as `local-lvm`.
    StorageId, "a storage name (a letter, then letters, digits, '-', '_' or '.')", is_storage_id
}
text_id! {
    /// A volume, `<storage>:<volume name>`, such as `local:100/vm-100-disk-0.raw`.
    ///
    /// It is always read from Proxmox VE, never put together.
    Volid, "a volume id (<storage>:<volume>)", |text| {
        text.split_once(':').is_some_and(|(storage, name)| is_storage_id(storage) && !name.is_empty())
    }
}

fn is_node_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_storage_id(text: &str) -> bool {
    text.len() >= 2
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.ends_with(|last: char| last.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
