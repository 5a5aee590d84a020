//! One install from the request to the last event: what is streamed, what is run, what comes out.

use pve_e2e::redact::transcript;
use pve_e2e::rig::Install;
use pve_e2e::rig::Rig;
use pve_sim::Config;
use serde_json::Value;
use serde_json::json;

use crate::specification::table;

const PASSWORD: &str = r#"it's "$HOME" \ ü"#;
const ROOT_PASSWORD: &str = "root's own $ecret";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqMVqgNWqLUVhzCW+zTI2SRHOvXFI8Vq2bZNf9W9qCn you@example.org";

fn request() -> Value {
    json!({
        "name": "web", "os": "debian", "version": "12", "cpu": 2, "ram": 2048, "disk": "20G",
        "user": "deploy", "passwd": PASSWORD, "pubkey": KEY,
    })
}

async fn installed(settings: &[(&str, &str)]) -> (Rig, Install) {
    let rig = Rig::start(Config::default(), settings).await.unwrap();
    let install = rig.install(&request()).await.unwrap();
    assert!(install.succeeded(), "{}\n{}", install.raw, rig.place.log());
    (rig, install)
}

#[tokio::test]
async fn an_install_streams_these_events() {
    let (rig, install) = installed(&[]).await;
    let text = transcript(&install.messages).replace(&rig.sim.gateway().to_string(), "127.0.0.1");
    insta::assert_snapshot!(text, @"");
}

#[tokio::test]
async fn the_stream_has_ids_without_gaps_and_three_keys_in_order() {
    let (_rig, install) = installed(&[]).await;
    for (number, message) in install.messages.iter().enumerate() {
        assert_eq!(message.id, Some(number.to_string()), "{message:?}");
        let keys: Vec<String> = match serde_json::from_str(&message.data).unwrap() {
            Value::Object(object) => object.keys().cloned().collect(),
            other => panic!("{other}"),
        };
        let wanted: &[&str] = if message.is_close() { &[] } else { &["step", "status", "message"] };
        assert_eq!(keys, wanted);
    }
}

#[tokio::test]
async fn an_install_runs_these_commands_and_no_others() {
    let (rig, _) = installed(&[]).await;
    let commands = foreground(&rig);
    insta::assert_snapshot!(commands.join("\n"), @"");
}

#[tokio::test]
async fn qm_create_has_the_arguments_of_the_specification() {
    let (rig, _) = installed(&[]).await;
    let create = foreground(&rig).into_iter().find(|line| line.starts_with("qm create")).unwrap();
    for row in table("Argument") {
        let (option, value) = (&row[0], row[1].trim_matches('`'));
        let fixed = match option.as_str() {
            "--cores" => "2",
            "--memory" => "2048",
            "--cpu" => "",
            _ => value,
        };
        assert!(
            create.contains(&format!("{option} {fixed}")),
            "{option} {fixed} is not in {create}"
        );
    }
}

/// The commands of the installs; reads that run in the background are left aside.
fn foreground(rig: &Rig) -> Vec<String> {
    let calls = rig.sim.commands().into_iter().filter(|call| call.program != "pvesh");
    calls.map(|call| format!("{} {}", call.program, call.arguments.join(" "))).collect()
}

#[tokio::test]
async fn a_planted_leak_is_found_and_an_install_has_none() {
    let settings = [("VM_ROOT_PASSWORD", ROOT_PASSWORD), ("API_TOKEN", "")];
    let (rig, install) = installed(&settings).await;
    let secrets = [PASSWORD, ROOT_PASSWORD];
    assert_eq!(rig.leaks(&install.raw, &secrets).unwrap(), Vec::<String>::new());

    // Each way out, on purpose.
    plant(&rig, "qm", &["list", "--full", PASSWORD], ("LC_ALL", "C")).await;
    plant(&rig, "pvesm", &["status"], ("SECRET", ROOT_PASSWORD)).await;
    plant(&rig, "ssh", &["-V", PASSWORD], ("LC_ALL", "C")).await;
    plant(&rig, "ssh", &["-V"], ("SECRET", ROOT_PASSWORD)).await;
    plant(&rig, "ssh-keygen", &["-l", "-f", ROOT_PASSWORD], ("LC_ALL", "C")).await;
    let found = rig.leaks(&install.raw, &secrets).unwrap();
    assert_eq!(found.len(), 5, "{found:#?}");
    assert_eq!(rig.leaks(&format!("data: {PASSWORD}"), &secrets).unwrap().len(), 6);
}

/// Runs a program as the server would find it.
async fn plant(rig: &Rig, program: &str, arguments: &[&str], variable: (&str, &str)) {
    let mut command = tokio::process::Command::new(rig.place.find(program).unwrap());
    command.args(arguments).env_clear().envs(rig.place.commands_environment()).envs([variable]);
    // How it ends is of no interest.
    command.output().await.unwrap();
}
