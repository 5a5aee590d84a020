//! One QEMU process: its arguments, its tap device, its end.

use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use anyhow::bail;
use tokio::process::Child;
use tokio::process::Command;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::disk;
use super::monitor;
use crate::effect::GuestSpec;

/// Below the machine's directory.
pub(super) const MONITOR_SOCKET: &str = "qmp.sock";
pub(super) const AGENT_SOCKET: &str = "agent.sock";
pub(super) const SERIAL_LOG: &str = "serial.log";
const SERIAL_SOCKET: &str = "serial.sock";
const CLOUD_INIT: &str = "cloudinit.iso";

/// MiB that a small guest needs to boot with; more would only cost the host.
const MEMORY_LIMIT: u64 = 1024;
/// An emulated processor runs no faster with more cores or features, but costs more.
const ACCELERATOR: &str = "tcg,tb-size=128";
const PROCESSOR: &str = "qemu64";
/// Closing a disk of a few hundred MiB can take a while on a busy host.
const QUIT: Duration = Duration::from_secs(20);
/// How often is looked whether a new process has opened its monitor.
const OPENING: Duration = Duration::from_millis(50);

/// A QEMU process that was started; ends when told to, or when the guest powers off.
#[derive(Debug, Clone)]
pub(super) struct Running {
    monitor: PathBuf,
    kill: CancellationToken,
    ended: watch::Receiver<bool>,
    asked: Arc<AtomicBool>,
}

impl Running {
    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    pub(super) async fn ended(&self) {
        // An error says that the task that owns the process is gone, and the process with it.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Whether its end is somebody's wish and not the guest's own.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    pub(super) fn ask(&self, asked: bool) {
        self.asked.store(asked, Ordering::Relaxed);
    }

    pub(super) async fn stop(&self) {
        self.ask(true);
        let told = monitor::execute(&self.monitor, "quit").await.is_ok();
        if !told || tokio::time::timeout(QUIT, self.ended()).await.is_err() {
            self.kill.cancel();
            self.ended().await;
        }
    }
}

/// Starts a machine whose files are kept in `directory`.
pub(super) async fn start(guest: &GuestSpec, directory: &Path) -> anyhow::Result<Running> {
    tokio::fs::create_dir_all(directory).await?;
    if guest.cloud_init.is_some() {
        disk::write_seed(&guest.seed, &directory.join("cloudinit"), &directory.join(CLOUD_INIT))
            .await?;
    }
    for socket in [MONITOR_SOCKET, AGENT_SOCKET, SERIAL_SOCKET] {
        let _ = tokio::fs::remove_file(directory.join(socket)).await;
    }
    let tap = match &guest.bridge {
        Some(bridge) => Some(Tap::add(guest.vmid, bridge).await?),
        None => None,
    };
    let log = directory.join("qemu.log");
    let child = Command::new("qemu-system-x86_64")
        .args(arguments(guest, directory))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log)?)
        .kill_on_drop(true)
        .spawn()
        .context("cannot run qemu-system-x86_64")?;
    let running = watch_over(child, tap, directory.join(MONITOR_SOCKET));
    // QEMU answers on its monitor when all its devices are there.
    while let Err(error) = monitor::execute(&running.monitor, "query-status").await {
        if running.has_ended() {
            let text = tokio::fs::read_to_string(&log).await.unwrap_or_default();
            bail!("start failed: QEMU exited: {error}: {}", text.trim());
        }
        tokio::time::sleep(OPENING).await;
    }
    Ok(running)
}

/// Owns the process until it ends, then takes its tap away.
fn watch_over(mut child: Child, tap: Option<Tap>, monitor: PathBuf) -> Running {
    let (sender, ended) = watch::channel(false);
    let kill = CancellationToken::new();
    let killed = kill.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = child.wait() => {}
            () = killed.cancelled() => {
                let _ = child.kill().await;
            }
        }
        if let Some(tap) = tap {
            tap.remove().await;
        }
        let _ = sender.send(true);
    });
    Running { monitor, kill, ended, asked: Arc::default() }
}

