//! Changes of a session's messages, and flushes of its short-term buffer.
//!
//! A change of the session is one commit. If the recent messages are over their budget then, whole turns are flushed
//! until they are within it, in one more commit each time, by one thread at a time.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde::Serialize;

use super::{
    batch_jobs,
    echo::WithoutEchoes,
    open_memory::{OpenMemory, RecentMessage, later_begin},
};
use crate::{
    buffer::{MAX_BUFFER_BYTES, plan_by_bytes},
    engine::{Lane, OpenMemories},
    error::{Error, Result},
    message::{Message, MessageUpdate, Role},
    store::{Clear, PutResult, SessionChange},
};

/// Counts and ids of a put to the memory of a session.
///
/// Also of [`Memory::sync`](crate::Memory::sync).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MemoryReport {
    /// Messages whose id was new.
    pub new: u64,
    /// Messages that replaced a different message: one with the same id, of the session or of the same put, or the one
    /// in whose place a synchronized chat has them.
    pub replaced: u64,
    /// Messages that the session had already with the same content, under their ids or, in a chat without ids, in their
    /// places.
    pub unchanged: u64,
    /// Messages that were removed.
    pub removed: u64,
    /// Ids of messages that were dropped or shortened because they repeat text which an earlier prompt of this memory
    /// contained. The ids are those given to the put.
    pub echoes: Vec<String>,
    /// Ids of messages that moved from the buffer to long-term memory: one list per batch, oldest first.
    pub flushed: Vec<Vec<String>>,
}

/// Applies updates in one commit, then flushes the buffer if it is over its budget.
pub(super) async fn update(memory: &Arc<OpenMemory>, updates: Vec<MessageUpdate>) -> Result<MemoryReport> {
    let (change, before) = memory.run(Lane::Store, move |memory| memory.change(updates)).await?;
    commit(memory, change, before).await
}

/// Commits a change, then flushes the buffer if it is over its budget.
async fn commit(memory: &Arc<OpenMemory>, change: SessionChange, before: MemoryReport) -> Result<MemoryReport> {
    let put = memory.stored.update(change, memory.settings.checkpoint_of_put()).await?;
    let mut report = before.with_counts(put);
    // The flush runs to its end even if the caller drops the future.
    report.flushed = memory.run(Lane::Store, flush_due).await?;
    Ok(report)
}

/// Changes the session to match a client's chat, then flushes the buffer if it is over its budget.
pub(super) async fn sync(memory: &Arc<OpenMemory>, chat: Vec<Message>) -> Result<MemoryReport> {
    let sync = move |memory: &OpenMemory| {
        let report = memory.sync(chat)?;
        Ok(MemoryReport { flushed: flush_due(memory)?, ..report })
    };
    memory.run(Lane::Store, sync).await
}

pub(super) async fn set(memory: &Arc<OpenMemory>, messages: Vec<Message>) -> Result<MemoryReport> {
    let change = |memory: &OpenMemory| {
        memory.live.turn.lock().end();
        let puts = messages.into_iter().map(MessageUpdate::Put);
        let (change, report) = memory.change(std::iter::once(MessageUpdate::RemoveAll).chain(puts).collect())?;
        Ok((SessionChange { clear: Clear::Session, ..change }, report))
    };
    let (change, report) = memory.run(Lane::Store, change).await?;
    commit(memory, change, report).await
}

/// Returns the number of messages deleted.
pub(super) async fn clear(memory: &Arc<OpenMemory>) -> Result<u64> {
    let change = SessionChange { clear: Clear::Session, ..SessionChange::default() };
    let put = memory.stored.update(change, memory.settings.checkpoint_of_put()).await?;
    memory.live.turn.lock().end();
    Ok(put.removed)
}

pub(super) async fn reset(memory: &Arc<OpenMemory>) -> Result<()> {
    memory.stored.delete().await?;
    memory.live.turn.lock().end();
    Ok(())
}

