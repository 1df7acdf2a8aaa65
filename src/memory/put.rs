//! Changing a session's messages, and flushing its buffer.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, mpsc},
};

use tokio::sync::oneshot;

use super::{Inner, Memory, MemoryReport};
use crate::{
    error::{Error, Result},
    message::{Message, MessageUpdate, Role},
    store::{Effects, PutResult, SessionChange, Transaction},
};

/// A flush: the sequence numbers of each batch, and the ids.
pub(super) struct Plan {
    batches: Vec<Vec<u64>>,
    ids: Vec<Vec<String>>,
}

impl Memory {
    pub(super) async fn change(&self, updates: Vec<MessageUpdate>) -> Result<MemoryReport> {
        let inner = &self.inner;
        let (change, before) = inner.change(updates)?;
        let (reply, answer) = oneshot::channel();
        inner.submit(change, move |result| drop(reply.send(result)));
        let mut report = before.and(answer.await.map_err(|_| Error::Closed)??);
        // On the engine's threads to the end, whether or not the caller still waits; counting new tokens takes a while.
        let (reply, answer) = oneshot::channel();
        let flushing = Arc::clone(inner);
        inner.core().spawn(move || {
            let flushed = flushing.flush_due();
            // Before the answer: who gets it may close the engine and open it again.
            drop(flushing);
            let _ = reply.send(flushed);
        });
        report.flushed = answer.await.map_err(|_| Error::Closed)??;
        Ok(report)
    }
}

impl Inner {
    pub(super) fn change_now(&self, updates: Vec<MessageUpdate>) -> Result<MemoryReport> {
        let (change, before) = self.change(updates)?;
        let (reply, answer) = mpsc::sync_channel(1);
        self.submit(change, move |result| drop(reply.send(result)));
        let mut report = before.and(answer.recv().map_err(|_| Error::Closed)??);
        report.flushed = self.flush_due()?;
        Ok(report)
    }

    /// Flushes until the buffer is within its budget, unless another does. Returns the ids of each batch.
    fn flush_due(&self) -> Result<Vec<Vec<String>>> {
        let mut flushed = Vec::new();
        let mut turn = self.live.begin_flush();
        while let Some(flushing) = turn {
            let Some(plan) = self.plan()? else {
                turn = flushing.end();
                continue;
            };
            let (reply, answer) = mpsc::sync_channel(1);
            self.submit_flush(plan.batches, move |result| drop(reply.send(result)));
            answer.recv().map_err(|_| Error::Closed)??;
            self.work_on_batches();
            flushed.extend(plan.ids);
            turn = Some(flushing);
        }
        Ok(flushed)
    }

    /// What updates do to the session, checked, without what comes back from a prompt; and what of the report is known.
    fn change(&self, updates: Vec<MessageUpdate>) -> Result<(SessionChange, MemoryReport)> {
        let cleared = updates.iter().rposition(|update| *update == MessageUpdate::RemoveAll);
        let mut change = SessionChange { clear: cleared.is_some(), ..SessionChange::default() };
        let mut report = MemoryReport::default();
        let mut puts: Vec<Option<Message>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut removed: HashSet<String> = HashSet::new();
        for update in updates.into_iter().skip(cleared.map_or(0, |at| at + 1)) {
            match update {
                MessageUpdate::Put(message) => {
                    removed.remove(&message.id);
                    match places.get(&message.id) {
                        Some(&place) => report.replaced += u64::from(puts[place].replace(message).is_some()),
                        None => {
                            places.insert(message.id.clone(), puts.len());
                            puts.push(Some(message));
                        }
                    }
                }
                MessageUpdate::Remove(id) => match places.get(&id) {
                    // Put just before: it may be new, and may be known.
                    Some(&place) => {
                        puts[place] = None;
                        if self.knows(&id)? && !change.clear {
                            removed.insert(id);
                        }
                    }
                    None if change.clear || !self.knows(&id)? => {
                        return Err(Error::message(format!("no message {id:?} to remove in this session")));
                    }
                    None => drop(removed.insert(id)),
                },
                MessageUpdate::RemoveAll => unreachable!("skipped to after the last"),
            }
        }
        change.remove = removed.into_iter().collect();
        change.remove.sort_unstable();
        let session = &self.settings.session;
        let puts: Vec<Message> = puts.into_iter().flatten().map(|message| message.in_session(session)).collect();
        puts.iter().try_for_each(Message::check)?;
        // A prompt that comes back changes nothing else.
        let whole = !change.clear && change.remove.is_empty();
        (change.put, report.echoes) = self.without_echoes(puts, whole)?;
        Ok((change, report))
    }

