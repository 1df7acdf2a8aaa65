//! Reads that are as fresh as asked, in an engine with a shared database: what other machines changed is pulled when it
//! is needed, and in the background while a namespace is in use.
//!
//! The client's thread sends a question and hears the answer, and a thread of [`Lane::Pulls`] applies what changed. A
//! read waits in its future, before it takes a thread of its lane. So reads that ask nobody never wait behind it.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Weak,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use super::{
    core::Core,
    executor::Lane,
    questions::{OpenQuestion, QuestionAnswer, QuestionWait, Subject},
    replica::{Need, Replica},
    weak::WeakEngine,
    writer::Commit,
};
use crate::{
    calls::block_on,
    config::Freshness,
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    recall::{Query, Seen},
    shared::{Answer, Notified, Question, Told},
    store::{COMMON, Change, Transaction, Version},
};

/// The time between two looks whether somebody calls an engine that nobody called for long.
const LOOK: Duration = Duration::from_secs(1);
/// How long reads that need not be the latest wait for a shared database from which nothing at all is heard.
const PATIENCE: Duration = Duration::from_secs(1);

impl Core {
    /// Makes a namespace as fresh as a query asks. Returns what the copy knows of it then.
    ///
    /// # Errors
    /// Those of [`Core::refresh`].
    pub(super) async fn refresh_for(&self, namespace: &Namespace, query: &Query) -> Result<Option<Seen>> {
        let Some(replica) = &self.shared.replica else { return Ok(None) };
        self.refresh(namespace, query.freshness).await?;
        let version = self.shared.store.read()?.versions().get(namespace.as_str())?.number;
        let age = replica.fresh_since(namespace.as_str()).map(|fresh| fresh.elapsed());
        Ok(Some(Seen { version, age }))
    }

