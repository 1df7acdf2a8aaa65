//! The right to hand batches to a block, if several machines share a database.

use std::sync::Arc;

use super::replica::{LEASE, Replica};
use crate::{error::Result, shared::Lease, store::BlockKey};

/// Held while a block works on a batch. The thread that pulls renews it.
pub(crate) struct BlockLease(Option<(Arc<Replica>, Vec<Lease>)>);

impl BlockLease {
    /// Takes the lease. Always succeeds in an engine with a file of its own. Returns `None` if another machine has it.
    pub(super) fn take(replica: Option<&Arc<Replica>>, key: &BlockKey) -> Result<Option<Self>> {
        let Some(replica) = replica else { return Ok(Some(BlockLease(None))) };
        let BlockKey { namespace, session, name, .. } = key;
        let work = format!("block {name} of {session}");
        let leases = replica.asked(replica.upstream.lease(&work, &[namespace.to_string()], LEASE))?;
        replica.keep(&leases);
        Ok((!leases.is_empty()).then(|| BlockLease(Some((Arc::clone(replica), leases)))))
    }
}

impl Drop for BlockLease {
    fn drop(&mut self) {
        if let Some((replica, leases)) = &self.0 {
            replica.keep_no_longer(leases);
            if let Err(error) = replica.asked(replica.upstream.release(leases)) {
                tracing::debug!(%error, "a lease ends by itself");
            }
        }
    }
}
