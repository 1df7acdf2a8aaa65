//! What does each index cost: an insert, a search, a filtered search, an opening?
//!
//! 20,000 seeded synthetic vectors of 256 dimensions in 50 clusters, k 10, one thread. For curves of recall
//! against rate, and data of one's own, there is `mnemon bench ann`.

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{BatchSize, Criterion, SamplingMode, criterion_group, criterion_main};
use mnemon::{
    Bitmap, Config, Embedder, Engine, Error, ExactIndex, HnswIndex, HnswOptions, HnswRsIndex, IndexKind, Message,
    ModelIdentity, Namespace, Query, Search, VectorIndex,
};

const DIMENSION: usize = 256;
const ROWS: usize = 20_000;
/// Messages of a turn or two.
const BATCH: usize = 20;

/// The one place that knows the indexes: a name, the engine's setting, and how one is made.
fn indexes() -> Vec<(&'static str, IndexKind, Box<dyn VectorIndex>)> {
    vec![
        ("exact", IndexKind::Exact, Box::new(ExactIndex::new(DIMENSION))),
        ("hnsw", IndexKind::Hnsw, Box::new(HnswIndex::new(DIMENSION, HnswOptions::default()))),
        ("hnsw_rs", IndexKind::HnswRs, Box::new(HnswRsIndex::new(DIMENSION, 0))),
    ]
}

fn raw(criterion: &mut Criterion) {
    let data = vectors(ROWS, 1);
    let queries = vectors(200, 2);
    let more = vectors(BATCH, 3);
    let rows: Vec<u32> = (0..ROWS as u32).collect();
    // 1 %, of all clusters.
    let allowed = Bitmap::from_fn(ROWS, |row| row % 100 == row / 100 % 100);
    for (name, _, index) in indexes() {
        index.insert(&rows, &data);
        while index.improve() {}
        let mut next = queries.chunks_exact(DIMENSION).cycle();
        for (group, search) in
            [("ann/search", Search::new(10)), ("ann/filtered", Search::new(10).allowed(Some(&allowed)))]
        {
            let mut group = criterion.benchmark_group(group);
            group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
            group.bench_function(name, |bencher| {
                bencher.iter(|| black_box(index.search(next.next().unwrap(), &search)));
            });
            group.finish();
        }
        // Last, as the index grows by it; no time to fill means one batch a sample. Else a fast index would take
        // so many that it would be another one after.
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

/// Opening a database of that many vectors, until the first answer.
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
    for first in (0..ROWS).step_by(1000) {
        let messages = (first..first + 1000).map(|row| Message::user(row.to_string()).with_id(row.to_string()));
        engine.blocking().put(&namespace, messages.collect()).unwrap();
    }
    engine.blocking().flush().unwrap();
    drop(engine);
    let mut group = criterion.benchmark_group("ann/open");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for (name, kind, _) in indexes() {
        // What an index keeps in the file is there from the second time on.
        let engine = open(kind);
        engine.blocking().optimize(&namespace).unwrap();
        drop(engine);
        group.bench_function(name, |bencher| {
            let first_answer = |()| {
                let engine = open(kind);
                let hits = engine.blocking().recall(&namespace, Query::new("17")).unwrap();
                assert_eq!(hits[0].message.id, "17");
                // Closing is not measured.
                engine
            };
            bencher.iter_batched(|| (), first_answer, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// A model that knows its vectors by heart: the texts are their numbers.
struct Table(ModelIdentity, Vec<f32>);

impl Table {
    fn new() -> Self {
        Table(ModelIdentity { name: "table".into(), dimension: DIMENSION, hash: "table".into() }, vectors(ROWS, 1))
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
        let number: usize =
            text.parse().map_err(|_| Error::Embedding { reason: format!("{text:?} is no number"), source: None })?;
        Ok(self.1[number * DIMENSION..][..DIMENSION].to_vec())
    }
}

/// Seeded unit vectors in clusters. The centres are the same for every seed.
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

/// SplitMix64 (Steele et al. 2014), in -1 to 1.
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
