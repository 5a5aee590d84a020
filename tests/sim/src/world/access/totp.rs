//! Codes that change with time (RFC 6238), with SHA-1 as authenticator apps have it.

use sha1::Digest;
use sha1::Sha1;

/// A secret that codes are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totp {
    secret: Vec<u8>,
    /// Seconds that a code is shown for.
    pub period: u64,
    digits: u32,
}

impl Totp {
    /// From a secret in base 32.
    pub fn new(secret: &str) -> Option<Self> {
        Some(Self { secret: base32(secret)?, period: 30, digits: 6 })
    }

    /// From an `otpauth://totp/` address.
    pub fn from_uri(uri: &str) -> Option<Self> {
        let uri = url::Url::parse(uri).ok()?;
        if uri.scheme() != "otpauth" || uri.host_str() != Some("totp") {
            return None;
        }
        let get = |key: &str| {
            uri.query_pairs().find(|(known, _)| known == key).map(|(_, value)| value.into_owned())
        };
        let mut made = Self::new(&get("secret")?)?;
        if let Some(period) = get("period").and_then(|text| text.parse().ok()) {
            made.period = period;
        }
        if let Some(digits) = get("digits").and_then(|text| text.parse().ok()) {
            made.digits = digits;
        }
        Some(made)
    }

    /// The step that a time is in.
    pub fn step(&self, now: u64) -> u64 {
        now / self.period.max(1)
    }

    /// The code of a step.
    pub fn code(&self, step: u64) -> String {
        let mac = hmac(&self.secret, &step.to_be_bytes());
        let offset = usize::from(mac.last().copied().unwrap_or_default() & 0xf);
        let bytes = mac.get(offset..offset + 4).unwrap_or_default();
        let number = bytes.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let code = (number & 0x7fff_ffff) % 10_u64.pow(self.digits.min(9));
        format!("{code:0width$}", width = self.digits as usize)
    }

    /// The step, one before to one after now, whose code this is.
    pub fn matching(&self, code: &str, now: u64) -> Option<u64> {
        let here = self.step(now);
        (here.saturating_sub(1)..=here + 1).find(|step| self.code(*step) == code)
    }
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64;
    let mut key = if key.len() > BLOCK { Sha1::digest(key).to_vec() } else { key.to_vec() };
    key.resize(BLOCK, 0);
    let padded = |pad: u8| key.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>();
    let inner = Sha1::digest([padded(0x36).as_slice(), text].concat());
    Sha1::digest([padded(0x5c).as_slice(), inner.as_slice()].concat()).to_vec()
}

fn base32(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter.to_ascii_uppercase() {
            letter @ b'A'..=b'Z' => letter - b'A',
            digit @ b'2'..=b'7' => digit - b'2' + 26,
            _ => return None,
        };
        bits = bits << 5 | u32::from(value);
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::Totp;

    #[test]
    fn the_codes_are_those_of_the_standard() {
        let totp = Totp::new("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ").unwrap();
        let codes: Vec<String> =
            [59, 1_111_111_109, 2_000_000_000].map(|now| totp.code(totp.step(now))).into();
        assert_eq!(codes, ["287082", "081804", "279037"]);
        assert_eq!(totp.matching("287082", 89), Some(1));
        assert_eq!(totp.matching("287082", 90), None);
    }
}
