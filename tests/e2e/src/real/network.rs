//! A network namespace with the bridge of a node.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context;
use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::kill_process;

use super::command::Command;

/// Addresses for documentation: nothing outside can be meant by them.
pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(super) const MAIN_NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);
pub(super) const PREFIX: u8 = 24;
const BRIDGE: &str = "vmbr0";
const NAME: &str = "pve-e2e-";
/// How often is looked whether killed processes are gone.
const LOOKS: u32 = 1000;

/// Where the guests get their packages from, and the node its images.
pub(super) fn server() -> String {
    format!("http://{GATEWAY}/")
}

/// A namespace that this process has made; it goes when this is dropped, with all that lives in it.
pub(super) struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes it: loopback, the bridge with the addresses of the gateway and the main node.
    pub(super) fn create() -> anyhow::Result<Self> {
        remove_abandoned()?;
        let name = format!("{NAME}{}", std::process::id());
        ip(&["netns", "add", &name]).context("cannot make a network namespace")?;
        let namespace = Self { name };
        let bridge = format!("link add {BRIDGE} type bridge stp_state 0 forward_delay 0");
        namespace.ip(&bridge)?;
        // A bridge without a port that is up answers "no route" at once, as no network does.
        namespace.ip("link add port0 type veth peer name port1")?;
        namespace.ip(&format!("link set port0 master {BRIDGE}"))?;
        for address in [GATEWAY, MAIN_NODE] {
            namespace.ip(&format!("address add {address}/{PREFIX} dev {BRIDGE}"))?;
        }
        for link in ["lo", "port0", "port1", BRIDGE] {
            namespace.ip(&format!("link set {link} up"))?;
        }
        Ok(namespace)
    }

    /// A command line that begins inside the namespace.
    pub(super) fn enter(&self, program: &Path) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("ip");
        command.env("PATH", super::host::path());
        command.args(["netns", "exec", &self.name]).arg(program).kill_on_drop(true);
        command
    }

    fn ip(&self, arguments: &str) -> anyhow::Result<()> {
        let mut all = vec!["-n", &self.name];
        all.extend(arguments.split_whitespace());
        ip(&all)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nobody is left to be told; the next run tries again.
        let _ = remove(&self.name);
    }
}

/// Namespaces whose process was killed before it could clean up.
fn remove_abandoned() -> anyhow::Result<()> {
    for line in Command::new("ip").args(["netns", "list"]).read()?.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let owner = name.strip_prefix(NAME).and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !is_ours(pid)) {
            remove(name)?;
        }
    }
    Ok(())
}

/// Whether that process is one of this program.
fn is_ours(pid: u32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    program.is_ok_and(|program| program.file_name().is_some_and(|name| name == "real"))
}

fn remove(name: &str) -> anyhow::Result<()> {
    // Each look takes some milliseconds, and a killed process hardly longer to go.
    for _ in 0..LOOKS {
        let pids = Command::new("ip").args(["netns", "pids", name]).read()?;
        if pids.is_empty() {
            break;
        }
        for pid in pids.lines().filter_map(|pid| Pid::from_raw(pid.trim().parse().ok()?)) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    ip(&["netns", "delete", name])
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    Command::new("ip").args(arguments).run()
}
