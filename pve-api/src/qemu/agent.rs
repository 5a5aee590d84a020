//! The agent inside a machine.

use serde::Deserialize;
use serde_json::Value;

use super::Qemu;
use crate::endpoint;
use crate::error::Result;
use crate::record::record;

record! {
    /// A network interface as the system inside sees it.
    AgentInterface {
        /// Its name.
        "name" name: String,
    }
    optional {
        /// Its hardware address, in lower case.
        "hardware-address" hardware_address: String,
        /// Its addresses.
        "ip-addresses" addresses: Vec<AgentAddress>,
        /// What went through it.
        "statistics" statistics: Value,
    }
}

record! {
    /// An address as the system inside sees it.
    AgentAddress {
        /// The address.
        "ip-address" address: String,
    }
    optional {
        /// `ipv4` or `ipv6`.
        "ip-address-type" kind: String,
        /// The length of its network.
        "prefix" prefix: u8,
    }
}

/// The agent's answers stand one level deeper.
#[derive(Deserialize)]
pub(crate) struct AgentAnswer<T> {
    result: T,
}

impl Qemu<'_> {
    /// Asks the agent for a sign of life. One that is still booting, or is not there, is an
    /// [`Error::Refused`](crate::Error::Refused) after three seconds.
    ///
    /// `POST /nodes/{node}/qemu/{vmid}/agent/ping`.
    pub async fn agent_ping(&self) -> Result<()> {
        self.client.done(self.request(&endpoint::AGENT_PING)).await
    }

    /// Lists the network interfaces as the system inside sees them.
    ///
    /// `GET /nodes/{node}/qemu/{vmid}/agent/network-get-interfaces`.
    pub async fn agent_interfaces(&self) -> Result<Vec<AgentInterface>> {
        let answer: AgentAnswer<Vec<AgentInterface>> =
            self.client.get(self.request(&endpoint::AGENT_INTERFACES)).await?;
        Ok(answer.result)
    }
}

/// The interfaces in the `data` of an answer.
#[cfg(test)]
pub(crate) fn interfaces_answer(data: Value) -> serde_json::Result<Vec<AgentInterface>> {
    serde_json::from_value::<AgentAnswer<Vec<AgentInterface>>>(data).map(|answer| answer.result)
}
