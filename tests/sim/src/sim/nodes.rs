//! The other nodes, as `ssh root@node qm …` reaches them.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::Commands;
use super::SSH_PORT;
use crate::cli::Invocation;
use crate::face::Frame;
use crate::node_ssh::Answer;
use crate::node_ssh::Exit;
use crate::node_ssh::NodeCall;
use crate::node_ssh::NodeSsh;
use crate::node_ssh::Stream;

/// The keys of the cluster's roots.
pub(super) fn authorized_keys(root: &Path) -> PathBuf {
    root.join("pve/priv/authorized_keys")
}

/// Starts the SSH servers of all nodes of a cluster; a node that stands alone has none.
pub(super) async fn serve(
    root: &Path,
    names: &[String],
    addresses: &BTreeMap<String, Ipv4Addr>,
    commands: &Commands,
) -> io::Result<Vec<(String, NodeSsh)>> {
    let mut nodes = Vec::new();
    if names.len() < 2 {
        return Ok(nodes);
    }
    tokio::fs::create_dir_all(root.join("pve/priv")).await?;
    for name in names {
        let Some(address) = addresses.get(name) else { continue };
        let address = SocketAddr::from((*address, SSH_PORT));
        let answer = answer(name.clone(), commands.clone());
        nodes.push((name.clone(), NodeSsh::start(address, authorized_keys(root), answer).await?));
    }
    // As the cluster keeps it for its roots.
    let known: String = nodes.iter().map(|(name, node)| node.known_hosts_line(&[name])).collect();
    tokio::fs::write(root.join("pve/priv/known_hosts"), known).await?;
    Ok(nodes)
}

fn answer(node: String, commands: Commands) -> Answer {
    Arc::new(move |call| {
        let (node, commands) = (node.clone(), commands.clone());
        Box::pin(async move { run(node, &commands, call).await })
    })
}

async fn run(node: String, commands: &Commands, call: NodeCall) -> Exit {
    let mut words = call.argv.into_iter();
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    let arguments = words.collect();
    let invocation = Invocation { node, program, arguments, directory: "/root".to_owned() };
    let (sink, mut frames) = mpsc::unbounded_channel();
    let commands = commands.clone();
    tokio::spawn(async move { commands.run(invocation, call.environment, sink).await });
    while let Some(frame) = frames.recv().await {
        match frame {
            Frame::Out(text) => call.output.write(Stream::Out, text).await,
            Frame::Err(text) => call.output.write(Stream::Err, text).await,
            Frame::Exit(code) => return Exit::Code(u32::try_from(code).unwrap_or(255)),
        }
    }
    Exit::Nothing
}
