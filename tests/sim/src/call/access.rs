//! Logging in, and who may do what.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::guard;
use crate::world::World;
use crate::world::access::ROOT;
use crate::world::access::roles;

mod factors;
mod login;
mod tokens;
mod users;

pub use login::Approach;
pub use login::Refused;
pub use login::authenticate;

/// Answers the endpoints below `/access`.
pub(super) fn dispatch(
    world: &mut World,
    endpoint: &str,
    request: Request<'_>,
) -> Option<Result<Answer, Died>> {
    Some(match endpoint {
        "GET /access" => Ok(index()),
        "GET /access/ticket" => Ok(Answer::data(Value::Null)),
        "POST /access/ticket" => login::login(world, request),
        "GET /access/domains" => Ok(domains(world)),
        "GET /access/domains/{realm}" => domain(world, request),
        "PUT /access/domains/{realm}" => change_domain(world, request),
        "GET /access/permissions" => permissions(world, request),
        "GET /access/roles" => Ok(role_list(world)),
        "GET /access/acl" => Ok(grants(world, request)),
        "PUT /access/acl" => change_grants(world, request),
        "PUT /access/password" => users::password(world, request),
        "GET /access/users" => Ok(users::list(world, request)),
        "POST /access/users" => users::add(world, request),
        "GET /access/users/{userid}" => users::get(world, request),
        "PUT /access/users/{userid}" => users::change(world, request),
        "DELETE /access/users/{userid}" => users::remove(world, request),
        "GET /access/users/{userid}/tfa" => factors::kinds(world, request),
        "PUT /access/users/{userid}/unlock-tfa" => factors::unlock(world, request),
        "GET /access/users/{userid}/token" => tokens::list(world, request),
        "GET /access/users/{userid}/token/{tokenid}" => tokens::get(world, request),
        "POST /access/users/{userid}/token/{tokenid}" => tokens::add(world, request),
        "DELETE /access/users/{userid}/token/{tokenid}" => tokens::remove(world, request),
        "GET /access/tfa" => Ok(factors::all(world, request)),
        "GET /access/tfa/{userid}" => Ok(factors::of_user(world, request)),
        "POST /access/tfa/{userid}" => factors::add(world, request),
        "GET /access/tfa/{userid}/{id}" => factors::get(world, request),
        "PUT /access/tfa/{userid}/{id}" => factors::change(world, request),
        "DELETE /access/tfa/{userid}/{id}" => factors::remove(world, request),
        _ => return None,
    })
}

fn index() -> Answer {
    let names = [
        "users",
        "groups",
        "roles",
        "acl",
        "domains",
        "openid",
        "tfa",
        "ticket",
        "password",
        "permissions",
    ];
    Answer::data(names.iter().map(|name| json!({"subdir": name})).collect())
}

fn domains(world: &World) -> Answer {
    let entries = world.access.realms.iter().map(|(name, realm)| {
        let mut entry = json!({"realm": name, "type": realm.kind});
        if let Some(comment) = &realm.comment {
            entry["comment"] = json!(comment);
        }
        if realm.default {
            entry["default"] = json!(1);
        }
        if let Some(kind) = realm.factor() {
            entry["tfa"] = json!(kind);
        }
        entry
    });
    Answer::data(entries.collect())
}

fn no_domain(name: &str) -> Died {
    Died::new(format!("domain '{name}' does not exist"))
}

fn domain(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let name = request.get("realm").unwrap_or_default();
    let realm = world.access.realms.get(name).ok_or_else(|| no_domain(name))?;
    let mut entry = json!({"type": realm.kind, "digest": digest(world)});
    if let Some(comment) = &realm.comment {
        entry["comment"] = json!(comment);
    }
    if let Some(tfa) = &realm.tfa {
        entry["tfa"] = json!(tfa);
    }
    Ok(Answer::data(entry))
}

