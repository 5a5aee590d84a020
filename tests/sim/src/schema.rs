//! What parameters a call takes: a checker over the reduced fact table of the API.
//!
//! `facts/endpoints.json` holds names, types, ranges and formats of the endpoints that are used,
//! nothing else; `tests/it/facts.rs` shows how it is made. The texts of the errors are those that
//! the recordings show.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

mod format;
mod property;

pub use format::cpu_models;
pub use format::parse_volume_id;
pub use property::Properties;

/// The parameters of a call, as text, the way a form carries them.
pub type Parameters = BTreeMap<String, String>;

/// Which release's answers are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Release {
    /// Proxmox VE 9.2.
    #[default]
    V9_2,
    /// Proxmox VE 8.4.
    V8_4,
}

/// Says what one parameter may be.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Definition {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    optional: bool,
    #[serde(rename = "enum")]
    values: Option<Vec<String>>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    #[serde(rename = "minLength")]
    min_length: Option<usize>,
    #[serde(rename = "maxLength")]
    max_length: Option<usize>,
    pattern: Option<String>,
    format: Option<Format>,
    #[serde(default)]
    requires: Option<String>,
    #[serde(default, deserialize_with = "flag")]
    default_key: bool,
    alias: Option<String>,
    #[serde(rename = "keyAlias")]
    key_alias: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Format {
    Named(String),
    Properties(BTreeMap<String, Definition>),
}

fn flag<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_bool().unwrap_or(value.as_i64() == Some(1)))
}

#[derive(Debug, Default, Deserialize)]
struct Table {
    definitions: Vec<Definition>,
    endpoints: HashMap<String, BTreeMap<String, usize>>,
}

/// The endpoints of the API, and below `CLI /` the commands that have no endpoint.
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    // Both files are part of the binary, and every test reads them.
    let mut table: Table =
        serde_json::from_str(include_str!("../facts/endpoints.json")).unwrap_or_default();
    let commands: HashMap<String, BTreeMap<String, Definition>> =
        serde_json::from_str(include_str!("../facts/commands.json")).unwrap_or_default();
    for (name, parameters) in commands {
        let mut indexed = BTreeMap::new();
        for (key, definition) in parameters {
            indexed.insert(key, table.definitions.len());
            table.definitions.push(definition);
        }
        table.endpoints.insert(name, indexed);
    }
    table
});

/// Indexed options and how many of each exist.
const INDEXED: [(&str, usize); 15] = [
    ("net", 32),
    ("scsi", 31),
    ("virtio", 16),
    ("sata", 6),
    ("ide", 4),
    ("unused", 256),
    ("serial", 4),
    ("parallel", 3),
    ("usb", 14),
    ("hostpci", 16),
    ("ipconfig", 32),
    ("numa", 8),
    ("virtiofs", 10),
    ("acmedomain", 6),
    ("link", 8),
];

/// Options that came with release 9.
const ONLY_ON_9: [(&str, &str); 11] = [
    ("/nodes/{node}/qemu", "ha-managed"),
    ("/nodes/{node}/qemu", "allow-ksm"),
    ("/nodes/{node}/qemu/{vmid}/config", "allow-ksm"),
    ("/nodes/{node}/qemu", "intel-tdx"),
    ("/nodes/{node}/qemu/{vmid}/config", "intel-tdx"),
    ("/cluster/ha/resources", "failback"),
    ("/cluster/ha/resources/{sid}", "failback"),
    ("/cluster/ha/resources/{sid}", "purge"),
    ("/nodes/{node}/capabilities/qemu/cpu", "arch"),
    ("/nodes/{node}/capabilities/qemu/machines", "arch"),
    ("/nodes/{node}/qemu/{vmid}/migrate", "with-conntrack-state"),
];

/// Parts of options that came with release 9.
const PARTS_ONLY_ON_9: [(&str, &str); 5] = [
    ("agent", "freeze-fs"),
    ("machine", "aw-bits"),
    ("efidisk0", "ms-cert"),
    ("tpmstate0", "format"),
    ("cpu", "guest-phys-bits"),
];

const UNDEFINED: &str =
    "property is not defined in schema and the schema does not allow additional properties";
const MISSING: &str = "property is missing and it is not optional";

/// The key under which the table keeps an option: `net[n]` for `net7`, the name itself otherwise.
fn table_key(name: &str) -> Option<String> {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let digits = &name[stem.len()..];
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    let (_, count) = INDEXED.iter().find(|(known, _)| *known == stem)?;
    let index: usize = digits.parse().ok()?;
    (index < *count).then(|| format!("{stem}[n]"))
}

/// The endpoint's definition of a parameter.
pub fn definition(release: Release, endpoint: &str, name: &str) -> Option<&'static Definition> {
    let (_, path) = endpoint.split_once(' ')?;
    if release == Release::V8_4 && ONLY_ON_9.contains(&(path, name)) {
        return None;
    }
    let parameters = TABLE.endpoints.get(endpoint)?;
    let index =
        parameters.get(name).or_else(|| table_key(name).and_then(|key| parameters.get(&key)))?;
    TABLE.definitions.get(*index)
}

