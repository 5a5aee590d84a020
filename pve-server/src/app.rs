//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use pve_provision::Kind;
use pve_provision::Left;
use pve_provision::Step;
use pve_provision::install::Installer;
use pve_provision::jobs::CancelReason;
use pve_provision::jobs::Job;
use pve_provision::jobs::Jobs;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::access::Access;

/// The running server; clones are handles on the same one.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
}

struct Inner {
    access: Access,
    jobs: Jobs,
    installer: Installer,
    /// Everything that must be over before the server may leave.
    work: TaskTracker,
    stopping: AtomicBool,
}

/// Room for a job that is about to start: the server does not leave meanwhile.
pub(crate) struct Admission {
    app: App,
    _token: TaskTrackerToken,
}

impl App {
    /// Puts the parts together. Nothing runs yet.
    pub fn new(access: Access, jobs: Jobs, installer: Installer) -> Self {
        let inner = Inner {
            access,
            jobs,
            installer,
            work: TaskTracker::new(),
            stopping: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn access(&self) -> &Access {
        &self.inner.access
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        &self.inner.jobs
    }

    pub(crate) fn installer(&self) -> &Installer {
        &self.inner.installer
    }

    /// Room for a new job, unless the server stops.
    pub(crate) fn admit(&self) -> Option<Admission> {
        // The token comes first: whoever sees the flag unset is waited for.
        let token = self.inner.work.token();
        let stopping = self.inner.stopping.load(Ordering::SeqCst);
        (!stopping).then(|| Admission { app: self.clone(), _token: token })
    }

    /// Cleans up behind the jobs that a server before this one has left, and tells of VMs that none of them knows.
    pub fn sweep(&self) {
        let app = self.clone();
        tokio::spawn(async move {
            app.installer().wait_for_left_over(app.jobs()).await;
            // A server that stops meanwhile leaves this to the next one.
            let Some(admission) = app.admit() else { return };
            for stray in app.installer().sweep(app.jobs()).await {
                tracing::warn!(vmid = %stray.vmid, node = %stray.node, job = stray.job, "a VM with our mark, but its job is not known; it is not touched");
            }
            drop(admission);
        });
    }

    /// Takes no new jobs from now on.
    pub(crate) fn stop(&self) {
        self.inner.stopping.store(true, Ordering::SeqCst);
        self.inner.work.close();
    }

    /// Waits until no job runs.
    pub(crate) async fn idle(&self) {
        self.inner.work.wait().await;
    }

    /// Cancels every job that runs, by the rule of its step.
    pub(crate) fn cancel_all(&self) {
        for job in self.jobs().running() {
            job.cancel(CancelReason::ServerStops);
        }
    }
}

impl Admission {
    /// Does something to its end, whether or not anybody waits for it.
    pub(crate) fn finish<T: Send + 'static>(
        self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.app.inner.work.spawn(work)
    }

    /// Runs a job, whether or not anybody reads it.
    pub(crate) fn run(self, job: Job, work: impl Future<Output = ()> + Send + 'static) {
        let tracker = self.app.inner.work.clone();
        tracker.spawn(async move {
            let running = tokio::spawn(work);
            if let Err(error) = running.await {
                tracing::error!(job = %job.id(), %error, "the job broke off");
                let step = job.state().step.unwrap_or(Step::CheckingVmid);
                let text = "broke off by a fault in the server; its log says where".to_owned();
                job.report(step, Kind::Failed { text, left: Left::Unknown }).await;
                job.end().await;
            }
        });
    }
}