    /// Makes all namespaces under a prefix, or all that there are, as fresh as asked, by default as the engine was
    /// opened for. Fetches those that are not here.
    ///
    /// # Errors
    /// Those of [`Core::refresh`].
    pub(super) async fn refresh_under(&self, prefix: Option<&Namespace>, freshness: Option<Freshness>) -> Result<()> {
        let Some(replica) = self.shared.replica.as_deref() else { return Ok(()) };
        let (freshness, now) = (freshness.unwrap_or(replica.freshness), Instant::now());
        let need = replica.need_of_all(freshness, now);
        if need == Need::Nothing {
            return Ok(());
        }
        let asking = self.ask(replica, Subject::Under(prefix.map(Namespace::to_string)), serves(freshness, now));
        if need == Need::Attempt {
            return Ok(());
        }
        let is_latest = freshness == Freshness::Latest;
        let found = match asking.heard(!is_latest).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(error) => return unless_behind(freshness, error),
        };
        // The primary may have lost those that are here and were not found.
        let here = self.shared.store.read()?.versions().names(prefix.map(Namespace::as_str))?;
        let names: HashSet<&str> = found.namespaces.iter().map(|(name, ..)| name.as_str()).collect();
        let lost = here.into_iter().filter(|name| !names.contains(name.as_str()));
        let lost: Vec<(String, Version, bool)> = lost.map(|name| (name, Version::NONE, false)).collect();
        for (name, version, exists) in found.namespaces.iter().chain(&lost) {
            let known = self.shared.store.read()?.versions().get(name)?;
            if known != *version && (*exists || known != Version::NONE) {
                let asking = self.ask(replica, Subject::Namespace(name.clone()), |sent| sent >= found.sent);
                match asking.heard(!is_latest && known != Version::NONE).await {
                    Ok(Some(_)) => {}
                    Ok(None) => return Ok(()),
                    Err(error) => return unless_behind(freshness, error),
                }
            }
            replica.mark_fresh(name, found.sent);
        }
        Ok(())
    }

    /// Makes what belongs to no namespace as fresh as the engine was opened for: legal holds and the audit.
    ///
    /// # Errors
    /// Those of [`Core::refresh`].
    pub(super) async fn refresh_common(&self) -> Result<()> {
        self.refresh_name(COMMON, None).await
    }

    /// Makes a namespace as fresh as asked, by default as the engine was opened for. Does nothing in an engine with a
    /// file of its own. Waits on no thread.
    ///
    /// # Errors
    /// [`Error::SharedDatabase`] for [`Freshness::Latest`]: other reads go on with what is here.
    pub(super) async fn refresh(&self, namespace: &Namespace, freshness: Option<Freshness>) -> Result<()> {
        self.refresh_name(namespace.as_str(), freshness).await
    }

    async fn refresh_name(&self, name: &str, freshness: Option<Freshness>) -> Result<()> {
        let Some(replica) = self.shared.replica.as_deref() else { return Ok(()) };
        let (freshness, now) = (freshness.unwrap_or(replica.freshness), Instant::now());
        let need = replica.need(name, freshness, now);
        if need == Need::Nothing {
            return Ok(());
        }
        let asking = self.ask(replica, Subject::Namespace(name.to_owned()), serves(freshness, now));
        if need == Need::Attempt {
            return Ok(());
        }
        // What never was here may be empty for no other reason than that nobody answers yet.
        let is_here =
            replica.fresh_since(name).is_some() || self.shared.store.read()?.versions().get(name)? != Version::NONE;
        let heard = asking.heard(is_here && freshness != Freshness::Latest).await;
        heard.map(drop).or_else(|error| unless_behind(freshness, error))
    }

    /// Fetches what changed in a namespace, with its vectors, unless somebody did since `asked`. Waits on the calling
    /// thread.
    pub(super) fn pull(&self, name: &str, asked: Instant) -> Result<()> {
        let Some(replica) = self.shared.replica.as_deref() else { return Ok(()) };
        if replica.fresh_since(name) > Some(asked) {
            return Ok(());
        }
        let asking = self.ask(replica, Subject::Namespace(name.to_owned()), |sent| sent >= asked);
        block_on(asking.heard(false)).map(drop)
    }

    /// Asks, unless a question about the same is open that was sent at a time which `serves`, or is to be sent.
    fn ask(&self, replica: &Replica, about: Subject, serves: impl Fn(Instant) -> bool) -> QuestionWait {
        let (asking, new) = replica.questions.open(about, serves);
        if let Some(asked) = new {
            self.begin(replica, asked);
        }
        asking
    }

    fn begin(&self, replica: &Replica, asked: Arc<OpenQuestion>) {
        match self.this() {
            Some(core) => {
                let of = core.shared.replica.as_ref().map(Arc::downgrade).unwrap_or_default();
                self.send(replica, Arc::new(Underway { engine: WeakEngine::new(&core), replica: of, asked }));
            }
            None => self.end(replica, &asked, Err(Error::Closed)),
        }
    }

    fn send(&self, replica: &Replica, question: Arc<Underway>) {
        let asks = match &question.asked.about {
            Subject::Under(prefix) => Ok(Question::Namespaces { prefix: prefix.clone() }),
            Subject::Namespace(name) => {
                let history = self.shared.store.read().and_then(|snapshot| snapshot.versions().history(name));
                history.map(|history| Question::Changes { namespace: name.clone(), history })
            }
        };
        match asks {
            Ok(asks) => replica.upstream.ask(asks, PATIENCE, Box::new(move |told| question.hear(told))),
            Err(error) => self.end(replica, &question.asked, Err(error)),
        }
    }

    /// Takes what was heard of a question, on a thread that must not wait.
    fn hear(&self, replica: &Replica, question: &Arc<Underway>, told: Told) {
        let asked = &question.asked;
        let answer = match told {
            Told::Nothing => {
                replica.is_silent();
                return replica.questions.hear_nothing(asked);
            }
            Told::Answer(answer) => replica.record_answer(answer),
        };
        match answer {
            Ok(Answer::Change(None)) => self.end(replica, asked, Ok(Vec::new())),
            Ok(Answer::Namespaces(namespaces)) => self.end(replica, asked, Ok(namespaces)),
            Ok(Answer::Change(Some(change))) => {
                let waiting = Arc::clone(question);
                if let Err(error) = self.executor().spawn(Lane::Pulls, move || waiting.apply(change)) {
                    self.end(replica, asked, Err(error));
                }
            }
            Err(error) => self.end(replica, asked, Err(error)),
        }
    }

    /// Ends a question, and sends the next one about the same. If it was not answered, the next one ends with it.
    fn end(&self, replica: &Replica, asked: &OpenQuestion, end: Result<Vec<(String, Version, bool)>>) {
        let is_answered = !matches!(end, Err(Error::SharedDatabase { .. }));
        let Some((sent, next)) = replica.questions.close(asked, is_answered) else { return };
        if let (Ok(_), Subject::Namespace(name)) = (&end, &asked.about) {
            replica.mark_fresh(name, sent);
        }
        let end = end.map(|namespaces| QuestionAnswer { sent, namespaces: namespaces.into() }).map_err(Arc::new);
        match next {
            Some(next) if is_answered => self.begin(replica, next),
            Some(next) => next.end(end.clone()),
            None => {}
        }
        asked.end(end);
    }

    fn namespace_id(&self, name: &str) -> Result<Option<NamespaceId>> {
        match name {
            COMMON => Ok(None),
            name => self.shared.store.read()?.namespaces().id(&Namespace::new(name)?),
        }
    }

    /// Applies a change that others made, and fetches its vectors. Returns false if the file is at another version by
    /// now.
    pub(super) fn apply(&self, change: Change) -> Result<bool> {
        let name = change.namespace.clone();
        let apply = move |transaction: &Transaction| transaction.apply_changes().apply(&change);
        let applied = self.writer.commit(Commit::Pulled, apply).wait()?;
        if applied && let Some(id) = self.namespace_id(&name)? {
            for namespace in id.parts() {
                self.shared.fetch_vectors(namespace, &self.workers())?;
            }
        }
        Ok(applied)
    }
}

