//! `qm`.

use percent_encoding::AsciiSet;
use percent_encoding::CONTROLS;
use percent_encoding::NON_ALPHANUMERIC;
use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use super::Begun;
use super::Ending;
use super::Invocation;
use super::Next;
use super::arguments;
use super::complaint;
use super::out;
use super::table;
use super::table::Command;
use crate::call;
use crate::call::Answer;
use crate::call::Caller;
use crate::call::Died;
use crate::call::Line;
use crate::call::Request;
use crate::schema;
use crate::schema::Parameters;
use crate::schema::Release;
use crate::world::World;

/// The recorded usage.
const USAGE: &str = include_str!("../../facts/qm-usage.txt");

/// What stands unescaped in the text of public keys.
const KEYS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// What a printed description escapes.
const DESCRIPTION: &AsciiSet = &CONTROLS.add(b'%').add(b':');

pub(super) fn begin(world: &mut World, invocation: &Invocation) -> Begun {
    let Some((command, rest)) = table::find(&table::QM, &invocation.arguments) else {
        return unknown(world.release, &invocation.arguments);
    };
    let parsed = arguments::parse(world.release, command, rest);
    let mut parameters = match parsed {
        Ok(parameters) => parameters,
        Err(lines) => {
            return Begun::errors(lines.into_iter().chain([command.usage.to_owned()]), 255);
        }
    };
    if let Err(died) = read_keys(world, invocation, &mut parameters) {
        return Begun::exit(complaint(&died, command.usage), died.exit);
    }
    let caller = Caller::root(&invocation.node);
    let answer = ask(world, &caller, command, invocation, parameters.clone());
    finish(command, &parameters, answer)
}

/// A command that is not there: Proxmox VE's usage, or a word about what is not simulated.
fn unknown(release: Release, arguments: &[String]) -> Begun {
    let Some(verb) = arguments.first() else {
        return Begun::errors(usage(release, "ERROR: no command specified".to_owned()), 255);
    };
    let known = USAGE.lines().any(|line| {
        line.trim_start()
            .strip_prefix("qm ")
            .is_some_and(|line| line.split(' ').next() == Some(verb))
    });
    if known {
        return Begun::errors([format!("pve-sim: 'qm {verb}' is not simulated")], 255);
    }
    Begun::errors(usage(release, format!("ERROR: unknown command 'qm {verb}'")), 255)
}

fn usage(release: Release, first: String) -> Vec<String> {
    let there = |line: &&str| release == Release::V9_2 || !line.contains("enroll-efi-keys");
    let mut lines = vec![first];
    lines.extend(USAGE.lines().filter(there).map(str::to_owned));
    lines
}

/// `--sshkeys` names a file here; the call wants its text, percent-encoded.
fn read_keys(
    world: &World,
    invocation: &Invocation,
    parameters: &mut Parameters,
) -> Result<(), Died> {
    let Some(file) = parameters.get_mut("sshkeys") else { return Ok(()) };
    let text = world.host.read(&invocation.path(file)).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default();
        Died::exit(format!("can't open '{file}' - {reason}"), error.raw_os_error().unwrap_or(2))
    })?;
    *file = utf8_percent_encode(&text, KEYS).to_string();
    Ok(())
}

/// Makes the call, or does what has no call.
fn ask(
    world: &mut World,
    caller: &Caller,
    command: &Command,
    invocation: &Invocation,
    mut parameters: Parameters,
) -> Answer {
    parameters.insert("node".to_owned(), invocation.node.clone());
    if !command.endpoint.starts_with("CLI ") {
        let (path, parameters) = fill(command.endpoint, parameters);
        return call::call(world, caller, command.method(), &path, &parameters);
    }
    let errors = schema::check(world.release, command.endpoint, &parameters);
    if !errors.is_empty() {
        return Answer::default().failed(Died::parameters(errors));
    }
    let vmid = parameters.get("vmid").and_then(|text| text.parse().ok()).unwrap_or_default();
    let request = Request { caller, node: &invocation.node, vmid, parameters: &parameters };
    match command.endpoint {
        "CLI /importdisk" => {
            let path = invocation.path(request.get("source").unwrap_or_default());
            call::import::import(world, request, &path).into()
        }
        "CLI /rescan" => call::import::rescan(world, request),
        "CLI /unlock" => call::import::unlock(world, request).into(),
        "CLI /status" => call::list::status(world, request).into(),
        "CLI /wait" => wait(world, request).into(),
        _ => call::list::vms(world, request),
    }
}

/// Puts parameters into a path's places; the others are left.
pub(super) fn fill(endpoint: &str, mut parameters: Parameters) -> (String, Parameters) {
    let path = endpoint.split(' ').nth(1).unwrap_or_default();
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => parts.push(parameters.remove(name).unwrap_or_default()),
            None => parts.push(part.to_owned()),
        }
    }
    (parts.join("/"), parameters)
}

