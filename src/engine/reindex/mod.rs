//! Moves a running engine to another generation: a new one of another model or precision, or back to the previous one.
//!
//! The new generation is built beside the serving one, which keeps answering; both take writes. The pending messages of
//! the new one are embedded in passes, as more are put meanwhile. The loaded namespaces are loaded and linked in it
//! too, and it is compared with the serving one. Then the thread that embeds pending messages does the rest, and one
//! commit switches. Every message found before the switch is found after it: one that is pending in the new generation
//! then is pending in the old one too. A reindex that was stopped or killed continues later with the messages that have
//! no vectors yet.
//!
//! Machines with a shared database share the work out (`shared_reindex`), and one decides for all; the others then move
//! by themselves (`Core::follow`).

mod gate;
mod migration;
mod options;
mod shared_reindex;

use std::{
    ops::ControlFlow,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::MutexGuard;

pub use self::options::{GateReport, ReindexOptions, ReindexPhase, ReindexProgress, ReindexReport};
use self::{migration::Migration, options::OnProgress};
use super::{core::Core, drain, executor::Lane, handle::Engine, loaded_generation::LoadedGeneration, writer::Commit};
use crate::{
    calls::{Timed, call_span},
    config::Precision,
    embed::{self, Embedder},
    error::{Error, Result},
    ids::ModelIdentity,
    store::{GenerationState, HISTORY_START, Transaction},
};

/// Messages made pending in one commit, which takes some tens of milliseconds.
const SEED_MESSAGES: usize = 8192;

/// The machines that a reindex moves, in an engine with a shared database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moves {
    All,
    This,
}

impl Engine {
    /// Moves the database to another model or precision while it is in use. [`Engine::model`] returns the new model
    /// afterwards.
    ///
    /// A new generation of vectors is built beside the serving one, which goes on answering; puts and deletes go to
    /// both. When all messages are embedded, the namespaces in memory and all that are large enough for a graph are
    /// loaded and linked in the new generation, the two generations are compared on sample queries
    /// ([`ReindexOptions::samples`]), and one commit switches. No recall fails or waits for the switch, and none misses a
    /// message that was found before. `progress` is called a few times a second or after each step; returning `Break`
    /// stops the reindex, as does closing the engine. After a stop or a
    /// crash the old generation serves, and the next call with the same model and precision resumes; a call with others
    /// drops the unfinished generation. Moving the serving model to a precision with fewer bits copies the
    /// vectors.
    ///
    /// A new generation that does not pass the gate is kept and does not serve: [`ReindexReport::gate`] states the
    /// reason and the remedy. The old generation is kept for [`Engine::rollback`] unless
    /// [`ReindexOptions::keep_previous`] is false.
    ///
    /// An engine with a [shared database](crate::EngineBuilder) moves all machines. The same call on several shares the
    /// work out: each embeds the messages of namespaces that no other does. The first that has compared the models
    /// decides for all; the others follow by themselves if [`Model::find`](crate::Model::find) finds the model, or by
    /// the same call. A precision is moved on this machine alone.
    ///
    /// Cost: embedding and linking all messages; until the switch, memory for a second copy of the loaded namespaces
    /// and for the new model, and space in the file for one more generation. Flushes wait, for half a second or a
    /// batch, while the last messages are embedded. The reindex runs on a thread of its own and goes on if the future
    /// is dropped.
    ///
    /// # Errors
    /// [`Error::ReindexRunning`]; [`Error::InvalidConfig`]; [`Error::Embedding`] if the model fails, or if it cannot
    /// embed a message that can be found now: replace or delete the message, or move to another model;
    /// [`Error::EmbedderUnavailable`]; [`Error::InvalidVector`]; [`Error::Storage`], [`Error::Corrupted`];
    /// [`Error::Closed`] if the engine is closed meanwhile. In all cases the old generation serves, and the unfinished
    /// one is kept. To give it up, reindex to the serving model.
    pub async fn reindex(
        &self,
        embedder: Arc<dyn Embedder>,
        options: ReindexOptions,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()> + Send + 'static,
    ) -> Result<ReindexReport> {
        self.core()
            .run(Lane::Long, move |core| core.reindex_and_sweep(embedder, Moves::All, &options, &mut progress))
            .await
    }

