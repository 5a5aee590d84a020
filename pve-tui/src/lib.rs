//! Proxmox VE's Create VM wizard in a terminal: screens over the draft of
//! [`pve_provision::create`], and the flow that makes the VM.
//!
//! `app` is the program as a value: messages in, effects out. `view` draws it. `runner` does the
//! effects and owns the terminal's events. No rule about virtual machines is here.

mod app;
mod form;
mod keys;
mod known;
mod log;
mod login;
mod progress;
mod runner;
mod style;
mod terminal;
mod view;
mod wizard;

#[cfg(test)]
mod tests;

use std::env;

use pve_provision::create::Draft;
use pve_provision::create::Template;

use app::Effect;
use app::Model;
use style::Theme;
use terminal::Screen;

/// With what the wizard begins.
#[derive(Debug, Default)]
pub struct Options {
    /// The server, if it was named already.
    pub server: Option<String>,
    /// The user's templates, beside the built-in ones.
    pub templates: Vec<Template>,
    /// What was said already.
    pub draft: Draft,
}

/// Runs the wizard until somebody leaves.
pub async fn run(options: Options) -> anyhow::Result<()> {
    if let Err(error) = log::begin() {
        tracing::warn!(%error, "there is no log file");
    }
    // By hand: the variable counts with any value that is not empty.
    let colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut templates = Template::builtin();
    templates.extend(options.templates);
    let theme = Theme { colours };
    // A file that cannot be read is said before the screen is taken, not lost.
    let known = known::path().map_or_else(|| Ok(Vec::new()), |path| known::load(&path))?;
    let mut model = Model::new(known, templates, options.draft, theme);
    let first = options.server.and_then(|server| model.login.with_server(&server));
    let mut screen = Screen::take()?;
    runner::run(&mut screen, model, first.map(Effect::Login)).await
}
