//! Which addresses `pve-tui create` speaks to, and what it asks about each.

use std::fs;
use std::io;

use pve_api::Address;
use pve_api::Fingerprint;
use pve_tui::connect::Secrets;
use pve_tui::connect::Where;
use pve_tui::headless::Exit;
use pve_tui::headless::Options;
use pve_tui::headless::create;
use pve_tui::profile::Files;
use pve_tui::prompt::Ask;
use secrecy::SecretString;

use crate::scene::Scene;

/// Where nothing listens.
const AWAY: &str = "127.0.0.1:1";

/// Nobody, or somebody who answers every question with the next word.
#[derive(Default)]
struct Person {
    words: Vec<&'static str>,
    asked: Vec<String>,
}

impl Ask for Person {
    fn is_there(&self) -> bool {
        !self.words.is_empty() || !self.asked.is_empty()
    }

    fn line(&mut self, question: &str) -> io::Result<String> {
        self.asked.push(question.to_owned());
        Ok(self.words.remove(0).to_owned())
    }

    fn secret(&mut self, question: &str) -> io::Result<SecretString> {
        self.line(question).map(SecretString::from)
    }
}

/// Two nodes, each with a certificate of its own, and what is remembered of them.
struct Lab {
    nodes: [Scene; 2],
    directory: tempfile::TempDir,
}

/// How a run without writes ended.
struct Ended {
    exit: Exit,
    err: String,
    asked: Vec<String>,
}

impl Lab {
    async fn start() -> Self {
        let nodes = [Scene::start("9.1", Vec::new()).await, Scene::start("9.1", Vec::new()).await];
        Self { nodes, directory: tempfile::tempdir().unwrap() }
    }

    fn files(&self) -> Files {
        Files { directory: self.directory.path().to_owned() }
    }

    fn address(&self, node: usize) -> Address {
        self.nodes[node].server.address()
    }

    fn certificate(&self, node: usize) -> Fingerprint {
        self.nodes[node].server.identity.fingerprint()
    }

    fn both(&self) -> String {
        format!("{},{}", self.address(0), self.address(1))
    }

    /// How many requests a node got.
    fn requests(&self, node: usize) -> usize {
        self.nodes[node].server.seen().len()
    }

    fn remember(&self, node: usize, certificate: usize) {
        self.files().remember(&self.address(node), self.certificate(certificate)).unwrap();
    }

