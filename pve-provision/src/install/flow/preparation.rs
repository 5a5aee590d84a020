//! What comes before there is a VM: VMID and address, storage, image, key.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use pve_api::Vmid;
use pve_images::Remote;
use pve_images::Update;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Ahead;
use super::Failure;
use super::Run;
use crate::event::Kind;
use crate::install::baseline::CpuLevel;
use crate::install::commands;
use crate::install::exec::Output;
use crate::install::plan::Plan;
use crate::install::problem::CommandError;
use crate::install::problem::Problem;
use crate::install::problem::chain;
use crate::install::ssh_key;
use crate::install::ssh_key::NodeKey;
use crate::install::storage;
use crate::lease::Lease;
use crate::step::Step;

/// The publisher's answer, and what was to be told meanwhile.
type Head = (Result<Option<Remote>, pve_images::Error>, Vec<Update>);

/// What was begun before its step.
pub(super) struct Begun {
    pub(super) storages: Ahead<Result<Output, CommandError>>,
    pub(super) head: Ahead<Head>,
}

/// A VMID and the address that follows from it.
pub(super) struct Place {
    pub(super) lease: Lease,
    pub(super) address: Ipv4Addr,
    /// When the address was found silent.
    pub(super) taken: Instant,
}

impl Place {
    pub(super) fn vmid(&self) -> Vmid {
        self.lease.vmid()
    }
}

