//! Network cards, and what cloud-init is told about addresses.

use super::Format;
use super::Pairs;
use super::properties;
use crate::id::MacAddr;
use crate::record::words;

properties! {
    /// A network card of a guest.
    NetDevice {
        /// What the guest sees.
        "model" model: NetModel,
        /// Its hardware address; left out, the server makes one up.
        "macaddr" address: MacAddr,
        /// The bridge into which it is plugged.
        "bridge" bridge: String,
        /// The VLAN of its packets, 1 to 4094.
        "tag" vlan: u16,
        /// The VLANs that it may use, such as `2;5-8`.
        "trunks" trunks: String,
        /// Whether the firewall watches it.
        "firewall" firewall: bool,
        /// Whether the cable is out.
        "link_down" link_down: bool,
        /// The largest packet, for `virtio` only; 1 means the bridge's.
        "mtu" mtu: u16,
        /// Megabytes a second.
        "rate" rate: f64,
        /// The number of queues, 0 to 64.
        "queues" queues: u8,
    }
}

words! {
    /// What a guest sees as its network card.
    NetModel {
        /// Paravirtual: quick, needs a driver.
        Virtio = "virtio",
        /// Intel, old.
        E1000 = "e1000",
        /// Intel.
        E1000e = "e1000e",
        /// Realtek.
        Rtl8139 = "rtl8139",
        /// By `VMware`.
        Vmxnet3 = "vmxnet3",
        /// Intel, for old guests.
        E1000_82540em = "e1000-82540em",
        /// Intel, for old guests.
        E1000_82544gc = "e1000-82544gc",
        /// Intel, for old guests.
        E1000_82545em = "e1000-82545em",
        /// Intel, for old guests.
        I82551 = "i82551",
        /// Intel, for old guests.
        I82557b = "i82557b",
        /// Intel, for old guests.
        I82559er = "i82559er",
        /// NE2000 on ISA.
        Ne2kIsa = "ne2k_isa",
        /// NE2000 on PCI.
        Ne2kPci = "ne2k_pci",
        /// AMD, for old guests.
        Pcnet = "pcnet",
    }
}

impl Format for NetDevice {
    const DEFAULT_KEY: Option<&'static str> = Some("model");

    fn expand(key: &str, value: &str) -> Option<Vec<(&'static str, String)>> {
        if matches!(NetModel::from(key), NetModel::Other(_)) {
            return None;
        }
        let mut pairs = vec![("model", key.to_owned())];
        if !value.is_empty() {
            pairs.push(("macaddr", value.to_owned()));
        }
        Some(pairs)
    }

    fn contract(pairs: &mut Pairs) {
        let position = |name: &str| pairs.iter().position(|(key, _)| key == name);
        if let (Some(model), Some(address)) = (position("model"), position("macaddr")) {
            if matches!(NetModel::from(pairs[model].1.as_str()), NetModel::Other(_)) {
                return;
            }
            let (_, address) = pairs[address].clone();
            pairs[model] = (pairs[model].1.clone(), address);
            pairs.retain(|(key, _)| key != "macaddr");
        }
    }
}

properties! {
    /// What cloud-init is told about the addresses of a network card.
    IpConfig {
        /// The address with the network's length, or `dhcp`.
        "ip" ip: String,
        /// The way out.
        "gw" gateway: String,
        /// The IPv6 address with the network's length, `dhcp` or `auto`.
        "ip6" ip6: String,
        /// The way out for IPv6.
        "gw6" gateway6: String,
    }
}

impl Format for IpConfig {
    const DEFAULT_KEY: Option<&'static str> = None;
}
