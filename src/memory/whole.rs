//! Changes of the whole session: replacing and deleting all its messages, flushed ones too.

use std::sync::Arc;

use super::{inner::Inner, put, reports::MemoryReport};
use crate::{
    engine::Lane,
    error::Result,
    message::{Message, MessageUpdate},
    store::{Clear, SessionChange},
};

/// Replaces all messages of the session.
pub(super) async fn set(memory: &Arc<Inner>, messages: Vec<Message>) -> Result<MemoryReport> {
    let change = |memory: &Inner| {
        memory.live.turn.lock().end();
        let puts = messages.into_iter().map(MessageUpdate::Put);
        let (change, report) = memory.change(std::iter::once(MessageUpdate::RemoveAll).chain(puts).collect())?;
        Ok((SessionChange { clear: Clear::Session, ..change }, report))
    };
    let (change, report) = memory.run(Lane::Store, change).await?;
    put::commit(memory, change, report).await
}

/// Deletes all messages of the session. Returns how many there were.
pub(super) async fn clear(memory: &Arc<Inner>) -> Result<u64> {
    let change = SessionChange { clear: Clear::Session, ..SessionChange::default() };
    let put = memory.stored.update(change, memory.settings.checkpoint_each_put).await?;
    memory.live.turn.lock().end();
    Ok(put.removed)
}

/// Deletes the session, if it exists.
pub(super) async fn reset(memory: &Arc<Inner>) -> Result<()> {
    memory.stored.delete().await?;
    memory.live.turn.lock().end();
    Ok(())
}
