//! Whether the server's certificate is trusted: by the system, by what was remembered, or by a
//! person who looked at it.

use pve_api::Address;
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
    /// Nobody vouches for a certificate: a person decides.
    Asking(Asking),
    /// This address shows another certificate than those that are known.
    Changed(Vec<Fingerprint>, Address, Shown),
    /// A person refused it.
    Refused,
    /// It could not be reached.
    Failed(String),
    /// It is trusted in this way.
    Trusted(Trust),
}

/// What has to be decided before anything is sent. Every node has a certificate of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asking {
    /// The certificates that nobody has decided on, the one on the screen first.
    pub(super) open: Vec<(Address, Shown)>,
    /// Those that are right.
    pins: Vec<Fingerprint>,
}

impl Sheet {
    /// Judges what these addresses showed, each in its place; those that cannot be reached do not
    /// matter as long as one can.
    pub(super) fn judge(
        &mut self,
        addresses: &[Address],
        shown: Vec<Result<Shown, String>>,
    ) -> Option<Wish> {
        let (mut reached, mut reasons, mut away) = (Vec::new(), Vec::new(), Vec::new());
        // Not in the order of our own, which an earlier answer may have changed.
        for (address, shown) in addresses.iter().cloned().zip(shown) {
            match shown {
                Ok(shown) => reached.push((address, shown)),
                Err(reason) => {
                    reasons.push(reason);
                    away.push(address);
                }
            }
        }
        if reached.is_empty() {
            self.connection = Connection::Failed(reasons.join("; "));
            return None;
        }
        // The ones that answer are asked first.
        self.addresses = reached.iter().map(|(address, _)| address.clone()).chain(away).collect();
        self.unreached = reasons;
        self.connection = match self.authority() {
            // Every connection is checked against it.
            Some(path) => Connection::Trusted(Trust::CaFile(path)),
            None => self.compare(reached),
        };
        self.ask_realms()
    }

    /// Compares what is shown with what is known, address by address.
    fn compare(&self, reached: Vec<(Address, Shown)>) -> Connection {
        let listed = self.listed_pins();
        let own = |address: &Address| {
            self.pins.iter().find(|(pinned, _)| pinned == address).map(|(_, pin)| *pin)
        };
        let mut pins = listed.clone();
        pins.extend(self.addresses.iter().filter_map(own));
        let vouched = pins.is_empty() && reached.iter().all(|(_, shown)| shown.trusted_by_system);
        if vouched {
            return Connection::Trusted(Trust::System);
        }
        let mut open = Vec::new();
        for (address, shown) in reached {
            let is_known = !listed.is_empty() || own(&address).is_some();
            match (pins.contains(&shown.fingerprint), shown.trusted_by_system) {
                (true, _) => {}
                (false, _) if is_known => return Connection::Changed(pins, address, shown),
                (false, true) => pins.push(shown.fingerprint),
                (false, false) => open.push((address, shown)),
            }
        }
        if open.is_empty() {
            Connection::Trusted(Trust::Fingerprints(pins))
        } else {
            Connection::Asking(Asking { open, pins })
        }
    }

    /// A person accepted the certificate on the screen.
    pub(super) fn accept(&mut self, remember: bool) -> Option<Wish> {
        let Connection::Asking(asking) = &mut self.connection else { return None };
        let (address, shown) = asking.open.remove(0);
        asking.pins.push(shown.fingerprint);
        if remember {
            // It holds from now on, and not only after the next start.
            for pins in [&mut self.pins, &mut self.remember] {
                pins.retain(|(pinned, _)| *pinned != address);
                pins.push((address.clone(), shown.fingerprint));
            }
        }
        if asking.open.is_empty() {
            self.connection = Connection::Trusted(Trust::Fingerprints(asking.pins.clone()));
        }
        self.ask_realms()
    }

    fn ask_realms(&self) -> Option<Wish> {
        match &self.connection {
            Connection::Trusted(trust) => Some(Wish::Realms(self.addresses.clone(), trust.clone())),
            _ => None,
        }
    }
}
