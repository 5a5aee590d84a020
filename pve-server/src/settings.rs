//! The settings: read from the environment and from `.env`, all checked at once.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use pve_images::CacheSettings;
use pve_images::Head;
use pve_provision::install::Limits;
use secrecy::SecretString;

use crate::access::Access;
use crate::access::Allowed;

mod reader;
mod variables;

pub use self::reader::Problem;
use self::reader::Reader;
pub use self::variables::Variables;

const DEFAULT_PORT: u16 = 8080;
const NODE_PREFIX: &str = "NODE_";

/// All settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Who may call.
    pub access: Access,
    /// Where images are kept, and how they are checked.
    pub images: CacheSettings,
    /// A catalogue that adds to the built-in one (`IMAGES_FILE`).
    pub images_file: Option<PathBuf>,
    /// What the pipeline needs.
    pub install: pve_provision::install::Settings,
    /// What the admin should know, though nothing is wrong.
    pub notices: Vec<String>,
}

impl Settings {
    /// Makes settings of variables, or says all that is wrong with them.
    ///
    /// `own_names` are the names of this machine.
    pub fn parse(variables: Variables, own_names: BTreeSet<String>) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader::new(variables);
        let listen = listen(&mut reader);
        let home = home(&mut reader);
        let images = images(&mut reader, &home);
        let images_file = reader.path("IMAGES_FILE", &home);
        let mut notices = Vec::new();
        let nodes = nodes(&mut reader, &mut notices);
        let install = install(&mut reader, &home, nodes);
        let access = access(&mut reader, own_names, install.as_ref());
        for name in reader.unknown(NODE_PREFIX) {
            notices.push(format!("{name} in .env is not a setting of this server"));
        }
        match install {
            Some(install) if reader.problems.is_empty() => {
                Ok(Self { listen, access, images, images_file, install, notices })
            }
            _ => Err(reader.problems),
        }
    }
}

/// `PORT` alone means all interfaces; `LISTEN` narrows it to one address.
fn listen(reader: &mut Reader) -> SocketAddr {
    let port = reader.optional("PORT", "a port, 0 to 65535", |text| text.parse().ok());
    let port = port.unwrap_or(DEFAULT_PORT);
    let wanted = "an address, or an address and a port, such as 127.0.0.1 or [::1]:8080";
    let listen = reader.optional("LISTEN", wanted, |text| {
        let address = text.parse().map(|address: IpAddr| SocketAddr::new(address, port));
        address.or_else(|_| text.parse()).ok()
    });
    listen.unwrap_or_else(|| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
}

fn home(reader: &mut Reader) -> PathBuf {
    let wanted = "the home directory, an absolute path";
    let home = reader.required("HOME", wanted, |text| {
        let path = PathBuf::from(text);
        path.is_absolute().then_some(path)
    });
    home.unwrap_or_default()
}

fn images(reader: &mut Reader, home: &std::path::Path) -> CacheSettings {
    let directory = reader.path("IMAGE_DIR", home).unwrap_or_else(|| PathBuf::from("/tmp"));
    let head = reader.optional("IMAGE_HEAD", "'required' or 'optional'", |text| match text {
        "required" => Some(Head::Required),
        "optional" => Some(Head::Optional),
        _ => None,
    });
    let verify = reader.optional("IMAGE_VERIFY", "'on' or 'off'", |text| match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    });
    CacheSettings {
        directory,
        head: head.unwrap_or(Head::Required),
        verify: verify.unwrap_or(true),
    }
}

/// `NODE_<name>=host[:port]`; a `-` in the name is written `_`, which no node's name has.
///
/// In the real environment the prefix is not ours alone (`NODE_OPTIONS` …): there, what does not fit is left.
fn nodes(reader: &mut Reader, notices: &mut Vec<String>) -> BTreeMap<String, String> {
    let mut nodes = BTreeMap::new();
    for (rest, address, in_file) in reader.with_prefix(NODE_PREFIX) {
        let variable = format!("{NODE_PREFIX}{rest}");
        let name = rest.replace('_', "-");
        let fits = name.parse::<pve_api::NodeName>().is_ok() && is_address(&address);
        if fits {
            nodes.insert(name, address);
        } else if !in_file {
            notices.push(format!("{variable} in the environment is not the address of a node"));
        } else if !address.is_empty() {
            let text =
                format!("is '{address}'; it must be the address of that node, host or host:port");
            reader.problem(&variable, text);
        }
    }
    nodes
}

