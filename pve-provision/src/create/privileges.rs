//! What the account must be allowed, looked at before anything is written.

use pve_api::Permissions;
use pve_api::Version;

use super::facts::Facts;
use super::field::Field;
use super::field::Key;
use super::render::Plan;
use super::render::quoted;
use super::resolve::Answers;

/// A privilege that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The privilege, such as `VM.Allocate`.
    pub privilege: &'static str,
    /// The paths of which one is enough; a grant on a path above counts, too.
    pub paths: Vec<String>,
    /// What it is needed for.
    pub reason: &'static str,
}

/// What is needed, and what of it the account lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Privileges {
    /// Everything that is needed.
    pub needed: Vec<Need>,
    /// What is missing.
    pub missing: Vec<Need>,
    /// The lines for a shell of an administrator that grant what is missing.
    pub grants: Vec<String>,
}

impl Privileges {
    /// Compares what a plan needs with what the account has. If that is not known, nothing counts as
    /// missing: the server decides.
    pub fn new(plan: &Plan, answers: &Answers, facts: &Facts) -> Self {
        let needed = needed(plan, answers, facts);
        let missing: Vec<Need> = match facts.permissions() {
            super::Fact::There(granted) => {
                needed.iter().filter(|need| !need.is_met(granted)).cloned().collect()
            }
            _ => Vec::new(),
        };
        let grants = grants(&missing, &facts.account);
        Self { needed, missing, grants }
    }
}

impl Need {
    fn is_met(&self, granted: &Permissions) -> bool {
        self.paths.iter().any(|path| granted.has(self.privilege, path))
    }
}

/// Everything that the whole flow needs.
fn needed(plan: &Plan, answers: &Answers, facts: &Facts) -> Vec<Need> {
    let mut needs = Vec::new();
    let vm = format!("/vms/{}", plan.vmid());
    let pool = plan.create.pool.as_ref().map(|pool| format!("/pool/{pool}"));
    let vm_or_pool: Vec<String> = std::iter::once(vm.clone()).chain(pool).collect();
    let mut add = |privilege, paths: &[String], reason| {
        needs.push(Need { privilege, paths: paths.to_vec(), reason });
    };
    let root = ["/".to_owned()];
    add("VM.Allocate", &vm_or_pool, "making a VM");
    add("VM.Config.Options", &vm_or_pool, "guest type, name, firmware, agent");
    if plan.create.config.tags.is_some() {
        // The pool does not count here.
        add("VM.Config.Options", &[vm], "tags");
    }
    add("VM.Config.CPU", &vm_or_pool, "processors");
    add("VM.Config.Memory", &vm_or_pool, "memory");
    add("VM.Config.HWType", &vm_or_pool, "machine, controller, serial console");
    if plan.create.config.startup.is_some() {
        add("Sys.Modify", &root, "the order of starting and stopping");
    }
    for storage in disk_storages(answers) {
        add("Datastore.AllocateSpace", &[format!("/storage/{storage}")], "a disk");
    }
    match answers.text(Field::Media) {
        "iso" => {
            let path = format!("/storage/{}", answers.text(Field::IsoStorage));
            // Either of two would do; whoever lists the images has one of them.
            if facts.lacks("Datastore.AllocateSpace", &path) {
                add("Datastore.Audit", &[path], "the ISO image");
            }
        }
        "drive" => add("Sys.Console", &root, "the physical disc drive"),
        _ => {}
    }
    if !plan.create.config.net.is_empty() {
        add("VM.Config.Network", &vm_or_pool, "the network card");
        add("SDN.Use", &[bridge_path(answers, facts)], "the bridge");
    }
    if answers.text(Field::CpuType).starts_with("custom-") {
        let (privilege, path) = custom_cpu(answers, facts.version().there());
        add(privilege, &[path], "a custom CPU model");
    }
    if plan.ha {
        add("Sys.Console", &root, "HA");
    }
    if plan.start {
        add("VM.PowerMgmt", &vm_or_pool, "starting the VM");
    }
    needs
}

fn disk_storages(answers: &Answers) -> Vec<String> {
    let disks = (0..answers.disks()).map(|disk| Key::disk(disk, Field::DiskStorage));
    let places = disks.chain([Field::EfiStorage.into(), Field::TpmStorage.into()]);
    let mut storages: Vec<String> = places
        .map(|place| answers.text(place).to_owned())
        .filter(|storage| !storage.is_empty())
        .collect();
    storages.sort();
    storages.dedup();
    storages
}

/// `/sdn/zones/localnetwork/vmbr0`, and the VLAN below it. A vnet lies in its own zone.
fn bridge_path(answers: &Answers, facts: &Facts) -> String {
    let bridge = answers.text(Field::Bridge);
    let zone = super::render::node_name(answers)
        .and_then(|node| facts.bridges(&node).there())
        .and_then(|networks| networks.iter().find(|network| network.name == bridge))
        .and_then(|network| network.extra.get("zone")?.as_str())
        .unwrap_or("localnetwork");
    match answers.number(Field::Vlan) {
        Some(vlan) => format!("/sdn/zones/{zone}/{bridge}/{vlan}"),
        None => format!("/sdn/zones/{zone}/{bridge}"),
    }
}

/// Custom models were opened to other accounts as mappings late in 9.1.
fn custom_cpu(answers: &Answers, version: Option<&Version>) -> (&'static str, String) {
    if version.is_some_and(|version| version.release() < (9, 2)) {
        return ("Sys.Audit", "/nodes".to_owned());
    }
    let name = answers.text(Field::CpuType).trim_start_matches("custom-");
    ("Mapping.Use", format!("/mapping/cpu/{name}"))
}

/// Stock roles that hold a privilege without much else.
fn role(privilege: &str) -> &'static str {
    match privilege {
        "Datastore.AllocateSpace" | "Datastore.Audit" => "PVEDatastoreUser",
        "SDN.Use" => "PVESDNUser",
        "Mapping.Use" => "PVEMappingUser",
        "Sys.Console" => "PVESysAdmin",
        "Sys.Audit" => "PVEAuditor",
        // No smaller stock role can change the datacenter.
        "Sys.Modify" => "Administrator",
        _ => "PVEVMAdmin",
    }
}

fn grants(missing: &[Need], account: &str) -> Vec<String> {
    let who = if account.contains('!') { "--tokens" } else { "--users" };
    let mut grants: Vec<String> = missing
        .iter()
        .filter_map(|need| {
            // With a pool, the pool is the narrower gift: it lasts beyond this one number.
            let path = need.paths.last()?;
            let role = role(need.privilege);
            Some(format!("pveum acl modify {path} {who} {} --roles {role}", quoted(account)))
        })
        .collect();
    grants.sort();
    grants.dedup();
    grants
}