/// A question that was sent. If it is dropped before its end, because the engine is being closed or something panicked,
/// those who wait for it are told: they would wait for ever.
struct Underway {
    engine: WeakEngine,
    // Without the engine's file, which is closed before the last answer comes.
    replica: Weak<Replica>,
    asked: Arc<OpenQuestion>,
}

impl Underway {
    /// Calls `work` with the engine, unless that is being closed.
    fn visit(&self, work: impl FnOnce(&Core, &Replica)) -> Result<()> {
        self.engine.visit(|core| {
            if let Some(replica) = core.shared.replica.as_deref() {
                work(core, replica);
            }
            Ok(())
        })
    }

    fn hear(self: &Arc<Self>, told: Told) {
        // In an engine that is being closed, the question ends when it is dropped.
        let _ = self.visit(|core, replica| core.hear(replica, self, told));
    }

    /// Applies what changed.
    fn apply(self: &Arc<Self>, change: Change) {
        let _ = self.visit(|core, replica| match core.apply(change) {
            Ok(true) => core.end(replica, &self.asked, Ok(Vec::new())),
            // The file is at another version by now.
            Ok(false) => core.send(replica, Arc::clone(self)),
            Err(error) => core.end(replica, &self.asked, Err(error)),
        });
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if self.asked.has_ended() {
            return;
        }
        let reason = "a question to it was given up".to_owned();
        let error = Error::SharedDatabase { reason, transient: true };
        let _ = self.visit(|core, replica| core.end(replica, &self.asked, Err(error)));
        if !self.asked.has_ended() {
            let next = self.replica.upgrade().and_then(|replica| replica.questions.close(&self.asked, false));
            let next = next.and_then(|(_, next)| next);
            [Some(&self.asked), next.as_ref()]
                .into_iter()
                .flatten()
                .for_each(|it| it.end(Err(Arc::new(Error::Closed))));
        }
    }
}

