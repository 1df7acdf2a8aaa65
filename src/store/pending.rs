//! Pending messages: those that wait to be embedded, in each generation.

use super::{
    documents::given_vector,
    message_record::MessageRecord,
    row_layout::RowMeta,
    schema::*,
    sessions,
    tables::{self, ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    message::IndexedText,
};

/// Pending messages are read up to this many bytes of text at a time.
const PENDING_BYTES: usize = 4 << 20;

/// A key of the histories: namespace, session, sequence number.
pub(crate) type HistoryKey = (u32, u32, u64);

/// The lowest key of the histories.
pub(crate) const HISTORY_START: HistoryKey = (0, 0, 0);

/// A message that waits to be embedded, with the metadata of its rows.
#[derive(Clone, Debug)]
pub(crate) struct PendingMessage {
    pub(crate) namespace: NamespaceId,
    /// The message's id, for error messages.
    pub(crate) id: String,
    pub(crate) revision: u64,
    pub(crate) meta: RowMeta,
    pub(crate) text: IndexedText,
    /// The vector that it was given.
    pub(crate) given: Option<Vec<f32>>,
}

/// The position of a pass over the pending messages of a generation, namespace by namespace. When the pass reaches a
/// namespace, it notes the last sequence number that is pending there, and ends after it. So a pass ends even while
/// messages are put, which get higher numbers, and meets a message that is replaced only once.
#[derive(Default)]
pub(crate) struct PendingCursor {
    /// The current namespace, and the next and the last sequence number in it.
    current: Option<(u32, u64, u64)>,
    /// The last namespace of the pass.
    last_namespace: Option<u32>,
}

impl PendingCursor {
    /// A pass over one namespace.
    pub(crate) fn of(NamespaceId(namespace): NamespaceId) -> Self {
        PendingCursor { current: Some((namespace, 0, u64::MAX)), last_namespace: Some(namespace) }
    }
}

/// The table of pending messages.
pub(crate) struct Pending<'t, T>(pub(super) &'t T);

