//! What memory blocks have made of their batches, and how far they are.
//!
//! A block's state and its place in the batches change in one commit, and only if nobody changed them since they were read:
//! so each batch counts once, whatever fails when.

use redb::ReadableTable;

use super::{Snapshot, Transaction, codec, edit::Edit, schema::*, sessions::StoredBatch, storage};
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
};

/// Which block of which session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    pub(crate) namespace: Namespace,
    pub(crate) session: String,
    pub(crate) name: String,
    /// All sessions of the namespace share its state.
    pub(crate) shared: bool,
}

/// A block as it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BlockState {
    /// The session's number; `None`: it is not there yet.
    pub(crate) session: Option<u32>,
    /// JSON; `None` before the first change.
    pub(crate) state: Option<String>,
    pub(crate) revision: u64,
    /// The next batch of the session.
    pub(crate) next: u32,
    /// Batches given up, and why.
    pub(crate) failed: Vec<(u32, String)>,
    /// How often the session was gone back on.
    pub(crate) restores: u32,
}

/// The states of a session's own blocks, and how far all are.
pub(super) type SessionBlocks = Vec<(String, OldBlock)>;

impl Transaction {
    /// Stores a block, if it is still as `read`, and the batch that it was changed by, if one is given, still there. Returns
    /// whether it was so.
    pub(crate) fn put_block(
        &mut self,
        key: &BlockKey,
        read: &BlockState,
        new: &BlockState,
        batch: Option<&StoredBatch>,
    ) -> Result<bool> {
        let mut edit = Edit::begin(self)?;
        let mut space = edit.space(&key.namespace)?;
        if edit.known_session(&space, &key.session)? != read.session {
            return Ok(false);
        }
        let session = edit.session(&mut space, &key.session)?;
        let id = space.record.id;
        edit.put_back(space);
        edit.finish()?;
        if let Some(batch) = batch {
            let ends = self.table(BATCHES)?.get((id, session, batch.number)).map_err(storage)?.map(|ends| ends.value());
            if ends != Some(batch.ends) {
                return Ok(false);
            }
        }
        let home = if key.shared { SHARED } else { session };
        let name = key.name.as_str();
        let (old, cursor) = {
            let (blocks, cursors) = (self.table(BLOCKS)?, self.table(CURSORS)?);
            (block(&blocks, id, home, name)?, cursor(&cursors, id, session, name)?)
        };
        if old.as_ref().map_or(0, |old| old.revision) != read.revision
            || cursor.next != read.next
            || self.restores(id, session)? != read.restores
        {
            return Ok(false);
        }
        self.remember_block(id, session, name, if key.shared { None } else { old }, cursor)?;
        if let Some(state) = &new.state {
            let record = BlockRecord { state: state.clone(), revision: read.revision + 1 };
            self.table(BLOCKS)?.insert((id, home, name), codec::encode(&record).as_slice()).map_err(storage)?;
        }
        let record = CursorRecord { next: new.next, failed: new.failed.clone(), shared: key.shared };
        self.table(CURSORS)?.insert((id, session, name), codec::encode(&record).as_slice()).map_err(storage)?;
        Ok(true)
    }

    /// Keeps a block as it is for the newest checkpoint, before it changes.
    fn remember_block(
        &mut self,
        namespace: u32,
        session: u32,
        name: &str,
        block: Option<BlockRecord>,
        cursor: CursorRecord,
    ) -> Result<()> {
        let checkpoints = self.table(CHECKPOINTS)?;
        let all = (namespace, session, 0)..=(namespace, session, u32::MAX);
        let newest = checkpoints.range(all).map_err(storage)?.next_back().transpose().map_err(storage)?;
        let Some((newest, _)) = newest else { return Ok(()) };
        let mut old = self.table(OLD_BLOCKS)?;
        let key = (namespace, session, name, newest.value().2);
        if old.get(key).map_err(storage)?.is_none() {
            old.insert(key, codec::encode(&OldBlock { block, cursor }).as_slice()).map_err(storage)?;
        }
        Ok(())
    }

