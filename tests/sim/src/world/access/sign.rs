//! Tickets and the tokens against forged requests.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::Digest;
use sha2::Sha256;

use super::Access;

/// How far the clock of whoever signed may be ahead, in seconds.
const AHEAD: u64 = 300;

/// A signed text is as long as one of the RSA key that a cluster has.
const SIGNATURE: usize = 256;

/// The key that everything is signed with.
///
/// A signature can also be taught: a recorded session is then replayed with its own tickets.
#[derive(Debug, Clone)]
pub struct Signer {
    secret: String,
    taught: BTreeMap<String, String>,
}

/// What a good ticket proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The user, or `!tfa!` and the challenge in a ticket that still lacks a second factor.
    pub text: String,
    /// When it was made.
    pub issued: u64,
}

impl Signer {
    /// The same secret signs the same.
    pub fn new(secret: &str) -> Self {
        Self { secret: secret.to_owned(), taught: BTreeMap::new() }
    }

    fn sign(&self, text: &str, length: usize) -> Vec<u8> {
        let blocks = (0_u8..).flat_map(|block| {
            let mut hash = Sha256::new();
            hash.update([block]);
            hash.update(self.secret.as_bytes());
            hash.update([0]);
            hash.update(text.as_bytes());
            hash.finalize().to_vec()
        });
        blocks.take(length).collect()
    }

    fn ticket_signature(&self, plain: &str, bound_to: &str) -> String {
        let text = format!("{plain}\n{bound_to}");
        let taught = self.taught.get(&text).cloned();
        taught.unwrap_or_else(|| STANDARD.encode(self.sign(&text, SIGNATURE)))
    }

    fn request_signature(&self, time: &str, user: &str) -> String {
        let text = format!("{time}:{user}");
        let taught = self.taught.get(&text).cloned();
        taught.unwrap_or_else(|| STANDARD_NO_PAD.encode(self.sign(&text, 32)))
    }

    /// Learns the ticket and the token that another cluster gave to a user.
    pub fn teach(&mut self, user: &str, ticket: &str, token: &str) {
        if let Some((plain, signature)) = ticket.split_once("::") {
            let bound_to = if plain.starts_with("PVE:!tfa!") { user } else { "" };
            self.taught.insert(format!("{plain}\n{bound_to}"), signature.to_owned());
        }
        if let Some((time, signature)) = token.split_once(':') {
            self.taught.insert(format!("{time}:{user}"), signature.to_owned());
        }
    }
}

impl Access {
    /// Makes a ticket; one for a second factor is bound to its user without naming him.
    pub fn ticket(&self, text: &str, bound_to: &str, now: u64) -> String {
        let plain = format!("PVE:{}:{now:08X}", text.replace(':', "%3A"));
        let signature = self.signer.ticket_signature(&plain, bound_to);
        format!("{plain}::{signature}")
    }

    /// Checks a ticket; nothing when it is forged, too old, or from the future.
    pub fn verify(&self, ticket: &str, bound_to: &str, now: u64) -> Option<Proof> {
        let (plain, signature) = ticket.split_once("::")?;
        let (head, time) = plain.rsplit_once(':')?;
        let text = head.strip_prefix("PVE:")?;
        let issued = u64::from_str_radix(time, 16).ok().filter(|_| time.len() == 8)?;
        let young = now <= issued.saturating_add(self.lifetime);
        let passed = issued <= now.saturating_add(AHEAD);
        let genuine = self.signer.ticket_signature(plain, bound_to) == signature;
        (young && passed && genuine).then(|| Proof { text: text.replace("%3A", ":"), issued })
    }

    /// Makes the token that goes with every change by ticket.
    pub fn request_token(&self, user: &str, now: u64) -> String {
        let time = format!("{now:08X}");
        let signature = self.signer.request_signature(&time, user);
        format!("{time}:{signature}")
    }

    /// Whether a token was made for this user, not too long ago.
    pub fn is_request_token(&self, token: &str, user: &str, now: u64) -> bool {
        let Some((time, signature)) = token.split_once(':') else { return false };
        let Ok(issued) = u64::from_str_radix(time, 16) else { return false };
        now <= issued.saturating_add(self.lifetime)
            && issued <= now.saturating_add(AHEAD)
            && self.signer.request_signature(time, user) == signature
    }
}

#[cfg(test)]
mod tests {
    use super::super::Access;

    #[test]
    fn a_ticket_is_good_for_its_user_and_for_its_time() {
        let access = Access::default();
        let ticket = access.ticket("a@pve", "", 10_000);
        assert_eq!(access.verify(&ticket, "", 17_200).unwrap().text, "a@pve");
        assert_eq!(access.verify(&ticket, "", 17_201), None);
        assert_eq!(access.verify(&ticket, "", 9_699), None);
        assert_eq!(access.verify(&ticket.replace("a@", "b@"), "", 10_000), None);
        let half = access.ticket("!tfa!{\"totp\":true}", "a@pve", 10_000);
        assert!(half.starts_with("PVE:!tfa!{\"totp\"%3Atrue}:00002710::"));
        assert_eq!(access.verify(&half, "a@pve", 10_000).unwrap().text, "!tfa!{\"totp\":true}");
        assert_eq!(access.verify(&half, "b@pve", 10_000), None);
        let token = access.request_token("a@pve", 10_000);
        assert!(access.is_request_token(&token, "a@pve", 10_001));
        assert!(!access.is_request_token(&token, "b@pve", 10_001));
    }
}
