//! Changes of a VM's size, clamped like an install.

use super::Found;
use super::OperationError;
use crate::install::commands;
use crate::install::commands::Balloon;
use crate::install::installer::Installer;
use crate::install::plan;
use crate::install::pve_directory::VmConfig;
use crate::install::settings::Limits;

const GIB: u64 = 1 << 30;

impl Installer {
    /// `qm set --cores`; answers what was set and when it takes effect.
    pub async fn set_cpu(&self, vm: &Found, said: i64) -> Result<String, OperationError> {
        let (cores, clamp) = plan::cpu_within(said, &self.0.settings.limits);
        let sockets = vm.config.get("sockets").and_then(|value| value.parse().ok()).unwrap_or(1);
        let all = cores.saturating_mul(sockets);
        if let Some(why) = self.0.baseline.survey().await.lacks_cores(&vm.node, all) {
            return Err(OperationError::Invalid(why));
        }
        self.0.qm.run(&vm.node, commands::set_cores(vm.vmid, cores), None).await?;
        Ok(self.told(vm, format!("VM {}: cpu {cores}", vm.vmid), clamp).await)
    }

    /// `qm set --memory`, in MiB; ballooning follows the install's rule.
    pub async fn set_memory(&self, vm: &Found, said: i64) -> Result<String, OperationError> {
        let limits = &self.0.settings.limits;
        let (mib, clamp) = plan::ram_within(said, limits);
        let line = commands::set_memory(vm.vmid, mib, balloon(vm, mib, limits));
        self.0.qm.run(&vm.node, line, None).await?;
        Ok(self.told(vm, format!("VM {}: memory {mib} MiB", vm.vmid), clamp).await)
    }

    /// `qm resize scsi0`: grows the disk *by* that much, up to the cap.
    pub async fn grow_disk(&self, vm: &Found, said: &str) -> Result<String, OperationError> {
        let invalid = |why: String| OperationError::Invalid(why);
        let gib =
            plan::parse_gib(said).and_then(|gib| u64::try_from(gib).ok()).filter(|gib| *gib > 0);
        let shown: String = said.chars().take(40).collect();
        let gib = gib.ok_or_else(|| {
            invalid(format!("disk {shown:?} is not a size to grow by, such as \"10G\""))
        })?;
        let size = |config: &VmConfig| config.disk_bytes("scsi0");
        let before = size(&vm.config)
            .ok_or_else(|| invalid(format!("VM {} has no disk scsi0 of a known size", vm.vmid)))?;
        let most = plan::disk_cap(&self.0.settings.limits).saturating_mul(GIB);
        let wanted = before.saturating_add(gib.saturating_mul(GIB));
        if before >= most {
            return Err(invalid(format!(
                "scsi0 of VM {} has {} already, which is the most (VM_MAX_DISK)",
                vm.vmid,
                text(before)
            )));
        }
        let target = wanted.min(most);
        let output =
            self.0.qm.run(&vm.node, commands::grow(vm.vmid, target - before), None).await?;
        // It exits 0 even when it failed.
        let after = size(&self.find(vm.vmid)?.config).unwrap_or(before);
        if after != target {
            let why = output.stderr.trim().replace('\n', "; ");
            return Err(OperationError::Failed(format!(
                "qm resize of VM {} had no effect: scsi0 is {}, not {}: {why}",
                vm.vmid,
                text(after),
                text(target)
            )));
        }
        let clamp =
            (wanted > most).then(|| format!("{} would be more than VM_MAX_DISK", text(wanted)));
        let clamp = clamp.map(|clamp| format!(" ({clamp})")).unwrap_or_default();
        Ok(format!(
            "VM {}: disk {}{clamp}; its filesystem grows at the next boot, where cloud-init does it",
            vm.vmid,
            text(after)
        ))
    }

    async fn told(&self, vm: &Found, what: String, clamp: Option<String>) -> String {
        let clamp = clamp.map(|clamp| format!(" ({clamp})")).unwrap_or_default();
        let when = if self.0.is_running(vm).await {
            "from the next stop and start on: it is running"
        } else {
            "from its next start on"
        };
        format!("{what}{clamp}, {when}")
    }
}

/// The ballooning rule is for our own VMs; any other keeps its balloon while that fits.
fn balloon(vm: &Found, mib: u64, limits: &Limits) -> Balloon {
    let now = vm.config.get("balloon").and_then(|value| value.parse::<u64>().ok());
    match plan::balloon(mib, limits).filter(|_| vm.is_ours()) {
        Some(least) => Balloon::Set(least),
        None if now.is_some_and(|now| now > mib) => Balloon::Remove,
        None => Balloon::Keep,
    }
}

/// A size as Proxmox VE writes it.
pub(super) fn text(bytes: u64) -> String {
    for (unit, suffix) in [(1 << 40, "T"), (GIB, "G"), (1 << 20, "M"), (1 << 10, "K")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{suffix}", bytes / unit);
        }
    }
    bytes.to_string()
}
