//! Measures a turn: a durable put of one message to a session, from one thread and from eight, and a prompt.
//!
//! `memory/put/*`: each thread puts one message into a session of its own. `memory/assemble`: 200 recent messages, 4
//! blocks, and 3 memories recalled for the prompt. Default model, tokens counted with `cl100k_base`, the committed
//! sample as the conversation. `mnemon bench memory` reports percentiles, and the file system's fsync in the same run.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mnemon::{
    BufferLimits, Config, Engine, InsertMethod, Memory, MemoryBuilder, Message, MessageLine, Namespace, StaticBlock,
    Tiktoken, VectorBlock,
};

fn talk() -> impl Iterator<Item = Message> {
    let lines = include_str!("../../datasets/sample/messages.jsonl");
    let messages: Vec<Message> = lines.lines().map(|line| MessageLine::parse(line).unwrap().message).collect();
    let mut number = 0;
    messages.into_iter().cycle().map(move |message| {
        number += 1;
        message.with_id(format!("m{number}"))
    })
}

fn open(folder: &tempfile::TempDir) -> Engine {
    let mut config = Config::default();
    // The conversation repeats: a cache would hide the cost of embedding.
    config.embedding_cache = 0;
    Engine::builder(folder.path().join("memory.redb")).config(config).open().unwrap()
}

fn builder(engine: &Engine, session: &str) -> MemoryBuilder {
    let user: Namespace = "bench/user".parse().unwrap();
    engine.memory(&user, session).token_counter(Tiktoken::cl100k_base())
}

fn put(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    let mut group = criterion.benchmark_group("memory/put");
    for tasks in [1, 8] {
        let memories: Vec<Memory> =
            (0..tasks).map(|task| builder(&engine, &format!("{tasks}/{task}")).open().unwrap()).collect();
        let mut talk = talk().map(|message| Message { id: format!("{tasks}/{}", message.id), ..message });
        group.throughput(Throughput::Elements(tasks));
        group.bench_function(BenchmarkId::from_parameter(tasks), |bencher| {
            bencher.iter(|| {
                std::thread::scope(|scope| {
                    for memory in &memories {
                        let message = talk.next().unwrap();
                        let put = move || memory.blocking().put(vec![message]).unwrap();
                        // Starting a thread costs as much as a put, so a single put runs on this one.
                        if memories.len() == 1 { drop(put()) } else { drop(scope.spawn(put)) }
                    }
                });
            });
        });
    }
    group.finish();
}

fn assemble(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    let mut talk = talk();
    let old = builder(&engine, "old").open().unwrap();
    old.blocking().put(talk.by_ref().take(1000).collect()).unwrap();
    old.blocking().flush().unwrap();
    old.blocking().settle().unwrap();
    let memory = builder(&engine, "now")
        .limits(BufferLimits::new(1_000_000, 1.0, 3_000).unwrap())
        .insert_method(InsertMethod::User)
        .block(StaticBlock::new("about", "The user is called Ada, lives in Oslo and has a dog."))
        .block(StaticBlock::new("rules", "Answer in one sentence.").with_priority(2))
        .block(VectorBlock::new("memories").with_priority(1))
        .block(VectorBlock::new("own").own_session().with_priority(3))
        .open()
        .unwrap();
    memory.blocking().put(talk.by_ref().take(200).collect()).unwrap();
    criterion.bench_function("memory/assemble", |bencher| {
        bencher.iter(|| memory.blocking().assemble(talk.next().unwrap()).unwrap());
    });
}

criterion_group!(benches, put, assemble);
criterion_main!(benches);
