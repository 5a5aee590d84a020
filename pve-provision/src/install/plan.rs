//! From a request to a plan: what cannot work is refused, the rest is clamped and filled in.

use pve_api::NodeName;
use pve_api::Vmid;
use pve_images::Catalogue;
use pve_images::Image;
use secrecy::SecretString;
use serde_json::Value;
use serde_json::json;

use super::public_key;
use super::pve_directory::Members;
use super::request::Invalid;
use super::request::Request;
use super::settings::Limits;
use super::settings::Settings;
use crate::step::Step;

const MIN_CPU: u32 = 1;
const MIN_RAM_MIB: u64 = 512;
const MIN_DISK_GIB: u64 = 16;
/// 128 TiB: beyond every storage that takes a VM's disk, so that a slip of the finger is told.
const MAX_DISK_GIB: u64 = 131_072;
/// The most that `crypt(3)` of a guest takes.
const LONGEST_PASSWORD: usize = 511;
const DEFAULT_PASSWORD: &str = "passwd";
/// What a VMID adds to a name at most, while it is not known: `-` and the digits.
const LABEL: usize = 63;
const NAME: usize = 253;

/// Words that cloud-init's YAML reads as something else than a text.
const YAML_WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

/// What will be made. Only the VMID and what follows from it are still open.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) image: Image,
    /// The VMID that was asked for; it is never replaced by another.
    pub(crate) id: Option<Vmid>,
    pub(crate) name: Option<String>,
    /// The node to migrate to, when it is not the main node.
    pub(crate) target: Option<NodeName>,
    pub(crate) cpu: u32,
    pub(crate) ram_mib: u64,
    pub(crate) disk_gib: u64,
    pub(crate) user: String,
    pub(crate) password: SecretString,
    /// Keys besides the node's own.
    pub(crate) keys: Vec<String>,
    /// What the admin should know, and under which step it is said.
    pub(crate) notices: Vec<(Step, String)>,
}

impl Plan {
    /// The name of the VM once its VMID is known: `<name>-<vmid>`.
    ///
    /// Without a name `<vmid>-<vmid>`: a bare number would be an integer in cloud-init's YAML.
    pub(crate) fn final_name(&self, vmid: Vmid) -> String {
        match &self.name {
            Some(name) => format!("{name}-{vmid}"),
            None => format!("{vmid}-{vmid}"),
        }
    }

    /// The plan without its secrets, for the job's log.
    pub fn describe(&self) -> Value {
        json!({
            "os": self.image.os, "version": self.image.version, "id": self.id, "name": self.name,
            "node": self.target, "cpu": self.cpu, "ram": self.ram_mib,
            "disk": format!("{}G", self.disk_gib), "user": self.user, "pubkeys": self.keys.len(),
        })
    }
}

/// Plans a request, as a function of values.
pub(crate) fn plan(
    request: Request,
    settings: &Settings,
    catalogue: &Catalogue,
    members: &Members,
) -> Result<Plan, Invalid> {
    let image = image(&request, catalogue)?;
    let id = request.id.as_ref().map(|id| vmid(id, settings)).transpose()?;
    if let Some(name) = &request.name {
        check_name(name, id.map_or(settings.last_vmid, Vmid::get))?;
    }
    let target =
        request.node.as_deref().map(|node| target(node, settings, members)).transpose()?.flatten();
    let mut notices = Vec::new();
    let mut notice = |step, text| notices.push((step, text));

    if !request.ignored.is_empty() {
        let names: Vec<String> =
            request.ignored.iter().map(|name| name.escape_debug().to_string()).collect();
        notice(Step::SettingDefaultConfigValues, format!("without effect: {}", names.join(", ")));
    }
    let limits = &settings.limits;
    let cpu = clamp_cpu(request.cpu, limits, &mut notice);
    let ram_mib = clamp_ram(request.ram, limits, &mut notice);
    let disk_gib = clamp_disk(request.disk.as_deref(), limits, &mut notice)?;

    let user = request.user.unwrap_or_else(|| image.user.clone());
    check_user(&user)?;
    let password = if let Some(password) = request.password {
        check_password(password)?
    } else {
        notice(
            Step::SettingDefaultConfigValues,
            format!("no passwd was given: {user} has the default password"),
        );
        SecretString::from(DEFAULT_PASSWORD)
    };
    let keys = match &request.public_keys {
        Some(text) => public_key::parse(text).map_err(|what| Invalid::field("pubkey", what))?,
        None => Vec::new(),
    };
    Ok(Plan {
        image,
        id,
        name: request.name,
        target,
        cpu,
        ram_mib,
        disk_gib,
        user,
        password,
        keys,
        notices,
    })
}

