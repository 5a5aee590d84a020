//! Identifiers of accounts and API tokens.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use super::InvalidId;
use super::Realm;

/// An account, `user@realm`.
///
/// The user part may itself contain `@`; the realm is what follows the last one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserId {
    user: String,
    realm: Realm,
}

impl UserId {
    /// Puts an account together from what a person typed and the realm that was chosen.
    pub fn new(user: &str, realm: Realm) -> Result<Self, InvalidId> {
        let whole = format!("{user}@{realm}");
        let bad = |c: char| c.is_whitespace() || c == ':' || c == '/';
        if user.is_empty() || user.contains(bad) || whole.chars().count() > 64 {
            return Err(InvalidId { text: whole, wanted: "an account (user@realm)" });
        }
        Ok(Self { user: user.to_owned(), realm })
    }

    /// The name within the realm.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The realm.
    pub fn realm(&self) -> &Realm {
        &self.realm
    }
}

impl FromStr for UserId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = || InvalidId { text: without_secret(text), wanted: "an account (user@realm)" };
        let (user, realm) = text.rsplit_once('@').ok_or_else(wrong)?;
        Self::new(user, realm.parse().ok().ok_or_else(wrong)?)
    }
}

/// A text for a message: what stands behind a `=` is a token's secret.
fn without_secret(text: &str) -> String {
    text.split_once('=').map_or(text.to_owned(), |(name, _)| format!("{name}=…"))
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.realm)
    }
}

/// The name of an API token, `user@realm!name`, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId {
    user: UserId,
    name: String,
}

impl TokenId {
    /// The account to which the token belongs.
    pub fn user(&self) -> &UserId {
        &self.user
    }

    /// The token's own name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for TokenId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong =
            || InvalidId { text: without_secret(text), wanted: "an API token (user@realm!name)" };
        let (user, name) = text.rsplit_once('!').ok_or_else(wrong)?;
        // A token's name follows the same grammar as a realm's.
        let name: Realm = name.parse().ok().ok_or_else(wrong)?;
        Ok(Self { user: user.parse().ok().ok_or_else(wrong)?, name: name.to_string() })
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}!{}", self.user, self.name)
    }
}

macro_rules! as_text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

as_text!(UserId);
as_text!(TokenId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_and_tokens_are_parted_at_their_last_mark() {
        let user: UserId = "jane@example.org@ldap".parse().unwrap();
        assert_eq!((user.user(), user.realm().as_str()), ("jane@example.org", "ldap"));
        let token: TokenId = "root@pam!ci".parse().unwrap();
        assert_eq!((token.user().to_string().as_str(), token.name()), ("root@pam", "ci"));
        for bad in ["", "root", "@pam", "a b@pam", "a:b@pam", "a/b@pam"] {
            assert!(bad.parse::<UserId>().is_err(), "{bad}");
        }
        assert!("root@pam".parse::<TokenId>().is_err());
    }
}