/// The SHA-1 of the realms' file.
fn digest(world: &World) -> String {
    use sha1::Digest;
    hex::encode(sha1::Sha1::digest(format!("{:?}", world.access.realms).as_bytes()))
}

fn change_domain(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let name = request.get("realm").unwrap_or_default();
    let realm = world.access.realms.get_mut(name).ok_or_else(|| no_domain(name))?;
    if let Some(tfa) = request.get("tfa") {
        realm.tfa = Some(tfa.to_owned());
    }
    if let Some(comment) = request.get("comment") {
        realm.comment = Some(comment.to_owned());
    }
    let default = request.flag("default");
    for key in request.get("delete").unwrap_or_default().split(',') {
        match key {
            "tfa" => realm.tfa = None,
            "comment" => realm.comment = None,
            "default" => realm.default = false,
            _ => {}
        }
    }
    if default {
        for (other, realm) in &mut world.access.realms {
            realm.default = other == name;
        }
    }
    Ok(Answer::data(Value::Null))
}

/// What somebody may do, by path.
fn permissions(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let caller = request.caller;
    let who = request.get("userid").unwrap_or(&caller.user);
    let own =
        who == caller.user || who.split_once('!').is_some_and(|(user, _)| user == caller.user);
    if !own {
        guard::require(world, caller, "/access", "Sys.Audit")?;
    }
    let paths = if let Some(path) = request.get("path") {
        [path.to_owned()].into()
    } else {
        let mut paths = world.permission_paths();
        // Never listed unless something is granted there.
        paths.retain(|path| {
            path != "/mapping" || world.access.grants.iter().any(|grant| grant.path == *path)
        });
        paths
    };
    let mut listed = Map::new();
    for path in paths {
        let privileges = world.privileges(who, &path);
        if !privileges.is_empty() {
            let privileges: Map<String, Value> = privileges
                .into_iter()
                .map(|(name, propagate)| (name, json!(u8::from(propagate))))
                .collect();
            listed.insert(path, Value::Object(privileges));
        }
    }
    Ok(Answer::data(Value::Object(listed)))
}

fn role_list(world: &World) -> Answer {
    let known = roles(world.release);
    let roles = known.into_iter().flatten();
    let entries = roles.map(|(name, privs)| json!({"roleid": name, "privs": privs, "special": 1}));
    Answer::data(entries.collect())
}

fn grants(world: &World, request: Request<'_>) -> Answer {
    let all = guard::has(world, request.caller, "/access", "Sys.Audit");
    let shown = |path: &str| all || guard::has(world, request.caller, path, "Permissions.Modify");
    let entries = world.access.grants.iter().filter(|grant| shown(&grant.path)).map(|grant| {
        json!({
            "path": grant.path, "propagate": u8::from(grant.propagate), "roleid": grant.role,
            "type": if grant.to.contains('!') { "token" } else { "user" }, "ugid": grant.to,
        })
    });
    Answer::data(entries.collect())
}

fn change_grants(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let path = request.get("path").unwrap_or_default();
    let list = |name: &str| {
        let text = request.get(name).unwrap_or_default();
        text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let propagate = request.get("propagate") != Some("0");
    for role in list("roles") {
        if !roles(world.release).is_some_and(|roles| roles.contains_key(&role)) {
            return Err(Died::new(format!("role '{role}' does not exist")));
        }
        for to in list("users").into_iter().chain(list("tokens")) {
            let user = to.split('!').next().unwrap_or_default();
            if user != ROOT && !world.access.users.contains_key(user) {
                return Err(Died::new(format!("user '{user}' does not exist")));
            }
            world
                .access
                .grants
                .retain(|grant| grant.path != path || grant.to != to || grant.role != role);
            if !request.flag("delete") {
                world.access.grant(path, &to, &role);
                if let Some(grant) = world.access.grants.last_mut() {
                    grant.propagate = propagate;
                }
            }
        }
    }
    Ok(Answer::data(Value::Null))
}
