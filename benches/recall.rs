//! How long does a recall take? A question to the committed sample with the default model, its embedding included, by each
//! strategy. The indexes alone are in `ann`; large namespaces in `mnemon bench recall`.

use criterion::{Criterion, criterion_group, criterion_main};
use mnemon::{Config, Engine, MessageLine, Query, Strategy};

fn recall(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    // The question is the same each time.
    config.embedding_cache = 0;
    let engine = Engine::builder(folder.path().join("memory.redb")).config(config).open().unwrap();
    let lines = std::fs::read_to_string("datasets/sample/messages.jsonl").unwrap();
    let messages = lines.lines().map(|line| MessageLine::parse(line).unwrap());
    engine.blocking().put_all(messages.map(|line| (line.namespace.unwrap(), line.message)).collect()).unwrap();
    engine.blocking().flush().unwrap();
    let namespace = "friends/ines-tom".parse().unwrap();
    for strategy in [Strategy::Hybrid, Strategy::Dense, Strategy::Lexical] {
        criterion.bench_function(&format!("recall/sample/{strategy}"), |bencher| {
            let query = Query::new("Which instrument does she learn?").strategy(strategy);
            bencher.iter(|| engine.blocking().recall(&namespace, query.clone()).unwrap());
        });
    }
}

criterion_group!(benches, recall);
criterion_main!(benches);
