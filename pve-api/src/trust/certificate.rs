//! What a person needs to see of a certificate, read from its DER form.
//!
//! Nothing here decides about trust; a certificate that cannot be read is shown by its
//! fingerprint alone.

use std::fmt::Write as _;
use std::time::Duration;
use std::time::SystemTime;

use super::Fingerprint;

/// A certificate that a server showed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Certificate {
    /// Its SHA-256 fingerprint, to be compared with the one on the node's own console.
    pub fingerprint: Fingerprint,
    /// Whom it names, such as `CN=pve1.example.org, O=…`; empty if it cannot be read.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// The first moment of its validity.
    pub not_before: Option<SystemTime>,
    /// The last moment of its validity.
    pub not_after: Option<SystemTime>,
    /// Whether the operating system's authorities vouch for it, for the host that was asked.
    /// Only [`probe`](crate::probe) finds this out; elsewhere it is `false`.
    pub trusted_by_system: bool,
}

impl Certificate {
    pub(super) fn read(der: &[u8], trusted_by_system: bool) -> Self {
        let shown = Shown::parse(der).unwrap_or_default();
        Self {
            fingerprint: Fingerprint::of(der),
            subject: shown.subject,
            issuer: shown.issuer,
            not_before: shown.not_before,
            not_after: shown.not_after,
            trusted_by_system,
        }
    }
}

#[derive(Default)]
struct Shown {
    subject: String,
    issuer: String,
    not_before: Option<SystemTime>,
    not_after: Option<SystemTime>,
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xA0;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;

impl Shown {
    fn parse(der: &[u8]) -> Option<Self> {
        let (_, certificate, _) = element(der)?;
        let (_, signed, _) = element(certificate)?;
        let mut rest = signed;
        if rest.first() == Some(&VERSION) {
            rest = element(rest)?.2;
        }
        let (_, _serial, rest) = element(rest)?;
        let (_, _algorithm, rest) = element(rest)?;
        let (_, issuer, rest) = element(rest)?;
        let (_, validity, rest) = element(rest)?;
        let (_, subject, _) = element(rest)?;
        let (not_before, after) = time(validity)?;
        let (not_after, _) = time(after)?;
        Some(Self { subject: name(subject), issuer: name(issuer), not_before, not_after })
    }
}

/// Splits the first element off: its tag, its content, and what follows it.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = input.split_first_chunk::<2>()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
        if digits.len() > 4 {
            return None;
        }
        let length = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// A distinguished name as `CN=…, O=…`, the most specific part first.
fn name(mut input: &[u8]) -> String {
    let mut parts = Vec::new();
    while let Some((SET, set, rest)) = element(input) {
        input = rest;
        if let Some((SEQUENCE, pair, _)) = element(set)
            && let Some((OBJECT_ID, kind, rest)) = element(pair)
            && let Some((_, value, _)) = element(rest)
        {
            parts.push((kind, value));
        }
    }
    let mut text = String::new();
    for (kind, value) in parts.into_iter().rev() {
        let comma = if text.is_empty() { "" } else { ", " };
        let kind = match kind {
            [0x55, 4, 3] => "CN",
            [0x55, 4, 6] => "C",
            [0x55, 4, 7] => "L",
            [0x55, 4, 8] => "ST",
            [0x55, 4, 10] => "O",
            [0x55, 4, 11] => "OU",
            _ => "?",
        };
        // The text is shown on a terminal; a certificate must not be able to move the cursor.
        let value: String = String::from_utf8_lossy(value)
            .chars()
            .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
            .collect();
        let _ = write!(text, "{comma}{kind}={value}");
    }
    text
}

/// A point in time, and what follows it.
fn time(input: &[u8]) -> Option<(Option<SystemTime>, &[u8])> {
    let (tag, text, rest) = element(input)?;
    Some((parse_time(tag, text), rest))
}

fn parse_time(tag: u8, text: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = if tag == UTC_TIME {
        let (short, rest) = text.split_at_checked(2)?;
        let short: u64 = short.parse().ok()?;
        (if short < 50 { 2000 + short } else { 1900 + short }, rest)
    } else {
        let (year, rest) = text.split_at_checked(4)?;
        (year.parse().ok()?, rest)
    };
    let two = |at: usize| -> Option<u64> { rest.get(at..at + 2)?.parse().ok() };
    let seconds = ((days_since_1970(year, two(0)?, two(2)?)? * 24 + two(4)?) * 60 + two(6)?) * 60;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds + two(8)?))
}

fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Count from March, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some(days - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_like_a_calendar() {
        assert_eq!(days_since_1970(1970, 1, 1), Some(0));
        assert_eq!(days_since_1970(2000, 2, 29), Some(11_016));
        assert_eq!(days_since_1970(2026, 11, 30), Some(20_787));
        assert_eq!(days_since_1970(2026, 13, 1), None);
    }

    #[test]
    fn garbage_is_shown_by_its_fingerprint_alone() {
        for garbage in [&b""[..], &[0x30], &[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF], &[0x30, 0x80]] {
            let certificate = Certificate::read(garbage, false);
            assert_eq!(certificate.subject, "");
            assert_eq!(certificate.fingerprint, Fingerprint::of(garbage));
        }
    }
}
