//! Accounts.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::factors;
use super::login::confirm;
use super::tokens;
use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::guard;
use crate::world::World;
use crate::world::access::User;

/// What is kept of an account as it was given.
const DETAILS: [&str; 5] = ["comment", "email", "firstname", "lastname", "keys"];

/// The account, or the text that says that there is none.
pub(super) fn find<'a>(world: &'a World, user: &str) -> Result<&'a User, Died> {
    let missing = || Died::new(format!("no such user ('{user}')"));
    world.access.users.get(user).ok_or_else(missing)
}

/// The part that listing and single account have in common.
fn described(user: &User) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("enable".to_owned(), json!(u8::from(user.enabled)));
    entry.insert("expire".to_owned(), json!(user.expire));
    for (key, value) in &user.details {
        entry.insert(key.clone(), json!(value));
    }
    // A line of the file is read up to its last field that is not empty.
    if ["comment", "keys"].iter().any(|key| user.details.contains_key(*key)) {
        entry.entry("email").or_insert(json!(""));
    }
    entry
}

/// `GET /access/users`: all to those who look after accounts, to others their own.
pub(super) fn list(world: &World, request: Request<'_>) -> Answer {
    let caller = request.caller;
    let sees_all = ["User.Modify", "Sys.Audit"]
        .iter()
        .any(|privilege| guard::has(world, caller, "/access/groups", privilege));
    let wanted = |user: &User| match request.get("enabled") {
        Some(enabled) => user.enabled == (enabled == "1"),
        None => true,
    };
    let listed = world
        .access
        .users
        .iter()
        .filter(|(id, user)| (sees_all || **id == caller.user) && wanted(user))
        .map(|(id, user)| {
            let mut entry = Value::Object(described(user));
            entry["userid"] = json!(id);
            let realm = id.rsplit('@').next().unwrap_or_default();
            let kind = world.access.realms.get(realm).map_or(realm, |realm| realm.kind.as_str());
            entry["realm-type"] = json!(kind);
            if request.flag("full") {
                entry["groups"] = json!("");
                entry["tokens"] = tokens::listed(user);
            }
            if let Some(factors) = world.access.factors.get(id) {
                factors::locks(world, factors, &mut entry);
            }
            entry
        });
    Answer::data(listed.collect())
}

/// `GET /access/users/{userid}`.
pub(super) fn get(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let user = find(world, request.get("userid").unwrap_or_default())?;
    let mut entry = described(user);
    entry.insert("groups".to_owned(), json!([]));
    entry.insert("tokens".to_owned(), tokens::by_name(user));
    Ok(Answer::data(Value::Object(entry)))
}

fn set(user: &mut User, request: Request<'_>) {
    for key in DETAILS {
        match request.get(key) {
            Some("") => drop(user.details.remove(key)),
            Some(value) => drop(user.details.insert(key.to_owned(), value.to_owned())),
            None => {}
        }
    }
    if let Some(enable) = request.get("enable") {
        user.enabled = enable == "1";
    }
    if let Some(expire) = request.get("expire").and_then(|text| text.parse().ok()) {
        user.expire = expire;
    }
}

/// `POST /access/users`.
pub(super) fn add(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let id = request.get("userid").unwrap_or_default();
    let realm = id.rsplit('@').next().unwrap_or_default();
    if !world.access.realms.contains_key(realm) {
        return Err(Died::new(format!("create user failed: domain '{realm}' does not exist")));
    }
    if world.access.users.contains_key(id) {
        return Err(Died::new(format!("create user failed: user '{id}' already exists")));
    }
    let mut user = User { password: request.get("password").map(str::to_owned), ..User::default() };
    set(&mut user, request);
    world.access.users.insert(id.to_owned(), user);
    Ok(Answer::data(Value::Null))
}

/// `PUT /access/users/{userid}`.
pub(super) fn change(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let id = request.get("userid").unwrap_or_default();
    find(world, id)?;
    if let Some(user) = world.access.users.get_mut(id) {
        set(user, request);
    }
    Ok(Answer::data(Value::Null))
}

/// `DELETE /access/users/{userid}`; rights and factors go too.
pub(super) fn remove(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let id = request.get("userid").unwrap_or_default();
    find(world, id)?;
    world.access.users.remove(id);
    world.access.factors.remove(id);
    world.access.grants.retain(|grant| grant.to.split('!').next() != Some(id));
    Ok(Answer::data(Value::Null))
}

/// `PUT /access/password`.
pub(super) fn password(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let id = request.get("userid").unwrap_or_default();
    find(world, id)?;
    if !request.caller.is_root() {
        let given = request.get("confirmation-password").map(str::to_owned);
        let mut parameters = request.parameters.clone();
        parameters.remove("password");
        if let Some(given) = given {
            parameters.insert("password".to_owned(), given);
        }
        confirm(world, Request { parameters: &parameters, ..request })?;
    }
    if let Some(user) = world.access.users.get_mut(id) {
        user.password = request.get("password").map(str::to_owned);
    }
    Ok(Answer::data(Value::Null))
}
