//! Whether the server's certificate is trusted: by the system, by what was remembered, or by a
//! person who looked at it.

use pve_api::Certificate;
use pve_api::Fingerprint;
use pve_api::Trust;

use super::Sheet;
use super::Wish;

/// What a server showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) subject: String,
    pub(crate) issuer: String,
    /// Whether the system's authorities vouch for it.
    pub(crate) trusted_by_system: bool,
}

impl From<Certificate> for Shown {
    fn from(certificate: Certificate) -> Self {
        Self {
            fingerprint: certificate.fingerprint,
            subject: certificate.subject,
            issuer: certificate.issuer,
            trusted_by_system: certificate.trusted_by_system,
        }
    }
}

/// How far we are with the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Connection {
    /// No server was named yet.
    None,
    /// Its certificate is being looked at.
    Probing,
    /// Nobody vouches for its certificate: a person decides.
    Asking(Shown),
    /// It shows another certificate than the one that was remembered.
    Changed(Vec<Fingerprint>, Shown),
    /// A person refused it.
    Refused,
    /// It could not be reached.
    Failed(String),
    /// It is trusted in this way.
    Trusted(Trust),
}

impl Sheet {
    pub(super) fn judge(&mut self, shown: Result<Shown, String>) -> Option<Wish> {
        let pins = self.known().map(|known| known.pins.clone()).unwrap_or_default();
        let authority = self.known().and_then(|known| known.authority.clone());
        self.connection = match shown {
            Err(reason) => Connection::Failed(reason),
            // Every connection is checked against it.
            Ok(_) if authority.is_some() => {
                authority.map_or(Connection::None, |path| Connection::Trusted(Trust::CaFile(path)))
            }
            Ok(shown) if pins.contains(&shown.fingerprint) => {
                Connection::Trusted(Trust::Fingerprints(pins))
            }
            Ok(shown) if !pins.is_empty() => Connection::Changed(pins, shown),
            Ok(shown) if shown.trusted_by_system => Connection::Trusted(Trust::System),
            Ok(shown) => Connection::Asking(shown),
        };
        self.ask_realms()
    }

    /// A person accepted the certificate.
    pub(super) fn accept(&mut self, remember: bool) -> Option<Wish> {
        let Connection::Asking(shown) = &self.connection else { return None };
        self.connection = Connection::Trusted(Trust::Fingerprints(vec![shown.fingerprint]));
        self.remember = remember;
        self.ask_realms()
    }

    fn ask_realms(&self) -> Option<Wish> {
        match &self.connection {
            Connection::Trusted(trust) => {
                Some(Wish::Realms(self.server.parse().ok()?, trust.clone()))
            }
            _ => None,
        }
    }
}
