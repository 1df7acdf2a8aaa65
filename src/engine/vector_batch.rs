//! A batch of embedded and analyzed messages, and the commit that stores it.
//!
//! The terms of new rows form a segment, which is stored in the commit that stores the vectors, merged with the latest
//! segments where these are no larger. A message is analyzed once: removed rows stay in their segments until they are
//! half of one, which is then rewritten without them.

use std::{collections::HashMap, ops::Range, sync::Arc};

use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    lexical::{Analyzer, Document, Language, MAX_ROWS, MAX_TERMS, Segment, SpeakerAndQuestion, merge_plan},
    message::IndexedText,
    recall::{AddedRows, SegmentChange, read_segment},
    store::{Embedded, SegmentInfo, Snapshot, Transaction},
};

/// The terms of a window, who wrote its message, and its byte range in the message's text if the message has several windows.
#[derive(Clone, Debug)]
pub(super) struct AnalyzedWindow {
    pub(super) passage: Option<Range<u32>>,
    pub(super) terms: Vec<u64>,
    pub(super) speech: SpeakerAndQuestion,
}

/// The vectors and terms of a batch of messages.
pub(crate) struct VectorBatch {
    pub(crate) embedded: Vec<Embedded>,
    /// The analyzed windows of each message, by namespace and sequence number.
    windows: HashMap<(NamespaceId, u64), Vec<AnalyzedWindow>>,
    languages: HashMap<NamespaceId, Language>,
}

impl VectorBatch {
    pub(crate) fn new() -> Self {
        VectorBatch { embedded: Vec::new(), windows: HashMap::new(), languages: HashMap::new() }
    }

    /// Adds a message with its vectors; analyzes its windows in the language of its namespace.
    pub(crate) fn push(
        &mut self,
        snapshot: &Snapshot,
        embedded: Embedded,
        text: &IndexedText,
        windows: &[Range<usize>],
    ) -> Result<()> {
        let language = match self.languages.get(&embedded.namespace) {
            Some(&language) => language,
            None => {
                let language = snapshot.namespaces().language(embedded.namespace)?.language;
                self.languages.insert(embedded.namespace, language);
                language
            }
        };
        let key = (embedded.namespace, embedded.meta.seq);
        self.windows.insert(key, analyze(Analyzer::of(language), text, windows));
        self.embedded.push(embedded);
        Ok(())
    }

    pub(crate) fn append(&mut self, other: VectorBatch) {
        self.embedded.extend(other.embedded);
        self.windows.extend(other.windows);
        self.languages.extend(other.languages);
    }

    /// Stores the vectors and the terms in a generation.
    pub(crate) fn store(&self, transaction: &Transaction, generation: GenerationId) -> Result<Vec<AddedRows>> {
        let added = transaction.vectors().add(generation, &self.embedded)?;
        added
            .into_iter()
            .map(|rows| {
                let documents = rows.rows.iter().zip(&rows.metas).map(|(&row, meta)| {
                    let windows = &self.windows[&(rows.namespace, meta.seq)];
                    windows[usize::from(meta.window)].clone().document(row)
                });
                let language = self.languages[&rows.namespace];
                let segments = add_segments(transaction, generation, rows.namespace, language, documents.collect())?;
                Ok(AddedRows { rows, segments })
            })
            .collect()
    }
}

impl AnalyzedWindow {
    pub(super) fn document(self, row: u32) -> Document {
        let AnalyzedWindow { passage, terms, speech } = self;
        Document { row, passage, terms, speech }
    }
}

/// Analyzes the windows of a text.
pub(super) fn analyze(analyzer: &Analyzer, text: &IndexedText, windows: &[Range<usize>]) -> Vec<AnalyzedWindow> {
    let speech = SpeakerAndQuestion::of(analyzer, text.name(), text);
    windows
        .iter()
        .map(|window| {
            let mut terms = Vec::new();
            analyzer.terms(&text[window.clone()], &mut terms);
            // A segment stores no more terms of a row.
            terms.truncate(MAX_TERMS);
            let passage = (windows.len() > 1).then_some(window.start as u32..window.end as u32);
            AnalyzedWindow { passage, terms, speech: speech.clone() }
        })
        .collect()
}

/// Stores documents as segments, merged with the latest ones where those are small. Does nothing if the namespace has
/// other rows but no segment: an older release wrote it, and all its rows are indexed when it is loaded.
fn add_segments(
    transaction: &Transaction,
    generation: GenerationId,
    namespace: NamespaceId,
    language: Language,
    mut documents: Vec<Document>,
) -> Result<Vec<SegmentChange>> {
    let mut stored = transaction.segments().list(generation, namespace)?;
    let mut changes = Vec::new();
    if stored.is_empty() && transaction.rows().live_count(generation, namespace)? > documents.len() {
        return Ok(changes);
    }
    while !documents.is_empty() {
        let mut segment = build_first(language, &mut documents);
        let sizes: Vec<usize> = stored.iter().map(|info| info.rows as usize).collect();
        let number = stored.last().map_or(0, |info| info.number + 1);
        let merged = stored.split_off(stored.len() - merge_plan(&sizes, segment.rows().len()));
        let older = merged
            .iter()
            .map(|&info| read_segment(transaction.segments().read(generation, namespace, info.number)?, info))
            .collect::<Result<Vec<_>>>();
        match older {
            Ok(older) if older.iter().all(|older| older.is_of(language)) => {
                if !older.is_empty() {
                    let all: Vec<&Segment> = older.iter().chain([&segment]).collect();
                    segment = Segment::merge(&all);
                }
                for info in &merged {
                    transaction.segments().remove(generation, namespace, info.number)?;
                    changes.push((info.number, None));
                }
            }
            // Segments that are damaged or of another language stay: loading the namespace rebuilds them all.
            Ok(_) | Err(Error::Corrupted { .. }) => stored.extend(merged),
            Err(error) => return Err(error),
        }
        let rows = segment.rows().len() as u32;
        transaction.segments().put(generation, namespace, number, rows, segment.bytes())?;
        stored.push(SegmentInfo { number, rows });
        changes.push((number, Some(Arc::new(segment))));
    }
    Ok(changes)
}

/// Builds a segment of the first documents, as many as fit into one, and removes them from the list.
pub(super) fn build_first(language: Language, documents: &mut Vec<Document>) -> Segment {
    let rest = documents.split_off(documents.len().min(MAX_ROWS));
    Segment::build(language, std::mem::replace(documents, rest))
}
