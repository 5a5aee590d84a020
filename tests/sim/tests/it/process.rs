//! The simulator as a process: faces, locks, faults, the recorder.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::sim::Fault;
use pve_sim::sim::FaultAnswer;

fn config() -> Config {
    Config { program: Some(env!("CARGO_BIN_EXE_pve-sim").into()), ..Config::default() }
}

/// Runs a command line as a client would: by its name, in an environment of its own.
async fn run(sim: &Sim, line: &str) -> Output {
    let mut words = line.split(' ');
    let program = sim.bin_directory().join(words.next().unwrap());
    tokio::process::Command::new(program)
        .args(words)
        .env_clear()
        .env("SECRET", "planted")
        .output()
        .await
        .unwrap()
}

/// Exit code, standard output, standard error.
async fn said(sim: &Sim, line: &str) -> String {
    let output = run(sim, line).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{} {:?} {:?}",
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr)
    )
}

fn file(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_face_prints_exits_and_is_recorded_with_its_environment() {
    let sim = Sim::start(config()).await.unwrap();
    assert_eq!(said(&sim, "qm create 100 --name web --description a:b").await, r#"0 "" """#);
    assert_eq!(
        said(&sim, "qm create 100").await,
        r#"255 "" "unable to create VM 100 - VM 100 already exists on node 'pve1'\n""#
    );
    let configuration = file(&sim.pve_directory().join("qemu-server/100.conf"));
    assert!(configuration.starts_with("#a%3Ab\n"), "{configuration}");
    let commands = sim.commands();
    let seen: Vec<(String, Option<i32>, Option<&str>)> = commands
        .iter()
        .map(|one| (one.line(), one.exit, one.environment.get("SECRET").map(String::as_str)))
        .collect();
    assert_eq!(
        seen,
        [
            ("qm create 100 --name web --description a:b".to_owned(), Some(0), Some("planted")),
            ("qm create 100".to_owned(), Some(255), Some("planted")),
        ]
    );
    let log = file(&sim.directory().join("log/commands.jsonl"));
    assert_eq!(log.lines().count(), 2);
    let directory = sim.directory().to_owned();
    sim.stop().await;
    assert!(!directory.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_answer_in_place_of_a_command_after_it_or_for_the_hypervisor() {
    let sim = Sim::start(config()).await.unwrap();
    sim.faults().add(Fault { times: Some(1), ..Fault::fails("^qm create 100", "no", 7) });
    assert_eq!(said(&sim, "qm create 100").await, r#"7 "" "no\n""#);
    assert!(sim.world(|world| world.guests.is_empty()));
    let then = FaultAnswer::Then { stdout: String::new(), stderr: "late\n".to_owned(), exit: 9 };
    sim.faults().add(Fault::once("^qm create", then));
    assert_eq!(said(&sim, "qm create 100").await, r#"9 "" "late\n""#);
    assert!(sim.world(|world| world.guests.contains_key(&100)));
    let text = "start failed: QEMU exited with code 1".to_owned();
    sim.faults().add(Fault::once("^qm start", FaultAnswer::Effect(text)));
    assert_eq!(
        said(&sim, "qm start 100").await,
        r#"255 "" "start failed: QEMU exited with code 1\n""#
    );
    assert_eq!(said(&sim, "qm status 100").await, r#"0 "status: stopped\n" """#);
    assert_eq!(said(&sim, "qm start 100").await, r#"0 "" """#);
    assert_eq!(said(&sim, "qm status 100").await, r#"0 "status: running\n" """#);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_commands_on_one_vm_wait_for_each_other_and_give_up() {
    let patience = Duration::from_millis(300);
    let sim = Sim::start(Config { lock_patience: patience, ..config() }).await.unwrap();
    assert_eq!(said(&sim, "qm create 100").await, r#"0 "" """#);
    sim.set_latency(Duration::from_millis(200));
    let answers =
        tokio::join!(said(&sim, "qm set 100 --cores 2"), said(&sim, "qm set 100 --cores 3"));
    let waited = "trying to acquire lock...\\n OK\\n";
    let one = [&answers.0, &answers.1].iter().filter(|answer| answer.contains(waited)).count();
    assert_eq!(one, 1, "{answers:?}");
    sim.faults().add(Fault::once("--cores 4", FaultAnswer::DoneThenHang));
    let hanging = tokio::process::Command::new(sim.bin_directory().join("qm"))
        .args(["set", "100", "--cores", "4"])
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let held = || sim.world(|world| world.guests[&100].configuration.get("cores") == Some("4"));
    tokio::time::timeout(Duration::from_secs(10), async {
        while !held() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(
        said(&sim, "qm set 100 --cores 5").await,
        "4 \"\" \"trying to acquire lock...\\ncan't lock file \
         '/var/lock/qemu-server/lock-100.conf' - got timeout\\n\""
    );
    assert!(!sim.commands().iter().any(|one| one.abandoned));
    drop(hanging);
    tokio::time::timeout(Duration::from_secs(10), async {
        while !sim.commands().iter().any(|one| one.abandoned && one.line().ends_with('4')) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migrated_vm_has_its_file_and_its_commands_on_the_other_node() {
    let nodes = vec!["pve1".to_owned(), "pve2".to_owned()];
    let sim = Sim::start(Config { nodes, ..config() }).await.unwrap();
    said(&sim, "qm create 100 --scsi0 local:1").await;
    assert!(said(&sim, "qm migrate 100 pve2").await.starts_with("0 "));
    let pve = sim.pve_directory();
    assert!(!pve.join("qemu-server/100.conf").exists());
    assert!(pve.join("nodes/pve2/qemu-server/100.conf").exists());
    assert!(file(&pve.join(".members")).contains("\"quorate\": 1"));
    assert_eq!(
        said(&sim, "qm config 100").await,
        r#"2 "" "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist\n""#
    );
    sim.change(|world| {
        if let Some(cluster) = &mut world.cluster {
            cluster.quorate = false;
        }
    });
    assert!(file(&pve.join(".members")).contains("\"quorate\": 0"));
    assert_eq!(said(&sim, "qm create 101").await, r#"255 "" "cluster not ready - no quorum?\n""#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_power_takes_its_guests_and_the_quorum_along() {
    let nodes = vec!["pve1".to_owned(), "pve2".to_owned()];
    let sim = Sim::start(Config { nodes, ..config() }).await.unwrap();
    said(&sim, "qm create 100").await;
    said(&sim, "qm migrate 100 pve2").await;
    assert!(sim.known_hosts().contains("pve2"));
    sim.take_down("pve2").await;
    let members = file(&sim.pve_directory().join(".members"));
    assert!(members.contains("\"pve2\": { \"id\": 2, \"online\": 0"), "{members}");
    assert_eq!(
        said(&sim, "pvesh get /nodes/pve2/status --output-format json").await,
        r#"255 "" "No route to host\n""#
    );
    assert_eq!(said(&sim, "qm create 101").await, r#"255 "" "cluster not ready - no quorum?\n""#);
    assert!(!sim.known_hosts().contains("pve2"));
}
