//! Which VMIDs the running jobs of this server hold, so that no two of them pick the same one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use pve_api::Vmid;

/// The VMIDs that running jobs hold.
///
/// A lease keeps only the jobs of this process apart: whether a VMID is free in the cluster is told by
/// `qm create` alone.
#[derive(Debug, Clone, Default)]
pub struct Leases {
    taken: Arc<Mutex<BTreeSet<Vmid>>>,
}

impl Leases {
    /// Takes `vmid`, unless another job holds it.
    pub fn take(&self, vmid: Vmid) -> Option<Lease> {
        let free = self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(vmid);
        free.then(|| Lease { vmid, leases: self.clone() })
    }

    /// The VMIDs that are held now.
    pub fn taken(&self) -> BTreeSet<Vmid> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A VMID that is held until this is dropped.
#[derive(Debug)]
pub struct Lease {
    vmid: Vmid,
    leases: Leases,
}

impl Lease {
    /// The VMID that is held.
    pub const fn vmid(&self) -> Vmid {
        self.vmid
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.vmid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vmid_is_held_once_and_free_again_when_dropped() {
        let leases = Leases::default();
        let vmid = Vmid::try_from(120).unwrap();

        let lease = leases.take(vmid).unwrap();
        assert!(leases.clone().take(vmid).is_none());
        assert_eq!(leases.taken(), BTreeSet::from([vmid]));
        drop(lease);

        assert!(leases.taken().is_empty());
        assert_eq!(leases.take(vmid).unwrap().vmid(), vmid);
    }
}
