//! Acted guests, seen through the real OpenSSH client.

use std::time::Duration;

use super::Behaviour;
use super::Boot;
use super::CloudInit;
use super::CloudInitEnd;
use super::End;
use super::Ended;
use super::Guests;
use super::HostKey;
use super::Play;
use super::Script;
use super::When;
use crate::effect::GuestSpec;
use crate::testing::Client;
use crate::testing::Network;
use crate::testing::until;

/// Longer than any test waits.
const FOR_EVER: Duration = Duration::from_hours(1);

/// The wrapper with which a command tells its process id before it begins.
const ANNOUNCED: &str = r#"setsid --wait sh -c 'echo $$ >&2; exec "$@"' sh"#;

struct Stage {
    guests: Guests,
    client: Client,
    network: Network,
}

impl Stage {
    fn new() -> Self {
        let network = Network::claim();
        Self { guests: Guests::new(network.port()), client: Client::new(&network), network }
    }

    fn spec(&self, vmid: u32) -> GuestSpec {
        GuestSpec {
            vmid,
            name: format!("web-{vmid}"),
            user: Some("debian".to_owned()),
            keys: vec!["# a line that is no key".to_owned(), self.client.public_key()],
            address: Some(self.network.address(vmid)),
            prefix: Some(24),
            ..GuestSpec::default()
        }
    }

    async fn start(&self, behaviour: Behaviour) {
        self.guests.start(self.spec(100), behaviour).await.unwrap();
    }

    /// Waits until a login would succeed.
    async fn ready(&self) {
        until("a login is possible", || {
            let seen = self.guests.seen(100);
            seen.boots
                .last()
                .and_then(|boot| boot.login_possible)
                .is_some_and(|at| at <= std::time::SystemTime::now())
        })
        .await;
    }

    async fn started(behaviour: Behaviour) -> Self {
        let stage = Self::new();
        stage.start(behaviour).await;
        stage.ready().await;
        stage
    }

    async fn run(&self, command: &str) -> crate::testing::Answer {
        self.client.run("debian", 100, command, b"").await
    }
}

fn boot(boot: Boot) -> Behaviour {
    Behaviour { first: boot, ..Behaviour::default() }
}

fn script(lines: Vec<Play>, end: End) -> Behaviour {
    Behaviour { script: Script { lines, end }, ..Behaviour::default() }
}

#[tokio::test]
async fn a_good_guest_is_set_up_by_one_login_after_the_other() {
    let stage = Stage::started(Behaviour::default()).await;

    let waited = stage.run("cloud-init status --wait").await;
    assert_eq!((waited.code, waited.out()), (Some(0), "....\nstatus: done\n"));

    let id = stage.run("cat /proc/sys/kernel/random/boot_id").await;
    assert_eq!(id.out().trim_end(), stage.guests.seen(100).boots[0].id);

    let script =
        stage.client.run("debian", 100, "sudo -n bash -s -- Etc/UTC", b"read -r password\n").await;
    assert_eq!(script.code, Some(0));
    assert_eq!(script.out().lines().count(), 2);
    assert_eq!(script.err().lines().count(), 1);

    let seen = stage.guests.seen(100);
    assert_eq!(seen.scripts().collect::<Vec<_>>(), [b"read -r password\n"]);
    assert_eq!(seen.logins.len(), 3);
    assert_eq!(seen.running().count(), 0);
}

#[tokio::test]
async fn a_guest_executes_nothing() {
    let stage = Stage::started(Behaviour::default()).await;
    let made = stage.client.directory().join("made");
    let answer = stage.run(&format!("touch {}", made.display())).await;
    assert_eq!(answer.code, Some(127));
    assert_eq!(answer.err(), "bash: line 1: touch: command not found\n");
    assert!(!made.exists());
}

#[tokio::test]
async fn only_the_configured_user_gets_in_and_only_with_a_configured_key() {
    let stage = Stage::started(Behaviour::default()).await;
    let stranger = Client::new(&stage.network);
    for (client, user) in
        [(&stranger, "debian"), (&stage.client, "root"), (&stage.client, "ubuntu")]
    {
        let answer = client.run(user, 100, "true", b"").await;
        assert_eq!(answer.code, Some(255));
        assert!(answer.err().contains("Permission denied (publickey)"), "{}", answer.err());
    }
    until("the refusals are noted", || stage.guests.seen(100).refusals.len() == 3).await;
}

