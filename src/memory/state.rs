//! What blocks have made of their batches.

use serde_json::Value;

use super::{Asked, Inner};
use crate::{
    block::{BlockScope, MemoryBlock},
    error::{Error, Result},
    store::{BlockKey, BlockState, Transaction},
};

impl Inner {
    pub(super) fn asked(&self, block: &str) -> Result<&Asked> {
        let found = self.blocks.iter().find(|asked| asked.block.name() == block);
        found.ok_or_else(|| Error::InvalidConfig { reason: format!("this memory has no block {block:?}") })
    }

    pub(super) fn key(&self, block: &dyn MemoryBlock) -> BlockKey {
        BlockKey {
            namespace: self.settings.namespace.clone(),
            session: self.settings.session.clone(),
            name: block.name().to_owned(),
            shared: block.scope() == BlockScope::Namespace,
        }
    }

    pub(super) fn block_state(&self, block: &str) -> Result<Value> {
        let key = self.key(&*self.asked(block)?.block);
        value(&self.core().store().read()?.block(&key)?)
    }

    pub(super) fn change_block(&self, block: &str, mut change: impl FnMut(&Value) -> Result<Value>) -> Result<()> {
        let key = self.key(&*self.asked(block)?.block);
        loop {
            let read = self.core().store().read()?.block(&key)?;
            let state = Some(json(&change(&value(&read)?)?)?);
            let new = BlockState { state, ..read.clone() };
            let key = key.clone();
            let put = move |transaction: &mut Transaction| {
                Ok((transaction.put_block(&key, &read, &new, None)?, Default::default()))
            };
            if self.core().write_now(put)? {
                return Ok(());
            }
        }
    }
}

/// The most that a block's state may take as JSON.
const MAX_STATE_BYTES: usize = 1 << 20;

/// A stored state as a block knows it.
pub(super) fn value(stored: &BlockState) -> Result<Value> {
    let Some(state) = &stored.state else { return Ok(Value::Null) };
    serde_json::from_str(state)
        .map_err(|error| Error::corrupted(format!("the state of a block holds bad JSON: {error}")))
}

pub(super) fn json(state: &Value) -> Result<String> {
    let json = state.to_string();
    match json.len() {
        ..=MAX_STATE_BYTES => Ok(json),
        bytes => Err(Error::InvalidConfig {
            reason: format!("a block's state has {bytes} bytes, more than {MAX_STATE_BYTES}; let it keep less"),
        }),
    }
}
