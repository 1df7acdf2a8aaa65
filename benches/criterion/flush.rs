//! Measures how long it takes to store messages until recall finds them: put, embed, commit, index.
//!
//! Corpus: the committed sample, 462 messages, into a new database each time; with the default model, and with an
//! embedder that costs nothing (256 dimensions), which leaves the cost of the store. Both include the disk's fsync.

use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mnemon::{Embedder, Engine, Message, MessageLine, Model, ModelIdentity, Namespace, OnnxEmbedder, Result};

/// An embedder that costs nothing.
struct Constant(ModelIdentity);

impl Embedder for Constant {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        texts.iter().map(|text| self.embed_query(text)).collect()
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        let mut row = vec![0.0; self.0.dimension];
        row[text.len() % self.0.dimension] = 1.0;
        Ok(row)
    }
}

fn flush(criterion: &mut Criterion) {
    let lines = include_str!("../../datasets/sample/messages.jsonl");
    let messages: Vec<(Namespace, Message)> = lines
        .lines()
        .map(|line| MessageLine::parse(line).unwrap())
        .map(|line| (line.namespace.unwrap(), line.message))
        .collect();
    let identity = ModelIdentity { name: "constant".into(), dimension: 256, hash: "constant".into() };
    let embedders: [(&str, Arc<dyn Embedder>); 2] = [
        ("default model", Arc::new(OnnxEmbedder::new(Model::bundled()).unwrap())),
        ("no model", Arc::new(Constant(identity))),
    ];

    let mut group = criterion.benchmark_group("flush");
    group.sample_size(20).throughput(Throughput::Elements(messages.len() as u64));
    for (name, embedder) in embedders {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    let folder = tempfile::tempdir().unwrap();
                    let path = folder.path().join("memory.redb");
                    let engine = Engine::builder(path).embedder(Arc::clone(&embedder)).open().unwrap();
                    (engine, messages.clone(), folder)
                },
                |(engine, messages, folder)| {
                    engine.blocking().put_all(messages).unwrap();
                    engine.blocking().flush().unwrap();
                    // Returned, so that they are dropped after the timing.
                    (engine, folder)
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, flush);
criterion_main!(benches);
