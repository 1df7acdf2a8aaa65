//! The library's methods: blocking ones, and async ones in tokio.

use std::{path::Path, sync::Arc};

use mnemon::{
    BufferLimits, DocumentOptions, DocumentSearch, Engine, Error, Forget, Language, Message, MetadataFilter, Namespace,
    PlacedMessage, Precision, Query, ReindexOptions, Role, Scope,
};
use serde_json::{Value, json};

use super::operations::{Answer, Model, Operation, Refusal};

/// The methods that an action calls; the same for both forms.
pub(super) fn calls(action: &str) -> &'static [&'static str] {
    match action {
        "get" => &["Engine::get", "Engine::vectors"],
        "history" => &[
            "Engine::history",
            "Engine::history_page",
            "Engine::history_after",
            "Engine::history_before",
            "Memory::history",
            "Memory::messages",
        ],
        "sessions" => &["Engine::sessions", "Engine::session_page"],
        "namespaces" => &["Engine::namespaces", "Engine::count_namespaces"],
        "recall" => &["Engine::recall", "Memory::search"],
        "recall_several" => &["Engine::recall_in"],
        "assemble" => &["Memory::assemble", "Memory::get"],
        "document_get" => &["Documents::get", "Documents::vectors"],
        "document_search" => &["Documents::search", "Engine::document_batch", "Engine::document_namespaces"],
        "blocks" => &["Engine::block", "Engine::block_names", "Engine::blocks", "Memory::status"],
        "holds" => &["Engine::holds"],
        "journal" => &["Engine::journal"],
        "export" => &["Engine::export"],
        "audit" => &["Engine::audit"],
        "stats" => &["Engine::stats", "Engine::cache_stats", "Engine::pending"],
        "index_stats" => &["Engine::index_stats"],
        "put" => &["Engine::put"],
        "put_session" => &["Memory::put"],
        "sync" => &["Memory::sync"],
        "update_text" => &["Engine::put_all"],
        "set_metadata" => &["Engine::set_metadata"],
        "delete" => &["Engine::delete"],
        "delete_session" => &["Engine::delete_session"],
        "delete_namespace" => &["Engine::delete_namespace"],
        "delete_prefix" => &["Engine::delete_namespaces", "Engine::delete_namespaces_within"],
        "forget" => &["Engine::forget"],
        "document_put" => &["Documents::put"],
        "document_delete" => &["Documents::delete"],
        "copy_session" => &["Engine::copy_session"],
        "fork" => &["Memory::fork"],
        "clear" => &["Memory::clear"],
        "checkpoint" => &["Memory::checkpoint", "Memory::checkpoints", "Memory::messages_at"],
        "flush_session" => &["Memory::flush", "Memory::settle"],
        "import" => &["Engine::import_as"],
        "hold" => &["Engine::hold"],
        "release" => &["Engine::release"],
        "set_language" => &["Engine::set_language"],
        "set_ttl" => &["Engine::set_ttl"],
        "flush" => &["Engine::flush"],
        "link" => &["Engine::link"],
        "backup" => &["Engine::backup"],
        "reindex" => &["Engine::reindex"],
        "rollback" => &["Engine::rollback"],
        "drop_previous" => &["Engine::drop_previous"],
        "purge" => &["Engine::purge"],
        _ => &[],
    }
}

