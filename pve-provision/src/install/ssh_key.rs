//! The node's own SSH key: the one that its VMs let in.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use super::commands;
use super::exec::Exec;
use super::problem::Problem;
use super::ssh;

/// A key pair of this node.
#[derive(Debug, Clone)]
pub(crate) struct NodeKey {
    pub(crate) identity: PathBuf,
    /// The line for `authorized_keys`.
    pub(crate) public: String,
    /// Whether it was made just now.
    pub(crate) is_new: bool,
}

/// The first of `~/.ssh/id_ed25519`, `id_rsa`, `id_ecdsa`, or a new one.
pub(crate) async fn find_or_make(exec: &Exec, home: &Path) -> Result<NodeKey, Problem> {
    let directory = home.join(".ssh");
    let names = ["id_ed25519", "id_rsa", "id_ecdsa"];
    let found = names.map(|name| directory.join(name)).into_iter().find(|path| path.exists());
    if let Some(identity) = found {
        let public = public(exec, &identity).await?;
        return Ok(NodeKey { identity, public, is_new: false });
    }
    if !directory.exists() {
        let doing = format!("make {}", directory.display());
        ssh::create_private_directory(&directory).map_err(Problem::file(doing))?;
    }
    let identity = directory.join(names[0]);
    exec.here(commands::make_key(&identity), None).await?;
    let beside = identity.with_extension("pub");
    let text = std::fs::read_to_string(&beside)
        .map_err(Problem::file(format!("read {}", beside.display())))?;
    let public = first_key(&text, &beside)?;
    Ok(NodeKey { identity, public, is_new: true })
}

/// The public half of a key that can be used without a passphrase.
async fn public(exec: &Exec, identity: &Path) -> Result<String, Problem> {
    let mode = std::fs::metadata(identity).map(|file| file.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o077 != 0) {
        return Err(Problem::Refused(format!(
            "{0} can be read by others, and ssh does not use such a key: chmod 600 {0}",
            identity.display()
        )));
    }
    // From the key itself: a file beside it may belong to another, and a passphrase shows here.
    let text = exec.here(commands::public_key(identity), None).await?.stdout;
    first_key(&text, identity)
}

fn first_key(text: &str, file: &Path) -> Result<String, Problem> {
    let keys = super::public_key::parse(text).unwrap_or_default();
    keys.into_iter().next().ok_or_else(|| {
        Problem::Refused(format!("{} gives no public key: remove it", file.display()))
    })
}
