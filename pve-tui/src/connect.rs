//! From a profile to a client that is logged in: trust first, then the account.

mod trust;

use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use pve_api::ApiToken;
use pve_api::Challenge;
use pve_api::Client;
use pve_api::Domain;
use pve_api::DomainKind;
use pve_api::Error;
use pve_api::Fingerprint;
use pve_api::Login;
use pve_api::Server;
use pve_api::UserId;
use secrecy::ExposeSecret as _;
use secrecy::SecretString;

use crate::profile::Files;
use crate::profile::Profile;
use crate::prompt::Ask;
use trust::Known;

/// Where the server is and who asks.
#[derive(Debug, Clone, Default, clap::Args)]
#[expect(clippy::doc_markdown, reason = "these are the texts of --help")]
pub struct Where {
    /// A server's address, or its name in servers.toml; else PVE_SERVER
    #[arg(long)]
    pub server: Option<String>,
    /// The account, such as root@pam, for a login by password; else PVE_USER
    #[arg(long)]
    pub user: Option<UserId>,
    /// A file with an API token: user@realm!name=secret
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A file with the password
    #[arg(long, value_name = "FILE", conflicts_with = "token_file")]
    pub password_file: Option<PathBuf>,
    /// The SHA-256 fingerprint of the certificate that is accepted
    #[arg(long)]
    pub fingerprint: Option<Fingerprint>,
    /// A PEM file with the authority that signed the certificate
    #[arg(long, value_name = "FILE", conflicts_with = "fingerprint")]
    pub ca_file: Option<PathBuf>,
}

/// Secrets from the environment.
#[derive(Debug, Default)]
pub struct Secrets {
    /// An API token with its secret.
    pub token: Option<SecretString>,
    /// A password.
    pub password: Option<SecretString>,
}

/// Why there is no client.
#[derive(Debug)]
pub enum Refusal {
    /// Something in the input is wrong.
    Input(anyhow::Error),
    /// The server is not reached, not trusted, or does not accept the account.
    Server(anyhow::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) | Self::Server(error) => write!(f, "{error:#}"),
        }
    }
}

enum Account {
    Token(ApiToken),
    Password(UserId, SecretString),
}

/// The realm that is preselected: the node's own accounts, else the one that the administrator
/// wants, else the first in which somebody can log in without a browser.
pub fn preselected(realms: &[Domain]) -> Option<&Domain> {
    let usable = || realms.iter().filter(|realm| realm.takes_passwords());
    usable()
        .find(|realm| realm.kind == Some(DomainKind::Pam))
        .or_else(|| usable().find(|realm| realm.default == Some(true)))
        .or_else(|| usable().next())
}

/// Connects and logs in; asks for what is not known, if there is somebody to ask.
pub async fn connect(
    place: &Where,
    secrets: Secrets,
    files: &Files,
    ask: &mut impl Ask,
) -> Result<Client, Refusal> {
    let profile = profile(place, files).map_err(Refusal::Input)?;
    let known = Known::new(&profile, files).map_err(Refusal::Input)?;
    // Nothing secret is asked for, or sent, before the server is known to be the right one.
    let server = known.trusted(files, ask).await.map_err(Refusal::Server)?;
    let account = account(place, &profile, secrets, ask).map_err(Refusal::Input)?;
    log_in(&server, account, ask).await.map_err(Refusal::Server)
}

fn profile(place: &Where, files: &Files) -> Result<Profile> {
    let mut profile = files.servers()?.choose(place.server.as_deref())?;
    if let Some(fingerprint) = place.fingerprint {
        profile.fingerprints = vec![fingerprint];
        profile.ca_file = None;
    }
    if place.ca_file.is_some() {
        profile.ca_file.clone_from(&place.ca_file);
    }
    Ok(profile)
}

