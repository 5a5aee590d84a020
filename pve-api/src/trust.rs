//! Which server is trusted, decided before anything secret is sent.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;
use thiserror::Error;

pub use certificate::Certificate;
use verifier::Policy;
use verifier::Verifier;
pub(crate) use verifier::refused;

mod certificate;
mod verifier;

/// Which certificate a server must show.
///
/// A new Proxmox VE node signs its own certificate, so [`Trust::System`] refuses it. Show the
/// person what [`probe`](crate::probe) found and pin it with [`Trust::Fingerprints`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// A chain to an authority that the operating system trusts, for the host that was asked.
    System,
    /// A chain to an authority in this PEM file, for the host that was asked; such as
    /// `/etc/pve/pve-root-ca.pem` of the cluster.
    CaFile(PathBuf),
    /// Exactly one of these certificates, whatever names it carries and however old it is. The
    /// server must still prove that it owns the certificate's key.
    Fingerprints(Vec<Fingerprint>),
    /// Whatever is shown. Anybody on the way can read the password. For experiments only.
    InsecureAcceptAnyCertificate,
}

/// Why the settings for trust cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The file with certificate authorities cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds no certificate that could be an authority.
    #[error("{} holds no usable certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The TLS library refuses to start, for instance because the system has no authorities.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// The SHA-256 digest of a certificate, as Proxmox VE shows it: `7E:4A:…`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate in DER form.
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

/// A text that is not a SHA-256 fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a SHA-256 fingerprint (32 pairs of hexadecimal digits)")]
pub struct InvalidFingerprint;

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    /// Reads upper or lower case, with or without colons.
    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        let digits: String = text.trim().chars().filter(|c| *c != ':').collect();
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).or(Err(InvalidFingerprint))?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = InvalidFingerprint;

    fn try_from(text: String) -> Result<Self, InvalidFingerprint> {
        text.parse()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The TLS settings that enforce `trust`.
pub(crate) fn config(trust: &Trust) -> Result<ClientConfig, TrustError> {
    let provider = provider();
    let policy = match trust {
        Trust::System => Policy::Chain(system(&provider)?),
        Trust::CaFile(path) => Policy::Chain(authorities(path, &provider)?),
        Trust::Fingerprints(pins) => Policy::Pins(pins.clone()),
        Trust::InsecureAcceptAnyCertificate => Policy::Any,
    };
    with_policy(policy, provider)
}

/// TLS settings that refuse every server, so that its certificate comes back as the refusal.
pub(crate) fn probe_config() -> Result<ClientConfig, TrustError> {
    let provider = provider();
    // A system without any authority can still be asked what a server shows.
    let policy = Policy::Probe(system(&provider).ok());
    with_policy(policy, provider)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn with_policy(policy: Policy, provider: Arc<CryptoProvider>) -> Result<ClientConfig, TrustError> {
    let verifier = Verifier::new(policy, provider.signature_verification_algorithms);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TrustError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // HTTP/2 has no reason phrase, in which older servers put the whole message.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn system(provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TrustError> {
    let verifier = rustls_platform_verifier::Verifier::new(Arc::clone(provider));
    Ok(Arc::new(verifier.map_err(TrustError::Tls)?))
}

fn authorities(
    path: &PathBuf,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TrustError> {
    let pem = fs::read(path).map_err(|source| TrustError::Read { path: path.clone(), source })?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
    match verifier {
        Ok(verifier) => Ok(verifier),
        // The only complaint that a builder without revocation lists can have.
        Err(_) => Err(TrustError::NoCertificate { path: path.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_in_every_spelling_and_written_as_the_server_does() {
        let shown = "7E:4A:10:28:DD:FA:2F:74:07:5C:02:5B:64:3A:50:AD:97:C0:45:01:EF:24:22:5E:3B:AC:3C:AD:3E:F8:8C:AA";
        let pin: Fingerprint = shown.parse().unwrap();
        assert_eq!(pin.to_string(), shown);
        assert_eq!(shown.to_lowercase().replace(':', "").parse(), Ok(pin));
        for bad in ["", "7E", &shown[..80], &format!("{shown}:00"), &shown.replace('7', "G")] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }
}
