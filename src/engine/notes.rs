//! The recalls that the journal does not have yet.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::ids::NamespaceId;

/// The time within which notes are stored together.
const TOGETHER: Duration = Duration::from_secs(1);
/// The number of notes that are stored without waiting for more.
const MANY: usize = 64;

/// The recalls that are noted and not stored yet, in memory.
#[derive(Default)]
pub(super) struct Notes {
    waiting: Mutex<Waiting>,
    /// The number of batches that the writer has not stored yet.
    queued: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    notes: Vec<Note>,
    /// When notes were last taken.
    taken: Option<Instant>,
}

/// An entry of the journal that is to be stored.
pub(super) struct Note {
    pub(super) namespace: NamespaceId,
    /// JSON.
    pub(super) entry: String,
    /// The number of times that entries had been removed from the journal when the recall began.
    pub(super) cleared: u64,
}

impl Notes {
    /// Adds a note. Returns true if the notes are to be stored now.
    pub(super) fn push(&self, note: Note) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.notes.push(note);
        waiting.notes.len() >= MANY || waiting.taken.is_none_or(|taken| taken.elapsed() >= TOGETHER)
    }

    /// Takes the notes, to store them. [`Notes::stored`] must follow.
    pub(super) fn take(&self) -> Vec<Note> {
        let mut waiting = self.waiting.lock();
        self.queued.fetch_add(1, Ordering::SeqCst);
        waiting.taken = Some(Instant::now());
        std::mem::take(&mut waiting.notes)
    }

    /// Notes that a batch was stored, or could not be.
    pub(super) fn stored(&self) {
        self.queued.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns true if no note waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.lock().notes.is_empty()
    }

    /// Returns true if all notes are stored.
    pub(super) fn are_stored(&self) -> bool {
        self.is_empty() && self.queued.load(Ordering::SeqCst) == 0
    }
}
