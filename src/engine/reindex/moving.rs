//! A generation on its way: what waits is embedded, what is in memory is loaded and linked, it is tried, and the engine switches.

use std::{
    cell::RefCell,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{
    gate,
    meter::{Meter, Tell},
    options::{ReindexOptions, ReindexPhase, ReindexReport},
};
use crate::{
    embed::Embedder,
    engine::{
        core::Core,
        drain::Refused,
        graph::Workers,
        shared::{Shared, Wake},
        spaces::Spaces,
    },
    error::{Error, Result},
    ids::NamespaceId,
    store::{Generation, GenerationState},
};

/// A pass that embedded no more, or was this quick, leaves so little that a flush waits only shortly for the last.
const LITTLE: u64 = 64;
const QUICK: Duration = Duration::from_millis(500);
/// The longest rest at a time, so that stopping does not take long.
const NAP: Duration = Duration::from_millis(20);

/// A generation on its way to serving, beside the one that serves.
pub(super) struct Moving<'a> {
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
    pub(super) fn begin(
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
    pub(super) fn run(&self, options: &ReindexOptions, report: &mut ReindexReport) -> Result<()> {
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
            self.switch(options.keep_previous, report)?;
        }
        Ok(())
    }

    /// To the generation that served before: it passed once.
    pub(super) fn run_back(&self, report: &mut ReindexReport) -> Result<()> {
        let loaded = self.shared.live.serving().namespaces();
        if self.embed(report)? && self.load(&loaded)? {
            self.switch(true, report)?;
        }
        Ok(())
    }

    /// Messages that have vectors, and all.
    pub(super) fn counts(&self) -> Result<(u64, u64)> {
        let snapshot = self.shared.store.read()?;
        let total = snapshot.texts(self.to.generation.id)?;
        Ok((total - snapshot.pending_count(self.to.generation.id)?, total))
    }

    /// Embeds what waits, again and again until little is put while it does. Returns whether it is to go on.
    fn embed(&self, report: &mut ReindexReport) -> Result<bool> {
        loop {
            let (before, total) = self.counts()?;
            let begun = Instant::now();
            let mut worked_since = begun;
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
            nothing_left_behind(self.shared, &self.to, drained.refused)?;
            if drained.embedded + drained.copied <= LITTLE || begun.elapsed() < QUICK {
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
    fn switch(&self, keep_previous: bool, report: &mut ReindexReport) -> Result<()> {
        let (reply, answer) = mpsc::sync_channel(1);
        let (to, source) = (Arc::clone(&self.to), self.source.clone());
        self.core.wake(Wake::Between(Box::new(move |shared, workers| {
            let switched = switch(shared, workers, &to, source.as_ref(), keep_previous);
            // Before the answer: who gets it may wait until nobody uses a generation.
            drop(to);
            let _ = reply.send(switched);
        })))?;
        let (embedded, copied) = answer.recv().map_err(|_| Error::Closed)??;
        report.embedded += embedded;
        report.copied += copied;
        report.switched = true;
        let (done, total) = self.counts()?;
        // It is done: nothing is left to be stopped.
        self.meter.borrow_mut().tell(ReindexPhase::Switched, done, total);
        Ok(())
    }

    fn go_on(&self, phase: ReindexPhase, done: u64, total: u64) -> Result<bool> {
        if self.shared.is_over() {
            return Err(Error::Closed);
        }
        Ok(self.meter.borrow_mut().tell(phase, done, total))
    }

    /// After so much work.
    fn rest(&self, worked: Duration) {
        let until = Instant::now() + worked.mul_f64(1.0 / self.duty - 1.0);
        while !self.shared.is_over() && Instant::now() < until {
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

/// # Errors
/// That of a message which is found now, and which a new generation refuses: it would be missing if that served. A rollback must not
/// depend on texts that the model never took.
fn nothing_left_behind(shared: &Shared, to: &Spaces, refused: Vec<Refused>) -> Result<()> {
    if to.generation.state != GenerationState::Building || refused.is_empty() {
        return Ok(());
    }
    let (snapshot, serving) = (shared.store.read()?, shared.live.serving().generation.id);
    for Refused { namespace, seq, error } in refused {
        let waits = |generation| snapshot.is_pending(generation, namespace, seq);
        if waits(to.generation.id)? && !waits(serving)? {
            return Err(error);
        }
    }
    Ok(())
}

/// On the draining thread. Returns how many messages were embedded and copied.
fn switch(
    shared: &Arc<Shared>,
    workers: &Workers,
    to: &Arc<Spaces>,
    source: Option<&Generation>,
    keep_previous: bool,
) -> Result<(u64, u64)> {
    let drained = shared.drain(to, source, workers, |_| !shared.is_over())?;
    if shared.is_over() {
        return Err(Error::Closed);
    }
    if !drained.refused.is_empty() {
        tracing::warn!(messages = drained.refused.len(), "what the model does not take stays pending");
    }
    nothing_left_behind(shared, to, drained.refused)?;
    let from = shared.live.serving();
    // Those that were first asked meanwhile.
    from.namespaces().into_iter().try_for_each(|namespace| to.load(namespace).map(drop))?;
    let (id, this) = (to.generation.id, Arc::clone(shared));
    workers.writer.commit(move |transaction| transaction.switch(id, keep_previous), move |()| this.live.switch())?;
    // Neither was improved in the background while it was beside, nor will the other be.
    to.namespaces().into_iter().for_each(|namespace| to.improve_later(namespace));
    from.close(workers);
    Ok((drained.embedded, drained.copied))
}
