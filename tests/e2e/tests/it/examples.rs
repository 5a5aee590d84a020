//! The examples of the API client, run against the simulated cluster as their user would.

use std::process::Output;
use std::process::Stdio;
use std::time::SystemTime;

use pve_e2e::programs::program;
use pve_sim::Account;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::world::access::Totp;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// A cluster, and what its users know of it.
struct Cluster {
    sim: Sim,
    address: String,
    token: String,
    careful: Account,
}

impl Cluster {
    async fn start() -> Self {
        let config =
            Config { nodes: vec!["pve1".to_owned(), "pve2".to_owned()], ..Config::default() };
        let root = &config.accounts[0];
        let (name, secret, _) = &root.tokens[0];
        let token = format!("{}!{name}={secret}", root.user);
        let careful =
            config.accounts.iter().find(|account| account.totp.is_some()).unwrap().clone();
        let sim = Sim::start(config).await.unwrap();
        let address = sim.https_url().unwrap().trim_start_matches("https://").to_owned();
        Self { sim, address, token, careful }
    }

    /// Runs an example with a token and a pin.
    async fn run(&self, example: &str, arguments: &[&str]) -> String {
        let fingerprint = self.sim.fingerprint();
        let environment = [("PVE_TOKEN", self.token.as_str()), ("PVE_PIN", &fingerprint)];
        self.said(&self.output(example, arguments, &environment, "").await)
    }

    async fn output(
        &self,
        example: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
        input: &str,
    ) -> Output {
        let mut command = Command::new(program(&format!("examples/{example}")).unwrap());
        command.arg(&self.address).args(arguments).env_clear().envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        child.wait_with_output().await.unwrap()
    }

    /// What a successful example said, without what differs from run to run.
    fn said(&self, output: &Output) -> String {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (said, complaints) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{said}{complaints}");
        assert_eq!(complaints, "");
        assert!(!said.contains(&self.token) && !said.contains(&self.careful.password));
        let host = self.address.split(':').next().unwrap();
        said.replace(&self.sim.fingerprint(), "7E:4A:…").replace(host, "192.0.2.11")
    }
}

#[tokio::test]
async fn the_login_example_trusts_on_first_use_and_answers_a_second_factor() {
    let cluster = Cluster::start().await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let totp = Totp::new(cluster.careful.totp.as_deref().unwrap()).unwrap();
    let code = totp.code(totp.step(now));
    let environment = [("PVE_PASSWORD", cluster.careful.password.as_str())];
    let arguments = [cluster.careful.user.as_str()];
    let input = format!("yes\n{code}\n");
    let output = cluster.output("login", &arguments, &environment, &input).await;
    insta::assert_snapshot!(cluster.said(&output));
}

#[tokio::test]
async fn the_login_example_sends_nothing_to_a_server_that_is_not_trusted() {
    let cluster = Cluster::start().await;
    let environment = [("PVE_PASSWORD", cluster.careful.password.as_str())];
    let arguments = [cluster.careful.user.as_str()];
    let output = cluster.output("login", &arguments, &environment, "no\n").await;
    assert!(!output.status.success());
    assert_eq!(cluster.sim.called(), []);
}

#[tokio::test]
async fn the_list_example_shows_nodes_guests_and_storages() {
    let cluster = Cluster::start().await;
    cluster.run("create", &["pve1", "local", "web"]).await;
    insta::assert_snapshot!(cluster.run("list", &[]).await);
    // One that is down does not spoil the list.
    cluster.sim.take_down("pve2").await;
    insta::assert_snapshot!(cluster.run("list", &[]).await);
}

#[tokio::test]
async fn the_create_example_makes_a_machine_and_starts_it() {
    let cluster = Cluster::start().await;
    insta::assert_snapshot!(cluster.run("create", &["pve1", "local", "web"]).await);
    let running = cluster.sim.world(|world| {
        let guest = &world.guests[&100];
        (guest.configuration.get("name").map(str::to_owned), guest.running.is_some())
    });
    assert_eq!(running, (Some("web".to_owned()), true));
}

#[tokio::test]
async fn the_upload_example_sends_a_file_whole() {
    let cluster = Cluster::start().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("disk.raw");
    std::fs::write(&file, vec![7; 3 << 20]).unwrap();
    insta::assert_snapshot!(
        cluster.run("upload", &["pve1", "local", file.to_str().unwrap()]).await
    );
    let sizes = cluster.sim.world(|world| {
        let uploaded = world.volumes.iter().filter(|volume| volume.name == "import/disk.raw");
        uploaded.map(|volume| volume.size).collect::<Vec<_>>()
    });
    assert_eq!(sizes, [3 << 20]);
}
