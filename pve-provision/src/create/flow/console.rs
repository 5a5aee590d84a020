//! The serial console: set, then read back.

use std::error::Error as StdError;

use pve_api::ConfigUpdate;
use pve_api::Error;
use pve_api::Property;
use pve_api::QemuConfig;
use pve_api::property::Vga;
use tokio::time::Instant;
use tokio::time::sleep;

use super::Failure;
use super::Remedy;
use super::Run;
use crate::create::load::explain;
use crate::create::render::console_line;
use crate::event::Event;
use crate::step::Step;

const STEP: Step = Step::SettingUpConsole;

impl<R: FnMut(Event) + Send> Run<'_, R> {
    /// Makes the first serial port the display, so that the web UI opens a terminal.
    pub(super) async fn set_up_console(&mut self) -> Result<(), Failure> {
        self.started(STEP, "setting serial0=socket and vga=serial0");
        let result = self.set().await;
        if let Err(failure) = result {
            let failure = failure.with_command(console_line(self.vmid()));
            let left = self.vm();
            return Err(self.failed(failure, left));
        }
        self.done(STEP, "the web UI's console is the serial terminal");
        Ok(())
    }

    async fn set(&mut self) -> Result<(), Failure> {
        let change = change()?;
        let until = Instant::now() + self.patience.lock;
        let mut waiting = false;
        loop {
            let qemu = self.client.node(self.node()).qemu(self.vmid());
            let error = match qemu.set_config(&change).await {
                Ok(()) => return self.read_back().await,
                Err(error) => error,
            };
            // The same change made twice is made once, so it may be repeated.
            let again = error.is_transient() || matches!(error, Error::UnknownOutcome { .. });
            if again && self.is_set().await.is_ok_and(|set| set) {
                return self.read_back().await;
            }
            if !again || Instant::now() >= until {
                return Err(Failure::of_call(STEP, &error));
            }
            if !waiting {
                waiting = true;
                self.notice(STEP, format!("trying again: {}", explain(&error)));
            }
            sleep(self.patience.pause).await;
        }
    }

    async fn is_set(&self) -> pve_api::Result<bool> {
        let config = self.client.node(self.node()).qemu(self.vmid()).config().await?;
        Ok(has_console(&config))
    }

    /// Looks whether the server has what it was told. A running VM sees it only after a stop.
    async fn read_back(&mut self) -> Result<(), Failure> {
        match self.is_set().await {
            Ok(true) => {}
            Ok(false) => {
                let reason = "the server took the settings, but the configuration lacks them";
                return Err(Failure::new(STEP, reason));
            }
            Err(error) => {
                self.notice(STEP, format!("set, but not read back: {}", explain(&error)));
                return Ok(());
            }
        }
        let qemu = self.client.node(self.node()).qemu(self.vmid());
        if qemu.active_config().await.is_ok_and(|config| !has_console(&config)) {
            self.notice(
                STEP,
                "the VM runs already: it takes effect when it was stopped and started",
            );
        }
        Ok(())
    }
}

impl Failure {
    /// Offers the line for the node, unless there is a better remedy.
    pub(super) fn with_command(self, command: String) -> Self {
        match self.remedy {
            Remedy::None => self.remedy(Remedy::Command(command)),
            _ => self,
        }
    }
}

/// Both settings, or neither: a display without its port shows nothing.
fn change() -> Result<ConfigUpdate, Failure> {
    let cannot = |error: &dyn StdError| {
        Failure::new(STEP, format!("the settings cannot be written: {error}"))
    };
    let mut set = QemuConfig::default();
    let display = Property::new(Vga { kind: Some("serial0".to_owned()), ..Vga::default() });
    set.vga = Some(display.map_err(|error| cannot(&error))?);
    set.serial.insert(0, "socket").map_err(|error| cannot(&error))?;
    Ok(ConfigUpdate::set(set))
}

fn has_console(config: &QemuConfig) -> bool {
    let display = config.vga.as_ref().and_then(|display| display.kind.as_deref());
    display == Some("serial0") && config.serial.get(0).is_some_and(|port| port == "socket")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_and_the_display_are_sent_together() {
        let parameters = change().unwrap().parameters();
        let mut sent: Vec<_> = parameters.iter().collect();
        sent.sort_unstable();
        assert_eq!(sent, [("serial0", Some("socket")), ("vga", Some("serial0"))]);
    }
}
