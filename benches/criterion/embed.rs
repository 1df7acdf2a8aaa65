//! How fast does the default model embed texts, in bulk and one query at a time?
//!
//! Corpus: the committed sample, 462 messages, 28 to 1,121 characters. The bench downloads nothing.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mnemon::{Embedder, MessageLine, Model, OnnxEmbedder};

fn embed(criterion: &mut Criterion) {
    let embedder = OnnxEmbedder::new(Model::bundled()).unwrap();
    let lines = include_str!("../../datasets/sample/messages.jsonl");
    let texts: Vec<String> = lines.lines().map(|line| MessageLine::parse(line).unwrap().message.text()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();

    let mut group = criterion.benchmark_group("embed");
    group.throughput(Throughput::Elements(texts.len() as u64));
    group.bench_function("documents", |bencher| bencher.iter(|| embedder.embed_documents(&texts).unwrap()));
    group.throughput(Throughput::Elements(1));
    group.bench_function("query", |bencher| {
        bencher.iter(|| embedder.embed_query("When did she go to the support group?").unwrap());
    });
    group.finish();
}

criterion_group!(benches, embed);
criterion_main!(benches);
