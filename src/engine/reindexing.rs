//! Methods of [`Engine`] that change which generation of vectors serves.

use std::{ops::ControlFlow, sync::Arc};

use super::{
    core::Core,
    executor::Lane,
    handle::Engine,
    reindex::{Moves, ReindexOptions, ReindexProgress, ReindexReport},
};
#[cfg(doc)]
use crate::error::Error;
use crate::{embed::Embedder, error::Result};

impl Engine {
    /// Moves the database to another model or precision while it is in use. [`Engine::model`] returns the new model
    /// afterwards.
    ///
    /// A new generation of vectors is built beside the serving one, which goes on answering; puts and deletes go to
    /// both. When all messages are embedded, the namespaces in memory are loaded and linked in the new generation, the
    /// two generations are compared on sample queries ([`ReindexOptions::samples`]), and one commit switches. No recall
    /// fails or waits for the switch, and none misses a message that was found before. `progress` is called a few times
    /// a second or after each step; returning `Break` stops the reindex, as does closing the engine. After a stop or a
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
