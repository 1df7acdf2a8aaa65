//! The state that all requests share: the engine, who may ask, and the places that bound how much runs at a time.
//!
//! A request takes a place among those that run, and a slow one among a quarter as many. Clients that are waited for are a
//! [`Crowd`]: connections whose next request has not come, and bodies that are being read. A slow client costs a place, and
//! nothing else. Where all places are taken, the client that was waited for the longest loses its own to the newest: a
//! client that sends what it has to say at once is never the oldest.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use mnemon::{
    Document, DocumentSearch, Engine, Error, Forget, Hits, Message, MessageTokenCounter, Namespace,
    PerPartTokenCounter, PutReport, Query, ReadBudget, Receipt, Scope,
    document::{DocumentOperation, DocumentOutcome},
};
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{Caller, Hosts, Tokens},
    bounds::{BoundedFilter, Cost},
    formation::{Formation, Plan},
    idempotency::Answers,
    problem::Problem,
    secrets::SecretRemoval,
    sent::{self, Readers},
    settings::{Limits, Settings},
    telemetry::Metrics,
};

/// Time from a put whose client went away until the model looks at its messages.
const LATER: Duration = Duration::from_secs(10);

/// Bodies of the greatest size that are worked on at a time. Their values take many times the bytes of the bodies.
const BODIES: usize = 8;

/// Files that are imported at a time.
const IMPORTS: usize = 4;

/// The most bytes of an answer, counted while it is gathered. A single message or document that is larger is an answer.
const MAX_ANSWER: usize = 32 << 20;
/// The most bytes of all answers that are gathered or sent at a time.
const MAX_ANSWERS: usize = 8 * MAX_ANSWER;

/// The candidates that a reranker orders, unless a request says otherwise. For longer lists it is not asked.
pub(crate) const RERANKED: usize = 50;

pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) db: PathBuf,
    /// `None`: the owner makes every request.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) owner: Arc<Caller>,
    pub(crate) hosts: Hosts,
    pub(crate) metrics: Metrics,
    pub(crate) formation: Formation,
    /// Replaces secrets, if this server is to.
    pub(crate) secrets: Option<Arc<SecretRemoval>>,
    /// True if recalls may be reranked.
    pub(crate) reranks: bool,
    pub(crate) answers: Answers,
    /// Places for requests.
    pub(crate) requests: Semaphore,
    /// Places for requests that may take long.
    pub(crate) slow_requests: Semaphore,
    /// Places for puts that wait until all pending texts are embedded.
    flushes: Semaphore,
    /// Places for imports of files.
    pub(crate) imports: Arc<Semaphore>,
    /// Clients whose bodies are being read.
    pub(crate) bodies: Arc<Crowd>,
    /// Bytes left for the larger bodies that are worked on at a time.
    pub(crate) body_bytes: Semaphore,
    /// Bytes of the answers that are gathered or sent at a time.
    pub(crate) answers_in_work: ReadBudget,
    /// Clients that have not read all of their answers.
    pub(crate) readers: Arc<Readers>,
    /// Clients whose next request has not come.
    pub(crate) idle_connections: Arc<Crowd>,
    pub(crate) limits: Limits,
    /// True if recalls may wait for the primary.
    is_replica: bool,
    /// True if `/mcp` serves the fixture of MCP's conformance suite instead of the memory.
    #[cfg(debug_assertions)]
    pub(crate) serves_fixture: bool,
    /// Places for recalls on threads of the server.
    recalls: Semaphore,
    /// Places for recalls with heavy filters.
    heavy_recalls: Arc<Semaphore>,
    /// Places for large answers that are being written.
    large_answers: Arc<Semaphore>,
    connections: AtomicUsize,
}

impl App {
    pub(crate) fn new(
        engine: Engine,
        db: &Path,
        tokens: Option<Tokens>,
        plan: Plan,
        origins: Vec<HeaderValue>,
        address: Option<SocketAddr>,
        settings: &Settings,
    ) -> Self {
        let (limits, metrics) = (&settings.limits, Metrics::new());
        let daily_limits = tokens.iter().flat_map(Tokens::daily_limits).collect();
        let secrets = settings.remove_secrets.then(|| Arc::new(SecretRemoval::new(metrics.secrets.clone())));
        let processors = thread::available_parallelism().map_or(1, usize::from);
        App {
            engine,
            db: db.to_owned(),
            tokens,
            owner: Arc::new(Caller::owner()),
            hosts: Hosts::new(address, &settings.hosts, origins),
            secrets: secrets.clone(),
            reranks: settings.reranks,
            formation: Formation::new(plan, daily_limits, metrics.formation.clone(), secrets),
            metrics,
            answers: Answers::default(),
            requests: Semaphore::new(limits.max_requests),
            slow_requests: Semaphore::new(limits.max_slow()),
            flushes: Semaphore::new(limits.max_requests.div_ceil(2)),
            imports: Arc::new(Semaphore::new(IMPORTS)),
            bodies: Crowd::new(limits.max_bodies()),
            body_bytes: Semaphore::new(BODIES * limits.max_body),
            answers_in_work: ReadBudget::new(MAX_ANSWERS),
            readers: Arc::default(),
            idle_connections: Crowd::new(usize::MAX),
            limits: limits.clone(),
            is_replica: settings.is_replica,
            #[cfg(debug_assertions)]
            serves_fixture: settings.conformance_fixture,
            recalls: Semaphore::new(processors),
            heavy_recalls: Arc::new(Semaphore::new(processors.div_ceil(2))),
            large_answers: Arc::new(Semaphore::new(processors.div_ceil(2))),
            connections: AtomicUsize::new(0),
        }
    }

