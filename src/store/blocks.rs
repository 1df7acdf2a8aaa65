//! The states of memory blocks, and how many batches each has processed.
//!
//! A block's state and its position in the batches change in one commit, and only if nobody changed them since they
//! were read. So each batch counts once, whenever a failure occurs.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;

use super::{
    checkpoints::Checkpoints,
    codec,
    namespaces::{self, Namespaces},
    schema::*,
    sessions::{self, Messages, Sessions},
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    forget::{documents_made, without_versions_of},
    ids::{Namespace, NamespaceId},
    message::Message,
};

/// The identity of a block: its namespace, session and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    pub(crate) namespace: Namespace,
    pub(crate) session: String,
    pub(crate) name: String,
    /// Whether all sessions of the namespace share its state.
    pub(crate) shared: bool,
}

/// The stored state of a block, and its position in the batches of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BlockState {
    /// The namespace's number; `None` if there is no such namespace yet.
    pub(crate) namespace: Option<NamespaceId>,
    /// The session's number; `None` if there is no such session yet.
    pub(crate) session: Option<u32>,
    /// The state as JSON; `None` before the first change.
    pub(crate) state: Option<String>,
    /// Number of changes so far.
    pub(crate) revision: u64,
    /// The number of the next batch to process.
    pub(crate) next: u32,
    /// The batches that the block gave up on, and why.
    pub(crate) failed: Vec<(u32, String)>,
    /// Number of times the session was restored to a checkpoint, or some of its flushed messages were forgotten.
    pub(crate) restores: u32,
    /// True if the state was dropped because messages that it was made of were forgotten, and the block has not decided
    /// yet whether to make it again.
    pub(crate) is_dropped: bool,
}

/// The stored state of a memory block.
///
/// [`Engine::blocks`](crate::Engine::blocks) lists them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Block"))]
#[non_exhaustive]
pub struct StoredBlock {
    /// The name of the block.
    pub name: String,
    /// The session whose block it is. `None`: all sessions of the namespace share its state.
    pub session: Option<String>,
    /// The state, up to 1 MiB of JSON. Null if it was dropped because messages that it was made of were forgotten.
    pub state: Value,
    /// Number of changes so far.
    pub revision: u64,
}

/// The states that were dropped because messages that they were made of are forgotten.
#[derive(Debug, Default)]
pub(super) struct DroppedStates {
    pub(super) states: u64,
    /// The documents that the blocks made of the messages.
    pub(super) documents: Vec<(Namespace, String)>,
}

/// The states of a session's own blocks, and the cursors of all its blocks, by name.
pub(super) type SessionBlocks = Vec<(String, OldBlock)>;

/// The reason in the place of that of a batch that was given up, and is to be handed over again.
pub(crate) const HANDED_OVER: &str = "";

/// A batch of a session that a memory block gave up. [`Engine::failed_batches`](crate::Engine::failed_batches) lists them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FailedBatch {
    /// The namespace of the session.
    pub namespace: Namespace,
    /// The session.
    pub session: String,
    /// The name of the block.
    pub block: String,
    /// The number of the batch in its session.
    pub batch: u32,
    /// The reason of the last failure.
    pub reason: String,
}

/// The tables of blocks and of their cursors.
pub(crate) struct Blocks<'t, T>(pub(super) &'t T);

