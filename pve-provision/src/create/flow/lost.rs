//! A create request whose answer was lost: what came of it is looked for before anything else.

use std::collections::BTreeMap;
use std::collections::HashSet;

use pve_api::Create;
use pve_api::Error;
use pve_api::QemuConfig;
use pve_api::TaskFilter;
use pve_api::Upid;
use tokio::time::Instant;
use tokio::time::sleep;

use super::End;
use super::Failure;
use super::Remedy;
use super::Run;
use super::Stage;
use super::creation::STEP;
use crate::create::load::explain;
use crate::create::render::Plan;
use crate::event::Event;

/// Whose the VM with our number is.
enum Whose {
    /// There is none.
    Nobodys,
    Ours,
    Anothers,
    /// It cannot be told, for this reason.
    Unclear(String),
}

impl<R: FnMut(Event) + Send> Run<'_, R> {
    /// The create tasks for our number that the node knows.
    pub(super) async fn create_tasks(&self) -> pve_api::Result<HashSet<Upid>> {
        let filter = TaskFilter {
            vmid: Some(self.vmid()),
            running: true,
            kind: Some("qmcreate".to_owned()),
            ..TaskFilter::default()
        };
        let tasks = self.client.node(self.node()).tasks(&filter).await?;
        Ok(tasks.into_iter().map(|task| task.upid).collect())
    }

    /// Goes on from a request whose answer was lost: sends it again only if nothing came of it.
    pub(super) async fn again(&mut self, before: HashSet<Upid>) -> Result<Vec<String>, End> {
        self.started(STEP, format!("looking whether VM {} was made", self.vmid()));
        if let Some(warnings) = self.look(&before).await? {
            return Ok(warnings);
        }
        self.notice(STEP, "nothing came of the request, so it is sent again");
        let error = match self.client.node(self.node()).create(&self.plan.create).await {
            Ok(upid) => {
                if let Ok(warnings) = self.judge(&upid, &before).await? {
                    return Ok(warnings);
                }
                // The first request was carried out after all.
                let mut before = before;
                before.insert(upid);
                return self.look_or_lose(before).await;
            }
            Err(error) => error,
        };
        let is_there = matches!(error, Error::AlreadyExists { .. });
        if is_there || !error.had_no_effect() {
            self.notice(STEP, format!("looking for what came of it: {}", explain(&error)));
            return self.look_or_lose(before).await;
        }
        if error.refusal().is_some() && !error.is_transient() {
            let failure = self.refused(&error).await;
            return Err(self.nothing_made(failure));
        }
        Err(self.unknown(Failure::of_call(STEP, &error), Stage::Again(before)))
    }

    /// Looks for what came of a request; if that is nothing, it may still come.
    pub(super) async fn look_or_lose(&mut self, before: HashSet<Upid>) -> Result<Vec<String>, End> {
        if let Some(warnings) = self.look(&before).await? {
            return Ok(warnings);
        }
        Err(self.lost(before, "no task and no VM came of it, but it may still come"))
    }

    /// Looks for what came of a request. The number is what the server itself goes by, so a task
    /// that begins now for our number and by our account is ours if the VM is as we asked for.
    async fn look(&mut self, before: &HashSet<Upid>) -> Result<Option<Vec<String>>, End> {
        let account = self.client.account();
        let until = Instant::now() + self.patience.look;
        let mut known = before.clone();
        let mut taken = None;
        loop {
            let tasks = self.create_tasks().await;
            if let Err(error @ Error::NeedsLogin { .. }) = &tasks {
                let failure = Failure::of_call(STEP, error);
                return Err(self.unknown(failure, Stage::Again(before.clone())));
            }
            let ours = tasks
                .iter()
                .flatten()
                .find(|upid| upid.user() == account && !known.contains(*upid));
            if let Some(upid) = ours {
                self.notice(STEP, format!("a task of {account} makes VM {} now", self.vmid()));
                match self.judge(upid, before).await? {
                    Ok(warnings) => return Ok(Some(warnings)),
                    // Of two requests one fails so; the other one may have made the VM.
                    Err(failure) => taken = Some(failure),
                }
                known.insert(upid.clone());
                continue;
            }
            if let Some(failure) = taken {
                return Err(self.nothing_made(failure));
            }
            if Instant::now() >= until {
                return match tasks {
                    Ok(_) => self.settle(before).await,
                    Err(error) => Err(self.lost(before.clone(), &explain(&error))),
                };
            }
            sleep(self.patience.pause).await;
        }
    }

    /// Follows a task that is likely ours; the failure is that the number was taken.
    async fn judge(
        &mut self,
        upid: &Upid,
        before: &HashSet<Upid>,
    ) -> Result<Result<Vec<String>, Failure>, End> {
        match self.watch(STEP, upid).await {
            Ok(exit) => match exit.into_result() {
                Ok(warnings) => match self.whose().await {
                    Whose::Ours => Ok(Ok(self.made(warnings))),
                    Whose::Nobodys => Err(self.lost(before.clone(), "its VM is gone again")),
                    // A comparison is no proof: what our own account made now may be ours.
                    Whose::Anothers => {
                        let (vmid, account) = (self.vmid(), self.client.account());
                        let reason = format!(
                            "a task of {account} made VM {vmid}, but not as it was asked for"
                        );
                        Err(self.lost(before.clone(), &reason))
                    }
                    Whose::Unclear(reason) => Err(self.lost(before.clone(), &reason)),
                },
                Err(failure) if failure.already_exists() => {
                    Ok(Err(self.of_create_task(&failure).await))
                }
                Err(failure) => {
                    let failure = self.of_create_task(&failure).await;
                    Err(self.nothing_made(failure))
                }
            },
            Err(error) => {
                let failure = Failure::of_call(STEP, &error);
                Err(self.unknown(failure, Stage::Again(before.clone())))
            }
        }
    }

    /// What is to be said when no task of ours came.
    async fn settle(&mut self, before: &HashSet<Upid>) -> Result<Option<Vec<String>>, End> {
        match self.whose().await {
            Whose::Nobodys => Ok(None),
            // Somebody else may have asked for the same.
            Whose::Ours => {
                let (vmid, account) = (self.vmid(), self.client.account());
                let reason =
                    format!("VM {vmid} is there as it was asked for, but by no task of {account}");
                Err(self.lost(before.clone(), &reason))
            }
            Whose::Anothers => Err(self.anothers().await),
            Whose::Unclear(reason) => Err(self.lost(before.clone(), &reason)),
        }
    }

    /// Whose the VM is, by what it was made as.
    async fn whose(&self) -> Whose {
        let vmid = self.vmid();
        match self.client.cluster().is_free(vmid).await {
            Ok(true) => return Whose::Nobodys,
            Ok(false) => {}
            Err(error) => return Whose::Unclear(explain(&error)),
        }
        match self.client.node(self.node()).qemu(vmid).config().await {
            Ok(config) if config.lock.as_deref() == Some("create") => {
                Whose::Unclear(format!("VM {vmid} is just being made"))
            }
            Ok(config) if is_of(self.plan, &config) => Whose::Ours,
            // A container, or a VM of another node.
            Ok(_) | Err(Error::NotFound { .. }) => Whose::Anothers,
            Err(error) => {
                let reason = explain(&error);
                Whose::Unclear(format!("VM {vmid} is there, but not readable: {reason}"))
            }
        }
    }

    /// The number is somebody else's and no task of our account made it, so the request cannot have
    /// been carried out.
    async fn anothers(&mut self) -> End {
        let reason = format!("VM ID {} was taken meanwhile by another one", self.vmid());
        let mut failure = Failure::new(STEP, reason);
        failure.remedy = self.other_number().await;
        self.nothing_made(failure)
    }

    fn lost(&mut self, before: HashSet<Upid>, reason: &str) -> End {
        let reason = format!("the answer to the request was lost: {reason}");
        let (node, vmid) = (self.node(), self.vmid());
        let look = format!("pvesh get /nodes/{node}/tasks --vmid {vmid} --source all");
        let failure = Failure::new(STEP, reason).remedy(Remedy::Command(look));
        self.unknown(failure, Stage::Again(before))
    }
}

/// The parameters that the server keeps as they were sent, and does not set on its own.
const KEPT: [&str; 11] = [
    "name", "ostype", "sockets", "cores", "cpu", "memory", "balloon", "bios", "scsihw", "agent",
    "onboot",
];

/// Whether a configuration is that of the plan's VM: everything that was sent is there, and what the
/// server keeps as it was sent is the same.
fn is_of(plan: &Plan, config: &QemuConfig) -> bool {
    let sent = plan.create.parameters();
    let there = Create::new(plan.vmid(), config.clone()).parameters();
    let sent: BTreeMap<&str, Option<&str>> = sent.iter().collect();
    let there: BTreeMap<&str, Option<&str>> = there.iter().collect();
    // The name of a new volume is the server's, its storage is ours.
    let storage = |value: Option<&str>| Some(value?.split_once(':')?.0.to_owned());
    let has = |name: &str, value: Option<&str>| {
        there
            .get(name)
            .is_some_and(|found| name.starts_with("net") || storage(*found) == storage(value))
    };
    KEPT.iter().all(|name| sent.get(name) == there.get(name))
        && sent.iter().all(|(name, value)| *name == "pool" || has(name, *value))
}