    /// Returns a handle for the reads of one answer, which fail before they are over its bytes.
    pub(crate) fn reader(&self) -> Engine {
        self.engine.within(&self.answer())
    }

    /// Returns the bytes that an answer may have.
    pub(crate) fn answer(&self) -> ReadBudget {
        self.answers_in_work.share(MAX_ANSWER)
    }

    /// Writes an answer as JSON. A large one is written on a thread on which no request waits, and half of the processors write such
    /// answers at most. What the reader has taken of the bytes of answers is given back when this is done.
    pub(crate) async fn json<T: Serialize + Send + 'static>(
        &self,
        reader: Engine,
        answer: T,
    ) -> Result<Response, Problem> {
        let mut small = vec![0; sent::SMALL];
        let mut rest = &mut small[..];
        let written = serde_json::to_writer(&mut rest, &answer);
        let length = sent::SMALL - rest.len();
        small.truncate(length);
        if written.is_err() {
            let place = Arc::clone(&self.large_answers).acquire_owned().await.expect("the semaphore is never closed");
            let write = move || {
                let _until_written = (place, reader);
                Ok(serde_json::to_vec(&answer).expect("an answer has a form in JSON"))
            };
            small = blocking(write).await?;
        }
        Ok(([(header::CONTENT_TYPE, "application/json")], small).into_response())
    }

    /// Stores messages. Where a model forms memories it is given the new ones, as batches of their sessions.
    pub(crate) async fn put(&self, namespace: &Namespace, messages: Vec<Message>) -> Result<PutReport, Problem> {
        let Some(tokens) = self.formation.batch_tokens(namespace) else {
            return Ok(self.engine.put(namespace, messages).await?);
        };
        let sessions = messages.iter().map(|message| (namespace.clone(), message.session.clone())).collect();
        let look = Look::when_stored(&self.formation, sessions);
        Ok(look.after(self.engine.put_in_batches(namespace, lists(messages, tokens)).await)?)
    }

    /// Stores messages of several namespaces, on the calling thread. The model is given new messages as by [`App::put`], and
    /// where one forms memories, the messages of each namespace are a commit of their own.
    pub(crate) fn put_here(&self, messages: Vec<(Namespace, Message)>) -> mnemon::Result<PutReport> {
        let engine = self.engine.blocking();
        let (formed, others): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|(namespace, _)| self.formation.batch_tokens(namespace).is_some());
        let mut report = if others.is_empty() { PutReport::default() } else { engine.put_all(others)? };
        let mut by_namespace: BTreeMap<Namespace, Vec<Message>> = BTreeMap::new();
        for (namespace, message) in formed {
            by_namespace.entry(namespace).or_default().push(message);
        }
        for (namespace, messages) in by_namespace {
            let Some(tokens) = self.formation.batch_tokens(&namespace) else { continue };
            let sessions = messages.iter().map(|message| (namespace.clone(), message.session.clone())).collect();
            let look = Look::when_stored(&self.formation, sessions);
            let put = look.after(engine.put_in_batches(&namespace, lists(messages, tokens)))?;
            report.new += put.new;
            report.replaced += put.replaced;
            report.unchanged += put.unchanged;
        }
        Ok(report)
    }

    /// Runs a batch of operations on documents and messages. The model is given new messages as by [`App::put`].
    pub(crate) async fn batch(
        &self,
        reader: &Engine,
        mut operations: Vec<DocumentOperation>,
    ) -> Result<Vec<DocumentOutcome>, Problem> {
        let mut sessions = BTreeSet::new();
        for operation in &mut operations {
            let DocumentOperation::PutMessages { namespace, messages } = operation else { continue };
            let Some(tokens) = self.formation.batch_tokens(namespace) else { continue };
            let (namespace, messages) = (namespace.clone(), std::mem::take(messages));
            sessions.extend(messages.iter().map(|message| (namespace.clone(), message.session.clone())));
            *operation = DocumentOperation::PutInBatches { namespace, lists: lists(messages, tokens) };
        }
        let look = Look::when_stored(&self.formation, sessions);
        Ok(look.after(reader.document_batch(operations).await)?)
    }

    /// Forgets, and has the blocks whose states were dropped make them again.
    pub(crate) async fn forget(&self, what: Forget) -> Result<Receipt, Problem> {
        let namespace = what.namespace_or_prefix().clone();
        let receipt = self.engine.forget(what).await?;
        if receipt.forgotten().block_states > 0 && self.formation.idle_time(&namespace).is_some() {
            // A state that several sessions made is made again of all of them.
            for session in self.engine.sessions(&namespace).await?.into_iter().filter(|session| session.batches > 0) {
                self.formation.look_at(namespace.clone(), session.session, Duration::ZERO);
            }
        }
        Ok(receipt)
    }

    /// Recalls from one namespace. The cost is that of the query's filter.
    ///
    /// The recall runs on the thread that serves the request while fewer recalls than processors do so. This saves two
    /// changes of threads, a quarter of the time of a short recall. Other recalls queue for the engine's threads, and all
    /// of them in a replica, where a recall may wait for the primary. Recalls with heavy filters keep at most half of the
    /// processors busy, and other recalls do not wait for them. Their queries must have a limit of time.
    pub(crate) async fn recall(
        &self,
        reader: &Engine,
        namespace: &Namespace,
        query: Query,
        cost: Cost,
    ) -> Result<Hits, Problem> {
        let hits = if cost.is_heavy() {
            let namespace = namespace.clone();
            self.recall_heavily(reader, move |engine| engine.blocking().recall(&namespace, query)).await?
        } else {
            match self.recalls.try_acquire() {
                Ok(_running) if !self.is_replica => reader.blocking().recall(namespace, query)?,
                _ => reader.recall(namespace, query).await?,
            }
        };
        self.metrics.recalled(namespace);
        Ok(hits)
    }

    /// Same as [`App::recall`], for several namespaces. None of these recalls runs on the thread that serves the request.
    pub(crate) async fn recall_in(
        &self,
        reader: &Engine,
        scope: Scope,
        query: Query,
        cost: Cost,
    ) -> Result<Hits, Problem> {
        match cost.is_heavy() {
            false => Ok(reader.recall_in(&scope, query).await?),
            true => self.recall_heavily(reader, move |engine| engine.blocking().recall_in(&scope, query)).await,
        }
    }

    /// Deletes a namespace of a user, agent, app or run, with what the server keeps for it in namespaces below: the facts of
    /// its collection, and the files of the memory tool. Returns the number of messages deleted, and of documents below.
    pub(crate) async fn delete_home(&self, home: &Namespace) -> Result<(u64, u64), Problem> {
        let messages = self.engine.delete_namespace(home).await?;
        let facts = self.formation.collection(&self.engine, home).map(|(namespace, _)| namespace);
        // A namespace of the most labels has no files.
        let files = mnemon_memory_tool::files_namespace(home).ok();
        let mut documents = 0;
        for below in facts.into_iter().chain(files) {
            documents += self.engine.count_namespaces(Some(&below)).await?.documents;
            self.engine.delete_namespace(&below).await?;
        }
        Ok((messages, documents))
    }

    /// Searches the documents of a namespace, or lists them. A search with a heavy filter takes one of the places for slow
    /// requests.
    pub(crate) async fn search_documents(
        &self,
        reader: &Engine,
        namespace: &Namespace,
        mut search: DocumentSearch,
        filter: Option<BoundedFilter>,
    ) -> Result<Vec<Document>, Problem> {
        let (filter, cost) = BoundedFilter::divide(filter);
        let _place = cost.is_heavy().then(|| self.slow_place()).transpose()?;
        if let Some(filter) = filter {
            search = search.filter(filter);
        }
        Ok(reader.documents(namespace).search(search).await?)
    }

    async fn recall_heavily(
        &self,
        reader: &Engine,
        recall: impl FnOnce(&Engine) -> mnemon::Result<Hits> + Send + 'static,
    ) -> Result<Hits, Problem> {
        let _place = self.slow_place()?;
        let running = Arc::clone(&self.heavy_recalls).acquire_owned().await.expect("the semaphore is never closed");
        let engine = reader.clone();
        blocking(move || {
            // The recall keeps its place until it ends, even if nobody waits for it any more.
            let _running = running;
            recall(&engine)
        })
        .await
    }

    /// Takes one of the places for slow requests, for a request whose content makes it slow.
    pub(crate) fn slow_place(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.slow_requests.try_acquire().map_err(|_| Problem::overloaded())
    }

    /// Takes a place for a put that is to flush. Others keep half of the places for requests, however much is pending.
    pub(crate) fn flush_place(&self, flush: bool) -> Result<Option<SemaphorePermit<'_>>, Problem> {
        flush.then(|| self.flushes.try_acquire().map_err(|_| Problem::overloaded())).transpose()
    }

    /// Counts a connection until the returned value is dropped.
    pub(crate) fn connected(self: &Arc<Self>) -> Connected {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(Arc::clone(self))
    }

    /// Waits until no client was connected for this time.
    pub(crate) async fn idle(&self, time: Duration) {
        let step = (time / 4).clamp(Duration::from_millis(50), Duration::from_secs(5));
        let mut idle = Duration::ZERO;
        while idle < time {
            tokio::time::sleep(step).await;
            idle = if self.connections.load(Ordering::Relaxed) == 0 { idle + step } else { Duration::ZERO };
        }
    }
}

