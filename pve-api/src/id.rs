//! Identifiers of Proxmox VE, checked once when they come in.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;
use thiserror::Error;

mod mac;
mod upid;
mod user;

pub use mac::MacAddr;
pub use upid::Upid;
pub use user::TokenId;
pub use user::UserId;

/// A text that is not the identifier it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is not {wanted}{}", hint(text, wanted))]
pub struct InvalidId {
    text: String,
    wanted: &'static str,
}

/// What people often mean: a node's full host name instead of its short one.
fn hint(text: &str, wanted: &str) -> String {
    match text.split_once('.') {
        Some((short, _)) if wanted == NODE_NAME && is_node_name(short) => {
            format!("; did you mean '{short}'?")
        }
        _ => String::new(),
    }
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

const NODE_NAME: &str = "a node name (letters, digits and '-')";

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $wanted:expr, $fits:expr) => {
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
    NodeName, NODE_NAME, is_node_name
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
text_id! {
    /// An authentication realm, such as `pam` or `pve`.
    Realm, "a realm (a letter, then letters, digits, '-', '_' or '.'; at most 32)", is_realm
}
text_id! {
    /// A resource pool, such as `lab` or `lab/web`.
    PoolId, "a pool name (letters, digits, '-', '_' or '.'; at most three levels, parted by '/')", is_pool_id
}
text_id! {
    /// A tag of a guest. Proxmox VE stores it in lower case unless told otherwise.
    Tag, "a tag (letters, digits, '-', '_', '+' or '.'; not beginning with '-', '+' or '.')", is_tag
}

impl Volid {
    /// The storage on which the volume is.
    pub fn storage(&self) -> &str {
        self.0.split_once(':').map_or("", |(storage, _)| storage)
    }

    /// The volume's name on its storage.
    pub fn name(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, name)| name)
    }
}

fn is_realm(text: &str) -> bool {
    (2..=32).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

fn is_pool_id(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    };
    text.split('/').count() <= 3 && text.split('/').all(part)
}

fn is_tag(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+.".contains(&byte))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_host_name_is_no_node_name_and_the_error_says_what_was_meant() {
        let error = NodeName::from_str("pve1.example.org").unwrap_err();
        insta::assert_snapshot!(error, @"'pve1.example.org' is not a node name (letters, digits and '-'); did you mean 'pve1'?");
        assert_eq!(NodeName::from_str("pve1").unwrap().as_str(), "pve1");
    }

    #[test]
    fn realms_pools_and_tags_follow_the_grammar_of_the_server() {
        for good in ["pam", "pve", "my-ldap.example_1"] {
            assert!(Realm::from_str(good).is_ok(), "{good}");
        }
        for bad in ["", "p", "1pam", "a b", &"a".repeat(33)] {
            assert!(Realm::from_str(bad).is_err(), "{bad}");
        }
        for good in ["lab", "lab/web/front", "1.2_-"] {
            assert!(PoolId::from_str(good).is_ok(), "{good}");
        }
        for bad in ["", "a/", "/a", "a//b", "a/b/c/d", "ä"] {
            assert!(PoolId::from_str(bad).is_err(), "{bad}");
        }
        for good in ["web", "_x", "a-b_c+1.x", "Prod"] {
            assert!(Tag::from_str(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "+a", ".a", "a b", "a;b"] {
            assert!(Tag::from_str(bad).is_err(), "{bad}");
        }
    }
}
