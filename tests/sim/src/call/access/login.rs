//! From a password and perhaps a second factor to a ticket, and from a ticket to a caller.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::factors;
use crate::call::Answer;
use crate::call::Caller;
use crate::call::Died;
use crate::call::Method;
use crate::call::Request;
use crate::schema::Release;
use crate::world::World;
use crate::world::access::ROOT;

/// Sections of the summary of rights, with the beginnings of the privileges that each shows.
const SECTIONS: [(&str, &[&str]); 7] = [
    ("vms", &["VM.", "Permissions.Modify"]),
    ("access", &["User.", "Group.", "Permissions.Modify"]),
    ("storage", &["Datastore.", "Permissions.Modify"]),
    ("nodes", &["Sys.", "Permissions.Modify"]),
    ("sdn", &["SDN.", "Permissions.Modify"]),
    ("dc", &["Sys.Audit", "Sys.Modify", "SDN."]),
    ("mapping", &["Mapping.", "Permissions.Modify"]),
];

/// What a call brings along to show who makes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Approach<'a> {
    /// The cookie's value, as it was sent.
    pub cookie: Option<&'a str>,
    /// The header `Authorization`.
    pub authorization: Option<&'a str>,
    /// The header `CSRFPreventionToken`.
    pub token: Option<&'a str>,
    /// Whether the call is an upload, which needs no such header.
    pub upload: bool,
}

/// Why a call is not even looked at: the reason phrase of a 401.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

impl Refused {
    fn new(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Finds out who calls; the caller's node is the one that was asked.
pub fn authenticate(
    world: &World,
    node: &str,
    method: Method,
    approach: Approach<'_>,
) -> Result<Caller, Refused> {
    let caller = |user: &str| Caller { user: user.to_owned(), node: node.to_owned() };
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let header = approach.authorization.unwrap_or_default();
    if approach.cookie.is_none()
        && let Some(token) = token_of(header)
    {
        return by_token(world, &decode(token)).map(|user| caller(&user));
    }
    let ticket = approach.cookie.or_else(|| header.strip_prefix("PVEAuthCookie="));
    let Some(ticket) = ticket.map(decode).filter(|ticket| !ticket.is_empty()) else {
        return Err(Refused::new("No ticket"));
    };
    let refusal = || {
        Refused::new(match world.release {
            Release::V9_2 => "Authentication failed!",
            Release::V8_4 => "permission denied - invalid PVE ticket",
        })
    };
    let proof = world.access.verify(&ticket, "", world.now).ok_or_else(refusal)?;
    if proof.text.starts_with('!') || world.access.usable(&proof.text, world.now).is_none() {
        return Err(refusal());
    }
    if method != Method::Get && !approach.upload {
        let token = approach.token.unwrap_or_default();
        if !world.access.is_request_token(token, &proof.text, world.now) {
            return Err(Refused::new("Permission denied - invalid csrf token"));
        }
    }
    Ok(caller(&proof.text))
}

fn token_of(header: &str) -> Option<&str> {
    let rest = header.strip_prefix("PVEAPIToken")?;
    rest.strip_prefix('=').or_else(|| rest.strip_prefix(' '))
}

fn by_token(world: &World, text: &str) -> Result<String, Refused> {
    // Later releases say the same whatever is wrong.
    let refused = |old: String| match world.release {
        Release::V9_2 => Refused::new("Authentication failed!"),
        Release::V8_4 => Refused(old),
    };
    let (id, secret) = text.rsplit_once('=').unwrap_or((text, ""));
    let Some((user, name)) = id.split_once('!') else {
        return Err(refused("no tokenid specified".to_owned()));
    };
    let found = world.access.usable(user, world.now).and_then(|user| user.tokens.get(name));
    let Some(token) = found else {
        return Err(refused(format!("no such token '{name}' for user '{user}'")));
    };
    if token.secret != secret || (token.expire != 0 && token.expire <= world.now) {
        return Err(refused("invalid token value!".to_owned()));
    }
    Ok(id.to_owned())
}

/// `POST /access/ticket`; every failure looks the same from outside.
pub(super) fn login(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let mut user = request.get("username").unwrap_or_default().to_owned();
    if let Some(realm) = request.get("realm").filter(|realm| !realm.is_empty()) {
        user = format!("{user}@{realm}");
    }
    let challenge = match enter(world, request, &user) {
        Ok(challenge) => challenge,
        Err(why) => {
            tracing::info!(user, why, "a login fails");
            return Err(Died { status: 401, ..Died::new("authentication failure") });
        }
    };
    let mut data = Map::new();
    data.insert("username".to_owned(), json!(user));
    if request.get("path").is_none() {
        let ticket = match &challenge {
            Some(challenge) => world.access.ticket(&format!("!tfa!{challenge}"), &user, world.now),
            None => world.access.ticket(&user, "", world.now),
        };
        data.insert("ticket".to_owned(), json!(ticket));
        let token = world.access.request_token(&user, world.now);
        data.insert("CSRFPreventionToken".to_owned(), json!(token));
    }
    if challenge.is_some() {
        data.insert("NeedTFA".to_owned(), json!(1));
        return Ok(Answer::data(Value::Object(data)));
    }
    data.insert("cap".to_owned(), rights(world, &user));
    if let Some(cluster) = &world.cluster
        && world.privileges(&user, "/").contains_key("Sys.Audit")
    {
        data.insert("clustername".to_owned(), json!(cluster.name));
    }
    Ok(Answer::data(Value::Object(data)))
}

/// Lets a user in, or says what his second factor is to be; errors go to a log only.
fn enter(
    world: &mut World,
    request: Request<'_>,
    user: &str,
) -> Result<Option<String>, &'static str> {
    let password = request.get("password").unwrap_or_default();
    let otp = request.get("otp");
    let challenge = request.get("tfa-challenge").filter(|text| !text.is_empty());
    if let Some(path) = request.get("path") {
        let privileges = request.get("privs").unwrap_or_default();
        return may(world, user, password, path, privileges).map(|()| None);
    }
    if otp.is_some() && challenge.is_some() {
        return Err("the answer to a challenge is the password, not the code");
    }
    if challenge.is_none() && renews(world, user, password) {
        return Ok(None);
    }
    world.access.usable(user, world.now).ok_or("no such user, or not now")?;
    if let Some(challenge) = challenge {
        return factors::second(world, user, password, challenge).map(|()| None);
    }
    check_password(world, user, password)?;
    factors::first(world, user, otp)
}

fn check_password(world: &World, user: &str, password: &str) -> Result<(), &'static str> {
    let found = world.access.usable(user, world.now).ok_or("no such user, or not now")?;
    let right = found.password.as_deref() == Some(password) && !password.is_empty();
    if right { Ok(()) } else { Err("invalid credentials") }
}

