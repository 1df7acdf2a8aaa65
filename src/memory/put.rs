//! Changing a session's messages, and flushing its buffer.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, mpsc},
};

use tokio::sync::oneshot;

use super::{Inner, Memory, MemoryReport};
use crate::{
    error::{Error, Result},
    message::{Message, Update},
    store::{Effects, PutResult, SessionChange, Transaction},
};

/// A flush: the sequence numbers of each batch, and the ids.
pub(super) struct Plan {
    batches: Vec<Vec<u64>>,
    ids: Vec<Vec<String>>,
}

impl Memory {
    pub(super) async fn change(&self, updates: Vec<Update>) -> Result<MemoryReport> {
        let inner = &self.inner;
        let (change, echoes) = inner.change(updates)?;
        let (reply, answer) = oneshot::channel();
        inner.submit(change, move |result| drop(reply.send(result)));
        let mut report = report(answer.await.map_err(|_| Error::Closed)??, echoes);
        let mut turn = inner.live.begin_flush();
        while let Some(flushing) = turn {
            // Counting many new tokens takes a while: not on the executor's thread.
            let planning = Arc::clone(inner);
            let Some(plan) = inner.engine.on_pool(move |_| planning.plan()).await? else {
                turn = flushing.end();
                continue;
            };
            let (reply, answer) = oneshot::channel();
            inner.submit_flush(plan.batches, move |result| drop(reply.send(result)));
            answer.await.map_err(|_| Error::Closed)??;
            report.flushed.extend(plan.ids);
            turn = Some(flushing);
        }
        inner.flushed(&report);
        Ok(report)
    }
}

impl Inner {
    pub(super) fn change_now(&self, updates: Vec<Update>) -> Result<MemoryReport> {
        let (change, echoes) = self.change(updates)?;
        let (reply, answer) = mpsc::sync_channel(1);
        self.submit(change, move |result| drop(reply.send(result)));
        let mut report = report(answer.recv().map_err(|_| Error::Closed)??, echoes);
        let mut turn = self.live.begin_flush();
        while let Some(flushing) = turn {
            let Some(plan) = self.plan()? else {
                turn = flushing.end();
                continue;
            };
            let (reply, answer) = mpsc::sync_channel(1);
            self.submit_flush(plan.batches, move |result| drop(reply.send(result)));
            answer.recv().map_err(|_| Error::Closed)??;
            report.flushed.extend(plan.ids);
            turn = Some(flushing);
        }
        self.flushed(&report);
        Ok(report)
    }

    fn flushed(&self, report: &MemoryReport) {
        if !report.flushed.is_empty() {
            self.work_on_batches();
        }
    }

    /// What updates do to the session, checked, without what comes back from a prompt; and how much of that there was.
    fn change(&self, updates: Vec<Update>) -> Result<(SessionChange, u64)> {
        let cleared = updates.iter().rposition(|update| *update == Update::RemoveAll);
        let mut change = SessionChange { clear: cleared.is_some(), ..SessionChange::default() };
        let mut puts: Vec<Option<Message>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut removed: HashSet<String> = HashSet::new();
        for update in updates.into_iter().skip(cleared.map_or(0, |at| at + 1)) {
            match update {
                Update::Put(message) => {
                    removed.remove(&message.id);
                    match places.get(&message.id) {
                        Some(&place) => puts[place] = Some(message),
                        None => {
                            places.insert(message.id.clone(), puts.len());
                            puts.push(Some(message));
                        }
                    }
                }
                Update::Remove(id) => match places.get(&id) {
                    // Put just before: it may be new, and may be known.
                    Some(&place) => {
                        puts[place] = None;
                        if self.knows(&id)? && !change.clear {
                            removed.insert(id);
                        }
                    }
                    None if change.clear => return Err(Error::message(format!("no message {id:?} to remove"))),
                    None => {
                        removed.insert(id);
                    }
                },
                Update::RemoveAll => unreachable!("skipped to after the last"),
            }
        }
        change.remove = removed.into_iter().collect();
        change.remove.sort_unstable();
        let puts: Vec<Message> = puts.into_iter().flatten().collect();
        for message in &puts {
            message.check()?;
        }
        let (put, echoes) = self.without_echoes(puts)?;
        change.put = put;
        Ok((change, echoes))
    }

    fn submit(&self, change: SessionChange, reply: impl FnOnce(Result<PutResult>) + Send + 'static) {
        let (namespace, session) = (self.namespace.clone(), self.session.clone());
        let checkpoint = self.checkpoint_each_put;
        let apply = move |transaction: &mut Transaction| {
            let mut put = transaction.update(&namespace, &session, &change)?;
            let effects = std::mem::take(&mut put.effects);
            if checkpoint && put.new + put.replaced > 0 {
                transaction.checkpoint(&namespace, &session, "")?;
            }
            Ok((put, effects))
        };
        self.core().write(apply, reply);
    }

    /// What to flush now, if anything.
    fn plan(&self) -> Result<Option<Plan>> {
        let buffer = self.buffer()?;
        let costs: Vec<usize> = buffer.iter().map(|(.., cost)| *cost).collect();
        let messages: Vec<&Message> = buffer.iter().map(|(_, message, _)| &**message).collect();
        let ranges = self.limits.plan_counted(&messages, &costs);
        let of = |range: &std::ops::Range<usize>| buffer[range.clone()].iter();
        Ok((!ranges.is_empty()).then(|| Plan {
            batches: ranges.iter().map(|range| of(range).map(|(seq, ..)| *seq).collect()).collect(),
            ids: ranges.iter().map(|range| of(range).map(|(_, message, _)| message.id.clone()).collect()).collect(),
        }))
    }

    fn submit_flush(&self, batches: Vec<Vec<u64>>, reply: impl FnOnce(Result<u64>) + Send + 'static) {
        let (namespace, session) = (self.namespace.clone(), self.session.clone());
        let apply = move |transaction: &mut Transaction| -> Result<(u64, Effects)> {
            transaction.flush(&namespace, &session, &batches)
        };
        self.core().write(apply, reply);
    }

    /// Whether this session has a message of this id.
    pub(super) fn knows(&self, id: &str) -> Result<bool> {
        let snapshot = self.core().store().read()?;
        let Some(namespace) = snapshot.namespace(&self.namespace)? else { return Ok(false) };
        let own = snapshot.session(namespace, &self.session)?;
        Ok(snapshot.locate(namespace, id)?.is_some_and(|(_, session)| Some(session) == own))
    }
}

fn report(put: PutResult, echoes: u64) -> MemoryReport {
    let PutResult { new, replaced, unchanged, .. } = put;
    MemoryReport { new, replaced, unchanged, echoes, flushed: Vec::new() }
}
