//! Moves a running engine to another generation: a new one of another model or precision, or back to the previous one.
//!
//! The new generation is built beside the serving one, which keeps answering; both take writes. The pending messages of
//! the new one are embedded in passes, as more are put meanwhile. The loaded namespaces are loaded and linked in it
//! too, and it is compared with the serving one. Then, between two flushes, the rest is embedded and one commit
//! switches. Every message found before the switch is found after it: one that is pending in the new generation then is
//! pending in the old one too. A reindex that was stopped or killed continues later with the messages that have no
//! vectors yet.
//!
//! Machines with a shared database share the work out (`together`), and one decides for all; the others then move by
//! themselves (`Core::follow`).

mod gate;
mod migration;
mod options;
mod progress;
mod together;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::MutexGuard;

pub use self::options::{GateReport, ReindexOptions, ReindexPhase, ReindexProgress, ReindexReport};
use self::{migration::Migration, progress::OnProgress};
use super::{core::Core, drain, loaded_generation::LoadedGeneration};
use crate::{
    config::Precision,
    embed::{self, Embedder},
    error::{Error, Result},
    ids::ModelIdentity,
    span::{Timed, call_span},
    store::{Generation, GenerationState, HISTORY_START, Transaction},
};

/// Messages made pending in one commit, which takes some tens of milliseconds.
const SEED_MESSAGES: usize = 8192;

/// The machines that a reindex moves, in an engine with a shared database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moves {
    All,
    This,
}

impl Core {
    /// Builds a generation with this embedder and switches to it.
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
        let together = match moves {
            Moves::All if !serving.generation.is_of(&identity) => self.reindex_together(&identity)?,
            _ => None,
        };
        if serving.generation.is_of(&identity) && serving.generation.precision == precision {
            if moves == Moves::All {
                self.check_serves_on_all(&identity)?;
            }
            let keep_previous = options.keep_previous;
            self.commit(move |transaction| {
                transaction.generations().retire_building()?;
                if keep_previous { Ok(false) } else { transaction.generations().retire_previous() }
            })?;
            report.seconds = started.elapsed().as_secs_f64();
            return Ok(report);
        }
        let (id, state) = {
            let identity = identity.clone();
            self.commit(move |transaction| transaction.generations().begin_building(&identity, precision))?
        };
        let mut next = (state == GenerationState::Begun).then_some(HISTORY_START);
        while let Some(from) = next {
            // In several commits, so that no put waits for long.
            next = self.commit(move |transaction| transaction.generations().seed(id, from, SEED_MESSAGES))?;
            if self.shared.is_over() {
                return Err(Error::Closed);
            }
        }
        let generation = Generation { id, identity, precision, state: GenerationState::Building };
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
        migration.run(together.as_ref(), options, &mut report)?;
        drop(migration);
        span.record("embedded", report.embedded as usize);
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Switches back to the previous generation.
    pub(crate) fn rollback(&self, embedder: Arc<dyn Embedder>, on_progress: OnProgress<'_>) -> Result<ReindexReport> {
        let started = Instant::now();
        let _lock = self.lock_generations()?;
        if self.shared.replica.is_some() {
            drain::try_out(&*embedder)?;
            self.roll_back_together(&*embedder)?;
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

    /// Retires the previous generation, if there is one.
    pub(crate) fn drop_previous(&self) -> Result<bool> {
        let _lock = self.lock_generations()?;
        let shared = self.shared.replica.as_deref();
        let shared = shared.map(|replica| replica.asked(replica.upstream.drop_previous_model())).transpose()?;
        let found = self.commit(|transaction| transaction.generations().retire_previous())?;
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

    fn commit<T: Send + 'static>(
        &self,
        apply: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.workers().writer.commit(apply, |value| value)
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
        assert!(core.reindex(embedder, &options, &mut |_| std::ops::ControlFlow::Continue(())).unwrap().switched);
        old.load(number).unwrap();
        blocking.delete(&space, vec!["m7".into()]).unwrap();
        old.optimize(number, &core.workers()).unwrap();
        drop(old);
        drop(engine);
        assert_eq!(Store::open(&path, &Config::default(), false).unwrap().verify().unwrap().problems, [""; 0]);
    }
}