/// Whether the password is a ticket that is good for this user.
fn renews(world: &World, user: &str, password: &str) -> bool {
    let proof = world.access.verify(password, "", world.now);
    proof.is_some_and(|proof| {
        (proof.text == user || proof.text == ROOT) && world.access.users.contains_key(user)
    })
}

/// A password together with the question whether its owner may do something.
fn may(
    world: &World,
    user: &str,
    password: &str,
    path: &str,
    privileges: &str,
) -> Result<(), &'static str> {
    let by_ticket =
        world.access.verify(password, "", world.now).is_some_and(|proof| proof.text == user);
    if !by_ticket {
        check_password(world, user, password)?;
    }
    let granted = world.privileges(user, path);
    let all = privileges.split([',', ';', ' ']).all(|name| granted.contains_key(name));
    if all { Ok(()) } else { Err("not permitted") }
}

/// The password of whoever calls, which changes to accounts ask for; root's ticket is enough.
pub(super) fn confirm(world: &World, request: Request<'_>) -> Result<(), Died> {
    if request.caller.is_root() {
        return Ok(());
    }
    let Some(password) = request.get("password") else {
        return Err(Died::parameter("password", "password is required to modify user"));
    };
    check_password(world, &request.caller.user, password).map_err(|why| Died::new(why.to_owned()))
}

/// The summary that enables buttons: what a user may do somewhere.
fn rights(world: &World, user: &str) -> Value {
    let mut sections: BTreeMap<&str, Map<String, Value>> =
        SECTIONS.iter().map(|(name, _)| (*name, Map::new())).collect();
    for path in world.permission_paths() {
        for privilege in world.privileges(user, &path).into_keys() {
            for (name, starts) in SECTIONS {
                if starts.iter().any(|start| privilege.starts_with(start)) {
                    let section = sections.entry(name).or_default();
                    section.insert(privilege.clone(), json!(1));
                }
            }
        }
    }
    json!(sections)
}
