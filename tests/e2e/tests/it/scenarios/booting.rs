//! VMs that boot badly or not at all: readiness, cloud-init, init script, reboot.

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
use serde_json::json;

use super::day::Day;
use super::day::IMAGE;
use super::failures::hasty;
use super::table::Row;
use super::table::row;

/// To be run as a part of the failures.
pub(super) fn rows() -> Vec<Row> {
    [readiness(), initialization()].into_iter().flatten().collect()
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

/// Adds a system to the catalogue that the product has no script for.
fn another_system(sim: &mut Sim) {
    let mut catalogue = std::fs::read_to_string(sim.images_file()).unwrap();
    let url = catalogue.lines().find(|line| line.contains(IMAGE)).unwrap().to_owned();
    let entry = ["[[image]]", "os = \"arch\"", "version = \"1\"", &url, "user = \"arch\""];
    catalogue.push_str(&entry.join("\n"));
    std::fs::write(sim.images_file(), catalogue).unwrap();
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
                .guest(first_boot(Boot { resets: Duration::from_mins(1), ..boot() }))
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
                .guest(Behaviour { lingers: Duration::from_mins(1), ..Behaviour::default() })
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
        row(
            "the init script leaves a process behind",
            // Less than the hour that scripts have, more than a silence that ends the wait.
            Day::new()
                .guest(ending(End::LeavesProcess(0)))
                .patience(Patience { script: Duration::from_mins(1), ..hasty() })
                .run(),
        ),
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