/// Async methods of the library that no action calls, with the reason.
pub(super) const LEFT_OUT: [(&str, &str); 22] = [
    ("Engine::audit_part", "as `Engine::audit`; `server::largest`"),
    ("Engine::close", "it ends the engine, as the end of every cell does"),
    ("Engine::export_all", "it has the other cells' namespaces too; `export` takes the same way"),
    ("Engine::put_in_batches", "as `Engine::put`, with batches for blocks; `server::formed`"),
    ("Engine::import", "as `import_as`, under the names of the file"),
    ("Engine::version_page", "needs an engine that keeps them; `server::largest`"),
    ("Engine::versions", "needs an engine that keeps them; `engine::versions`"),
    ("Engine::replay", "needs a journal; `recall::journal`"),
    ("Engine::remove_if_unused", "`cli::pairs`"),
    ("Engine::backup_with_key", "`encryption`"),
    ("EngineExampleSelector::add", "puts a document; `fewshot`"),
    ("EngineExampleSelector::find", "searches documents; `fewshot`"),
    ("Memory::update", "`memory::update`"),
    ("Memory::set", "`memory::whole`"),
    ("Memory::reset", "as `Engine::delete_session`"),
    ("Memory::retry_failed", "needs a block that fails; `memory::blocks`"),
    ("Memory::refine", "needs a language model; `forget::at_work`"),
    ("Engine::failed_batches", "needs a block that fails; `memory::batches`"),
    ("Engine::retry_failed_batches", "needs a block that fails; `memory::batches`"),
    ("Memory::block_state", "needs a block; `memory::blocks`"),
    ("Memory::change_block", "needs a block; `memory::blocks`"),
    ("Memory::restore", "`memory::sessions`"),
];

pub(super) fn refusal(error: &Error) -> Refusal {
    match error {
        Error::DatabaseLocked { .. } => Refusal::Locked,
        Error::ReadOnly { .. } => Refusal::ReadOnly,
        Error::LegalHold { .. } => Refusal::LegalHold,
        Error::SharedDatabase { .. } => Refusal::Unavailable,
        Error::OutcomeUnknown { .. } => Refusal::OutcomeUnknown,
        Error::SessionExists { .. }
        | Error::NamespaceNotEmpty { .. }
        | Error::FileExists { .. }
        | Error::ReindexRunning => Refusal::Exists,
        Error::SessionNotFound { .. } | Error::CheckpointNotFound { .. } | Error::NoPrevious { .. } => {
            Refusal::NotFound
        }
        other => Refusal::Other(other.to_string()),
    }
}

fn message(argument: &Value) -> Message {
    let text = |field: &str| argument[field].as_str().unwrap().to_owned();
    let role: Role = text("role").parse().unwrap();
    Message::new(role, text("content")).with_id(text("id")).in_session(text("session"))
}

fn what(space: &Namespace, argument: &Value) -> Forget {
    let names = |field: &str| serde_json::from_value::<Vec<String>>(argument[field].clone()).unwrap();
    match argument["by"].as_str().unwrap() {
        "messages" => Forget::messages(space, names("ids")),
        "documents" => Forget::documents(space, names("keys")),
        "session" => Forget::session(space, argument["session"].as_str().unwrap()),
        "matching" => Forget::matching(space, MetadataFilter::try_from(&argument["filter"]).unwrap()),
        "namespace" => Forget::namespace(space),
        other => panic!("{other}"),
    }
}

pub(super) fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

/// The texts of the messages in an export, sorted.
pub(super) fn exported(lines: &[u8]) -> Value {
    let lines = std::str::from_utf8(lines).unwrap().lines();
    let messages = lines.filter_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let message = line.get("message").unwrap_or(&line);
        message.get("role").is_some().then(|| message["content"].as_str().unwrap_or_default().to_owned())
    });
    let mut texts: Vec<String> = messages.collect();
    texts.sort();
    json!(texts)
}

/// The texts of the messages of a namespace in the copy of a database, sorted.
pub(super) fn copied(engine: &Engine, space: &Namespace) -> Value {
    let sessions = engine.blocking().sessions(space).unwrap();
    let mut found: Vec<String> = sessions
        .iter()
        .flat_map(|session| texts(&engine.blocking().history(space, &session.session).unwrap()))
        .collect();
    found.sort();
    json!(found)
}

