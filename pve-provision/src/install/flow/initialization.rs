//! Stage `VM initialization`: configuration, migration, boot, init script, reboot, report.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use pve_api::NodeName;
use pve_api::Volid;
use tokio::time::Instant;

use super::Failure;
use super::Guest;
use super::Run;
use crate::event::Kind;
use crate::install::commands;
use crate::install::commands::Initial;
use crate::install::exec::Output;
use crate::install::password;
use crate::install::plan::Plan;
use crate::install::problem::Problem;
use crate::install::problem::chain;
use crate::install::pve_directory::VmConfig;
use crate::install::ready::Login;
use crate::install::script;
use crate::install::ssh;
use crate::install::ssh_key::NodeKey;
use crate::step::Step;

/// How often a VM that is waited for is looked after.
const LOOK: Duration = Duration::from_secs(2);
/// How often the resize is tried.
const RESIZES: usize = 3;

const GIB: u64 = 1 << 30;

impl Run<'_> {
    /// The configuration of the VM that this job has made.
    pub(super) fn config(&self, guest: &Guest) -> Result<VmConfig, Problem> {
        self.marked(guest, Some(&self.mark()))
    }

    /// The mark of this job's VM.
    pub(super) fn mark(&self) -> String {
        self.job.id().to_string()
    }

    /// The configuration of a VM, as long as it is the one with that mark: a number that is free again
    /// soon belongs to another one.
    fn marked(&self, guest: &Guest, mark: Option<&str>) -> Result<VmConfig, Problem> {
        let Guest { vmid, node, .. } = guest;
        let config = self.cx.directory.config(node, *vmid);
        let config =
            config.map_err(Problem::file(format!("read the configuration of VM {vmid}")))?;
        match config {
            Some(config) if config.job() == mark => Ok(config),
            Some(_) => Err(Problem::Refused(format!(
                "VM {vmid} on {node} is another one by now: somebody has removed this job's"
            ))),
            None => Err(Problem::Refused(format!(
                "VM {vmid} is gone from {node}: somebody has removed or moved it"
            ))),
        }
    }

    /// Resolves when the VM with that mark is no longer where it was.
    pub(super) async fn until_gone(&self, guest: &Guest, mark: Option<&str>) -> Problem {
        loop {
            tokio::time::sleep(LOOK).await;
            // A file system that cannot be read for a moment is not the end of a VM.
            if let Err(problem @ Problem::Refused(_)) = self.marked(guest, mark) {
                return problem;
            }
        }
    }

    /// `qm set`, `qm resize`, `qm set --ipconfig0`.
    pub(super) async fn initialize(
        &self,
        plan: &Plan,
        guest: &Guest,
        key: &NodeKey,
        disk: &Volid,
    ) -> Result<(), Failure> {
        let step = Step::InitializingConfiguration;
        self.step(step, "setting user, keys, password and disk", async {
            let hash = password::hash(&plan.password).await?;
            let keys = self.write_keys(plan, key)?;
            let line = commands::initialize(
                guest.vmid,
                &Initial {
                    keys: &keys,
                    password_hash: &hash,
                    user: &plan.user,
                    os: &plan.image.os,
                    disk,
                    storage: &self.cx.settings.storage,
                },
            );
            let set = self.command(&guest.node, line, None).await;
            // Only public keys, but nothing of a job stays behind.
            let _ = std::fs::remove_file(&keys);
            set?;
            let size = self.resize(plan, guest).await?;
            let gateway = self.cx.settings.gateway;
            let ipconfig =
                format!("ip={}/{},gw={}", guest.address, gateway.prefix, gateway.address);
            let line = commands::set_address(
                guest.vmid,
                &ipconfig,
                self.cx.settings.nameserver.as_deref(),
            );
            self.command(&guest.node, line, None).await?;
            Ok(((), format!("user {}, disk of {size}, {ipconfig}", plan.user)))
        })
        .await
    }

    /// The keys that the VM's user lets in: the node's own first.
    fn write_keys(&self, plan: &Plan, key: &NodeKey) -> Result<PathBuf, Problem> {
        let path = self.directory.join("keys.pub");
        let write = || {
            ssh::create_private_directory(&self.directory)?;
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)?;
            writeln!(file, "{}", key.public)?;
            plan.keys.iter().try_for_each(|line| writeln!(file, "{line}"))
        };
        write().map_err(Problem::file(format!("write {}", path.display())))?;
        Ok(path)
    }

    /// Grows the disk. `qm resize` exits 0 even when it failed, so the configuration decides.
    async fn resize(&self, plan: &Plan, guest: &Guest) -> Result<String, Problem> {
        let step = Step::InitializingConfiguration;
        let wanted = plan.disk_gib * GIB;
        let size = |config: &VmConfig| config.disk_bytes("scsi0");
        if let Some(image) = size(&self.config(guest)?).filter(|image| *image > wanted) {
            let image = format!("{:.1}G", gib(image));
            self.notice(
                step,
                format!("the image is larger than asked for: the disk keeps its {image}"),
            )
            .await;
            return Ok(image);
        }
        let mut why = String::new();
        for try_number in 1..=RESIZES {
            let line = commands::resize(guest.vmid, plan.disk_gib);
            match self.command(&guest.node, line, None).await {
                Ok(output) => why = said(&output),
                Err(Problem::Command(error)) if !error.is_unknown() => why = chain(&error),
                Err(problem) => return Err(problem),
            }
            if size(&self.config(guest)?) == Some(wanted) {
                return Ok(format!("{}G", plan.disk_gib));
            }
            if try_number < RESIZES {
                let pause = self.cx.settings.patience.between_resizes;
                let text = format!(
                    "resize {try_number} of {RESIZES} had no effect ({why}): once more in {} s",
                    pause.as_secs()
                );
                self.notice(step, text).await;
                self.unless_cancelled(async {
                    tokio::time::sleep(pause).await;
                    Ok(())
                })
                .await?;
            }
        }
        let found = size(&self.config(guest)?)
            .map_or("unknown".to_owned(), |bytes| format!("{:.1}G", gib(bytes)));
        Err(Problem::Refused(format!(
            "scsi0 of VM {} is {found} and not {}G after {RESIZES} tries of qm resize: {why}",
            guest.vmid, plan.disk_gib
        )))
    }

    /// `qm migrate`; all later commands run on the node that has the guest then.
    pub(super) async fn migrate(&self, guest: Guest, target: &NodeName) -> Result<Guest, Failure> {
        self.step(Step::MigratingVm, format!("migrating VM {} to {target}", guest.vmid), async {
            let line = commands::migrate(guest.vmid, target);
            self.relaying(
                Step::MigratingVm,
                |_| true,
                async |lines| self.command(&guest.node, line, Some(&lines)).await,
            )
            .await?;
            let guest = Guest { node: target.clone(), ..guest };
            let found = self.cx.directory.config(target, guest.vmid);
            if found.map_err(Problem::file("read the VM's configuration"))?.is_none() {
                return Err(Problem::Refused(format!(
                    "qm migrate reported success, but VM {} is not on {target}",
                    guest.vmid
                )));
            }
            let claim = self.job.claim(guest.vmid, target).await;
            claim.map_err(Problem::file("write down where the VM is (STATE_DIR)"))?;
            Ok((guest, format!("the VM is on {target}")))
        })
        .await
    }

    /// Waits for cloud-init, then runs the init script through the standard input of a root shell.
    pub(super) async fn run_init_script(&self, plan: &Plan, login: &Login) -> Result<(), Failure> {
        let step = Step::SshInitialization;
        self.step(step, "waiting for cloud-init", async {
            let settings = &self.cx.settings;
            let image = &plan.image;
            let script =
                script::find(settings.script_directory.as_deref(), &image.os, &image.version)?;
            self.wait_for_cloud_init(login).await?;
            self.say(step, format!("running the init script of {} {}", image.os, image.version))
                .await;
            let input = script::input(&script, settings);
            let run = self.relaying(
                step,
                |_| true,
                async |lines| {
                    let run = login.link.run("sudo -n bash -s", Some(input), &lines);
                    tokio::time::timeout(settings.patience.script, run).await
                },
            );
            match run.await {
                Ok(Ok(0)) => Ok(((), "the init script has ended well".to_owned())),
                Ok(Ok(code)) => {
                    Err(Problem::Refused(format!("the init script failed with exit code {code}")))
                }
                Ok(Err(error)) => Err(Problem::Refused(format!(
                    "the connection was lost while the init script ran: {error}"
                ))),
                Err(_) => Err(Problem::Refused(format!(
                    "the init script has not ended within {} s",
                    settings.patience.script.as_secs()
                ))),
            }
        })
        .await
    }

    async fn wait_for_cloud_init(&self, login: &Login) -> Result<(), Problem> {
        let step = Step::SshInitialization;
        let limit = self.cx.settings.patience.cloud_init;
        let shown = |line: &str| !line.trim_matches('.').trim().is_empty();
        let run = self.relaying(step, shown, async |lines| {
            let run = login.link.run("cloud-init status --wait", None, &lines);
            tokio::time::timeout(limit, run).await
        });
        match run.await {
            Ok(Ok(0)) => Ok(()),
            Ok(Ok(2)) => {
                self.notice(
                    step,
                    "cloud-init has ended with warnings: see 'cloud-init status --long' in the VM",
                )
                .await;
                Ok(())
            }
            Ok(Ok(127)) => {
                self.notice(
                    step,
                    "the image has no cloud-init status command: going on without it",
                )
                .await;
                Ok(())
            }
            Ok(Ok(code)) => {
                let long = login.link.read("cloud-init status --long").await;
                let long =
                    long.map(|(_, text)| text.trim().replace('\n', "; ")).unwrap_or_default();
                Err(Problem::Refused(format!(
                    "cloud-init failed in the VM (exit code {code}): {long}"
                )))
            }
            Ok(Err(error)) => Err(Problem::Refused(format!(
                "the connection was lost while cloud-init was waited for: {error}"
            ))),
            Err(_) => Err(Problem::Refused(format!(
                "cloud-init has not ended within {} s",
                limit.as_secs()
            ))),
        }
    }

    /// The four events that end a success.
    pub(super) async fn finalize(
        &self,
        plan: &Plan,
        guest: &Guest,
        started: Instant,
    ) -> Result<(), Failure> {
        let report = async |kind| self.job.report(Step::Finalizing, kind).await;
        let seconds = started.elapsed().as_secs_f64();
        report(Kind::Done(format!("VM installation completed in {seconds:.2}s"))).await;
        report(Kind::Report(format!("VMID: {}", guest.vmid))).await;
        report(Kind::Report(format!("IP: {}", guest.address))).await;
        report(Kind::Report(format!("User: {}", plan.user))).await;
        Ok(())
    }
}

/// What a command that has ended well says on standard error.
fn said(output: &Output) -> String {
    let said: Vec<&str> = output.stderr.lines().map(str::trim).collect();
    if said.concat().is_empty() {
        return "qm resize says that all is well".to_owned();
    }
    said.join("; ")
}

#[expect(clippy::cast_precision_loss, reason = "a size for people's eyes")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB as f64
}
