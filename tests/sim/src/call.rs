//! One call against one world.
//!
//! [`call`] checks the parameters against the fact table and answers as the API does. A call that
//! takes long answers with a [`Worker`]: its stages are run by whoever drives it, with as much
//! time between them as a command's latency says; the task log grows meanwhile and what the call
//! changes is there when its last stage has run.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Map;
use serde_json::Value;

use crate::effect::Effect;
use crate::schema;
use crate::schema::Parameters;
use crate::world::Link;
use crate::world::World;

pub mod access;
mod agent;
pub mod cloud_init;
mod cluster;
mod cpu;
pub mod create;
pub mod destroy;
mod dispatch;
pub mod drive;
pub mod guard;
mod ha;
pub mod import;
mod keys;
pub mod list;
pub mod migrate;
mod node;
mod permit;
pub mod power;
pub mod resize;
pub mod resources;
mod seed;
pub mod storage;
pub mod task;
mod transfer;
pub mod update;
mod worker;

pub use seed::guest_spec;
pub use worker::Output;
pub use worker::Step;
pub use worker::Worker;

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates, or acts.
    Post,
    /// Changes.
    Put,
    /// Removes.
    Delete,
}

impl Method {
    /// The word of the request line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// `root@pam`, or `user@realm!token`.
    pub user: String,
    /// The node that the call reaches first: commands run there.
    pub node: String,
}

impl Caller {
    /// Root at a node's command line.
    pub fn root(node: &str) -> Self {
        Self { user: "root@pam".to_owned(), node: node.to_owned() }
    }

    /// Whether this is root himself; a token of root's is not.
    pub fn is_root(&self) -> bool {
        self.user == "root@pam"
    }
}

/// Where a line of output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output; a worker's output goes there whole.
    Out,
    /// Standard error.
    Err,
}

/// A line of output, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it goes.
    pub stream: Stream,
    /// Its text.
    pub text: String,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Died {
    /// The HTTP status.
    pub status: u16,
    /// The message, without a newline at its end.
    pub text: String,
    /// Complaints about parameters, by name.
    pub errors: BTreeMap<String, String>,
    /// The exit code that leaks to a command line.
    pub exit: i32,
}

impl Died {
    /// A failure at run time, as most are.
    pub fn new(text: impl Into<String>) -> Self {
        Self { status: 500, text: text.into(), errors: BTreeMap::new(), exit: 255 }
    }

    /// The same with the exit code that the last system call left.
    pub fn exit(text: impl Into<String>, exit: i32) -> Self {
        Self { exit, ..Self::new(text) }
    }

    /// A complaint about one parameter.
    pub fn parameter(name: &str, text: impl Into<String>) -> Self {
        Self::parameters(BTreeMap::from([(name.to_owned(), text.into())]))
    }

    /// Complaints about parameters.
    pub fn parameters(errors: BTreeMap<String, String>) -> Self {
        let text = "Parameter verification failed.".to_owned();
        Self { status: 400, text, errors, exit: 255 }
    }

    /// A VM that is not on the node it was looked for on.
    pub fn no_configuration(node: &str, vmid: u32) -> Self {
        let file = format!("nodes/{node}/qemu-server/{vmid}.conf");
        Self::exit(format!("Configuration file '{file}' does not exist"), 2)
    }
}

/// What a call answers.
#[derive(Debug, Default)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The reason phrase: the message's first line when the call failed.
    pub reason: String,
    /// The data; a worker's task id.
    pub data: Value,
    /// Complaints about parameters, by name.
    pub errors: BTreeMap<String, String>,
    /// What stands beside the data: `total`, `changes`.
    pub beside: Map<String, Value>,
    /// What a command prints besides the data.
    pub lines: Vec<Line>,
    /// What is to be done outside the world.
    pub effects: Vec<Effect>,
    /// The rest of the work, when there is more.
    pub worker: Option<Worker>,
    /// The exit code of a command whose call failed.
    pub exit: i32,
}

impl Answer {
    /// A call that went well.
    pub fn data(data: Value) -> Self {
        Self { status: 200, reason: "OK".to_owned(), data, ..Self::default() }
    }

    /// A call that goes on as a task.
    pub fn worker(worker: Worker) -> Self {
        let upid = Value::from(worker.upid.clone());
        Self { worker: Some(worker), ..Self::data(upid) }
    }

    /// The call failed after it had printed or changed something.
    #[must_use]
    pub fn failed(self, died: Died) -> Self {
        Self {
            status: died.status,
            reason: died.text,
            data: Value::Null,
            errors: died.errors,
            exit: died.exit,
            ..self
        }
    }

    /// The failure that this answer is, if it is one.
    pub fn died(&self) -> Option<Died> {
        (self.status >= 400).then(|| Died {
            status: self.status,
            text: self.reason.clone(),
            errors: self.errors.clone(),
            exit: self.exit,
        })
    }
}

