//! The servers that the login offers: those that somebody logged in to before, the last one first,
//! then those of the profile file. There is nothing secret in any of it.
//!
//! `history` is written by the program: addresses with commas between them, and an account, on each
//! line.

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
fn history(files: &Files) -> anyhow::Result<Vec<(Vec<Address>, String)>> {
    let path = history_file(files);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let line = |line: &str| {
        let (addresses, account) = line.split_once(' ').unwrap_or((line, ""));
        let addresses = addresses.split(',').map(str::parse).collect::<Result<_, _>>();
        Some((addresses.ok()?, account.to_owned()))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// All servers that are known. One that the profile file has is there once, under its name.
pub(crate) fn load(files: &Files) -> anyhow::Result<Vec<Known>> {
    let mut profiles = Vec::new();
    for (name, profile) in files.servers()?.servers {
        let account = profile.user.as_ref().map(ToString::to_string).unwrap_or_default();
        profiles.push(Known {
            name,
            addresses: profile.addresses()?,
            pins: profile.fingerprints,
            authority: profile.ca_file,
            ..of_account(&account)
        });
    }
    let mut known: Vec<Known> = Vec::new();
    for (addresses, account) in history(files)? {
        let account = of_account(&account);
        let is_it = |one: &&Known| addresses.iter().all(|address| one.addresses.contains(address));
        let one = match profiles.iter().find(is_it) {
            Some(profile) => Known { user: account.user, realm: account.realm, ..profile.clone() },
            None => Known { addresses, ..account },
        };
        if !known.iter().any(|other| other.addresses == one.addresses) {
            known.push(one);
        }
    }
    profiles.retain(|profile| !known.iter().any(|one| one.name == profile.name));
    known.extend(profiles);
    Ok(known)
}

fn of_account(account: &str) -> Known {
    let (user, realm) = account.rsplit_once('@').unwrap_or((account, ""));
    Known {
        name: String::new(),
        addresses: Vec::new(),
        pins: Vec::new(),
        authority: None,
        user: user.to_owned(),
        realm: realm.to_owned(),
    }
}

/// Puts a server first, and keeps the certificates that were accepted for it.
pub(crate) fn remember(files: &Files, kept: &Kept) -> anyhow::Result<()> {
    for (address, pin) in &kept.pins {
        if files.pin(address)? != Some(*pin) {
            files.remember(address, *pin)?;
        }
    }
    let mut all = history(files)?;
    // The order of the addresses is that in which they answered.
    all.retain(|(addresses, _)| {
        addresses.len() != kept.addresses.len()
            || !addresses.iter().all(|address| kept.addresses.contains(address))
    });
    all.insert(0, (kept.addresses.clone(), format!("{}@{}", kept.user, kept.realm)));
    all.truncate(REMEMBERED);
    fs::create_dir_all(&files.directory)?;
    let path = history_file(files);
    let beside = path.with_extension("new");
    let mut file = fs::File::create(&beside)?;
    for (addresses, account) in &all {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        writeln!(file, "{} {account}", addresses.join(","))?;
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

    fn kept(addresses: &str, user: &str, pin: Option<&str>) -> Kept {
        let addresses: Vec<Address> =
            addresses.split(',').map(|address| address.parse().unwrap()).collect();
        let pins = pin.map(|pin| (addresses[0].clone(), pin.parse().unwrap()));
        Kept {
            pins: pins.into_iter().collect(),
            addresses,
            user: user.to_owned(),
            realm: "pam".to_owned(),
        }
    }

    fn lines(files: &Files) -> Vec<String> {
        let line = |known: Known| {
            let addresses: Vec<String> = known.addresses.iter().map(ToString::to_string).collect();
            format!("{} {} {}", addresses.join(","), known.user, known.name)
        };
        load(files).unwrap().into_iter().map(line).collect()
    }

    #[test]
    fn what_is_remembered_is_offered_with_the_last_one_first() {
        let (_directory, files) = files();
        assert_eq!(load(&files).unwrap(), []);
        remember(&files, &kept("pve1.example.org", "root", None)).unwrap();
        remember(&files, &kept("192.0.2.7:443", "ops", Some(PIN))).unwrap();
        remember(&files, &kept("192.0.2.1,192.0.2.2", "root", None)).unwrap();
        remember(&files, &kept("pve1.example.org", "ops", None)).unwrap();
        // Which of them answered first does not make it another server.
        remember(&files, &kept("192.0.2.2,192.0.2.1", "ops", None)).unwrap();
        assert_eq!(
            lines(&files),
            [
                "192.0.2.2:8006,192.0.2.1:8006 ops ",
                "pve1.example.org:8006 ops ",
                "192.0.2.7:443 ops "
            ]
        );
        let pins = files.pins().unwrap();
        assert_eq!(pins, [("192.0.2.7:443".parse().unwrap(), PIN.parse().unwrap())]);
    }

    #[test]
    fn a_server_of_the_profile_is_there_once_with_all_its_addresses() {
        let (_directory, files) = files();
        remember(&files, &kept("192.0.2.2", "root", None)).unwrap();
        remember(&files, &kept("192.0.2.9", "root", None)).unwrap();
        let profile = format!(
            "[servers.lab]\naddresses = ['192.0.2.1', '192.0.2.2']\nuser = 'ops@pve'\nfingerprints = ['{PIN}']\n\
             [servers.other]\naddresses = ['192.0.2.5']\nuser = 'ops@pve'\n"
        );
        fs::write(files.directory.join("servers.toml"), profile).unwrap();
        assert_eq!(
            lines(&files),
            [
                "192.0.2.9:8006 root ",
                "192.0.2.1:8006,192.0.2.2:8006 root lab",
                "192.0.2.5:8006 ops other"
            ]
        );
        assert_eq!(load(&files).unwrap()[1].pins, [PIN.parse().unwrap()]);
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
