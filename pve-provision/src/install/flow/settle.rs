//! After a failure: the step's rule is applied, and what is left is said.

use pve_api::NodeName;
use pve_api::Vmid;

use super::Failure;
use crate::event::Kind;
use crate::event::Left;
use crate::install::clean_up;
use crate::install::clean_up::CleanUp;
use crate::install::installer::Inner;
use crate::install::problem::Problem;
use crate::install::problem::chain;
use crate::install::pve_directory::address_of;
use crate::jobs::Job;
use crate::step::OnFailure;
use crate::step::Step;

/// Applies the rule of the failed step and reports the failure: at least one error event, on every path.
pub(crate) async fn settle(cx: &Inner, job: &Job, failure: &Failure) {
    let step = failure.step;
    let why = chain(&failure.problem);
    let claim = job.state().claimed;
    let goes_on = matches!(&failure.problem, Problem::Command(error) if error.is_unknown());
    match (step.on_failure(), claim) {
        (OnFailure::Nothing, _) | (_, None) => fail(job, step, why, Left::Nothing).await,
        (OnFailure::Keep, Some(claim)) => keep(cx, job, step, why, claim.vmid, claim.node).await,
        (OnFailure::Destroy, Some(claim)) if goes_on => {
            let text = format!(
                "{why}; VM {} on {} may be half made: look at it there, and remove it with qm destroy {} --purge",
                claim.vmid, claim.node, claim.vmid
            );
            fail(job, step, text, Left::Unknown).await;
        }
        (OnFailure::Destroy, Some(claim)) => destroy(cx, job, step, why, claim.vmid).await,
    }
}

async fn keep(cx: &Inner, job: &Job, step: Step, why: String, vmid: Vmid, claimed: NodeName) {
    match clean_up::find(&cx.directory, vmid, &job.id().to_string()) {
        Ok(Some(node)) => {
            let login = login(cx, &node, vmid).map(|to| format!(", 'ssh {to}' is its login"));
            let text = format!(
                "{why}; VM {vmid} stays on {node}: 'qm terminal {vmid}' there shows its console{}",
                login.unwrap_or_default()
            );
            fail(job, step, text, Left::Vm { vmid, node }).await;
        }
        Ok(None) => {
            fail(
                job,
                step,
                format!("{why}; the VM {vmid} of this job is gone from the cluster"),
                Left::Nothing,
            )
            .await;
        }
        Err(error) => {
            let text = format!(
                "{why}; VM {vmid} was on {claimed}, and where it is now is not known: {error}"
            );
            fail(job, step, text, Left::Unknown).await;
        }
    }
}

/// As whom and where a VM is logged into, once it has its address.
fn login(cx: &Inner, node: &NodeName, vmid: Vmid) -> Option<String> {
    let config = cx.directory.config(node, vmid).ok()??;
    let address = config.get("ipconfig0").and_then(address_of)?;
    Some(format!("{}@{address}", config.get("ciuser")?))
}

async fn destroy(cx: &Inner, job: &Job, step: Step, why: String, vmid: Vmid) {
    let id = job.id().to_string();
    if let Ok(Some(node)) = clean_up::find(&cx.directory, vmid, &id) {
        let text = format!("failed ({why}): removing the half-made VM {vmid} from {node}");
        job.report(step, Kind::Notice(text)).await;
    }
    match clean_up::destroy(&cx.qm, &cx.directory, vmid, &id).await {
        CleanUp::NothingThere => {
            fail(job, step, format!("{why}; nothing is left of it"), Left::Nothing).await;
        }
        CleanUp::Destroyed { vmid, node } => {
            fail(job, step, format!("{why}; VM {vmid} was removed from {node}"), Left::Nothing)
                .await;
        }
        CleanUp::Failed { vmid, node, why: failed } => {
            let left = || Left::Vm { vmid, node: node.clone() };
            fail(job, step, why, left()).await;
            let text = format!(
                "VM {vmid} could not be removed from {node} ({failed}): remove it there with qm stop {vmid} \
                 --skiplock and qm destroy {vmid} --purge --skiplock"
            );
            fail(job, step, text, left()).await;
        }
        CleanUp::Unknown { vmid, why: failed } => {
            fail(job, step, why, Left::Unknown).await;
            let text = format!("whether VM {vmid} is left is not known: {failed}");
            fail(job, step, text, Left::Unknown).await;
        }
    }
}

async fn fail(job: &Job, step: Step, text: String, left: Left) {
    job.report(step, Kind::Failed { text, left }).await;
}
