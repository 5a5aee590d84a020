//! Start, stop, shutdown and reboot.

use crate::call::Answer;
use crate::call::Died;
use crate::call::Output;
use crate::call::Request;
use crate::call::Worker;
use crate::call::cpu::lacking;
use crate::call::guest_spec;
use crate::effect::Effect;
use crate::world::Configuration;
use crate::world::Guest;
use crate::world::Running;
use crate::world::World;

/// Seconds that a guest gets to power off when nobody says.
const SHUTDOWN_TIMEOUT: u64 = 60;

fn find<'a>(world: &'a World, node: &str, vmid: u32) -> Result<&'a Guest, Died> {
    world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))
}

/// In a worker the exit code is the command's own.
fn inside(died: Died) -> Died {
    Died { exit: 255, ..died }
}

fn check_lock(configuration: &Configuration, skiplock: bool) -> Result<(), Died> {
    match configuration.lock() {
        Some(lock) if !skiplock => Err(Died::new(format!("VM is locked ({lock})"))),
        _ => Ok(()),
    }
}

/// What the HA manager looks after is left to it; it never gets to it here.
fn by_manager(world: &mut World, request: Request<'_>, action: &'static str) -> Option<Answer> {
    let vmid = request.vmid;
    let options = world.ha.get_mut(&format!("vm:{vmid}"))?;
    let state = if action == "start" { "started" } else { "stopped" };
    options.insert("state".to_owned(), state.to_owned());
    let kind = format!("ha{action}");
    let upid = world.begin_task(request.node, &kind, &request.id(), &request.caller.user);
    Some(Answer::worker(Worker::new(upid).then(move |_, output| {
        output.say(format!("Requesting HA {action} for VM {vmid}"));
        Ok(())
    })))
}

/// `qm start`.
pub fn start(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let skiplock = request.skiplock()?;
    let (node, vmid) = (request.node.to_owned(), request.vmid);
    if !world.quorate() {
        return Err(Died::new("cluster not ready - no quorum?"));
    }
    if let Some(answer) = by_manager(world, request, "start") {
        return Ok(answer);
    }
    Ok(Answer::worker(start_worker(world, &node, vmid, &request.caller.user, skiplock)))
}

/// The task that starts a VM.
pub(super) fn start_worker(
    world: &mut World,
    node: &str,
    vmid: u32,
    user: &str,
    skiplock: bool,
) -> Worker {
    let upid = world.begin_task(node, "qmstart", &vmid.to_string(), user);
    let (node, owner) = (node.to_owned(), node.to_owned());
    Worker::new(upid)
        .then(move |world, output| {
            let guest = find(world, &node, vmid).map_err(inside)?;
            check_lock(&guest.configuration, skiplock)?;
            if guest.configuration.get("template") == Some("1") {
                return Err(Died::new("you can't start a vm if it's a template"));
            }
            if guest.running.is_some() {
                return Err(Died::new(format!("VM {vmid} already running")));
            }
            let merged = guest.configuration.merged();
            let spec = guest_spec(world, &node, vmid, &merged);
            check_cores(world, &node, spec.cores)?;
            check_bridges(&merged)?;
            if spec.cloud_init.is_some() {
                output.say("generating cloud-init ISO");
            }
            check_processor(world, &node, spec.cpu.as_deref(), output)?;
            output.effect(Effect::Started(Box::new(spec)));
            Ok(())
        })
        .then(move |world, _| {
            set_running(world, &owner, vmid);
            Ok(())
        })
}

fn set_running(world: &mut World, node: &str, vmid: u32) {
    let running =
        Running { pid: 2000 + world.entropy.below(30_000), since: world.now, paused: false };
    if let Some(guest) = world.vm_mut(node, vmid) {
        guest.configuration.apply_pending();
        guest.running = Some(running);
    }
}

fn check_cores(world: &World, node: &str, cores: u32) -> Result<(), Died> {
    match world.nodes.get(node) {
        Some(found) if cores > found.cpus => {
            let most = found.cpus;
            Err(Died::new(format!("MAX {most} vcpus allowed per VM on this node")))
        }
        _ => Ok(()),
    }
}

/// QEMU names each feature that the host lacks and gives up.
fn check_processor(
    world: &World,
    node: &str,
    cpu: Option<&str>,
    output: &mut Output,
) -> Result<(), Died> {
    let flags = world.nodes.get(node).map_or("", |node| node.flags.as_str());
    let lacking = lacking(cpu.unwrap_or_default(), flags);
    if lacking.is_empty() {
        return Ok(());
    }
    for flag in lacking {
        output.say(format!("kvm: warning: host doesn't support requested feature: {flag}"));
    }
    output.say("kvm: Host doesn't support requested features");
    Err(Died::new("start failed: QEMU exited with code 1"))
}

