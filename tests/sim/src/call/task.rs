//! Tasks as they are asked about.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::guard;
use crate::schema::Release;
use crate::world::Task;
use crate::world::World;

/// How many lines or tasks an answer has when nothing else is asked for.
const LIMIT: usize = 50;

/// Answers the endpoints about tasks.
pub(super) fn dispatch(
    world: &mut World,
    endpoint: &str,
    request: Request<'_>,
) -> Option<Result<Answer, Died>> {
    Some(match endpoint {
        "GET /nodes/{node}/tasks" => Ok(list(world, request)),
        "GET /cluster/tasks" => Ok(recent(world, request)),
        "GET /nodes/{node}/tasks/{upid}" => {
            Ok(Answer::data(json!([{"name": "log"}, {"name": "status"}])))
        }
        "GET /nodes/{node}/tasks/{upid}/status" => status(world, request),
        "GET /nodes/{node}/tasks/{upid}/log" => log(world, request),
        "DELETE /nodes/{node}/tasks/{upid}" => stop(world, request),
        _ => return None,
    })
}

/// The parts of a task's id.
struct Id<'a> {
    node: &'a str,
    pid: u32,
    pstart: u64,
    user: &'a str,
}

fn parse(upid: &str) -> Option<Id<'_>> {
    let parts: Vec<&str> = upid.strip_prefix("UPID:")?.split(':').collect();
    let [node, pid, pstart, _, _, _, user, ""] = parts.as_slice() else { return None };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Id { node, pid: hex(pid)?.try_into().ok()?, pstart: hex(pstart)?, user })
}

fn id(request: Request<'_>) -> Result<(&str, Id<'_>), Died> {
    let upid = request.parameters.get("upid").map_or("", String::as_str);
    let wrong = || Died::parameter("upid", "unable to parse worker upid");
    Ok((upid, parse(upid).ok_or_else(wrong)?))
}

/// One's own tasks may be seen, one's tokens' too; those of others need a right.
fn may_see(world: &World, request: Request<'_>, user: &str) -> Result<(), Died> {
    let caller = &request.caller.user;
    let own = user == caller || user.split('!').next() == Some(caller);
    if own {
        return Ok(());
    }
    guard::require(world, request.caller, &format!("/nodes/{}", request.node), "Sys.Audit")
}

/// What status and listings say of a task.
fn described(task: &Task) -> Map<String, Value> {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
    put("upid", json!(task.upid));
    put("node", json!(task.node));
    put("type", json!(task.kind));
    put("id", json!(task.id));
    put("starttime", json!(task.started));
    if let Some(id) = parse(&task.upid) {
        put("pid", json!(id.pid));
        put("pstart", json!(id.pstart));
    }
    match task.user.split_once('!') {
        Some((user, name)) => {
            put("user", json!(user));
            put("tokenid", json!(name));
        }
        None => {
            put("user", json!(task.user));
        }
    }
    entry
}

fn exit(task: &Task) -> Option<&str> {
    task.ended.as_ref().map(|(_, result)| match result {
        Ok(()) => "OK",
        Err(text) => text.as_str(),
    })
}

fn status(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (upid, id) = id(request)?;
    may_see(world, request, id.user)?;
    let missing = || Died::parameter("upid", "no such task");
    let task = world.task(upid).filter(|task| task.node == request.node).ok_or_else(missing)?;
    let mut entry = described(task);
    match exit(task) {
        Some(text) => {
            entry.insert("status".to_owned(), json!("stopped"));
            entry.insert("exitstatus".to_owned(), json!(text));
        }
        None => {
            entry.insert("status".to_owned(), json!("running"));
        }
    }
    Ok(Answer::data(Value::Object(entry)))
}

fn log(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (upid, id) = id(request)?;
    may_see(world, request, id.user)?;
    let number = |name: &str, default: usize| {
        request.get(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let line = |number: usize, text: &str| json!({"n": number, "t": text});
    let total = |count: usize| Map::from_iter([("total".to_owned(), json!(count))]);
    let Some(task) = world.task(upid).filter(|task| task.node == id.node) else {
        let text = line(1, "unable to open file - No such file or directory");
        let data = match world.release {
            Release::V9_2 => json!([text]),
            Release::V8_4 => text,
        };
        return Ok(Answer { beside: total(1), ..Answer::data(data) });
    };
    if task.log.is_empty() {
        let data = json!([line(1, "no content")]);
        return Ok(Answer { beside: total(1), ..Answer::data(data) });
    }
    let start = number("start", 0);
    let limit = match number("limit", LIMIT) {
        0 => usize::MAX,
        limit => limit,
    };
    let lines = task.log.iter().enumerate().skip(start).take(limit);
    let data = lines.map(|(index, text)| line(index + 1, text)).collect();
    Ok(Answer { beside: total(task.log.len()), ..Answer::data(data) })
}

fn stop(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let (upid, id) = id(request)?;
    let caller = &request.caller.user;
    if id.user != caller && id.user.split('!').next() != Some(caller) {
        let path = format!("/nodes/{}", request.node);
        guard::require(world, request.caller, &path, "Sys.Modify")?;
    }
    let upid = upid.to_owned();
    world.end_task(&upid, Err("received interrupt".to_owned()));
    Ok(Answer::data(Value::Null))
}

fn listed(task: &Task) -> Map<String, Value> {
    let mut entry = described(task);
    if let Some((ended, _)) = &task.ended {
        entry.insert("endtime".to_owned(), json!(ended));
    }
    if let Some(text) = exit(task) {
        entry.insert("status".to_owned(), json!(text));
    }
    entry
}

/// `GET /nodes/{node}/tasks`: those that have ended, newest first, or those that have not.
fn list(world: &World, request: Request<'_>) -> Answer {
    let number = |name: &str, default: usize| {
        request.get(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let source = request.get("source").unwrap_or("archive");
    let wanted = |task: &&Task| {
        let ended = task.ended.is_some();
        let of_source = match source {
            "active" => !ended,
            "all" => true,
            _ => ended,
        };
        of_source
            && task.node == request.node
            && request.get("vmid").is_none_or(|vmid| vmid == task.id)
            && request.get("typefilter").is_none_or(|kind| kind == task.kind)
            && request.get("userfilter").is_none_or(|user| task.user.contains(user))
            && (!request.flag("errors") || exit(task).is_some_and(|text| text != "OK"))
            && may_see(world, request, &task.user).is_ok()
    };
    let found: Vec<&Task> = world.tasks.iter().rev().filter(wanted).collect();
    let total = Map::from_iter([("total".to_owned(), json!(found.len()))]);
    let shown = found.into_iter().skip(number("start", 0)).take(number("limit", LIMIT));
    let data = shown.map(|task| Value::Object(listed(task))).collect();
    Answer { beside: total, ..Answer::data(data) }
}

/// `GET /cluster/tasks`: the latest of all nodes, without process ids.
fn recent(world: &World, request: Request<'_>) -> Answer {
    let own = |task: &&Task| {
        let path = format!("/nodes/{}", task.node);
        let user = task.user.split('!').next();
        user == Some(request.caller.user.as_str())
            || guard::has(world, request.caller, &path, "Sys.Audit")
    };
    let entries = world.tasks.iter().rev().filter(own).take(25).map(|task| {
        let mut entry = listed(task);
        entry.remove("pid");
        entry.remove("pstart");
        entry.insert("saved".to_owned(), json!("1"));
        Value::Object(entry)
    });
    Answer::data(entries.collect())
}