impl<T: Tables> Pending<'_, T> {
    /// Returns the next messages of a pass, up to `limit`, in key order. When there are none, the pass is over.
    pub(crate) fn next(
        &self,
        generation: GenerationId,
        pass: &mut PendingCursor,
        limit: usize,
    ) -> Result<Vec<PendingMessage>> {
        let (pending, messages) = (self.0.table(PENDING)?, self.0.table(MESSAGES)?);
        let sessions = self.0.table(SESSIONS)?;
        let id = generation.0;
        let last_key = |first: u32, last: u32| {
            let mut range = pending.range((id, first, 0)..=(id, last, u64::MAX))?;
            range.next_back().map(|entry| Ok::<_, Error>(entry?.0.value())).transpose()
        };
        if pass.last_namespace.is_none() {
            pass.last_namespace = last_key(0, u32::MAX)?.map(|(_, namespace, _)| namespace);
        }
        let Some(last_namespace) = pass.last_namespace else { return Ok(Vec::new()) };
        let rest = pass.current.map(|(namespace, next, last)| {
            pending.range((id, namespace, next)..(id, namespace, last.saturating_add(1)))
        });
        let next_namespace = pass.current.map_or(0, |(namespace, ..)| namespace.saturating_add(1));
        let others = pending.range((id, next_namespace, 0)..=(id, last_namespace, u64::MAX))?;
        let mut found: Vec<PendingMessage> = Vec::new();
        let mut bytes = 0;
        for entry in rest.transpose()?.into_iter().flatten().chain(others) {
            let (key, revision) = entry?;
            let (_, namespace, seq) = key.value();
            let record = MessageRecord::expect(&messages, namespace, seq)?;
            let session = sessions::known_number(&sessions, namespace, &record.session)?;
            let given = given_vector(NamespaceId(namespace), &record)?;
            let message = record.message()?;
            let text = IndexedText::of(&message);
            bytes += text.len();
            let meta = RowMeta { seq, created_at: message.created_at, session, window: 0, role: message.role };
            let namespace = NamespaceId(namespace);
            found.push(PendingMessage { namespace, id: message.id, revision: revision.value(), meta, text, given });
            if found.len() == limit || bytes >= PENDING_BYTES {
                break;
            }
        }
        if let Some(PendingMessage { namespace: NamespaceId(namespace), meta: RowMeta { seq, .. }, .. }) = found.last()
        {
            let last = match pass.current {
                Some((current, _, last)) if current == *namespace => last,
                _ => last_key(*namespace, *namespace)?.map_or(*seq, |(.., last)| last),
            };
            pass.current = Some((*namespace, seq + 1, last));
        }
        Ok(found)
    }

    /// The namespaces that have pending messages in a generation.
    pub(crate) fn namespaces(&self, GenerationId(generation): GenerationId) -> Result<Vec<NamespaceId>> {
        let table = self.0.table(PENDING)?;
        let (mut namespaces, mut next) = (Vec::new(), 0);
        while let Some(entry) = table.range((generation, next, 0)..=(generation, u32::MAX, u64::MAX))?.next() {
            let (_, namespace, _) = entry?.0.value();
            namespaces.push(NamespaceId(namespace));
            next = namespace + 1;
        }
        Ok(namespaces)
    }

    /// Number of messages that are pending in a generation. Cost: a pass over their keys.
    pub(crate) fn count(&self, generation: GenerationId) -> Result<u64> {
        let all = (generation.0, 0, 0)..=(generation.0, u32::MAX, u64::MAX);
        tables::count(&self.0.table(PENDING)?, all)
    }

    /// The sequence numbers of a namespace's messages without an index entry in a generation: those that are pending,
    /// and those in short-term buffers. Cost: a pass over the keys of the namespace's messages.
    pub(crate) fn unindexed(&self, generation: GenerationId, namespace: NamespaceId) -> Result<Vec<u64>> {
        let (pending, history) = (self.0.table(PENDING)?, self.0.table(HISTORY)?);
        let keys = (generation.0, namespace.0, 0)..=(generation.0, namespace.0, u64::MAX);
        let mut found = Vec::new();
        for entry in pending.range(keys)? {
            found.push(entry?.0.value().2);
        }
        for entry in history.range((namespace.0, 0, 0)..=(namespace.0, u32::MAX, u64::MAX))? {
            let (key, position) = entry?;
            if position.value() == SessionPosition::Buffer.number() {
                found.push(key.value().2);
            }
        }
        Ok(found)
    }

    /// Returns true if a message is pending in a generation.
    pub(crate) fn contains(&self, generation: GenerationId, namespace: NamespaceId, seq: u64) -> Result<bool> {
        Ok(self.0.table(PENDING)?.get((generation.0, namespace.0, seq))?.is_some())
    }
}

impl Pending<'_, WriteTransaction> {
    /// Removes the entries of messages, each given by namespace, sequence number and revision. Returns for each whether
    /// it was pending at that revision: if not, it was replaced or deleted since, and its entry stays.
    pub(super) fn settle(
        &self,
        generation: GenerationId,
        messages: impl Iterator<Item = (NamespaceId, u64, u64)>,
    ) -> Result<Vec<bool>> {
        let mut pending = self.0.table(PENDING)?;
        messages
            .map(|(namespace, seq, revision)| {
                let key = (generation.0, namespace.0, seq);
                let is_settled = pending.get(key)?.is_some_and(|found| found.value() == revision);
                if is_settled {
                    pending.remove(key)?;
                }
                Ok(is_settled)
            })
            .collect()
    }

    /// Makes up to `limit` messages pending in a generation, from a key of the histories on: those with text that are
    /// in no buffer. Returns the key to continue from, or `None` after the last message.
    pub(super) fn seed(
        &self,
        GenerationId(id): GenerationId,
        from: HistoryKey,
        limit: usize,
    ) -> Result<Option<HistoryKey>> {
        let (mut pending, messages) = (self.0.table(PENDING)?, self.0.table(MESSAGES)?);
        for (at, entry) in self.0.table(HISTORY)?.range(from..)?.enumerate() {
            let (key, position) = entry?;
            if at == limit {
                return Ok(Some(key.value()));
            }
            if position.value() == SessionPosition::Buffer.number() {
                continue;
            }
            let (namespace, _, seq) = key.value();
            let record = MessageRecord::expect(&messages, namespace, seq)?;
            if record.has_text()? {
                pending.insert((id, namespace, seq), record.revision)?;
            }
        }
        Ok(None)
    }
}