/// The sessions of new messages, at which the model looks when the messages are stored. A client may go away before that, or its
/// time may end: the messages are stored all the same, and the model looks at them later.
struct Look<'a> {
    formation: &'a Formation,
    sessions: BTreeSet<(Namespace, String)>,
    delay: Duration,
}

impl<'a> Look<'a> {
    fn when_stored(formation: &'a Formation, sessions: BTreeSet<(Namespace, String)>) -> Self {
        Look { formation, sessions, delay: LATER }
    }

    /// Takes the result of storing the messages: the model looks at once, or not at all if they were refused.
    fn after<T>(mut self, stored: mnemon::Result<T>) -> mnemon::Result<T> {
        match stored.is_ok() {
            true => self.delay = Duration::ZERO,
            false => self.sessions.clear(),
        }
        stored
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        for (namespace, session) in std::mem::take(&mut self.sessions) {
            self.formation.look_at(namespace, session, self.delay);
        }
    }
}

/// Divides messages into lists of so many tokens, or of one message that has more.
fn lists(messages: Vec<Message>, tokens: usize) -> Vec<Vec<Message>> {
    let counter = PerPartTokenCounter::default();
    let (mut lists, mut left): (Vec<Vec<Message>>, usize) = (Vec::new(), 0);
    for message in messages {
        let cost = counter.count(&message);
        match lists.last_mut().filter(|_| cost <= left) {
            Some(list) => list.push(message),
            None => {
                left = tokens;
                lists.push(vec![message]);
            }
        }
        left = left.saturating_sub(cost);
    }
    lists
}

