//! After a crash: what the jobs of the server before have left is settled by their last step's rule.

use std::time::Duration;

use pve_api::NodeName;
use pve_api::Vmid;
use tokio::time::Instant;

use super::flow::Failure;
use super::flow::settle;
use super::installer::Inner;
use super::problem::Problem;
use crate::jobs::Job;
use crate::jobs::JobId;
use crate::jobs::Jobs;
use crate::step::Step;

/// How long a cluster that has just booted may need to become quorate.
const QUORUM: Duration = Duration::from_mins(5);
/// How long a command may still be at work: the longest is the import of a disk.
const COMMANDS: Duration = Duration::from_hours(2);
/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(500);

/// A VM with our mark that no kept job knows; it is told of and never touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Its number.
    pub vmid: Vmid,
    /// The node that has it.
    pub node: NodeName,
    /// The job that its mark names.
    pub job: String,
}

pub(super) async fn sweep(cx: &Inner, jobs: &Jobs) -> Vec<Stray> {
    cx.ssh.end_left_over().await;
    wait_for_commands(cx).await;
    futures_util::future::join_all(jobs.unfinished().iter().map(|job| settle_left_over(cx, job)))
        .await;
    let mut strays = Vec::new();
    for (node, vmid, config) in cx.directory.vms().unwrap_or_default() {
        let Some(job) = config.job() else { continue };
        let known = job.parse::<JobId>().is_ok_and(|id| jobs.knows(&id));
        if !known {
            strays.push(Stray { vmid, node, job: job.to_owned() });
        }
    }
    strays
}

async fn settle_left_over(cx: &Inner, job: &Job) {
    wait_for_quorum(cx).await;
    let state = job.state();
    let step = state.step.unwrap_or(Step::CheckingVmid);
    if let Some(claim) = state.claimed {
        wait_for_lock(cx, claim.vmid, step == Step::CreatingVm).await;
    }
    let problem = Problem::Refused(format!("the server ended while '{}' was at work", step.name()));
    settle(cx, job, &Failure { step, problem }).await;
    let _ = std::fs::remove_dir_all(cx.work_directory(job.id()));
    job.end().await;
}

/// Waits until the cluster can be changed: after a power loss the server may be up before its quorum is.
async fn wait_for_quorum(cx: &Inner) {
    let started = Instant::now();
    while !cx.directory.members().is_ok_and(|members| members.quorate) && started.elapsed() < QUORUM
    {
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the commands that the server before has begun on this node have ended.
async fn wait_for_commands(cx: &Inner) {
    let started = Instant::now();
    while cx.exec.left_over() && started.elapsed() < COMMANDS {
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until nothing holds the VM any more.
///
/// What was begun on another node is seen by nothing but the VM's lock.
async fn wait_for_lock(cx: &Inner, vmid: Vmid, may_appear: bool) {
    let patience = &cx.settings.patience;
    let started = Instant::now();
    while started.elapsed() < patience.lock {
        match cx.directory.find(vmid) {
            Ok(Some((_, config))) if config.get("lock").is_none() => return,
            Ok(None) if !may_appear || started.elapsed() >= patience.appearance => return,
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}