#[tokio::test]
async fn root_gets_in_where_that_is_said() {
    let stage = Stage::started(Behaviour { root: true, ..Behaviour::default() }).await;
    assert_eq!(stage.client.run("root", 100, "true", b"").await.code, Some(0));
}

#[tokio::test]
async fn without_a_configured_user_the_images_own_is_meant() {
    let stage = Stage::new();
    let spec = GuestSpec { user: None, tags: Some("rockylinux".to_owned()), ..stage.spec(100) };
    stage.guests.start(spec, Behaviour::default()).await.unwrap();
    stage.ready().await;
    assert_eq!(stage.client.run("rocky", 100, "true", b"").await.code, Some(0));
}

#[tokio::test]
async fn each_phase_of_a_boot_shows_itself_to_ssh_as_in_life() {
    let rows = [
        (Boot { port: When::Never, ..Boot::READY }, "Connection refused"),
        (Boot { resets: FOR_EVER, ..Boot::READY }, "Connection reset by peer"),
        (Boot { banner: When::Never, ..Boot::READY }, "timed out during banner exchange"),
        (Boot { login: When::Never, ..Boot::READY }, "Permission denied (publickey)"),
        (Boot { login: When::After(FOR_EVER), ..Boot::READY }, "Permission denied (publickey)"),
    ];
    for (plan, text) in rows {
        let stage = Stage::new();
        let opens = plan.port != When::Never;
        stage.start(boot(plan.clone())).await;
        until("the port is in its state", || {
            let seen = stage.guests.seen(100);
            seen.boots.last().is_some_and(|boot| boot.port_open.is_some() == opens)
        })
        .await;
        let answer = stage.run("true").await;
        assert_eq!(answer.code, Some(255));
        assert!(answer.err().contains(text), "{plan:?}: {}", answer.err());
    }
}

#[tokio::test]
async fn a_boot_goes_through_its_phases_by_itself() {
    let pause = Duration::from_millis(100);
    let stage = Stage::new();
    let plan = Boot {
        port: When::Between(pause, pause * 2),
        resets: pause,
        banner: When::After(pause),
        login: When::After(pause),
    };
    stage.start(boot(plan)).await;
    stage.ready().await;
    assert_eq!(stage.run("true").await.code, Some(0));
    let boot = stage.guests.seen(100).boots.remove(0);
    let open = boot.port_open.unwrap();
    assert!(open.duration_since(boot.began).unwrap() >= pause);
    assert_eq!(boot.login_possible.unwrap().duration_since(open).unwrap(), pause * 3);
}

#[tokio::test]
async fn cloud_init_ends_as_it_is_told_to() {
    let rows = [
        (CloudInitEnd::Done, 0),
        (CloudInitEnd::Failed, 1),
        (CloudInitEnd::Degraded, 2),
        (CloudInitEnd::Missing, 127),
    ];
    for (end, code) in rows {
        let cloud_init = CloudInit { end, ..CloudInit::default() };
        let stage = Stage::started(Behaviour { cloud_init, ..Behaviour::default() }).await;
        assert_eq!(stage.run("cloud-init status --wait").await.code, Some(code));
    }
}

#[tokio::test]
async fn a_cloud_init_that_hangs_can_be_killed_by_the_process_id_that_was_announced() {
    let cloud_init = CloudInit { end: CloudInitEnd::Hangs, ..CloudInit::default() };
    let stage = Stage::started(Behaviour { cloud_init, ..Behaviour::default() }).await;
    let command = format!("{ANNOUNCED} cloud-init status --wait");
    let waiting = stage.run(&command);
    let killing = async {
        until("the wait runs", || stage.guests.seen(100).running().count() == 1).await;
        assert_eq!(stage.run("cloud-init status").await.out(), "status: running\n");
        let process = stage.guests.seen(100).running().next().unwrap().process;
        stage.run(&format!("kill -TERM -- -{process}")).await
    };
    let (waited, killed) = tokio::join!(waiting, killing);
    assert_eq!(killed.code, Some(0));
    assert_eq!(waited.code, Some(255));
    let first = stage.guests.seen(100).commands.remove(0);
    assert_eq!(waited.err().lines().next(), Some(first.process.to_string().as_str()));
    assert_eq!(first.ended.unwrap().1, Ended::Killed);
}

