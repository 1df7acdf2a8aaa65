//! The state that all Python handles of an open engine share: the engine, its running calls and its sessions.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        mpsc::{self, Receiver, TryRecvError},
    },
    thread,
};

use mnemon::Error;
use pyo3::prelude::*;

use crate::{
    callback::{end_callbacks, is_called_back, is_embedding_for},
    errors::{of_class, raised},
    memory::MemorySlot,
    models::ModelOptions,
    secrets::SecretRemoval,
    wait::{Waiting, apart},
};

/// The engines that are open.
static OPEN: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// An engine, its calls, and the sessions that were opened on it, until it is closed.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Notified when no call is running, and when the engine is closed.
    idle: Condvar,
    memories: Mutex<Vec<Weak<MemorySlot>>>,
    process: u32,
    pub(crate) models: ModelOptions,
    pub(crate) secrets: SecretRemoval,
}

struct State {
    engine: Option<mnemon::Engine>,
    /// The number of calls that are running.
    running: usize,
    /// The engine is being closed.
    is_closing: bool,
}

/// A call that is running.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.running -= 1;
        if state.running == 0 {
            self.0.idle.notify_all();
        }
    }
}

impl Shared {
    pub(crate) fn new(engine: mnemon::Engine, models: ModelOptions, secrets: SecretRemoval) -> Arc<Self> {
        let state = Mutex::new(State { engine: Some(engine), running: 0, is_closing: false });
        let (idle, memories, process) = (Condvar::new(), Mutex::default(), std::process::id());
        let shared = Arc::new(Shared { state, idle, memories, process, models, secrets });
        keep(&OPEN, Arc::downgrade(&shared));
        shared
    }

