//! The command lines that are run, as functions of values.
//!
//! Argument for argument those of the specification; facts about them are Proxmox VE's `qm(1)`,
//! `pvesm(1)` and `pvesh(1)`.

use std::ffi::OsStr;
use std::path::Path;

use pve_api::NodeName;
use pve_api::StorageId;
use pve_api::Vmid;
use pve_api::Volid;

use super::plan::Plan;
use super::pve_directory::MARK;
use super::settings::Limits;

/// A program, its arguments, and how long it may take.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) program: &'static str,
    pub(crate) arguments: Vec<String>,
    pub(crate) limit: std::time::Duration,
    /// An argument that may stand in no message, should the command repeat it.
    pub(crate) secret: Option<String>,
}

/// Most commands answer within seconds; ten minutes cover a cluster that is very busy.
const USUAL: std::time::Duration = std::time::Duration::from_mins(10);
/// A question to a node that may hang.
const QUESTION: std::time::Duration = std::time::Duration::from_secs(30);
/// What changes a VM or makes one, and so must have ended before a VM can be cleaned up. Not a start:
/// it may leave a program running for as long as the VM does.
const CHANGES: [&str; 6] = ["create", "importdisk", "set", "resize", "stop", "destroy"];
/// A disk is written in full by an import.
pub(super) const IMPORT: std::time::Duration = std::time::Duration::from_hours(2);
/// A disk goes over the network in a migration.
pub(super) const MIGRATE: std::time::Duration = std::time::Duration::from_hours(6);

impl CommandLine {
    fn new(program: &'static str, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program, arguments, limit: USUAL, secret: None }
    }

    /// Whether a VM is not what it seems to be while this runs.
    pub(crate) fn changes_a_vm(&self) -> bool {
        let subcommand = self.arguments.first().map(String::as_str);
        self.program == "qm" && subcommand.is_some_and(|word| CHANGES.contains(&word))
    }

    /// Program and subcommand, for messages: arguments may be long, and a hash is nobody's business.
    pub(crate) fn title(&self) -> String {
        let words =
            self.arguments.iter().take_while(|argument| !argument.starts_with("--")).take(2);
        words.fold(self.program.to_owned(), |title, word| title + " " + word)
    }
}

pub(crate) fn pvesm_status() -> CommandLine {
    CommandLine::new("pvesm", ["status"])
}

pub(crate) fn node_status(node: &str) -> CommandLine {
    let path = format!("/nodes/{node}/status");
    let mut line = CommandLine::new("pvesh", ["get", &path, "--output-format", "json"]);
    line.limit = QUESTION;
    line
}

/// `qm create`, in the order of the specification's table, then our mark.
pub(crate) fn create(
    vmid: Vmid,
    plan: &Plan,
    cpu: &str,
    limits: &Limits,
    job: &str,
) -> CommandLine {
    let mut arguments: Vec<String> = [
        "create",
        &vmid.to_string(),
        "--name",
        &plan.final_name(vmid),
        "--cores",
        &plan.cpu.to_string(),
        "--cpu",
        cpu,
        "--memory",
        &plan.ram_mib.to_string(),
        "--scsihw",
        "virtio-scsi-pci",
        "--ostype",
        "l26",
        "--agent",
        "1",
        "--net0",
        "virtio,bridge=vmbr0",
        "--serial0",
        "socket",
    ]
    .map(str::to_owned)
    .to_vec();
    if let Some(balloon) = super::plan::balloon(plan.ram_mib, limits) {
        arguments.extend(["--numa", "1", "--balloon", &balloon.to_string()].map(str::to_owned));
    }
    arguments.extend(["--description".to_owned(), format!("{MARK}{job}")]);
    CommandLine::new("qm", arguments)
}

pub(crate) fn importdisk(vmid: Vmid, image: &Path, storage: &StorageId) -> CommandLine {
    let image = image.to_string_lossy();
    let mut line =
        CommandLine::new("qm", ["importdisk", &vmid.to_string(), &image, storage.as_str()]);
    line.limit = IMPORT;
    line
}

/// What the one `qm set` before the first boot carries.
pub(crate) struct Initial<'a> {
    pub(crate) keys: &'a Path,
    pub(crate) password_hash: &'a str,
    pub(crate) user: &'a str,
    pub(crate) os: &'a str,
    pub(crate) disk: &'a Volid,
    pub(crate) storage: &'a StorageId,
}

pub(crate) fn initialize(vmid: Vmid, initial: &Initial<'_>) -> CommandLine {
    let mut line = CommandLine::new(
        "qm",
        [
            "set",
            &vmid.to_string(),
            "--sshkeys",
            &initial.keys.to_string_lossy(),
            "--cipassword",
            initial.password_hash,
            "--ciuser",
            initial.user,
            "--ciupgrade",
            "0",
            "--tags",
            initial.os,
            "--scsi0",
            initial.disk.as_str(),
            "--ide2",
            &format!("{}:cloudinit", initial.storage),
            "--boot",
            "order=scsi0",
        ],
    );
    line.secret = Some(initial.password_hash.to_owned());
    line
}