fn image(request: &Request, catalogue: &Catalogue) -> Result<Image, Invalid> {
    if let Some(image) = catalogue.find(&request.os, &request.version) {
        return Ok(image.clone());
    }
    let images = catalogue.images();
    let mut versions: Vec<&str> = images
        .iter()
        .filter(|image| image.os == request.os)
        .map(|image| image.version.as_str())
        .collect();
    if versions.is_empty() {
        let mut systems: Vec<&str> = images.iter().map(|image| image.os.as_str()).collect();
        systems.sort_unstable();
        systems.dedup();
        return Err(Invalid::field(
            "os",
            format!("{:?} is not one of {}", request.os, systems.join(", ")),
        ));
    }
    versions.dedup();
    let wanted = versions.join(", ");
    Err(Invalid::field(
        "version",
        format!("{:?} of {} is not one of {wanted}", request.version, request.os),
    ))
}

fn vmid(id: &Value, settings: &Settings) -> Result<Vmid, Invalid> {
    let last = settings.gateway.last_host();
    let wrong = |why| Err(Invalid::field("id", format!("{id} {why}")));
    let vmid = id
        .as_u64()
        .and_then(|id| u32::try_from(id).ok())
        .filter(|id| *id <= last)
        .and_then(|id| Vmid::try_from(id).ok());
    match vmid {
        None => wrong(format!("is not between 100 and {last}, the last host of the VMs' network")),
        Some(vmid) if settings.gateway.guest(vmid.get()) == Some(settings.gateway.address) => {
            wrong(format!(
                "would be given the address of the gateway, {}",
                settings.gateway.address
            ))
        }
        Some(vmid) => Ok(vmid),
    }
}

/// Checks the name as it will be with its VMID: a DNS name, as Proxmox VE asks for.
fn check_name(name: &str, vmid: u32) -> Result<(), Invalid> {
    let is_label = |label: &str| {
        (1..=LABEL).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // The part before the suffix has to be a name by itself: "web-" would become "web--120".
    let full = format!("{name}-{vmid}");
    if name.split('.').all(is_label) && full.split('.').all(is_label) && full.len() <= NAME {
        return Ok(());
    }
    let suggestion = suggest_name(name, vmid);
    let shown: String = name.chars().take(80).collect();
    Err(Invalid::field(
        "name",
        format!(
            "{shown:?} is not a DNS name (letters, digits, '-' inside, dots between labels of at most {LABEL} \
             characters with -{vmid} at the end); for example {suggestion:?}"
        ),
    ))
}

fn suggest_name(name: &str, vmid: u32) -> String {
    let room = LABEL - 1 - vmid.to_string().len();
    let labels: Vec<String> = name
        .split('.')
        .map(|label| {
            let words: Vec<&str> = label
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|word| !word.is_empty())
                .collect();
            let joined = words.join("-");
            joined[..joined.len().min(room)].trim_end_matches('-').to_owned()
        })
        .filter(|label| !label.is_empty())
        .take(3)
        .collect();
    if labels.is_empty() { "vm".to_owned() } else { labels.join(".") }
}

fn check_user(user: &str) -> Result<(), Invalid> {
    let mut bytes = user.bytes();
    let fits = bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && bytes.all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte)
        })
        && user.len() <= 32;
    let shown: String = user.chars().take(40).collect();
    if !fits {
        return Err(Invalid::field(
            "user",
            format!("{shown:?} is not a user name ([a-z_][a-z0-9_-]*, at most 32 characters)"),
        ));
    }
    if YAML_WORDS.contains(&user) {
        return Err(Invalid::field(
            "user",
            format!("{shown:?} is not a text in cloud-init's YAML: take another"),
        ));
    }
    Ok(())
}

fn check_password(password: SecretString) -> Result<SecretString, Invalid> {
    use secrecy::ExposeSecret as _;
    if password.expose_secret().len() > LONGEST_PASSWORD {
        return Err(Invalid::field(
            "passwd",
            format!("is longer than {LONGEST_PASSWORD} bytes, which crypt(3) does not take"),
        ));
    }
    if password.expose_secret().chars().any(char::is_control) {
        return Err(Invalid::field(
            "passwd",
            "holds a control character or line break, which no login prompt takes",
        ));
    }
    Ok(password)
}

fn target(node: &str, settings: &Settings, members: &Members) -> Result<Option<NodeName>, Invalid> {
    let names = members.names();
    let known = || names.join(", ");
    let shown: String = node.chars().take(64).collect();
    match members.online(node) {
        _ if node == settings.main_node.as_str() => Ok(None),
        None => Err(Invalid::field(
            "node",
            format!("{shown:?} is not a node of this cluster ({})", known()),
        )),
        Some(false) => Err(Invalid::field("node", format!("{shown:?} is offline"))),
        Some(true) => node.parse().map(Some).map_err(|error| Invalid::field("node", error)),
    }
}

