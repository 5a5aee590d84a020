//! Records how ssh and ssh-keygen are called, and looks for secrets in what was recorded.
//!
//! The simulator's own `qm`, `pvesm` and `pvesh` record themselves; the real programs are recorded by small
//! scripts of the same names that stand before them in `PATH`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;

/// The programs outside the simulator that the server runs.
const RECORDED: [&str; 2] = ["ssh", "ssh-keygen"];

/// One call of a program: its whole argument list and environment.
#[derive(Debug, Clone)]
pub struct Call {
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// `KEY=value`.
    pub environment: Vec<String>,
}

/// The recording scripts and what they wrote.
#[derive(Debug)]
pub struct Recorder {
    programs: PathBuf,
    calls: PathBuf,
}

impl Recorder {
    /// Makes the scripts below `directory`.
    pub fn new(directory: &Path) -> anyhow::Result<Self> {
        let programs = directory.join("recorders");
        let calls = directory.join("calls");
        fs::create_dir(&programs)?;
        fs::create_dir(&calls)?;
        for name in RECORDED {
            let program = programs.join(name);
            fs::write(&program, script(name, &programs, &calls))?;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        }
        Ok(Self { programs, calls })
    }

    /// The directory that has to stand in `PATH` before the real programs.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// All calls so far.
    pub fn calls(&self) -> anyhow::Result<Vec<Call>> {
        let mut calls = Vec::new();
        for entry in fs::read_dir(&self.calls)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "arguments") {
                let arguments = words(&path)?;
                let environment = words(&path.with_extension("environment"))?;
                // The first word is the shell that runs the script.
                let arguments = arguments.into_iter().skip(1).collect();
                calls.push(Call { arguments, environment });
            }
        }
        Ok(calls)
    }
}

/// The kernel keeps both lists as they were given; a name is written last, when both are whole.
fn script(name: &str, programs: &Path, calls: &Path) -> String {
    let (programs, calls) = (programs.display(), calls.display());
    format!(
        r#"#!/bin/sh
record=$(mktemp {calls}/XXXXXXXX)
cat /proc/$$/environ >"$record.environment"
cat /proc/$$/cmdline >"$record"
mv "$record" "$record.arguments"
PATH=${{PATH#{programs}:}}
exec {name} "$@"
"#
    )
}

fn words(path: &Path) -> anyhow::Result<Vec<String>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Ok(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// The places in `texts` where one of `secrets` stands, each shown without the secret.
pub fn leaks<'a>(texts: impl IntoIterator<Item = &'a str>, secrets: &[&str]) -> Vec<String> {
    let mut leaks = Vec::new();
    for text in texts {
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            if text.contains(*secret) {
                leaks.push(text.replace(*secret, "<secret>"));
            }
        }
    }
    leaks
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_recorded_program_still_runs_and_shows_its_arguments_and_environment() {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(directory.path()).unwrap();
        let path = format!("{}:/usr/bin:/bin", recorder.programs().display());
        let output = Command::new(recorder.programs().join("ssh"))
            .args(["-V", "-o", "User=a b"])
            .env_clear()
            .envs([("PATH", path.as_str()), ("PLANTED", "x y")])
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("OpenSSH"), "{output:?}");

        let calls = recorder.calls().unwrap();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].arguments[1..], ["-V", "-o", "User=a b"]);
        assert!(calls[0].environment.contains(&"PLANTED=x y".to_owned()));
    }

    #[test]
    fn a_leak_is_found_and_shown_without_the_secret() {
        let texts = ["qm set 100 --cipassword s3cret", "qm list"];
        assert_eq!(leaks(texts, &["s3cret", ""]), ["qm set 100 --cipassword <secret>"]);
    }
}
