//! Booting the VM and waiting until it can be logged into.

use tokio::sync::watch;

use super::Failure;
use super::Guest;
use super::Run;
use crate::install::commands;
use crate::install::plan::Plan;
use crate::install::problem::Problem;
use crate::install::ready;
use crate::install::ready::Host;
use crate::install::ready::Login;
use crate::install::ready::State;
use crate::install::ssh_key::NodeKey;
use crate::step::Step;

impl Run<'_> {
    /// How the VM is logged into.
    pub(super) fn host(&self, plan: &Plan, guest: &Guest, key: &NodeKey) -> Host {
        Host {
            address: guest.address,
            port: self.cx.settings.ssh_port,
            user: plan.user.clone(),
            identity: key.identity.clone(),
            known_hosts: self.directory.join("known_hosts"),
        }
    }

    /// `qm start`, then the first login.
    pub(super) async fn start_and_wait(
        &self,
        guest: &Guest,
        host: &Host,
    ) -> Result<Login, Failure> {
        let step = Step::WaitingForReady;
        self.step(step, format!("starting VM {} on {}", guest.vmid, guest.node), async {
            self.config(guest)?;
            // Why QEMU does not start stands in its output, not in the last line of qm.
            self.relaying(
                step,
                |_| true,
                async |lines| {
                    self.command(&guest.node, commands::start(guest.vmid), Some(&lines)).await
                },
            )
            .await?;
            self.say(step, format!("waiting for a login as {}@{}", host.user, host.address)).await;
            let login = self.wait_for_login(step, guest, host, None, Some(&self.mark())).await?;
            Ok((login, format!("logged in as {}@{}", host.user, host.address)))
        })
        .await
    }

    /// `qm reboot`, then a login on a new boot: the old one may answer for a while.
    pub(super) async fn reboot_and_wait(
        &self,
        guest: &Guest,
        host: &Host,
        login: Login,
    ) -> Result<(), Failure> {
        let step = Step::RebootingVm;
        self.step(step, format!("rebooting VM {}", guest.vmid), async {
            let Login { link, boot_id } = login;
            drop(link);
            self.config(guest)?;
            self.command(&guest.node, commands::reboot(guest.vmid), None).await?;
            self.say(
                step,
                format!("waiting for a login as {}@{} on the new boot", host.user, host.address),
            )
            .await;
            self.wait_for_login(step, guest, host, Some(&boot_id), Some(&self.mark())).await?;
            Ok(((), "logged in on the new boot".to_owned()))
        })
        .await
    }

    /// Waits for a login, as long as the VM with that mark is where it was.
    pub(crate) async fn wait_for_login(
        &self,
        step: Step,
        guest: &Guest,
        host: &Host,
        old_boot: Option<&str>,
        mark: Option<&str>,
    ) -> Result<Login, Problem> {
        let (states, mut changes) = watch::channel(State::Starting);
        let tell = async {
            while changes.changed().await.is_ok() {
                let state = changes.borrow_and_update().clone();
                // The end of the step says that.
                if state != State::LoggedIn {
                    self.say(step, state.to_string()).await;
                }
            }
        };
        // Boxed, for it is large.
        let wait = Box::pin(async {
            let patience = &self.cx.settings.patience;
            let login = ready::wait(&self.cx.ssh, host, patience, old_boot, &states).await;
            drop(states);
            login
        });
        let login = self.unless_cancelled(async {
            tokio::select! {
                (login, ()) = async { tokio::join!(wait, tell) } => Ok(login),
                problem = self.until_gone(guest, mark) => Err(problem),
            }
        });
        let login = login.await?;
        match login {
            Ok(login) => Ok(login),
            Err(why) => {
                let word = self.cx.qm.status(&guest.node, guest.vmid).await;
                let word = word.unwrap_or_else(|error| format!("not known ({error})"));
                Err(Problem::NotReady(format!("{why}; the VM's status is: {word}")))
            }
        }
    }
}
