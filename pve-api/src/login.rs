//! Logging in: realms, password, second factor.
//!
//! The server hides why it refuses, holds every refusal back for three seconds, and locks a second
//! factor after eight wrong codes; so nothing here tries anything twice.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::access::Domain;
use crate::client::Auth;
use crate::client::Client;
use crate::endpoint;
use crate::error::Call;
use crate::error::Error;
use crate::error::Result;
use crate::id::InvalidId;
use crate::id::TokenId;
use crate::id::UserId;
use crate::lenient;
use crate::list::List;
use crate::request::Parameters;
use crate::request::Request;
use crate::session::Session;
use crate::session::secret_header;
use crate::transport::Credential;
use crate::transport::Settings;
use crate::transport::SettingsError;
use crate::transport::Transport;

/// A server to which nobody has logged in yet.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use pve_api::{Login, Server, Settings, Trust};
///
/// let server = Server::new(&Settings::new("pve1.example.org".parse()?, Trust::System))?;
/// let client = match server.login(&"root@pam".parse()?, &"password".to_owned().into()).await? {
///     Login::Done(client) => client,
///     Login::SecondFactor(challenge) => challenge.totp("012345").await?,
/// };
/// println!("{}", client.version().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Server {
    transport: Arc<Transport>,
}

impl Server {
    /// Sets the connection up; nothing is sent yet.
    pub fn new(settings: &Settings) -> Result<Self, SettingsError> {
        Ok(Self { transport: Arc::new(Transport::new(settings)?) })
    }

    /// Lists the realms in which somebody can log in, sorted by name.
    ///
    /// `GET /access/domains`. Needs no login.
    pub async fn realms(&self) -> Result<List<Domain>> {
        let client = Client::new(Arc::clone(&self.transport), Auth::Nobody);
        let mut realms = client.list(Request::new(&endpoint::DOMAINS, &[])).await?;
        realms.items.sort_by(|a: &Domain, b: &Domain| a.realm.cmp(&b.realm));
        Ok(realms)
    }

    /// Logs in with a password.
    ///
    /// `POST /access/ticket`. Any refusal is [`Error::Unauthorized`], after three seconds.
    pub async fn login(&self, user: &UserId, password: &SecretString) -> Result<Login> {
        Ok(match ask(&self.transport, user, password, None).await? {
            Outcome::Granted(granted) => Login::Done(self.session(user, &granted)?),
            Outcome::Challenged(half) => Login::SecondFactor(Challenge {
                server: self.clone(),
                user: user.clone(),
                offered: Factors::read(half.expose_secret()),
                half_ticket: half,
            }),
        })
    }

    /// A client with an API token: no session, no renewal, no second factor.
    pub fn token(&self, token: &ApiToken) -> Client {
        Client::new(Arc::clone(&self.transport), Auth::Token(token.id.clone(), token.header()))
    }

    fn session(&self, user: &UserId, granted: &Granted) -> Result<Client> {
        let session = Session::new(user.clone(), granted).ok_or_else(|| Error::Decode {
            call: Request::new(&endpoint::TICKET, &[]).call,
            path: "data.ticket".to_owned(),
            problem: "not fit for a header".to_owned(),
        })?;
        Ok(Client::new(Arc::clone(&self.transport), Auth::Session(Arc::new(session))))
    }
}

/// How far a login has come.
#[derive(Debug)]
pub enum Login {
    /// All the way.
    Done(Client),
    /// The password is right; now a second factor is asked for.
    SecondFactor(Challenge),
}

/// A login that waits for its second factor.
///
/// It cannot make calls: the server refuses its half ticket everywhere else. It may be answered
/// again after a wrong code, for about an hour, but every wrong code counts: eight in a row lock
/// TOTP, a hundred lock the account's factors for an hour.
#[derive(Clone)]
pub struct Challenge {
    server: Server,
    user: UserId,
    offered: Factors,
    half_ticket: SecretString,
}

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenge")
            .field("user", &self.user)
            .field("offered", &self.offered)
            .finish_non_exhaustive()
    }
}

/// The second factors that an account has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Factors {
    /// A code that changes every 30 seconds.
    pub totp: bool,
    /// The numbers of the recovery keys that are not used up; `None` if there never were any.
    pub recovery: Option<Vec<u64>>,
    /// A Yubico one-time password.
    pub yubico: bool,
    /// A security key in a browser, which this crate cannot speak to.
    pub webauthn: bool,
    /// Kinds that this crate does not know.
    pub other: Vec<String>,
}

