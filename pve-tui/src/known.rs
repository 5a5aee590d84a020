//! The servers that were used before: addresses, remembered certificates, last accounts. There is
//! nothing secret in it.
//!
//! ```toml
//! [[server]]
//! address = "pve1.example.org:8006"
//! user = "root"
//! realm = "pam"
//! fingerprints = ["7E:4A:…"]
//! ```

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context as _;
use pve_api::Fingerprint;
use serde::Deserialize;

use crate::login::Known;

#[derive(Deserialize, Default)]
struct File {
    #[serde(default)]
    server: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    address: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    realm: String,
    #[serde(default)]
    fingerprints: Vec<Fingerprint>,
}

/// Where they are kept: `$XDG_CONFIG_HOME/pve-tui/servers.toml`, or below `~/.config`.
pub(crate) fn path() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(config.join("pve-tui").join("servers.toml"))
}

/// The servers that were used before, the last one first; none if there is no file.
pub(crate) fn load(path: &Path) -> anyhow::Result<Vec<Known>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let file: File =
        toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
    let known = |entry: Entry| {
        let address = entry.address.parse()?;
        let Entry { user, realm, fingerprints: pins, .. } = entry;
        Ok(Known { address, pins, user, realm })
    };
    file.server.into_iter().map(known).collect()
}

/// Puts a server first, whole or not at all.
pub(crate) fn remember(path: &Path, known: &Known) -> anyhow::Result<()> {
    let mut all = load(path)?;
    all.retain(|other| other.address != known.address);
    all.insert(0, known.clone());
    let directory = path.parent().context("the file has no directory")?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let beside = path.with_extension("toml.new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(shown(&all).as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    Ok(())
}

fn shown(all: &[Known]) -> String {
    let mut text = String::from("# Servers that pve-tui logged in to, the last one first.\n");
    for known in all {
        // A text of JSON is a text of TOML, too.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let pins: Vec<String> = known.pins.iter().map(|pin| quoted(&pin.to_string())).collect();
        let _ = write!(
            text,
            "\n[[server]]\naddress = {}\nuser = {}\nrealm = {}\nfingerprints = [{}]\n",
            quoted(&known.address.to_string()),
            quoted(&known.user),
            quoted(&known.realm),
            pins.join(", ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_read_back_with_the_last_one_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/servers.toml");
        assert_eq!(load(&path).unwrap(), []);
        let pin = "7E".repeat(32).parse().unwrap();
        let known = |address: &str, user: &str| Known {
            address: address.parse().unwrap(),
            pins: vec![pin],
            user: user.to_owned(),
            realm: "pam".to_owned(),
        };
        remember(&path, &known("pve1.example.org", "root")).unwrap();
        remember(&path, &known("192.0.2.7:443", "a\"b\\")).unwrap();
        remember(&path, &known("pve1.example.org", "ops")).unwrap();
        let expected = [known("pve1.example.org", "ops"), known("192.0.2.7:443", "a\"b\\")];
        assert_eq!(load(&path).unwrap(), expected);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("servers.toml");
        fs::write(&path, "server = 7").unwrap();
        let known = Known {
            address: "pve1".parse().unwrap(),
            pins: Vec::new(),
            user: String::new(),
            realm: String::new(),
        };
        assert!(remember(&path, &known).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "server = 7");
    }
}