/// Runs work that takes long or waits, on a thread where no request waits for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> mnemon::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    Ok(tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Closed))?)
}

/// An open connection, which counts until it is dropped.
pub(crate) struct Connected(Arc<App>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Clients that are waited for, up to a number of them.
pub(crate) struct Crowd {
    most: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// The clients in the order in which the wait for them began. A token is cancelled to oust its client.
    clients: BTreeMap<u64, CancellationToken>,
}

/// The place of a client in a crowd, which it has until this is dropped.
pub(crate) struct Place {
    crowd: Arc<Crowd>,
    number: u64,
}

impl Crowd {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Crowd { most, waiting: Mutex::default() })
    }

    /// Begins to wait for a client. `ousted` is cancelled when the client's place is given to another.
    pub(crate) fn enter(self: &Arc<Self>, ousted: CancellationToken) -> Place {
        let mut waiting = self.lock();
        if waiting.clients.len() >= self.most {
            waiting.oust_oldest();
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.clients.insert(number, ousted);
        Place { crowd: Arc::clone(self), number }
    }

    /// Ousts the client that was waited for the longest.
    pub(crate) fn oust_oldest(&self) {
        self.lock().oust_oldest();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn oust_oldest(&mut self) {
        if let Some((_, ousted)) = self.clients.pop_first() {
            ousted.cancel();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.lock().clients.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let crowd = Crowd::new(2);
        let tokens: Vec<CancellationToken> = (0..4).map(|_| CancellationToken::new()).collect();
        let ousted = || tokens.iter().map(CancellationToken::is_cancelled).collect::<Vec<_>>();
        let mut places: Vec<Place> = tokens[..2].iter().map(|token| crowd.enter(token.clone())).collect();
        assert_eq!(ousted(), [false; 4]);
        places.push(crowd.enter(tokens[2].clone()));
        assert_eq!(ousted(), [true, false, false, false]);
        // A client that is not waited for any more has given its place back.
        drop(places.remove(1));
        places.push(crowd.enter(tokens[3].clone()));
        assert_eq!(ousted(), [true, false, false, false]);
        crowd.oust_oldest();
        assert_eq!(ousted(), [true, false, true, false]);
    }
}
