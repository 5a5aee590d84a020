//! Servers that are known by a name, and certificates that were accepted once.
//!
//! `servers.toml` is written by hand:
//!
//! ```toml
//! default = "lab"
//!
//! [servers.lab]
//! addresses = ["pve1.example.org", "192.0.2.12:8006"]
//! user = "ops@pve"
//! fingerprints = ["7E:4A:…"]       # or ca_file = "/etc/ssl/lab-ca.pem"
//! ```
//!
//! `pins` is written by the program: an address and a fingerprint on each line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use pve_api::Address;
use pve_api::Fingerprint;
use pve_api::UserId;
use serde::Deserialize;

/// Where the program keeps what it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The directory.
    pub directory: PathBuf,
}

/// What is known of servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Servers {
    /// The name of the server that is taken when none is named.
    #[serde(default)]
    pub default: Option<String>,
    /// The servers by their names.
    #[serde(default)]
    pub servers: BTreeMap<String, Profile>,
}

/// What is known of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Nodes of one cluster, any of which may be asked.
    pub addresses: Vec<String>,
    /// The account.
    #[serde(default)]
    pub user: Option<UserId>,
    /// Certificates that are accepted.
    #[serde(default)]
    pub fingerprints: Vec<Fingerprint>,
    /// The authority that signs the servers' certificates.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

impl Files {
    /// `$XDG_CONFIG_HOME/pve-tui`, else `~/.config/pve-tui`.
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let directory = match variable("XDG_CONFIG_HOME").filter(|path| !path.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => PathBuf::from(variable("HOME").unwrap_or_default()).join(".config"),
        };
        Self { directory: directory.join("pve-tui") }
    }

    /// Reads the known servers; without a file there are none.
    pub fn servers(&self) -> Result<Servers> {
        let path = self.directory.join("servers.toml");
        let text = read(&path)?;
        toml::from_str(&text).with_context(|| format!("{} is not right", path.display()))
    }

    /// Where the user's templates lie: `<name>.toml`.
    pub fn templates(&self) -> PathBuf {
        self.directory.join("templates")
    }

    fn pins_file(&self) -> PathBuf {
        self.directory.join("pins")
    }

    /// The certificate that was accepted for this address, if one was.
    pub fn pin(&self, address: &Address) -> Result<Option<Fingerprint>> {
        let pin = self.pins()?.into_iter().find(|(pinned, _)| pinned == address);
        Ok(pin.map(|(_, pin)| pin))
    }

    /// All certificates that were accepted for good; of one address the last one counts.
    pub fn pins(&self) -> Result<Vec<(Address, Fingerprint)>> {
        let mut pins: Vec<(Address, Fingerprint)> = Vec::new();
        for line in read(&self.pins_file())?.lines() {
            let broken = || format!("{} is broken: {line}", self.pins_file().display());
            let (address, pin) = line.split_once(' ').with_context(broken)?;
            let address = address.parse().with_context(broken)?;
            pins.retain(|(pinned, _)| *pinned != address);
            pins.push((address, pin.parse().with_context(broken)?));
        }
        Ok(pins)
    }

    /// Remembers that this certificate was accepted.
    pub fn remember(&self, address: &Address, fingerprint: Fingerprint) -> Result<()> {
        let path = self.pins_file();
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.directory)?;
            let mut file = fs::OpenOptions::new().create(true).append(true).open(&path)?;
            file.write_all(format!("{address} {fingerprint}\n").as_bytes())
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// A text file; one that is not there is empty.
fn read(path: &Path) -> Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        result => result.with_context(|| format!("cannot read {}", path.display())),
    }
}

impl Servers {
    /// The server of that name, or the one at that address, or at several of them with commas
    /// between; without either, the default, or the
    /// only one that is known.
    pub fn choose(&self, wanted: Option<&str>) -> Result<Profile> {
        let only = || match self.servers.len() {
            1 => self.servers.keys().next().cloned(),
            _ => None,
        };
        let Some(name) = wanted.map(str::to_owned).or_else(|| self.default.clone()).or_else(only)
        else {
            bail!("which server? name one by --server or PVE_SERVER");
        };
        if let Some(profile) = self.servers.get(&name) {
            return Ok(profile.clone());
        }
        let addresses = name.split(',').map(|address| address.trim().to_owned()).collect();
        Ok(Profile { addresses, ..Profile::default() })
    }
}

impl Profile {
    /// The addresses, read.
    pub fn addresses(&self) -> Result<Vec<Address>> {
        self.addresses.iter().map(|text| Ok(text.parse()?)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = "7E:4A:10:28:DD:FA:2F:74:07:5C:02:5B:64:3A:50:AD:97:C0:45:01:EF:24:22:5E:3B:AC:3C:AD:3E:F8:8C:AA";

    fn servers(text: &str) -> Servers {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_server_is_chosen_by_name_by_address_or_because_there_is_no_other() {
        let one = servers("[servers.lab]\naddresses = ['192.0.2.1']\nuser = 'ops@pve'");
        let lab = one.servers["lab"].clone();
        assert_eq!(one.choose(None).unwrap(), lab);
        assert_eq!(one.choose(Some("lab")).unwrap(), lab);
        assert_eq!(one.choose(Some("pve1.example.org")).unwrap().addresses, ["pve1.example.org"]);
        let two = servers(
            "default = 'b'\n[servers.a]\naddresses = ['192.0.2.1']\n[servers.b]\naddresses = ['192.0.2.2']",
        );
        assert_eq!(two.choose(None).unwrap().addresses, ["192.0.2.2"]);
        assert!(Servers::default().choose(None).is_err());
        assert!(toml::from_str::<Servers>("[servers.a]\naddress = 'x'").is_err());
    }

    #[test]
    fn a_certificate_that_was_accepted_is_remembered_for_its_address() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files { directory: directory.path().join("new") };
        let (here, there) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert_eq!(files.pin(&here).unwrap(), None);
        files.remember(&here, PIN.parse().unwrap()).unwrap();
        assert_eq!(files.pin(&here).unwrap(), Some(PIN.parse().unwrap()));
        assert_eq!(files.pin(&there).unwrap(), None);
    }
}
