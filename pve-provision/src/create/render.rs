//! From answers to the request, as parameters and as lines for a shell. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pve_api::Create;
use pve_api::HaState;
use pve_api::NodeName;
use pve_api::QemuConfig;
use pve_api::Vmid;
use serde_json::Map;
use thiserror::Error;

use super::facts::Facts;
use super::field::Field;
use super::field::Key;
use super::privileges;
use super::privileges::Need;
use super::resolve::Answers;
use super::value::Value;

/// A VM that can be made: the answers had no problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The node that gets it.
    pub node: NodeName,
    /// The request.
    pub create: Create,
    /// Whether it is started when everything is set.
    pub start: bool,
    /// Whether it is put under HA, by a request of its own.
    pub ha: bool,
    /// What the account must be allowed.
    pub needs: Vec<Need>,
    /// Which disk is meant by which parameter.
    disks: BTreeMap<String, Key>,
}

/// Why nothing can be made yet.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", self.sentence())]
pub struct NotReady {
    /// The fields of which the server has not told everything yet.
    pub loading: Vec<Key>,
    /// What is wrong, and where.
    pub problems: Vec<(Key, String)>,
}

impl NotReady {
    fn sentence(&self) -> String {
        let problems = self.problems.iter().map(|(key, text)| format!("{key}: {text}"));
        let loading = self.loading.iter().map(|key| format!("{key}: not known yet"));
        problems.chain(loading).collect::<Vec<_>>().join("\n")
    }
}

/// The node that was answered.
pub(super) fn node_name(answers: &Answers) -> Option<NodeName> {
    answers.text(Field::Node).parse().ok()
}

impl Plan {
    /// The VM that these answers, resolved by these facts, describe.
    pub fn new(answers: &Answers, facts: &Facts) -> Result<Self, NotReady> {
        let mut problems: Vec<(Key, String)> =
            answers.problems().map(|(key, text)| (key, text.to_owned())).collect();
        let loading: Vec<Key> = answers.loading().collect();
        if !problems.is_empty() || !loading.is_empty() {
            return Err(NotReady { loading, problems });
        }
        // What follows was checked where it was answered; here nothing may be dropped unseen.
        let node = read(answers, Field::Node, &mut problems);
        let vmid = read(answers, Field::Vmid, &mut problems);
        let pool = match answers.text(Field::Pool) {
            "" => None,
            _ => read(answers, Field::Pool, &mut problems),
        };
        let config = config(answers, &mut problems);
        let (Some(node), Some(vmid), Some(config), true) =
            (node, vmid, config, problems.is_empty())
        else {
            return Err(NotReady { loading, problems });
        };
        let create = Create { pool, ..Create::new(vmid, config) };
        Ok(Self {
            node,
            needs: privileges::needed(&create, answers, facts),
            create,
            start: answers.is_on(Field::Start),
            ha: answers.is_on(Field::Ha),
            disks: (0..answers.disks())
                .map(|disk| (place(answers, disk), Key::disk(disk, Field::DiskStorage)))
                .collect(),
        })
    }

    /// The number of the VM.
    pub fn vmid(&self) -> Vmid {
        self.create.vmid
    }

    /// Names and values of the request's parameters.
    pub fn parameters(&self) -> Vec<(String, String)> {
        let parameters = self.create.parameters();
        let shown = parameters.iter().map(|(name, value)| (name.to_owned(), value.unwrap_or("…")));
        shown.map(|(name, value)| (name, value.to_owned())).collect()
    }

    /// What is done, as lines for `pvesh` on any node.
    pub fn pvesh_lines(&self) -> Vec<String> {
        let (node, vmid) = (&self.node, self.vmid());
        let mut lines = vec![
            format!("pvesh create /nodes/{node}/qemu{}", self.options()),
            format!("pvesh set /nodes/{node}/qemu/{vmid}/config --serial0 socket --vga serial0"),
        ];
        if self.start {
            lines.push(format!("pvesh create /nodes/{node}/qemu/{vmid}/status/start"));
        }
        if self.ha {
            let state = ha_state(self.start);
            let options = format!("--sid vm:{vmid} --state {state}");
            lines.push(format!("pvesh create /cluster/ha/resources {options}"));
        }
        lines
    }

    /// What is done, as lines for the shell of the node itself.
    pub fn qm_lines(&self) -> Vec<String> {
        let vmid = self.vmid();
        let options = self.options().replacen(&format!(" --vmid {vmid}"), "", 1);
        let mut lines = vec![format!("qm create {vmid}{options}"), console_line(vmid)];
        if self.start {
            lines.push(format!("qm start {vmid}"));
        }
        if self.ha {
            lines.push(ha_line(vmid, &ha_state(self.start)));
        }
        lines
    }

