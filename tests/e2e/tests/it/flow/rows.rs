//! The rows.

use std::collections::BTreeMap;
use std::time::Duration;

use pve_provision::Step;
use pve_sim::Sim;
use pve_sim::sim::Fault;
use pve_sim::sim::FaultAnswer;
use pve_sim::world::Kind;
use pve_sim::world::World;

use super::Row;
use super::day::Day;
use super::day::TOKEN;
use super::day::VMID;
use super::day::anothers;

const CREATE: &str = "^POST /nodes/pve1/qemu( |$)";
const CONFIG: &str = "^PUT /nodes/pve1/qemu/100/config";
const START: &str = "^POST /nodes/pve1/qemu/100/status/start";
const HA: &str = "^POST /cluster/ha/resources";
const TASK: &str = "^GET /nodes/pve1/tasks/.*/status";

const CREATING: Step = Step::CreatingThroughApi;
const STARTED: &str = "confirm.start=yes";

/// Rights on what a pool needs, but none on `/`.
const OF_POOL: [(&str, &str); 3] =
    [("/pool/lab", "PVEVMAdmin"), ("/storage", "PVEDatastoreUser"), ("/sdn", "PVESDNUser")];
const IN_POOL: [&str; 1] = ["general.pool=lab"];

pub(super) const COUNT: usize = 50;

fn answers(pattern: &str, status: u16, text: &str) -> Fault {
    let answer = FaultAnswer::Answer { status, text: text.to_owned(), errors: BTreeMap::new() };
    Fault::always(pattern, answer)
}

fn drops(pattern: &str, done: bool) -> Fault {
    Fault::once(pattern, FaultAnswer::Drop { done, polite: false })
}

fn times(times: u32, fault: Fault) -> Fault {
    Fault { times: Some(times), ..fault }
}

/// Longer than a ticket is good.
fn three_hours(sim: &Sim) {
    sim.pass(Duration::from_hours(3));
}

fn taken(kind: Kind, node: &'static str) -> impl Fn(&Sim) {
    move |sim| sim.change(|world| drop(world.guests.insert(VMID, anothers(kind, node))))
}

fn strip(sim: &Sim) {
    sim.change(|world| world.access.grants.clear());
}

fn take_token(sim: &Sim) {
    sim.change(|world| drop(world.access.users.get_mut("root@pam").unwrap().tokens.remove(TOKEN)));
}

fn ha_has_it(state: &'static str) -> impl Fn(&Sim) {
    move |sim| {
        let options = BTreeMap::from([("state".to_owned(), state.to_owned())]);
        sim.change(|world| drop(world.ha.insert(format!("vm:{VMID}"), options.clone())));
    }
}

fn locked(sim: &Sim) {
    sim.change(|world| {
        let guest = world.guests.get_mut(&VMID).unwrap();
        guest.configuration.options.insert("lock".to_owned(), "backup".to_owned());
    });
}

/// Lets a create task end with a warning.
fn warned(world: &mut World) -> bool {
    let task = world.tasks.iter_mut().find(|task| task.kind == "qmcreate");
    let Some(task) = task.filter(|task| task.ended.is_some()) else { return false };
    task.ended = task.ended.as_ref().map(|(time, _)| (*time, Err("WARNINGS: 1".to_owned())));
    task.log.push("WARN: iothread is only valid with virtio disk".to_owned());
    true
}

