//! Checks the graphs and lexical indexes in a database against its rows and texts.

use std::collections::HashMap;

use mnemon_index::Loader;

use super::{
    load::{graph_options, read_links},
    segments::{language, read_segment},
};
use crate::{
    config::{Config, Precision},
    error::{Error, Result},
    ids::NamespaceId,
    lexical::{Analyzer, Document, MAX_TERMS, Segment, Voice},
    store::{Generation, GenerationState, Snapshot, Store},
};

/// Checks the graphs of all generations that are not being deleted. Returns a line for each problem.
pub(crate) fn check_graphs(store: &Store) -> Result<Vec<String>> {
    let snapshot = store.read()?;
    let mut problems = Vec::new();
    for generation in &checked(&snapshot)? {
        for namespace in snapshot.graphs().namespaces(generation.id)? {
            // Only links are checked, for which rows without vectors suffice.
            let rows = snapshot.rows().count(generation.id, namespace)?;
            let mut loader = Loader::new(1, rows, graph_options(&Config::default(), Precision::F32), None);
            (0..rows).for_each(|_| loader.row(None));
            let mut report = |problem: String| problems.push(located(generation, namespace, &problem));
            match read_links(&snapshot, generation, namespace, &mut loader) {
                Ok(_) => {
                    let free = snapshot.rows().free(generation.id, namespace)?;
                    loader.finish(&free).check_with(&free).into_iter().for_each(report);
                }
                // The store's own check reports wrong checksums.
                Err(error @ Error::Corrupted { .. }) => report(format!("its graph: {error}")),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(problems)
}

/// Checks the lexical indexes of all generations that are not being deleted. Returns a line for each problem.
pub(crate) fn check_lexical(store: &Store) -> Result<Vec<String>> {
    let snapshot = store.read()?;
    let mut problems = Vec::new();
    for generation in &checked(&snapshot)? {
        for namespace in snapshot.rows().namespaces(generation.id)? {
            check_segments(&snapshot, generation, namespace, &mut problems)?;
        }
    }
    Ok(problems)
}

fn checked(snapshot: &Snapshot) -> Result<Vec<Generation>> {
    let mut generations = snapshot.generations().all()?;
    generations.retain(|generation| generation.state != GenerationState::Retired);
    Ok(generations)
}

fn located(generation: &Generation, namespace: NamespaceId, problem: &str) -> String {
    format!("generation {}, namespace {}: {problem}", generation.id.0, namespace.0)
}

fn check_segments(
    snapshot: &Snapshot,
    generation: &Generation,
    namespace: NamespaceId,
    problems: &mut Vec<String>,
) -> Result<()> {
    let mut report = |problem: String| problems.push(located(generation, namespace, &problem));
    let stray = snapshot.segments().stray_parts(generation.id, namespace)?;
    if stray > 0 {
        report(format!("{stray} parts of its lexical index belong to no segment"));
    }
    let segments = snapshot.segments().list(generation.id, namespace)?;
    if segments.is_empty() {
        // The namespace was written by an older release: its lexical index is built when it is first loaded.
        return Ok(());
    }
    let language = match language(snapshot.namespaces().language(namespace)?) {
        Err(error @ Error::Corrupted { .. }) => {
            report(error.to_string());
            return Ok(());
        }
        language => language?,
    };
    // The document of each row is that of its newest segment.
    let mut documents: HashMap<u32, Document> = HashMap::new();
    for info in segments {
        let bytes = snapshot.segments().read(generation.id, namespace, info.number);
        if bytes.as_ref().is_ok_and(|bytes| Segment::is_outdated(bytes)) {
            return Ok(());
        }
        match bytes.and_then(|bytes| read_segment(bytes, info)) {
            Err(error @ Error::Corrupted { .. }) => report(error.to_string()),
            Err(error) => return Err(error),
            Ok(segment) if !segment.is_of(language) => return Ok(()),
            Ok(segment) => {
                documents.extend(segment.documents().into_iter().map(|document| (document.row, document)));
            }
        }
    }
    // One line for all rows: a damaged segment affects many.
    let (mut missing, mut different) = (Vec::new(), Vec::new());
    let analyzer = Analyzer::of(language);
    snapshot.rows().texts(generation.id, namespace, |first, count, text| {
        for row in first..first.saturating_add(count) {
            let Some(document) = documents.get(&row) else {
                missing.push(row);
                break;
            };
            let passage = document.passage.as_ref().map_or(0..text.len(), |at| at.start as usize..at.end as usize);
            let mut terms = Vec::new();
            analyzer.terms(text.get(passage).unwrap_or(""), &mut terms);
            terms.truncate(MAX_TERMS);
            terms.sort_unstable();
            let is_same = document.terms == terms && document.voice == Voice::of(analyzer, text.name(), text);
            if !is_same || document.passage.is_some() != (count > 1) {
                different.push(row);
            }
        }
        Ok(())
    })?;
    if let Some(row) = missing.first() {
        report(format!("row {row} is in no segment of its lexical index; {} messages in all", missing.len()));
    }
    if let Some(row) = different.first() {
        let rows = different.len();
        report(format!("row {row} has other terms in its lexical index than in its text; {rows} rows in all"));
    }
    Ok(())
}
