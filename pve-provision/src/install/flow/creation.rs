//! Stage `VM creation`: the empty VM and its disk.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use pve_api::Volid;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::Failure;
use super::Guest;
use super::Run;
use super::preparation::Place;
use crate::install::commands;
use crate::install::plan::Plan;
use crate::install::problem::Problem;
use crate::lease::Lease;
use crate::step::Step;

/// After a longer download or wait for a turn, an address is probed again.
const FRESH: Duration = Duration::from_secs(30);
/// How often another VMID is taken when somebody else was faster.
const MOST_TRIES: usize = 20;
/// The least time between two relayed lines of a transfer.
const TRANSFER_PACE: Duration = Duration::from_millis(500);

/// What is held while the job is between create and resize.
pub(super) struct Permit<'a> {
    _turn: SemaphorePermit<'a>,
    _lease: Lease,
}

impl Run<'_> {
    /// `qm create`: the only step that makes a guest.
    pub(super) async fn create(
        &self,
        plan: &Plan,
        place: Place,
    ) -> Result<(Guest, Permit<'_>), Failure> {
        self.step(
            Step::CreatingVm,
            format!("creating VM {}", plan.final_name(place.vmid())),
            async {
                let turn = self.unless_cancelled(self.take_turn()).await?;
                let cpu = self.choose_cpu(plan).await?;
                let mut place = place;
                if place.taken.elapsed() > FRESH
                    && plan.id.is_none()
                    && !self.cx.allocator.is_still_free(&self.cx.settings, place.vmid()).await
                {
                    place = self
                        .next_place(
                            plan,
                            place,
                            "its address is in use by now",
                            &mut BTreeSet::new(),
                        )
                        .await?;
                }
                let place = self.create_at(plan, place, cpu).await?;
                let guest = Guest {
                    vmid: place.vmid(),
                    node: self.cx.settings.main_node.clone(),
                    address: place.address,
                };
                let done = format!("VM {} is created, CPU type {cpu}", guest.vmid);
                Ok(((guest, Permit { _turn: turn, _lease: place.lease }), done))
            },
        )
        .await
    }

    /// Waits until fewer than `INSTALLS_AT_ONCE` jobs are between create and resize.
    async fn take_turn(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let closed = |_| Problem::Refused("the server is stopping".to_owned());
        if let Ok(turn) = self.cx.turns.try_acquire() {
            return Ok(turn);
        }
        let most = self.cx.settings.installs_at_once;
        self.say(
            Step::CreatingVm,
            format!("waiting for a turn: {most} installs are at work (INSTALLS_AT_ONCE)"),
        )
        .await;
        self.cx.turns.acquire().await.map_err(closed)
    }

    /// The CPU type, once the node is known to have the cores.
    async fn choose_cpu(&self, plan: &Plan) -> Result<&'static str, Problem> {
        let survey = self.cx.baseline.survey().await;
        let node = plan.target.as_ref().unwrap_or(&self.cx.settings.main_node);
        if let Some(why) = survey.lacks_cores(node, plan.cpu) {
            return Err(Problem::Refused(why));
        }
        let (level, why) = survey.baseline();
        self.notice(Step::CreatingVm, format!("CPU type: {why}")).await;
        Ok(level.name())
    }

    /// Creates the VM, at another place when somebody else has this one by now.
    async fn create_at(&self, plan: &Plan, mut place: Place, cpu: &str) -> Result<Place, Problem> {
        let settings = &self.cx.settings;
        let mut lost = BTreeSet::new();
        loop {
            let vmid = place.vmid();
            let claim = self.job.claim(vmid, &settings.main_node).await;
            claim.map_err(Problem::file("write down which VM is about to be made (STATE_DIR)"))?;
            let line =
                commands::create(vmid, plan, cpu, &settings.limits, &self.job.id().to_string());
            self.check_cancelled()?;
            let Err(error) = self.cx.qm.run(&settings.main_node, line, None).await else {
                return Ok(place);
            };
            if !error.text().contains("already exists") {
                return Err(error.into());
            }
            if plan.id.is_some() {
                let who = self
                    .cx
                    .directory
                    .describe_guest(vmid)
                    .unwrap_or_else(|| "another guest".to_owned());
                return Err(Problem::Refused(format!(
                    "VMID {vmid} is in use by {who}, which was not touched: leave id out to get a free one"
                )));
            }
            if lost.len() + 1 >= MOST_TRIES {
                return Err(Problem::Refused(format!(
                    "{MOST_TRIES} VMIDs in turn were taken by others in the moment before, the last was {vmid}"
                )));
            }
            place = self.next_place(plan, place, "it was taken meanwhile", &mut lost).await?;
        }
    }

    /// Gives up a place for the next one, and says so.
    async fn next_place(
        &self,
        plan: &Plan,
        old: Place,
        why: &str,
        lost: &mut BTreeSet<u32>,
    ) -> Result<Place, Problem> {
        lost.insert(old.vmid().get());
        let lease = self.take_vmid(plan, lost).await?;
        let address = self.address(lease.vmid())?;
        let text = format!(
            "VMID {} is given up, {why}: going on with {} as {} at {address}",
            old.vmid(),
            lease.vmid(),
            plan.final_name(lease.vmid())
        );
        self.notice(Step::CreatingVm, text).await;
        Ok(Place { lease, address, taken: Instant::now() })
    }

    /// `qm importdisk`; the volume's name is read back, for it is Proxmox VE's to choose.
    pub(super) async fn import(&self, guest: &Guest, image: &Path) -> Result<Volid, Failure> {
        let storage = &self.cx.settings.storage;
        self.step(
            Step::ImportingDiskImage,
            format!("importing {} into {storage}", image.display()),
            async {
                let line = commands::importdisk(guest.vmid, image, storage);
                let paced = paced();
                self.relaying(Step::ImportingDiskImage, paced, async |lines| {
                    self.command(&guest.node, line, Some(&lines)).await
                })
                .await?;
                let config = self.config(guest)?;
                let volume = config.get("unused0").ok_or_else(|| {
                    Problem::Refused(format!(
                        "qm importdisk reported success, but VM {} has no unused disk",
                        guest.vmid
                    ))
                })?;
                let disk: Volid =
                    volume.parse().map_err(|error| Problem::Refused(format!("{error}")))?;
                let done = format!("the disk is {disk}");
                Ok((disk, done))
            },
        )
        .await
    }
}

/// Lets every line through, but of a transfer's progress no more than two a second.
fn paced() -> impl Fn(&str) -> bool {
    let last = std::sync::Mutex::new(None::<Instant>);
    move |line| {
        if !line.starts_with("transferred ") {
            return true;
        }
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let due = last.is_none_or(|at| at.elapsed() >= TRANSFER_PACE);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}
