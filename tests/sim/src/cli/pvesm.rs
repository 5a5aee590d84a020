//! `pvesm`.

use serde_json::Value;

use super::Begun;
use super::Ending;
use super::Invocation;
use super::Next;
use super::arguments;
use super::complaint;
use super::out;
use super::qm::fill;
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

pub(super) fn begin(world: &mut World, invocation: &Invocation) -> Begun {
    let Some((command, rest)) = table::find(&table::PVESM, &invocation.arguments) else {
        let verb = invocation.arguments.first().map_or("", String::as_str);
        return Begun::errors([format!("ERROR: unknown command 'pvesm {verb}'")], 255);
    };
    let mut parameters = match arguments::parse(world.release, command, rest) {
        Ok(parameters) => parameters,
        Err(lines) => {
            return Begun::errors(lines.into_iter().chain([command.usage.to_owned()]), 255);
        }
    };
    if parameters.get("filename").is_some_and(String::is_empty) {
        parameters.remove("filename");
    }
    let answer = ask(world, invocation, command, parameters);
    let mut lines = answer.lines.clone();
    if let Some(died) = answer.died() {
        lines.extend(complaint(&died, command.usage));
        return Begun::exit(lines, died.exit);
    }
    if let Some(worker) = answer.worker {
        let ending = Ending { failure: command.failure, last: None };
        return Begun { lines, effects: answer.effects, next: Next::Work(worker, ending) };
    }
    match command.words {
        ["status"] => lines.extend(status(world.release, &answer.data)),
        ["list"] => lines.extend(list(&answer.data)),
        ["path"] => lines.push(out(text(&answer.data))),
        ["alloc"] => lines.push(out(format!("successfully created '{}'", text(&answer.data)))),
        _ => {}
    }
    Begun { lines, effects: answer.effects, next: Next::Exit(0) }
}

fn ask(
    world: &mut World,
    invocation: &Invocation,
    command: &Command,
    mut parameters: Parameters,
) -> Answer {
    let caller = Caller::root(&invocation.node);
    // A storage that is defined for the whole cluster has no node in its path.
    if command.endpoint.contains("{node}") || command.endpoint.starts_with("CLI ") {
        parameters.insert("node".to_owned(), invocation.node.clone());
    }
    if command.endpoint == "POST /nodes/{node}/storage/{storage}/content" {
        parameters.entry("filename".to_owned()).or_default();
    }
    if !command.endpoint.starts_with("CLI ") {
        let (path, parameters) = fill(command.endpoint, parameters);
        return call::call(world, &caller, command.method(), &path, &parameters);
    }
    let errors = schema::check(world.release, command.endpoint, &parameters);
    if !errors.is_empty() {
        return Answer::default().failed(Died::parameters(errors));
    }
    let request =
        Request { caller: &caller, node: &invocation.node, vmid: 0, parameters: &parameters };
    match command.endpoint {
        "CLI /free" => call::storage::free(world, request).into(),
        _ => call::storage::path(world, request).into(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn status(release: Release, data: &Value) -> Vec<Line> {
    let entries: Vec<&Value> = data.as_array().into_iter().flatten().collect();
    let names = entries.iter().map(|entry| text(&entry["storage"]).len());
    let width = names.max().unwrap_or(3) + 1;
    let row = |columns: [&str; 7]| {
        let [name, kind, status, total, used, available, percent] = columns;
        out(format!(
            "{name:<width$} {kind:>10} {status:>10} {total:>15} {used:>15} {available:>15} {percent:>8}"
        ))
    };
    let figures = match release {
        Release::V9_2 => ["Total (KiB)", "Used (KiB)", "Available (KiB)"],
        Release::V8_4 => ["Total", "Used", "Available"],
    };
    let mut lines = vec![row(["Name", "Type", "Status", figures[0], figures[1], figures[2], "%"])];
    for entry in entries {
        let on = |key: &str| entry[key] == 1;
        let status = match (on("enabled"), on("active")) {
            (false, _) => "disabled",
            (true, false) => "inactive",
            (true, true) => "active",
        };
        let kibibytes = |key: &str| (entry[key].as_u64().unwrap_or_default() / 1024).to_string();
        #[expect(clippy::cast_precision_loss, reason = "a percentage with two digits")]
        let percent = {
            let total = entry["total"].as_u64().unwrap_or_default();
            let used = entry["used"].as_u64().unwrap_or_default();
            used as f64 * 100.0 / total.max(1) as f64
        };
        lines.push(row([
            &text(&entry["storage"]),
            &text(&entry["type"]),
            status,
            &kibibytes("total"),
            &kibibytes("used"),
            &kibibytes("avail"),
            &if on("enabled") { format!("{percent:.2}%") } else { "N/A".to_owned() },
        ]));
    }
    lines
}

fn list(data: &Value) -> Vec<Line> {
    const ORDER: [&str; 7] = ["images", "rootdir", "vztmpl", "iso", "backup", "import", "snippets"];
    let mut entries: Vec<&Value> = data.as_array().into_iter().flatten().collect();
    let place = |entry: &Value| ORDER.iter().position(|content| entry["content"] == *content);
    // Images to import are collected format by format.
    let format = |entry: &Value| {
        if entry["content"] == "import" { text(&entry["format"]) } else { String::new() }
    };
    entries.sort_by_key(|entry| (place(entry), format(entry), text(&entry["volid"])));
    let ids = entries.iter().map(|entry| text(&entry["volid"]).len());
    let width = ids.max().unwrap_or(5);
    let row = |columns: [&str; 5]| {
        let [id, format, content, size, vmid] = columns;
        let line = format!("{id:<width$} {format:<7} {content:<9} {size:>10} {vmid}");
        out(line.trim_end().to_owned())
    };
    let mut lines = vec![row(["Volid", "Format", "Type", "Size", "VMID"])];
    lines.extend(entries.iter().map(|entry| {
        row([
            &text(&entry["volid"]),
            &text(&entry["format"]),
            &text(&entry["content"]),
            &text(&entry["size"]),
            &entry.get("vmid").map(text).unwrap_or_default(),
        ])
    }));
    lines
}