/// Whether a text is `host` or `host:port`, and no option to `ssh`.
fn is_address(text: &str) -> bool {
    if text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let (host, port) = text.split_once(':').unwrap_or((text, "22"));
    is_host_name(host) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_host_name(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

fn install(
    reader: &mut Reader,
    home: &std::path::Path,
    nodes: BTreeMap<String, String>,
) -> Option<pve_provision::install::Settings> {
    let main_node = reader
        .required("MAIN_NODE", "the name of the node whose qm is run", |text| text.parse().ok());
    let gateway = reader.required(
        "GATEWAY",
        "the gateway of the VMs, such as 192.0.2.1, or 10.0.0.1/22 where the network is not a /24",
        |text| text.parse::<pve_provision::install::Gateway>().ok(),
    );
    let storage =
        reader.required("ASSIGN_STORAGE", "the name of the storage for the disks", |text| {
            text.parse().ok()
        });
    let last_host = gateway.map_or(254, |gateway| gateway.last_host());
    if last_host < 100 {
        reader
            .problem("GATEWAY", "has a network without a host 100; its prefix must be at most 25");
    }
    let (first_vmid, last_vmid) = range(reader, last_host);
    let limits = limits(reader);
    let root_password = root_password(reader);
    let ssh_port = reader.optional("VM_SSH_PORT", "a port, 1 to 65535", |text| {
        text.parse().ok().filter(|port| *port > 0)
    });
    let nameserver = reader
        .list("VM_NAMESERVER", "the address of a resolver", |text| text.parse::<IpAddr>().ok());
    let nameserver: Vec<String> = nameserver.iter().map(IpAddr::to_string).collect();
    let timezone = reader.optional("VM_TIMEZONE", "a time zone such as Europe/Berlin", |text| {
        is_timezone(text).then(|| text.to_owned())
    });
    let script_directory = reader.path("INIT_SCRIPT_DIR", home);
    let pve_directory = reader.path("PVE_DIR", home).unwrap_or_else(|| PathBuf::from("/etc/pve"));
    let state_directory =
        reader.path("STATE_DIR", home).unwrap_or_else(|| PathBuf::from("/var/lib/pve-server"));
    let installs_at_once = reader.optional("INSTALLS_AT_ONCE", "a number of at least 1", |text| {
        text.parse().ok().filter(|number| *number > 0)
    });
    let path = reader.text("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
    Some(pve_provision::install::Settings {
        main_node: main_node?,
        gateway: gateway?,
        first_vmid,
        last_vmid,
        storage: storage?,
        limits,
        root_password,
        nodes,
        ssh_port: ssh_port.unwrap_or(22),
        nameserver: (!nameserver.is_empty()).then(|| nameserver.join(" ")),
        timezone,
        script_directory,
        pve_directory,
        state_directory,
        home: home.to_owned(),
        path,
        installs_at_once: installs_at_once.unwrap_or(4),
        patience: pve_provision::install::Patience::default(),
    })
}

/// The VMIDs that are given out: both ends are hosts of the VMs' network.
fn range(reader: &mut Reader, last_host: u32) -> (u32, u32) {
    let wanted = format!("a number, 100 to {last_host}, the last host of GATEWAY's network");
    let number = |text: &str| text.parse().ok().filter(|number| (100..=last_host).contains(number));
    let first = reader.optional("ASSIGN_IP_START", &wanted, number).unwrap_or(100);
    let last = reader.optional("ASSIGN_IP_END", &wanted, number).unwrap_or(last_host);
    if first > last && last >= 100 {
        let text = format!("is {first}; it must not be above ASSIGN_IP_END, {last}");
        reader.problem("ASSIGN_IP_START", text);
    }
    (first, last)
}

/// The caps: 0 means none, and none may be below what every VM gets.
fn limits(reader: &mut Reader) -> Limits {
    let cpu =
        reader.optional("VM_MAX_CPU", "a number of cores, 0 for no cap", |text| text.parse().ok());
    let wanted = "a number of MiB of at least 512, 0 for no cap";
    let ram_mib = reader.optional("VM_MAX_RAM", wanted, |text| cap(text, 512));
    let wanted = "a number of GiB of at least 16, such as 64 or 64G, 0 for no cap";
    let disk_gib = reader.optional("VM_MAX_DISK", wanted, |text| {
        cap(text.strip_suffix(['G', 'g']).unwrap_or(text), 16)
    });
    let wanted = "a number of MiB, 0 for no ballooning";
    let balloon_min_mib = reader.optional("VM_BALLOON_MIN", wanted, |text| text.parse().ok());
    Limits {
        cpu: cpu.filter(|cores| *cores > 0),
        ram_mib: ram_mib.filter(|size| *size > 0),
        disk_gib: disk_gib.filter(|size| *size > 0),
        balloon_min_mib: balloon_min_mib.unwrap_or(0),
    }
}

fn cap(text: &str, least: u64) -> Option<u64> {
    text.parse().ok().filter(|size| *size == 0 || *size >= least)
}

/// Kept as it is written, blanks included; never shown.
fn root_password(reader: &mut Reader) -> Option<SecretString> {
    let password = reader.secret("VM_ROOT_PASSWORD")?;
    if password
        .chars()
        .any(|character| character.is_control() || character == char::REPLACEMENT_CHARACTER)
    {
        reader.problem(
            "VM_ROOT_PASSWORD",
            "has a character that is no text; it must be one line in UTF-8",
        );
        return None;
    }
    Some(password.into())
}

fn is_timezone(text: &str) -> bool {
    text.split('/').all(|part| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte))
    })
}

