//! One day of one server: a cluster, what is broken in it, what is sent and done, and what comes of it.
//!
//! Whatever the day, these hold and are checked here:
//! * a stream has ids without gaps, three keys in each message, and ends with `close`;
//! * it can be read again, whole and from its middle, and is the same;
//! * it ends with the four events of a success or has at least one error event;
//! * no password has come out anywhere.

use pve_e2e::rig::Install;
use pve_e2e::rig::Rig;
use pve_e2e::server::Place;
use pve_e2e::sse::Message;
use pve_provision::install::Patience;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::guest::Behaviour;
use pve_sim::mirror;
use pve_sim::sim::Fault;
use pve_sim::world::World;
use serde_json::Value;
use serde_json::json;

use super::deed::Deed;
use super::left::left;
use super::told::Alike;
use super::told::beyond_plain;

pub(crate) const PASSWORD: &str = "us3r's s3cret";
pub(crate) const ROOT_PASSWORD: &str = "r00t's s3cret";

/// The image that is asked for when a row says nothing else.
pub(crate) const IMAGE: &str = "debian-12-generic-amd64.qcow2";

/// A change of a place, for a server on this cluster.
type Placing = Box<dyn FnOnce(&Sim, &mut Place) + Send>;

/// Changes that wait for their time.
type Changes<T> = Vec<Box<dyn FnOnce(&mut T) + Send>>;

/// What a row says about its day.
pub(crate) struct Day {
    pub(crate) config: Config,
    request: Value,
    sims: Changes<Sim>,
    places: Vec<Placing>,
    rigs: Changes<Rig>,
    patience: Option<Patience>,
    pub(crate) deed: Deed,
    again: bool,
    shows_create: bool,
    two_streams: bool,
}

impl Day {
    /// A plain install on a healthy node.
    pub(crate) fn new() -> Self {
        let request = json!({"os": "debian", "version": "12", "passwd": PASSWORD});
        Self {
            config: Config::default(),
            request,
            sims: Vec::new(),
            places: Vec::new(),
            rigs: Vec::new(),
            patience: None,
            deed: Deed::Read,
            again: false,
            shows_create: false,
            two_streams: false,
        }
    }

    /// A cluster of two nodes instead of one.
    pub(crate) fn on_two_nodes(mut self) -> Self {
        self.config.nodes = vec!["pve1".to_owned(), "pve2".to_owned()];
        self
    }

    /// These fields of the request.
    pub(crate) fn asking(mut self, fields: Value) -> Self {
        if let (Value::Object(request), Value::Object(fields)) = (&mut self.request, fields) {
            request.extend(fields);
        }
        self
    }

    /// What is sent.
    pub(crate) fn request(&self) -> &Value {
        &self.request
    }

    pub(crate) fn setting(self, name: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        self.placed(move |_, place| place.set(name, value))
    }

    /// A change of the cluster before the server starts.
    pub(crate) fn prepared(mut self, change: impl FnOnce(&mut Sim) + Send + 'static) -> Self {
        self.sims.push(Box::new(change));
        self
    }

    /// A change of the server's place before it starts.
    pub(crate) fn placed(mut self, change: impl FnOnce(&Sim, &mut Place) + Send + 'static) -> Self {
        self.places.push(Box::new(change));
        self
    }

