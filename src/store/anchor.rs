//! The number and the id of the last commit, and the ids of those before it, by which a caller tells that another copy was put in the
//! place of the file.
//!
//! The record of the last commit has the ids of its block too, so a commit writes no page for them. A block that is full gets a row.

use super::{
    schema::{COMMITS, META},
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    ids::{Anchor, random_bytes},
};

const NAME: &str = "anchor";
/// Bytes of a number and of an id.
const WORD: usize = 8;
/// Commits of a block. Commits are numbered from 1.
const BLOCK: u64 = 64;
/// Full blocks whose ids are kept, which take half a megabyte.
const BLOCKS: u64 = 1024;

/// The record of the last commit: its number, and the ids of the commits of its block so far.
#[derive(Default)]
struct Last {
    number: u64,
    ids: Vec<u8>,
}

impl Last {
    fn read(tables: &impl Tables) -> Result<Self> {
        let table = tables.table(META)?;
        // A new file has none.
        let Some(record) = table.get(NAME)? else { return Ok(Last::default()) };
        let (number, ids) = record
            .value()
            .split_first_chunk()
            .filter(|(number, ids)| ids.len() as u64 == commits_in_block(u64::from_le_bytes(**number)) * WORD as u64)
            .ok_or_else(|| Error::corrupted("the record of the last commit has not the ids of its block"))?;
        Ok(Last { number: u64::from_le_bytes(*number), ids: ids.to_vec() })
    }
}

/// Returns how many commits the block of this commit has up to it.
fn commits_in_block(number: u64) -> u64 {
    if number == 0 { 0 } else { (number - 1) % BLOCK + 1 }
}

/// Returns the id at this position.
fn id_at(ids: &[u8], at: u64) -> Option<u64> {
    ids.get(at as usize * WORD..)?.first_chunk().map(|id| u64::from_le_bytes(*id))
}

/// Returns the anchor of the last commit. That of a new file is 0.
pub(super) fn read(tables: &impl Tables) -> Result<Anchor> {
    let Last { number, ids } = Last::read(tables)?;
    Ok(Anchor { number, id: ids.last_chunk().map_or(0, |id| u64::from_le_bytes(*id)) })
}

/// Returns true if the database has this commit. Of one whose id is not kept any more, the number counts alone.
pub(super) fn has(tables: &impl Tables, commit: Anchor) -> Result<bool> {
    let last = Last::read(tables)?;
    if commit.number == 0 || commit.number > last.number {
        return Ok(commit == Anchor::default());
    }
    let (block, at) = ((commit.number - 1) / BLOCK, (commit.number - 1) % BLOCK);
    let id = match block == (last.number - 1) / BLOCK {
        true => id_at(&last.ids, at),
        false => tables.table(COMMITS)?.get(block)?.and_then(|ids| id_at(ids.value(), at)),
    };
    Ok(id.is_none_or(|id| id == commit.id))
}

/// Writes the record of the commit that the transaction is to be.
pub(super) fn write(tables: &WriteTransaction) -> Result<()> {
    let Last { number, mut ids } = Last::read(tables)?;
    if ids.len() as u64 == BLOCK * WORD as u64 {
        let (block, mut commits) = ((number - 1) / BLOCK, tables.table(COMMITS)?);
        commits.insert(block, ids.as_slice())?;
        if let Some(oldest) = block.checked_sub(BLOCKS) {
            commits.remove(oldest)?;
        }
        ids.clear();
    }
    ids.extend_from_slice(&random_bytes()[..WORD]);
    tables.table(META)?.insert(NAME, [(number + 1).to_le_bytes().as_slice(), &ids].concat().as_slice())?;
    Ok(())
}
