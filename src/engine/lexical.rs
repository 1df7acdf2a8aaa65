//! The lexical index and its place in the store.
//!
//! The terms of new rows are a segment, stored in the commit that stores their vectors, merged with the last ones where those
//! are no larger. What a message is analysed as is never asked again: rows that are taken away stay in their segments, dead,
//! until half of a segment is, and it is written again without them.

use std::{collections::HashMap, sync::Arc};

use crate::{
    embed::{self, Embedder},
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    lexical::{Analyzer, Document, Language, LexicalIndex, MAX_ROWS, MAX_TERMS, Segment, merge_plan},
    store::{Embedded, Generation, GenerationState, NewRows, RowMeta, SegmentInfo, Snapshot, Store, Transaction},
};

/// A segment that was stored under a number, or deleted.
pub(crate) type SegmentChange = (u32, Option<Arc<Segment>>);

/// The terms of a window, and which bytes of the message's text it is if there are several.
#[derive(Clone, Debug)]
struct Window {
    passage: Option<std::ops::Range<u32>>,
    terms: Vec<u64>,
}

/// A batch with all that its commit stores.
pub(crate) struct Batch {
    pub(crate) embedded: Vec<Embedded>,
    /// By namespace and sequence number.
    windows: HashMap<(NamespaceId, u64), Vec<Window>>,
    languages: HashMap<NamespaceId, Language>,
}

/// Rows that a commit gave, and the segments that have their terms.
pub(crate) struct Added {
    pub(crate) rows: NewRows,
    pub(crate) segments: Vec<SegmentChange>,
}

/// The language of a namespace's text.
pub(super) fn language(stored: Option<String>) -> Result<Language> {
    stored.map_or(Ok(Language::default()), |name| {
        name.parse().map_err(|_| Error::corrupted(format!("{name:?} is no language of a namespace")))
    })
}

impl Batch {
    pub(crate) fn new() -> Self {
        Batch { embedded: Vec::new(), windows: HashMap::new(), languages: HashMap::new() }
    }

    pub(crate) fn push(&mut self, snapshot: &Snapshot, embedded: Embedded, text: &str, windows: &[&str]) -> Result<()> {
        let language = match self.languages.get(&embedded.namespace) {
            Some(&language) => language,
            None => {
                let language = language(snapshot.language(embedded.namespace)?)?;
                self.languages.insert(embedded.namespace, language);
                language
            }
        };
        let key = (embedded.namespace, embedded.meta.seq);
        self.windows.insert(key, analyze(Analyzer::of(language), text, windows));
        self.embedded.push(embedded);
        Ok(())
    }

    pub(crate) fn append(&mut self, other: Batch) {
        self.embedded.extend(other.embedded);
        self.windows.extend(other.windows);
        self.languages.extend(other.languages);
    }

    /// Stores vectors and terms.
    pub(crate) fn store(&self, transaction: &mut Transaction, generation: GenerationId) -> Result<Vec<Added>> {
        let added = transaction.add_vectors(generation, &self.embedded)?;
        added
            .into_iter()
            .map(|rows| {
                let documents = rows.rows.iter().zip(&rows.metas).map(|(&row, meta)| {
                    let windows = &self.windows[&(rows.namespace, meta.seq)];
                    let Window { passage, terms } = windows[usize::from(meta.window)].clone();
                    Document { row, passage, terms }
                });
                let language = self.languages[&rows.namespace];
                let segments = add(transaction, generation, rows.namespace, language, documents.collect())?;
                Ok(Added { rows, segments })
            })
            .collect()
    }
}

/// The terms of a text's windows.
fn analyze(analyzer: &Analyzer, text: &str, windows: &[&str]) -> Vec<Window> {
    let place = |window: &str| {
        let begin = window.as_ptr() as usize - text.as_ptr() as usize;
        begin as u32..(begin + window.len()) as u32
    };
    windows
        .iter()
        .map(|window| {
            let mut terms = Vec::new();
            analyzer.terms(window, &mut terms);
            // A segment takes no more of a row.
            terms.truncate(MAX_TERMS);
            Window { passage: (windows.len() > 1).then(|| place(window)), terms }
        })
        .collect()
}

