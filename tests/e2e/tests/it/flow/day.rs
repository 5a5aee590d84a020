//! One VM that is made, what is broken while it is, and what comes of it.
//!
//! Whatever the day, these hold and are checked here:
//! * events have numbers without gaps, and a failed step says what is left, truthfully;
//! * one create request is accepted at most, and none carries a start, HA, or an option that the
//!   release does not know;
//! * HA is asked for with its state and nothing else, and never for groups;
//! * a network card has its bridge;
//! * nobody else's VM is touched;
//! * no password and no token has come out anywhere.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use pve_api::Client;
use pve_api::Login;
use pve_api::Settings;
use pve_api::Trust;
use pve_e2e::wizard;
use pve_provision::Event;
use pve_provision::Kind;
use pve_provision::Left;
use pve_provision::Step;
use pve_provision::create::Draft;
use pve_provision::create::End;
use pve_provision::create::Facts;
use pve_provision::create::Failure;
use pve_provision::create::Patience;
use pve_provision::create::Plan;
use pve_provision::create::Remedy;
use pve_provision::create::Stage;
use pve_provision::create::load_all;
use pve_provision::create::resolve;
use pve_provision::create::run;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::call::Method;
use pve_sim::schema::Release;
use pve_sim::sim::Account;
use pve_sim::sim::Fault;
use pve_sim::sim::Manners;
use pve_sim::world::Configuration;
use pve_sim::world::Guest;
use pve_sim::world::World;

const PASSWORD: &str = "us3r's s3cret";
pub(super) const TOKEN: &str = "ci";
const SECRET: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// What the wizard's number is on a fresh cluster.
pub(super) const VMID: u32 = 100;
/// A name that only somebody else's VM has.
pub(super) const ANOTHERS: &str = "anothers";

type Change = Box<dyn FnOnce(&Sim) + Send>;

/// What a row says about its day.
pub(super) struct Day {
    said: Vec<&'static str>,
    account: Account,
    changes: Mutex<Vec<(Step, Change)>>,
    watch: Option<fn(&mut World) -> bool>,
    faults: Vec<Fault>,
    again: bool,
    stubborn: bool,
}

