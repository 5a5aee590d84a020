//! What the account must be allowed, looked at before anything is written.

use std::fmt;

use pve_api::Create;
use pve_api::Permissions;
use pve_api::Version;

use super::facts::Facts;
use super::field::Field;
use super::field::Key;
use super::render::Plan;
use super::render::node_name;
use super::render::quoted;
use super::resolve::Answers;

/// A privilege that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The privileges of which one is enough.
    pub privileges: &'static [&'static str],
    /// The paths of which one is enough; a grant on a path above counts, too.
    pub paths: Vec<String>,
    /// What it is needed for.
    pub reason: &'static str,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (privileges, paths) = (self.privileges.join(" or "), self.paths.join(" or "));
        write!(f, "{privileges} on {paths} (for {})", self.reason)
    }
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
    /// Compares what a plan needs with what the account has been granted.
    pub fn new(plan: &Plan, granted: &Permissions, account: &str) -> Self {
        let is_met = |need: &Need| {
            need.paths.iter().any(|path| need.privileges.iter().any(|one| granted.has(one, path)))
        };
        let needed = plan.needs.clone();
        let missing: Vec<Need> = needed.iter().filter(|need| !is_met(need)).cloned().collect();
        let grants = grants(&missing, account);
        Self { needed, missing, grants }
    }
}

/// Everything that the whole flow needs.
pub(super) fn needed(create: &Create, answers: &Answers, facts: &Facts) -> Vec<Need> {
    let mut needs = Vec::new();
    let vm = format!("/vms/{}", create.vmid);
    let pool = create.pool.as_ref().map(|pool| format!("/pool/{pool}"));
    let vm_or_pool: Vec<String> = std::iter::once(vm.clone()).chain(pool).collect();
    let root = ["/".to_owned()];
    let mut add = |privileges, paths: &[String], reason| {
        needs.push(Need { privileges, paths: paths.to_vec(), reason });
    };
    add(&["VM.Allocate"], &vm_or_pool, "making a VM");
    add(&["VM.Config.Options"], &vm_or_pool, "guest type, name, firmware, agent");
    if create.config.tags.is_some() {
        // The pool does not count here.
        add(&["VM.Config.Options"], &[vm], "tags");
    }
    add(&["VM.Config.CPU"], &vm_or_pool, "processors");
    add(&["VM.Config.Memory"], &vm_or_pool, "memory");
    add(&["VM.Config.HWType"], &vm_or_pool, "machine, controller, serial console");
    if create.config.startup.is_some() {
        add(&["Sys.Modify"], &root, "the order of starting and stopping");
    }
    for storage in disk_storages(answers) {
        add(&["Datastore.AllocateSpace"], &[format!("/storage/{storage}")], "a disk");
    }
    match answers.text(Field::Media) {
        "iso" => {
            let path = format!("/storage/{}", answers.text(Field::IsoStorage));
            add(&["Datastore.Audit", "Datastore.AllocateSpace"], &[path], "the ISO image");
        }
        "drive" => add(&["Sys.Console"], &root, "the physical disc drive"),
        _ => {}
    }
    if !create.config.net.is_empty() {
        add(&["VM.Config.Network"], &vm_or_pool, "the network card");
        add(&["SDN.Use"], &bridge_paths(answers, facts), "the bridge");
    }
    if let Some(name) = answers.text(Field::CpuType).strip_prefix("custom-") {
        let (privileges, path) = custom_cpu(name, facts.version().there());
        add(privileges, &[path], "a custom CPU model");
    }
    if answers.is_on(Field::Start) {
        add(&["VM.PowerMgmt"], &vm_or_pool, "starting the VM");
    }
    if answers.is_on(Field::Ha) {
        add(&["Sys.Console"], &root, "HA");
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

/// `/sdn/zones/localnetwork/vmbr0`, or the VLAN below it. A vnet lies in its own zone.
fn bridge_paths(answers: &Answers, facts: &Facts) -> Vec<String> {
    let bridge = answers.text(Field::Bridge);
    let zone = node_name(answers)
        .and_then(|node| facts.bridges(&node).there())
        .and_then(|networks| networks.iter().find(|network| network.name == bridge))
        .and_then(|network| network.extra.get("zone")?.as_str())
        .unwrap_or("localnetwork");
    let path = format!("/sdn/zones/{zone}/{bridge}");
    match answers.number(Field::Vlan) {
        // Whoever may use the bridge may use its VLANs; the VLAN alone is enough, too.
        Some(vlan) => vec![path.clone(), format!("{path}/{vlan}")],
        None => vec![path],
    }
}

/// Custom models were opened to other accounts as mappings late in 9.1.
fn custom_cpu(name: &str, version: Option<&Version>) -> (&'static [&'static str], String) {
    if version.is_some_and(|version| version.release() < (9, 2)) {
        return (&["Sys.Audit"], "/nodes".to_owned());
    }
    (&["Mapping.Use"], format!("/mapping/cpu/{name}"))
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

/// A token has what both it and its account were granted, so both are named.
fn grants(missing: &[Need], account: &str) -> Vec<String> {
    let mut who = Vec::new();
    if let Some((user, _)) = account.rsplit_once('!') {
        // root@pam may do everything without being granted it.
        if user != "root@pam" {
            who.push(format!("--users {}", quoted(user)));
        }
        who.push(format!("--tokens {}", quoted(account)));
    } else {
        who.push(format!("--users {}", quoted(account)));
    }
    let mut grants: Vec<String> = Vec::new();
    for need in missing {
        // The last path is the narrowest, or the pool, which lasts beyond this one number.
        let (Some(path), Some(privilege)) = (need.paths.last(), need.privileges.first()) else {
            continue;
        };
        let role = role(privilege);
        grants
            .extend(who.iter().map(|who| format!("pveum acl modify {path} {who} --roles {role}")));
    }
    grants.sort();
    grants.dedup();
    grants
}
