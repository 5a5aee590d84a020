//! Which servers are spoken to.

use std::time::Duration;
use std::time::SystemTime;

use pve_api::Certificate;
use pve_api::Error;
use pve_api::Settings;
use pve_api::Trust;
use pve_api::probe;
use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::IsCa;
use rcgen::Issuer;
use rcgen::KeyPair;

use crate::secrets::told;
use crate::server::Identity;
use crate::server::Reply;
use crate::server::Server;
use crate::server::token_client;

const VERSION: &str = r#"{"version":"9.2.11","release":"9.2"}"#;

async fn refused(settings: &Settings) -> (Box<Certificate>, String) {
    let error = token_client(settings).version().await.unwrap_err();
    told(&error);
    assert!(error.had_no_effect());
    match error {
        Error::Untrusted { certificate, reason, .. } => (certificate, reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_new_node_is_not_trusted_by_the_system_and_is_sent_nothing() {
    let server = Server::start(|_| Reply::data(VERSION)).await;
    let settings = Settings::new(server.address(), Trust::System);
    let (certificate, _) = refused(&settings).await;
    assert_eq!(certificate.fingerprint, server.identity.fingerprint());
    assert_eq!(server.lines(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_probe_shows_the_certificate_and_sends_nothing() {
    let server = Server::start(|_| Reply::data(VERSION)).await;
    let certificate = probe(&server.address(), Duration::from_secs(5)).await.unwrap();
    assert_eq!(certificate.fingerprint, server.identity.fingerprint());
    assert_eq!(certificate.subject, "O=Proxmox Virtual Environment, CN=pve1.example.org");
    assert_eq!(certificate.issuer, certificate.subject);
    let at = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(days * 24 * 3600);
    assert_eq!(certificate.not_before, Some(at(20_787)));
    assert_eq!(certificate.not_after, Some(at(20_787 + 730)));
    assert!(!certificate.trusted_by_system);
    assert_eq!(server.lines(), [] as [&str; 0]);
    // What was seen can be pinned.
    let trust = Trust::Fingerprints(vec![certificate.fingerprint]);
    token_client(&Settings::new(server.address(), trust)).version().await.unwrap();
}

#[tokio::test]
async fn a_changed_certificate_is_refused_and_no_other_address_is_tried() {
    let changed = Server::start(|_| Reply::data(VERSION)).await;
    let other = Server::start(|_| Reply::data(VERSION)).await;
    let mut settings = other.settings();
    settings.addresses.insert(0, changed.address());
    let (certificate, reason) = refused(&settings).await;
    assert_eq!(certificate.fingerprint, changed.identity.fingerprint());
    assert_eq!(reason, "its fingerprint is not the pinned one");
    assert_eq!((changed.lines().len(), other.lines().len()), (0, 0));
}

#[tokio::test]
async fn the_right_certificate_with_the_wrong_key_is_refused() {
    let (pem, owner) = authority("one", &["127.0.0.1"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pem).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let shown = Some(owner.certificate.clone());
        let script = |_: &_| Reply::data(VERSION);
        let thief = Server::start_as(Identity::new(), shown, &[version], script).await;
        for trust in [
            Trust::Fingerprints(vec![owner.fingerprint()]),
            Trust::CaFile(file.path().to_owned()),
            Trust::InsecureAcceptAnyCertificate,
        ] {
            let (certificate, reason) = refused(&Settings::new(thief.address(), trust)).await;
            assert_eq!(certificate.fingerprint, owner.fingerprint());
            let words = "the server does not prove that it has the certificate's key";
            assert!(reason.starts_with(words), "{reason}");
            assert_eq!(thief.lines(), [] as [&str; 0]);
        }
    }
}

#[tokio::test]
async fn any_certificate_will_do_only_by_that_name() {
    let server = Server::start(|_| Reply::data(VERSION)).await;
    let trust = Trust::InsecureAcceptAnyCertificate;
    token_client(&Settings::new(server.address(), trust)).version().await.unwrap();
}

/// An authority and a server that it vouches for.
fn authority(name: &str, names: &[&str]) -> (String, Identity) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    (pem, Identity { certificate: leaf.der().clone(), key })
}

#[tokio::test]
async fn a_file_with_authorities_vouches_for_the_host_that_was_asked() {
    let (pem, identity) = authority("one", &["127.0.0.1"]);
    let (other_pem, elsewhere) = authority("another", &["192.0.2.1"]);
    let directory = tempfile::tempdir().unwrap();
    let (file, other_file) = (directory.path().join("ca.pem"), directory.path().join("other.pem"));
    std::fs::write(&file, pem).unwrap();
    std::fs::write(&other_file, other_pem).unwrap();

    let server = Server::start_with(identity, |_| Reply::data(VERSION)).await;
    let with = |file| Settings::new(server.address(), Trust::CaFile(file));
    token_client(&with(file.clone())).version().await.unwrap();
    let (_, reason) = refused(&with(other_file.clone())).await;
    assert!(reason.contains("UnknownIssuer"), "{reason}");

    let server = Server::start_with(elsewhere, |_| Reply::data(VERSION)).await;
    let (_, reason) = refused(&Settings::new(server.address(), Trust::CaFile(other_file))).await;
    assert!(reason.contains("not valid for name"), "{reason}");

    std::fs::write(&file, "no certificate").unwrap();
    let error = pve_api::Server::new(&with(file.clone())).unwrap_err();
    assert_eq!(error.to_string(), "trust settings cannot be used");
    let error = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(error, format!("{} holds no usable certificate", file.display()));
}
