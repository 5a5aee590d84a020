//! Every recorded refusal of a create request: said beforehand at the right field, or listed as
//! something that the wizard cannot say or cannot know.

use std::collections::BTreeSet;

use super::*;

/// What servers of both releases answered.
const ANSWERS: [(&str, &str); 2] = [
    ("9.2.11", include_str!("../../../../pve-api/tests/recorded/9.2.jsonl")),
    ("8.4.9", include_str!("../../../../pve-api/tests/recorded/8.4.jsonl")),
];

enum Verdict {
    /// These assignments lead to the same request, and to a problem there.
    Problem(&'static [&'static str], &'static str),
    /// These assignments are refused as they are said.
    Unsayable(&'static [&'static str]),
    /// The account lacks a privilege, which is looked at before anything is sent.
    Privilege(&'static [&'static str], &'static str),
    /// These assignments do not bring this parameter into the request of the release that refused it.
    NotSent(&'static [&'static str], &'static str),
    /// The cluster has no quorum, which is a problem at the node.
    WithoutQuorum,
    /// The wizard has no field for this parameter, or none that takes such a value.
    NoField,
    /// Only the server knows.
    NotKnowable(&'static str),
}

use Verdict::NoField;
use Verdict::NotKnowable;
use Verdict::NotSent;
use Verdict::Privilege;
use Verdict::Problem;
use Verdict::Unsayable;
use Verdict::WithoutQuorum;

/// Recorded refusals by their names, whether the request was refused or its task failed.
const REFUSALS: [(&str, Verdict); 50] = [
    ("qemu-create-archive-missing", NoField),
    ("qemu-create-bad-cpu", Problem(&["cpu.type=nosuchcpu"], "cpu.type")),
    ("qemu-create-bad-disk", Problem(&["disks.0.storage=garbage"], "disks.0.storage")),
    ("qemu-create-bad-disk2", Unsayable(&["disks.0.size=abc"])),
    ("qemu-create-bad-params-400", Problem(&["general.name=bad_name!"], "general.name")),
    ("qemu-create-bad-vmid-400", Unsayable(&["general.vmid=99"])),
    ("qemu-create-exists", Problem(&["general.vmid=110"], "general.vmid")),
    ("qemu-create-import-abspath-admin", NoField),
    ("qemu-create-import-abspath-token", NoField),
    ("qemu-create-import-from-iso-img", NoField),
    ("qemu-create-import-size-nonzero", NoField),
    ("qemu-create-isoonly-storage", Problem(&["disks.0.storage=cephfs"], "disks.0.storage")),
    ("qemu-create-no-vmid-400", Problem(&["general.vmid="], "general.vmid")),
    ("qemu-create-noperm-403", Privilege(&[], "VM.Allocate")),
    ("qemu-create-nosuch-storage", Problem(&["disks.0.storage=nosuch"], "disks.0.storage")),
    ("qemu-create-pool-op-net", Privilege(&["general.pool=lab"], "SDN.Use")),
    ("qemu-create-pool-op", Privilege(&["general.pool=lab"], "Datastore.AllocateSpace")),
    ("qemu-create-rootonly-args", NoField),
    ("qemu-create-sshkeys-plus", NoField),
    ("qemu-create-sshkeys-unencoded", NoField),
    ("qemu-create-unknown-pool", Problem(&["general.pool=nosuch"], "general.pool")),
    ("qemu-create-vmid-text-400", Unsayable(&["general.vmid=abc"])),
    ("qemu-create-cdrom-missing", Problem(&["os.iso=local:iso/nosuch.iso"], "os.iso")),
    ("qemu-create-disabled-storage", Problem(&["disks.0.storage=off"], "disks.0.storage")),
    ("qemu-create-elsewhere-storage", Problem(&["disks.0.storage=elsewhere"], "disks.0.storage")),
    ("qemu-create-import-fake-qcow2", NoField),
    ("qemu-create-import-missing", NoField),
    (
        "qemu-create-too-big",
        NotKnowable("how much the file system below a storage takes in one file"),
    ),
    ("cl-create-same-id-other-node", Problem(&["general.vmid=110"], "general.vmid")),
    ("cl-noquorum-create", WithoutQuorum),
    ("unknown-node-post", Problem(&["general.node=nosuch"], "general.node")),
    ("w8-create-ha-managed-0", NotSent(&["general.ha=no"], "ha-managed")),
    ("w8-create-op-ha", NotSent(&["general.pool=lab"], "ha-managed")),
    ("w8-create-wizard-allow-ksm", NotSent(&["memory.ksm=yes"], "allow-ksm")),
    ("w8-create-wizard-both", NotSent(&["memory.ksm=no", "general.ha=yes"], "allow-ksm")),
    ("w8-create-wizard-ha-managed", NotSent(&[], "ha-managed")),
    ("w8-create-wizard-ha-managed-ticket", NotSent(&["general.ha=yes"], "ha-managed")),
    ("w8-net-nobridge-create-admin", Problem(&["network.bridge="], "network.bridge")),
    ("w8-net-nobridge-create-token", Problem(&["network.bridge="], "network.bridge")),
    ("w8-opt-agent-freeze-fs", NoField),
    ("w8-opt-amd-sev", NoField),
    ("w8-opt-arch", NoField),
    ("w8-opt-cpu-phys-bits", Problem(&["cpu.type=host,guest-phys-bits=40"], "cpu.type")),
    ("w8-opt-efi-ms-cert", NoField),
    ("w8-opt-intel-tdx", NoField),
    ("w8-opt-machine-awbits", Problem(&["system.machine=q35,aw-bits=39"], "system.machine")),
    ("w8-opt-nested-virt", Problem(&["cpu.type=host,flags=+nested-virt"], "cpu.type")),
    ("w8-opt-net-hostmtu", NoField),
    ("w8-opt-tpm-format", NoField),
    ("w8-opt-virtiofs", NoField),
];