    async fn run(
        &self,
        servers: &str,
        listed: Option<Fingerprint>,
        words: &[&'static str],
    ) -> Ended {
        let options = Options {
            place: Where {
                server: Some(servers.to_owned()),
                fingerprint: listed,
                ..Where::default()
            },
            template: "default".to_owned(),
            dry_run: true,
            ..Options::default()
        };
        let token = format!("root@pam!ci={}", crate::secrets::TOKEN);
        let secrets = Secrets { token: Some(token.into()), password: None };
        let mut person = Person { words: words.to_vec(), asked: Vec::new() };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let exit = create(&options, secrets, &self.files(), &mut person, &mut out, &mut err).await;
        Ended { exit, err: String::from_utf8(err).unwrap(), asked: person.asked }
    }
}

#[tokio::test]
async fn a_certificate_is_remembered_for_the_address_that_showed_it() {
    let lab = Lab::start().await;
    let servers = format!("{AWAY},{}", lab.address(1));
    let ended = lab.run(&servers, None, &["yes"]).await;
    assert_eq!(ended.exit, Exit::Made, "{}", ended.err);
    assert_eq!(ended.asked.len(), 1);
    assert!(ended.asked[0].contains(&lab.address(1).to_string()), "{}", ended.asked[0]);
    assert!(!ended.asked[0].contains(AWAY), "{}", ended.asked[0]);
    assert_eq!(lab.files().pins().unwrap(), [(lab.address(1), lab.certificate(1))]);
    assert_eq!(lab.run(&servers, None, &[]).await.exit, Exit::Made, "nobody needs to be asked");
}

#[tokio::test]
async fn every_address_is_asked_about_by_its_name() {
    let lab = Lab::start().await;
    let ended = lab.run(&lab.both(), None, &["yes", "once"]).await;
    assert_eq!(ended.exit, Exit::Made, "{}", ended.err);
    for (node, question) in ended.asked.iter().enumerate() {
        assert!(question.contains(&lab.address(node).to_string()), "{question}");
        assert!(question.contains(&lab.certificate(node).to_string()), "{question}");
    }
    assert_eq!(ended.asked.len(), 2);
    assert_eq!(lab.files().pins().unwrap(), [(lab.address(0), lab.certificate(0))]);
}

#[tokio::test]
async fn an_address_that_was_not_accepted_is_never_spoken_to() {
    for (words, spoken) in [(["no", "once"], 1), (["once", "no"], 0)] {
        let lab = Lab::start().await;
        let ended = lab.run(&lab.both(), None, &words).await;
        assert_eq!(ended.exit, Exit::Made, "{}", ended.err);
        assert_eq!(lab.requests(1 - spoken), 0);
        assert!(lab.requests(spoken) > 0);
    }
    let lab = Lab::start().await;
    let ended = lab.run(&lab.both(), None, &["no", "no"]).await;
    assert_eq!((ended.exit, lab.requests(0) + lab.requests(1)), (Exit::Refused, 0));
    for node in [0, 1] {
        let told = format!("the certificate of {} was not accepted", lab.address(node));
        assert!(ended.err.contains(&told), "{}", ended.err);
    }
}

#[tokio::test]
async fn without_anybody_only_known_addresses_are_spoken_to() {
    let lab = Lab::start().await;
    let ended = lab.run(&lab.both(), None, &[]).await;
    assert_eq!((ended.exit, lab.requests(0) + lab.requests(1)), (Exit::Refused, 0));
    for node in [0, 1] {
        assert!(ended.err.contains(&lab.address(node).to_string()), "{}", ended.err);
        assert!(ended.err.contains(&lab.certificate(node).to_string()), "{}", ended.err);
    }
    lab.remember(1, 1);
    let ended = lab.run(&lab.both(), None, &[]).await;
    assert_eq!((ended.exit, lab.requests(0)), (Exit::Made, 0), "{}", ended.err);
    let other = Lab::start().await;
    let ended = other.run(&other.both(), Some(other.certificate(1)), &[]).await;
    assert_eq!((ended.exit, other.requests(0)), (Exit::Made, 0), "{}", ended.err);
}

#[tokio::test]
async fn another_certificate_than_the_one_that_was_accepted_is_an_alarm_and_names_its_address() {
    let lab = Lab::start().await;
    lab.remember(0, 0);
    lab.remember(1, 0);
    let ended = lab.run(&lab.both(), None, &["yes"]).await;
    assert_eq!((ended.exit, ended.asked.len()), (Exit::Refused, 0), "{}", ended.err);
    let told = format!("{} shows another certificate", lab.address(1));
    assert!(ended.err.contains(&told), "{}", ended.err);
    assert_eq!(lab.requests(0) + lab.requests(1), 0);
    let fresh = Lab::start().await;
    let ended =
        fresh.run(&fresh.address(0).to_string(), Some(fresh.certificate(1)), &["yes"]).await;
    assert_eq!((ended.exit, ended.asked.len()), (Exit::Refused, 0), "{}", ended.err);
}

#[tokio::test]
async fn what_cannot_be_reached_is_named_address_by_address() {
    let lab = Lab::start().await;
    let ended = lab.run("127.0.0.1:1,127.0.0.1:2", None, &[]).await;
    assert_eq!(ended.exit, Exit::Refused);
    for address in [AWAY, "127.0.0.1:2"] {
        let told = format!("cannot connect to {address}: Connection refused");
        assert!(ended.err.contains(&told), "{}", ended.err);
    }
    fs::write(lab.directory.path().join("servers.toml"), "[servers.lab]\naddresses = []").unwrap();
    let ended = lab.run("lab", None, &[]).await;
    assert_eq!(ended.exit, Exit::Input);
    assert!(ended.err.contains("the server has no address"), "{}", ended.err);
}
