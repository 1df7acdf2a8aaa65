//! Every public call of an engine with a shared database, from within tokio's runtimes and outside of any.

use std::{collections::BTreeSet, io::Cursor, ops::ControlFlow, path::Path, sync::Arc};

use mnemon::{
    BufferLimits, ChatAnswer, ChatFuture, ChatModel, ChatRequest, DocumentNamespaces, DocumentOperation,
    DocumentOptions, DocumentSearch, Engine, Forget, Freshness, InstructionBlock, Language, Memory, Message,
    MessageUpdate, Query, ReindexOptions, Scope, StaticBlock,
};
use serde_json::{Map, json};

use super::{open, try_open};
use crate::support::{Db, Hashing, namespace, postgres::server, words};

/// Runs calls, and returns their names.
macro_rules! calls {
    ($($name:ident => $call:expr;)+) => {{
        $(let _ = $call;)+
        [$(stringify!($name)),+]
    }};
}

/// The methods that `blocking_methods!` and the hand-written twins of a file declare.
fn declared(source: &str) -> BTreeSet<&str> {
    let body = &source[source.find("impl Blocking").unwrap()..];
    let names = body.lines().filter_map(|line| {
        let line = line.trim_start();
        let rest = line.strip_prefix("pub fn ").or_else(|| line.strip_prefix("fn "))?;
        rest.split(['(', '<']).next()
    });
    names.collect()
}

fn messages(count: usize) -> Vec<Message> {
    (0..count).map(|number| Message::user(format!("message {number} of this")).with_id(format!("m{number}"))).collect()
}

fn opened_memory(engine: &Engine, session: &str) -> Memory {
    let memory = engine.memory(&namespace("acme/ada"), session).limits(BufferLimits::new(60, 0.7, 10).unwrap());
    memory.message_counter(words()).block(StaticBlock::new("about", "Ada")).open().unwrap()
}

/// A model that gives one answer.
struct Brief;

impl ChatModel for Brief {
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> ChatFuture<'a> {
        Box::pin(std::future::ready(self.chat_blocking(request)))
    }

    fn chat_blocking(&self, _: &ChatRequest) -> mnemon::Result<ChatAnswer> {
        Ok(Message::assistant("Be brief.").into())
    }
}

