//! The two slots of redb's header.
//!
//! While other processes may read, redb commits in two phases: it writes the pages and a header that lists the new commit,
//! syncs, writes a header that makes this commit the primary one, and syncs again. The first sync is there for power failures
//! alone, as a reader sees every write at once. [`Syncs::LastOfCommit`] leaves it out. Until the second sync is done, the
//! header then says that the commit has one phase. After a power failure redb checks such a commit, and goes back to the one
//! before if pages are missing.

use std::io;

use parking_lot::Mutex;
use redb::StorageBackend;

use super::{
    description::{HEADER, SLOTS},
    seal::Sealer,
    state::{DamagedPage, PageState, Syncs, damaged},
};

/// A header and its sequence number, as they are sealed.
const CONTENTS: usize = HEADER + 8;

/// The byte of redb's header with its flags.
const FLAGS: usize = 9;
/// The flag that tells which of the two commits in the header is the primary one.
const PRIMARY: u8 = 1;
/// The flag of a primary commit of two phases, which redb trusts after a crash.
const TWO_PHASES: u8 = 4;

/// Reads and writes redb's header, so that a write of it that was torn leaves the header of the last sync.
#[derive(Default)]
pub(super) struct Slots {
    /// `None` before the first write.
    written: Mutex<Option<Written>>,
}

/// The header as this file handle wrote it last. No other process writes meanwhile: redb holds the lock of the writer.
struct Written {
    contents: [u8; CONTENTS],
    /// The slot to write to. The other one is as it was at the last sync.
    slot: usize,
    is_synced: bool,
    /// The primary commit at the last sync.
    synced_primary: u8,
    /// The sync of the first phase was left out.
    has_one_phase: bool,
}

impl Written {
    fn primary(&self) -> u8 {
        self.contents[FLAGS] & PRIMARY
    }
}

impl Slots {
    /// Returns the newest header. Zeros before the first write, as in a file that was lengthened.
    ///
    /// Another process may be copying the header to a slot, and the other slot is sound meanwhile: redb reads and
    /// writes its header under a lock.
    pub(super) fn read(&self, inner: &dyn StorageBackend, sealer: &Sealer) -> io::Result<[u8; HEADER]> {
        let newest = newest(inner, sealer)?;
        Ok(newest.map_or([0; HEADER], |(_, contents)| *contents.first_chunk().expect("a header and its number")))
    }

    /// Changes bytes of the header. Counts a change that makes another commit the primary one, before it is written.
    pub(super) fn write(
        &self,
        inner: &dyn StorageBackend,
        sealer: &Sealer,
        state: &PageState,
        at: usize,
        bytes: &[u8],
    ) -> io::Result<()> {
        let mut guard = self.written.lock();
        let written = match &mut *guard {
            Some(written) => written,
            none => {
                let newest = newest(inner, sealer)?;
                // A killed process may have left the newest slot unsynced, and the other one too.
                inner.sync_data()?;
                let (slot, contents) = newest.unwrap_or((1, [0; CONTENTS]));
                let synced_primary = contents[FLAGS] & PRIMARY;
                let (is_synced, has_one_phase) = (true, false);
                none.insert(Written { contents, slot: 1 - slot, is_synced, synced_primary, has_one_phase })
            }
        };
        let before = written.primary();
        written.contents[at..at + bytes.len()].copy_from_slice(bytes);
        if written.primary() != before {
            state.count_switch();
        }
        if written.has_one_phase && written.primary() != written.synced_primary {
            written.contents[FLAGS] &= !TWO_PHASES;
        }
        let next = sequence(&written.contents) + 1;
        written.contents[HEADER..].copy_from_slice(&next.to_le_bytes());
        written.is_synced = false;
        put(inner, sealer, written)
    }

    /// Syncs the file, then copies a header that was written since the last sync to the other slot.
    pub(super) fn sync(&self, inner: &dyn StorageBackend, sealer: &Sealer, syncs: Syncs) -> io::Result<()> {
        let mut guard = self.written.lock();
        let unsynced = guard.as_mut().filter(|written| !written.is_synced);
        if let Some(written) = unsynced
            && syncs != Syncs::All
            && written.primary() == written.synced_primary
        {
            written.has_one_phase = true;
            return Ok(());
        }
        if syncs != Syncs::None {
            inner.sync_data()?;
        }
        if let Some(written) = guard.as_mut().filter(|written| !written.is_synced) {
            (written.is_synced, written.has_one_phase) = (true, false);
            written.synced_primary = written.primary();
            written.slot = 1 - written.slot;
            put(inner, sealer, written)?;
        }
        Ok(())
    }

    /// Forgets the header of a file that was emptied.
    pub(super) fn clear(&self) {
        *self.written.lock() = None;
    }
}

fn put(inner: &dyn StorageBackend, sealer: &Sealer, written: &Written) -> io::Result<()> {
    let mut sealed = vec![0; CONTENTS + sealer.trailer()];
    sealer.seal(0, &written.contents, &mut sealed)?;
    inner.write(SLOTS[written.slot], &sealed)
}

/// Returns the slot with the newest header, and its contents. `None`: both slots are zero.
fn newest(inner: &dyn StorageBackend, sealer: &Sealer) -> io::Result<Option<(usize, [u8; CONTENTS])>> {
    let between = (SLOTS[1] - SLOTS[0]) as usize;
    let length = CONTENTS + sealer.trailer();
    // One read: a failed read of one slot must not make an older header of the other.
    let mut both = vec![0; between + length];
    inner.read(SLOTS[0], &mut both)?;
    let sealed = [&both[..length], &both[between..]];
    let opened = [0, 1].map(|slot| {
        let mut contents = [0; CONTENTS];
        sealer.open(0, sealed[slot], &mut contents).map(|()| (slot, contents))
    });
    match opened.iter().flatten().max_by_key(|(_, contents)| sequence(contents)) {
        Some(newest) => Ok(Some(*newest)),
        None if sealed.iter().all(|sealed| sealed.iter().all(|&byte| byte == 0)) => Ok(None),
        None => Err(damaged(DamagedPage { page: 0, reason: "both copies of its header are damaged" })),
    }
}

fn sequence(contents: &[u8; CONTENTS]) -> u64 {
    u64::from_le_bytes(*contents.last_chunk().expect("contents end with a number"))
}
