//! `pvesh`.

use serde_json::Value;

use super::Begun;
use super::Ending;
use super::Invocation;
use super::Next;
use super::arguments;
use super::complaint;
use super::err;
use super::out;
use crate::call;
use crate::call::Caller;
use crate::call::Method;
use crate::schema;
use crate::schema::Parameters;
use crate::world::World;

/// Options of the printer, not of the call.
const FORMAT_OPTIONS: [&str; 5] =
    ["output-format", "human-readable", "noborder", "noheader", "quiet"];

pub(super) fn begin(world: &mut World, invocation: &Invocation) -> Begun {
    let mut arguments = invocation.arguments.iter();
    let verb = arguments.next().map_or("", String::as_str);
    let method = match verb {
        "get" => Method::Get,
        "create" => Method::Post,
        "set" => Method::Put,
        "delete" => Method::Delete,
        "" => return Begun::errors(["ERROR: no command specified".to_owned()], 255),
        _ => return Begun::errors([format!("ERROR: unknown command 'pvesh {verb}'")], 255),
    };
    let Some(path) = arguments.next() else {
        let usage = format!("pvesh {verb} <api_path> [OPTIONS] [FORMAT_OPTIONS]");
        return Begun::errors(["400 not enough arguments".to_owned(), usage], 255);
    };
    let (format, rest) = format_options(arguments.cloned().collect());
    let Some((endpoint, _)) = call::route(method, path) else {
        return Begun::errors([format!("No '{verb}' handler defined for '{path}'")], 1);
    };
    let usage = usage(verb, endpoint);
    let (parameters, positions) = match arguments::options(world.release, endpoint, &rest) {
        Ok(read) => read,
        Err(lines) => return Begun::errors(lines.into_iter().chain([usage]), 255),
    };
    if !positions.is_empty() {
        return Begun::errors(["400 too many arguments".to_owned(), usage], 255);
    }
    run(world, invocation, (method, path), &parameters, &format, &usage)
}

fn run(
    world: &mut World,
    invocation: &Invocation,
    (method, path): (Method, &str),
    parameters: &Parameters,
    format: &str,
    usage: &str,
) -> Begun {
    let caller = Caller::root(&invocation.node);
    let answer = call::call(world, &caller, method, path, parameters);
    let mut lines = answer.lines.clone();
    if let Some(died) = answer.died() {
        lines.extend(complaint(&died, usage));
        return Begun { effects: answer.effects, ..Begun::exit(lines, died.exit) };
    }
    if let Some(worker) = answer.worker {
        // A failed task does not reach the exit code.
        let ending = Ending { failure: Some(0), last: Some(worker.upid.clone()) };
        return Begun { lines, effects: answer.effects, next: Next::Work(worker, ending) };
    }
    if !answer.data.is_null() {
        let Some(text) = print(&answer.data, format) else {
            lines.push(err("pve-sim: only --output-format json and json-pretty are simulated"));
            return Begun::exit(lines, 255);
        };
        lines.push(out(text));
    }
    Begun { lines, effects: answer.effects, next: Next::Exit(0) }
}

/// Takes the printer's options out.
fn format_options(arguments: Vec<String>) -> (String, Vec<String>) {
    let mut format = "text".to_owned();
    let mut rest = Vec::new();
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        let name = argument.trim_start_matches('-').split('=').next().unwrap_or_default();
        if !argument.starts_with('-') || !FORMAT_OPTIONS.contains(&name) {
            rest.push(argument);
            continue;
        }
        let value = match argument.split_once('=') {
            Some((_, value)) => Some(value.to_owned()),
            None if name == "output-format" => arguments.next(),
            None => arguments.next_if(|next| !next.starts_with('-')),
        };
        if name == "output-format" {
            format = value.unwrap_or_default();
        }
    }
    (format, rest)
}

/// The usage line names what must be given.
fn usage(verb: &str, endpoint: &str) -> String {
    let mut text = format!("pvesh {verb} <api_path>");
    for (name, definition) in schema::required(endpoint) {
        if !endpoint.contains(&format!("{{{name}}}")) {
            text.push_str(&[" --", name, " <", definition.kind(), ">"].concat());
        }
    }
    text + " [OPTIONS] [FORMAT_OPTIONS]"
}

/// Tables of text are not simulated; a single value is.
fn print(data: &Value, format: &str) -> Option<String> {
    match format {
        "json" => Some(sorted(data).to_string()),
        "json-pretty" => {
            let mut text = String::new();
            pretty(&sorted(data), 0, &mut text);
            Some(text)
        }
        _ => match data {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        },
    }
}

/// Keys are printed in alphabetical order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            Value::Object(keys.into_iter().map(|key| (key.clone(), sorted(&map[key]))).collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// Three blanks for each level, blanks around the colon.
fn pretty(value: &Value, depth: usize, text: &mut String) {
    let indent = "   ".repeat(depth + 1);
    let close = "   ".repeat(depth);
    let (open, end, items): (_, _, Vec<(String, &Value)>) = match value {
        Value::Object(map) if !map.is_empty() => (
            '{',
            '}',
            map.iter()
                .map(|(key, item)| (format!("{} : ", Value::from(key.clone())), item))
                .collect(),
        ),
        Value::Array(items) if !items.is_empty() => {
            ('[', ']', items.iter().map(|item| (String::new(), item)).collect())
        }
        other => {
            text.push_str(&other.to_string());
            return;
        }
    };
    text.push(open);
    for (index, (key, item)) in items.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&indent);
        text.push_str(key);
        pretty(item, depth + 1, text);
    }
    text.push('\n');
    text.push_str(&close);
    text.push(end);
}