/// All methods for threads that may wait, on this thread.
fn blocking(engine: &Engine, folder: &Path) -> BTreeSet<&'static str> {
    let (space, other) = (namespace("acme/ada"), namespace("acme/bob"));
    let calls_of = engine.blocking();
    let mut text = Vec::new();
    let go_on = |_| ControlFlow::Continue(());
    let model = || Arc::new(Hashing::new(32));
    let names = calls! {
        put => calls_of.put(&space, messages(3)).unwrap();
        put_in_batches => calls_of.put_in_batches(&other, vec![vec![Message::user("hello")]]).unwrap();
        put_all => calls_of.put_all(vec![(other.clone(), Message::user("hello"))]).unwrap();
        flush => calls_of.flush().unwrap();
        link => calls_of.link().unwrap();
        link_with => calls_of.link_with(|_| ()).unwrap();
        recall => calls_of.recall(&space, Query::new("message").freshness(Freshness::Latest)).unwrap();
        recall_in => calls_of.recall_in(&Scope::new().namespace(&space).under(&namespace("acme")), Query::new("message")).unwrap();
        journal => calls_of.journal(&space, 3, None).unwrap().first().map(|entry| calls_of.replay(entry).unwrap());
        replay => ();
        get => calls_of.get(&space, "m1").unwrap().unwrap();
        versions => calls_of.versions(&space, "m1").unwrap();
        version_page => calls_of.version_page(&space, "m1", None, 1, 1).unwrap();
        set_metadata => calls_of.set_metadata(&space, "m1", Map::new()).unwrap();
        pending => calls_of.pending().unwrap();
        delete => calls_of.delete(&space, vec!["m2".into()]).unwrap();
        sessions => calls_of.sessions(&space).unwrap();
        blocks => calls_of.blocks(&space).unwrap();
        block_names => calls_of.block_names(&space).unwrap();
        block => calls_of.block(&space, None, "facts").unwrap();
        history => calls_of.history(&space, "default").unwrap();
        session_page => calls_of.session_page(&space, None, 1).unwrap();
        history_page => calls_of.history_page(&space, "default", None, 1).unwrap();
        history_before => calls_of.history_before(&space, "default", None, 1, 1).unwrap();
        vectors => calls_of.vectors(&space, vec!["m1".into()]).unwrap();
        history_after => calls_of.history_after(&space, "default", None, 1, 1).unwrap();
        copy_session => calls_of.copy_session(&space, "default", "copy").unwrap();
        delete_session => calls_of.delete_session(&space, "copy").unwrap();
        namespaces => calls_of.namespaces(None, None, 10).unwrap();
        count_namespaces => calls_of.count_namespaces(None).unwrap();
        export => calls_of.export(&space, &mut text).unwrap();
        import_as => calls_of.import_as(&namespace("imported"), Cursor::new(&text)).unwrap();
        delete_namespace => calls_of.delete_namespace(&space).unwrap();
        import => calls_of.import(Cursor::new(&text)).unwrap();
        export_all => calls_of.export_all(Vec::new()).unwrap();
        delete_namespaces_within => calls_of.delete_namespaces_within(&namespace("imported"), std::time::Duration::ZERO).unwrap();
        delete_namespaces => calls_of.delete_namespaces(&namespace("imported")).unwrap();
        forget => calls_of.forget(Forget::messages(&space, ["m1"])).unwrap();
        audit => calls_of.audit().unwrap();
        audit_part => calls_of.audit_part(0..1).unwrap();
        hold => calls_of.hold(&other, "a case").unwrap();
        holds => calls_of.holds().unwrap();
        release => calls_of.release(&other).unwrap();
        set_ttl => calls_of.set_ttl(&space, Some(60.0)).unwrap();
        set_language => calls_of.set_language(&space, Language::German).unwrap();
        index_stats => calls_of.index_stats(&space).unwrap();
        document_batch => calls_of.document_batch(vec![
            DocumentOperation::Get { namespace: space.clone(), key: "k".into(), refresh_ttl: false },
            DocumentOperation::Put { namespace: space.clone(), key: "k".into(), value: json!({"a": "b"}), options: DocumentOptions::default() },
        ]).unwrap();
        document_namespaces => calls_of.document_namespaces(DocumentNamespaces::default()).unwrap();
        stats => calls_of.stats();
        cache_stats => calls_of.cache_stats();
        reindex => calls_of.reindex(Arc::new(Hashing::new(16)), ReindexOptions::default(), go_on).unwrap();
        rollback => calls_of.rollback(model(), go_on).unwrap();
        drop_previous => calls_of.drop_previous().unwrap();
        failed_batches => calls_of.failed_batches(None).unwrap();
        retry_failed_batches => calls_of.retry_failed_batches(None).unwrap();
        backup => calls_of.backup(folder.join("backup.redb"));
        purge => calls_of.purge().unwrap();
        remove_if_unused => calls_of.remove_if_unused().unwrap();
        optimize => calls_of.optimize(&space).unwrap();
    };
    names.into()
}

