//! How long does a recall take, and how does search grow with the number of vectors?
//!
//! `recall/sample`: a question to the committed sample with the default model, its embedding included. `search/*`: 1,000
//! to 20,000 seeded synthetic vectors of 256 dimensions in 50 clusters, k 10, one thread; recall@10 against exact is
//! printed before the timing.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mnemon::{Engine, ExactIndex, HnswRsIndex, MessageLine, Query, Search, VectorIndex};

const DIMENSION: usize = 256;

fn recall(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(folder.path().join("memory.redb")).unwrap();
    let lines = std::fs::read_to_string("datasets/sample/messages.jsonl").unwrap();
    let messages = lines.lines().map(|line| MessageLine::parse(line).unwrap());
    engine.blocking().put_all(messages.map(|line| (line.namespace.unwrap(), line.message)).collect()).unwrap();
    engine.blocking().flush().unwrap();
    let namespace = "friends/ines-tom".parse().unwrap();
    criterion.bench_function("recall/sample", |bencher| {
        bencher.iter(|| engine.blocking().recall(&namespace, Query::new("Which instrument does she learn?")).unwrap());
    });
}

fn search(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("search");
    for count in [1_000, 5_000, 20_000] {
        let data = vectors(count, 1);
        let queries = vectors(200, 2);
        let rows: Vec<u32> = (0..count as u32).collect();
        let exact = ExactIndex::new(DIMENSION);
        exact.insert(&rows, &data);
        let graph = HnswRsIndex::new(DIMENSION, 0);
        graph.insert(&rows, &data);
        while graph.improve() {}
        let found: usize = queries
            .chunks_exact(DIMENSION)
            .map(|query| {
                let wanted = exact.search(query, &Search::new(10)).neighbors;
                graph
                    .search(query, &Search::new(10))
                    .neighbors
                    .iter()
                    .filter(|a| wanted.iter().any(|b| a.row == b.row))
                    .count()
            })
            .sum();
        println!("hnsw_rs, {count} vectors, ef_search 128: recall@10 {:.3}", found as f64 / 2000.0);
        let indexes: [(&str, &dyn VectorIndex); 2] = [("exact", &exact), ("hnsw_rs", &graph)];
        for (name, index) in indexes {
            let mut next = queries.chunks_exact(DIMENSION).cycle();
            group.bench_function(BenchmarkId::new(name, count), |bencher| {
                bencher.iter(|| black_box(index.search(next.next().unwrap(), &Search::new(10))));
            });
        }
    }
    group.finish();
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

criterion_group!(benches, recall, search);
criterion_main!(benches);
