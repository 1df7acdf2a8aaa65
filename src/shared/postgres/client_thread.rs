//! The thread on which the futures of the client run.
//!
//! Callers may be on any thread, a worker of another tokio runtime among them, where tokio refuses to drive or to drop a
//! runtime. So the runtime is made, driven and dropped on a thread of its own. Callers hand it futures, and wait on a
//! channel that knows no runtime.

use std::{future::Future, sync::mpsc, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

use crate::error::{Error, Result};

const NAME: &str = "mnemon-postgres";

/// The thread. Dropping it ends the futures that it has, and does not wait for that.
pub(super) struct ClientThread {
    runtime: Handle,
    /// Dropped to end the thread.
    _stop: oneshot::Sender<()>,
}

impl ClientThread {
    /// # Errors
    /// [`Error::ThreadNotStarted`].
    pub(super) fn start() -> Result<Self> {
        let not_started = |source: std::io::Error| Error::ThreadNotStarted { name: NAME.into(), source: source.into() };
        let (ready, is_ready) = mpsc::sync_channel(1);
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = ready.send(Ok(runtime.handle().clone()));
                let _ = runtime.block_on(stopped);
                // A look-up of a host's name may take long, on a thread of the runtime.
                runtime.shutdown_background();
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        thread::Builder::new().name(NAME.into()).spawn(run).map_err(not_started)?;
        let runtime = is_ready.recv().map_err(|_| Error::Closed)?.map_err(not_started)?;
        Ok(ClientThread { runtime, _stop: stop })
    }

    /// Runs a future beside the others. It must not hold up the thread.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(future));
    }

    /// Runs a future, and waits for its result on the calling thread.
    ///
    /// # Errors
    /// [`Error::Closed`]: the future panicked, or the thread has ended.
    pub(super) fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let (reply, answer) = mpsc::sync_channel(1);
        // If nobody waits any more, the result is dropped.
        self.spawn(async move { drop(reply.send(future.await)) });
        answer.recv().map_err(|_| Error::Closed)
    }
}
