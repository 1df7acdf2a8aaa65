//! Moving a running engine to another generation: a new one of another model or precision, or back to the previous one.
//!
//! The generation is built beside the serving one, which goes on answering; both take writes. What is pending in it is embedded, in
//! passes, as more is put meanwhile; the namespaces that are in memory are loaded and linked in it too; it is tried. Then, between
//! two drains, the rest is embedded and one commit switches. So nothing that is found before is missing after: what waits in the new
//! generation then waits in the old one too. What is stopped or killed on the way goes on later: what has vectors does not wait.

mod gate;
mod meter;
mod moving;
mod options;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::MutexGuard;

pub use self::options::{GateReport, ReindexOptions, ReindexPhase, ReindexProgress, ReindexReport};
use self::{meter::Tell, moving::Moving};
use super::{core::Core, drain, spaces::Spaces};
use crate::{
    config::Precision,
    embed::{self, Embedder},
    error::{Error, Result},
    ids::ModelIdentity,
    store::{FIRST, Generation, GenerationState, Transaction},
};

/// Messages made pending in one commit: some tens of milliseconds.
const SEEDED: usize = 8192;

impl Core {
    /// Builds a generation of this embedder's and has it serve.
    pub(crate) fn reindex(
        &self,
        embedder: Arc<dyn Embedder>,
        options: &ReindexOptions,
        tell: Tell<'_>,
    ) -> Result<ReindexReport> {
        let _alone = self.alone()?;
        self.reindex_alone(embedder, options, tell)
    }

    fn reindex_alone(
        &self,
        embedder: Arc<dyn Embedder>,
        options: &ReindexOptions,
        tell: Tell<'_>,
    ) -> Result<ReindexReport> {
        options.check()?;
        embed::check_identity(embedder.identity())?;
        let started = Instant::now();
        let serving = self.shared.live.serving();
        let precision = options.precision.unwrap_or(serving.generation.precision);
        let identity = embedder.identity().clone();
        let mut report = report(&serving, &identity, precision);
        if is_of(&serving.generation, &identity) && serving.generation.precision == precision {
            let keep_previous = options.keep_previous;
            self.commit(move |transaction| {
                transaction.retire_building()?;
                if keep_previous { Ok(false) } else { transaction.retire_previous() }
            })?;
            report.seconds = started.elapsed().as_secs_f64();
            return Ok(report);
        }
        let (id, state) = {
            let identity = identity.clone();
            self.commit(move |transaction| transaction.begin_building(&identity, precision))?
        };
        let mut next = (state == GenerationState::Begun).then_some(FIRST);
        while let Some(from) = next {
            // Puts wait for none of these for long.
            next = self.commit(move |transaction| transaction.seed(id, from, SEEDED))?;
            if self.shared.is_over() {
                return Err(Error::Closed);
            }
        }
        let generation = Generation { id, identity, precision, state: GenerationState::Building };
        // Only all bits are worth copying.
        let source = (serving.generation.precision == Precision::F32
            && is_of(&serving.generation, &generation.identity))
        .then(|| serving.generation.clone());
        drop(serving);
        let moving = Moving::begin(self, generation, embedder, source, options.duty, tell);
        report.resumed = moving.counts()?.0;
        moving.run(options, &mut report)?;
        drop(moving);
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Has the previous generation serve again.
    pub(crate) fn rollback(&self, embedder: Arc<dyn Embedder>, tell: Tell<'_>) -> Result<ReindexReport> {
        let started = Instant::now();
        let _alone = self.alone()?;
        let generations = self.shared.store.read()?.generations()?;
        let previous = generations.into_iter().find(|generation| generation.state == GenerationState::Previous);
        let given = embedder.identity();
        let kept = previous.as_ref().map(|previous| previous.identity.to_string());
        let Some(previous) = previous.filter(|previous| is_of(previous, given)) else {
            return Err(Error::NoPrevious { kept, given: given.to_string() });
        };
        // Nothing may wait, and nothing is tried.
        drain::try_out(&*embedder)?;
        let serving = self.shared.live.serving();
        let mut report = report(&serving, given, previous.precision);
        drop(serving);
        let moving = Moving::begin(self, previous, embedder, None, 1.0, tell);
        report.resumed = moving.counts()?.0;
        moving.run_back(&mut report)?;
        drop(moving);
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Retires the previous generation, if there is one.
    pub(crate) fn drop_previous(&self) -> Result<bool> {
        let _alone = self.alone()?;
        let found = self.commit(|transaction| transaction.retire_previous())?;
        self.shared.sweep(&self.workers())?;
        Ok(found)
    }

    /// [`Core::reindex`], and deletes what was retired, once nobody uses it any more.
    pub(super) fn reindex_and_sweep(
        &self,
        embedder: Arc<dyn Embedder>,
        options: &ReindexOptions,
        tell: Tell<'_>,
    ) -> Result<ReindexReport> {
        // To the end: another would retire what is used.
        let _alone = self.alone()?;
        let report = self.reindex_alone(embedder, options, tell)?;
        let swept = self.wait_until_left().and_then(|()| self.shared.sweep(&self.workers()));
        if let Err(error) = swept {
            // It is done all the same.
            tracing::error!(%error, "an old generation was not deleted; the next opening tries again");
        }
        Ok(report)
    }

    /// The right to change generations, once nobody uses one any more that was taken out of memory.
    fn alone(&self) -> Result<MutexGuard<'_, ()>> {
        let alone = self.shared.moving.try_lock().ok_or(Error::ReindexRunning)?;
        self.wait_until_left()?;
        Ok(alone)
    }

    fn commit<T: Send + 'static>(
        &self,
        apply: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.workers().writer.commit(apply, |value| value)
    }

