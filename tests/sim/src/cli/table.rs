//! The commands and the calls behind them.

use crate::call::Method;

/// A command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    /// Its words after the program's name.
    pub(super) words: &'static [&'static str],
    /// The endpoint that it stands for, or `CLI /name`.
    pub(super) endpoint: &'static str,
    /// The parameters that are given by position.
    pub(super) positional: &'static [&'static str],
    /// Its usage, as errors show it; the program's name and the first words are part of it.
    pub(super) usage: &'static str,
    /// The exit code when its task failed.
    pub(super) failure: Option<i32>,
}

impl Command {
    /// The method of the call; commands of their own read.
    pub(super) fn method(&self) -> Method {
        match self.endpoint.split(' ').next() {
            Some("POST") => Method::Post,
            Some("PUT") => Method::Put,
            Some("DELETE") => Method::Delete,
            _ => Method::Get,
        }
    }
}

const fn command(
    words: &'static [&'static str],
    endpoint: &'static str,
    positional: &'static [&'static str],
    usage: &'static str,
) -> Command {
    Command { words, endpoint, positional, usage, failure: Some(255) }
}

const fn with_exit(command: Command, failure: Option<i32>) -> Command {
    Command { failure, ..command }
}

const VMID: &[&str] = &["vmid"];
const CONFIG: &str = "GET /nodes/{node}/qemu/{vmid}/config";
const RESIZE: &str = "PUT /nodes/{node}/qemu/{vmid}/resize";
const RESIZE_USAGE: &str = "qm disk resize <vmid> <disk> <size> [OPTIONS]";
const UNLINK: &str = "PUT /nodes/{node}/qemu/{vmid}/unlink";
const UNLINK_USAGE: &str = "qm disk unlink <vmid> --idlist <string> [OPTIONS]";
const IMPORT: &[&str] = &["vmid", "source", "storage"];
const IMPORT_USAGE: &str = "qm disk import <vmid> <source> <storage> [OPTIONS]";

/// What `qm` can do here.
pub(super) const QM: [Command; 24] = [
    command(&["create"], "POST /nodes/{node}/qemu", VMID, "qm create <vmid> [OPTIONS]"),
    command(&["set"], "PUT /nodes/{node}/qemu/{vmid}/config", VMID, "qm set <vmid> [OPTIONS]"),
    command(&["config"], CONFIG, VMID, "qm config <vmid> [OPTIONS]"),
    command(&["pending"], "GET /nodes/{node}/qemu/{vmid}/pending", VMID, "qm pending <vmid>"),
    with_exit(command(&["importdisk"], "CLI /importdisk", IMPORT, IMPORT_USAGE), None),
    with_exit(command(&["disk", "import"], "CLI /importdisk", IMPORT, IMPORT_USAGE), None),
    // The table of the real command lacks the hook that turns a failed task into an exit code.
    with_exit(command(&["resize"], RESIZE, &["vmid", "disk", "size"], RESIZE_USAGE), Some(0)),
    with_exit(
        command(&["disk", "resize"], RESIZE, &["vmid", "disk", "size"], RESIZE_USAGE),
        Some(0),
    ),
    command(&["unlink"], UNLINK, VMID, UNLINK_USAGE),
    command(&["disk", "unlink"], UNLINK, VMID, UNLINK_USAGE),
    command(&["rescan"], "CLI /rescan", &[], "qm disk rescan  [OPTIONS]"),
    command(&["disk", "rescan"], "CLI /rescan", &[], "qm disk rescan  [OPTIONS]"),
    command(
        &["start"],
        "POST /nodes/{node}/qemu/{vmid}/status/start",
        VMID,
        "qm start <vmid> [OPTIONS]",
    ),
    command(
        &["stop"],
        "POST /nodes/{node}/qemu/{vmid}/status/stop",
        VMID,
        "qm stop <vmid> [OPTIONS]",
    ),
    command(
        &["shutdown"],
        "POST /nodes/{node}/qemu/{vmid}/status/shutdown",
        VMID,
        "qm shutdown <vmid> [OPTIONS]",
    ),
    command(
        &["reboot"],
        "POST /nodes/{node}/qemu/{vmid}/status/reboot",
        VMID,
        "qm reboot <vmid> [OPTIONS]",
    ),
    command(&["destroy"], "DELETE /nodes/{node}/qemu/{vmid}", VMID, "qm destroy <vmid> [OPTIONS]"),
    command(
        &["migrate"],
        "POST /nodes/{node}/qemu/{vmid}/migrate",
        &["vmid", "target"],
        "qm migrate <vmid> <target> [OPTIONS]",
    ),
    command(&["status"], "CLI /status", VMID, "qm status <vmid> [OPTIONS]"),
    command(&["list"], "CLI /list", &[], "qm list  [OPTIONS]"),
    command(&["unlock"], "CLI /unlock", VMID, "qm unlock <vmid>"),
    command(&["wait"], "CLI /wait", VMID, "qm wait <vmid> [OPTIONS]"),
    command(
        &["cloudinit", "dump"],
        "GET /nodes/{node}/qemu/{vmid}/cloudinit/dump",
        &["vmid", "type"],
        "qm cloudinit dump <vmid> <type>",
    ),
    command(
        &["cloudinit", "update"],
        "PUT /nodes/{node}/qemu/{vmid}/cloudinit",
        VMID,
        "qm cloudinit update <vmid>",
    ),
];

/// What `pvesm` can do here.
pub(super) const PVESM: [Command; 8] = [
    command(&["status"], "GET /nodes/{node}/storage", &[], "pvesm status  [OPTIONS]"),
    command(
        &["list"],
        "GET /nodes/{node}/storage/{storage}/content",
        &["storage"],
        "pvesm list <storage> [OPTIONS]",
    ),
    command(&["path"], "CLI /path", &["volume"], "pvesm path <volume>"),
    command(
        &["alloc"],
        "POST /nodes/{node}/storage/{storage}/content",
        &["storage", "vmid", "filename", "size"],
        "pvesm alloc <storage> <vmid> <filename> <size> [OPTIONS]",
    ),
    command(&["free"], "CLI /free", &["volume"], "pvesm free <volume> [OPTIONS]"),
    command(&["set"], "PUT /storage/{storage}", &["storage"], "pvesm set <storage> [OPTIONS]"),
    command(
        &["add"],
        "POST /storage",
        &["type", "storage"],
        "pvesm add <type> <storage> [OPTIONS]",
    ),
    command(&["remove"], "DELETE /storage/{storage}", &["storage"], "pvesm remove <storage>"),
];

/// Finds the command that arguments begin with, and what is left of them.
pub(super) fn find<'a>(
    commands: &'static [Command],
    arguments: &'a [String],
) -> Option<(&'static Command, &'a [String])> {
    commands
        .iter()
        .filter(|command| {
            arguments.len() >= command.words.len()
                && command.words.iter().zip(arguments).all(|(word, given)| word == given)
        })
        .max_by_key(|command| command.words.len())
        .map(|command| (command, &arguments[command.words.len()..]))
}