    /// The field at which a complaint of the server about a parameter belongs.
    pub fn key_of(&self, parameter: &str) -> Option<Key> {
        let field = match parameter {
            "vmid" => Field::Vmid,
            "name" => Field::Name,
            "pool" => Field::Pool,
            "tags" => Field::Tags,
            "onboot" => Field::StartAtBoot,
            "startup" => Field::StartOrder,
            "ide2" => Field::Iso,
            "ostype" => Field::OsVersion,
            "vga" => Field::Display,
            "machine" => Field::Machine,
            "bios" => Field::Bios,
            "efidisk0" => Field::EfiStorage,
            "scsihw" => Field::Controller,
            "agent" => Field::Agent,
            "tpmstate0" => Field::TpmStorage,
            "cores" => Field::Cores,
            "sockets" => Field::Sockets,
            "cpu" => Field::CpuType,
            "memory" => Field::MemorySize,
            "balloon" => Field::MemoryMinimum,
            "allow-ksm" => Field::Ksm,
            "net0" => Field::Bridge,
            // A storage that holds no images is complained about under this name.
            "storage" => return self.disks.values().next().copied(),
            disk => return self.disks.get(disk).copied(),
        };
        Some(field.into())
    }

    fn options(&self) -> String {
        let words = self.parameters().into_iter();
        let words = words.flat_map(|(name, value)| [format!(" --{name} "), quoted(&value)]);
        words.collect()
    }
}

/// The state that HA is told: left out, it would start the VM.
pub(super) fn ha_state(runs: bool) -> HaState {
    if runs { HaState::Started } else { HaState::Stopped }
}

/// What a person can type on a node to put the VM under HA.
pub(super) fn ha_line(vmid: Vmid, state: &HaState) -> String {
    format!("ha-manager add vm:{vmid} --state {state}")
}

/// What a person can type on the node to set the console up.
pub(super) fn console_line(vmid: Vmid) -> String {
    format!("qm set {vmid} --serial0 socket --vga serial0")
}

/// A word for a POSIX shell.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Reads an answer as what the request needs.
fn read<T: FromStr<Err: fmt::Display>>(
    answers: &Answers,
    field: Field,
    problems: &mut Vec<(Key, String)>,
) -> Option<T> {
    let read = answers.value(field).to_string().parse();
    read.map_err(|error: T::Err| problems.push((field.into(), error.to_string()))).ok()
}

fn config(answers: &Answers, problems: &mut Vec<(Key, String)>) -> Option<QemuConfig> {
    let mut config = Map::new();
    for (name, value) in configuration(answers) {
        config.insert(name, value.into());
    }
    // Every value is a text, and a text that is not understood is sent as it is.
    let config = serde_json::from_value(config.into());
    config.map_err(|error| problems.push((Field::Node.into(), error.to_string()))).ok()
}

/// The options of the VM by the names of the API. What is left out is the server's own default.
fn configuration(answers: &Answers) -> Vec<(String, String)> {
    let mut list = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            list.push((name.to_owned(), value));
        }
    };
    let text = |field: Field| answers.value(field).to_string();
    let unless = |field: Field, default: &str| match answers.text(field) {
        value if value == default => String::new(),
        value => value.to_owned(),
    };
    let bit = |on: bool| if on { "1".to_owned() } else { String::new() };
    add("name", text(Field::Name));
    if let Value::List(tags) = answers.value(Field::Tags) {
        add("tags", tags.join(";"));
    }
    add("onboot", bit(answers.is_on(Field::StartAtBoot)));
    add("startup", startup(answers));
    add("ostype", text(Field::OsVersion));
    add("ide2", cd_drive(answers));
    let display = unless(Field::Display, "default");
    if display.starts_with("serial") {
        add(&display, "socket".to_owned());
    }
    add("vga", display);
    add("machine", unless(Field::Machine, "i440fx"));
    add("bios", unless(Field::Bios, "seabios"));
    add("efidisk0", efi_disk(answers));
    add("tpmstate0", tpm(answers));
    add("scsihw", text(Field::Controller));
    add("agent", bit(answers.is_on(Field::Agent)));
    for disk in 0..answers.disks() {
        let place = |field| answers.value(Key::disk(disk, field)).to_string();
        add(
            &format!("{}{}", place(Field::DiskBus), place(Field::DiskDevice)),
            drive(answers, disk),
        );
    }
    add("sockets", text(Field::Sockets));
    add("cores", text(Field::Cores));
    add("cpu", text(Field::CpuType));
    add("numa", "0".to_owned());
    add("memory", text(Field::MemorySize));
    add("balloon", balloon(answers));
    if *answers.value(Field::Ksm) == Value::Flag(false) {
        add("allow-ksm", "0".to_owned());
    }
    add("net0", network_card(answers));
    list
}