/// Returns true for a question that was sent early enough for a read of this freshness.
fn serves(freshness: Freshness, now: Instant) -> impl Fn(Instant) -> bool {
    move |sent| match freshness {
        Freshness::Within(limit) => sent.checked_add(limit).is_none_or(|until| until >= now),
        Freshness::Latest | Freshness::Local => sent >= now,
    }
}

/// A read goes on without the shared database, unless it is to see the latest.
fn unless_behind(freshness: Freshness, error: Error) -> Result<()> {
    match error {
        Error::SharedDatabase { .. } if freshness != Freshness::Latest => {
            tracing::warn!(%error, "a read goes on with what this machine has");
            Ok(())
        }
        error => Err(error),
    }
}

/// Starts the thread that keeps the namespaces in use fresh, in an engine with a shared database.
pub(super) fn start(core: &Arc<Core>) -> Result<()> {
    let Some(replica) = core.shared.replica.clone() else { return Ok(()) };
    let (notices, received) = mpsc::channel();
    let stop = notices.clone();
    replica.upstream.listen(Box::new(move |notified| notices.send(Some(notified)).unwrap_or_default()));
    // The engine's threads hold the file open.
    let weak = Arc::downgrade(core);
    core.executor()
        .serve(
            "mnemon-pull",
            move || stop.send(None).unwrap_or_default(),
            move || run_pulls(&weak, &replica, &received),
        )
        .inspect_err(|_| core.close())
}

/// Runs the thread that pulls, until the sender of `notices` sends `None`.
fn run_pulls(core: &Weak<Core>, replica: &Replica, notices: &mpsc::Receiver<Option<Notified>>) {
    let mut next_poll = Instant::now();
    loop {
        let mut announced = match notices.recv_timeout(next_poll.saturating_duration_since(Instant::now())) {
            Ok(Some(Notified::Bucket(bucket))) => Some(HashSet::from([bucket])),
            Ok(Some(Notified::Missed)) | Err(RecvTimeoutError::Timeout) => None,
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
        };
        // One question for all that was announced by now.
        while let Some(buckets) = &mut announced {
            match notices.try_recv() {
                Ok(Some(Notified::Bucket(bucket))) => drop(buckets.insert(bucket)),
                Ok(Some(Notified::Missed)) => announced = None,
                Ok(None) => return,
                Err(_) => break,
            }
        }
        let Some(core) = core.upgrade() else { return };
        let Some(_operation) = core.executor().begin_operation() else { return };
        let worked = match announced {
            Some(buckets) => core.pull_used(replica, |bucket| buckets.contains(&bucket)),
            None => {
                let is_awake = replica.is_awake();
                next_poll = Instant::now() + if is_awake { replica.poll() } else { LOOK };
                if !is_awake {
                    continue;
                }
                let pulled = replica.renew().and_then(|()| core.pull_used(replica, |_| true));
                pulled.and_then(|()| if replica.asks_model() { core.follow(replica) } else { Ok(()) })
            }
        };
        if let Err(error) = worked {
            tracing::debug!(%error, "nothing was pulled");
        }
    }
}

impl Core {
    /// Asks for the versions of the namespaces in use that are in some buckets, and pulls those that changed.
    fn pull_used(&self, replica: &Replica, buckets: impl Fn(u8) -> bool) -> Result<()> {
        let now = Instant::now();
        let names = replica.used(now, buckets);
        if names.is_empty() {
            return Ok(());
        }
        let versions: HashMap<String, Version> =
            replica.record_answer(replica.upstream.versions(&names))?.into_iter().collect();
        for name in names {
            let known = self.shared.store.read()?.versions().get(&name)?;
            if versions.get(&name).copied().unwrap_or_default() != known {
                self.pull(&name, now)?;
            }
            replica.mark_fresh(&name, now);
        }
        Ok(())
    }
}