/// The endpoints of the table, `METHOD /path/{template}` each.
pub fn endpoints() -> impl Iterator<Item = &'static str> {
    TABLE.endpoints.keys().map(String::as_str)
}

/// The options that the endpoint must have, path parameters included, sorted.
pub fn required(endpoint: &str) -> Vec<(&'static str, &'static Definition)> {
    let Some(parameters) = TABLE.endpoints.get(endpoint) else { return Vec::new() };
    parameters
        .iter()
        .map(|(name, index)| (name.as_str(), &TABLE.definitions[*index]))
        .filter(|(_, definition)| !definition.optional)
        .collect()
}

/// Whether a configuration option of this name exists, as `delete` asks.
pub fn is_option(release: Release, name: &str) -> bool {
    !matches!(name, "node" | "vmid" | "digest" | "delete" | "revert" | "force" | "skiplock")
        && definition(release, "PUT /nodes/{node}/qemu/{vmid}/config", name).is_some()
}

impl Definition {
    /// Whether a command line may give this option without a value.
    pub fn is_boolean(&self) -> bool {
        self.kind.as_deref() == Some("boolean")
    }

    /// The type as a usage line shows it.
    pub fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or("string")
    }
}

/// All complaints about a call's parameters, by name; empty when they are right.
pub fn check(
    release: Release,
    endpoint: &str,
    parameters: &Parameters,
) -> BTreeMap<String, String> {
    let mut errors = BTreeMap::new();
    for (name, value) in parameters {
        match definition(release, endpoint, name) {
            None => {
                errors.insert(name.clone(), UNDEFINED.to_owned());
            }
            Some(definition) => {
                if let Some(text) = value_error(release, name, definition, value) {
                    errors.insert(name.clone(), text);
                } else if let Some(needed) = &definition.requires
                    && !parameters.contains_key(needed)
                {
                    errors.insert(needed.clone(), missing_required(release, name));
                }
            }
        }
    }
    for (name, _) in required(endpoint) {
        if !parameters.contains_key(name) {
            errors.insert(name.to_owned(), MISSING.to_owned());
        }
    }
    errors
}

fn missing_required(release: Release, by: &str) -> String {
    match release {
        Release::V9_2 => format!("missing property required by '{by}'"),
        Release::V8_4 => format!("missing property - '{by}' requires this property"),
    }
}

/// What is wrong with one value, as the error table of an answer says it.
fn value_error(
    release: Release,
    path: &str,
    definition: &Definition,
    value: &str,
) -> Option<String> {
    let kind = definition.kind.as_deref().unwrap_or("string");
    let list = matches!(&definition.format, Some(Format::Named(name)) if name.ends_with("-list"));
    if value.contains('\0') && !list && kind != "array" {
        return Some(format!("type check ('{kind}') failed - got ARRAY"));
    }
    let fits = match kind {
        "integer" => is_integer(value),
        "number" => value.parse::<f64>().is_ok(),
        "boolean" => matches!(value, "0" | "1"),
        _ => true,
    };
    if !fits {
        return Some(format!("type check ('{kind}') failed - got '{value}'"));
    }
    match &definition.format {
        Some(Format::Named(name)) => {
            if let Err(text) = format::check(release, name, path, value) {
                return Some(text);
            }
        }
        Some(Format::Properties(table)) => {
            if let Err(text) = property::check(release, path, table, value) {
                return Some(text);
            }
        }
        None => {}
    }
    limits_error(definition, value)
}

fn limits_error(definition: &Definition, value: &str) -> Option<String> {
    let length = value.chars().count();
    if let Some(most) = definition.max_length
        && length > most
    {
        return Some(format!("value may only be {most} characters long"));
    }
    if let Some(least) = definition.min_length
        && length < least
    {
        return Some(format!("value must be at least {least} characters long"));
    }
    if let Some(pattern) = &definition.pattern
        && !matches_pattern(pattern, value)
    {
        return Some("value does not match the regex pattern".to_owned());
    }
    if let Some(values) = &definition.values
        && !values.iter().any(|known| known == value)
    {
        let known = values.join(", ");
        return Some(format!("value '{value}' does not have a value in the enumeration '{known}'"));
    }
    let number: f64 = value.parse().unwrap_or_default();
    if let Some(least) = definition.minimum
        && number < least
    {
        return Some(format!("value must have a minimum value of {least}"));
    }
    if let Some(most) = definition.maximum
        && number > most
    {
        return Some(format!("value must have a maximum value of {most}"));
    }
    None
}

fn is_integer(value: &str) -> bool {
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Perl reads `{,n}` as `{0,n}`; a pattern that is unknown here passes.
fn matches_pattern(pattern: &str, value: &str) -> bool {
    let pattern = format!("^(?:{})$", pattern.replace("{,", "{0,"));
    Regex::new(&pattern).is_ok_and(|regex| regex.is_match(value))
}
