//! A session: the world it happens in, and what has been learnt so far.

use std::collections::BTreeMap;

use pve_sim::call::Died;
use pve_sim::call::Step;
use pve_sim::call::Worker;
use pve_sim::https;
use pve_sim::https::Request;
use pve_sim::https::Response;
use pve_sim::world::World;
use serde_json::Value;

use super::row::Row;
use super::row::encoded;
use super::single;
use super::unrecorded;
use crate::normalise;

/// A session that is being replayed.
pub(crate) struct Session {
    pub(crate) world: World,
    node: &'static str,
    /// Ids that were recorded, and what they are here.
    here: BTreeMap<String, String>,
    /// Tasks that are still running, by the row that began them.
    running: Vec<(String, Worker)>,
}

impl Session {
    pub(crate) fn new(world: World, node: &'static str) -> Self {
        Self { world, node, here: BTreeMap::new(), running: Vec::new() }
    }

    /// Recorded ids replaced by those of this world, plain or percent-encoded.
    fn replace(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (recorded, here) in &self.here {
            text = text.replace(recorded, here).replace(&encoded(recorded), &encoded(here));
        }
        text
    }

    /// What a row tells even when it is not replayed: its time, and tickets of the cluster.
    pub(crate) fn learn(&mut self, row: &Row) {
        if let Some(time) = row.time {
            self.world.now = time;
        }
        let signer = &mut self.world.access.signer;
        let data = &row.body["data"];
        if let (Some(user), Some(ticket), Some(token)) = (
            data["username"].as_str(),
            data["ticket"].as_str(),
            data["CSRFPreventionToken"].as_str(),
        ) {
            signer.teach(user, ticket, token);
            let issued = ticket.split_once("::").and_then(|(plain, _)| plain.rsplit_once(':'));
            self.world.now = u64::from_str_radix(issued.unwrap().1, 16).unwrap();
        }
        let form = row.form();
        let get = |name: &str| {
            let found = form.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        let mut user = get("username").to_owned();
        if !get("realm").is_empty() {
            user = format!("{user}@{}", get("realm"));
        }
        let owner = unrecorded::owner(&row.name).unwrap_or(&user);
        for ticket in [get("tfa-challenge"), get("password")] {
            if ticket.starts_with("PVE:") && !unrecorded::FORGED.contains(&row.name.as_str()) {
                signer.teach(owner, ticket, "");
            }
        }
    }

    fn authorise(&self, row: &Row, request: &mut Request) {
        let access = &self.world.access;
        let now = self.world.now;
        let mut put = |name: &str, value: String| request.headers.push((name.to_owned(), value));
        if row.name == "hdr-close" {
            put("Connection", "close".to_owned());
        }
        if let Some((name, value)) = single::header(&row.name, access, now) {
            put(name, value);
            return;
        }
        let caller = row.caller.as_deref().unwrap_or("anonymous");
        let (kind, who) = caller.split_once(' ').unwrap_or((caller, ""));
        match (kind, who) {
            ("anonymous", _) => {}
            ("token", id) => {
                let (user, name) = id.split_once('!').unwrap();
                let secret = &access.users[user].tokens[name].secret;
                put("Authorization", format!("PVEAPIToken={id}={secret}"));
            }
            ("half", rest) => {
                let user = rest.rsplit(' ').next().unwrap();
                let user = if user.contains('@') { user } else { "tfaboth@pve" };
                let challenge = access.factors[user].challenge().unwrap();
                let ticket = access.ticket(&format!("!tfa!{challenge}"), user, now);
                if row.sent("Cookie") {
                    put("Cookie", format!("PVEAuthCookie={}", encoded(&ticket)));
                    put("CSRFPreventionToken", access.request_token(user, now));
                } else {
                    put("Authorization", format!("PVEAuthCookie={}", encoded(&ticket)));
                }
            }
            (user, _) => {
                let user = user.trim_end_matches(',');
                let ticket = access.ticket(user, "", now);
                put("Cookie", format!("PVEAuthCookie={}", encoded(&ticket)));
                if row.name == "csrf-wrong-401" {
                    put("CSRFPreventionToken", "wrong".to_owned());
                } else if row.sent("CSRFPreventionToken") {
                    put("CSRFPreventionToken", access.request_token(user, now));
                }
            }
        }
    }

    /// Makes a call as root, to do what was not recorded.
    pub(crate) fn call(&mut self, method: &str, path: &str, form: &str) -> Response {
        let access = &self.world.access;
        let ticket = access.ticket("root@pam", "", self.world.now);
        let token = access.request_token("root@pam", self.world.now);
        let request = Request {
            method: method.to_owned(),
            target: format!("/api2/json{path}"),
            headers: vec![
                ("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned()),
                ("Cookie".to_owned(), format!("PVEAuthCookie={ticket}")),
                ("CSRFPreventionToken".to_owned(), token),
            ],
            body: form.as_bytes().to_vec(),
            in_pieces: false,
        };
        let reply = https::respond(&mut self.world, self.node, &request);
        if let Some(worker) = reply.worker {
            finish(&mut self.world, worker);
        }
        reply.response
    }

    /// Lets the tasks that a row began come to their end.
    pub(crate) fn finish(&mut self, name: &str) {
        for (row, worker) in std::mem::take(&mut self.running) {
            if row == name {
                finish(&mut self.world, worker);
            } else {
                self.running.push((row, worker));
            }
        }
    }

    /// Replays a row; returns what differs.
    pub(crate) fn replay(&mut self, row: &Row) -> Option<String> {
        self.learn(row);
        let mut request = row.request(|text| self.replace(text));
        unrecorded::codes(row, &self.world, &mut request);
        self.authorise(row, &mut request);
        let reply = https::respond(&mut self.world, self.node, &request);
        let body: Value = serde_json::from_slice(&reply.response.body)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&reply.response.body)));
        let mut task = (None, None);
        if let Some(worker) = reply.worker {
            let upid = worker.upid.clone();
            if unrecorded::is_left_running(&row.name) {
                self.running.push((row.name.clone(), worker));
            } else {
                let refusal = unrecorded::guest_refuses(&row.name);
                run(&mut self.world, worker, refusal);
            }
            let found = self.world.task(&upid);
            let exit = found.and_then(|task| task.ended.as_ref()).map(|(_, result)| match result {
                Ok(()) => "OK".to_owned(),
                Err(text) => text.clone(),
            });
            task = (exit, found.map(|task| task.log.clone()));
        }
        pair(&row.body, &body, &mut self.here);
        let got = seen(&reply.response, &body, task.0, task.1, row);
        let wanted = recorded(row);
        (wanted != got).then(|| {
            format!("{}: {} {:?}\n{}", row.name, row.call, row.request, differences(&wanted, &got))
        })
    }
}