impl Day {
    /// The defaults, made by root, without anything broken.
    pub(super) fn new(said: &[&'static str]) -> Self {
        Self {
            said: said.to_vec(),
            account: Account::new("root@pam", PASSWORD),
            changes: Mutex::default(),
            watch: None,
            faults: Vec::new(),
            again: false,
            stubborn: false,
        }
    }

    /// By an account with these roles.
    pub(super) fn by(mut self, roles: &[(&str, &str)]) -> Self {
        self.account =
            roles.iter().fold(Account::new("ops@pve", PASSWORD), |account, (path, role)| {
                account.role(path, role)
            });
        self
    }

    /// By an API token of root's.
    pub(super) fn by_token(mut self) -> Self {
        self.account = self.account.token(TOKEN, SECRET, false);
        self
    }

    /// This happens when a step begins.
    pub(super) fn at(self, step: Step, change: impl FnOnce(&Sim) + Send + 'static) -> Self {
        self.changes.lock().unwrap().push((step, Box::new(change)));
        self
    }

    /// This is done to the world, over and over, until it says that it is done; then all faults are
    /// taken away.
    pub(super) fn watch(mut self, change: fn(&mut World) -> bool) -> Self {
        self.watch = Some(change);
        self
    }

    /// This is broken.
    pub(super) fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// It is tried again after somebody has logged in anew and mended what was broken.
    pub(super) fn again(mut self) -> Self {
        self.again = true;
        self
    }

    /// It is tried again, and what was broken still is.
    pub(super) fn again_all_the_same(mut self) -> Self {
        self.stubborn = true;
        self.again()
    }

    /// Lives through the day; gives what was told and what is left.
    pub(super) async fn run(self, release: Release) -> String {
        let sim = self.cluster(release).await;
        let client = self.log_in(&sim).await;
        let mut draft = Draft::default();
        for assignment in &self.said {
            draft.set(assignment).unwrap();
        }
        let mut facts = Facts::new(client.account());
        load_all(&client, &draft, &mut facts).await;
        let plan = match Plan::new(&resolve(&draft, &facts), &facts) {
            Ok(plan) => plan,
            Err(refused) => return indented(&format!("not ready: {refused}")),
        };
        for fault in self.faults.iter().cloned() {
            sim.faults().add(fault);
        }
        let mut told = Vec::new();
        let end = self.made(&sim, &client, &plan, Stage::Create).await;
        told.push(shown(&end));
        if let Some(stage) = stage_after(&end).filter(|_| self.again) {
            if !self.stubborn {
                sim.faults().clear();
            }
            client.adopt(&self.log_in(&sim).await);
            told.push(shown(&self.made(&sim, &client, &plan, stage).await));
        }
        check_requests(&sim, release);
        told.push(sim.world(left));
        sim.stop().await;
        indented(&told.join("\n"))
    }

    async fn cluster(&self, release: Release) -> Sim {
        let manners = Manners { hold: Duration::ZERO, ..Manners::default() };
        let accounts = vec![self.account.clone()];
        wizard::cluster(Config { release, manners, accounts, ..Config::default() }).await.unwrap()
    }

    async fn log_in(&self, sim: &Sim) -> Client {
        let address = sim.https_url().unwrap().parse().unwrap();
        let trust = Trust::Fingerprints(vec![sim.fingerprint().parse().unwrap()]);
        let server = pve_api::Server::new(&Settings::new(address, trust)).unwrap();
        if !self.account.tokens.is_empty() {
            let token = format!("{}!{TOKEN}={SECRET}", self.account.user);
            return server.token(&token.parse().unwrap());
        }
        let user = self.account.user.parse().unwrap();
        match server.login(&user, &PASSWORD.to_owned().into()).await.unwrap() {
            Login::Done(client) => client,
            Login::SecondFactor(challenge) => panic!("{challenge:?}"),
        }
    }

    async fn made(&self, sim: &Sim, client: &Client, plan: &Plan, stage: Stage) -> End {
        let patience = Patience {
            lock: Duration::from_millis(500),
            look: Duration::from_millis(300),
            pause: Duration::from_millis(20),
        };
        let mut events: Vec<Event> = Vec::new();
        let heard = |event: Event| {
            let mut changes = self.changes.lock().unwrap();
            for (_, change) in changes.extract_if(.., |(step, _)| *step == event.step) {
                change(sim);
            }
            events.push(event);
        };
        let watching = async {
            let Some(watch) = self.watch else { return };
            while !sim.change(watch) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            sim.faults().clear();
        };
        let (end, ()) = tokio::join!(run(client, plan, stage, &patience, heard), watching);
        check_events(sim, &events);
        end
    }
}

/// From where it is tried again after an end.
fn stage_after(end: &End) -> Option<Stage> {
    match end {
        End::Made { .. } => None,
        End::NothingMade(_) => Some(Stage::Create),
        End::WithoutConsole(_) | End::Incomplete(_) => Some(Stage::Finish),
        End::Unknown { resume, .. } => Some(resume.clone()),
    }
}

fn check_events(sim: &Sim, events: &[Event]) {
    for (number, event) in (0..).zip(events) {
        assert_eq!(event.number, number, "{events:#?}");
        let printed = format!("{event:?}");
        assert!(
            ![PASSWORD, SECRET, "PVE:"].iter().any(|secret| printed.contains(secret)),
            "{printed}"
        );
        let is_ours =
            sim.world(|world| world.guests.get(&VMID).is_some_and(|guest| !is_anothers(guest)));
        match &event.kind {
            Kind::Failed { left: Left::Nothing, .. } => assert!(!is_ours, "{printed}"),
            Kind::Failed { left: Left::Vm { vmid, node }, .. } => {
                assert!(is_ours && vmid.get() == VMID && node.as_str() == "pve1", "{printed}");
            }
            _ => {}
        }
    }
}

fn check_requests(sim: &Sim, release: Release) {
    let called = sim.called();
    let writes = |path: &str| {
        let path = path.to_owned();
        called.iter().filter(move |call| call.method != Method::Get && call.path == path)
    };
    let sent: Vec<_> = writes("/nodes/pve1/qemu").collect();
    let accepted = sent.iter().filter(|call| call.status == 200).count();
    assert!(accepted <= 1, "{sent:#?}");
    for call in sent {
        let has = |name: &str| call.parameters.contains_key(name);
        assert!(!has("start") && !has("ha-managed"), "{call:#?}");
        assert!(release == Release::V9_2 || !has("allow-ksm"), "{call:#?}");
        let card = call.parameters.get("net0");
        assert!(card.is_none_or(|card| card.contains("bridge=")), "{call:#?}");
        assert_ne!(call.status, 400, "{call:#?}");
    }
    for call in writes("/cluster/ha/resources") {
        let names: Vec<&str> = call.parameters.keys().map(String::as_str).collect();
        assert_eq!(names, ["sid", "state"], "{call:#?}");
    }
    assert!(!called.iter().any(|call| call.path.contains("/ha/groups")));
    let others = called.iter().filter(|call| call.method != Method::Get);
    let own = ["/access/ticket", "/nodes/pve1/qemu", "/cluster/ha/resources"];
    for call in others.filter(|call| !own.contains(&call.path.as_str())) {
        assert!(call.path.starts_with(&format!("/nodes/pve1/qemu/{VMID}/")), "{call:#?}");
    }
}

fn is_anothers(guest: &Guest) -> bool {
    guest.configuration.get("name") == Some(ANOTHERS)
}

/// Somebody else's guest with our number.
pub(super) fn anothers(kind: pve_sim::world::Kind, node: &str) -> Guest {
    let mut configuration = Configuration::default();
    configuration.options.insert("name".to_owned(), ANOTHERS.to_owned());
    configuration.options.insert("memory".to_owned(), "512".to_owned());
    Guest { kind, node: node.to_owned(), configuration, running: None }
}

/// What is left in the cluster.
fn left(world: &World) -> String {
    let Some(guest) = world.guests.get(&VMID) else { return "left: nothing".to_owned() };
    if is_anothers(guest) {
        let options = &guest.configuration.options;
        assert!(!options.contains_key("serial0") && !options.contains_key("vga"), "{options:#?}");
        assert!(!world.ha.contains_key(&format!("vm:{VMID}")));
        return "left: another's VM, untouched".to_owned();
    }
    let get = |key: &str| guest.configuration.get(key);
    let console = get("serial0") == Some("socket") && get("vga") == Some("serial0");
    let state = world.ha.get(&format!("vm:{VMID}")).and_then(|options| options.get("state"));
    let parts = [
        Some(if guest.running.is_some() { "running" } else { "stopped" }.to_owned()),
        Some(if console { "with console" } else { "without console" }.to_owned()),
        state.map(|state| format!("under HA as {state}")),
        get("allow-ksm").map(|value| format!("allow-ksm={value}")),
        world.pool_of(VMID).map(|pool| format!("in pool {pool}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("left: VM, {}", parts.join(", "))
}

fn shown(end: &End) -> String {
    match end {
        End::Made { warnings } if warnings.is_empty() => "made".to_owned(),
        End::Made { warnings } => format!("made, with warnings: {}", warnings.join("; ")),
        End::NothingMade(failure) => format!("nothing made: {}", why(failure)),
        End::WithoutConsole(failure) => format!("made without console: {}", why(failure)),
        End::Incomplete(failures) => {
            let whys: Vec<String> = failures.iter().map(why).collect();
            format!("incomplete: {}", whys.join("\n  and: "))
        }
        End::Unknown { failure, .. } => format!("unknown: {}", why(failure)),
    }
}

fn why(failure: &Failure) -> String {
    let fields: BTreeMap<String, &String> =
        failure.fields.iter().map(|(key, text)| (key.to_string(), text)).collect();
    let fields = if fields.is_empty() { String::new() } else { format!(" {fields:?}") };
    let remedy = match &failure.remedy {
        Remedy::None => String::new(),
        Remedy::LogIn => " [log in again]".to_owned(),
        Remedy::TakeNumber(Some(vmid)) => format!(" [take {vmid}]"),
        Remedy::TakeNumber(None) => " [take another number]".to_owned(),
        Remedy::Grant(lines) => format!("\n    {}", lines.join("\n    ")),
        Remedy::Command(line) => format!(" [{line}]"),
    };
    format!("{}{fields}{remedy}", without_ids(&failure.reason))
}

/// A text without the numbers of tasks, which are new every day.
fn without_ids(text: &str) -> String {
    let Some((before, rest)) = text.split_once("UPID:") else { return text.to_owned() };
    let (_, after) = rest.split_once(['/', ' ']).unwrap_or((rest, ""));
    format!("{before}…/{after}")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
