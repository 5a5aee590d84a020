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

use crate::drawn::Spot;
use crate::form::Change;
use crate::form::Form;
use crate::form::State;

use sheet::joined;
pub(crate) use trust::Connection;
pub(crate) use trust::Shown;

/// A server of which something is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its name in the profile file; empty if it is not there.
    pub(crate) name: String,
    /// One node, or several of one cluster.
    pub(crate) addresses: Vec<Address>,
    /// The certificates that the profile file lists.
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
    pub(crate) addresses: Vec<Address>,
    /// The certificates that somebody accepted for good.
    pub(crate) pins: Vec<(Address, Fingerprint)>,
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
    /// Look at the certificates of these addresses.
    Probe(Vec<Address>),
    /// Ask the server, which is trusted so, for its realms.
    Realms(Vec<Address>, Trust),
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
    /// The certificates that were accepted for good, whoever did that.
    pins: Vec<(Address, Fingerprint)>,
    /// The server as it is shown.
    server: String,
    /// Where it is.
    addresses: Vec<Address>,
    pub(crate) connection: Connection,
    /// Why some of its addresses are not to be reached, while others are.
    unreached: Vec<String>,
    /// The certificates that are kept for the next time.
    remember: Vec<(Address, Fingerprint)>,
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
    pub(crate) fn new(known: Vec<Known>, pins: Vec<(Address, Fingerprint)>) -> Self {
        let known_choices = known.iter().map(|known| {
            let address = joined(&known.addresses);
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
            pins,
            server: String::new(),
            addresses: Vec::new(),
            connection: Connection::None,
            unreached: Vec::new(),
            remember: Vec::new(),
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
        self.form.go_to(self.first_missing());
        Ok(wish)
    }

    /// Where somebody goes on once the server is known.
    fn first_missing(&self) -> Entry {
        match &*self.sheet.way {
            "token" => Entry::Token,
            _ if self.sheet.user.is_empty() => Entry::User,
            _ => Entry::Password,
        }
    }

    /// Prepares for logging in anew, to the same server.
    pub(crate) fn again(&mut self, reason: &str) {
        self.sheet.forget_secrets();
        (self.sheet.factors, self.sheet.busy) = (None, None);
        self.sheet.failure = (!reason.is_empty()).then(|| reason.to_owned());
        let entry = match self.sheet.connection {
            Connection::Trusted(_) => self.first_missing(),
            _ => Entry::Server,
        };
        self.form.go_to(entry);
    }

    /// The addresses of the server, those that answered first.
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.sheet.addresses
    }

    /// Whether these are its addresses, in whatever order.
    fn is_at(&self, addresses: &[Address]) -> bool {
        let own = self.addresses();
        own.len() == addresses.len()
            && own.iter().all(|address| addresses.contains(address))
            && addresses.iter().all(|address| own.contains(address))
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

    /// Takes a click; while a text is typed it is taken in first.
    pub(crate) fn click(&mut self, spot: Spot) -> Option<Wish> {
        if self.sheet.busy.is_some() {
            return None;
        }
        let rows = self.sheet.rows();
        let place = match spot {
            Spot::Row(index) => rows.get(index).map(|row| row.key),
            _ => None,
        };
        let change = match (spot, place) {
            (Spot::Item(index), _) => self.form.click_item(index, &rows),
            (_, Some(place)) if self.form.is_editing() && place == *self.form.focus() => None,
            (_, Some(place)) if self.form.is_editing() => {
                let change = self.form.leave_text(&rows);
                let wish = change.and_then(|change| self.apply(change));
                if self.form.is_browsing() {
                    self.form.go_to(place);
                }
                return wish;
            }
            (_, Some(place)) => self.form.click(&place, &rows),
            _ => None,
        };
        self.apply(change?)
    }

    pub(crate) fn wheel(&mut self, up: bool) {
        self.form.wheel(up, &self.sheet.rows());
    }

    fn apply(&mut self, change: Change<Entry>) -> Option<Wish> {
        self.sheet.failure = None;
        match change {
            Change::Said(Entry::Server, text) => match self.sheet.set_server(&text) {
                Ok(wish) => {
                    self.form.go_to(self.first_missing());
                    wish
                }
                Err(problem) => {
                    self.form.refuse(problem.to_string());
                    None
                }
            },
            Change::Said(entry, text) => {
                self.sheet.say(entry, text);
                let entered = self.form.is_editing() && self.form.is_entered();
                self.form.accept(&self.sheet.rows());
                match entry {
                    // The last thing that was asked for: nobody wants to press the button, too.
                    Entry::Password | Entry::Token if entered => self.press(Entry::LogIn),
                    Entry::Code if entered => self.press(Entry::Answer),
                    _ => None,
                }
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
                let more = matches!(self.sheet.connection, Connection::Asking(_));
                self.form.go_to(if more { Entry::Refuse } else { self.first_missing() });
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

    /// The addresses showed their certificates, or could not be reached.
    pub(crate) fn probed(
        &mut self,
        addresses: &[Address],
        shown: Vec<Result<Shown, String>>,
    ) -> Option<Wish> {
        if !self.is_at(addresses) {
            return None;
        }
        let wish = self.sheet.judge(addresses, shown);
        match self.sheet.connection {
            // What is asked for must not be answered by a key that was meant for something else.
            Connection::Asking(_) | Connection::Changed(..) => self.form.go_to(Entry::Refuse),
            // The reason is read where the focus is.
            Connection::Failed(_) if self.form.is_browsing() => self.form.go_to(Entry::Server),
            _ => {}
        }
        wish
    }

    pub(crate) fn realms(&mut self, addresses: &[Address], realms: Result<Vec<Domain>, String>) {
        if self.is_at(addresses) {
            self.sheet.take_realms(realms);
            // What kept somebody from going on is over.
            if *self.form.focus() == Entry::LogIn {
                self.form.go_to(Entry::LogIn);
            }
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