fn check_bridges(options: &std::collections::BTreeMap<String, String>) -> Result<(), Died> {
    let bridges =
        options.iter().filter(|(key, _)| key.starts_with("net")).filter_map(|(_, value)| {
            crate::schema::Properties::parse(value).get("bridge").map(str::to_owned)
        });
    for bridge in bridges {
        if bridge != "vmbr0" {
            return Err(Died::new(format!("bridge '{bridge}' does not exist")));
        }
    }
    Ok(())
}

/// `qm stop`: at once, locked or not; a stopped VM is fine.
pub fn stop(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    request.skiplock()?;
    let (node, vmid) = (request.node.to_owned(), request.vmid);
    if let Some(answer) = by_manager(world, request, "stop") {
        return Ok(answer);
    }
    let upid = world.begin_task(&node, "qmstop", &request.id(), &request.caller.user);
    Ok(Answer::worker(Worker::new(upid).then(move |world, output| {
        let Some(guest) = world.vm_mut(&node, vmid) else {
            return Err(Died::new(format!(
                "unable to find configuration file for VM {vmid} on node '{node}'"
            )));
        };
        if guest.running.take().is_some() {
            output.effect(Effect::Stopped { vmid });
        }
        Ok(())
    })))
}

fn timeout(request: Request<'_>) -> u64 {
    request.get("timeout").and_then(|text| text.parse().ok()).unwrap_or(SHUTDOWN_TIMEOUT)
}

/// Reset, suspend and resume: a running VM needs nothing else.
pub fn nudge(world: &mut World, request: Request<'_>, kind: &str) -> Result<Answer, Died> {
    request.skiplock()?;
    let (node, vmid) = (request.node.to_owned(), request.vmid);
    if find(world, &node, vmid)?.running.is_none() {
        return Err(Died::exit(format!("VM {vmid} not running"), 2));
    }
    let paused = (kind != "qmreset").then_some(kind == "qmpause");
    let upid = world.begin_task(&node, kind, &request.id(), &request.caller.user);
    Ok(Answer::worker(Worker::new(upid).then(move |world, _| {
        let running = world.vm_mut(&node, vmid).and_then(|guest| guest.running.as_mut());
        if let (Some(running), Some(paused)) = (running, paused) {
            running.paused = paused;
        }
        Ok(())
    })))
}

/// `qm shutdown`: asks the guest.
pub fn shutdown(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let skiplock = request.skiplock()?;
    let (node, vmid) = (request.node.to_owned(), request.vmid);
    if let Some(answer) = by_manager(world, request, "stop") {
        return Ok(answer);
    }
    let timeout = timeout(request);
    let force = request.flag("forceStop");
    let upid = world.begin_task(&node, "qmshutdown", &request.id(), &request.caller.user);
    let owner = node.clone();
    Ok(Answer::worker(
        Worker::new(upid)
            .then(move |world, output| {
                let guest = find(world, &node, vmid).map_err(inside)?;
                check_lock(&guest.configuration, skiplock)?;
                if guest.running.is_none() {
                    output.warn(format!("VM {vmid} not running"));
                    output.warn("");
                    return Ok(());
                }
                output.effect(Effect::ShutDown { vmid, timeout, force });
                Ok(())
            })
            .then(move |world, _| {
                if let Some(guest) = world.vm_mut(&owner, vmid) {
                    guest.running = None;
                }
                Ok(())
            }),
    ))
}

/// `qm reboot`: shutdown and start, with what was pending.
pub fn reboot(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node.to_owned(), request.vmid);
    let guest = find(world, &node, vmid)?;
    if guest.running.is_none() {
        let mut answer = Answer::data(serde_json::Value::Null);
        let warn = |text: &str| crate::call::Line {
            stream: crate::call::Stream::Err,
            text: text.to_owned(),
        };
        let text = format!("VM {vmid} not running");
        answer.lines.extend([warn(&text), warn("")]);
        return Ok(answer.failed(Died::exit(text, 2)));
    }
    let timeout = timeout(request);
    let upid = world.begin_task(&node, "qmreboot", &request.id(), &request.caller.user);
    let owner = node.clone();
    Ok(Answer::worker(
        Worker::new(upid)
            .then(move |world, output| {
                let guest = find(world, &node, vmid).map_err(inside)?;
                check_lock(&guest.configuration, false)?;
                let merged = guest.configuration.merged();
                let guest = Box::new(guest_spec(world, &node, vmid, &merged));
                output.effect(Effect::Rebooted { guest, timeout });
                Ok(())
            })
            .then(move |world, _| {
                set_running(world, &owner, vmid);
                Ok(())
            }),
    ))
}