impl<T: Tables> Blocks<'_, T> {
    /// A block as it is stored. A block that never changed has the default state.
    pub(crate) fn get(&self, key: &BlockKey) -> Result<BlockState> {
        let Some(namespace) = Namespaces(self.0).id(&key.namespace)? else { return Ok(BlockState::default()) };
        let session = Sessions(self.0).number(namespace, &key.session)?;
        let home = if key.shared { Some(SHARED) } else { session };
        let record = home.map_or(Ok(None), |home| self.record(namespace, home, &key.name))?;
        let (cursor, restores, is_dropped) = match session {
            Some(session) => (
                self.cursor(namespace, session, &key.name)?,
                self.restores(namespace, session)?,
                self.is_dropped(namespace, session, &key.name)?,
            ),
            None => Default::default(),
        };
        let (state, revision) = record.map_or((None, 0), |record| (Some(record.state), record.revision));
        let CursorRecord { next, failed, .. } = cursor;
        Ok(BlockState { namespace: Some(namespace), session, state, revision, next, failed, restores, is_dropped })
    }

    /// The states of all blocks of a namespace: those of the sessions, and then those that they share.
    pub(crate) fn all(&self, namespace: NamespaceId) -> Result<Vec<StoredBlock>> {
        let names = self.names(namespace)?.into_iter();
        names.filter_map(|(session, name)| self.one(namespace, session, &name).transpose()).collect()
    }

    /// The sessions and the names of these blocks, in the same order.
    pub(crate) fn names(&self, namespace: NamespaceId) -> Result<Vec<(Option<String>, String)>> {
        let sessions = Sessions(self.0).names(namespace)?;
        let mut found = Vec::new();
        for entry in self.0.table(BLOCKS)?.range((namespace.0, 0, "")..(namespace.0 + 1, 0, ""))? {
            let (key, _) = entry?;
            let (_, home, name) = key.value();
            found.push((sessions.get(&home).cloned(), name.to_owned()));
        }
        Ok(found)
    }

    /// The state of a block of a session, or of one that all sessions share.
    pub(crate) fn one(
        &self,
        namespace: NamespaceId,
        session: Option<String>,
        name: &str,
    ) -> Result<Option<StoredBlock>> {
        let home = session.as_deref().map_or(Ok(Some(SHARED)), |of| Sessions(self.0).number(namespace, of))?;
        let Some(BlockRecord { state, revision }) = home.map_or(Ok(None), |home| self.record(namespace, home, name))?
        else {
            return Ok(None);
        };
        let state = serde_json::from_str(&state).map_err(|error| {
            Error::corrupted(format!("its state holds bad JSON: {error}")).within(|| format!("block {name:?}"))
        })?;
        Ok(Some(StoredBlock { name: name.to_owned(), session, state, revision }))
    }

    /// The batches of a namespace that blocks gave up.
    pub(crate) fn failed(&self, name: &Namespace) -> Result<Vec<FailedBatch>> {
        let Some(id) = Namespaces(self.0).id(name)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut sessions = None;
        for (session, block, CursorRecord { failed, .. }) in self.cursors(id)? {
            for (batch, reason) in failed.into_iter().filter(|(_, reason)| reason != HANDED_OVER) {
                let names = match &mut sessions {
                    Some(names) => names,
                    none => none.insert(Sessions(self.0).names(id)?),
                };
                let session = names.get(&session).cloned().unwrap_or_default();
                found.push(FailedBatch { namespace: name.clone(), session, block: block.clone(), batch, reason });
            }
        }
        Ok(found)
    }

    /// The positions of all blocks of a namespace, each with its session and the name of the block.
    fn cursors(&self, namespace: NamespaceId) -> Result<Vec<(u32, String, CursorRecord)>> {
        let mut found = Vec::new();
        for entry in self.0.table(CURSORS)?.range((namespace.0, 0, "")..(namespace.0 + 1, 0, ""))? {
            let (key, value) = entry?;
            let (_, session, block) = key.value();
            found.push((session, block.to_owned(), codec::decode(value.value())?));
        }
        Ok(found)
    }

    /// The session's blocks: the states of its own blocks, and the cursors of all.
    pub(super) fn of_session(&self, namespace: NamespaceId, session: u32) -> Result<SessionBlocks> {
        let all = (namespace.0, session, "")..(namespace.0, session + 1, "");
        let mut found = Vec::new();
        for entry in self.0.table(CURSORS)?.range(all)? {
            let (key, value) = entry?;
            let name = key.value().2;
            if name != RESTORES {
                let block = self.record(namespace, session, name)?;
                found.push((name.to_owned(), OldBlock { block, cursor: codec::decode(value.value())? }));
            }
        }
        Ok(found)
    }

    /// Number of times the session was restored to a checkpoint.
    pub(super) fn restores(&self, namespace: NamespaceId, session: u32) -> Result<u32> {
        Ok(self.cursor(namespace, session, RESTORES)?.next)
    }

    fn is_dropped(&self, namespace: NamespaceId, session: u32, name: &str) -> Result<bool> {
        let table = self.0.table(DROPPED_BLOCKS)?;
        Ok(table.get((namespace.0, session, name))?.is_some())
    }

    fn record(&self, namespace: NamespaceId, home: u32, name: &str) -> Result<Option<BlockRecord>> {
        let table = self.0.table(BLOCKS)?;
        let value = table.get((namespace.0, home, name));
        let record = value.and_then(|value| value.map(|value| codec::decode(value.value())).transpose());
        record.map_err(|error| error.within(|| format!("block {name:?}")))
    }

    fn cursor(&self, namespace: NamespaceId, session: u32, name: &str) -> Result<CursorRecord> {
        let table = self.0.table(CURSORS)?;
        let value = table.get((namespace.0, session, name))?;
        value.map_or(Ok(CursorRecord::default()), |value| codec::decode(value.value()))
    }
}