/// `qm resize` to an absolute size. It exits 0 even when it failed: the configuration tells.
pub(crate) fn resize(vmid: Vmid, gib: u64) -> CommandLine {
    CommandLine::new("qm", ["resize", &vmid.to_string(), "scsi0", &format!("{gib}G")])
}

pub(crate) fn set_address(vmid: Vmid, ipconfig: &str, nameserver: Option<&str>) -> CommandLine {
    let mut line = CommandLine::new("qm", ["set", &vmid.to_string(), "--ipconfig0", ipconfig]);
    line.arguments.extend(
        nameserver.into_iter().flat_map(|server| ["--nameserver".to_owned(), server.to_owned()]),
    );
    line
}

pub(crate) fn migrate(vmid: Vmid, target: &NodeName) -> CommandLine {
    let mut line = CommandLine::new(
        "qm",
        ["migrate", &vmid.to_string(), target.as_str(), "--with-local-disks"],
    );
    line.limit = MIGRATE;
    line
}

pub(crate) fn start(vmid: Vmid) -> CommandLine {
    CommandLine::new("qm", ["start", &vmid.to_string()])
}

pub(crate) fn reboot(vmid: Vmid) -> CommandLine {
    CommandLine::new("qm", ["reboot", &vmid.to_string()])
}

pub(crate) fn status(vmid: Vmid) -> CommandLine {
    CommandLine::new("qm", ["status", &vmid.to_string()])
}

pub(crate) fn stop(vmid: Vmid) -> CommandLine {
    CommandLine::new("qm", ["stop", &vmid.to_string()])
}

pub(crate) fn shutdown(vmid: Vmid) -> CommandLine {
    CommandLine::new("qm", ["shutdown", &vmid.to_string()])
}

pub(crate) fn set_cores(vmid: Vmid, cores: u32) -> CommandLine {
    CommandLine::new("qm", ["set", &vmid.to_string(), "--cores", &cores.to_string()])
}

/// `qm set --memory`, with what the ballooning rule asks for, if anything.
pub(crate) fn set_memory(vmid: Vmid, mib: u64, balloon: Balloon) -> CommandLine {
    let mut line = CommandLine::new("qm", ["set", &vmid.to_string(), "--memory", &mib.to_string()]);
    match balloon {
        Balloon::Set(least) => {
            line.arguments
                .extend(["--numa", "1", "--balloon", &least.to_string()].map(str::to_owned));
        }
        Balloon::Remove => line.arguments.extend(["--delete", "balloon"].map(str::to_owned)),
        Balloon::Keep => {}
    }
    line
}

/// What becomes of a VM's balloon when its memory changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Balloon {
    /// It stays as it is.
    Keep,
    /// It gets this size, in MiB.
    Set(u64),
    /// It is larger than the memory will be.
    Remove,
}

/// `qm resize` by a number of bytes.
pub(crate) fn grow(vmid: Vmid, bytes: u64) -> CommandLine {
    const GIB: u64 = 1 << 30;
    let by =
        if bytes.is_multiple_of(GIB) { format!("+{}G", bytes / GIB) } else { format!("+{bytes}") };
    CommandLine::new("qm", ["resize", &vmid.to_string(), "scsi0", &by])
}

pub(crate) fn vm_resources() -> CommandLine {
    CommandLine::new(
        "pvesh",
        ["get", "/cluster/resources", "--type", "vm", "--output-format", "json"],
    )
}

/// `qm stop --skiplock`: a lock of a command that died must not keep the VM alive.
pub(crate) fn force_stop(vmid: Vmid) -> CommandLine {
    CommandLine::new("qm", ["stop", &vmid.to_string(), "--skiplock"])
}

pub(crate) fn destroy(vmid: Vmid) -> CommandLine {
    CommandLine::new("qm", ["destroy", &vmid.to_string(), "--purge", "--skiplock"])
}

pub(crate) fn make_key(path: &Path) -> CommandLine {
    CommandLine::new("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", &path.to_string_lossy()])
}

pub(crate) fn public_key(path: &Path) -> CommandLine {
    CommandLine::new("ssh-keygen", ["-y", "-P", "", "-f", &path.to_string_lossy()])
}

/// The line as a shell on another node has to be given it.
pub(crate) fn shell_words(line: &CommandLine) -> Vec<&OsStr> {
    std::iter::once(line.program)
        .chain(line.arguments.iter().map(String::as_str))
        .map(OsStr::new)
        .collect()
}