/// Flushes the whole buffer but for the leading system messages. Returns the ids of what was flushed.
pub(super) fn flush(memory: &OpenMemory) -> Result<Vec<String>> {
    let buffer = memory.buffer()?;
    let system = buffer.iter().take_while(|(_, message)| message.role == Role::System).count();
    let rest = &buffer[system..];
    // Another thread may be flushing some of these messages. The store moves each message once.
    memory.stored.flush(vec![rest.iter().map(|(seq, _)| *seq).collect()], None)?;
    batch_jobs::take_batches(memory, false);
    Ok(rest.iter().map(|(_, message)| message.id.clone()).collect())
}

pub(super) fn restore(memory: &OpenMemory, checkpoint: u32) -> Result<()> {
    memory.stored.restore(checkpoint)?;
    // The turn in progress belongs to another past.
    *memory.live.turn.lock() = Default::default();
    batch_jobs::take_batches(memory, false);
    Ok(())
}

/// The handles of one memory on its session. When the last hold of the session is dropped, its buffer is flushed, if
/// any memory of the session was opened with `flush_on_drop`.
pub(super) struct SessionHold {
    memory: Arc<OpenMemory>,
    /// Hands the batches that others flushed to the blocks of this memory.
    _on_flush: Arc<dyn Fn() + Send + Sync>,
}

impl SessionHold {
    pub(super) fn new(memory: &Arc<OpenMemory>) -> Arc<Self> {
        let on_flush: Arc<dyn Fn() + Send + Sync> = {
            let memory = Arc::clone(memory);
            Arc::new(move || batch_jobs::take_batches(&memory, false))
        };
        let mut open = memory.live.open.lock();
        open.count += 1;
        open.flush_on_drop |= memory.settings.flush_on_drop;
        open.on_flush.retain(|other| other.strong_count() > 0);
        open.on_flush.push(Arc::downgrade(&on_flush));
        Arc::new(SessionHold { memory: Arc::clone(memory), _on_flush: on_flush })
    }
}

impl Drop for SessionHold {
    fn drop(&mut self) {
        let is_due = {
            let OpenMemories { count, flush_on_drop, .. } = &mut *self.memory.live.open.lock();
            *count -= 1;
            *count == 0 && *flush_on_drop
        };
        if !is_due {
            return;
        }
        // An operation in flight, which closing the engine waits for. The handle on the engine is dropped after this
        // one.
        let memory = Arc::clone(&self.memory);
        let report = |error: Error| {
            tracing::error!(%error, "the buffer of a session was not flushed when its last handle was dropped");
        };
        let flush = move || drop(flush(&memory).map_err(report));
        if let Err(error) = self.memory.stored.executor().spawn(Lane::Store, flush) {
            report(error);
        }
    }
}

/// Flushes until the buffer is within its budget, unless another thread does. Returns the ids of each batch.
fn flush_due(memory: &OpenMemory) -> Result<Vec<Vec<String>>> {
    let mut flushed = Vec::new();
    let mut right = memory.live.begin_flush();
    while let Some(flushing) = right {
        let Some(plan) = memory.plan()? else {
            right = flushing.end();
            continue;
        };
        memory.stored.flush(plan.batches, Some(plan.window))?;
        batch_jobs::take_batches(memory, false);
        flushed.extend(plan.ids);
        right = Some(flushing);
    }
    Ok(flushed)
}

/// The batches of a flush.
struct Plan {
    /// Sequence numbers of the messages.
    batches: Vec<Vec<u64>>,
    /// Ids of the same messages.
    ids: Vec<Vec<String>>,
    /// The sequence number from which on prompts show messages afterwards.
    window: u64,
}

