//! Where a server listens.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Where a node's API listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// The port on which Proxmox VE listens unless a proxy stands in front of it.
    pub const DEFAULT_PORT: u16 = 8006;

    /// The host name or IP address, an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// A text that is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a server address (host, host:port or https://host:port)")]
pub struct InvalidAddress(String);

impl FromStr for Address {
    type Err = InvalidAddress;

    /// Reads `pve1.example.org`, `192.0.2.11:8006`, `[2001:db8::1]` or the web UI's URL.
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        // A URL may carry a password before its host.
        let wrong = || {
            InvalidAddress(
                text.rsplit_once('@').map_or(text.to_owned(), |(_, host)| format!("…@{host}")),
            )
        };
        let whole = match text.trim() {
            bare if !bare.contains("://") => format!("https://{bare}"),
            url => url.to_owned(),
        };
        // The scheme's own port 443 disappears from a parsed URL, so look for it in the text.
        let url = url::Url::parse(&whole).ok().ok_or_else(wrong)?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        if url.scheme() != "https" || !url.username().is_empty() || url.password().is_some() {
            return Err(wrong());
        }
        let authority = whole.trim_start_matches("https://").split(['/', '?', '#']).next();
        let says_443 = authority.is_some_and(|authority| authority.ends_with(":443"));
        let default = if says_443 { 443 } else { Self::DEFAULT_PORT };
        Ok(Self { host: host.to_owned(), port: url.port().unwrap_or(default) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(read("pve1").as_deref(), Ok("pve1:8006"));
        assert_eq!(read(" 192.0.2.11:443 ").as_deref(), Ok("192.0.2.11:443"));
        assert_eq!(read("[2001:db8::1]").as_deref(), Ok("[2001:db8::1]:8006"));
        assert_eq!(
            read("https://pve.example.org:8443/#v1:0").as_deref(),
            Ok("pve.example.org:8443")
        );
        assert_eq!(read("https://pve.example.org").as_deref(), Ok("pve.example.org:8006"));
        for bad in ["", "http://pve1", "https://", "root@pve1", "pve1:port", "a b"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
