//! The server's own rules for texts, each with what would be right.

use pve_api::Tag;

/// A name: labels of letters, digits and `-`, joined by dots.
pub(super) fn name(text: &str) -> Result<(), String> {
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if !text.split('.').all(label) {
        return Err(format!(
            "'{text}' is not a DNS name: letters, digits and '-', not at the ends of a part"
        ));
    }
    if text.split('.').any(|label| label.len() > 63) {
        return Err("a part of a DNS name has at most 63 characters".to_owned());
    }
    Ok(())
}

pub(super) fn tag(text: &str) -> Result<(), String> {
    text.parse::<Tag>().map(drop).map_err(|error| error.to_string())
}

/// A hardware address of a single card, not of a group.
pub(super) fn mac(text: &str) -> Result<(), String> {
    let pairs: Vec<&str> = text.split(':').collect();
    let is_pair = |pair: &&str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
    if pairs.len() != 6 || !pairs.iter().all(is_pair) {
        return Err(format!("'{text}' is not a MAC address, such as BC:24:11:00:00:01"));
    }
    if u8::from_str_radix(pairs[0], 16).is_ok_and(|first| first & 1 == 1) {
        return Err(format!("'{text}' is an address of a group: its second digit must be even"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_follow_the_rules_of_the_server() {
        for good in ["web", "a", "web-1.example.org", "1", "A-b"] {
            assert_eq!(name(good), Ok(()), "{good}");
        }
        for bad in ["-a", "a-", "a_b", "a..b", ".", "a b", "ü", "web!", &"a".repeat(64)] {
            assert!(name(bad).is_err(), "{bad}");
        }
        for good in ["BC:24:11:00:00:01", "bc:24:11:aa:bb:cc", "00:00:00:00:00:00"] {
            assert_eq!(mac(good), Ok(()), "{good}");
        }
        for bad in
            ["BD:24:11:00:00:01", "BC:24:11:00:00", "BC-24-11-00-00-01", "x", "BC:24:11:00:00:0G"]
        {
            assert!(mac(bad).is_err(), "{bad}");
        }
    }
}
