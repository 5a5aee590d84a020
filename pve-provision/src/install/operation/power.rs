//! Start, reboot and migration with events; stop, shutdown and destroy without.

use std::net::Ipv4Addr;
use std::time::Duration;

use pve_api::NodeName;
use tokio::time::Instant;

use super::Found;
use super::Operation;
use super::OperationError;
use crate::event::Left;
use crate::install::commands;
use crate::install::flow::Failure;
use crate::install::flow::Guest;
use crate::install::flow::Run;
use crate::install::installer::Inner;
use crate::install::installer::Installer;
use crate::install::problem::Problem;
use crate::install::problem::chain;
use crate::install::ready;
use crate::install::ready::Host;
use crate::install::ssh_key;
use crate::jobs::Job;
use crate::step::Step;

/// How long a VM may need to be running, where no address tells more.
const RUNNING: Duration = Duration::from_mins(1);
/// How long the HA manager may need to stop a VM: it looks every ten seconds, and asks the guest first.
const HA_MANAGER: Duration = Duration::from_mins(5);
/// Between two looks at a VM's status.
const LOOK: Duration = Duration::from_secs(1);

/// By what a VM is known to be ready.
enum Ready {
    /// Its status: there is no address to ask.
    Running,
    /// The greeting of its SSH server: it does not know our key.
    Banner(Ipv4Addr),
    /// A login.
    Login(Host),
}

impl Installer {
    /// The word that `qm status` says of a VM.
    pub async fn status(&self, vm: &Found) -> Result<String, OperationError> {
        Ok(self.0.qm.status(&vm.node, vm.vmid).await?)
    }

    /// `qm stop`: cuts the power.
    pub async fn stop(&self, vm: &Found) -> Result<(), OperationError> {
        self.0.qm.run(&vm.node, commands::stop(vm.vmid), None).await?;
        self.0.until_stopped(vm).await
    }

    /// `qm shutdown`: asks the guest.
    pub async fn shut_down(&self, vm: &Found) -> Result<(), OperationError> {
        self.0.qm.run(&vm.node, commands::shutdown(vm.vmid), None).await?;
        self.0.until_stopped(vm).await
    }

    /// `qm stop` and `qm destroy --purge`; a VM without our mark only when `force` is given.
    pub async fn destroy(&self, vm: &Found, force: bool) -> Result<(), OperationError> {
        if !vm.is_ours() && !force {
            return Err(OperationError::NotOurs(vm.vmid));
        }
        if vm.config.get("protection") == Some("1") {
            return Err(OperationError::Protected(vm.vmid));
        }
        self.0.qm.run(&vm.node, commands::force_stop(vm.vmid), None).await?;
        self.0.until_stopped(vm).await?;
        // The stop may have waited for a lock, and the number may be another VM's by now.
        let found = self.find(vm.vmid)?;
        if found.config.job() != vm.config.job() {
            return Err(OperationError::Failed(format!(
                "VM {} has become another VM meanwhile; it was not touched",
                vm.vmid
            )));
        }
        self.0.qm.run(&found.node, commands::destroy(vm.vmid), None).await?;
        Ok(())
    }
}

