//! Resource pools.

use crate::client::Client;
use crate::endpoint;
use crate::error::Result;
use crate::id::NodeName;
use crate::id::PoolId;
use crate::id::StorageId;
use crate::id::Vmid;
use crate::list::List;
use crate::record::record;
use crate::request::Parameters;
use crate::request::Request;

record! {
    /// A resource pool.
    Pool {
        /// Its name.
        "poolid" id: PoolId,
    }
    optional {
        /// What people say about it.
        "comment" comment: String,
        /// What is in it; only [`Client::pool`] gives this.
        "members" members: Vec<PoolMember>,
    }
}

record! {
    /// A guest or a storage in a pool.
    PoolMember {
        /// Its id, such as `qemu/100`.
        "id" id: String,
        /// What it is: `qemu`, `lxc` or `storage`.
        "type" kind: String,
    }
    optional {
        /// The node on which it is.
        "node" node: NodeName,
        /// A guest's number.
        "vmid" vmid: Vmid,
        /// A storage's name.
        "storage" storage: StorageId,
        /// A guest's name.
        "name" name: String,
        /// Its state.
        "status" status: String,
    }
}

impl Client {
    /// Lists the pools that the account may see; there may be none.
    ///
    /// `GET /pools`.
    pub async fn pools(&self) -> Result<List<Pool>> {
        self.list(pools(None)).await
    }

    /// Reads a pool with its members.
    ///
    /// `GET /pools?poolid=…`, whose answer is a list of one.
    pub async fn pool(&self, id: &PoolId) -> Result<Option<Pool>> {
        Ok(self.list(pools(Some(id))).await?.into_iter().next())
    }
}

pub(crate) fn pools(id: Option<&PoolId>) -> Request {
    let mut parameters = Parameters::default();
    parameters.maybe("poolid", id);
    Request::new(&endpoint::POOLS, &[]).with(parameters)
}
