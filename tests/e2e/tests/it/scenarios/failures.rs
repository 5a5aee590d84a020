//! Each step failing: what is told, what is left, what is run.

use std::time::Duration;

use pve_provision::install::Patience;
use pve_sim::Sim;
use pve_sim::mirror::CloudImage;
use pve_sim::mirror::Content;
use pve_sim::mirror::cloud_images;
use pve_sim::sim::Fault;
use pve_sim::sim::FaultAnswer;
use pve_sim::world::Configuration;
use pve_sim::world::Guest;
use pve_sim::world::Kind;
use pve_sim::world::World;
use serde_json::json;

use super::booting;
use super::day::Day;
use super::day::IMAGE;
use super::deed::Deed;
use super::deed::Moment;
use super::table;
use super::table::Row;
use super::table::row;

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_is_told_and_leaves_what_its_rule_says() {
    insta::assert_snapshot!(table::run(rows()).await);
}

/// A server that loses patience within a second or two.
pub(super) fn hasty() -> Patience {
    Patience {
        ready: Duration::from_secs(2),
        between_logins: Duration::from_millis(300),
        lock: Duration::from_secs(2),
        appearance: Duration::from_secs(1),
        between_resizes: Duration::from_millis(50),
        cloud_init: Duration::from_secs(1),
        script: Duration::from_secs(1),
    }
}

/// A command that succeeds and has done nothing.
fn silently(pattern: &str, times: Option<u32>) -> Fault {
    let answer = FaultAnswer::Instead { stdout: String::new(), stderr: String::new(), exit: 0 };
    Fault { times, ..Fault::always(pattern, answer) }
}

/// A VM that is nobody's business.
pub(super) fn put_guest(world: &mut World, vmid: u32) {
    let guest = Guest {
        kind: Kind::Qemu,
        node: "pve1".to_owned(),
        configuration: Configuration::default(),
        running: None,
    };
    world.guests.insert(vmid, guest);
}

/// Makes the plain image one of this many bytes.
pub(super) fn larger_image(sim: &Sim, virtual_size: u64) {
    let image = cloud_images().into_iter().find(|image| image.file_name() == IMAGE).unwrap();
    let content = Content::Noise { bytes: 1 << 20, edition: 1 };
    let adding = sim.mirror().add(CloudImage { virtual_size, ..image }, content);
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(adding)).unwrap();
}

pub(super) fn rows() -> Vec<Row> {
    let tables = [creation(), configuration(), power(), locks(), booting::rows()];
    tables.into_iter().flatten().collect()
}

/// Storage and creation.
fn creation() -> Vec<Row> {
    vec![
        row("nothing is broken", Day::new().and_again().run()),
        row(
            "pvesm status fails",
            Day::new().failing("^pvesm status", "ipcc_send_rec failed").and_again().run(),
        ),
        row(
            "qm create fails",
            Day::new()
                .failing("^qm create", "unable to create VM 100 - no space left on device")
                .and_again()
                .run(),
        ),
        row(
            "qm create fails when it has made the VM",
            Day::new()
                .fault(Fault::once(
                    "^qm create",
                    FaultAnswer::Then {
                        stdout: String::new(),
                        stderr: "something else went wrong\n".to_owned(),
                        exit: 255,
                    },
                ))
                .and_again()
                .run(),
        ),
        row(
            "qm create finds its VMID taken by somebody who was faster",
            Day::new()
                .slow("^pvesm status", 500)
                .deed(Deed::Change(
                    Moment {
                        step: "preparation > checking storage pool",
                        says: "",
                        command: "pvesm status",
                    },
                    |rig| rig.sim.change(|world| put_guest(world, 100)),
                ))
                .run(),
        ),
        row(
            "the id that was asked for is taken",
            Day::new()
                .world(|world| put_guest(world, 120))
                .asking(json!({"id": 120}))
                .and_again()
                .run(),
        ),
    ]
}

