//! The migration to another generation: its pending messages are embedded, the loaded namespaces are loaded and linked
//! in it, it is compared with the serving generation, and the engine switches to it.

use std::{
    cell::RefCell,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{
    gate,
    options::{ReindexOptions, ReindexPhase, ReindexReport},
    progress::{OnProgress, ProgressMeter},
};
use crate::{
    embed::Embedder,
    engine::{
        core::Core,
        drain::Refused,
        loaded_generation::LoadedGeneration,
        shared::{Shared, Wake},
        shared_vectors::Unmade,
        stored_graph::Workers,
    },
    error::{Error, Result},
    ids::NamespaceId,
    store::{Generation, GenerationState, PendingCursor},
};

/// After a pass that embedded no more messages than this, or took no longer than this, so few are pending that flushes
/// wait only shortly for the switch.
const LAST_PASS_MESSAGES: u64 = 64;
const LAST_PASS_TIME: Duration = Duration::from_millis(500);
/// The longest pause between two checks whether to stop.
const NAP: Duration = Duration::from_millis(20);

/// The migration of an engine from the serving generation to another.
pub(super) struct Migration<'a> {
    core: &'a Core,
    shared: &'a Arc<Shared>,
    workers: Workers,
    to: Arc<LoadedGeneration>,
    /// The generation whose vectors are copied, if they can be.
    source: Option<Generation>,
    duty: f64,
    progress: RefCell<ProgressMeter<'a>>,
}

impl<'a> Migration<'a> {
    pub(super) fn begin(
        core: &'a Core,
        to: Generation,
        embedder: Arc<dyn Embedder>,
        source: Option<Generation>,
        duty: f64,
        on_progress: OnProgress<'a>,
    ) -> Self {
        let (shared, to) = (&core.shared, Arc::new(core.load_generation(to, embedder)));
        shared.generations.set_target(Arc::clone(&to));
        let progress = RefCell::new(ProgressMeter::new(on_progress));
        Migration { core, shared, workers: core.workers(), to, source, duty, progress }
    }

    /// Migrates to a new generation. Returns early if the callback stops it or the comparison fails.
    pub(super) fn run(&self, options: &ReindexOptions, report: &mut ReindexReport) -> Result<()> {
        if !self.embed(report)? {
            return Ok(());
        }
        let from = self.shared.generations.serving();
        let mut wanted = from.namespaces();
        let queries = gate::sample_queries(self.shared, &from, &self.to, options)?;
        wanted.extend(queries.iter().map(|query| query.namespace));
        wanted.sort_unstable();
        wanted.dedup();
        if !self.load(&wanted)? {
            return Ok(());
        }
        if options.samples > 0 {
            let total = queries.len() as u64;
            let go_on = |done| self.go_on(ReindexPhase::Trying, done, total);
            let Some(gate) = gate::compare((&from, &self.to), &queries, options, go_on)? else { return Ok(()) };
            let gate = report.gate.insert(gate);
            if gate.failed.is_some() {
                return Ok(());
            }
        }
        drop(from);
        // Embeds the messages that were put during the loading and the comparison.
        if self.embed(report)? {
            self.switch(options.keep_previous, report)?;
        }
        Ok(())
    }

    /// Migrates to the generation that served before, which passed the comparison once.
    pub(super) fn roll_back(&self, report: &mut ReindexReport) -> Result<()> {
        let loaded = self.shared.generations.serving().namespaces();
        if self.embed(report)? && self.load(&loaded)? {
            self.switch(true, report)?;
        }
        Ok(())
    }

    /// The number of messages that have vectors in the new generation, and the number of all.
    pub(super) fn counts(&self) -> Result<(u64, u64)> {
        let snapshot = self.shared.store.read()?;
        let done = snapshot.rows().message_count(self.to.generation.id)?;
        Ok((done, done + snapshot.pending().count(self.to.generation.id)?))
    }

    /// Embeds pending messages in passes, until few are put during a pass. Returns false if the callback stopped it.
    fn embed(&self, report: &mut ReindexReport) -> Result<bool> {
        loop {
            let (before, total) = self.counts()?;
            let begun = Instant::now();
            let mut worked_since = begun;
            let (mut stopped, mut failed) = (false, None);
            let sources = self.shared.sources(self.source.as_ref(), Unmade::Make);
            let drained = self.shared.drain(&self.to, sources, PendingCursor::default(), &self.workers, |handed| {
                if handed > 0 {
                    self.rest(worked_since.elapsed());
                    worked_since = Instant::now();
                }
                match self.go_on(ReindexPhase::Embedding, before + handed, total) {
                    Ok(go_on) => stopped = !go_on,
                    Err(error) => failed = Some(error),
                }
                !stopped && failed.is_none()
            })?;
            report.embedded += drained.embedded;
            report.copied += drained.copied;
            if let Some(error) = failed {
                return Err(error);
            }
            if stopped {
                return Ok(false);
            }
            check_none_lost(self.shared, &self.to, drained.refused)?;
            if drained.embedded + drained.copied <= LAST_PASS_MESSAGES || begun.elapsed() < LAST_PASS_TIME {
                return Ok(true);
            }
        }
    }