impl OpenMemory {
    /// Checks updates, removes echoes of prompts from them, and combines them into one change of the session. Also
    /// returns the part of the report that is known before the commit.
    fn change(&self, updates: Vec<MessageUpdate>) -> Result<(SessionChange, MemoryReport)> {
        let cleared = updates.iter().rposition(|update| *update == MessageUpdate::RemoveAll);
        let clear = if cleared.is_some() { Clear::Buffer } else { Clear::None };
        let mut change = SessionChange { clear, ..SessionChange::default() };
        let mut report = MemoryReport::default();
        let mut puts: Vec<Option<Message>> = Vec::new();
        let mut positions: HashMap<String, usize> = HashMap::new();
        let mut removed: HashSet<String> = HashSet::new();
        for update in updates.into_iter().skip(cleared.map_or(0, |at| at + 1)) {
            match update {
                MessageUpdate::Put(message) => {
                    removed.remove(&message.id);
                    match positions.get(&message.id) {
                        Some(&position) => report.replaced += u64::from(puts[position].replace(message).is_some()),
                        None => {
                            positions.insert(message.id.clone(), puts.len());
                            puts.push(Some(message));
                        }
                    }
                }
                MessageUpdate::Remove(id) => match positions.get(&id) {
                    // An earlier update put it. The session may have an older message with this id nevertheless.
                    Some(&position) => {
                        puts[position] = None;
                        if self.stored.has_message(&id)? && clear == Clear::None {
                            removed.insert(id);
                        }
                    }
                    None if clear != Clear::None || !self.stored.has_message(&id)? => {
                        return Err(Error::message(format!("no message {id:?} to remove in this session")));
                    }
                    None => drop(removed.insert(id)),
                },
                MessageUpdate::RemoveAll => unreachable!("the loop begins after the last RemoveAll"),
            }
        }
        change.remove = removed.into_iter().collect();
        change.remove.sort_unstable();
        let session = &self.stored.session;
        let puts: Vec<Message> = puts.into_iter().flatten().map(|message| message.in_session(session)).collect();
        puts.iter().try_for_each(Message::check)?;
        // A prompt that comes back removes no messages.
        let whole = clear == Clear::None && change.remove.is_empty();
        let WithoutEchoes { kept, echoes, known } = self.without_echoes(puts, whole)?;
        (change.put, report.echoes, report.unchanged) = (kept, echoes, known);
        Ok((change, report))
    }

    /// Returns what to flush to be within the budget, if anything. There are no batches if only messages that are in
    /// long-term memory already leave the prompts.
    fn plan(&self) -> Result<Option<Plan>> {
        let is_too_large = buffered_bytes(&self.buffer()?) > MAX_BUFFER_BYTES;
        if !is_too_large && !self.is_over_budget()? {
            return Ok(None);
        }
        let recent = self.recent()?;
        let limits = &self.settings.limits;
        let buffer: Vec<&RecentMessage> = recent.iter().filter(|recent| recent.is_buffered).collect();
        let costs: Vec<usize> = buffer.iter().map(|buffered| buffered.cost).collect();
        let messages: Vec<&Message> = buffer.iter().map(|buffered| &*buffered.message).collect();
        let ranges = if is_too_large { plan_by_bytes(&messages) } else { limits.plan_counted(&messages, &costs) };
        let Some(last) = ranges.last() else {
            let window = later_begin(&recent, limits);
            return Ok(window.map(|window| Plan { batches: Vec::new(), ids: Vec::new(), window }));
        };
        let window = buffer[last.end - 1].seq + 1;
        let of = |range: &std::ops::Range<usize>| buffer[range.clone()].iter();
        Ok(Some(Plan {
            batches: ranges.iter().map(|range| of(range).map(|buffered| buffered.seq).collect()).collect(),
            ids: ranges.iter().map(|range| of(range).map(|buffered| buffered.message.id.clone()).collect()).collect(),
            window,
        }))
    }
}

fn buffered_bytes(buffer: &[(u64, Arc<Message>)]) -> usize {
    buffer.iter().map(|(_, message)| message.memory_bytes()).sum()
}

impl MemoryReport {
    fn with_counts(self, put: PutResult) -> Self {
        let PutResult { new, replaced, unchanged, removed, .. } = put;
        MemoryReport { new, replaced: self.replaced + replaced, unchanged: self.unchanged + unchanged, removed, ..self }
    }
}