/// Disk and configuration.
fn configuration() -> Vec<Row> {
    vec![
        row(
            "qm importdisk fails",
            Day::new()
                .failing("^qm importdisk", "importing disk failed - zfs error: out of space")
                .and_again()
                .run(),
        ),
        row(
            "qm importdisk succeeds without a disk",
            Day::new().fault(silently("^qm importdisk", None)).run(),
        ),
        row("qm importdisk is slow", Day::new().slow("^qm importdisk", 1500).run()),
        row(
            "the first qm set fails",
            Day::new().failing("^qm set .*--sshkeys", "invalid key").run(),
        ),
        row(
            "the first qm set fails when it has done half",
            Day::new()
                .fault(Fault::once(
                    "^qm set .*--sshkeys",
                    FaultAnswer::Then {
                        stdout: String::new(),
                        stderr: "half done\n".to_owned(),
                        exit: 255,
                    },
                ))
                .and_again()
                .run(),
        ),
        row(
            "the last qm set fails",
            Day::new().failing("^qm set .*--ipconfig0", "unable to parse").run(),
        ),
        row(
            "qm resize has no effect once, and does not say so",
            Day::new().fault(silently("^qm resize", Some(1))).patience(hasty()).run(),
        ),
        row(
            "qm resize has no effect three times, and does not say so",
            Day::new().fault(silently("^qm resize", None)).patience(hasty()).and_again().run(),
        ),
        row(
            "qm resize makes noise and works",
            Day::new()
                .fault(Fault::once(
                    "^qm resize",
                    FaultAnswer::Then {
                        stdout: String::new(),
                        stderr: "qemu-img: warning: something\n".to_owned(),
                        exit: 0,
                    },
                ))
                .run(),
        ),
        row(
            "the image is larger than what was asked for",
            Day::new().prepared(|sim| larger_image(sim, 40 << 30)).run(),
        ),
    ]
}

/// Start, reboot, and clean-ups that fail themselves.
fn power() -> Vec<Row> {
    vec![
        row(
            "qm start fails",
            Day::new().failing("^qm start", "start failed: QEMU exited with code 1").run(),
        ),
        row(
            "qm start fails outside",
            Day::new()
                .fault(Fault::once(
                    "^qm start",
                    FaultAnswer::Effect("start failed: QEMU exited with code 1".to_owned()),
                ))
                .run(),
        ),
        row(
            "qm reboot fails",
            Day::new().failing("^qm reboot", "VM quit/powerdown failed - got timeout").run(),
        ),
        row(
            "qm destroy fails after a failure",
            Day::new()
                .failing("^qm importdisk", "no space left")
                .failing("^qm destroy", "storage 'local' is not online")
                .run(),
        ),
        row(
            "qm stop and qm destroy fail after a failure",
            Day::new()
                .failing("^qm importdisk", "no space left")
                .failing("^qm (stop|destroy)", "got timeout")
                .run(),
        ),
        row(
            "qm destroy says that it has worked, and has not",
            Day::new()
                .failing("^qm importdisk", "no space left")
                .fault(silently("^qm destroy", None))
                .run(),
        ),
    ]
}

fn locks() -> Vec<Row> {
    let locked = |pattern: &str, times| {
        Fault {
        times,
        ..Fault::always(
            pattern,
            FaultAnswer::Instead {
                stdout: String::new(),
                stderr: "trying to acquire lock...\ncan't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout\n"
                    .to_owned(),
                exit: 255,
            },
        )
    }
    };
    vec![
        row(
            "the VM's lock is held for a while",
            Day::new().fault(locked("^qm set", Some(2))).run(),
        ),
        row(
            "the VM's lock is held for ever",
            Day::new().fault(locked("^qm set", None)).patience(hasty()).and_again().run(),
        ),
        row(
            "the VM's lock is held for a while when it is removed",
            Day::new()
                .failing("^qm importdisk", "no space left")
                .fault(locked("^qm (stop|destroy)", Some(3)))
                .run(),
        ),
        row(
            "the VM's lock is held for ever when it is removed",
            Day::new()
                .failing("^qm importdisk", "no space left")
                .fault(locked("^qm (stop|destroy)", None))
                .patience(hasty())
                .run(),
        ),
    ]
}
