//! The SSH server of a simulated node: what one node of a cluster sends to another, `qm …` as root.
//!
//! The command is handed to whoever plays the node, as words; nothing is executed.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use russh::keys::PrivateKey;
use russh::keys::PublicKey;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::task::JoinSet;

pub use crate::ssh::Exit;
pub use crate::ssh::Output;
pub use crate::ssh::Stdin;
pub use crate::ssh::Stream;

use crate::ssh::Call;
use crate::ssh::Host;
use crate::ssh::Unwrapped;

/// Answers the commands that arrive at a node.
pub type Answer = Arc<dyn Fn(NodeCall) -> Pin<Box<dyn Future<Output = Exit> + Send>> + Send + Sync>;

/// A command that has arrived at a node.
#[derive(Debug)]
pub struct NodeCall {
    /// Program and arguments, without `env`, `setsid` and other wrappers; empty when none came.
    pub argv: Vec<String>,
    /// The text as it was sent.
    pub text: String,
    /// The variables that the client sent along.
    pub environment: Vec<(String, String)>,
    /// What the client writes.
    pub stdin: Stdin,
    /// Where the answer goes, as it comes.
    pub output: Output,
}

/// The SSH server of one node; it ends when this is dropped.
#[derive(Debug)]
pub struct NodeSsh {
    address: SocketAddr,
    host_key: String,
    server: JoinHandle<()>,
}

impl NodeSsh {
    /// Listens on an address. `authorised` is a file of public keys that is read at every login, as
    /// `/etc/pve/priv/authorized_keys` is; it may appear later.
    pub async fn start(
        address: SocketAddr,
        authorised: PathBuf,
        answer: Answer,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let key = crate::ssh::new_key()?;
        let host_key = key.public_key().to_openssh().map_err(io::Error::other)?;
        let node = Arc::new(Node { authorised, answer });
        let server = tokio::spawn(serve(listener, key, node));
        Ok(Self { address, host_key, server })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The line of a known-hosts file that names this node, under its address and these names.
    pub fn known_hosts_line(&self, names: &[&str]) -> String {
        let (ip, port) = (self.address.ip(), self.address.port());
        let mut hosts: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        hosts.push(if port == 22 { ip.to_string() } else { format!("[{ip}]:{port}") });
        format!("{} {}\n", hosts.join(","), self.host_key)
    }
}

impl Drop for NodeSsh {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, key: PrivateKey, node: Arc<Node>) {
    // Dropping the set ends the connections with the node.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => _ = connections.spawn(crate::ssh::serve(Arc::clone(&node), key.clone(), tcp)),
                Err(error) => {
                    tracing::warn!(%error, "a node takes no more connections");
                    return;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

struct Node {
    authorised: PathBuf,
    answer: Answer,
}

impl Host for Node {
    fn server_id(&self) -> String {
        "SSH-2.0-OpenSSH_10.0p2 Debian-7".to_owned()
    }

    fn admits(&self, user: &str, key: &PublicKey) -> bool {
        let lines = fs::read_to_string(&self.authorised).unwrap_or_default();
        let mut keys = lines.lines().filter_map(|line| PublicKey::from_openssh(line).ok());
        user == "root" && keys.any(|known| known.key_data() == key.key_data())
    }

    fn logged_in(&self, _user: &str) {}

    fn refused(&self, _user: &str) {}

    async fn exec(self: Arc<Self>, call: Call) -> Exit {
        let text = call.text.unwrap_or_default();
        let Unwrapped { commands, announces } = Unwrapped::of(&text);
        if let Some(stream) = announces {
            call.output.write(stream, "1\n").await;
        }
        let argv = commands.into_iter().next().unwrap_or_default();
        let node_call = NodeCall {
            argv,
            text,
            environment: call.environment,
            stdin: call.stdin,
            output: call.output,
        };
        (self.answer)(node_call).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::Exit;
    use super::NodeSsh;
    use super::Stream;
    use crate::testing::Client;
    use crate::testing::Network;

    async fn node(network: &Network, client: &Client) -> NodeSsh {
        let address = (network.address(12), network.port()).into();
        let authorised = client.directory().join("authorized_keys");
        let node = NodeSsh::start(
            address,
            authorised,
            Arc::new(|mut call| {
                Box::pin(async move {
                    call.output.write(Stream::Out, format!("{:?}\n", call.argv)).await;
                    let input = call.stdin.read_to_end().await;
                    call.output.write(Stream::Err, input).await;
                    Exit::Code(255)
                })
            }),
        );
        node.await.unwrap()
    }

    #[tokio::test]
    async fn root_sends_a_command_to_a_node_and_gets_streams_and_exit_code_back() {
        let network = Network::claim();
        let client = Client::new(&network);
        let node = node(&network, &client).await;
        let known = node.known_hosts_line(&["pve2"]);
        fs::write(client.directory().join("known_hosts"), &known).unwrap();

        let stranger = client.run("root", 12, "qm list", b"").await;
        assert!(stranger.err().contains("Permission denied (publickey)"), "{}", stranger.err());

        fs::write(client.directory().join("authorized_keys"), client.public_key()).unwrap();
        assert_eq!(client.run("admin", 12, "qm list", b"").await.out(), "");
        let answer = client
            .run("root", 12, "LC_ALL=C qm create 100 --name 'a b' --tags \"c\"", b"input")
            .await;
        assert_eq!(answer.code, Some(255));
        assert_eq!(
            answer.out(),
            "[\"qm\", \"create\", \"100\", \"--name\", \"a b\", \"--tags\", \"c\"]\n"
        );
        assert_eq!(answer.err(), "input");
        assert_eq!(fs::read_to_string(client.directory().join("known_hosts")).unwrap(), known);
    }

    #[tokio::test]
    async fn a_node_that_is_gone_refuses_connections() {
        let network = Network::claim();
        let client = Client::new(&network);
        drop(node(&network, &client).await);
        tokio::task::yield_now().await;
        let answer = client.run("root", 12, "qm list", b"").await;
        assert!(answer.err().contains("Connection refused"), "{}", answer.err());
    }
}
