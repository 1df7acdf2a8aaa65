//! States of blocks, as stored and as JSON.

use serde_json::Value;

use super::inner::Inner;
use crate::{
    engine::WeakEngine,
    error::{Error, Result},
    store::{BlockKey, BlockState},
};

/// A change of a block's state by the program. Keeps the engine open only while it reads and writes.
pub(super) struct Change {
    key: BlockKey,
    engine: WeakEngine,
}

impl Change {
    /// # Errors
    /// [`Error::InvalidConfig`]: the memory has no such block.
    pub(super) fn new(memory: &Inner, block: &str) -> Result<Self> {
        Ok(Change { key: memory.key(&**memory.block(block)?), engine: memory.stored.weak_engine() })
    }

    /// Stores the state that `change` returns for the present one. Calls it again if the state changed meanwhile.
    pub(super) fn apply(self, mut change: impl FnMut(&Value) -> Result<Value>) -> Result<()> {
        let Change { key, engine } = self;
        loop {
            let read = engine.block_state(&key)?;
            let state = Some(json(&change(&value(&read)?)?)?);
            let new = BlockState { state, ..read.clone() };
            if engine.put_block_state(&key, read, new, None)? {
                return Ok(());
            }
        }
    }
}

/// The most bytes of a block's state as JSON.
const MAX_STATE_BYTES: usize = 1 << 20;

/// Parses a stored state.
pub(super) fn value(stored: &BlockState) -> Result<Value> {
    let Some(state) = &stored.state else { return Ok(Value::Null) };
    serde_json::from_str(state)
        .map_err(|error| Error::corrupted(format!("the state of a block holds bad JSON: {error}")))
}

/// Serializes a state.
///
/// # Errors
/// [`Error::InvalidConfig`]: the state is longer than [`MAX_STATE_BYTES`].
pub(super) fn json(state: &Value) -> Result<String> {
    let json = state.to_string();
    match json.len() {
        ..=MAX_STATE_BYTES => Ok(json),
        bytes => Err(Error::InvalidConfig {
            reason: format!(
                "a block's state has {bytes} bytes as JSON, and the most is {MAX_STATE_BYTES}; have the block keep less"
            ),
        }),
    }
}
