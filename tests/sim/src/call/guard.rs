//! Whether a caller may make a call, by the table of rights.
//!
//! `facts/rights.json` says of each endpoint which privileges it asks for on which path, whether a
//! token may call it, and whether the privileged daemon answers it.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::call::Caller;
use crate::call::Died;
use crate::schema::Parameters;
use crate::schema::Release;
use crate::world::World;

#[derive(Debug, Deserialize)]
struct Right {
    #[serde(default)]
    protected: bool,
    #[serde(default = "yes")]
    token: bool,
    #[serde(default)]
    permissions: Value,
}

fn yes() -> bool {
    true
}

static RIGHTS: LazyLock<HashMap<String, Right>> = LazyLock::new(|| {
    // Part of the binary; without it nothing is allowed, and every test fails.
    serde_json::from_str(include_str!("../../facts/rights.json")).unwrap_or_default()
});

/// Whether the privileged daemon answers this: its answers close and keep the connection at once.
pub fn is_protected(endpoint: &str) -> bool {
    RIGHTS.get(endpoint).is_some_and(|right| right.protected)
}

/// Whether anybody may call this, logged in or not.
pub fn is_open(endpoint: &str) -> bool {
    RIGHTS.get(endpoint).is_some_and(|right| right.permissions["user"] == "world")
}

/// Refuses a caller who lacks what the endpoint asks for.
pub(super) fn check(
    world: &World,
    caller: &Caller,
    endpoint: &str,
    path: &str,
    parameters: &Parameters,
) -> Result<(), Died> {
    let Some(right) = RIGHTS.get(endpoint) else { return Ok(()) };
    if !right.token && caller.user.contains('!') {
        return Err(forbidden(&format!(
            "URI '{path}' not available with API token, need proper ticket.\n"
        )));
    }
    if caller.is_root() || right.permissions.get("user").is_some() {
        return Ok(());
    }
    let Some(rule) = right.permissions.get("check") else { return Err(forbidden("")) };
    test(world, caller, rule, parameters)
}

/// The refusal in the words of the API; without details it names none.
pub(super) fn forbidden(details: &str) -> Died {
    let text = match details {
        "" => "Permission check failed".to_owned(),
        details => format!("Permission check failed ({details})"),
    };
    Died { status: 403, ..Died::new(text) }
}

/// Refuses unless the caller has the privilege on the path.
pub(super) fn require(
    world: &World,
    caller: &Caller,
    path: &str,
    privilege: &str,
) -> Result<(), Died> {
    if has(world, caller, path, privilege) {
        return Ok(());
    }
    Err(forbidden(&format!("{path}, {privilege}")))
}

/// Refuses unless the caller has one of the privileges on the path.
pub(super) fn require_any(
    world: &World,
    caller: &Caller,
    path: &str,
    privileges: &[&str],
) -> Result<(), Died> {
    if privileges.iter().any(|privilege| has(world, caller, path, privilege)) {
        return Ok(());
    }
    Err(forbidden(&format!("{path}, {}", privileges.join("|"))))
}

/// Whether the caller has the privilege on the path.
pub(super) fn has(world: &World, caller: &Caller, path: &str, privilege: &str) -> bool {
    caller.is_root() || world.privileges(&caller.user, path).contains_key(privilege)
}

fn test(world: &World, caller: &Caller, rule: &Value, parameters: &Parameters) -> Result<(), Died> {
    let parts = rule.as_array().map(Vec::as_slice).unwrap_or_default();
    let Some((Value::String(kind), rest)) = parts.split_first() else { return Err(forbidden("")) };
    let get = |name: &str| parameters.get(name).map(String::as_str).unwrap_or_default();
    match (kind.as_str(), rest) {
        ("and", rules) => rules.iter().try_for_each(|rule| test(world, caller, rule, parameters)),
        ("or", rules) => {
            let any = rules.iter().any(|rule| test(world, caller, rule, parameters).is_ok());
            if any { Ok(()) } else { Err(forbidden("")) }
        }
        ("perm", [path, privileges, options @ ..]) => {
            let path = fill(path.as_str().unwrap_or_default(), parameters);
            let privileges = names(world.release, privileges);
            let one_is_enough = options.first().is_some_and(|option| option == "any");
            let privileges: Vec<&str> = privileges.iter().map(String::as_str).collect();
            if one_is_enough {
                return require_any(world, caller, &path, &privileges);
            }
            privileges.iter().try_for_each(|privilege| require(world, caller, &path, privilege))
        }
        ("perm-modify", _) => require(world, caller, get("path"), "Permissions.Modify"),
        ("userid-param", [Value::String(wanted), ..]) => {
            if wanted == "self" {
                let own = caller.user == get("userid");
                return if own { Ok(()) } else { Err(forbidden("")) };
            }
            let realm = get("userid").rsplit('@').next().unwrap_or_default();
            require(world, caller, &format!("/access/realm/{realm}"), wanted)
        }
        ("userid-group", [privileges, ..]) => {
            let privileges = names(world.release, privileges);
            let privileges: Vec<&str> = privileges.iter().map(String::as_str).collect();
            // The refusal names no path here.
            let any = require_any(world, caller, "/access/groups", &privileges);
            if any.is_ok() { Ok(()) } else { Err(forbidden("")) }
        }
        _ => Err(forbidden("")),
    }
}

/// The names in a rule; what the agent asks for was one privilege before release 9.
fn names(release: Release, privileges: &Value) -> Vec<String> {
    let names = privileges.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut names: Vec<String> =
        names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if release == Release::V8_4 && names.iter().any(|name| name.starts_with("VM.GuestAgent")) {
        names = vec!["VM.Monitor".to_owned()];
    }
    names
}

/// Puts the parameters into a path.
fn fill(template: &str, parameters: &Parameters) -> String {
    let parts: Vec<&str> = template
        .split('/')
        .map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => parameters.get(name).map(String::as_str).unwrap_or_default(),
            None => part,
        })
        .collect();
    parts.join("/")
}
