//! The init script: which one, and what stands before it on its standard input.

use std::path::Path;

use secrecy::ExposeSecret as _;
use secrecy::SecretString;

use super::problem::Problem;
use super::settings::Settings;

const DEBIAN: &str = include_str!("../../scripts/debian.sh");
const UBUNTU: &str = include_str!("../../scripts/ubuntu.sh");
const ROCKYLINUX: &str = include_str!("../../scripts/rockylinux.sh");

/// The init script of an operating system: `<os>_<version>.sh` of the admin's directory, or the built-in one.
pub(crate) fn find(directory: Option<&Path>, os: &str, version: &str) -> Result<String, Problem> {
    let name = format!("{os}_{version}.sh");
    if let Some(path) = directory.map(|directory| directory.join(&name))
        && path.exists()
    {
        return std::fs::read_to_string(&path)
            .map_err(Problem::file(format!("read {}", path.display())));
    }
    match os {
        "debian" => Ok(DEBIAN.to_owned()),
        "ubuntu" => Ok(UBUNTU.to_owned()),
        "rockylinux" => Ok(ROCKYLINUX.to_owned()),
        _ => Err(Problem::Refused(format!(
            "there is no init script for {os} {version}: put {name} into INIT_SCRIPT_DIR"
        ))),
    }
}

/// The script with its values before it, as it goes to the standard input of `bash -s`.
pub(crate) fn input(script: &str, settings: &Settings) -> Vec<u8> {
    let timezone = settings.timezone.as_deref().unwrap_or_default();
    let password =
        settings.root_password.as_ref().map(SecretString::expose_secret).unwrap_or_default();
    let assignments = [("VM_TIMEZONE", timezone), ("VM_ROOT_PASSWORD", password)];
    let mut text = String::new();
    for (name, value) in assignments {
        text.push_str(name);
        text.push_str("='");
        text.push_str(&value.replace('\'', r"'\''"));
        text.push_str("'\n");
    }
    text.push_str(script);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::plan::tests::settings;

    #[test]
    fn values_are_quoted_for_the_shell() {
        let settings = Settings {
            timezone: Some("Europe/Berlin".to_owned()),
            root_password: Some("it's $HOME".into()),
            ..settings()
        };
        let text = String::from_utf8(input("main\n", &settings)).unwrap();
        assert_eq!(text, "VM_TIMEZONE='Europe/Berlin'\nVM_ROOT_PASSWORD='it'\\''s $HOME'\nmain\n");
    }

    #[test]
    fn an_own_script_replaces_the_built_in_one() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("debian_12.sh"), "own").unwrap();
        assert_eq!(find(Some(directory.path()), "debian", "12").unwrap(), "own");
        assert_eq!(find(Some(directory.path()), "debian", "13").unwrap(), DEBIAN);
        assert!(find(None, "arch", "1").is_err());
    }
}
