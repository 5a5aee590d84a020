//! The inner half: mirror, simulated node, server, and one scenario after the other.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use anyhow::Context;
use anyhow::ensure;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::mirror::CloudImage;
use pve_sim::mirror::Content;
use pve_sim::mirror::Mirror;
use pve_sim::mirror::cloud_images;
use pve_sim::real::Hypervisor;
use pve_sim::sim::Place as Network;

use super::network::GATEWAY;
use super::network::MAIN_NODE;
use super::recipe;
use super::scenario::CUSTOM;
use super::scenario::DEFAULT;
use super::scenario::NAMELESS;
use crate::rig::Rig;
use crate::server::Place;

const NODE: &str = "pve1";
pub(super) const OS: &str = "debian";
pub(super) const VERSION: &str = "12";
pub(super) const TIME_ZONE: &str = "Europe/Berlin";
/// What a shell would take apart, and what JSON and YAML would.
pub(super) const ROOT_PASSWORD: &str = r#"root's $HOME "and" `more` \ #1: x"#;

/// All that a scenario runs on.
pub(super) struct Stage {
    pub(super) rig: Rig,
    pub(super) hypervisor: Hypervisor,
    /// Of the image and of the guests' packages.
    mirror: Mirror,
}

pub(super) async fn run(image: &Path, directory: &Path) -> anyhow::Result<()> {
    let stage = set_up(image, directory).await?;
    let done = run_all(&stage, directory).await;
    if done.is_err() {
        explain(&stage);
    }
    stage.rig.sim.stop().await;
    done
}

async fn set_up(image: &Path, directory: &Path) -> anyhow::Result<Stage> {
    let address = SocketAddr::from((GATEWAY, 80));
    let mirror = Mirror::start_at(address, &directory.join("mirror")).await?;
    let of_release = |image: &CloudImage| image.os == OS && image.version == VERSION;
    let entry = cloud_images().into_iter().find(of_release);
    let content = Content::File(image.join(recipe::IMAGE_NAME));
    mirror.add(entry.context("the mirror knows no such image")?, content).await?;
    mirror.serve(recipe::REPOSITORY, &image.join(recipe::REPOSITORY));
    let images_file = directory.join("images.toml");
    std::fs::write(&images_file, mirror.images_toml())?;

    let sim = Sim::start(Config { place: Network::Real(GATEWAY), ..Config::default() }).await?;
    let hypervisor = sim.hypervisor().context("the guests are not real")?.clone();
    let mut place = Place::at(&sim, SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)))?;
    place.set(&format!("NODE_{NODE}"), MAIN_NODE.to_string());
    place.set("IMAGES_FILE", images_file);
    place.set("VM_NAMESERVER", GATEWAY.to_string());
    place.set("VM_TIMEZONE", TIME_ZONE);
    place.set("VM_ROOT_PASSWORD", ROOT_PASSWORD);
    let server = place.serve().await?;
    Ok(Stage { rig: Rig { sim, place, server }, hypervisor, mirror })
}

async fn run_all(stage: &Stage, directory: &Path) -> anyhow::Result<()> {
    let default = DEFAULT.run(stage, directory).await?;
    remove(stage, default.vmid).await?;
    // Two at once: they must not get in each other's way.
    let (nameless, custom) =
        tokio::try_join!(NAMELESS.run(stage, directory), CUSTOM.run(stage, directory))?;
    let all = [(&DEFAULT, default), (&NAMELESS, nameless), (&CUSTOM, custom)];
    for (_, seen) in &all[1..] {
        remove(stage, seen.vmid).await?;
    }
    let agent = format!("/{}.deb", recipe::AGENT);
    let fetched = stage.mirror.count("GET", &agent);
    ensure!(fetched == all.len(), "{agent} was fetched {fetched} times by {} guests", all.len());
    let streams: String = all.iter().map(|(_, seen)| seen.raw.as_str()).collect();
    check_secrets(stage, &streams).await?;
    println!();
    for (scenario, seen) in &all {
        println!("{:<8} {seen}", scenario.title);
    }
    Ok(())
}

/// Takes a VM away, by the node's own commands.
async fn remove(stage: &Stage, vmid: u32) -> anyhow::Result<()> {
    let vmid_text = vmid.to_string();
    qm(stage, &["stop", &vmid_text]).await?;
    qm(stage, &["destroy", &vmid_text, "--purge"]).await?;
    ensure!(!stage.hypervisor.is_running(vmid), "VM {vmid} still runs");
    Ok(())
}

async fn qm(stage: &Stage, arguments: &[&str]) -> anyhow::Result<()> {
    let place = &stage.rig.place;
    let program = place.find("qm").context("there is no qm")?;
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).env_clear().envs(place.commands_environment());
    let output = command.stdin(Stdio::null()).output().await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "qm {arguments:?}: {}: {error}", output.status);
    Ok(())
}

/// No secret may have come out; one that is let out on purpose must be found.
async fn check_secrets(stage: &Stage, streams: &str) -> anyhow::Result<()> {
    let passwords = [DEFAULT, NAMELESS, CUSTOM].map(|scenario| scenario.password);
    let secrets: Vec<&str> = passwords.into_iter().flatten().chain([ROOT_PASSWORD]).collect();
    let leaks = stage.rig.leaks(streams, &secrets)?;
    ensure!(leaks.is_empty(), "a secret has come out:\n{}", leaks.join("\n"));
    for secret in &secrets {
        // It fails, as there is no such VM; what counts is that it was said.
        let _ = qm(stage, &["set", "999", "--description", secret]).await;
        let leaks = stage.rig.leaks(streams, &[secret])?;
        ensure!(!leaks.is_empty(), "a secret that was let out on purpose is not found");
    }
    println!("no password has come out, of {} that were looked for", secrets.len());
    Ok(())
}

/// What helps to understand a failure.
fn explain(stage: &Stage) {
    println!("\nthe server's log:\n{}", last_lines(&stage.rig.place.log()));
    for vmid in stage.rig.guests() {
        let log = std::fs::read(stage.hypervisor.serial_log(vmid)).unwrap_or_default();
        println!("\nthe console of VM {vmid}:\n{}", last_lines(&String::from_utf8_lossy(&log)));
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
