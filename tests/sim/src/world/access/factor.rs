//! A user's second factors.

use super::Totp;

/// Wrong codes in a row that lock all of a user's TOTP entries.
const TOTP_LIMIT: u32 = 8;

/// Wrong answers of any kind that lock all factors for an hour.
const LIMIT: u32 = 100;

/// For how many seconds.
const LOCKED: u64 = 3600;

/// One user's factors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Factors {
    /// In the order in which they were added, recovery keys apart.
    pub entries: Vec<Entry>,
    /// Recovery keys; a used one is `None`.
    pub recovery: Option<Recovery>,
    /// Whether codes are refused until a recovery key is used.
    pub totp_locked: bool,
    /// Until when everything is refused.
    pub locked_until: Option<u64>,
    totp_failures: u32,
    failures: u32,
}

/// A set of recovery keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The keys; used ones are gone.
    pub keys: Vec<Option<String>>,
    /// When they were made.
    pub created: u64,
}

/// One factor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// What the user calls it.
    pub description: String,
    /// When it was added.
    pub created: u64,
    /// Whether it is asked for.
    pub enabled: bool,
    /// What it is.
    pub factor: Factor,
}

/// What a factor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Factor {
    /// Codes by time; the last step whose code was used.
    Totp(Totp, Option<u64>),
    /// A hardware key, known by name only.
    Yubico(String),
}

impl Entry {
    /// A code generator.
    pub fn totp(id: &str, description: &str, totp: Totp, created: u64) -> Self {
        Self {
            id: id.to_owned(),
            description: description.to_owned(),
            created,
            enabled: true,
            factor: Factor::Totp(totp, None),
        }
    }

    /// `totp` or `yubico`.
    pub fn kind(&self) -> &'static str {
        match self.factor {
            Factor::Totp(..) => "totp",
            Factor::Yubico(_) => "yubico",
        }
    }
}

impl Factors {
    /// Numbers of the recovery keys that are left, when there ever were any.
    pub fn recovery_left(&self) -> Option<Vec<usize>> {
        let keys = &self.recovery.as_ref()?.keys;
        Some((0..keys.len()).filter(|index| keys[*index].is_some()).collect())
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.recovery.is_none()
    }

    /// The challenge as a ticket carries it; nothing when no factor is asked for.
    pub fn challenge(&self) -> Option<String> {
        let on =
            |kind: &str| self.entries.iter().any(|entry| entry.enabled && entry.kind() == kind);
        let mut parts = Vec::new();
        if on("totp") {
            parts.push(r#""totp":true"#.to_owned());
        }
        if let Some(left) = self.recovery_left() {
            let numbers: Vec<String> = left.iter().map(ToString::to_string).collect();
            parts.push(format!(r#""recovery":[{}]"#, numbers.join(",")));
        }
        if on("yubico") {
            parts.push(r#""yubico":true"#.to_owned());
        }
        (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(",")))
    }

    /// Whether everything is refused for a while.
    pub fn is_locked(&self, now: u64) -> bool {
        self.locked_until.is_some_and(|until| now < until)
    }

    /// Takes an answer, `totp:123456` or `recovery:…`; says whether it was right.
    pub fn answer(&mut self, response: &str, now: u64) -> bool {
        if self.is_locked(now) {
            return false;
        }
        let right = match response.split_once(':') {
            Some(("totp", _)) if self.totp_locked => return false,
            Some(("totp", code)) => self.code(code, now),
            Some(("recovery", key)) => self.key(key),
            // Not an answer at all, and so not a wrong one.
            _ => return false,
        };
        if right {
            (self.failures, self.totp_failures) = (0, 0);
            return true;
        }
        self.failures += 1;
        if response.starts_with("totp:") {
            self.totp_failures += 1;
            self.totp_locked = self.totp_failures >= TOTP_LIMIT;
        }
        if self.failures >= LIMIT {
            self.failures = 0;
            self.locked_until = Some(now + LOCKED);
        }
        false
    }

    /// A code is good once, and none before it is good any more.
    fn code(&mut self, code: &str, now: u64) -> bool {
        for entry in self.entries.iter_mut().filter(|entry| entry.enabled) {
            if let Factor::Totp(totp, last) = &mut entry.factor
                && let Some(step) = totp.matching(code, now)
            {
                if last.is_some_and(|last| step <= last) {
                    return false;
                }
                *last = Some(step);
                return true;
            }
        }
        false
    }

    fn key(&mut self, key: &str) -> bool {
        let keys = self.recovery.iter_mut().flat_map(|recovery| recovery.keys.iter_mut());
        for held in keys {
            if held.as_deref() == Some(key) {
                *held = None;
                self.totp_locked = false;
                return true;
            }
        }
        false
    }

    /// Ends every lock; says whether there was one.
    pub fn unlock(&mut self) -> bool {
        let was = self.totp_locked || self.locked_until.is_some();
        self.totp_locked = false;
        self.locked_until = None;
        (self.failures, self.totp_failures) = (0, 0);
        was
    }
}
