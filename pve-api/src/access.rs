//! Accounts: realms, and what a login may do.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::client::Client;
use crate::endpoint;
use crate::error::Result;
use crate::id::Realm;
use crate::record::record;
use crate::record::words;
use crate::request::Parameters;
use crate::request::Request;

record! {
    /// An authentication realm.
    Domain {
        /// Its name.
        "realm" realm: Realm,
    }
    optional {
        /// How it checks a password.
        "type" kind: DomainKind,
        /// What people call it.
        "comment" comment: String,
        /// Whether the administrator wants it preselected.
        "default" default: bool,
        /// The second factor that the realm demands of everybody.
        "tfa" second_factor: String,
    }
}

words! {
    /// How a realm checks a password.
    DomainKind {
        /// The node's own accounts.
        Pam = "pam",
        /// Accounts of Proxmox VE itself.
        Pve = "pve",
        /// Microsoft Active Directory.
        ActiveDirectory = "ad",
        /// LDAP.
        Ldap = "ldap",
        /// `OpenID` Connect, which needs a browser.
        OpenId = "openid",
    }
}

impl Domain {
    /// Whether somebody can log in here with a password, that is, without a browser.
    pub fn takes_passwords(&self) -> bool {
        self.kind != Some(DomainKind::OpenId)
    }
}

/// The privileges of an account, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions(BTreeMap<String, BTreeMap<String, bool>>);

impl Permissions {
    /// The privileges that the account has on `path`.
    ///
    /// A path that the server did not list takes what the nearest listed parent passes on. If in
    /// doubt (pools, for instance, give rights on their members), ask
    /// [`Client::permissions_on`] about the path itself.
    pub fn on(&self, path: &str) -> BTreeSet<&str> {
        if let Some(granted) = self.0.get(path) {
            return granted.keys().map(String::as_str).collect();
        }
        let mut parent = path;
        while parent != "/" && !parent.is_empty() {
            parent = match parent.rsplit_once('/') {
                Some(("", _)) | None => "/",
                Some((above, _)) => above,
            };
            if let Some(granted) = self.0.get(parent) {
                let passed_on = granted.iter().filter(|(_, propagates)| **propagates);
                return passed_on.map(|(name, _)| name.as_str()).collect();
            }
        }
        BTreeSet::new()
    }

    /// Whether the account has `privilege` on `path`.
    pub fn has(&self, privilege: &str, path: &str) -> bool {
        self.on(path).contains(privilege)
    }

    /// The paths that the server listed.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl<'de> serde::Deserialize<'de> for Permissions {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The value is whether the right is passed on to what lies below; having the key is
        // having the privilege. An account without any right may come as an empty list.
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Shape {
            Map(BTreeMap<String, BTreeMap<String, Flag>>),
            Nothing([(); 0]),
        }
        #[derive(serde::Deserialize)]
        struct Flag(#[serde(deserialize_with = "crate::lenient::value")] bool);

        Ok(Self(match Shape::deserialize(deserializer)? {
            Shape::Map(paths) => paths
                .into_iter()
                .map(|(path, granted)| {
                    (path, granted.into_iter().map(|(name, flag)| (name, flag.0)).collect())
                })
                .collect(),
            Shape::Nothing([]) => BTreeMap::new(),
        }))
    }
}

impl Client {
    /// Reads what the account itself may do, on the paths that matter to the server.
    ///
    /// `GET /access/permissions`.
    pub async fn permissions(&self) -> Result<Permissions> {
        self.get(permissions(None)).await
    }

    /// Reads what the account itself may do on `path`, such as `/vms/100`.
    ///
    /// `GET /access/permissions?path=…`.
    pub async fn permissions_on(&self, path: &str) -> Result<Permissions> {
        self.get(permissions(Some(path))).await
    }
}

pub(crate) fn permissions(path: Option<&str>) -> Request {
    let mut parameters = Parameters::default();
    parameters.maybe("path", path);
    Request::new(&endpoint::PERMISSIONS, &[]).with(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_privilege_counts_by_its_presence_and_is_passed_on_by_its_value() {
        let permissions: Permissions = serde_json::from_str(
            r#"{"/":{"Sys.Audit":0,"VM.Audit":1},"/vms/100":{"VM.Config.Disk":"0"}}"#,
        )
        .unwrap();
        assert!(permissions.has("Sys.Audit", "/"));
        assert!(!permissions.has("Sys.Audit", "/nodes/pve1"));
        assert!(permissions.has("VM.Audit", "/vms/4242"));
        assert!(permissions.has("VM.Config.Disk", "/vms/100"));
        assert!(!permissions.has("VM.Audit", "/vms/100"), "a listed path says all of it");
        let none: Permissions = serde_json::from_str("[]").unwrap();
        assert_eq!(none, serde_json::from_str("{}").unwrap());
        assert!(none.on("/vms/1").is_empty());
    }
}
