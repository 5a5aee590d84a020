//! Every recorded refusal of a create request: said beforehand at the right field, or listed as
//! something that the wizard cannot say or cannot know.

use std::collections::BTreeSet;

use super::*;

const ANSWERS: &str = include_str!("../../../../pve-api/tests/recorded/9.2.jsonl");

enum Verdict {
    /// These assignments lead to the same request, and to a problem there.
    Problem(&'static [&'static str], &'static str),
    /// These assignments are refused as they are said.
    Unsayable(&'static [&'static str]),
    /// The account lacks a privilege, which is looked at before anything is sent.
    Privilege(&'static [&'static str], &'static str),
    /// The wizard has no field for this parameter, or none that takes such a value.
    NoField,
    /// Only the server knows.
    NotKnowable(&'static str),
}

use Verdict::NoField;
use Verdict::NotKnowable;
use Verdict::Privilege;
use Verdict::Problem;
use Verdict::Unsayable;

/// Recorded refusals by their names; the second part were refused by the task.
const REFUSALS: [(&str, Verdict); 28] = [
    ("archive-missing", NoField),
    ("bad-cpu", Problem(&["cpu.type=nosuchcpu"], "cpu.type")),
    ("bad-disk", Problem(&["disks.0.storage=garbage"], "disks.0.storage")),
    ("bad-disk2", Unsayable(&["disks.0.size=abc"])),
    ("bad-params-400", Problem(&["general.name=bad_name!"], "general.name")),
    ("bad-vmid-400", Unsayable(&["general.vmid=99"])),
    ("exists", Problem(&["general.vmid=110"], "general.vmid")),
    ("import-abspath-admin", NoField),
    ("import-abspath-token", NoField),
    ("import-from-iso-img", NoField),
    ("import-size-nonzero", NoField),
    ("isoonly-storage", Problem(&["disks.0.storage=cephfs"], "disks.0.storage")),
    ("no-vmid-400", Problem(&["general.vmid="], "general.vmid")),
    ("noperm-403", Privilege(&[], "VM.Allocate")),
    ("nosuch-storage", Problem(&["disks.0.storage=nosuch"], "disks.0.storage")),
    ("pool-op-net", Privilege(&["general.pool=lab"], "SDN.Use")),
    ("pool-op", Privilege(&["general.pool=lab"], "Datastore.AllocateSpace")),
    ("rootonly-args", NoField),
    ("sshkeys-plus", NoField),
    ("sshkeys-unencoded", NoField),
    ("unknown-pool", Problem(&["general.pool=nosuch"], "general.pool")),
    ("vmid-text-400", Unsayable(&["general.vmid=abc"])),
    ("cdrom-missing", Problem(&["os.iso=local:iso/nosuch.iso"], "os.iso")),
    ("disabled-storage", Problem(&["disks.0.storage=off"], "disks.0.storage")),
    ("elsewhere-storage", Problem(&["disks.0.storage=elsewhere"], "disks.0.storage")),
    ("import-fake-qcow2", NoField),
    ("import-missing", NoField),
    ("too-big", NotKnowable("how much the file system below a storage takes in one file")),
];

fn facts() -> Facts {
    let mut world = World::default();
    let mut off = storage("off", "dir", "images", &["raw"]);
    off["enabled"] = json!(0);
    world.storages.as_array_mut().unwrap().push(off);
    let mut facts = world.facts();
    facts.learn(Query::IsFree("110".parse().unwrap()), Ok(Found::IsFree(false)));
    facts
}

#[test]
fn every_recorded_refusal_has_a_verdict() {
    let listed: BTreeSet<String> =
        REFUSALS.iter().map(|(name, _)| format!("qemu-create-{name}")).collect();
    assert_eq!(listed.len(), REFUSALS.len());
    let mut recorded = BTreeSet::new();
    for line in ANSWERS.lines() {
        let answer: Json = serde_json::from_str(line).unwrap();
        let name = answer["name"].as_str().unwrap();
        if name.starts_with("qemu-create-") && answer["status"] != 200 {
            recorded.insert(name.to_owned());
        }
    }
    assert!(recorded.len() >= 20, "{recorded:?}");
    let missing: Vec<&String> = recorded.difference(&listed).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn what_was_refused_is_said_beforehand_at_the_right_field() {
    let facts = facts();
    for (name, verdict) in &REFUSALS {
        match verdict {
            Problem(said, field) => {
                let answers = resolve(&draft(said), &facts);
                let fields: Vec<String> =
                    answers.problems().map(|(key, _)| key.to_string()).collect();
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
            NotKnowable(reason) => assert!(!reason.is_empty()),
            NoField => {}
        }
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
