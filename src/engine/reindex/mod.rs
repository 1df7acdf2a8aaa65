//! Moving a running engine to another generation: a new one of another model or precision, or back to the previous one.
//!
//! The generation is built beside the serving one, which goes on answering; both take writes. What is pending in it is embedded, in
//! passes, as more is put meanwhile; the namespaces that are in memory are loaded and linked in it too; it is tried. Then, between
//! two drains, the rest is embedded and one commit switches. So nothing that is found before is missing after: what waits in the new
//! generation then waits in the old one too. What is stopped or killed on the way goes on later: what has vectors does not wait.

mod gate;
mod options;

use std::{
    cell::RefCell,
    ops::ControlFlow,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

pub use self::options::{GateReport, ReindexOptions, ReindexPhase, ReindexProgress, ReindexReport};
use super::{
    core::Core,
    drain::Drained,
    graph::Workers,
    shared::{Shared, Wake},
    spaces::Spaces,
};
use crate::{
    config::Precision,
    embed::{self, Embedder},
    error::{Error, Result},
    ids::{ModelIdentity, NamespaceId},
    store::{Generation, GenerationState},
};

/// A pass that embedded no more leaves so little that those who put wait only shortly for the last.
const LITTLE: u64 = 1024;
/// The longest rest at a time, so that stopping does not take long.
const NAP: Duration = Duration::from_millis(20);

pub(super) type Tell<'a> = &'a mut dyn FnMut(ReindexProgress) -> ControlFlow<()>;

impl Core {
    /// Builds a generation of this embedder's and has it serve.
    pub(crate) fn reindex(
        &self,
        embedder: Arc<dyn Embedder>,
        options: &ReindexOptions,
        tell: Tell<'_>,
    ) -> Result<ReindexReport> {
        options.check()?;
        embed::check_identity(embedder.identity())?;
        let started = Instant::now();
        let _alone = self.shared.moving.try_lock().ok_or(Error::ReindexRunning)?;
        self.wait_until_left()?;
        let serving = self.shared.live.serving();
        let precision = options.precision.unwrap_or(serving.generation.precision);
        let identity = embedder.identity().clone();
        let mut report = report(&serving, &identity, precision);
        if is_of(&serving.generation, &identity) && serving.generation.precision == precision {
            self.retire(GenerationState::Building)?;
            if !options.keep_previous {
                self.retire(GenerationState::Previous)?;
            }
            report.seconds = started.elapsed().as_secs_f64();
            return Ok(report);
        }
        let (id, is_known) = {
            let identity = identity.clone();
            self.workers()
                .writer
                .commit(move |transaction| transaction.begin_building(&identity, precision), |begun| begun)?
        };
        let generation = Generation { id, identity, precision, state: GenerationState::Building };
        // Only all bits are worth copying.
        let source = (serving.generation.precision == Precision::F32
            && is_of(&serving.generation, &generation.identity))
        .then(|| serving.generation.clone());
        let moving = Moving::begin(self, generation, embedder, source, options.duty, tell);
        report.resumed = if is_known { moving.counts()?.0 } else { 0 };
        moving.run(options, &mut report)?;
        drop((moving, serving));
        if report.switched && !options.keep_previous {
            self.wait_until_left()?;
        }
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Has the previous generation serve again.
    pub(crate) fn rollback(&self, embedder: Arc<dyn Embedder>, tell: Tell<'_>) -> Result<ReindexReport> {
        let started = Instant::now();
        let _alone = self.shared.moving.try_lock().ok_or(Error::ReindexRunning)?;
        self.wait_until_left()?;
        let generations = self.shared.store.read()?.generations()?;
        let previous = generations.into_iter().find(|generation| generation.state == GenerationState::Previous);
        let given = embedder.identity();
        let kept = previous.as_ref().map(|previous| previous.identity.to_string());
        let Some(previous) = previous.filter(|previous| is_of(previous, given)) else {
            return Err(Error::NoPrevious { kept, given: given.to_string() });
        };
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
        let _alone = self.shared.moving.try_lock().ok_or(Error::ReindexRunning)?;
        self.wait_until_left()?;
        let found = self.retire(GenerationState::Previous)?;
        self.shared.sweep(&self.workers(), || self.is_over())?;
        Ok(found)
    }

    /// [`Core::reindex`], and deletes what was retired: nobody uses it any more.
    pub(super) fn reindex_and_sweep(
        &self,
        embedder: Arc<dyn Embedder>,
        options: &ReindexOptions,
        tell: Tell<'_>,
    ) -> Result<ReindexReport> {
        let report = self.reindex(embedder, options, tell)?;
        self.shared.sweep(&self.workers(), || self.is_over())?;
        Ok(report)
    }

    fn retire(&self, state: GenerationState) -> Result<bool> {
        self.workers().writer.commit(move |transaction| transaction.retire(state), |found| found)
    }

    /// Waits until no recall uses a generation any more that was taken out of memory: only then may it be changed or deleted.
    fn wait_until_left(&self) -> Result<()> {
        while self.shared.live.is_left_in_use() {
            if self.is_over() {
                return Err(Error::Closed);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.visits().is_over() || self.shared.is_closing()
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

/// A generation on its way to serving, beside the one that serves.
struct Moving<'a> {
    core: &'a Core,
    shared: &'a Arc<Shared>,
    workers: Workers,
    to: Arc<Spaces>,
    /// Whose vectors are copied.
    source: Option<Generation>,
    duty: f64,
    meter: RefCell<Meter<'a>>,
}

impl<'a> Moving<'a> {
    fn begin(
        core: &'a Core,
        to: Generation,
        embedder: Arc<dyn Embedder>,
        source: Option<Generation>,
        duty: f64,
        tell: Tell<'a>,
    ) -> Self {
        let (shared, to) = (&core.shared, Arc::new(core.spaces(to, embedder)));
        shared.live.put_beside(Arc::clone(&to));
        Moving { core, shared, workers: core.workers(), to, source, duty, meter: RefCell::new(Meter::new(tell)) }
    }

    /// Stops on the way if it is told to.
    fn run(&self, options: &ReindexOptions, report: &mut ReindexReport) -> Result<()> {
        if !self.embed(report)? {
            return Ok(());
        }
        let from = self.shared.live.serving();
        let mut wanted = from.namespaces();
        let questions = gate::questions(self.shared, &from, &self.to, options)?;
        wanted.extend(questions.iter().map(|question| question.namespace));
        wanted.sort_unstable();
        wanted.dedup();
        if !self.load(&wanted)? {
            return Ok(());
        }
        if options.samples > 0 {
            let total = questions.len() as u64;
            let go_on = |done| self.go_on(ReindexPhase::Trying, done, total);
            let Some(gate) = gate::run((&from, &self.to), &questions, options, go_on)? else { return Ok(()) };
            let gate = report.gate.insert(gate);
            if gate.failed.is_some() {
                return Ok(());
            }
        }
        drop(from);
        // What came while it was loaded and tried.
        if self.embed(report)? {
            self.switch(options.keep_previous, true, report)?;
        }
        Ok(())
    }

    /// To the generation that served before: it passed once.
    fn run_back(&self, report: &mut ReindexReport) -> Result<()> {
        let loaded = self.shared.live.serving().namespaces();
        if self.embed(report)? && self.load(&loaded)? {
            self.switch(true, false, report)?;
        }
        Ok(())
    }

    /// Messages that have vectors, and all.
    fn counts(&self) -> Result<(u64, u64)> {
        let snapshot = self.shared.store.read()?;
        let total = snapshot.texts(self.to.generation.id)?;
        Ok((total - snapshot.pending_count(self.to.generation.id)?, total))
    }

    /// Embeds what waits, until little is put while it does. Returns whether it is to go on.
    fn embed(&self, report: &mut ReindexReport) -> Result<bool> {
        loop {
            let (before, total) = self.counts()?;
            let mut worked_since = Instant::now();
            let (mut stopped, mut failed) = (false, None);
            let drained = self.shared.drain(&self.to, self.source.as_ref(), &self.workers, |handed| {
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
            // A rollback must not depend on texts that the model never took.
            if let Some(error) = drained.failure
                && self.to.generation.state == GenerationState::Building
                && behind(self.shared, &self.to)? > 0
            {
                return Err(error);
            }
            if drained.embedded + drained.copied <= LITTLE {
                return Ok(true);
            }
        }
    }

    /// Loads namespaces, and does the background work of their indexes: what they are asked first is answered at once, by graphs.
    fn load(&self, namespaces: &[NamespaceId]) -> Result<bool> {
        let snapshot = self.shared.store.read()?;
        let rows =
            |namespace: &NamespaceId| snapshot.alive_count(self.to.generation.id, *namespace).map(|rows| rows as u64);
        let rows = namespaces.iter().map(rows).collect::<Result<Vec<u64>>>()?;
        // Held meanwhile, it would keep all pages that are written again.
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

    /// Between two drains of the serving generation: there what waits can only have come, and waits in both.
    fn switch(&self, keep_previous: bool, is_new: bool, report: &mut ReindexReport) -> Result<()> {
        let (reply, answer) = mpsc::sync_channel(1);
        let (to, source, visits) = (Arc::clone(&self.to), self.source.clone(), Arc::clone(self.core.visits()));
        self.core.wake(Wake::Between(Box::new(move |shared, workers| {
            let is_over = || visits.is_over() || shared.is_closing();
            let switched = switch(shared, workers, &to, source.as_ref(), (keep_previous, is_new), is_over);
            // Before the answer: who gets it may wait until nobody uses a generation.
            drop(to);
            let _ = reply.send(switched);
        })))?;
        let drained = answer.recv().map_err(|_| Error::Closed)??;
        report.embedded += drained.embedded;
        report.copied += drained.copied;
        report.switched = true;
        let (done, total) = self.counts()?;
        // It is done: nothing is left to be stopped.
        self.meter.borrow_mut().tell(ReindexPhase::Switched, done, total);
        Ok(())
    }

    fn go_on(&self, phase: ReindexPhase, done: u64, total: u64) -> Result<bool> {
        if self.core.is_over() {
            return Err(Error::Closed);
        }
        Ok(self.meter.borrow_mut().tell(phase, done, total))
    }

    /// After so much work.
    fn rest(&self, worked: Duration) {
        let until = Instant::now() + worked.mul_f64(1.0 / self.duty - 1.0);
        while !self.core.is_over() && Instant::now() < until {
            thread::sleep(NAP.min(until.saturating_duration_since(Instant::now())));
        }
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        if self.shared.live.serving().generation.id != self.to.generation.id {
            // It is left as it is, to go on with.
            self.to.close(&self.workers);
            self.shared.live.drop_beside();
        }
    }
}

/// Messages that would be missing if this generation served now.
fn behind(shared: &Shared, to: &Spaces) -> Result<u64> {
    shared.store.read()?.behind(to.generation.id, shared.live.serving().generation.id)
}

/// On the draining thread.
fn switch(
    shared: &Arc<Shared>,
    workers: &Workers,
    to: &Arc<Spaces>,
    source: Option<&Generation>,
    (keep_previous, is_new): (bool, bool),
    is_over: impl Fn() -> bool,
) -> Result<Drained> {
    let drained = shared.drain(to, source, workers, |_| !is_over())?;
    if is_over() {
        return Err(Error::Closed);
    }
    if is_new && behind(shared, to)? > 0 {
        let reason = "messages that are found now cannot be embedded by the new model".to_owned();
        return Err(drained.failure.unwrap_or(Error::Embedding { reason, source: None }));
    }
    let from = shared.live.serving();
    // Those that were first asked meanwhile.
    from.namespaces().into_iter().try_for_each(|namespace| to.load(namespace).map(drop))?;
    let (id, this) = (to.generation.id, Arc::clone(shared));
    workers.writer.commit(move |transaction| transaction.switch(id, keep_previous), move |()| this.live.switch())?;
    // Neither was improved in the background while it was beside, nor will the other be.
    to.namespaces().into_iter().for_each(|namespace| to.improve_later(namespace));
    from.close(workers);
    if let Some(error) = &drained.failure {
        tracing::warn!(%error, "a message stays pending in the generation that serves now");
    }
    Ok(drained)
}

/// Tells how far a phase is, and how fast.
struct Meter<'a> {
    tell: Tell<'a>,
    phase: Option<ReindexPhase>,
    started: Instant,
    /// Done when the phase began.
    first: u64,
    is_stopped: bool,
}

impl<'a> Meter<'a> {
    fn new(tell: Tell<'a>) -> Self {
        Meter { tell, phase: None, started: Instant::now(), first: 0, is_stopped: false }
    }

    /// Returns whether to go on.
    fn tell(&mut self, phase: ReindexPhase, done: u64, total: u64) -> bool {
        if self.phase != Some(phase) {
            (self.phase, self.started, self.first) = (Some(phase), Instant::now(), done);
        }
        // More may be done than there was to do when it was counted.
        let total = total.max(done);
        let rate = done.saturating_sub(self.first) as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        let left = Duration::try_from_secs_f64((total - done) as f64 / rate).ok();
        let left = left.filter(|_| rate > 0.0);
        self.is_stopped |= (self.tell)(ReindexProgress { phase, done, total, rate, left }).is_break();
        !self.is_stopped
    }
}
