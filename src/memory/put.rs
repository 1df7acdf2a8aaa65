//! Puts and removals of messages, and flushes of the short-term buffer.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    batch_jobs,
    echo::WithoutEchoes,
    inner::Inner,
    reports::MemoryReport,
    window::{RecentMessage, leave},
};
use crate::{
    engine::Lane,
    error::{Error, Result},
    message::{Message, MessageUpdate, Role},
    store::{Clear, PutResult, SessionChange},
};

/// The batches of a flush.
struct Plan {
    /// Sequence numbers of the messages.
    batches: Vec<Vec<u64>>,
    /// Ids of the same messages.
    ids: Vec<Vec<String>>,
    /// The sequence number from which on prompts show messages after it.
    window: u64,
}

/// Applies updates in one commit, then flushes the buffer if it is over its budget.
pub(super) async fn update(memory: &Arc<Inner>, updates: Vec<MessageUpdate>) -> Result<MemoryReport> {
    let (change, before) = memory.run(Lane::Store, move |memory| memory.change(updates)).await?;
    commit(memory, change, before).await
}

/// Commits a change, then flushes the buffer if it is over its budget.
pub(super) async fn commit(memory: &Arc<Inner>, change: SessionChange, before: MemoryReport) -> Result<MemoryReport> {
    memory.schedule_idle();
    let put = memory.stored.update(change, memory.settings.checkpoint_each_put).await?;
    let mut report = before.with_counts(put);
    // The flush runs to its end even if the caller drops the future.
    report.flushed = memory.run(Lane::Store, flush_due).await?;
    Ok(report)
}

/// Makes the session what a client's chat is, then flushes the buffer if it is over its budget.
pub(super) async fn sync(memory: &Arc<Inner>, chat: Vec<Message>) -> Result<MemoryReport> {
    memory.schedule_idle();
    let sync = move |memory: &Inner| {
        let report = memory.sync(chat)?;
        Ok(MemoryReport { flushed: flush_due(memory)?, ..report })
    };
    memory.run(Lane::Store, sync).await
}

/// Flushes the whole buffer but for the leading system messages. Returns the ids of what was flushed.
pub(super) fn flush(memory: &Inner) -> Result<Vec<String>> {
    let buffer = memory.buffer()?;
    let system = buffer.iter().take_while(|(_, message, _)| message.role == Role::System).count();
    let rest = &buffer[system..];
    // Another thread may be flushing some of these: each message goes once, with the first.
    memory.stored.flush(vec![rest.iter().map(|(seq, ..)| *seq).collect()], None)?;
    batch_jobs::take_batches(memory, false);
    Ok(rest.iter().map(|(_, message, _)| message.id.clone()).collect())
}

/// Makes the session what it was at a checkpoint.
pub(super) fn restore(memory: &Inner, checkpoint: u32) -> Result<()> {
    memory.schedule_idle();
    memory.stored.restore(checkpoint)?;
    // The turn in progress belongs to another past.
    *memory.live.turn.lock() = Default::default();
    batch_jobs::take_batches(memory, false);
    Ok(())
}

/// Flushes until the buffer is within its budget, unless another thread does. Returns the ids of each batch.
fn flush_due(memory: &Inner) -> Result<Vec<Vec<String>>> {
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

impl Inner {
    /// Checks updates, removes echoes of prompts from them, and combines them to one change of the session. Also
    /// returns the part of the report that is known before the commit.
    pub(super) fn change(&self, updates: Vec<MessageUpdate>) -> Result<(SessionChange, MemoryReport)> {
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
                    // An earlier update put it. The session may have a message with this id all the same.
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
        // Updates that also remove messages are not a prompt that came back.
        let whole = clear == Clear::None && change.remove.is_empty();
        let WithoutEchoes { kept, echoes, known } = self.without_echoes(puts, whole)?;
        (change.put, report.echoes, report.unchanged) = (kept, echoes, known);
        Ok((change, report))
    }

    /// Returns the batches that are due for a flush, if any, or where the window is to begin if it is over its budget
    /// for other messages than those of the buffer.
    fn plan(&self) -> Result<Option<Plan>> {
        if !self.is_over_budget()? {
            return Ok(None);
        }
        let recent = self.recent()?;
        let limits = &self.settings.limits;
        let buffer: Vec<&RecentMessage> = recent.iter().filter(|recent| recent.is_buffered).collect();
        let costs: Vec<usize> = buffer.iter().map(|buffered| buffered.cost).collect();
        let messages: Vec<&Message> = buffer.iter().map(|buffered| &*buffered.message).collect();
        let ranges = limits.plan_counted(&messages, &costs);
        let Some(last) = ranges.last() else {
            let window = leave(&recent, limits);
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

impl MemoryReport {
    /// Adds the counts of the commit.
    fn with_counts(self, put: PutResult) -> Self {
        let PutResult { new, replaced, unchanged, removed, .. } = put;
        MemoryReport { new, replaced: self.replaced + replaced, unchanged: self.unchanged + unchanged, removed, ..self }
    }
}
