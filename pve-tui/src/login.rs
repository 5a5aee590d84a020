//! The way in: server, trust in its certificate, realm, user, password, second factor, or a token.
//!
//! Nothing secret leaves before the certificate is trusted. Secrets are held as such, and are gone
//! once they were sent.

mod rows;
mod sheet;
mod trust;

use std::path::PathBuf;

use crossterm::event::KeyEvent;
use pve_api::Address;
use pve_api::Domain;
use pve_api::Factors;
use pve_api::Fingerprint;
use pve_api::InvalidAddress;
use pve_api::Trust;
use pve_api::UserId;
use pve_provision::create::Choice;
use secrecy::SecretString;

use crate::form::Change;
use crate::form::Form;
use crate::form::State;

pub(crate) use trust::Connection;
pub(crate) use trust::Shown;

/// A server of which something is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its name in the profile file; empty if it is not there.
    pub(crate) name: String,
    pub(crate) address: Address,
    /// The certificates that are accepted.
    pub(crate) pins: Vec<Fingerprint>,
    /// The authority that signs its certificates.
    pub(crate) authority: Option<PathBuf>,
    /// Who logged in last.
    pub(crate) user: String,
    pub(crate) realm: String,
}

/// What is kept of a login that went well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) address: Address,
    /// The certificate that somebody accepted for good.
    pub(crate) pin: Option<Fingerprint>,
    pub(crate) user: String,
    pub(crate) realm: String,
}

/// What can have the focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Server,
    Way,
    Realm,
    User,
    Password,
    Token,
    LogIn,
    Factor,
    Code,
    Answer,
    StartOver,
    AcceptOnce,
    Remember,
    Refuse,
    /// A line to read.
    Line(u8),
}

/// What the login wants done.
pub(crate) enum Wish {
    /// Look at the server's certificate.
    Probe(Address),
    /// Ask the server, which is trusted so, for its realms.
    Realms(Address, Trust),
    /// Log in with a password.
    Password { user: UserId, password: SecretString, keep: Kept },
    /// Use an API token.
    Token { token: SecretString, keep: Kept },
    /// Answer the second factor, of this kind.
    Factor { kind: String, code: SecretString },
}

/// How far a login came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reached {
    /// All the way, as this account.
    In(String),
    /// A second factor is asked for.
    Factor(Factors),
}

/// The login with its focus.
pub(crate) struct Login {
    pub(crate) form: Form<Entry>,
    pub(crate) sheet: Sheet,
}

/// Everything of the login but its focus.
pub(crate) struct Sheet {
    pub(crate) known: Vec<Known>,
    known_choices: Vec<Choice>,
    server: String,
    pub(crate) connection: Connection,
    /// Whether the certificate that was accepted is kept for the next time.
    remember: bool,
    /// `password` or `token`.
    way: String,
    ways: Vec<Choice>,
    realms: Vec<Choice>,
    realms_state: State,
    realm: String,
    user: String,
    password: Option<SecretString>,
    token: Option<SecretString>,
    factors: Option<Factors>,
    factor_choices: Vec<Choice>,
    /// `totp`, `recovery` or `yubico`.
    factor: String,
    code: Option<SecretString>,
    /// What is being done, so that nothing else can be.
    pub(crate) busy: Option<&'static str>,
    /// Why the last try failed.
    pub(crate) failure: Option<String>,
}

fn choice(value: &str, label: &str) -> Choice {
    Choice {
        value: value.to_owned(),
        label: label.to_owned(),
        detail: String::new(),
        unusable: None,
    }
}

impl Login {
    /// A login that offers the servers that are known.
    pub(crate) fn new(known: Vec<Known>) -> Self {
        let known_choices = known.iter().map(|known| {
            let address = known.address.to_string();
            let label = match &*known.name {
                "" => address.clone(),
                name => format!("{name} ({address})"),
            };
            let account = match &*known.user {
                "" => String::new(),
                user => format!("{user}@{}", known.realm),
            };
            Choice { detail: account, ..choice(&address, &label) }
        });
        let sheet = Sheet {
            known_choices: known_choices.collect(),
            known,
            server: String::new(),
            connection: Connection::None,
            remember: false,
            way: "password".to_owned(),
            ways: vec![choice("password", "User and password"), choice("token", "API token")],
            realms: Vec::new(),
            realms_state: State::Loading,
            realm: "pam".to_owned(),
            user: String::new(),
            password: None,
            token: None,
            factors: None,
            factor_choices: Vec::new(),
            factor: String::new(),
            code: None,
            busy: None,
            failure: None,
        };
        Self { form: Form::new(Entry::Server), sheet }
    }

