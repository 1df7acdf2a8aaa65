//! The internal readers of bytes, for the fuzz targets in `fuzz/`. Compiled with `--cfg fuzzing` alone, and no part of
//! the public API.

use mnemon_index::{HnswOptions, Loader, SearchOptions, VectorIndex};

use crate::{
    lexical::Segment,
    model_folders::folder::{self, Manifest, ModelKind, RerankerManifest},
    onnx, store,
};

/// Decodes stored records of all kinds.
pub fn records(data: &[u8]) {
    store::decode_records(data);
}

/// Reads a segment, whose checksum is made right, and rebuilds it from its documents.
pub fn segments(data: &[u8]) {
    let bytes = [data, &crc32fast::hash(data).to_le_bytes()].concat();
    let Ok(segment) = Segment::read(bytes) else { return };
    for document in segment.documents() {
        for term in document.terms {
            let postings = segment.postings(term).expect("a term of a document has postings");
            postings.for_each(drop);
        }
    }
    (0..).zip(segment.rows()).for_each(|(local, _)| drop(segment.passage(local)));
    if let Some(kept) = segment.retain(|row| row % 2 == 0) {
        Segment::read(kept.bytes().to_vec()).expect("a segment that was written can be read");
        Segment::read(Segment::merge(&[&segment, &kept]).bytes().to_vec()).expect("merged segments can be read");
    }
}

/// Loads a graph from parts: the number of rows, and then for each part its kind, its length and its bytes. Searches
/// the graph and changes it.
pub fn graphs(data: &[u8]) {
    let Some(([rows, m], mut parts)) = data.split_first_chunk::<2>() else { return };
    let (rows, m) = (u32::from(*rows), 2 + usize::from(*m % 16));
    let mut options = HnswOptions::default();
    (options.m, options.ef_construction, options.graph_above) = (m, 16, 0);
    let mut loader = Loader::new(2, rows as usize, options, None);
    let vector = |row: u32| [(row as f32).cos(), (row as f32).sin()];
    (0..rows).for_each(|row| loader.row((row % 7 != 6).then_some(&vector(row))));
    let mut read = Ok(());
    while let Some(([kind, length @ ..], rest)) = parts.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes(*length));
        let (part, rest) = rest.split_at(rest.len().min(length));
        read = if kind % 2 == 0 { loader.page(u32::from(kind / 2), part) } else { loader.delta(part) };
        if read.is_err() {
            break;
        }
        parts = rest;
    }
    if read.and_then(|()| loader.check_parents()).is_err() {
        loader.forget_parts();
    }
    let index = loader.finish(&[]);
    let search = || index.search(&vector(1), &SearchOptions::new(10)).neighbors;
    assert!(search().iter().all(|found| found.row < rows && found.row % 7 != 6));
    // Links of a graph that is not sound may lead to any row, which a recall leaves out because it has no message.
    let is_sound = index.check().is_empty();
    index.insert(&[rows], &vector(rows));
    index.remove(&[1, 2]);
    while index.improve() {}
    assert!(!is_sound || search().iter().all(|found| found.row != 1 && found.row != 2));
}

/// Parses a manifest of a model, of either kind.
pub fn manifests(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(manifest) = folder::parse_manifest::<Manifest>(text, ModelKind::Embedder)
        && manifest.fault().is_none()
    {
        manifest.hash();
        let written = toml::to_string(&manifest).expect("a manifest can be written");
        let again = folder::parse_manifest::<Manifest>(&written, ModelKind::Embedder);
        assert_eq!(again.expect("a manifest that was written can be read"), manifest);
    }
    if let Ok(manifest) = folder::parse_manifest::<RerankerManifest>(text, ModelKind::Reranker) {
        manifest.fault();
    }
}

/// Reads an ONNX graph as far as this crate does itself, and runs it if it is a table of tokens.
pub fn onnx(data: &[u8]) {
    onnx::read_graph(data);
}