    /// Waits until no recall uses a generation any more that was taken out of memory: only then may it be changed or deleted.
    fn wait_until_left(&self) -> Result<()> {
        while self.shared.live.is_left_in_use() {
            if self.shared.is_over() {
                return Err(Error::Closed);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn is_of(generation: &Generation, identity: &ModelIdentity) -> bool {
    generation.identity.hash == identity.hash && generation.identity.dimension == identity.dimension
}

fn report(serving: &Spaces, to: &ModelIdentity, precision: Precision) -> ReindexReport {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Config,
        embed::{Model, OnnxEmbedder},
        engine::Engine,
        ids::Namespace,
        message::Message,
        store::{Options, Store},
    };

    /// An index that is being improved when another generation takes over is told what is deleted: what it stores stays sound.
    #[test]
    fn what_is_taken_out_and_still_used_learns_of_deletions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.redb");
        let config = Config { exact_threshold: 300, ..Config::default() };
        let embedder: Arc<dyn Embedder> = Arc::new(OnnxEmbedder::new(Model::find(Model::DEFAULT).unwrap()).unwrap());
        let engine = Engine::builder(&path).config(config).embedder(Arc::clone(&embedder)).open().unwrap();
        let (blocking, space) = (engine.blocking(), "a".parse::<Namespace>().unwrap());
        let message = |i: usize| Message::user(format!("the year {i}")).with_id(format!("m{i}"));
        blocking.put(&space, (0..400).map(message).collect()).unwrap();
        blocking.flush().unwrap();
        let core = &engine.core;
        let number = core.shared.store.read().unwrap().namespace(&space).unwrap().unwrap();
        let old = core.shared.live.serving();
        let options = ReindexOptions { precision: Some(Precision::I8), samples: 0, ..ReindexOptions::default() };
        assert!(core.reindex(embedder, &options, &mut |_| std::ops::ControlFlow::Continue(())).unwrap().switched);
        old.load(number).unwrap();
        blocking.delete(&space, vec!["m7".into()]).unwrap();
        old.optimize(number, &core.workers()).unwrap();
        drop(old);
        drop(engine);
        let options = Options { create: false, cache_bytes: 1 << 20, two_phase_commit: false };
        assert_eq!(Store::open(&path, options).unwrap().verify().unwrap().problems, [""; 0]);
    }
}