fn access(
    reader: &mut Reader,
    own_names: BTreeSet<String>,
    install: Option<&pve_provision::install::Settings>,
) -> Access {
    let wanted = "addresses and networks such as 192.0.2.7, 192.0.2.0/24; 0.0.0.0 for all";
    let allowed = reader.list("ALLOW_IPS", wanted, network);
    let allowed = if allowed.contains(&IpNet::from(IpAddr::from(Ipv4Addr::UNSPECIFIED))) {
        Allowed::All
    } else if allowed.is_empty() {
        Allowed::Only(["127.0.0.0/8", "::1/128"].iter().filter_map(|text| network(text)).collect())
    } else {
        Allowed::Only(allowed)
    };
    let wanted = "addresses and networks such as 192.0.2.7, 192.0.2.0/24";
    let trusted_proxies = reader.list("TRUSTED_PROXIES", wanted, network);
    let mut host_names = own_names;
    let wanted = "names such as pve.example.org";
    host_names.extend(
        reader.list("HOST_NAMES", wanted, |text| {
            is_host_name(text).then(|| text.to_ascii_lowercase())
        }),
    );
    if let Some(install) = install {
        host_names.insert(install.main_node.as_str().to_ascii_lowercase());
        for (name, address) in &install.nodes {
            let host = address.split(':').next().unwrap_or_default();
            let named = is_host_name(host) && address.parse::<Ipv4Addr>().is_err();
            host_names.extend(named.then(|| host.to_ascii_lowercase()));
            host_names.insert(name.to_ascii_lowercase());
        }
    }
    Access { allowed, trusted_proxies, token: token(reader), host_names }
}

fn network(text: &str) -> Option<IpNet> {
    let address = text.parse().map(|address: IpAddr| IpNet::from(address.to_canonical()));
    address.or_else(|_| text.parse()).ok()
}

fn token(reader: &mut Reader) -> Option<SecretString> {
    let token = reader.secret("API_TOKEN")?;
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        reader.problem(
            "API_TOKEN",
            "has a character that a header cannot carry; it must be visible ASCII without blanks",
        );
        return None;
    }
    Some(token.into())
}

#[cfg(test)]
mod tests;
