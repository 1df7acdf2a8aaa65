//! Measures an insert, a search, a filtered search and an opening with each index.
//!
//! 20,000 seeded synthetic vectors of 256 dimensions in 50 clusters, k 10, one thread. For curves of recall
//! against rate, and your own data, use `mnemon bench ann`.

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{BatchSize, Criterion, SamplingMode, criterion_group, criterion_main};
use mnemon::{
    Bitmap, Config, Embedder, Engine, Error, ExactIndex, HnswIndex, HnswOptions, IndexKind, Message, ModelIdentity,
    Namespace, Query, SearchOptions, VectorIndex,
};

const DIMENSION: usize = 256;
/// Rows per insert: a turn or two of a conversation.
const BATCH: usize = 20;

/// Rows of the data: 20,000 under `cargo bench`, and 2,000 under `cargo test`, which runs each bench once and
/// unoptimised.
fn row_count() -> usize {
    if std::env::args().any(|argument| argument == "--bench") { 20_000 } else { 2_000 }
}

/// Lists the indexes: name, the engine's setting, and an empty index.
fn indexes() -> Vec<(&'static str, IndexKind, Box<dyn VectorIndex>)> {
    vec![
        ("exact", IndexKind::Exact, Box::new(ExactIndex::new(DIMENSION))),
        ("hnsw", IndexKind::Hnsw, Box::new(HnswIndex::new(DIMENSION, HnswOptions::default()))),
        ("hnsw_rs", IndexKind::HnswRs, Box::new(mnemon::HnswRsIndex::new(DIMENSION, 0))),
    ]
}

fn raw(criterion: &mut Criterion) {
    let count = row_count();
    let data = vectors(count, 1);
    let queries = vectors(200, 2);
    let more = vectors(BATCH, 3);
    let rows: Vec<u32> = (0..count as u32).collect();
    // 1 % of the rows, from all clusters.
    let allowed = Bitmap::from_fn(count, |row| row % 100 == row / 100 % 100);
    for (name, _, index) in indexes() {
        index.insert(&rows, &data);
        while index.improve() {}
        let mut next = queries.chunks_exact(DIMENSION).cycle();
        for (group, search) in
            [("ann/search", SearchOptions::new(10)), ("ann/filtered", SearchOptions::new(10).allowed(Some(&allowed)))]
        {
            let mut group = criterion.benchmark_group(group);
            group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
            group.bench_function(name, |bencher| {
                bencher.iter(|| black_box(index.search(next.next().unwrap(), &search)));
            });
            group.finish();
        }
        // Inserts come last, since they grow the index. Without a measurement time each sample is one batch; otherwise
        // a fast index would get so many rows that it would be a different one afterwards.
        let mut group = criterion.benchmark_group("ann/insert");
        group.sample_size(100).sampling_mode(SamplingMode::Flat);
        group.warm_up_time(Duration::from_nanos(1)).measurement_time(Duration::from_nanos(1));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let rows: Vec<u32> = (index.rows() as u32..).take(BATCH).collect();
                index.insert(&rows, &more);
                while index.improve() {}
            });
        });
        group.finish();
    }
}

/// Measures opening a database until the first answer.
fn open(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.redb");
    let table = Arc::new(Table::new());
    let namespace: Namespace = "bench/ann".parse().unwrap();
    let open = |kind| {
        let mut config = Config::default();
        config.index = kind;
        Engine::builder(&path).config(config).embedder(table.clone()).open().unwrap()
    };
    let engine = open(IndexKind::Exact);
    for first in (0..row_count()).step_by(1000) {
        let messages = (first..first + 1000).map(|row| Message::user(row.to_string()).with_id(row.to_string()));
        engine.blocking().put(&namespace, messages.collect()).unwrap();
    }
    engine.blocking().flush().unwrap();
    drop(engine);
    let mut group = criterion.benchmark_group("ann/open");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for (name, kind, _) in indexes() {
        // An index stores its graph at the first opening; later ones load it.
        let engine = open(kind);
        engine.blocking().optimize(&namespace).unwrap();
        drop(engine);
        group.bench_function(name, |bencher| {
            let first_answer = |()| {
                let engine = open(kind);
                let hits = engine.blocking().recall(&namespace, Query::new("17")).unwrap();
                assert_eq!(hits[0].message.id, "17");
                // The engine is returned so that closing is not measured.
                engine
            };
            bencher.iter_batched(|| (), first_answer, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// An embedder that looks vectors up in a table by their number, which is the text.
struct Table(ModelIdentity, Vec<f32>);

impl Table {
    fn new() -> Self {
        Table(
            ModelIdentity { name: "table".into(), dimension: DIMENSION, hash: "table".into() },
            vectors(row_count(), 1),
        )
    }
}

impl Embedder for Table {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn embed_documents(&self, texts: &[&str]) -> mnemon::Result<Vec<Vec<f32>>> {
        texts.iter().map(|text| self.embed_query(text)).collect()
    }

    fn embed_query(&self, text: &str) -> mnemon::Result<Vec<f32>> {
        let number: usize = text
            .parse()
            .map_err(|_| Error::Embedding { reason: format!("{text:?} is not a row number"), source: None })?;
        Ok(self.1[number * DIMENSION..][..DIMENSION].to_vec())
    }
}

/// Generates unit vectors in clusters from a seed. The centres are the same for every seed.
fn vectors(count: usize, seed: u64) -> Vec<f32> {
    let mut state = 7;
    let centres: Vec<f32> = (0..50 * DIMENSION).map(|_| random(&mut state)).collect();
    state = seed;
    let mut data = Vec::with_capacity(count * DIMENSION);
    for i in 0..count {
        let centre = &centres[i % 50 * DIMENSION..][..DIMENSION];
        let row: Vec<f32> = centre.iter().map(|x| x + 0.8 * random(&mut state)).collect();
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        data.extend(row.iter().map(|x| x / norm));
    }
    data
}

/// Returns the next number of a SplitMix64 generator (Steele et al. 2014), within -1 to 1.
fn random(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

criterion_group!(benches, raw, open);
criterion_main!(benches);
