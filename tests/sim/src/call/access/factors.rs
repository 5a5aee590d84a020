//! Second factors: asked for at a login, and kept by users.

use serde_json::Value;
use serde_json::json;

use super::login::confirm;
use super::users::find;
use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::guard;
use crate::world::World;
use crate::world::access::Entry;
use crate::world::access::Factor;
use crate::world::access::Factors;
use crate::world::access::Recovery;
use crate::world::access::Totp;

/// How many recovery keys a set has.
const KEYS: usize = 10;

/// What marks a user in `user.cfg` whose factors are kept elsewhere.
const MARK: &str = "x";

fn realm_factor(world: &World, user: &str) -> Option<String> {
    let realm = user.rsplit('@').next().unwrap_or_default();
    world.access.realms.get(realm).and_then(|realm| realm.factor()).map(str::to_owned)
}

/// A realm that asks for a factor takes keys of the old kind over when their owner logs in.
fn take_over_old_keys(world: &mut World, user: &str) -> Factors {
    let mut factors = world.access.factors.get(user).cloned().unwrap_or_default();
    let Some(kind) = realm_factor(world, user) else { return factors };
    let keys = world.access.users.get(user).and_then(|user| user.details.get("keys")).cloned();
    for (index, key) in keys.iter().flat_map(|keys| keys.split(' ')).enumerate() {
        let description = format!("<old userconfig key {index}>");
        let factor = match kind.as_str() {
            "yubico" => Factor::Yubico(key.to_owned()),
            _ if key.len() < 16 => continue,
            _ => match Totp::new(key) {
                Some(totp) => Factor::Totp(totp, None),
                None => continue,
            },
        };
        if factors.entries.iter().any(|entry| entry.description == description) {
            continue;
        }
        let id = world.entropy.uuid();
        factors.entries.push(Entry { id, description, created: world.now, enabled: true, factor });
    }
    factors
}