    /// Names the server as if it had been typed.
    pub(crate) fn with_server(&mut self, server: &str) -> Result<Option<Wish>, InvalidAddress> {
        let wish = self.sheet.set_server(server)?;
        self.form.go_to(Entry::Way);
        Ok(wish)
    }

    /// Prepares for logging in anew, to the same server.
    pub(crate) fn again(&mut self, reason: &str) {
        self.sheet.forget_secrets();
        (self.sheet.factors, self.sheet.busy) = (None, None);
        self.sheet.failure = (!reason.is_empty()).then(|| reason.to_owned());
        let entry = match self.sheet.connection {
            Connection::Trusted(_) if self.sheet.way == "token" => Entry::Token,
            Connection::Trusted(_) => Entry::Password,
            _ => Entry::Server,
        };
        self.form.go_to(entry);
    }

    /// The server that is trusted.
    pub(crate) fn address(&self) -> Option<Address> {
        self.sheet.server.parse().ok()
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<Wish> {
        if self.sheet.busy.is_some() {
            return None;
        }
        let change = self.form.key(key, &self.sheet.rows())?;
        self.apply(change)
    }

    pub(crate) fn paste(&mut self, text: &str) {
        if self.sheet.busy.is_none() {
            self.form.paste(text, &self.sheet.rows());
        }
    }

    fn apply(&mut self, change: Change<Entry>) -> Option<Wish> {
        self.sheet.failure = None;
        match change {
            Change::Said(Entry::Server, text) => match self.sheet.set_server(&text) {
                Ok(wish) => {
                    self.form.accept(&self.sheet.rows());
                    wish
                }
                Err(problem) => {
                    self.form.refuse(problem.to_string());
                    None
                }
            },
            Change::Said(entry, text) => {
                self.sheet.say(entry, text);
                self.form.accept(&self.sheet.rows());
                None
            }
            Change::Reload(_) => self.sheet.probe(),
            Change::Pressed(entry) => self.press(entry),
            _ => None,
        }
    }

    fn press(&mut self, entry: Entry) -> Option<Wish> {
        match entry {
            Entry::AcceptOnce | Entry::Remember => {
                let wish = self.sheet.accept(entry == Entry::Remember);
                self.form.go_to(Entry::Way);
                wish
            }
            Entry::Refuse => {
                self.sheet.connection = Connection::Refused;
                self.form.go_to(Entry::Server);
                None
            }
            Entry::StartOver => {
                self.again("");
                None
            }
            Entry::LogIn | Entry::Answer => match self.sheet.send() {
                Ok(wish) => Some(wish),
                Err((entry, problem)) => {
                    self.form.go_to(entry);
                    self.form.refuse(problem);
                    None
                }
            },
            _ => None,
        }
    }

    /// The server showed its certificate, or could not be reached.
    pub(crate) fn probed(
        &mut self,
        address: &Address,
        shown: Result<Shown, String>,
    ) -> Option<Wish> {
        if self.address().as_ref() != Some(address) {
            return None;
        }
        let wish = self.sheet.judge(shown);
        match self.sheet.connection {
            // What is asked for must not be answered by a key that was meant for something else.
            Connection::Asking(_) | Connection::Changed(..) => self.form.go_to(Entry::Refuse),
            // The reason is read where the focus is.
            Connection::Failed(_) if self.form.is_browsing() => self.form.go_to(Entry::Server),
            _ => {}
        }
        wish
    }

    pub(crate) fn realms(&mut self, address: &Address, realms: Result<Vec<Domain>, String>) {
        if self.address().as_ref() == Some(address) {
            self.sheet.take_realms(realms);
        }
    }

    /// The server answered to a login; gives the account once it is all the way in.
    pub(crate) fn answered(&mut self, reached: Result<Reached, String>) -> Option<String> {
        self.sheet.busy = None;
        match reached {
            Ok(Reached::In(account)) => {
                self.sheet.factors = None;
                return Some(account);
            }
            Ok(Reached::Factor(factors)) => {
                let advice = factors.advice();
                self.sheet.offer_factors(factors);
                self.sheet.failure = advice.map(str::to_owned);
                let entry = if advice.is_some() { Entry::StartOver } else { Entry::Code };
                self.form.go_to(entry);
            }
            Err(reason) => {
                self.sheet.failure = Some(reason);
                let entry = match (self.sheet.factors.is_some(), &*self.sheet.way) {
                    (true, _) => Entry::Code,
                    (false, "token") => Entry::Token,
                    (false, _) => Entry::Password,
                };
                self.form.go_to(entry);
            }
        }
        None
    }
}
