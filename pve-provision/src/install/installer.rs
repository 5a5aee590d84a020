//! The installer: what all jobs of a server share, and the ways in.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use pve_images::Cache;
use pve_images::Catalogue;
use secrecy::ExposeSecret as _;
use tokio::sync::Semaphore;

use super::allocate::Allocator;
use super::baseline::Baseline;
use super::exec::Exec;
use super::flow;
use super::plan;
use super::plan::Plan;
use super::pve_directory::PveDirectory;
use super::qm::Qm;
use super::request::PlanError;
use super::request::Request;
use super::settings::Settings;
use super::ssh::Ssh;
use super::sweep;
use super::sweep::Stray;
use crate::jobs::Job;
use crate::jobs::JobId;
use crate::jobs::Jobs;

/// Carries out installs. Clones are handles on the same one.
#[derive(Clone)]
pub struct Installer(pub(super) Arc<Inner>);

/// What the steps of all jobs share.
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) catalogue: Catalogue,
    pub(crate) cache: Cache,
    pub(crate) directory: PveDirectory,
    pub(crate) exec: Exec,
    pub(crate) ssh: Arc<Ssh>,
    pub(crate) qm: Qm,
    pub(crate) baseline: Baseline,
    pub(crate) allocator: Allocator,
    /// Jobs that may be between create and resize.
    pub(crate) turns: Semaphore,
    /// Two jobs at once must not both make the node's key.
    pub(crate) key_lock: tokio::sync::Mutex<()>,
}

impl Inner {
    /// Where the short-lived files of a job are: key list, known hosts.
    pub(crate) fn work_directory(&self, job: &JobId) -> PathBuf {
        self.settings.state_directory.join("work").join(job.to_string())
    }

    /// A line that a VM printed, without the root password: an admin's own script may print it.
    pub(crate) fn without_secrets(&self, line: String) -> String {
        match &self.settings.root_password {
            Some(password) if !password.expose_secret().is_empty() => {
                line.replace(password.expose_secret(), "********")
            }
            _ => line,
        }
    }
}

impl Installer {
    /// Prepares the working directories and begins to survey the nodes.
    pub fn new(settings: Settings, catalogue: Catalogue, cache: Cache) -> io::Result<Self> {
        let directory = PveDirectory::new(&settings.pve_directory);
        let ssh = Arc::new(Ssh::new(&settings.path, &settings.home, &settings.state_directory)?);
        let state = &settings.state_directory;
        let exec = Exec::new(&settings.path, &settings.home, state, Arc::clone(&ssh))?;
        let qm = Qm::new(exec.clone(), directory.clone(), &settings);
        let baseline = Baseline::start(exec.clone(), directory.clone());
        let turns = Semaphore::new(settings.installs_at_once.clamp(1, Semaphore::MAX_PERMITS));
        let allocator = Allocator::default();
        let key_lock = tokio::sync::Mutex::default();
        Ok(Self(Arc::new(Inner {
            settings,
            catalogue,
            cache,
            directory,
            exec,
            ssh,
            qm,
            baseline,
            allocator,
            turns,
            key_lock,
        })))
    }

    /// Plans a request: everything that cannot work is refused here, before anything is done.
    pub fn plan(&self, request: Request) -> Result<Plan, PlanError> {
        let cx = &self.0;
        let members = cx.directory.members().map_err(PlanError::Nodes)?;
        Ok(plan::plan(request, &cx.settings, &cx.catalogue, &members)?)
    }

    /// Carries out a plan to its end, good or bad; the job's log tells all.
    ///
    /// To be run in a task of its own: a listener that goes away must not stop it.
    pub async fn run(&self, plan: Plan, job: Job) {
        let run = flow::Run::new(&self.0, &job);
        if let Err(failure) = run.install(&plan).await {
            flow::settle(&self.0, &job, &failure).await;
        }
        // Key list and known hosts; absent when the job did not come that far.
        let _ = std::fs::remove_dir_all(&run.directory);
        job.end().await;
    }

    /// Waits until the commands have ended that a server that crashed has begun; hours, at worst.
    pub async fn wait_for_left_over(&self, jobs: &Jobs) {
        sweep::wait_for_commands(&self.0, jobs).await;
    }

    /// Settles what the jobs of a server that crashed have left; tells of marked VMs that no job knows.
    pub async fn sweep(&self, jobs: &Jobs) -> Vec<Stray> {
        sweep::sweep(&self.0, jobs).await
    }
}
