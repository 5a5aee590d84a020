//! Hardware addresses of virtual network cards.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use super::InvalidId;

/// The hardware address of a network card: unicast, written in upper case as Proxmox VE does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddr([u8; 6]);

impl MacAddr {
    /// The six bytes.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl FromStr for MacAddr {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = || InvalidId {
            text: text.to_owned(),
            wanted: "a unicast hardware address (such as BC:24:11:00:00:01)",
        };
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
            *octet = u8::from_str_radix(part, 16).ok().ok_or_else(wrong)?;
        }
        // The lowest bit of the first byte marks a group address, which no card may have.
        if parts.next().is_some() || octets[0] & 1 == 1 || text.contains('+') {
            return Err(wrong());
        }
        Ok(Self(octets))
    }
}

impl TryFrom<String> for MacAddr {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<MacAddr> for String {
    fn from(address: MacAddr) -> Self {
        address.to_string()
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, octet) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{octet:02X}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hardware_address_is_six_bytes_of_a_single_card() {
        let address: MacAddr = "bc:24:11:4f:c2:7e".parse().unwrap();
        assert_eq!(address.to_string(), "BC:24:11:4F:C2:7E");
        for bad in [
            "",
            "BC:24:11:4F:C2",
            "BC:24:11:4F:C2:7E:00",
            "01:00:5E:00:00:01",
            "B:24:11:4F:C2:7E",
            "+1:24:11:4F:C2:7E",
        ] {
            assert!(bad.parse::<MacAddr>().is_err(), "{bad}");
        }
    }
}