/// The name of a disk's parameter, such as `scsi0`.
fn place(answers: &Answers, disk: usize) -> String {
    let value = |field| answers.value(Key::disk(disk, field));
    format!("{}{}", value(Field::DiskBus), value(Field::DiskDevice))
}

/// The parts that are not empty, joined by commas.
fn joined(parts: &[String]) -> String {
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(",")
}

/// `key=value`, or nothing for an empty value.
fn pair(key: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{key}={value}") }
}

fn startup(answers: &Answers) -> String {
    let part = |key, field: Field| pair(key, &answers.value(field).to_string());
    joined(&[
        part("order", Field::StartOrder),
        part("up", Field::StartupDelay),
        part("down", Field::ShutdownTimeout),
    ])
}

fn cd_drive(answers: &Answers) -> String {
    let file = match answers.text(Field::Media) {
        "iso" => answers.text(Field::Iso),
        "drive" => "cdrom",
        _ => "none",
    };
    format!("{file},media=cdrom")
}

fn efi_disk(answers: &Answers) -> String {
    let storage = answers.text(Field::EfiStorage);
    if storage.is_empty() {
        return String::new();
    }
    let keys = u8::from(answers.is_on(Field::EfiKeys));
    joined(&[
        // The number is not the size: the server takes that of the firmware.
        format!("{storage}:1"),
        "efitype=4m".to_owned(),
        format!("pre-enrolled-keys={keys}"),
        pair("format", format(answers, Field::EfiFormat.into())),
    ])
}

/// The format of a volume, where the storage offers more than one.
fn format(answers: &Answers, key: Key) -> &str {
    match answers.get(key) {
        Some(answer) if answer.is_chosen() => answer.value.text(),
        _ => "",
    }
}

fn tpm(answers: &Answers) -> String {
    let storage = answers.text(Field::TpmStorage);
    if storage.is_empty() {
        return String::new();
    }
    format!("{storage}:1,version={}", answers.text(Field::TpmVersion))
}

fn drive(answers: &Answers, disk: usize) -> String {
    let value = |field| answers.value(Key::disk(disk, field));
    let on = |key: &str, field| pair(key, if value(field).is_on() { "on" } else { "" });
    let unless_default = |key, field| match value(field).text() {
        "default" => String::new(),
        other => pair(key, other),
    };
    joined(&[
        format!("{}:{}", value(Field::DiskStorage), value(Field::DiskSize)),
        pair("format", format(answers, Key::disk(disk, Field::DiskFormat))),
        unless_default("cache", Field::DiskCache),
        on("discard", Field::DiskDiscard),
        on("iothread", Field::DiskIoThread),
        on("ssd", Field::DiskSsd),
        pair("backup", if value(Field::DiskBackup).is_on() { "" } else { "0" }),
        pair("replicate", if value(Field::DiskSkipReplication).is_on() { "0" } else { "" }),
        unless_default("aio", Field::DiskAio),
    ])
}

fn balloon(answers: &Answers) -> String {
    if !answers.is_on(Field::Ballooning) {
        return "0".to_owned();
    }
    let (size, minimum) = (answers.number(Field::MemorySize), answers.number(Field::MemoryMinimum));
    if size == minimum { String::new() } else { answers.value(Field::MemoryMinimum).to_string() }
}

fn network_card(answers: &Answers) -> String {
    let text = |field: Field| answers.value(field).to_string();
    let model = text(Field::Model);
    if model.is_empty() {
        return String::new();
    }
    let bit = |key, field: Field| pair(key, if answers.is_on(field) { "1" } else { "" });
    let rate = match answers.value(Field::Rate) {
        Value::Decimal(rate) if *rate > 0.0 => rate.to_string(),
        _ => String::new(),
    };
    let mac = text(Field::Mac);
    joined(&[
        if mac.is_empty() { model } else { format!("{model}={mac}") },
        pair("bridge", &text(Field::Bridge)),
        pair("tag", &text(Field::Vlan)),
        bit("firewall", Field::Firewall),
        pair("rate", &rate),
        pair("queues", &text(Field::Multiqueue)),
        bit("link_down", Field::Disconnected),
        pair("mtu", &text(Field::Mtu)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_the_shell_keeps_its_text() {
        assert_eq!(quoted("ceph-pool:32,iothread=on"), "ceph-pool:32,iothread=on");
        assert_eq!(quoted("a;b"), "'a;b'");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }
}
