//! After a crash: what the jobs of the server before have left is settled by their last step's rule.

use std::time::Duration;

use pve_api::NodeName;
use pve_api::Vmid;
use tokio::time::Instant;

use super::commands;
use super::flow::Failure;
use super::flow::settle;
use super::installer::Inner;
use super::problem::Problem;
use crate::event::Kind;
use crate::jobs::Job;
use crate::jobs::JobId;
use crate::jobs::Jobs;
use crate::step::Step;

/// How long a cluster that has just booted may need to become quorate.
const QUORUM: Duration = Duration::from_mins(5);
/// How often a wait says that it goes on.
const SAY_SO: Duration = Duration::from_secs(30);
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

/// Waits until no command of the server before is at work on this node, where it left jobs unfinished.
pub(super) async fn wait_for_commands(cx: &Inner, jobs: &Jobs) {
    cx.ssh.end_left_over().await;
    let unfinished = jobs.unfinished();
    let started = Instant::now();
    let mut said = started;
    while cx.exec.left_over() && !unfinished.is_empty() && started.elapsed() < commands::IMPORT {
        if said.elapsed() >= SAY_SO {
            said = Instant::now();
            tracing::info!("a command that the server before has begun is still at work");
            let text = "waiting for a command that the server before has begun";
            for job in &unfinished {
                let step = job.state().step.unwrap_or(Step::CheckingVmid);
                job.report(step, Kind::Notice(text.to_owned())).await;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

pub(super) async fn sweep(cx: &Inner, jobs: &Jobs) -> Vec<Stray> {
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