#[rustfmt::skip]
pub(super) fn rows() -> Vec<Row> {
    vec![
        ("the defaults", || Day::new(&[])),
        ("started", || Day::new(&[STARTED])),
        ("started, without HA", || Day::new(&[STARTED, "general.ha=no"])),
        ("an option that only one release knows", || Day::new(&["memory.ksm=no"])),
        ("in a pool, by an account of the pool", || Day::new(&IN_POOL).by(&OF_POOL)),
        ("HA is insisted on without the privilege", || Day::new(&["general.pool=lab", "general.ha=yes"]).by(&OF_POOL)),
        ("without a network card, by an account of the pool", || Day::new(&["general.pool=lab", "network.none=yes"]).by(&OF_POOL[..2])),
        ("the bridge is not allowed", || Day::new(&["general.pool=lab", "network.bridge=vmbr0"]).by(&OF_POOL[..2])),
        ("all rights are lost before the check", || Day::new(&IN_POOL).by(&OF_POOL).at(Step::CheckingPrivileges, strip)),
        ("all rights are lost after the check", || Day::new(&IN_POOL).by(&OF_POOL).at(CREATING, strip)),
        ("a VM takes the number meanwhile", || Day::new(&[]).at(CREATING, taken(Kind::Qemu, "pve1"))),
        ("a VM of another node takes the number meanwhile", || Day::new(&[]).at(CREATING, taken(Kind::Qemu, "pve2"))),
        ("a container takes the number meanwhile", || Day::new(&[]).at(CREATING, taken(Kind::Lxc, "pve1"))),
        ("the storage goes meanwhile", || Day::new(&[]).at(CREATING, |sim| sim.change(|world| drop(world.storages.remove("ceph-pool"))))),
        ("the image goes meanwhile", || Day::new(&[]).at(CREATING, |sim| sim.change(|world| world.volumes.clear()))),
        ("the quorum goes meanwhile", || Day::new(&[]).at(CREATING, |sim| sim.change(|world| world.cluster.as_mut().unwrap().quorate = false))),
        ("the node goes meanwhile", || Day::new(&[]).fault(answers(CREATE, 595, "No route to host"))),
        ("a parameter is refused", || Day::new(&[]).fault(Fault::once(CREATE, FaultAnswer::Answer {
            status: 400, text: "Parameter verification failed.".to_owned(),
            errors: BTreeMap::from([("cores".to_owned(), "value must have a maximum value of 1".to_owned())]),
        }))),
        ("a card without a bridge is refused", || Day::new(&[]).fault(answers(CREATE, 500, "no sdn vnet ID specified"))),
        ("the ticket dies before", || Day::new(&[]).at(Step::CheckingPrivileges, three_hours).again()),
        ("the ticket dies before the request", || Day::new(&[]).at(CREATING, three_hours).again()),
        ("the ticket dies before the console", || Day::new(&[]).at(Step::SettingUpConsole, three_hours).again()),
        ("the ticket dies before the start", || Day::new(&[STARTED]).at(Step::StartingVm, three_hours).again()),
        ("by a token", || Day::new(&[STARTED]).by_token()),
        ("the token is taken away before", || Day::new(&[]).by_token().at(Step::CheckingPrivileges, take_token)),
        ("the token is taken away before the request", || Day::new(&[]).by_token().at(CREATING, take_token)),
        ("the token is taken away before the console", || Day::new(&[]).by_token().at(Step::SettingUpConsole, take_token)),
        ("the task warns", || Day::new(&[]).fault(answers(TASK, 595, "No route to host")).watch(warned)),
        ("the task cannot be followed", || Day::new(&[]).fault(answers(TASK, 403, "Permission check failed")).again()),
        ("the answer is lost, it was done", || Day::new(&[]).fault(drops(CREATE, true))),
        ("the answer is lost, it was not done", || Day::new(&[]).fault(times(1, answers(CREATE, 596, "Connection timed out"))).again()),
        ("the answer is lost, another takes the number", || Day::new(&[]).at(CREATING, taken(Kind::Qemu, "pve1"))
            .fault(answers(CREATE, 596, "Connection timed out"))),
        ("the answer is lost twice, the second time it was done", || Day::new(&[]).fault(drops(CREATE, false)).fault(drops(CREATE, true)).again_all_the_same()),
        ("the console meets a lock that goes", || Day::new(&[]).fault(times(2, answers(CONFIG, 500, "VM is locked (backup)")))),
        ("the console meets a lock that stays", || Day::new(&[]).at(Step::SettingUpConsole, locked)),
        ("the console's lock is not to be had", || Day::new(&[]).fault(answers(CONFIG, 500,
            "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout")).again()),
        ("the console is forbidden", || Day::new(&[STARTED]).fault(answers(CONFIG, 403, "Permission check failed (/vms/100, VM.Config.HWType)")).again()),
        ("the console's answer is lost, it was not done", || Day::new(&[]).fault(answers(CONFIG, 596, "Connection timed out")).again()),
        ("the console's answer is lost, it was done", || Day::new(&[]).fault(drops(CONFIG, true))),
        ("HA is forbidden", || Day::new(&[]).fault(answers(HA, 403, "Permission check failed (/, Sys.Console)")).again()),
        ("HA's answer is lost, it was done", || Day::new(&[STARTED]).fault(drops(HA, true))),
        ("somebody put it under HA, to be stopped", || Day::new(&[STARTED]).at(Step::AddingToHa, ha_has_it("stopped"))),
        ("somebody put it under HA before the start", || Day::new(&[STARTED]).at(Step::StartingVm, ha_has_it("stopped"))),
        ("the node has too few processors", || Day::new(&[STARTED]).at(Step::StartingVm, |sim| sim.change(|world| {
            world.nodes.get_mut("pve1").unwrap().cpus = 1;
        }))),
        ("QEMU does not start", || Day::new(&[STARTED]).fault(Fault::always(START, FaultAnswer::Effect("start failed: QEMU exited with code 1".to_owned()))).again()),
        ("the start is forbidden", || Day::new(&[STARTED]).fault(answers(START, 403, "Permission check failed (/vms/100, VM.PowerMgmt)"))),
        ("the start's answer is lost, it was done", || Day::new(&[STARTED]).fault(drops(START, true))),
        ("the start's answer is lost, it was not done", || Day::new(&[STARTED]).fault(answers(START, 596, "Connection timed out"))),
        ("start and HA both fail", || Day::new(&[STARTED]).fault(answers(HA, 403, "Permission check failed (/, Sys.Console)"))
            .fault(Fault::always(START, FaultAnswer::Effect("start failed: QEMU exited with code 1".to_owned())))),
        ("the start meets a lock that goes", || Day::new(&[STARTED]).fault(times(2, answers(START, 500, "VM is locked (backup)")))),
    ]
}
