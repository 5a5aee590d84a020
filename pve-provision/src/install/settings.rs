//! What the pipeline has to know about its cluster.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use pve_api::NodeName;
use pve_api::StorageId;
use secrecy::SecretString;

/// Everything that an install takes from the server's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The node whose `qm` is run (`MAIN_NODE`).
    pub main_node: NodeName,
    /// The network of the VMs (`GATEWAY`).
    pub gateway: Gateway,
    /// The first VMID that is given out (`ASSIGN_IP_START`, 100).
    pub first_vmid: u32,
    /// The last VMID that is given out (`ASSIGN_IP_END`, 254).
    pub last_vmid: u32,
    /// Where the disks go (`ASSIGN_STORAGE`).
    pub storage: StorageId,
    /// Caps and the ballooning rule.
    pub limits: Limits,
    /// The root password that the init script sets (`VM_ROOT_PASSWORD`).
    pub root_password: Option<SecretString>,
    /// `host[:port]` of nodes, where it is not the address of `.members` (`NODE_<name>`).
    pub nodes: BTreeMap<String, String>,
    /// The port that the VMs' SSH servers listen on (`VM_SSH_PORT`, 22).
    pub ssh_port: u16,
    /// The resolver of the VMs, where it is not the node's (`VM_NAMESERVER`).
    pub nameserver: Option<String>,
    /// The time zone that the init script sets (`VM_TIMEZONE`).
    pub timezone: Option<String>,
    /// Init scripts that replace the built-in ones (`INIT_SCRIPT_DIR`).
    pub script_directory: Option<PathBuf>,
    /// `/etc/pve` (`PVE_DIR`).
    pub pve_directory: PathBuf,
    /// Where short-lived files are kept: key lists, known hosts, control sockets.
    pub state_directory: PathBuf,
    /// `$HOME`, where the node's own SSH key is.
    pub home: PathBuf,
    /// `$PATH`, by which `qm`, `pvesm`, `pvesh` and `ssh` are found.
    pub path: String,
    /// How many jobs may be between create and resize at a time (`INSTALLS_AT_ONCE`, 4).
    pub installs_at_once: usize,
    /// How long an install waits for what may never come; no setting of the server's.
    pub patience: Patience,
}

/// How long an install waits for what may never come.
///
/// The default is what the product promises. Shorter waits are for programs that have another idea of it,
/// and for tests of what happens when one runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For a login after a start or reboot: 60 tries of 5 s, as specified.
    pub ready: Duration,
    /// Between two logins: newer SSH servers lock callers out that come back faster after a refusal.
    pub between_logins: Duration,
    /// For a VM's lock: after a stop Proxmox VE may hold it for 30 s.
    pub lock: Duration,
    /// For a VM to appear whose `qm create` was running when the server ended.
    pub appearance: Duration,
    /// Between two of the three tries to resize a disk.
    pub between_resizes: Duration,
    /// For the cloud-init of a first boot.
    pub cloud_init: Duration,
    /// For the init script: it upgrades every package.
    pub script: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            ready: Duration::from_mins(5),
            between_logins: Duration::from_secs(5),
            lock: Duration::from_secs(45),
            appearance: Duration::from_secs(10),
            between_resizes: Duration::from_secs(5),
            cloud_init: Duration::from_mins(10),
            script: Duration::from_hours(1),
        }
    }
}

/// The caps of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Most cores (`VM_MAX_CPU`).
    pub cpu: Option<u32>,
    /// Most memory in MiB (`VM_MAX_RAM`).
    pub ram_mib: Option<u64>,
    /// Largest disk in GiB (`VM_MAX_DISK`).
    pub disk_gib: Option<u64>,
    /// Least memory that a ballooning VM keeps, in MiB (`VM_BALLOON_MIN`); 0 for no ballooning.
    pub balloon_min_mib: u64,
}

/// The gateway of the VMs and, by its prefix, their network.
///
/// Without a prefix the network is a `/24`: the first three octets of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gateway {
    /// The gateway's own address.
    pub address: Ipv4Addr,
    /// The length of the network's prefix, 8 to 30.
    pub prefix: u8,
}

impl Gateway {
    /// The address of the guest with that number: the network, and the number as host part.
    ///
    /// `None` when the network has no such host.
    pub fn guest(&self, number: u32) -> Option<Ipv4Addr> {
        (1..=self.last_host())
            .contains(&number)
            .then(|| Ipv4Addr::from_bits(self.network() | number))
    }

    /// The number of the network's last host.
    pub fn last_host(&self) -> u32 {
        !self.mask() - 1
    }

    /// The number of `address` in this network, if it is in it.
    pub fn host(&self, address: Ipv4Addr) -> Option<u32> {
        let bits = address.to_bits();
        (bits & self.mask() == self.network()).then_some(bits & !self.mask())
    }

    fn mask(self) -> u32 {
        u32::MAX << (32 - u32::from(self.prefix))
    }

    fn network(self) -> u32 {
        self.address.to_bits() & self.mask()
    }
}

impl FromStr for Gateway {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("'{text}' is not an address such as 192.0.2.1 or 10.0.0.1/22");
        let (address, prefix) = text.split_once('/').unwrap_or((text, "24"));
        let gateway = Self {
            address: address.parse().or(Err(wanted()))?,
            prefix: prefix.parse().or(Err(wanted()))?,
        };
        if !(8..=30).contains(&gateway.prefix) {
            return Err(format!("the prefix of '{text}' is not between 8 and 30"));
        }
        match gateway.host(gateway.address) {
            Some(host) if (1..=gateway.last_host()).contains(&host) => Ok(gateway),
            _ => Err(format!("'{text}' is not the address of a host in its network")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vmid_is_the_host_part_of_the_address() {
        let plain: Gateway = "192.168.0.1".parse().unwrap();
        assert_eq!(plain.guest(120), Some(Ipv4Addr::new(192, 168, 0, 120)));
        assert_eq!((plain.last_host(), plain.guest(255)), (254, None));

        let wide: Gateway = "10.0.2.1/22".parse().unwrap();
        assert_eq!(wide.guest(1000), Some(Ipv4Addr::new(10, 0, 3, 232)));
        assert_eq!((wide.last_host(), wide.host(wide.address)), (1022, Some(513)));
    }

    #[test]
    fn what_is_not_a_gateway_is_refused() {
        for text in
            ["", "192.168.0", "192.168.0.0", "192.168.0.255", "10.0.0.1/33", "10.0.0.1/31", "::1"]
        {
            assert!(text.parse::<Gateway>().is_err(), "{text}");
        }
    }
}
