//! The state that all Python handles of an open engine share: the engine, its running calls and its sessions.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
};

use mnemon::{BlockingEngine, Error};
use pyo3::{exceptions::PyRuntimeError, prelude::*};

use crate::{
    callback::{end_callbacks, is_called_back},
    errors::raised,
    memory::MemorySlot,
    models::ModelOptions,
};

/// The engines that are open.
static OPEN: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// An engine, its calls, and the sessions that were opened on it, until it is closed.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Notified when no call is running.
    idle: Condvar,
    memories: Mutex<Vec<Weak<MemorySlot>>>,
    process: u32,
    pub(crate) models: ModelOptions,
}

struct State {
    engine: Option<mnemon::Engine>,
    /// The number of calls that are running.
    running: usize,
}

/// A call that is running.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.running -= 1;
        if state.running == 0 {
            self.0.idle.notify_all();
        }
    }
}

impl Shared {
    pub(crate) fn new(engine: mnemon::Engine, models: ModelOptions) -> Arc<Self> {
        let state = Mutex::new(State { engine: Some(engine), running: 0 });
        let (idle, memories, process) = (Condvar::new(), Mutex::default(), std::process::id());
        let shared = Arc::new(Shared { state, idle, memories, process, models });
        keep(&OPEN, Arc::downgrade(&shared));
        shared
    }

    /// Raises an error in a child of the process that opened the engine: its threads are not there.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "the engine was opened before this process was forked; open it after the fork, in one of the processes",
        ))
    }

    /// Calls the engine without the GIL. A panic is an error. The engine is not closed meanwhile.
    ///
    /// Handles of the engine are only held in such calls: the last one is dropped without the GIL, because that waits
    /// for threads that may need it.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mnemon::Engine) -> mnemon::Result<T> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        let called = py.detach(move || {
            let (engine, running) = self.begin()?;
            let called = catch_unwind(AssertUnwindSafe(|| call(&engine)));
            drop(engine);
            drop(running);
            called.unwrap_or_else(|panic| Err(panicked(&*panic)))
        });
        called.map_err(|error| raised(py, error))
    }

    /// The same with the methods that wait.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(BlockingEngine<'_>) -> mnemon::Result<T> + Send,
    ) -> PyResult<T> {
        self.run(py, move |engine| call(engine.blocking()))
    }

    fn begin(&self) -> mnemon::Result<(mnemon::Engine, Running<'_>)> {
        let mut state = lock(&self.state);
        let engine = state.engine.clone().ok_or(Error::Closed)?;
        state.running += 1;
        Ok((engine, Running(self)))
    }

    /// Closes this session with the engine.
    pub(crate) fn closes(&self, memory: Weak<MemorySlot>) {
        keep(&self.memories, memory);
    }

    /// Waits for the calls that are running, and closes the sessions and the engine. Fails if one of the calls waits
    /// for this one.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            // The threads and locks of the parent are not here: there is nothing to wait for, or to release.
            std::mem::forget(lock(&self.state).engine.take());
            return Ok(());
        }
        if is_called_back() {
            let remedy = "an engine cannot be closed by what it calls, such as an embedder; close it elsewhere";
            return Err(PyRuntimeError::new_err(remedy));
        }
        let engine = lock(&self.state).engine.take();
        py.detach(|| {
            let busy = self.idle.wait_while(lock(&self.state), |state| state.running > 0);
            drop(busy.unwrap_or_else(PoisonError::into_inner));
            // After the calls, which may have opened sessions.
            let memories = std::mem::take(&mut *lock(&self.memories));
            let memories: Vec<_> =
                memories.iter().filter_map(Weak::upgrade).filter_map(|memory| memory.take()).collect();
            drop((memories, engine));
        });
        Ok(())
    }

    /// Closes the engine of an object that Python drops. It may do so in the middle of a callback, which must not wait.
    pub(crate) fn dropped(self: &Arc<Self>, py: Python<'_>) {
        if self.close(py).is_err() {
            let shared = Arc::clone(self);
            std::thread::spawn(move || Python::try_attach(|py| drop(shared.close(py))));
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
pub(crate) fn close_all(py: Python<'_>) {
    let open = std::mem::take(&mut *lock(&OPEN));
    for engine in open.iter().filter_map(Weak::upgrade) {
        if let Err(error) = engine.close(py) {
            error.write_unraisable(py, None);
        }
    }
    end_callbacks(py);
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
