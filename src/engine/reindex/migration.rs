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
    options::{OnProgress, ProgressMeter, ReindexOptions, ReindexPhase, ReindexReport},
    shared_reindex::SharedReindex,
};
use crate::{
    embed::Embedder,
    engine::{
        core::Core,
        drain::{Drained, Refused},
        loaded_generation::LoadedGeneration,
        shared::{Shared, Wake},
        shared_vectors::Unmade,
        stored_graph::Workers,
        writer::{Commit, then},
    },
    error::{Error, Result},
    ids::NamespaceId,
    shared::Decision,
    store::{Generation, GenerationState, PendingCursor, Transaction},
};

/// After a pass that embedded no more messages than this, or took no longer than this, few messages are pending, so
/// that embedding for the serving generation waits only shortly for the switch.
const LAST_PASS_MESSAGES: u64 = 64;
const LAST_PASS_TIME: Duration = Duration::from_millis(500);
/// Time between two attempts to claim work while other machines do all that is left.
const OTHERS: Duration = Duration::from_millis(200);
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
    pub(super) fn run(
        &self,
        shared_reindex: Option<&SharedReindex<'_>>,
        options: &ReindexOptions,
        report: &mut ReindexReport,
    ) -> Result<()> {
        loop {
            if let Some(shared_reindex) = shared_reindex
                && !self.embed_claims(shared_reindex, report)?
            {
                return Ok(());
            }
            if !self.embed(report)? || !self.compare(shared_reindex, options, report)? {
                return Ok(());
            }
            let rejected = report.gate.as_ref().and_then(|gate| gate.failed.clone());
            // Embeds the messages that were put during the loading and the comparison.
            if rejected.is_none() && !self.embed(report)? {
                return Ok(());
            }
            let decision = match (shared_reindex, rejected) {
                (Some(shared_reindex), rejected) => shared_reindex.decide(rejected, options.keep_previous)?,
                (None, Some(reason)) => Decision::Rejected(reason),
                (None, None) => Decision::Serves,
            };
            match decision {
                Decision::Serves => {
                    if let Some(gate) = &mut report.gate {
                        gate.failed = None;
                    }
                    return self.switch(options.keep_previous, report);
                }
                Decision::Rejected(reason) => {
                    report.gate.get_or_insert_default().failed = Some(reason);
                    return Ok(());
                }
                Decision::NotYet => {}
                Decision::GivenUp => return Err(Error::ReindexRunning),
            }
        }
    }

    /// Loads the namespaces that the new generation must have loaded, and compares it with the serving one. Returns
    /// false if the callback stopped it.
    fn compare(
        &self,
        shared_reindex: Option<&SharedReindex<'_>>,
        options: &ReindexOptions,
        report: &mut ReindexReport,
    ) -> Result<bool> {
        let from = self.shared.generations.serving();
        let mut wanted = from.namespaces();
        let mut queries = gate::sample_queries(self.shared, &from, &self.to, options)?;
        if let Some(shared_reindex) = shared_reindex.filter(|_| queries.is_empty() && options.samples > 0) {
            shared_reindex.fetch_samples(gate::K)?;
            if !self.embed(report)? {
                return Ok(false);
            }
            queries = gate::sample_queries(self.shared, &from, &self.to, options)?;
        }
        wanted.extend(queries.iter().map(|query| query.namespace));
        wanted.extend(self.to.with_graphs()?);
        wanted.sort_unstable();
        wanted.dedup();
        if !self.load(&wanted)? {
            return Ok(false);
        }
        if options.samples > 0 {
            let total = queries.len() as u64;
            let go_on = |done| self.go_on(ReindexPhase::Trying, done, total);
            let Some(gate) = gate::compare((&from, &self.to), &queries, options, go_on)? else { return Ok(false) };
            report.gate = Some(gate);
        }
        Ok(true)
    }

    /// Migrates to the generation that served before, which passed the comparison once.
    pub(super) fn roll_back(&self, report: &mut ReindexReport) -> Result<()> {
        let loaded = self.shared.generations.serving().namespaces();
        if self.embed(report)? && self.load(&loaded)? {
            self.switch(true, report)?;
        }
        Ok(())
    }

    /// Returns the number of messages that have vectors in the new generation, and the number of all messages.
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
            let drained = self.drain(PendingCursor::default(), |handed| {
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

    /// Embeds the messages of namespaces that no other machine works on, until the messages of all namespaces have
    /// vectors. Returns false if the callback stopped it.
    fn embed_claims(&self, shared_reindex: &SharedReindex<'_>, report: &mut ReindexReport) -> Result<bool> {
        shared_reindex.list()?;
        while let Some(claims) = shared_reindex.claim()? {
            let (done, total) = shared_reindex.progress()?;
            let mut here = 0;
            if !self.go_on(ReindexPhase::Embedding, done, total)? {
                return Ok(false);
            }
            if claims.is_empty() {
                self.pause(OTHERS);
            }
            for claim in claims {
                for &namespace in &claim.parts {
                    let mut goes_on = Ok(true);
                    let drained = self.drain(PendingCursor::of(namespace), |handed| {
                        shared_reindex.keep();
                        goes_on = self.go_on(ReindexPhase::Embedding, done + here + handed, total);
                        matches!(goes_on, Ok(true))
                    })?;
                    report.embedded += drained.embedded;
                    report.copied += drained.copied;
                    here += drained.embedded + drained.copied + drained.fetched;
                    if !goes_on? {
                        return Ok(false);
                    }
                }
                shared_reindex.done(&claim)?;
            }
        }
        Ok(true)
    }

    /// Embeds the pending messages of a pass. `go_on` gets the number that are committed or handed to the writer.
    pub(super) fn drain(&self, pass: PendingCursor, go_on: impl FnMut(u64) -> bool) -> Result<Drained> {
        let sources = self.shared.sources(self.source.as_ref(), Unmade::Make);
        self.shared.drain(&self.to, sources, pass, &self.workers, go_on)
    }

    /// Loads namespaces and links their vectors, so that the first recalls after the switch are as fast as those before.
    /// Returns false if the callback stopped it.
    fn load(&self, namespaces: &[NamespaceId]) -> Result<bool> {
        let go_on = |done, total| self.go_on(ReindexPhase::Loading, done, total);
        self.to.link_all(namespaces, &self.workers, go_on)
    }

    /// Switches while the thread that embeds does nothing else: messages that are pending in it then were put since,
    /// and are pending in both.
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
    pub(super) fn go_on(&self, phase: ReindexPhase, done: u64, total: u64) -> Result<bool> {
        if self.shared.is_over() {
            return Err(Error::Closed);
        }
        Ok(self.progress.borrow_mut().report(phase, done, total))
    }

    /// Pauses after working for this long, as the duty demands.
    fn rest(&self, worked: Duration) {
        self.pause(worked.mul_f64(1.0 / self.duty - 1.0));
    }

    /// Pauses for a time, or until the engine is closing.
    pub(super) fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
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

/// Embeds the last pending messages and switches, on the thread that embeds. Returns the numbers of messages embedded
/// and copied.
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
    let switch = then(
        move |transaction: &Transaction| transaction.generations().switch(id, keep_previous),
        move |switched| switched.map(|()| this.generations.switch()),
    );
    workers.writer.commit(Commit::Grouped, switch).wait()?;
    // The background thread improves the serving generation alone: the new one was not improved yet, the old one will
    // not be any more.
    to.namespaces().into_iter().for_each(|namespace| to.improve_later(namespace));
    from.close(workers);
    Ok((drained.embedded, drained.copied))
}
