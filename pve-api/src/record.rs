//! How the answers of the server become structs: named fields that are read leniently, and every
//! other key kept.

/// Declares a struct for an object of the server: first the fields that are always there, then
/// those that may be missing, each with its key on the wire.
macro_rules! record {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$required_doc:meta])* $required_key:literal $required:ident: $required_type:ty,)*
        }
        optional {
            $($(#[$optional_doc:meta])* $optional_key:literal $optional:ident: $optional_type:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[$required_doc])*
                #[serde(rename = $required_key, deserialize_with = "crate::lenient::value")]
                pub $required: $required_type,
            )*
            $(
                $(#[$optional_doc])*
                #[serde(
                    rename = $optional_key,
                    default,
                    deserialize_with = "crate::lenient::value",
                    skip_serializing_if = "Option::is_none"
                )]
                pub $optional: Option<$optional_type>,
            )*
            /// What else the server sent.
            #[serde(flatten)]
            pub extra: serde_json::Map<String, serde_json::Value>,
        }

        $crate::lenient::nested!($name);

        #[cfg(test)]
        impl $crate::record::Record for $name {
            const KEYS: &'static [&'static str] = &[$($required_key,)* $($optional_key,)*];
            const REQUIRED: &'static [&'static str] = &[$($required_key,)*];
        }
    };
}
pub(crate) use record;

/// What the tests ask of a struct made by [`record!`].
#[cfg(test)]
pub(crate) trait Record: serde::Serialize + serde::de::DeserializeOwned {
    const KEYS: &'static [&'static str];
    const REQUIRED: &'static [&'static str];
}

/// Declares an enum for a word of the server; a word that is not known is kept.
macro_rules! words {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
            /// A word that this version of the crate does not know.
            Other(String),
        }

        impl $name {
            /// The words that are known.
            pub const KNOWN: &'static [Self] = &[$(Self::$variant,)+];

            /// The word on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    _ => Self::Other(word.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::lenient::scalar(deserializer)
            }
        }

        impl $crate::lenient::FromScalar for $name {
            const EXPECTED: &'static str = "a word";

            fn from_text(text: &str) -> Option<Self> {
                Some(Self::from(text))
            }
        }

        $crate::lenient::from_scalar!($name);
    };
}
pub(crate) use words;
