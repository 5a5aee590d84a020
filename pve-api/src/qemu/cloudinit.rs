//! What cloud-init inside a machine is told.

use std::fmt;

use secrecy::SecretString;
use serde::Deserialize;
use serde::Serialize;

use super::PendingValue;
use super::Qemu;
use crate::endpoint;
use crate::error::Result;
use crate::id::NodeName;
use crate::id::Vmid;
use crate::lenient;
use crate::list::List;
use crate::record::words;
use crate::request::Parameters;
use crate::request::Request;

/// The password of the user that cloud-init makes.
#[derive(Clone)]
pub enum CiPassword {
    /// There is one; servers show only a row of asterisks. It is never sent back.
    Masked,
    /// A password to be set, or its crypt hash (`$6$…`), which the server keeps as it is. On
    /// create the server keeps even a plain password as it is.
    Set(SecretString),
}

impl CiPassword {
    /// What servers show instead of a password.
    const MASK: &'static str = "**********";
}

impl PartialEq for CiPassword {
    /// Two passwords that are set are never equal: comparing them would tell something.
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Masked, Self::Masked))
    }
}

impl fmt::Debug for CiPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Masked => "Masked",
            Self::Set(_) => "Set(…)",
        })
    }
}

impl Serialize for CiPassword {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Self::MASK)
    }
}

impl<'de> Deserialize<'de> for CiPassword {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Whatever a server shows is not a password to be set again.
        lenient::value::<String, D>(deserializer).map(|_| Self::Masked)
    }
}

lenient::nested!(CiPassword);

words! {
    /// A file that cloud-init reads.
    CloudInitFile {
        /// User, keys, password.
        User = "user",
        /// Addresses.
        Network = "network",
        /// The instance's id.
        Meta = "meta",
    }
}

impl Qemu<'_> {
    /// Lists what cloud-init inside the machine does not know yet.
    ///
    /// `GET /nodes/{node}/qemu/{vmid}/cloudinit`.
    pub async fn cloudinit_pending(&self) -> Result<List<PendingValue>> {
        self.client.list(self.request(&endpoint::CLOUDINIT_PENDING)).await
    }

    /// Reads a file as cloud-init gets it. The user's file may hold the password in plain text.
    ///
    /// `GET /nodes/{node}/qemu/{vmid}/cloudinit/dump`.
    pub async fn cloudinit_dump(&self, file: &CloudInitFile) -> Result<SecretString> {
        self.client.get(dump(self.node, self.vmid, file)).await
    }
}

pub(crate) fn dump(node: &NodeName, vmid: Vmid, file: &CloudInitFile) -> Request {
    let mut parameters = Parameters::default();
    parameters.set("type", file);
    Request::new(&endpoint::CLOUDINIT_DUMP, &[node, &vmid]).with(parameters)
}
