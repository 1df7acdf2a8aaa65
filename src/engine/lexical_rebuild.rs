//! Rebuilds the lexical index of a namespace from its texts: one that is missing or damaged, or all for another
//! language.

use std::sync::Arc;

use super::{
    text_windows::TextWindows,
    vector_batch::{analyze, build_first},
    writer::Writer,
};
use crate::{
    embed::Embedder,
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    lexical::{Analyzer, Language, MAX_ROWS, Segment},
    recall::{SegmentChange, language},
    store::{Store, Transaction},
};

/// A rebuild of the lexical indexes of one namespace, in one commit.
pub(super) struct LexicalRebuild<'a> {
    pub(super) namespace: NamespaceId,
    /// The generations whose indexes are rebuilt, and their embedders.
    pub(super) generations: Vec<(GenerationId, &'a dyn Embedder)>,
    /// The language to set; if the namespace has it already, nothing is rebuilt. `None` rebuilds in the stored
    /// language.
    pub(super) language: Option<Language>,
}

/// The outcome of one attempt.
enum Attempt {
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
                move |transaction: &mut Transaction| attempt(transaction, namespace, &generations, language, &known)
            };
            let publish = publish.clone();
            let unknown = writer.commit(apply, move |attempt| match attempt {
                Attempt::Stored(changes) => {
                    publish(changes);
                    Vec::new()
                }
                Attempt::Unknown(texts) => texts,
            })?;
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
        let windows = |&(generation, embedder): &(GenerationId, &dyn Embedder)| match has_language(
            self.language,
            snapshot.namespaces().language(self.namespace)?.as_deref(),
        ) {
            true => Ok(TextWindows::default()),
            false => TextWindows::read(&snapshot, generation, self.namespace, embedder),
        };
        self.generations.iter().map(windows).collect()
    }
}

fn has_language(wanted: Option<Language>, stored: Option<&str>) -> bool {
    wanted.is_some_and(|wanted| stored.unwrap_or(Language::default().as_str()) == wanted.as_str())
}

fn attempt(
    transaction: &mut Transaction,
    namespace: NamespaceId,
    generations: &[GenerationId],
    wanted: Option<Language>,
    windows: &[TextWindows],
) -> Result<Attempt> {
    let stored = transaction.namespaces().language(namespace)?;
    if has_language(wanted, stored.as_deref()) {
        return Ok(Attempt::Stored(vec![Vec::new(); generations.len()]));
    }
    let language = wanted.map_or_else(|| language(stored), Ok)?;
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
        transaction.namespaces().set_language(namespace, wanted.as_str())?;
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
    transaction: &mut Transaction,
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
