//! How a value becomes a parameter: booleans as `1` and `0`, secrets unseen.

use serde_json::Value;

use super::CiPassword;
use super::Tags;
use super::config::Bios;
use super::config::OsType;
use super::config::ScsiController;
use crate::property::Format;
use crate::property::Property;
use crate::request::Parameters;
use crate::ssh_keys::SshKeys;

/// A value that can be sent under a key. One that is empty would not reach the server, which takes
/// it for missing; so its key is handed to `empty` instead.
pub(crate) trait Send {
    fn send(&self, key: String, parameters: &mut Parameters, empty: &mut impl FnMut(&str));
}

fn text(key: String, text: &str, parameters: &mut Parameters, empty: &mut impl FnMut(&str)) {
    if text.is_empty() {
        empty(&key);
    } else {
        parameters.set(key, text);
    }
}

macro_rules! send_text {
    ($($type:ty),+) => {$(
        impl Send for $type {
            fn send(&self, key: String, parameters: &mut Parameters, empty: &mut impl FnMut(&str)) {
                text(key, &self.to_string(), parameters, empty);
            }
        }
    )+};
}

send_text!(String, u32, u64, f64, OsType, Bios, ScsiController, Tags);

impl Send for bool {
    fn send(&self, key: String, parameters: &mut Parameters, _empty: &mut impl FnMut(&str)) {
        parameters.set(key, u8::from(*self));
    }
}

impl<T: Format> Send for Property<T> {
    fn send(&self, key: String, parameters: &mut Parameters, empty: &mut impl FnMut(&str)) {
        text(key, &self.to_string(), parameters, empty);
    }
}

impl Send for SshKeys {
    fn send(&self, key: String, parameters: &mut Parameters, empty: &mut impl FnMut(&str)) {
        text(key, &self.encoded(), parameters, empty);
    }
}

impl Send for CiPassword {
    fn send(&self, _key: String, parameters: &mut Parameters, _empty: &mut impl FnMut(&str)) {
        match self {
            // Sent back, the mask would become the password.
            Self::Masked => {}
            Self::Set(password) => parameters.secret("cipassword", password),
        }
    }
}

impl Send for Value {
    fn send(&self, key: String, parameters: &mut Parameters, empty: &mut impl FnMut(&str)) {
        match self {
            Self::Null => {}
            Self::Bool(flag) => flag.send(key, parameters, empty),
            Self::String(value) => text(key, value, parameters, empty),
            other => text(key, &other.to_string(), parameters, empty),
        }
    }
}
