//! The inner half: TEMPORARY, by hand.
use super::guest::*;
use pve_sim::effect::*;
use pve_sim::real::Hypervisor;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(super) async fn run(image: &Path, directory: &Path) -> anyhow::Result<()> {
    super::serve::start(image.to_owned()).await?;
    let t = Instant::now();
    let lap = |s: &str| println!("{:7.1} {s}", t.elapsed().as_secs_f32());
    let (hv, _off) = Hypervisor::new(directory);
    let key = directory.join("key");
    let public = make_key(&key).await?;
    let file = directory.join("storage/100/vm-100-disk-0.raw");
    hv.apply(&Effect::Disk(DiskChange::Imported {
        source: image.join("debian-12-generic-amd64.qcow2"),
        source_format: "qcow2".into(),
        file: file.clone(),
        format: "raw".into(),
    }))
    .await?;
    lap("imported");
    hv.apply(&Effect::Disk(DiskChange::Resized {
        file: file.clone(),
        format: "raw".into(),
        size: 8 << 30,
    }))
    .await?;
    lap("resized");
    let spec = GuestSpec { vmid: 100, memory: 2048, mac: Some("BC:24:11:00:00:64".into()), bridge: Some("vmbr0".into()), agent: true, serial: true,
        disk: Some(DiskFile { file, format: "raw".into(), ..Default::default() }), cloud_init: Some(Default::default()),
        seed: Seed {
            user_data: format!("#cloud-config\nhostname: web-100\nmanage_etc_hosts: true\nfqdn: web-100\nuser: debian\npassword: $6$x$y\nssh_authorized_keys:\n  - {public}\nchpasswd:\n  expire: False\nusers:\n  - default\n"),
            network_config: "version: 1\nconfig:\n    - type: physical\n      name: eth0\n      mac_address: 'bc:24:11:00:00:64'\n      subnets:\n      - type: static\n        address: '192.0.2.100'\n        netmask: '255.255.255.0'\n        gateway: '192.0.2.1'\n    - type: nameserver\n      address:\n      - '192.0.2.1'\n".into(),
            meta_data: "instance-id: abc\n".into(),
        }, ..Default::default() };
    hv.apply(&Effect::Started(Box::new(spec.clone()))).await?;
    lap("started");
    let guest = Guest {
        address: "192.0.2.100".parse()?,
        user: "debian".into(),
        key: key.clone(),
        known_hosts: directory.join("kh"),
    };
    let wait = async || loop {
        match guest.facts().await {
            Ok(f) => break f,
            Err(e) => {
                if t.elapsed() > Duration::from_secs(300) {
                    println!("{e:#}");
                    std::process::exit(1)
                }
                tokio::time::sleep(Duration::from_millis(300)).await
            }
        }
    };
    let f = wait().await;
    lap("login");
    println!("{f:#?}");
    let script = std::fs::File::open("/work/wt-real/pve-provision/scripts/debian.sh")?;
    let st = tokio::process::Command::new("ssh")
        .args([
            "-i",
            &key.display().to_string(),
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "debian@192.0.2.100",
            "cloud-init status --wait; sudo -n bash -s",
        ])
        .stdin(Stdio::from(script))
        .status()
        .await?;
    lap(&format!("script {st}"));
    let r = hv.ping(100).await;
    lap(&format!("ping {r:?}"));
    hv.apply(&Effect::Rebooted { guest: Box::new(spec), timeout: 180 }).await?;
    lap("down");
    let old = f["boot id"].clone();
    loop {
        let f = wait().await;
        if f["boot id"] != old {
            lap("login again");
            println!("{f:#?}");
            break;
        }
    }
    let r = hv.ping(100).await;
    lap(&format!("ping {r:?}"));
    let r = guest.has_password("debian", "x").await;
    lap(&format!("password {r:?}"));
    hv.apply(&Effect::Stopped { vmid: 100 }).await?;
    lap("stopped");
    hv.apply(&Effect::Destroyed { vmid: 100 }).await?;
    lap("destroyed");
    Ok(())
}