impl Factors {
    /// Reads the JSON inside a half ticket, `PVE:!tfa!{…}:time::signature`.
    fn read(half_ticket: &str) -> Self {
        let json = half_ticket
            .strip_prefix("PVE:!tfa!")
            .and_then(|rest| rest.split_once("::"))
            .and_then(|(head, _)| head.rsplit_once(':'))
            .map(|(json, _)| percent_decode_str(json).decode_utf8_lossy());
        let mut factors = Self::default();
        let offered: Value =
            json.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
        let Value::Object(offered) = offered else { return factors };
        for (kind, detail) in offered {
            let there = !matches!(detail, Value::Null | Value::Bool(false));
            match (kind.as_str(), detail) {
                ("totp", _) => factors.totp = there,
                ("recovery", Value::Array(keys)) => {
                    factors.recovery = Some(keys.iter().filter_map(Value::as_u64).collect());
                }
                ("yubico", _) => factors.yubico = there,
                ("webauthn" | "u2f", _) => factors.webauthn |= there,
                _ => factors.other.push(kind),
            }
        }
        factors
    }

    /// Whether [`Challenge`] can answer with any of them.
    pub fn answerable(&self) -> bool {
        self.totp || self.yubico || self.recovery.as_ref().is_some_and(|keys| !keys.is_empty())
    }

    /// What to tell a person whose factors cannot be used outside a browser.
    pub fn advice(&self) -> Option<&'static str> {
        if self.answerable() {
            None
        } else if self.webauthn {
            Some(
                "this account's second factor needs a browser: use an API token, or add a TOTP factor",
            )
        } else {
            Some("this account has no second factor left that can be used here: use an API token")
        }
    }
}

impl Challenge {
    /// Whose login this is.
    pub fn user(&self) -> &UserId {
        &self.user
    }

    /// With what it can be answered.
    pub fn offered(&self) -> &Factors {
        &self.offered
    }

    /// Answers with a TOTP code; blanks in it are dropped. A code works once only.
    pub async fn totp(&self, code: &str) -> Result<Client> {
        let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
        self.answer("totp", &code).await
    }

    /// Answers with a recovery key, such as `1234-abcd-5678-ef90`, which is used up by that.
    pub async fn recovery(&self, key: &str) -> Result<Client> {
        // The keys are made in lower case, and the server compares exactly.
        self.answer("recovery", &key.trim().to_lowercase()).await
    }

    /// Answers with a Yubico one-time password.
    pub async fn yubico(&self, password: &str) -> Result<Client> {
        self.answer("yubico", password.trim()).await
    }

    async fn answer(&self, kind: &str, answer: &str) -> Result<Client> {
        let password = SecretString::from(format!("{kind}:{answer}"));
        let transport = &self.server.transport;
        match ask(transport, &self.user, &password, Some(&self.half_ticket)).await? {
            Outcome::Granted(granted) => self.server.session(&self.user, &granted),
            Outcome::Challenged(_) => Err(Error::Decode {
                call: Request::new(&endpoint::TICKET, &[]).call,
                path: "data.ticket".to_owned(),
                problem: "a second challenge after the second factor".to_owned(),
            }),
        }
    }
}

/// An API token with its secret, `user@realm!name=secret`.
#[derive(Clone)]
pub struct ApiToken {
    id: TokenId,
    header: http::HeaderValue,
}

/// A text that is not an API token. It does not repeat the text, which may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not an API token (user@realm!name=secret)")]
pub struct InvalidToken;

impl ApiToken {
    /// A token from its name and its secret.
    pub fn new(id: TokenId, secret: &SecretString) -> Result<Self, InvalidToken> {
        let secret = secret.expose_secret().trim();
        if secret.is_empty() || secret.contains(['=', ' ', '%']) {
            return Err(InvalidToken);
        }
        // The server takes everything before the last '=' as the name, and decodes percent signs.
        let name =
            percent_encoding::utf8_percent_encode(id.user().user(), crate::request::RESERVED);
        let text = format!("PVEAPIToken={name}@{}!{}={secret}", id.user().realm(), id.name());
        let header = secret_header(&text).ok_or(InvalidToken)?;
        Ok(Self { id, header })
    }

    /// The token's name.
    pub fn id(&self) -> &TokenId {
        &self.id
    }

    fn header(&self) -> Credential {
        Credential::Token(self.header.clone())
    }
}

