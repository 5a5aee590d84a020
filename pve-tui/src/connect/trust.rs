//! Which addresses may be spoken to, and by which certificates. Every node has one of its own, so
//! each address is looked at, and asked about, by itself.

use std::path::PathBuf;

use anyhow::Result;
use anyhow::bail;
use futures_util::future;
use pve_api::Address;
use pve_api::Certificate;
use pve_api::Fingerprint;
use pve_api::Server;
use pve_api::Settings;
use pve_api::Timeouts;
use pve_api::Trust;
use pve_api::probe;

use crate::profile::Files;
use crate::profile::Profile;
use crate::prompt::Ask;
use crate::runner::unreachable;

/// What is known before anybody is asked.
pub(super) struct Known {
    addresses: Vec<Address>,
    /// The authority that every connection is checked against.
    authority: Option<PathBuf>,
    /// Certificates that are right at every address.
    listed: Vec<Fingerprint>,
    /// Certificates that were accepted at one address.
    pins: Vec<(Address, Fingerprint)>,
}

/// An address, and what it showed or why it could not be reached.
type Seen = (Address, Result<Certificate, String>);

/// What is known of the addresses after a look at each.
#[derive(Default)]
struct Judged {
    /// Those that answered and may be spoken to.
    accepted: Vec<Address>,
    /// Those that did not answer, but may be spoken to.
    away: Vec<Address>,
    /// The certificates by which they are known.
    pins: Vec<Fingerprint>,
    /// Those on which a person has to decide.
    open: Vec<(Address, Certificate)>,
    /// Those that show another certificate than the listed ones.
    other: Vec<(Address, Fingerprint)>,
    /// Why addresses could not be reached.
    unreached: Vec<String>,
}

impl Known {
    pub(super) fn new(profile: &Profile, files: &Files) -> Result<Self> {
        let addresses = profile.addresses()?;
        if addresses.is_empty() {
            bail!("the server has no address");
        }
        Ok(Self {
            addresses,
            authority: profile.ca_file.clone(),
            listed: profile.fingerprints.clone(),
            pins: files.pins()?,
        })
    }

    /// A server whose certificates are trusted: known, or accepted now by a person who saw them.
    pub(super) async fn trusted(self, files: &Files, ask: &mut impl Ask) -> Result<Server> {
        let (addresses, trust) = match &self.authority {
            Some(path) => (self.addresses, Trust::CaFile(path.clone())),
            None => decide(self.judge(look(&self.addresses).await, files)?, files, ask)?,
        };
        let settings = Settings { addresses, trust, timeouts: Timeouts::default() };
        let server = Server::new(&settings)?;
        // Nobody types a password before something answers that speaks as a server should.
        server.realms().await?;
        Ok(server)
    }

    fn own(&self, address: &Address) -> Option<Fingerprint> {
        self.pins.iter().find(|(pinned, _)| pinned == address).map(|(_, pin)| *pin)
    }

    /// Compares what is shown with what is known, address by address. Another certificate than the
    /// one that was accepted at an address is an alarm, whatever the other addresses show.
    fn judge(&self, seen: Vec<Seen>, files: &Files) -> Result<Judged> {
        let mut judged = Judged { pins: self.listed.clone(), ..Judged::default() };
        for (address, shown) in seen {
            let own = self.own(&address);
            let certificate = match shown {
                Ok(certificate) => certificate,
                Err(reason) => {
                    judged.unreached.push(reason);
                    // Of another one nobody could be asked when it shows its certificate at last.
                    if own.is_some() || !self.listed.is_empty() {
                        judged.away.push(address);
                        judged.pins.extend(own);
                    }
                    continue;
                }
            };
            let fingerprint = certificate.fingerprint;
            if own == Some(fingerprint) || self.listed.contains(&fingerprint) {
                judged.accepted.push(address);
                judged.pins.push(fingerprint);
            } else if own.is_some() {
                bail!(changed(&address, fingerprint, files));
            } else if !self.listed.is_empty() {
                judged.other.push((address, fingerprint));
            } else if certificate.trusted_by_system {
                judged.accepted.push(address);
                judged.pins.push(fingerprint);
            } else {
                judged.open.push((address, certificate));
            }
        }
        if let (true, Some((address, shown))) = (judged.accepted.is_empty(), judged.other.first()) {
            bail!(changed(address, *shown, files));
        }
        if judged.accepted.is_empty() && judged.open.is_empty() {
            bail!("{}", judged.unreached.join("; "));
        }
        Ok(judged)
    }
}

/// Looks at all certificates side by side.
async fn look(addresses: &[Address]) -> Vec<Seen> {
    let connect = Timeouts::default().connect;
    let looks = addresses.iter().map(|address| async move {
        let shown = probe(address, connect).await.map_err(|error| unreachable(&error));
        (address.clone(), shown)
    });
    future::join_all(looks).await
}

/// Has a person decide on what is open; gives the addresses that may be spoken to.
fn decide(judged: Judged, files: &Files, ask: &mut impl Ask) -> Result<(Vec<Address>, Trust)> {
    let Judged { mut accepted, away, mut pins, open, .. } = judged;
    let mut refused = Vec::new();
    for (address, certificate) in open {
        let fingerprint = certificate.fingerprint;
        if !ask.is_there() {
            refused.push(format!(
                "the certificate of {address} is not trusted; if its fingerprint is right, give \
                 --fingerprint {fingerprint}"
            ));
            continue;
        }
        let question = format!("{}\nAccept it? [yes, once, no]", shown(&address, &certificate));
        match ask.line(&question)?.to_ascii_lowercase().as_str() {
            "yes" => files.remember(&address, fingerprint)?,
            "once" => {}
            _ => {
                refused.push(format!("the certificate of {address} was not accepted"));
                continue;
            }
        }
        accepted.push(address);
        pins.push(fingerprint);
    }
    if accepted.is_empty() {
        bail!("{}", refused.join("; "));
    }
    // The ones that answer are asked first.
    accepted.extend(away);
    Ok((accepted, Trust::Fingerprints(pins)))
}

fn changed(address: &Address, shown: Fingerprint, files: &Files) -> String {
    format!(
        "{address} shows another certificate than the one that was accepted: {shown}; somebody may \
         be in between. If it was renewed, give the new one by --fingerprint, or change it in {}",
        files.directory.display()
    )
}

fn shown(address: &Address, certificate: &Certificate) -> String {
    format!(
        "{address} shows a certificate that nobody vouches for:\n  subject      {}\n  issuer       \
         {}\n  fingerprint  {}",
        certificate.subject, certificate.issuer, certificate.fingerprint
    )
}
