//! The API as it is reached over the network.
//!
//! [`respond`] turns one HTTP request into one answer, a function of the world; `sim/https.rs`
//! serves it over TLS. The protocol is spoken by hand, because no library sends what a real node
//! sends: messages in the reason phrase, two `Connection` headers at once.

use percent_encoding::percent_decode_str;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::call;
use crate::call::Answer;
use crate::call::Caller;
use crate::call::Method;
use crate::call::Worker;
use crate::call::access::Approach;
use crate::call::access::authenticate;
use crate::call::guard;
use crate::effect::Effect;
use crate::schema::Parameters;
use crate::world::World;

mod certificate;
mod message;
mod parameters;

pub use certificate::Authority;
pub use certificate::Identity;
pub use certificate::certify;
pub use message::Request;
pub use message::Response;
pub use message::Unread;
pub use message::read;
pub use message::write;

/// An answer, and what is left to do.
#[derive(Debug)]
pub struct Reply {
    /// What is sent.
    pub response: Response,
    /// What is to be done outside the world.
    pub effects: Vec<Effect>,
    /// The task that goes on.
    pub worker: Option<Worker>,
    /// What the call was, for those who count calls.
    pub made: Option<Made>,
}

/// A call as it reached the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its method.
    pub method: Method,
    /// Its path below `/api2/json`.
    pub path: String,
    /// Its parameters, secrets included.
    pub parameters: Parameters,
    /// Who called; nothing when nobody was logged in.
    pub user: String,
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Self { response, effects: Vec::new(), worker: None, made: None }
    }
}

/// How the answer is written: as data, or for the web interface with the status inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    ExtJs,
}

/// A request that names a call.
#[derive(Debug)]
pub struct Wanted {
    format: Format,
    /// The method.
    pub method: Method,
    /// The path below `/api2/json`, decoded, without a slash at its end.
    pub path: String,
    /// The parameters.
    pub parameters: Parameters,
    /// The file that came along, under the name that `tmpfilename` says.
    upload: Option<(String, Vec<u8>)>,
}

impl Wanted {
    /// The call as one line that a pattern may match: `POST /nodes/pve1/qemu name=web vmid=100`.
    pub fn line(&self) -> String {
        let parameters = self.parameters.iter().map(|(key, value)| format!(" {key}={value}"));
        format!("{} {}{}", self.method.word(), self.path, parameters.collect::<String>())
    }
}

