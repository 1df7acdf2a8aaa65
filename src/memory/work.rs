//! Blocks taking batches, in the background.

use std::{sync::Arc, time::Duration};

use super::{
    BlockStatus, Inner,
    state::{json, value},
};
use crate::{
    block::{Batch, MemoryBlock},
    engine::{Core, Next, Visitor},
    error::{Error, Result},
    store::{BlockKey, BlockState, StoredBatch, Transaction},
};

/// Tries after which a batch is given up that fails for another reason than a service that is not there.
const MAX_FAULTS: u32 = 3;
const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// The longest that a service may ask to wait.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);
/// Batches that a block may have given up. Above it waits.
const MAX_FAILED: usize = 1000;
/// Of a reason that is stored.
const MAX_REASON_BYTES: usize = 1024;

/// How often a block has failed on its next batch.
#[derive(Default)]
struct Tries {
    all: u32,
    /// Not for want of a service.
    faults: u32,
}

impl Inner {
    fn workers(&self) -> impl Iterator<Item = &Arc<dyn MemoryBlock>> {
        self.blocks.iter().map(|asked| &asked.block).filter(|block| block.takes_batches())
    }

    /// Has all blocks take what they have not taken yet.
    pub(super) fn work_on_batches(&self) {
        self.take_batches(false);
    }

    fn take_batches(&self, hurry: bool) {
        for block in self.workers() {
            let (key, block, core) = (self.key(&**block), Arc::clone(block), self.core().visitor());
            let mut tries = Tries::default();
            let work = {
                let key = key.clone();
                move || take_batch(&core, &key, &*block, &mut tries)
            };
            self.core().background().submit(key, hurry, work);
        }
    }

    pub(super) fn settle(&self) -> Result<()> {
        self.take_batches(true);
        self.settings.engine.blocking().flush()?;
        let waits = self.workers().map(|block| self.core().background().wait(&self.key(&**block), block.name()));
        // For all, whichever fails.
        waits.fold(Ok(()), Result::and)
    }

    pub(super) fn status(&self) -> Result<Vec<BlockStatus>> {
        let snapshot = self.core().store().read()?;
        let batches = match snapshot.namespace(&self.settings.namespace)? {
            None => 0,
            Some(namespace) => match snapshot.session(namespace, &self.settings.session)? {
                None => 0,
                Some(session) => snapshot.next_batch(namespace, session)?,
            },
        };
        self.workers()
            .map(|block| {
                let key = self.key(&**block);
                let BlockState { next, failed, .. } = snapshot.block(&key)?;
                Ok(BlockStatus {
                    name: block.name().to_owned(),
                    behind: u64::from(batches.saturating_sub(next)),
                    failed,
                    retrying: self.core().background().failure(&key),
                })
            })
            .collect()
    }

    pub(super) fn retry_failed(&self, block: &str) -> Result<u64> {
        let block = &*self.asked(block)?.block;
        let key = self.key(block);
        let mut taken = 0;
        loop {
            let core = self.core();
            let read = core.store().read()?.block(&key)?;
            let Some((number, _)) = read.failed.first().cloned() else { return Ok(taken) };
            let mut new = BlockState { failed: read.failed[1..].to_vec(), ..read.clone() };
            let batch = batch(core, &key, number)?;
            if let Some(batch) = &batch {
                let state = block.put(&value(&read)?, &Batch::new(number, &batch.messages))?;
                new.state = Some(json(&state)?);
            }
            if commit(core, &key, read, new, batch)? {
                taken += 1;
            }
        }
    }
}

/// Has a block take its next batch. Holds the engine open only while it reads and writes, not while the block works.
fn take_batch(core: &Visitor, key: &BlockKey, block: &dyn MemoryBlock, tries: &mut Tries) -> Next {
    let Some((first_retry, next)) = core.visit(|core| (core.config().block_retry, next_batch(core, key))) else {
        return Next::Done;
    };
    let mut retry = |error: &Error| {
        tracing::warn!(block = key.name, %error, "a block failed, and is tried again");
        tries.all += 1;
        Next::Retry(wait(error, first_retry, tries.all), reason(error))
    };
    let (read, batch) = match next {
        Ok(Some(next)) => next,
        Ok(None) => return Next::Done,
        Err(error) => return retry(&error),
    };
    let mut new = BlockState { next: read.next + 1, ..read.clone() };
    match state_after(block, &read, &batch) {
        Ok(state) => new.state = state,
        Err(error) if is_transient(&error) => return retry(&error),
        Err(error) => {
            let again = retry(&error);
            tries.faults += 1;
            if tries.faults < MAX_FAULTS || new.failed.len() >= MAX_FAILED {
                return again;
            }
            tracing::error!(block = key.name, batch = batch.number, %error, "a block gives a batch up");
            new.failed.push((batch.number, reason(&error)));
        }
    }
    let Some(committed) = core.visit(|core| commit(core, key, read, new, Some(batch))) else { return Next::Done };
    match committed {
        // Whether it was stored or had changed meanwhile: there may be more.
        Ok(_) => {
            *tries = Tries::default();
            Next::More
        }
        Err(error) => {
            tries.all += 1;
            Next::Retry(wait(&error, first_retry, tries.all), reason(&error))
        }
    }
}

fn next_batch(core: &Core, key: &BlockKey) -> Result<Option<(BlockState, StoredBatch)>> {
    let read = core.store().read()?.block(key)?;
    let batch = batch(core, key, read.next)?;
    Ok(batch.map(|batch| (read, batch)))
}

fn state_after(block: &dyn MemoryBlock, read: &BlockState, batch: &StoredBatch) -> Result<Option<String>> {
    match batch.messages.is_empty() {
        // All were deleted since.
        true => Ok(read.state.clone()),
        false => {
            let (before, batch) = (value(read)?, Batch::new(batch.number, &batch.messages));
            let put = std::panic::AssertUnwindSafe(|| block.put(&before, &batch));
            let panicked = |_| Err(Error::Block { name: block.name().to_owned(), reason: "it panicked".into() });
            json(&std::panic::catch_unwind(put).unwrap_or_else(panicked)?).map(Some)
        }
    }
}

fn batch(core: &Core, key: &BlockKey, number: u32) -> Result<Option<StoredBatch>> {
    let snapshot = core.store().read()?;
    let Some(namespace) = snapshot.namespace(&key.namespace)? else { return Ok(None) };
    let Some(session) = snapshot.session(namespace, &key.session)? else { return Ok(None) };
    snapshot.batch(namespace, session, number)
}

/// Stores what a block has made of a batch, unless it, the batch or the session changed since.
fn commit(core: &Core, key: &BlockKey, read: BlockState, new: BlockState, batch: Option<StoredBatch>) -> Result<bool> {
    let key = key.clone();
    core.write_now(move |transaction: &mut Transaction| {
        Ok((transaction.put_block(&key, &read, &new, batch.as_ref())?, Default::default()))
    })
}

fn is_transient(error: &Error) -> bool {
    matches!(error, Error::Chat { transient: true, .. } | Error::Storage(_))
}

fn wait(error: &Error, first: Duration, attempts: u32) -> Duration {
    let asked = match error {
        Error::Chat { retry_after, .. } => retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    };
    let doubled = first.saturating_mul(1 << (attempts.clamp(1, 10) - 1));
    doubled.min(LONGEST_RETRY).max(asked.min(LONGEST_ASKED))
}

/// The error and those behind it.
fn reason(error: &Error) -> String {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        reason = format!("{reason}: {error}");
        source = error.source();
    }
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    reason
}