fn facts(version: &'static str) -> Facts {
    let mut world = World { version, ..World::default() };
    let mut off = storage("off", "dir", "images", &["raw"]);
    off["enabled"] = json!(0);
    world.storages.as_array_mut().unwrap().push(off);
    let mut facts = world.facts();
    facts.learn(Query::IsFree("110".parse().unwrap()), Ok(Found::IsFree(false)));
    facts
}

/// Recorded create requests that came to nothing, but for those of nobody.
fn refusals(answers: &str) -> BTreeSet<String> {
    let answers = answers.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let refused = answers.filter(|answer| {
        let path = answer["path"].as_str().unwrap();
        let is_create = answer["method"] == "POST" && path.ends_with("/qemu");
        let died = answer["exit"].as_str().is_some_and(|exit| exit != "OK");
        is_create && answer["status"] != 401 && (answer["status"] != 200 || died)
    });
    refused.map(|answer| answer["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_recorded_refusal_has_a_verdict() {
    let listed: BTreeSet<String> = REFUSALS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed.len(), REFUSALS.len());
    let recorded: BTreeSet<String> =
        ANSWERS.iter().flat_map(|(_, answers)| refusals(answers)).collect();
    assert_eq!(listed, recorded);
    for (version, answers) in ANSWERS {
        assert!(refusals(answers).len() >= 28, "{version}");
    }
}

#[test]
fn what_was_refused_is_said_beforehand_at_the_right_field() {
    for (version, answers) in ANSWERS {
        let refused = refusals(answers);
        for (name, verdict) in REFUSALS.iter().filter(|(name, _)| refused.contains(*name)) {
            hold(verdict, version, name);
        }
    }
}

fn hold(verdict: &Verdict, version: &'static str, name: &str) {
    let mut facts = facts(version);
    match verdict {
        Problem(said, field) => {
            let answers = resolve(&draft(said), &facts);
            let fields: Vec<String> = answers.problems().map(|(key, _)| key.to_string()).collect();
            assert_eq!(fields, [*field], "{name}");
            assert!(Plan::new(&answers, &facts).is_err(), "{name}");
        }
        Unsayable(said) => {
            for assignment in *said {
                assert!(Draft::default().set(assignment).is_err(), "{name}");
            }
        }
        Privilege(said, privilege) => {
            let plan = Plan::new(&resolve(&draft(said), &facts), &facts).unwrap();
            let mut granted = all_privileges();
            granted.as_object_mut().unwrap().remove(*privilege);
            let granted = read(&json!({ "/": granted }));
            let missing = Privileges::new(&plan, &granted, "ops@pve").missing;
            assert!(!missing.is_empty(), "{name}");
            assert!(missing.iter().all(|need| need.privileges == [*privilege]), "{name}");
        }
        NotSent(said, parameter) => {
            let plan = Plan::new(&resolve(&draft(said), &facts), &facts).unwrap();
            let names: Vec<String> = plan.parameters().into_iter().map(|(name, _)| name).collect();
            assert!(!names.iter().any(|name| name == parameter), "{name}");
        }
        WithoutQuorum => {
            let cluster =
                json!([{ "id": "cluster", "type": "cluster", "name": "lab", "quorate": 0 }]);
            facts.learn(Query::Cluster, Ok(Found::Cluster(read(&cluster))));
            let answers = resolve(&Draft::default(), &facts);
            let fields: Vec<String> = answers.problems().map(|(key, _)| key.to_string()).collect();
            assert_eq!(fields, ["general.node"], "{name}");
        }
        NotKnowable(reason) => assert!(!reason.is_empty()),
        NoField => {}
    }
}

#[test]
fn a_grant_names_account_path_and_role() {
    let facts = World::default().facts();
    let said = ["general.pool=lab", "general.tags=web", "network.vlan=7", "confirm.start=yes"];
    let plan = Plan::new(&resolve(&draft(&said), &facts), &facts).unwrap();
    let nothing = read(&json!({}));
    let privileges = Privileges::new(&plan, &nothing, "ops@pve");
    assert_eq!(privileges.missing, privileges.needed);
    let missing: Vec<String> = privileges.missing.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(missing.join("\n"), @"
    VM.Allocate on /vms/105 or /pool/lab (for making a VM)
    VM.Config.Options on /vms/105 or /pool/lab (for guest type, name, firmware, agent)
    VM.Config.Options on /vms/105 (for tags)
    VM.Config.CPU on /vms/105 or /pool/lab (for processors)
    VM.Config.Memory on /vms/105 or /pool/lab (for memory)
    VM.Config.HWType on /vms/105 or /pool/lab (for machine, controller, serial console)
    Datastore.AllocateSpace on /storage/ceph-pool (for a disk)
    Datastore.Audit or Datastore.AllocateSpace on /storage/cephfs (for the ISO image)
    VM.Config.Network on /vms/105 or /pool/lab (for the network card)
    SDN.Use on /sdn/zones/localnetwork/vmbr9 or /sdn/zones/localnetwork/vmbr9/7 (for the bridge)
    VM.PowerMgmt on /vms/105 or /pool/lab (for starting the VM)
    Sys.Console on / (for HA)
    ");
    insta::assert_snapshot!(privileges.grants.join("\n"), @"
    pveum acl modify / --users ops@pve --roles PVESysAdmin
    pveum acl modify /pool/lab --users ops@pve --roles PVEVMAdmin
    pveum acl modify /sdn/zones/localnetwork/vmbr9/7 --users ops@pve --roles PVESDNUser
    pveum acl modify /storage/ceph-pool --users ops@pve --roles PVEDatastoreUser
    pveum acl modify /storage/cephfs --users ops@pve --roles PVEDatastoreUser
    pveum acl modify /vms/105 --users ops@pve --roles PVEVMAdmin
    ");
    let token = Privileges::new(&plan, &read(&json!({ "/vms": all_privileges() })), "ops@pve!ci");
    insta::assert_snapshot!(token.grants.join("\n"), @"
    pveum acl modify / --tokens 'ops@pve!ci' --roles PVESysAdmin
    pveum acl modify / --users ops@pve --roles PVESysAdmin
    pveum acl modify /sdn/zones/localnetwork/vmbr9/7 --tokens 'ops@pve!ci' --roles PVESDNUser
    pveum acl modify /sdn/zones/localnetwork/vmbr9/7 --users ops@pve --roles PVESDNUser
    pveum acl modify /storage/ceph-pool --tokens 'ops@pve!ci' --roles PVEDatastoreUser
    pveum acl modify /storage/ceph-pool --users ops@pve --roles PVEDatastoreUser
    pveum acl modify /storage/cephfs --tokens 'ops@pve!ci' --roles PVEDatastoreUser
    pveum acl modify /storage/cephfs --users ops@pve --roles PVEDatastoreUser
    ");
    let pool = json!({
        "/pool/lab": all_privileges(), "/vms/105": { "VM.Config.Options": 0 },
        "/storage": { "Datastore.AllocateSpace": 1 }, "/sdn": { "SDN.Use": 1 },
        "/": { "Sys.Console": 0 },
    });
    let enough = Privileges::new(&plan, &read(&pool), "ops@pve");
    assert_eq!(enough.missing, [], "the pool and paths above count");
}

#[test]
fn a_custom_cpu_model_needs_what_the_release_asks_for() {
    for (version, needed) in [
        ("8.4.9", "Sys.Audit on /nodes (for a custom CPU model)"),
        ("9.2.3", "Mapping.Use on /mapping/cpu/small (for a custom CPU model)"),
    ] {
        let world = World { version, ..World::default() };
        let mut facts = world.facts();
        let models = json!([{ "name": "custom-small", "custom": 1 }]);
        let query = Query::CpuModels("pve1".parse().unwrap());
        facts.learn(query, Ok(Found::CpuModels(read(&models))));
        let answers = resolve(&draft(&["cpu.type=custom-small"]), &facts);
        let plan = Plan::new(&answers, &facts).unwrap();
        let needs: Vec<String> = plan.needs.iter().map(ToString::to_string).collect();
        assert!(needs.iter().any(|need| need == needed), "{needs:?}");
    }
}

#[test]
fn every_list_names_the_question_behind_it() {
    let facts = World::default().facts();
    let answers = resolve(&Draft::default(), &facts);
    for (key, answer) in answers.iter() {
        let Some(query) = Query::behind(key, &answers) else { continue };
        let mut facts = facts.clone();
        facts.forget(&query);
        let again = resolve(&Draft::default(), &facts);
        let loads = again.get(key).unwrap().choices == Choices::Loading;
        assert!(loads || answer.lock.is_some() || !answer.shown, "{key}");
    }
}