/// The first call's part: the challenge, if a factor is asked for.
pub(super) fn first(
    world: &mut World,
    user: &str,
    answer: Option<&str>,
) -> Result<Option<String>, &'static str> {
    let mut factors = take_over_old_keys(world, user);
    let realm = realm_factor(world, user);
    if realm.as_deref() == Some("yubico") {
        let recovery = factors.recovery_left().map(|left| {
            let left: Vec<String> = left.iter().map(ToString::to_string).collect();
            format!(r#","recovery":[{}]"#, left.join(","))
        });
        return Ok(Some(format!(r#"{{"yubico":true{}}}"#, recovery.unwrap_or_default())));
    }
    check_kind(realm.as_deref(), answer)?;
    let challenge = factors.challenge();
    if realm.is_some() && challenge.is_none() {
        return Err("missing required 2nd keys");
    }
    let Some(answer) = answer else { return Ok(challenge) };
    if challenge.is_none() {
        return Err("no such challenge");
    }
    // The answer counts, and is used up, yet the challenge is put all the same.
    let right = factors.answer(answer, world.now);
    world.access.factors.insert(user.to_owned(), factors);
    if right { Ok(challenge) } else { Err("failed 2nd factor") }
}

/// The second call: the answer to the challenge in a half ticket.
pub(super) fn second(
    world: &mut World,
    user: &str,
    answer: &str,
    ticket: &str,
) -> Result<(), &'static str> {
    let realm = realm_factor(world, user);
    check_kind(realm.as_deref(), Some(answer))?;
    let proof = world.access.verify(ticket, user, world.now);
    if !proof.is_some_and(|proof| proof.text.starts_with("!tfa!")) {
        return Err("invalid ticket");
    }
    let mut factors = take_over_old_keys(world, user);
    let right = factors.answer(answer, world.now);
    world.access.factors.insert(user.to_owned(), factors);
    if right { Ok(()) } else { Err("failed 2nd factor") }
}

/// A realm that asks for one kind takes that kind and recovery keys.
fn check_kind(realm: Option<&str>, answer: Option<&str>) -> Result<(), &'static str> {
    let (Some(realm), Some(answer)) = (realm, answer) else { return Ok(()) };
    let Some((kind, _)) = answer.split_once(':') else { return Err("bad otp response") };
    let wanted = if realm == "oath" { "totp" } else { realm };
    if kind == wanted || kind == "recovery" { Ok(()) } else { Err("another factor is required") }
}

fn described(entry: &Entry) -> Value {
    let mut described = json!({
        "id": entry.id, "type": entry.kind(), "description": entry.description,
        "created": entry.created,
    });
    if !entry.enabled {
        described["enable"] = json!(0);
    }
    described
}

fn described_recovery(recovery: &Recovery) -> Value {
    json!({"id": "recovery", "type": "recovery", "created": recovery.created})
}

fn entries(factors: &Factors) -> Vec<Value> {
    let recovery = factors.recovery.iter().map(described_recovery);
    recovery.chain(factors.entries.iter().map(described)).collect()
}

/// `GET /access/tfa`: those that the caller may see.
pub(super) fn all(world: &World, request: Request<'_>) -> Answer {
    let caller = request.caller;
    let sees_all = ["User.Modify", "Sys.Audit"]
        .iter()
        .any(|privilege| guard::has(world, caller, "/access/groups", privilege));
    let listed = world
        .access
        .factors
        .iter()
        .filter(|(user, factors)| !factors.is_empty() && (sees_all || **user == caller.user))
        .map(|(user, factors)| {
            let mut entry = json!({"userid": user, "entries": entries(factors)});
            locks(world, factors, &mut entry);
            entry
        });
    Answer::data(listed.collect())
}

/// Says of a user that his factors are locked.
pub(super) fn locks(world: &World, factors: &Factors, entry: &mut Value) {
    if factors.totp_locked {
        entry["totp-locked"] = json!(1);
    }
    if let Some(until) = factors.locked_until.filter(|_| factors.is_locked(world.now)) {
        entry["tfa-locked-until"] = json!(until);
    }
}

/// `GET /access/tfa/{userid}`.
pub(super) fn of_user(world: &World, request: Request<'_>) -> Answer {
    let found = world.access.factors.get(request.get("userid").unwrap_or_default());
    Answer::data(found.map(entries).unwrap_or_default().into())
}

/// `GET /access/tfa/{userid}/{id}`.
pub(super) fn get(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let id = request.get("id").unwrap_or_default();
    let found = world.access.factors.get(request.get("userid").unwrap_or_default());
    let entry = found.and_then(|factors| match id {
        "recovery" => factors.recovery.as_ref().map(described_recovery),
        _ => factors.entries.iter().find(|entry| entry.id == id).map(described),
    });
    let missing = || Died { status: 404, ..Died::new(format!("No such tfa entry '{id}'")) };
    entry.map(Answer::data).ok_or_else(missing)
}

/// `GET /access/users/{userid}/tfa`, in the words that older clients know.
pub(super) fn kinds(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let user = request.get("userid").unwrap_or_default();
    find(world, user)?;
    let empty = Factors::default();
    let factors = world.access.factors.get(user).unwrap_or(&empty);
    let mut kinds: Vec<&str> = factors.entries.iter().map(Entry::kind).collect();
    kinds.dedup();
    if request.flag("multiple") {
        if factors.recovery.is_some() {
            // As the recorded release fails.
            let place = "/usr/share/perl5/PVE/API2/User.pm line 640.";
            return Err(Died::new(format!("Not an ARRAY reference at {place}")));
        }
        return Ok(Answer::data(json!({"user": kinds})));
    }
    let mut data = json!({});
    if let Some(kind) = realm_factor(world, user) {
        data["realm"] = json!(kind);
    }
    match kinds.first() {
        Some(&"totp") => data["user"] = json!("oath"),
        None if factors.recovery.is_none() => {}
        _ => data["user"] = json!("incompatible"),
    }
    Ok(Answer::data(data))
}

/// `PUT /access/users/{userid}/unlock-tfa`.
pub(super) fn unlock(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let user = request.get("userid").unwrap_or_default();
    find(world, user)?;
    let factors = world.access.factors.get_mut(user).filter(|factors| !factors.is_empty());
    let factors = factors.ok_or_else(|| Died::new("no such user"))?;
    Ok(Answer::data(json!(u8::from(factors.unlock()))))
}

fn mark(world: &mut World, user: &str) {
    if let Some(found) = world.access.users.get_mut(user) {
        found.details.insert("keys".to_owned(), MARK.to_owned());
    }
}

/// `POST /access/tfa/{userid}`.
pub(super) fn add(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let user = request.get("userid").unwrap_or_default().to_owned();
    confirm(world, request)?;
    find(world, &user)?;
    mark(world, &user);
    match request.get("type") {
        Some("recovery") => add_recovery(world, request, &user),
        Some("totp") => add_totp(world, request, &user),
        other => {
            let kind = other.unwrap_or_default();
            Err(Died::new(format!("pve-sim: factors of type '{kind}' are not simulated")))
        }
    }
}

fn add_recovery(world: &mut World, request: Request<'_>, user: &str) -> Result<Answer, Died> {
    if ["value", "totp", "challenge", "description"].iter().any(|name| request.get(name).is_some())
    {
        let text = "generating recovery tokens does not allow additional parameters";
        return Err(Died::new(text));
    }
    if world.access.factors.get(user).is_some_and(|factors| factors.recovery.is_some()) {
        return Err(Died::new("user already has recovery keys"));
    }
    let keys: Vec<String> = (0..KEYS).map(|_| recovery_key(world)).collect();
    let recovery = Recovery { keys: keys.iter().cloned().map(Some).collect(), created: world.now };
    world.access.factors.entry(user.to_owned()).or_default().recovery = Some(recovery);
    Ok(Answer::data(json!({"id": "recovery", "recovery": keys})))
}

/// Four groups of four digits.
fn recovery_key(world: &mut World) -> String {
    let number = world.entropy.number();
    let groups = [48, 32, 16, 0].map(|shift| format!("{:04x}", number >> shift & 0xffff));
    groups.join("-")
}

fn add_totp(world: &mut World, request: Request<'_>, user: &str) -> Result<Answer, Died> {
    let (Some(uri), Some(value)) = (request.get("totp"), request.get("value")) else {
        return Err(Died::new("'totp' type requires both 'totp' and 'value' parameters"));
    };
    let Some(description) = request.get("description") else {
        return Err(Died::new("'description' is required for new entries"));
    };
    let totp = Totp::from_uri(uri).ok_or_else(|| Died::new("not an otpauth uri"))?;
    if totp.matching(value, world.now).is_none() {
        return Err(Died::new("failed to verify TOTP challenge"));
    }
    let id = world.entropy.uuid();
    let entry = Entry::totp(&id, description, totp, world.now);
    world.access.factors.entry(user.to_owned()).or_default().entries.push(entry);
    Ok(Answer::data(json!({"id": id})))
}

/// `PUT /access/tfa/{userid}/{id}`.
pub(super) fn change(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    confirm(world, request)?;
    let id = request.get("id").unwrap_or_default();
    let factors = world.access.factors.get_mut(request.get("userid").unwrap_or_default());
    let entry = factors
        .and_then(|factors| factors.entries.iter_mut().find(|entry| entry.id == id))
        .ok_or_else(|| Died::new("no such entry"))?;
    if let Some(description) = request.get("description") {
        description.clone_into(&mut entry.description);
    }
    if let Some(enable) = request.get("enable") {
        entry.enabled = enable == "1";
    }
    Ok(Answer::data(json!("")))
}

/// `DELETE /access/tfa/{userid}/{id}`.
pub(super) fn remove(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    confirm(world, request)?;
    let user = request.get("userid").unwrap_or_default();
    let id = request.get("id").unwrap_or_default();
    let missing = || Died::new("no such entry");
    let factors = world.access.factors.get_mut(user).ok_or_else(missing)?;
    if id == "recovery" {
        factors.recovery.take().ok_or_else(missing)?;
    } else {
        let place = factors.entries.iter().position(|entry| entry.id == id);
        factors.entries.remove(place.ok_or_else(missing)?);
    }
    if factors.is_empty() {
        world.access.factors.remove(user);
        if let Some(found) = world.access.users.get_mut(user) {
            found.details.remove("keys");
        }
    }
    Ok(Answer::data(Value::Null))
}
