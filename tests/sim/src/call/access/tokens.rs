//! API tokens.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::users::find;
use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::world::World;
use crate::world::access::Token;
use crate::world::access::User;

fn described(token: &Token) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("privsep".to_owned(), json!(u8::from(token.separate)));
    entry.insert("expire".to_owned(), json!(token.expire));
    if let Some(comment) = &token.comment {
        entry.insert("comment".to_owned(), json!(comment));
    }
    entry
}

/// A user's tokens as a list; null when there is none.
pub(super) fn listed(user: &User) -> Value {
    if user.tokens.is_empty() {
        return Value::Null;
    }
    let entries = user.tokens.iter().map(|(name, token)| {
        let mut entry = described(token);
        entry.insert("tokenid".to_owned(), json!(name));
        Value::Object(entry)
    });
    entries.collect()
}

/// A user's tokens by name; null when there is none.
pub(super) fn by_name(user: &User) -> Value {
    if user.tokens.is_empty() {
        return Value::Null;
    }
    let entries = user.tokens.iter();
    entries.map(|(name, token)| (name.clone(), Value::Object(described(token)))).collect()
}

/// `GET /access/users/{userid}/token`.
pub(super) fn list(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let user = find(world, request.get("userid").unwrap_or_default())?;
    let listed = listed(user);
    Ok(Answer::data(if listed.is_null() { json!([]) } else { listed }))
}

/// `GET /access/users/{userid}/token/{tokenid}`.
pub(super) fn get(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let user = find(world, request.get("userid").unwrap_or_default())?;
    let token = user.tokens.get(request.get("tokenid").unwrap_or_default());
    let token = token.ok_or_else(|| missing(request))?;
    Ok(Answer::data(Value::Object(described(token))))
}

fn missing(request: Request<'_>) -> Died {
    let (user, name) = (request.get("userid"), request.get("tokenid"));
    let (user, name) = (user.unwrap_or_default(), name.unwrap_or_default());
    Died::new(format!("no such token '{name}' for user '{user}'"))
}

/// `POST /access/users/{userid}/token/{tokenid}`; the only answer that has the secret.
pub(super) fn add(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let id = request.get("userid").unwrap_or_default();
    let name = request.get("tokenid").unwrap_or_default();
    if find(world, id)?.tokens.contains_key(name) {
        return Err(Died::parameter("tokenid", "Token already exists."));
    }
    let secret = world.entropy.uuid();
    let token = Token {
        secret: secret.clone(),
        separate: request.get("privsep") != Some("0"),
        expire: request.get("expire").and_then(|text| text.parse().ok()).unwrap_or_default(),
        comment: request.get("comment").map(str::to_owned),
    };
    // What was given comes back as text.
    let mut info = json!({"privsep": request.get("privsep").unwrap_or("1")});
    for key in ["expire", "comment"] {
        if let Some(value) = request.get(key) {
            info[key] = json!(value);
        }
    }
    if let Some(user) = world.access.users.get_mut(id) {
        user.tokens.insert(name.to_owned(), token);
    }
    let full = format!("{id}!{name}");
    Ok(Answer::data(json!({"full-tokenid": full, "info": info, "value": secret})))
}

/// `DELETE /access/users/{userid}/token/{tokenid}`.
pub(super) fn remove(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let id = request.get("userid").unwrap_or_default();
    let name = request.get("tokenid").unwrap_or_default();
    find(world, id)?;
    let user = world.access.users.get_mut(id);
    let gone = user.and_then(|user| user.tokens.remove(name));
    gone.map(|_| Answer::data(Value::Null)).ok_or_else(|| missing(request))
}