impl Blocks<'_, WriteTransaction> {
    /// Stores a block, if it is still as it was `read`, and if the messages that the new state is made of are as they were.
    /// Returns true if the block was stored.
    pub(crate) fn put(&self, key: &BlockKey, read: &BlockState, new: &BlockState, made_of: &[Message]) -> Result<bool> {
        let Some((namespace, session)) = self.session_of(key, read)? else { return Ok(false) };
        if !Messages(self.0).are_stored(namespace, made_of)? {
            return Ok(false);
        }
        let home = if key.shared { SHARED } else { session };
        let name = key.name.as_str();
        let (old, cursor) = (self.record(namespace, home, name)?, self.cursor(namespace, session, name)?);
        if old.as_ref().map_or(0, |old| old.revision) != read.revision
            || cursor.next != read.next
            || self.restores(namespace, session)? != read.restores
            || self.is_dropped(namespace, session, name)? != read.is_dropped
        {
            return Ok(false);
        }
        if !new.is_dropped {
            self.0.table(DROPPED_BLOCKS)?.remove((namespace.0, session, name))?;
        }
        Checkpoints(self.0).keep_block(namespace, session, name, if key.shared { None } else { old }, cursor)?;
        if let Some(state) = &new.state {
            self.write(namespace, home, name, &BlockRecord { state: state.clone(), revision: read.revision + 1 })?;
        }
        let cursor = CursorRecord { next: new.next, failed: new.failed.clone(), shared: key.shared };
        self.write_cursor(namespace, session, name, &cursor)?;
        Ok(true)
    }

    /// The numbers of a block's namespace and session, which are created if they did not exist when the block was read.
    /// `None` if they are not those that were read: what was removed meanwhile is not created again.
    fn session_of(&self, key: &BlockKey, read: &BlockState) -> Result<Option<(NamespaceId, u32)>> {
        let (mut names, mut numbers) = (self.0.table(NAMESPACES)?, self.0.table(SESSIONS)?);
        let known = namespaces::known(self.0, &names, &key.namespace)?;
        if known.map(|record| NamespaceId(record.id)) != read.namespace {
            return Ok(None);
        }
        let mut namespace = namespaces::record_or_new(self.0, &mut names, &key.namespace)?;
        if sessions::number(&numbers, namespace.id, &key.session)? != read.session {
            return Ok(None);
        }
        let session = sessions::number_or_new(&mut numbers, &mut namespace, &key.session)?;
        namespaces::write_record(&mut names, &key.namespace, &namespace)?;
        Ok(Some((NamespaceId(namespace.id), session)))
    }

    /// Has the blocks of a namespace handed those batches again that they gave up, when their sessions are next opened.
    pub(crate) fn hand_over_failed(&self, name: &Namespace) -> Result<()> {
        let Some(id) = Namespaces(self.0).id(name)? else { return Ok(()) };
        for (session, block, mut cursor) in self.cursors(id)? {
            if cursor.failed.iter().any(|(_, reason)| reason != HANDED_OVER) {
                cursor.failed.iter_mut().for_each(|(_, reason)| HANDED_OVER.clone_into(reason));
                self.write_cursor(id, session, &block, &cursor)?;
            }
        }
        Ok(())
    }

    /// Stores blocks of a session as [`Blocks::of_session`] returned them.
    pub(super) fn write_all(&self, namespace: NamespaceId, session: u32, all: &SessionBlocks) -> Result<()> {
        for (name, OldBlock { block, cursor }) in all {
            self.write_cursor(namespace, session, name, cursor)?;
            if let Some(block) = block {
                self.write(namespace, session, name, block)?;
            }
        }
        Ok(())
    }

    /// Sets the number of times the session was restored.
    pub(super) fn set_restores(&self, namespace: NamespaceId, session: u32, restores: u32) -> Result<()> {
        let record = CursorRecord { next: restores, ..CursorRecord::default() };
        self.write_cursor(namespace, session, RESTORES, &record)
    }

    /// Drops the states that blocks of a session made of these batches, also those that they share with other sessions,
    /// and those that are kept for checkpoints; and those of other sessions' blocks that made the same documents. A block
    /// that is at work does not store its result.
    pub(super) fn drop_states(
        &self,
        namespace: NamespaceId,
        session: u32,
        batches: impl Fn(u32) -> bool,
    ) -> Result<DroppedStates> {
        self.set_restores(namespace, session, self.restores(namespace, session)? + 1)?;
        let mut dropped = DroppedStates::default();
        for (name, OldBlock { mut cursor, .. }) in self.of_session(namespace, session)? {
            let home = if cursor.shared { SHARED } else { session };
            let old = self.record(namespace, home, &name)?;
            let documents = old.as_ref().map_or(Vec::new(), |old| documents_made(&old.state));
            // A block changes its documents before it takes the batch.
            let end = cursor.next + u32::from(!documents.is_empty());
            if !(0..end).any(&batches) {
                continue;
            }
            // The reasons may quote messages.
            cursor.failed.clear();
            self.write_cursor(namespace, session, &name, &cursor)?;
            if let Some(old) = old {
                dropped.documents.extend(documents);
                dropped.states += self.drop_state(namespace, home, &name, old)?;
            }
            self.mark_dropped(namespace, session, &name, cursor.shared)?;
            dropped.states += Checkpoints(self.0).change_old_blocks(namespace, session, &name, drop_all)?;
        }
        if !dropped.documents.is_empty() {
            for (home, name, old) in self.records(namespace)? {
                if documents_made(&old.state).iter().any(|made| dropped.documents.contains(made)) {
                    dropped.states += self.drop_state(namespace, home, &name, old)?;
                    self.mark_dropped(namespace, home, &name, home == SHARED)?;
                    dropped.states += Checkpoints(self.0).change_old_blocks(namespace, home, &name, drop_all)?;
                }
            }
        }
        Ok(dropped)
    }

    /// Drops a state. Returns 1 if there was one.
    fn drop_state(&self, namespace: NamespaceId, home: u32, name: &str, old: BlockRecord) -> Result<u64> {
        let record = BlockRecord { state: DROPPED_STATE.to_owned(), revision: old.revision + 1 };
        self.write(namespace, home, name, &record)?;
        Ok(u64::from(old.state != DROPPED_STATE))
    }

    /// Takes the versions that were made of some messages, given by the hashes of their ids, out of the states of all blocks
    /// of a namespace. Returns the number of states that changed.
    pub(super) fn drop_versions(&self, namespace: NamespaceId, sources: &HashSet<String>) -> Result<u64> {
        let mut changed = 0;
        for (home, name, old) in self.records(namespace)? {
            if let Some(state) = without_versions_of(&old.state, sources) {
                self.write(namespace, home, &name, &BlockRecord { state, revision: old.revision + 1 })?;
                changed += 1;
            }
            let change = |state: &str| without_versions_of(state, sources);
            changed += Checkpoints(self.0).change_old_blocks(namespace, home, &name, change)?;
        }
        Ok(changed)
    }

    /// The records of all states of a namespace, each with its session, or [`SHARED`], and the name of its block.
    fn records(&self, namespace: NamespaceId) -> Result<Vec<(u32, String, BlockRecord)>> {
        let mut found = Vec::new();
        for entry in self.0.table(BLOCKS)?.range((namespace.0, 0, "")..(namespace.0 + 1, 0, ""))? {
            let (key, value) = entry?;
            let (_, home, name) = key.value();
            found.push((home, name.to_owned(), codec::decode(value.value())?));
        }
        Ok(found)
    }

    /// Has a block of a session, or of all sessions that share it, decide what to do after its state was dropped.
    fn mark_dropped(&self, NamespaceId(namespace): NamespaceId, session: u32, name: &str, shared: bool) -> Result<()> {
        let mut marks = self.0.table(DROPPED_BLOCKS)?;
        marks.insert((namespace, session, name), ())?;
        if shared {
            for entry in self.0.table(CURSORS)?.range((namespace, 0, "")..(namespace + 1, 0, ""))? {
                let (key, value) = entry?;
                let (_, session, other) = key.value();
                if other == name && codec::decode::<CursorRecord>(value.value())?.shared {
                    marks.insert((namespace, session, name), ())?;
                }
            }
        }
        Ok(())
    }

    /// Deletes the states and cursors of a session's blocks.
    pub(super) fn remove(&self, namespace: NamespaceId, session: u32) -> Result<()> {
        let all = (namespace.0, session, "")..(namespace.0, session + 1, "");
        self.0.table(DROPPED_BLOCKS)?.remove_range(all.clone())?;
        self.0.table(BLOCKS)?.remove_range(all.clone())?;
        self.0.table(CURSORS)?.remove_range(all)
    }

    /// Deletes the states that the sessions of a namespace share.
    pub(crate) fn remove_shared(&self, namespace: NamespaceId) -> Result<()> {
        let all = (namespace.0, SHARED, "")..(namespace.0 + 1, 0, "");
        self.0.table(BLOCKS)?.remove_range(all)
    }

    /// Stores the state of a block of a session, or with [`SHARED`] of all sessions.
    pub(super) fn write(&self, namespace: NamespaceId, home: u32, name: &str, record: &BlockRecord) -> Result<()> {
        self.0.table(BLOCKS)?.insert((namespace.0, home, name), codec::encode(record).as_slice())?;
        Ok(())
    }

    fn write_cursor(&self, namespace: NamespaceId, session: u32, name: &str, record: &CursorRecord) -> Result<()> {
        let key = (namespace.0, session, name);
        self.0.table(CURSORS)?.insert(key, codec::encode(record).as_slice())?;
        Ok(())
    }
}

/// Drops a state that is kept for a checkpoint.
fn drop_all(state: &str) -> Option<String> {
    (state != DROPPED_STATE).then(|| DROPPED_STATE.to_owned())
}