impl From<Result<Self, Died>> for Answer {
    fn from(result: Result<Self, Died>) -> Self {
        result.unwrap_or_else(|died| Self::default().failed(died))
    }
}

/// A call that has been checked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// The node in the path, or the caller's.
    pub node: &'a str,
    /// The number in the path or among the parameters, 0 when there is none.
    pub vmid: u32,
    /// All parameters, those of the path included.
    pub parameters: &'a Parameters,
}

impl Request<'_> {
    /// A parameter's text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// Whether a switch is on.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("1")
    }

    /// The VM's number as text.
    pub fn id(&self) -> String {
        self.vmid.to_string()
    }

    /// `skiplock` is for root alone.
    pub fn skiplock(&self) -> Result<bool, Died> {
        let wanted = self.flag("skiplock");
        if wanted && !self.caller.is_root() {
            return Err(Died::parameter("skiplock", "Only root may use this option."));
        }
        Ok(wanted)
    }
}

/// Answers one call.
pub fn call(
    world: &mut World,
    caller: &Caller,
    method: Method,
    path: &str,
    parameters: &Parameters,
) -> Answer {
    answer(world, caller, method, path, parameters).into()
}

fn answer(
    world: &mut World,
    caller: &Caller,
    method: Method,
    path: &str,
    parameters: &Parameters,
) -> Result<Answer, Died> {
    let Some((endpoint, mut all)) = route(method, path) else {
        let text = format!("Method '{} {path}' not implemented", method.word());
        return Err(Died { status: 501, exit: 1, ..Died::new(text) });
    };
    all.extend(parameters.clone());
    guard::check(world, caller, endpoint, path, &all)?;
    let named = endpoint.contains("{node}").then(|| all.get("node")).flatten();
    let node = match named.map(String::as_str) {
        None | Some("localhost") => caller.node.clone(),
        Some(node) => node.to_owned(),
    };
    reach(world, caller, &node)?;
    let errors = schema::check(world.release, endpoint, &all);
    if !errors.is_empty() {
        return Err(Died::parameters(errors));
    }
    let vmid = all.get("vmid").and_then(|text| text.parse().ok()).unwrap_or_default();
    let request = Request { caller, node: &node, vmid, parameters: &all };
    dispatch::dispatch(world, endpoint, request, path)
}

/// A node must exist and answer.
fn reach(world: &World, caller: &Caller, node: &str) -> Result<(), Died> {
    match world.nodes.get(node) {
        None => {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
            let why = if node.chars().all(plain) {
                "Temporary failure in name resolution"
            } else {
                "Name or service not known"
            };
            let reason = "failed to get address info for";
            Err(Died::new(format!("hostname lookup '{node}' failed - {reason}: {node}: {why}")))
        }
        Some(_) if node == caller.node => Ok(()),
        Some(found) if !found.online || found.link == Link::Gone => {
            Err(Died { status: 595, ..Died::new("No route to host") })
        }
        Some(found) if found.link == Link::Refused => {
            Err(Died { status: 595, ..Died::new("Connection refused") })
        }
        Some(_) => Ok(()),
    }
}

/// An endpoint, taken apart.
struct Route {
    method: &'static str,
    parts: Vec<&'static str>,
    endpoint: &'static str,
}

static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let routes = schema::endpoints().filter_map(|endpoint| {
        let (method, path) = endpoint.split_once(' ')?;
        Some(Route { method, parts: parts(path).collect(), endpoint })
    });
    routes.collect()
});

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// Finds the endpoint and what its path says; fixed words win over what a path may say.
pub fn route(method: Method, path: &str) -> Option<(&'static str, Parameters)> {
    let wanted: Vec<&str> = parts(path).collect();
    let fits = ROUTES
        .iter()
        .filter(|route| route.method == method.word())
        .filter_map(|route| Some((route.endpoint, matched(&route.parts, &wanted)?)));
    fits.min_by_key(|(_, found)| found.len())
}

/// What a path says where its template has names; a volume's name may itself have slashes.
fn matched(parts: &[&str], wanted: &[&str]) -> Option<Parameters> {
    let open = parts.last() == Some(&"{volume}") && wanted.len() > parts.len();
    if parts.len() != wanted.len() && !open {
        return None;
    }
    let mut found = Parameters::new();
    for (index, part) in parts.iter().enumerate() {
        let given = *wanted.get(index)?;
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => {
                let rest = open && index + 1 == parts.len();
                let value = if rest { wanted[index..].join("/") } else { given.to_owned() };
                found.insert(name.to_owned(), value);
            }
            None if *part == given => {}
            None => return None,
        }
    }
    Some(found)
}
