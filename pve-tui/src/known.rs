//! The servers that the login offers: those that somebody logged in to before, the last one first,
//! then those of the profile file. There is nothing secret in any of it.
//!
//! `history` is written by the program: an address and an account on each line.

use std::fs;
use std::io;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use pve_api::Address;
use pve_provision::create::Template;

use crate::headless;
use crate::login::Kept;
use crate::login::Known;
use crate::profile::Files;

/// So many servers are remembered.
const REMEMBERED: usize = 50;

fn history_file(files: &Files) -> PathBuf {
    files.directory.join("history")
}

/// Addresses and accounts, the last one first.
fn history(files: &Files) -> anyhow::Result<Vec<(Address, String)>> {
    let path = history_file(files);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let line = |line: &str| {
        let (address, account) = line.split_once(' ').unwrap_or((line, ""));
        Some((address.parse().ok()?, account.to_owned()))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// All servers that are known.
pub(crate) fn load(files: &Files) -> anyhow::Result<Vec<Known>> {
    let mut known: Vec<Known> = Vec::new();
    let mut add = |name: &str, address: Address, account: &str| -> anyhow::Result<()> {
        if known.iter().any(|other| other.address == address) {
            return Ok(());
        }
        let (user, realm) = account.rsplit_once('@').unwrap_or((account, ""));
        known.push(Known {
            name: name.to_owned(),
            pins: files.pin(&address)?.into_iter().collect(),
            authority: None,
            user: user.to_owned(),
            realm: realm.to_owned(),
            address,
        });
        Ok(())
    };
    for (address, account) in history(files)? {
        add("", address, &account)?;
    }
    let servers = files.servers()?;
    for (name, profile) in &servers.servers {
        let account = profile.user.as_ref().map(ToString::to_string).unwrap_or_default();
        for address in profile.addresses()? {
            add(name, address, &account)?;
        }
    }
    // What the profile says of a server holds wherever its address came from.
    for (name, profile) in &servers.servers {
        let addresses = profile.addresses()?;
        for one in known.iter_mut().filter(|one| addresses.contains(&one.address)) {
            one.name.clone_from(name);
            one.authority.clone_from(&profile.ca_file);
            one.pins.extend(&profile.fingerprints);
        }
    }
    Ok(known)
}

/// Puts a server first, and keeps the certificate that was accepted for it.
pub(crate) fn remember(files: &Files, kept: &Kept) -> anyhow::Result<()> {
    if let Some(pin) = kept.pin
        && files.pin(&kept.address)? != Some(pin)
    {
        files.remember(&kept.address, pin)?;
    }
    let mut all = history(files)?;
    all.retain(|(address, _)| *address != kept.address);
    all.insert(0, (kept.address.clone(), format!("{}@{}", kept.user, kept.realm)));
    all.truncate(REMEMBERED);
    fs::create_dir_all(&files.directory)?;
    let path = history_file(files);
    let beside = path.with_extension("new");
    let mut file = fs::File::create(&beside)?;
    for (address, account) in &all {
        writeln!(file, "{address} {account}")?;
    }
    file.sync_all()?;
    fs::rename(&beside, &path)?;
    Ok(())
}

/// The built-in templates and those of the user, by name.
pub(crate) fn templates(files: &Files) -> anyhow::Result<Vec<Template>> {
    let mut templates = Template::builtin();
    let directory = files.templates();
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(templates),
        other => other.with_context(|| format!("cannot read {}", directory.display()))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    for name in names {
        if !templates.iter().any(|template| template.name() == name) {
            templates.push(headless::template(&name, &directory)?);
        }
    }
    Ok(templates)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = "7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E7E";

    fn files() -> (tempfile::TempDir, Files) {
        let directory = tempfile::tempdir().unwrap();
        let files = Files { directory: directory.path().join("pve-tui") };
        (directory, files)
    }

    fn kept(address: &str, user: &str, pin: Option<&str>) -> Kept {
        Kept {
            address: address.parse().unwrap(),
            pin: pin.map(|pin| pin.parse().unwrap()),
            user: user.to_owned(),
            realm: "pam".to_owned(),
        }
    }

    #[test]
    fn what_is_remembered_is_offered_with_the_last_one_first() {
        let (_directory, files) = files();
        assert_eq!(load(&files).unwrap(), []);
        remember(&files, &kept("pve1.example.org", "root", None)).unwrap();
        remember(&files, &kept("192.0.2.7:443", "ops", Some(PIN))).unwrap();
        remember(&files, &kept("pve1.example.org", "ops", None)).unwrap();
        let known = load(&files).unwrap();
        let line = |known: &Known| format!("{} {} {}", known.address, known.user, known.pins.len());
        let lines: Vec<String> = known.iter().map(line).collect();
        assert_eq!(lines, ["pve1.example.org:8006 ops 0", "192.0.2.7:443 ops 1"]);
    }

    #[test]
    fn what_the_profile_says_of_a_server_holds_for_it() {
        let (_directory, files) = files();
        remember(&files, &kept("192.0.2.1", "root", None)).unwrap();
        let profile = format!(
            "[servers.lab]\naddresses = ['192.0.2.1', '192.0.2.2']\nuser = 'ops@pve'\nfingerprints = ['{PIN}']\n"
        );
        fs::write(files.directory.join("servers.toml"), profile).unwrap();
        let known = load(&files).unwrap();
        assert_eq!(known.len(), 2);
        assert!(known.iter().all(|known| known.name == "lab" && known.pins.len() == 1));
        assert_eq!((known[0].user.as_str(), known[1].user.as_str()), ("root", "ops"));
    }

    #[test]
    fn the_users_templates_stand_behind_the_built_in_ones() {
        let (_directory, files) = files();
        let names = |files: &Files| -> Vec<String> {
            templates(files).unwrap().iter().map(|one| one.name().to_owned()).collect()
        };
        assert_eq!(names(&files), ["default", "server"]);
        fs::create_dir_all(files.templates()).unwrap();
        fs::write(files.templates().join("web.toml"), "title = 'Web'\n[cpu]\ncores = 4").unwrap();
        fs::write(files.templates().join("notes.txt"), "not a template").unwrap();
        assert_eq!(names(&files), ["default", "server", "web"]);
        fs::write(files.templates().join("bad.toml"), "[cpu]\ncores = 'x'").unwrap();
        assert!(templates(&files).unwrap_err().to_string().contains("bad"));
    }
}
