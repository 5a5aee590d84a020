//! The log, which goes to a file: the terminal belongs to the screen.

use std::env;
use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

/// The variable that says how much is logged, such as `debug`.
const VARIABLE: &str = "PVE_TUI_LOG";

/// Where the log is: `$XDG_STATE_HOME/pve-tui/log`, or below `~/.local/state`.
fn path() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local").join("state")))?;
    Some(state.join("pve-tui").join("log"))
}

/// Begins the log; without a place for it there is none.
pub(crate) fn begin() -> io::Result<()> {
    let Some(path) = path() else { return Ok(()) };
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Mutex::new(file))
        .try_init();
    Ok(())
}
