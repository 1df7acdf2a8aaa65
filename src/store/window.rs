//! The window of a session: the messages that its prompts show.
//!
//! A message enters the window when it is put, and leaves it when the token budget pushes it out. In between it may be
//! in the session's buffer or in long-term memory: a flush for another reason than the budget changes no prompt.

use redb::ReadableTable;

use super::{
    message_record::MessageRecord,
    schema::*,
    tables::{Tables, storage},
    write_tables::WriteTransaction,
};
use crate::{
    error::Result,
    ids::NamespaceId,
    message::{Message, Role},
};

/// The most messages over the budget in which the beginning of the last turn is looked for.
const MAX_OVER: usize = 64;

/// The starts of windows, and the tables of messages.
pub(crate) struct Window<'t, T>(pub(super) &'t T);

/// A message with its sequence number and its cost.
pub(crate) type CostedMessage = (u64, Message, usize);

/// The messages of a session's window that are in long-term memory.
#[derive(Debug, Default)]
pub(crate) struct FlushedWindow {
    /// The system messages with which the session begins, before its window or in it.
    pub(crate) system: Vec<CostedMessage>,
    /// The last messages, oldest first.
    pub(crate) last: Vec<CostedMessage>,
    /// True if the window has older messages, which exceed the budget.
    pub(crate) is_cut: bool,
}

impl<T: Tables> Window<'_, T> {
    /// The first sequence number of a session's window.
    pub(crate) fn start(&self, namespace: NamespaceId, session: u32) -> Result<u64> {
        let table = self.0.table(WINDOWS)?;
        let start = table.get((namespace.0, session)).map_err(storage)?;
        Ok(start.map_or(0, |start| start.value()))
    }

    /// Reads the messages of a session's window that are in long-term memory: the system messages at its beginning, and
    /// the last ones whose costs add up to at most `budget` together with these. Unless `has_turn`, the last turn is
    /// read even if it costs more.
    pub(crate) fn flushed(
        &self,
        namespace: NamespaceId,
        session: u32,
        mut budget: usize,
        has_turn: bool,
        mut cost: impl FnMut(u64, &Message) -> usize,
    ) -> Result<FlushedWindow> {
        let mut window = FlushedWindow::default();
        let start = self.start(namespace, session)?;
        let (history, messages) = (self.0.table(HISTORY)?, self.0.table(MESSAGES)?);
        let range = |from| (namespace.0, session, from)..=(namespace.0, session, u64::MAX);
        let mut read = |seq: u64| -> Result<CostedMessage> {
            let message = MessageRecord::expect(&messages, namespace.0, seq)?.message()?;
            let cost = cost(seq, &message);
            Ok((seq, message, cost))
        };
        let is_buffered = |position| SessionPosition::read(position) == SessionPosition::Buffer;
        let mut first = start;
        for entry in history.range(range(0)).map_err(storage)? {
            let (key, position) = entry.map_err(storage)?;
            let seq = key.value().2;
            if is_buffered(position.value()) {
                break;
            }
            let message = read(seq)?;
            if message.1.role != Role::System {
                break;
            }
            budget = budget.saturating_sub(message.2);
            first = first.max(seq + 1);
            window.system.push(message);
        }
        let (mut has_turn, mut over) = (has_turn, 0);
        for entry in history.range(range(first)).map_err(storage)?.rev() {
            let (key, position) = entry.map_err(storage)?;
            if is_buffered(position.value()) {
                continue;
            }
            let message = read(key.value().2)?;
            window.is_cut |= message.2 > budget;
            over += usize::from(window.is_cut);
            if window.is_cut && (has_turn || over > MAX_OVER) {
                break;
            }
            budget = budget.saturating_sub(message.2);
            has_turn |= message.1.role == Role::User;
            window.last.push(message);
        }
        window.last.reverse();
        Ok(window)
    }
}

impl Window<'_, WriteTransaction> {
    /// Begins a session's window at this sequence number.
    pub(super) fn set_start(&self, namespace: NamespaceId, session: u32, start: u64) -> Result<()> {
        let mut table = self.0.table(WINDOWS)?;
        let key = (namespace.0, session);
        match start {
            0 => table.remove(key).map_err(storage)?,
            start => table.insert(key, start).map_err(storage)?,
        };
        Ok(())
    }
}
