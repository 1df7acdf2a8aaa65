//! Lexical segments in the store: rewriting one without its removed rows, in the background; rewriting those of a namespace
//! without forgotten terms, in the commit that forgets; and rebuilding all of a namespace from its texts, because they are
//! missing or damaged, or for another language.

use std::sync::Arc;

use super::{
    namespace_slot::{LoadedNamespace, NamespaceSlot},
    stored_graph::Workers,
    text_windows::TextWindows,
    vector_batch::{analyze, build_first},
    writer::{Commit, Writer, then},
};
use crate::{
    embed::Embedder,
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    lexical::{Analyzer, ChosenLanguage, Language, LanguageOrigin, MAX_ROWS, Segment},
    recall::{NamespaceChange, SegmentChange, read_segment},
    store::{Store, Transaction},
};

/// Rewrites a segment of a loaded namespace without the rows that were removed or are in a newer one. Returns true:
/// there may be more to rewrite.
///
/// # Errors
/// [`Error::Corrupted`] if the stored segment is not the loaded one; the writer's.
pub(super) fn rewrite_segment(
    generation: GenerationId,
    namespace: NamespaceId,
    slot: &Arc<NamespaceSlot>,
    loaded: &LoadedNamespace,
    (number, old): (u32, Arc<Segment>),
    workers: &Workers,
) -> Result<bool> {
    let rows = loaded.messages.index.read().rows_searched_in(number, &old);
    let new = old.retain(|row| rows.binary_search(&row).is_ok()).map(Arc::new);
    let apply = {
        let old = Arc::clone(&old);
        move |transaction: &Transaction| replace(transaction, generation, namespace, number, &old, new.as_ref())
    };
    let publish = {
        let slot = Arc::clone(slot);
        move |change: Result<Option<SegmentChange>>| {
            change.map(|change| {
                let change = change.map(|change| NamespaceChange::Segments(namespace, None, vec![change]));
                change.map(|change| slot.publish(change));
            })
        }
    };
    workers.writer.commit(Commit::Grouped, then(apply, publish)).wait()?;
    match loaded.messages.index.read().sparse_segment() {
        // Another attempt would do no more.
        Some((_, left)) if Arc::ptr_eq(&left, &old) => {
            Err(Error::corrupted(format!("segment {number} of a lexical index is not stored as it was loaded")))
        }
        _ => Ok(true),
    }
}

/// Replaces a segment with `new`, or deletes it. `None` if the stored segment is another: nothing was done.
fn replace(
    transaction: &Transaction,
    generation: GenerationId,
    namespace: NamespaceId,
    number: u32,
    old: &Arc<Segment>,
    new: Option<&Arc<Segment>>,
) -> Result<Option<SegmentChange>> {
    if !transaction.segments().list(generation, namespace)?.iter().any(|info| info.number == number) {
        // The segment was merged with others.
        return Ok(Some((number, None)));
    }
    if transaction.segments().read(generation, namespace, number)? != old.bytes() {
        return Ok(None);
    }
    match new {
        Some(new) => {
            transaction.segments().put(generation, namespace, number, new.rows().len() as u32, new.bytes())?;
        }
        None => transaction.segments().remove(generation, namespace, number)?,
    }
    Ok(Some((number, new.cloned())))
}