    fn submit(&self, change: SessionChange, reply: impl FnOnce(Result<PutResult>) + Send + 'static) {
        let (namespace, session) = (self.settings.namespace.clone(), self.settings.session.clone());
        let checkpoint = self.settings.checkpoint_each_put;
        let apply = move |transaction: &mut Transaction| {
            let mut put = transaction.update(&namespace, &session, &change)?;
            let effects = std::mem::take(&mut put.effects);
            if checkpoint && put.new + put.replaced + put.removed > 0 {
                transaction.checkpoint(&namespace, &session, "")?;
            }
            Ok((put, effects))
        };
        self.core().write(apply, reply);
    }

    pub(super) fn flush(&self) -> Result<Vec<String>> {
        let buffer = self.buffer()?;
        let system = buffer.iter().take_while(|(_, message, _)| message.role == Role::System).count();
        let rest = &buffer[system..];
        let (reply, answer) = mpsc::sync_channel(1);
        // Another may be flushing some of these: each goes once, with the first.
        self.submit_flush(vec![rest.iter().map(|(seq, ..)| *seq).collect()], move |result| drop(reply.send(result)));
        answer.recv().map_err(|_| Error::Closed)??;
        self.work_on_batches();
        Ok(rest.iter().map(|(_, message, _)| message.id.clone()).collect())
    }

    /// What to flush now, if anything.
    fn plan(&self) -> Result<Option<Plan>> {
        if !self.is_over()? {
            return Ok(None);
        }
        let buffer = self.buffer()?;
        let costs: Vec<usize> = buffer.iter().map(|(.., cost)| *cost).collect();
        let messages: Vec<&Message> = buffer.iter().map(|(_, message, _)| &**message).collect();
        let ranges = self.settings.limits.plan_counted(&messages, &costs);
        let of = |range: &std::ops::Range<usize>| buffer[range.clone()].iter();
        Ok((!ranges.is_empty()).then(|| Plan {
            batches: ranges.iter().map(|range| of(range).map(|(seq, ..)| *seq).collect()).collect(),
            ids: ranges.iter().map(|range| of(range).map(|(_, message, _)| message.id.clone()).collect()).collect(),
        }))
    }

    fn submit_flush(&self, batches: Vec<Vec<u64>>, reply: impl FnOnce(Result<u64>) + Send + 'static) {
        let (namespace, session) = (self.settings.namespace.clone(), self.settings.session.clone());
        let apply = move |transaction: &mut Transaction| -> Result<(u64, Effects)> {
            transaction.flush(&namespace, &session, &batches)
        };
        self.core().write(apply, reply);
    }

    /// Whether this session has a message of this id.
    pub(super) fn knows(&self, id: &str) -> Result<bool> {
        let snapshot = self.core().store().read()?;
        let Some(namespace) = snapshot.namespace(&self.settings.namespace)? else { return Ok(false) };
        let own = snapshot.session(namespace, &self.settings.session)?;
        Ok(snapshot.locate(namespace, id)?.is_some_and(|(_, session)| Some(session) == own))
    }
}

impl MemoryReport {
    fn and(self, put: PutResult) -> Self {
        let PutResult { new, replaced, unchanged, removed, .. } = put;
        MemoryReport { new, replaced: self.replaced + replaced, unchanged, removed, ..self }
    }
}
