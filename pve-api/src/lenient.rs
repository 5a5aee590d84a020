//! Values as Proxmox VE sends them: the same field is a number today and a text tomorrow.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::Deserializer;
use serde::de;
use serde::de::DeserializeOwned;
use serde::de::Visitor;
use serde_json::Value;

/// A type that is read from whatever scalar the server chose to send.
pub(crate) trait Lenient: Sized {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// For `#[serde(deserialize_with = "…")]`.
pub(crate) fn value<'de, T: Lenient, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)
}

/// A type that is made from one scalar.
pub(crate) trait FromScalar: Sized {
    const EXPECTED: &'static str;

    fn from_bool(value: bool) -> Option<Self> {
        Self::from_text(if value { "1" } else { "0" })
    }

    fn from_unsigned(value: u64) -> Option<Self> {
        Self::from_text(&value.to_string())
    }

    fn from_signed(value: i64) -> Option<Self> {
        u64::try_from(value)
            .map_or_else(|_| Self::from_text(&value.to_string()), Self::from_unsigned)
    }

    fn from_float(value: f64) -> Option<Self> {
        Self::from_text(&value.to_string())
    }

    fn from_text(text: &str) -> Option<Self>;
}

struct ScalarVisitor<T>(PhantomData<T>);

impl<T: FromScalar> Visitor<'_> for ScalarVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<T, E> {
        T::from_bool(value).ok_or_else(|| E::invalid_value(de::Unexpected::Bool(value), &self))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        T::from_unsigned(value)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<T, E> {
        T::from_signed(value).ok_or_else(|| E::invalid_value(de::Unexpected::Signed(value), &self))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<T, E> {
        T::from_float(value).ok_or_else(|| E::invalid_value(de::Unexpected::Float(value), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// `null` and a missing value are `None`.
struct OptionVisitor<T>(PhantomData<T>);

impl<'de, T: Lenient> Visitor<'de> for OptionVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or nothing")
    }

    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        T::read(deserializer).map(Some)
    }
}

impl<T: Lenient> Lenient for Option<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(OptionVisitor(PhantomData))
    }
}

/// A list whose items are read leniently; a text is a list of one, as Perl sees it.
impl<T: Lenient + DeserializeOwned> Lenient for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// Makes scalars readable by [`value`].
macro_rules! from_scalar {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::lenient::Lenient for $type {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::lenient::scalar(deserializer)
            }
        }
    )+};
}
pub(crate) use from_scalar;

/// Makes types with their own `Deserialize` readable by [`value`].
macro_rules! nested {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::lenient::Lenient for $type {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }
        }
    )+};
}
pub(crate) use nested;

/// Makes identifiers readable from a text or a number.
macro_rules! identifier {
    ($($type:ty, $expected:literal;)+) => {$(
        impl $crate::lenient::FromScalar for $type {
            const EXPECTED: &'static str = $expected;

            fn from_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
        $crate::lenient::from_scalar!($type);
    )+};
}

pub(crate) fn scalar<'de, T: FromScalar, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(ScalarVisitor(PhantomData))
}

impl FromScalar for String {
    const EXPECTED: &'static str = "a text";

    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl FromScalar for bool {
    const EXPECTED: &'static str = "a boolean";

    fn from_bool(value: bool) -> Option<Self> {
        Some(value)
    }

    fn from_text(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "on" | "yes" | "true" => Some(true),
            "0" | "off" | "no" | "false" | "" => Some(false),
            _ => None,
        }
    }
}

macro_rules! integer {
    ($($type:ty, $expected:literal;)+) => {$(
        impl FromScalar for $type {
            const EXPECTED: &'static str = $expected;

            fn from_unsigned(value: u64) -> Option<Self> {
                Self::try_from(value).ok()
            }

            fn from_signed(value: i64) -> Option<Self> {
                Self::try_from(value).ok()
            }

            fn from_float(value: f64) -> Option<Self> {
                // `3.0` is an integer that Perl has touched; `3.5` is none.
                if value.fract() == 0.0 { format!("{value:.0}").parse().ok() } else { None }
            }

            fn from_text(text: &str) -> Option<Self> {
                let text = text.trim();
                text.parse().ok().or_else(|| text.parse().ok().and_then(Self::from_float))
            }
        }
    )+};
}

integer! {
    u8, "a small number";
    u16, "a number";
    u32, "a number";
    u64, "a number";
    i64, "a number";
}

impl FromScalar for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_float(value: f64) -> Option<Self> {
        Some(value)
    }

    fn from_text(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

from_scalar!(String, bool, u8, u16, u32, u64, i64, f64);
nested!(Value, serde_json::Map<String, Value>);
identifier! {
    crate::id::Vmid, "a VMID (100 to 999999999)";
    crate::id::NodeName, "a node name";
    crate::id::StorageId, "a storage name";
    crate::id::Volid, "a volume id";
    crate::id::Upid, "a task id";
    crate::id::UserId, "an account";
    crate::id::Realm, "a realm";
    crate::id::PoolId, "a pool name";
    crate::id::MacAddr, "a hardware address";
    crate::trust::Fingerprint, "a SHA-256 fingerprint";
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::Vmid;

    fn read<T: Lenient>(value: Value) -> Result<T, String> {
        T::read(value).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_come_as_numbers_or_as_texts() {
        for (sent, number) in [
            (json!(66_624_765_952_u64), 66_624_765_952),
            (json!("34359738368"), 34_359_738_368),
            (json!(2048.0), 2048),
            (json!("2048.0"), 2048),
            (json!(true), 1),
        ] {
            assert_eq!(read::<u64>(sent.clone()), Ok(number), "{sent}");
        }
        for wrong in [json!("many"), json!(-1), json!(1.5), json!(""), json!([1])] {
            assert!(read::<u64>(wrong.clone()).is_err(), "{wrong}");
        }
        assert_eq!(read::<f64>(json!("1.2e-05")), Ok(1.2e-05));
        assert_eq!(read::<f64>(json!(1)), Ok(1.0));
        assert_eq!(read::<Option<u64>>(json!(null)), Ok(None));
        assert_eq!(read::<Vmid>(json!("100")).map(Vmid::get), Ok(100));
        assert_eq!(read::<Vmid>(json!(100)).map(Vmid::get), Ok(100));
        assert!(read::<Vmid>(json!(99)).is_err());
    }

    #[test]
    fn booleans_come_in_every_spelling() {
        for yes in [json!(1), json!("1"), json!(true), json!("on"), json!("Yes"), json!("true")] {
            assert_eq!(read::<bool>(yes.clone()), Ok(true), "{yes}");
        }
        for no in [json!(0), json!("0"), json!(false), json!(""), json!("off"), json!("no")] {
            assert_eq!(read::<bool>(no.clone()), Ok(false), "{no}");
        }
        assert_eq!(
            read::<bool>(json!("maybe")),
            Err("invalid value: string \"maybe\", expected a boolean".into())
        );
        assert_eq!(read::<String>(json!(123)), Ok("123".to_owned()));
    }
}
