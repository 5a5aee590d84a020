//! The server as a part of the running program, for what is no setting: its patience.

use std::collections::BTreeSet;

use pve_images::Cache;
use pve_images::Catalogue;
use pve_provision::install::Installer;
use pve_provision::install::Patience;
use pve_provision::jobs::Jobs;
use pve_server::App;
use pve_server::settings::Settings;
use pve_server::settings::Variables;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::Place;
use super::Running;
use super::Server;
use crate::client;

impl Place {
    /// Starts a server of this patience within the running program.
    pub async fn serve_within(&self, patience: Patience) -> anyhow::Result<Server> {
        let environment = self.environment.iter();
        let environment = environment.map(|(name, value)| (name.into(), value.clone()));
        let variables = Variables::load(&self.directory().join(".env"), environment)?;
        let settings = Settings::parse(variables, BTreeSet::new());
        let mut settings = settings.map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
        settings.install.patience = patience;
        let jobs = Jobs::open(&settings.install.state_directory)?;
        let catalogue = Catalogue::load(settings.images_file.as_deref())?;
        let cache = Cache::new(settings.images)?;
        let installer = Installer::new(settings.install, catalogue, cache)?;
        let app = App::new(settings.access, jobs, installer);
        app.sweep();
        let listener = pve_server::bind(settings.listen).await?;
        let task = tokio::spawn(async move {
            // Held: a server that can get no signal any more takes that for one.
            let (_signals, stop) = mpsc::channel(1);
            // A server that breaks off answers nothing, which the test sees.
            let _ = pve_server::serve(listener, app, stop).await;
        });
        let running = Running::Task(AbortOnDropHandle::new(task));
        Ok(Server { running, address: self.address, client: client::client()? })
    }
}
