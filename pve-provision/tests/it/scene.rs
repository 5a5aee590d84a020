//! A cluster that plays the wizard's part, and departs from it where a test says so.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use pve_api::Client;
use pve_provision::Event;
use pve_provision::Kind;
use pve_provision::create::Draft;
use pve_provision::create::End;
use pve_provision::create::Facts;
use pve_provision::create::Patience;
use pve_provision::create::Plan;
use pve_provision::create::Stage;
use pve_provision::create::load_all;
use pve_provision::create::resolve;
use pve_provision::create::run;

use crate::server::Reply;
use crate::server::Server;

pub(crate) const CREATE: &str = "UPID:pve1:00000997:00029DAF:6B0D7C1D:qmcreate:105:root@pam!ci:";
const START: &str = "UPID:pve1:00000998:00029DB0:6B0D7C1E:qmstart:105:root@pam!ci:";

/// Answers that stand in the place of the usual ones, each once, in their order.
pub(crate) type Departures = Vec<(&'static str, Reply)>;

pub(crate) struct Scene {
    pub(crate) server: Server,
    left: Arc<Mutex<Departures>>,
    /// What is added to these once something was asked.
    later: Arc<Mutex<Option<(&'static str, Departures)>>>,
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) end: End,
    pub(crate) events: String,
    /// The requests that change something.
    pub(crate) writes: Vec<String>,
}

impl Scene {
    pub(crate) async fn start(release: &'static str, departures: Departures) -> Self {
        let left = Arc::new(Mutex::new(departures));
        let later = Arc::new(Mutex::new(None::<(&'static str, Departures)>));
        let (script, next) = (Arc::clone(&left), Arc::clone(&later));
        let server = Server::start(move |seen| {
            let line = seen.line().replacen("/api2/json", "", 1);
            let mut left = script.lock().unwrap();
            let added = next.lock().unwrap().take_if(|(pattern, _)| line.starts_with(*pattern));
            left.extend(added.into_iter().flat_map(|(_, departures)| departures));
            if let Some(place) = left.iter().position(|(pattern, _)| line.starts_with(pattern)) {
                return left.remove(place).1;
            }
            usual(&line, release)
        });
        Self { server: server.await, left, later }
    }

    /// From now on it departs from the usual in these ways, too.
    pub(crate) fn depart(&self, departures: Departures) {
        self.left.lock().unwrap().extend(departures);
    }

    /// From the time on that something is asked it departs in these ways, too.
    pub(crate) fn depart_after(&self, pattern: &'static str, departures: Departures) {
        *self.later.lock().unwrap() = Some((pattern, departures));
    }

    /// The plan that an empty draft, with these assignments, comes to here.
    pub(crate) async fn plan(&self, assignments: &[&str]) -> Plan {
        let mut draft = Draft::default();
        for assignment in assignments {
            draft.set(assignment).unwrap();
        }
        let client = self.server.client();
        let mut facts = Facts::new(client.account());
        load_all(&client, &draft, &mut facts).await;
        Plan::new(&resolve(&draft, &facts), &facts).unwrap()
    }

    pub(crate) async fn run(&self, plan: &Plan, stage: Stage) -> Ran {
        self.run_as(&self.server.client(), plan, stage).await
    }

    pub(crate) async fn run_as(&self, client: &Client, plan: &Plan, stage: Stage) -> Ran {
        let before = self.server.seen().len();
        let patience = Patience {
            lock: Duration::from_millis(200),
            look: Duration::from_millis(200),
            pause: Duration::from_millis(5),
        };
        let mut events = Vec::new();
        let end = run(client, plan, stage, &patience, |event| events.push(shown(&event))).await;
        let seen = self.server.seen();
        let writes = seen[before..].iter().filter(|seen| seen.method != "GET");
        let writes = writes.map(|seen| seen.line().replacen("/api2/json", "", 1)).collect();
        Ran { end, events: events.join("\n"), writes }
    }
}

fn shown(event: &Event) -> String {
    let wire = event.wire();
    let left = match &event.kind {
        Kind::Failed { left, .. } => format!(" {left:?}"),
        _ => String::new(),
    };
    let step = wire.step.trim_start_matches("VM creation > ");
    format!("{step} {} {}{left}", wire.status, wire.message)
}

/// What the cluster answers when all is well.
fn usual(line: &str, release: &str) -> Reply {
    let (path, _) = line.split_once('?').unwrap_or((line, ""));
    let text = match path {
        "GET /version" => format!(r#"{{"version":"{release}.9","release":"{release}"}}"#),
        "GET /cluster/status" => {
            r#"[{"id":"cluster","name":"lab","type":"cluster","quorate":1}]"#.to_owned()
        }
        "GET /nodes" => {
            r#"[{"node":"pve1","status":"online"},{"node":"pve2","status":"offline"}]"#.to_owned()
        }
        "GET /cluster/nextid" => r#""105""#.to_owned(),
        "GET /pools" | "GET /nodes/pve1/tasks" => "[]".to_owned(),
        "GET /cluster/options" => r#"{"allowed-tags":[]}"#.to_owned(),
        "GET /access/permissions" => format!(r#"{{"/":{{{}}}}}"#, privileges()),
        "GET /nodes/pve1/storage" => storages(release),
        "GET /nodes/pve1/storage/cephfs/content" => {
            r#"[{"volid":"cephfs:iso/nixos-minimal-25.05.1.a-x86_64-linux.iso"}]"#.to_owned()
        }
        "GET /nodes/pve1/network" => r#"[{"iface":"vmbr9","type":"bridge"}]"#.to_owned(),
        "GET /nodes/pve1/capabilities/qemu/cpu" => r#"[{"name":"host"}]"#.to_owned(),
        "GET /access/domains" => r#"[{"realm":"pam","type":"pam"}]"#.to_owned(),
        "POST /access/ticket" => return ticket(),
        "POST /nodes/pve1/qemu" => format!(r#""{CREATE}""#),
        "POST /nodes/pve1/qemu/105/status/start" => format!(r#""{START}""#),
        "GET /nodes/pve1/qemu/105/config" => r#"{"serial0":"socket","vga":"serial0"}"#.to_owned(),
        "GET /nodes/pve1/qemu/105/status/current" => {
            r#"{"vmid":105,"status":"stopped"}"#.to_owned()
        }
        "PUT /nodes/pve1/qemu/105/config" | "POST /cluster/ha/resources" => "null".to_owned(),
        path if path.ends_with("/log") => r#"[{"n":1,"t":"TASK OK"}]"#.to_owned(),
        path if path.starts_with("GET /nodes/pve1/tasks/") => {
            r#"{"status":"stopped","exitstatus":"OK"}"#.to_owned()
        }
        other => return Reply::status(501, &format!("Method '{other}' not implemented"), ""),
    };
    Reply::data(&text)
}

pub(crate) fn ticket() -> Reply {
    Reply::data(
        r#"{"username":"root@pam","ticket":"PVE:root@pam:65A1B2C3::c2ln","CSRFPreventionToken":"65A1B2C3:eA"}"#,
    )
}

pub(crate) fn privileges() -> String {
    let names = [
        "VM.Allocate",
        "VM.Config.Options",
        "VM.Config.CPU",
        "VM.Config.Memory",
        "VM.Config.HWType",
        "VM.Config.Network",
        "VM.PowerMgmt",
        "Datastore.AllocateSpace",
        "SDN.Use",
        "Sys.Console",
        "Sys.Modify",
    ];
    names.map(|name| format!(r#""{name}":1"#)).join(",")
}

/// Formats in the form of the release.
fn storages(release: &str) -> String {
    let formats = if release.starts_with('8') {
        r#""format":[{"raw":1},"raw"]"#
    } else {
        r#""formats":{"supported":["raw"],"default":"raw"}"#
    };
    format!(
        r#"[{{"storage":"ceph-pool","type":"rbd","content":"images","active":1,{formats}}},
            {{"storage":"cephfs","type":"cephfs","content":"iso","active":1}}]"#
    )
}
