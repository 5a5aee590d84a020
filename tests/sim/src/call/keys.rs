//! Public keys, as `ssh-keygen` would look at them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;

use crate::call::Died;
use crate::call::Request;

/// Every line of `sshkeys` must be a public key, a comment or empty.
pub(super) fn check_keys(request: Request<'_>) -> Result<(), Died> {
    let Some(encoded) = request.get("sshkeys") else { return Ok(()) };
    let text = percent_decode_str(encoded).decode_utf8_lossy();
    let fine = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .all(is_key);
    if fine { Ok(()) } else { Err(Died::new("SSH public key validation error")) }
}

/// A type, and behind it the same type in the key's own bytes; options may stand before.
fn is_key(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let [kind, data] = pair else { return false };
        let Ok(bytes) = BASE64_STANDARD.decode(data) else { return false };
        let length = u32::try_from(kind.len()).unwrap_or_default().to_be_bytes();
        ["ssh-", "ecdsa-", "sk-"].iter().any(|start| kind.starts_with(start))
            && bytes.starts_with(&length)
            && bytes[length.len()..].starts_with(kind.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::is_key;

    #[test]
    fn a_key_has_its_type_twice() {
        let data = "AAAAC3NzaC1lZDI1NTE5AAAAIAxP8lB5rZm41YTmBZPjTcCpZ2/iZrsc+x68X7sdoXUJ";
        assert!(is_key(&format!("ssh-ed25519 {data} user@host")));
        assert!(is_key(&format!("no-pty,from=\"192.0.2.1\" ssh-ed25519 {data}")));
        assert!(!is_key(&format!("ssh-rsa {data}")));
        assert!(!is_key("ssh-ed25519 nonsense"));
        assert!(!is_key("-----BEGIN OPENSSH PRIVATE KEY-----"));
    }
}