/// The methods of a memory, on this thread.
fn blocking_memory(engine: &Engine) -> BTreeSet<&'static str> {
    let memory = opened_memory(engine, "blocking");
    let calls_of = memory.blocking();
    calls_of.put(vec![Message::user("I row on Mondays.").with_id("r0")]).unwrap();
    let checkpoint = calls_of.checkpoint("one").unwrap();
    let names = calls! {
        put => calls_of.put(vec![Message::user("I row on Thursdays.").with_id("r1")]).unwrap();
        sync => calls_of.sync(vec![Message::user("I row on Thursdays."), Message::assistant("Noted.")]).unwrap();
        update => calls_of.update(vec![MessageUpdate::Put(Message::user("And on Fridays."))]).unwrap();
        checkpoint => calls_of.checkpoint("two").unwrap();
        checkpoints => calls_of.checkpoints().unwrap();
        messages_at => calls_of.messages_at(checkpoint).unwrap();
        restore => calls_of.restore(checkpoint).unwrap();
        fork => calls_of.fork(None, "forked").unwrap();
        search => calls_of.search(Query::new("row")).unwrap();
        messages => calls_of.messages().unwrap();
        history => calls_of.history().unwrap();
        get => calls_of.get(None).unwrap();
        assemble => calls_of.assemble(Message::user("when do I row?")).unwrap();
        flush => calls_of.flush().unwrap();
        settle => calls_of.settle().unwrap();
        status => calls_of.status().unwrap();
        retry_failed => calls_of.retry_failed("about").unwrap();
        block_state => calls_of.block_state("about").unwrap();
        refine => calls_of.refine(&InstructionBlock::new("about", "Be kind.", Brief), "shorter", 1);
        change_block => calls_of.change_block("about", |state| Ok(state.clone()));
        set => calls_of.set(vec![Message::user("other")]).unwrap();
        clear => calls_of.clear().unwrap();
        reset => calls_of.reset().unwrap();
    };
    names.into()
}

/// The same methods, awaited.
async fn awaited(engine: &Engine, folder: &Path) {
    let (space, other) = (namespace("acme/ada"), namespace("acme/bob"));
    let go_on = |_| ControlFlow::Continue(());
    engine.put(&space, messages(3)).await.unwrap();
    engine.put_in_batches(&other, vec![vec![Message::user("hello")]]).await.unwrap();
    engine.put_all(vec![(other.clone(), Message::user("hello"))]).await.unwrap();
    engine.flush().await.unwrap();
    for freshness in [Freshness::Latest, Freshness::Local, Freshness::Within(std::time::Duration::from_nanos(1))] {
        assert!(!engine.recall(&space, Query::new("message").freshness(freshness)).await.unwrap().is_empty());
        let scope = Scope::new().namespace(&space).under(&namespace("acme"));
        engine.recall_in(&scope, Query::new("message").freshness(freshness)).await.unwrap();
    }
    for entry in engine.journal(&space, 1, None).await.unwrap() {
        engine.replay(&entry).await.unwrap();
    }
    engine.get(&space, "m1").await.unwrap().unwrap();
    engine.versions(&space, "m1").await.unwrap();
    engine.set_metadata(&space, "m1", Map::new()).await.unwrap();
    engine.pending().await.unwrap();
    engine.delete(&space, vec!["m2".into()]).await.unwrap();
    engine.sessions(&space).await.unwrap();
    engine.blocks(&space).await.unwrap();
    engine.history(&space, "default").await.unwrap();
    engine.history_after(&space, "default", None, 1, 1).await.unwrap();
    engine.session_page(&space, None, 1).await.unwrap();
    engine.history_page(&space, "default", None, 1).await.unwrap();
    engine.history_before(&space, "default", None, 1, 1).await.unwrap();
    engine.version_page(&space, "m1", None, 1, 1).await.unwrap();
    engine.block_names(&space).await.unwrap();
    engine.block(&space, None, "facts").await.unwrap();
    engine.vectors(&space, vec!["m1".into()]).await.unwrap();
    engine.copy_session(&space, "default", "copy").await.unwrap();
    engine.delete_session(&space, "copy").await.unwrap();
    engine.namespaces(None, None, 10).await.unwrap();
    engine.count_namespaces(None).await.unwrap();
    let (text, _) = engine.export(&space, Vec::new()).await.unwrap();
    engine.import_as(&namespace("imported"), Cursor::new(text.clone())).await.unwrap();
    engine.delete_namespace(&space).await.unwrap();
    engine.import(Cursor::new(text)).await.unwrap();
    engine.export_all(Vec::new()).await.unwrap();
    engine.delete_namespaces(&namespace("imported")).await.unwrap();
    engine.forget(Forget::messages(&space, ["m1"])).await.unwrap();
    engine.audit().await.unwrap();
    engine.audit_part(0..1).await.unwrap();
    engine.hold(&other, "a case").await.unwrap();
    engine.holds().await.unwrap();
    engine.release(&other).await.unwrap();
    engine.set_ttl(&space, Some(60.0)).await.unwrap();
    engine.set_language(&space, Language::German).await.unwrap();
    engine.index_stats(&space).await.unwrap();
    engine.document_namespaces(DocumentNamespaces::default()).await.unwrap();
    let documents = engine.documents(&space);
    documents.put("k", json!({"a": "some text"}), DocumentOptions::default()).await.unwrap();
    documents.get("k").await.unwrap().unwrap();
    documents.search(DocumentSearch::default()).await.unwrap();
    documents.blocking().search(DocumentSearch::default()).unwrap();
    documents.delete("k").await.unwrap();
    engine.stats().await.unwrap();
    engine.cache_stats().await.unwrap();
    engine.reindex(Arc::new(Hashing::new(16)), ReindexOptions::default(), go_on).await.unwrap();
    engine.rollback(Arc::new(Hashing::new(32)), go_on).await.unwrap();
    engine.drop_previous().await.unwrap();
    engine.failed_batches(None).await.unwrap();
    engine.retry_failed_batches(None).await.unwrap();
    let _ = engine.backup(folder.join("awaited.redb")).await;
    engine.purge().await.unwrap();
    engine.remove_if_unused().await.unwrap();
    let memory = opened_memory(engine, "awaited");
    memory.put(vec![Message::user("I row on Thursdays.")]).await.unwrap();
    memory.search(Query::new("row")).await.unwrap();
    memory.get(None).await.unwrap();
    memory.assemble(Message::user("when do I row?")).await.unwrap();
    memory.flush().await.unwrap();
    memory.settle().await.unwrap();
    memory.reset().await.unwrap();
}

