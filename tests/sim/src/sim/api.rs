//! What a node does with a request: faults, the call, and the task that goes on.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::Called;
use super::Commands;
use super::fault::FaultAnswer;
use super::fault::Hit;
use super::locked;
use crate::call::Answer;
use crate::call::Died;
use crate::call::Method;
use crate::call::Step;
use crate::call::Worker;
use crate::effect::Effect;
use crate::https;
use crate::https::Request;
use crate::https::Response;
use crate::https::Wanted;

/// What becomes of a request.
pub(super) enum Outcome {
    Answered(Response),
    /// The connection ends without an answer, with or without a word of TLS.
    Dropped {
        polite: bool,
    },
}

/// A failure as the API writes it.
fn failure(died: Died) -> Response {
    https::failure(&Answer::default().failed(died))
}

fn lock_timeout(vmid: u32) -> Died {
    Died::new(format!("can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout"))
}

/// The VM whose lock a call needs.
fn vmid(wanted: &Wanted) -> Option<u32> {
    if wanted.method == Method::Get {
        return None;
    }
    let (_, rest) = wanted.path.split_once("/qemu")?;
    match rest.split('/').nth(1) {
        Some(vmid) => vmid.parse().ok(),
        None => wanted.parameters.get("vmid")?.parse().ok(),
    }
}

impl Commands {
    /// Answers a request that has come to a node.
    pub(super) async fn respond(&self, node: &str, request: &Request) -> Outcome {
        let manners = locked(&self.state().manners).clone();
        if manners.drops_late_bodies
            && request.in_pieces
            && request.cookie("PVEAuthCookie").is_some()
        {
            return Outcome::Dropped { polite: false };
        }
        let wanted = match https::wanted(request) {
            Ok(wanted) => wanted,
            Err(response) => return Outcome::Answered(*response),
        };
        let hit = self.state().faults.hit(&wanted.line());
        let pause = manners.latency + hit.delay;
        // Even the shortest sleep takes a millisecond.
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let outcome = match self.instead(&hit, vmid(&wanted)).await {
            Some(outcome) => outcome,
            None => self.made(node, request, wanted, &hit).await,
        };
        if let Outcome::Answered(response) = &outcome
            && response.status == 401
        {
            tokio::time::sleep(manners.hold).await;
        }
        outcome
    }

    /// What a fault answers without the call being made.
    async fn instead(&self, hit: &Hit, vmid: Option<u32>) -> Option<Outcome> {
        match &hit.answer {
            FaultAnswer::Answer { status, text, errors } => {
                let died = Died { status: *status, errors: errors.clone(), ..Died::new(text) };
                Some(Outcome::Answered(failure(died)))
            }
            FaultAnswer::Drop { done: false, polite } => Some(Outcome::Dropped { polite: *polite }),
            FaultAnswer::Hang => {
                self.state().ended.cancelled().await;
                Some(Outcome::Dropped { polite: false })
            }
            FaultAnswer::LockTimeout => {
                tokio::time::sleep(self.state().lock_patience).await;
                Some(Outcome::Answered(failure(lock_timeout(vmid.unwrap_or_default()))))
            }
            FaultAnswer::Instead { stderr, .. } => {
                Some(Outcome::Answered(failure(Died::new(stderr.trim_end()))))
            }
            _ => None,
        }
    }

    async fn made(&self, node: &str, request: &Request, wanted: Wanted, hit: &Hit) -> Outcome {
        let vmid = vmid(&wanted);
        // What goes on as a task takes the lock there; the rest is over when it is answered.
        let synchronous = wanted.method == Method::Put && wanted.path.ends_with("/config");
        let guard = match vmid.filter(|_| synchronous) {
            None => None,
            Some(vmid) => match self.lock_vm(vmid).await {
                Some(guard) => Some(guard),
                None => return Outcome::Answered(failure(lock_timeout(vmid))),
            },
        };
        let reply = {
            let mut world = self.state().world();
            let changes = wanted.method != Method::Get;
            let reply = https::answer(&mut world, node, request, wanted);
            if changes {
                self.state().publish(&world);
            }
            reply
        };
        let broken = match &hit.answer {
            FaultAnswer::Effect(text) => Some(text.clone()),
            _ => None,
        };
        let response = match self.apply(reply.effects, broken.as_deref()).await {
            Ok(()) => reply.response,
            Err(text) => failure(Died::new(text)),
        };
        drop(guard);
        if let Some(made) = reply.made {
            locked(&self.state().called).push(Called {
                node: node.to_owned(),
                method: made.method,
                path: made.path,
                parameters: made.parameters,
                user: made.user,
                status: response.status,
            });
        }
        if let Some(worker) = reply.worker {
            let commands = self.clone();
            let ended = self.state().ended.clone();
            let task = async move { commands.task(worker, vmid, broken).await };
            tokio::spawn(ended.run_until_cancelled_owned(task));
        }
        match &hit.answer {
            FaultAnswer::Drop { polite, .. } => Outcome::Dropped { polite: *polite },
            FaultAnswer::DoneThenHang => {
                self.state().ended.cancelled().await;
                Outcome::Dropped { polite: false }
            }
            _ => Outcome::Answered(response),
        }
    }

    async fn lock_vm(&self, vmid: u32) -> Option<OwnedMutexGuard<()>> {
        let lock = Arc::clone(locked(&self.state().locks).entry(vmid).or_default());
        tokio::time::timeout(self.state().lock_patience, lock.lock_owned()).await.ok()
    }

    /// Lets a task run to its end, its stages spread over the time that a command takes.
    async fn task(&self, mut worker: Worker, vmid: Option<u32>, broken: Option<String>) {
        let latency = *locked(&self.state().latency);
        let guard = match vmid {
            None => None,
            Some(vmid) => {
                let guard = self.lock_vm(vmid).await;
                if guard.is_none() {
                    let step = self.step(|world| worker.fail(world, lock_timeout(vmid)));
                    self.finish(step).await;
                    return;
                }
                guard
            }
        };
        let pause = worker.pause(latency);
        loop {
            tokio::time::sleep(pause).await;
            let mut step = self.step(|world| worker.run(world));
            if let Step::Ran(output) = &mut step {
                self.follow(std::mem::take(&mut output.follow));
                let effects: Vec<Effect> = std::mem::take(&mut output.effects);
                match self.apply(effects, broken.as_deref()).await {
                    Ok(()) => continue,
                    Err(text) => step = self.step(|world| worker.fail(world, Died::new(text))),
                }
            }
            self.finish(step).await;
            drop(guard);
            return;
        }
    }

    /// Lets tasks go on by themselves.
    pub(super) fn follow(&self, workers: Vec<Worker>) {
        for worker in workers {
            let vmid = worker.vmid(&self.state().world());
            let commands = self.clone();
            let ended = self.state().ended.clone();
            let task = async move { commands.task(worker, vmid, None).await };
            tokio::spawn(ended.run_until_cancelled_owned(task));
        }
    }

    /// What an undo asks for has no failure of its own.
    async fn finish(&self, step: Step) {
        if let Step::Ended(output, _) = step {
            let _ = self.apply(output.effects, None).await;
        }
    }
}