/// Stores documents, merged with the last segments where those are small. Nothing if the namespace has rows, but no segment:
/// it is of an older release, and gets its index as a whole when it is loaded.
fn add(
    transaction: &mut Transaction,
    generation: GenerationId,
    namespace: NamespaceId,
    language: Language,
    mut documents: Vec<Document>,
) -> Result<Vec<SegmentChange>> {
    let mut stored = transaction.segments(generation, namespace)?;
    let mut changes = Vec::new();
    if stored.is_empty() && transaction.alive_count(generation, namespace)? > documents.len() {
        // Of an older release: it gets its index, of all its rows, when it is loaded.
        return Ok(changes);
    }
    while !documents.is_empty() {
        let mut segment = build_first(language, &mut documents);
        let sizes: Vec<usize> = stored.iter().map(|info| info.rows as usize).collect();
        let number = stored.last().map_or(0, |info| info.number + 1);
        let merged = stored.split_off(stored.len() - merge_plan(&sizes, segment.rows().len()));
        let older = merged
            .iter()
            .map(|&info| read(transaction.segment(generation, namespace, info.number)?, info))
            .collect::<Result<Vec<_>>>();
        match older {
            Ok(older) if older.iter().all(|older| older.is_of(language)) => {
                if !older.is_empty() {
                    let all: Vec<&Segment> = older.iter().chain([&segment]).collect();
                    segment = Segment::merge(&all);
                }
                for info in &merged {
                    transaction.drop_segment(generation, namespace, info.number)?;
                    changes.push((info.number, None));
                }
            }
            // Damaged, or of another language: left for when the namespace is loaded, which makes them all anew.
            Ok(_) | Err(Error::Corrupted { .. }) => stored.extend(merged),
            Err(error) => return Err(error),
        }
        let rows = segment.rows().len() as u32;
        transaction.put_segment(generation, namespace, number, rows, segment.bytes())?;
        stored.push(SegmentInfo { number, rows });
        changes.push((number, Some(Arc::new(segment))));
    }
    Ok(changes)
}

/// A segment of the first documents, as many as it takes.
fn build_first(language: Language, documents: &mut Vec<Document>) -> Segment {
    let rest = documents.split_off(documents.len().min(MAX_ROWS));
    Segment::build(language, std::mem::replace(documents, rest))
}

fn read(bytes: Vec<u8>, SegmentInfo { number, rows }: SegmentInfo) -> Result<Segment> {
    let faulty =
        |reason: &str| Error::corrupted(format!("segment {number} of a lexical index: {reason}; loading repairs it"));
    let segment = Segment::read(bytes).map_err(faulty)?;
    match segment.rows().len() {
        found if found == rows as usize => Ok(segment),
        found => Err(faulty(&format!("it has {found} rows, not {rows}"))),
    }
}