    /// A change once everything runs.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Rig) + Send + 'static) -> Self {
        self.rigs.push(Box::new(change));
        self
    }

    pub(crate) fn world(self, change: impl FnOnce(&mut World) + Send + 'static) -> Self {
        self.with(move |rig| rig.sim.change(change))
    }

    pub(crate) fn fault(mut self, fault: Fault) -> Self {
        self.config.faults.push(fault);
        self
    }

    /// Every command that matches says this on standard error, exits with 255 and does nothing.
    pub(crate) fn failing(self, pattern: &str, text: &str) -> Self {
        self.fault(Fault::fails(pattern, text, 255))
    }

    /// Every command that matches takes so many milliseconds more.
    pub(crate) fn slow(self, pattern: &str, milliseconds: u64) -> Self {
        let fault = Fault::always(pattern, pve_sim::sim::FaultAnswer::Pass);
        self.fault(Fault { delay: milliseconds, ..fault })
    }

    pub(crate) fn guest(mut self, behaviour: Behaviour) -> Self {
        self.config.behaviour = behaviour;
        self
    }

    pub(crate) fn mirror(
        self,
        path: &'static str,
        fault: mirror::Fault,
        times: mirror::Times,
    ) -> Self {
        self.with(move |rig| rig.sim.mirror().plant(path, fault, times))
    }

    /// A server that loses patience early; it runs within the test.
    pub(crate) fn patience(mut self, patience: Patience) -> Self {
        self.patience = Some(patience);
        self
    }

    pub(crate) fn deed(mut self, deed: Deed) -> Self {
        self.deed = deed;
        self
    }

    /// Afterwards everything is repaired, and a plain install has to succeed.
    pub(crate) fn and_again(mut self) -> Self {
        self.again = true;
        self
    }

    /// A command prints on both its streams: which line comes first is chance.
    pub(crate) fn on_two_streams(mut self) -> Self {
        self.two_streams = true;
        self
    }

    /// The whole `qm create` is told.
    pub(crate) fn showing_create(mut self) -> Self {
        self.shows_create = true;
        self
    }

    /// A day on which a request with these fields is refused before anything is done.
    pub(crate) async fn refused(mut self, fields: Value) -> String {
        self = self.asking(fields);
        let rig = self.begin().await;
        let request = rig.server.client().post(rig.server.url("/api/vm/install"));
        let response = request.json(&self.request).send().await.unwrap();
        let status = response.status().as_u16();
        let form: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        let alike = Alike::new(&rig);
        assert_eq!(commands(&rig, &alike), Vec::<String>::new());
        assert_eq!(left(&rig).await.iter().filter(|line| !line.starts_with("VM ")).count(), 0);
        format!("  {status} {}", alike.text(form["message"].as_str().unwrap()))
    }

    /// Everything of the day up to the moment when something is sent.
    pub(crate) async fn begin(&mut self) -> Rig {
        let mut sim = Sim::start(self.config.clone()).await.unwrap();
        for change in self.sims.drain(..) {
            change(&mut sim);
        }
        let mut place = Place::new(&sim).unwrap();
        place.set("VM_ROOT_PASSWORD", ROOT_PASSWORD);
        join_cluster(&sim, &mut place).await;
        for change in self.places.drain(..) {
            change(&sim, &mut place);
        }
        let server = match self.patience {
            Some(patience) => place.serve_within(patience).await.unwrap(),
            None => place.serve().await.unwrap(),
        };
        let mut rig = Rig { sim, place, server };
        for change in self.rigs.drain(..) {
            change(&mut rig);
        }
        rig
    }

    /// Runs the day and gives its text.
    pub(crate) async fn run(mut self) -> String {
        let rig = self.begin().await;
        let (mut rig, install) = self.deed.done(rig, &self.request).await;
        check(&rig, &install).await;
        let mut text = text(&rig, &install).await;
        if self.two_streams {
            text = with_relayed_lines_sorted(&text);
        }
        if self.shows_create {
            text = format!("{text}\n  {}", create(&rig));
        }
        if self.again { format!("{text}\n{}", again(&mut rig).await) } else { text }
    }
}

/// What one install came to.
pub(crate) async fn text(rig: &Rig, install: &Install) -> String {
    let alike = Alike::new(rig);
    let mut parts = vec![beyond_plain(&install.messages, &alike).await];
    parts.push(block("left", &left(rig).await));
    let mut commands = commands(rig, &alike);
    if install.errors().iter().any(|error| error.starts_with("preparation > checking VMID")) {
        // It is begun ahead and not waited for.
        commands.retain(|line| line != "pvesm status");
    }
    parts.push(block("commands", &commands));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn with_relayed_lines_sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let is_relayed = |line: &&str| line.starts_with("    processing   ");
    for run in lines.chunk_by_mut(|one, other| is_relayed(one) && is_relayed(other)) {
        run.sort_unstable();
    }
    lines.join("\n")
}

pub(crate) fn block(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return format!("  {title}: none");
    }
    let lines = lines.iter().map(|line| format!("\n    {line}"));
    format!("  {title}:{}", lines.collect::<String>())
}