impl Inner {
    /// Waits until a VM is stopped that the HA manager stops when it comes to it.
    async fn until_stopped(&self, vm: &Found) -> Result<(), OperationError> {
        if !self.is_ha_managed(vm) {
            return Ok(());
        }
        let give_up = Instant::now() + HA_MANAGER;
        loop {
            // It may be moved meanwhile.
            let found = self.find(vm.vmid)?;
            if self.qm.status(&found.node, vm.vmid).await? == "stopped" {
                return Ok(());
            }
            if Instant::now() >= give_up {
                return Err(OperationError::Failed(format!(
                    "the HA manager was asked to stop VM {}, which still runs after {} s: see 'ha-manager status'",
                    vm.vmid,
                    HA_MANAGER.as_secs()
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What cannot be read is taken for no, as it is on a cluster without HA.
    fn is_ha_managed(&self, vm: &Found) -> bool {
        self.directory.is_ha_managed(vm.vmid).unwrap_or_default()
    }

    /// Waits until a VM is on `target` that the HA manager migrates when it comes to it.
    async fn until_moved(&self, vm: &Found, target: &NodeName) -> Result<(), Problem> {
        let unreadable = || Problem::file("read the VM's configuration");
        let give_up = Instant::now() + commands::MIGRATE;
        while self.directory.config(target, vm.vmid).map_err(unreadable())?.is_none() {
            if !self.is_ha_managed(vm) {
                return Err(Problem::Refused(format!(
                    "qm migrate reported success, but VM {} is not on {target}",
                    vm.vmid
                )));
            }
            if Instant::now() >= give_up {
                return Err(Problem::Refused(format!(
                    "the HA manager was asked to migrate VM {}, which is not on {target} yet: see 'ha-manager status'",
                    vm.vmid
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    pub(super) async fn operate(&self, vm: Found, operation: Operation, job: &Job) {
        let run = Run::new(self, job);
        let result = match operation {
            Operation::Start => run.start_vm(&vm).await,
            Operation::Reboot => run.reboot_vm(&vm).await,
            Operation::Migrate(target) => run.migrate_vm(&vm, target).await,
        };
        if let Err(failure) = result {
            let node =
                self.directory.find(vm.vmid).ok().flatten().map_or(vm.node, |(node, _)| node);
            let left = Left::Vm { vmid: vm.vmid, node };
            run.fail(&failure, left).await;
        }
        let _ = std::fs::remove_dir_all(&run.directory);
    }
}

impl Run<'_> {
    async fn start_vm(&self, vm: &Found) -> Result<(), Failure> {
        let step = Step::OperationStarting;
        self.step(step, format!("starting VM {} on {}", vm.vmid, vm.node), async {
            self.relaying(
                step,
                |_| true,
                async |lines| {
                    self.cx.qm.run(&vm.node, commands::start(vm.vmid), Some(&lines)).await
                },
            )
            .await?;
            Ok(((), format!("VM {} is started", vm.vmid)))
        })
        .await?;
        let ready = self.readiness(vm).await;
        self.wait_until(vm, ready, None).await
    }

    async fn reboot_vm(&self, vm: &Found) -> Result<(), Failure> {
        let step = Step::OperationRebooting;
        let ready = self.readiness(vm).await;
        let old_boot = self
            .step(step, format!("rebooting VM {} on {}", vm.vmid, vm.node), async {
                // Without a login there is no boot to tell apart: the command returns when the VM is down.
                let old_boot = match &ready {
                    Ready::Login(host) => {
                        let directory =
                            crate::install::ssh::create_private_directory(&self.directory);
                        directory.map_err(Problem::file("make a working directory (STATE_DIR)"))?;
                        ready::boot_id(&self.cx.ssh, host).await
                    }
                    Ready::Running | Ready::Banner(_) => None,
                };
                self.relaying(
                    step,
                    |_| true,
                    async |lines| {
                        self.cx.qm.run(&vm.node, commands::reboot(vm.vmid), Some(&lines)).await
                    },
                )
                .await?;
                Ok((old_boot, format!("VM {} is rebooting", vm.vmid)))
            })
            .await?;
        self.wait_until(vm, ready, old_boot.as_deref()).await
    }

    async fn migrate_vm(&self, vm: &Found, target: NodeName) -> Result<(), Failure> {
        let step = Step::OperationMigrating;
        self.step(step, format!("migrating VM {} from {} to {target}", vm.vmid, vm.node), async {
            let mut line = commands::migrate(vm.vmid, &target);
            if self.cx.is_running(vm).await {
                line.arguments.push("--online".to_owned());
            }
            self.relaying(
                step,
                |_| true,
                async |lines| self.cx.qm.run(&vm.node, line, Some(&lines)).await,
            )
            .await?;
            self.unless_cancelled(self.cx.until_moved(vm, &target)).await?;
            Ok(((), format!("VM {} is on {target}", vm.vmid)))
        })
        .await
    }

    /// By what this VM is known to be ready: its own address and user, a login where it lets our key in.
    async fn readiness(&self, vm: &Found) -> Ready {
        let Some(address) = vm.config.get("ipconfig0").and_then(address_of) else {
            return Ready::Running;
        };
        let user = vm.config.get("ciuser").filter(|_| vm.is_ours());
        let (Some(user), Ok(key)) =
            (user, ssh_key::find_or_make(&self.cx.exec, &self.cx.settings.home).await)
        else {
            return Ready::Banner(address);
        };
        Ready::Login(Host {
            address,
            port: self.cx.settings.ssh_port,
            user: user.to_owned(),
            identity: key.identity,
            known_hosts: self.directory.join("known_hosts"),
        })
    }

    async fn wait_until(
        &self,
        vm: &Found,
        ready: Ready,
        old_boot: Option<&str>,
    ) -> Result<(), Failure> {
        let step = Step::OperationWaiting;
        match ready {
            Ready::Running => {
                self.step(step, "waiting until its status is running", async {
                    let give_up = Instant::now() + RUNNING;
                    while !self.cx.is_running(vm).await {
                        if Instant::now() > give_up {
                            return Err(Problem::NotReady(format!(
                                "VM {} is not running after {} s",
                                vm.vmid,
                                RUNNING.as_secs()
                            )));
                        }
                        tokio::time::sleep(LOOK).await;
                    }
                    Ok((
                        (),
                        format!("VM {} is running; it has no address to ask for more", vm.vmid),
                    ))
                })
                .await
            }
            Ready::Banner(address) => {
                let port = self.cx.settings.ssh_port;
                self.step(step, format!("waiting for the SSH server of {address}"), async {
                    let limit = self.cx.settings.patience.ready;
                    ready::wait_for_banner(address, port, limit)
                        .await
                        .map_err(Problem::NotReady)?;
                    Ok(((), format!("the SSH server of {address} answers")))
                })
                .await
            }
            Ready::Login(host) => {
                let guest = Guest { vmid: vm.vmid, node: vm.node.clone(), address: host.address };
                self.step(
                    step,
                    format!("waiting for a login as {}@{}", host.user, host.address),
                    async {
                        let directory =
                            crate::install::ssh::create_private_directory(&self.directory);
                        directory.map_err(Problem::file("make a working directory (STATE_DIR)"))?;
                        self.wait_for_login(step, &guest, &host, old_boot).await?;
                        Ok(((), format!("logged in as {}@{}", host.user, host.address)))
                    },
                )
                .await
            }
        }
    }

    async fn fail(&self, failure: &Failure, left: Left) {
        let text = chain(&failure.problem);
        self.job.report(failure.step, crate::event::Kind::Failed { text, left }).await;
    }
}

/// The address of `ip=192.0.2.120/24,gw=…`.
fn address_of(ipconfig: &str) -> Option<Ipv4Addr> {
    let value = ipconfig.split(',').find_map(|part| part.strip_prefix("ip="))?;
    value.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_ipconfig0() {
        assert_eq!(
            address_of("gw=192.0.2.1,ip=192.0.2.120/24"),
            Some(Ipv4Addr::new(192, 0, 2, 120))
        );
        assert_eq!(address_of("ip=dhcp"), None);
        assert_eq!(address_of("ip6=auto"), None);
    }
}
