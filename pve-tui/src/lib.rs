//! Proxmox VE's Create VM wizard for a terminal and for scripts.
//!
//! Everything that knows anything of virtual machines is in `pve_provision::create`; this crate
//! asks, shows and remembers servers.
//!
//! The screens: `app` is the program as a value, messages in and effects out; `view` draws it;
//! `runner` does the effects and owns the terminal's events.

mod app;
pub mod connect;
mod drawn;
mod form;
pub mod headless;
mod hints;
mod keys;
mod known;
mod log;
mod login;
pub mod profile;
mod progress;
pub mod prompt;
mod runner;
mod style;
mod terminal;
mod view;
mod wizard;

#[cfg(test)]
mod tests;

use std::env;

use anyhow::Context as _;
use pve_provision::create::Draft;

use app::Effect;
use app::Model;
use profile::Files;
use style::Theme;
use terminal::Screen;

/// With what the screens begin.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Options {
    /// A server from the profile file, or an address: host, host:port, the web UI's URL; several
    /// of one cluster with commas between them
    #[arg(long, value_name = "SERVER", value_delimiter = ',')]
    pub server: Vec<String>,
    /// A template: default, server, the name of one of yours, or a file
    #[arg(long, default_value = "default")]
    pub template: String,
    /// Says something beforehand: general.name=web, disks.1.size=100
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Takes the mouse, too; what the terminal itself does with it then needs Shift
    #[arg(long)]
    pub mouse: bool,
}

/// Shows the screens until somebody leaves.
pub async fn run(options: Options, files: Files) -> anyhow::Result<()> {
    log::begin().context("cannot begin the log")?;
    // By hand: the variable counts with any value that is not empty.
    let colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let template = headless::template(&options.template, &files.templates())?;
    let mut templates = known::templates(&files)?;
    if !templates.contains(&template) {
        templates.push(template.clone());
    }
    let mut draft = Draft::new(template);
    for assignment in &options.set {
        draft.set(assignment)?;
    }
    let (known, pins) = (known::load(&files)?, files.pins()?);
    let mut model = Model::new(known, pins, templates, draft, Theme { colours });
    let server = match options.server.as_slice() {
        [] => files.servers()?.default,
        servers => Some(servers.join(",")),
    };
    let first = match server {
        None => None,
        Some(server) => model.login.with_server(&server)?.map(Effect::Login),
    };
    let mut screen = Screen::take(options.mouse).context("cannot use the terminal")?;
    Box::pin(runner::run(&mut screen, model, files, first)).await
}
