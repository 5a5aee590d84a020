//! What was said so far to get in, and what follows from it.

use pve_api::Address;
use pve_api::Domain;
use pve_api::DomainKind;
use pve_api::Factors;
use pve_api::InvalidAddress;
use pve_api::Trust;
use pve_api::UserId;
use pve_provision::create::Choice;
use secrecy::SecretString;

use super::Connection;
use super::Entry;
use super::Kept;
use super::Known;
use super::Sheet;
use super::Wish;
use super::choice;
use super::rows;
use crate::form::Row;
use crate::form::State;

impl Sheet {
    pub(crate) fn rows(&self) -> Vec<Row<'_, Entry>> {
        rows::of(self)
    }

    pub(super) fn known(&self) -> Option<&Known> {
        let address: Address = self.server.parse().ok()?;
        self.known.iter().find(|known| known.address == address)
    }

    /// Takes the name of a server that is known, or an address.
    pub(super) fn set_server(&mut self, text: &str) -> Result<Option<Wish>, InvalidAddress> {
        let named = self.known.iter().find(|known| !text.is_empty() && known.name == text.trim());
        let address: Address = match named {
            Some(known) => known.address.clone(),
            None => text.parse()?,
        };
        self.server = address.to_string();
        if let Some(known) = self.known().filter(|known| !known.user.is_empty()).cloned() {
            (self.user, self.realm) = (known.user, known.realm);
        }
        Ok(self.probe())
    }

    pub(super) fn probe(&mut self) -> Option<Wish> {
        let address: Address = self.server.parse().ok()?;
        self.connection = Connection::Probing;
        (self.realms, self.realms_state, self.remember) = (Vec::new(), State::Loading, false);
        self.forget_secrets();
        Some(Wish::Probe(address))
    }

    pub(super) fn forget_secrets(&mut self) {
        (self.password, self.token, self.code) = (None, None, None);
    }

    pub(super) fn say(&mut self, entry: Entry, text: String) {
        match entry {
            Entry::Way => self.way = text,
            Entry::Realm => self.realm = text,
            Entry::User => {
                let text = text.trim();
                // Somebody may type the whole of it.
                match text.rsplit_once('@') {
                    Some((user, realm)) if self.realms.iter().any(|r| r.value == realm) => {
                        (self.user, self.realm) = (user.to_owned(), realm.to_owned());
                    }
                    _ => text.clone_into(&mut self.user),
                }
            }
            Entry::Password => self.password = secret(text),
            Entry::Token => self.token = secret(text),
            Entry::Factor => self.factor = text,
            Entry::Code => self.code = secret(text),
            _ => {}
        }
    }

    pub(super) fn take_realms(&mut self, realms: Result<Vec<Domain>, String>) {
        match realms {
            Err(reason) => self.realms_state = State::Failed(reason),
            Ok(realms) => {
                self.realms_state = if realms.is_empty() { State::Empty } else { State::Ready };
                self.realms = realms.iter().map(realm_choice).collect();
                let has = |name: &str| {
                    self.realms.iter().any(|realm| realm.value == name && realm.unusable.is_none())
                };
                if !has(&self.realm) {
                    let first = self.realms.iter().find(|realm| realm.unusable.is_none());
                    let pam = has("pam").then_some("pam");
                    let realm = pam.or(first.map(|realm| realm.value.as_str()));
                    self.realm = realm.unwrap_or_default().to_owned();
                }
            }
        }
    }

    pub(super) fn offer_factors(&mut self, factors: Factors) {
        let mut choices = Vec::new();
        if factors.totp {
            choices.push(choice("totp", "Code of the authenticator app"));
        }
        if let Some(keys) = factors.recovery.as_ref().filter(|keys| !keys.is_empty()) {
            let recovery = choice("recovery", "Recovery key");
            choices.push(Choice { detail: format!("{} left", keys.len()), ..recovery });
        }
        if factors.yubico {
            choices.push(choice("yubico", "Yubico one-time password"));
        }
        self.factor = choices.first().map(|first| first.value.clone()).unwrap_or_default();
        self.factor_choices = choices;
        self.factors = Some(factors);
    }

    /// What is sent when everything is there; otherwise what is missing.
    pub(super) fn send(&mut self) -> Result<Wish, (Entry, String)> {
        let missing = |entry, text: &str| Err((entry, text.to_owned()));
        if self.factors.is_some() {
            let Some(code) = self.code.take() else {
                return missing(Entry::Code, "the code is missing");
            };
            self.busy = Some("checking the second factor …");
            return Ok(Wish::Factor { kind: self.factor.clone(), code });
        }
        if !matches!(self.connection, Connection::Trusted(_)) {
            return missing(Entry::Server, "there is no server to log in to yet");
        }
        let keep = self.keep();
        if self.way == "token" {
            let (Some(token), Some(keep)) = (self.token.take(), keep) else {
                return missing(Entry::Token, "the token is missing (user@realm!name=secret)");
            };
            self.busy = Some("trying the token …");
            return Ok(Wish::Token { token, keep });
        }
        if self.user.is_empty() {
            return missing(Entry::User, "the user is missing");
        }
        let user = match self.realm.parse().map(|realm| UserId::new(&self.user, realm)) {
            Ok(Ok(user)) => user,
            Ok(Err(problem)) => return Err((Entry::User, problem.to_string())),
            Err(problem) => return Err((Entry::Realm, problem.to_string())),
        };
        let (Some(password), Some(keep)) = (self.password.take(), keep) else {
            return missing(Entry::Password, "the password is missing");
        };
        self.busy = Some("logging in … a refusal takes the server three seconds");
        Ok(Wish::Password { user, password, keep })
    }

    /// What is worth remembering of this login.
    pub(super) fn keep(&self) -> Option<Kept> {
        let address: Address = self.server.parse().ok()?;
        let pin = match &self.connection {
            Connection::Trusted(Trust::Fingerprints(pins)) if self.remember => {
                pins.first().copied()
            }
            _ => None,
        };
        Some(Kept { address, pin, user: self.user.clone(), realm: self.realm.clone() })
    }
}

fn secret(text: String) -> Option<SecretString> {
    (!text.is_empty()).then(|| SecretString::from(text))
}

fn realm_choice(domain: &Domain) -> Choice {
    let realm = domain.realm.to_string();
    let comment = domain.comment.clone().unwrap_or_default();
    let label = match &domain.kind {
        Some(DomainKind::Pam) => format!("{realm} (the node's own accounts)"),
        Some(DomainKind::Pve) => format!("{realm} (Proxmox VE's accounts)"),
        _ => realm.clone(),
    };
    let unusable = (!domain.takes_passwords())
        .then(|| "it needs a browser, so it cannot be used here; use an API token".to_owned());
    Choice { value: realm, label, detail: comment, unusable }
}