/// Reads the lexical index of a namespace; `None` if it is not all there, or not as text is analysed now.
pub(super) fn load(
    snapshot: &Snapshot,
    generation: GenerationId,
    namespace: NamespaceId,
    metas: &[Option<RowMeta>],
) -> Result<Option<LexicalIndex>> {
    let language = language(snapshot.language(namespace)?)?;
    let is_alive = |row: u32| metas.get(row as usize).is_some_and(Option::is_some);
    let mut index = LexicalIndex::default();
    for info in snapshot.segments(generation, namespace)? {
        match snapshot.segment(generation, namespace, info.number).and_then(|bytes| read(bytes, info)) {
            Ok(segment) if segment.is_of(language) => index.set(info.number, Some(Arc::new(segment)), is_alive),
            Ok(_) => return Ok(None),
            Err(error @ Error::Corrupted { .. }) => {
                tracing::error!(%error, "a lexical index is made anew from its texts");
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    let is_whole = (0..metas.len() as u32).all(|row| !is_alive(row) || index.covers(row));
    Ok(is_whole.then_some(index))
}

/// Makes the lexical index of a namespace anew from its texts.
pub(super) fn rebuild(
    transaction: &mut Transaction,
    generation: GenerationId,
    namespace: NamespaceId,
    embedder: &dyn Embedder,
) -> Result<Vec<SegmentChange>> {
    let language = language(transaction.language(namespace)?)?;
    let analyzer = Analyzer::of(language);
    let (mut documents, mut segments) = (Vec::new(), Vec::new());
    transaction.placed_texts(generation, namespace, |first, count, text| {
        let analyzed = analyze(analyzer, text, &stored_windows(embedder, text, count as usize)?);
        documents.extend((first..).zip(analyzed).map(|(row, Window { passage, terms })| Document {
            row,
            passage,
            terms,
        }));
        // Documents take much more room than their segment.
        while documents.len() >= MAX_ROWS {
            segments.push(build_first(language, &mut documents));
        }
        Ok(())
    })?;
    if !documents.is_empty() {
        segments.push(build_first(language, &mut documents));
    }
    let old = transaction.segments(generation, namespace)?;
    let next = old.last().map_or(0, |info| info.number + 1);
    let mut changes: Vec<SegmentChange> = old.iter().map(|info| (info.number, None)).collect();
    transaction.clear_segments(generation, namespace)?;
    for (number, segment) in (next..).zip(segments) {
        transaction.put_segment(generation, namespace, number, segment.rows().len() as u32, segment.bytes())?;
        changes.push((number, Some(Arc::new(segment))));
    }
    Ok(changes)
}

/// The windows of a text that has so many rows.
pub(super) fn stored_windows<'t>(embedder: &dyn Embedder, text: &'t str, count: usize) -> Result<Vec<&'t str>> {
    if count == 1 {
        return Ok(vec![text]);
    }
    let windows = embed::windows(embedder, text)?;
    if windows.len() == count {
        return Ok(windows);
    }
    if count > text.len() {
        return Err(Error::corrupted(format!("a text of {} bytes has {count} rows", text.len())));
    }
    // It splits otherwise than it did. Even parts have the same words, about where they were.
    let place = |part: usize| text.floor_char_boundary(text.len() * part / count);
    Ok((0..count).map(|part| &text[place(part)..place(part + 1)]).collect())
}

/// Writes a segment again without what is dead. `None`: another thread has just done it.
pub(super) fn rewrite(
    transaction: &mut Transaction,
    generation: GenerationId,
    namespace: NamespaceId,
    number: u32,
    old: &Arc<Segment>,
    new: Option<&Arc<Segment>>,
) -> Result<Option<SegmentChange>> {
    if !transaction.segments(generation, namespace)?.iter().any(|info| info.number == number) {
        // It was merged with others.
        return Ok(Some((number, None)));
    }
    if transaction.segment(generation, namespace, number)? != old.bytes() {
        return Ok(None);
    }
    match new {
        Some(new) => {
            transaction.put_segment(generation, namespace, number, new.rows().len() as u32, new.bytes())?;
        }
        None => transaction.drop_segment(generation, namespace, number)?,
    }
    Ok(Some((number, new.cloned())))
}

/// What is wrong with the lexical indexes in a database, a line each.
pub(crate) fn check_lexical(store: &Store) -> Result<Vec<String>> {
    let snapshot = store.read()?;
    let mut problems = Vec::new();
    for generation in snapshot.generations()?.iter().filter(|generation| generation.state != GenerationState::Retired) {
        for namespace in snapshot.counted_namespaces(generation.id)? {
            check_namespace(&snapshot, generation, namespace, &mut problems)?;
        }
    }
    Ok(problems)
}

fn check_namespace(
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
    problems: &mut Vec<String>,
) -> Result<()> {
    let mut named =
        |what: String| problems.push(format!("generation {}, namespace {}: {what}", generation.id.0, namespace.0));
    let stray = snapshot.stray_parts(generation.id, namespace)?;
    if stray > 0 {
        named(format!("{stray} parts of its lexical index are of no segment"));
    }
    let segments = snapshot.segments(generation.id, namespace)?;
    if segments.is_empty() {
        // Of an older release: made when it is first loaded.
        return Ok(());
    }
    let language = match language(snapshot.language(namespace)?) {
        Err(error @ Error::Corrupted { .. }) => {
            named(error.to_string());
            return Ok(());
        }
        language => language?,
    };
    // Of each row what its newest segment says.
    let mut documents: HashMap<u32, Document> = HashMap::new();
    for info in segments {
        match snapshot.segment(generation.id, namespace, info.number).and_then(|bytes| read(bytes, info)) {
            Err(error @ Error::Corrupted { .. }) => named(error.to_string()),
            Err(error) => return Err(error),
            Ok(segment) if !segment.is_of(language) => return Ok(()),
            Ok(segment) => {
                documents.extend(segment.documents().into_iter().map(|document| (document.row, document)));
            }
        }
    }
    // A line for all such rows: where a segment is damaged, they are many.
    let (mut missing, mut other) = (Vec::new(), Vec::new());
    let analyzer = Analyzer::of(language);
    snapshot.placed_texts(generation.id, namespace, |first, count, text| {
        for row in first..first.saturating_add(count) {
            let Some(document) = documents.get(&row) else {
                missing.push(row);
                break;
            };
            let place =
                document.passage.as_ref().map_or(0..text.len(), |place| place.start as usize..place.end as usize);
            let mut terms = Vec::new();
            analyzer.terms(text.get(place).unwrap_or(""), &mut terms);
            terms.truncate(MAX_TERMS);
            terms.sort_unstable();
            if document.terms != terms || document.passage.is_some() != (count > 1) {
                other.push(row);
            }
        }
        Ok(())
    })?;
    if let Some(row) = missing.first() {
        named(format!("row {row} is in no segment of its lexical index; {} messages in all", missing.len()));
    }
    if let Some(row) = other.first() {
        let rows = other.len();
        named(format!("row {row} is in its lexical index with other terms than its text's; {rows} rows in all"));
    }
    Ok(())
}