    /// Loads namespaces and does the background work of their indexes, so that the first recalls after the switch are
    /// as fast as those before. Returns false if the callback stopped it.
    fn load(&self, namespaces: &[NamespaceId]) -> Result<bool> {
        let snapshot = self.shared.store.read()?;
        let rows = |namespace: &NamespaceId| {
            snapshot.rows().live_count(self.to.generation.id, *namespace).map(|rows| rows as u64)
        };
        let rows = namespaces.iter().map(rows).collect::<Result<Vec<u64>>>()?;
        // A snapshot held meanwhile would keep all pages that are rewritten.
        drop(snapshot);
        let (mut done, total) = (0, rows.iter().sum());
        for (&namespace, rows) in namespaces.iter().zip(rows) {
            if !self.go_on(ReindexPhase::Loading, done, total)? {
                return Ok(false);
            }
            self.to.load(namespace)?;
            while self.to.improve(namespace, &self.workers, false)? {
                let linked = self.to.linked(namespace) as u64;
                if !self.go_on(ReindexPhase::Loading, done + linked.min(rows), total)? {
                    return Ok(false);
                }
            }
            done += rows;
        }
        Ok(true)
    }

    /// Switches between two flushes of the serving generation: messages that are pending in it then were put since, and
    /// are pending in both.
    fn switch(&self, keep_previous: bool, report: &mut ReindexReport) -> Result<()> {
        let (reply, answer) = mpsc::sync_channel(1);
        let (to, source) = (Arc::clone(&self.to), self.source.clone());
        self.core.wake(Wake::Between(Box::new(move |shared, workers| {
            let switched = switch(shared, workers, &to, source.as_ref(), keep_previous);
            // Dropped before the reply, whose receiver may wait until the generation is unused.
            drop(to);
            let _ = reply.send(switched);
        })))?;
        let (embedded, copied) = answer.recv().map_err(|_| Error::Closed)??;
        report.embedded += embedded;
        report.copied += copied;
        report.switched = true;
        let (done, total) = self.counts()?;
        // The switch is done, so the callback can no longer stop it.
        self.progress.borrow_mut().report(ReindexPhase::Switched, done, total);
        Ok(())
    }

    /// Reports progress. Returns false if the callback stopped the reindex.
    ///
    /// # Errors
    /// [`Error::Closed`] if the engine is closing.
    fn go_on(&self, phase: ReindexPhase, done: u64, total: u64) -> Result<bool> {
        if self.shared.is_over() {
            return Err(Error::Closed);
        }
        Ok(self.progress.borrow_mut().report(phase, done, total))
    }

    /// Pauses after working for this long, as the duty demands.
    fn rest(&self, worked: Duration) {
        let until = Instant::now() + worked.mul_f64(1.0 / self.duty - 1.0);
        while !self.shared.is_over() && Instant::now() < until {
            thread::sleep(NAP.min(until.saturating_duration_since(Instant::now())));
        }
    }
}

impl Drop for Migration<'_> {
    fn drop(&mut self) {
        if self.shared.generations.serving().generation.id != self.to.generation.id {
            // The generation is kept as it is, so that another reindex continues with it.
            self.to.close(&self.workers);
            self.shared.generations.remove_target();
        }
    }
}

/// Checks that no message is lost by switching to a new generation. A rollback is not checked: it must not fail because
/// of texts that its model never accepted.
///
/// # Errors
/// The error of the first message which the new model refused and which has vectors in the serving generation.
fn check_none_lost(shared: &Shared, to: &LoadedGeneration, refused: Vec<Refused>) -> Result<()> {
    if to.generation.state != GenerationState::Building || refused.is_empty() {
        return Ok(());
    }
    let (snapshot, serving) = (shared.store.read()?, shared.generations.serving().generation.id);
    for Refused { namespace, seq, error } in refused {
        let is_pending = |generation| snapshot.pending().contains(generation, namespace, seq);
        if is_pending(to.generation.id)? && !is_pending(serving)? {
            return Err(error);
        }
    }
    Ok(())
}

/// Embeds the last pending messages and switches, on the flushing thread. Returns the numbers of messages embedded and
/// copied.
fn switch(
    shared: &Arc<Shared>,
    workers: &Workers,
    to: &Arc<LoadedGeneration>,
    source: Option<&Generation>,
    keep_previous: bool,
) -> Result<(u64, u64)> {
    let sources = shared.sources(source, Unmade::Make);
    let drained = shared.drain(to, sources, PendingCursor::default(), workers, |_| !shared.is_over())?;
    if shared.is_over() {
        return Err(Error::Closed);
    }
    if !drained.refused.is_empty() {
        tracing::warn!(messages = drained.refused.len(), "messages that the model refused stay pending");
    }
    check_none_lost(shared, to, drained.refused)?;
    let from = shared.generations.serving();
    // Loads the namespaces that were first queried meanwhile.
    from.namespaces().into_iter().try_for_each(|namespace| to.load(namespace).map(drop))?;
    let (id, this) = (to.generation.id, Arc::clone(shared));
    workers.writer.commit(
        move |transaction| transaction.generations().switch(id, keep_previous),
        move |()| this.generations.switch(),
    )?;
    // The background thread improves the serving generation alone: the new one was not improved yet, the old one will
    // not be any more.
    to.namespaces().into_iter().for_each(|namespace| to.improve_later(namespace));
    from.close(workers);
    Ok((drained.embedded, drained.copied))
}