    /// Raises an error in a child of the process that opened the engine: its threads are not there.
    pub(crate) fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_of_this_process() {
            return Ok(());
        }
        let remedy =
            "the engine was opened before this process was forked; open it after the fork, in one of the processes";
        Err(of_class(py, "ForkedError", remedy))
    }

    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// Calls the engine without the GIL. A panic is an error. The engine is not closed meanwhile. After a signal the call
    /// raises what its handler raised; the engine goes on with what it has begun.
    ///
    /// Handles of the engine are only held in such calls: the last one is dropped without the GIL, because that waits
    /// for threads that may need it.
    pub(crate) fn call<T: Send>(
        self: &Arc<Self>,
        py: Python<'_>,
        call: impl AsyncFnOnce(&mnemon::Engine) -> mnemon::Result<T> + Send,
    ) -> PyResult<T> {
        self.check_process(py)?;
        let waiting = Waiting::of_this_thread(py)?;
        let called = py.detach(move || {
            let (engine, running) = match self.begin() {
                Ok(begun) => begun,
                Err(error) => return Ok(Err(error)),
            };
            let called = catch_unwind(AssertUnwindSafe(|| waiting.wait(call(&engine))));
            drop(engine);
            drop(running);
            called.unwrap_or_else(|panic| Ok(Err(panicked(&*panic))))
        });
        called?.map_err(|error| raised(py, error))
    }

    /// The same with a call that cannot be awaited and takes no time.
    pub(crate) fn run<T: Send>(
        self: &Arc<Self>,
        py: Python<'_>,
        call: impl FnOnce(&mnemon::Engine) -> mnemon::Result<T> + Send,
    ) -> PyResult<T> {
        self.call(py, async move |engine: &mnemon::Engine| call(engine))
    }

    /// The same with a call that cannot be awaited and may take long. After a signal it goes on.
    pub(crate) fn run_apart<T: Send + 'static>(
        self: &Arc<Self>,
        py: Python<'_>,
        call: impl FnOnce(&mnemon::Engine) -> mnemon::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.check_process(py)?;
        let shared = Arc::clone(self);
        let called = apart(py, move || {
            let (engine, running) = shared.begin()?;
            let called = catch_unwind(AssertUnwindSafe(|| call(&engine)));
            drop(engine);
            drop(running);
            called.unwrap_or_else(|panic| Err(panicked(&*panic)))
        });
        called?.map_err(|error| raised(py, error))
    }

    fn begin(self: &Arc<Self>) -> mnemon::Result<(mnemon::Engine, Running)> {
        let mut state = lock(&self.state);
        let engine = state.engine.clone().ok_or(Error::Closed)?;
        state.running += 1;
        Ok((engine, Running(Arc::clone(self))))
    }

    /// Raises an error in the engine's own embedder: the call would wait until this embedder has returned.
    pub(crate) fn check_not_embedding(&self, py: Python<'_>, call: &str) -> PyResult<()> {
        if !is_embedding_for(&self.models) {
            return Ok(());
        }
        let reason = format!("{call} waits for the embedder, and was called by it; call it elsewhere");
        Err(of_class(py, "DeadlockError", reason))
    }

    /// Closes this session with the engine.
    pub(crate) fn closes(&self, memory: Weak<MemorySlot>) {
        keep(&self.memories, memory);
    }

    /// Waits for the calls that are running, and closes the sessions and the engine. Fails if one of the calls waits
    /// for this one. After a signal the closing goes on.
    pub(crate) fn close(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        if !self.is_of_this_process() {
            // The threads and locks of the parent are not here: there is nothing to wait for, or to release.
            std::mem::forget(lock(&self.state).engine.take());
            return Ok(());
        }
        if is_called_back() {
            let remedy = "an engine cannot be closed by what it calls, such as an embedder; close it elsewhere";
            return Err(of_class(py, "DeadlockError", remedy));
        }
        let (shared, engine) = (Arc::clone(self), self.take());
        apart(py, move || shared.close_now(engine))
    }

    /// Takes the engine, to close it. `None`: somebody else has.
    fn take(&self) -> Option<mnemon::Engine> {
        let mut state = lock(&self.state);
        state.is_closing |= state.engine.is_some();
        state.engine.take()
    }

    /// Closes the engine that was taken, or waits for whoever closes it.
    fn close_now(&self, engine: Option<mnemon::Engine>) {
        let wait = |is_busy: fn(&mut State) -> bool| {
            drop(self.idle.wait_while(lock(&self.state), is_busy).unwrap_or_else(PoisonError::into_inner));
        };
        if engine.is_none() {
            return wait(|state| state.running > 0 || state.is_closing);
        }
        wait(|state| state.running > 0);
        // After the calls, which may have opened sessions.
        let memories = std::mem::take(&mut *lock(&self.memories));
        let memories: Vec<_> = memories.iter().filter_map(Weak::upgrade).filter_map(|memory| memory.take()).collect();
        drop((memories, engine));
        lock(&self.state).is_closing = false;
        self.idle.notify_all();
    }

    /// Begins to close the engine, at the end of the interpreter. Returns what tells the end of that.
    fn begin_close(self: &Arc<Self>) -> Option<Receiver<()>> {
        if !self.is_of_this_process() {
            std::mem::forget(lock(&self.state).engine.take());
            return None;
        }
        let (shared, engine) = (Arc::clone(self), self.take());
        let (reply, closed) = mpsc::sync_channel(1);
        let close = move || {
            shared.close_now(engine);
            let _ = reply.send(());
        };
        // Without a thread the engine is dropped here, with the closure.
        thread::Builder::new().name("mnemon-python".into()).spawn(close).ok()?;
        Some(closed)
    }

    /// Closes the engine of an object that Python drops. It may do so in the middle of a callback, which must not wait.
    pub(crate) fn dropped(self: &Arc<Self>, py: Python<'_>) {
        if is_called_back() {
            let shared = Arc::clone(self);
            thread::spawn(move || Python::try_attach(|py| drop(shared.close(py))));
        } else if self.close(py).is_err() {
            // A signal, for which nothing can be raised here: Python handles it again when the object is gone.
            let again = py.import("_thread").and_then(|module| module.call_method0("interrupt_main"));
            drop(again);
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Error::Panicked { message }
}

/// Closes all engines. Called before the interpreter ends, while the engines' threads can still call Python; afterwards
/// they do not.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) -> PyResult<()> {
    let open = std::mem::take(&mut *lock(&OPEN));
    let mut closings: Vec<_> =
        open.iter().filter_map(Weak::upgrade).filter_map(|engine| py.detach(|| engine.begin_close())).collect();
    let is_open = |closed: &Receiver<()>| matches!(closed.try_recv(), Err(TryRecvError::Empty));
    end_callbacks(py, || {
        closings.retain(is_open);
        closings.is_empty()
    })
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds to a list of what is still there.
fn keep<T>(list: &Mutex<Vec<Weak<T>>>, new: Weak<T>) {
    let mut list = lock(list);
    list.retain(|one| one.strong_count() > 0);
    list.push(new);
}