fn account(
    place: &Where,
    profile: &Profile,
    secrets: Secrets,
    ask: &mut impl Ask,
) -> Result<Account> {
    let token = match &place.token_file {
        Some(path) => Some(secret_file(path)?),
        None => secrets.token.filter(|_| place.password_file.is_none()),
    };
    if let Some(token) = token {
        return Ok(Account::Token(token.expose_secret().parse()?));
    }
    let user = match place.user.clone().or_else(|| profile.user.clone()) {
        Some(user) => user,
        None if ask.is_there() => {
            let text = ask.line("User (such as root@pam):")?;
            let text = if text.contains('@') { text } else { format!("{text}@pam") };
            text.parse()?
        }
        None => bail!("which account? give an API token in PVE_TOKEN, or --user and a password"),
    };
    let password = match &place.password_file {
        Some(path) => secret_file(path)?,
        None => match secrets.password {
            Some(password) => password,
            None if ask.is_there() => ask.secret(&format!("Password of {user}:"))?,
            None => bail!("the password of {user} is neither in PVE_PASSWORD nor in a file"),
        },
    };
    Ok(Account::Password(user, password))
}

/// The text of a file without its last line end.
fn secret_file(path: &PathBuf) -> Result<SecretString> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(SecretString::from(text.trim_end_matches(['\r', '\n']).to_owned()))
}

async fn log_in(server: &Server, account: Account, ask: &mut impl Ask) -> Result<Client> {
    let (user, password) = match account {
        Account::Token(token) => return Ok(server.token(&token)),
        Account::Password(user, password) => (user, password),
    };
    let hidden = || {
        format!(
            "{user} was not let in, and the server does not say whether the user, the realm, the \
             password or the second factor is wrong"
        )
    };
    match server.login(&user, &password).await {
        Ok(Login::Done(client)) => Ok(client),
        Ok(Login::SecondFactor(challenge)) => second_factor(&challenge, ask).await,
        Err(error @ Error::Unauthorized { .. }) => Err(error).with_context(hidden),
        Err(error) => Err(error.into()),
    }
}

/// One try: a wrong code counts against the account, and the right one works only once.
async fn second_factor(challenge: &Challenge, ask: &mut impl Ask) -> Result<Client> {
    if let Some(advice) = challenge.offered().advice() {
        bail!("{advice}");
    }
    if !ask.is_there() {
        bail!(
            "{} needs a second factor, for which nobody can be asked: scripts use an API token, in \
             PVE_TOKEN or --token-file",
            challenge.user()
        );
    }
    let offered = challenge.offered();
    let answered = if offered.totp {
        challenge.totp(secrecy_text(&ask.secret("Code of the second factor:")?)).await
    } else if offered.yubico {
        challenge.yubico(secrecy_text(&ask.secret("Yubico one-time password:")?)).await
    } else {
        challenge.recovery(secrecy_text(&ask.secret("Recovery key:")?)).await
    };
    answered.context("the second factor was not accepted")
}

fn secrecy_text(secret: &SecretString) -> &str {
    secret.expose_secret()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_realm_of_the_node_is_preselected_and_others_can_be_chosen() {
        let realms = |text: &str| serde_json::from_str::<Vec<Domain>>(text).unwrap();
        let name = |realms: &[Domain]| preselected(realms).map(|realm| realm.realm.to_string());
        let all = realms(
            r#"[{"realm":"corp","type":"openid"},{"realm":"ldap1","type":"ldap","default":1},
                {"realm":"pam","type":"pam"},{"realm":"pve","type":"pve"}]"#,
        );
        assert_eq!(name(&all).as_deref(), Some("pam"));
        assert_eq!(name(&all[..2]).as_deref(), Some("ldap1"));
        assert_eq!(name(&all[3..]).as_deref(), Some("pve"));
        assert_eq!(name(&all[..1]), None, "a browser is needed there");
    }
    #[test]
    fn the_page_of_the_specification_preselects_the_realm_that_we_do() {
        let page = include_str!("../../pve-provision/src/create/tests/specification/wizard.md");
        let default = page.lines().find(|line| line.starts_with("Default: ")).unwrap();
        let named = default.trim_start_matches("Default: The ").split(' ').next().unwrap();
        let realms: Vec<Domain> = serde_json::from_str(
            r#"[{"realm":"corp","type":"ldap","default":1},{"realm":"pve","type":"pve"},
                {"realm":"pam","type":"pam"}]"#,
        )
        .unwrap();
        let ours = preselected(&realms).unwrap();
        assert_eq!(ours.realm.to_string(), named.to_lowercase(), "{default}");
        let screens = page.find("#### ").unwrap();
        assert!(page.find(default).unwrap() < screens, "it is the login's");
    }
}
