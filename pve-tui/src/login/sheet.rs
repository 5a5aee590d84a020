//! What was said so far to get in, and what follows from it.

use std::path::PathBuf;

use pve_api::Address;
use pve_api::Domain;
use pve_api::DomainKind;
use pve_api::Factors;
use pve_api::Fingerprint;
use pve_api::InvalidAddress;
use pve_api::Realm;
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

    /// What is known of any of the addresses.
    fn known(&self) -> impl Iterator<Item = &Known> {
        let is_it = |known: &&Known| known.addresses.iter().any(|at| self.addresses.contains(at));
        self.known.iter().filter(is_it)
    }

    /// The authority that signs the certificates, if there is one for all of them.
    pub(super) fn authority(&self) -> Option<PathBuf> {
        self.known().find_map(|known| known.authority.clone())
    }

    /// The certificates that a person wrote down for this server.
    pub(super) fn listed_pins(&self) -> Vec<Fingerprint> {
        self.known().flat_map(|known| known.pins.iter().copied()).collect()
    }

    /// Takes the name of a server that is known, or an address, or several of one cluster.
    pub(super) fn set_server(&mut self, text: &str) -> Result<Option<Wish>, InvalidAddress> {
        let text = text.trim();
        let named = self.known.iter().find(|known| !text.is_empty() && known.name == text);
        self.addresses = match named {
            Some(known) => known.addresses.clone(),
            None => text.split(',').map(str::parse).collect::<Result<_, _>>()?,
        };
        self.server = joined(&self.addresses);
        let account = self.known().find(|known| !known.user.is_empty());
        let account = account.map(|known| (known.user.clone(), known.realm.clone()));
        if let Some(account) = account {
            (self.user, self.realm) = account;
        }
        Ok(self.probe())
    }

    pub(super) fn probe(&mut self) -> Option<Wish> {
        if self.addresses.is_empty() {
            return None;
        }
        self.connection = Connection::Probing;
        (self.realms, self.realms_state) = (Vec::new(), State::Loading);
        self.unreached = Vec::new();
        self.forget_secrets();
        Some(Wish::Probe(self.addresses.clone()))
    }

    pub(super) fn forget_secrets(&mut self) {
        (self.password, self.token, self.code) = (None, None, None);
    }

    pub(super) fn say(&mut self, entry: Entry, text: String) {
        match entry {
            Entry::Way => self.way = text,
            Entry::Realm => self.realm = text,
            Entry::User => {
                text.trim().clone_into(&mut self.user);
                self.split_user();
            }
            Entry::Password => self.password = secret(text),
            Entry::Token => self.token = secret(text),
            Entry::Factor => self.factor = text,
            Entry::Code => self.code = secret(text),
            _ => {}
        }
    }

    /// Somebody may type the whole of it. An `@` may also be part of a name, so what follows it
    /// must be one of the realms, if they are known.
    fn split_user(&mut self) {
        let Some((user, realm)) = self.user.rsplit_once('@') else { return };
        let is_realm = match self.realms_state {
            State::Loading => false,
            _ if self.realms.is_empty() => realm.parse::<Realm>().is_ok(),
            _ => self.realms.iter().any(|known| known.value == realm),
        };
        if is_realm && !user.is_empty() {
            (self.user, self.realm) = (user.to_owned(), realm.to_owned());
        }
    }

    pub(super) fn take_realms(&mut self, realms: Result<Vec<Domain>, String>) {
        self.learn_realms(realms);
        // It may have been typed before they were known.
        self.split_user();
    }

    fn learn_realms(&mut self, realms: Result<Vec<Domain>, String>) {
        match realms {
            Err(reason) => self.realms_state = State::Failed(reason),
            Ok(realms) => {
                self.realms_state = if realms.is_empty() { State::Empty } else { State::Ready };
                self.realms = realms.iter().map(realm_choice).collect();
                let has = |name: &str| {
                    self.realms.iter().any(|realm| realm.value == name && realm.unusable.is_none())
                };
                if !self.realms.is_empty() && !has(&self.realm) {
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
            self.busy = Some("checking the second factor");
            return Ok(Wish::Factor { kind: self.factor.clone(), code });
        }
        if !matches!(self.connection, Connection::Trusted(_)) {
            return missing(Entry::Server, "there is no server to log in to yet");
        }
        let keep = self.keep();
        if self.way == "token" {
            let Some(token) = self.token.take() else {
                return missing(Entry::Token, "the token is missing (user@realm!name=secret)");
            };
            self.busy = Some("trying the token");
            return Ok(Wish::Token { token, keep });
        }
        if self.user.is_empty() {
            return missing(Entry::User, "the user is missing");
        }
        if self.realms_state == State::Loading && self.user.contains('@') {
            let text = "the realms are still being asked for: which one is meant is not known yet";
            return missing(Entry::LogIn, text);
        }
        self.split_user();
        let user = match self.realm.parse().map(|realm| UserId::new(&self.user, realm)) {
            Ok(Ok(user)) => user,
            Ok(Err(problem)) => return Err((Entry::User, problem.to_string())),
            Err(problem) => return Err((Entry::Realm, problem.to_string())),
        };
        let Some(password) = self.password.take() else {
            return missing(Entry::Password, "the password is missing");
        };
        self.busy = Some("logging in; a refusal takes the server three seconds");
        Ok(Wish::Password { user, password, keep })
    }

    /// What is worth remembering of this login.
    pub(super) fn keep(&self) -> Kept {
        // Somebody may have been at another server before, and not logged in there.
        let here = |(address, _): &&(Address, Fingerprint)| self.addresses.contains(address);
        Kept {
            addresses: self.addresses.clone(),
            pins: self.remember.iter().filter(here).cloned().collect(),
            user: self.user.clone(),
            realm: self.realm.clone(),
        }
    }
}

/// Addresses as a person writes several.
pub(super) fn joined(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
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