    /// Switches back to the generation that served before the last switch. The generation that serves now becomes the
    /// previous one. Messages put since are embedded first, so none is missing. `embedder` must be of the previous
    /// generation's model. `progress` may stop the rollback. With a shared database, all machines are moved back.
    ///
    /// # Errors
    /// [`Error::NoPrevious`]: no previous generation is kept, or it is of another model. [`Error::ReindexRunning`];
    /// [`Error::Embedding`] or [`Error::EmbedderUnavailable`] if the model fails on every text; a message that it never
    /// accepted stays pending. [`Error::Storage`], [`Error::Corrupted`], [`Error::Closed`].
    pub async fn rollback(
        &self,
        embedder: Arc<dyn Embedder>,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()> + Send + 'static,
    ) -> Result<ReindexReport> {
        self.core().run(Lane::Long, move |core| core.rollback(embedder, &mut progress)).await
    }

    /// Deletes the generation that is kept for a rollback, in a shared database too. Returns true if there was one.
    ///
    /// # Errors
    /// [`Error::ReindexRunning`], [`Error::Storage`].
    pub async fn drop_previous(&self) -> Result<bool> {
        self.core().run(Lane::Long, Core::drop_previous).await
    }
}

impl Core {
    pub(crate) fn reindex(
        &self,
        embedder: Arc<dyn Embedder>,
        options: &ReindexOptions,
        on_progress: OnProgress<'_>,
    ) -> Result<ReindexReport> {
        let _lock = self.lock_generations()?;
        self.reindex_locked(embedder, Moves::All, options, on_progress)
    }

    fn reindex_locked(
        &self,
        embedder: Arc<dyn Embedder>,
        moves: Moves,
        options: &ReindexOptions,
        on_progress: OnProgress<'_>,
    ) -> Result<ReindexReport> {
        let span = Timed::enter(call_span!(INFO "reindex", embedded));
        options.check()?;
        embed::check_identity(embedder.identity())?;
        let started = Instant::now();
        let serving = self.shared.generations.serving();
        let precision = options.precision.unwrap_or(serving.generation.precision);
        let identity = embedder.identity().clone();
        let mut report = report(&serving, &identity, precision);
        let shared_reindex = match moves {
            Moves::All if !serving.generation.is_of(&identity) => self.begin_shared_reindex(&identity)?,
            _ => None,
        };
        if serving.generation.is_of(&identity) && serving.generation.precision == precision {
            if moves == Moves::All {
                self.check_serves_on_all(&identity)?;
            }
            let keep_previous = options.keep_previous;
            let retire = move |transaction: &Transaction| {
                transaction.generations().retire_building()?;
                if keep_previous { Ok(false) } else { transaction.generations().retire_previous() }
            };
            self.writer.commit(Commit::Grouped, retire).wait()?;
            report.seconds = started.elapsed().as_secs_f64();
            return Ok(report);
        }
        let mut generation = {
            let begin = move |transaction: &Transaction| transaction.generations().begin_building(&identity, precision);
            self.writer.commit(Commit::Grouped, begin).wait()?
        };
        let id = generation.id;
        let mut next = (generation.state == GenerationState::Begun).then_some(HISTORY_START);
        while let Some(from) = next {
            // In several commits, so that no put waits for long.
            let seed = move |transaction: &Transaction| transaction.generations().seed(id, from, SEED_MESSAGES);
            next = self.writer.commit(Commit::Grouped, seed).wait()?;
            if self.shared.is_over() {
                return Err(Error::Closed);
            }
        }
        generation.state = GenerationState::Building;
        // Vectors are copied only to fewer bits: the others that they had are lost.
        let has_all_bits = matches!(
            (serving.generation.precision, precision),
            (Precision::F32, _) | (Precision::F16, Precision::F16 | Precision::I8)
        );
        let source =
            (has_all_bits && serving.generation.is_of(&generation.identity)).then(|| serving.generation.clone());
        drop(serving);
        let migration = Migration::begin(self, generation, embedder, source, options.duty, on_progress);
        report.resumed = migration.counts()?.0;
        migration.run(shared_reindex.as_ref(), options, &mut report)?;
        drop(migration);
        span.record("embedded", report.embedded as usize);
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }

    pub(crate) fn rollback(&self, embedder: Arc<dyn Embedder>, on_progress: OnProgress<'_>) -> Result<ReindexReport> {
        let started = Instant::now();
        let _lock = self.lock_generations()?;
        if self.shared.replica.is_some() {
            drain::try_out(&*embedder)?;
            self.roll_back_on_all(&*embedder)?;
            // The vectors that served before are used, if they are here.
            let options = ReindexOptions { samples: 0, ..ReindexOptions::default() };
            return self.reindex_locked(embedder, Moves::This, &options, on_progress);
        }
        let generations = self.shared.store.read()?.generations().all()?;
        let previous = generations.into_iter().find(|generation| generation.state == GenerationState::Previous);
        let given = embedder.identity();
        let kept = previous.as_ref().map(|previous| previous.identity.to_string());
        let Some(previous) = previous.filter(|previous| previous.is_of(given)) else {
            return Err(Error::NoPrevious { kept, given: given.to_string() });
        };
        // If no message is pending, nothing else would use the model before the switch.
        drain::try_out(&*embedder)?;
        let serving = self.shared.generations.serving();
        let mut report = report(&serving, given, previous.precision);
        drop(serving);
        let migration = Migration::begin(self, previous, embedder, None, 1.0, on_progress);
        report.resumed = migration.counts()?.0;
        migration.roll_back(&mut report)?;
        drop(migration);
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }

