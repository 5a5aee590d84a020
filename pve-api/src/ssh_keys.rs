//! Public keys for a guest, which travel percent-encoded inside an encoded form.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use percent_encoding::utf8_percent_encode;
use serde::Deserialize;
use serde::Serialize;
use thiserror::Error;

use crate::lenient;
use crate::request::RESERVED;

/// Public SSH keys that cloud-init gives to a guest's user.
///
/// Parsing takes lines as in `authorized_keys`; `Display` gives those lines back. Lines that come
/// from a server are taken as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshKeys(Vec<String>);

/// A line that is not a public key. The text does not repeat the line, which may be a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("line {line} {problem}")]
pub struct InvalidSshKey {
    line: usize,
    problem: &'static str,
}

/// The words with which a public key begins.
const ALGORITHMS: [&str; 8] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-dss",
];

impl SshKeys {
    /// The keys, a line each.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether there is none; then nothing is sent.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The form that the server wants inside the form: every reserved character escaped, a blank
    /// as `%20` and never as `+`.
    pub(crate) fn encoded(&self) -> String {
        utf8_percent_encode(&self.to_string(), RESERVED).to_string()
    }

    /// What a server keeps, which may be anything that somebody put there.
    fn decode(text: &str) -> Self {
        let text = percent_decode_str(text).decode_utf8_lossy();
        Self(clean(&text).map(|(_, line)| line.to_owned()).collect())
    }
}

/// The lines that are not empty, with their numbers.
fn clean(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty())
}

impl FromStr for SshKeys {
    type Err = InvalidSshKey;

    fn from_str(text: &str) -> Result<Self, InvalidSshKey> {
        let keys = clean(text).map(|(line, key)| match problem(key) {
            Some(problem) => Err(InvalidSshKey { line, problem }),
            None => Ok(key.to_owned()),
        });
        keys.collect::<Result<_, _>>().map(Self)
    }
}

fn problem(key: &str) -> Option<&'static str> {
    if key.contains("PRIVATE KEY") {
        return Some("is part of a private key: keep it secret, and give the .pub file instead");
    }
    // Options may stand in front, and may hold quoted blanks; the algorithm follows them.
    let mut words = key.split_ascii_whitespace().skip_while(|word| !ALGORITHMS.contains(word));
    let Some(algorithm) = words.next() else { return Some("is not a public key") };
    let Some(blob) = words.next().and_then(|blob| STANDARD.decode(blob).ok()) else {
        return Some("is not a public key: its middle part is damaged");
    };
    // The algorithm is named once more inside, after its length.
    let named = blob
        .split_first_chunk::<4>()
        .and_then(|(length, rest)| rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?));
    if named != Some(algorithm.as_bytes()) {
        return Some("is not a public key: its middle part is of another kind");
    }
    None
}

impl fmt::Display for SshKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Serialize for SshKeys {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encoded())
    }
}

impl<'de> Deserialize<'de> for SshKeys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        lenient::value::<String, D>(deserializer).map(|text| Self::decode(&text))
    }
}

lenient::nested!(SshKeys);

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    #[test]
    fn keys_are_encoded_as_the_server_keeps_them() {
        let keys: SshKeys = format!("\r\n{ED25519} user@host \r\n\r\n").parse().unwrap();
        insta::assert_snapshot!(keys.encoded(), @"ssh-ed25519%20AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9%2Fcu7%2FQEXn9OIeZJ%20user%40host");
        assert_eq!(SshKeys::decode(&keys.encoded()), keys);
        assert!("".parse::<SshKeys>().unwrap().is_empty());
    }

    #[test]
    fn comments_options_and_several_lines_survive_the_round_trip() {
        for text in [
            format!("{ED25519} two words and ü: cardno:000600000000 +x"),
            format!("from=\"10.0.0.0/8,a b\" {ED25519}"),
            format!("{ED25519} a\n{ED25519} b"),
        ] {
            let keys: SshKeys = text.parse().unwrap();
            assert_eq!(keys.to_string(), text);
            assert_eq!(SshKeys::decode(&keys.encoded()), keys);
            assert!(!keys.encoded().contains(['+', ' ', '/', ':', '\n']));
        }
    }

    #[test]
    fn what_is_no_public_key_is_named_by_its_line_and_never_shown() {
        let wrong = |text: &str| text.parse::<SshKeys>().unwrap_err().to_string();
        insta::assert_snapshot!(wrong(&format!("{ED25519}\n\nhunter2")), @"line 3 is not a public key");
        insta::assert_snapshot!(wrong("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn"), @"line 1 is part of a private key: keep it secret, and give the .pub file instead");
        insta::assert_snapshot!(wrong("ssh-ed25519 hunter2! me"), @"line 1 is not a public key: its middle part is damaged");
        insta::assert_snapshot!(wrong(&ED25519.replace("ssh-ed25519", "ssh-rsa")), @"line 1 is not a public key: its middle part is of another kind");
    }
}
