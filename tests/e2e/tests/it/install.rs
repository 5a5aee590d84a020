//! One install from the request to the last event: what is streamed, what is run, what comes out.

use pve_e2e::redact::transcript;
use pve_e2e::rig::Install;
use pve_e2e::rig::Rig;
use pve_sim::Config;
use pve_sim::guest::Behaviour;
use pve_sim::guest::Play;
use pve_sim::guest::Script;
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
    // On one stream alone: the order of two is not kept.
    let lines = [
        "Hit:1 http://deb.example.org/debian stable InRelease\n",
        "Setting up qemu-guest-agent ...\n",
    ];
    let script = Script { lines: lines.map(Play::out).into(), ..Script::default() };
    let behaviour = Behaviour { script, ..Behaviour::default() };
    let rig = Rig::start(Config { behaviour, ..Config::default() }, settings).await.unwrap();
    let install = rig.install(&request()).await.unwrap();
    assert!(install.succeeded(), "{}\n{}", install.raw, rig.place.log());
    (rig, install)
}

#[tokio::test]
async fn an_install_streams_these_events() {
    let (rig, install) = installed(&[]).await;
    let text = rig.neutral(&install.job, &transcript(&install.messages));
    insta::assert_snapshot!(text, @r"
    preparation > checking VMID
        processing [*] looking for a VMID
        success    [+] VMID 100, free
    preparation > assigning IP
        processing [*] deriving the address from the VMID
        success    [+] IP 192.0.2.100/24
    preparation > validating CPU and RAM
        processing [*] checking cpu and ram against the limits
        success    [+] cpu 2, ram 2048 MiB
    preparation > validating disk size
        processing [*] checking the disk size against the limits
        success    [+] disk 20G
    preparation > setting default config values
        processing [*] filling in what was left out
        success    [+] name web-100, user deploy
    preparation > checking storage pool
        processing [*] checking storage local
        success    [+] storage local is active (dir)
    OS preparation > getting OS image
        processing [*] looking up the image of debian 12
        success    [+] http://mirror.example.org/images/cloud/bookworm/latest/debian-12-generic-amd64.qcow2
    OS preparation > validating OS image URL
        processing [*] asking http://mirror.example.org/images/cloud/bookworm/latest/debian-12-generic-amd64.qcow2 for it
        success    [+] the publisher has it
    OS preparation > downloading OS image
        processing [*] downloading debian-12-generic-amd64.qcow2
        processing [*] # of # MiB, # MiB/s
        success    [+] <place>/images/debian-12-generic-amd64.qcow2 is whole and verified
    SSH preparation > checking SSH key
        processing [*] looking for the node's SSH key
        processing [*] there was none: <place>/home/.ssh/id_ed25519 was made
        success    [+] <place>/home/.ssh/id_ed25519
    VM creation > creating VM
        processing [*] creating VM web-100
        processing [*] CPU type: x86-64-v4
        success    [+] VM 100 is created, CPU type x86-64-v4
    VM creation > importing disk image
        processing [*] importing <place>/images/debian-12-generic-amd64.qcow2 into local
        processing   importing disk '<place>/images/debian-12-generic-amd64.qcow2' to VM 100 ...
        processing   Formatting '/var/lib/vz/images/100/vm-100-disk-0.raw', fmt=raw size=3221225472 preallocation=off
        processing   unused0: successfully imported disk 'local:100/vm-100-disk-0.raw'
        success    [+] the disk is local:100/vm-100-disk-0.raw
    VM initialization > initializing configuration
        processing [*] setting user, keys, password and disk
        success    [+] user deploy, disk of 20G, ip=192.0.2.100/24,gw=192.0.2.1
    VM initialization > waiting for ready
        processing [*] starting VM 100 on pve1
        processing   generating cloud-init ISO
        processing [*] waiting for a login as deploy@192.0.2.100
        success    [+] logged in as deploy@192.0.2.100
    VM initialization > SSH initialization
        processing [*] waiting for cloud-init
        processing   status: done
        processing [*] running the init script of debian 12
        processing   Hit:1 http://deb.example.org/debian stable InRelease
        processing   Setting up qemu-guest-agent ...
        success    [+] the init script has ended well
    VM initialization > rebooting VM
        processing [*] rebooting VM 100
        processing [*] waiting for a login as deploy@192.0.2.100 on the new boot
        success    [+] logged in on the new boot
    VM initialization > finalizing
        success    [+] VM installation completed in #.##s
        success    [*] VMID: 100
        success    [*] IP: 192.0.2.100
        success    [*] User: deploy
    event: close, data: {}
    ");
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
    let (rig, install) = installed(&[]).await;
    let commands = rig.neutral(&install.job, &rig.foreground().join("\n"));
    insta::assert_snapshot!(without_hash(&commands), @r"
    pvesm status
    qm create 100 --name web-100 --cores 2 --cpu x86-64-v4 --memory 2048 --scsihw virtio-scsi-pci --ostype l26 --agent 1 --net0 virtio,bridge=vmbr0 --serial0 socket --description made by pve-server job <job>
    qm importdisk 100 <place>/images/debian-12-generic-amd64.qcow2 local
    qm set 100 --sshkeys <place>/state/work/<job>/keys.pub --cipassword $6$… --ciuser deploy --ciupgrade 0 --tags debian --scsi0 local:100/vm-100-disk-0.raw --ide2 local:cloudinit --boot order=scsi0
    qm resize 100 scsi0 20G
    qm set 100 --ipconfig0 ip=192.0.2.100/24,gw=192.0.2.1
    qm start 100
    qm reboot 100
    ");
}

#[tokio::test]
async fn qm_create_has_the_arguments_of_the_specification() {
    let (rig, _) = installed(&[]).await;
    let create = rig.foreground().into_iter().find(|line| line.starts_with("qm create")).unwrap();
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

/// The salt, and so the hash, is another one each time.
fn without_hash(commands: &str) -> String {
    let (before, rest) = commands.split_once("--cipassword $6$").unwrap();
    let (hash, after) = rest.split_once(' ').unwrap();
    assert!(hash.len() > 86, "{hash} is not a SHA-512 crypt hash");
    format!("{before}--cipassword $6$… {after}")
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