/// Opens an engine, does everything, and drops the last handle, all on this thread.
fn everything(address: &str, is_async: bool) -> impl Future<Output = ()> {
    let address = address.to_owned();
    async move {
        let (db, folder) = (Db::new(), tempfile::tempdir().unwrap());
        let engine = open(&db, &address);
        let done = blocking(&engine, folder.path());
        assert_eq!(declared(include_str!("../../../src/engine/blocking.rs")), done, "every method has a row here");
        let done = blocking_memory(&engine);
        assert_eq!(declared(include_str!("../../../src/memory/handle.rs")), done, "every method has a row here");
        if is_async {
            engine.blocking().delete_namespaces(&namespace("acme")).unwrap();
            awaited(&engine, folder.path()).await;
            engine.clone().close().await;
        }
        drop(engine);
        // Refused ones leave the thread as it was, too.
        let own = Db::new();
        drop(own.open());
        try_open(&own, "postgres://nobody@127.0.0.1:1/none", Freshness::Latest).unwrap_err();
        mnemon::share(&own.path, &address).unwrap();
    }
}

#[test]
fn outside_of_any_runtime() {
    let Some(server) = server() else { return };
    // Nothing that is awaited here waits for a runtime.
    tokio_free(everything(&server.database(), true));
}

/// Runs a future without tokio.
fn tokio_free<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn within_a_runtime_of_one_thread() {
    let Some(server) = server() else { return };
    let address = server.database();
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(everything(&address, true));
}

#[test]
fn within_a_runtime_of_several_threads() {
    let Some(server) = server() else { return };
    let address = server.database();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // On a worker, and on the thread that drives the runtime.
    runtime.block_on(runtime.spawn(async move { everything(&address, true).await })).unwrap();
    runtime.block_on(everything(&server.database(), false));
}
