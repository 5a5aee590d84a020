//! Each step failing: what is told, what is left, what is run.

use std::time::Duration;

use pve_provision::install::Patience;
use pve_sim::Sim;
use pve_sim::guest::Behaviour;
use pve_sim::guest::Boot;
use pve_sim::guest::CloudInit;
use pve_sim::guest::CloudInitEnd;
use pve_sim::guest::End;
use pve_sim::guest::HostKey;
use pve_sim::guest::Play;
use pve_sim::guest::Script;
use pve_sim::guest::When;
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

/// Adds a system to the catalogue that the product has no script for.
fn another_system(sim: &mut Sim) {
    let mut catalogue = std::fs::read_to_string(sim.images_file()).unwrap();
    let url = catalogue.lines().find(|line| line.contains(IMAGE)).unwrap().to_owned();
    catalogue += &format!("\n[[image]]\nos = \"arch\"\nversion = \"1\"\n{url}\nuser = \"arch\"\n");
    std::fs::write(sim.images_file(), catalogue).unwrap();
}

fn first_boot(boot: Boot) -> Behaviour {
    Behaviour { first: boot, ..Behaviour::default() }
}

fn script(script: Script) -> Behaviour {
    Behaviour { script, ..Behaviour::default() }
}

fn cloud_init(end: CloudInitEnd) -> Behaviour {
    Behaviour { cloud_init: CloudInit { end, ..CloudInit::default() }, ..Behaviour::default() }
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(commands());
    rows.extend(locks());
    rows.extend(readiness());
    rows.extend(initialization());
    rows
}

fn commands() -> Vec<Row> {
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

fn readiness() -> Vec<Row> {
    let boot = Boot::default;
    let after = |milliseconds| When::After(Duration::from_millis(milliseconds));
    vec![
        row(
            "the SSH port never opens",
            Day::new()
                .guest(first_boot(Boot { port: When::Never, ..boot() }))
                .patience(hasty())
                .run(),
        ),
        row(
            "the SSH port is open and never says anything",
            Day::new()
                .guest(first_boot(Boot { banner: When::Never, ..boot() }))
                .patience(Patience { ready: Duration::from_secs(5), ..hasty() })
                .run(),
        ),
        row(
            "every connection is reset",
            Day::new()
                .guest(first_boot(Boot { resets: Duration::from_secs(60), ..boot() }))
                .patience(hasty())
                .run(),
        ),
        row(
            "connections are reset for a while",
            Day::new()
                .guest(first_boot(Boot { resets: Duration::from_millis(1500), ..boot() }))
                .run(),
        ),
        row(
            "the login is refused for a while",
            Day::new()
                .guest(first_boot(Boot { login: after(1500), ..boot() }))
                .patience(Patience { ready: Duration::from_secs(20), ..hasty() })
                .run(),
        ),
        row(
            "the login is refused for ever",
            Day::new()
                .guest(first_boot(Boot { login: When::Never, ..boot() }))
                .patience(hasty())
                .run(),
        ),
        row(
            "the host key changes after the first login",
            Day::new()
                .guest(Behaviour { host_key: HostKey::NewAfterFirstLogin, ..Behaviour::default() })
                .run(),
        ),
        row(
            "the old boot answers for a while after the reboot",
            Day::new()
                .guest(Behaviour { lingers: Duration::from_millis(1500), ..Behaviour::default() })
                .run(),
        ),
        row(
            "the reboot never comes",
            Day::new()
                .guest(Behaviour { lingers: Duration::from_secs(60), ..Behaviour::default() })
                .patience(Patience { ready: Duration::from_secs(4), ..hasty() })
                .run(),
        ),
        row(
            "the VM does not come back from its reboot",
            Day::new()
                .guest(Behaviour {
                    again: Boot { port: When::Never, ..boot() },
                    ..Behaviour::default()
                })
                .patience(Patience { ready: Duration::from_secs(4), ..hasty() })
                .run(),
        ),
        row(
            "the VM's status cannot be asked when it is not ready",
            Day::new()
                .guest(first_boot(Boot { port: When::Never, ..boot() }))
                .failing("^qm status", "ipcc_send_rec failed")
                .patience(hasty())
                .run(),
        ),
    ]
}

fn initialization() -> Vec<Row> {
    let ending = |end| script(Script { end, ..Script::default() });
    vec![
        row(
            "cloud-init fails",
            Day::new().guest(cloud_init(CloudInitEnd::Failed)).and_again().run(),
        ),
        row(
            "cloud-init has recovered from errors",
            Day::new().guest(cloud_init(CloudInitEnd::Degraded)).run(),
        ),
        row("there is no cloud-init", Day::new().guest(cloud_init(CloudInitEnd::Missing)).run()),
        row(
            "cloud-init never ends",
            Day::new().guest(cloud_init(CloudInitEnd::Hangs)).patience(hasty()).and_again().run(),
        ),
        row("the init script exits 3", Day::new().guest(ending(End::Code(3))).and_again().run()),
        row("the init script is killed", Day::new().guest(ending(End::Killed)).run()),
        row(
            "the connection is reset in the init script",
            Day::new().guest(ending(End::LinkReset)).run(),
        ),
        row(
            "the init script never ends",
            Day::new().guest(ending(End::Hangs)).patience(hasty()).run(),
        ),
        row(
            "there is no init script for the operating system",
            Day::new().prepared(another_system).asking(json!({"os": "arch", "version": "1"})).run(),
        ),
        row(
            "the init script writes what is no text",
            Day::new()
                .guest(script(Script {
                    lines: vec![
                        Play::out("quotes \" and ' and tab\t and backslash \\ and bell \x07\n"),
                        Play::out(&b"half of \xc3\n"[..]),
                        Play::err("a line without an end".as_bytes()),
                    ],
                    end: End::Code(0),
                }))
                .run(),
        ),
    ]
}
