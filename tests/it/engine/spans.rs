//! Spans of `tracing`: each call has one, with counts and times and without content.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use mnemon::{BufferLimits, Config, Engine, Message, Query, ReindexOptions};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::support::{Hashing, children, namespace, words};

/// Keeps the fields of every span by its name, and of every event.
#[derive(Clone, Default)]
struct Capture {
    next: Arc<AtomicU64>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    names: BTreeMap<u64, &'static str>,
    fields: Vec<(&'static str, String, String)>,
}

struct Fields<'a>(&'static str, &'a mut Seen);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.1.fields.push((self.0, field.name().to_owned(), format!("{value:?}")));
    }
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mnemon")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let (name, mut seen) = (span.metadata().name(), self.seen.lock().unwrap());
        seen.names.insert(id, name);
        span.record(&mut Fields(name, &mut seen));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut seen = self.seen.lock().unwrap();
        let name = seen.names[&span.into_u64()];
        values.record(&mut Fields(name, &mut seen));
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Fields("event", &mut self.seen.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn every_call_has_a_span_with_counts_and_without_content() {
    let output = children::command(module_path!(), "capture_spans").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// In a process of its own: a subscriber is of the whole process.
#[test]
#[ignore = "a child of every_call_has_a_span_with_counts_and_without_content"]
fn capture_spans() {
    let capture = Capture::default();
    tracing::subscriber::set_global_default(capture.clone()).unwrap();
    let secret = "xylophone";
    let config = Config::default().flush_size(100_000);
    let builder = Engine::builder_in_memory().config(config).embedder(Arc::new(Hashing::new(32)));
    let engine = builder.open().unwrap();
    let space = namespace(&format!("{secret}-space"));
    let message = |i: usize| Message::user(format!("{secret} text {i}")).with_id(format!("{secret}-{i}"));
    engine.blocking().put(&space, (0..20).map(message).collect()).unwrap();
    engine.blocking().flush().unwrap();
    engine.blocking().recall(&space, Query::new(secret).k(3)).unwrap();
    let limits = BufferLimits::default().token_limit(8);
    let memory = engine.memory(&space, format!("{secret}-session")).limits(limits).message_counter(words());
    let memory = memory.open().unwrap();
    memory.blocking().put((20..30).map(message).collect()).unwrap();
    memory.blocking().settle().unwrap();
    memory.blocking().assemble(message(30)).unwrap();
    engine
        .blocking()
        .reindex(Arc::new(Hashing::new(16)), ReindexOptions::default(), |_| ControlFlow::Continue(()))
        .unwrap();
    drop((memory, engine));

    let seen = capture.seen.lock().unwrap();
    for (name, field, wanted) in [
        ("put", "messages", "20"),
        ("put", "messages", "10"),
        ("flush", "embedded", "20"),
        ("embed", "texts", "20"),
        ("embed", "texts", "1"),
        ("commit", "changes", "1"),
        ("recall", "hits", "3"),
        ("assemble", "messages", ""),
        ("reindex", "embedded", ""),
    ] {
        let has = |field: &str, wanted: &str| {
            let is = |value: &str| wanted.is_empty() || value == wanted;
            seen.fields.iter().any(|(span, own, value)| *span == name && own == field && is(value))
        };
        assert!(has(field, wanted), "{name}.{field} = {wanted}: {:?}", seen.fields);
        assert!(has("micros", ""), "{name} has no time");
    }
    for (span, field, value) in &seen.fields {
        assert!(!value.contains(secret), "{span}.{field} has content: {value}");
        assert!(*span == "event" || value.parse::<u64>().is_ok(), "{span}.{field} is no number: {value}");
    }
}
