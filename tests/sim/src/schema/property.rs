//! Options that are themselves lists of `key=value`.

use std::collections::BTreeMap;

use super::Definition;
use super::MISSING;
use super::PARTS_ONLY_ON_9;
use super::Release;
use super::UNDEFINED;
use super::missing_required;
use super::value_error;

/// Switches of drives and network cards.
const SWITCHES: [&str; 11] = [
    "backup",
    "detect_zeroes",
    "firewall",
    "iothread",
    "link_down",
    "pre-enrolled-keys",
    "replicate",
    "ro",
    "shared",
    "snapshot",
    "ssd",
];

/// A property string, taken apart, in its order.
///
/// A part without `=` stands under the empty key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(Vec<(String, String)>);

impl Properties {
    /// Takes a text apart at its commas.
    pub fn parse(text: &str) -> Self {
        Self(
            text.split(',')
                .filter(|part| !part.trim().is_empty())
                .map(|part| match part.split_once('=') {
                    Some((key, value)) => (key.trim().to_owned(), value.trim().to_owned()),
                    None => (String::new(), part.trim().to_owned()),
                })
                .collect(),
        )
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// The part without a key.
    pub fn bare(&self) -> Option<&str> {
        self.get("")
    }

    /// Sets a key, at its place or at the end.
    pub fn set(&mut self, key: &str, value: &str) {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((key.to_owned(), value.to_owned())),
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        let place = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.remove(place).1)
    }

    /// Writes switches the way a configuration keeps them, as 0 and 1.
    pub fn tidy_booleans(&mut self) {
        for (key, value) in &mut self.0 {
            if SWITCHES.contains(&key.as_str()) {
                *value = boolean(value).to_owned();
            }
        }
    }

    /// The pairs, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Puts the part without a key first and the others in alphabetical order, as the
    /// configuration is written.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.0.sort();
        self
    }
}

impl std::fmt::Display for Properties {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (key, value)) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            if key.is_empty() {
                formatter.write_str(value)?;
            } else {
                write!(formatter, "{key}={value}")?;
            }
        }
        Ok(())
    }
}

/// Checks a property string against the table of its keys.
pub(super) fn check(
    release: Release,
    path: &str,
    table: &BTreeMap<String, Definition>,
    value: &str,
) -> Result<(), String> {
    let value_of_all = value;
    let given = collect(table, value).map_err(|text| format!("invalid format - {text}\n"))?;
    let mut complaints = String::new();
    let mut complain = |key: &str, text: &str| {
        complaints.push_str(&[path, ".", key, ": ", text, "\n"].concat());
    };
    for (key, value) in &given {
        // An older name of the same part is known to both releases.
        let lacking = release == Release::V8_4
            && PARTS_ONLY_ON_9.contains(&(path, key.as_str()))
            && Properties::parse(value_of_all).get(key).is_some();
        match table.get(key).filter(|_| !lacking) {
            None => complain(key, UNDEFINED),
            Some(definition) => {
                let place = format!("{path}.{key}");
                let value = if definition.is_boolean() { boolean(value) } else { value };
                if let Some(text) = value_error(release, &place, definition, value) {
                    complain(key, &text);
                } else if let Some(needed) = &definition.requires
                    && !given.contains_key(needed)
                {
                    complain(needed, &missing_required(release, &place));
                }
            }
        }
    }
    for (key, definition) in table {
        let real = definition.alias.is_none();
        if real && !definition.optional && !given.contains_key(key) {
            complain(key, MISSING);
        }
    }
    if complaints.is_empty() {
        return Ok(());
    }
    Err(format!("invalid format - format error\n{complaints}"))
}

/// `on`, `yes` and `true` are booleans inside a property string.
fn boolean(value: &str) -> &str {
    match value {
        "on" | "yes" | "true" => "1",
        "off" | "no" | "false" => "0",
        other => other,
    }
}

/// The pairs by their real keys: aliases resolved, the bare part under the default key.
fn collect(
    table: &BTreeMap<String, Definition>,
    value: &str,
) -> Result<BTreeMap<String, String>, String> {
    let mut given = BTreeMap::new();
    let mut put = |key: &str, value: &str| match given.insert(key.to_owned(), value.to_owned()) {
        None => Ok(()),
        Some(_) => Err(format!("duplicate key in comma-separated list property: {key}")),
    };
    for (key, value) in Properties::parse(value).pairs() {
        if key.is_empty() {
            let Some((default, _)) = table.iter().find(|(_, known)| known.default_key) else {
                return Err("value without key, but schema does not define a default key".into());
            };
            put(default, value)?;
            continue;
        }
        let Some(definition) = table.get(key) else {
            put(key, value)?;
            continue;
        };
        if let Some(real) = &definition.key_alias {
            put(real, key)?;
        }
        put(definition.alias.as_deref().unwrap_or(key), value)?;
    }
    Ok(given)
}