/// Finds out what a request asks for.
pub fn wanted(request: &Request) -> Result<Wanted, Box<Response>> {
    let refuse = |status: u16, reason: String| Box::new(Response::bare(status, reason));
    let method = match request.method.as_str() {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        other => return Err(refuse(501, format!("method '{other}' not available"))),
    };
    let (raw, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let path = percent_decode_str(raw).decode_utf8_lossy().into_owned();
    let Some(below) = path.strip_prefix("/api2/") else {
        return Err(refuse(501, format!("no such uri {path}")));
    };
    let (format, rest) = below.split_once('/').unwrap_or((below, ""));
    let format = match format {
        "json" => Format::Json,
        "extjs" => Format::ExtJs,
        other => {
            let reason = format!("no formatter for uri /{rest}, {other}");
            return Err(Box::new(Response::text(501, &reason)));
        }
    };
    if matches!(method, Method::Get | Method::Delete) && !request.body.is_empty() {
        let reason = format!("Unexpected content for method '{}'", method.word());
        return Err(refuse(501, reason));
    }
    let path = format!("/{}", rest.trim_end_matches('/'));
    let (parameters, upload) =
        parameters::of(request, query).map_err(|(status, reason)| refuse(status, reason))?;
    Ok(Wanted { format, method, path, parameters, upload })
}

/// Answers a request that has come to a node.
pub fn respond(world: &mut World, node: &str, request: &Request) -> Reply {
    match wanted(request) {
        Ok(wanted) => answer(world, node, request, wanted),
        Err(response) => (*response).into(),
    }
}

/// Answers a call that has been read.
pub fn answer(world: &mut World, node: &str, request: &Request, wanted: Wanted) -> Reply {
    let routed = call::route(wanted.method, &wanted.path);
    let remote = routed.as_ref().and_then(|(_, named)| named.get("node"));
    let remote = remote.is_some_and(|named| named != node && named != "localhost");
    let found = routed.as_ref().map(|(endpoint, _)| *endpoint);
    let caller = if found.is_some_and(guard::is_open) && request.token().is_none() {
        Caller { user: String::new(), node: node.to_owned() }
    } else {
        let approach = Approach {
            cookie: request.cookie("PVEAuthCookie"),
            authorization: request.header("Authorization"),
            token: request.header("CSRFPreventionToken"),
            upload: wanted.path.ends_with("/upload"),
        };
        match authenticate(world, node, wanted.method, approach) {
            Ok(caller) => caller,
            Err(refused) => return Response::bare(401, refused.0).into(),
        }
    };
    if let Some((name, bytes)) = &wanted.upload {
        world.host.put(name, bytes);
    }
    let mut answer = call::call(world, &caller, wanted.method, &wanted.path, &wanted.parameters);
    if let Some((name, _)) = &wanted.upload
        && answer.worker.is_none()
    {
        world.host.files.remove(name);
    }
    let effects = std::mem::take(&mut answer.effects);
    let worker = answer.worker.take();
    let protected = found.is_some_and(guard::is_protected);
    let way = match (remote, wanted.method) {
        (false, _) if protected => Way::Daemon,
        (false, _) => Way::Here,
        // What is not safe to repeat is handed on over a connection of its own.
        (true, Method::Post) => Way::Daemon,
        (true, _) if protected => Way::OtherDaemon,
        (true, _) => Way::Other,
    };
    let mut response = written(wanted.format, way, &answer);
    if request.closes() {
        response.connection = vec!["close"];
    }
    let Wanted { method, path, parameters, .. } = wanted;
    let made = Some(Made { method, path, parameters, user: caller.user });
    Reply { response, effects, worker, made }
}

/// A failed call as it is written.
pub fn failure(answer: &Answer) -> Response {
    written(Format::Json, Way::Here, answer)
}

/// Who made an answer; each leaves its `Connection` headers.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// The node that was asked.
    Here,
    /// Its privileged daemon.
    Daemon,
    /// Another node.
    Other,
    /// The daemon of another node.
    OtherDaemon,
}

fn written(format: Format, way: Way, answer: &Answer) -> Response {
    let connection: &[&str] = match way {
        Way::Here => &["Keep-Alive"],
        Way::Daemon => &["close", "Keep-Alive"],
        Way::Other => &["Keep-Alive", "Keep-Alive"],
        Way::OtherDaemon => &["close,Keep-Alive", "Keep-Alive"],
    };
    if answer.status < 400 {
        let mut body = answer.beside.clone();
        body.insert("data".to_owned(), answer.data.clone());
        if format == Format::ExtJs {
            body.insert("success".to_owned(), json!(1));
        }
        return Response::json(200, "OK", connection, &Value::Object(body));
    }
    if answer.status >= 595 {
        return Response::bare(answer.status, answer.reason.clone());
    }
    // What the HTTP layer itself says has no newline at its end.
    let end = if matches!(answer.status, 404 | 501) { "" } else { "\n" };
    let mut body = Map::new();
    body.insert("data".to_owned(), Value::Null);
    body.insert("message".to_owned(), json!(format!("{}{end}", answer.reason)));
    if !answer.errors.is_empty() {
        body.insert("errors".to_owned(), json!(answer.errors));
    }
    if format == Format::ExtJs {
        body.insert("success".to_owned(), json!(0));
        body.insert("status".to_owned(), json!(answer.status));
        return Response::json(200, "OK", connection, &Value::Object(body));
    }
    let reason = answer.reason.lines().next().unwrap_or_default();
    Response::json(answer.status, reason, &["close"], &Value::Object(body))
}
