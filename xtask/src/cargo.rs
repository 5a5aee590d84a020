//! Running cargo from within a program that cargo itself has started.

use std::env;

use xshell::Cmd;
use xshell::Shell;
use xshell::cmd;

/// `cargo` with these words, as a shell would run it.
///
/// The variables by which cargo tells a program about its package would reach the build scripts, and `ring`
/// with all that stands on it would be built anew at every change from a shell to `cargo xtask` and back.
pub(crate) fn cargo<'shell>(shell: &'shell Shell, words: &str) -> Cmd<'shell> {
    let words = words.split_whitespace();
    let mut command = cmd!(shell, "cargo {words...}");
    for (name, _) in env::vars_os() {
        let told = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if name.to_str().is_some_and(|name| told.iter().any(|start| name.starts_with(start))) {
            command = command.env_remove(name);
        }
    }
    command
}
