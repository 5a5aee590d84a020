//! What is left after a day: VMs, disks, files, processes, jobs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pve_e2e::rig::Rig;
use serde_json::Value;

/// What is left, one line each; a finished download with its note, the node's key and ended jobs are not told.
pub(crate) async fn left(rig: &Rig) -> Vec<String> {
    let mut left = guests(rig);
    left.extend(volumes(rig));
    left.extend(files(rig));
    left.extend(processes(rig).await);
    left.extend(jobs(rig).await);
    left
}

fn guests(rig: &Rig) -> Vec<String> {
    rig.sim.world(|world| {
        let guests = world.guests.iter().map(|(vmid, guest)| {
            let text = |key: &str| guest.configuration.get(key).unwrap_or("-").to_owned();
            let state = if guest.running.is_some() { "running" } else { "stopped" };
            let lock = guest.configuration.get("lock").map(|lock| format!(", lock {lock}"));
            format!(
                "VM {vmid} '{}' on {}, {state}, {}{}",
                text("name"),
                guest.node,
                if text("description").contains("made by pve-server job") {
                    "ours"
                } else {
                    "not ours"
                },
                lock.unwrap_or_default()
            )
        });
        guests.collect()
    })
}

/// Disks that no VM has.
fn volumes(rig: &Rig) -> Vec<String> {
    rig.sim.world(|world| {
        let lost = world
            .volumes
            .iter()
            .filter(|volume| volume.vmid.is_some_and(|vmid| !world.guests.contains_key(&vmid)));
        lost.map(|volume| format!("disk {}:{}", volume.storage, volume.name)).collect()
    })
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn files(rig: &Rig) -> Vec<String> {
    let below = |name: &str| rig.place.directory().join(name);
    let images = names(&below("images"));
    let is_whole = |name: &String| {
        let image = name.strip_suffix(".json").unwrap_or(name);
        !name.contains(".part")
            && images.iter().any(|other| other == image)
            && images.contains(&format!("{image}.json"))
    };
    let odd = images.iter().filter(|name| !is_whole(name)).map(|name| format!("images/{name}"));
    let mut files: Vec<String> = odd.collect();
    for directory in ["state/work", "state/ssh"] {
        files.extend(names(&below(directory)).iter().map(|name| format!("{directory}/{name}")));
    }
    files.iter().map(|name| format!("file {name}")).collect()
}

/// Processes of the server, of this one or one before it; those that are about to end are given a moment.
async fn processes(rig: &Rig) -> Vec<String> {
    let found = || {
        let mut found = of_place(rig);
        found.extend(rig.server.process().map(children).unwrap_or_default());
        found
    };
    // The server asks its nodes now and then, and a row may make that slow.
    for _ in 0..300 {
        if found().is_empty() {
            return Vec::new();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    found().iter().map(|name| format!("process {name}")).collect()
}

/// Processes with a file of this place among their arguments.
fn of_place(rig: &Rig) -> Vec<String> {
    let place = rig.place.directory().display().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    let program = |line: String| line.split(' ').next().unwrap_or_default().to_owned();
    lines.filter(|line| line.contains(&place)).map(program).collect()
}

fn children(parent: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stat = processes
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|stat| {
            let (head, tail) = stat.rsplit_once(')')?;
            let of: u32 = tail.split_whitespace().nth(1)?.parse().ok()?;
            let state = tail.split_whitespace().next()?;
            let name = head.split_once('(')?.1;
            (of == parent).then(|| format!("{name} ({state})"))
        });
    stat.collect()
}

/// Jobs that run still; how many have ended in which way is told too when it is not one.
async fn jobs(rig: &Rig) -> Vec<String> {
    let list = rig.server.client().get(rig.server.url("/api/jobs")).send().await.unwrap();
    let list: Value = serde_json::from_str(&list.text().await.unwrap()).unwrap();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for job in list["jobs"].as_array().unwrap() {
        *counts.entry(job["status"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let told = counts.into_iter().filter(|(status, count)| status == "running" || *count > 1);
    told.map(|(status, count)| format!("jobs {status}: {count}")).collect()
}