#[tokio::test]
async fn a_command_that_its_client_leaves_runs_on() {
    let stage = Stage::started(script(Vec::new(), End::Hangs)).await;
    let mut child = stage.client.spawn("debian", 100, &["sudo", "-n", "bash", "-s"]);
    until("the script runs", || {
        stage.guests.seen(100).running().any(|command| command.script.is_some())
    })
    .await;
    child.kill().await.unwrap();
    assert_eq!(stage.run("true").await.code, Some(0));
    assert_eq!(stage.guests.seen(100).running().count(), 1);
    stage.guests.stop(100).await;
    until("the power is off", || stage.guests.seen(100).running().count() == 0).await;
    assert_eq!(stage.guests.seen(100).commands[0].ended.unwrap().1, Ended::PowerOff);
}

#[tokio::test]
async fn what_a_script_says_arrives_byte_by_byte_on_both_streams() {
    let long = vec![b'x'; 1_000_000];
    let lines = vec![
        Play::out("quotes ' \" tab \t backslash \\ dollar $\n"),
        Play::err(&b"half a sequence \xc3"[..]),
        Play::out(long.clone()),
        Play::err(&b"\xa4 and its other half\n"[..]),
        Play::out("\nno line end"),
    ];
    let stage = Stage::started(script(lines, End::Code(3))).await;
    let answer = stage.run("sudo -n bash -s").await;
    assert_eq!(answer.code, Some(3));
    assert_eq!(answer.err(), "half a sequence ä and its other half\n");
    let expected =
        [&b"quotes ' \" tab \t backslash \\ dollar $\n"[..], &long, b"\nno line end"].concat();
    assert!(
        answer.stdout == expected,
        "{} bytes arrived, {} were said",
        answer.stdout.len(),
        expected.len()
    );
}

#[tokio::test]
async fn two_fast_streams_lose_nothing() {
    let said = |letter: char| (0..5000).map(move |number| format!("{letter}{number}\n"));
    let lines = said('o').zip(said('e')).flat_map(|(out, err)| [Play::out(out), Play::err(err)]);
    let stage = Stage::started(script(lines.collect(), End::Code(0))).await;
    let answer = stage.run("sudo -n bash -s").await;
    assert!(answer.out() == said('o').collect::<String>());
    assert!(answer.err() == said('e').collect::<String>());
}

#[tokio::test]
async fn a_link_can_be_lost_under_a_script() {
    for end in [End::LinkReset, End::LinkSilent, End::Killed] {
        let stage = Stage::started(script(vec![Play::out("half\n")], end)).await;
        let answer = stage.run("sudo -n bash -s").await;
        assert_eq!((answer.code, answer.out()), (Some(255), "half\n"), "{end:?}: {}", answer.err());
    }
}

#[tokio::test]
async fn a_host_key_that_changes_is_noticed() {
    let behaviour = Behaviour { host_key: HostKey::NewAfterFirstLogin, ..Behaviour::default() };
    let stage = Stage::started(behaviour).await;
    assert_eq!(stage.run("true").await.code, Some(0));
    let again = stage.run("true").await;
    assert_eq!(again.code, Some(255));
    assert!(again.err().contains("HOST IDENTIFICATION HAS CHANGED"), "{}", again.err());
}

#[tokio::test]
async fn after_a_reboot_the_boot_id_is_new_and_the_host_key_is_not() {
    let stage = Stage::started(Behaviour::default()).await;
    let old = stage.run("cat /proc/sys/kernel/random/boot_id").await;
    stage.guests.reboot(stage.spec(100), FOR_EVER).await.unwrap();
    until("the second boot has begun", || stage.guests.seen(100).boots.len() == 2).await;
    stage.ready().await;
    let new = stage.run("cat /proc/sys/kernel/random/boot_id").await;
    assert_eq!(new.code, Some(0), "{}", new.err());
    assert_ne!(old.out(), new.out());
    assert_eq!(stage.guests.seen(100).boots[1].id, new.out().trim_end());
}