fn clamp_cpu(said: Option<i64>, limits: &Limits, notice: &mut impl FnMut(Step, String)) -> u32 {
    let Some(said) = said else { return MIN_CPU };
    let (value, clamp) = cpu_within(said, limits);
    if let Some(text) = clamp {
        notice(Step::ValidatingCpuAndRam, text);
    }
    value
}

fn clamp_ram(said: Option<i64>, limits: &Limits, notice: &mut impl FnMut(Step, String)) -> u64 {
    let Some(said) = said else { return MIN_RAM_MIB };
    let (value, clamp) = ram_within(said, limits);
    if let Some(text) = clamp {
        notice(Step::ValidatingCpuAndRam, text);
    }
    value
}

/// Cores within the limits, and what was done to the number.
pub(crate) fn cpu_within(said: i64, limits: &Limits) -> (u32, Option<String>) {
    let most = limits.cpu.unwrap_or(u32::MAX);
    let value = u32::try_from(said.max(i64::from(MIN_CPU))).unwrap_or(u32::MAX).min(most);
    let setting = if limits.cpu.is_some() { "VM_MAX_CPU" } else { "the maximum" };
    (value, clamp_text("cpu", said, i64::from(value), setting))
}

/// Memory in MiB within the limits, and what was done to the number.
pub(crate) fn ram_within(said: i64, limits: &Limits) -> (u64, Option<String>) {
    let most = limits.ram_mib.unwrap_or(u64::MAX);
    let value = u64::try_from(said).unwrap_or(0).max(MIN_RAM_MIB).min(most);
    let setting = if limits.ram_mib.is_some() { "VM_MAX_RAM" } else { "the maximum" };
    (value, clamp_text("ram", said, value.try_into().unwrap_or(i64::MAX), setting))
}

/// The largest disk, in GiB.
pub(crate) fn disk_cap(limits: &Limits) -> u64 {
    limits.disk_gib.unwrap_or(MAX_DISK_GIB)
}

fn clamp_disk(
    said: Option<&str>,
    limits: &Limits,
    notice: &mut impl FnMut(Step, String),
) -> Result<u64, Invalid> {
    let Some(said) = said else { return Ok(MIN_DISK_GIB) };
    let shown: String = said.chars().take(40).collect();
    let wrong = |why: &str| Invalid::field("disk", format!("{shown:?} {why}"));
    let gib = parse_gib(said).ok_or_else(|| wrong("is not a size in GiB such as \"32G\""))?;
    if limits.disk_gib.is_none() && gib > i64::try_from(MAX_DISK_GIB).unwrap_or(i64::MAX) {
        return Err(wrong(&format!("is larger than {MAX_DISK_GIB}G")));
    }
    let most = disk_cap(limits);
    let value = u64::try_from(gib).unwrap_or(0).max(MIN_DISK_GIB).min(most);
    let clamp = clamp_text("disk", gib, value.try_into().unwrap_or(i64::MAX), "VM_MAX_DISK");
    if let Some(text) = clamp {
        notice(Step::ValidatingDiskSize, text);
    }
    Ok(value)
}

/// The number of a text `-?[0-9]+G?`, with what is beyond 64 bits at the end of their range.
pub(crate) fn parse_gib(text: &str) -> Option<i64> {
    let number = text.strip_suffix('G').unwrap_or(text);
    let digits = number.strip_prefix('-').unwrap_or(number);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(number.parse().unwrap_or(if number.starts_with('-') { i64::MIN } else { i64::MAX }))
}

/// How a number that was said became another; `None` when it did not.
fn clamp_text(field: &str, said: i64, value: i64, cap: &str) -> Option<String> {
    match value.cmp(&said) {
        std::cmp::Ordering::Less => Some(format!("{field} {said} → {value} ({cap})")),
        std::cmp::Ordering::Greater => Some(format!("{field} {said} → {value} (the minimum)")),
        std::cmp::Ordering::Equal => None,
    }
}

/// What `qm create` is given beside the memory, by the ballooning rule.
pub(crate) fn balloon(ram_mib: u64, limits: &Limits) -> Option<u64> {
    const LARGE_MIB: u64 = 65_536;
    const LARGE_BALLOON_MIB: u64 = 49_152;
    match limits.balloon_min_mib {
        0 => None,
        _ if ram_mib >= LARGE_MIB => Some(LARGE_BALLOON_MIB),
        least if ram_mib >= least + 1024 => Some(ram_mib - least),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
