//! SSH public keys as a request carries them: checked line by line before anything is made.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The lines of `text` that are keys, without blanks, comments and carriage returns.
///
/// The error says which line is wrong; it never repeats the line, which may be a private key.
pub(crate) fn parse(text: &str) -> Result<Vec<String>, String> {
    if text.contains("PRIVATE KEY-----") {
        return Err("holds a private key: send the public one, the .pub file".to_owned());
    }
    let mut keys = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.chars().any(char::is_control) || !is_public_key(line) {
            return Err(format!("line {} is not a public key", index + 1));
        }
        keys.push(line.to_owned());
    }
    Ok(keys)
}

/// Whether the line is `[options] algorithm base64 [comment]` and the blob names the same algorithm.
fn is_public_key(line: &str) -> bool {
    let words = split_outside_quotes(line);
    words.windows(2).take(2).any(|pair| {
        let (algorithm, blob) = (pair[0], pair[1]);
        is_algorithm(algorithm)
            && STANDARD
                .decode(blob)
                .is_ok_and(|blob| fields(&blob, algorithm).is_some_and(|n| n >= 2))
    })
}

fn is_algorithm(word: &str) -> bool {
    matches!(
        word,
        "ssh-ed25519"
            | "ssh-rsa"
            | "ssh-dss"
            | "ecdsa-sha2-nistp256"
            | "ecdsa-sha2-nistp384"
            | "ecdsa-sha2-nistp521"
            | "sk-ssh-ed25519@openssh.com"
            | "sk-ecdsa-sha2-nistp256@openssh.com"
    )
}

/// How many length-prefixed fields the blob has, when the first is the algorithm and none is cut.
fn fields(blob: &[u8], algorithm: &str) -> Option<usize> {
    let mut rest = blob;
    let mut count = 0;
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let field = tail.get(..length)?;
        if count == 0 && field != algorithm.as_bytes() {
            return None;
        }
        rest = &tail[length..];
        count += 1;
    }
    Some(count)
}

/// Words of an `authorized_keys` line: options may hold blanks inside double quotes.
fn split_outside_quotes(line: &str) -> Vec<&str> {
    let mut quoted = false;
    let mut escaped = false;
    line.split(|character: char| {
        let separates = !quoted && (character == ' ' || character == '\t');
        if character == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = character == '\\' && !escaped;
        separates
    })
    .filter(|word| !word.is_empty())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1Q6Qq2mD4l1yyO3n9Yk6rJ0bXxq0m5o1lq7w9C0Qd2";

    #[test]
    fn keys_are_normalised() {
        let text = format!(
            "\r\n{ED25519} user@laptop  \r\n\r\n# mine\n{ED25519} a comment of words and ü\r\n"
        );
        let keys = parse(&text).unwrap();
        assert_eq!(
            keys,
            [format!("{ED25519} user@laptop"), format!("{ED25519} a comment of words and ü")]
        );
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn options_may_stand_before_the_key() {
        let line = format!(r#"from="10.0.0.0/8",command="echo \"a b\"" {ED25519}"#);
        assert_eq!(parse(&line).unwrap(), [line]);
    }

    #[test]
    fn what_is_not_a_public_key_is_named_by_its_line_and_never_repeated() {
        let cut = &ED25519[..60];
        let renamed = ED25519.replacen("ssh-ed25519", "ssh-rsa", 1);
        for (text, wanted) in [
            ("garbage", "line 1 is not a public key"),
            (&format!("{ED25519}\nssh-ed25519"), "line 2 is not a public key"),
            (cut, "line 1 is not a public key"),
            (&renamed, "line 1 is not a public key"),
            ("ssh-ed25519 !!!!", "line 1 is not a public key"),
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
                "holds a private key: send the public one, the .pub file",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), wanted);
        }
    }
}