/// Makes a function that does an operation with the methods of an engine. The two forms differ in what stands before and after
/// the name of a method.
macro_rules! driver {
    ($(#[$doc:meta])* $name:ident, [$($async:tt)?], [$($view:tt)*], [$($wait:tt)*], $export:expr) => {
        $(#[$doc])*
        pub(super) $($async)? fn $name(
            engine: &Engine,
            space: &Namespace,
            operation: &Operation,
            folder: &Path,
        ) -> Result<Value, Error> {
            let memory = |session: &str| engine.memory(space, session).limits(BufferLimits::default()).open();
            let (text, argument) = (operation.text(""), &operation.argument);
            Ok(match operation.action {
                "get" => match engine$($view)*.get(space, text)$($wait)*? {
                    Some(message) => {
                        assert_eq!(engine$($view)*.vectors(space, vec![message.id.clone()])$($wait)*?.len(), 1);
                        json!(message.text())
                    }
                    None => Value::Null,
                },
                "history" => {
                    let messages = engine$($view)*.history(space, text)$($wait)*?;
                    let mut parts = Vec::new();
                    loop {
                        let last = parts.last().map(|placed: &PlacedMessage| placed.number);
                        let part = engine$($view)*.history_after(space, text, last, 2, 0)$($wait)*?;
                        assert!(part.len() <= 1, "no byte, but for one message");
                        if part.is_empty() {
                            break;
                        }
                        parts.extend(part);
                    }
                    assert!(parts.is_sorted_by_key(|placed| placed.number));
                    assert!(parts.into_iter().map(|placed| placed.message).eq(messages.iter().cloned()));
                    assert_eq!(engine$($view)*.history_page(space, text, None, 100)$($wait)*?, messages);
                    let placed = engine$($view)*.history_before(space, text, None, 100, usize::MAX)$($wait)*?;
                    assert!(placed.into_iter().flatten().map(|placed| placed.message).eq(messages.iter().cloned()));
                    let memory = memory(text)?;
                    assert_eq!(memory$($view)*.history()$($wait)*?, messages);
                    memory$($view)*.messages()$($wait)*?;
                    json!(texts(&messages))
                }
                "sessions" => {
                    let sessions = engine$($view)*.sessions(space)$($wait)*?;
                    assert_eq!(engine$($view)*.session_page(space, None, 100)$($wait)*?, sessions);
                    json!(sessions.into_iter().map(|session| session.session).collect::<Vec<_>>())
                }
                "namespaces" => {
                    let page = engine$($view)*.namespaces(Some(space), None, 10)$($wait)*?;
                    let messages: u64 = page.namespaces.iter().map(|found| found.messages).sum();
                    assert_eq!(engine$($view)*.count_namespaces(Some(space))$($wait)*?.messages, messages);
                    json!(messages)
                }
                "recall" => {
                    let hits = engine$($view)*.recall(space, Query::new(text).k(1))$($wait)*?;
                    memory("monday")?$($view)*.search(Query::new(text))$($wait)*?;
                    hits.first().map_or(Value::Null, |hit| json!(hit.message.text()))
                }
                "recall_several" => {
                    let scope = Scope::new().under(space).namespace(&"nobody/there".parse()?);
                    let hits = engine$($view)*.recall_in(&scope, Query::new(text).k(1))$($wait)*?;
                    hits.first().map_or(Value::Null, |hit| json!(hit.message.text()))
                }
                "assemble" => {
                    let memory = memory(operation.text("session"))?;
                    let prompt = memory$($view)*.assemble(Message::user(operation.text("prompt")))$($wait)*?;
                    memory$($view)*.get(None)$($wait)*?;
                    json!(prompt.messages.iter().any(|message| message.text().contains(super::operations::LESSON)))
                }
                "document_get" => {
                    let found = engine.documents(space)$($view)*.get(text)$($wait)*?;
                    let vectors = engine.documents(space)$($view)*.vectors(vec![text.to_owned()])$($wait)*?;
                    assert_eq!(vectors.len(), 1);
                    found.map_or(Value::Null, |document| document.value)
                }
                "document_search" => {
                    let search = DocumentSearch::default().query(text);
                    let found = engine.documents(space)$($view)*.search(search)$($wait)*?;
                    engine$($view)*.document_batch(Vec::new())$($wait)*?;
                    engine$($view)*.document_namespaces(Default::default())$($wait)*?;
                    json!(found.into_iter().map(|document| document.key).collect::<Vec<_>>())
                }
                "blocks" => {
                    memory("monday")?$($view)*.status()$($wait)*?;
                    let blocks = engine$($view)*.blocks(space)$($wait)*?;
                    let names = engine$($view)*.block_names(space)$($wait)*?;
                    assert!(blocks.iter().map(|block| (block.session.clone(), block.name.clone())).eq(names));
                    assert_eq!(engine$($view)*.block(space, None, "no block")$($wait)*?, None);
                    json!(blocks.len())
                }
                "holds" => json!(engine$($view)*.holds()$($wait)*?.iter().any(|hold| hold.namespace == *space)),
                "journal" => json!(engine$($view)*.journal(space, 10, None)$($wait)*?.len()),
                "export" => {
                    #[allow(clippy::redundant_closure_call, reason = "the two forms take writers differently")]
                    let lines: Vec<u8> = ($export)(engine, space)$($wait)*?;
                    exported(&lines)
                }
                "audit" => {
                    let problems = engine$($view)*.audit()$($wait)*?.problems;
                    assert_eq!(problems, [""; 0]);
                    Value::Null
                }
                "stats" => {
                    let _ = engine$($view)*.stats()$($wait)*;
                    let _ = engine$($view)*.cache_stats()$($wait)*;
                    engine$($view)*.pending()$($wait)*?;
                    Value::Null
                }
                "index_stats" => {
                    engine$($view)*.index_stats(space)$($wait)*?;
                    Value::Null
                }
                "put" => {
                    engine$($view)*.put(space, vec![message(argument)])$($wait)*?;
                    Value::Null
                }
                "put_session" => {
                    memory(operation.text("session"))?$($view)*.put(vec![message(argument)])$($wait)*?;
                    Value::Null
                }
                "sync" => {
                    let memory = memory(operation.text("session"))?;
                    let mut chat = memory$($view)*.history()$($wait)*?;
                    chat.retain(|stored| stored.id != operation.text("id"));
                    chat.push(message(argument));
                    memory$($view)*.sync(chat)$($wait)*?;
                    Value::Null
                }
                "update_text" => match engine$($view)*.get(space, operation.text("id"))$($wait)*? {
                    Some(mut stored) => {
                        stored.content = Message::user(operation.text("content")).content;
                        engine$($view)*.put_all(vec![(space.clone(), stored)])$($wait)*?;
                        json!(true)
                    }
                    None => json!(false),
                },
                "set_metadata" => {
                    let metadata = json!({ "topic": operation.text("topic") }).as_object().unwrap().clone();
                    json!(engine$($view)*.set_metadata(space, operation.text("id"), metadata)$($wait)*?)
                }
                "delete" => json!(engine$($view)*.delete(space, vec![text.to_owned()])$($wait)*?),
                "delete_session" => json!(engine$($view)*.delete_session(space, text)$($wait)*?),
                "delete_namespace" => {
                    engine$($view)*.delete_namespace(space)$($wait)*?;
                    Value::Null
                }
                "delete_prefix" => {
                    engine$($view)*.delete_namespaces_within(space, std::time::Duration::ZERO)$($wait)*?;
                    engine$($view)*.delete_namespaces(space)$($wait)*?;
                    Value::Null
                }
                "forget" => {
                    let receipt = engine$($view)*.forget(what(space, argument))$($wait)*?;
                    json!(receipt.forgotten().messages + receipt.forgotten().documents)
                }
                "document_put" => {
                    let (key, value) = (operation.text("key"), argument["value"].clone());
                    engine.documents(space)$($view)*.put(key, value, DocumentOptions::default())$($wait)*?;
                    Value::Null
                }
                "document_delete" => match engine.documents(space)$($view)*.delete(text)$($wait)*? {
                    true => Value::Null,
                    false => json!(false),
                },
                "copy_session" => {
                    engine$($view)*.copy_session(space, operation.text("from"), operation.text("to"))$($wait)*?;
                    Value::Null
                }
                "fork" => {
                    memory(operation.text("from"))?$($view)*.fork(None, operation.text("to"))$($wait)*?;
                    Value::Null
                }
                "clear" => json!(memory(text)?$($view)*.clear()$($wait)*?),
                "checkpoint" => {
                    let memory = memory(text)?;
                    let number = memory$($view)*.checkpoint("now")$($wait)*?;
                    assert!(!memory$($view)*.checkpoints()$($wait)*?.is_empty());
                    memory$($view)*.messages_at(number)$($wait)*?;
                    Value::Null
                }
                "flush_session" => {
                    let memory = memory(text)?;
                    memory$($view)*.flush()$($wait)*?;
                    memory$($view)*.settle()$($wait)*?;
                    Value::Null
                }
                "import" => {
                    engine$($view)*.import_as(space, super::export_of_the_fixture())$($wait)*?;
                    Value::Null
                }
                "hold" => {
                    engine$($view)*.hold(space, text)$($wait)*?;
                    Value::Null
                }
                "release" => match engine$($view)*.release(space)$($wait)*? {
                    Some(_) => Value::Null,
                    None => json!(false),
                },
                "set_ttl" => json!(engine$($view)*.set_ttl(space, operation.argument.as_f64())$($wait)*?),
                "set_language" => json!(engine$($view)*.set_language(space, text.parse::<Language>()?)$($wait)*?),
                "flush" => {
                    engine$($view)*.flush()$($wait)*?;
                    Value::Null
                }
                "link" => {
                    engine$($view)*.link()$($wait)*?;
                    Value::Null
                }
                "backup" => {
                    let path = super::backup_path(folder, space.as_str());
                    engine$($view)*.backup(&path)$($wait)*?;
                    super::texts_in(&path, space)
                }
                "reindex" => {
                    let mut options = ReindexOptions::default();
                    (options.precision, options.min_recall) = (Some(Precision::I8), 0.0);
                    let embedder = engine.embedder();
                    engine$($view)*.reindex(Arc::clone(&embedder), options, |_| std::ops::ControlFlow::Continue(()))$($wait)*?;
                    Value::Null
                }
                "rollback" => {
                    engine$($view)*.rollback(engine.embedder(), |_| std::ops::ControlFlow::Continue(()))$($wait)*?;
                    Value::Null
                }
                "drop_previous" => {
                    engine$($view)*.drop_previous()$($wait)*?;
                    Value::Null
                }
                "purge" => {
                    engine$($view)*.purge()$($wait)*?;
                    Value::Null
                }
                other => unreachable!("{other} is not done by the library"),
            })
        }
    };
}

driver!(
    /// Does an operation on the calling thread.
    run_blocking, [], [.blocking()], [],
    |engine: &Engine, space: &Namespace| {
        let mut lines = Vec::new();
        engine.blocking().export(space, &mut lines).map(|_| lines)
    }
);

driver!(
    /// Does an operation as a task.
    run_async, [async], [], [.await],
    async |engine: &Engine, space: &Namespace| engine.export(space, Vec::new()).await.map(|(lines, _)| lines)
);

pub(super) fn answer(result: Result<Value, Error>) -> Answer {
    result.map_err(|error| refusal(&error))
}

/// What a namespace has, read through an engine.
pub(super) fn read(engine: &Engine, space: &Namespace) -> Model {
    let mut model = Model { held: false, ..Model::default() };
    for session in engine.blocking().sessions(space).unwrap() {
        let messages = engine.blocking().history(space, &session.session).unwrap().into_iter();
        let messages = messages.map(|message| super::operations::StoredMessage {
            text: message.text(),
            role: message.role.as_str().into(),
            topic: message.metadata.get("topic").and_then(Value::as_str).map(str::to_owned),
            id: message.id,
        });
        model.sessions.insert(session.session, messages.collect());
    }
    for document in engine.documents(space).blocking().search(DocumentSearch::default().limit(100)).unwrap() {
        model.documents.insert(document.key, document.value);
    }
    model.held = engine.blocking().holds().unwrap().iter().any(|hold| hold.namespace == *space);
    model
}
