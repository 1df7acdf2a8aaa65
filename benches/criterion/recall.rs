//! How long does a recall take with each strategy, including the embedding of the query?
//!
//! Corpus: the committed sample, with the default model. The bench `ann` measures the indexes alone, and `mnemon bench
//! recall` large namespaces.

use criterion::{Criterion, criterion_group, criterion_main};
use mnemon::{Config, Engine, MessageLine, Query, RankingStrategy};

fn recall(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    // The query is always the same: a cache would hide the cost of embedding.
    config.embedding_cache = 0;
    let engine = Engine::builder(folder.path().join("memory.redb")).config(config).open().unwrap();
    let lines = include_str!("../../datasets/sample/messages.jsonl");
    let messages = lines.lines().map(|line| MessageLine::parse(line).unwrap());
    engine.blocking().put_all(messages.map(|line| (line.namespace.unwrap(), line.message)).collect()).unwrap();
    engine.blocking().flush().unwrap();
    let namespace = "friends/ines-tom".parse().unwrap();
    for strategy in [RankingStrategy::Hybrid, RankingStrategy::Dense, RankingStrategy::Lexical] {
        criterion.bench_function(&format!("recall/sample/{strategy}"), |bencher| {
            let query = Query::new("Which instrument does she learn?").strategy(strategy);
            bencher.iter(|| engine.blocking().recall(&namespace, query.clone()).unwrap());
        });
    }
}

criterion_group!(benches, recall);
criterion_main!(benches);