fn finish(world: &mut World, worker: Worker) {
    run(world, worker, None);
}

/// Runs a task to its end; what it asks of the guest fails with this text.
fn run(world: &mut World, mut worker: Worker, refusal: Option<&str>) {
    let mut follow = Vec::new();
    while let Step::Ran(output) = worker.run(world) {
        follow.extend(output.follow);
        if let Some(text) = refusal.filter(|_| !output.effects.is_empty()) {
            worker.fail(world, Died::new(text));
            return;
        }
    }
    for worker in follow {
        finish(world, worker);
    }
}

/// Everything that is compared, by name.
type Seen = BTreeMap<&'static str, String>;

fn lines(log: &[String]) -> String {
    normalise::normalise(&(log.join("\n") + "\n"))
}

fn copies(row: &Row) -> bool {
    unrecorded::COPIES.contains(&row.name.as_str())
}

fn recorded(row: &Row) -> Seen {
    let mut seen = Seen::new();
    seen.insert("status", row.status.to_string());
    seen.insert("reason", normalise::normalise(&row.reason));
    if let Some(connection) = &row.connection {
        seen.insert("connection", connection.join(" "));
        seen.insert("type", row.content_type.clone().unwrap_or_default());
    }
    seen.insert("body", normalise::body(&row.body));
    if let Some(exit) = &row.exit {
        seen.insert("exit", normalise::normalise(exit));
    }
    if let Some(log) = row.log.as_ref().filter(|_| !copies(row)) {
        seen.insert("log", lines(log));
    }
    seen
}

fn seen(
    response: &Response,
    body: &Value,
    exit: Option<String>,
    log: Option<Vec<String>>,
    row: &Row,
) -> Seen {
    let mut seen = Seen::new();
    seen.insert("status", response.status.to_string());
    seen.insert("reason", normalise::normalise(&response.reason));
    if row.connection.is_some() {
        seen.insert("connection", response.connection.join(" "));
        seen.insert("type", response.content_type.unwrap_or_default().to_owned());
    }
    let nothing = body == "" && row.body.is_null();
    seen.insert("body", normalise::body(if nothing { &Value::Null } else { body }));
    if row.exit.is_some() {
        seen.insert("exit", normalise::normalise(&exit.unwrap_or_default()));
    }
    if row.log.is_some() && !copies(row) {
        seen.insert("log", lines(&log.unwrap_or_default()));
    }
    seen
}

fn differences(wanted: &Seen, got: &Seen) -> String {
    let keys = wanted.keys().chain(got.keys()).collect::<std::collections::BTreeSet<_>>();
    let different = keys.into_iter().filter(|key| wanted.get(*key) != got.get(*key));
    let text = |seen: &Seen, key: &str| seen.get(key).cloned().unwrap_or_default();
    let lines = different.map(|key| {
        format!("  {key}\n    wanted {}\n    got    {}\n", text(wanted, key), text(got, key))
    });
    lines.collect::<Vec<String>>().concat()
}

/// Learns which id here stands for a recorded one.
fn pair(recorded: &Value, here: &Value, pairs: &mut BTreeMap<String, String>) {
    match (recorded, here) {
        (Value::Object(recorded), Value::Object(here)) => {
            for (key, value) in recorded {
                if let Some(here) = here.get(key) {
                    pair(value, here, pairs);
                }
            }
        }
        (Value::Array(recorded), Value::Array(here)) if recorded.iter().all(Value::is_string) => {
            for (recorded, here) in recorded.iter().zip(here) {
                pair(recorded, here, pairs);
            }
        }
        (Value::Array(recorded), Value::Array(here)) if recorded.len() == 1 && here.len() == 1 => {
            pair(&recorded[0], &here[0], pairs);
        }
        (Value::String(recorded), Value::String(here))
            if recorded != here && normalise::is_id(recorded) && normalise::is_id(here) =>
        {
            pairs.insert(recorded.clone(), here.clone());
        }
        _ => {}
    }
}
