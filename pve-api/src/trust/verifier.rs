//! The check of a server's certificate, which keeps what was shown when it refuses.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use rustls::CertificateError;
use rustls::DigitallySignedStruct;
use rustls::OtherError;
use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::verify_tls12_signature;
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::UnixTime;

use super::Certificate;
use super::Fingerprint;
use crate::error::find;

/// What makes a certificate acceptable.
#[derive(Debug)]
pub(super) enum Policy {
    Chain(Arc<dyn ServerCertVerifier>),
    Pins(Vec<Fingerprint>),
    Any,
    /// Nothing does: refuse, and say whether the system would have accepted it.
    Probe(Option<Arc<dyn ServerCertVerifier>>),
}

#[derive(Debug)]
pub(super) struct Verifier {
    policy: Policy,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(policy: Policy, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { policy, algorithms }
    }
}

/// The certificate that was refused, carried through the layers of the HTTP client.
#[derive(Debug)]
struct Refused {
    certificate: Certificate,
    reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl StdError for Refused {}

/// The certificate whose refusal is behind `error`, and why it was refused.
pub(crate) fn refused(error: &(dyn StdError + 'static)) -> Option<(Certificate, String)> {
    find::<rustls::Error>(error).and_then(from_tls)
}

fn from_tls(error: &rustls::Error) -> Option<(Certificate, String)> {
    let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(other))) = error
    else {
        return None;
    };
    let refused = other.downcast_ref::<Refused>()?;
    Some((refused.certificate.clone(), refused.reason.clone()))
}

/// The refusal as the TLS library takes it.
fn refusal(certificate: &[u8], trusted: bool, reason: String) -> rustls::Error {
    let refused = Refused { certificate: Certificate::read(certificate, trusted), reason };
    rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refused))))
}

/// The refusal of a server that shows a certificate and cannot sign with its key.
fn without_key(certificate: &[u8], error: &rustls::Error) -> rustls::Error {
    let reason = format!("the server does not prove that it has the certificate's key ({error})");
    refusal(certificate, false, reason)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let by_chain = |chain: &Arc<dyn ServerCertVerifier>| {
            chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        };
        let (trusted, reason) = match &self.policy {
            Policy::Any => return Ok(ServerCertVerified::assertion()),
            Policy::Pins(pins) if pins.contains(&Fingerprint::of(end_entity)) => {
                return Ok(ServerCertVerified::assertion());
            }
            Policy::Pins(_) => (false, "its fingerprint is not the pinned one".to_owned()),
            Policy::Chain(chain) => match by_chain(chain) {
                Ok(verified) => return Ok(verified),
                Err(error) => (false, error.to_string()),
            },
            Policy::Probe(chain) => {
                (chain.as_ref().is_some_and(|chain| by_chain(chain).is_ok()), "probed".to_owned())
            }
        };
        Err(refusal(end_entity, trusted, reason))
    }

    // Without these two a pin proves nothing: anybody can show a copy of the certificate, only
    // its owner can sign with its key.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
            .map_err(|error| without_key(certificate, &error))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
            .map_err(|error| without_key(certificate, &error))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