fn arguments(guest: &GuestSpec, directory: &Path) -> Vec<String> {
    let vmid = guest.vmid;
    let memory = guest.memory.min(MEMORY_LIMIT);
    let socket = |name: &str| format!("path={},server=on,wait=off", directory.join(name).display());
    let mut arguments = Vec::new();
    let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);

    add("-name", format!("pve-sim-{vmid}"));
    add("-machine", "pc".to_owned());
    add("-accel", ACCELERATOR.to_owned());
    add("-cpu", PROCESSOR.to_owned());
    add("-smp", "1".to_owned());
    add("-m", memory.to_string());
    add("-display", "none".to_owned());
    // As on the real thing: what is not in the boot order is not booted from.
    add("-boot", "strict=on".to_owned());
    add("-chardev", format!("socket,id=qmp,{}", socket(MONITOR_SOCKET)));
    add("-mon", "chardev=qmp,mode=control".to_owned());
    if let Some(disk) = &guest.disk {
        let (file, format) = (disk.file.display(), &disk.format);
        // Nothing here has to survive a crash of the host.
        let options = "if=none,id=scsi0,cache=unsafe,discard=unmap";
        add("-device", "virtio-scsi-pci,id=scsihw0".to_owned());
        add("-drive", format!("file={file},format={format},{options}"));
        add("-device", "scsi-hd,bus=scsihw0.0,scsi-id=0,drive=scsi0,bootindex=100".to_owned());
    }
    if guest.cloud_init.is_some() {
        let file = directory.join(CLOUD_INIT);
        let options = "format=raw,if=none,id=ide2,media=cdrom,readonly=on";
        add("-drive", format!("file={},{options}", file.display()));
        add("-device", "ide-cd,bus=ide.1,unit=0,drive=ide2".to_owned());
    }
    if let (Some(mac), Some(_)) = (&guest.mac, &guest.bridge) {
        add("-netdev", format!("tap,id=net0,ifname={},script=no,downscript=no", Tap::name(vmid)));
        add("-device", format!("virtio-net-pci,netdev=net0,mac={mac},romfile="));
    }
    if guest.serial {
        let log = directory.join(SERIAL_LOG);
        let log = format!("logfile={},logappend=on", log.display());
        add("-chardev", format!("socket,id=serial0,{},{log}", socket(SERIAL_SOCKET)));
        add("-device", "isa-serial,chardev=serial0".to_owned());
    }
    if guest.agent {
        add("-device", "virtio-serial-pci".to_owned());
        add("-chardev", format!("socket,id=qga0,{}", socket(AGENT_SOCKET)));
        add("-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0".to_owned());
    }
    arguments.push("-nodefaults".to_owned());
    arguments
}

/// The VM's end of the bridge.
#[derive(Debug)]
struct Tap {
    name: String,
}

impl Tap {
    /// The name that Proxmox VE gives it.
    fn name(vmid: u32) -> String {
        format!("tap{vmid}i0")
    }

    async fn add(vmid: u32, bridge: &str) -> anyhow::Result<Self> {
        let tap = Self { name: Self::name(vmid) };
        ip(&["tuntap", "add", &tap.name, "mode", "tap"]).await?;
        if let Err(error) = ip(&["link", "set", &tap.name, "master", bridge, "up"]).await {
            tap.remove().await;
            return Err(error);
        }
        Ok(tap)
    }

    async fn remove(self) {
        // It may be gone with its namespace.
        let _ = ip(&["link", "delete", &self.name]).await;
    }
}

async fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    disk::run(&mut disk::command("ip", arguments)).await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::arguments;
    use crate::effect::DiskFile;
    use crate::effect::GuestSpec;

    #[test]
    fn a_machine_has_the_hardware_of_its_configuration_and_boots_from_its_disk_alone() {
        let disk =
            DiskFile { file: "/d/disk.raw".into(), format: "raw".into(), ..DiskFile::default() };
        let guest = GuestSpec {
            vmid: 100,
            memory: 65_536,
            mac: Some("BC:24:11:00:00:64".to_owned()),
            bridge: Some("vmbr0".to_owned()),
            agent: true,
            serial: true,
            disk: Some(disk),
            cloud_init: Some(DiskFile::default()),
            ..GuestSpec::default()
        };
        let arguments = arguments(&guest, Path::new("/m")).join(" ").replace(" -", "\n-");
        insta::assert_snapshot!(arguments, @r"
        -name pve-sim-100
        -machine pc
        -accel tcg,tb-size=128
        -cpu qemu64
        -smp 1
        -m 1024
        -display none
        -boot strict=on
        -chardev socket,id=qmp,path=/m/qmp.sock,server=on,wait=off
        -mon chardev=qmp,mode=control
        -device virtio-scsi-pci,id=scsihw0
        -drive file=/d/disk.raw,format=raw,if=none,id=scsi0,cache=unsafe,discard=unmap
        -device scsi-hd,bus=scsihw0.0,scsi-id=0,drive=scsi0,bootindex=100
        -drive file=/m/cloudinit.iso,format=raw,if=none,id=ide2,media=cdrom,readonly=on
        -device ide-cd,bus=ide.1,unit=0,drive=ide2
        -netdev tap,id=net0,ifname=tap100i0,script=no,downscript=no
        -device virtio-net-pci,netdev=net0,mac=BC:24:11:00:00:64,romfile=
        -chardev socket,id=serial0,path=/m/serial.sock,server=on,wait=off,logfile=/m/serial.log,logappend=on
        -device isa-serial,chardev=serial0
        -device virtio-serial-pci
        -chardev socket,id=qga0,path=/m/agent.sock,server=on,wait=off
        -device virtserialport,chardev=qga0,name=org.qemu.guest_agent.0
        -nodefaults
        ");
    }
}