#[tokio::test]
async fn an_old_boot_that_lingers_still_answers_with_its_own_id() {
    let stage = Stage::started(Behaviour { lingers: FOR_EVER, ..Behaviour::default() }).await;
    let old = stage.run("cat /proc/sys/kernel/random/boot_id").await;
    stage.guests.reboot(stage.spec(100), FOR_EVER).await.unwrap();
    let still = stage.run("cat /proc/sys/kernel/random/boot_id").await;
    assert_eq!(old.out(), still.out());
}

#[tokio::test]
async fn a_guest_that_ignores_the_power_button_stays_up() {
    let stage = Stage::started(Behaviour { powers_off: When::Never, ..Behaviour::default() }).await;
    let error = stage.guests.shut_down(100, Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.to_string(), "VM quit/powerdown failed - got timeout");
    assert!(stage.guests.is_on(100));
    assert_eq!(stage.run("true").await.code, Some(0));
}

#[tokio::test]
async fn a_guest_without_power_answers_nobody() {
    let stage = Stage::started(Behaviour::default()).await;
    stage.guests.shut_down(100, FOR_EVER).await.unwrap();
    let answer = stage.run("true").await;
    assert!(answer.err().contains("Connection refused"), "{}", answer.err());
    stage.start(Behaviour::default()).await;
    stage.ready().await;
    assert_eq!(stage.run("true").await.code, Some(0));
}

#[tokio::test]
async fn one_connection_carries_several_commands_at_once() {
    let stage = Stage::started(script(vec![Play::out("half\n")], End::Hangs)).await;
    let master = stage.client.master("debian", 100).await;
    let hanging = stage.client.spawn_over(&master, &["sudo", "-n", "bash", "-s"]);
    until("the script runs", || {
        stage.guests.seen(100).running().any(|command| command.script.is_some())
    })
    .await;
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let (first, second) =
        tokio::join!(stage.client.run_over(&master, boot), stage.client.run_over(&master, boot));
    assert_eq!(first.code, Some(0), "{}", first.err());
    assert_eq!(first.out(), second.out());
    assert_eq!(stage.guests.seen(100).connections.len(), 1);
    drop(hanging);
    stage.client.leave(master).await;
}

/// Names the one test that runs in a network namespace of its own.
const INSIDE: &str = "guest::tests::an_address_is_silent_without_its_guest";

#[test]
fn an_address_on_an_interface_comes_and_goes_with_its_guest() {
    let root = std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let mut command = std::process::Command::new("unshare");
    command.arg("--net").args((!root).then_some("--map-root-user"));
    command.arg(std::env::current_exe().unwrap()).args(["--ignored", "--exact", INSIDE]);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test]
#[ignore = "changes the addresses of the machine; it is run inside a network namespace by another test"]
async fn an_address_is_silent_without_its_guest() {
    for line in [
        "link set lo up",
        "link add vmbr0 type bridge",
        "address add 10.77.0.1/24 dev vmbr0",
        "link set vmbr0 up",
    ] {
        assert!(
            std::process::Command::new("ip").args(line.split(' ')).status().unwrap().success(),
            "{line}"
        );
    }
    let network = Network::named([10, 77, 0]);
    let guests = Guests::on_interface(network.port(), "vmbr0");
    let stage = Stage { guests, client: Client::new(&network), network };
    let silent = async || {
        let connect =
            tokio::net::TcpStream::connect((stage.network.address(100), stage.network.port()));
        tokio::time::timeout(Duration::from_millis(200), connect).await.is_err()
    };
    assert!(silent().await);
    stage.start(Behaviour::default()).await;
    stage.ready().await;
    assert_eq!(stage.run("true").await.code, Some(0));
    stage.guests.stop(100).await;
    assert!(silent().await);
}
