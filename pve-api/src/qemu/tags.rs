//! The tags of a guest, as one text.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

use crate::id::Tag;
use crate::lenient;

/// The tags of a guest in their order.
///
/// The server writes them in lower case, parted by `;`, and a single blank for none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tags(String);

impl Tags {
    /// The tags.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split([';', ',', ' ']).filter(|tag| !tag.is_empty())
    }
}

impl FromIterator<Tag> for Tags {
    fn from_iter<I: IntoIterator<Item = Tag>>(tags: I) -> Self {
        let tags: Vec<String> = tags.into_iter().map(String::from).collect();
        Self(tags.join(";"))
    }
}

impl From<String> for Tags {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim())
    }
}

impl Serialize for Tags {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        lenient::value(deserializer).map(Self)
    }
}

lenient::nested!(Tags);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_parted_by_whatever_the_server_took() {
        let tags = Tags::from("prod;dev,web".to_owned());
        assert_eq!(tags.iter().collect::<Vec<_>>(), ["prod", "dev", "web"]);
        assert_eq!(Tags::from(" ".to_owned()).iter().count(), 0);
        let tags: Tags = ["b", "a"].iter().map(|tag| tag.parse::<Tag>().unwrap()).collect();
        assert_eq!(tags.to_string(), "b;a");
    }
}
