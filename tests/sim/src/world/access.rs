//! Who may do what: users, realms, tokens, second factors, roles and the list of rights.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::World;
use crate::schema::Release;

mod factor;
mod sign;
mod totp;

pub use factor::Entry;
pub use factor::Factor;
pub use factor::Factors;
pub use factor::Recovery;
pub use sign::Proof;
pub use sign::Signer;
pub use totp::Totp;

/// The superuser.
pub const ROOT: &str = "root@pam";

/// Everything that says who may do what.
#[derive(Debug, Clone)]
pub struct Access {
    /// By `name@realm`.
    pub users: BTreeMap<String, User>,
    /// By name.
    pub realms: BTreeMap<String, Realm>,
    /// Roles that are granted on paths.
    pub grants: Vec<Grant>,
    /// Second factors by user.
    pub factors: BTreeMap<String, Factors>,
    /// The key that tickets are signed with.
    pub signer: Signer,
    /// For how many seconds a ticket is good.
    pub lifetime: u64,
}

/// Somebody who may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The password, in plain text; nothing here is worth hiding.
    pub password: Option<String>,
    /// Whether the account is on.
    pub enabled: bool,
    /// Seconds since the epoch; 0 is never.
    pub expire: u64,
    /// `comment`, `email`, `firstname`, `lastname`, `keys` as they were given.
    pub details: BTreeMap<String, String>,
    /// API tokens by name.
    pub tokens: BTreeMap<String, Token>,
}

/// An API token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its secret.
    pub secret: String,
    /// Whether it has rights of its own only.
    pub separate: bool,
    /// Seconds since the epoch; 0 is never.
    pub expire: u64,
    /// What it is for.
    pub comment: Option<String>,
}

/// Where users come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Realm {
    /// `pam`, `pve` ….
    pub kind: String,
    /// What the login page shows.
    pub comment: Option<String>,
    /// Whether it is preselected.
    pub default: bool,
    /// The second factor that everybody needs, as the option is written: `type=oath`.
    pub tfa: Option<String>,
}

/// A role on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// `/vms/100`.
    pub path: String,
    /// `user@realm` or `user@realm!token`.
    pub to: String,
    /// The role.
    pub role: String,
    /// Whether it holds below the path too.
    pub propagate: bool,
}

impl Default for User {
    fn default() -> Self {
        Self {
            password: None,
            enabled: true,
            expire: 0,
            details: BTreeMap::new(),
            tokens: BTreeMap::new(),
        }
    }
}

impl User {
    /// An enabled account with this password.
    pub fn with_password(password: &str) -> Self {
        Self { password: Some(password.to_owned()), ..Self::default() }
    }
}

impl Realm {
    fn new(kind: &str, comment: &str) -> Self {
        Self { kind: kind.to_owned(), comment: Some(comment.to_owned()), default: false, tfa: None }
    }

    /// The type in the `tfa` option: `oath` or `yubico`.
    pub fn factor(&self) -> Option<&str> {
        self.tfa.as_deref()?.split(',').find_map(|part| part.strip_prefix("type="))
    }
}

impl Default for Access {
    /// Root without a password and the two realms that always exist.
    fn default() -> Self {
        Self {
            users: BTreeMap::from([(ROOT.to_owned(), User::default())]),
            realms: BTreeMap::from([
                ("pam".to_owned(), Realm::new("pam", "Linux PAM standard authentication")),
                ("pve".to_owned(), Realm::new("pve", "Proxmox VE authentication server")),
            ]),
            grants: Vec::new(),
            factors: BTreeMap::new(),
            signer: Signer::new("pve-sim"),
            lifetime: 7200,
        }
    }
}

impl Access {
    /// Grants a role, below the path too.
    pub fn grant(&mut self, path: &str, to: &str, role: &str) {
        self.grants.push(Grant {
            path: path.to_owned(),
            to: to.to_owned(),
            role: role.to_owned(),
            propagate: true,
        });
    }

    /// Adds an API token.
    pub fn token(&mut self, user: &str, name: &str, secret: &str, separate: bool) {
        let token = Token { secret: secret.to_owned(), separate, expire: 0, comment: None };
        if let Some(user) = self.users.get_mut(user) {
            user.tokens.insert(name.to_owned(), token);
        }
    }

    /// The account if it may be used now.
    pub fn usable(&self, user: &str, now: u64) -> Option<&User> {
        let found = self.users.get(user)?;
        (found.enabled && (found.expire == 0 || found.expire > now)).then_some(found)
    }
}

/// Roles by release, with their privileges.
type Roles = BTreeMap<String, BTreeMap<String, String>>;

static ROLES: LazyLock<Roles> = LazyLock::new(|| {
    // Part of the binary; every test of a right reads it.
    serde_json::from_str(include_str!("../../facts/roles.json")).unwrap_or_default()
});

/// The built-in roles of a release, by name, privileges separated by commas.
pub fn roles(release: Release) -> Option<&'static BTreeMap<String, String>> {
    ROLES.get(match release {
        Release::V9_2 => "9.2",
        Release::V8_4 => "8.4",
    })
}

/// Privileges on a path; the value says whether they hold below it too.
pub type Privileges = BTreeMap<String, bool>;