    pub(crate) fn drop_previous(&self) -> Result<bool> {
        let _lock = self.lock_generations()?;
        let shared = self.shared.replica.as_deref();
        let shared = shared.map(|replica| replica.record_answer(replica.upstream.drop_previous_model())).transpose()?;
        let retire = |transaction: &Transaction| transaction.generations().retire_previous();
        let found = self.writer.commit(Commit::Grouped, retire).wait()?;
        self.shared.sweep(&self.workers())?;
        Ok(found || shared == Some(true))
    }

    /// Same as [`Core::reindex`]; also deletes the retired generations, once they are unused.
    pub(super) fn reindex_and_sweep(
        &self,
        embedder: Arc<dyn Embedder>,
        moves: Moves,
        options: &ReindexOptions,
        on_progress: OnProgress<'_>,
    ) -> Result<ReindexReport> {
        // Held until the end, because another reindex would retire a generation in use.
        let _lock = self.lock_generations()?;
        let report = self.reindex_locked(embedder, moves, options, on_progress)?;
        let swept = self.wait_until_unused().and_then(|()| self.shared.sweep(&self.workers()));
        if let Err(error) = swept {
            // The reindex is complete nevertheless.
            tracing::error!(%error, "an old generation was not deleted; the next opening tries again");
        }
        Ok(report)
    }

    /// Takes the lock on changes of generations, and waits until those removed from memory are unused.
    fn lock_generations(&self) -> Result<MutexGuard<'_, ()>> {
        let lock = self.shared.moving.try_lock().ok_or(Error::ReindexRunning)?;
        self.wait_until_unused()?;
        Ok(lock)
    }

    /// Waits until no recall uses a generation that was removed from memory. It must not be changed or deleted before.
    fn wait_until_unused(&self) -> Result<()> {
        while self.shared.generations.is_removed_in_use() {
            if self.shared.is_over() {
                return Err(Error::Closed);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn report(serving: &LoadedGeneration, to: &ModelIdentity, precision: Precision) -> ReindexReport {
    ReindexReport {
        from: Some(serving.generation.identity.to_string()),
        to: to.to_string(),
        precision,
        embedded: 0,
        copied: 0,
        resumed: 0,
        switched: false,
        gate: None,
        seconds: 0.0,
    }
}

#[cfg(all(test, feature = "bundled-model"))]
mod tests {
    use super::*;
    use crate::{config::Config, default_embedder, engine::Engine, ids::Namespace, message::Message, store::Store};

    /// An index that is being improved when another generation takes over stays equal to the store.
    #[test]
    fn a_generation_that_was_removed_and_is_still_used_applies_deletions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.redb");
        let config = Config { exact_threshold: 300, ..Config::default() };
        let embedder: Arc<dyn Embedder> = default_embedder::open(None, &Config::default()).unwrap();
        let engine = Engine::builder(&path).config(config).embedder(Arc::clone(&embedder)).open().unwrap();
        let (blocking, space) = (engine.blocking(), "a".parse::<Namespace>().unwrap());
        let message = |i: usize| Message::user(format!("the year {i}")).with_id(format!("m{i}"));
        blocking.put(&space, (0..400).map(message).collect()).unwrap();
        blocking.flush().unwrap();
        let core = engine.core();
        let number = core.shared.store.read().unwrap().namespaces().id(&space).unwrap().unwrap();
        let old = core.shared.generations.serving();
        let options = ReindexOptions { precision: Some(Precision::I8), samples: 0, ..ReindexOptions::default() };
        assert!(core.reindex(embedder, &options, &mut |_| ControlFlow::Continue(())).unwrap().switched);
        old.load(number).unwrap();
        blocking.delete(&space, vec!["m7".into()]).unwrap();
        old.optimize(number, &core.workers()).unwrap();
        drop(old);
        drop(engine);
        assert_eq!(Store::open(&path, &Config::default(), false).unwrap().verify().unwrap().problems, [""; 0]);
    }
}