/// The commands of the jobs; reads that run in the background are left aside.
pub(crate) fn commands(rig: &Rig, alike: &Alike) -> Vec<String> {
    const SHOWN: [&str; 3] = ["--skiplock", "--purge", "--with-local-disks"];
    let mut lines: Vec<(String, usize)> = Vec::new();
    for call in rig.sim.commands().iter().filter(|call| call.program != "pvesh") {
        let words = call.arguments.iter().take_while(|word| !word.starts_with("--"));
        let options = call.arguments.iter().filter(|word| SHOWN.contains(&word.as_str()));
        let words: Vec<&str> = words.chain(options).map(String::as_str).collect();
        let place = if call.node == "pve1" { String::new() } else { format!("{}: ", call.node) };
        let line = alike.text(&format!("{place}{} {}", call.program, words.join(" ")));
        match lines.last_mut() {
            Some((last, times)) if *last == line => *times += 1,
            _ => lines.push((line, 1)),
        }
    }
    let times = |times| if times == 1 { String::new() } else { format!(" ({times} times)") };
    lines.into_iter().map(|(line, count)| line + &times(count)).collect()
}

/// The last `qm create`, without the mark.
fn create(rig: &Rig) -> String {
    let commands = rig.sim.commands();
    let create = commands.iter().rev().find(|call| call.arguments[0] == "create").unwrap();
    let words = create.arguments.iter().take_while(|word| *word != "--description");
    format!("qm {}", words.map(String::as_str).collect::<Vec<_>>().join(" "))
}

/// What must hold of every stream.
pub(crate) async fn check(rig: &Rig, install: &Install) {
    for (number, message) in install.messages.iter().enumerate() {
        assert_eq!(message.id, Some(number.to_string()), "{}", install.raw);
        let value: Value = serde_json::from_str(&message.data).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        let wanted: &[&str] = if message.is_close() { &[] } else { &["step", "status", "message"] };
        assert_eq!(keys, wanted, "{}", message.data);
    }
    assert!(install.messages.last().is_some_and(Message::is_close), "{}", install.raw);
    let is_success = is_success(install);
    assert_ne!(is_success, !install.errors().is_empty(), "{}", install.raw);

    let again = rig.server.events(&install.job, None).await.unwrap().rest().await.unwrap();
    assert_eq!(again, install.messages);
    let middle = install.messages.len() / 2;
    let id = install.messages[middle].id.as_deref();
    let rest = rig.server.events(&install.job, id).await.unwrap().rest().await.unwrap();
    assert_eq!(rest, install.messages[middle + 1..]);

    let leaks = rig.leaks(&install.raw, &[PASSWORD, ROOT_PASSWORD]).unwrap();
    assert_eq!(leaks, Vec::<String>::new());
}

/// Whether the four events of a success are the last before `close`.
fn is_success(install: &Install) -> bool {
    let told = install.messages.iter().rev().skip(1).take(4);
    told.filter(|message| {
        message.told().is_ok_and(|told| {
            told.step == "VM initialization > finalizing" && told.status == "success"
        })
    })
    .count()
        == 4
}

/// Repairs everything and installs once more.
async fn again(rig: &mut Rig) -> String {
    rig.sim.faults().clear();
    rig.sim.mirror().clear_faults();
    rig.sim.behave(None, Behaviour::default());
    let request = json!({"os": "debian", "version": "12", "passwd": PASSWORD});
    let install = rig.install(&request).await.unwrap();
    check(rig, &install).await;
    let told = install.messages.iter().filter_map(|message| message.told().ok());
    let end: Vec<String> = told
        .filter(|told| told.message.starts_with("[*] VMID") || told.status == "error")
        .map(|told| Alike::new(rig).text(&told.message))
        .collect();
    format!("  afterwards: {}", end.join("; "))
}

/// What makes several nodes a cluster: each root may log in everywhere.
async fn join_cluster(sim: &Sim, place: &mut Place) {
    let nodes: Vec<String> = sim.world(|world| world.nodes.keys().cloned().collect());
    if nodes.len() < 2 {
        return;
    }
    let keys = place.directory().join("home/.ssh");
    std::fs::create_dir_all(&keys).unwrap();
    let mut command = tokio::process::Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(keys.join("id_ed25519"));
    assert!(command.status().await.unwrap().success());
    std::fs::copy(keys.join("id_ed25519.pub"), sim.authorized_keys()).unwrap();
    std::fs::write(sim.pve_directory().join("priv/known_hosts"), sim.known_hosts()).unwrap();
    for node in nodes {
        let address = sim.node_address(&node).unwrap().to_string();
        place.set(&format!("NODE_{node}"), address);
    }
}
