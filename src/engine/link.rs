//! Linking of all vectors now, instead of in the background.

use super::{core::Core, executor::Lane, handle::Engine, reports::LinkReport};
use crate::{
    calls::{Timed, call_span},
    error::{Error, Result},
};

impl Engine {
    /// Links the vectors of all namespaces that are large enough for a graph
    /// ([`Config::exact_threshold`](field@crate::Config::exact_threshold)), and returns when every search uses the graph
    /// alone. Without it the engine links them in the background, once a namespace is queried; until then searches scan
    /// what is not linked, so they find the same and take longer. Useful after storing very many messages and before
    /// closing.
    ///
    /// Links are stored as they are made, so a call that was stopped or killed is continued by the next one. Cost: about
    /// 0.2 ms of processor a vector, on all threads of [`Config::threads`](field@crate::Config::threads) while nobody
    /// recalls, and on one fewer while somebody does. The namespaces are loaded one after the other, within
    /// [`Config::memory_budget`](field@crate::Config::memory_budget). Messages that are pending have no vectors:
    /// [`flush`](Engine::flush) first.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Storage`], [`Error::Corrupted`]; [`Error::Closed`] if the engine is closed meanwhile.
    pub async fn link(&self) -> Result<LinkReport> {
        self.core().run(Lane::Long, |core| core.link(|_| ())).await
    }
}

impl Core {
    /// `progress` gets the state so far, after each step.
    pub(super) fn link(&self, mut progress: impl FnMut(LinkReport)) -> Result<LinkReport> {
        let span = Timed::enter(call_span!(INFO "link", vectors));
        self.check_writable()?;
        let serving = self.shared.generations.serving();
        let namespaces = serving.with_graphs()?;
        let mut report = LinkReport { namespaces: namespaces.len() as u64, vectors: 0, linked: 0 };
        serving.link_all(&namespaces, &self.workers(), |linked, vectors| {
            (report.linked, report.vectors) = (linked, vectors);
            progress(report);
            if self.shared.is_over() { Err(Error::Closed) } else { Ok(true) }
        })?;
        span.record("vectors", report.vectors as usize);
        Ok(report)
    }
}