impl Run<'_> {
    /// Begins what only reads.
    pub(super) fn begin_ahead(&self, plan: &Plan) -> Begun {
        let qm = self.cx.qm.clone();
        let main_node = self.cx.settings.main_node.clone();
        let storages =
            Ahead::start(async move { qm.run(&main_node, commands::pvesm_status(), None).await });
        let (cache, image) = (self.cx.cache.clone(), plan.image.clone());
        let head = Ahead::start(async move {
            let mut updates = Vec::new();
            let remote = cache.validate(&image, |update| updates.push(update)).await;
            (remote, updates)
        });
        Begun { storages, head }
    }

    /// Stage `preparation`.
    pub(super) async fn prepare(
        &self,
        plan: &Plan,
        storages: Ahead<Result<Output, CommandError>>,
    ) -> Result<Place, Failure> {
        let lease = self
            .step(Step::CheckingVmid, "looking for a VMID", async {
                self.check_quorum()?;
                let lease = self.take_vmid(plan, &BTreeSet::new()).await?;
                let how = if plan.id.is_some() { "as asked for" } else { "free" };
                let done = format!("VMID {}, {how}", lease.vmid());
                Ok((lease, done))
            })
            .await?;
        let address = self
            .step(Step::AssigningIp, "deriving the address from the VMID", async {
                let address = self.address(lease.vmid())?;
                Ok((address, format!("IP {address}/{}", self.cx.settings.gateway.prefix)))
            })
            .await?;
        let place = Place { lease, address, taken: Instant::now() };
        self.step(Step::ValidatingCpuAndRam, "checking cpu and ram against the limits", async {
            self.plan_notices(plan, Step::ValidatingCpuAndRam).await;
            Ok(((), format!("cpu {}, ram {} MiB", plan.cpu, plan.ram_mib)))
        })
        .await?;
        self.step(Step::ValidatingDiskSize, "checking the disk size against the limits", async {
            self.plan_notices(plan, Step::ValidatingDiskSize).await;
            Ok(((), format!("disk {}G", plan.disk_gib)))
        })
        .await?;
        self.step(Step::SettingDefaultConfigValues, "filling in what was left out", async {
            self.plan_notices(plan, Step::SettingDefaultConfigValues).await;
            Ok(((), format!("name {}, user {}", plan.final_name(place.vmid()), plan.user)))
        })
        .await?;
        self.step(
            Step::CheckingStoragePool,
            format!("checking storage {}", self.cx.settings.storage),
            async {
                let kind = self.check_storage(plan, &storages.result().await??.stdout)?;
                Ok(((), format!("storage {} is active ({kind})", self.cx.settings.storage)))
            },
        )
        .await?;
        Ok(place)
    }

    fn check_quorum(&self) -> Result<(), Problem> {
        let members =
            self.cx.directory.members().map_err(Problem::file("read the cluster's nodes"))?;
        let main_node = &self.cx.settings.main_node;
        if members.own_name != main_node.as_str() {
            return Err(Problem::Refused(format!(
                "this node is {}, not {main_node}: set MAIN_NODE to the node that the server runs on",
                members.own_name
            )));
        }
        if members.quorate {
            return Ok(());
        }
        Err(Problem::Refused(
            "the cluster has no quorum, so nothing can be changed: see 'pvecm status', bring nodes back, try again"
                .to_owned(),
        ))
    }

    /// The requested VMID, or the lowest free one that is not in `beside`.
    pub(super) async fn take_vmid(
        &self,
        plan: &Plan,
        beside: &BTreeSet<u32>,
    ) -> Result<Lease, Problem> {
        let Some(vmid) = plan.id else {
            return self.cx.allocator.lowest(&self.cx.settings, &self.cx.directory, beside).await;
        };
        let taken = || {
            Problem::Refused(format!(
                "VMID {vmid} is being made by another job: wait for it, or take another id"
            ))
        };
        self.cx.allocator.take(vmid).ok_or_else(taken)
    }

    pub(super) fn address(&self, vmid: Vmid) -> Result<Ipv4Addr, Problem> {
        let address = self.cx.settings.gateway.guest(vmid.get());
        address.ok_or_else(|| Problem::Refused(format!("the VMs' network has no host {vmid}")))
    }

    fn check_storage(&self, plan: &Plan, status: &str) -> Result<String, Problem> {
        let settings = &self.cx.settings;
        let name = settings.storage.as_str();
        let config = self.cx.directory.storage(name).map_err(Problem::file("read storage.cfg"))?;
        let mut nodes = vec![settings.main_node.as_str()];
        nodes.extend(plan.target.as_ref().map(pve_api::NodeName::as_str));
        storage::check(status, config.as_ref(), name, &nodes).map_err(Problem::Refused)
    }

    /// Stage `OS preparation`.
    pub(super) async fn prepare_image(
        &self,
        plan: &Plan,
        head: Ahead<Head>,
    ) -> Result<PathBuf, Failure> {
        let image = &plan.image;
        let title = format!("{} {}", image.os, image.version);
        self.step(Step::GettingOsImage, format!("looking up the image of {title}"), async {
            self.check_image_level(plan).await?;
            Ok(((), image.url.to_string()))
        })
        .await?;
        let remote = self
            .step(Step::ValidatingOsImageUrl, format!("asking {} for it", image.url), async {
                let (remote, updates) = head.result().await?;
                for update in updates {
                    self.report_update(Step::ValidatingOsImageUrl, update).await;
                }
                Ok((remote?, "the publisher has it".to_owned()))
            })
            .await?;
        self.get_image(plan, remote.as_ref()).await
    }

    /// Stops before anything is made when the VM's CPU type will not run the image.
    async fn check_image_level(&self, plan: &Plan) -> Result<(), Problem> {
        let Some(needed) = plan.image.cpu.as_deref() else { return Ok(()) };
        let least = CpuLevel::from_name(needed).ok_or_else(|| {
            Problem::Refused(format!(
                "the catalogue asks for the CPU type {needed:?}, which is unknown"
            ))
        })?;
        let (level, why) = self.cx.baseline.survey().await.baseline();
        if level >= least {
            return Ok(());
        }
        Err(Problem::Refused(format!(
            "{} {} needs a CPU of {} or higher, and the cluster's baseline is {why}",
            plan.image.os,
            plan.image.version,
            least.name()
        )))
    }

    async fn get_image(&self, plan: &Plan, remote: Option<&Remote>) -> Result<PathBuf, Failure> {
        let name = plan.image.file_name();
        let cached = self
            .with_updates(Step::UsingOsImage, async |updates| {
                let tell = move |update| drop(updates.try_send(update));
                let work = async { Ok(self.cx.cache.cached(&plan.image, remote, tell).await?) };
                self.unless_cancelled(work).await
            })
            .await
            .map_err(|problem| Failure { step: Step::UsingOsImage, problem })?;
        if let Some(path) = cached {
            let work = async { Ok((path.clone(), format!("{} is whole", path.display()))) };
            return self.step(Step::UsingOsImage, format!("{name} is in the cache"), work).await;
        }
        self.step(
            Step::DownloadingOsImage,
            format!("downloading {name}"),
            self.with_updates(Step::DownloadingOsImage, async |updates| {
                let tell = move |update| drop(updates.try_send(update));
                let path = self.cx.cache.download(&plan.image, remote, tell).await?;
                let done = format!("{} is whole and verified", path.display());
                Ok((path, done))
            }),
        )
        .await
    }

    /// Reports what the cache says while it works.
    async fn with_updates<T>(
        &self,
        step: Step,
        work: impl AsyncFnOnce(mpsc::Sender<Update>) -> T,
    ) -> T {
        let (sender, mut receiver) = mpsc::channel(64);
        let report = async {
            while let Some(update) = receiver.recv().await {
                self.report_update(step, update).await;
            }
        };
        let (result, ()) = tokio::join!(work(sender), report);
        result
    }

    async fn report_update(&self, step: Step, update: Update) {
        let kind = match update {
            Update::Progress { done, total, rate } => Kind::Progress { done, total, rate },
            Update::Notice(text) => Kind::Notice(text),
        };
        self.job.report(step, kind).await;
    }

    /// Stage `SSH preparation`.
    pub(super) async fn prepare_ssh(&self) -> Result<NodeKey, Failure> {
        self.step(Step::CheckingSshKey, "looking for the node's SSH key", async {
            let _one_at_a_time = self.cx.key_lock.lock().await;
            let key = ssh_key::find_or_make(&self.cx.exec, &self.cx.settings.home).await.map_err(
                |problem| {
                    Problem::Refused(format!(
                        "the node has no SSH key that can be used: {}",
                        chain(&problem)
                    ))
                },
            )?;
            if key.is_new {
                self.notice(
                    Step::CheckingSshKey,
                    format!("there was none: {} was made", key.identity.display()),
                )
                .await;
            }
            let done = key.identity.display().to_string();
            Ok((key, done))
        })
        .await
    }
}