    /// The session's blocks as they are: the states of its own, and how far all are.
    pub(super) fn session_blocks(&self, namespace: u32, session: u32) -> Result<SessionBlocks> {
        let blocks = self.table(BLOCKS)?;
        let mut found = Vec::new();
        for entry in
            self.table(CURSORS)?.range((namespace, session, "")..(namespace, session + 1, "")).map_err(storage)?
        {
            let (key, value) = entry.map_err(storage)?;
            let name = key.value().2;
            if name == RESTORES {
                continue;
            }
            let block = block(&blocks, namespace, session, name)?;
            found.push((name.to_owned(), OldBlock { block, cursor: codec::decode(value.value())? }));
        }
        Ok(found)
    }

    pub(super) fn restores(&self, namespace: u32, session: u32) -> Result<u32> {
        Ok(cursor(&self.table(CURSORS)?, namespace, session, RESTORES)?.next)
    }

    pub(super) fn set_restores(&mut self, namespace: u32, session: u32, restores: u32) -> Result<()> {
        let record = CursorRecord { next: restores, ..CursorRecord::default() };
        self.table(CURSORS)?
            .insert((namespace, session, RESTORES), codec::encode(&record).as_slice())
            .map_err(storage)?;
        Ok(())
    }

    pub(super) fn write_blocks(&mut self, namespace: u32, session: u32, all: &SessionBlocks) -> Result<()> {
        let (mut blocks, mut cursors) = (self.table(BLOCKS)?, self.table(CURSORS)?);
        for (name, OldBlock { block, cursor }) in all {
            let key = (namespace, session, name.as_str());
            cursors.insert(key, codec::encode(cursor).as_slice()).map_err(storage)?;
            if let Some(block) = block {
                blocks.insert(key, codec::encode(block).as_slice()).map_err(storage)?;
            }
        }
        Ok(())
    }

    pub(super) fn forget_blocks(&mut self, namespace: u32, session: u32) -> Result<()> {
        let all = (namespace, session, "")..(namespace, session + 1, "");
        self.table(BLOCKS)?.retain_in(all.clone(), |_, _| false).map_err(storage)?;
        self.table(CURSORS)?.retain_in(all, |_, _| false).map_err(storage)
    }

    /// Deletes the states that the sessions of a namespace share.
    pub(crate) fn forget_shared_blocks(&mut self, namespace: NamespaceId) -> Result<()> {
        self.table(BLOCKS)?
            .retain_in((namespace.0, SHARED, "")..(namespace.0 + 1, 0, ""), |_, _| false)
            .map_err(storage)
    }
}

impl Snapshot {
    pub(crate) fn block(&self, key: &BlockKey) -> Result<BlockState> {
        let Some(namespace) = self.namespace(&key.namespace)? else { return Ok(BlockState::default()) };
        let session = self.session(namespace, &key.session)?;
        let (blocks, cursors) = (self.table(BLOCKS)?, self.table(CURSORS)?);
        let home = if key.shared { Some(SHARED) } else { session };
        let record = home.map_or(Ok(None), |home| block(&blocks, namespace.0, home, &key.name))?;
        let (cursor, restores) = match session {
            Some(session) => (
                cursor(&cursors, namespace.0, session, &key.name)?,
                cursor(&cursors, namespace.0, session, RESTORES)?.next,
            ),
            None => Default::default(),
        };
        let (state, revision) = record.map_or((None, 0), |record| (Some(record.state), record.revision));
        Ok(BlockState { session, state, revision, next: cursor.next, failed: cursor.failed, restores })
    }
}

fn block(
    table: &impl ReadableTable<(u32, u32, &'static str), &'static [u8]>,
    namespace: u32,
    home: u32,
    name: &str,
) -> Result<Option<BlockRecord>> {
    let value = table.get((namespace, home, name)).map_err(storage)?;
    value.map(|value| codec::decode(value.value())).transpose()
}

fn cursor(
    table: &impl ReadableTable<(u32, u32, &'static str), &'static [u8]>,
    namespace: u32,
    session: u32,
    name: &str,
) -> Result<CursorRecord> {
    let value = table.get((namespace, session, name)).map_err(storage)?;
    value.map_or(Ok(CursorRecord::default()), |value| codec::decode(value.value()))
}
