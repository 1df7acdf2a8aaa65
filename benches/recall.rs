//! How long does a recall take? A question to the committed sample with the default model, its embedding included. The
//! indexes alone are in `ann`.

use criterion::{Criterion, criterion_group, criterion_main};
use mnemon::{Engine, MessageLine, Query};

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

criterion_group!(benches, recall);
criterion_main!(benches);
