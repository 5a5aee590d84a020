//! The version of a server, as answers to questions.

use std::fmt;

use crate::client::Client;
use crate::endpoint;
use crate::error::Result;
use crate::record::record;
use crate::request::Request;

record! {
    /// The version of a server.
    ///
    /// Ask it what the server can do; never compare its texts.
    Version {
        /// Such as `9.2.11`.
        "version" text: String,
        /// Such as `9.2`.
        "release" release: String,
    }
    optional {
        /// The commit that the server was built from.
        "repoid" commit: String,
        /// The console that the administrator prefers.
        "console" console: String,
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Version {
    /// Major and minor release; unreadable parts count as 0.
    pub fn release(&self) -> (u32, u32) {
        let mut parts = self.release.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    fn is_at_least(&self, major: u32, minor: u32) -> bool {
        self.release() >= (major, minor)
    }

    /// Whether create takes `ha-managed`; otherwise add the guest to HA afterwards.
    pub fn has_ha_managed(&self) -> bool {
        self.is_at_least(9, 1)
    }

    /// Whether guests have `allow-ksm`.
    pub fn has_allow_ksm(&self) -> bool {
        self.is_at_least(9, 1)
    }

    /// Whether HA has rules instead of groups.
    pub fn has_ha_rules(&self) -> bool {
        self.is_at_least(9, 0)
    }

    /// Whether an account without `root@pam`'s rights may make a network card without a bridge.
    pub fn has_nic_without_bridge(&self) -> bool {
        self.is_at_least(9, 0)
    }

    /// Whether storages have the content `import`, from which a disk can be made by download or
    /// upload without root.
    pub fn has_import_content(&self) -> bool {
        self.is_at_least(8, 3)
    }

    /// Whether the CPU models `x86-64-v2` to `x86-64-v4` exist.
    pub fn has_cpu_levels(&self) -> bool {
        self.is_at_least(8, 0)
    }

    /// Whether the agent's calls have privileges of their own (`VM.GuestAgent.*`) instead of
    /// `VM.Monitor`.
    pub fn has_agent_privileges(&self) -> bool {
        self.is_at_least(9, 0)
    }

    /// Whether the agent's option is called `freeze-fs`; before, `freeze-fs-on-backup`.
    pub fn has_freeze_fs(&self) -> bool {
        self.is_at_least(9, 1)
    }

    /// Whether starting on create needs `VM.PowerMgmt`.
    pub fn checks_power_on_create(&self) -> bool {
        self.is_at_least(9, 1)
    }

    /// Whether EFI disks have the option `ms-cert`.
    pub fn has_ms_cert(&self) -> bool {
        self.is_at_least(9, 1)
    }
}

impl Client {
    /// Reads the version of the server.
    ///
    /// `GET /version`.
    pub async fn version(&self) -> Result<Version> {
        self.get(Request::new(&endpoint::VERSION, &[])).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        let version = |release: &str| -> Version {
            serde_json::from_value(serde_json::json!({"version": release, "release": release}))
                .unwrap()
        };
        assert!(version("9.10").has_ha_managed());
        assert!(version("10.0").has_ha_managed());
        assert!(!version("9.0").has_ha_managed());
        assert!(version("9.0").has_ha_rules() && !version("8.4").has_ha_rules());
        assert!(version("8.3").has_import_content() && !version("8.2").has_import_content());
        assert_eq!(version("rubbish").release(), (0, 0));
    }
}