impl World {
    /// What a user or token may do at a path.
    pub fn privileges(&self, who: &str, path: &str) -> Privileges {
        let Some((user, name)) = who.split_once('!') else { return self.of_user(who, path) };
        let separate = self
            .access
            .users
            .get(user)
            .and_then(|user| user.tokens.get(name))
            .is_none_or(|token| token.separate);
        let mut granted = self.of_user(user, path);
        if separate {
            let own = self.of_grants(who, path);
            granted.retain(|privilege, propagate| match own.get(privilege) {
                Some(own) => {
                    *propagate &= own;
                    true
                }
                None => false,
            });
        }
        granted
    }

    fn of_user(&self, user: &str, path: &str) -> Privileges {
        if user == ROOT {
            return self.of_role("Administrator", true);
        }
        self.of_grants(user, path)
    }

    fn of_role(&self, role: &str, propagate: bool) -> Privileges {
        let privileges = roles(self.release).and_then(|roles| roles.get(role));
        let names = privileges.map(String::as_str).unwrap_or_default().split(',');
        names.filter(|name| !name.is_empty()).map(|name| (name.to_owned(), propagate)).collect()
    }

    fn of_grants(&self, who: &str, path: &str) -> Privileges {
        let mut roles = self.roles_at(who, path);
        if !roles.contains_key("NoAccess")
            && let Some(pool) = self.pool_of_path(path)
        {
            for (role, _) in self.roles_at(who, &format!("/pool/{pool}")) {
                roles.entry(role).or_insert(false);
            }
        }
        if roles.contains_key("NoAccess") {
            return Privileges::new();
        }
        let mut privileges = Privileges::new();
        for (role, propagate) in roles {
            for (privilege, propagate) in self.of_role(&role, propagate) {
                let known = privileges.entry(privilege).or_default();
                *known |= propagate;
            }
        }
        privileges
    }

    /// The roles at a path: those of the nearest path above that grants any and lets them through.
    fn roles_at(&self, who: &str, path: &str) -> BTreeMap<String, bool> {
        let mut found = BTreeMap::new();
        for above in prefixes(path) {
            let here: BTreeMap<String, bool> = self
                .access
                .grants
                .iter()
                .filter(|grant| grant.to == who && grant.path == above)
                .filter(|grant| grant.propagate || above == path)
                .map(|grant| (grant.role.clone(), grant.propagate))
                .collect();
            if !here.is_empty() {
                found = here;
            }
        }
        found
    }

    /// The pool that a guest or a storage is in.
    fn pool_of_path(&self, path: &str) -> Option<&str> {
        let member = |pool: &super::Pool| match path.split_once("/vms/") {
            Some(("", vmid)) => vmid.parse().is_ok_and(|vmid| pool.guests.contains(&vmid)),
            _ => path.strip_prefix("/storage/").is_some_and(|name| pool.storages.contains(name)),
        };
        self.pools.iter().find(|(_, pool)| member(pool)).map(|(name, _)| name.as_str())
    }

    /// Paths that the list of rights speaks of, with the top of each branch.
    pub fn permission_paths(&self) -> BTreeSet<String> {
        const TOP: [&str; 9] = [
            "/",
            "/access",
            "/access/groups",
            "/mapping",
            "/nodes",
            "/pool",
            "/sdn",
            "/storage",
            "/vms",
        ];
        let mut paths: BTreeSet<String> = TOP.iter().map(|path| (*path).to_owned()).collect();
        paths.extend(self.access.grants.iter().map(|grant| grant.path.clone()));
        for (name, pool) in &self.pools {
            paths.insert(format!("/pool/{name}"));
            paths.extend(pool.guests.iter().map(|vmid| format!("/vms/{vmid}")));
            paths.extend(pool.storages.iter().map(|storage| format!("/storage/{storage}")));
        }
        paths
    }
}

/// `/`, `/a`, `/a/b` for `/a/b`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let inner = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|part| !part.is_empty());
    let own = (path != "/").then_some(path);
    std::iter::once("/").chain(inner).chain(own)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::World;

    #[test]
    fn a_nearer_grant_replaces_a_farther_one_and_a_pool_adds_to_both() {
        let mut world = World::new(&[("pve1", Ipv4Addr::LOCALHOST)], 0);
        world.access.grant("/", "a@pve", "PVEAuditor");
        world.access.grant("/vms/100", "a@pve", "PVEVMUser");
        world.access.grant("/pool/web", "b@pve", "PVEVMAdmin");
        world.pools.entry("web".to_owned()).or_default().guests.insert(101);
        let may = |who: &str, path: &str, privilege: &str| {
            world.privileges(who, path).contains_key(privilege)
        };
        assert!(may("a@pve", "/vms/101", "Sys.Audit") && !may("a@pve", "/vms/100", "Sys.Audit"));
        assert!(may("a@pve", "/vms/100", "VM.PowerMgmt"));
        assert!(may("b@pve", "/vms/101", "VM.Allocate") && !may("b@pve", "/vms/102", "VM.Audit"));
        assert!(may("root@pam", "/anything", "Sys.Modify"));
        assert!(!may("root@pam!none", "/", "Sys.Audit"));
    }
}
