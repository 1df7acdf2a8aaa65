//! A machine follows the model that serves on all machines of a shared database.

use std::{ops::ControlFlow, sync::Arc};

use super::{
    core::Core,
    executor::Lane,
    reindex::{Moves, ReindexOptions},
    replica::Replica,
};
use crate::{
    default_embedder,
    error::{Error, Result},
};

impl Core {
    /// Begins to move this machine to the model that serves on all, if that is another one and is found by its name. One
    /// that was opened with another embedder than theirs keeps it.
    pub(super) fn follow(self: &Arc<Self>, replica: &Replica) -> Result<()> {
        let Some(model) = replica.record_answer(replica.upstream.serving_model())? else { return Ok(()) };
        if self.shared.generations.serving().generation.is_of(&model) {
            replica.start_following();
            return Ok(());
        }
        if !replica.begins_to_follow(&model) {
            return Ok(());
        }
        let core = Arc::clone(self);
        self.executor().spawn(Lane::Long, move || {
            let embedder = match default_embedder::open(Some(&model), &core.shared.config) {
                Ok(embedder) => embedder,
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "{model} serves on the other machines; this one goes on with its own model until that one is \
                         found, or a reindex moves to it"
                    );
                    return;
                }
            };
            // The model has passed its comparison.
            let options = ReindexOptions { samples: 0, ..ReindexOptions::default() };
            match core.reindex_and_sweep(embedder, Moves::This, &options, &mut |_| ControlFlow::Continue(())) {
                Ok(report) => {
                    tracing::info!(model = report.to, switched = report.switched, "followed the other machines")
                }
                Err(Error::ReindexRunning | Error::Closed) => {}
                Err(error) => tracing::error!(%error, "the move to the other machines' model is tried again"),
            }
        })
    }
}
