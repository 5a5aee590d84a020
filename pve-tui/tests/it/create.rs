//! What `pve-tui create` prints and how it exits.

use std::io;

use pve_tui::connect::Secrets;
use pve_tui::connect::Where;
use pve_tui::headless::Exit;
use pve_tui::headless::Options;
use pve_tui::headless::create;
use pve_tui::profile::Files;
use pve_tui::prompt::Ask;
use secrecy::SecretString;

use crate::scene::Departures;
use crate::scene::Scene;
use crate::server::Reply;

/// Nobody, or somebody who answers every question with the next word.
struct Person(Vec<&'static str>);

impl Ask for Person {
    fn is_there(&self) -> bool {
        !self.0.is_empty()
    }

    fn line(&mut self, _question: &str) -> io::Result<String> {
        Ok(self.0.remove(0).to_owned())
    }

    fn secret(&mut self, question: &str) -> io::Result<SecretString> {
        self.line(question).map(SecretString::from)
    }
}

/// A reader that has gone away.
struct Gone;

impl io::Write for Gone {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

struct Said {
    exit: Exit,
    out: String,
    err: String,
    writes: Vec<String>,
}

async fn said(departures: Departures, options: Options, person: Person) -> Said {
    let scene = Scene::start("9.1", departures).await;
    let directory = tempfile::tempdir().unwrap();
    let files = Files { directory: directory.path().to_owned() };
    let mut options = options;
    options.place.server = Some(scene.server.address().to_string());
    let mut person = person;
    let token = format!("root@pam!ci={}", crate::secrets::TOKEN);
    let secrets = Secrets { token: Some(token.clone().into()), password: None };
    if person.0.first() != Some(&"yes") && person.0.first() != Some(&"untrusted") {
        options.place.fingerprint = Some(scene.server.identity.fingerprint());
    }
    person.0.retain(|word| *word != "untrusted");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = create(&options, secrets, &files, &mut person, &mut out, &mut err).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(out), text(err));
    for printed in [&out, &err] {
        assert!(!printed.contains(crate::secrets::TOKEN), "{printed}");
    }
    let seen = scene.server.seen();
    let writes = seen.iter().filter(|seen| seen.method != "GET");
    Said { exit, out, err, writes: writes.map(crate::server::Seen::line).collect() }
}

fn options(set: &[&str]) -> Options {
    Options {
        place: Where::default(),
        template: "default".to_owned(),
        set: set.iter().map(|text| (*text).to_owned()).collect(),
        dry_run: false,
        json: false,
        yes: true,
    }
}

const NOBODY: Person = Person(Vec::new());

#[tokio::test]
async fn a_dry_run_shows_everything_and_writes_nothing() {
    let options = Options { dry_run: true, ..options(&["general.name=web"]) };
    let said = said(Vec::new(), options, NOBODY).await;
    assert_eq!((said.exit, said.writes.len()), (Exit::Made, 0));
    insta::assert_snapshot!(said.out, @"
    POST /nodes/pve1/qemu
      vmid=105
      name=web
      ostype=l26
      sockets=1
      cores=2
      cpu=host
      numa=0
      memory=2048
      bios=ovmf
      machine=q35
      scsihw=virtio-scsi-single
      agent=1
      efidisk0=ceph-pool:1,efitype=4m,pre-enrolled-keys=0
      ide2=cephfs:iso/nixos-minimal-25.05.1.a-x86_64-linux.iso,media=cdrom
      scsi0=ceph-pool:32,iothread=on,ssd=on
      net0=virtio,bridge=vmbr9,firewall=1
    On any node:
      pvesh create /nodes/pve1/qemu --vmid 105 --name web --ostype l26 --sockets 1 --cores 2 --cpu host --numa 0 --memory 2048 --bios ovmf --machine q35 --scsihw virtio-scsi-single --agent 1 --efidisk0 ceph-pool:1,efitype=4m,pre-enrolled-keys=0 --ide2 cephfs:iso/nixos-minimal-25.05.1.a-x86_64-linux.iso,media=cdrom --scsi0 ceph-pool:32,iothread=on,ssd=on --net0 virtio,bridge=vmbr9,firewall=1
      pvesh set /nodes/pve1/qemu/105/config --serial0 socket --vga serial0
      pvesh create /cluster/ha/resources --sid vm:105 --state stopped
    The same on this node:
      qm create 105 --name web --ostype l26 --sockets 1 --cores 2 --cpu host --numa 0 --memory 2048 --bios ovmf --machine q35 --scsihw virtio-scsi-single --agent 1 --efidisk0 ceph-pool:1,efitype=4m,pre-enrolled-keys=0 --ide2 cephfs:iso/nixos-minimal-25.05.1.a-x86_64-linux.iso,media=cdrom --scsi0 ceph-pool:32,iothread=on,ssd=on --net0 virtio,bridge=vmbr9,firewall=1
      qm set 105 --serial0 socket --vga serial0
      ha-manager add vm:105 --state stopped
    ");
}

#[tokio::test]
async fn a_dry_run_in_json_names_what_is_missing() {
    let granted = crate::scene::privileges().replace("SDN.Use", "SDN.Audit");
    let granted = Reply::data(&format!(r#"{{"/":{{{granted}}}}}"#));
    let options = Options { dry_run: true, json: true, ..options(&[]) };
    let said = said(vec![("GET /access/permissions", granted)], options, NOBODY).await;
    assert_eq!((said.exit, said.writes.len()), (Exit::Refused, 0));
    let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    insta::assert_snapshot!(format!("{:#}", serde_json::json!([document["missing"], document["grants"]])), @r#"
    [
      [
        "SDN.Use on /sdn/zones/localnetwork/vmbr9 (for the bridge)"
      ],
      [
        "pveum acl modify /sdn/zones/localnetwork/vmbr9 --tokens 'root@pam!ci' --roles PVESDNUser"
      ]
    ]
    "#);
}

#[tokio::test]
async fn it_is_made_and_told_step_by_step() {
    let said = said(Vec::new(), options(&[]), NOBODY).await;
    assert_eq!((said.exit, said.exit.code()), (Exit::Made, 0));
    insta::assert_snapshot!(said.out, @"
    VM creation > checking privileges: [*] comparing privileges with what is needed
    VM creation > checking privileges: [+] root@pam!ci may do all of it
    VM creation > creating through the API: [*] creating VM 105 on pve1
    VM creation > creating through the API:   TASK OK
    VM creation > creating through the API: [+] VM 105 is made on pve1
    VM creation > setting up serial console: [*] setting serial0=socket and vga=serial0
    VM creation > setting up serial console: [+] the web UI's console is the serial terminal
    VM creation > adding to HA: [*] putting the VM under HA as stopped
    VM creation > adding to HA: [+] HA keeps the VM stopped
    VM 105 on pve1 is made.
    ");
    assert_eq!(said.err, "");
}

#[tokio::test]
async fn wrong_input_is_named_before_anybody_is_asked() {
    let said = said(Vec::new(), options(&["cpu.cores=0"]), NOBODY).await;
    assert_eq!((said.exit, said.exit.code()), (Exit::Input, 2));
    insta::assert_snapshot!(said.err, @"cpu.cores: '0' is not a whole number from 1 to 256");
    let problems =
        self::said(Vec::new(), options(&["disk.storage=fast", "os.iso=none.iso"]), NOBODY).await;
    assert_eq!((problems.exit, problems.writes.len()), (Exit::Input, 0));
    insta::assert_snapshot!(problems.err, @"
    os.iso: 'none.iso' is not there; there is cephfs:iso/nixos-minimal-25.05.1.a-x86_64-linux.iso
    disks.0.storage: 'fast' is not there; there is ceph-pool
    ");
}

#[tokio::test]
async fn without_yes_and_without_anybody_nothing_is_made() {
    let options = || Options { yes: false, ..options(&[]) };
    let nobody = said(Vec::new(), options(), NOBODY).await;
    assert_eq!((nobody.exit, nobody.writes.len()), (Exit::Input, 0));
    let doubtful = said(Vec::new(), options(), Person(vec!["n"])).await;
    assert_eq!((doubtful.exit, doubtful.writes.len()), (Exit::Input, 0));
    assert!(doubtful.err.contains("Memory size                  2048 MiB"), "{}", doubtful.err);
    assert_eq!(said(Vec::new(), options(), Person(vec!["y"])).await.exit, Exit::Made);
}

#[tokio::test]
async fn each_end_has_its_code() {
    let error = |status, text: &str| Reply::status(status, text, "");
    let (post, ha) = ("POST /nodes/pve1/qemu", "POST /cluster/ha/resources");
    let put = "PUT /nodes/pve1/qemu/105/config";
    for (departure, exit, code) in [
        ((post, error(500, "storage 'x' does not exist")), Exit::Refused, 3),
        ((put, error(403, "Permission check failed")), Exit::Incomplete, 4),
        ((ha, error(403, "Permission check failed")), Exit::Incomplete, 4),
        (("GET /nodes/pve1/tasks/UPID", error(403, "Permission check failed")), Exit::Unknown, 5),
    ] {
        let said = said(vec![departure], options(&[]), NOBODY).await;
        assert_eq!((said.exit, said.exit.code()), (exit, code), "{}", said.err);
        assert!(!said.err.is_empty());
    }
}

/// The departures that lead to each exit, and what is said for them.
fn ends() -> Vec<(Departures, Options, Exit)> {
    let error = |status, text: &str| Reply::status(status, text, "");
    let granted = crate::scene::privileges().replace("SDN.Use", "SDN.Audit");
    let granted = Reply::data(&format!(r#"{{"/":{{{granted}}}}}"#));
    let dry = |set| Options { dry_run: true, ..options(set) };
    let (post, ha) = ("POST /nodes/pve1/qemu", "POST /cluster/ha/resources");
    vec![
        (Vec::new(), options(&[]), Exit::Made),
        (Vec::new(), dry(&[]), Exit::Made),
        (vec![("GET /access/permissions", granted)], dry(&[]), Exit::Refused),
        (Vec::new(), options(&["cpu.cores=0"]), Exit::Input),
        (Vec::new(), options(&["disk.storage=fast"]), Exit::Input),
        (Vec::new(), Options { yes: false, ..options(&[]) }, Exit::Input),
        (vec![("GET /nodes", error(403, "no"))], options(&[]), Exit::Refused),
        (vec![(post, error(500, "storage 'x' does not exist"))], options(&[]), Exit::Refused),
        (vec![(ha, error(403, "Permission check failed"))], options(&[]), Exit::Incomplete),
        (
            vec![("GET /nodes/pve1/tasks/UPID", error(403, "Permission check failed"))],
            options(&[]),
            Exit::Unknown,
        ),
    ]
}

#[tokio::test]
async fn who_reads_it_changes_nothing_about_how_it_ends() {
    for json in [false, true] {
        for (departures, options, exit) in ends() {
            let scene = Scene::start("9.1", departures).await;
            let directory = tempfile::tempdir().unwrap();
            let files = Files { directory: directory.path().to_owned() };
            let mut options = Options { json, ..options };
            options.place.server = Some(scene.server.address().to_string());
            options.place.fingerprint = Some(scene.server.identity.fingerprint());
            let token = format!("root@pam!ci={}", crate::secrets::TOKEN);
            let secrets = Secrets { token: Some(token.into()), password: None };
            let (mut person, mut out, mut err) = (NOBODY, Gone, Gone);
            let ended = create(&options, secrets, &files, &mut person, &mut out, &mut err).await;
            assert_eq!(ended, exit, "{options:?}");
        }
    }
}

#[tokio::test]
async fn each_end_has_a_last_line_in_json() {
    for (departures, options, exit) in ends() {
        let said = said(departures, Options { json: true, ..options }, NOBODY).await;
        assert_eq!(said.exit, exit);
        let documents: Vec<serde_json::Value> =
            said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let last = documents.last().unwrap_or_else(|| panic!("{exit:?}: {}", said.err));
        let result = last["result"].as_str().unwrap();
        let fits = match exit {
            Exit::Made => ["made", "dry run"].contains(&result),
            Exit::Input => result == "input",
            Exit::Refused => ["refused", "nothing made", "dry run"].contains(&result),
            Exit::Incomplete => result == "incomplete",
            Exit::Unknown => result == "unknown",
        };
        assert!(fits, "{exit:?}: {last}");
    }
}

#[tokio::test]
async fn what_could_not_be_had_is_said_by_a_dry_run() {
    let refused = || Reply::status(500, "got timeout", "");
    let departures = || {
        vec![
            ("GET /pools", refused()),
            ("GET /access/permissions", refused()),
            ("GET /nodes/pve1/network", refused()),
        ]
    };
    let dry = || Options { dry_run: true, ..options(&[]) };
    let people = said(departures(), dry(), NOBODY).await;
    let told = people.out.lines().skip_while(|line| *line != "Notes:").collect::<Vec<_>>();
    insta::assert_snapshot!(told.join("\n"), @"
    Notes:
      network.bridge: 'vmbr9' could not be checked: GET /nodes/pve1/network: refused: got timeout
    Not known:
      the pools could not be had: GET /pools: refused: got timeout
      the permissions could not be had: GET /access/permissions: refused: got timeout, so what the account lacks is not known
      the bridges of pve1 could not be had: GET /nodes/pve1/network: refused: got timeout
    ");
    let json = said(departures(), Options { json: true, ..dry() }, NOBODY).await;
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(document["failures"].as_array().unwrap().len(), 3, "{document:#}");
    assert!(document["missing"].is_null(), "it is not known, and not nothing");
    let made = said(departures(), options(&[]), NOBODY).await;
    assert!(made.err.contains("note: the pools could not be had"), "{}", made.err);
}

#[tokio::test]
async fn numbers_that_are_taken_again_and_again_end_with_a_word() {
    let taken =
        || Reply::status(500, "unable to create VM 105 - VM 105 already exists on node 'x'", "");
    let departures: Departures = (0..30).map(|_| ("POST /nodes/pve1/qemu", taken())).collect();
    let said = said(departures, options(&[]), NOBODY).await;
    assert_eq!((said.exit, said.writes.len()), (Exit::Refused, 20));
    insta::assert_snapshot!(said.err, @"
    Nothing was made.
      POST /nodes/pve1/qemu: already exists: unable to create VM 105 - VM 105 already exists on node 'x'
        take another number
    ");
}

#[test]
fn a_closed_pipe_leaves_the_exit_code_of_the_outcome() {
    use std::process::Command;
    use std::process::Stdio;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scene = runtime.block_on(Scene::start("9.1", Vec::new()));
    let home = tempfile::tempdir().unwrap();
    for (set, code) in [("cpu.cores=2", 0), ("disk.storage=fast", 2)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pve-tui"))
            .args([
                "create",
                "--yes",
                "--set",
                set,
                "--server",
                &scene.server.address().to_string(),
            ])
            .args(["--fingerprint", &scene.server.identity.fingerprint().to_string()])
            .env_clear()
            .env("HOME", home.path())
            .env("PVE_TOKEN", format!("root@pam!ci={}", crate::secrets::TOKEN))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code), "{set}");
    }
}

#[tokio::test]
async fn a_proposed_number_that_is_taken_is_replaced_and_one_that_was_said_is_not() {
    let taken =
        || Reply::status(500, "unable to create VM 105 - VM 105 already exists on node 'x'", "");
    let post = "POST /nodes/pve1/qemu";
    let said_number = said(vec![(post, taken())], options(&["general.vmid=105"]), NOBODY).await;
    assert_eq!((said_number.exit, said_number.writes.len()), (Exit::Refused, 1));
    let proposed = said(vec![(post, taken()), (post, taken())], options(&[]), NOBODY).await;
    assert_eq!((proposed.exit, proposed.writes.len()), (Exit::Made, 5));
}

#[tokio::test]
async fn no_second_vm_is_made_when_the_answer_was_lost_and_the_account_made_one() {
    let task = format!(r#"[{{"upid":"{}"}}]"#, crate::scene::CREATE);
    let taken = r#"{"data":null,"message":"Parameter verification failed.\n","errors":{"vmid":"VM 105 already exists"}}"#;
    let tasks = "GET /nodes/pve1/tasks?";
    let said = said(
        vec![
            ("POST /nodes/pve1/qemu", Reply::status(596, "Connection timed out", "")),
            (tasks, Reply::data("[]")),
            (tasks, Reply::data(&task)),
            (
                "GET /cluster/nextid?vmid=105",
                Reply::status(400, "Parameter verification failed.", taken),
            ),
            ("GET /nodes/pve1/qemu/105/config", Reply::data(r#"{"memory":"512"}"#)),
        ],
        options(&[]),
        NOBODY,
    )
    .await;
    assert_eq!((said.exit, said.writes.len()), (Exit::Unknown, 1), "{}", said.err);
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    use std::process::Command;
    let home = tempfile::tempdir().unwrap();
    for (arguments, says) in [
        (&[][..], "which server?"),
        (&["--server", "127.0.0.1:1"], "cannot connect to 127.0.0.1:1: Connection refused"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pve-tui"));
        command.args(["create", "--dry-run"]).args(arguments);
        command.env_clear().env("HOME", home.path()).stdin(std::process::Stdio::null());
        command.env("PVE_SERVER", "").env("PVE_USER", "");
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(says), "{told}");
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scene = runtime.block_on(Scene::start("9.1", Vec::new()));
    for (user, says) in [(None, "which account?"), (Some("root@pam"), "neither in PVE_PASSWORD")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pve-tui"));
        command.args(["create", "--dry-run", "--server", &scene.server.address().to_string()]);
        command.args(["--fingerprint", &scene.server.identity.fingerprint().to_string()]);
        command.args(user.map(|user| format!("--user={user}")));
        command.env_clear().env("HOME", home.path()).stdin(std::process::Stdio::null());
        let output = command.env("PVE_TOKEN", "").env("PVE_PASSWORD", "").output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(says), "{told}");
    }
}

#[tokio::test]
async fn an_unknown_certificate_is_shown_and_a_person_decides() {
    let nobody = said(Vec::new(), options(&[]), Person(vec!["untrusted"])).await;
    assert_eq!((nobody.exit, nobody.writes.len()), (Exit::Refused, 0));
    assert!(nobody.err.contains("--fingerprint"), "{}", nobody.err);
    assert_eq!(said(Vec::new(), options(&[]), Person(vec!["yes"])).await.exit, Exit::Made);
    let refused = said(Vec::new(), options(&[]), Person(vec!["untrusted", "no"])).await;
    assert_eq!((refused.exit, refused.writes.len()), (Exit::Refused, 0));
}

#[tokio::test]
async fn a_second_factor_is_asked_for_once_and_only_of_a_person() {
    let half = r#"{"username":"root@pam","NeedTFA":1,"ticket":"PVE:!tfa!%7B%22totp%22%3Atrue%7D:65A1B2C3::c2ln","CSRFPreventionToken":"65A1B2C3:eA"}"#;
    for (person, exit, tickets) in
        [(Person(vec!["012345"]), Exit::Made, 2), (NOBODY, Exit::Refused, 1)]
    {
        let scene = Scene::start("9.1", vec![("POST /access/ticket", Reply::data(half))]).await;
        let directory = tempfile::tempdir().unwrap();
        let files = Files { directory: directory.path().to_owned() };
        let mut options = options(&[]);
        options.place.server = Some(scene.server.address().to_string());
        options.place.fingerprint = Some(scene.server.identity.fingerprint());
        options.place.user = Some("root@pam".parse().unwrap());
        let secrets = Secrets { token: None, password: Some("secret".to_owned().into()) };
        let (mut person, mut out, mut err) = (person, Vec::new(), Vec::new());
        let made = create(&options, secrets, &files, &mut person, &mut out, &mut err).await;
        assert_eq!(made, exit, "{}", String::from_utf8_lossy(&err));
        let seen = scene.server.seen();
        let logins: Vec<_> =
            seen.iter().filter(|seen| seen.line().ends_with("/access/ticket")).collect();
        assert_eq!(logins.len(), tickets);
        if exit == Exit::Made {
            assert_eq!(logins[1].form()["password"], "totp:012345");
        }
    }
}

#[tokio::test]
async fn templates_servers_and_secrets_come_from_files() {
    let scene = Scene::start("9.1", Vec::new()).await;
    let directory = tempfile::tempdir().unwrap();
    let files = Files { directory: directory.path().to_owned() };
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let (address, pin) = (scene.server.address(), scene.server.identity.fingerprint());
    let known = format!("[servers.lab]\naddresses = ['{address}']\nfingerprints = ['{pin}']\n");
    write("servers.toml", &known);
    write("templates/small.toml", "[os]\nmedia = 'none'\n[cpu]\ntype = 'host'\ncores = 4\n");
    let token = write("token", &format!("root@pam!ci={}\n", crate::secrets::TOKEN));
    let mut options = Options { dry_run: true, template: "small".to_owned(), ..options(&[]) };
    options.place.token_file = Some(token);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit =
        create(&options, Secrets::default(), &files, &mut { NOBODY }, &mut out, &mut err).await;
    assert_eq!(exit, Exit::Made, "{}", String::from_utf8_lossy(&err));
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("  cores=4\n") && out.contains("  ide2=none,media=cdrom\n"), "{out}");
    options.template = "large".to_owned();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit =
        create(&options, Secrets::default(), &files, &mut { NOBODY }, &mut out, &mut err).await;
    assert_eq!(exit, Exit::Input);
    assert!(String::from_utf8_lossy(&err).contains("no template 'large'"));
}