/// Rewrites those segments of a namespace that have terms of rows that are dead, or that a newer segment has. Segments
/// that are damaged are deleted: loading the namespace makes all of them again. Cost: reading all segments, and writing
/// those that change.
pub(super) fn scrub_segments(
    transaction: &Transaction,
    generation: GenerationId,
    namespace: NamespaceId,
) -> Result<Vec<SegmentChange>> {
    let mut changes = Vec::new();
    let infos = transaction.segments().list(generation, namespace)?;
    if infos.is_empty() {
        return Ok(changes);
    }
    let mut live = transaction.rows().live(generation, namespace)?;
    for info in infos.into_iter().rev() {
        let bytes = transaction.segments().read(generation, namespace, info.number);
        let segment = match bytes.and_then(|bytes| read_segment(bytes, info)) {
            Ok(segment) => segment,
            Err(Error::Corrupted { .. }) => {
                transaction.segments().clear(generation, namespace)?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        // The rows that have their terms in this segment, ascending.
        let own: Vec<u32> = segment
            .rows()
            .iter()
            .copied()
            .filter(|&row| live.get_mut(row as usize).is_some_and(std::mem::take))
            .collect();
        if own.len() == segment.rows().len() {
            continue;
        }
        let new = segment.retain(|row| own.binary_search(&row).is_ok()).map(Arc::new);
        match &new {
            Some(new) => {
                let rows = new.rows().len() as u32;
                transaction.segments().put(generation, namespace, info.number, rows, new.bytes())?;
            }
            None => transaction.segments().remove(generation, namespace, info.number)?,
        }
        changes.push((info.number, new));
    }
    Ok(changes)
}

/// A rebuild of the lexical indexes of one namespace, in one commit.
pub(super) struct LexicalRebuild<'a> {
    pub(super) namespace: NamespaceId,
    /// The generations whose indexes are rebuilt, and their embedders.
    pub(super) generations: Vec<(GenerationId, &'a dyn Embedder)>,
    /// The language to store. If the texts are analyzed in it already, nothing is rebuilt; a guess changes nothing if a
    /// language was stored meanwhile. `None` rebuilds in the stored language.
    pub(super) language: Option<ChosenLanguage>,
}

/// The outcome of one attempt.
enum Attempt {
    /// The segments stay.
    Unchanged,
    /// The segments were stored: the changes of each generation.
    Stored(Vec<Vec<SegmentChange>>),
    /// Nothing was stored, as these texts came meanwhile.
    Unknown(Vec<UnknownText>),
}

/// A text whose windows are not known.
struct UnknownText {
    /// The position of the generation.
    generation: usize,
    text: String,
    rows: usize,
}

impl LexicalRebuild<'_> {
    /// Commits the rebuild, and calls `publish` on the writer's thread with the changed segments of each generation.
    ///
    /// # Errors
    /// The embedders', which split long texts into windows; [`Error::Corrupted`],
    /// [`Error::Storage`], [`Error::Closed`]; [`Error::WriteAccessNeeded`] if the database is open for reading.
    pub(super) fn commit(
        self,
        store: &Store,
        writer: &Writer,
        publish: impl Fn(Vec<Vec<SegmentChange>>) + Clone + Send + 'static,
    ) -> Result<()> {
        if store.is_read_only() {
            let reason = "the lexical index of a namespace must be built first, by a recall there".to_owned();
            return Err(Error::WriteAccessNeeded { path: store.path().to_path_buf(), reason });
        }
        // Embedders are called before the transaction. It verifies that no text came meanwhile, or else they are called
        // again.
        let mut windows = self.windows(store)?;
        loop {
            let known = Arc::new(windows);
            let apply = {
                let generations: Vec<GenerationId> = self.generations.iter().map(|(id, _)| *id).collect();
                let (namespace, language, known) = (self.namespace, self.language, Arc::clone(&known));
                move |transaction: &Transaction| attempt(transaction, namespace, &generations, language, &known)
            };
            let publish = publish.clone();
            let finish = move |attempt: Result<Attempt>| match attempt? {
                Attempt::Unchanged => Ok(Vec::new()),
                Attempt::Stored(changes) => {
                    publish(changes);
                    Ok(Vec::new())
                }
                Attempt::Unknown(texts) => Ok(texts),
            };
            let unknown = writer.commit(Commit::Grouped, then(apply, finish)).wait()?;
            if unknown.is_empty() {
                return Ok(());
            }
            windows = Arc::unwrap_or_clone(known);
            for UnknownText { generation, text, rows } in unknown {
                windows[generation].add(self.generations[generation].1, &text, rows)?;
            }
        }
    }

    /// The windows of all long texts, for each generation; none if nothing is to be rebuilt.
    fn windows(&self, store: &Store) -> Result<Vec<TextWindows>> {
        let snapshot = store.read()?;
        let is_unchanged = is_unchanged(self.language, &snapshot.namespaces().language(self.namespace));
        let windows = |&(generation, embedder): &(GenerationId, &dyn Embedder)| match is_unchanged {
            true => Ok(TextWindows::default()),
            false => TextWindows::read(&snapshot, generation, self.namespace, embedder),
        };
        self.generations.iter().map(windows).collect()
    }
}

/// Returns true if the stored language analyzes texts as the wanted one does. One that is unknown does not.
fn is_unchanged(wanted: Option<ChosenLanguage>, stored: &Result<ChosenLanguage>) -> bool {
    wanted.is_some_and(|wanted| stored.as_ref().is_ok_and(|stored| stored.language == wanted.language))
}

fn attempt(
    transaction: &Transaction,
    namespace: NamespaceId,
    generations: &[GenerationId],
    wanted: Option<ChosenLanguage>,
    windows: &[TextWindows],
) -> Result<Attempt> {
    let namespaces = transaction.namespaces();
    let is_guess = wanted.is_some_and(|wanted| wanted.origin == LanguageOrigin::Guessed);
    if is_guess && !namespaces.awaits_guess(namespace)? {
        return Ok(Attempt::Unchanged);
    }
    let stored = namespaces.language(namespace);
    if let Some(wanted) = wanted
        && is_unchanged(Some(wanted), &stored)
    {
        namespaces.set_language(namespace, wanted)?;
        return Ok(Attempt::Unchanged);
    }
    let language = wanted.map_or(stored, Ok)?.language;
    let (mut segments, mut unknown) = (Vec::new(), Vec::new());
    for (at, (&generation, windows)) in generations.iter().zip(windows).enumerate() {
        let built = build_segments(transaction, generation, namespace, language, windows)?;
        segments.push(built.segments);
        let texts = built.unknown.into_iter();
        unknown.extend(texts.map(|(text, rows)| UnknownText { generation: at, text, rows }));
    }
    if !unknown.is_empty() {
        return Ok(Attempt::Unknown(unknown));
    }
    if let Some(wanted) = wanted {
        namespaces.set_language(namespace, wanted)?;
    }
    let store = |(&generation, segments)| replace_segments(transaction, generation, namespace, segments);
    Ok(Attempt::Stored(generations.iter().zip(segments).map(store).collect::<Result<_>>()?))
}

/// The texts of a namespace, analyzed.
#[derive(Default)]
struct BuiltSegments {
    segments: Vec<Segment>,
    /// The texts whose windows are not known, with their numbers of rows.
    unknown: Vec<(String, usize)>,
}

fn build_segments(
    transaction: &Transaction,
    generation: GenerationId,
    namespace: NamespaceId,
    language: Language,
    windows: &TextWindows,
) -> Result<BuiltSegments> {
    let analyzer = Analyzer::of(language);
    let (mut documents, mut built) = (Vec::new(), BuiltSegments::default());
    transaction.rows().texts(generation, namespace, |first, count, text| {
        let Some(windows) = windows.get(text, count as usize) else {
            built.unknown.push(((**text).to_owned(), count as usize));
            return Ok(());
        };
        let analyzed = analyze(analyzer, text, &windows);
        documents.extend((first..).zip(analyzed).map(|(row, window)| window.document(row)));
        // Documents take much more memory than their segment.
        while documents.len() >= MAX_ROWS {
            built.segments.push(build_first(language, &mut documents));
        }
        Ok(())
    })?;
    if !documents.is_empty() {
        built.segments.push(build_first(language, &mut documents));
    }
    Ok(built)
}

fn replace_segments(
    transaction: &Transaction,
    generation: GenerationId,
    namespace: NamespaceId,
    segments: Vec<Segment>,
) -> Result<Vec<SegmentChange>> {
    let old = transaction.segments().list(generation, namespace)?;
    let next = old.last().map_or(0, |info| info.number + 1);
    let mut changes: Vec<SegmentChange> = old.iter().map(|info| (info.number, None)).collect();
    transaction.segments().clear(generation, namespace)?;
    for (number, segment) in (next..).zip(segments) {
        transaction.segments().put(generation, namespace, number, segment.rows().len() as u32, segment.bytes())?;
        changes.push((number, Some(Arc::new(segment))));
    }
    Ok(changes)
}
