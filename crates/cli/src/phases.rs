//! Runs the phases of an ingest that follow the storing, embedding and linking, and shows their progress.

use mnemon::{Engine, Namespace, Result};

use crate::progress::Progress;

/// Embeds all pending messages.
pub(crate) fn embed(engine: &Engine, progress: &Progress) -> Result<()> {
    let blocking = engine.blocking();
    let pending = blocking.pending()?;
    progress.begin("embedding", "messages", pending);
    progress.set(0, pending);
    let flushed = progress.watch(
        || blocking.flush(),
        |progress| {
            if let Ok(left) = blocking.pending() {
                progress.set(pending.saturating_sub(left), pending);
            }
        },
    );
    flushed.map(drop)
}

/// Links the vectors of a namespace in its graph, if it is large enough to have one.
pub(crate) fn link(engine: &Engine, namespace: &Namespace, progress: &Progress) -> Result<()> {
    let blocking = engine.blocking();
    progress.watch(
        || blocking.optimize(namespace),
        |progress| match blocking.index_stats(namespace) {
            Ok(stats) if stats.linked > 0 => {
                progress.report("linking", "vectors", stats.linked as u64, stats.vectors as u64);
            }
            _ => {}
        },
    )
}
