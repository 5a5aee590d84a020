//! The steps of an install in their order: the states are the arguments, the transitions are functions.

mod creation;
mod initialization;
mod preparation;
mod readiness;
mod settle;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pve_api::NodeName;
use pve_api::Vmid;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use settle::settle;

use super::commands::CommandLine;
use super::exec::Output;
use super::installer::Inner;
use super::plan::Plan;
use super::problem::Problem;
use super::ssh::Lines;
use crate::event::Kind;
use crate::event::Stream;
use crate::jobs::Job;
use crate::lease::Lease;
use crate::step::Interruptible;
use crate::step::Step;

/// How often a step that takes long says so.
const REMINDER: Duration = Duration::from_secs(30);
/// How much of the output of commands a job's log keeps: a script that runs wild must not fill a disk.
const MOST_OUTPUT: usize = 64 << 20;
/// How many relayed lines may wait for the log.
const LINES: usize = 256;

/// A step that failed, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) problem: Problem,
}

/// A VM that this job has made; nothing else makes one, and nothing else may be destroyed.
#[derive(Debug, Clone)]
pub(crate) struct Guest {
    pub(crate) vmid: Vmid,
    pub(crate) node: NodeName,
    pub(crate) address: Ipv4Addr,
}

/// Something that is only read, begun before its step comes; it ends when nobody waits for it any more.
pub(crate) struct Ahead<T>(AbortOnDropHandle<T>);

impl<T: Send + 'static> Ahead<T> {
    pub(crate) fn start(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(AbortOnDropHandle::new(tokio::spawn(work)))
    }

    /// The result, within its own step.
    pub(crate) async fn result(self) -> Result<T, Problem> {
        self.0.await.map_err(|error| Problem::Refused(format!("a background task failed: {error}")))
    }
}

/// One job on its way through the steps.
pub(crate) struct Run<'a> {
    pub(crate) cx: &'a Inner,
    pub(crate) job: &'a Job,
    /// Short-lived files of this job: key list, known hosts.
    pub(crate) directory: PathBuf,
    /// What was said last, for the reminder of a step that takes long.
    last: Mutex<String>,
    /// Keeps the VM's number from other jobs until this one is settled.
    lease: Mutex<Option<Lease>>,
    /// How many bytes of the output of commands have come.
    relayed: AtomicUsize,
}

impl<'a> Run<'a> {
    pub(crate) fn new(cx: &'a Inner, job: &'a Job) -> Self {
        Self {
            cx,
            job,
            directory: cx.work_directory(job.id()),
            last: Mutex::default(),
            lease: Mutex::default(),
            relayed: AtomicUsize::new(0),
        }
    }

    /// All steps.
    pub(crate) async fn install(&self, plan: &Plan) -> Result<(), Failure> {
        let started = Instant::now();
        let ahead = self.begin_ahead(plan);
        let place = self.prepare(plan, ahead.storages).await?;
        let image = self.prepare_image(plan, ahead.head).await?;
        let key = self.prepare_ssh().await?;
        let (guest, turn) = self.create(plan, place).await?;
        let disk = self.import(&guest, &image).await?;
        self.initialize(plan, &guest, &key, &disk).await?;
        drop(turn);
        let guest = match &plan.target {
            Some(target) => self.migrate(guest, target).await?,
            None => guest,
        };
        let host = self.host(plan, &guest, &key);
        let login = self.start_and_wait(&guest, &host).await?;
        self.run_init_script(plan, &login).await?;
        self.reboot_and_wait(&guest, &host, login).await?;
        self.finalize(plan, &guest, started).await
    }

    /// Keeps a VM's number until the job is settled.
    fn hold(&self, lease: Lease) {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
    }

