//! Waiting for the engine, so that signals such as that of Ctrl-C are seen meanwhile.
//!
//! Python handles signals on its main thread alone, between two steps of the program, and so not while that thread waits
//! for the engine. Here it waits in slices and looks for signals between them. What a handler raises,
//! `KeyboardInterrupt` for Ctrl-C, is raised by the call: its future is dropped, and the engine does what it has begun on
//! threads of its own. Calls on other threads wait there, as signals do not concern them.

use std::{
    cell::Cell,
    pin::pin,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use mnemon::Error;
use pyo3::prelude::*;

use crate::{callback::is_called_back, errors::raised};

/// How long a call waits before it looks for signals.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

thread_local! {
    /// Whether this is the thread that handles signals, once that is known.
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
}

/// How a call waits.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Waiting {
    /// On this thread, where the engine does the work if it can. It always does so in a callback, because the engine's
    /// threads may all be waiting for theirs.
    Inline,
    /// In slices, until a signal.
    InSlices,
}

impl Waiting {
    pub(crate) fn of_this_thread(py: Python<'_>) -> PyResult<Self> {
        Ok(if !is_called_back() && is_main(py)? { Waiting::InSlices } else { Waiting::Inline })
    }

    /// Runs a future to its end. Must be called without the GIL.
    ///
    /// # Errors
    /// The exception that the handler of a signal raised.
    pub(crate) fn wait<T>(self, future: impl Future<Output = T>) -> PyResult<T> {
        if self == Waiting::Inline {
            return Ok(mnemon::block_on(future));
        }
        let mut future = pin!(future);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let (mut context, mut looked) = (Context::from_waker(&waker), Instant::now());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Ok(output);
            }
            thread::park_timeout(SLICE);
            if looked.elapsed() >= SLICE {
                check_signals()?;
                looked = Instant::now();
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Does work that cannot be awaited, without the GIL, on a thread of its own if this one looks for signals. After a
/// signal the work goes on there, and its result is dropped.
///
/// # Errors
/// The exception that the handler of a signal raised.
pub(crate) fn apart<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let waiting = Waiting::of_this_thread(py)?;
    py.detach(move || {
        if waiting == Waiting::Inline {
            return Ok(work());
        }
        let (reply, answer) = mpsc::sync_channel(1);
        let worker = thread::Builder::new().name("mnemon-python".into());
        worker.spawn(move || drop(reply.send(work()))).map_err(PyErr::from)?;
        loop {
            match answer.recv_timeout(SLICE) {
                Ok(output) => return Ok(output),
                Err(RecvTimeoutError::Timeout) => check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "the call's thread ended".to_owned();
                    return Err(Python::attach(|py| raised(py, Error::Panicked { message })));
                }
            }
        }
    })
}

fn check_signals() -> PyResult<()> {
    Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))
}

fn is_main(py: Python<'_>) -> PyResult<bool> {
    if let Some(is_main) = IS_MAIN.get() {
        return Ok(is_main);
    }
    let threading = py.import("threading")?;
    let is_main = threading.call_method0("main_thread")?.is(&threading.call_method0("current_thread")?);
    IS_MAIN.set(Some(is_main));
    Ok(is_main)
}

/// The thread that forks is the main thread of the child.
pub(crate) fn forked() {
    IS_MAIN.set(Some(true));
}