impl FromStr for ApiToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let (id, secret) = text.trim().rsplit_once('=').ok_or(InvalidToken)?;
        let id: Result<TokenId, InvalidId> = id.trim_start_matches("PVEAPIToken=").parse();
        Self::new(id.or(Err(InvalidToken))?, &SecretString::from(secret.to_owned()))
    }
}

impl fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiToken({})", self.id)
    }
}

/// A full ticket and the token against cross-site requests that belongs to it.
pub(crate) struct Granted {
    pub(crate) ticket: SecretString,
    pub(crate) csrf: SecretString,
}

/// What the server gives for a password.
pub(crate) enum Outcome {
    Granted(Granted),
    Challenged(SecretString),
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    ticket: SecretString,
    #[serde(rename = "CSRFPreventionToken", default)]
    csrf: SecretString,
    #[serde(rename = "NeedTFA", default, deserialize_with = "lenient::value")]
    need_second_factor: Option<bool>,
}

/// Asks for a ticket with a password, a ticket to renew, or the answer to a challenge.
pub(crate) async fn ask(
    transport: &Transport,
    user: &UserId,
    password: &SecretString,
    challenge: Option<&SecretString>,
) -> Result<Outcome> {
    let request = request(user, password, challenge);
    let answer = transport.send(&request, None, transport.timeouts.login).await?;
    let body = answer.success(&request)?;
    read(&request.call, &body)
}

/// `POST /access/ticket`, never with `otp`: a right code there is used up, and a half ticket comes
/// back all the same.
pub(crate) fn request(
    user: &UserId,
    password: &SecretString,
    challenge: Option<&SecretString>,
) -> Request {
    let mut parameters = Parameters::default();
    parameters.set("username", user);
    parameters.secret("password", password);
    if let Some(half_ticket) = challenge {
        parameters.secret("tfa-challenge", half_ticket);
    }
    Request::new(&endpoint::TICKET, &[]).with(parameters)
}

pub(crate) fn read(call: &Call, body: &[u8]) -> Result<Outcome> {
    // What the decoder complains about could be the ticket itself.
    let Ok(Answer { data }) = serde_json::from_slice(body) else {
        return Err(Error::Decode {
            call: call.clone(),
            path: "data".to_owned(),
            problem: "no ticket".to_owned(),
        });
    };
    let half = data.ticket.expose_secret().starts_with("PVE:!tfa!");
    Ok(if half || data.need_second_factor == Some(true) {
        Outcome::Challenged(data.ticket)
    } else {
        Outcome::Granted(Granted { ticket: data.ticket, csrf: data.csrf })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_ticket_says_which_factors_it_takes() {
        let read = |json: &str| Factors::read(&format!("PVE:!tfa!{json}:6B0D8E60::KbWI+/=="));
        let both = read(r#"{"totp"%3Atrue,"recovery"%3A[0,2,9]}"#);
        assert!(both.totp && both.answerable() && both.advice().is_none());
        assert_eq!(both.recovery, Some(vec![0, 2, 9]));
        let used_up = read(r#"{"recovery"%3A[]}"#);
        assert!(!used_up.answerable());
        insta::assert_snapshot!(used_up.advice().unwrap(), @"this account has no second factor left that can be used here: use an API token");
        let browser = read(r#"{"webauthn"%3A{"publicKey"%3A{"challenge"%3A"x"}}}"#);
        insta::assert_snapshot!(browser.advice().unwrap(), @"this account's second factor needs a browser: use an API token, or add a TOTP factor");
        let escaped = read("%7B%22yubico%22%3Atrue%2C%22new%22%3A1%7D");
        assert!(escaped.yubico);
        assert_eq!(escaped.other, ["new"]);
        assert_eq!(Factors::read("rubbish"), Factors::default());
    }

    #[test]
    fn a_token_is_read_whole_and_never_shown() {
        let token: ApiToken = "root@pam!ci=11112222-3333-4444-5555-666677778888".parse().unwrap();
        assert_eq!(token.id().to_string(), "root@pam!ci");
        assert_eq!(format!("{token:?}"), "ApiToken(root@pam!ci)");
        assert!(!format!("{:?}", token.header).contains("1111"));
        for bad in ["", "root@pam!ci", "root@pam=1111", "root@pam!ci=", "root@pam!ci=a b"] {
            let error = bad.parse::<ApiToken>().unwrap_err();
            assert_eq!(error.to_string(), "not an API token (user@realm!name=secret)");
        }
    }
}
