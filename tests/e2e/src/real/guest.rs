//! A provisioned guest, seen by its user: through ssh.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Context;
use anyhow::ensure;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Prints what is to be known as `name=value`, once cloud-init has nothing more to do.
const FACTS: &str = r#"
cloud-init status --wait >/dev/null
echo "boot id=$(cat /proc/sys/kernel/random/boot_id)"
echo "user=$(id -un)"
echo "host name=$(hostname)"
echo "full name=$(hostname --fqdn)"
echo "address=$(ip -4 -brief address show dev eth0 | awk '{ print $3 }')"
echo "gateway=$(ip -4 route show default | awk '{ print $3 }')"
echo "disk=$(lsblk --bytes --nodeps --noheadings --output SIZE /dev/sda | tr -d ' ')"
echo "root file system=$(df --block-size=1 --output=size / | tail -n 1 | tr -d ' ')"
echo "cloud-init=$(cloud-init status | sed -n 's/^status: //p')"
echo "agent=$(systemctl is-active qemu-guest-agent)"
echo "upgraded package=$(dpkg-query --show --showformat '${Version}' pve-e2e-probe)"
echo "time zone=$(readlink /etc/localtime)"
echo "sudo=$(sudo -n id -u)"
"#;

/// Compares the password on its input with the hash of the account that is its argument.
const PASSWORD: &str = "import crypt, spwd, sys\n\
    stored = spwd.getspnam(sys.argv[1]).sp_pwdp\n\
    print(crypt.crypt(sys.stdin.read(), stored) == stored)";

/// How to log in.
pub(super) struct Guest {
    pub(super) address: Ipv4Addr,
    pub(super) user: &'static str,
    /// The private key.
    pub(super) key: PathBuf,
    pub(super) known_hosts: PathBuf,
}

impl Guest {
    /// Logs in and gives the id of the guest's boot.
    pub(super) async fn boot_id(&self) -> anyhow::Result<String> {
        let id = self.run(&["cat", "/proc/sys/kernel/random/boot_id"], "").await?;
        Ok(id.trim().to_owned())
    }

    /// Logs in once and gives what the guest is.
    pub(super) async fn facts(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let text = self.run(&["sh", "-s"], FACTS).await?;
        let facts = text.lines().filter_map(|line| line.split_once('='));
        Ok(facts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Whether the account's password is this one.
    pub(super) async fn has_password(&self, user: &str, password: &str) -> anyhow::Result<bool> {
        let quoted = format!("'{PASSWORD}'");
        let check = ["sudo", "-n", "python3", "-W", "ignore", "-c", &quoted, user];
        Ok(self.run(&check, password).await?.trim() == "True")
    }

    /// The words are read by the guest's shell.
    async fn run(&self, words: &[&str], input: &str) -> anyhow::Result<String> {
        let known_hosts = format!("UserKnownHostsFile={}", self.known_hosts.display());
        let mut child = Command::new("ssh")
            .args(["-F", "none", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30"])
            .args(["-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=accept-new"])
            .args(["-o", &known_hosts, "-o", "LogLevel=ERROR", "-i"])
            .arg(&self.key)
            .arg(format!("{}@{}", self.user, self.address))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot run ssh")?;
        let mut stdin = child.stdin.take().context("ssh has an input")?;
        // A login that is refused closes it; the exit code tells.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = child.wait_with_output().await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "ssh: {}: {}", output.status, error.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Makes a key pair; gives the private key's file and the public key's line.
pub(super) async fn make_key(file: &Path) -> anyhow::Result<String> {
    let output = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "e2e@example.org", "-f"])
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .await?;
    ensure!(output.status.success(), "ssh-keygen: {}", String::from_utf8_lossy(&output.stderr));
    let line = tokio::fs::read_to_string(file.with_extension("pub")).await?;
    Ok(line.trim().to_owned())
}