fn wait(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node, request.vmid);
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    if guest.running.is_some() {
        return Err(Died::new("got timeout"));
    }
    Ok(Answer::data(Value::Null))
}

/// What the answer prints.
fn finish(command: &Command, parameters: &Parameters, answer: Answer) -> Begun {
    let mut lines = answer.lines.clone();
    if let Some(died) = answer.died() {
        lines.extend(complaint(&died, command.usage));
        return Begun { effects: answer.effects, ..Begun::exit(lines, died.exit) };
    }
    if let Some(worker) = answer.worker {
        let ending = Ending { failure: command.failure, last: None };
        return Begun { lines, effects: answer.effects, next: Next::Work(worker, ending) };
    }
    let flag = |name: &str| parameters.get(name).is_some_and(|value| value == "1");
    match command.words {
        ["config"] => lines.extend(configuration(&answer.data)),
        ["pending"] => lines.extend(pending(&answer.data)),
        ["status"] if flag("verbose") => lines.extend(verbose(&answer.data)),
        ["status"] => lines.push(out(format!("status: {}", text(&answer.data["status"])))),
        ["list"] => lines.extend(list(&answer.data)),
        ["cloudinit", "dump"] => lines.push(out(text(&answer.data))),
        _ => {}
    }
    Begun { lines, effects: answer.effects, next: Next::Exit(0) }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shown(key: &str, value: &Value) -> String {
    let text = text(value);
    if key == "description" {
        return utf8_percent_encode(&text, DESCRIPTION).to_string();
    }
    text
}

fn configuration(data: &Value) -> Vec<Line> {
    let Some(data) = data.as_object() else { return Vec::new() };
    let mut keys: Vec<&String> = data.keys().filter(|key| *key != "digest").collect();
    keys.sort();
    keys.into_iter().map(|key| out(format!("{key}: {}", shown(key, &data[key])))).collect()
}

fn pending(data: &Value) -> Vec<Line> {
    let mut lines = Vec::new();
    let entries = data.as_array().into_iter().flatten();
    for entry in entries.filter(|entry| entry["key"] != "digest") {
        let key = text(&entry["key"]);
        if let Some(value) = entry.get("value") {
            let word = if entry.get("delete").is_some() { "del" } else { "cur" };
            lines.push(out(format!("{word} {key}: {}", shown(&key, value))));
        }
        if let Some(value) = entry.get("pending") {
            lines.push(out(format!("new {key}: {}", shown(&key, value))));
        }
    }
    lines
}

/// Everything that is known of the state, nested entries indented.
fn verbose(data: &Value) -> Vec<Line> {
    let mut data = data.clone();
    if let Some(data) = data.as_object_mut() {
        data.retain(|key, _| !matches!(key.as_str(), "cpu" | "ha" | "agent" | "clipboard"));
    }
    let mut lines = Vec::new();
    nested(&data, 0, &mut lines);
    lines
}

fn nested(data: &Value, depth: usize, lines: &mut Vec<Line>) {
    let Some(data) = data.as_object() else { return };
    let mut keys: Vec<&String> = data.keys().collect();
    keys.sort();
    for key in keys {
        let indent = "\t".repeat(depth);
        let value = &data[key];
        if value.is_object() {
            lines.push(out(format!("{indent}{key}:")));
            nested(value, depth + 1, lines);
        } else {
            lines.push(out(format!("{indent}{key}: {}", text(value))));
        }
    }
}

fn list(data: &Value) -> Vec<Line> {
    let entries: Vec<&Value> = data.as_array().into_iter().flatten().collect();
    if entries.is_empty() {
        return Vec::new();
    }
    let row = |columns: [&str; 6]| {
        let [vmid, name, status, memory, disk, pid] = columns;
        out(format!("{vmid:>10} {name:<20} {status:<10} {memory:<10} {disk:>12} {pid:<10}"))
    };
    let mut lines = vec![row(["VMID", "NAME", "STATUS", "MEM(MB)", "BOOTDISK(GB)", "PID"])];
    for entry in entries {
        let memory = entry["maxmem"].as_u64().unwrap_or_default() >> 20;
        #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
        let disk = entry["maxdisk"].as_u64().unwrap_or_default() as f64 / f64::from(1 << 30);
        let pid = entry.get("pid").map_or_else(|| "0".to_owned(), text);
        lines.push(row([
            &text(&entry["vmid"]),
            &text(&entry["name"]),
            &text(&entry["status"]),
            &memory.to_string(),
            &format!("{disk:.2}"),
            &pid,
        ]));
    }
    lines
}