    /// Runs one step: announces it, does the work, says how it ended.
    ///
    /// The work's second value is what is said at a good end.
    pub(crate) async fn step<T>(
        &self,
        step: Step,
        doing: impl Into<String>,
        work: impl Future<Output = Result<(T, String), Problem>>,
    ) -> Result<T, Failure> {
        self.say(step, doing).await;
        let mut work = std::pin::pin!(self.reminding(step, work));
        let result = match step.interruptible() {
            Interruptible::Yes => tokio::select! {
                biased;
                () = self.job.cancellation().cancelled() => Err(self.cancelled()),
                result = &mut work => result,
            },
            Interruptible::AfterItsCommand => work.await,
            // A command is let finish; then the cancellation counts for this step.
            Interruptible::No => match work.await {
                Ok(_) if self.job.cancellation().is_cancelled() => Err(self.cancelled()),
                result => result,
            },
        };
        match result {
            Ok((value, done)) => {
                self.job.report(step, Kind::Done(done)).await;
                Ok(value)
            }
            Err(problem) => Err(Failure { step, problem }),
        }
    }

    /// Says what the step does now.
    pub(crate) async fn say(&self, step: Step, text: impl Into<String>) {
        let text = text.into();
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&text);
        self.job.report(step, Kind::Started(text)).await;
    }

    pub(crate) async fn notice(&self, step: Step, text: impl Into<String>) {
        self.job.report(step, Kind::Notice(text.into())).await;
    }

    /// Says what a plan has to tell about a step.
    pub(crate) async fn plan_notices(&self, plan: &Plan, step: Step) {
        for (_, text) in plan.notices.iter().filter(|(of, _)| *of == step) {
            self.notice(step, text.clone()).await;
        }
    }

    /// The failure of a job that somebody has cancelled.
    pub(crate) fn cancelled(&self) -> Problem {
        let reason = self
            .job
            .cancel_reason()
            .map_or_else(|| "cancelled".to_owned(), |reason| reason.to_string());
        Problem::Cancelled(reason)
    }

    /// Runs a command that changes the VM, unless the job is cancelled already.
    pub(crate) async fn command(
        &self,
        node: &NodeName,
        line: CommandLine,
        lines: Option<&Lines>,
    ) -> Result<Output, Problem> {
        self.check_cancelled()?;
        Ok(self.cx.qm.run(node, line, lines).await?)
    }

    pub(crate) fn check_cancelled(&self) -> Result<(), Problem> {
        if self.job.cancellation().is_cancelled() { Err(self.cancelled()) } else { Ok(()) }
    }

    /// Waits for `work`, unless the job is cancelled first.
    pub(crate) async fn unless_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        tokio::select! {
            biased;
            () = self.job.cancellation().cancelled() => Err(self.cancelled()),
            result = work => result,
        }
    }

    /// Does the work while a step that takes long says so.
    async fn reminding<T>(&self, step: Step, work: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return result,
                () = tokio::time::sleep(REMINDER) => {
                    let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let text = format!("{last} (since {} s)", started.elapsed().as_secs());
                    self.job.report(step, Kind::Started(text)).await;
                }
            }
        }
    }

    /// Whether the log takes that many bytes more of what commands print.
    async fn has_room(&self, step: Step, more: usize) -> bool {
        let before = self.relayed.fetch_add(more, Ordering::Relaxed);
        let full = before.saturating_add(more) > MOST_OUTPUT;
        if full && before <= MOST_OUTPUT {
            let most = MOST_OUTPUT >> 20;
            self.notice(step, format!("the output is more than {most} MiB: no more of it is kept"))
                .await;
        }
        !full
    }

    /// Relays the lines of a command into the log while it runs.
    pub(crate) async fn relaying<T>(
        &self,
        step: Step,
        wanted: impl Fn(&str) -> bool,
        work: impl AsyncFnOnce(Lines) -> T,
    ) -> T {
        let (sender, mut receiver) = mpsc::channel::<(Stream, String)>(LINES);
        let relay = async {
            while let Some((stream, text)) = receiver.recv().await {
                if wanted(&text) && self.has_room(step, text.len()).await {
                    self.job
                        .report(step, Kind::Line { stream, text: self.cx.without_secrets(text) })
                        .await;
                }
            }
        };
        let (result, ()) = tokio::join!(work(sender), relay);
        result
    }
}
