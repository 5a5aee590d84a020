//! Certificates as a cluster makes them: one authority of its own, one leaf for each node.

use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::sync::Arc;

use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::DnType;
use rcgen::ExtendedKeyUsagePurpose;
use rcgen::IsCa;
use rcgen::Issuer;
use rcgen::KeyPair;
use rcgen::SanType;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::PrivatePkcs8KeyDer;
use sha2::Digest;
use sha2::Sha256;

use crate::world::World;

/// The domain of the nodes.
const DOMAIN: &str = "example.org";

/// The cluster's own authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Authority")
    }
}

/// A node's certificate, ready to serve.
#[derive(Debug, Clone)]
pub struct Identity {
    /// For the TLS server.
    pub config: Arc<ServerConfig>,
    /// The SHA-256 of the certificate, in pairs of digits with colons.
    pub fingerprint: String,
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

/// One year back, two years on.
fn limit(params: &mut CertificateParams, now: u64) {
    let year = i32::try_from(1970 + now / 31_556_952).unwrap_or(2026);
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + 2, 1, 1);
}

impl Authority {
    /// A new authority.
    pub fn new(now: u64) -> io::Result<Self> {
        let mut params = CertificateParams::default();
        limit(&mut params, now);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "Proxmox Virtual Environment");
        name.push(DnType::OrganizationName, "PVE Cluster Manager CA");
        let key = KeyPair::generate().map_err(broken)?;
        let pem = params.self_signed(&key).map_err(broken)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// The authority's certificate, which a client may trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Makes a node's certificate; only the leaf is sent.
    pub fn identity(&self, node: &str, address: Ipv4Addr, now: u64) -> io::Result<Identity> {
        let full = format!("{node}.{DOMAIN}");
        let mut params = CertificateParams::default();
        limit(&mut params, now);
        let name = |text: &str| text.try_into().map(SanType::DnsName).map_err(broken);
        params.subject_alt_names = vec![
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
            name("localhost")?,
            SanType::IpAddress(IpAddr::V4(address)),
            name(node)?,
            name(&full)?,
        ];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.distinguished_name.push(DnType::OrganizationalUnitName, "PVE Cluster Node");
        params.distinguished_name.push(DnType::OrganizationName, "Proxmox Virtual Environment");
        params.distinguished_name.push(DnType::CommonName, full);
        let key = KeyPair::generate().map_err(broken)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(broken)?;
        let fingerprint: Vec<String> =
            Sha256::digest(certificate.der()).iter().map(|byte| format!("{byte:02X}")).collect();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(broken)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(broken)?;
        Ok(Identity { config: Arc::new(config), fingerprint: fingerprint.join(":") })
    }
}

/// Makes certificates for all nodes and tells the world their fingerprints.
pub fn certify(authority: &Authority, world: &mut World) -> io::Result<Vec<(String, Identity)>> {
    let now = world.now;
    let mut identities = Vec::new();
    for (name, node) in &mut world.nodes {
        let identity = authority.identity(name, node.address, now)?;
        node.fingerprint.clone_from(&identity.fingerprint);
        identities.push((name.clone(), identity));
    }
    Ok(identities)
}
